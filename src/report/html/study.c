/*
 * study.c - scaling studies on a page: the N to request, its reasons, and every N as a table.
 * Studies that compare the same thing share their plots (study_plots.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "record/folder.h"
#include "report/html/study.h"

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
    snprintf(what, sizeof what, "%.60s to request: %s", stk_pg_study_unit(all),
             stk_wish_id((enum stk_wish)(c - all->series[0].choice)));
    stk_pg_number(w, (double)all->series[0].row[c->row].n, "count", what);
}

static void put_ratio(struct stk_jw *w, const struct stk_scaling *all,
                      const struct stk_comparison *c)
{
    char what[240];
    snprintf(what, sizeof what, "as fast: %.80s against %.80s, each at its best N",
             stk_pg_series_name(&all->series[c->b]), stk_pg_series_name(&all->series[c->a]));
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
    const struct stk_scaling_series *s = all->nseries == 1 ? &all->series[0] : NULL;
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

/* Which law describes a series, and why that one. */
static void put_law_note(struct stk_jw *w, const struct stk_scaling *all,
                         const struct stk_scaling_series *s)
{
    struct stk_buf b = STK_BUF_INIT;
    if (!s->laws || s->laws->chosen < 0)
        return;
    if (all->nseries > 1)
        stk_buf_printf(&b, "%.100s: ", stk_pg_series_name(s));
    stk_buf_printf(&b, "the law is %s; %s", stk_law_name((enum stk_law_kind)s->laws->chosen),
                   s->laws->reason);
    stk_jw_str(w, stk_buf_cstr(&b));
    stk_buf_release(&b);
}

/* The first comparison is the verdict. */
static void put_notes(struct stk_jw *w, const struct stk_scaling *all)
{
    stk_jw_key(w, "notes");
    stk_jw_open(w, '[');
    for (size_t i = 1; i < all->ncomparisons; i++)
        stk_jw_str(w, all->comparison[i].text);
    for (size_t i = 0; i < all->ncautions; i++)
        stk_jw_str(w, all->caution[i].text);
    for (size_t k = 0; k < all->nseries; k++)
        put_law_note(w, all, &all->series[k]);
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

/* Gives the series without a name that of their file. */
static int name_series(struct stk_study *study, const char *name, struct stk_err *err)
{
    char *own = stk_arena_dup(&study->text, name, strlen(name));
    if (!own)
        return stk_err_nomem(err, strlen(name));
    for (size_t k = 0; k < study->nseries; k++)
        if (!*study->series[k].name)
            study->series[k].name = own;
    return 0;
}

static bool has_series(const struct stk_study *study, const char *name)
{
    for (size_t k = 0; k < study->nseries; k++)
        if (strcmp(study->series[k].name, name) == 0)
            return true;
    return false;
}

/* Series of different files are different ones, even if they are called the same: the runs of two
 * kinds of GPU must not become one median. */
static int rename_taken(const struct stk_study *to, struct stk_study *study, const char *name,
                        struct stk_err *err)
{
    for (size_t k = 0; k < study->nseries; k++) {
        const char *old = study->series[k].name;
        char fresh[STK_STUDY_TEXT_MAX + 1];
        snprintf(fresh, sizeof fresh, "%.120s: %.120s", name, old);
        for (unsigned i = 2; has_series(to, fresh) && i < 10000; i++)
            snprintf(fresh, sizeof fresh, "%.110s: %.110s (%u)", name, old, i);
        if (!has_series(to, old))
            continue;
        study->series[k].name = stk_arena_dup(&study->text, fresh, strlen(fresh));
        if (!study->series[k].name)
            return stk_err_nomem(err, strlen(fresh));
    }
    return 0;
}

/* The series of the first study get names when a second one joins it. */
static int join(struct stk_pg_studies *all, size_t i, struct stk_study *study, const char *name,
                struct stk_err *err)
{
    struct stk_study *to = &all->group[i].study;
    char *names;
    int rc = name_series(to, all->group[i].name, err);
    rc = rc ? rc : name_series(study, name, err);
    rc = rc ? rc : rename_taken(to, study, name, err);
    rc = rc ? rc : stk_study_append(to, study, name, err);
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
    static const char ending[] = ".json";
    size_t n = strlen(file), m = sizeof ending - 1;
    if (n > m && strcmp(file + n - m, ending) == 0)
        n -= m;
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
