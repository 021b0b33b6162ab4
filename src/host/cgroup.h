/*
 * cgroup.h - the control group of a process: v1, v2, and both side by side (a controller is in one
 * of the two). A limit of any group above it holds as well, up to where the hierarchy is mounted;
 * what lies above that, in a container, cannot be seen.
 */
#ifndef STK_HOST_CGROUP_H
#define STK_HOST_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct stk_cgroup {
    char dir[4352]; /* "": there is none. May be missing: then those above tell */
    size_t top;     /* how much of dir is the mount point */
    bool v2;
    bool machine; /* what is mounted is the root of all groups: it counts the whole machine */
};

/* The group that `controller` ("cpu", "memory") goes by. pid 0: ourselves. False: none is seen. */
bool stk_cgroup_find(pid_t pid, const char *controller, struct stk_cgroup *g);
/* To the group above. False: it was the topmost. */
bool stk_cgroup_up(struct stk_cgroup *g);
bool stk_cgroup_is_top(const struct stk_cgroup *g);
/* A file of it, as stk_host_read. */
size_t stk_cgroup_read(const struct stk_cgroup *g, const char *file, char *buf, size_t size);

/* memory.stat, with all groups below. UINT64_MAX: not told. */
struct stk_cgroup_stat {
    uint64_t cache_bytes;  /* of files, in tmpfs too */
    uint64_t anon_bytes;   /* of processes */
    uint64_t shmem_bytes;  /* of cache: tmpfs and shared memory, which cannot be dropped */
    uint64_t mapped_bytes; /* of cache: mapped by processes */
};
/* False: there is none. */
bool stk_cgroup_stat(const struct stk_cgroup *g, struct stk_cgroup_stat *s);

struct stk_cgroup_memory {
    uint64_t limit_bytes; /* the smallest of the group's and of those above; UINT64_MAX: none */
    uint64_t free_bytes;  /* the least room any of them leaves; cache that can be dropped is room */
};
void stk_cgroup_memory(pid_t pid, struct stk_cgroup_memory *m);
/* CPUs' worth of time: the tightest quota of the group and those above, 1.5 say. INFINITY: none. */
double stk_cgroup_cpus(pid_t pid);

#endif
