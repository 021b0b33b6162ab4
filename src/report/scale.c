/* scale.c - the result of `stoker scale`. docs/scale.md defines each number. */
#include "report/scale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"
#include "report/report_priv.h"
#include "result/blocks.h"
#include "result/page.h"
#include "result/screen.h"

/* A series, and what is in it, with the study that it belongs to. */
struct series {
    const struct stk_scaling *all;
    const struct stk_scaling_series *s;
    const struct stk_scaling_row *row;
    size_t nrows;
    union {
        const struct stk_choice *choice;
        const struct stk_prediction *prediction;
    };
};

const char *stk_scale_series_word(const char *name)
{
    return *name ? name : "measured";
}

static double n_if(bool known, uint64_t n)
{
    return known ? (double)n : NAN;
}

/* ---- every N ---------------------------------------------------------------------------- */

static double half_width(const void *base)
{
    const struct stk_scaling_row *r = base;
    struct stk_interval i = r->value_ci;
    return stk_interval_known(i) ? fmax(r->value - i.lo, i.hi - r->value) : NAN;
}

static const char *failure_word(const char *id)
{
    int status = stk_run_status_find(id, strlen(id));
    return status >= 0 ? stk_run_status_word((enum stk_run_status)status) : id;
}

static const struct stk_result_field mode_fields[] = {
    {"cost", NULL, STK_U_PLAIN, STK_FROM(struct stk_modes, mode[0].median)},
    {"runs", NULL, STK_U_COUNT, STK_FROM(struct stk_modes, mode[0].runs)},
    {NULL}};

/* null unless there are several. */
static void put_modes(const void *base, struct stk_jw *w)
{
    const struct stk_modes *m = base;
    if (m->n > 1)
        stk_rows_put(mode_fields, m, m->n, sizeof m->mode[0], w);
    else
        stk_jw_null(w);
}

#define ROW(member) STK_FROM(struct stk_scaling_row, member)
STK_NUMBER_OF(row_coverage, struct stk_scaling_row, r->runs ? r->cost.coverage : NAN)
STK_TEXT_OF(row_failure, struct stk_scaling_row,
            r->bad + r->lost ? stk_run_status_ids[r->why] : NULL)

static const struct stk_result_field row_fields[] = {
    {"n", "N", STK_U_COUNT, ROW(n)},
    {"runs", "runs", STK_U_COUNT, ROW(runs), "runs that ended well"},
    {"failed_runs", "failed", STK_U_COUNT, ROW(bad), .flags = STK_F_PAGE | STK_F_IF_SET},
    {"lost_runs", "lost", STK_U_COUNT, ROW(lost), "runs that were cancelled, or never started",
     STK_F_PAGE | STK_F_IF_SET},
    {"failure", "failure", STK_U_TEXT, .put = row_failure, .word = failure_word,
     .flags = STK_F_IF_SET | STK_F_CUT_END},
    {"failure_note", NULL, STK_U_TEXT, ROW(note)},
    {"failure_output", NULL, STK_U_TEXT, ROW(output)},
    {"value", "time", STK_U_SECONDS, ROW(value), "median of the runs", .titled = "study.metric"},
    {"value_interval", NULL, STK_U_LIST, ROW(value_ci)},
    {"value_half_width", stk_plus_minus, STK_U_SECONDS, .number = half_width,
     .flags = STK_F_IF_SET | STK_F_OWN_TITLE,
     .titled = "study.metric", .meaning = "the larger half of value_interval"},
    {"interval_is_range", NULL, STK_U_FLAG, ROW(cost.ci_is_range)},
    {"interval_coverage", NULL, STK_U_SHARE, .number = row_coverage,
     .meaning = "how often such an interval contains the median; a range: if the number of runs was "
                "fixed beforehand"},
    {"time_s", NULL, STK_U_SECONDS, ROW(wall_s)},
    {"speedup", "speedup", STK_U_TIMES, ROW(speedup), "against the smallest N of the series"},
    {"speedup_interval", NULL, STK_U_LIST, ROW(speedup_ci)},
    {"efficiency", "efficiency", STK_U_SHARE, ROW(efficiency), "speedup per N"},
    {"karp_flatt", "Karp-Flatt", STK_U_SHARE, ROW(karp_flatt),
     "the serial part that this N alone would imply"},
    {"cores", NULL, STK_U_PLAIN, ROW(cores)},
    {"gpus", NULL, STK_U_PLAIN, ROW(gpus)},
    {"nodes", NULL, STK_U_PLAIN, ROW(nodes)},
    {"su", "SU", STK_U_PLAIN, ROW(su), "service units of a run", STK_F_IF_SET},
    {"relative_su", "rel. SU", STK_U_TIMES, ROW(relative_su), "SUs, against the smallest N"},
    {"outliers", NULL, STK_U_COUNT, ROW(cost.outliers)},
    {"modes", NULL, STK_U_ANY, STK_FROM_AS(STRUCT, struct stk_scaling_row, modes),
     .put = put_modes},
    {"common_speedup", NULL, STK_U_TIMES, ROW(common_speedup),
     "speedup against N = 1 of the series with the slowest base"},
    {"common_speedup_interval", NULL, STK_U_LIST, ROW(common_speedup_ci)},
    {NULL}};

/* ---- laws ------------------------------------------------------------------------------- */

#define FIT(member) STK_FROM(struct stk_law_fit, member)
#define FIT_BEGIN                                                                                  \
    {"t1", NULL, STK_U_PLAIN, FIT(t1_s), "cost of N = 1"},                                         \
        {"t1_interval", NULL, STK_U_LIST, FIT(t1_ci)},                                             \
        {"serial", NULL, STK_U_SHARE, FIT(serial), "the part that does not get faster"},           \
        {"serial_interval", NULL, STK_U_LIST, FIT(serial_ci)}
#define FIT_END                                                                                    \
    {"relative_residual", NULL, STK_U_SHARE, FIT(rms)}, {"aicc", NULL, STK_U_PLAIN, FIT(aicc)},    \
        {"leave_one_out_smape", NULL, STK_U_SHARE, FIT(loo_smape)},                                \
    {                                                                                              \
        NULL                                                                                       \
    }
static const struct stk_result_field fit_fields[] = {FIT_BEGIN, FIT_END};
static const struct stk_result_field usl_fields[] = {
    FIT_BEGIN,
    {"coherence", NULL, STK_U_SHARE, FIT(coherence)},
    {"coherence_interval", NULL, STK_U_LIST, FIT(coherence_ci)},
    {"peak_n", NULL, STK_U_PLAIN, FIT(peak_n)},
    {"peak_n_interval", NULL, STK_U_LIST, FIT(peak_ci)},
    FIT_END};

static void put_fit(const struct stk_law_fit *f, const struct stk_result_field *of,
                    struct stk_jw *w)
{
    if (!f->ok) {
        stk_jw_null(w);
        return;
    }
    stk_jw_open(w, '{');
    stk_fields_put(of, f, w);
    stk_jw_close(w, '}');
}

#define PUT_FIT(name, kind, of)                                                                    \
    static void name(const void *base, struct stk_jw *w)                                           \
    {                                                                                              \
        const struct series *r = base;                                                             \
        put_fit(&r->s->laws->fit[kind], of, w);                                                    \
    }
PUT_FIT(put_amdahl, STK_LAW_AMDAHL, fit_fields)
PUT_FIT(put_gustafson, STK_LAW_GUSTAFSON, fit_fields)
PUT_FIT(put_usl, STK_LAW_USL, usl_fields)

#define CURVE_POINTS 48

/* The chosen law between the smallest and the largest N, with the band of a prediction. */
static void put_curve(const void *base, struct stk_jw *w)
{
    const struct series *r = base;
    const struct stk_scaling_series *s = r->s;
    bool drawn = s->laws->chosen >= 0 && s->base < s->last && s->last < s->nrows;
    double from = drawn ? (double)s->row[s->base].n : 1, to = drawn ? (double)s->row[s->last].n : 1;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < CURVE_POINTS && drawn; i++) {
        struct stk_prediction p;
        double n = from * pow(to / from, (double)i / (CURVE_POINTS - 1));
        double cost = stk_law_time(&s->laws->fit[s->laws->chosen], n);
        stk_laws_predict(s->laws, n, &p);
        struct stk_interval ci = p.refused ? (struct stk_interval){NAN, NAN} : p.time_ci;
        struct stk_interval speedup = {stk_scaling_speedup(r->all, n, ci.hi),
                                       stk_scaling_speedup(r->all, n, ci.lo)};
        stk_jw_open(w, '{');
        stk_jw_put_f64(w, "n", n);
        stk_jw_put_f64(w, "cost", cost);
        stk_report_interval(w, "cost_interval", ci);
        stk_jw_put_f64(w, "common_speedup", stk_scaling_speedup(r->all, n, cost));
        stk_report_interval(w, "common_speedup_interval", speedup);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

const char *stk_scale_law_word(const char *id)
{
    for (int k = 0; k < STK_LAWS; k++)
        if (strcmp(stk_law_id((enum stk_law_kind)k), id) == 0)
            return stk_law_name((enum stk_law_kind)k);
    return id;
}

#define SERIES_NUMBER(name, expression) STK_NUMBER_OF(name, struct series, expression)
#define SERIES_TEXT(name, expression)   STK_TEXT_OF(name, struct series, expression)
#define LAW_ID(k)                       ((k) < 0 ? NULL : stk_law_id((enum stk_law_kind)(k)))
SERIES_TEXT(law_chosen, LAW_ID(r->s->laws->chosen))
SERIES_TEXT(law_rival, LAW_ID(r->s->laws->rival))
SERIES_TEXT(law_reason, r->s->laws->reason)
SERIES_NUMBER(law_peak, r->s->laws->has_peak ? r->s->laws->fit[r->s->laws->chosen].peak_n : NAN)

STK_BOOL_OF(law_poor, struct series, r->s->laws->poor)

static const struct stk_result_field law_fields[] = {
    {"amdahl", NULL, STK_U_GROUP, .put = put_amdahl, .of = fit_fields},
    {"gustafson", NULL, STK_U_GROUP, .put = put_gustafson, .of = fit_fields},
    {"usl", NULL, STK_U_GROUP, .put = put_usl, .of = usl_fields},
    {"chosen", "law", STK_U_TEXT, .put = law_chosen, .word = stk_scale_law_word},
    {"rival", NULL, STK_U_TEXT, .put = law_rival},
    {"reason", NULL, STK_U_TEXT, .put = law_reason},
    {"poor_fit", NULL, STK_U_FLAG, .put = law_poor},
    {"peak_n", NULL, STK_U_PLAIN, .number = law_peak},
    {"curve", NULL, STK_U_ANY, .put = put_curve, .meaning = "the chosen law, to be drawn"},
    {NULL}};

/* ---- the plateau, recommendations, predictions ------------------------------------------ */

#define PLATEAU(name, expression) STK_NUMBER_OF(name, struct stk_plateau, expression)
PLATEAU(plateau_n, n_if(r->found, r->n))
PLATEAU(plateau_best, r->found ? r->best_share : NAN)
PLATEAU(plateau_best_n, n_if(r->found, r->best_n))
STK_BOOL_OF(plateau_sure, struct stk_plateau, r->found && r->sure)

static void plateau_step(const void *base, struct stk_jw *w)
{
    const struct stk_plateau *p = base;
    if (p->has_last_step)
        stk_verdict_put(&p->last_step, w);
    else
        stk_jw_null(w);
}

static const struct stk_result_field plateau_fields[] = {
    {"n", "plateau from N", STK_U_COUNT, .number = plateau_n},
    {"best_share_beyond", NULL, STK_U_SHARE, .number = plateau_best},
    {"best_share_at", NULL, STK_U_COUNT, .number = plateau_best_n},
    {"noise_known", NULL, STK_U_FLAG, STK_FROM(struct stk_plateau, noise_known)},
    {"sure", NULL, STK_U_FLAG, .put = plateau_sure},
    {"last_step", NULL, STK_U_ANY, .put = plateau_step},
    {NULL}};

static void put_plateau(const void *base, struct stk_jw *w)
{
    const struct series *r = base;
    stk_jw_open(w, '{');
    stk_fields_put(plateau_fields, &r->s->plateau, w);
    stk_jw_close(w, '}');
}

SERIES_TEXT(choice_wish, stk_wish_id((enum stk_wish)(r->choice - r->s->choice)))
SERIES_NUMBER(choice_n, n_if(r->choice->found, r->choice->found ? r->s->row[r->choice->row].n : 0))
SERIES_TEXT(choice_sentence, r->choice->sentence)
SERIES_TEXT(choice_reason, r->choice->reason)
STK_BOOL_OF(choice_known, struct series, r->choice->found && r->choice->known)

static const struct stk_result_field choice_fields[] = {
    {"wish", "wish", STK_U_TEXT, .put = choice_wish},
    {"n", "N", STK_U_COUNT, .number = choice_n},
    {"known", NULL, STK_U_FLAG, .put = choice_known},
    {"sentence", "what it gives", STK_U_PROSE, .put = choice_sentence},
    {"reason", "why", STK_U_PROSE, .put = choice_reason},
    {NULL}};

static void put_choices(const void *base, struct stk_jw *w)
{
    struct series one = *(const struct series *)base;
    stk_jw_open(w, '{');
    for (int k = 0; k < STK_WISHES; k++) {
        one.choice = &one.s->choice[k];
        if (!one.choice->asked)
            continue;
        stk_jw_key(w, stk_wish_id((enum stk_wish)k));
        stk_jw_open(w, '{');
        stk_fields_put(choice_fields, &one, w);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, '}');
}

/* "would take 9.49 s", "would give 1,200", with the interval. */
static void prediction_text(const void *base, struct stk_jw *w)
{
    const struct series *r = base;
    const struct stk_prediction *p = r->prediction;
    const struct stk_study *study = r->all->study;
    bool rate = study->metric && study->higher_better;
    enum stk_unit unit = study->metric ? STK_U_PLAIN : STK_U_SECONDS;
    char a[48], b[48], c[48];
    struct stk_buf text = STK_BUF_INIT;
    if (p->refused)
        stk_buf_printf(&text, "N=%.0f: not predicted; %s.", p->n, p->why);
    else
        stk_buf_printf(
            &text, "N=%.0f would %s %s (95 %%: %s to %s), %s.", p->n,
            study->metric ? "give" : "take",
            stk_unit_text(unit, rate ? 1 / p->time_s : p->time_s, a, sizeof a),
            stk_unit_text(unit, rate ? 1 / p->time_ci.hi : p->time_ci.lo, b, sizeof b),
            stk_unit_text(unit, rate ? 1 / p->time_ci.lo : p->time_ci.hi, c, sizeof c), p->why);
    stk_jw_str(w, stk_buf_cstr(&text));
    stk_buf_release(&text);
}

static const struct stk_result_field prediction_fields[] = {
    {"n", NULL, STK_U_PLAIN, STK_FROM(struct stk_prediction, n)},
    {"refused", NULL, STK_U_FLAG, STK_FROM(struct stk_prediction, refused)},
    {"why", NULL, STK_U_TEXT, STK_FROM_AS(CHARS, struct stk_prediction, why)},
    {"cost", NULL, STK_U_PLAIN, STK_FROM(struct stk_prediction, time_s)},
    {"cost_interval", NULL, STK_U_LIST, STK_FROM(struct stk_prediction, time_ci)},
    {NULL}};
static const struct stk_result_field prediction_text_fields[] = {
    {"", NULL, STK_U_GROUP, STK_FROM_AS(POINTER, struct series, prediction),
     .of = prediction_fields},
    {"text", NULL, STK_U_PROSE, .put = prediction_text, .flags = STK_F_NOTE},
    {NULL}};

static void put_predictions(const void *base, struct stk_jw *w)
{
    struct series one = *(const struct series *)base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < one.all->o.npredict; i++) {
        one.prediction = &one.s->prediction[i];
        stk_jw_open(w, '{');
        stk_fields_put(prediction_text_fields, &one, w);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

/* ---- what the numbers of a series mean -------------------------------------------------- */

/* " (95 %: 7.8 to 8.3 %)", nothing without an interval. */
static const char *interval_text(struct stk_interval i, double factor, const char *unit, char *buf,
                                 size_t size)
{
    if (stk_interval_known(i))
        snprintf(buf, size, " (95 %%: %.3g to %.3g%s)", i.lo * factor, i.hi * factor, unit);
    else if (isfinite(i.lo))
        snprintf(buf, size, " (95 %%: %.3g%s or more)", i.lo * factor, unit);
    else
        snprintf(buf, size, " (no interval: too few data)");
    return buf;
}

/* "20.3 % (95 %: 0 to 48.6 %)". */
static void add_serial(const struct stk_laws *l, struct stk_buf *out)
{
    const struct stk_interval ci = l->serial_ci;
    char text[80];
    if (stk_interval_known(ci) && ci.hi - ci.lo > STK_LAW_UNDECIDED)
        stk_buf_printf(out, "anything from %.3g to %.3g %%", 100 * ci.lo, 100 * ci.hi);
    else
        stk_buf_printf(out, "%.3g %%%s", 100 * l->fit[l->chosen].serial,
                       interval_text(ci, 100, " %", text, sizeof text));
}

static void add_law(const struct series *r, struct stk_buf *out)
{
    const struct stk_laws *l = r->s->laws;
    if (l->chosen < 0) {
        stk_buf_printf(out, "Law: none; %s.", l->reason);
        return;
    }
    const struct stk_law_fit *f = &l->fit[l->chosen];
    char text[80];
    stk_buf_printf(out, "Law: ");
    if (l->poor) { /* it has no parameters */
        stk_buf_printf(out, "none fits; the best, %s, misses the points by %s.",
                       stk_law_name(f->kind), stk_format_share(f->rms, text, sizeof text));
        return;
    }
    stk_buf_printf(out, "%s%s", stk_law_name(f->kind),
                   f->kind == STK_LAW_USL ? " with contention "
                   : stk_interval_known(l->serial_ci) && !stk_laws_known(l)
                       ? ", but its serial part could be "
                       : " with a serial part of ");
    add_serial(l, out);
    if (f->kind == STK_LAW_USL)
        stk_buf_printf(out, " and coherence %.3g %%%s", 100 * f->coherence,
                       interval_text(f->coherence_ci, 100, " %", text, sizeof text));
    stk_buf_printf(out, "; %s.", l->reason);
}

/* 1/f, which is very uncertain for a small f: given only if the law may predict N larger than
 * measured, and the data bound it. */
static void add_limit(const struct series *r, struct stk_buf *out)
{
    const struct stk_laws *l = r->s->laws;
    struct stk_interval ci = l->serial_ci;
    char a[24], b[24], c[24];
    if (l->chosen != STK_LAW_AMDAHL || l->poor || r->all->study->weak || r->s->superlinear ||
        !stk_interval_known(ci) || !(ci.lo > 0) || !stk_laws_reach_beyond(l))
        return;
    stk_buf_printf(
        out, "Limit: it cannot become more than about %s as fast as N=1 (95 %%: %s to %s).",
        stk_format_times(1 / l->fit[STK_LAW_AMDAHL].serial, a, sizeof a),
        stk_format_times(1 / ci.hi, b, sizeof b), stk_format_times(1 / ci.lo, c, sizeof c));
}

/* A law of which the runs show nothing has no peak, and no lack of one. */
static void add_peak(const struct series *r, struct stk_buf *out)
{
    const struct stk_laws *l = r->s->laws;
    char text[80];
    if (l->chosen < 0 || l->poor)
        return;
    const struct stk_law_fit *f = &l->fit[l->chosen];
    if (l->has_peak)
        stk_buf_printf(out, "Peak: N=%.0f%s %s.", f->peak_n,
                       interval_text(f->peak_ci, 1, "", text, sizeof text),
                       f->peak_n > l->n_max
                           ? "would be the fastest by the law; it was not measured"
                           : "is the fastest by the law; more makes it slower");
    else if (l->npoints > 2 && stk_laws_known(l))
        stk_buf_puts(out, "Peak: none within the data (up to twice the largest N).");
}

static void add_plateau(const struct series *r, struct stk_buf *out)
{
    const struct stk_plateau *p = &r->s->plateau;
    char n[80], m[80], share[24], step[STK_VERDICT_TEXT];
    const struct stk_scaling_row *last = &r->s->row[r->s->last];
    bool doubt = p->has_last_step && stk_interval_known(p->last_step.ci) &&
                 p->last_step.kind != STK_VERDICT_FASTER;
    if (p->found)
        stk_buf_printf(out,
                       "Plateau: %s. No larger N measured gains a quarter of its proportional "
                       "share; the best, %s, gains %s of it%s.",
                       stk_scaling_n(r->all, p->n, n, sizeof n),
                       stk_scaling_n(r->all, p->best_n, m, sizeof m),
                       stk_format_share(fmax(p->best_share, 0), share, sizeof share),
                       p->sure          ? ""
                       : p->noise_known ? "; more runs may show that it begins later"
                                        : "; whether it begins later is not known from one run of "
                                          "each");
    else if (r->s->base == r->s->last)
        stk_buf_puts(out, "Plateau: not known from one N.");
    else
        stk_buf_printf(out, "Plateau: none up to %s%s%s%s.",
                       stk_scaling_n(r->all, last->n, n, sizeof n),
                       p->noise_known ? "" : ", as one run of each shows it",
                       doubt ? "; its last step: " : "",
                       doubt ? stk_verdict_text(&p->last_step, step, sizeof step) : "");
}

static void put_said(void (*add)(const struct series *, struct stk_buf *), const struct series *r,
                     struct stk_jw *w)
{
    struct stk_buf text = STK_BUF_INIT;
    if (r->s->base < r->s->nrows)
        add(r, &text);
    stk_jw_str(w, text.len ? stk_buf_cstr(&text) : NULL);
    stk_buf_release(&text);
}

#define PUT_SAID(name, add)                                                                        \
    static void name(const void *base, struct stk_jw *w)                                           \
    {                                                                                              \
        put_said(add, base, w);                                                                    \
    }
PUT_SAID(law_text, add_law)
PUT_SAID(limit_text, add_limit)
PUT_SAID(peak_text, add_peak)
PUT_SAID(plateau_text, add_plateau)

/* ---- a series --------------------------------------------------------------------------- */

/* What service units would need, as names of JSON and in words. */
static const struct {
    const char *name, *what;
} su_parts[] = {/* bits of enum stk_su_missing */
                {"cores", "the number of cores (column cores, or --cores-per-n)"},
                {"gpus", "the number of GPUs (column gpus, or --gpus-per-n)"},
                {"nodes", "the number of nodes (column nodes, or --nodes-per-n)"},
                {"time", "the time of a run (column time)"}};

static void put_missing(const void *base, struct stk_jw *w)
{
    const struct series *r = base;
    stk_jw_open(w, '[');
    for (unsigned i = 0; i < STK_PG_COUNT(su_parts); i++)
        if (r->s->su_missing >> i & 1)
            stk_jw_str(w, su_parts[i].name);
    stk_jw_close(w, ']');
}

STK_BOOL_OF(put_superlinear, struct series, r->s->superlinear)
SERIES_TEXT(series_name, r->s->from->name)
SERIES_TEXT(series_noise, stk_noise_word(stk_noise_verdict(&r->s->noise)))
SERIES_NUMBER(series_base, n_if(r->s->base < r->s->nrows,
                                r->s->base < r->s->nrows ? r->s->row[r->s->base].n : 0))
SERIES_NUMBER(series_sd, r->s->noise.relative_sd)
STK_BOOL_OF(series_su_known, struct series, r->s->su_known)

static const struct stk_result_field series_fields[] = {
    {"name", "series", STK_U_TEXT, .put = series_name, .word = stk_scale_series_word},
    {"base_n", "smallest N", STK_U_COUNT, .number = series_base,
     .meaning = "speedups are against it"},
    {"noise", "noise", STK_U_TEXT, .put = series_noise},
    {"noise_relative_sd", "standard deviation of a run", STK_U_SHARE, .number = series_sd},
    {"relative_su_from_allocation", NULL, STK_U_FLAG, .put = series_su_known},
    {"su_missing", NULL, STK_U_LIST, .put = put_missing},
    {"superlinear", NULL, STK_U_FLAG, .put = put_superlinear},
    {"points", "every N", STK_U_TABLE, STK_FROM_ARRAY(struct series, row, nrows),
     .of = row_fields},
    {"laws", NULL, STK_U_GROUP, .of = law_fields},
    {"plateau", NULL, STK_U_GROUP, .put = put_plateau, .of = plateau_fields},
    {"recommended", "recommended", STK_U_TABLE, .put = put_choices, .of = choice_fields,
     .flags = STK_F_MAP},
    {"predictions", NULL, STK_U_TABLE, .put = put_predictions, .of = prediction_text_fields},
    {"law_text", NULL, STK_U_PROSE, .put = law_text, .flags = STK_F_NOTE},
    {"limit_text", NULL, STK_U_PROSE, .put = limit_text, .flags = STK_F_NOTE},
    {"peak_text", NULL, STK_U_PROSE, .put = peak_text, .flags = STK_F_NOTE},
    {"plateau_text", NULL, STK_U_PROSE, .put = plateau_text, .flags = STK_F_NOTE},
    {NULL}};

static void put_series(const void *base, struct stk_jw *w)
{
    const struct stk_scaling *all = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < all->nseries; i++) {
        const struct series one = {.all = all, .s = &all->series[i], all->series[i].row,
                                   all->series[i].nrows};
        stk_jw_open(w, '{');
        stk_fields_put(series_fields, &one, w);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

/* ---- several series --------------------------------------------------------------------- */

#define COMPARED(member) STK_FROM(struct stk_comparison, member)
STK_NUMBER_OF(compared_clear, struct stk_comparison,
              n_if(stk_interval_known(r->at_best.ci), r->clear))
STK_NUMBER_OF(compared_n, struct stk_comparison, n_if(r->n > 0, r->n))

static void compared_pays(const void *base, struct stk_jw *w)
{
    const struct stk_comparison *c = base;
    if (c->accelerator && isfinite(c->su))
        stk_jw_bool(w, c->pays);
    else
        stk_jw_null(w);
}

static const struct stk_result_field comparison_fields[] = {
    {"a", NULL, STK_U_COUNT, COMPARED(a)},
    {"b", NULL, STK_U_COUNT, COMPARED(b)},
    {"accelerator", NULL, STK_U_FLAG, COMPARED(accelerator)},
    {"pays", NULL, STK_U_FLAG, .put = compared_pays, .flags = STK_F_KNOWN},
    {"speed_of_b", NULL, STK_U_TIMES, COMPARED(speed)},
    {"su_of_b", NULL, STK_U_TIMES, COMPARED(su)},
    {"common_n", NULL, STK_U_COUNT, COMPARED(common)},
    {"clear_of_noise", NULL, STK_U_COUNT, .number = compared_clear},
    {"n", NULL, STK_U_COUNT, .number = compared_n},
    {"at_n", NULL, STK_U_ANY, STK_FROM_AS(STRUCT, struct stk_comparison, at_n),
     .put = stk_verdict_put},
    {"at_best", NULL, STK_U_ANY, STK_FROM_AS(STRUCT, struct stk_comparison, at_best),
     .put = stk_verdict_put},
    {"text", NULL, STK_U_PROSE, STK_FROM_AS(CHARS, struct stk_comparison, text),
     .flags = STK_F_NOTE},
    {NULL}};

static void put_placement(const void *base, struct stk_jw *w)
{
    const struct stk_placement *p = base;
    if (!p->found) {
        stk_jw_null(w);
        return;
    }
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "n", p->n);
    stk_jw_put_u64(w, "best", p->best);
    stk_jw_put_f64(w, "speed", p->speed);
    stk_report_verdict(w, "verdict", &p->verdict);
    stk_jw_put_str(w, "text", p->text);
    stk_jw_close(w, '}');
}

#define CAUTION(member) STK_FROM(struct stk_caution, member)
static const struct stk_result_field caution_fields[] = {
    {"id", NULL, STK_U_TEXT, CAUTION(id)},
    {"series", NULL, STK_U_COUNT, CAUTION(series)},
    {"text", NULL, STK_U_PROSE, CAUTION(text), .flags = STK_F_NOTE},
    {NULL}};

/* ---- what a page says first ------------------------------------------------------------- */

static const struct stk_choice *best_choice(const struct stk_scaling_series *s)
{
    static const enum stk_wish order[] = {STK_WISH_DEADLINE, STK_WISH_MAX_SU, STK_WISH_BALANCED,
                                          STK_WISH_FASTEST};
    for (size_t i = 0; i < STK_PG_COUNT(order); i++)
        if (s->choice[order[i]].asked && s->choice[order[i]].found)
            return &s->choice[order[i]];
    return NULL;
}

static const char *name_of(const struct stk_scaling *all, size_t series)
{
    return stk_scale_series_word(all->series[series].from->name);
}

/* "balanced, not known" */
static void add_wish(const struct stk_scaling_series *s, const struct stk_choice *c,
                     struct stk_buf *out)
{
    stk_buf_printf(out, "%s%s", stk_wish_id((enum stk_wish)(c - s->choice)),
                   c->known ? "" : ", not known");
}

/* Of each series: "Request: K80 4 GPUs, RTX 6 GPUs (balanced). " */
static void add_requests(const struct stk_scaling *all, struct stk_buf *out)
{
    char n[80];
    for (size_t k = 0; k < all->nseries; k++) {
        const struct stk_scaling_series *s = &all->series[k];
        const struct stk_choice *c = best_choice(s);
        if (!c)
            continue;
        stk_buf_printf(out, "%s%.60s %s (", out->len ? ", " : "Request: ", name_of(all, k),
                       stk_scaling_n(all, s->row[c->row].n, n, sizeof n));
        add_wish(s, c, out);
        stk_buf_putc(out, ')');
    }
    if (out->len)
        stk_buf_puts(out, ". ");
}

static void put_verdict(const void *base, struct stk_jw *w)
{
    const struct stk_scaling *all = base;
    const struct stk_choice *c = all->nseries ? best_choice(&all->series[0]) : NULL;
    struct stk_buf text = STK_BUF_INIT;
    if (all->ncomparisons) {
        add_requests(all, &text);
        stk_buf_printf(&text, "%s%s", all->placement.found ? "Placement: " : "",
                       all->placement.found ? all->placement.text : all->comparison[0].text);
    } else if (c) {
        stk_buf_printf(&text, "%s; %s.", c->sentence, c->reason);
    }
    stk_jw_str(w, text.len ? stk_buf_cstr(&text) : "No N can be recommended from these runs.");
    stk_buf_release(&text);
}

static double headline_times(const void *base)
{
    const struct stk_scaling *all = base;
    const struct stk_comparison *c = all->comparison;
    return !all->ncomparisons ? NAN : c->n ? c->at_n.times : c->speed;
}

static double headline_n(const void *base)
{
    const struct stk_scaling *all = base;
    const struct stk_choice *c = all->nseries ? best_choice(&all->series[0]) : NULL;
    return c && !all->ncomparisons ? (double)all->series[0].row[c->row].n : NAN;
}

/* What the number is of. */
static void headline_note(const void *base, struct stk_jw *w)
{
    const struct stk_scaling *all = base;
    const struct stk_comparison *c = all->comparison;
    struct stk_buf text = STK_BUF_INIT;
    char n[80], m[80], word[40];
    if (all->ncomparisons && c->n)
        stk_buf_printf(&text, "with %s, %.60s against %.60s (%s)",
                       stk_scaling_n(all, c->n, n, sizeof n), name_of(all, c->b),
                       name_of(all, c->a), stk_verdict_word(&c->at_n, word, sizeof word));
    else if (all->ncomparisons)
        stk_buf_printf(&text, "%.60s with %.40s against %.60s with %.40s, each at its fastest (%s)",
                       name_of(all, c->b), stk_scaling_n(all, c->nb, n, sizeof n),
                       name_of(all, c->a), stk_scaling_n(all, c->na, m, sizeof m),
                       stk_verdict_word(&c->at_best, word, sizeof word));
    else if (isfinite(headline_n(all)))
        add_wish(&all->series[0], best_choice(&all->series[0]), &text);
    stk_jw_str(w, text.len ? stk_buf_cstr(&text) : NULL);
    stk_buf_release(&text);
}

static const struct stk_result_field headline_fields[] = {
    {"times", "as fast", STK_U_TIMES, .number = headline_times,
     .flags = STK_F_LEAD | STK_F_PAGE},
    {"n", "N to request", STK_U_COUNT, .number = headline_n, .flags = STK_F_LEAD | STK_F_PAGE},
    {"note", NULL, STK_U_TEXT, .put = headline_note},
    {NULL}};

static void caveat(const struct stk_jval *result, struct stk_buf *out)
{
    stk_buf_puts(out, stk_pg_text(result, "headline.note", ""));
}

/* ---- on the screen ---------------------------------------------------------------------- */

static size_t rows_of(const struct stk_jval *obj, const char *name, const struct stk_jval **rows)
{
    *rows = stk_pg_at(obj, name);
    return stk_pg_has_rows(*rows) ? (*rows)->len : 0;
}

/* "K80: strong scaling, against N=1 (2 min 51 s)" */
static void draw_heading(const struct stk_jval *all, const struct stk_jval *s, struct stk_buf *out)
{
    const char *name = stk_pg_text(s, "name", "");
    const struct stk_jval *points;
    double base = stk_pg_get(s, "base_n"); /* of a file: any number */
    uint64_t base_n = base > 0 && base < 1e15 ? (uint64_t)base : 0;
    char n[80], t[48];
    stk_text_escape(out, name, strlen(name), 60);
    stk_buf_printf(out, "%s%s scaling", *name ? ": " : "",
                   stk_pg_true(all, "study.weak") ? "weak" : "strong");
    for (size_t i = 0, len = rows_of(s, "points", &points); i < len; i++) {
        if (stk_pg_get(&points->item[i], "n") != base)
            continue;
        stk_scaling_n_of(stk_pg_text(all, "study.unit", NULL), base_n, n, sizeof n);
        stk_buf_puts(out, ", against ");
        stk_text_escape(out, n, strlen(n), 40);
        if (!stk_pg_text(all, "study.metric", NULL))
            stk_buf_printf(out, " (%s)",
                           stk_unit_text(STK_U_SECONDS, stk_pg_get(&points->item[i], "time_s"), t,
                                         sizeof t));
    }
    stk_buf_putc(out, '\n');
}

/* Why SUs are missing, and what relative SUs are then. */
static void explain_su(const struct stk_jval *all, const struct stk_jval *s, bool some,
                       struct stk_screen *screen)
{
    const char *metric = stk_pg_text(all, "study.metric", NULL);
    const struct stk_jval *missing;
    struct stk_buf b = STK_BUF_INIT;
    for (size_t i = 0, n = rows_of(s, "su_missing", &missing); i < n; i++)
        for (size_t k = 0; k < STK_PG_COUNT(su_parts); k++)
            if (missing->item[i].type == STK_JSTR &&
                strcmp(missing->item[i].str, su_parts[k].name) == 0)
                stk_buf_printf(&b, "%s%s",
                               b.len  ? ", "
                               : some ? "no SU for some N: missing is "
                                      : "no SU: missing is ",
                               su_parts[k].what);
    if (b.len)
        stk_screen_say(screen, "%s", stk_buf_cstr(&b));
    stk_buf_release(&b);
    if (!stk_pg_true(s, "relative_su_from_allocation"))
        stk_screen_say(screen, "rel. SU = N / speedup, as if cores, GPUs and nodes grew with N");
    else if (metric && some)
        stk_screen_say(screen,
                       "rel. SU counts the work that %.60s measures, SU the whole run: they grow "
                       "differently",
                       metric);
}

static void explain_weights(const struct stk_jval *all, struct stk_screen *screen)
{
    const char *site = stk_pg_text(all, "su_weights.site", NULL);
    double node = stk_pg_get(all, "su_weights.node");
    char nodes[40] = "";
    if (node > 0)
        snprintf(nodes, sizeof nodes, " + %g x nodes", node);
    stk_screen_say(screen, "SU = (%g x cores + %g x GPUs%s) x hours%s%.40s",
                   stk_pg_get(all, "su_weights.core"), stk_pg_get(all, "su_weights.gpu"), nodes,
                   site ? ", " : "", site ? site : "");
}

/* Explains numbers that are not obvious. */
static void draw_footnote(const struct stk_jval *all, const struct stk_jval *s,
                          struct stk_screen *screen)
{
    const struct stk_jval *points;
    bool range = false, interval = false, su = false;
    const char *pm = screen->utf8 ? "\xc2\xb1" : "+-";
    for (size_t i = 0, n = rows_of(s, "points", &points); i < n; i++) {
        bool known = isfinite(stk_pg_get(&points->item[i], "value_half_width"));
        bool is_range = stk_pg_true(&points->item[i], "interval_is_range");
        range = range || (known && is_range);
        interval = interval || (known && !is_range);
        su = su || isfinite(stk_pg_get(&points->item[i], "su"));
    }
    if (interval && range)
        stk_screen_say(
            screen, "%s: 95 %% interval of the median; the range if there are fewer than 6 runs",
            pm);
    else if (interval)
        stk_screen_say(screen, "%s: 95 %% interval of the median", pm);
    else if (range)
        stk_screen_say(screen, "%s: range of the runs (fewer than 6: no 95 %% interval)", pm);
    if (su)
        explain_weights(all, screen);
    if (isfinite(stk_pg_get(s, "base_n")))
        explain_su(all, s, su, screen);
}

static void draw_tables(const struct stk_result_field *f, const struct stk_jval *all,
                        struct stk_screen *screen)
{
    const struct stk_result_field table = {.key = "points", .unit = STK_U_TABLE, .of = row_fields};
    const struct stk_jval *series, *points;
    for (size_t i = 0, n = rows_of(all, f->key, &series); i < n; i++) {
        stk_screen_part(screen);
        draw_heading(all, &series->item[i], screen->out);
        if (rows_of(&series->item[i], "points", &points))
            stk_screen_table(&table, points, screen);
        draw_footnote(all, &series->item[i], screen);
    }
}

static void draw_plot(const struct stk_result_field *f, const struct stk_jval *all,
                      struct stk_screen *screen)
{
    struct stk_buf plot = STK_BUF_INIT;
    const enum stk_plot *kind = screen->style;
    (void)f;
    stk_scale_plot(all, kind ? *kind : STK_PLOT_SPEEDUP, screen->columns, screen->utf8, &plot);
    if (plot.len) {
        stk_screen_part(screen);
        stk_buf_puts(screen->out, stk_buf_cstr(&plot));
    }
    stk_buf_release(&plot);
}

static void draw_sentences(const struct stk_jval *s, struct stk_screen *screen)
{
    static const char *const said[] = {"law_text", "limit_text", "peak_text", "plateau_text"};
    const char *name = stk_pg_text(s, "name", ""), *text;
    const struct stk_jval *choices = stk_json_get(s, "recommended"), *predicted;
    stk_screen_part(screen);
    if (*name)
        stk_report_wrapped(name, 0, 60, screen->out);
    for (size_t i = 0; i < STK_PG_COUNT(said); i++)
        if ((text = stk_pg_text(s, said[i], NULL)))
            stk_screen_say(screen, "%s", text);
    for (size_t i = 0; choices && choices->type == STK_JOBJ && i < choices->len; i++)
        stk_screen_say(screen, "%s; %s.", stk_pg_text(&choices->item[i], "sentence", ""),
                       stk_pg_text(&choices->item[i], "reason", ""));
    for (size_t i = 0, n = rows_of(s, "predictions", &predicted); i < n; i++)
        if ((text = stk_pg_text(&predicted->item[i], "text", NULL)))
            stk_screen_say(screen, "%s", text);
}

static void draw_said(const struct stk_result_field *f, const struct stk_jval *all,
                      struct stk_screen *screen)
{
    const struct stk_jval *series, *compared;
    const char *placement = stk_pg_text(all, "placement.text", NULL);
    for (size_t i = 0, n = rows_of(all, f->key, &series); i < n; i++)
        if (stk_pg_text(&series->item[i], "law_text", NULL))
            draw_sentences(&series->item[i], screen);
    size_t n = rows_of(all, "comparisons", &compared);
    if (n) {
        stk_screen_part(screen);
        stk_buf_puts(screen->out, "Compared\n");
    }
    if (placement)
        stk_screen_say(screen, "Placement: %s.", placement);
    for (size_t i = 0; i < n; i++)
        stk_screen_say(screen, "%s.", stk_pg_text(&compared->item[i], "text", ""));
}

static void draw_cautions(const struct stk_result_field *f, const struct stk_jval *all,
                          struct stk_screen *screen)
{
    const struct stk_jval *cautions;
    size_t n = rows_of(all, f->key, &cautions);
    if (!n)
        return;
    stk_screen_part(screen);
    stk_buf_puts(screen->out, STK_WARN "Cautions" STK_PLAIN "\n");
    for (size_t i = 0; i < n; i++) {
        const struct stk_jval *of = stk_json_get(all, "series");
        char which[24];
        snprintf(which, sizeof which, "%.0f.name", stk_pg_get(&cautions->item[i], "series"));
        const char *name = stk_pg_text(of, which, "");
        stk_screen_say(screen, "%.60s%s%s.", name, *name ? ": " : "",
                       stk_pg_text(&cautions->item[i], "text", ""));
    }
}

/* ---- the result ------------------------------------------------------------------------- */

static void put_study(const void *base, struct stk_jw *w)
{
    stk_study_write_json(((const struct stk_scaling *)base)->study, w);
}

static const struct stk_result_field study_fields[] = {
    {"stoker_study", NULL, STK_U_COUNT},
    {"higher_is_better", NULL, STK_U_FLAG},
    {"series", NULL, STK_U_ANY, .meaning = "every run"},
    {"weak", "weak scaling", STK_U_FLAG, .flags = STK_F_PAGE,
     .meaning = "the problem grew with N"},
    {"unit", "N counts", STK_U_TEXT, .flags = STK_F_PAGE},
    {"metric", "compared", STK_U_TEXT, .flags = STK_F_PAGE},
    {NULL}};

#define WEIGHT(member) STK_FROM(struct stk_su_rates, member)
static const struct stk_result_field weight_fields[] = {
    {"core", NULL, STK_U_PLAIN, WEIGHT(core), "service units per hour of a core"},
    {"gpu", NULL, STK_U_PLAIN, WEIGHT(gpu)},
    {"node", NULL, STK_U_PLAIN, WEIGHT(node)},
    {"site", NULL, STK_U_TEXT, WEIGHT(site)},
    {NULL}};

STK_NUMBER_OF(all_runs, struct stk_scaling, (double)r->study->nruns)

static const struct stk_result_field fields[] = {
    {"study", NULL, STK_U_GROUP, .put = put_study, .of = study_fields},
    {"su_weights", NULL, STK_U_GROUP, STK_FROM_AS(STRUCT, struct stk_scaling, o.su),
     .of = weight_fields},
    {"series", "series", STK_U_TABLE, .put = put_series, .of = series_fields, .draw = draw_tables},
    {"comparisons", NULL, STK_U_TABLE, STK_FROM_ARRAY(struct stk_scaling, comparison, ncomparisons),
     .of = comparison_fields},
    {"placement", NULL, STK_U_ANY, STK_FROM_AS(STRUCT, struct stk_scaling, placement),
     .put = put_placement},
    {"cautions", NULL, STK_U_TABLE, STK_FROM_ARRAY(struct stk_scaling, caution, ncautions),
     .of = caution_fields},
    {"runs", "runs", STK_U_COUNT, .number = all_runs, .flags = STK_F_PAGE},
    {"common_base", NULL, STK_U_COUNT, STK_FROM(struct stk_scaling, slowest),
     "common_speedup is against N = 1 of this series"},
    {"headline", NULL, STK_U_GROUP, .of = headline_fields},
    {"verdict", NULL, STK_U_PROSE, .put = put_verdict, .flags = STK_F_VERDICT},
    {"series", NULL, STK_U_TABLE, .flags = STK_F_VIEW, .draw = draw_plot},
    {"series", NULL, STK_U_TABLE, .flags = STK_F_VIEW, .draw = draw_said},
    {"cautions", NULL, STK_U_TABLE, .flags = STK_F_VIEW, .draw = draw_cautions},
    {NULL}};

static const struct stk_csv_member csv_columns[] = {{"series", "^name"},
                                                {"n"},
                                                {"runs"},
                                                {"failed_runs"},
                                                {"value"},
                                                {"value_low", "value_interval.0"},
                                                {"value_high", "value_interval.1"},
                                                {"time_s"},
                                                {"speedup"},
                                                {"speedup_low", "speedup_interval.0"},
                                                {"speedup_high", "speedup_interval.1"},
                                                {"efficiency"},
                                                {"su"},
                                                {"relative_su"},
                                                {"karp_flatt"},
                                                {"cores"},
                                                {"gpus"},
                                                {"nodes"},
                                                {NULL}};
static const struct stk_result_csv csv = {"series", "points", csv_columns};

const struct stk_result_kind stk_scale_kind = {
    .command = "scale", .page = "study", .doing = "Scaling over", .fields = fields,
    .caveat = caveat, .blocks = stk_scale_plots, .csv = &csv, .gathered = true};
