/* placement.c - packed or spread: the same N on different numbers of nodes. */
#include <math.h>
#include <stdio.h>

#include "scaling/priv.h"

/* The runner names the point of a run where N alone does not: then series are placements. */
static bool is_placement(const struct stk_scaling_series *s)
{
    return s->from->nruns > 0 && s->from->run[0].point;
}

/* The row of an N whose nodes are known. */
static const struct stk_scaling_row *placed(const struct stk_scaling_series *s, uint64_t n)
{
    const struct stk_scaling_row *r = is_placement(s) ? stk_scaling_row_at(s, n) : NULL;
    return r && r->nodes > 0 ? r : NULL;
}

struct ends {
    size_t fast, slow, fewest, most, n; /* series; n: how many have this N */
};

static struct ends ends_of(const struct stk_scaling *all, uint64_t n)
{
    struct ends e = {0};
    for (size_t i = 0; i < all->nseries; i++) {
        const struct stk_scaling_series *s = all->series;
        const struct stk_scaling_row *r = placed(&s[i], n);
        if (!r)
            continue;
        if (!e.n++)
            e.fast = e.slow = e.fewest = e.most = i;
        e.fast = r->work_cost < placed(&s[e.fast], n)->work_cost ? i : e.fast;
        e.slow = r->work_cost > placed(&s[e.slow], n)->work_cost ? i : e.slow;
        e.fewest = r->nodes < placed(&s[e.fewest], n)->nodes ? i : e.fewest;
        e.most = r->nodes > placed(&s[e.most], n)->nodes ? i : e.most;
    }
    return e;
}

/* The largest N that two placements have. */
static bool find_n(const struct stk_scaling *all, struct ends *e, uint64_t *n)
{
    *n = 0;
    for (size_t i = 0; i < all->nseries; i++)
        for (size_t k = 0; k < all->series[i].nrows; k++) {
            struct ends here = ends_of(all, all->series[i].row[k].n);
            if (here.n < 2 || here.fewest == here.most || all->series[i].row[k].n <= *n)
                continue;
            *n = all->series[i].row[k].n;
            *e = here;
        }
    return *n > 0;
}

static void say(const struct stk_scaling *all, const struct ends *e, struct stk_placement *p)
{
    const struct stk_scaling_series *s = all->series;
    double fewest = placed(&s[e->fewest], p->n)->nodes;
    char n[80], text[STK_VERDICT_TEXT], advice[48] = "";
    stk_scaling_n(all, p->n, n, sizeof n);
    stk_verdict_text(&p->verdict, text, sizeof text);
    if (p->best == e->fewest)
        snprintf(advice, sizeof advice, "; use the fewest nodes, %.0f", fewest);
    else if (p->best == e->most && p->verdict.kind == STK_VERDICT_FASTER)
        snprintf(advice, sizeof advice, "; spread them");
    snprintf(p->text, sizeof p->text, "with %s, %.60s against %.60s: %s%s", n,
             s[e->fast].from->name, s[e->slow].from->name, text, advice);
}

void stk_scaling_place(struct stk_scaling *all)
{
    struct stk_placement *p = &all->placement;
    struct ends e = {0};
    *p = (struct stk_placement){0};
    if (!find_n(all, &e, &p->n))
        return;
    const struct stk_scaling_series *a = &all->series[e.slow], *b = &all->series[e.fast];
    const struct stk_scaling_row *ra = placed(a, p->n), *rb = placed(b, p->n);
    p->found = true;
    p->speed = ra->work_cost / rb->work_cost;
    p->verdict = stk_scaling_verdict(b, rb, a, ra, e.n > 2 ? e.n * (e.n - 1) / 2 : 1);
    p->best = p->verdict.kind == STK_VERDICT_FASTER ? e.fast : e.fewest;
    say(all, &e, p);
}
