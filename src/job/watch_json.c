/* watch_json.c - a reading of a node as one line of JSON, and back; parsing checks everything. */
#include <stdio.h>
#include <stdlib.h>

#include "job/watch.h"

/* ---- writing ------------------------------------------------------------------------------ */

static void put_process(struct stk_jw *w, const struct stk_watch_process *p)
{
    char state[2] = {p->state, '\0'};
    stk_jw_open(w, '{');
    stk_jw_put_known_i64(w, "pid", p->pid);
    stk_jw_put_str(w, "step", p->step);
    stk_jw_put_known_i64(w, "rank", p->rank);
    stk_jw_put_u64(w, "threads", p->threads);
    stk_jw_put_known_f64(w, "cpus", p->cpus);
    stk_jw_put_u64(w, "memory_bytes", p->memory_bytes);
    stk_jw_put_known_i64(w, "gpu_memory_bytes", p->gpu_memory_bytes);
    stk_jw_put_u64(w, "read_bytes", p->read_bytes);
    stk_jw_put_u64(w, "write_bytes", p->write_bytes);
    stk_jw_put_str(w, "state", state);
    stk_jw_put_bool(w, "hangs", p->hangs);
    stk_jw_put_str(w, "command", p->command);
    stk_jw_close(w, '}');
}

void stk_watch_write(const struct stk_watch_node *n, struct stk_buf *out)
{
    struct stk_jw w;
    stk_jw_init(&w, out, false);
    stk_jw_open(&w, '{');
    stk_jw_put_str(&w, "host", n->host);
    if (n->part >= 0)
        stk_jw_put_known_i64(&w, "part", n->part);
    stk_jw_put_known_f64(&w, "at_s", n->at_s);
    stk_jw_put_u64(&w, "processes", n->processes);
    stk_jw_put_u64(&w, "threads", n->threads);
    stk_jw_put_known_f64(&w, "cpus", n->cpus);
    stk_jw_put_u64(&w, "memory_bytes", n->memory_bytes);
    stk_jw_key(&w, "gpus");
    stk_jw_open(&w, '[');
    for (size_t i = 0; i < n->ngpus; i++) {
        stk_jw_open(&w, '{');
        stk_jw_put_known_i64(&w, "index",
                             n->gpu[i].index == UINT32_MAX ? -1 : (int64_t)n->gpu[i].index);
        stk_jw_put_str(&w, "kind", n->gpu[i].kind);
        stk_jw_put_known_f64(&w, "util", n->gpu[i].util);
        stk_jw_put_known_i64(&w, "memory_bytes", n->gpu[i].memory_bytes);
        stk_jw_put_known_i64(&w, "total_bytes", n->gpu[i].total_bytes);
        stk_jw_close(&w, '}');
    }
    stk_jw_close(&w, ']');
    stk_jw_key(&w, "process");
    stk_jw_open(&w, '[');
    for (size_t i = 0; i < n->nprocesses; i++)
        put_process(&w, &n->process[i]);
    stk_jw_close(&w, ']');
    stk_jw_close(&w, '}');
}

/* ---- reading ------------------------------------------------------------------------------ */

static int64_t integer(const struct stk_jval *o, const char *key)
{
    const struct stk_jval *v = stk_json_get(o, key);
    return v && v->type == STK_JINT && v->i >= 0 ? v->i : -1;
}

static uint64_t count(const struct stk_jval *o, const char *key)
{
    int64_t v = integer(o, key);
    return v > 0 ? (uint64_t)v : 0;
}

static double number(const struct stk_jval *o, const char *key, double max)
{
    const struct stk_jval *v = stk_json_get(o, key);
    bool is = v && (v->type == STK_JINT || v->type == STK_JFLOAT);
    return is && v->f >= 0 && v->f <= max ? v->f : -1;
}

static void text(const struct stk_jval *o, const char *key, char *to, size_t size)
{
    const struct stk_jval *v = stk_json_get(o, key);
    snprintf(to, size, "%s", v && v->type == STK_JSTR ? v->str : "");
}

static uint32_t small(uint64_t v)
{
    return v < UINT32_MAX ? (uint32_t)v : UINT32_MAX;
}

static void read_process(const struct stk_jval *o, struct stk_watch_process *p)
{
    char state[2];
    *p = (struct stk_watch_process){
        .pid = integer(o, "pid"),
        .rank = integer(o, "rank"),
        .threads = small(count(o, "threads")),
        .cpus = number(o, "cpus", 1e6),
        .memory_bytes = count(o, "memory_bytes"),
        .gpu_memory_bytes = integer(o, "gpu_memory_bytes"),
        .read_bytes = count(o, "read_bytes"),
        .write_bytes = count(o, "write_bytes"),
    };
    const struct stk_jval *hangs = stk_json_get(o, "hangs");
    p->hangs = hangs && hangs->type == STK_JBOOL && hangs->b;
    text(o, "state", state, sizeof state);
    p->state = state[0] >= 'A' && state[0] <= 'z' ? state[0] : '?';
    text(o, "step", p->step, sizeof p->step);
    text(o, "command", p->command, sizeof p->command);
}

static void read_gpu(const struct stk_jval *o, struct stk_gpu *g)
{
    *g = (struct stk_gpu){.index = integer(o, "index") < 0 ? UINT32_MAX : small(count(o, "index")),
                          .util = number(o, "util", 1),
                          .memory_bytes = integer(o, "memory_bytes"),
                          .total_bytes = integer(o, "total_bytes")};
    text(o, "kind", g->kind, sizeof g->kind);
}

static int read_node(const struct stk_jval *o, struct stk_watch_node *out, struct stk_err *err)
{
    const struct stk_jval *list = stk_json_get(o, "process"), *gpus = stk_json_get(o, "gpus");
    size_t n = list && list->type == STK_JARR ? list->len : 0;
    n = n < STK_WATCH_PROCESSES ? n : STK_WATCH_PROCESSES;
    struct stk_watch_process *p = realloc(out->process, (n ? n : 1) * sizeof *p);
    if (!p)
        return stk_err_nomem(err, n * sizeof *p);
    *out = (struct stk_watch_node){.part = -1, .process = p, .nprocesses = n};
    text(o, "host", out->host, sizeof out->host);
    out->at_s = number(o, "at_s", 1e12);
    out->processes = small(count(o, "processes"));
    out->threads = small(count(o, "threads"));
    out->cpus = number(o, "cpus", 1e6);
    out->memory_bytes = count(o, "memory_bytes");
    for (size_t i = 0; i < n; i++)
        read_process(&list->item[i], &p[i]);
    for (size_t i = 0; gpus && gpus->type == STK_JARR && i < gpus->len && i < STK_GPUS_MAX; i++)
        read_gpu(&gpus->item[i], &out->gpu[out->ngpus++]);
    return 0;
}

int stk_watch_read(const char *line, size_t len, struct stk_watch_node *out, struct stk_err *err)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *v;
    if (len > STK_WATCH_LINE_MAX)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "a sample of %zu bytes", len);
    int rc = stk_json_parse(&arena, line, len, &v, err);
    const struct stk_jval *host = rc ? NULL : stk_json_get(v, "host");
    if (!rc && (!host || host->type != STK_JSTR || host->len == 0))
        rc = stk_err_set(err, STK_E_CORRUPT, NULL, -1, "not a sample of a node");
    if (!rc)
        rc = read_node(v, out, err);
    stk_arena_release(&arena);
    return rc;
}
