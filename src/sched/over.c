/* over.c - asks the processes of this node, then Slurm, whether a job is over. */
#include "sched/over.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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
