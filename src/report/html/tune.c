/*
 * tune.c - a result of `stoker tune` on a page: the best change and how to make it, every change
 * that was measured against the job as it is, what each costs, and what was not tried and why.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "report/html/tune.h"

/* A ratio of more than this between the changes is drawn on a logarithmic axis. */
#define WIDE 8

static const struct stk_pg_column facts[] = {
    {"file_system", "Data on", "text"},    {"files", "Files", "count"},
    {"bytes", "Bytes", "B"},               {"sample_bytes", "Read by the runs", "B"},
    {"ranks", "Ranks", "count"},           {"steps_per_run", "Steps per run", "count"},
    {"least", "Least gain", "share"},      {"via", "Runs were made", "text"},
    {"seconds", "Tuning took", "s"},       {"folder", "Kept in", "text"},
};

static const struct stk_pg_column measured_columns[] = {
    {"label", "Change", "text"},       {"verdict", "Verdict", "text"},
    {"epoch_s", "Epoch", "s"},         {"epoch_ci.0", "Low", "s"},
    {"epoch_ci.1", "High", "s"},       {"utilisation", "Busy", "share"},
    {"times", "Times as fast", "x"},   {"times_ci.0", "Low", "x"},
    {"times_ci.1", "High", "x"},       {"predicted_epoch_s", "Epoch, expected", "s"},
    {"cpus_busy", "CPUs busy", ""},    {"runs", "Runs", "count"},         {"confirmed", "Measured twice", "text"},
};

static const struct stk_pg_column cost_columns[] = {
    {"label", "Change", "text"},
    {"costs.disk_bytes", "Disk", "B"},
    {"costs.memory_bytes", "Memory per node", "B"},
    {"costs.once_s", "Preparing, once", "s"},
    {"costs.pays_after_epochs", "Pays after epochs", ""},
    {"costs.mixing", "Mixing", "share"},
};

static const struct stk_pg_column untried_columns[] = {
    {"label", "Change", "text"}, {"verdict", "Verdict", "text"}, {"why", "Why", "prose"}};

/* ---- candidates ---------------------------------------------------------------------------- */

static bool is_verdict(const struct stk_jval *c, const char *verdict)
{
    return strcmp(stk_pg_text(c, "verdict", ""), verdict) == 0;
}

static bool is_baseline(const struct stk_jval *c)
{
    return is_verdict(c, "baseline");
}

static bool is_change(const struct stk_jval *c)
{
    return !is_baseline(c) && isfinite(stk_pg_get(c, "times"));
}

static bool has_epoch(const struct stk_jval *c)
{
    return isfinite(stk_pg_get(c, "epoch_s"));
}

static bool is_untried(const struct stk_jval *c)
{
    return !is_baseline(c) && !is_change(c);
}

static bool is_gain(const struct stk_jval *c)
{
    return is_change(c) && is_verdict(c, "gain");
}

static bool has_costs(const struct stk_jval *c)
{
    return is_gain(c) &&
           (stk_pg_get(c, "costs.disk_bytes") > 0 || stk_pg_get(c, "costs.memory_bytes") > 0 ||
            stk_pg_get(c, "costs.once_s") > 0 || isfinite(stk_pg_get(c, "costs.mixing")));
}

/* The candidates that a table or plot is about, as an array that borrows everything but its items.
 * Caller frees out->item. */
static struct stk_jval those(const struct stk_jval *all, bool (*which)(const struct stk_jval *))
{
    struct stk_jval some = {.type = STK_JARR};
    some.item = calloc(all->len, sizeof *some.item);
    for (size_t i = 0; some.item && i < all->len; i++)
        if (all->item[i].type == STK_JOBJ && which(&all->item[i]))
            some.item[some.len++] = all->item[i];
    return some;
}

static const struct stk_jval *first_of(const struct stk_jval *all,
                                       bool (*which)(const struct stk_jval *))
{
    for (size_t i = 0; i < all->len; i++)
        if (all->item[i].type == STK_JOBJ && which(&all->item[i]))
            return &all->item[i];
    return NULL;
}

static const struct stk_jval *best_of(const struct stk_jval *r, const struct stk_jval *all)
{
    const char *id = stk_pg_text(r, "best", NULL);
    for (size_t i = 0; id && i < all->len; i++)
        if (strcmp(stk_pg_text(&all->item[i], "id", ""), id) == 0)
            return &all->item[i];
    return NULL;
}

/* How many times as fast as the job as it is, by the prediction. */
static double expected_times(const struct stk_jval *base, const struct stk_jval *c)
{
    return stk_pg_get(base, "predicted_epoch_s") / stk_pg_get(c, "predicted_epoch_s");
}

/* ---- plots --------------------------------------------------------------------------------- */

static double most(const struct stk_jval *rows, const char *name)
{
    double top = 0;
    for (size_t i = 0; i < rows->len; i++)
        top = fmax(top, stk_pg_get(&rows->item[i], name));
    return top;
}

static void put_expected(struct stk_jw *w, const struct stk_jval *base, const struct stk_jval *rows)
{
    stk_pg_series(w, "expected", "points");
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < rows->len; i++)
        stk_pg_value(w, expected_times(base, &rows->item[i]));
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

static void put_measured(struct stk_jw *w, const struct stk_jval *rows)
{
    stk_pg_series(w, "measured", "points");
    stk_pg_values_of(w, "v", rows, "times");
    stk_pg_values_of(w, "lo", rows, "times_ci.0");
    stk_pg_values_of(w, "hi", rows, "times_ci.1");
    stk_jw_close(w, '}');
}

static void put_speed(struct stk_jw *w, const struct stk_jval *base, const struct stk_jval *rows)
{
    const struct stk_pg_axis axis = {"change", "", "category", NAN, NAN};
    if (!rows->len)
        return;
    stk_pg_plot(w, "speed", "Changes against the job as it is",
                "How many times as fast an epoch is: measured, with 95 % intervals, and as "
                "expected before anything was tried. Left of the line at 1, a change makes the job "
                "slower.");
    stk_jw_put_bool(w, "flip", true);
    stk_pg_x_of(w, &axis, rows, "label");
    stk_pg_marks(w);
    stk_pg_mark(w, 1, "as it is", STK_PG_NO_COLOR);
    stk_jw_close(w, ']');
    stk_pg_panels(w);
    if (most(rows, "times_ci.1") > WIDE || most(rows, "times") > WIDE)
        stk_pg_log_panel(w, "times as fast", "x", 2);
    else
        stk_pg_panel(w, "times as fast", "x");
    put_measured(w, rows);
    put_expected(w, base, rows);
    stk_pg_panel_end(w);
    stk_pg_plot_end(w);
}

/* The part of an epoch in which the accelerators compute, or the rest. */
static void put_part(struct stk_jw *w, const char *name, const struct stk_jval *rows, bool busy)
{
    stk_pg_series(w, name, "bar");
    stk_jw_put_str(w, "stack", "epoch");
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < rows->len; i++) {
        double use = stk_pg_get(&rows->item[i], "utilisation");
        double part = isfinite(use) ? fmin(fmax(use, 0), 1) : 0;
        stk_pg_value(w, stk_pg_get(&rows->item[i], "epoch_s") * (busy ? part : 1 - part));
    }
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

/* Runs may read a part of the data: the rest is multiplied. */
static void epochs_text(const struct stk_jval *r, bool computes, struct stk_buf *b)
{
    stk_buf_puts(b, "How long an epoch takes");
    if (computes)
        stk_buf_puts(b, ", and for how much of it the accelerators compute");
    stk_buf_puts(b, stk_pg_get(r, "sample_bytes") < stk_pg_get(r, "bytes")
                        ? ": that of a sample of the data, multiplied."
                        : ".");
}

static void put_epochs(struct stk_jw *w, const struct stk_jval *r, const struct stk_jval *rows)
{
    struct stk_buf text = STK_BUF_INIT;
    const struct stk_pg_axis axis = {"change", "", "category", NAN, NAN};
    bool computes = stk_pg_any_of(rows, "utilisation");
    if (!rows->len)
        return;
    epochs_text(r, computes, &text);
    stk_pg_plot(w, "epochs", "An epoch", stk_buf_cstr(&text));
    stk_buf_release(&text);
    stk_jw_put_bool(w, "flip", true);
    stk_pg_x_of(w, &axis, rows, "label");
    stk_pg_panels(w);
    stk_pg_panel(w, "epoch", "s");
    if (computes) {
        put_part(w, "computing", rows, true);
        put_part(w, "waiting", rows, false);
    } else {
        put_part(w, "epoch", rows, false);
    }
    stk_pg_panel_end(w);
    stk_pg_plot_end(w);
}

/* ---- what to do ---------------------------------------------------------------------------- */

static void put_evidence(struct stk_jw *w, const char *name, double value, const char *unit)
{
    if (!isfinite(value))
        return;
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "name", name);
    stk_jw_put_f64(w, "value", value);
    stk_jw_put_str(w, "unit", unit);
    stk_jw_close(w, '}');
}

/* The best of what was measured, or the one that the user chose. */
static const char *best_word(const struct stk_jval *r)
{
    return stk_pg_true(r, "chosen") ? "chosen" : "best";
}

static void put_code(struct stk_jw *w, const struct stk_jval *code)
{
    stk_jw_key(w, "code");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < code->len; i++) {
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "language", stk_pg_text(&code->item[i], "language", NULL));
        stk_jw_put_str(w, "text", stk_pg_text(&code->item[i], "text", ""));
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

/* A gain has the shape of a finding: what it is, its numbers, and code to copy. Results of an older
 * stoker have lines alone. */
static void put_gain(struct stk_jw *w, const struct stk_jval *base, const struct stk_jval *c,
                     const char *word)
{
    const struct stk_jval *code = stk_pg_at(c, "code");
    bool rows = stk_pg_has_rows(code);
    stk_pg_finding(w, word, stk_pg_text(c, "label", "?"), stk_pg_text(c, "why", NULL),
                   rows ? NULL : stk_pg_text(c, "lines", NULL));
    if (rows)
        put_code(w, code);
    stk_jw_put_str(w, "id", stk_pg_text(c, "id", ""));
    stk_jw_key(w, "evidence");
    stk_jw_open(w, '[');
    put_evidence(w, "as fast", stk_pg_get(c, "times"), "x");
    put_evidence(w, "an epoch", stk_pg_get(c, "epoch_s"), "s");
    put_evidence(w, "as it is", stk_pg_get(base, "epoch_s"), "s");
    put_evidence(w, "busy", stk_pg_get(c, "utilisation"), "share");
    put_evidence(w, "expected", expected_times(base, c), "x");
    stk_jw_close(w, ']');
    stk_jw_put_f64(w, "gain_s", stk_pg_get(base, "epoch_s") - stk_pg_get(c, "epoch_s"));
    stk_jw_put_str(w, "gain_per", "epoch");
    stk_jw_close(w, '}');
}

static void put_gains(struct stk_jw *w, const struct stk_jval *r, const struct stk_jval *all)
{
    const struct stk_jval *base = first_of(all, is_baseline), *best = best_of(r, all);
    stk_pg_findings(w, "What to change");
    if (best)
        put_gain(w, base, best, best_word(r));
    for (size_t i = 0; i < all->len; i++)
        if (all->item[i].type == STK_JOBJ && is_gain(&all->item[i]) && &all->item[i] != best)
            put_gain(w, base, &all->item[i], "faster");
    stk_jw_close(w, ']');
}

/* ---- the verdict --------------------------------------------------------------------------- */

/* " (95 %: 2.2 to 2.4)", nothing without an interval. */
const char *stk_pg_times_range(const struct stk_jval *c, char *buf, size_t size)
{
    double lo = stk_pg_get(c, "times_ci.0"), hi = stk_pg_get(c, "times_ci.1");
    if (!isfinite(lo) || !isfinite(hi))
        return "";
    snprintf(buf, size, " (95 %%: %.3g to %.3g)", lo, hi);
    return buf;
}

static void put_verdict(struct stk_jw *w, const struct stk_jval *r, const struct stk_jval *all)
{
    const struct stk_jval *base = first_of(all, is_baseline), *best = best_of(r, all);
    char range[80], what[300];
    stk_jw_put_str(w, "verdict", stk_pg_text(r, "verdict", "Nothing is recommended."));
    if (best) {
        snprintf(what, sizeof what, "as fast%s: the %s change",
                 stk_pg_times_range(best, range, sizeof range), best_word(r));
        stk_pg_number(w, stk_pg_get(best, "times"), "x", what);
    } else {
        stk_pg_number(w, stk_pg_get(base, "utilisation"), "share", "busy as it is");
    }
}

/* ---- the result ---------------------------------------------------------------------------- */

static void put_some_plots(struct stk_jw *w, const struct stk_jval *r, const struct stk_jval *all)
{
    struct stk_jval changes = those(all, is_change), timed = those(all, has_epoch);
    put_speed(w, first_of(all, is_baseline), &changes);
    put_epochs(w, r, &timed);
    free(changes.item);
    free(timed.item);
}

static void put_some(struct stk_jw *w, const char *id, const char *title, const char *text,
                     const struct stk_jval *all, bool (*which)(const struct stk_jval *),
                     const struct stk_pg_column *columns, size_t n)
{
    struct stk_jval some = those(all, which);
    stk_pg_table_of(w, id, title, text, &some, columns, n);
    free(some.item);
}

static void put_tables(struct stk_jw *w, const struct stk_jval *r, const struct stk_jval *all)
{
    char text[300];
    snprintf(text, sizeof text,
             "Each change is compared with the job as it is in pairs of runs; the bounds are those "
             "of the 95 %% interval. %s.",
             stk_pg_text(r, "promise", "Intervals hold for one look at one change"));
    put_some(w, "changes", "Changes", text, all, has_epoch, measured_columns, STK_PG_COUNT(measured_columns));
    put_some(w, "costs", "What the gains cost",
             "Preparing is done once; it is saved after so many epochs. Mixing: how well batches "
             "are mixed, compared with a full shuffle.",
             all, has_costs, cost_columns, STK_PG_COUNT(cost_columns));
    put_some(w, "untried", "Not measured", NULL, all, is_untried, untried_columns,
             STK_PG_COUNT(untried_columns));
}

/* The path of the profile as it was named: two are both called "p". A command has a name alone. */
static const char *subject_of(const struct stk_pg_input *in)
{
    const char *name = stk_pg_text(in->result, "name", "a job");
    const char *path = stk_pg_argument(in, 0, ""), *last = strrchr(path, '/');
    last = last && last[1] ? last + 1 : path;
    size_t n = strlen(name);
    return strncmp(last, name, n) == 0 && (last[n] == '\0' || last[n] == '.') ? path : name;
}

static void put_tuning(struct stk_jw *w, const struct stk_pg_input *in, const struct stk_jval *all)
{
    const struct stk_jval *r = in->result;
    char title[300];
    snprintf(title, sizeof title, "Tuning %.240s", subject_of(in));
    stk_pg_begin(w, "tune", in->name, title);
    put_verdict(w, r, all);
    stk_pg_facts_of(w, r, facts, STK_PG_COUNT(facts));
    put_gains(w, r, all);
    stk_pg_blocks(w);
    put_some_plots(w, r, all);
    put_tables(w, r, all);
    stk_jw_close(w, ']');
    stk_pg_notes_of(w, r, "notes");
    stk_pg_end(w);
}

/* ---- adding it ----------------------------------------------------------------------------- */

static int add_tune(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err)
{
    const struct stk_jval *all = stk_json_get(in->result, "candidates");
    const struct stk_jval *check = stk_json_get(in->result, "check");
    if (stk_pg_has_rows(all))
        put_tuning(&page->w, in, all);
    else if (check && check->type == STK_JOBJ && isfinite(stk_pg_get(check, "times")))
        stk_pg_tune_check(&page->w, in, check);
    else
        return stk_err_set(err, STK_E_UNSUPPORTED, in->path, -1,
                           "a result of `stoker tune` that contains no changes");
    return 0;
}

const struct stk_pg_kind stk_pg_tune = {.name = "tune", .command = "tune", .add = add_tune};
