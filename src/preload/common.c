/*
 * common.c - the most common values (request sizes, strides) when there are more than four. Eight
 * further values contend for the four places (Misra and Gries' frequent items): a frequent value
 * gets in whenever it begins, and values that come once each do not accumulate counts. A count is
 * exact for a value that was never evicted, else a lower bound.
 */
#include "preload/count.h"

/* Exchanges the smallest of the four with a contender that has overtaken it. */
static void promote(struct stk_common_value *top, struct stk_pl_contenders *c, unsigned i)
{
    unsigned least = 0;
    for (unsigned k = 1; k < STK_COMMON; k++)
        if (top[k].count < top[least].count)
            least = k;
    if (c->of[i].count <= top[least].count)
        return;
    struct stk_common_value out = top[least];
    top[least] = (struct stk_common_value){c->of[i].value, c->of[i].count};
    c->of[i].value = out.value;
    c->of[i].count = c->of[i].life = out.count < UINT32_MAX ? (uint32_t)out.count : UINT32_MAX;
}

void stk_pl_contend(struct stk_pl_thread *t, struct stk_common_value *top,
                    struct stk_pl_contenders **more, uint64_t value)
{
    for (unsigned i = 0; i < STK_COMMON; i++) {
        if (!top[i].count) {
            top[i] = (struct stk_common_value){value, 1};
            return;
        }
    }
    struct stk_pl_contenders *c = *more;
    if (!c && !(c = *more = stk_pl_thread_memory(t, sizeof *c)))
        return;
    unsigned free_place = STK_PL_CONTENDERS;
    for (unsigned i = 0; i < STK_PL_CONTENDERS; i++) {
        if (!c->of[i].life) {
            free_place = i;
        } else if (c->of[i].value == value) {
            c->of[i].count++;
            c->of[i].life++;
            promote(top, c, i);
            return;
        }
    }
    if (free_place < STK_PL_CONTENDERS) {
        c->of[free_place].value = value;
        c->of[free_place].count = c->of[free_place].life = 1;
        return;
    }
    for (unsigned i = 0; i < STK_PL_CONTENDERS; i++)
        c->of[i].life--;
}
