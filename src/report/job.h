/* job.h - the result of `stoker job`: one job in full, several as a table. */
#ifndef STK_REPORT_JOB_H
#define STK_REPORT_JOB_H

#include "job/job.h"
#include "result/field.h"

struct stk_job_list {
    const struct stk_slurm_jobs *jobs;
    struct stk_job_scale scale;
    const struct stk_job_nodes *nodes; /* of the only job, from a profile; NULL: none */
};
/* Of a struct stk_job_list. The style of its screen is a bool: whether it lists the steps. */
extern const struct stk_result_kind stk_job_kind;

#endif
