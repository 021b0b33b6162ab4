/*
 * cgroup.h - the control group of a process: v1, v2, and both side by side (a controller is in one
 * of the two). Limits of all parent groups apply as well, up to the mount point of the hierarchy;
 * in a container, groups above that are invisible.
 */
#ifndef STK_HOST_CGROUP_H
#define STK_HOST_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct stk_cgroup {
    char dir[4352]; /* "": none. May not exist: then the parents apply */
    size_t top;     /* length of the mount point in dir */
    bool v2;
    bool machine; /* the mount is the root of all groups, which counts the whole machine */
};

/* The group of `controller` ("cpu", "memory"). pid 0: this process. False: none is visible. */
bool stk_cgroup_find(pid_t pid, const char *controller, struct stk_cgroup *g);
/* Moves to the parent group. False: it was the topmost. */
bool stk_cgroup_up(struct stk_cgroup *g);
bool stk_cgroup_is_top(const struct stk_cgroup *g);

/* memory.stat, including child groups. UINT64_MAX: unknown. */
struct stk_cgroup_stat {
    uint64_t cache_bytes;  /* of files, including tmpfs */
    uint64_t anon_bytes;   /* of processes */
    uint64_t shmem_bytes;  /* of cache: tmpfs and shared memory, which cannot be dropped */
    uint64_t mapped_bytes; /* of cache: mapped by processes */
};
/* False: there is none. */
bool stk_cgroup_stat(const struct stk_cgroup *g, struct stk_cgroup_stat *s);

struct stk_cgroup_memory {
    uint64_t limit_bytes; /* the smallest of the group and its parents; UINT64_MAX: none */
    uint64_t free_bytes;  /* the least that any of them leaves; droppable cache is free */
};
void stk_cgroup_memory(pid_t pid, struct stk_cgroup_memory *m);
/* The tightest CPU quota of the group and its parents, in CPUs (1.5). INFINITY: none. */
double stk_cgroup_cpus(pid_t pid);

/* ---- memory ---------------------------------------------------------------------------------- */

/* How much memory this process may use, and how much its job uses: from the job's control group if
 * it has one, else from the machine. */

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
