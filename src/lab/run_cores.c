/*
 * run_cores.c - the CPUs we may use, in the order in which a study takes them: one hardware thread
 * of each physical core first, so that N counts cores as long as there are any.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lab/run_priv.h"

static int read_number(unsigned cpu, const char *name)
{
    char path[160], text[32];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/%s", cpu, name);
    FILE *f = fopen(path, "re");
    int v = f && fgets(text, sizeof text, f) ? atoi(text) : -1;
    if (f)
        fclose(f);
    return v;
}

struct place {
    unsigned cpu;
    int package, core;
    unsigned sibling; /* how many of its core come before it */
};

static int by_sibling(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->sibling != y->sibling)
        return x->sibling < y->sibling ? -1 : 1;
    return (x->cpu > y->cpu) - (x->cpu < y->cpu);
}

/* Efficiency cores beside performance cores: Intel's kernels name them, Arm's rate them. */
static bool kinds_differ(const struct place *p, unsigned n)
{
    if (access("/sys/devices/cpu_atom", F_OK) == 0 && access("/sys/devices/cpu_core", F_OK) == 0)
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
    if (sched_getaffinity(0, sizeof set, &set) != 0)
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
