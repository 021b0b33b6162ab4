/*
 * cpus.h - the CPUs: which of them this process may use, their model, and their times so far.
 */
#ifndef STK_HOST_CPUS_H
#define STK_HOST_CPUS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CPUs this process may use: affinity, and the tightest cgroup quota rounded up. At least 1. */
unsigned stk_cpus(void);

#define STK_CORES_MAX CPU_SETSIZE
/* The CPUs of the affinity mask, in the order in which a study takes them. */
struct stk_cores {
    unsigned cpu[STK_CORES_MAX]; /* one of each physical core first */
    unsigned n, physical;
    bool mixed; /* cores of different kinds */
};
void stk_cores_find(struct stk_cores *c);
/* The first n of them. */
void stk_cores_set(const struct stk_cores *c, uint64_t n, cpu_set_t *set);

/* "AMD EPYC 7742 64-Core Processor"; "": unknown. */
void stk_cpu_model(char *out, size_t size);
/* The cpufreq governor, "performance"; "": unknown. */
void stk_cpu_governor(char *out, size_t size);
/* Over the last minute; NAN: unknown. */
double stk_load_average(void);

/* CPU seconds of all CPUs since the machine was started. */
struct stk_cpu_times {
    double busy_s, steal_s, idle_s; /* idle includes iowait */
};
/* False: unknown. */
bool stk_cpu_times(struct stk_cpu_times *t);
/* Seconds that the CPUs we may use were busy, with anybody's work, and idle with I/O outstanding.
 */
struct stk_cpu_use {
    double busy_s, iowait_s;
};
/* False: unknown. */
bool stk_cpu_use(struct stk_cpu_use *use);

#endif
