/*
 * clock.c - reads the time, twice per call: from the processor's time stamp counter if that runs at
 * a constant rate (10 ns per reading), else from clock_gettime() (24 ns). Each thread realigns the
 * counter with the clock about every millisecond, so that it cannot drift.
 */
#include "preload/priv.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Ticks between two readings of the clock: 1-2 ms. Small enough for passed * ns_mult in 64 bits. */
#define SYNC_TICKS (1ull << 22)
/* Below this, the clock's own resolution (tens of ns) would distort the rate. */
#define RATE_NS 50000u

/* Whether the counter may be used is not asked before a process is this old: the question takes a
 * short process longer than the answer saves it. */
#define ASK_NS 5000000u
enum { UNKNOWN, EVEN, UNEVEN };
static uint32_t counter; /* atomic */
static uint64_t first_tsc, first_ns;

static uint64_t read_clock(clockid_t id)
{
    struct timespec t;
    if (clock_gettime(id, &t))
        return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t stk_pl_clock_mono(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t stk_pl_clock_real(void)
{
    return read_clock(CLOCK_REALTIME);
}

/* Reads both at the same moment: repeats if the thread was interrupted in between. */
static uint64_t read_both(uint64_t *tsc)
{
    uint64_t ns = 0;
    for (int tries = 0; tries < 4; tries++) {
        uint64_t before = STK_PL_TICKS();
        ns = stk_pl_clock_mono();
        *tsc = STK_PL_TICKS();
        if (*tsc - before < 2000)
            break;
        *tsc = before;
    }
    return ns;
}

#if defined(__x86_64__)
/* Invariant: same rate in every power state. The kernel uses the counter as its clock only after
 * checking that all processors' counters agree. */
static bool counts_evenly(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1u << 8))
        return false;
    char text[16];
    long fd = stk_sys4(SYS_openat, AT_FDCWD,
                       "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                       O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    long n = stk_sys3(SYS_read, fd, text, sizeof text);
    stk_sys1(SYS_close, fd);
    return n >= 3 && (memcmp(text, "tsc", 3) == 0 || (n >= 9 && memcmp(text, "kvm-clock", 9) == 0));
}
#else
static bool counts_evenly(void)
{
    return false;
}
#endif

/* Once per process, except in forked ones: they keep the parent's counter, with a start of their
 * own. */
void stk_pl_clock_start(void)
{
    if (!first_ns)
        first_ns = read_both(&first_tsc);
    stk_pl.start_mono_ns = stk_pl_clock_mono();
}

static bool may_count(void)
{
    uint32_t known = __atomic_load_n(&counter, __ATOMIC_RELAXED);
    if (known == UNKNOWN && stk_pl_clock_mono() - first_ns > ASK_NS) {
        known = counts_evenly() ? EVEN : UNEVEN;
        __atomic_store_n(&counter, known, __ATOMIC_RELAXED);
    }
    return known == EVEN;
}

uint64_t stk_pl_clock_sync(struct stk_pl_thread *t)
{
    uint64_t tsc = 0;
    if (!may_count())
        return stk_pl_clock_mono() - stk_pl.start_mono_ns;
    uint64_t ns = read_both(&tsc);
    t->tsc_base = tsc;
    t->ns_base = ns - stk_pl.start_mono_ns;
    t->tsc_limit = 0;
    if (ns > first_ns + RATE_NS && tsc > first_tsc) {
        double rate = (double)(ns - first_ns) / (double)(tsc - first_tsc);
        if (rate > 0.01 && rate < 100) { /* 10 MHz to 100 GHz; otherwise it is not such a counter */
            t->ns_mult = (uint64_t)(rate * 4294967296.0);
            t->tsc_limit = SYNC_TICKS;
        }
    }
    return t->ns_base;
}
