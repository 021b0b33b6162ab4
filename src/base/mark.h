/*
 * mark.h - what a program tells the profiler that watches it, and whether there is one. The marks
 * for users (stk_step() …) are in stoker.h.
 */
#ifndef STK_BASE_MARK_H
#define STK_BASE_MARK_H

#include <stdbool.h>
#include <stdint.h>

/* The preload library is in this process. Asks once. */
bool stk_profiled(void);
/* A read that no call shows (io_uring): result as read() gives it (negative: -errno); times of
 * CLOCK_MONOTONIC. Nothing without a profiler. */
void stk_mark_read(int fd, int64_t offset, int64_t result, uint64_t start_ns, uint64_t end_ns);

#endif
