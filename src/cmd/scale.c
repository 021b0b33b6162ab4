/* scale.c - `stoker scale`: how time depends on N, what it costs, and which N to choose. */
#include "cmd/scale.h"

#include <stdlib.h>

static int stop_asked(void)
{
    return stk_stop_signal();
}

/* The work of one job of a study. */
static int run_inside(struct stk_run *run)
{
    const struct stk_scale_settings *said = run->settings;
    int status = 0;
    int rc = stk_runner_inside(said->resume ? said->resume : ".", said->inside, said->trust,
                               stop_asked, &status, &run->err);
    return rc ? rc : status;
}

void stk_scale_release(struct stk_scale *s)
{
    stk_runner_free(s->runs);
    if (s->study)
        stk_study_release(s->study);
    free(s->study);
    stk_buf_release(&s->batch_head);
    free(s);
}

static int go(struct stk_scale *s)
{
    int rc = stk_scale_settle(s);
    if (!rc && s->way != STK_SCALE_READS)
        rc = stk_scale_open(s);
    rc = rc ? rc : stk_scale_read(s);
    if (rc && s->runs)
        stk_runner_discard(s->runs);
    if (rc)
        return rc;
    return s->runs ? stk_scale_run(s) : stk_scale_finish(s);
}

static int run_scale(struct stk_run *run)
{
    const struct stk_scale_settings *said = run->settings;
    if (!run->opts.nargs && !said->resume && !said->from)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "no source of times: --n 1,2,4 -- CMD runs a command, --from FILE "
                           "reads times");
    if (said->inside)
        return run_inside(run);
    struct stk_scale *s = calloc(1, sizeof *s);
    if (!s)
        return stk_err_nomem(&run->err, sizeof *s);
    s->run = run;
    s->said = said;
    s->way = said->resume ? STK_SCALE_RESUMES : run->opts.nargs ? STK_SCALE_RUNS : STK_SCALE_READS;
    int rc = go(s);
    stk_scale_release(s);
    return rc;
}

static const struct stk_example examples[] = {
    {"stoker scale --n 1,2,4,8 --threads -- ./solve input", "threads on this machine"},
    {"stoker scale --n 1,2,4 --ranks --runs 10 -- ./mpi-solve", "MPI ranks, ten runs each"},
    {"stoker scale --n 1-16*2 --metric 'images/s: ([0-9.]+)' -- ./train --workers {n}",
     "a rate that the program prints, and an option of the program"},
    {"stoker scale --via slurm --sbatch --partition=gpu --n 1,2,4 --gpus --ranks -- python ddp.py",
     "Slurm jobs with 1, 2 and 4 GPUs, three of each"},
    {"stoker scale --via slurm --n 4,8 --ranks --ranks-per-node 4,2,1 -- ./mpi-solve",
     "the same ranks packed on few nodes and spread over many"},
    {"stoker scale --resume stoker-scale-python-20260301-101500", "continue that study"},
    {"stoker scale --from K80=k80.csv --from RTX=rtx.csv --gpus-per-n 1 --cores-per-n 1",
     "times measured elsewhere: two kinds of GPU in one plot, with service units"},
    {"stoker scale --from times.csv --deadline 2h --predict 64", "how long would 64 take?"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_scale = {
    .name = "scale",
    .summary = "speedup, service units, plateau: which N to choose",
    .args = "[CMD [ARG...]]",
    .description =
        "Runs CMD at several N, here or as Slurm jobs, and reports the speedup, the cost in "
        "service units, where a larger N gains nothing (the plateau), and which N to choose to be "
        "fast, cheap, or both. Confidence intervals come from repeated runs of each N; with few or "
        "no repeats, it says so and predicts nothing.\n\n"
        "N replaces {n} in the command, or sets a resource: --threads, --ranks, --gpus, --nodes, "
        "or several of them. With --weak the problem grows: {size} is --size times N. All N run in "
        "rounds of random order, each until its interval is narrow. The study is saved to a folder "
        "after every run; --resume continues it, even with jobs still in the queue. A run that "
        "fails is marked, its output is kept, and the others continue.\n\n"
        "--from reads times that were measured elsewhere: a table with one row per run and the "
        "columns n and time (seconds, 3m20s or 1:02:03), and optionally series, repeat, cores, "
        "gpus, nodes, host, kind and status; results of hyperfine, JUBE, ReFrame or sacct -P; or "
        "the folder of another study, to compare.",
    .examples = examples,
    .options = stk_scale_options,
    .settings_size = sizeof(struct stk_scale_settings),
    .runs_program = true,
    .own_status = true,
    .run = run_scale,
};
