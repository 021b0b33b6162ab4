/*
 * advise_n.c - which N to ask for: the plateau, and one N per wish (fastest, cheapest, balanced,
 * before a deadline, within a price), each with its reason in a sentence.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/units.h"
#include "scaling/priv.h"

#define TRUST 2 /* times the noise: so far a law may miss the medians and still be used alone */

const char *stk_wish_id(enum stk_wish w)
{
    static const char *const ids[STK_WISHES] = {"fastest", "cheapest", "balanced", "deadline",
                                                "max-relative-su"};
    return ids[w];
}

/* ---- the plateau -------------------------------------------------------------------------- */

/* What share of its proportional speed-up M delivers, seen from N; `slack` shifts it to the best
 * case that noise allows. */
static double share_of(const struct stk_scaling_row *n, const struct stk_scaling_row *m,
                       double slack)
{
    double gain = n->work_cost / m->work_cost * exp(slack) - 1;
    return gain / ((double)m->n / (double)n->n - 1);
}

/* True when every larger N delivers less than a quarter; fills p for this N. */
static bool is_plateau(const struct stk_scaling_series *s, size_t at, struct stk_plateau *p)
{
    const struct stk_scaling_row *n = &s->row[at];
    *p = (struct stk_plateau){.n = n->n, .best_share = -INFINITY};
    p->noise_known = p->sure = s->noise.dof >= 1;
    for (size_t i = at + 1; i < s->nrows; i++) {
        const struct stk_scaling_row *m = &s->row[i];
        if (!m->runs)
            continue;
        double share = share_of(n, m, 0);
        if (share > p->best_share) {
            p->best_share = share;
            p->best_n = m->n;
        }
        if (p->noise_known && share_of(n, m, stk_scaling_slack(s, n, m)) >= STK_PLATEAU_SHARE)
            p->sure = false;
    }
    p->found = p->best_n && p->best_share < STK_PLATEAU_SHARE;
    return p->found;
}

/* The two largest N. False: there is one. */
static bool last_step(const struct stk_scaling_series *s, struct stk_verdict *v)
{
    size_t before = s->last;
    while (before-- > s->base)
        if (s->row[before].runs) {
            *v = stk_scaling_verdict(s, &s->row[s->last], s, &s->row[before], 1);
            return true;
        }
    return false;
}

void stk_scaling_plateau(struct stk_scaling_series *s)
{
    s->plateau = (struct stk_plateau){0};
    for (size_t i = 0; i < s->nrows && !s->plateau.found; i++)
        if (s->row[i].runs && !is_plateau(s, i, &s->plateau))
            s->plateau = (struct stk_plateau){.noise_known = s->noise.dof >= 1};
    s->plateau.has_last_step = last_step(s, &s->plateau.last_step);
}

/* ---- sentences ---------------------------------------------------------------------------- */

/* Medians of several modes may be of different ones: their fast runs are comparable. */
static const char *fast_alone(const struct stk_scaling_row *r, const struct stk_scaling_row *base,
                              char *buf, size_t size)
{
    double low = base->modes.mode[0].median / base->cost.median /
                 (r->modes.mode[0].median / r->cost.median);
    buf[0] = '\0';
    size_t modes = r->modes.n > base->modes.n ? r->modes.n : base->modes.n;
    if (modes > 1)
        snprintf(buf, size, "; %s modes: %.2fx by the fast runs of both", stk_scaling_number(modes),
                 low * r->speedup / (double)base->n);
    return buf;
}

static void describe(const struct stk_scaling *all, const struct stk_scaling_series *s,
                     const char *wish, struct stk_choice *c)
{
    const struct stk_scaling_row *r = &s->row[c->row], *base = &s->row[s->base];
    char n[80], n0[80], took[48], modes[64], times[24], su[24], e[24];
    stk_scaling_n(all, r->n, n, sizeof n);
    stk_scaling_n(all, base->n, n0, sizeof n0);
    char d[32];
    const char *verb_end =
        all->study->unit && r->n != 1 ? "" : "s"; /* "6 GPUs take", "N=6 takes" */
    if (all->study->metric)
        snprintf(took, sizeof took, "give%s %s", verb_end,
                 stk_format_number(r->value, d, sizeof d));
    else
        snprintf(took, sizeof took, "take%s %s", verb_end,
                 stk_format_duration(r->wall_s, d, sizeof d));
    if (c->row == s->base)
        snprintf(c->sentence, sizeof c->sentence, "%s: %s %s", wish, n, took);
    else /* the SUs of a run with a metric also pay for what the metric does not measure */
        snprintf(c->sentence, sizeof c->sentence,
                 "%s: %s %s, %s as fast as %s at %s its SUs%s (%s efficient%s)", wish, n, took,
                 stk_format_times(r->speedup / (double)base->n, times, sizeof times), n0,
                 stk_format_times(r->relative_su, su, sizeof su),
                 all->study->metric && s->su_known ? " for the same work" : "",
                 stk_format_share(r->efficiency, e, sizeof e),
                 fast_alone(r, base, modes, sizeof modes));
}

/* Nothing can be chosen. */
static bool only_one(const struct stk_scaling_series *s)
{
    return s->base == s->last;
}

static void because(struct stk_choice *c, const char *fmt, ...) STK_PRINTF(2, 3);
static void because(struct stk_choice *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->reason, sizeof c->reason, fmt, ap);
    va_end(ap);
}

/* ---- wishes ------------------------------------------------------------------------------- */

typedef double score(const struct stk_scaling_row *r);

static double by_speed(const struct stk_scaling_row *r)
{
    return -r->work_cost;
}

static double by_price(const struct stk_scaling_row *r)
{
    return -r->relative_su;
}

/* The good row with the highest score; the smallest N among equals. */
static size_t best_row(const struct stk_scaling_series *s, score *f)
{
    size_t best = s->nrows;
    for (size_t i = s->base; i < s->nrows; i++)
        if (s->row[i].runs && (best == s->nrows || f(&s->row[i]) > f(&s->row[best])))
            best = i;
    return best;
}

typedef struct stk_verdict judge(const struct stk_scaling_series *s,
                                 const struct stk_scaling_row *a,
                                 const struct stk_scaling_row *b, size_t among);

/* The N that comes nearest to the chosen one, as measured, of which the runs do not show whether it
 * is better or worse: *v is the chosen one against it. NULL: none. */
static const struct stk_scaling_row *rival_of(const struct stk_scaling_series *s,
                                              const struct stk_scaling_row *chosen, judge *of,
                                              struct stk_verdict *v)
{
    const struct stk_scaling_row *rival = NULL;
    for (const struct stk_scaling_row *r = &s->row[s->base]; r < s->row + s->nrows; r++) {
        if (!r->runs || r == chosen)
            continue;
        const struct stk_verdict one = of(s, chosen, r, s->nrows - 1);
        if (one.kind == STK_VERDICT_NOT_KNOWN && (!rival || one.times < v->times)) {
            rival = r;
            *v = one;
        }
    }
    return rival;
}

/* The smallest N that is not shown to be slower than the fastest, and is hardly slower; NULL: none.
 * Of all others that are not shown to be slower, *doubt is the fastest as measured. */
static const struct stk_scaling_row *nearly_as_fast(const struct stk_scaling_series *s,
                                                    const struct stk_scaling_row *first,
                                                    const struct stk_scaling_row **doubt)
{
    *doubt = NULL;
    for (const struct stk_scaling_row *r = &s->row[s->base]; r < first; r++) {
        struct stk_verdict v = {.times = NAN};
        if (r->runs)
            v = stk_scaling_verdict(s, r, s, first, s->nrows - 1);
        bool known = stk_interval_known(v.ci), close = v.times >= 1 / (1 + STK_VERDICT_ALIKE);
        if (!r->runs || v.kind == STK_VERDICT_SLOWER)
            continue;
        if (v.times >= 1 || (close && known))
            return r;
        *doubt = *doubt && (*doubt)->work_cost <= r->work_cost ? *doubt : r;
    }
    return NULL;
}

static void choose_fastest(const struct stk_scaling *all, const struct stk_scaling_series *s,
                           struct stk_choice *c)
{
    const struct stk_scaling_row *first = &s->row[best_row(s, by_speed)], *doubt;
    const struct stk_scaling_row *near = nearly_as_fast(s, first, &doubt);
    const struct stk_scaling_row *other = near ? first : doubt;
    char n[80], text[STK_VERDICT_TEXT];
    c->row = (size_t)((near ? near : first) - s->row);
    c->known = !other || near;
    describe(all, s, c->known ? "Fastest" : "Fastest measured", c);
    if (other) {
        const struct stk_verdict v =
            stk_scaling_verdict(s, other, s, &s->row[c->row], s->nrows - 1);
        because(c, "%s against it: %s%s", stk_scaling_n(all, other->n, n, sizeof n),
                stk_verdict_text(&v, text, sizeof text),
                c->row == s->last ? "; it is the largest N measured: more might be faster still"
                                  : "");
    } else if (only_one(s))
        because(c, "no other N was measured");
    else if (first < &s->row[s->last])
        because(c, "no larger N that was measured is faster");
    else
        because(c, "it is the largest N measured: more might be faster still");
}

static void choose_cheapest(const struct stk_scaling *all, const struct stk_scaling_series *s,
                            struct stk_choice *c)
{
    size_t first = best_row(s, by_price);
    c->row = first;
    /* Not shown to be dearer, but shown to be faster: chance must not decide here either. */
    for (size_t i = s->base; i < s->nrows; i++) {
        const struct stk_scaling_row *r = &s->row[i];
        if (!r->runs || i == first)
            continue;
        const struct stk_verdict su = stk_scaling_verdict_of_su(s, r, &s->row[first], 1);
        if (stk_interval_known(su.ci) && su.kind != STK_VERDICT_SLOWER &&
            stk_scaling_verdict(s, r, s, &s->row[c->row], 1).kind == STK_VERDICT_FASTER)
            c->row = i;
    }
    struct stk_verdict v, su;
    const struct stk_scaling_row *least = &s->row[first], *chosen = &s->row[c->row];
    const struct stk_scaling_row *rival =
        chosen == least ? rival_of(s, least, stk_scaling_verdict_of_su, &v) : NULL;
    char n[80], text[STK_VERDICT_TEXT], price[STK_VERDICT_TEXT];
    su = stk_scaling_verdict_of_su(s, chosen, least, 1);
    c->known = !rival && (chosen == least || su.kind != STK_VERDICT_NOT_KNOWN);
    describe(all, s, c->known ? "Cheapest" : rival ? "Cheapest measured" : "Perhaps cheapest", c);
    if (chosen != least) {
        v = stk_scaling_verdict(s, chosen, s, least, 1);
        because(c, "its SUs against those of %s: %s; its time: %s",
                stk_scaling_n(all, least->n, n, sizeof n),
                stk_verdict_text(&su, price, sizeof price), stk_verdict_text(&v, text, sizeof text));
    } else if (rival)
        because(c, "the SUs of %s against its: %s", stk_scaling_n(all, rival->n, n, sizeof n),
                stk_verdict_text(&v, text, sizeof text));
    else if (only_one(s))
        because(c, "no other N was measured");
    else if (c->row == s->base)
        because(c, "no larger N costs fewer SUs for the same work");
    else
        because(c, "no N that was measured costs fewer SUs");
}

/* The law that smooths the times: of two that fit, the one that contains the other. */
static const struct stk_law_fit *smoothing_law(const struct stk_laws *l)
{
    int kind = l->rival >= 0 ? l->rival : l->chosen;
    return kind >= 0 && l->npoints > 2 ? &l->fit[kind] : NULL;
}

/* How far the medians are moved towards the law before they are compared: the law was fitted to all
 * of them, so it knows the curve better than a single median does, as long as noise explains what it
 * misses. Beyond that the share falls (James and Stein), so that a curve that follows no law is
 * taken as it was measured. */
static double law_share(const struct stk_scaling_series *s)
{
    const struct stk_law_fit *f = smoothing_law(s->laws);
    if (!f || !(s->noise.dof >= 1) || !stk_laws_known(s->laws))
        return 0;
    double spare = (double)s->laws->npoints - (double)f->ncoef;
    return fmin(1, TRUST * spare * pow(s->noise.relative_sd, 2) / f->rss);
}

/* Speed for the price: rises as long as 1 % more speed costs less than 1 % more SUs. */
static double balance(const struct stk_scaling *all, const struct stk_scaling_series *s,
                      const struct stk_scaling_row *r)
{
    double cost = r->work_cost, price = r->relative_su / cost;
    if (s->law_share > 0) {
        double law = stk_law_time(smoothing_law(s->laws), (double)r->n);
        cost *= pow((all->study->weak ? law / (double)r->n : law) / cost, s->law_share);
    }
    return 1 / (cost * cost * price);
}

static size_t best_balance(const struct stk_scaling *all, const struct stk_scaling_series *s,
                           uint64_t n_max)
{
    size_t best = s->base;
    for (size_t i = s->base; i < s->nrows; i++)
        if (s->row[i].runs && s->row[i].n <= n_max &&
            balance(all, s, &s->row[i]) > balance(all, s, &s->row[best]))
            best = i;
    return best;
}

/* Adds to the reason what the runs do not show. */
static void doubt_balance(const struct stk_scaling *all, const struct stk_scaling_row *rival,
                          const struct stk_verdict *v, struct stk_choice *c)
{
    size_t len = strlen(c->reason);
    char n[80], text[STK_VERDICT_TEXT];
    snprintf(c->reason + len, sizeof c->reason - len, "; time times SUs of %s against its: %s",
             stk_scaling_n(all, rival->n, n, sizeof n), stk_verdict_text(v, text, sizeof text));
}

/* No preference for small N: a choice that leans to one side errs to that side. */
static void choose_balanced(const struct stk_scaling *all, struct stk_scaling_series *s,
                            struct stk_choice *c)
{
    const struct stk_plateau *p = &s->plateau;
    bool flat = p->found && (!p->noise_known || p->sure);
    s->law_share = law_share(s);
    size_t anywhere = best_balance(all, s, UINT64_MAX);
    c->row = best_balance(all, s, flat ? p->n : UINT64_MAX);
    const char *by = s->law_share > 0.5 ? ", by the law" : "";
    struct stk_verdict v;
    const struct stk_scaling_row *rival =
        rival_of(s, &s->row[c->row], stk_scaling_verdict_of_balance, &v);
    c->known = !rival;
    describe(all, s, rival ? "Balanced as measured" : "Balanced", c);
    if (only_one(s))
        because(c, "no other N was measured");
    else if (anywhere != c->row)
        because(c, "the plateau begins there: beyond it more resources buy next to nothing");
    else if (c->row == s->last)
        because(c,
                "up to here 1 %% more speed costs less than 1 %% more SUs%s; larger N were not "
                "measured",
                by);
    else
        because(c, "beyond it 1 %% more speed costs more than 1 %% more SUs%s", by);
    if (rival)
        doubt_balance(all, rival, &v, c);
}

/* The cheapest of those that meet the deadline. */
static void choose_deadline(const struct stk_scaling *all, const struct stk_scaling_series *s,
                            struct stk_choice *c)
{
    char d[32], t[32];
    double limit = all->o.deadline_s, quickest = INFINITY;
    const char *fewer = s->su_missing & STK_SU_NO_TIME ? "; some runs have no time" : "";
    c->row = s->nrows;
    stk_format_duration(limit, d, sizeof d);
    for (size_t i = s->base; i < s->nrows; i++) {
        const struct stk_scaling_row *r = &s->row[i];
        double late = !r->runs ? NAN : all->study->metric ? r->wall_s : r->cost.max;
        quickest = fmin(quickest, isnan(late) ? INFINITY : late);
        if (late <= limit && (c->row == s->nrows || r->relative_su < s->row[c->row].relative_su))
            c->row = i;
    }
    c->found = c->row < s->nrows;
    if (c->found) {
        describe(all, s, "Deadline", c);
        because(c, "of the N that finished within %s%s, it cost least%s", d,
                all->study->metric ? "" : ", slow runs included", fewer);
        return;
    }
    if (isinf(quickest)) { /* rates only */
        snprintf(c->sentence, sizeof c->sentence,
                 "Deadline: whether an N finishes within %s is unknown", d);
        because(c, "no run has a time, only a value; add a column `time`");
        return;
    }
    snprintf(c->sentence, sizeof c->sentence, "Deadline: no N that was measured finishes within %s",
             d);
    because(c, "the fastest takes %s%s", stk_format_duration(quickest, t, sizeof t), fewer);
}

static void choose_within_price(const struct stk_scaling *all, const struct stk_scaling_series *s,
                                struct stk_choice *c)
{
    double limit = all->o.max_relative_su;
    c->row = s->nrows;
    for (size_t i = s->base; i < s->nrows; i++) {
        const struct stk_scaling_row *r = &s->row[i];
        /* The base is 1 by definition, whatever its last digit says. */
        if (r->runs && r->relative_su <= limit * (1 + 1e-9) &&
            (c->row == s->nrows || r->work_cost < s->row[c->row].work_cost))
            c->row = i;
    }
    c->found = c->row < s->nrows;
    if (c->found) {
        describe(all, s, "Within the price", c);
        because(c, "of the N that cost at most %.3gx the SUs, it was the fastest", limit);
    } else {
        snprintf(c->sentence, sizeof c->sentence,
                 "Within the price: no N that was measured costs at most %.3gx the SUs", limit);
        because(c, "the smallest N measured costs 1x");
    }
}

void stk_scaling_choose(const struct stk_scaling *all, struct stk_scaling_series *s)
{
    memset(s->choice, 0, sizeof s->choice);
    for (int w = 0; w < STK_WISHES; w++)
        s->choice[w].asked = w <= STK_WISH_BALANCED ||
                             (w == STK_WISH_DEADLINE && all->o.deadline_s > 0) ||
                             (w == STK_WISH_MAX_SU && all->o.max_relative_su > 0);
    if (s->base >= s->nrows)
        return;
    for (int w = 0; w <= STK_WISH_BALANCED; w++)
        s->choice[w].found = s->choice[w].known = true;
    choose_fastest(all, s, &s->choice[STK_WISH_FASTEST]);
    choose_cheapest(all, s, &s->choice[STK_WISH_CHEAPEST]);
    choose_balanced(all, s, &s->choice[STK_WISH_BALANCED]);
    if (s->choice[STK_WISH_DEADLINE].asked)
        choose_deadline(all, s, &s->choice[STK_WISH_DEADLINE]);
    if (s->choice[STK_WISH_MAX_SU].asked)
        choose_within_price(all, s, &s->choice[STK_WISH_MAX_SU]);
}
