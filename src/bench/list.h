/*
 * list.h - the files of a group of a replay: those that the user has, found by their names, or
 * those that were generated.
 */
#ifndef STK_BENCH_LIST_H
#define STK_BENCH_LIST_H

#include "bench/workload.h"

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

#endif
