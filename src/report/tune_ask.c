/* tune_ask.c - what to ask the scheduler for, as lines of a batch file, each with its reason. */
#include <math.h>
#include <stdio.h>

#include "base/units.h"
#include "report/tune.h"

#define GIB          1073741824.0
#define SPARE_MEMORY 1.25 /* for what a replay does not have: the model, the framework */

static const struct stk_tune_candidate *chosen(const struct stk_tune *t)
{
    return &t->candidate[t->best];
}

/* Threads that read: of the candidate, else of the job. */
static uint64_t threads_of(const struct stk_tune *t)
{
    const struct stk_tune_candidate *c = chosen(t);
    for (size_t i = 0; i < c->nchanges; i++)
        for (size_t n = 0; n < c->change[i].nset; n++) {
            unsigned long long v;
            if (sscanf(c->change[i].set[n], "reader.threads=%llu", &v) == 1)
                return v;
        }
    return t->threads;
}

static bool uses_loader(const struct stk_tune_candidate *c)
{
    for (size_t i = 0; i < c->nchanges; i++)
        if (c->change[i].loader)
            return true;
    return false;
}

static const struct stk_tune_change *local_copy(const struct stk_tune_candidate *c)
{
    for (size_t i = 0; i < c->nchanges; i++)
        if (c->change[i].where)
            return &c->change[i];
    return NULL;
}

static void line(struct stk_buf *out, const char *option, uint64_t v, const char *unit,
                 const char *why)
{
    char text[64];
    int n = snprintf(text, sizeof text, "#SBATCH --%s=%llu%s", option, (unsigned long long)v, unit);
    stk_buf_printf(out, "%s%*s# %s\n", text, n < 32 ? 32 - n : 1, "", why);
}

void stk_tune_ask(const struct stk_tune *t, struct stk_buf *out)
{
    const struct stk_tune_candidate *c = chosen(t);
    const struct stk_tune_change *copy = local_copy(c);
    uint64_t threads = threads_of(t);
    char why[200];
    double memory = SPARE_MEMORY * (double)t->memory_bytes * (double)t->ranks +
                    (double)c->memory_bytes;
    line(out, "ntasks", t->ranks, "", "one process per accelerator, as replayed");
    snprintf(why, sizeof why, uses_loader(c) ? "the loader's threads decode, and one trains"
                                             : "%llu threads read, and one trains",
             (unsigned long long)threads);
    line(out, "cpus-per-task", threads + 1, "", why);
    line(out, "gpus-per-task", 1, "", "one accelerator per process");
    snprintf(why, sizeof why, "%.1f GiB of I/O buffers and kept data; add what the model needs",
             memory / GIB);
    line(out, "mem", (uint64_t)ceil(fmax(memory / GIB, 1)), "G", why);
    if (copy && copy->copy.path && !c->memory_bytes)
        line(out, "tmp", (uint64_t)ceil((double)c->disk_bytes / GIB + 1), "G",
             "the copy on the node's own disk");
    stk_buf_puts(out, "# number of nodes: `stoker scale` on this command finds where more stop "
                      "paying\n");
}
