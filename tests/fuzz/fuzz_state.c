/* fuzz_state.c - an arbitrary text taken for a loader's state: what is believed can be written,
 * planned from, and holds every sample at most once. */
#include "harness.h"

#include <stdlib.h>

#include "load/plan.h"

#define LOOK 50 /* slots at either end */

static void look_at_plan(const struct stk_plan *p)
{
    uint64_t id;
    bool repeat;
    for (uint64_t i = 0; i < LOOK && i < p->slots; i++) {
        bool in_range = stk_plan_sample(p, i, &repeat) < p->order.n &&
                        stk_plan_sample(p, p->slots - 1 - i, &repeat) < p->order.n &&
                        stk_plan_sample_after(p, i, i * i, &repeat) < p->order.n;
        if (!in_range || (stk_plan_refill(p, i, i, &id) && id >= p->order.n))
            stk_fuzz_broken("a plan gives samples that are there");
    }
    for (uint64_t i = 1; i < LOOK && i < p->left; i++)
        if (stk_plan_position(p, i - 1) >= stk_plan_position(p, i) ||
            stk_plan_position(p, p->left - 1) >= p->order.n)
            stk_fuzz_broken("what is left stays in order, nothing twice");
}

static void go_on(const struct stk_state *s, uint32_t rank, uint32_t world)
{
    struct stk_order o;
    struct stk_plan p;
    struct stk_state next;
    stk_order_init(&o, s->n, s->shuffle, s->seed, s->epoch, s->block, s->window);
    if (stk_plan_init(&p, &o, s->leg, s->nlegs, rank, world, 3, (int)(world % 3), NULL))
        stk_fuzz_broken("a state that was read can be gone on from");
    look_at_plan(&p);
    if (stk_plan_state(&p, p.slots < 5 ? p.slots : 5, 0, 1, &next, NULL) == 0)
        stk_state_release(&next);
    stk_plan_release(&p);
}

static void write_again(const struct stk_state *s)
{
    struct stk_buf once = STK_BUF_INIT, twice = STK_BUF_INIT;
    struct stk_state back;
    struct stk_err err = {0};
    stk_state_write(s, &once, &err);
    if (stk_state_read((const char *)once.data, once.len, &back, &err))
        stk_fuzz_broken("a state that is written can be read");
    stk_state_write(&back, &twice, &err);
    if (once.len != twice.len || memcmp(once.data, twice.data, once.len) != 0)
        stk_fuzz_broken("a state read back is written as the same bytes");
    stk_state_release(&back);
    stk_buf_release(&once);
    stk_buf_release(&twice);
}

int fuzz_state(const uint8_t *data, size_t size)
{
    struct stk_state s;
    struct stk_err err = {0};
    int rc = stk_state_read((const char *)data, size, &s, &err);
    if (rc == 0) {
        write_again(&s);
        go_on(&s, 1, 4);
        go_on(&s, 0, 1);
        if (s.nlegs)
            go_on(&s, s.leg[s.nlegs - 1].world - 1, s.leg[s.nlegs - 1].world);
        stk_state_release(&s);
    } else if (rc > 0 || err.code != rc || !err.what[0]) {
        stk_fuzz_broken("an error code comes with its message");
    }
    return 0;
}
