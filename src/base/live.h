/*
 * live.h - the handles that callers have and may release. What is released a second time is found
 * not to be live, without looking at memory that may be gone.
 */
#ifndef STK_BASE_LIVE_H
#define STK_BASE_LIVE_H

#include <stdbool.h>

/* False: out of memory, it is not live. Any thread, as the next one. */
bool stk_live_add(const void *handle);
/* True when it was live: the caller releases it now. False: NULL, or released before. */
bool stk_live_end(const void *handle);

#endif
