/*
 * survey.h - what `stoker doctor` finds out about a node: file systems in reach and their speed,
 * folders for copies, and what the node has. Everything that may hang is asked in a child with a
 * time limit; what is not known stays so.
 */
#ifndef STK_STAGE_SURVEY_H
#define STK_STAGE_SURVEY_H

#include "sched/comm.h"
#include "model/measure.h"
#include "stage/target.h"

/* A file system, or a path that the user asked about. */
struct stk_survey_fs {
    char names[200]; /* what of ours is on it: "., $HOME, /tmp"; of an argument: "argument" */
    bool home;       /* $HOME is on it */
    bool asked;      /* path is an argument: it is read, not written */
    char path[4096]; /* as given; else a folder on it, if possible a writable one */
    struct stk_fs_facts facts;
    bool measured;
    struct stk_measured speed;
    char note[320]; /* why it was not measured; "": no reason */
};

struct stk_survey_gpus {
    unsigned count;
    char kind[96];       /* "": not known */
    int64_t total_bytes; /* of the first; -1: not known */
    bool nvml;           /* its library answered; else count is what /proc shows */
};

/* A tier that loaders of this job would use. */
struct stk_survey_tier {
    char path[4096];
    uint64_t sets, complete, bytes;
    uint64_t limit_bytes, age_s; /* 0: none */
    bool memory;
    char problem[304]; /* why it cannot be used; "": it can */
};
#define STK_SURVEY_TIERS 16
struct stk_survey_tiers {
    struct stk_survey_tier tier[STK_SURVEY_TIERS];
    size_t n;
    bool stalled; /* one did not answer: it and those after it are not in the list */
};

#define STK_SURVEY_MPIS 8
struct stk_survey_mpi {
    struct stk_comm_module module[STK_SURVEY_MPIS];
    size_t n;
    bool stalled; /* a folder of modules did not answer */
};

struct stk_survey {
    char host[256], kernel[160];
    struct stk_survey_fs *fs; /* owned */
    size_t nfs;
    bool quick;
    double measured_s;
    uint64_t written_bytes;
    struct stk_targets targets;

    unsigned cpus, machine_cpus; /* machine: online */
    double quota_cpus;           /* INFINITY: none */
    uint64_t memory_limit_bytes, memory_free_bytes;
    bool memory_limited; /* by a cgroup */
    struct stk_survey_gpus gpus;
    struct stk_err uring;  /* code 0: it works */
    enum stk_scheduler scheduler; /* of the job; NONE: no job */
    char job[STK_JOB_ID_MAX];
    bool slurm;             /* its clients are in PATH */
    char slurm_version[64]; /* "23.11.4"; "": not known */
    struct stk_survey_mpi mpi;
    struct stk_survey_tiers tiers;
    bool lustre, lfs; /* a file system of the list is Lustre; its client program is there */
    bool mksquashfs;
};

struct stk_survey_options {
    const char *const *path; /* data; may be NULL */
    size_t npaths;
    bool quick;     /* measures nothing, writes nothing */
    struct stk_limit limit; /* for an answer of a file system; 0: 3 s */
    struct stk_measure_how how;
    /* Called before measuring, with limit.user; may be NULL. */
    void (*tell)(void *user);
};

/* Caller releases, also after an error. STK_E_STOPPED: a part is missing; nothing of ours is left
 * on disk. */
int stk_survey_take(const struct stk_survey_options *o, struct stk_survey *out,
                    struct stk_err *err);
void stk_survey_release(struct stk_survey *s);

/* Something that is not there, and what it would give. */
struct stk_survey_lack {
    const char *what; /* "a folder on a local disk" */
    char gives[320];  /* "without it …"; "with it …" */
};
#define STK_SURVEY_LACKS 16
/* Returns their number. */
size_t stk_survey_lacks(const struct stk_survey *s, struct stk_survey_lack out[STK_SURVEY_LACKS]);

#endif
