/* priv.h - what job.c and job/advise.c share. */
#ifndef STK_JOB_PRIV_H
#define STK_JOB_PRIV_H

#include "job/job.h"

/* Fills v->note from everything else in v. */
void stk_job_advise(struct stk_job_view *v, double advise_s);

#endif
