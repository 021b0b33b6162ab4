/* bench_series.c - sweeps, searches and comparisons of `stoker bench` as tables and JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/style.h"
#include "base/text.h"
#include "base/units.h"
#include "report/bench.h"
#include "result/grid.h"

#define RESULT_MAX (256u << 20)

/* ---- series --------------------------------------------------------------------------------- */

/* judged: of a search, whose verdict is about the utilisation as MLPerf Storage counts it. */
static void put_point(const struct stk_series_point *p, bool judged, struct stk_grid *t)
{
    char use[32], au[32], rate[48], share[32], step[32], slow[32], label[400];
    struct stk_buf b = STK_BUF_INIT;
    stk_text_escape(&b, p->label, strlen(p->label), 60);
    snprintf(label, sizeof label, "%s", stk_buf_cstr(&b));
    stk_buf_release(&b);
    snprintf(rate, sizeof rate, "%.0f", p->samples_per_s);
    stk_percent_text(p->utilisation, use, sizeof use);
    stk_percent_text(p->io_share_steps, share, sizeof share);
    stk_format_duration(p->step_s, step, sizeof step);
    stk_format_duration(p->step_p99_s, slow, sizeof slow);
    stk_percent_text(p->mlperf, au, sizeof au);
    if (judged)
        stk_grid_row(t, label, use, au, rate, share, step, slow,
                     p->io_bound ? "I/O" : "computing");
    else
        stk_grid_row(t, label, use, rate, share, step, slow, p->io_bound ? "I/O" : "computing");
}

/* strong, plain: marks around the number. */
static void put_search(const struct stk_series *s, const char *strong, const char *plain,
                       struct stk_buf *out)
{
    if (s->most)
        stk_buf_printf(out,
                       "%s%lu accelerator%s%s stay%s busy for at least %.0f %% of the time, by one "
                       "run of each number",
                       strong, (unsigned long)s->most, s->most == 1 ? "" : "s", plain,
                       s->most == 1 ? "s" : "", 100 * s->au);
    else if (s->unjudged)
        stk_buf_puts(out, "Not known how many accelerators stay busy");
    else
        stk_buf_printf(
            out, "Not even one accelerator stays busy for %.0f %% of the time, by one run",
            100 * s->au);
    stk_buf_puts(out, s->machine_ends ? "; with more, this machine cannot keep the pace of the "
                                        "steps, so the storage may feed more"
                      : s->most == s->limit ? "; more were not tried (--ranks)"
                                            : "");
    if (s->unjudged)
        stk_buf_printf(out,
                       "%s with %lu accelerator%s, the data has %llu step%s for each, and %llu are "
                       "needed until the first and those read ahead do not decide. Generate more "
                       "(dataset.files), or let epochs read the storage again (reader.cache=drop)",
                       s->most ? "; more are not known:" : ":", (unsigned long)s->unjudged,
                       s->unjudged == 1 ? "" : "s", (unsigned long long)s->steps,
                       s->steps == 1 ? "" : "s", (unsigned long long)s->steps_needed);
    stk_buf_puts(out, ".\n");
}

void stk_series_text(const struct stk_series *s, struct stk_buf *out)
{
    struct stk_grid t;
    stk_grid_init(&t, s->au > 0 ? "lrrrrrrl" : "lrrrrrl");
    if (s->au > 0)
        stk_grid_row(&t, "run", "utilisation", "as MLPerf", "samples/s", "I/O", "step", "99 %",
                     "waits for");
    else
        stk_grid_row(&t, "run", "utilisation", "samples/s", "I/O", "step", "99 %",
                     "waits for");
    for (size_t i = 0; i < s->n; i++)
        put_point(&s->point[i], s->au > 0, &t);
    if (s->n)
        stk_grid_render(&t, 0, out);
    stk_grid_release(&t);
    if (s->lost >= 0) {
        stk_buf_printf(out, STK_BAD "rank %lld was lost" STK_PLAIN ": ", (long long)s->lost);
        stk_text_escape(out, s->why_lost, strlen(s->why_lost), SIZE_MAX);
        stk_buf_puts(out, "\n");
    } else if (s->au > 0) {
        put_search(s, STK_STRONG, STK_PLAIN, out);
    } else {
        stk_series_verdict(s, out);
    }
}

void stk_series_json(const struct stk_series *s, struct stk_jw *w)
{
    struct stk_buf verdict = STK_BUF_INIT;
    stk_jw_key(w, "points");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < s->n; i++) {
        const struct stk_series_point *p = &s->point[i];
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "run", p->label);
        stk_jw_put_u64(w, "ranks", p->ranks);
        stk_jw_put_f64(w, "utilisation", p->utilisation);
        stk_jw_put_f64(w, "utilisation_mlperf", p->mlperf);
        stk_jw_put_f64(w, "samples_per_second", p->samples_per_s);
        stk_jw_put_f64(w, "io_share", p->io_share);
        stk_jw_put_f64(w, "io_share_steps", p->io_share_steps);
        stk_jw_put_f64(w, "step_seconds", p->step_s);
        stk_jw_put_f64(w, "step_p99_seconds", p->step_p99_s);
        stk_jw_put_u64(w, "bytes_read", p->bytes);
        stk_jw_put_bool(w, "io_bound", p->io_bound);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
    stk_jw_put_known_i64(w, "lost_rank", s->lost);
    if (s->au > 0) {
        stk_jw_put_f64(w, "utilisation_asked", s->au);
        stk_jw_put_u64(w, "most_ranks", s->most);
        stk_jw_put_u64(w, "ranks_allowed", s->limit);
        stk_jw_key(w, "ranks_not_judged");
        if (s->unjudged)
            stk_jw_u64(w, s->unjudged);
        else
            stk_jw_null(w);
        stk_jw_put_bool(w, "machine_is_the_limit", s->machine_ends);
        put_search(s, "", "", &verdict);
    } else {
        stk_jw_put_str(w, "neighbour", s->neighbour);
        stk_series_verdict(s, &verdict);
    }
    stk_jw_put_str(w, "verdict", stk_buf_cstr(&verdict));
    stk_buf_release(&verdict);
}

/* ---- comparing results ---------------------------------------------------------------------- */

/* A result of --json. */
struct result {
    struct stk_arena arena;
    const struct stk_jval *top; /* its member "result" */
};

static int read_result(const char *path, struct result *r, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jval *v = NULL;
    int rc = stk_read_file(path, RESULT_MAX, &b, err);
    const char *text = rc == 0 ? stk_arena_dup(&r->arena, b.data, b.len) : NULL;
    if (rc == 0)
        rc = text ? stk_json_parse(&r->arena, text, b.len, &v, err) : stk_err_nomem(err, b.len);
    stk_buf_release(&b);
    if (rc < 0)
        return stk_err_wrap(err, rc, "%s", path);
    r->top = v->type == STK_JOBJ ? stk_json_get(v, "result") : NULL;
    const struct stk_jval *use =
        r->top && r->top->type == STK_JOBJ ? stk_json_get(r->top, "utilisation") : NULL;
    if (!use || (use->type != STK_JFLOAT && use->type != STK_JINT))
        return stk_err_set(err, STK_E_CORRUPT, path, -1,
                           "is not the result of a run of stoker bench");
    return 0;
}

/* "io.latency.p99_s" */
static double number_at(const struct stk_jval *v, const char *path)
{
    char word[64];
    while (v && v->type == STK_JOBJ && *path) {
        size_t n = strcspn(path, ".");
        snprintf(word, sizeof word, "%.*s", (int)n, path);
        v = stk_json_get(v, word);
        path += n + (path[n] == '.');
    }
    return v && !*path && (v->type == STK_JINT || v->type == STK_JFLOAT) ? v->f : NAN;
}

const struct stk_bench_figure stk_bench_figures[STK_BENCH_FIGURES] = {
    {"utilisation", "utilisation", "share"},
    {"as MLPerf Storage", "utilisation_mlperf", "share"},
    {"samples/s", "samples_per_second", "per s"},
    {"I/O of the steps", "io_share_steps", "share"},
    {"step, median", "step.p50_s", "s"},
    {"step, 99 %", "step.p99_s", "s"},
    {"requests", "io.requests", "count"},
    {"bytes read", "io.bytes_read", "B"},
    {"from the device", "io.bytes_from_device", "B"},
    {"request, median", "io.latency.p50_s", "s"},
    {"request, 99 %", "io.latency.p99_s", "s"},
    {"checkpoints", "checkpoint_seconds", "s"},
    {"memory", "memory_bytes", "B"},
};

static const char *figure_text(size_t i, double v, char *buf, size_t n)
{
    const char *unit = stk_bench_figures[i].unit;
    if (isnan(v) || v < 0)
        snprintf(buf, n, "-");
    else if (strcmp(unit, "share") == 0)
        stk_percent_text(v, buf, n);
    else if (strcmp(unit, "s") == 0)
        stk_format_duration(v, buf, n);
    else if (strcmp(unit, "B") == 0)
        stk_format_size((uint64_t)v, buf, n);
    else
        stk_format_count((uint64_t)v, buf, n);
    return buf;
}

static bool is_number(const struct stk_jval *v)
{
    return v->type == STK_JINT || v->type == STK_JFLOAT;
}

/* Another version may have written 0 as 0.0. */
static bool is_same(const struct stk_jval *x, const struct stk_jval *y)
{
    return (is_number(x) && is_number(y) && x->f == y->f) ||
           (x->raw_len == y->raw_len && memcmp(x->raw, y->raw, x->raw_len) == 0);
}

/* Keys of the workloads that differ: the results may be of different things. */
static void put_differences(const struct result *r, size_t n, struct stk_buf *out)
{
    const struct stk_jval *a = stk_json_get(r[0].top, "workload");
    for (size_t i = 1; i < n; i++) {
        const struct stk_jval *b = stk_json_get(r[i].top, "workload");
        for (size_t k = 0; a && b && a->type == STK_JOBJ && b->type == STK_JOBJ && k < a->len;
             k++) {
            const struct stk_jval *x = &a->item[k], *y = stk_json_get(b, a->name[k].str);
            if (y && is_same(x, y))
                continue;
            char text[300];
            snprintf(text, sizeof text, "%.60s is %.*s, and %.*s in result %zu", a->name[k].str,
                     x->raw_len < 60 ? (int)x->raw_len : 60, x->raw,
                     y && y->raw_len < 60 ? (int)y->raw_len
                     : y                  ? 60
                                          : 7,
                     y ? y->raw : "missing", i + 1);
            stk_buf_puts(out, STK_WARN "differs" STK_PLAIN ": ");
            stk_text_escape(out, text, strlen(text), SIZE_MAX);
            stk_buf_putc(out, '\n');
        }
    }
}

static void put_figures(const struct result *r, size_t n, struct stk_buf *out)
{
    struct stk_grid t;
    char cell[STK_BENCH_COMPARED][48];
    stk_grid_init(&t, "lrrrrrrrr");
    for (size_t i = 0; i < STK_BENCH_FIGURES; i++) {
        for (size_t k = 0; k < STK_BENCH_COMPARED; k++) {
            cell[k][0] = '\0';
            if (k < n)
                figure_text(i, number_at(r[k].top, stk_bench_figures[i].path), cell[k], sizeof cell[k]);
        }
        stk_grid_row(&t, stk_bench_figures[i].title, cell[0], cell[1], cell[2], cell[3], cell[4], cell[5],
                     cell[6], cell[7]);
    }
    stk_grid_render(&t, 0, out);
    stk_grid_release(&t);
}

static void json_figures(const struct result *r, const char *const *paths, size_t n,
                         struct stk_jw *w)
{
    stk_jw_key(w, "compared");
    stk_jw_open(w, '[');
    for (size_t k = 0; k < n; k++) {
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "file", paths[k]);
        for (size_t i = 0; i < STK_BENCH_FIGURES; i++)
            stk_jw_put_known_f64(w, stk_bench_figures[i].path, number_at(r[k].top, stk_bench_figures[i].path));
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

int stk_bench_compare(const char *const *paths, size_t n, struct stk_buf *out, struct stk_jw *w,
                      struct stk_err *err)
{
    struct result r[STK_BENCH_COMPARED] = {0};
    int rc = 0;
    if (n < 2 || n > STK_BENCH_COMPARED)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "--compare takes from 2 to %d results",
                           STK_BENCH_COMPARED);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = read_result(paths[i], &r[i], err);
    if (rc == 0) {
        for (size_t i = 0; i < n; i++) {
            stk_buf_printf(out, "%zu: ", i + 1);
            stk_text_escape(out, paths[i], strlen(paths[i]), SIZE_MAX);
            stk_buf_putc(out, '\n');
        }
        put_differences(r, n, out);
        put_figures(r, n, out);
        json_figures(r, paths, n, w);
    }
    for (size_t i = 0; i < n; i++)
        stk_arena_release(&r[i].arena);
    return rc;
}
