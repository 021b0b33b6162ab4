/*
 * pace.h - when an answer is due: after the latency of the request, then after its transfer on the
 * link.
 *
 * Latency is a sleep of one request alone; requests overlap. Bandwidth is a virtual clock: a
 * request of n bytes holds the link for n / rate, from when it is ready or the link is free,
 * whichever is later. The clock does not depend on when a thread wakes up, so N bytes take exactly
 * N / rate, over any time.
 *
 * An answer always comes a little late: a thread wakes up, bytes are copied. To catch up, the
 * lateness of an answer is taken off the next request of the same thread; so that the delays of a
 * thread add up to what is set.
 */
#ifndef SLOWFS_PACE_H
#define SLOWFS_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum op { OP_OPEN, OP_STAT, OP_READ, OP_WRITE, OP_COUNT };

struct pace_clock {
    _Atomic uint64_t free_ns; /* the end of all reservations */
};

#define PACE_THREADS 1024u
#define PACE_LAG_MAX 100000000u /* ns: a thread that was stopped for longer gets no more back */

/* How late the last answer of each thread was. A thread may lose its place to another one. */
struct pace_lags {
    _Atomic uint64_t lag[PACE_THREADS]; /* the thread's number << 32 | ns */
};

/* Changeable while mounted, hence atomic. 0: no latency, no limit. */
struct pace {
    _Atomic uint64_t latency_ns[OP_COUNT];
    _Atomic uint64_t link_Bps, client_Bps;
    double jitter; /* latency is drawn from [1 - jitter, 1 + jitter] times its setting */
    uint64_t seed;
    _Atomic uint64_t draws;
    struct pace_clock link;
};

uint64_t pace_latency(struct pace *p, enum op op);
/* Reserves the clock for `bytes`, not before ready_ns. Returns the end of the transfer; *start_ns
 * (may be NULL): its start. */
uint64_t pace_reserve(struct pace_clock *c, uint64_t rate_Bps, uint64_t ready_ns, uint64_t bytes,
                      uint64_t *start_ns);
/* ns, at most PACE_LAG_MAX; 0: unknown. */
uint64_t pace_lag(struct pace_lags *l, uint32_t thread);
void pace_set_lag(struct pace_lags *l, uint32_t thread, uint64_t ns);
/* "open", "stat", "read", "write", or NULL. */
const char *pace_op_name(enum op op);
/* False: name is not an operation. */
bool pace_op_find(const char *name, enum op *op);

#endif
