/*
 * live.h - the live handles of callers. A second release is detected without touching memory that
 * may be freed.
 */
#ifndef STK_BASE_LIVE_H
#define STK_BASE_LIVE_H

#include <stdbool.h>

/* False: out of memory, it is not live. Any thread, like the next function. */
bool stk_live_add(const void *handle);
/* True when it was live: the caller releases it now. False: NULL, or released before. */
bool stk_live_end(const void *handle);

#endif
