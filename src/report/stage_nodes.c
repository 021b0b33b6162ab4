/* stage_nodes.c - the table of nodes of `stoker stage` under srun or mpirun. */
#include "report/stage_nodes.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"
#include "result/grid.h"

static const char *size(uint64_t bytes, char buf[32])
{
    return stk_format_size(bytes, buf, 32);
}

static void put_node(const struct stk_spread_node *n, bool slowest, struct stk_grid *t)
{
    char b[6][32], there[80], time[80];
    struct stk_buf name = STK_BUF_INIT, what = STK_BUF_INIT;
    stk_text_escape(&name, n->name, strlen(n->name), 40);
    stk_buf_puts(&what, stk_spread_phase_name(n->phase));
    if (n->what[0])
        stk_buf_puts(&what, ": ");
    stk_text_escape(&what, n->what, strlen(n->what), SIZE_MAX);
    snprintf(there, sizeof there, "%s of %s", size(n->there, b[0]), size(n->wanted, b[1]));
    snprintf(time, sizeof time, "%s%s", stk_format_duration(n->seconds, b[5], 32),
             slowest ? " (slowest)" : "");
    stk_grid_row(t, stk_buf_cstr(&name), there, size(n->read, b[2]), size(n->sent, b[3]),
                 size(n->written, b[4]), time, stk_buf_cstr(&what));
    stk_buf_release(&name);
    stk_buf_release(&what);
}

static void put_sum(const struct stk_stage_nodes *s, struct stk_buf *out)
{
    const struct stk_spread_result *r = s->result;
    char a[32], b[32], c[32], d[32];
    uint64_t read = 0;
    for (uint32_t i = 0; i < r->nodes; i++)
        read += r->node[i].read;
    stk_buf_printf(out, "%s: %s files, %s, to %u of %u nodes in %s; read from the source: %s\n",
                   stk_spread_names[r->mode], stk_format_count(r->files, a, sizeof a),
                   size(r->bytes, b), (unsigned)r->good, (unsigned)r->nodes,
                   stk_format_duration(s->total_s, c, sizeof c), size(read, d));
    if (r->why[0])
        stk_buf_printf(out, "chose %s\n", r->why);
}

void stk_stage_nodes_text(const struct stk_stage_nodes *s, struct stk_buf *out)
{
    const struct stk_spread_result *r = s->result;
    struct stk_grid t;
    put_sum(s, out);
    stk_grid_init(&t, "llrrrll");
    stk_grid_row(&t, "node", "there", "read", "sent", "written", "time", "state");
    for (uint32_t i = 0; i < r->nodes; i++)
        put_node(&r->node[i], r->nodes > 1 && r->slowest == (int64_t)i, &t);
    stk_grid_render(&t, 0, out);
    stk_grid_release(&t);
    if (s->status) {
        stk_buf_puts(out, "what each node had done when it was last heard of is in ");
        stk_text_escape(out, s->status, strlen(s->status), SIZE_MAX);
        stk_buf_puts(out, "\n");
    }
}

static void put_node_json(const struct stk_spread_node *n, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "node", n->name);
    stk_jw_put_u64(w, "rank", n->rank);
    stk_jw_put_str(w, "state", stk_spread_phase_name(n->phase));
    stk_jw_put_str(w, "error", n->what[0] ? n->what : NULL);
    stk_jw_put_str(w, "path", n->path[0] ? n->path : NULL);
    stk_jw_put_u64(w, "bytes_wanted", n->wanted);
    stk_jw_put_u64(w, "bytes_there", n->there);
    stk_jw_put_u64(w, "bytes_read", n->read);
    stk_jw_put_u64(w, "bytes_sent", n->sent);
    stk_jw_put_u64(w, "bytes_received", n->received);
    stk_jw_put_u64(w, "bytes_written", n->written);
    stk_jw_put_f64(w, "read_seconds", n->read_s);
    stk_jw_put_f64(w, "seconds", n->seconds);
    stk_jw_close(w, '}');
}

void stk_stage_nodes_json(const struct stk_stage_nodes *s, struct stk_jw *w)
{
    const struct stk_spread_result *r = s->result;
    stk_jw_put_str(w, "source", s->source);
    stk_jw_put_str(w, "mode", stk_spread_names[r->mode]);
    stk_jw_put_str(w, "mode_reason", r->why[0] ? r->why : NULL);
    stk_jw_put_str(w, "mpi", s->kind);
    stk_jw_put_u64(w, "ranks", s->ranks);
    stk_jw_put_u64(w, "files", r->files);
    stk_jw_put_u64(w, "bytes", r->bytes);
    stk_jw_put_u64(w, "nodes_good", r->good);
    stk_jw_put_u64(w, "nodes_needed", s->min_nodes);
    stk_jw_put_str(w, "slowest", r->slowest >= 0 ? r->node[r->slowest].name : NULL);
    stk_jw_put_f64(w, "total_seconds", s->total_s);
    stk_jw_put_str(w, "status", s->status);
    stk_jw_key(w, "nodes");
    stk_jw_open(w, '[');
    for (uint32_t i = 0; i < r->nodes; i++)
        put_node_json(&r->node[i], w);
    stk_jw_close(w, ']');
}
