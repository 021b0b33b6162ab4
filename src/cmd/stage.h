/* stage.h - what the files of `stoker stage` share. */
#ifndef STK_CMD_STAGE_H
#define STK_CMD_STAGE_H

#include "cmd/cmd.h"
#include "report/stage.h"
#include "stage/compare.h"
#include "stage/spread.h"
#include "stage/target.h"

/* ---- --compare ------------------------------------------------------------------------------- */

/* `stoker stage --compare`: its options, as rows for the table of `stage`, and its two entries:
 * the comparison, and one point of it. */

struct stk_stage_compare_settings {
    bool compare;
    const char *const *forms;
    const char *jobs, *beside, *executor;
    uint64_t runs, seed, per_node;
    const char **sbatch;
    /* Of a point. */
    const char *step;
    uint64_t of, here;
};

const char *const *stk_stage_compare_forms(void);
/* True if the options ask for a comparison or a point of one: then stk_stage_compare_run() does it
 * all. */
bool stk_stage_compare_asked(const struct stk_stage_compare_settings *s);
int stk_stage_compare_run(struct stk_run *run, const struct stk_stage_compare_settings *s);

struct stk_pack_result;

struct stk_stage_settings {
    struct stk_common common;
    struct stk_open_options open; /* follow_links and trust; all of it for --pack */
    struct stk_loader_options loader;
    int mode; /* enum stk_spread_mode */
    uint64_t copies, min_nodes;
    const char *status;
    uint64_t ranks, max_rate, memory_bytes, limit_bytes, jobs;
    double keep_s, disk_s;
    struct stk_stage_compare_settings compare;
    const char *via, *pack, *rates, *profile;
    bool background, in_background, wait, list, evict, verify, no_hash, dry_run;
};

/* What one staging knows. */
struct stk_stage_job {
    struct stk_run *run;
    const struct stk_stage_settings *s;
    const char *given;     /* SRC as the user wrote it... */
    char *real;            /* ...and as it can be used anywhere; NULL: it is not there */
    struct stk_source src; /* opened if `listed` */
    bool listed;
    bool stuck; /* a thread still waits for a disk that hangs: nothing that it uses is freed */
    bool hopping;                /* it is being copied to the DIR of --via */
    struct stk_chosen at;        /* where the copy goes */
    uint64_t least_bytes;        /* that the copy takes; 0: not known, or a part of it will do */
    double list_s;
    struct stk_pack_result *packed; /* --pack: what was done; not released yet */
    struct stk_rank rank;    /* of several that a launcher started (sched/rank.h) */
    bool captured;           /* the standard output is that of this rank alone... */
    bool silent, idle;       /* ...else another rank prints the path; another stages */
    struct stk_apart *apart; /* this node stages alone, and rank 0 waits for all */
    char *printed;           /* with it: the path that this rank would print */
    double end_s;        /* of the job, seconds since 1970; 0: unknown */
    _Atomic bool ending; /* the job ends soon: staging was stopped for that */
};

/* stage_place.c: chooses the tier for `bytes` of this source: job->at, and says what is special
 * about it. STK_E_UNSUPPORTED: no folder takes it. */
int stk_stage_place(struct stk_stage_job *job, const char *dst, const struct stk_source *src,
                    uint64_t bytes);
/* For a tier: asks Slurm whether jobs use its copies, and says what is removed. */
struct stk_tier_options stk_stage_tier_options(struct stk_run *run);
/* left: below the tier. */
void stk_stage_say_left(const struct stk_run *run, const char *tier, const char *left);
/* Removes the default tiers of jobs that are over, and says so. */
void stk_stage_tidy(struct stk_run *run);

/* Calls stage(job, dst), which the end of the job stops even if a file system does not answer. */
int stk_stage_in_time(struct stk_stage_job *job, const char *dst,
                      int (*stage)(struct stk_stage_job *job, const char *dst));
#define STK_STAGE_MARGIN_S 30 /* before the job's end: what is running must come to rest */
#define STK_STAGE_ENDS     "stopped because the job ends in less than 30 s"

/* stage_plan.c: --dry-run. The source is listed. */
int stk_stage_plan(struct stk_stage_job *job, const char *dst);

/* stage_background.c: starts this command again in the background and prints the source's path. */
int stk_stage_background(struct stk_stage_job *job, const char *dst);
/* In that process: tells the one that started it that the copy has begun. */
void stk_stage_report_begun(struct stk_stage_job *job);

/* stage_sets.c: --list, --evict and --verify. */
int stk_stage_on_sets(struct stk_run *run);

/* --via. The first hop: afterwards the source that is listed is the copy in DIR. */
int stk_stage_hop(struct stk_stage_job *job);
/* --pack. The source is listed, and the tier chosen. */
int stk_stage_packed(struct stk_stage_job *job);

/* stage_spread.c: which of several ranks speaks: one of a node, and one prints the path, unless each
 * has a standard output of its own, as in srun sh -c 'DATA=$(stoker stage SRC)'. */
void stk_stage_find_voice(struct stk_stage_job *job);
/* Before this node stages alone, and after that: rank 0 waits for the other nodes. */
void stk_stage_part(struct stk_stage_job *job);
int stk_stage_rejoin(struct stk_stage_job *job, int rc);


/* stage_spread.c: all ranks of srun or mpirun together. *done: they did it, or tried to; else this
 * process stages alone. */
int stk_stage_spread(struct stk_stage_job *job, const char *dst, bool *done);

/* stage.c: opens the tier at that path, and makes the folders above it. */
int stk_stage_open_tier(struct stk_stage_job *job, const char *path, bool named,
                        struct stk_tier **tier);
void stk_stage_print_path(struct stk_stage_job *job, const char *path);
/* Lists the source of the job: job->src. */
int stk_stage_list_source(struct stk_stage_job *job, const char *path);
struct stk_stage_options stk_stage_options_of(struct stk_stage_job *job,
                                              const struct stk_stage_order *order);
/* Fills the tier at that path from the source that is listed. */
int stk_stage_fill_tier(struct stk_stage_job *job, const char *path, bool named,
                        struct stk_stage_result *r);
bool stk_stage_is_ending(struct stk_stage_job *job);
int stk_stage_on_list(void *user, uint64_t files);
/* Of the library, for staging and verifying. user: struct stk_stage_job. */
int stk_stage_on_progress(void *user, enum stk_stage_phase phase, uint64_t bytes, uint64_t total);

#endif
