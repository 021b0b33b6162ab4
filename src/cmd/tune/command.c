/*
 * command.c - profiles the user's command for `stoker tune`: to its end, for a time, or until
 * it has done some steps. What makes a profile useless is told, with what to do: a command that
 * fails, needs a terminal, takes hours, changes its input, or does something else each time.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/helper.h"
#include "base/pool.h"
#include "base/spawn.h"
#include "base/units.h"
#include "cmd/tune.h"
#include "record/launch.h"

#define GRACE_S    20
#define LOOK_S     0.5  /* between two looks at the steps, at least */
#define LOOK_SHARE 0.1  /* of the time, at most, for looking */
#define TWICE      0.05 /* of the budget: a command that takes less is run a second time */
#define ALIKE      0.25 /* two runs of one command differ by less: workers read ahead at the end */

/* ---- while it runs -------------------------------------------------------------------------- */

struct watch {
    struct stk_run *run;
    const struct stk_tune_ends *ends;
    const char *const *command;
    const char *dir; /* of the profile */
    struct stk_child *child;
    double start_s, look_s; /* look_s: the next look at its steps */
    uint64_t steps;         /* seen so far */
    bool enough, needs_terminal, told;
};

static uint64_t steps_in(const char *dir)
{
    struct stk_judged *j = calloc(1, sizeof *j);
    uint64_t n = 0;
    if (j && stk_judge(dir, j, NULL) == 0) {
        n = j->analysis.steps.count;
        stk_judged_release(j);
    }
    free(j);
    return n;
}

/* A profile can be read while it is written. */
static void look_at_steps(struct watch *w)
{
    double now = stk_now();
    if (!w->ends->steps || now < w->look_s)
        return;
    w->steps = steps_in(w->dir);
    w->enough = w->steps >= w->ends->steps;
    w->look_s = stk_now() + fmax(LOOK_S, (stk_now() - now) / LOOK_SHARE);
}

/* A program that asks the terminal although it is not its turn is stopped by the kernel, with the
 * profiler, which is in its process group. */
static bool is_stopped(const struct stk_child *c)
{
    siginfo_t info = {0};
    const int how = WSTOPPED | WNOHANG | WNOWAIT;
    return waitid(P_PID, (id_t)c->pid, &info, how) == 0 && info.si_pid != 0;
}

static void warn_of_hours(struct watch *w)
{
    char took[32], text[240];
    if (w->told || w->ends->for_s > 0 || w->ends->steps || w->run->common->quiet ||
        stk_now() - w->start_s < w->ends->budget_s)
        return;
    w->told = true;
    snprintf(text, sizeof text,
             "the command has run for %s: if it takes hours, press Ctrl-C and use --steps N or "
             "--for TIME, which end it earlier, or tune a profile of it (`stoker tune PROFILE`)",
             stk_format_duration(w->ends->budget_s, took, sizeof took));
    stk_progress_clear(&w->run->progress);
    stk_complain("tune", text);
}

static int on_tick(void *user)
{
    struct watch *w = user;
    char text[160] = "profiling the command";
    look_at_steps(w);
    warn_of_hours(w);
    w->needs_terminal = w->needs_terminal || is_stopped(w->child);
    if (w->needs_terminal)
        stk_child_kill(w->child, SIGKILL); /* a stopped one takes no other signal */
    if (w->ends->steps)
        snprintf(text, sizeof text, "profiling the command: %llu of %llu steps%s",
                 (unsigned long long)w->steps, (unsigned long long)w->ends->steps,
                 w->steps ? "" : " (none seen: --for TIME ends it by the clock)");
    return stk_progress_say(&w->run->progress, text) || w->enough || w->needs_terminal;
}

/* ---- how it ended --------------------------------------------------------------------------- */

static int refuse(struct watch *w, const struct stk_child *c)
{
    struct stk_run *run = w->run;
    static const char as_profile[] = "profile it as you like (`stoker profile -o PROFILE -- "
                                     "COMMAND`) and tune that: `stoker tune PROFILE`";
    if (w->needs_terminal) {
        stk_buf_printf(&run->hint, "%s", as_profile);
        return stk_err_set(&run->err, STK_E_UNSUPPORTED, NULL, -1,
                           "the command asks the terminal, which it does not have here");
    }
    if (c->stopped && !w->enough) {
        stk_buf_puts(&run->hint, "--steps N or --for TIME end a command that takes hours");
        return stk_err_set(&run->err, STK_E_STOPPED, NULL, -1, "stopped");
    }
    if (w->enough || c->timed_out || c->ending.status == 0)
        return 0;
    stk_buf_printf(&run->hint,
                   "it runs here without a terminal and must end well. If it needs a terminal, or "
                   "an answer, %s. If it takes hours, --steps N or --for TIME end it earlier",
                   as_profile);
    return stk_err_set(&run->err, STK_E_SYS, NULL, -1, "the command ended with status %d",
                       c->ending.status);
}

/* In the child: as `stoker profile --quiet` does it. */
static int record(void *user)
{
    const struct watch *w = user;
    const struct stk_launch_options o = {.argv = (char *const *)(uintptr_t)w->command,
                                         .dir = w->dir,
                                         .sample_s = 1,
                                         .copy_s = 30,
                                         .files = 4096};
    struct stk_launch *l = NULL;
    struct stk_launch_result r;
    struct stk_err err = {0};
    char text[2200];
    stk_helper_close(-1);
    int rc = stk_launch_begin(&o, &l, &r, &err);
    if (!rc && r.warning)
        stk_complain("profile", r.warning);
    rc = rc ? rc : stk_launch_run(l, &r, &err);
    if (rc)
        stk_complain("profile", stk_err_text(&err, text, sizeof text));
    stk_launch_free(l);
    return r.status ? r.status : rc ? STK_EXIT_PROBLEM : 0;
}

/* took_s: seconds; NaN: it was ended early. */
static int profile(struct stk_run *run, const char *const *command, const char *dir,
                   const struct stk_tune_ends *ends, double *took_s)
{
    struct watch w = {.run = run, .command = command, .ends = ends, .dir = dir,
                      .start_s = stk_now()};
    /* Its output goes where our messages go: ours may be a result. */
    struct stk_child c = {.inside = record,
                          .fd = {STK_FD_NULL, STDERR_FILENO, STK_FD_KEEP},
                          .own_group = true,
                          .death_signal = SIGTERM,
                          .timeout_s = ends->for_s,
                          .grace_s = GRACE_S,
                          .tick = on_tick,
                          .user = &w};
    w.child = &c;
    errno = stk_child_start(&c);
    if (errno)
        return stk_err_sys(&run->err, NULL, "start a child");
    bool bar = run->progress.bar;
    run->progress.bar = false; /* the command writes to the same terminal: whole lines */
    (void)stk_child_attend(&c);
    run->progress.bar = bar;
    *took_s = w.enough || c.timed_out ? NAN : c.wall_s;
    return refuse(&w, &c);
}

/* ---- what it did ---------------------------------------------------------------------------- */

static void note(struct stk_tune_input *in, const char *fmt, ...) STK_PRINTF(2, 3);
static void note(struct stk_tune_input *in, const char *fmt, ...)
{
    va_list ap;
    if (in->nnotes == STK_TUNE_INPUT_NOTES)
        return;
    va_start(ap, fmt);
    vsnprintf(in->note[in->nnotes], sizeof in->note[0], fmt, ap);
    va_end(ap);
    in->notes[in->nnotes] = in->note[in->nnotes];
    in->nnotes++;
}

static double real_s(struct statx_timestamp t)
{
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A file that was there before the run, was read by it, and has changed since; or is gone. One that
 * the run wrote itself, to read it back, is none of its input. */
static bool has_changed(const struct stk_usage *f, double start_s)
{
    struct statx st;
    bool wrote = f->n.c[STK_C_WRITES] || f->n.c[STK_C_WRITE_OPENS];
    if (f->file->group || !f->n.c[STK_C_READ_BYTES] || f->name[0] != '/')
        return false;
    if (statx(AT_FDCWD, f->name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &st) != 0)
        return errno == ENOENT && !wrote;
    bool made = (st.stx_mask & STATX_BTIME) && real_s(st.stx_btime) >= start_s;
    return S_ISREG(st.stx_mode) && real_s(st.stx_mtime) >= start_s && !(wrote && made);
}

/* first: the name of one of them. */
static size_t count_changed(const struct stk_judged *j, const char **first)
{
    const struct stk_analysis *a = &j->analysis;
    size_t n = 0;
    *first = NULL;
    for (size_t i = 0; i < a->nfiles; i++)
        if (has_changed(&a->file[i], j->profile.start_real_s)) {
            *first = *first ? *first : a->file[i].name;
            n++;
        }
    return n;
}

static void note_changes(struct stk_tune_input *in)
{
    const char *first;
    size_t n = count_changed(in->judged, &first);
    if (n == 1)
        note(in, "The command changes its input: %.140s is not what it was when the command began. "
                 "The next run reads something else: let it write elsewhere, or tune a profile of "
                 "a typical run", first);
    else if (n)
        note(in, "The command changes its input: %zu files that it read, such as %.120s, are not "
                 "what they were when it began. The next run reads something else: let it write "
                 "elsewhere, or tune a profile of a typical run", n, first);
}

/* ---- a second time -------------------------------------------------------------------------- */

static bool differs(uint64_t a, uint64_t b)
{
    double most = a > b ? (double)a : (double)b, least = a > b ? (double)b : (double)a;
    return most - least > ALIKE * most;
}

/* judged: of the second run, which is tuned. */
static void note_difference(struct stk_tune_input *in, const struct stk_judged *first)
{
    const struct stk_usage *a = &first->analysis.job, *b = &in->judged->analysis.job;
    uint64_t had = a->n.c[STK_C_READ_BYTES], has = b->n.c[STK_C_READ_BYTES];
    char before[32], after[32];
    if (differs(a->files_read, b->files_read) || differs(had, has))
        note(in,
             "The command does something else each time: its first run read %llu files, %s, the "
             "second %llu files, %s, and that one is tuned. Fix what differs (a seed, a cache), "
             "or tune a profile of a typical run",
             (unsigned long long)a->files_read, stk_format_size(had, before, sizeof before),
             (unsigned long long)b->files_read, stk_format_size(has, after, sizeof after));
}

static int make_folder(struct stk_run *run, struct stk_folder *f)
{
    int rc = stk_folder_temp(f, ".", "stoker-tune-profile", &run->err);
    if (rc)
        stk_buf_puts(&run->hint, "the profile of the command is made in the current folder: run it "
                                 "in one that you can write");
    return rc ? rc : stk_folder_lock(f, &run->err); /* --clean may be called meanwhile */
}

/* Profiles it into a new folder, and judges that. The caller owns in->judged. */
static int profile_and_judge(struct stk_run *run, struct stk_tune_input *in, struct stk_folder *f,
                             const char *trust, const struct stk_tune_ends *ends, double *took_s)
{
    int rc = make_folder(run, f);
    rc = rc ? rc : profile(run, in->command, f->path, ends, took_s);
    rc = rc ? rc : stk_tune_judge_profile(run, in, f->path, trust);
    if (rc && f->path && strcmp(run->err.path, f->path) == 0)
        run->err.path[0] = '\0'; /* by the time it is shown, it is removed */
    return rc;
}

static int profile_again(struct stk_run *run, struct stk_tune_input *in, const char *trust,
                         const struct stk_tune_ends *ends)
{
    struct stk_judged *first = in->judged;
    double took_s;
    in->judged = NULL;
    int rc = profile_and_judge(run, in, &in->again, trust, ends, &took_s);
    if (!rc)
        note_difference(in, first);
    stk_judged_release(first);
    free(first);
    return rc;
}

/* A command that changes its input is not run again: its input may be gone by now, and the next
 * thing would be. */
int stk_tune_profile(struct stk_run *run, struct stk_tune_input *in, const char *trust,
                     const struct stk_tune_ends *ends)
{
    double took_s = NAN;
    const char *changed;
    int rc = profile_and_judge(run, in, &in->profile, trust, ends, &took_s);
    in->ended = isnan(took_s);
    if (!rc && took_s < TWICE * ends->budget_s && !count_changed(in->judged, &changed))
        rc = profile_again(run, in, trust, ends);
    if (!rc)
        note_changes(in);
    return rc;
}
