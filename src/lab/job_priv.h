/* job_priv.h - what job.c and job_advise.c share. */
#ifndef STK_LAB_JOB_PRIV_H
#define STK_LAB_JOB_PRIV_H

#include "lab/job.h"

/* Fills v->note from everything else in v. */
void stk_job_advise(struct stk_job_view *v, double advise_s);

#endif
