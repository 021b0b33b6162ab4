/*
 * stage_compare.c - a result of `stoker stage --compare` on a page: the forms of a dataset side by
 * side, and the time of each over the number of jobs at once, with its bend.
 */
#include <stdio.h>
#include <string.h>

#include "report/html/priv.h"

#define CURVE 48 /* points of a law */

static const struct stk_pg_column forms[] = {
    {"form", "Form", "text"},
    {"prepare_s", "Prepared once", "s"},
    {"files", "Files", "count"},
    {"bytes", "Bytes", "B"},
    {"pays_after", "Pays after stagings", ""},
    {"bend.flat_to", "Flat up to jobs", "count"},
    {"bend.rises_at", "Rises at jobs", "count"},
    {"not_measured", "Not measured", "text"},
};

static const struct stk_pg_column times[] = {
    {"form", "Form", "text"},         {"jobs", "Jobs at once", "count"},
    {"measured", "Measured", "count"}, {"first_s", "First sample", "s"},
    {"last_s", "Last sample", "s"},   {"slowest_s", "Slowest job", "s"},
};

static const struct stk_jval *points_of(const struct stk_jval *form)
{
    const struct stk_jval *p = stk_json_get(form, "points");
    return stk_pg_has_rows(p) ? p : NULL;
}

/* ---- the forms ----------------------------------------------------------------------------- */

/* A number of each form, or of its smallest number of jobs. */
static void put_bars(struct stk_jw *w, const struct stk_jval *all, const char *name,
                     const char *member, bool of_point)
{
    stk_pg_series(w, name, "bar");
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < all->len; i++) {
        const struct stk_jval *p = points_of(&all->item[i]);
        const struct stk_jval *from = !of_point ? &all->item[i] : p ? &p->item[0] : NULL;
        stk_pg_value(w, stk_pg_get(from, member));
    }
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

static void put_forms(struct stk_jw *w, const struct stk_jval *all)
{
    const struct stk_pg_axis axis = {"", "", "category", NAN, NAN};
    stk_pg_plot(w, "forms", "Forms compared",
                "How long one job waits for the first and for the last sample, and what preparing "
                "the form takes, once.");
    stk_pg_x_of(w, &axis, all, "form");
    stk_pg_panels(w);
    stk_pg_panel(w, "staging", "s");
    put_bars(w, all, "first sample", "first_s", true);
    put_bars(w, all, "last sample", "last_s", true);
    stk_pg_panel_end(w);
    if (stk_pg_any_of(all, "prepare_s")) {
        stk_pg_panel(w, "preparing", "s");
        put_bars(w, all, "prepared once", "prepare_s", false);
        stk_pg_panel_end(w);
    }
    stk_pg_plot_end(w);
}

/* ---- jobs at once -------------------------------------------------------------------------- */

static void put_measured(struct stk_jw *w, const struct stk_jval *form, size_t color)
{
    const struct stk_jval *points = points_of(form);
    stk_pg_series(w, stk_pg_text(form, "form", "?"), "both");
    stk_jw_put_u64(w, "color", color);
    stk_pg_values_of(w, "x", points, "jobs");
    stk_pg_values_of(w, "v", points, "last_s");
    stk_pg_values_of(w, "lo", points, "last_ci.0");
    stk_pg_values_of(w, "hi", points, "last_ci.1");
    stk_jw_close(w, '}');
}

/* The laws of scaling/bend.h. */
static double law_time(const struct stk_jval *bend, double n)
{
    double one = stk_pg_get(bend, "one_job_s"), at = stk_pg_get(bend, "at");
    double share = stk_pg_get(bend, "share");
    const char *law = stk_pg_text(bend, "law", "");
    if (strcmp(law, "limit") == 0)
        return one * fmax(1, n / at);
    if (strcmp(law, "contention") == 0)
        return one * (1 + share * (n - 1));
    return NAN;
}

static void put_law(struct stk_jw *w, const struct stk_jval *form, size_t color)
{
    const struct stk_jval *bend = stk_json_get(form, "bend"), *points = points_of(form);
    double from = stk_pg_get(&points->item[0], "jobs"), n[CURVE], v[CURVE];
    double to = stk_pg_get(&points->item[points->len - 1], "jobs");
    char name[120];
    if (stk_pg_true(bend, "poor") || !(from > 0) || !(to > from) || !isfinite(law_time(bend, from)))
        return;
    for (size_t i = 0; i < CURVE; i++) {
        n[i] = from * pow(to / from, (double)i / (CURVE - 1));
        v[i] = law_time(bend, n[i]);
    }
    snprintf(name, sizeof name, "law of %.80s", stk_pg_text(form, "form", "?"));
    stk_pg_series(w, name, "line");
    stk_jw_put_u64(w, "color", color);
    stk_jw_put_bool(w, "dash", true);
    stk_pg_values(w, "x", n, CURVE);
    stk_pg_values(w, "v", v, CURVE);
    stk_jw_close(w, '}');
}

static void put_bends(struct stk_jw *w, const struct stk_jval *all)
{
    stk_pg_marks(w);
    for (size_t i = 0; i < all->len; i++) {
        const struct stk_jval *bend = stk_json_get(&all->item[i], "bend");
        double at = stk_pg_get(bend, "at");
        char name[120];
        if (!(at > 0) || stk_pg_true(bend, "poor"))
            continue;
        snprintf(name, sizeof name, "%.80s bends", stk_pg_text(&all->item[i], "form", "?"));
        stk_pg_mark(w, at, name, i);
    }
    stk_jw_close(w, ']');
}

static bool has_curve(const struct stk_jval *all)
{
    bool has = false;
    for (size_t i = 0; i < all->len; i++)
        has = has || (points_of(&all->item[i]) && points_of(&all->item[i])->len > 1);
    return has;
}

static void put_jobs(struct stk_jw *w, const struct stk_jval *all)
{
    const struct stk_pg_axis axis = {"jobs at once", "", "log", NAN, NAN};
    if (!has_curve(all))
        return;
    stk_pg_plot(w, "jobs", "Jobs at once",
                "How long a job takes until its last sample is staged, while others do the same: "
                "medians with 95 % intervals. Beyond a bend, more jobs "
                "at once move hardly more together.");
    stk_pg_x(w, &axis);
    stk_jw_close(w, '}');
    put_bends(w, all);
    stk_pg_panels(w);
    stk_pg_log_panel(w, "last sample", "s", 2);
    for (size_t i = 0; i < all->len; i++)
        if (points_of(&all->item[i])) {
            put_measured(w, &all->item[i], i);
            put_law(w, &all->item[i], i);
        }
    stk_pg_panel_end(w);
    stk_pg_plot_end(w);
}

static void put_point(struct stk_jw *w, const char *form, const struct stk_jval *point)
{
    stk_jw_open(w, '[');
    stk_jw_str(w, form);
    for (size_t i = 1; i < STK_PG_COUNT(times); i++)
        if (strcmp(times[i].unit, "count") == 0)
            stk_pg_value(w, stk_pg_get(point, times[i].name));
        else
            stk_jw_f64(w, stk_pg_get(point, times[i].name));
    stk_jw_close(w, ']');
}

/* Every number of jobs of every form. */
static void put_points(struct stk_jw *w, const struct stk_jval *all)
{
    bool any = false;
    for (size_t i = 0; i < all->len; i++)
        any = any || points_of(&all->item[i]);
    if (!any)
        return;
    stk_pg_table(w, "points", "Every number of jobs", "Medians of the jobs.", times,
                 STK_PG_COUNT(times));
    for (size_t i = 0; i < all->len; i++) {
        const struct stk_jval *points = points_of(&all->item[i]);
        for (size_t k = 0; points && k < points->len; k++)
            put_point(w, stk_pg_text(&all->item[i], "form", "?"), &points->item[k]);
    }
    stk_pg_table_end(w);
}

/* ---- the result ---------------------------------------------------------------------------- */

static double last_of(const struct stk_jval *all, const char *form)
{
    for (size_t i = 0; form && i < all->len; i++)
        if (points_of(&all->item[i]) &&
            strcmp(stk_pg_text(&all->item[i], "form", ""), form) == 0)
            return stk_pg_get(&points_of(&all->item[i])->item[0], "last_s");
    return NAN;
}

static void put_notes(struct stk_jw *w, const struct stk_jval *r, const struct stk_jval *all)
{
    const struct stk_jval *notes = stk_json_get(r, "notes");
    stk_jw_key(w, "notes");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < all->len; i++)
        if (stk_pg_text(&all->item[i], "verdict", NULL))
            stk_jw_str(w, stk_pg_text(&all->item[i], "verdict", NULL));
    for (size_t i = 0; stk_pg_has_rows(notes) && i < notes->len; i++)
        if (notes->item[i].type == STK_JSTR)
            stk_jw_strn(w, notes->item[i].str, notes->item[i].len);
    stk_jw_close(w, ']');
}

static void put_compare(struct stk_jw *w, const struct stk_pg_input *in)
{
    static const struct stk_pg_column facts[] = {
        {"source", "Source", "text"},
        {"source_file_system", "On", "text"},
        {"target", "Staged to", "text"},
        {"target_file_system", "File system there", "text"},
        {"files", "Files", "count"},
        {"bytes", "Bytes", "B"},
        {"runs", "Runs of each", "count"},
        {"via", "Jobs run", "text"},
    };
    const struct stk_jval *r = in->result, *all = stk_json_get(r, "forms");
    char title[300];
    double ratio = last_of(all, "files") / last_of(all, stk_pg_text(r, "best", NULL));
    snprintf(title, sizeof title, "Staging %.240s: forms compared",
             stk_pg_text(r, "source", "a dataset"));
    stk_pg_begin(w, "stage", in->name, title);
    stk_jw_put_str(w, "verdict", stk_pg_text(r, "verdict", "This result has no verdict."));
    if (strcmp(stk_pg_text(r, "best", "files"), "files") != 0 && isfinite(ratio))
        stk_pg_number(w, ratio, "x", "as fast as files: the form to use");
    stk_pg_facts_of(w, r, facts, STK_PG_COUNT(facts));
    stk_pg_blocks(w);
    put_forms(w, all);
    put_jobs(w, all);
    stk_pg_table_of(w, "form-table", "Forms", NULL, all, forms, STK_PG_COUNT(forms));
    put_points(w, all);
    stk_jw_close(w, ']');
    put_notes(w, r, all);
    stk_pg_end(w);
}

static int add_stage(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err)
{
    if (!stk_pg_has_rows(stk_json_get(in->result, "forms")))
        return stk_err_set(err, STK_E_UNSUPPORTED, in->path, -1,
                           "the result of `stoker stage` contains neither a copy nor a comparison: "
                           "the command failed, or its result was not complete");
    put_compare(&page->w, in);
    return 0;
}

const struct stk_pg_kind stk_pg_stage = {.name = "stage", .command = "stage", .add = add_stage};
