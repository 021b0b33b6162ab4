/* load_mixing.c - how well the order of `stoker load` mixes, compared with a random one, as text.
 */
#include <stdio.h>

#include "base/units.h"
#include "report/grid.h"
#include "report/load.h"

static void row(struct stk_grid *t, const char *what, double here, double random)
{
    char a[16], b[16];
    snprintf(a, sizeof a, "%.1f %%", 100 * here);
    snprintf(b, sizeof b, "%.1f %%", 100 * random);
    stk_grid_row(t, what, a, b);
}

#define AS_GOOD 0.95 /* of a random batch: no training can tell the difference */

/* Sums up the table in a sentence, with what to do about it. */
static void put_verdict(const struct stk_load_result *r, struct stk_buf *out)
{
    const struct stk_mixing *m = &r->mixing;
    bool by_class = m->classes_random > 0;
    double here = by_class ? m->classes : m->spread;
    double random = by_class ? m->classes_random : m->spread_random;
    const char *what = by_class ? "classes" : "parts of the data";
    double share = random > 0 ? here / random : 1;
    if (share >= AS_GOOD && m->spread >= AS_GOOD * m->spread_random)
        stk_buf_puts(out, "  Batches are as mixed as random ones.\n");
    else if (share >= AS_GOOD)
        stk_buf_puts(out, "  Batches have as many classes as random ones, from fewer parts of the "
                          "data.\n");
    else
        stk_buf_printf(
            out, "  A batch has %.0f %% of the %s that a random batch has%s.\n", 100 * share, what,
            r->options->shuffle == STK_SHUFFLE_BLOCK  ? ": a larger --window mixes more"
            : r->options->shuffle == STK_SHUFFLE_NONE ? ": --shuffle block or global mixes"
                                                      : "");
}

void stk_load_mixing_text(const struct stk_load_result *r, struct stk_buf *out)
{
    const struct stk_mixing *m = &r->mixing;
    char count[32];
    struct stk_grid t;
    stk_grid_init(&t, "lrr");
    stk_grid_row(&t, "mixing", "this order", "random");
    row(&t, "mean distance moved, of the dataset", m->moved, m->moved_random);
    row(&t, "neighbours still neighbours", m->kept, m->kept_random);
    row(&t, "parts of the data in a batch, of 64", m->spread, m->spread_random);
    if (m->classes_random > 0)
        row(&t, "classes in a batch, of all", m->classes, m->classes_random);
    stk_buf_putc(out, '\n');
    stk_grid_render(&t, 2, out);
    put_verdict(r, out);
    stk_buf_printf(out, "  Looked at %s positions of the epoch",
                   stk_format_count(m->looked_at, count, sizeof count));
    if (r->block)
        stk_buf_printf(out, "; blocks of %s samples,",
                       stk_format_count(r->block, count, sizeof count));
    if (r->window)
        stk_buf_printf(out, " %s per window", stk_format_count(r->window, count, sizeof count));
    stk_buf_puts(out, ".\n");
    stk_grid_release(&t);
}
