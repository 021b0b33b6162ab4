/*
 * study.c - scaling studies on a page: the N to request, its reasons, and every N as a table.
 * Studies that compare the same thing share their plots (study_plots.c).
 */
#include "report/html/study.h"

#include <stdio.h>
#include <stdlib.h>

#include "report/scale.h"

/* ---- tables -------------------------------------------------------------------------------- */

static void put_row(struct stk_jw *w, const struct stk_scaling_series *s,
                    const struct stk_scaling_row *r)
{
    const double v[] = {r->value,      r->value_ci.lo, r->value_ci.hi, r->speedup,
                        r->efficiency, r->su,          r->relative_su, r->karp_flatt};
    stk_jw_open(w, '[');
    stk_jw_str(w, stk_pg_series_name(s));
    stk_jw_u64(w, r->n);
    stk_jw_u64(w, r->runs);
    stk_jw_u64(w, r->bad + r->lost);
    for (size_t i = 0; i < STK_PG_COUNT(v); i++)
        stk_jw_f64(w, v[i]);
    stk_jw_close(w, ']');
}

static void put_points(struct stk_jw *w, const struct stk_scaling *all)
{
    const char *unit = all->study->metric ? "" : "s";
    const struct stk_pg_column columns[] = {
        {"series", "Series", "text"},
        {"n", stk_pg_study_unit(all), "count"},
        {"runs", "Runs", "count"},
        {"failed", "Failed", "count"},
        {"value", all->study->metric ? all->study->metric : "Time", unit},
        {"value_low", "Low", unit},
        {"value_high", "High", unit},
        {"speedup", "Speedup", "x"},
        {"efficiency", "Efficiency", "share"},
        {"su", "SU", ""},
        {"relative_su", "Relative SU", "x"},
        {"karp_flatt", "Karp-Flatt", "share"},
    };
    stk_pg_table(w, "points", "Every N", NULL, columns, STK_PG_COUNT(columns));
    for (size_t k = 0; k < all->nseries; k++)
        for (size_t i = 0; i < all->series[k].nrows; i++)
            put_row(w, &all->series[k], &all->series[k].row[i]);
    stk_pg_table_end(w);
}

static void put_choices(struct stk_jw *w, const struct stk_scaling *all)
{
    const struct stk_pg_column columns[] = {{"series", "Series", "text"},
                                            {"wish", "Wish", "text"},
                                            {"n", stk_pg_study_unit(all), "count"},
                                            {"sentence", "What it gives", "prose"},
                                            {"reason", "Why", "prose"}};
    stk_pg_table(w, "recommended", "Recommended", NULL, columns, STK_PG_COUNT(columns));
    for (size_t k = 0; k < all->nseries; k++)
        for (int i = 0; i < STK_WISHES; i++) {
            const struct stk_choice *c = &all->series[k].choice[i];
            if (!c->asked)
                continue;
            stk_jw_open(w, '[');
            stk_jw_str(w, stk_pg_series_name(&all->series[k]));
            stk_jw_str(w, stk_wish_id((enum stk_wish)i));
            stk_pg_value(w, c->found ? (double)all->series[k].row[c->row].n : NAN);
            stk_jw_str(w, c->sentence);
            stk_jw_str(w, c->reason);
            stk_jw_close(w, ']');
        }
    stk_pg_table_end(w);
}

/* ---- the result ---------------------------------------------------------------------------- */

static const struct stk_choice *best_choice(const struct stk_scaling_series *s)
{
    static const enum stk_wish order[] = {STK_WISH_DEADLINE, STK_WISH_MAX_SU, STK_WISH_BALANCED,
                                          STK_WISH_FASTEST};
    for (size_t i = 0; i < STK_PG_COUNT(order); i++)
        if (s->choice[order[i]].asked && s->choice[order[i]].found)
            return &s->choice[order[i]];
    return NULL;
}

static void put_best_n(struct stk_jw *w, const struct stk_scaling *all, const struct stk_choice *c)
{
    char what[120];
    snprintf(what, sizeof what, "%.60s to request: %s%s", stk_pg_study_unit(all),
             stk_wish_id((enum stk_wish)(c - all->series[0].choice)), stk_pg_doubt(c));
    stk_pg_number(w, (double)all->series[0].row[c->row].n, "count", what);
}

static void put_ratio(struct stk_jw *w, const struct stk_scaling *all,
                      const struct stk_comparison *c)
{
    char what[320];
    const char *a = stk_pg_series_name(&all->series[c->a]);
    const char *b = stk_pg_series_name(&all->series[c->b]);
    char n[80], m[80], word[40];
    if (c->n)
        snprintf(what, sizeof what, "as fast with %s: %.60s against %.60s (%s)",
                 stk_scaling_n(all, c->n, n, sizeof n), b, a,
                 stk_verdict_word(&c->at_n, word, sizeof word));
    else
        snprintf(what, sizeof what, "as fast: %.60s with %.40s against %.60s with %.40s, each at its "
                                    "fastest (%s)",
                 b, stk_scaling_n(all, c->nb, n, sizeof n), a,
                 stk_scaling_n(all, c->na, m, sizeof m),
                 stk_verdict_word(&c->at_best, word, sizeof word));
    stk_pg_number(w, c->n ? c->at_n.times : c->speed, "x", what);
}

/* Of each series: "Request: K80 4 GPUs, RTX 6 GPUs (balanced). " */
static void requests_text(const struct stk_scaling *all, struct stk_buf *b)
{
    char n[80];
    for (size_t k = 0; k < all->nseries; k++) {
        const struct stk_scaling_series *s = &all->series[k];
        const struct stk_choice *c = best_choice(s);
        if (c)
            stk_buf_printf(b, "%s%.60s %s (%s%s)", b->len ? ", " : "Request: ",
                           stk_pg_series_name(s),
                           stk_scaling_n(all, s->row[c->row].n, n, sizeof n),
                           stk_wish_id((enum stk_wish)(c - s->choice)), stk_pg_doubt(c));
    }
    if (b->len)
        stk_buf_puts(b, ". ");
}

static void put_verdict(struct stk_jw *w, const struct stk_scaling *all)
{
    const struct stk_choice *c = all->nseries ? best_choice(&all->series[0]) : NULL;
    struct stk_buf b = STK_BUF_INIT;
    if (all->ncomparisons) {
        requests_text(all, &b);
        stk_buf_printf(&b, "%s%s", all->placement.found ? "Placement: " : "",
                       all->placement.found ? all->placement.text : all->comparison[0].text);
    }
    if (!b.len && c)
        stk_scale_choice_text(c, &b);
    stk_jw_put_str(w, "verdict",
                   b.len ? stk_buf_cstr(&b) : "No N can be recommended from these runs.");
    stk_buf_release(&b);
    if (all->ncomparisons)
        put_ratio(w, all, &all->comparison[0]);
    else if (c)
        put_best_n(w, all, c);
}

/* What the sentences say of the only series, in short. */
static void put_shown_facts(struct stk_jw *w, const struct stk_scaling *all,
                            const struct stk_scaling_series *s)
{
    struct stk_buf plateau = STK_BUF_INIT, serial = STK_BUF_INIT;
    stk_scale_plateau_text(all, s, &plateau);
    stk_scale_serial_text(s, &serial);
    if (plateau.len)
        stk_pg_fact_text(w, "Plateau", stk_buf_cstr(&plateau));
    if (s->laws->chosen >= 0)
        stk_pg_fact_text(w, "Law",
                         s->laws->poor ? "none fits"
                                       : stk_law_name((enum stk_law_kind)s->laws->chosen));
    if (serial.len)
        stk_pg_fact_text(w, "Serial part", stk_buf_cstr(&serial));
    stk_buf_release(&plateau);
    stk_buf_release(&serial);
}

static void put_facts(struct stk_jw *w, const struct stk_scaling *all)
{
    stk_pg_facts(w);
    stk_pg_fact_text(w, "Scaling", all->study->weak ? "weak: the problem grows with N" : "strong");
    stk_pg_fact_text(w, "N counts", all->study->unit);
    stk_pg_fact_text(w, "Compared", all->study->metric ? all->study->metric : "wall-clock time");
    stk_pg_fact(w, "Runs", (double)all->study->nruns, "count");
    if (all->nseries == 1 && all->series[0].laws)
        put_shown_facts(w, all, &all->series[0]);
    stk_jw_close(w, ']');
}

/* The sentences of the screen about a series. */
static void put_shown(struct stk_jw *w, const struct stk_scaling *all, size_t series)
{
    struct stk_buf said = STK_BUF_INIT, b = STK_BUF_INIT;
    for (size_t i = 0; stk_scale_shown(all, series, i, &said); i++) {
        if (said.len && all->nseries > 1)
            stk_buf_printf(&b, "%.100s: ", stk_pg_series_name(&all->series[series]));
        stk_buf_puts(&b, stk_buf_cstr(&said));
        if (said.len)
            stk_jw_str(w, stk_buf_cstr(&b));
        stk_buf_reset(&said);
        stk_buf_reset(&b);
    }
    stk_buf_release(&said);
    stk_buf_release(&b);
}

/* The placement, or else the first comparison, is the verdict. */
static void put_notes(struct stk_jw *w, const struct stk_scaling *all)
{
    stk_jw_key(w, "notes");
    stk_jw_open(w, '[');
    for (size_t i = all->placement.found ? 0 : 1; i < all->ncomparisons; i++)
        stk_jw_str(w, all->comparison[i].text);
    for (size_t i = 0; i < all->ncautions; i++)
        stk_jw_str(w, all->caution[i].text);
    for (size_t k = 0; k < all->nseries; k++)
        put_shown(w, all, k);
    stk_jw_close(w, ']');
}

static void put_study(struct stk_jw *w, const struct stk_scaling *all, const char *name)
{
    char title[160];
    snprintf(title, sizeof title, "Scaling over %s", all->study->unit ? all->study->unit : "N");
    stk_pg_begin(w, "study", name, title);
    put_verdict(w, all);
    put_facts(w, all);
    stk_pg_blocks(w);
    stk_pg_study_plots(w, all);
    put_choices(w, all);
    put_points(w, all);
    stk_jw_close(w, ']');
    put_notes(w, all);
    stk_pg_end(w);
}

static int finish_group(struct stk_page *page, const struct stk_study *study,
                        const struct stk_scaling_options *o, const char *name, struct stk_err *err)
{
    struct stk_scaling *all = calloc(1, sizeof *all);
    if (!all)
        return stk_err_nomem(err, sizeof *all);
    int rc = stk_scaling_compute(study, o, all, err);
    if (!rc)
        put_study(&page->w, all, name);
    stk_scaling_release(all);
    free(all);
    return rc;
}

int stk_pg_studies_finish(struct stk_page *page, struct stk_err *err)
{
    int rc = 0;
    for (size_t i = 0; page->studies && i < page->studies->n && !rc; i++)
        rc = finish_group(page, &page->studies->group[i].study, &page->studies->group[i].options,
                          page->studies->group[i].name, err);
    return rc;
}
