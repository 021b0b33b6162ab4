/*
 * tune_ask.c - what to ask the scheduler for, as lines of a batch file, each with its reason: what
 * the replay and the profile measured, and where a study of `stoker scale` says more stops paying.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "report/tune.h"

#define GIB   1073741824.0
#define SPARE 1.25 /* of memory: what a short run has not met */

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

/* A copy, or checkpoints, on a disk of the node. */
static bool needs_disk(const struct stk_tune_candidate *c)
{
    for (size_t i = 0; i < c->nchanges; i++)
        if (c->change[i].where && !c->change[i].memory_bytes)
            return true;
    return false;
}

static void line(struct stk_buf *out, const char *option, uint64_t v, const char *unit,
                 const char *why)
{
    char text[64];
    int n = snprintf(text, sizeof text, "#SBATCH --%s=%llu%s", option, (unsigned long long)v, unit);
    stk_buf_printf(out, "%s%*s# %s\n", text, n < 32 ? 32 - n : 1, "", why);
}

/* ---- each line ------------------------------------------------------------------------------ */

static uint64_t nodes_of(const struct stk_tune_scale *s)
{
    return s && s->nodes >= 1 ? (uint64_t)ceil(s->nodes) : 1;
}

static void ask_nodes(const struct stk_tune_scale *s, struct stk_buf *out)
{
    if (s)
        line(out, "nodes", nodes_of(s), "", s->why);
    else
        stk_buf_puts(out, "# nodes: a study finds where more stop paying (`stoker scale -o DIR -- "
                          "COMMAND`); then `--study DIR` adds the line\n");
}

static uint64_t ask_tasks(const struct stk_tune *t, const struct stk_tune_scale *s,
                          struct stk_buf *out)
{
    uint64_t tasks = s && s->tasks ? s->tasks : t->ranks, nodes = nodes_of(s);
    bool each = tasks < nodes; /* a study of nodes: Slurm gives no node to nobody */
    tasks = each ? tasks * nodes : tasks;
    line(out, "ntasks", tasks, "",
         s && s->tasks ? "one process per accelerator, as in the study"
         : each        ? "one process per accelerator: on each node as many as replayed"
                       : "one process per accelerator, as replayed");
    return tasks;
}

/* The fewest CPUs per process with which the best change is as fast, as far as that was tried; 0: it
 * needs them all. */
static uint64_t fewest_cpus(const struct stk_tune *t)
{
    const struct stk_tune_candidate *best = chosen(t);
    uint64_t least = 0;
    for (size_t i = 1; i < t->n; i++) {
        const struct stk_tune_candidate *c = &t->candidate[i];
        const struct stk_tune_change *last = &c->change[c->nchanges - 1];
        bool same = c->nchanges == best->nchanges + 1 && last->cpus;
        for (size_t k = 0; k < best->nchanges && same; k++)
            same = strcmp(c->change[k].id, best->change[k].id) == 0;
        if (same && c->epoch_s <= (1 + t->least) * best->epoch_s &&
            (!least || last->number < least))
            least = last->number;
    }
    return least;
}

/* Threads that wait for storage share CPUs; those that decode do not. */
static void ask_cpus(const struct stk_tune *t, struct stk_buf *out)
{
    const struct stk_tune_candidate *c = chosen(t);
    uint64_t threads = threads_of(t), most = uses_loader(c) ? UINT64_MAX : threads;
    if (!most) {
        line(out, "cpus-per-task", 1, "", "the loop reads and trains in turn");
        return;
    }
    double busy = c->cores / (double)(t->ranks ? t->ranks : 1);
    char why[200], who[64] = "the loader's threads";
    if (most != UINT64_MAX)
        snprintf(who, sizeof who, "%llu reading thread%s", (unsigned long long)threads,
                 threads == 1 ? "" : "s");
    uint64_t need = busy > 0 ? (uint64_t)ceil(busy) : threads;
    need = need < most ? need : most;
    uint64_t fewest = fewest_cpus(t);
    if (fewest && fewest <= need) {
        need = fewest;
        snprintf(why, sizeof why, "reading is as fast with %llu CPU%s, as measured, and one trains",
                 (unsigned long long)fewest, fewest == 1 ? "" : "s");
    } else if (busy > 0)
        snprintf(why, sizeof why, "%s kept %.1f CPU%s busy, and one CPU trains", who, busy,
                 busy == 1 ? "" : "s");
    else
        snprintf(why, sizeof why, "%s, and one CPU trains", who);
    line(out, "cpus-per-task", need + 1, "", why);
}

static void ask_gpus(const struct stk_tune *t, struct stk_buf *out)
{
    if (t->job.known && !t->job.gpus)
        stk_buf_puts(out, "# gpus-per-task: the profile saw no GPU; with GPUs, one per process\n");
    else
        line(out, "gpus-per-task", 1, "", "one accelerator per process");
}

/* Slurm's --mem is that of a node. */
static void ask_memory(const struct stk_tune *t, uint64_t tasks, uint64_t nodes,
                       struct stk_buf *out)
{
    const struct stk_tune_candidate *c = chosen(t);
    double here = (double)((tasks + nodes - 1) / nodes), ranks = t->ranks ? (double)t->ranks : 1;
    double job = (double)t->job.peak_bytes / ranks, replay = (double)t->memory_bytes;
    double each = SPARE * fmax(job, replay), all = each * here + (double)c->memory_bytes;
    char a[32], b[32], why[200];
    int n = snprintf(why, sizeof why, "%.0f process%s of %s", here, here > 1 ? "es" : "",
                     stk_format_size((uint64_t)each, a, sizeof a));
    if (c->memory_bytes && n > 0)
        n += snprintf(why + n, sizeof why - (size_t)n, " and %s of data",
                      stk_format_size(c->memory_bytes, b, sizeof b));
    snprintf(why + n, sizeof why - (size_t)n, job > 0 ? ", a quarter to spare"
                                                      : "; add what the model needs");
    line(out, "mem", (uint64_t)ceil(fmax(all / GIB, 1)), "G", why);
}

static void ask_disk(const struct stk_tune *t, struct stk_buf *out)
{
    const struct stk_tune_candidate *c = chosen(t);
    if (needs_disk(c))
        line(out, "tmp", (uint64_t)ceil((double)c->disk_bytes / GIB + 1), "G",
             c->disk_bytes ? "the copy on the node's own disk" : "checkpoints on the node's own disk");
    else
        stk_buf_puts(out, "# tmp: nothing needs the node's own disk\n");
}

void stk_tune_ask(const struct stk_tune *t, const struct stk_tune_scale *scale, struct stk_buf *out)
{
    ask_nodes(scale, out);
    uint64_t tasks = ask_tasks(t, scale, out);
    ask_cpus(t, out);
    ask_gpus(t, out);
    ask_memory(t, tasks, nodes_of(scale), out);
    ask_disk(t, out);
}
