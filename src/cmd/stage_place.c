/*
 * stage_place.c - what is said about the place of the copy, and until when there is time: staging
 * stops a little before the job ends, so that it can say so, also if a file system does not answer.
 */
#include "cmd/stage.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/units.h"
#include "sched/over.h"
#include "stage/target.h"

#define ASK_S 3.0 /* for each client of Slurm, to say whether a job runs */

static int stopped(void *user)
{
    (void)user;
    return stk_stop_signal();
}

/* ---- jobs that are over ---- */

void stk_stage_say_left(const struct stk_run *run, const char *tier, const char *left)
{
    stk_say(run, "%s/%s stays there: stoker did not make it\n", tier, left);
}

static void say_removed(void *user, const struct stk_tier_info *info)
{
    char size[32];
    stk_say(user, "removed the copy of %s (%s), which no job uses: %s\n", info->source,
            stk_format_size(info->bytes_there, size, sizeof size), info->path);
    if (info->left)
        stk_stage_say_left(user, info->tier, info->left->first);
}

static int is_over(const char *job)
{
    const struct stk_slurm how = {.timeout_s = ASK_S};
    return stk_job_is_over(job, &how);
}

struct stk_tier_options stk_stage_tier_options(struct stk_run *run)
{
    return (struct stk_tier_options){.job_over = is_over, .removed = say_removed, .user = run};
}

static void say_swept(void *user, const struct stk_swept *one)
{
    if (one->used)
        stk_say(user, "the copies of a job that is over stay: %s: %s\n", one->path, one->used);
    else
        stk_say(user, "removed the copies of a job that is over: %s\n", one->path);
    if (one->left)
        stk_stage_say_left(user, one->path, one->left);
}

void stk_stage_tidy(struct stk_run *run)
{
    (void)stk_stage_sweep(say_swept, run);
}

/* ---- the place ---- */

static void say_place(const struct stk_stage_job *job, bool good)
{
    const struct stk_chosen *c = &job->at;
    char text[400];
    if (job->run->common->quiet)
        return;
    if (c->taken) {
        snprintf(text, sizeof text, "%.*s belongs to another user; the copy goes to %s",
                 (int)c->taken, c->tier, stk_base_name(c->tier));
        stk_complain("stage", text);
    }
    if (good && c->target && c->target->warning[0] &&
        (!c->named || c->target->verdict == STK_TARGET_FITS))
        stk_complain("stage", c->target->warning);
}

int stk_stage_place(struct stk_stage_job *job, const char *dst, const struct stk_source *src,
                    uint64_t bytes)
{
    const struct stk_choose_options choice = {
        .dst = dst, .form = job->s->pack, .bytes = bytes, .stop = stopped};
    stk_chosen_release(&job->at);
    if (!dst && !job->s->dry_run)
        stk_stage_tidy(job->run);
    int rc = stk_choose_tier(&choice, src, &job->at, &job->run->err);
    say_place(job, rc == 0);
    return rc;
}

/* ---- the end of the job ---- */

bool stk_stage_is_ending(struct stk_stage_job *job)
{
    if (job->end_s > 0 && (double)time(NULL) + STK_STAGE_MARGIN_S >= job->end_s)
        atomic_store(&job->ending, true);
    return atomic_load(&job->ending);
}

static bool is_late(void *user)
{
    return stk_stage_is_ending(user);
}

/* The job ends, and a file system does not answer. */
static int leave(void *user)
{
    const struct stk_stage_job *job = user;
    const char *json = job->run->common->json;
    stk_complain("stage",
                 STK_STAGE_ENDS ", while waiting for a file system that does not answer");
    stk_hint(job->run->cmd->stopped_hint);
    if (job->real && !job->silent && !(json && strcmp(json, "-") == 0))
        dprintf(STDOUT_FILENO, "%s\n", job->real);
    return STK_EXIT_PARTLY;
}

int stk_stage_in_time(struct stk_stage_job *job, const char *dst,
                      int (*stage)(struct stk_stage_job *job, const char *dst))
{
    const struct stk_deadline end = {is_late, leave, job};
    atomic_store(&job->run->deadline, &end);
    int rc = stage(job, dst);
    atomic_store(&job->run->deadline, NULL);
    return rc;
}
