/*
 * spare.h - buffers that the threads of a generation use again for the next file: memory that is
 * given back and fetched again for each large sample takes longer than writing it.
 */
#ifndef STK_BENCH_SPARE_H
#define STK_BENCH_SPARE_H

#include "base/buf.h"

struct stk_spare {
    struct stk_buf data, bytes; /* empty when fetched */
    struct stk_spare *next;   /* of the free ones */
};

/* One for the caller alone, until stk_spare_put(). NULL: no memory. */
struct stk_spare *stk_spare_get(void);
/* NULL: does nothing. */
void stk_spare_put(struct stk_spare *s);
/* After a generation: frees those that were put back. */
void stk_spare_free(void);

#endif
