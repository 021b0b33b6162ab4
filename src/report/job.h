/*
 * job.h - Slurm jobs for people and for programs: one job in full, several as a table, JSON.
 * Everything shown was computed before (job/job.h). Names of jobs, reasons and paths are escaped.
 */
#ifndef STK_REPORT_JOB_H
#define STK_REPORT_JOB_H

#include "job/nodes.h"
#include "job/totals.h"
#include "result/field.h"

struct stk_job_text {
    unsigned columns; /* at least 60 */
    bool utf8, steps; /* steps: a table of them */
    struct stk_job_scale scale;
    const struct stk_job_nodes *nodes; /* of the only job, from a profile; NULL: none */
};

/* One job: requested, allocated, used, why it waits, what to write next time. */
void stk_job_text(const struct stk_slurm_job *job, const struct stk_job_text *t,
                  struct stk_buf *out);
/* What to write next time, and what to know about the figures. */
void stk_job_notes(const struct stk_job_view *v, unsigned columns, struct stk_buf *out);
/* One row per job. Each array gets a line on what to write next time. */
void stk_job_table(const struct stk_slurm_jobs *jobs, const struct stk_job_text *t,
                   struct stk_buf *out);
/* Totals of several jobs: counts by state, core-hours used and idle, SUs, jobs that did not
 * complete. */
void stk_job_totals_text(const struct stk_slurm_jobs *jobs, const struct stk_job_text *t,
                         struct stk_buf *out);
/* What could not be queried, in sentences; nothing if all is well. */
void stk_job_missing(const struct stk_slurm_jobs *jobs, unsigned columns, struct stk_buf *out);
/* What JSON, CSV and the page are made of; the screen is not. */
struct stk_job_list {
    const struct stk_slurm_jobs *jobs;
    const struct stk_job_text *t;
};
extern const struct stk_result_kind stk_job_kind; /* of a struct stk_job_list */

/* Hours, or SUs: "<0.001", "2.13", "3072". */
const char *stk_job_hours(double h, char *buf, size_t size);

#endif
