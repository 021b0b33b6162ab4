/*
 * bench_series.c - several runs of `stoker bench`: a search, a sweep, a run beside a neighbour;
 * results of --json side by side.
 */
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "base/verdict.h"
#include "report/bench.h"
#include "report/results.h"
#include "result/blocks.h"

/* ---- the runs of a series ------------------------------------------------------------------- */

#define POINT(member) STK_FROM(struct stk_series_point, member)
/* mlperf: of a search, whose verdict is about the utilisation as MLPerf Storage counts it. */
#define POINT_FIELDS(mlperf_flags)                                                                 \
    {                                                                                              \
        {"run", "run", STK_U_TEXT, STK_FROM_AS(CHARS, struct stk_series_point, label),             \
         .flags = STK_F_CUT},                                                                      \
            {"ranks", "ranks", STK_U_COUNT, POINT(ranks), .flags = STK_F_PAGE},                    \
            {"utilisation", "utilisation", STK_U_SHARE, POINT(utilisation)},                       \
            {"utilisation_mlperf", "as MLPerf", STK_U_SHARE, POINT(mlperf), .flags = mlperf_flags},  \
            {"samples_per_second", "samples", STK_U_PER_S, POINT(samples_per_s)},                  \
            {"io_share", NULL, STK_U_SHARE, POINT(io_share)},                                      \
            {"io_share_steps", "I/O", STK_U_SHARE, POINT(io_share_steps)},                         \
            {"step_seconds", "step", STK_U_SECONDS, POINT(step_s), "median"},                      \
            {"step_p99_seconds", "99 %", STK_U_SECONDS, POINT(step_p99_s)},                        \
            {"bytes_read", "read", STK_U_BYTES, POINT(bytes), .flags = STK_F_PAGE},                \
            {"io_bound", "I/O-bound", STK_U_FLAG, POINT(io_bound), "waits for data"},              \
        {                                                                                          \
            NULL                                                                                   \
        }                                                                                          \
    }
static const struct stk_result_field point_fields[] = POINT_FIELDS(STK_F_PAGE);
static const struct stk_result_field tried_fields[] = POINT_FIELDS(0);

static const struct stk_result_plot runs_plot = {
    "runs", "Runs",
    "How busy the accelerators are, how many samples they get, and how long steps take.",
    "run", "", STK_U_PLAIN, STK_SCALE_CATEGORY,
    {{"utilisation", STK_U_SHARE, {{"utilisation", NULL, "bar"}}},
     {"samples", STK_U_PER_S, {{"samples_per_second", NULL, "bar"}}},
     {"time per step", STK_U_SECONDS,
      {{"step_seconds", "a step, p50", "bar"}, {"step_p99_seconds", "a step, p99", "bar"}}}}};

static const struct stk_result_plot search_plot = {
    "search", "Accelerators tried",
    "The most that the storage keeps as busy as asked for, and the samples that all of them get.",
    "ranks", "ranks", STK_U_PLAIN, STK_SCALE_LOG,
    {{"utilisation", STK_U_SHARE, {{"utilisation_mlperf", "utilisation", "both"}},
      "utilisation_asked", "asked for"},
     {"samples", STK_U_PER_S, {{"samples_per_second", "samples", "both"}}}},
    .mark = "most_ranks", .mark_name = "most"};

/* ---- what they show ------------------------------------------------------------------------- */

static void add_most(const struct stk_series *s, struct stk_buf *out)
{
    if (s->most)
        stk_buf_printf(out,
                       "%lu accelerator%s stay%s busy for at least %.0f %% of the time, by one "
                       "run of each number",
                       (unsigned long)s->most, s->most == 1 ? "" : "s", s->most == 1 ? "s" : "",
                       100 * s->au);
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
    stk_buf_puts(out, ".");
}

static void put_verdict(const void *base, struct stk_jw *w)
{
    const struct stk_series *s = base;
    struct stk_buf text = STK_BUF_INIT;
    if (s->lost >= 0)
        stk_buf_printf(&text, "Rank %lld was lost: %s.", (long long)s->lost, s->why_lost);
    else if (s->au > 0)
        add_most(s, &text);
    else
        stk_series_verdict(s, &text);
    while (text.len && text.data[text.len - 1] == '\n')
        text.len--;
    stk_jw_strn(w, (const char *)text.data, text.len);
    stk_buf_release(&text);
}

static const struct stk_series_point *fastest(const struct stk_series *s)
{
    const struct stk_series_point *best = s->point;
    for (size_t i = 1; i < s->n; i++)
        if (isnan(best->samples_per_s) || s->point[i].samples_per_s > best->samples_per_s)
            best = &s->point[i];
    return best;
}

#define SERIES(member) STK_FROM(struct stk_series, member)
STK_NUMBER_OF(fastest_rate, struct stk_series, r->n ? fastest(r)->samples_per_s : NAN)
STK_TEXT_OF(fastest_run, struct stk_series, r->n ? fastest(r)->label : NULL)
STK_NUMBER_OF(beside_use, struct stk_series, r->n ? r->point[r->n - 1].utilisation : NAN)

/* The runs, as the plot and the columns of the kind have them. */
#define RUNS(columns, plot_)                                                                       \
    {"points", "every run", STK_U_TABLE, STK_FROM_ARRAY(struct stk_series, point, n),              \
     .of = columns, .plot = plot_}
#define ENDS                                                                                       \
    {"lost_rank", NULL, STK_U_COUNT, SERIES(lost)},                                                \
        {"verdict", NULL, STK_U_PROSE, .put = put_verdict, .flags = STK_F_VERDICT},                \
        {"verdict", NULL, STK_U_PROSE, .flags = STK_F_VIEW},                                       \
    {                                                                                              \
        NULL                                                                                       \
    }

static const struct stk_result_field search_fields[] = {
    RUNS(tried_fields, &search_plot),
    {"utilisation_asked", "utilisation asked for", STK_U_SHARE, SERIES(au), .flags = STK_F_PAGE},
    {"most_ranks", "accelerators stay busy", STK_U_COUNT, SERIES(most),
     .flags = STK_F_LEAD | STK_F_PAGE},
    {"ranks_allowed", NULL, STK_U_COUNT, SERIES(limit)},
    {"ranks_not_judged", NULL, STK_U_COUNT, SERIES(unjudged), "the fewest", STK_F_KNOWN},
    {"machine_is_the_limit", NULL, STK_U_FLAG, SERIES(machine_ends)},
    ENDS};
static const struct stk_result_field beside_fields[] = {
    RUNS(point_fields, &runs_plot),
    {"neighbour", "neighbour", STK_U_TEXT, SERIES(neighbour), .flags = STK_F_PAGE},
    {"utilisation_beside", "of the time computing, beside the neighbour", STK_U_SHARE,
     .number = beside_use, .flags = STK_F_LEAD | STK_F_PAGE},
    ENDS};
static const struct stk_result_field sweep_fields[] = {
    RUNS(point_fields, &runs_plot),
    {"neighbour", NULL, STK_U_TEXT, SERIES(neighbour)},
    {"most_samples_per_second", "samples per second at most", STK_U_PER_S, .number = fastest_rate,
     .flags = STK_F_LEAD | STK_F_PAGE},
    {"fastest_run", NULL, STK_U_TEXT, .put = fastest_run},
    ENDS};

static void sweep_caveat(const struct stk_jval *r, struct stk_buf *out)
{
    stk_buf_puts(out, stk_pg_text(r, "fastest_run", ""));
}

static bool is_search(const struct stk_jval *r)
{
    return isfinite(stk_pg_get(r, "utilisation_asked"));
}

static bool is_beside(const struct stk_jval *r)
{
    return stk_pg_text(r, "neighbour", NULL) != NULL;
}

const struct stk_result_kind stk_search_kind = {.command = "bench",
                                                .doing = "The most accelerators:",
                                                .fields = search_fields,
                                                .takes = is_search};
const struct stk_result_kind stk_beside_kind = {.command = "bench",
                                                .doing = "Beside a neighbour:",
                                                .fields = beside_fields,
                                                .takes = is_beside};
const struct stk_result_kind stk_sweep_kind = {
    .command = "bench", .doing = "Sweep:", .fields = sweep_fields, .caveat = sweep_caveat,
    .needs = "points",
    .lacks = "contains no run: give one of a run, a sweep or a comparison"};

/* ---- results side by side ------------------------------------------------------------------- */

static const struct stk_result_field figure_fields[] = {
    {"file", "result", STK_U_TEXT},
    {"utilisation", "utilisation", STK_U_SHARE},
    {"utilisation_mlperf", "as MLPerf Storage", STK_U_SHARE},
    {"samples_per_second", "samples", STK_U_PER_S},
    {"io_share_steps", "I/O of the steps", STK_U_SHARE},
    {"step.p50_s", "a step, p50", STK_U_SECONDS},
    {"step.p99_s", "a step, p99", STK_U_SECONDS},
    {"io.requests", "requests", STK_U_COUNT},
    {"io.bytes_read", "read", STK_U_BYTES},
    {"io.bytes_from_device", "from the device", STK_U_BYTES},
    {"io.latency.p50_s", "a request, p50", STK_U_SECONDS},
    {"io.latency.p99_s", "a request, p99", STK_U_SECONDS},
    {"checkpoint_seconds", "in checkpoints", STK_U_SECONDS},
    {"memory_bytes", "memory, largest rank", STK_U_BYTES},
    {NULL}};

static const struct stk_result_plot compared_plot = {
    "runs", "Runs side by side", NULL, "file", "", STK_U_PLAIN, STK_SCALE_CATEGORY,
    {{"utilisation", STK_U_SHARE, {{"utilisation", NULL, "bar"}}},
     {"samples", STK_U_PER_S, {{"samples_per_second", NULL, "bar"}}},
     {"a step, p99", STK_U_SECONDS, {{"step.p99_s", NULL, "bar"}}},
     {"a request, p99", STK_U_SECONDS, {{"io.latency.p99_s", NULL, "bar"}}}}};

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

static void add_value(const struct stk_jval *v, struct stk_buf *out)
{
    if (v)
        stk_buf_put(out, v->raw, v->raw_len < 60 ? v->raw_len : 60);
    else
        stk_buf_puts(out, "missing");
}

/* Keys of the workloads that differ: the results may be of different things. */
static void put_differences(const void *base, struct stk_jw *w)
{
    const struct stk_results *all = base;
    const struct stk_jval *a = stk_json_get(all->result[0], "workload");
    stk_jw_open(w, '[');
    for (size_t i = 1; i < all->n; i++) {
        const struct stk_jval *b = stk_json_get(all->result[i], "workload");
        bool both = a && b && a->type == STK_JOBJ && b->type == STK_JOBJ;
        for (size_t k = 0; both && k < a->len; k++) {
            const struct stk_jval *x = &a->item[k], *y = stk_json_get(b, a->name[k].str);
            struct stk_buf text = STK_BUF_INIT;
            if (y && is_same(x, y))
                continue;
            stk_buf_printf(&text, "%.60s is ", a->name[k].str);
            add_value(x, &text);
            stk_buf_puts(&text, ", and ");
            add_value(y, &text);
            stk_buf_printf(&text, " in %.200s", all->name[i]);
            stk_jw_strn(w, (const char *)text.data, text.len);
            stk_buf_release(&text);
        }
    }
    stk_jw_close(w, ']');
}

static void put_compared(const void *base, struct stk_jw *w)
{
    const struct stk_results *all = base;
    stk_jw_open(w, '[');
    for (size_t k = 0; k < all->n; k++) {
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "file", all->name[k]);
        for (const struct stk_result_field *f = figure_fields + 1; f->key; f++) {
            double v = stk_pg_get(all->result[k], f->key);
            bool whole = f->unit == STK_U_COUNT || f->unit == STK_U_BYTES;
            if (whole && v >= 0 && v < 1e15)
                stk_jw_put_u64(w, f->key, (uint64_t)v);
            else
                stk_jw_put_known_f64(w, f->key, v);
        }
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static double rate_of(const struct stk_jval *result)
{
    return stk_pg_get(result, "samples_per_second");
}

/* The most samples per second against the least: one run of each shows no noise. */
static struct stk_verdict most_to_least(const struct stk_results *all, size_t *best, size_t *worst)
{
    *best = *worst = 0;
    for (size_t k = 1; k < all->n; k++) {
        if (isnan(rate_of(all->result[*best])))
            *best = *worst = k;
        *best = rate_of(all->result[k]) > rate_of(all->result[*best]) ? k : *best;
        *worst = rate_of(all->result[k]) < rate_of(all->result[*worst]) ? k : *worst;
    }
    return stk_verdict_of_single(1 / rate_of(all->result[*best]),
                                 1 / rate_of(all->result[*worst]));
}

static double most_times(const void *base)
{
    size_t best, worst;
    return most_to_least(base, &best, &worst).times;
}

static void compared_verdict(const void *base, struct stk_jw *w)
{
    const struct stk_results *all = base;
    size_t best, worst;
    const struct stk_verdict v = most_to_least(all, &best, &worst);
    char text[700], sure[STK_VERDICT_TEXT];
    snprintf(text, sizeof text, "Samples per second of %.200s against %.200s: %s.",
             all->name[best], all->name[worst], stk_verdict_text(&v, sure, sizeof sure));
    stk_jw_str(w, text);
}

static const struct stk_result_field compared_fields[] = {
    {"differences", "workloads", STK_U_LIST, .put = put_differences, .say = "differs: ",
     .flags = STK_F_NAMED | STK_F_WRAP | STK_F_WARN},
    {"compared", "numbers", STK_U_TABLE, .put = put_compared, .of = figure_fields,
     .flags = STK_F_SIDE, .plot = &compared_plot},
    {"times", "as measured", STK_U_TIMES,
     .number = most_times, .flags = STK_F_LEAD | STK_F_PAGE},
    {"verdict", NULL, STK_U_PROSE, .put = compared_verdict, .flags = STK_F_VERDICT},
    {NULL}};

static void compared_caveat(const struct stk_jval *r, struct stk_buf *out)
{
    (void)r;
    stk_buf_puts(out, "the most samples per second against the least");
}

static bool is_compared(const struct stk_jval *r)
{
    return stk_json_get(r, "compared") != NULL;
}

const struct stk_result_kind stk_benches_kind = {.command = "bench",
                                                 .page = "comparison",
                                                 .doing = "Benchmarks compared",
                                                 .subject = SIZE_MAX,
                                                 .fields = compared_fields,
                                                 .takes = is_compared,
                                                 .caveat = compared_caveat};
