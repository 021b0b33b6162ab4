/* stage_plan.c - targets of a copy and the cost of staging, as text and as JSON. */
#include "report/stage_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/style.h"
#include "base/text.h"
#include "base/units.h"
#include "model/measure.h"
#include "result/grid.h"
#include "report/report_priv.h"

/* ---- targets ------------------------------------------------------------------------------ */

/* Escaped and wrapped, in a colour. */
static void put_wrapped(const char *mark, const char *text, unsigned indent, unsigned columns,
                        struct stk_buf *out)
{
    struct stk_buf lines = STK_BUF_INIT;
    stk_report_wrapped(text, indent, columns, &lines);
    size_t n = lines.len ? lines.len - 1 : 0; /* the mark ends before the line does */
    stk_buf_puts(out, mark);
    stk_buf_put(out, stk_buf_cstr(&lines), n);
    stk_buf_puts(out, *mark ? STK_PLAIN "\n" : "\n");
    stk_buf_release(&lines);
}

void stk_target_text(const struct stk_target *t, unsigned columns, struct stk_buf *out)
{
    struct stk_buf line = STK_BUF_INIT;
    bool both = !t->named && strcmp(t->name, t->path) != 0;
    stk_buf_printf(&line, "copy in %s%s%s%s: %s", both ? t->name : "", both ? " (" : "", t->path,
                   both ? ")" : "", t->reason);
    put_wrapped("", stk_buf_cstr(&line), 0, columns, out);
    if (t->warning[0]) {
        stk_buf_reset(&line);
        stk_buf_printf(&line, "warning: %s", t->warning);
        put_wrapped(STK_WARN, stk_buf_cstr(&line), 0, columns, out);
    }
    stk_buf_release(&line);
}

/* Colours only the name: the end of the others may be cut off, and with it the end of a colour. */
static void target_row(const struct stk_target *t, bool best, struct stk_grid *g)
{
    struct stk_buf path = STK_BUF_INIT, reason = STK_BUF_INIT;
    bool fits = t->verdict == STK_TARGET_FITS;
    char name[64];
    snprintf(name, sizeof name, "%s%s%s" STK_PLAIN, best ? "* " : "  ",
             t->warning[0] ? STK_WARN
             : best        ? STK_GOOD
             : fits        ? STK_STRONG
                           : STK_FAINT,
             t->name);
    stk_grid_row(g, name,
                 strcmp(t->path, t->name) == 0 ? "" : stk_word_cut(&path, t->path, SIZE_MAX),
                 stk_word_cut(&reason, t->reason, SIZE_MAX));
    stk_buf_release(&path);
    stk_buf_release(&reason);
}

void stk_targets_text(const struct stk_targets *t, unsigned columns, struct stk_buf *out)
{
    struct stk_grid g;
    stk_grid_init(&g, "lbe");
    for (size_t i = 0; i < t->n; i++)
        target_row(&t->target[i], i == t->best, &g);
    stk_grid_fit(&g, 0, columns);
    stk_grid_render(&g, 0, out);
    stk_grid_release(&g);
    for (size_t i = 0; i < t->n; i++)
        if (t->target[i].warning[0]) {
            struct stk_buf line = STK_BUF_INIT;
            stk_buf_printf(&line, "%s: %s", t->target[i].name, t->target[i].warning);
            put_wrapped(STK_WARN, stk_buf_cstr(&line), 2, columns, out);
            stk_buf_release(&line);
        }
}

/* ---- cost --------------------------------------------------------------------------------- */

/* "12 s", "12 s to 40 s", "not known". */
static const char *span_text(double least_s, double most_s, char *buf, size_t size)
{
    char a[32], b[32];
    if (isnan(least_s) || isnan(most_s))
        return "not known";
    if (!(most_s > 0))
        return "no time";
    (void)stk_format_duration(least_s, a, sizeof a);
    (void)stk_format_duration(most_s, b, sizeof b);
    if (strcmp(a, b) == 0)
        snprintf(buf, size, "%s", a);
    else
        snprintf(buf, size, "%s to %s", a, b);
    return buf;
}

static void put_ways(const struct stk_cost *c, unsigned nodes, struct stk_buf *out)
{
    struct stk_grid g;
    char span[80];
    int n = nodes > 1 ? STK_COST_WAYS : 1;
    stk_grid_init(&g, "lrl");
    stk_grid_row(&g, n > 1 ? "  staging" : "  staging, on one node", "takes", "limited by");
    for (int i = 0; i < n; i++) {
        const struct stk_cost_time *t = &c->way[i];
        char name[64];
        bool best = n > 1 && (int)c->best == i && t->wall;
        snprintf(name, sizeof name, "%s%s%s", best ? "* " STK_GOOD : "  ",
                 n > 1 ? stk_cost_way_name((enum stk_cost_way)i) : "the copy",
                 best ? STK_PLAIN : "");
        stk_grid_row(&g, name, span_text(t->least_s, t->most_s, span, sizeof span),
                     t->wall ? t->wall : "");
    }
    stk_grid_render(&g, 0, out);
    stk_grid_release(&g);
}

static void put_epochs(const struct stk_stage_plan *p, struct stk_buf *out)
{
    const struct stk_cost *c = p->cost;
    struct stk_grid g;
    char span[80], share[48] = "";
    if (c->cached_share > 0)
        snprintf(share, sizeof share, "%.0f %% of it from the page cache", c->cached_share * 100);
    stk_grid_init(&g, "lrl");
    stk_grid_row(&g, "  an epoch", "takes", "");
    stk_grid_row(&g, "  the first, from the source",
                 span_text(c->first_epoch_s, c->first_epoch_s, span, sizeof span), "");
    stk_grid_row(&g, "  others, from the source",
                 span_text(c->source_epoch_s, c->source_epoch_s, span, sizeof span), share);
    stk_grid_row(&g, "  from the copy",
                 span_text(c->target_epoch_s, c->target_epoch_s, span, sizeof span), share);
    stk_grid_render(&g, 0, out);
    stk_grid_release(&g);
}

static void put_cost(const struct stk_stage_plan *p, unsigned columns, struct stk_buf *out)
{
    const struct stk_cost *c = p->cost;
    bool pays = c->verdict == STK_COST_PAYS;
    if (p->rates) {
        struct stk_buf line = STK_BUF_INIT;
        stk_buf_printf(&line, "rates: %s", p->rates);
        put_wrapped("", stk_buf_cstr(&line), 0, columns, out);
        stk_buf_release(&line);
    }
    put_ways(c, p->asked->nodes, out);
    stk_buf_putc(out, '\n');
    put_epochs(p, out);
    stk_buf_putc(out, '\n');
    put_wrapped(pays ? STK_GOOD : STK_WARN, c->reason, 0, columns, out);
    if (pays && !(p->asked->need_Bps > 0))
        put_wrapped("",
                    "An epoch is what reading alone takes: if the training computes longer than "
                    "that, it saves less.",
                    0, columns, out);
}

void stk_stage_plan_text(const struct stk_stage_plan *p, unsigned columns, struct stk_buf *out)
{
    struct stk_buf line = STK_BUF_INIT;
    char size[32], files[48];
    stk_buf_printf(&line, "source: %s", p->source);
    if (p->asked)
        stk_buf_printf(&line, ", %s in %s", stk_format_size(p->asked->bytes, size, sizeof size),
                       stk_word_many(p->asked->files, "file", files, sizeof files));
    put_wrapped("", stk_buf_cstr(&line), 0, columns, out);
    stk_buf_release(&line);
    if (p->target)
        stk_target_text(p->target, columns, out);
    else
        put_wrapped(STK_WARN, "no folder of this node takes the copy: read the source", 0, columns,
                    out);
    if (p->there)
        put_wrapped(STK_GOOD, "a complete copy is there already", 0, columns, out);
    if (p->targets)
        stk_targets_text(p->targets, columns, out);
    if (p->cost) {
        stk_buf_putc(out, '\n');
        put_cost(p, columns, out);
    }
}

/* ---- JSON --------------------------------------------------------------------------------- */

/* null: not known, or no limit. */
static void put_known(struct stk_jw *w, const char *key, uint64_t v)
{
    stk_jw_put_known_i64(w, key, v > INT64_MAX ? -1 : (int64_t)v);
}

void stk_fs_facts_json(const struct stk_fs_facts *f, struct stk_jw *w)
{
    static const char *const reach[] = {"unknown", "local", "memory", "shared"};
    stk_jw_put_str(w, "fs", f->fs[0] ? f->fs : NULL);
    stk_jw_put_str(w, "mounted_at", f->point[0] ? f->point : NULL);
    stk_jw_put_str(w, "reach", reach[f->reach]);
    put_known(w, "total_bytes", f->total_bytes);
    put_known(w, "free_bytes", f->free_bytes);
    put_known(w, "free_files", f->free_files);
    stk_jw_put_bool(w, "quota_told", f->quota_told);
    put_known(w, "quota_left_bytes", f->quota_bytes);
    put_known(w, "quota_left_files", f->quota_files);
    stk_jw_key(w, "stripe_count");
    if (f->stripe.size_bytes)
        stk_jw_i64(w, f->stripe.count);
    else
        stk_jw_null(w);
    put_known(w, "stripe_bytes", f->stripe.size_bytes ? f->stripe.size_bytes : UINT64_MAX);
    stk_jw_put_known_f64(w, "purge_days", f->purge.days > 0 ? f->purge.days : -1);
    stk_jw_put_str(w, "error", f->error ? strerror(f->error) : NULL);
    stk_jw_put_str(w, "errno", stk_errno_name(f->error));
}

void stk_target_json(const struct stk_target *t, struct stk_jw *w)
{
    bool fits = t->verdict == STK_TARGET_FITS;
    char *tier = fits && !t->named ? stk_scratch_tier(t->path) : NULL;
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "name", t->name);
    stk_jw_put_str(w, "path", t->path[0] ? t->path : NULL);
    stk_jw_put_str(w, "verdict", stk_target_verdict_name(t->verdict));
    stk_jw_put_str(w, "reason", t->reason);
    stk_jw_put_str(w, "warning", t->warning[0] ? t->warning : NULL);
    stk_jw_put_str(w, "tier", tier);
    if (t->path[0]) {
        put_known(w, "room_bytes", t->room_bytes);
        put_known(w, "job_memory_bytes", t->job_bytes);
        stk_fs_facts_json(&t->facts, w);
    }
    stk_jw_close(w, '}');
    free(tier);
}

static void put_target(const struct stk_target *t, struct stk_jw *w)
{
    stk_jw_key(w, "target");
    if (t)
        stk_target_json(t, w);
    else
        stk_jw_null(w);
}

static void put_list(const struct stk_targets *t, struct stk_jw *w)
{
    stk_jw_key(w, "targets");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < t->n; i++)
        stk_target_json(&t->target[i], w);
    stk_jw_close(w, ']');
}

void stk_targets_json(const struct stk_targets *t, struct stk_jw *w)
{
    put_target(stk_targets_best(t), w);
    put_list(t, w);
}

static void put_rates(const struct stk_cost_case *c, struct stk_jw *w)
{
    const struct {
        const char *name;
        double v;
    } rate[] = {{"source_Bps", c->source.read_Bps},
                {"source_all_Bps", c->source.all_Bps},
                {"source_file_s", stk_cost_file_s(&c->source)},
                {"write_Bps", c->target.write_Bps},
                {"write_file_s", c->target.create_s / STK_MEASURE_READERS},
                {"read_Bps", c->target.read_Bps},
                {"read_file_s", stk_cost_file_s(&c->target)},
                {"fabric_Bps", c->fabric_Bps}};
    for (size_t i = 0; i < sizeof rate / sizeof *rate; i++)
        stk_jw_put_known_f64(w, rate[i].name, rate[i].v > 0 ? rate[i].v : -1);
}

static void put_cost_json(const struct stk_stage_plan *p, struct stk_jw *w)
{
    const struct stk_cost *c = p->cost;
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "bytes", p->asked->bytes);
    stk_jw_put_u64(w, "files", p->asked->files);
    stk_jw_put_u64(w, "nodes", p->asked->nodes ? p->asked->nodes : 1);
    stk_jw_put_known_i64(w, "epochs", p->asked->epochs ? (int64_t)p->asked->epochs : -1);
    stk_jw_put_str(w, "rates", p->rates);
    put_rates(p->asked, w);
    stk_jw_put_known_f64(w, "training_Bps", p->asked->need_Bps > 0 ? p->asked->need_Bps : -1);
    stk_jw_key(w, "ways");
    stk_jw_open(w, '[');
    for (int i = 0; i < (p->asked->nodes > 1 ? STK_COST_WAYS : 1); i++) {
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "way", stk_cost_way_name((enum stk_cost_way)i));
        stk_jw_put_known_f64(w, "least_s", c->way[i].least_s);
        stk_jw_put_known_f64(w, "most_s", c->way[i].most_s);
        stk_jw_put_str(w, "limited_by", c->way[i].wall);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
    stk_jw_put_known_f64(w, "cached_share", c->cached_share);
    stk_jw_put_known_f64(w, "first_epoch_s", c->first_epoch_s);
    stk_jw_put_known_f64(w, "source_epoch_s", c->source_epoch_s);
    stk_jw_put_known_f64(w, "target_epoch_s", c->target_epoch_s);
    stk_jw_put_f64(w, "saved_s", c->saved_s);
    stk_jw_put_f64(w, "pays_after_epochs", c->pays_after);
    stk_jw_put_str(w, "verdict", stk_cost_verdict_name(c->verdict));
    stk_jw_put_str(w, "reason", c->reason);
    stk_jw_close(w, '}');
}

void stk_stage_plan_json(const struct stk_stage_plan *p, struct stk_jw *w)
{
    stk_jw_put_str(w, "source", p->source);
    stk_jw_put_bool(w, "staged", p->there);
    put_target(p->target, w);
    if (p->targets)
        put_list(p->targets, w);
    stk_jw_key(w, "cost");
    if (p->cost)
        put_cost_json(p, w);
    else
        stk_jw_null(w);
}
