/* cgroup.c - finds the control group of a process, and walks from it up to the mount. */
#include "host/cgroup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/fs.h"
#include "host/root.h"

#define PATH_ROOM 4096
#define NO_LIMIT  (UINT64_C(1) << 62) /* v1 writes a number no machine reaches instead of "max" */

/* ---- where it is -------------------------------------------------------------------------- */

/* "cpu" in "rw,cpu,cpuacct" */
static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (; list; list = strchr(list, ',')) {
        list += *list == ',';
        if (strncmp(list, word, n) == 0 && (list[n] == ',' || !list[n]))
            return true;
    }
    return false;
}

/* Lines "4:cpu,cpuacct:/job_7/step_0" of v1 and "0::/job_7/step_0" of v2. */
static void read_paths(pid_t pid, const char *controller, char *v1, char *v2)
{
    char name[40] = "/proc/self/cgroup", *line = NULL;
    size_t room = 0;
    if (pid)
        snprintf(name, sizeof name, "/proc/%d/cgroup", (int)pid);
    FILE *f = stk_host_fopen(name);
    while (f && getline(&line, &room, f) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path || path[1] != '/')
            continue;
        *path++ = '\0';
        if (!list[1])
            snprintf(v2, PATH_ROOM, "%s", path);
        else if (has_word(list + 1, controller))
            snprintf(v1, PATH_ROOM, "%s", path);
    }
    free(line);
    if (f)
        fclose(f);
}

static bool climbs(const char *path)
{
    for (const char *p = path; (p = strstr(p, "/..")); p += 3)
        if (p[3] == '/' || !p[3])
            return true;
    return false;
}

/* The group's path below the mount. NULL: outside of it, as in a container that sees another part
 * of the hierarchy, or a namespace the process was not started in ("/../x"). */
static const char *path_below(const char *path, const char *mount_root)
{
    size_t n = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);
    if (strncmp(path, mount_root, n) != 0 || (path[n] != '/' && path[n]) || climbs(path + n))
        return NULL;
    return strcmp(path + n, "/") == 0 ? "" : path + n;
}

static bool take_mount(const struct stk_mount_line *m, const char *below, struct stk_cgroup *g)
{
    int n = snprintf(g->dir, sizeof g->dir, "%s%s", m->point, below);
    g->top = strlen(m->point);
    g->v2 = strcmp(m->type, "cgroup2") == 0;
    g->machine = strcmp(m->root, "/") == 0;
    return n > 0 && (size_t)n < sizeof g->dir;
}

/* The mount that holds the group; else any of that kind, the topmost being the closest match. */
static bool find_mount(const char *type, const char *controller, const char *path,
                       struct stk_cgroup *g)
{
    FILE *f = stk_host_fopen("/proc/self/mountinfo");
    char *line = NULL;
    size_t room = 0;
    bool found = false, holds = false;
    while (f && !holds && getline(&line, &room, f) > 0) {
        struct stk_mount_line m;
        if (!stk_mount_parse(line, &m) || !m.point[1] || strcmp(m.type, type) != 0 ||
            (controller && !has_word(m.options, controller)))
            continue;
        const char *below = path_below(path, m.root);
        holds = below != NULL;
        if (holds || !found)
            found = take_mount(&m, holds ? below : "", g);
    }
    free(line);
    if (f)
        fclose(f);
    return found;
}

bool stk_cgroup_find(pid_t pid, const char *controller, struct stk_cgroup *g)
{
    char v1[PATH_ROOM] = "", v2[PATH_ROOM] = "";
    read_paths(pid, controller, v1, v2);
    if ((v1[0] && find_mount("cgroup", controller, v1, g)) ||
        (v2[0] && find_mount("cgroup2", NULL, v2, g)))
        return true;
    *g = (struct stk_cgroup){0};
    return false;
}

bool stk_cgroup_is_top(const struct stk_cgroup *g)
{
    return strlen(g->dir) <= g->top;
}

bool stk_cgroup_up(struct stk_cgroup *g)
{
    if (stk_cgroup_is_top(g))
        return false;
    *strrchr(g->dir, '/') = '\0';
    return true;
}

/* Reads a file of the group, like stk_host_read(). */
static size_t read_file(const struct stk_cgroup *g, const char *file, char *buf, size_t size)
{
    char path[sizeof g->dir + 64];
    snprintf(path, sizeof path, "%s/%s", g->dir, file);
    return stk_host_read(path, buf, size);
}

/* The number at the start of a file. UINT64_MAX: none. */
static uint64_t read_number(const struct stk_cgroup *g, const char *file)
{
    char text[64];
    read_file(g, file, text, sizeof text);
    return stk_host_number(text);
}

/* ---- memory ------------------------------------------------------------------------------- */

bool stk_cgroup_stat(const struct stk_cgroup *g, struct stk_cgroup_stat *s)
{
    static const char *const name[2][4] = {
        {"total_cache ", "total_rss ", "total_shmem ", "total_mapped_file "},
        {"file ", "anon ", "shmem ", "file_mapped "}};
    char text[8192]; /* usually about 2 KiB */
    if (!read_file(g, "memory.stat", text, sizeof text))
        return false;
    s->cache_bytes = stk_host_number_of(text, name[g->v2][0]);
    s->anon_bytes = stk_host_number_of(text, name[g->v2][1]);
    s->shmem_bytes = stk_host_number_of(text, name[g->v2][2]);
    s->mapped_bytes = stk_host_number_of(text, name[g->v2][3]);
    return true;
}

/* The page cache counts against the group, but its droppable part is free. */
static uint64_t droppable(const struct stk_cgroup *g)
{
    struct stk_cgroup_stat s;
    if (!stk_cgroup_stat(g, &s) || s.cache_bytes == UINT64_MAX)
        return 0;
    uint64_t stays = s.shmem_bytes == UINT64_MAX ? 0 : s.shmem_bytes;
    return s.cache_bytes > stays ? s.cache_bytes - stays : 0;
}

static void take_memory(const struct stk_cgroup *g, struct stk_cgroup_memory *m)
{
    uint64_t limit = read_number(g, g->v2 ? "memory.max" : "memory.limit_in_bytes");
    if (limit >= NO_LIMIT)
        return;
    m->limit_bytes = limit < m->limit_bytes ? limit : m->limit_bytes;
    uint64_t used = read_number(g, g->v2 ? "memory.current" : "memory.usage_in_bytes");
    if (used == UINT64_MAX)
        return;
    uint64_t cache = droppable(g), held = used > cache ? used - cache : 0;
    uint64_t left = limit > held ? limit - held : 0;
    m->free_bytes = left < m->free_bytes ? left : m->free_bytes;
}

void stk_cgroup_memory(pid_t pid, struct stk_cgroup_memory *m)
{
    struct stk_cgroup g;
    *m = (struct stk_cgroup_memory){UINT64_MAX, UINT64_MAX};
    if (!stk_cgroup_find(pid, "memory", &g))
        return;
    do
        take_memory(&g, m);
    while (stk_cgroup_up(&g));
}

/* ---- CPU ---------------------------------------------------------------------------------- */

/* v2: "150000 100000" or "max 100000"; v1: one file each, -1 is no quota. */
static double read_quota(const struct stk_cgroup *g)
{
    char text[64];
    uint64_t quota, period;
    if (g->v2) {
        read_file(g, "cpu.max", text, sizeof text);
        quota = stk_host_number(text);
        period = stk_host_number(text + strcspn(text, " "));
    } else {
        quota = read_number(g, "cpu.cfs_quota_us");
        period = read_number(g, "cpu.cfs_period_us");
    }
    bool told = quota != UINT64_MAX && period != UINT64_MAX && quota && period;
    return told ? (double)quota / (double)period : INFINITY;
}

double stk_cgroup_cpus(pid_t pid)
{
    struct stk_cgroup g;
    double cpus = INFINITY;
    if (!stk_cgroup_find(pid, "cpu", &g))
        return cpus;
    do
        cpus = fmin(cpus, read_quota(&g));
    while (stk_cgroup_up(&g));
    return cpus;
}

/* ---- memory ---------------------------------------------------------------------------------- */

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
