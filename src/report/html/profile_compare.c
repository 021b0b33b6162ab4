/*
 * profile_compare.c - several profiles on a page, side by side: the run over time, where the time
 * went, sizes of requests, findings and numbers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/verdict.h"
#include "report/html/profile.h"

void stk_pg_profiles_free(struct stk_pg_profiles *s)
{
    for (size_t i = 0; s && i < s->n; i++) {
        stk_judged_release(s->judged[i]);
        free(s->judged[i]);
        free(s->name[i]);
    }
    free(s);
}

struct stk_report stk_pg_report_of(const struct stk_judged *j)
{
    return (struct stk_report){.a = &j->analysis, .advice = &j->advice, .columns = 80};
}

double stk_pg_known(double v)
{
    return v >= 0 ? v : NAN;
}

/* ---- over time ----------------------------------------------------------------------------- */

static const struct {
    const char *name, *unit, *as;
    enum stk_series what;
} lanes[] = {{"read", "B/s", "area", STK_SERIES_READ_BPS},
             {"write", "B/s", "area", STK_SERIES_WRITE_BPS},
             {"I/O", "threads", "step", STK_SERIES_IO},
             {"CPU", "cores", "step", STK_SERIES_CPU},
             {"memory", "B", "step", STK_SERIES_MEMORY},
             {"GPU", "share", "step", STK_SERIES_GPU}};

static const struct stk_profile *profile_of(const struct stk_pg_profiles *all, size_t k)
{
    return &all->judged[k]->profile;
}

static bool any_line(const struct stk_pg_profiles *all, enum stk_series what)
{
    bool any = false;
    for (size_t k = 0; k < all->n; k++)
        any = any || stk_pg_is_line(profile_of(all, k), what);
    return any;
}

static void put_lane(struct stk_jw *w, const struct stk_pg_profiles *all, size_t k, size_t lane)
{
    const struct stk_profile *p = profile_of(all, k);
    double v[STK_PG_COLUMNS], x[STK_PG_COLUMNS], span = stk_report_span_s(p);
    if (!stk_pg_is_line(p, lanes[lane].what) ||
        !stk_report_series(p, lanes[lane].what, v, STK_PG_COLUMNS))
        return;
    for (size_t i = 0; i < STK_PG_COLUMNS; i++) {
        x[i] = span * (double)i / STK_PG_COLUMNS;
        v[i] = stk_pg_known(v[i]);
    }
    stk_pg_series(w, all->name[k], lanes[lane].as);
    stk_jw_put_u64(w, "color", k);
    stk_pg_values(w, "x", x, STK_PG_COLUMNS);
    stk_pg_values(w, "v", v, STK_PG_COLUMNS);
    stk_jw_close(w, '}');
}

static void put_over_time(struct stk_jw *w, const struct stk_pg_profiles *all)
{
    double span = 0;
    bool any = false;
    for (size_t k = 0; k < all->n; k++)
        span = fmax(span, stk_report_span_s(profile_of(all, k)));
    for (size_t i = 0; i < STK_PG_COUNT(lanes); i++)
        any = any || any_line(all, lanes[i].what);
    if (!any)
        return;
    const struct stk_pg_axis axis = {"time", "s", "linear", 0, span};
    stk_pg_plot(w, "time", "The runs over time", "Each from its own beginning.");
    stk_pg_x(w, &axis);
    stk_jw_close(w, '}');
    stk_pg_panels(w);
    for (size_t i = 0; i < STK_PG_COUNT(lanes); i++) {
        if (!any_line(all, lanes[i].what))
            continue;
        stk_pg_panel(w, lanes[i].name, lanes[i].unit);
        for (size_t k = 0; k < all->n; k++)
            put_lane(w, all, k, i);
        stk_pg_panel_end(w);
    }
    stk_pg_plot_end(w);
}

static void put_where(struct stk_jw *w, const struct stk_pg_profiles *all)
{
    const struct stk_analysis *a[STK_PG_PROFILES_MAX];
    for (size_t i = 0; i < all->n; i++)
        a[i] = &all->judged[i]->analysis;
    stk_pg_plot(w, "where", "Where the time went",
                "The main thread of each program, or its time in I/O calls if that is unknown.");
    stk_pg_parts(w, a, (const char *const *)all->name, all->n);
}

/* ---- sizes of requests --------------------------------------------------------------------- */

static const uint64_t *sizes_of(const struct stk_pg_profiles *all, size_t k, bool writes)
{
    const struct stk_counts *n = &all->judged[k]->analysis.job.n;
    return writes ? n->write_size : n->read_size;
}

static void put_size_panel(struct stk_jw *w, const struct stk_pg_profiles *all, bool writes,
                           size_t from, size_t to)
{
    size_t none_from = STK_SIZE_BINS, none_to = 0;
    for (size_t k = 0; k < all->n; k++)
        stk_pg_widen(sizes_of(all, k, writes), STK_SIZE_BINS, &none_from, &none_to);
    if (none_from >= none_to)
        return;
    stk_pg_panel(w, writes ? "writes" : "reads", "count");
    for (size_t k = 0; k < all->n; k++) {
        stk_pg_series(w, all->name[k], "bar");
        stk_jw_put_u64(w, "color", k);
        stk_jw_key(w, "v");
        stk_jw_open(w, '[');
        for (size_t i = from; i < to; i++)
            stk_jw_u64(w, sizes_of(all, k, writes)[i]);
        stk_jw_close(w, ']');
        stk_jw_close(w, '}');
    }
    stk_pg_panel_end(w);
}

static void put_sizes(struct stk_jw *w, const struct stk_pg_profiles *all)
{
    const struct stk_pg_axis axis = {"size of a request", "", "category", NAN, NAN};
    size_t from = STK_SIZE_BINS, to = 0;
    for (size_t k = 0; k < all->n; k++)
        for (int writes = 0; writes < 2; writes++)
            stk_pg_widen(sizes_of(all, k, writes), STK_SIZE_BINS, &from, &to);
    if (from >= to)
        return;
    stk_pg_plot(w, "sizes", "Sizes of requests", NULL);
    stk_pg_x(w, &axis);
    stk_jw_put_strs(w, "v", stk_report_size_name + from, to - from);
    stk_jw_close(w, '}');
    stk_pg_panels(w);
    put_size_panel(w, all, false, from, to);
    put_size_panel(w, all, true, from, to);
    stk_pg_plot_end(w);
}

/* ---- findings ------------------------------------------------------------------------------ */

/* The first finding of a rule is the most severe; NULL: the profile has none. */
static const struct stk_finding *finding_of(const struct stk_judged *j, enum stk_rule rule)
{
    for (size_t i = 0; i < j->advice.nfindings; i++)
        if (j->advice.finding[i].rule == rule)
            return &j->advice.finding[i];
    return NULL;
}

/* Whether an earlier profile, or an earlier finding of this one, has that rule. */
static bool was_said(const struct stk_pg_profiles *all, size_t k, const struct stk_finding *f)
{
    for (size_t i = 0; i < k; i++)
        if (finding_of(all->judged[i], f->rule))
            return true;
    return finding_of(all->judged[k], f->rule) != f;
}

/* What a profile has of a rule. */
static void put_finding_cell(struct stk_jw *w, const struct stk_finding *mine)
{
    char gain[40], text[80];
    if (mine && mine->gain_s > 0)
        snprintf(text, sizeof text, "saves about %s",
                 stk_word_time(mine->gain_s, gain, sizeof gain));
    else
        snprintf(text, sizeof text, mine ? "found; gain unknown" : "not found");
    stk_jw_str(w, text);
}

static void put_finding_row(struct stk_jw *w, const struct stk_pg_profiles *all,
                            const struct stk_finding *f)
{
    stk_jw_open(w, '[');
    stk_jw_str(w, f->id);
    stk_jw_str(w, f->title);
    for (size_t k = 0; k < all->n; k++)
        put_finding_cell(w, finding_of(all->judged[k], f->rule));
    stk_jw_close(w, ']');
}

static void put_findings(struct stk_jw *w, const struct stk_pg_profiles *all)
{
    struct stk_pg_column column[STK_PG_PROFILES_MAX + 2] = {{"id", "Rule", "text"},
                                                            {"title", "Finding", "text"}};
    size_t n = 0;
    for (size_t k = 0; k < all->n; k++) {
        column[k + 2] = (struct stk_pg_column){all->name[k], all->name[k], "prose"};
        n += all->judged[k]->advice.nfindings;
    }
    if (!n)
        return;
    stk_pg_table(w, "findings", "Findings", "Which profiles have each, and the time that it costs.",
                 column, all->n + 2);
    for (size_t k = 0; k < all->n; k++)
        for (size_t i = 0; i < all->judged[k]->advice.nfindings; i++)
            if (!was_said(all, k, &all->judged[k]->advice.finding[i]))
                put_finding_row(w, all, &all->judged[k]->advice.finding[i]);
    stk_pg_table_end(w);
}

/* ---- numbers ------------------------------------------------------------------------------- */

static void put_comparison(struct stk_jw *w, const struct stk_pg_profiles *all)
{
    struct stk_pg_column column[STK_PG_PROFILES_MAX + 1] = {{"what", "Figure", "text"}};
    struct stk_compare_row row;
    struct stk_report first = stk_pg_report_of(all->judged[0]);
    for (size_t k = 0; k < all->n; k++)
        column[k + 1] = (struct stk_pg_column){all->name[k], all->name[k], "row"};
    stk_pg_table(w, "numbers", "Numbers", NULL, column, all->n + 1);
    for (size_t i = 0; stk_report_compare_row(&first, i, &row); i++) {
        stk_jw_open(w, '[');
        stk_jw_str(w, row.name);
        for (size_t k = 0; k < all->n; k++) {
            struct stk_report r = stk_pg_report_of(all->judged[k]);
            stk_report_compare_row(&r, i, &row);
            stk_pg_value(w, stk_pg_known(row.value));
        }
        stk_jw_str(w, row.unit);
        stk_jw_close(w, ']');
    }
    stk_pg_table_end(w);
}

/* The fastest of those that can be compared with the first; 0: none can. */
static size_t fastest(const struct stk_pg_profiles *all)
{
    struct stk_report first = stk_pg_report_of(all->judged[0]);
    size_t best = 0;
    for (size_t k = 1; k < all->n; k++) {
        struct stk_report r = stk_pg_report_of(all->judged[k]);
        double run_s = r.a->p->run_s;
        if (stk_report_comparable(&first, &r) && first.a->p->run_s > 0 && run_s > 0 &&
            (!best || run_s < profile_of(all, best)->run_s))
            best = k;
    }
    return best;
}

/* Against the first, as `stoker report BEFORE AFTER` has it. */
static void put_change(struct stk_jw *w, const struct stk_pg_profiles *all)
{
    size_t best = fastest(all);
    double before = profile_of(all, 0)->run_s, after = profile_of(all, best)->run_s;
    char text[1000], what[360], said[STK_VERDICT_TEXT], a[40], b[40];
    const struct stk_verdict v = stk_verdict_of_single(after, before);
    snprintf(text, sizeof text,
             "%.300s took %s%s, %.300s %s: %s.",
             all->name[best], stk_word_time(after, a, sizeof a), all->n > 2 ? ", the least of the others" : "",
             all->name[0], stk_word_time(before, b, sizeof b),
             stk_verdict_text(&v, said, sizeof said));
    stk_jw_put_str(w, "verdict",
                   best ? text : "A run failed or was not recorded to its end: no verdict.");
    snprintf(what, sizeof what, "as fast as %.300s, from one run each", all->name[0]);
    if (best)
        stk_pg_number(w, before / after, "x", what);
}

int stk_pg_profiles_compare(struct stk_page *page, struct stk_err *err)
{
    const struct stk_pg_profiles *all = page->profiles;
    struct stk_jw *w = &page->w;
    (void)err;
    if (!all || all->n < 2)
        return 0;
    stk_pg_begin(w, "comparison", "profiles side by side", "Profiles compared");
    put_change(w, all);
    stk_pg_blocks(w);
    put_where(w, all);
    put_over_time(w, all);
    put_sizes(w, all);
    put_findings(w, all);
    put_comparison(w, all);
    stk_jw_close(w, ']');
    stk_pg_end(w);
    return 0;
}
