/*
 * stage_end.c - the end of the job: staging stops a little before it, so that it can say so, and also
 * if a file system does not answer.
 */
#include "cmd/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"

double stk_stage_job_end(void)
{
    const char *end = getenv("SLURM_JOB_END_TIME");
    uint64_t s = 0;
    return end && stk_parse_u64(end, &s, NULL) == 0 ? (double)s : 0;
}

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
    if (job->real && !(json && strcmp(json, "-") == 0))
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
