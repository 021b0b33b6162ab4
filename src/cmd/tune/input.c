/*
 * input.c - from what the user names to a workload: a workload is taken as it is, a dataset is
 * read as programs usually do, a profile is replayed, and a command is profiled first.
 */
#include "cmd/tune.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "base/own.h"
#include "base/text.h"
#include "replay/replay.h"

#define BATCH_KEY "training.batch"

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

static void take_job(const struct stk_judged *j, struct stk_tune_job *out)
{
    *out = (struct stk_tune_job){.known = true,
                                 .peak_bytes = j->analysis.peak_resident_bytes,
                                 .framework = j->advice.framework};
    const struct stk_loop *l = &j->analysis.loop;
    if (l->how != STK_LOOP_UNKNOWN && l->wait_s >= 0 && l->compute_s >= 0)
        out->loop_s = l->wait_s + l->write_s + l->compute_s;
    for (size_t i = 0; i < j->profile.nhosts; i++)
        out->gpus += j->profile.host[i].gpus;
}

/* As the first finding has it that says so; else as training usually does, if nearly all that was
 * read is pictures. */
static void take_decode(const struct stk_judged *j, const struct stk_tune_plan *plan,
                        struct stk_tune_job *out)
{
    for (size_t i = 0; i < plan->nactions && !out->decode; i++) {
        const struct stk_action *a = &plan->action[i];
        if (a->loader.parts) /* decoding one part alone would not fit the other */
            return;
        bool decodes = a->kind == STK_ACT_LOADER && a->loader.decode && !a->loader.last;
        if (!decodes || !strchr(a->loader.decode, ':'))
            continue;
        out->decode = a->loader.decode;
        out->labelled = a->loader.labelled;
        out->size_known = a->loader.size_known;
    }
    for (size_t i = 0; i < j->analysis.nformats && !out->decode; i++) {
        const struct stk_usage *u = &j->analysis.format[i];
        if (u->use && (double)u->distinct_bytes > 0.9 * (double)j->analysis.job.distinct_bytes)
            out->decode = u->use->decode;
    }
}

/* The command that was profiled, else one that it started: the first that is a script. */
static void find_script(struct stk_tune_input *in, struct stk_tune_plan *plan)
{
    const struct stk_profile *p = &in->judged->profile;
    char cwd[STK_SCRIPT_PATH];
    bool found = in->command && getcwd(cwd, sizeof cwd) &&
                 stk_script_find(in->command, cwd, &in->script);
    for (size_t i = 0; i < p->nprocs && !found; i++)
        found = stk_script_find_text(p->proc[i].command, p->proc[i].cwd, &in->script);
    plan->script = found ? &in->script : NULL;
}

/* Whether the user has said the value of a key. */
static bool is_set(const char *const *set, const char *key)
{
    size_t n = key ? strlen(key) : 0;
    for (; n && set && *set; set++)
        if (strncmp(*set, key, n) == 0 && (*set)[n] == '=')
            return true;
    return false;
}

static void take_said(struct stk_run *run, const struct stk_tune_input *in,
                      const struct stk_replay_said *said, struct stk_tune_plan *plan)
{
    for (size_t i = 0; i < said->n; i++) {
        const struct stk_replay_line *l = &said->line[i];
        if (is_set(plan->set, l->key))
            continue;
        plan->job.batch_guessed |= l->key && strcmp(l->key, BATCH_KEY) == 0;
        if (!(in->ended && l->failed) && !run->common->quiet)
            stk_complain("assumed", l->text);
    }
}

int stk_tune_judge_profile(struct stk_run *run, struct stk_tune_input *in, const char *path,
                           const char *trust)
{
    struct stk_judged *j = calloc(1, sizeof *j);
    int rc = j ? stk_judge_profile(run, path, trust, j) : stk_err_nomem(&run->err, sizeof *j);
    if (rc)
        free(j);
    else
        in->judged = j;
    return rc;
}

static int take_profile(struct stk_run *run, struct stk_tune_input *in, struct stk_tune_plan *plan)
{
    struct stk_replay_said said = {0};
    const struct stk_judged *j = in->judged;
    find_script(in, plan);
    take_job(j, &plan->job);
    int rc = stk_replay(&j->analysis, &in->w, &said, &run->err);
    if (!rc)
        take_said(run, in, &said, plan);
    stk_replay_said_release(&said);
    plan->made = &in->w;
    rc = rc ? rc : take_actions(in, plan, &run->err);
    if (!rc)
        take_decode(j, plan, &plan->job);
    return rc;
}

/* ---- a command ------------------------------------------------------------------------------ */

/* The script rather than its interpreter. */
static const char *name_of(const char *const *command)
{
    for (size_t i = 0; command[i]; i++)
        if (stk_name_has_suffix(command[i], strlen(command[i]), ".py"))
            return stk_base_name(command[i]);
    return stk_base_name(command[0]);
}

/* What they say is known by now: a call that is killed later leaves no profiles. */
static void remove_profiles(struct stk_tune_input *in)
{
    struct stk_folder *made[] = {&in->profile, &in->again};
    for (size_t i = 0; i < 2; i++) {
        if (made[i]->fd >= 0)
            stk_folder_destroy(made[i]);
        stk_folder_release(made[i]);
    }
}

static int take_command(struct stk_run *run, struct stk_tune_input *in, struct stk_tune_plan *plan,
                        const char *trust, const struct stk_tune_ends *ends)
{
    plan->name = name_of(in->command);
    run->cleans_up = true;
    int rc = stk_tune_profile(run, in, trust, ends);
    rc = rc ? rc : take_profile(run, in, plan);
    if (rc && in->judged && strcmp(run->err.path, in->judged->profile.path) == 0)
        run->err.path[0] = '\0'; /* by the time it is shown, it is removed */
    remove_profiles(in);
    plan->notes = in->notes;
    return rc;
}

/* ---- which of them -------------------------------------------------------------------------- */

const char *const *stk_tune_command(const struct stk_run *run)
{
    for (int i = 0; i < run->argc; i++)
        if (strcmp(run->argv[i], "--") == 0)
            return (const char *const *)run->opts.arg +
                   (run->opts.nargs - (size_t)(run->argc - i - 1));
    return NULL;
}

/* A folder of stoker profile, or a Darshan log. */
static int is_profile(const char *path, bool *is, struct stk_err *err)
{
    struct stk_dir d;
    int rc = stk_dir_open_optional(&d, path, err);
    *is = stk_name_has_suffix(path, strlen(path), ".darshan");
    for (const struct dirent *e; !*is && (e = stk_dir_next(&d));)
        *is = stk_name_has_suffix(e->d_name, strlen(e->d_name), ".stklog");
    return stk_dir_end(&d, rc, err);
}

static bool is_workload(const char *path)
{
    size_t n = strlen(path);
    return !stk_may_exist(AT_FDCWD, path) || stk_name_has_suffix(path, n, ".yaml") ||
           stk_name_has_suffix(path, n, ".yml");
}

#define HEAD 4096

/* A study or a result of --json is no data; nor is the folder of a study. */
static int refuse_own(const char *path, struct stk_err *err)
{
    char head[HEAD + 1] = "", *inside = stk_path_join(path, "study.json");
    if (!inside)
        return stk_err_nomem(err, HEAD);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 ? read(fd, head, HEAD) : -1;
    head[n > 0 ? n : 0] = '\0';
    bool study = strstr(head, "\"stoker_study\"") || stk_may_exist(AT_FDCWD, inside);
    bool result = strstr(head, "\"schema\"") && strstr(head, "\"command\"");
    if (fd >= 0)
        close(fd);
    free(inside);
    return !study && !result
               ? 0
               : stk_err_set(err, STK_E_USAGE, path, -1,
                             study ? "is a scaling study, not a dataset; `stoker scale --from` reads it"
                                   : "is a result of stoker, not a dataset; `stoker report` shows it");
}

static int take_argument(struct stk_run *run, struct stk_tune_input *in, struct stk_tune_plan *plan,
                         const char *path, const char *trust)
{
    if (is_workload(path)) {
        plan->workload = path;
        return 0;
    }
    bool profile;
    int rc = is_profile(path, &profile, &run->err);
    if (rc)
        return rc;
    rc = profile ? stk_tune_judge_profile(run, in, path, trust) : 0;
    if (profile)
        return rc ? rc : take_profile(run, in, plan);
    rc = refuse_own(path, &run->err);
    if (rc)
        return rc;
    rc = stk_tune_guess(path, stk_stop_signal, &in->w, &run->err);
    plan->job.batch_guessed = !is_set(plan->set, BATCH_KEY);
    plan->made = &in->w;
    return rc;
}

int stk_tune_input(struct stk_run *run, struct stk_tune_input *in, struct stk_tune_plan *plan,
                   const char *trust, const struct stk_tune_ends *ends)
{
    in->command = stk_tune_command(run);
    size_t before = run->opts.nargs;
    if (in->command)
        before = (size_t)(in->command - (const char *const *)run->opts.arg);
    if (in->command && (before || !in->command[0]))
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "either a workload, dataset or profile, or a command after --");
    if (in->command)
        return take_command(run, in, plan, trust, ends);
    if (ends->for_s > 0 || ends->steps)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "--for and --steps end a command, and there is none after --");
    if (before != 1)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "what is tuned is missing: a workload, a dataset, a profile, or -- and "
                           "a command");
    return take_argument(run, in, plan, run->opts.arg[0], trust);
}

void stk_tune_input_release(struct stk_tune_input *in)
{
    remove_profiles(in);
    if (in->judged)
        stk_judged_release(in->judged);
    free(in->judged);
    free(in->action);
    stk_workload_release(&in->w);
}
