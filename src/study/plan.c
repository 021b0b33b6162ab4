/*
 * plan.c - checks that a plan makes sense: something depends on N, and the options fit
 * together. Every mistake is detected here, before an hour is spent on it. The executor checks
 * whether the resources exist.
 */
#include "study/priv.h"

static int wrong(struct stk_err *err, const char *what)
{
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "%s", what);
}

static bool anywhere(const struct stk_runner_plan *p, const char *mark)
{
    bool found = stk_marks_in(p->launcher, mark) || stk_marks_in(p->container, mark);
    for (size_t i = 0; p->argv && p->argv[i]; i++)
        found = found || stk_marks_in(p->argv[i], mark);
    for (size_t i = 0; p->sbatch && p->sbatch[i]; i++)
        found = found || stk_marks_in(p->sbatch[i], mark);
    return found || stk_marks_in(p->batch_head, mark);
}

bool stk_runner_grows(const struct stk_runner_plan *p)
{
    return anywhere(p, "{size}") || anywhere(p, "{n}") || stk_marks_in(p->prepare, "{size}") ||
           stk_marks_in(p->prepare, "{n}");
}

static int check_depends(const struct stk_runner_plan *p, struct stk_err *err)
{
    bool marked = anywhere(p, "{n}") || anywhere(p, "{ranks}");
    bool sized = anywhere(p, "{size}") || stk_marks_in(p->prepare, "{size}");
    if (!p->sets && !marked && !(p->weak && sized))
        return wrong(err, "nothing depends on N: put {n} into the command, or say what N sets "
                          "with --threads, --ranks or --gpus");
    if (sized && !p->size)
        return wrong(err,
                     "{size} is in the command, but --size, which gives its value, is missing");
    if (p->size && !sized)
        return wrong(err, "--size gives the value of {size}, but {size} is not in the command");
    return 0;
}

static int check_sets(const struct stk_runner_plan *p, struct stk_err *err)
{
    bool ranks = p->sets & (STK_SETS_RANKS | STK_SETS_NODES);
    if ((p->sets & STK_SETS_THREADS) && ranks)
        return wrong(err, "N cannot be threads and ranks or nodes at once: use --threads-per-rank "
                          "for the threads of each rank");
    if ((p->sets & STK_SETS_RANKS) && (p->sets & STK_SETS_NODES))
        return wrong(err, "N cannot be ranks and nodes at once: with --nodes, use "
                          "--ranks-per-node for the number of ranks");
    if ((p->sets & STK_SETS_GPUS) && (p->sets & STK_SETS_NODES))
        return wrong(err, "N cannot be GPUs and nodes at once: use --sbatch --gres=gpu:4 to "
                          "request the GPUs of each node");
    if (p->threads_per_rank && !ranks)
        return wrong(err, "--threads-per-rank requires --ranks or --nodes");
    if (p->ranks_per_node && !ranks)
        return wrong(err, "--ranks-per-node requires --ranks or --nodes");
    return 0;
}

static bool any_multiple(const struct stk_runner_plan *p, uint64_t nodes)
{
    for (size_t i = 0; i < p->nn; i++)
        if (p->n[i] % nodes == 0)
            return true;
    return false;
}

static int check_spread(const struct stk_runner_plan *p, struct stk_err *err)
{
    if (!(p->sets & STK_SETS_RANKS) || p->ranks_per_node || p->npack)
        return wrong(err, "--spread distributes the ranks of an N over that many nodes: it "
                          "requires --ranks, without --ranks-per-node");
    for (size_t i = 0; i < p->nspread; i++)
        if (!any_multiple(p, p->spread[i]))
            return stk_err_set(err, STK_E_USAGE, NULL, -1,
                               "--spread: no N can be divided evenly over %llu nodes",
                               (unsigned long long)p->spread[i]);
    return p->nn * p->nspread <= STK_POINTS_MAX ? 0 : wrong(err, "--spread: too many points");
}

static int check_pack(const struct stk_runner_plan *p, struct stk_err *err)
{
    if (!(p->sets & STK_SETS_RANKS))
        return wrong(err, "--ranks-per-node with several numbers places the ranks of an N in "
                          "several ways: it requires --ranks");
    for (size_t i = 0; i < p->npack; i++)
        if (!any_multiple(p, p->pack[i]))
            return stk_err_set(err, STK_E_USAGE, NULL, -1,
                               "--ranks-per-node: no N is a multiple of %llu",
                               (unsigned long long)p->pack[i]);
    return p->nn * p->npack <= STK_POINTS_MAX ? 0 : wrong(err, "--ranks-per-node: too many points");
}

/* A word without its number would overflow, or could not run at all. */
static int check_numbers(const struct stk_runner_plan *p, struct stk_err *err)
{
    uint64_t product;
    uint64_t largest = p->nn ? p->n[p->nn - 1] : 1;
    if (p->runs_min < 1 || p->runs_max < p->runs_min || p->runs_max > STK_RUNNER_RUNS_MAX)
        return wrong(err,
                     "--runs: give a number such as 10, or a range such as 3..20, up to 10000");
    if (__builtin_mul_overflow(p->size, largest, &product) || product > INT64_MAX)
        return wrong(err, "--size: the size at the largest N is too large a number");
    if (p->ranks_per_node > 1000000 || p->threads_per_rank > 1000000)
        return wrong(err, "more than 1000000 ranks per node, or threads per rank");
    return 0;
}

static int check_texts(const struct stk_runner_plan *p, struct stk_err *err)
{
    bool any = p->argv && p->argv[0] && p->argv[0][0];
    if (!any && !p->nvariants)
        return wrong(err, "there is no command to run");
    if (any && p->shell && p->argv[1])
        return wrong(err, "--shell takes the command as one line: quote it");
    for (size_t i = 0; any && p->argv[i]; i++)
        if (strlen(p->argv[i]) >= STK_RUNNER_WORD_MAX)
            return wrong(err, "a word of the command is too long");
    if (p->series && strlen(p->series) > STK_STUDY_TEXT_MAX)
        return wrong(err, "--name is too long");
    return 0;
}

static int check_n(const struct stk_runner_plan *p, struct stk_err *err)
{
    int rc = check_depends(p, err);
    rc = rc ? rc : check_sets(p, err);
    rc = rc || !p->nspread ? rc : check_spread(p, err);
    return rc || !p->npack ? rc : check_pack(p, err);
}

int stk_runner_check(const struct stk_runner_plan *p, struct stk_err *err)
{
    if (!p->nn && !p->nvariants)
        return wrong(err, "--n is missing: say at which N to run, as in --n 1,2,4,8");
    if (p->nvariants && (p->nn || p->nvariants > STK_POINTS_MAX))
        return wrong(err, "a study is of N or of variants, and has at most 1024 points");
    int rc = check_texts(p, err);
    rc = rc || p->nvariants ? rc : check_n(p, err);
    rc = rc ? rc : check_numbers(p, err);
    bool regex = p->metric && p->metric_pick != STK_METRIC_MEMBER;
    return rc || !regex ? rc : stk_metric_check(p->metric, err);
}
