/*
 * stage_place.c - what is said about the place of the copy, and until when there is time: staging
 * stops a little before the job ends, so that it can say so, also if a file system does not answer.
 */
#include "cmd/stage.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/units.h"
#include "sched/slurm/slurm.h"
#include "stage/target.h"
#include "pack/pack.h"
#include "report/data.h"

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

/* ---- other ways to a copy -------------------------------------------------------------------- */

/* Ways to a copy other than copying: two hops, through a folder that both kinds of nodes see
 * (--via), and packing on the way (--pack). */

/* ---- two hops ---- */

struct hop {
    const char *src;
    char *path;
};

static int see_hop(void *user, const struct stk_tier_info *info)
{
    struct hop *h = user;
    if (info->published && strcmp(info->source, h->src) == 0 && !h->path)
        h->path = strdup(info->path);
    return 0;
}

/* The copy in DIR of a source that this node does not see. */
static int find_hop(struct stk_stage_job *job, char **path)
{
    struct stk_err *err = &job->run->err;
    struct hop h = {.src = job->given};
    struct stk_tier *tier = NULL;
    char *via = stk_tier_named(job->s->via);
    int rc = via ? stk_tier_open(via, &(struct stk_tier_options){0}, &tier, err)
                 : stk_err_nomem(err, strlen(job->s->via));
    free(via);
    rc = rc ? rc : stk_tier_list(tier, see_hop, &h, err);
    stk_tier_close(tier);
    if (rc == 0 && !h.path)
        rc = stk_err_set(err, STK_E_USAGE, job->given, -1,
                         "this node does not see it, and %s has no complete copy of it; run "
                         "`stoker stage` with the same SRC and %s as DST where it can be seen",
                         job->s->via, job->s->via);
    *path = h.path;
    return rc;
}

/* The first hop: afterwards the source is the copy in DIR. */
int stk_stage_hop(struct stk_stage_job *job)
{
    struct stk_stage_result r = {0};
    char *path = NULL;
    int rc = 0;
    if (!stk_may_exist(AT_FDCWD, job->given)) {
        rc = find_hop(job, &path);
    } else if (job->s->dry_run) { /* the plan is that of the second hop; nothing is copied */
        return stk_stage_list_source(job, job->given);
    } else {
        char *via = stk_tier_named(job->s->via);
        rc = via ? stk_stage_list_source(job, job->given) : stk_err_nomem(&job->run->err, 0);
        job->hopping = true;
        rc = rc ? rc : stk_stage_fill_tier(job, via, true, &r);
        job->hopping = false;
        free(via);
        path = r.path;
        r.path = NULL;
        stk_source_release(&job->src);
    }
    rc = rc ? rc : stk_stage_list_source(job, path);
    stk_stage_result_release(&r);
    free(path);
    return rc;
}

/* ---- packing ---- */

static int on_pack(void *user, const char *phase, uint64_t bytes, uint64_t total, uint64_t samples,
                   uint64_t samples_total)
{
    struct stk_stage_job *job = user;
    bool stop =
        stk_progress_update(&job->run->progress, phase, bytes, total, samples, samples_total);
    return stop || stk_stage_is_ending(job);
}

static int pack_into(void *user, const char *dst, struct stk_err *err)
{
    struct stk_stage_job *job = user;
    const struct stk_stage_settings *s = job->s;
    struct stk_open_options open = s->open;
    struct stk_pack_options o = {
        .format = s->pack, .resume = true, .progress = on_pack, .user = job};
    open.jobs = (unsigned)s->jobs;
    int rc = stk_pack_into(job->src.path, dst, &open, &o, job->packed, err);
    stk_progress_clear(&job->run->progress);
    return rc;
}

static int show_packed(struct stk_stage_job *job, const struct stk_stage_result *r)
{
    struct stk_run *run = job->run;
    const struct stk_say_how how = {.subject = r->path};
    int rc = 0;
    if (r->already)
        stk_say(run, "already there: %s as %s\n", job->src.path, job->s->pack);
    else
        rc = stk_say_result(run, &stk_pack_kind, job->packed, &how);
    stk_jw_put_bool(&run->json, "staged", true);
    stk_jw_put_bool(&run->json, "already_there", r->already);
    stk_jw_put_str(&run->json, "source", job->src.path);
    stk_jw_put_str(&run->json, "path", r->path);
    stk_jw_put_str(&run->json, "tier", job->at.tier);
    stk_jw_put_str(&run->json, "set", r->id);
    if (rc == 0)
        stk_stage_print_path(job, r->path);
    return rc;
}

int stk_stage_packed(struct stk_stage_job *job)
{
    struct stk_stage_options o = stk_stage_options_of(job, NULL);
    struct stk_stage_result r = {0};
    struct stk_pack_result packed = {0};
    struct stk_tier *tier = NULL;
    struct stk_err *err = &job->run->err;
    job->packed = &packed;
    int rc = stk_stage_open_tier(job, job->at.tier, job->at.named, &tier);
    rc = rc ? rc : stk_stage_pack(&job->src, tier, job->s->pack, &o, pack_into, &r, err);
    stk_tier_close(tier);
    rc = rc ? rc : show_packed(job, &r);
    stk_pack_result_release(&packed);
    stk_stage_result_release(&r);
    return rc;
}
