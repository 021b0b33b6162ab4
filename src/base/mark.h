/*
 * mark.h - marks that a program sends to the profiler, if one is active. The marks for users
 * (stk_step() …) are in stoker.h.
 */
#ifndef STK_BASE_MARK_H
#define STK_BASE_MARK_H

#include <stdbool.h>
#include <stdint.h>

/* True if the preload library is in this process. Looks once. */
bool stk_profiled(void);
/* Marks a read that is not a call (io_uring): result as from read() (negative: -errno), times of
 * CLOCK_MONOTONIC. Does nothing without a profiler. */
void stk_mark_read(int fd, int64_t offset, int64_t result, uint64_t start_ns, uint64_t end_ns);
/* Marks the time since begin_ns (CLOCK_MONOTONIC) as a wait of this thread for data. */
void stk_mark_wait(uint64_t begin_ns);

#endif
