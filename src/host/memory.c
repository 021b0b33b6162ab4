/* memory.c - memory limits and use, from the cgroup files and /proc/meminfo. */
#include "host/memory.h"

#include "host/root.h"

#define MODEST (UINT64_C(1) << 30) /* if the amount of memory is unknown */

/* A line of /proc/meminfo in bytes: "MemTotal:  16384 kB". */
static uint64_t meminfo(const char *name)
{
    char text[8192];
    stk_host_read("/proc/meminfo", text, sizeof text);
    uint64_t kib = stk_host_number_of(text, name);
    return kib > UINT64_MAX / 1024 ? UINT64_MAX : kib * 1024;
}

static uint64_t least(uint64_t group, uint64_t machine)
{
    uint64_t bytes = group < machine ? group : machine;
    return bytes == UINT64_MAX ? MODEST : bytes;
}

uint64_t stk_memory_limit(void)
{
    struct stk_cgroup_memory m;
    stk_cgroup_memory(0, &m);
    return least(m.limit_bytes, meminfo("MemTotal:"));
}

uint64_t stk_memory_free(void)
{
    struct stk_cgroup_memory m;
    stk_cgroup_memory(0, &m);
    return least(m.free_bytes, meminfo("MemAvailable:"));
}

void stk_memory_meter_init(struct stk_memory_meter *m)
{
    struct stk_cgroup_stat s;
    struct stk_cgroup *g = &m->group;
    bool more = stk_cgroup_find(0, "memory", g);
    for (; more && !(stk_cgroup_is_top(g) && g->machine); more = stk_cgroup_up(g))
        if (stk_cgroup_stat(g, &s))
            return;
    *m = (struct stk_memory_meter){0};
}

void stk_memory_meter_read(const struct stk_memory_meter *m, struct stk_memory_use *use)
{
    struct stk_cgroup_stat s;
    *use = (struct stk_memory_use){UINT64_MAX, UINT64_MAX};
    if (m->group.dir[0] && stk_cgroup_stat(&m->group, &s)) {
        use->cache_bytes = s.cache_bytes;
        if (s.anon_bytes != UINT64_MAX)
            use->used_bytes = s.anon_bytes + (s.shmem_bytes == UINT64_MAX ? 0 : s.shmem_bytes) +
                              (s.mapped_bytes == UINT64_MAX ? 0 : s.mapped_bytes);
    }
    if (use->cache_bytes == UINT64_MAX)
        use->cache_bytes = meminfo("Cached:");
}
