/* clock.c - see clock.h. */
#include "bench/clock.h"

#include <errno.h>
#include <math.h>
#include <time.h>
#include <unistd.h>

#include "base/pool.h"
#include "host/tree.h"

#define LINE  64u /* bytes */
#define LINES 256 /* between two looks at the clock */

double stk_bench_now(const struct stk_bench_clock *c)
{
    return c->model->is_virtual ? c->now_s : stk_now();
}

void stk_bench_after(struct stk_bench_clock *c, double at_s)
{
    if (c->model->is_virtual && at_s > c->now_s)
        c->now_s = at_s;
}

void stk_bench_until(struct stk_bench_clock *c, double at_s)
{
    if (c->model->is_virtual) {
        stk_bench_after(c, at_s);
        return;
    }
    double whole = floor(at_s);
    if (at_s <= stk_now()) /* no system call */
        return;
    struct timespec t = {.tv_sec = (time_t)whole, .tv_nsec = (long)((at_s - whole) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

/* Changes one byte per cache line of some lines from *at on. */
static void touch(volatile uint8_t *work, size_t size, size_t *at)
{
    for (int i = 0; i < LINES; i++, *at = (*at + LINE) % size)
        work[*at]++;
}

/* Looks at the clock that needs no system call, and at the CPU clock only when the time may have
 * passed: a thread that decodes makes no system calls, at which the kernel would let others run. */
void stk_bench_burn(struct stk_bench_clock *c, double cpu_s, uint8_t *work, size_t size)
{
    if (c->model->is_virtual) {
        c->now_s += cpu_s;
        return;
    }
    size_t at = 0;
    double end = stk_thread_cpu_s() + cpu_s;
    for (double left = cpu_s; left > 0; left = end - stk_thread_cpu_s())
        for (double until = stk_now() + left; stk_now() < until;)
            touch(work, size, &at);
}

void stk_bench_spend(struct stk_bench_clock *c, uint64_t bytes)
{
    const struct stk_bench_model *m = c->model;
    while (m->hangs)
        pause();
    if (m->is_virtual)
        c->now_s += m->storage.latency_s + (m->rate_Bps > 0 ? (double)bytes / m->rate_Bps : 0);
}
