/*
 * run_plan.c - a plan that makes sense: something depends on N, what is asked for goes together,
 * and the machine has it. Everything is found out here, before an hour is spent on it.
 */
#include <stdio.h>

#include "host/cpus.h"
#include "lab/run_priv.h"

static int wrong(struct stk_err *err, const char *what)
{
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "%s", what);
}

static bool anywhere(const struct stk_runs_plan *p, const char *mark)
{
    bool found = stk_runs_has_mark(p->launcher, mark) || stk_runs_has_mark(p->container, mark);
    for (size_t i = 0; p->argv[i]; i++)
        found = found || stk_runs_has_mark(p->argv[i], mark);
    for (size_t i = 0; p->sbatch && p->sbatch[i]; i++)
        found = found || stk_runs_has_mark(p->sbatch[i], mark);
    return found || stk_runs_has_mark(p->batch_head, mark);
}

bool stk_runs_grows(const struct stk_runs_plan *p)
{
    return anywhere(p, "{size}") || anywhere(p, "{n}") || stk_runs_has_mark(p->prepare, "{size}") ||
           stk_runs_has_mark(p->prepare, "{n}");
}

static int check_depends(const struct stk_runs_plan *p, struct stk_err *err)
{
    bool marked = anywhere(p, "{n}") || anywhere(p, "{ranks}");
    bool sized = anywhere(p, "{size}") || stk_runs_has_mark(p->prepare, "{size}");
    if (!p->sets && !marked && !(p->weak && sized))
        return wrong(err, "nothing depends on N: put {n} into the command, or say what N sets: "
                          "--threads, --ranks, --gpus");
    if (sized && !p->size)
        return wrong(err, "{size} is in the command, but how large? --size says it");
    if (p->size && !sized)
        return wrong(err,
                     "--size says what {size} stands for, and {size} is nowhere in the command");
    return 0;
}

static int check_sets(const struct stk_runs_plan *p, struct stk_err *err)
{
    bool ranks = p->sets & (STK_SETS_RANKS | STK_SETS_NODES);
    if ((p->sets & STK_SETS_THREADS) && ranks)
        return wrong(err, "N cannot be threads and ranks or nodes at once: --threads-per-rank says "
                          "how many threads each rank has");
    if ((p->sets & STK_SETS_RANKS) && (p->sets & STK_SETS_NODES))
        return wrong(err, "N cannot be ranks and nodes at once: with --nodes, --ranks-per-node "
                          "says how many ranks there are");
    if ((p->sets & STK_SETS_GPUS) && (p->sets & STK_SETS_NODES))
        return wrong(err, "N cannot be GPUs and nodes at once: --sbatch --gres=gpu:4 asks for the "
                          "GPUs of each node");
    if (p->threads_per_rank && !ranks)
        return wrong(err, "--threads-per-rank goes with --ranks or --nodes");
    if (!p->slurm && ((p->sets & STK_SETS_NODES) || p->ranks_per_node))
        return wrong(err, "--nodes and --ranks-per-node are for --via slurm: here is one node");
    if (p->ranks_per_node && !ranks)
        return wrong(err, "--ranks-per-node goes with --ranks or --nodes");
    return 0;
}

/* A word without a number for it would overflow, or could not be run at all. */
static int check_numbers(const struct stk_runs_plan *p, struct stk_err *err)
{
    uint64_t product;
    uint64_t largest = p->n[p->nn - 1];
    if (p->runs_min < 1 || p->runs_max < p->runs_min || p->runs_max > STK_RUNS_MAX)
        return wrong(err, "--runs: write how many, as 10 or 3..20, up to 10000");
    if (p->nn * p->runs_max > STK_STUDY_RUNS_MAX)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "more than %d runs in all",
                           STK_STUDY_RUNS_MAX);
    if (__builtin_mul_overflow(p->size, largest, &product) || product > INT64_MAX)
        return wrong(err, "--size: the size of the largest N is too large a number");
    if (p->ranks_per_node > 1000000 || p->threads_per_rank > 1000000)
        return wrong(err, "more than 1000000 ranks of a node, or threads of a rank");
    return 0;
}

static uint64_t cpus_of(const struct stk_runs_plan *p, uint64_t n)
{
    if (p->sets & STK_SETS_THREADS)
        return n;
    if (p->sets & STK_SETS_RANKS)
        return n * (p->threads_per_rank ? p->threads_per_rank : 1);
    return 0;
}

static int check_cpus(const struct stk_runs_plan *p, struct stk_err *err)
{
    uint64_t largest = p->n[p->nn - 1], need = cpus_of(p, largest);
    unsigned have = stk_cpus();
    if (p->slurm || p->oversubscribe || need <= have)
        return 0;
    return stk_err_set(err, STK_E_USAGE, NULL, -1,
                       "N=%llu needs %llu CPUs, and %u may be used here: times would be those of "
                       "programs that wait for each other; --oversubscribe runs it all the same",
                       (unsigned long long)largest, (unsigned long long)need, have);
}

static int check_texts(const struct stk_runs_plan *p, struct stk_err *err)
{
    if (!p->argv || !p->argv[0] || !p->argv[0][0])
        return wrong(err, "there is no command to run");
    if (p->shell && p->argv[1])
        return wrong(err, "--shell takes the command as one line: put it in quotes");
    for (size_t i = 0; p->argv[i]; i++)
        if (strlen(p->argv[i]) >= STK_RUNS_WORD_MAX)
            return wrong(err, "a word of the command is too long");
    if (p->series && strlen(p->series) > STK_STUDY_TEXT_MAX)
        return wrong(err, "--name is too long");
    return 0;
}

int stk_runs_check(const struct stk_runs_plan *p, struct stk_err *err)
{
    if (!p->nn)
        return wrong(err, "--n says at which N it is run, as --n 1,2,4,8");
    int rc = check_texts(p, err);
    rc = rc ? rc : check_depends(p, err);
    rc = rc ? rc : check_sets(p, err);
    rc = rc ? rc : check_numbers(p, err);
    rc = rc ? rc : check_cpus(p, err);
    return rc || !p->metric ? rc : stk_metric_check(p->metric, err);
}
