/*
 * stage_ways.c - ways to a copy other than copying: two hops, through a folder that both kinds of
 * nodes see (--via), and packing on the way (--pack).
 */
#include "cmd/stage.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pack/pack.h"
#include "report/data.h"

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
