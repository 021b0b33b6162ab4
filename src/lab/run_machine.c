/*
 * run_machine.c - where a study runs, and who else was at work there meanwhile: what /proc/stat
 * says the CPUs did, less what our own runs used.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/pool.h"
#include "lab/run_priv.h"
#include "lab/sample.h"

#define LOOK_EVERY_S 0.3  /* on many cores reading /proc/stat takes milliseconds */
#define BUSY_CORES   0.25 /* others that use less are not worth a word */
#define STEAL_SHARE  0.02

void stk_runs_note(struct stk_runs_conditions *c, const char *fmt, ...)
{
    va_list ap;
    if (c->nnotes == STK_RUNS_NOTES)
        return;
    va_start(ap, fmt);
    vsnprintf(c->note[c->nnotes++], sizeof c->note[0], fmt, ap);
    va_end(ap);
}

/* ---- what it is --------------------------------------------------------------------------- */

static void first_line(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "re");
    if (!f || !fgets(out, (int)size, f))
        out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    if (f)
        fclose(f);
}

/* "model name      : AMD EPYC 7742 64-Core Processor" */
static void cpu_model(char *out, size_t size)
{
    char line[512];
    FILE *f = fopen("/proc/cpuinfo", "re");
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

void stk_machine_look(struct stk_runs_conditions *c)
{
    char text[128];
    gethostname(c->host, sizeof c->host - 1);
    cpu_model(c->cpu, sizeof c->cpu);
    (void)stk_gpus_glance(c->gpu, sizeof c->gpu);
    first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", c->governor,
               sizeof c->governor);
    first_line("/proc/loadavg", text, sizeof text);
    c->load = text[0] ? atof(text) : NAN;
    c->cpus_usable = stk_cpus();
    c->others_cores = c->others_worst = c->steal = NAN;
}

/* ---- who else is busy --------------------------------------------------------------------- */

static double own_cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return stk_cpu_seconds(&u);
}

static bool read_stat(double *busy_s, double *steal_s, double *all_s)
{
    char line[512];
    unsigned long long v[8] = {0};
    first_line("/proc/stat", line, sizeof line);
    /* user nice system idle iowait irq softirq steal; guests are counted in user */
    if (sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3],
               &v[4], &v[5], &v[6], &v[7]) < 8)
        return false;
    double tick = (double)sysconf(_SC_CLK_TCK);
    *busy_s = (double)(v[0] + v[1] + v[2] + v[5] + v[6]) / tick - own_cpu_s();
    *steal_s = (double)v[7] / tick;
    *all_s = *busy_s + *steal_s + (double)(v[3] + v[4]) / tick;
    return true;
}

void stk_noise_begin(struct stk_noise_watch *w)
{
    *w = (struct stk_noise_watch){.at_s = stk_now()};
    w->known = read_stat(&w->busy_s, &w->steal_s, &w->all_s);
}

static void look(struct stk_noise_watch *w, double now)
{
    double busy, steal, all, elapsed = now - w->at_s;
    if (!w->known || !read_stat(&busy, &steal, &all))
        return;
    double others = busy - w->busy_s - w->ours_s;
    others = others > 0 ? others : 0;
    w->others_s += others;
    w->stolen_s += steal - w->steal_s;
    w->total_s += all - w->all_s;
    w->watched_s += elapsed;
    w->worst = fmax(w->worst, others / elapsed);
    w->at_s = now;
    w->busy_s = busy;
    w->steal_s = steal;
    w->all_s = all;
    w->ours_s = 0;
}

void stk_noise_run(struct stk_noise_watch *w, double cpu_s)
{
    double now = stk_now();
    w->ours_s += isnan(cpu_s) ? 0 : cpu_s;
    if (now - w->at_s >= LOOK_EVERY_S)
        look(w, now);
}

void stk_noise_end(struct stk_noise_watch *w, struct stk_runs_conditions *c)
{
    if (stk_now() - w->at_s >= LOOK_EVERY_S / 2)
        look(w, stk_now());
    if (w->watched_s <= 0)
        return;
    c->others_cores = w->others_s / w->watched_s;
    c->others_worst = w->worst;
    c->steal = w->total_s > 0 ? w->stolen_s / w->total_s : NAN;
    if (c->others_cores >= BUSY_CORES)
        stk_runs_note(c,
                      "Other programs kept %.1f of this machine's %ld CPUs busy while it was "
                      "measured (at worst %.1f): times are too long, and scaling looks worse than "
                      "it is",
                      c->others_cores, sysconf(_SC_NPROCESSORS_ONLN), c->others_worst);
    if (c->steal >= STEAL_SHARE)
        stk_runs_note(c,
                      "Other virtual machines took %.0f %% of the CPUs' time (steal): times vary "
                      "with what they do",
                      100 * c->steal);
}
