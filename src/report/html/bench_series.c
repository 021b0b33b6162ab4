/*
 * bench_series.c - several runs of `stoker bench` on a page: sweeps, searches, neighbours, and
 * results side by side.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/verdict.h"
#include "report/bench.h"
#include "report/html/bench.h"

static const struct stk_pg_column columns[] = {
    {"run", "Run", "text"},
    {"ranks", "Ranks", "count"},
    {"utilisation", "Utilisation", "share"},
    {"utilisation_mlperf", "As MLPerf Storage", "share"},
    {"samples_per_second", "Samples per second", ""},
    {"io_share_steps", "I/O of the steps", "share"},
    {"step_seconds", "A step, p50", "s"},
    {"step_p99_seconds", "A step, p99", "s"},
    {"bytes_read", "Read", "B"},
    {"io_bound", "Waits for data", "text"},
};

/* ---- a series ------------------------------------------------------------------------------ */

bool stk_pg_bench_is_series(const struct stk_jval *result)
{
    return stk_pg_has_rows(stk_json_get(result, "points")) ||
           stk_pg_has_rows(stk_json_get(result, "compared"));
}

static void put_panel(struct stk_jw *w, const struct stk_jval *rows, const char *name,
                      const char *unit, const char *as, const char *member)
{
    stk_pg_panel(w, name, unit);
    stk_pg_series_of(w, name, as, rows, member);
    stk_pg_panel_end(w);
}

/* A sweep, or alone and beside a neighbour: bars in the order of the runs. */
static void put_runs(struct stk_jw *w, const struct stk_jval *rows)
{
    const struct stk_pg_axis axis = {"", "", "category", NAN, NAN};
    stk_pg_plot(w, "runs", "Runs", "How busy the accelerators are, how many samples they get, and "
                                   "how long steps take.");
    stk_pg_x_of(w, &axis, rows, "run");
    stk_pg_panels(w);
    put_panel(w, rows, "utilisation", "share", "bar", "utilisation");
    put_panel(w, rows, "samples", "per s", "bar", "samples_per_second");
    stk_pg_panel(w, "time per step", "s");
    stk_pg_series_of(w, "a step, p50", "bar", rows, "step_seconds");
    stk_pg_series_of(w, "a step, p99", "bar", rows, "step_p99_seconds");
    stk_pg_panel_end(w);
    stk_pg_plot_end(w);
}

static int by_ranks(const void *a, const void *b)
{
    double x = stk_pg_get(a, "ranks"), y = stk_pg_get(b, "ranks");
    return (x > y) - (x < y);
}

static void put_asked(struct stk_jw *w, const struct stk_jval *rows, double asked)
{
    const double x[] = {stk_pg_get(&rows->item[0], "ranks"),
                        stk_pg_get(&rows->item[rows->len - 1], "ranks")};
    const double v[] = {asked, asked};
    stk_pg_series(w, "asked for", "line");
    stk_jw_put_bool(w, "dash", true);
    stk_jw_put_u64(w, "color", 6);
    stk_pg_values(w, "x", x, 2);
    stk_pg_values(w, "v", v, 2);
    stk_jw_close(w, '}');
}

static void put_line(struct stk_jw *w, const struct stk_jval *rows, const char *name,
                     const char *member)
{
    stk_pg_series(w, name, "both");
    stk_pg_values_of(w, "x", rows, "ranks");
    stk_pg_values_of(w, "v", rows, member);
    stk_jw_close(w, '}');
}

static void put_mark(struct stk_jw *w, double at)
{
    stk_pg_marks(w);
    if (at > 0)
        stk_pg_mark(w, at, "most", STK_PG_NO_COLOR);
    stk_jw_close(w, ']');
}

/* The ranks that were tried, and the utilisation that was asked for. */
static int put_search(struct stk_jw *w, const struct stk_jval *rows, const struct stk_jval *r,
                      struct stk_err *err)
{
    const struct stk_pg_axis axis = {"ranks", "", "log", NAN, NAN};
    struct stk_jval sorted = *rows;
    sorted.item = malloc(rows->len * sizeof *rows->item);
    if (!sorted.item)
        return stk_err_nomem(err, rows->len * sizeof *rows->item);
    memcpy(sorted.item, rows->item, rows->len * sizeof *rows->item);
    qsort(sorted.item, sorted.len, sizeof *sorted.item, by_ranks);
    stk_pg_plot(w, "search", "Accelerators tried",
                "The most that the storage keeps as busy as asked for, and the samples that all of "
                "them get.");
    stk_pg_x(w, &axis);
    stk_jw_close(w, '}');
    put_mark(w, stk_pg_get(r, "most_ranks"));
    stk_pg_panels(w);
    stk_pg_panel(w, "utilisation", "share");
    put_line(w, &sorted, "utilisation", "utilisation_mlperf");
    put_asked(w, &sorted, stk_pg_get(r, "utilisation_asked"));
    stk_pg_panel_end(w);
    stk_pg_panel(w, "samples", "per s");
    put_line(w, &sorted, "samples", "samples_per_second");
    stk_pg_panel_end(w);
    stk_pg_plot_end(w);
    free(sorted.item);
    return 0;
}

static bool is_search(const struct stk_jval *r)
{
    return isfinite(stk_pg_get(r, "utilisation_asked"));
}

static void put_fastest(struct stk_jw *w, const struct stk_jval *rows)
{
    const struct stk_jval *best = &rows->item[0];
    char what[160];
    for (size_t i = 1; i < rows->len; i++)
        if (isnan(stk_pg_get(best, "samples_per_second")) ||
            stk_pg_get(&rows->item[i], "samples_per_second") >
                stk_pg_get(best, "samples_per_second"))
            best = &rows->item[i];
    snprintf(what, sizeof what, "samples per second at most: %.100s",
             stk_pg_text(best, "run", "one of the runs"));
    stk_pg_number(w, stk_pg_get(best, "samples_per_second"), "", what);
}

static void put_series_head(struct stk_jw *w, const struct stk_pg_input *in)
{
    const struct stk_jval *r = in->result, *rows = stk_json_get(r, "points");
    const struct stk_jval *last = &rows->item[rows->len - 1];
    const char *beside = stk_pg_text(r, "neighbour", NULL), *name = stk_pg_argument(in, 0, "");
    char title[300];
    snprintf(title, sizeof title, "%s%.200s",
             is_search(r) ? "The most accelerators: "
             : beside     ? "Beside a neighbour: "
                          : "Sweep: ",
             *name ? name : "a workload");
    stk_pg_begin(w, "bench", in->name, title);
    stk_jw_put_str(w, "verdict", stk_pg_text(r, "verdict", "The result has no verdict."));
    if (is_search(r))
        stk_pg_number(w, stk_pg_get(r, "most_ranks"), "count",
                      stk_pg_get(r, "most_ranks") == 1 ? "accelerator stays busy"
                                                       : "accelerators stay busy");
    else if (beside)
        stk_pg_number(w, stk_pg_get(last, "utilisation"), "share",
                      "of the time computing, beside the neighbour");
    else
        put_fastest(w, rows);
}

static int put_series(struct stk_jw *w, const struct stk_pg_input *in, struct stk_err *err)
{
    const struct stk_jval *rows = stk_json_get(in->result, "points");
    int rc = 0;
    put_series_head(w, in);
    stk_pg_blocks(w);
    if (is_search(in->result))
        rc = put_search(w, rows, in->result, err);
    else
        put_runs(w, rows);
    stk_pg_table_of(w, "points", "Every run", NULL, rows, columns, STK_PG_COUNT(columns));
    stk_jw_close(w, ']');
    stk_pg_end(w);
    return rc;
}

/* ---- side by side -------------------------------------------------------------------------- */

#define RUNS_MAX 64

struct stk_pg_benches {
    size_t n;
    char *name[RUNS_MAX];
    char *workload[RUNS_MAX]; /* "key: value" per line */
    double figure[RUNS_MAX][STK_BENCH_FIGURES];
};

void stk_pg_benches_free(struct stk_pg_benches *all)
{
    for (size_t i = 0; all && i < all->n; i++) {
        free(all->name[i]);
        free(all->workload[i]);
    }
    free(all);
}

static void put_names(struct stk_jw *w, const struct stk_pg_benches *all)
{
    const struct stk_pg_axis axis = {"", "", "category", NAN, NAN};
    stk_pg_x(w, &axis);
    stk_jw_put_strs(w, "v", (const char *const *)all->name, all->n);
    stk_jw_close(w, '}');
}

static void put_figure(struct stk_jw *w, const struct stk_pg_benches *all, size_t f)
{
    stk_pg_panel(w, stk_bench_figures[f].title, stk_bench_figures[f].unit);
    stk_pg_series(w, stk_bench_figures[f].title, "bar");
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t k = 0; k < all->n; k++)
        stk_pg_value(w, all->figure[k][f]);
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
    stk_pg_panel_end(w);
}

static bool is_known(const struct stk_pg_benches *all, size_t f)
{
    bool known = false;
    for (size_t k = 0; k < all->n; k++)
        known = known || isfinite(all->figure[k][f]);
    return known;
}

static void put_bars(struct stk_jw *w, const struct stk_pg_benches *all)
{
    static const char *const drawn[] = {"utilisation", "samples_per_second", "step.p99_s",
                                        "io.latency.p99_s"};
    stk_pg_plot(w, "runs", "Runs side by side", NULL);
    put_names(w, all);
    stk_pg_panels(w);
    for (size_t i = 0; i < STK_PG_COUNT(drawn); i++)
        for (size_t f = 0; f < STK_BENCH_FIGURES; f++)
            if (strcmp(stk_bench_figures[f].path, drawn[i]) == 0 && is_known(all, f))
                put_figure(w, all, f);
    stk_pg_plot_end(w);
}

static void put_numbers(struct stk_jw *w, const struct stk_pg_benches *all)
{
    struct stk_pg_column column[RUNS_MAX + 1] = {{"what", "Figure", "text"}};
    for (size_t k = 0; k < all->n; k++)
        column[k + 1] = (struct stk_pg_column){all->name[k], all->name[k], "row"};
    stk_pg_table(w, "numbers", "Numbers", NULL, column, all->n + 1);
    for (size_t f = 0; f < STK_BENCH_FIGURES; f++) {
        if (!is_known(all, f))
            continue;
        stk_jw_open(w, '[');
        stk_jw_str(w, stk_bench_figures[f].title);
        for (size_t k = 0; k < all->n; k++)
            stk_pg_value(w, all->figure[k][f]);
        stk_jw_str(w, stk_bench_figures[f].unit);
        stk_jw_close(w, ']');
    }
    stk_pg_table_end(w);
}

/* The run with the most samples per second, against the least: one run of each shows no noise. */
static void put_ratio(struct stk_jw *w, const struct stk_pg_benches *all)
{
    size_t rate = 0, best = 0, worst = 0;
    char text[700], sure[STK_VERDICT_TEXT];
    while (rate + 1 < STK_BENCH_FIGURES &&
           strcmp(stk_bench_figures[rate].path, "samples_per_second") != 0)
        rate++;
    for (size_t k = 1; k < all->n; k++) {
        best = all->figure[k][rate] > all->figure[best][rate] ? k : best;
        worst = all->figure[k][rate] < all->figure[worst][rate] ? k : worst;
    }
    const struct stk_verdict v =
        stk_verdict_of_single(1 / all->figure[best][rate], 1 / all->figure[worst][rate]);
    snprintf(text, sizeof text, "Samples per second of %.200s against %.200s: %s.", all->name[best],
             all->name[worst], stk_verdict_text(&v, sure, sizeof sure));
    stk_jw_put_str(w, "verdict", text);
    stk_pg_number(w, v.times, "x", "as measured, the most samples per second against the least");
}

static const char *line_of(const char *lines, const char *key, size_t n, size_t *len)
{
    for (const char *at = lines; *at; at += strcspn(at, "\n") + 1)
        if (strncmp(at, key, n) == 0) {
            *len = strcspn(at, "\n");
            return at;
        }
    return NULL;
}

/* Keys of the workloads that differ: the runs may be of different things. */
static void put_differences(struct stk_jw *w, const struct stk_pg_benches *all, size_t k)
{
    const char *at = all->workload[0];
    for (size_t len = 0; at && *at; at += len + 1) {
        len = strcspn(at, "\n");
        size_t key = strcspn(at, ":") + 1, other_len = 0;
        const char *other = line_of(all->workload[k], at, key < len ? key : len, &other_len);
        if (!other || (other_len == len && memcmp(at, other, len) == 0))
            continue;
        struct stk_buf b = STK_BUF_INIT;
        stk_buf_printf(&b, "%s: %.*s; %s: %.*s", all->name[0], (int)len, at, all->name[k],
                       (int)(other_len - key), other + key);
        stk_jw_str(w, stk_buf_cstr(&b));
        stk_buf_release(&b);
    }
}

static void put_compared(struct stk_jw *w, const struct stk_pg_benches *all, const char *name)
{
    stk_pg_begin(w, "comparison", name, "Benchmarks compared");
    put_ratio(w, all);
    stk_pg_blocks(w);
    put_bars(w, all);
    put_numbers(w, all);
    stk_jw_close(w, ']');
    stk_jw_key(w, "notes");
    stk_jw_open(w, '[');
    for (size_t k = 1; k < all->n; k++)
        if (all->workload[0] && all->workload[k])
            put_differences(w, all, k);
    stk_jw_close(w, ']');
    stk_pg_end(w);
}

/* ---- gathering ----------------------------------------------------------------------------- */

static int add_run(struct stk_pg_benches *all, const struct stk_jval *r, const char *name,
                   struct stk_err *err)
{
    if (all->n == RUNS_MAX)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "a page compares at most %d runs",
                           RUNS_MAX);
    if (!(all->name[all->n] = strdup(name)))
        return stk_err_nomem(err, strlen(name));
    all->workload[all->n] = NULL;
    for (size_t f = 0; f < STK_BENCH_FIGURES; f++)
        all->figure[all->n][f] = stk_pg_get(r, stk_bench_figures[f].path);
    all->n++;
    return 0;
}

static int keep_workload(char **out, const struct stk_jval *keys, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    for (size_t i = 0; keys && keys->type == STK_JOBJ && i < keys->len; i++)
        stk_buf_printf(&b, "%s: %.*s\n", keys->name[i].str,
                       keys->item[i].raw_len < 200 ? (int)keys->item[i].raw_len : 200,
                       keys->item[i].raw);
    int rc = stk_buf_check(&b, err);
    *out = rc ? NULL : strdup(stk_buf_cstr(&b));
    stk_buf_release(&b);
    return rc || *out ? rc : stk_err_nomem(err, 0);
}

int stk_pg_bench_keep(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err)
{
    if (!isfinite(stk_pg_get(in->result, "utilisation")))
        return 0;
    if (!page->benches && !(page->benches = calloc(1, sizeof *page->benches)))
        return stk_err_nomem(err, sizeof *page->benches);
    struct stk_pg_benches *all = page->benches;
    int rc = add_run(all, in->result, in->name, err);
    return rc ? rc
              : keep_workload(&all->workload[all->n - 1], stk_json_get(in->result, "workload"),
                              err);
}

int stk_pg_bench_compare(struct stk_page *page, struct stk_err *err)
{
    (void)err;
    if (page->benches && page->benches->n > 1)
        put_compared(&page->w, page->benches, "benchmarks side by side");
    return 0;
}

/* What --compare wrote: figures, by their paths. */
static int put_comparison(struct stk_jw *w, const struct stk_pg_input *in, struct stk_err *err)
{
    const struct stk_jval *rows = stk_json_get(in->result, "compared");
    struct stk_pg_benches *all = calloc(1, sizeof *all);
    int rc = all ? 0 : stk_err_nomem(err, sizeof *all);
    for (size_t i = 0; i < rows->len && !rc; i++)
        rc = add_run(all, &rows->item[i], stk_pg_text(&rows->item[i], "file", "?"), err);
    if (!rc)
        put_compared(w, all, in->name);
    stk_pg_benches_free(all);
    return rc;
}

int stk_pg_bench_series(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err)
{
    if (stk_pg_has_rows(stk_json_get(in->result, "compared")))
        return put_comparison(&page->w, in, err);
    return put_series(&page->w, in, err);
}
