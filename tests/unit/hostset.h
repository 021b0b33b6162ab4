/*
 * hostset.h - captured machines: the files of /proc and /sys that a test writes into a folder of
 * its own, which are then read in place of this machine's.
 */
#ifndef HOSTSET_H
#define HOSTSET_H

#include "scratch.h"
#include "host/root.h"

static char host_name[32];

/* From here on an empty machine. */
static inline void host_begin(void)
{
    static char root[300];
    static unsigned n;
    snprintf(host_name, sizeof host_name, "machine%u", n++);
    snprintf(root, sizeof root, "%s/%s", scratch, host_name);
    stk_host_set_root(root);
}

static inline void host_file(const char *path, const char *text)
{
    char name[300];
    snprintf(name, sizeof name, "%s%s", host_name, path);
    scratch_file(name, text, strlen(text));
}

/* A file of a cgroup: its path is the folder's, with a mount point before it. */
static inline void host_group(const char *dir, const char *file, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", dir, file);
    host_file(path, text);
}

#define HOST_V2 "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
#define HOST_V1                                                                                    \
    "30 23 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"                                   \
    "31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"         \
    "32 30 0:28 / /sys/fs/cgroup/memory rw shared:10 - cgroup cgroup rw,memory\n"                  \
    "33 30 0:29 / /sys/fs/cgroup/unified rw shared:11 - cgroup2 cgroup2 rw\n"

/* mounts: the machine's; cgroup: the groups of this process. */
static inline void host_groups(const char *mounts, const char *cgroup)
{
    host_begin();
    host_file("/proc/self/mountinfo", mounts);
    host_file("/proc/self/cgroup", cgroup);
}

/* A process as /proc/PID/stat tells it. */
static inline void host_process_in(char state, int pid, int ppid, const char *comm,
                                   unsigned long ticks, unsigned long start)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    snprintf(text, sizeof text,
             "%d (%s) %c %d 1 1 0 -1 4194560 9 8 7 6 %lu 2 30 4 20 0 3 0 %lu 18446744073709551615 "
             "5 1\n",
             pid, comm, state, ppid, ticks, start);
    host_file(path, text);
}

static inline void host_process(int pid, int ppid, const char *comm, unsigned long ticks,
                                unsigned long start)
{
    host_process_in('S', pid, ppid, comm, ticks, start);
}

#endif
