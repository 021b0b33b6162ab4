/*
 * tune_input.c - from what the user names to a workload: a workload is taken as it is, a dataset is
 * read as programs usually do, a profile is replayed, and a command is profiled first.
 */
#include "cmd/tune.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/spawn.h"
#include "base/text.h"
#include "record/launch.h"
#include "replay/replay.h"

#define GRACE_S 20

/* ---- a profile ------------------------------------------------------------------------------ */

static int take_actions(struct stk_tune_input *in, struct stk_tune_plan *plan, struct stk_err *err)
{
    const struct stk_advice *a = &in->judged->advice;
    size_t n = 0;
    for (size_t i = 0; i < a->nfindings; i++)
        n += a->finding[i].nactions;
    in->action = n ? calloc(n, sizeof *in->action) : NULL;
    if (n && !in->action)
        return stk_err_nomem(err, n * sizeof *in->action);
    n = 0;
    for (size_t i = 0; i < a->nfindings; i++)
        for (size_t k = 0; k < a->finding[i].nactions; k++)
            in->action[n++] = a->finding[i].action[k];
    plan->action = in->action;
    plan->nactions = n;
    return 0;
}

/* The command that was profiled, else one that it started: the first that is a script. */
static void find_script(struct stk_tune_input *in, struct stk_tune_plan *plan)
{
    const struct stk_profile *p = &in->judged->profile;
    char cwd[STK_SCRIPT_PATH];
    bool found = in->command && getcwd(cwd, sizeof cwd) &&
                 stk_script_find((const char *const *)in->command, cwd, &in->script);
    for (size_t i = 0; i < p->nprocs && !found; i++)
        found = stk_script_find_text(p->proc[i].command, p->proc[i].cwd, &in->script);
    plan->script = found ? &in->script : NULL;
}

static int take_profile(struct stk_run *run, struct stk_tune_input *in, struct stk_tune_plan *plan,
                        const char *path, const char *trust)
{
    struct stk_replay_said said = {0};
    struct stk_judged *j = calloc(1, sizeof *j);
    int rc = j ? stk_judge_profile(run, path, trust, j) : stk_err_nomem(&run->err, sizeof *j);
    if (rc) {
        free(j);
        return rc;
    }
    in->judged = j;
    find_script(in, plan);
    rc = stk_replay_text(&j->analysis, &in->text, &said, &run->err);
    for (size_t i = 0; i < said.n && !rc && !run->common->quiet; i++)
        stk_complain("assumed", said.line[i]);
    stk_replay_said_release(&said);
    plan->text = stk_buf_cstr(&in->text);
    return rc ? rc : take_actions(in, plan, &run->err);
}

/* ---- a command ------------------------------------------------------------------------------ */

static int on_tick(void *user)
{
    struct stk_run *run = user;
    return stk_progress_say(&run->progress, "profiling the command");
}

static int refuse(struct stk_run *run, const struct stk_child *c, double for_s)
{
    if (c->stopped)
        return stk_err_set(&run->err, STK_E_STOPPED, NULL, -1, "stopped");
    if (c->timed_out && for_s > 0)
        return 0;
    if (c->ending.status == 0)
        return 0;
    stk_buf_puts(&run->hint,
                 "it runs without a terminal and must end well. If it needs a terminal, or takes "
                 "hours, profile it as you like (`stoker profile`) and tune the profile: `stoker "
                 "tune PROFILE`; --for TIME ends it after a time");
    return stk_err_set(&run->err, STK_E_SYS, NULL, -1, "the command ended with status %d",
                       c->ending.status);
}

static int profile_command(struct stk_run *run, struct stk_tune_input *in, double for_s)
{
    const char *argv[260], *head[] = {NULL, "profile", "--quiet", "-o", NULL, "--"};
    char self[4096];
    size_t n = sizeof head / sizeof *head;
    int rc = stk_self_path(self, sizeof self, &run->err);
    rc = rc ? rc : stk_folder_temp(&in->profile, ".", "stoker-tune-profile", &run->err);
    if (rc)
        return rc;
    head[0] = self;
    head[4] = in->profile.path;
    memcpy(argv, head, sizeof head);
    for (size_t i = 0; in->command[i] && n + 1 < sizeof argv / sizeof *argv; i++)
        argv[n++] = in->command[i];
    argv[n] = NULL;
    /* Its output goes where our messages go: ours may be a result. */
    struct stk_child c = {.argv = argv,
                          .fd = {STK_FD_NULL, STDERR_FILENO, STK_FD_KEEP},
                          .own_group = true,
                          .death_signal = SIGTERM,
                          .timeout_s = for_s,
                          .grace_s = GRACE_S,
                          .tick = on_tick,
                          .user = run};
    errno = stk_child_start(&c);
    if (errno)
        return stk_err_sys(&run->err, self, "start");
    (void)stk_child_attend(&c);
    stk_progress_clear(&run->progress);
    return refuse(run, &c, for_s);
}

/* ---- which of them -------------------------------------------------------------------------- */

static const char **command_of(const struct stk_run *run)
{
    for (int i = 0; i < run->argc; i++)
        if (strcmp(run->argv[i], "--") == 0)
            return run->opts.arg + (run->opts.nargs - (size_t)(run->argc - i - 1));
    return NULL;
}

/* A folder of stoker profile, or a Darshan log. */
static bool is_profile(const char *path)
{
    size_t n = strlen(path);
    DIR *d = opendir(path);
    bool found = stk_name_has_suffix(path, n, ".darshan");
    for (struct dirent *e; d && !found && (e = readdir(d));)
        found = stk_name_has_suffix(e->d_name, strlen(e->d_name), ".stklog");
    if (d)
        closedir(d);
    return found;
}

static bool is_workload(const char *path)
{
    size_t n = strlen(path);
    return access(path, F_OK) != 0 || stk_name_has_suffix(path, n, ".yaml") ||
           stk_name_has_suffix(path, n, ".yml");
}

static int take_argument(struct stk_run *run, struct stk_tune_input *in, struct stk_tune_plan *plan,
                         const char *path, const char *trust)
{
    if (is_workload(path)) {
        plan->workload = path;
        return 0;
    }
    if (is_profile(path))
        return take_profile(run, in, plan, path, trust);
    int rc = stk_tune_guess(path, &in->text, &run->err);
    plan->text = stk_buf_cstr(&in->text);
    return rc;
}

/* The script rather than its interpreter. */
static const char *name_of(const char *const *command)
{
    for (size_t i = 0; command[i]; i++)
        if (stk_name_has_suffix(command[i], strlen(command[i]), ".py"))
            return stk_base_name(command[i]);
    return stk_base_name(command[0]);
}

int stk_tune_input(struct stk_run *run, struct stk_tune_input *in, struct stk_tune_plan *plan,
                   const char *trust, double for_s)
{
    in->command = command_of(run);
    size_t before = in->command ? (size_t)(in->command - run->opts.arg) : run->opts.nargs;
    if (in->command && (before || !in->command[0]))
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "either a workload, dataset or profile, or a command after --");
    if (in->command) {
        plan->name = name_of(in->command);
        int rc = profile_command(run, in, for_s);
        return rc ? rc : take_profile(run, in, plan, in->profile.path, trust);
    }
    if (before != 1)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "what is tuned is missing: a workload, a dataset, a profile, or -- and "
                           "a command");
    return take_argument(run, in, plan, run->opts.arg[0], trust);
}

void stk_tune_input_release(struct stk_tune_input *in)
{
    if (in->profile.fd >= 0)
        stk_folder_destroy(&in->profile);
    stk_folder_release(&in->profile);
    if (in->judged)
        stk_judged_release(in->judged);
    free(in->judged);
    free(in->action);
    stk_buf_release(&in->text);
}
