/* over.c - asks the processes of this node, then Slurm, whether a job is over, and when it ends. */
#include "sched/over.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "host/scratch.h"

/* A job that Slurm no longer knows is over: it forgets jobs only after their end. But one client
 * must have said so: an answer that failed proves nothing. */
static int ask_slurm(uint64_t id, const struct stk_slurm *how)
{
    struct stk_slurm_jobs jobs = {0};
    int over = -1;
    if (stk_slurm_look(how, &id, 1, &jobs, NULL) == 0 && jobs.n == 1) {
        enum stk_slurm_state state = jobs.job[0].state;
        if (state != STK_SLURM_UNKNOWN)
            over = stk_slurm_ended(state);
        else if (jobs.asked & ~jobs.failed & STK_SLURM_BY_SQUEUE)
            over = 1;
    }
    stk_slurm_jobs_release(&jobs);
    return over;
}

int stk_job_is_over(const char *id, const struct stk_slurm *how)
{
    static _Atomic bool silent; /* a controller that does not answer is not waited for again */
    int over = stk_job_over(id);
    size_t digits = strspn(id, "0123456789");
    if (over >= 0 || !digits || id[digits] || digits > 18 || atomic_load(&silent) ||
        stk_slurm_have("squeue", NULL) != 0)
        return over;
    over = ask_slurm(strtoull(id, NULL, 10), how);
    atomic_store(&silent, over < 0);
    return over;
}

/* ---- its end ---- */

#define END_S     3.0 /* for squeue */
#define ASK_RANKS 256 /* more of them would be too much for its controller: rank 0 asks alone */

/* Old versions of Slurm do not say it in the environment. */
static void ask_for_end(const char *job, char end[32])
{
    const char *argv[] = {"squeue", "-h", "-j", job, "-o", "%e", NULL};
    const struct stk_slurm how = {.timeout_s = END_S};
    struct stk_slurm_output out = {0};
    if (stk_slurm_have("squeue", NULL) == 0 &&
        stk_slurm_call(&how, argv, NULL, 0, &out, NULL) == 0 && out.status == 0) {
        const char *text = stk_buf_cstr(&out.out), *line = strchr(text, '\n');
        if (line) /* else the time may have been cut short */
            snprintf(end, 32, "%.*s", (int)(line - text), text);
    }
    stk_slurm_output_release(&out);
}

double stk_job_end(const struct stk_rank *rank)
{
    const char *end = getenv("SLURM_JOB_END_TIME"), *job = getenv("SLURM_JOB_ID");
    char asked[32] = "";
    uint64_t s = 0;
    if (!end && job && *job && rank->local_rank == 0 && (!rank->rank || rank->world <= ASK_RANKS))
        ask_for_end(job, asked);
    return stk_parse_u64(end ? end : asked, &s, NULL) == 0 ? (double)s : 0;
}
