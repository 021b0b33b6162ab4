/* pace.c - latency with jitter, and virtual clocks for bandwidth. Pure arithmetic: no sleeping. */
#include "pace.h"

#include <string.h>

#include "base/random.h"

#define NS 1000000000u

static const char *const names[OP_COUNT] = {"open", "stat", "read", "write"};

const char *pace_op_name(enum op op)
{
    return op < OP_COUNT ? names[op] : NULL;
}

bool pace_op_find(const char *name, enum op *op)
{
    for (unsigned i = 0; i < OP_COUNT; i++) {
        if (strcmp(name, names[i]) == 0) {
            *op = (enum op)i;
            return true;
        }
    }
    return false;
}

/* The n-th draw depends on seed and n only. */
static uint64_t draw(uint64_t seed, uint64_t n)
{
    return stk_mix64(seed + (n + 1) * STK_GOLDEN64);
}

uint64_t pace_latency(struct pace *p, enum op op)
{
    uint64_t ns = atomic_load_explicit(&p->latency_ns[op], memory_order_relaxed);
    if (!ns || p->jitter <= 0)
        return ns;
    uint64_t n = atomic_fetch_add_explicit(&p->draws, 1, memory_order_relaxed);
    double unit = (double)(draw(p->seed, n) >> 11) * 0x1p-53; /* [0, 1) */
    return (uint64_t)((double)ns * (1 + p->jitter * (2 * unit - 1)));
}

uint64_t pace_reserve(struct pace_clock *c, uint64_t rate_Bps, uint64_t ready_ns, uint64_t bytes,
                      uint64_t *start_ns)
{
    /* A request is about 1 MiB: the product is far from overflowing. Rounded up: never too fast. */
    uint64_t hold_ns = (bytes * NS + rate_Bps - 1) / rate_Bps;
    uint64_t free_ns = atomic_load(&c->free_ns), start;
    do {
        start = free_ns > ready_ns ? free_ns : ready_ns;
    } while (!atomic_compare_exchange_weak(&c->free_ns, &free_ns, start + hold_ns));
    if (start_ns)
        *start_ns = start;
    return start + hold_ns;
}

uint64_t pace_lag(struct pace_lags *l, uint32_t thread)
{
    uint64_t v = atomic_load(&l->lag[thread % PACE_THREADS]);
    return v >> 32 == thread ? (uint32_t)v : 0;
}

void pace_set_lag(struct pace_lags *l, uint32_t thread, uint64_t ns)
{
    uint64_t most = ns < PACE_LAG_MAX ? ns : PACE_LAG_MAX;
    atomic_store(&l->lag[thread % PACE_THREADS], (uint64_t)thread << 32 | most);
}
