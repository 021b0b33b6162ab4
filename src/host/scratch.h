/*
 * scratch.h - folders for copies on this node that the environment of a job names, and the place of
 * the job's own tier in each. Reads environment variables only; stage/target.h judges the folders.
 */
#ifndef STK_HOST_SCRATCH_H
#define STK_HOST_SCRATCH_H

#include <stddef.h>

struct stk_scratch {
    const char *name; /* "$TMPDIR", "/dev/shm" */
    const char *path; /* NULL: the variable is not set or empty. Borrowed: valid until it changes */
};

#define STK_SCRATCHES 7

/* All of them, in the order of preference: what the user names, what the job has, what the node
 * has. Returns STK_SCRATCHES. */
size_t stk_scratch_list(struct stk_scratch out[STK_SCRATCHES]);

enum stk_scheduler {
    STK_SCHEDULER_NONE,
    STK_SCHEDULER_SLURM,
    STK_SCHEDULER_PBS,
    STK_SCHEDULER_LSF,
    STK_SCHEDULER_FLUX,
    STK_SCHEDULER_SGE,
    STK_SCHEDULER_OTHER, /* a name that we do not know */
};
/* "slurm"; NULL: none. */
const char *stk_scheduler_name(enum stk_scheduler scheduler);
/* NULL and "": none. */
enum stk_scheduler stk_scheduler_of(const char *name);

/* The id of the batch job we run in (Slurm, PBS, LSF, Flux, Grid Engine), NULL: none. scheduler may
 * be NULL. Borrowed: valid until the environment changes. */
const char *stk_job_detect(enum stk_scheduler *scheduler);

#define STK_JOB_ID_MAX 64
/* The name of what a default tier is private to, as a part of a file name (letters, digits, '.',
 * '-' and '_'): the id of the batch job, else $STOKER_JOB, else the session of this process on this
 * boot of the machine ("session-SID-BOOT-NAMESPACE"). Returns buf. */
const char *stk_job_id(char buf[STK_JOB_ID_MAX]);
/* The name of this session alone, whatever the job. Returns buf. */
const char *stk_session_id(char buf[STK_JOB_ID_MAX]);
/* Whether the session of that name is over, as stk_job_over(). */
int stk_session_over(const char *id);
/* Whether the job or session of that name is over: 1: it is, 0: it is not, -1: not known, ask its
 * scheduler (sched/slurm/slurm.h). */
int stk_job_over(const char *id);
/* The default tier of this job in a folder: "FOLDER/stoker-UID-job-JOBID", or with "+N" at the end
 * if another user has taken that name. malloc'ed; caller frees with free(). NULL: no memory. */
char *stk_scratch_tier(const char *folder);
/* The same for another path: "PATH+N" if what is at the path belongs to another user. Takes
 * ownership of path; malloc'ed. */
char *stk_scratch_not_taken(char *path);
/* How many bytes of such a path are the name that another user has; 0: it is the usual name. */
size_t stk_scratch_taken(const char *path);

#endif
