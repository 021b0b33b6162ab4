/*
 * sample_node.c - what the node says beside the processes: time its CPUs stood idle with I/O
 * outstanding, and the file cache, of the job's cgroup where it has one.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/sample.h"

/* Goes from dir up to the first cgroup below root that counts memory. */
static bool find_stat(char *dir, size_t root_len, char *out, size_t size)
{
    while (strlen(dir) > root_len + 1) {
        int n = snprintf(out, size, "%s/memory.stat", dir);
        if (n > 0 && (size_t)n < size && access(out, R_OK) == 0)
            return true;
        *strrchr(dir, '/') = '\0';
    }
    return false;
}

void stk_node_init(struct stk_node *node)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[4200], dir[4300];
    *node = (struct stk_node){0};
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        const char *v1 = strstr(line, ":memory:/");
        node->v2 = strncmp(line, "0::/", 4) == 0;
        if (!node->v2 && !v1)
            continue;
        const char *root = node->v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
        snprintf(dir, sizeof dir, "%s%s", root, node->v2 ? line + 3 : v1 + 8);
        found = find_stat(dir, strlen(root), node->stat_path, sizeof node->stat_path);
    }
    if (!found)
        node->stat_path[0] = '\0';
    if (f)
        fclose(f);
}

/* The numbers behind names at the beginning of lines; UINT64_MAX: not there. */
static void read_numbers(const char *path, const char *const *name, uint64_t *value, size_t n)
{
    char line[256];
    for (size_t i = 0; i < n; i++)
        value[i] = UINT64_MAX;
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        for (size_t i = 0; i < n; i++) {
            size_t len = strlen(name[i]);
            if (strncmp(line, name[i], len) == 0)
                value[i] = strtoull(line + len, NULL, 10);
        }
    if (f)
        fclose(f);
}

static void read_memory(const struct stk_node *node, struct stk_node_use *use)
{
    static const char *const v2[] = {"file ", "anon ", "shmem ", "file_mapped "};
    static const char *const v1[] = {"total_cache ", "total_rss ", "total_shmem ",
                                     "total_mapped_file "};
    static const char *const machine[] = {"Cached:"};
    uint64_t value[4];
    use->cache_bytes = use->used_bytes = UINT64_MAX;
    if (node->stat_path[0]) {
        read_numbers(node->stat_path, node->v2 ? v2 : v1, value, 4);
        use->cache_bytes = value[0];
        for (size_t i = 1; i < 4 && value[1] != UINT64_MAX; i++)
            use->used_bytes += value[i] == UINT64_MAX ? 0 : value[i];
        use->used_bytes += value[1] != UINT64_MAX; /* it began as -1 */
    }
    if (use->cache_bytes == UINT64_MAX) {
        read_numbers("/proc/meminfo", machine, value, 1);
        use->cache_bytes = value[0] == UINT64_MAX ? value[0] : value[0] * 1024;
    }
}

/* "cpu3 user nice system idle iowait …", of the CPUs we may run on. */
static double read_iowait(void)
{
    cpu_set_t may;
    bool all = sched_getaffinity(0, sizeof may, &may) != 0; /* over 1024 CPUs */
    char line[512];
    double ticks = 0;
    bool any = false;
    FILE *f = fopen("/proc/stat", "re");
    while (f && fgets(line, sizeof line, f) && strncmp(line, "cpu", 3) == 0) {
        unsigned cpu;
        unsigned long long iowait;
        if (sscanf(line, "cpu%u %*u %*u %*u %*u %llu", &cpu, &iowait) != 2)
            continue;
        if (!all && (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &may)))
            continue;
        ticks += (double)iowait;
        any = true;
    }
    if (f)
        fclose(f);
    return any ? ticks / (double)sysconf(_SC_CLK_TCK) : -1;
}

void stk_node_sample(const struct stk_node *node, struct stk_node_use *use)
{
    read_memory(node, use);
    use->iowait_s = read_iowait();
}
