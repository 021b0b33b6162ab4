/*
 * study.c - scaling studies on a page: speedup with the ideal and the fitted law, time, efficiency
 * and cost over N, and the N to request. Studies that compare the same thing share their plots.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "record/folder.h"
#include "report/html/priv.h"
#include "scaling/scaling.h"

#define CURVE       48 /* points of a law */
#define STUDIES_MAX 32
#define GROWING_S   120 /* after a change, a study counts as running */

struct stk_pg_studies {
    size_t n;
    struct {
        struct stk_study study;
        struct stk_scaling_options options; /* of the first */
        char *name;                         /* of the files, separated by commas */
    } group[STUDIES_MAX];
};

void stk_pg_studies_free(struct stk_pg_studies *s)
{
    for (size_t i = 0; s && i < s->n; i++) {
        stk_study_release(&s->group[i].study);
        free(s->group[i].name);
    }
    free(s);
}

/* ---- the x axis: N ------------------------------------------------------------------------- */

static const char *unit_of(const struct stk_scaling *all)
{
    return all->study->unit ? all->study->unit : "N";
}

static const char *series_name(const struct stk_scaling_series *s)
{
    return s->from->name && *s->from->name ? s->from->name : "measured";
}

static bool good(const struct stk_scaling_row *r)
{
    return r->runs > 0;
}

static void put_n_axis(struct stk_jw *w, const struct stk_scaling *all)
{
    const struct stk_pg_axis axis = {unit_of(all), "", "log", NAN, NAN};
    stk_pg_x(w, &axis);
    stk_jw_close(w, '}');
}

static void put_mark(struct stk_jw *w, double at, const char *name)
{
    stk_jw_open(w, '{');
    stk_jw_put_f64(w, "at", at);
    stk_jw_put_str(w, "name", name);
    stk_jw_close(w, '}');
}

/* The wishes that one N fulfils, and the plateau, in one mark. */
static void mark_text(const struct stk_scaling_series *s, uint64_t n, struct stk_buf *b)
{
    for (int k = 0; k < STK_WISHES; k++)
        if (s->choice[k].asked && s->choice[k].found && s->row[s->choice[k].row].n == n)
            stk_buf_printf(b, "%s%s", b->len ? ", " : "", stk_wish_id((enum stk_wish)k));
    if (s->plateau.found && s->plateau.n == n)
        stk_buf_printf(b, "%splateau", b->len ? ", " : "");
}

/* Of the first series: marks of several would hide each other. */
static void put_marks(struct stk_jw *w, const struct stk_scaling *all)
{
    const struct stk_scaling_series *s = &all->series[0];
    stk_jw_key(w, "marks");
    stk_jw_open(w, '[');
    for (size_t i = 0; all->nseries == 1 && i < s->nrows; i++) {
        struct stk_buf b = STK_BUF_INIT;
        mark_text(s, s->row[i].n, &b);
        if (b.len)
            put_mark(w, (double)s->row[i].n, stk_buf_cstr(&b));
        stk_buf_release(&b);
    }
    stk_jw_close(w, ']');
}

/* ---- a number over N ----------------------------------------------------------------------- */

struct measure {
    size_t value;   /* offset of a double in stk_scaling_row */
    size_t range;   /* of a struct stk_interval; 0: none */
    const char *as; /* how the points are drawn */
};

static double at(const struct stk_scaling_row *r, size_t offset)
{
    double v;
    memcpy(&v, (const char *)r + offset, sizeof v);
    return v;
}

static void put_column(struct stk_jw *w, const char *key, const struct stk_scaling_series *s,
                       size_t offset)
{
    stk_jw_key(w, key);
    stk_jw_open(w, '[');
    for (size_t i = 0; i < s->nrows; i++)
        if (good(&s->row[i]))
            stk_pg_value(w, at(&s->row[i], offset));
    stk_jw_close(w, ']');
}

static void put_ns(struct stk_jw *w, const struct stk_scaling_series *s)
{
    stk_jw_key(w, "x");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < s->nrows; i++)
        if (good(&s->row[i]))
            stk_jw_u64(w, s->row[i].n);
    stk_jw_close(w, ']');
}

static void put_measured(struct stk_jw *w, const struct stk_scaling *all, const struct measure *m)
{
    for (size_t k = 0; k < all->nseries; k++) {
        const struct stk_scaling_series *s = &all->series[k];
        stk_pg_series(w, series_name(s), m->as);
        stk_jw_put_u64(w, "color", k);
        put_ns(w, s);
        put_column(w, "v", s, m->value);
        if (m->range) {
            put_column(w, "lo", s, m->range + offsetof(struct stk_interval, lo));
            put_column(w, "hi", s, m->range + offsetof(struct stk_interval, hi));
        }
        stk_jw_close(w, '}');
    }
}

/* ---- the law ------------------------------------------------------------------------------- */

struct curve {
    double n[CURVE], v[CURVE], lo[CURVE], hi[CURVE];
};

/* The speedup for a cost at n, against the base of the series. */
static double speedup_of(const struct stk_scaling *all, const struct stk_scaling_series *s,
                         double n, double cost)
{
    const struct stk_scaling_row *base = &s->row[s->base];
    return (double)base->n * base->work_cost / (all->study->weak ? cost / n : cost);
}

static bool law_curve(const struct stk_scaling *all, const struct stk_scaling_series *s,
                      bool speedup, struct curve *c)
{
    if (!s->laws || s->laws->chosen < 0 || s->base >= s->nrows || s->last >= s->nrows)
        return false;
    double from = (double)s->row[s->base].n, to = (double)s->row[s->last].n;
    for (size_t i = 0; i < CURVE; i++) {
        struct stk_prediction p;
        c->n[i] = from * pow(to / from, (double)i / (CURVE - 1));
        stk_laws_predict(s->laws, c->n[i], &p);
        double v = stk_law_time(&s->laws->fit[s->laws->chosen], c->n[i]);
        bool band = !p.refused && stk_interval_known(p.time_ci);
        c->v[i] = speedup ? speedup_of(all, s, c->n[i], v) : v;
        c->lo[i] = !band ? NAN : speedup ? speedup_of(all, s, c->n[i], p.time_ci.hi) : p.time_ci.lo;
        c->hi[i] = !band ? NAN : speedup ? speedup_of(all, s, c->n[i], p.time_ci.lo) : p.time_ci.hi;
    }
    return from < to;
}

static void put_law(struct stk_jw *w, const struct stk_scaling *all, size_t k, bool speedup)
{
    const struct stk_scaling_series *s = &all->series[k];
    struct curve c;
    char name[160];
    if (!law_curve(all, s, speedup, &c))
        return;
    if (all->nseries > 1)
        snprintf(name, sizeof name, "law of %.100s", series_name(s));
    else
        snprintf(name, sizeof name, "%s", stk_law_name((enum stk_law_kind)s->laws->chosen));
    stk_pg_series(w, name, "line");
    stk_jw_put_u64(w, "color", all->nseries > 1 ? k : 2);
    stk_pg_values(w, "x", c.n, CURVE);
    stk_pg_values(w, "v", c.v, CURVE);
    stk_pg_values(w, "lo", c.lo, CURVE);
    stk_pg_values(w, "hi", c.hi, CURVE);
    stk_jw_close(w, '}');
}

/* ---- plots --------------------------------------------------------------------------------- */

static void n_range(const struct stk_scaling *all, double *from, double *to)
{
    *from = INFINITY;
    *to = 0;
    for (size_t k = 0; k < all->nseries; k++)
        for (size_t i = 0; i < all->series[k].nrows; i++) {
            double n = (double)all->series[k].row[i].n;
            if (!good(&all->series[k].row[i]))
                continue;
            *from = fmin(*from, n);
            *to = fmax(*to, n);
        }
}

static void put_ideal(struct stk_jw *w, const struct stk_scaling *all, double (*ideal)(double n))
{
    double n[2];
    n_range(all, &n[0], &n[1]);
    double v[] = {ideal(n[0]), ideal(n[1])};
    stk_pg_series(w, "ideal", "line");
    stk_jw_put_bool(w, "dash", true);
    stk_jw_put_u64(w, "color", 6);
    stk_pg_values(w, "x", n, 2);
    stk_pg_values(w, "v", v, 2);
    stk_jw_close(w, '}');
}

static double ideal_speedup(double n)
{
    return n;
}

static double ideal_share(double n)
{
    (void)n;
    return 1;
}

static void begin_plot(struct stk_jw *w, const struct stk_scaling *all, const char *id,
                       const char *title, const char *text)
{
    stk_pg_plot(w, id, title, text);
    put_n_axis(w, all);
    put_marks(w, all);
    stk_pg_panels(w);
}

static void log_panel(struct stk_jw *w, const char *name, const char *unit, unsigned base)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "name", name);
    stk_jw_put_str(w, "unit", unit);
    stk_jw_put_str(w, "scale", "log");
    stk_jw_put_u64(w, "base", base);
    stk_jw_key(w, "series");
    stk_jw_open(w, '[');
}

static void end_plot(struct stk_jw *w)
{
    stk_pg_panel_end(w);
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

#define AT(member) offsetof(struct stk_scaling_row, member)

static void put_speedup(struct stk_jw *w, const struct stk_scaling *all)
{
    const struct measure m = {AT(speedup), AT(speedup_ci), "both"};
    begin_plot(w, all, "speedup", "Speedup",
               "Points are medians of the runs, with 95 % intervals, or ranges of fewer than six "
               "runs; the shade is the band of the fitted law. Both axes are logarithmic.");
    log_panel(w, "speedup", "x", 2);
    put_measured(w, all, &m);
    put_ideal(w, all, ideal_speedup);
    for (size_t k = 0; k < all->nseries; k++)
        put_law(w, all, k, true);
    end_plot(w);
}

static void put_value(struct stk_jw *w, const struct stk_scaling *all)
{
    const struct measure m = {AT(value), AT(value_ci), "both"};
    const char *metric = all->study->metric;
    begin_plot(w, all, "value", metric ? metric : "Time",
               metric ? "The metric as measured." : "How long a run took.");
    log_panel(w, metric ? metric : "time", metric ? "" : "s", 2);
    put_measured(w, all, &m);
    /* The law is one of costs: those of a rate are its inverse. */
    for (size_t k = 0; k < all->nseries && !all->study->higher_better; k++)
        put_law(w, all, k, false);
    end_plot(w);
}

static void put_efficiency(struct stk_jw *w, const struct stk_scaling *all)
{
    const struct measure m = {AT(efficiency), 0, "both"};
    begin_plot(w, all, "efficiency", "Efficiency",
               "Speedup per N: the share of the resources that is used well.");
    stk_pg_panel(w, "efficiency", "share");
    put_measured(w, all, &m);
    put_ideal(w, all, ideal_share);
    end_plot(w);
}

static bool any_known(const struct stk_scaling *all, size_t offset)
{
    for (size_t k = 0; k < all->nseries; k++)
        for (size_t i = 0; i < all->series[k].nrows; i++)
            if (isfinite(at(&all->series[k].row[i], offset)))
                return true;
    return false;
}

static void put_cost(struct stk_jw *w, const struct stk_scaling *all)
{
    const struct measure su = {AT(su), 0, "both"}, relative = {AT(relative_su), 0, "both"};
    bool known = any_known(all, su.value);
    begin_plot(w, all, "cost", "Cost",
               known ? "Service units per run, and as a multiple of those of the smallest N."
                     : "Service units as a multiple of those of the smallest N.");
    if (known) {
        stk_pg_panel(w, "cost", "SU");
        put_measured(w, all, &su);
        stk_pg_panel_end(w);
    }
    stk_pg_panel(w, "relative cost", "x");
    put_measured(w, all, &relative);
    end_plot(w);
}

/* ---- tables -------------------------------------------------------------------------------- */

static void put_row(struct stk_jw *w, const struct stk_scaling_series *s,
                    const struct stk_scaling_row *r)
{
    const double v[] = {r->value,      r->value_ci.lo, r->value_ci.hi, r->speedup,
                        r->efficiency, r->su,          r->relative_su, r->karp_flatt};
    stk_jw_open(w, '[');
    stk_jw_str(w, series_name(s));
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
        {"n", unit_of(all), "count"},
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
                                            {"n", unit_of(all), "count"},
                                            {"sentence", "What it gives", "text"},
                                            {"reason", "Why", "text"}};
    stk_pg_table(w, "recommended", "Recommended", NULL, columns, STK_PG_COUNT(columns));
    for (size_t k = 0; k < all->nseries; k++)
        for (int i = 0; i < STK_WISHES; i++) {
            const struct stk_choice *c = &all->series[k].choice[i];
            if (!c->asked)
                continue;
            stk_jw_open(w, '[');
            stk_jw_str(w, series_name(&all->series[k]));
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
    snprintf(what, sizeof what, "%.60s to request: %s", unit_of(all),
             stk_wish_id((enum stk_wish)(c - all->series[0].choice)));
    stk_pg_number(w, (double)all->series[0].row[c->row].n, "count", what);
}

static void put_ratio(struct stk_jw *w, const struct stk_scaling *all,
                      const struct stk_comparison *c)
{
    char what[240];
    snprintf(what, sizeof what, "as fast: %.80s against %.80s, each at its best N",
             series_name(&all->series[c->b]), series_name(&all->series[c->a]));
    stk_pg_number(w, c->speed, "x", what);
}

static void put_verdict(struct stk_jw *w, const struct stk_scaling *all)
{
    const struct stk_choice *c = all->nseries ? best_choice(&all->series[0]) : NULL;
    if (all->ncomparisons)
        stk_jw_put_str(w, "verdict", all->comparison[0].text);
    else
        stk_jw_put_str(w, "verdict", c ? c->sentence : "No N can be recommended from these runs.");
    if (all->ncomparisons)
        put_ratio(w, all, &all->comparison[0]);
    else if (c)
        put_best_n(w, all, c);
}

static void put_facts(struct stk_jw *w, const struct stk_scaling *all)
{
    const struct stk_scaling_series *s = all->nseries ? &all->series[0] : NULL;
    stk_pg_facts(w);
    stk_pg_fact_text(w, "Scaling", all->study->weak ? "weak: the problem grows with N" : "strong");
    stk_pg_fact_text(w, "N counts", all->study->unit);
    stk_pg_fact_text(w, "Compared", all->study->metric ? all->study->metric : "wall-clock time");
    stk_pg_fact(w, "Runs", (double)all->study->nruns, "count");
    stk_pg_fact(w, "Plateau", s && s->plateau.found ? (double)s->plateau.n : NAN, "count");
    if (s && s->laws && s->laws->chosen >= 0) {
        stk_pg_fact_text(w, "Law", stk_law_name((enum stk_law_kind)s->laws->chosen));
        stk_pg_fact(w, "Serial part", s->laws->fit[s->laws->chosen].serial, "share");
    }
    stk_jw_close(w, ']');
}

static void put_notes(struct stk_jw *w, const struct stk_scaling *all)
{
    stk_jw_key(w, "notes");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < all->ncomparisons; i++)
        stk_jw_str(w, all->comparison[i].text);
    for (size_t i = 0; i < all->ncautions; i++)
        stk_jw_str(w, all->caution[i].text);
    for (size_t k = 0; k < all->nseries; k++)
        if (all->series[k].laws && all->series[k].laws->chosen >= 0)
            stk_jw_str(w, all->series[k].laws->reason);
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
    put_speedup(w, all);
    put_value(w, all);
    put_efficiency(w, all);
    put_cost(w, all);
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

static int finish_studies(struct stk_page *page, struct stk_err *err)
{
    int rc = 0;
    for (size_t i = 0; page->studies && i < page->studies->n && !rc; i++)
        rc = finish_group(page, &page->studies->group[i].study, &page->studies->group[i].options,
                          page->studies->group[i].name, err);
    return rc;
}

/* ---- reading ------------------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool comparable(const struct stk_study *a, const struct stk_study *b)
{
    return same_text(a->unit, b->unit) && same_text(a->metric, b->metric) && a->weak == b->weak &&
           a->higher_better == b->higher_better && a->nseries + b->nseries <= STK_STUDY_SERIES_MAX;
}

/* Renames the unnamed series of the first study when a second one joins it. */
static int join(struct stk_pg_studies *all, size_t i, struct stk_study *study, const char *name,
                struct stk_err *err)
{
    struct stk_study *to = &all->group[i].study;
    char *names, *own = stk_arena_dup(&to->text, all->group[i].name, strlen(all->group[i].name));
    if (!own)
        return stk_err_nomem(err, strlen(all->group[i].name));
    for (size_t k = 0; k < to->nseries; k++)
        if (!*to->series[k].name)
            to->series[k].name = own;
    int rc = stk_study_append(to, study, name, err);
    if (!rc && asprintf(&names, "%s, %s", all->group[i].name, name) < 0)
        rc = stk_err_nomem(err, strlen(name));
    if (rc)
        return rc;
    free(all->group[i].name);
    all->group[i].name = names;
    return 0;
}

/* Takes ownership of the study, unless it fails. */
static int keep(struct stk_pg_studies *all, struct stk_study *study,
                const struct stk_scaling_options *o, const char *name, struct stk_err *err)
{
    for (size_t i = 0; i < all->n; i++)
        if (comparable(&all->group[i].study, study)) {
            int rc = join(all, i, study, name, err);
            if (!rc)
                stk_study_release(study);
            return rc;
        }
    char *copy = all->n < STUDIES_MAX ? strdup(name) : NULL;
    if (!copy)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "too many different studies");
    all->group[all->n].study = *study;
    all->group[all->n].options = *o;
    all->group[all->n++].name = copy;
    return 0;
}

static bool is_study(const char *name)
{
    return strcmp(name, "study.json") == 0;
}

static int read_study(const struct stk_pg_input *in, struct stk_study *study, struct stk_err *err)
{
    char *inside = in->folder ? stk_path_join(in->path, "study.json") : NULL;
    int rc = in->folder && !inside ? stk_err_nomem(err, strlen(in->path)) : 0;
    if (!rc)
        rc = stk_folder_believe(in->path, is_study, in->trust, err);
    rc = rc ? rc : stk_study_read(study, inside ? inside : in->path, "", err);
    free(inside);
    return rc;
}

/* A study publishes its file again and again while it runs. */
static bool is_growing(const struct stk_pg_input *in)
{
    struct stat st;
    char *inside = in->folder ? stk_path_join(in->path, "study.json") : NULL;
    bool recent = inside && stat(inside, &st) == 0 && time(NULL) - st.st_mtime < GROWING_S;
    free(inside);
    return recent;
}

static double setting(const struct stk_pg_input *in, const char *name)
{
    const struct stk_jval *all = in->result ? stk_json_get(in->root, "settings") : NULL;
    const struct stk_jval *one = all && all->type == STK_JOBJ ? stk_json_get(all, name) : NULL;
    double v = one && one->type == STK_JOBJ ? stk_pg_get(one, "value") : NAN;
    return v > 0 && v < 1e9 ? v : 0;
}

static void set_rate(double *rate, const struct stk_jval *weights, const char *name)
{
    double v = weights && weights->type == STK_JOBJ ? stk_pg_get(weights, name) : NAN;
    if (v >= 0 && v < 1e9)
        *rate = v;
}

/* Those of the command, so that the page has the numbers of its --json; else the defaults. */
static struct stk_scaling_options options_of(const struct stk_pg_input *in)
{
    struct stk_scaling_options o = {.su = STK_SU_RATES_INIT, .seed = 1};
    const struct stk_jval *weights = in->result ? stk_json_get(in->result, "su_weights") : NULL;
    set_rate(&o.su.core, weights, "core");
    set_rate(&o.su.gpu, weights, "gpu");
    set_rate(&o.su.node, weights, "node");
    o.cores_per_n = (int64_t)setting(in, "cores-per-n");
    o.gpus_per_n = (int64_t)setting(in, "gpus-per-n");
    o.nodes_per_n = setting(in, "nodes-per-n");
    o.deadline_s = setting(in, "deadline");
    o.max_relative_su = setting(in, "max-relative-su");
    o.seed = setting(in, "seed") > 0 ? (uint64_t)setting(in, "seed") : 1;
    return o;
}

/* "a100.json" is the study "a100". */
static void without_ending(const char *file, char *name, size_t size)
{
    const char *dot = strrchr(file, '.');
    size_t n = dot && dot > file ? (size_t)(dot - file) : strlen(file);
    snprintf(name, size, "%.*s", (int)(n < size ? n : size - 1), file);
}

static int add_study(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err)
{
    if (!page->studies && !(page->studies = calloc(1, sizeof *page->studies)))
        return stk_err_nomem(err, sizeof *page->studies);
    struct stk_study study = STK_STUDY_INIT;
    char name[STK_STUDY_TEXT_MAX + 1];
    int rc = read_study(in, &study, err);
    page->live = page->live || is_growing(in);
    without_ending(in->name, name, sizeof name);
    struct stk_scaling_options o = options_of(in);
    rc = rc ? rc : keep(page->studies, &study, &o, name, err);
    if (rc)
        stk_study_release(&study);
    return rc;
}

/* A study's folder, or its file: JSON with runs, but not a --json result. */
static bool claims(const struct stk_pg_input *in)
{
    if (!in->folder)
        return in->root && stk_json_get(in->root, "series");
    char *inside = stk_path_join(in->path, "study.json");
    bool has = inside && access(inside, F_OK) == 0;
    free(inside);
    return has;
}

const struct stk_pg_kind stk_pg_study = {.name = "study",
                                         .command = "scale",
                                         .claims = claims,
                                         .add = add_study,
                                         .finish = finish_studies};
