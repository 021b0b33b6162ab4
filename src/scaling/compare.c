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
    char ta[32], tb[32], price[120];
    c->pays = c->su < 1;
    if (isnan(c->su))
        snprintf(price, sizeof price, "its cost is unknown");
    else if (c->pays)
        snprintf(price, sizeof price, "at its cheapest it takes %.2fx the SUs of the CPU", c->su);
    else
        snprintf(price, sizeof price, "but even at its cheapest it takes %.2fx the SUs of the CPU",
                 c->su);
    bool faster = c->speed > 1;
    const char *verdict = isnan(c->su) ? (faster ? "is faster" : "is not faster")
                          : c->pays    ? (faster ? "pays" : "saves SUs but is slower")
                                       : (faster ? "is faster but costs more" : "does not pay off");
    snprintf(c->text, sizeof c->text,
             "The accelerator %s: %.60s is %.2fx as fast at its best (%s with N=%llu) as %.60s (%s "
             "with N=%llu); %s",
             verdict, name_of(b), c->speed, time_text(all, fb, tb, sizeof tb),
             (unsigned long long)fb->n, name_of(a), time_text(all, fa, ta, sizeof ta),
             (unsigned long long)fa->n, price);
}

const struct stk_scaling_row *stk_scaling_row_at(const struct stk_scaling_series *s, uint64_t n)
{
    for (size_t i = 0; i < s->nrows; i++)
        if (s->row[i].n == n && s->row[i].runs)
            return &s->row[i];
    return NULL;
}

double stk_scaling_slack_between(const struct stk_scaling_series *a,
                                 const struct stk_scaling_row *ra,
                                 const struct stk_scaling_series *b,
                                 const struct stk_scaling_row *rb)
{
    double va = pow(a->noise.relative_sd, 2) / stk_median_worth((double)ra->runs);
    double vb = pow(b->noise.relative_sd, 2) / stk_median_worth((double)rb->runs);
    if (!(a->noise.dof >= 1) || !(b->noise.dof >= 1))
        return NAN;
    double dof = va + vb > 0 ? pow(va + vb, 2) / (va * va / a->noise.dof + vb * vb / b->noise.dof)
                             : a->noise.dof;
    return stk_t95(dof) * sqrt(va + vb);
}

/* ", clear of the noise (+-3 %)": whether the difference at an N may be chance. */
static const char *verdict(const struct stk_scaling *all, const struct stk_comparison *c,
                           const struct stk_scaling_row *r, char *buf, size_t size)
{
    const struct stk_scaling_series *a = &all->series[c->a], *b = &all->series[c->b];
    const struct stk_scaling_row *other = stk_scaling_row_at(b, r->n);
    double slack = stk_scaling_slack_between(a, r, b, other);
    bool clear = fabs(log(r->work_cost / other->work_cost)) > slack;
    buf[0] = '\0';
    if (slack > log(STK_SCALING_VAGUE))
        snprintf(buf, size, " (so few runs do not show the noise)");
    else if (!isnan(slack))
        snprintf(buf, size, " (%s the noise, +-%.2g %%)", clear ? "clear of" : "within",
                 100 * (exp(slack) - 1));
    return buf;
}

static void count_clear(const struct stk_scaling *all, struct stk_comparison *c)
{
    const struct stk_scaling_series *a = &all->series[c->a], *b = &all->series[c->b];
    c->noise_known = a->noise.dof >= 1 && b->noise.dof >= 1;
    for (size_t i = 0; i < a->nrows; i++) {
        const struct stk_scaling_row *r = &a->row[i], *other = stk_scaling_row_at(b, r->n);
        if (!r->runs || !other)
            continue;
        c->common++;
        double slack = stk_scaling_slack_between(a, r, b, other);
        c->clear += fabs(log(r->work_cost / other->work_cost)) > slack;
    }
}

/* Two kinds: at the smallest and the largest N they have in common. */
static void say_kinds(const struct stk_scaling *all, struct stk_comparison *c)
{
    const struct stk_scaling_series *a = &all->series[c->a], *b = &all->series[c->b];
    const struct stk_scaling_row *first = NULL, *last = NULL;
    char n[80], m[80], sure[48];
    for (size_t i = 0; i < a->nrows; i++)
        if (a->row[i].runs && stk_scaling_row_at(b, a->row[i].n)) {
            first = first ? first : &a->row[i];
            last = &a->row[i];
        }
    if (!first) {
        snprintf(c->text, sizeof c->text,
                 "%.60s is %.2fx as fast at its best as %.60s; they have no N in common",
                 name_of(b), c->speed, name_of(a));
        return;
    }
    double at_first = first->work_cost / stk_scaling_row_at(b, first->n)->work_cost;
    int len = snprintf(c->text, sizeof c->text, "%.60s is %.2fx as fast as %.60s with %s%s",
                       name_of(b), at_first, name_of(a), stk_scaling_n(all, first->n, n, sizeof n),
                       verdict(all, c, first, sure, sizeof sure));
    if (last != first && len > 0 && (size_t)len < sizeof c->text)
        len += snprintf(c->text + len, sizeof c->text - (size_t)len, ", %.2fx with %s%s",
                        last->work_cost / stk_scaling_row_at(b, last->n)->work_cost,
                        stk_scaling_n(all, last->n, m, sizeof m),
                        verdict(all, c, last, sure, sizeof sure));
    if (c->noise_known && c->common > 2 && len > 0 && (size_t)len < sizeof c->text)
        len += snprintf(c->text + len, sizeof c->text - (size_t)len,
                        "; the difference is clear of the noise at %zu of %zu common N", c->clear,
                        c->common);
    if (!isnan(c->su) && len > 0 && (size_t)len < sizeof c->text)
        snprintf(c->text + len, sizeof c->text - (size_t)len,
                 "; at their cheapest it takes %.2fx the SUs", c->su);
}

static void compare_two(const struct stk_scaling *all, struct stk_comparison *c)
{
    const struct stk_scaling_series *a = &all->series[c->a], *b = &all->series[c->b];
    c->speed = fastest(a)->work_cost / fastest(b)->work_cost;
    c->su = NAN;
    count_clear(all, c);
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
