/*
 * compare.c - compares series: whether an accelerator pays off (a CPU curve and a GPU curve
 * in one study), and how two kinds of GPU or node compare, unit for unit and at their best.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "scaling/priv.h"

#define COMPARISONS_MAX 64

static bool uses_gpus(const struct stk_scaling_series *s)
{
    for (size_t i = s->base; i < s->nrows; i++)
        if (s->row[i].gpus > 0)
            return true;
    return false;
}

/* Known to have none. */
static bool has_no_gpus(const struct stk_scaling_series *s)
{
    return s->base < s->nrows && !uses_gpus(s) && !isnan(s->row[s->base].cores);
}

static const struct stk_scaling_row *fastest(const struct stk_scaling_series *s)
{
    return &s->row[s->choice[STK_WISH_FASTEST].row];
}

static const struct stk_scaling_row *cheapest(const struct stk_scaling_series *s)
{
    const struct stk_scaling_row *best = NULL;
    for (size_t i = s->base; i < s->nrows; i++)
        if (s->row[i].runs && (!best || stk_scaling_price(&s->row[i]) < stk_scaling_price(best)))
            best = &s->row[i];
    return best;
}

static const char *time_text(const struct stk_scaling *all, const struct stk_scaling_row *r,
                             char *buf, size_t size)
{
    if (!all->study->metric)
        return stk_format_duration(r->wall_s, buf, size);
    return stk_format_number(r->value, buf, size);
}

static const char *name_of(const struct stk_scaling_series *s)
{
    return *s->from->name ? s->from->name : "the unnamed series";
}

static void say_pays(const struct stk_scaling *all, struct stk_comparison *c)
{
    const struct stk_scaling_series *a = &all->series[c->a], *b = &all->series[c->b];
    const struct stk_scaling_row *fa = fastest(a), *fb = fastest(b);
    char ta[32], tb[32], price[120], sure[STK_VERDICT_TEXT];
    c->pays = c->su < 1;
    if (isnan(c->su))
        snprintf(price, sizeof price, "its cost is unknown");
    else if (c->pays)
        snprintf(price, sizeof price, "at its cheapest it takes %.2fx the SUs of the CPU", c->su);
    else
        snprintf(price, sizeof price, "but even at its cheapest it takes %.2fx the SUs of the CPU",
                 c->su);
    bool quick = c->speed > 1;
    const char *verdict = isnan(c->su) ? (quick ? "takes less time" : "takes no less time")
                          : c->pays    ? (quick ? "pays" : "saves SUs but takes longer")
                                       : (quick ? "takes less time but costs more"
                                                : "does not pay off");
    snprintf(c->text, sizeof c->text,
             "%s accelerator %s: %.60s takes %s with N=%llu at its best, %.60s %s with N=%llu; %s. "
             "%.60s against %.60s: %s",
             c->at_best.kind == STK_VERDICT_NOT_KNOWN ? "As measured, the" : "The", verdict,
             name_of(b), time_text(all, fb, tb, sizeof tb), (unsigned long long)fb->n, name_of(a),
             time_text(all, fa, ta, sizeof ta), (unsigned long long)fa->n, price, name_of(b),
             name_of(a), stk_verdict_text(&c->at_best, sure, sizeof sure));
}

const struct stk_scaling_row *stk_scaling_row_at(const struct stk_scaling_series *s, uint64_t n)
{
    for (size_t i = 0; i < s->nrows; i++)
        if (s->row[i].n == n && s->row[i].runs)
            return &s->row[i];
    return NULL;
}

static size_t common_n(const struct stk_scaling_series *a, const struct stk_scaling_series *b)
{
    size_t n = 0;
    for (size_t i = 0; i < a->nrows; i++)
        n += a->row[i].runs && stk_scaling_row_at(b, a->row[i].n);
    return n;
}

/* At every N that both have. Of many, chance alone makes one differ. */
static void compare_common(const struct stk_scaling *all, struct stk_comparison *c)
{
    const struct stk_scaling_series *a = &all->series[c->a], *b = &all->series[c->b];
    c->common = common_n(a, b);
    for (size_t i = 0; i < a->nrows; i++) {
        const struct stk_scaling_row *r = &a->row[i], *other = stk_scaling_row_at(b, r->n);
        if (!r->runs || !other)
            continue;
        struct stk_verdict of_many = stk_scaling_verdict(b, other, a, r, c->common);
        c->n = r->n;
        c->at_n = stk_scaling_verdict(b, other, a, r, 1);
        c->clear += of_many.kind == STK_VERDICT_FASTER || of_many.kind == STK_VERDICT_SLOWER;
    }
}

/* At the smallest and the largest N they have in common. */
static int say_common(const struct stk_scaling *all, struct stk_comparison *c)
{
    const struct stk_scaling_series *a = &all->series[c->a], *b = &all->series[c->b];
    const struct stk_scaling_row *first = a->row;
    char n[80], m[80], text[STK_VERDICT_TEXT], more[STK_VERDICT_TEXT];
    while (!first->runs || !stk_scaling_row_at(b, first->n))
        first++;
    const struct stk_verdict v =
        stk_scaling_verdict(b, stk_scaling_row_at(b, first->n), a, first, 1);
    int len = snprintf(c->text, sizeof c->text, "%.60s against %.60s: with %s %s", name_of(b),
                       name_of(a), stk_scaling_n(all, first->n, n, sizeof n),
                       stk_verdict_text(&v, text, sizeof text));
    if (c->n != first->n && len > 0 && (size_t)len < sizeof c->text)
        len += snprintf(c->text + len, sizeof c->text - (size_t)len, "; with %s %s",
                        stk_scaling_n(all, c->n, m, sizeof m),
                        stk_verdict_text(&c->at_n, more, sizeof more));
    if (c->common > 2 && stk_interval_known(c->at_n.ci) && len > 0 && (size_t)len < sizeof c->text)
        len += snprintf(c->text + len, sizeof c->text - (size_t)len,
                        "; at %zu of their %zu common N one is shown to be faster", c->clear,
                        c->common);
    return len;
}

static void say_kinds(const struct stk_scaling *all, struct stk_comparison *c)
{
    const char *a = name_of(&all->series[c->a]), *b = name_of(&all->series[c->b]);
    char n[80], m[80], text[STK_VERDICT_TEXT];
    int len = c->n ? say_common(all, c)
                   : snprintf(c->text, sizeof c->text,
                              "%.60s with %s against %.60s with %s, each at its best, for they have "
                              "no N in common: %s",
                              b, stk_scaling_n(all, c->nb, n, sizeof n), a,
                              stk_scaling_n(all, c->na, m, sizeof m),
                              stk_verdict_text(&c->at_best, text, sizeof text));
    if (!isnan(c->su) && len > 0 && (size_t)len < sizeof c->text)
        snprintf(c->text + len, sizeof c->text - (size_t)len,
                 "; at their cheapest, %.60s takes %.2fx the SUs of %.60s", b, c->su, a);
}

static void compare_two(const struct stk_scaling *all, struct stk_comparison *c)
{
    const struct stk_scaling_series *a = &all->series[c->a], *b = &all->series[c->b];
    c->speed = fastest(a)->work_cost / fastest(b)->work_cost;
    c->na = fastest(a)->n;
    c->nb = fastest(b)->n;
    c->at_best = stk_scaling_verdict(b, fastest(b), a, fastest(a), a->nrows * b->nrows);
    c->su = NAN;
    compare_common(all, c);
    if (a->su_known && b->su_known)
        c->su = stk_scaling_price(cheapest(b)) / stk_scaling_price(cheapest(a));
    c->accelerator = has_no_gpus(a) && uses_gpus(b);
    if (c->accelerator)
        say_pays(all, c);
    else
        say_kinds(all, c);
}

int stk_scaling_compare(struct stk_scaling *all, struct stk_err *err)
{
    all->comparison = calloc(COMPARISONS_MAX, sizeof *all->comparison);
    if (!all->comparison)
        return stk_err_nomem(err, COMPARISONS_MAX * sizeof *all->comparison);
    for (size_t i = 0; i < all->nseries; i++)
        for (size_t j = i + 1; j < all->nseries && all->ncomparisons < COMPARISONS_MAX; j++) {
            struct stk_scaling_series *a = &all->series[i], *b = &all->series[j];
            if (a->base == a->nrows || b->base == b->nrows)
                continue;
            bool swap = uses_gpus(a) && has_no_gpus(b);
            struct stk_comparison *c = &all->comparison[all->ncomparisons++];
            *c = (struct stk_comparison){.a = swap ? j : i, .b = swap ? i : j};
            compare_two(all, c);
        }
    return 0;
}
