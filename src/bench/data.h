/*
 * data.h - the data folder of a benchmark: DIR/train/... and DIR/stoker-bench.json, the note that
 * says which workload made it and whether it is complete.
 *
 * Nothing is written into a folder with other files and without the note; `clean` removes only
 * files whose names follow from the note.
 */
#ifndef STK_BENCH_DATA_H
#define STK_BENCH_DATA_H

#include "base/own.h"
#include "bench/workload.h"
#include "sched/comm.h"

/* ---- the files of a replay ------------------------------------------------------------------- */

/* The files of a group of a replay: those that the user has, found by their names, or those that
 * were generated. */
struct stk_bench_list {
    const char **file; /* names in dataset.path or in the data folder, or absolute */
    size_t n;
    double mean_bytes; /* of a file */
    struct stk_arena arena;
};

/* The files of group g that exist, by name. base: dataset.path, or NULL. Refuses a group that lacks
 * files, or whose size differs from that of the profile. Caller frees with
 * stk_bench_list_release(), also on error. */
int stk_bench_list_find(const struct stk_workload *w, size_t g, const char *base,
                        struct stk_bench_list *out, struct stk_err *err);
/* How many files there are in a folder and below it, and the mean size of some of them: for a
 * profile that has estimates only. match: a pattern for names; NULL: any. */
int stk_bench_list_survey(const char *folder, const char *match, uint64_t *files,
                          double *mean_bytes, struct stk_err *err);
/* The files of group g that --generate makes. */
int stk_bench_list_made(const struct stk_workload *w, size_t g, struct stk_bench_list *out,
                        struct stk_err *err);
void stk_bench_list_release(struct stk_bench_list *l);

/* Files of group g that a run uses or generates. */
uint64_t stk_bench_group_files(const struct stk_workload *w, size_t g);
/* Of all groups. */
uint64_t stk_bench_groups_files(const struct stk_workload *w);
/* The group that file number `item` of all groups belongs to, and its number there. */
size_t stk_bench_group_of(const struct stk_workload *w, uint64_t item, uint64_t *file);
/* Bytes of a file that is generated. */
uint64_t stk_bench_group_size(const struct stk_workload *w, size_t g, uint64_t file);

#define STK_BENCH_NOTE       "stoker-bench.json"
#define STK_BENCH_INDEX      "stoker-bench.stkidx" /* of --reader stoker */
#define STK_BENCH_EVAL_INDEX "stoker-bench-eval.stkidx"

struct stk_bench_data {
    const struct stk_workload *w; /* borrowed */
    const char *dir;              /* borrowed */
    int dirfd;                    /* -1: not open */
    uint64_t made, kept;          /* files written, and files that were there */
    bool users; /* files of the user, which are only read: dir is dataset.path */
    struct stk_bench_list list[STK_GROUPS]; /* of a replay */
};
#define STK_BENCH_DATA_INIT ((struct stk_bench_data){.dirfd = -1})

/* Returns non-zero to stop. */
typedef int stk_bench_progress_fn(void *user, uint64_t files, uint64_t total);

/* The same; STK_E_STOPPED if the storage does not answer for so long, or a rank of comm (may be
 * NULL) is lost. */
int stk_bench_data_open_within(struct stk_bench_data *d, const struct stk_workload *w,
                               const char *dir, double patience_s, struct stk_comm *comm,
                               struct stk_err *err);
/* The files of dataset.path instead, which exist and are only read. */
int stk_bench_data_users(struct stk_bench_data *d, const struct stk_workload *w,
                         struct stk_err *err);
/* As stk_bench_data_open(); generates what is missing first, with that many threads. comm: NULL, or
 * all of its ranks call this, and each generates its part. */
int stk_bench_data_generate(struct stk_bench_data *d, const struct stk_workload *w, const char *dir,
                            unsigned jobs, struct stk_comm *comm, stk_bench_progress_fn *progress,
                            void *user, struct stk_err *err);
void stk_bench_data_close(struct stk_bench_data *d);
/* Removes what was generated in dir, what killed runs left there, and dir itself if it is then
 * empty. *files: how many generated ones; *left: what stays, because bench did not make it. */
int stk_bench_data_clean(const char *dir, stk_bench_progress_fn *progress, void *user,
                         uint64_t *files, struct stk_left *left, struct stk_err *err);
/* Drops the pages of what a run will read from the page cache, as far as the kernel lets us.
 * stoker: the loader reads, which may have data of its own (reader.path). */
void stk_bench_data_drop(const struct stk_bench_data *d, bool stoker);

#endif
