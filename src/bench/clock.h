/*
 * clock.h - the time of one thread of a benchmark: the machine's, or a virtual one that only waits
 * and modelled storage move. With a virtual clock every thread has its own time, and what threads
 * hand to each other carries the time at which it was handed over: the result does not depend on
 * scheduling.
 */
#ifndef STK_BENCH_CLOCK_H
#define STK_BENCH_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/storage.h"

/* The storage behind a virtual clock; all zero: the real clock. */
struct stk_bench_model {
    struct stk_storage storage;
    double rate_Bps; /* of one thread, from that; 0: infinite */
    bool is_virtual;
    bool hangs; /* no request ever returns, on rank hangs_on only */
    uint32_t hangs_on;
};

struct stk_bench_clock {
    const struct stk_bench_model *model;
    double now_s; /* virtual */
};

double stk_bench_now(const struct stk_bench_clock *c);
/* Waits until that time, or returns at once if it has passed. */
void stk_bench_until(struct stk_bench_clock *c, double at_s);
/* Uses that much CPU time in this thread; virtual: that much time passes. It goes through `work`
 * again and again, as decoding goes through its pictures: the caches of the core are not the
 * kernel's any more afterwards, and the next calls take longer. */
void stk_bench_burn(struct stk_bench_clock *c, double cpu_s, uint8_t *work, size_t size);
/* Virtual: not before that time, at which another thread handed something over. */
void stk_bench_after(struct stk_bench_clock *c, double at_s);
/* Virtual: the time that a request of that many bytes takes. */
void stk_bench_spend(struct stk_bench_clock *c, uint64_t bytes);

#endif
