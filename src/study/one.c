/*
 * one.c - one run of one point: prepares, starts and times it, finds its metric, and
 * describes failures in a sentence. The same here and inside jobs of Slurm.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>

#include "base/secret.h"
#include "base/units.h"
#include "study/priv.h"

#define LAUNCH_MATTERS_S 20 /* a launcher takes less than a second: 5 % of this */

int stk_one_init(struct stk_one *o, const struct stk_runner_plan *plan,
                 const struct stk_launcher *launcher, const struct stk_metric *metric, int out_fd,
                 struct stk_err *err)
{
    *o = (struct stk_one){.plan = plan, .launcher = launcher, .metric = metric, .out_fd = out_fd};
    return out_fd < 0 ? stk_output_open(&o->out_fd, err) : 0;
}

void stk_one_release(struct stk_one *o)
{
    if (o->out_fd >= 0)
        close(o->out_fd);
    stk_command_release(&o->command);
    stk_buf_release(&o->output);
}

static int on_tick(void *user)
{
    struct stk_one *o = user;
    return o->tick ? o->tick(o->user, o->phase) : 0;
}

static int run_here(void *user)
{
    const struct stk_one *o = user;
    return o->run(o->run_user, o->point);
}

static int start(struct stk_one *o, const char *phase, int out, struct stk_exec_end *end,
                 struct stk_err *err)
{
    struct stk_child c = {
        .path = o->command.path,
        .argv = o->point ? NULL : o->command.argv.v,
        .inside = o->point ? run_here : NULL,
        .env = o->command.env.v,
        .dir = o->plan->cwd,
        .cpus = o->command.pinned ? &o->command.cpus : NULL,
        .fd = {STK_FD_NULL, out, out},
        /* Ending its group ends all its children. Not in a job of Slurm, which goes by the group
         * where there are no cgroups. */
        .own_group = o->plan->via->can & STK_VIA_CHOOSES,
        .timeout_s = o->plan->timeout_s,
        .tick = on_tick,
        .user = o,
    };
    o->phase = phase;
    int rc = stk_exec_timed(&c, end, err);
    if (!rc && end->stopped)
        rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    return rc;
}

/* How a program ended, for people. */
static void say_end(const struct stk_one *o, const struct stk_exec_end *end, char *out, size_t size)
{
    char limit[32];
    if (end->timed_out)
        snprintf(out, size, "stopped after %s (--timeout)",
                 stk_format_duration(o->plan->timeout_s, limit, sizeof limit));
    else if (end->signal)
        snprintf(out, size, "killed by signal %d (%s)", end->signal, strsignal(end->signal));
    else
        snprintf(out, size, "exit status %d", end->status);
}

/* The note of a failed run: what happened, and the program's own last line. */
static void say_why(struct stk_one *o, const char *what)
{
    char line[100];
    struct stk_buf said = STK_BUF_INIT;
    stk_output_last_line(&o->output, line, sizeof line);
    stk_secret_text(line, strlen(line), &said);
    snprintf(o->note, sizeof o->note, "%s%s%.120s", what, line[0] ? "; its last line: " : "",
             stk_buf_cstr(&said));
    stk_buf_release(&said);
}

static int prepare(struct stk_one *o, const struct stk_point *p, struct stk_study_run *run,
                   struct stk_err *err)
{
    struct stk_exec_end end;
    char what[120], how[80];
    int rc = stk_command_shell(&o->command, o->launcher, o->plan, o->plan->prepare, p, err);
    rc = rc ? rc : start(o, "prepare", o->out_fd, &end, err);
    if (rc || (!end.status && !end.timed_out))
        return rc;
    rc = stk_output_read(o->out_fd, false, &o->output, err);
    say_end(o, &end, how, sizeof how);
    snprintf(what, sizeof what, "--prepare failed: %s", how);
    say_why(o, what);
    run->status = STK_RUN_FAILED;
    return rc;
}

static int judge(struct stk_one *o, const struct stk_exec_end *end, struct stk_study_run *run,
                 struct stk_err *err)
{
    char what[120];
    bool bad = end->status != 0 || end->timed_out;
    bool head = !bad && o->metric && o->metric->pick == STK_METRIC_FIRST;
    int rc = bad || o->metric ? stk_output_read(o->out_fd, head, &o->output, err) : 0;
    if (rc)
        return rc;
    if (bad) {
        run->status = end->timed_out ? STK_RUN_TIMEOUT : STK_RUN_FAILED;
        say_end(o, end, what, sizeof what);
        say_why(o, what);
    } else if (o->metric &&
               !stk_metric_find(o->metric, (char *)o->output.data, o->output.len, &run->value)) {
        run->status = STK_RUN_FAILED;
        say_why(o, "the metric is not in its output");
    } else if (o->metric && !(run->value >= 1e-12 && run->value <= 1e12)) {
        snprintf(what, sizeof what, "the metric is %g, which is not a positive number", run->value);
        run->status = STK_RUN_FAILED;
        run->value = NAN;
        say_why(o, what);
    }
    run->wall_s = o->plan->clock ? NAN : end->wall_s;
    if (o->plan->clock && run->status == STK_RUN_OK)
        (void)stk_output_member((char *)o->output.data, o->output.len, o->plan->clock,
                                &run->wall_s);
    return 0;
}

/* How long launcher and container take for a command that does nothing, once per point. A long run
 * hides it, and it would cost time for nothing. */
static int time_launch(struct stk_one *o, const struct stk_point *p, struct stk_study_run *run,
                       struct stk_err *err)
{
    const char *nothing[] = {"true", NULL};
    struct stk_runner_plan plan = *o->plan;
    struct stk_point empty = *p;
    struct stk_exec_end end;
    if (!o->launcher->prefix.n || run->repeat || run->status != STK_RUN_OK ||
        run->wall_s > LAUNCH_MATTERS_S)
        return 0;
    plan.shell = false;
    empty.argv = nothing;
    int rc = stk_command_make(&o->command, o->launcher, &plan, &empty, err);
    /* srun: not after the nodes of the last step are free again, which would count as its time. */
    stk_words_add(&o->command.env, "SLURM_OVERLAP=1");
    rc = rc ? rc : start(o, "launcher", STK_FD_NULL, &end, err);
    if (!rc && !end.status && !end.timed_out)
        run->launch_s = end.wall_s;
    return rc == STK_E_STOPPED ? rc : 0; /* a launcher that cannot do this is no failed run */
}

int stk_one_run(struct stk_one *o, const struct stk_point *p, uint64_t repeat,
                struct stk_study_run *run, struct stk_err *err)
{
    struct stk_exec_end end;
    *run = stk_point_run(p, repeat);
    o->note[0] = '\0';
    stk_buf_reset(&o->output);
    int rc = stk_output_reset(o->out_fd, err);
    if (!rc && o->plan->prepare)
        rc = prepare(o, p, run, err);
    if (rc || run->status != STK_RUN_OK) {
        run->note = o->note;
        return rc;
    }
    rc = stk_output_reset(o->out_fd, err);
    rc = rc ? rc : stk_command_make(&o->command, o->launcher, o->plan, p, err);
    o->point = o->run ? p : NULL;
    rc = rc ? rc : start(o, "run", o->out_fd, &end, err);
    o->point = NULL;
    if (rc)
        return rc;
    run->cpu_s = end.cpu_s;
    run->peak_memory_bytes = end.max_rss_bytes;
    rc = judge(o, &end, run, err);
    run->note = o->note[0] ? o->note : NULL;
    return rc ? rc : time_launch(o, p, run, err);
}

#define GRACE_S 3.0 /* between asking a program to end and killing it */

/* Between vfork and exec it shared our memory, which counts as its own. */
static int64_t peak_bytes(const struct rusage *use)
{
    struct rusage ours = {0};
    getrusage(RUSAGE_SELF, &ours);
    return use->ru_maxrss > ours.ru_maxrss ? (int64_t)use->ru_maxrss * 1024 : -1;
}

int stk_exec_timed(struct stk_child *c, struct stk_exec_end *end, struct stk_err *err)
{
    *end = (struct stk_exec_end){.wall_s = NAN, .cpu_s = NAN, .max_rss_bytes = -1};
    c->death_signal = SIGTERM;
    c->grace_s = GRACE_S;
    errno = stk_child_start(c);
    if (errno)
        return stk_err_sys(err, c->path, "cannot be run");
    (void)stk_child_attend(c);
    *end = (struct stk_exec_end){.wall_s = c->wall_s,
                                 .cpu_s = stk_cpu_seconds(&c->use),
                                 .max_rss_bytes = peak_bytes(&c->use),
                                 .status = c->ending.status,
                                 .signal = c->ending.signal,
                                 .timed_out = c->timed_out,
                                 .stopped = c->stopped};
    return 0;
}
