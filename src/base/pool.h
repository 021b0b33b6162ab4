/*
 * pool.h - run numbered work items on a few threads and wait for all of them.
 *
 * stk_pool_run calls work(user, item, thread, err) for item 0..nitems-1, handed out in ascending
 * order; the first error stops handing out more and is returned. thread is 0..nthreads-1, for
 * per-thread state. With nthreads <= 1 it runs in the caller.
 */
#ifndef STK_BASE_POOL_H
#define STK_BASE_POOL_H

#include "base/err.h"

typedef int stk_work_fn(void *user, uint64_t item, unsigned thread, struct stk_err *err);

int stk_pool_run(unsigned nthreads, uint64_t nitems, stk_work_fn *work, void *user,
                 struct stk_err *err);
double stk_now(void); /* monotonic seconds */

#endif
