/*
 * launch.c - runs a program and waits for it, so that the caller sees no difference: same terminal,
 * same signals, same exit status.
 *
 * The program stays in our process group. Signals from the terminal (Ctrl-C, Ctrl-Z) and from
 * slurmstepd reach it without us; a signal sent to us alone is passed on.
 */
#include "record/launch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/spawn.h"
#include "host/root.h"
#include "record/priv.h"

uint64_t stk_launch_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- signals ------------------------------------------------------------------------------ */

/* The original settings, for the program. */
struct signals {
    sigset_t mask;
    struct sigaction child, pipe;
};

static const int passed_on[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

static void waited_for(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        sigaddset(set, passed_on[i]);
}

static void take_signals(struct signals *was)
{
    sigset_t set;
    struct sigaction usual = {.sa_handler = SIG_DFL}, none = {.sa_handler = SIG_IGN};
    waited_for(&set);
    sigprocmask(SIG_BLOCK, &set, &was->mask);
    sigaction(SIGCHLD, &usual, &was->child); /* if it were ignored, we could not wait for
                                                children */
    sigaction(SIGPIPE, &none, &was->pipe);
}

static void give_signals(const struct signals *was)
{
    sigaction(SIGCHLD, &was->child, NULL);
    sigaction(SIGPIPE, &was->pipe, NULL);
    sigprocmask(SIG_SETMASK, &was->mask, NULL);
}

/* slurmstepd signals every process of a step, so the program has received it already. */
static bool from_slurm(const siginfo_t *info)
{
    char path[64], comm[32];
    if (!getenv("SLURM_JOB_ID"))
        return false;
    snprintf(path, sizeof path, "/proc/%d/comm", (int)info->si_pid);
    stk_host_line(path, comm, sizeof comm);
    return comm[0] ? strncmp(comm, "slurmstepd", 10) == 0 : info->si_uid == 0;
}

static void pass_on(const struct stk_launch *l, const siginfo_t *info)
{
    /* Signals of the terminal go to the whole group, and the program's own are not sent back to
     * it. */
    bool reached = info->si_code > 0 || info->si_pid == l->child || from_slurm(info);
    if (!reached)
        kill(l->child, info->si_signo);
    struct sigaction stop;
    if (info->si_signo == SIGTSTP && sigaction(SIGTSTP, NULL, &stop) == 0 &&
        stop.sa_handler != SIG_IGN)
        raise(SIGSTOP); /* as if we did not wait for the program */
}

/* ---- the run ------------------------------------------------------------------------------ */

/* In the new process: restores signals and sets the environment. */
struct entry {
    const struct stk_launch *l;
    const struct signals *was;
};

static int enter(void *user)
{
    const struct entry *e = user;
    give_signals(e->was);
    sigaction(SIGXFSZ, &e->l->size, NULL);
    return e->l->dir ? stk_launch_environment(e->l) : 0;
}

/* 0: it runs; otherwise errno. */
static int start_program(struct stk_launch *l, const struct signals *was)
{
    struct entry e = {.l = l, .was = was};
    struct stk_child c = {.argv = (const char *const *)(uintptr_t)l->o.argv,
                          .fd = {STK_FD_KEEP, STK_FD_KEEP, STK_FD_KEEP},
                          .keep_signals = true,
                          .inside = enter,
                          .user = &e};
    int wrong = stk_child_start(&c);
    l->child = c.pid;
    return wrong;
}

static void note_end(struct stk_launch *l, int status)
{
    struct rusage r;
    l->end_mono_ns = stk_launch_clock(CLOCK_MONOTONIC);
    l->end_real_ns = stk_launch_clock(CLOCK_REALTIME);
    l->ended = true;
    l->ending = stk_ending_of(status);
    if (getrusage(RUSAGE_CHILDREN, &r) != 0)
        return;
    l->cpu_s = stk_cpu_seconds(&r);
    l->max_resident_bytes = (uint64_t)r.ru_maxrss * 1024;
}

/* A child that has ended; 0: none. */
static pid_t ended_child(void)
{
    siginfo_t info = {0};
    int rc;
    do
        rc = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
    while (rc < 0 && errno == EINTR);
    return rc < 0 ? 0 : info.si_pid;
}

/* Reaps children, and orphans of theirs that were reparented to us. */
static void reap(struct stk_launch *l)
{
    int status;
    for (pid_t pid; !l->ended && (pid = ended_child()) > 0;) {
        if (l->sampler)
            stk_sampler_reap(l->sampler, pid, &status);
        else
            (void)stk_reap(pid, &status, NULL);
        if (pid == l->child)
            note_end(l, status);
    }
}

static void wait_for_end(struct stk_launch *l)
{
    sigset_t set;
    siginfo_t info;
    waited_for(&set);
    while (!l->ended) {
        int sig = sigwaitinfo(&set, &info);
        if (sig == SIGCHLD)
            reap(l);
        else if (sig > 0)
            pass_on(l, &info);
    }
}

/* The program is already running: better to record less than nothing. */
static void start_watching(struct stk_launch *l)
{
    struct stk_err why = {0};
    struct stk_sampler_options s = {.root = getpid(),
                                    .every_s = l->o.sample_s,
                                    .csv_folder = l->spool ? &l->spool_folder : &l->folder,
                                    .csv_name = l->readings_name,
                                    .logs = {l->logs, l->host, l->slots_fd},
                                    .start_mono_ns = l->start_mono_ns};
    if (stk_sampler_start(&s, &l->sampler, &why) != 0 && s.every_s > 0) {
        stk_launch_note(l, "no samples: %s", why.what);
        s.every_s = l->o.sample_s = 0;
        (void)stk_sampler_start(&s, &l->sampler, &why);
    }
    if (stk_copier_start(l, &why) != 0)
        stk_launch_note(l, "logs are not copied: %s", why.what);
}

/* Cleans up after a program that did not start. */
static int not_started(struct stk_launch *l, int wrong, struct stk_launch_result *r,
                       struct stk_err *err)
{
    stk_launch_drop_slots(l);
    stk_launch_drop_spool(l);
    stk_launch_drop_dir(l);
    r->dir = NULL;
    errno = wrong;
    r->status = wrong == ENOENT ? 127 : 126;
    return stk_err_sys(err, l->o.argv[0], "execute");
}

static int finish(struct stk_launch *l, struct stk_err *err)
{
    struct stk_err why = {0};
    if (l->sampler && !stk_sampler_stop(l->sampler)) {
        stk_launch_note(l, "the sampler did not stop: its data about processes is lost");
        l->sampler = NULL; /* its thread still uses it, and texts of ours */
        l->stuck = true;
    }
    /* First evaluate the logs, then copy and remove them. */
    const struct stk_sampler_totals *t = l->sampler ? stk_sampler_totals(l->sampler) : NULL;
    if (t && *t->trouble)
        stk_launch_note(l, "samples of CPU and memory end after %llu of them: %s",
                        (unsigned long long)t->readings, t->trouble);
    int rc = stk_launch_write_run(l, err);
    stk_launch_close_slots(l);
    int copied = stk_copier_finish(l, &why);
    if (!copied)
        return rc;
    stk_launch_note(l, "not all logs could be copied (%s); they are in %s on %s", why.what,
                    l->spool, l->host);
    (void)stk_launch_write_run(l, NULL);
    if (!rc && err)
        *err = why;
    return rc ? rc : copied;
}

static void fill_result(const struct stk_launch *l, struct stk_launch_result *r)
{
    const struct stk_sampler_totals *t = l->sampler ? stk_sampler_totals(l->sampler) : NULL;
    r->status = l->ending.status;
    r->signal = l->ending.signal;
    r->seconds = (double)(l->end_mono_ns - l->start_mono_ns) * 1e-9;
    r->cpu_s = l->cpu_s;
    r->peak_resident_bytes = l->max_resident_bytes;
    if (t && t->peak_resident_bytes > r->peak_resident_bytes)
        r->peak_resident_bytes = t->peak_resident_bytes;
    r->readings = t ? t->readings : 0;
    r->logs = l->logs_found;
    r->unseen = l->unseen;
    r->spool_left = l->spool_left;
    r->note = l->note;
    r->nnotes = l->nnotes;
}

int stk_launch_run(struct stk_launch *l, struct stk_launch_result *r, struct stk_err *err)
{
    struct signals was;
    take_signals(&was);
    l->start_real_ns = stk_launch_clock(CLOCK_REALTIME); /* excludes the preparations */
    l->start_mono_ns = stk_launch_clock(CLOCK_MONOTONIC);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    int wrong = start_program(l, &was);
    if (wrong) {
        give_signals(&was);
        return not_started(l, wrong, r, err);
    }
    if (l->dir)
        start_watching(l);
    wait_for_end(l);
    int rc = l->dir ? finish(l, err) : 0;
    give_signals(&was);
    fill_result(l, r);
    return rc;
}
