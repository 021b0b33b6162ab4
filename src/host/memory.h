/*
 * memory.h - how much memory this process may use, and how much its job uses: from the job's
 * control group if it has one, else from the machine.
 */
#ifndef STK_HOST_MEMORY_H
#define STK_HOST_MEMORY_H

#include "host/cgroup.h"

/* Bytes the process may use in all: the smallest limit of its cgroups (v1 and v2) or the machine's
 * memory. */
uint64_t stk_memory_limit(void);
/* Bytes of that which are free; droppable page cache counts as free. */
uint64_t stk_memory_free(void);

struct stk_memory_use {
    uint64_t cache_bytes; /* UINT64_MAX: unknown */
    uint64_t used_bytes;  /* by processes of the cgroup: private, shared and mapped memory, each
                           * page once; UINT64_MAX: unknown */
};
struct stk_memory_meter {
    struct stk_cgroup group; /* the nearest group that counts memory */
};
void stk_memory_meter_init(struct stk_memory_meter *m);
void stk_memory_meter_read(const struct stk_memory_meter *m, struct stk_memory_use *use);

#endif
