/*
 * scale_text.c - a study in sentences: the law, the plateau, the N for each wish with its reason,
 * predictions or why there are none, comparisons, and cautions.
 */
#include <math.h>
#include <stdio.h>

#include "base/style.h"
#include "base/units.h"
#include "report/report.h"
#include "report/scale.h"

#define sentence(out, columns, ...) stk_report_sentence(out, 2, columns, __VA_ARGS__)

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

/* Of where the plateau begins. */
static const char *doubt_of(const struct stk_plateau *p)
{
    return p->sure          ? ""
           : p->noise_known ? "; more runs may show that it begins later"
                            : "; whether it begins later is not known from one run of each";
}

/* "20.3 % (95 %: 0 to 48.6 %)". Empty: a law that does not fit has no parameters. */
void stk_scale_serial_text(const struct stk_scaling_series *s, struct stk_buf *out)
{
    const struct stk_laws *l = s->laws;
    const struct stk_interval ci = l->serial_ci;
    char text[80];
    if (l->chosen < 0 || l->poor)
        return;
    if (stk_interval_known(ci) && ci.hi - ci.lo > STK_LAW_UNDECIDED)
        stk_buf_printf(out, "anything from %.3g to %.3g %%", 100 * ci.lo, 100 * ci.hi);
    else
        stk_buf_printf(out, "%.3g %%%s", 100 * l->fit[l->chosen].serial,
                       interval_text(ci, 100, " %", text, sizeof text));
}

static void put_law(const struct stk_scaling *all, const struct stk_scaling_series *s,
                    struct stk_buf *out)
{
    const struct stk_laws *l = s->laws;
    (void)all;
    if (l->chosen < 0) {
        stk_buf_printf(out, "Law: none; %s.", l->reason);
        return;
    }
    const struct stk_law_fit *f = &l->fit[l->chosen];
    const char *name = stk_law_name((enum stk_law_kind)l->chosen);
    struct stk_buf serial = STK_BUF_INIT;
    char text[80];
    stk_scale_serial_text(s, &serial);
    if (l->poor)
        stk_buf_printf(out, "Law: none fits; the best, %s, misses the points by %.0f %%.", name,
                       100 * f->rms);
    else if (l->chosen == STK_LAW_USL)
        stk_buf_printf(out, "Law: %s with contention %s and coherence %.3g %%%s; %s.", name,
                       stk_buf_cstr(&serial), 100 * f->coherence,
                       interval_text(f->coherence_ci, 100, " %", text, sizeof text), l->reason);
    else if (stk_interval_known(l->serial_ci) && !stk_laws_known(l))
        stk_buf_printf(out, "Law: %s, but its serial part could be %s; %s.", name,
                       stk_buf_cstr(&serial), l->reason);
    else
        stk_buf_printf(out, "Law: %s with a serial part of %s; %s.", name, stk_buf_cstr(&serial),
                       l->reason);
    stk_buf_release(&serial);
}

/* 1/f, which is very uncertain for a small f: given only if the law may predict N larger than
 * measured, and the data bound it. */
static void put_limit(const struct stk_scaling *all, const struct stk_scaling_series *s,
                      struct stk_buf *out)
{
    struct stk_interval ci = s->laws->serial_ci;
    if (s->laws->chosen != STK_LAW_AMDAHL || s->laws->poor || all->study->weak || s->superlinear ||
        !stk_interval_known(ci) || !(ci.lo > 0) || !stk_laws_reach_beyond(s->laws))
        return;
    stk_buf_printf(
        out,
        "Limit: it cannot become more than about %.2gx as fast as N=1 (95 %%: %.3gx to %.3gx).",
        1 / s->laws->fit[STK_LAW_AMDAHL].serial, 1 / ci.hi, 1 / ci.lo);
}

/* A law of which the runs show nothing has no peak, and no lack of one. */
static void put_peak(const struct stk_scaling *all, const struct stk_scaling_series *s,
                     struct stk_buf *out)
{
    const struct stk_laws *l = s->laws;
    char text[80];
    (void)all;
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

/* "N=4; more runs may show that it begins later". Empty: none was found. */
void stk_scale_plateau_text(const struct stk_scaling *all, const struct stk_scaling_series *s,
                            struct stk_buf *out)
{
    const struct stk_plateau *p = &s->plateau;
    char n[80];
    if (p->found)
        stk_buf_printf(out, "%s%s", stk_scaling_n(all, p->n, n, sizeof n), doubt_of(p));
}

static void put_plateau(const struct stk_scaling *all, const struct stk_scaling_series *s,
                        struct stk_buf *out)
{
    const struct stk_plateau *p = &s->plateau;
    char n[80], m[80], step[STK_VERDICT_TEXT];
    const struct stk_scaling_row *last = &s->row[s->last];
    bool doubt = p->has_last_step && stk_interval_known(p->last_step.ci) &&
                 p->last_step.kind != STK_VERDICT_FASTER;
    if (p->found)
        stk_buf_printf(out,
                       "Plateau: %s. No larger N measured gains a quarter of its proportional "
                       "share; the best, %s, gains %.0f %% of it%s.",
                       stk_scaling_n(all, p->n, n, sizeof n),
                       stk_scaling_n(all, p->best_n, m, sizeof m), 100 * fmax(p->best_share, 0),
                       doubt_of(p));
    else if (s->base == s->last)
        stk_buf_puts(out, "Plateau: not known from one N.");
    else
        stk_buf_printf(out, "Plateau: none up to %s%s%s%s.",
                       stk_scaling_n(all, last->n, n, sizeof n),
                       p->noise_known ? "" : ", as one run of each shows it",
                       doubt ? "; its last step: " : "",
                       doubt ? stk_verdict_text(&p->last_step, step, sizeof step) : "");
}

bool stk_scale_shown(const struct stk_scaling *all, size_t series, size_t i, struct stk_buf *out)
{
    static void (*const put[])(const struct stk_scaling *, const struct stk_scaling_series *,
                               struct stk_buf *) = {put_law, put_limit, put_peak, put_plateau};
    const struct stk_scaling_series *s = &all->series[series];
    if (i >= sizeof put / sizeof *put || s->base == s->nrows)
        return false;
    put[i](all, s, out);
    return true;
}

void stk_scale_choice_text(const struct stk_choice *c, struct stk_buf *out)
{
    stk_buf_printf(out, "%s; %s.", c->sentence, c->reason);
}

static void say_predictions(const struct stk_scaling *all, const struct stk_scaling_series *s,
                            unsigned columns, struct stk_buf *out)
{
    char a[32], b[32], c[32];
    for (size_t i = 0; i < all->o.npredict; i++) {
        const struct stk_prediction *p = &s->prediction[i];
        if (p->refused)
            sentence(out, columns, "N=%.0f: not predicted; %s.", p->n, p->why);
        else if (all->study->metric) {
            bool rate = all->study->higher_better;
            stk_format_number(rate ? 1 / p->time_s : p->time_s, a, sizeof a);
            stk_format_number(rate ? 1 / p->time_ci.hi : p->time_ci.lo, b, sizeof b);
            stk_format_number(rate ? 1 / p->time_ci.lo : p->time_ci.hi, c, sizeof c);
            sentence(out, columns, "N=%.0f would give %s (95 %%: %s to %s), %s.", p->n, a, b, c,
                     p->why);
        } else
            sentence(out, columns, "N=%.0f would take %s (95 %%: %s to %s), %s.", p->n,
                     stk_format_duration(p->time_s, a, sizeof a),
                     stk_format_duration(p->time_ci.lo, b, sizeof b),
                     stk_format_duration(p->time_ci.hi, c, sizeof c), p->why);
    }
}

/* Writes the sentence, if there is one, and empties the buffer for the next. */
static void say(struct stk_buf *text, unsigned columns, struct stk_buf *out)
{
    if (text->len)
        sentence(out, columns, "%s", stk_buf_cstr(text));
    stk_buf_reset(text);
}

void stk_scale_sentences(const struct stk_scaling *all, size_t series, unsigned columns,
                         struct stk_buf *out)
{
    const struct stk_scaling_series *s = &all->series[series];
    if (s->base == s->nrows)
        return;
    struct stk_buf b = STK_BUF_INIT;
    for (size_t i = 0; stk_scale_shown(all, series, i, &b); i++)
        say(&b, columns, out);
    for (int w = 0; w < STK_WISHES; w++)
        if (s->choice[w].asked) {
            stk_scale_choice_text(&s->choice[w], &b);
            say(&b, columns, out);
        }
    stk_buf_release(&b);
    say_predictions(all, s, columns, out);
}

static void name_line(const struct stk_scaling *all, size_t series, struct stk_buf *out)
{
    const char *name = all->series[series].from->name;
    if (*name)
        stk_report_wrapped(name, 0, 60, out);
}

static void say_cautions(const struct stk_scaling *all, unsigned columns, struct stk_buf *out)
{
    if (all->ncautions)
        stk_buf_puts(out, "\n" STK_WARN "Cautions" STK_PLAIN "\n");
    for (size_t i = 0; i < all->ncautions; i++) {
        const struct stk_caution *c = &all->caution[i];
        const char *name = all->series[c->series].from->name;
        sentence(out, columns, "%.60s%s%s.", *name ? name : "", *name ? ": " : "", c->text);
    }
}

void stk_scale_text(const struct stk_scaling *all, unsigned columns, bool utf8, enum stk_plot plot,
                    struct stk_buf *out)
{
    for (size_t i = 0; i < all->nseries; i++) {
        if (i)
            stk_buf_putc(out, '\n');
        stk_scale_table(all, i, utf8, out);
    }
    if (plot) {
        size_t before = out->len;
        stk_buf_putc(out, '\n');
        stk_scale_plot(all, plot, columns, utf8, out);
        out->len = out->len == before + 1 ? before : out->len;
    }
    for (size_t i = 0; i < all->nseries; i++) {
        stk_buf_putc(out, '\n');
        name_line(all, i, out);
        stk_scale_sentences(all, i, columns, out);
    }
    if (all->ncomparisons)
        stk_buf_puts(out, "\nCompared\n");
    if (all->placement.found)
        sentence(out, columns, "Placement: %s.", all->placement.text);
    for (size_t i = 0; i < all->ncomparisons; i++)
        sentence(out, columns, "%s.", all->comparison[i].text);
    say_cautions(all, columns, out);
}
