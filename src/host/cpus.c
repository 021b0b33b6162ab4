/*
 * cpus.c - the CPUs this process may use, in the order in which a study takes them: one hardware
 * thread of each physical core first, so that N counts cores as far as possible. And /proc/stat.
 */
#include "host/cpus.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/cgroup.h"
#include "host/root.h"

#define CPUS_MOST (1 << 16) /* more than any kernel supports; today's limit is 8192 */

/* ---- which CPUs we may use ---------------------------------------------------------------- */

/* Parses "0-3,8", from a captured machine. */
static void parse_list(const char *text, cpu_set_t *set)
{
    char *end;
    for (;; text = end + 1) {
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (end == text)
            return;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            CPU_SET(cpu, set);
        if (*end != ',')
            return;
    }
}

static bool captured_affinity(cpu_set_t *set)
{
    static const char name[] = "\nCpus_allowed_list:";
    char text[8192];
    stk_host_read("/proc/self/status", text, sizeof text);
    const char *line = strstr(text, name);
    CPU_ZERO(set);
    if (line)
        parse_list(line + sizeof name - 1, set);
    return CPU_COUNT(set) > 0;
}

/* False: unknown, or more CPUs than the set holds. */
static bool affinity(cpu_set_t *set)
{
    return stk_host_is_captured() ? captured_affinity(set)
                                  : sched_getaffinity(0, sizeof *set, set) == 0;
}

/* The kernel refuses a set smaller than its own. */
static unsigned count_many(void)
{
    int n = 0;
    for (int cpus = 2 * CPU_SETSIZE; !n && cpus <= CPUS_MOST; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        size_t size = CPU_ALLOC_SIZE((size_t)cpus);
        if (set && sched_getaffinity(0, size, set) == 0)
            n = CPU_COUNT_S(size, set);
        CPU_FREE(set);
    }
    return (unsigned)n;
}

unsigned stk_cpus(void)
{
    cpu_set_t set;
    unsigned n = affinity(&set) ? (unsigned)CPU_COUNT(&set) : count_many();
    double quota = ceil(stk_cgroup_cpus(0));
    if (quota < n)
        n = (unsigned)quota;
    return n ? n : 1;
}

/* ---- cores -------------------------------------------------------------------------------- */

static int read_number(unsigned cpu, const char *name)
{
    char path[160], text[32];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/%s", cpu, name);
    return stk_host_read(path, text, sizeof text) ? atoi(text) : -1;
}

struct place {
    unsigned cpu;
    int package, core;
    unsigned sibling; /* its index among the threads of its core */
};

static int by_sibling(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->sibling != y->sibling)
        return x->sibling < y->sibling ? -1 : 1;
    return (x->cpu > y->cpu) - (x->cpu < y->cpu);
}

/* True if there are efficiency and performance cores: the kernel names them on Intel, and rates
 * them on Arm. */
static bool kinds_differ(const struct place *p, unsigned n)
{
    if (stk_host_exists("/sys/devices/cpu_atom") && stk_host_exists("/sys/devices/cpu_core"))
        return true;
    int first = n ? read_number(p[0].cpu, "cpu_capacity") : -1;
    for (unsigned i = 1; i < n; i++)
        if (read_number(p[i].cpu, "cpu_capacity") != first)
            return true;
    return false;
}

static void count_siblings(struct place *p, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < i; k++)
            if (p[i].core >= 0 && p[k].core == p[i].core && p[k].package == p[i].package)
                p[i].sibling++;
}

void stk_cores_find(struct stk_cores *c)
{
    static _Thread_local struct place place[STK_CORES_MAX];
    cpu_set_t set;
    *c = (struct stk_cores){0};
    if (!affinity(&set))
        return;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &set))
            continue;
        place[c->n++] = (struct place){.cpu = cpu,
                                       .package = read_number(cpu, "topology/physical_package_id"),
                                       .core = read_number(cpu, "topology/core_id")};
    }
    c->mixed = kinds_differ(place, c->n);
    count_siblings(place, c->n);
    qsort(place, c->n, sizeof *place, by_sibling);
    for (unsigned i = 0; i < c->n; i++) {
        c->cpu[i] = place[i].cpu;
        c->physical += place[i].sibling == 0;
    }
}

void stk_cores_set(const struct stk_cores *c, uint64_t n, cpu_set_t *set)
{
    CPU_ZERO(set);
    for (unsigned i = 0; i < c->n && i < n; i++)
        CPU_SET(c->cpu[i], set);
}

/* ---- what they are ------------------------------------------------------------------------ */

/* "model name      : AMD EPYC 7742 64-Core Processor" */
void stk_cpu_model(char *out, size_t size)
{
    char line[512];
    FILE *f = stk_host_fopen("/proc/cpuinfo");
    out[0] = '\0';
    while (f && !out[0] && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (!colon || (strncmp(line, "model name", 10) != 0 && strncmp(line, "cpu\t", 4) != 0))
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(out, size, "%.*s", (int)strcspn(colon, "\n"), colon);
    }
    if (f)
        fclose(f);
}

void stk_cpu_governor(char *out, size_t size)
{
    stk_host_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", out, size);
}

double stk_load_average(void)
{
    char text[128];
    stk_host_line("/proc/loadavg", text, sizeof text);
    return text[0] ? atof(text) : NAN;
}

/* ---- what they did ------------------------------------------------------------------------ */

/* user nice system idle iowait irq softirq steal; guests are counted in user */
bool stk_cpu_times(struct stk_cpu_times *t)
{
    char line[512];
    unsigned long long v[8] = {0};
    double tick = (double)sysconf(_SC_CLK_TCK);
    stk_host_line("/proc/stat", line, sizeof line);
    if (sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3],
               &v[4], &v[5], &v[6], &v[7]) < 8)
        return false;
    t->busy_s = (double)(v[0] + v[1] + v[2] + v[5] + v[6]) / tick;
    t->steal_s = (double)v[7] / tick;
    t->idle_s = (double)(v[3] + v[4]) / tick;
    return true;
}

/* "cpu3 user nice system idle iowait irq softirq …", summed over the CPUs we may use. */
bool stk_cpu_use(struct stk_cpu_use *use)
{
    cpu_set_t may;
    bool all = !affinity(&may), any = false;
    char line[512];
    double busy = 0, iowait = 0, tick = (double)sysconf(_SC_CLK_TCK);
    FILE *f = stk_host_fopen("/proc/stat");
    while (f && fgets(line, sizeof line, f) && strncmp(line, "cpu", 3) == 0) {
        unsigned cpu;
        unsigned long long v[7] = {0};
        if (line[3] == ' ' || sscanf(line, "cpu%u %llu %llu %llu %llu %llu %llu %llu", &cpu, &v[0],
                                     &v[1], &v[2], &v[3], &v[4], &v[5], &v[6]) < 6)
            continue; /* the line of all CPUs, or cut short */
        if (!all && (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &may)))
            continue;
        busy += (double)(v[0] + v[1] + v[2] + v[5] + v[6]);
        iowait += (double)v[4];
        any = true;
    }
    if (f)
        fclose(f);
    *use = (struct stk_cpu_use){busy / tick, iowait / tick};
    return any;
}
