/* stage_hop.c - `stoker stage --via DIR`: two hops, through a folder that both kinds of nodes see. */
#include "cmd/stage.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    char *via = stk_stage_named(job->s->via);
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
    if (access(job->given, F_OK) < 0) {
        rc = find_hop(job, &path);
    } else if (job->s->dry_run) { /* the plan is that of the second hop; nothing is copied */
        return stk_stage_list_source(job, job->given);
    } else {
        char *via = stk_stage_named(job->s->via);
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
