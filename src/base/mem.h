/*
 * mem.h - how much memory this process may use: the job's limit, not the machine's.
 */
#ifndef STK_BASE_MEM_H
#define STK_BASE_MEM_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes the process may use in all: the smallest limit of its cgroups (v1 and v2) or the machine's
 * memory. */
uint64_t stk_memory_limit(void);
/* Bytes of that which are not taken yet; page cache that can be dropped counts as free. */
uint64_t stk_memory_free(void);

#endif
