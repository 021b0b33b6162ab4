/*
 * mem.c - memory limits from /proc and the cgroup files. A page cache that can be dropped is
 * counted by the kernel against the cgroup, but it is room all the same.
 */
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number in a file that holds one; UINT64_MAX for "max" or when there is none. */
static uint64_t read_number(const char *path)
{
    FILE *f = fopen(path, "re");
    uint64_t v;
    if (!f || fscanf(f, "%" SCNu64, &v) != 1)
        v = UINT64_MAX;
    if (f)
        fclose(f);
    return v;
}

/* "Name: 123 kB" of a file of such lines, in bytes (unit 1024) or as it is (unit 1). */
static uint64_t read_line(const char *path, const char *name, uint64_t unit)
{
    FILE *f = fopen(path, "re");
    char line[256];
    uint64_t v = UINT64_MAX, found = UINT64_MAX;
    size_t n = strlen(name);
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, n) == 0 && sscanf(line + n, "%" SCNu64, &v) == 1)
            found = v * unit;
    if (f)
        fclose(f);
    return found;
}

struct group {
    uint64_t limit, used, cache;
};

/* The tightest of a cgroup and those above it. dir is cut short on the way. */
static void look_up(char *dir, size_t root_len, bool v2, struct group *g)
{
    char path[4400];
    for (;;) {
        snprintf(path, sizeof path, "%s/%s", dir, v2 ? "memory.max" : "memory.limit_in_bytes");
        uint64_t limit = read_number(path);
        if (limit < g->limit) {
            g->limit = limit;
            snprintf(path, sizeof path, "%s/%s", dir,
                     v2 ? "memory.current" : "memory.usage_in_bytes");
            g->used = read_number(path);
            snprintf(path, sizeof path, "%s/memory.stat", dir);
            uint64_t cache = read_line(path, v2 ? "file " : "total_cache ", 1);
            g->cache = cache == UINT64_MAX ? 0 : cache;
        }
        char *slash = strrchr(dir + root_len, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

static void find_group(struct group *g)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[4200], dir[4300];
    *g = (struct group){.limit = UINT64_MAX};
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        bool v2 = strncmp(line, "0::/", 4) == 0;
        const char *v1 = strstr(line, ":memory:/");
        const char *root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
        if (!v2 && !v1)
            continue;
        snprintf(dir, sizeof dir, "%s%s", root, v2 ? line + 3 : v1 + 8);
        look_up(dir, strlen(root), v2, g);
    }
    if (f)
        fclose(f);
}

uint64_t stk_memory_limit(void)
{
    struct group g;
    find_group(&g);
    uint64_t machine = read_line("/proc/meminfo", "MemTotal:", 1024);
    uint64_t limit = g.limit < machine ? g.limit : machine;
    return limit == UINT64_MAX ? 1ull << 30 : limit; /* nobody says: be modest */
}

uint64_t stk_memory_free(void)
{
    struct group g;
    find_group(&g);
    uint64_t machine = read_line("/proc/meminfo", "MemAvailable:", 1024);
    uint64_t free_bytes = UINT64_MAX;
    if (g.limit != UINT64_MAX && g.used != UINT64_MAX) {
        uint64_t held = g.used > g.cache ? g.used - g.cache : 0;
        free_bytes = g.limit > held ? g.limit - held : 0;
    }
    free_bytes = machine < free_bytes ? machine : free_bytes;
    return free_bytes == UINT64_MAX ? 1ull << 30 : free_bytes;
}
