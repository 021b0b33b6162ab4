/*
 * machine.c - where a study runs, and how busy others kept the machine meanwhile: CPU time
 * from /proc/stat, minus that of our own runs.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/pool.h"
#include "host/cpus.h"
#include "host/gpu.h"
#include "study/priv.h"

#define LOOK_EVERY_S 0.3  /* on many cores, reading /proc/stat takes milliseconds */
#define BUSY_CORES   0.25 /* less than this used by others is not worth a note */
#define STEAL_SHARE  0.02

void stk_runner_note(struct stk_runner_conditions *c, const char *fmt, ...)
{
    va_list ap;
    if (c->nnotes == STK_RUNNER_NOTES)
        return;
    va_start(ap, fmt);
    vsnprintf(c->note[c->nnotes++], sizeof c->note[0], fmt, ap);
    va_end(ap);
}

/* ---- what it is --------------------------------------------------------------------------- */

void stk_machine_look(struct stk_runner_conditions *c)
{
    gethostname(c->host, sizeof c->host - 1);
    stk_cpu_model(c->cpu, sizeof c->cpu);
    (void)stk_gpus_glance(c->gpu, sizeof c->gpu);
    stk_cpu_governor(c->governor, sizeof c->governor);
    c->load = stk_load_average();
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
    struct stk_cpu_times t;
    if (!stk_cpu_times(&t))
        return false;
    *busy_s = t.busy_s - own_cpu_s();
    *steal_s = t.steal_s;
    *all_s = *busy_s + t.steal_s + t.idle_s;
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

void stk_noise_end(struct stk_noise_watch *w, struct stk_runner_conditions *c)
{
    if (stk_now() - w->at_s >= LOOK_EVERY_S / 2)
        look(w, stk_now());
    if (w->watched_s <= 0)
        return;
    c->others_cores = w->others_s / w->watched_s;
    c->others_worst = w->worst;
    c->steal = w->total_s > 0 ? w->stolen_s / w->total_s : NAN;
    if (c->others_cores >= BUSY_CORES)
        stk_runner_note(
            c,
            "Other programs kept %.1f of this machine's %ld CPUs busy during the measurement (at "
            "worst %.1f): times are too long, and scaling looks worse than it is",
            c->others_cores, sysconf(_SC_NPROCESSORS_ONLN), c->others_worst);
    if (c->steal >= STEAL_SHARE)
        stk_runner_note(c,
                        "Other virtual machines took %.0f %% of the CPUs' time (steal): times "
                        "vary with their load",
                        100 * c->steal);
}
