/*
 * sweep.h - removes the default tiers of jobs that are over: a job that was killed cannot do so
 * itself, and a node's disk belongs to the next one.
 */
#ifndef STK_STAGE_SWEEP_H
#define STK_STAGE_SWEEP_H

#include <stdint.h>

/* Looks into the folders of host/scratch.h for default tiers of this user. Removes one if its job
 * is known to be over (sched/over.h) and no process uses it; a tier that the user named is never
 * touched. told (may be NULL): called with the path of each that is gone, or that stays. Returns the
 * number of those that are gone. */
struct stk_swept {
    const char *path;
    const char *left; /* it stays because of this file in it, which stoker did not put there; or NULL */
    const char *used; /* it stays because a process uses it, which this names; or NULL */
};
uint64_t stk_stage_sweep(void (*told)(void *user, const struct stk_swept *one), void *user);

#endif
