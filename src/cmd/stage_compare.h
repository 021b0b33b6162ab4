/*
 * stage_compare.h - `stoker stage --compare`: its options, as rows for the table of `stage`, and
 * its two entries: the comparison, and one point of it.
 */
#ifndef STK_CMD_STAGE_COMPARE_H
#define STK_CMD_STAGE_COMPARE_H

#include "cmd/cmd.h"
#include "stage/compare.h"

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

/* at: the offset of the struct above in the settings of the command. */
#define STK_STAGE_COMPARE_OPTIONS(at)                                                              \
    {.name = "compare",                                                                            \
     .type = STK_OPT_FLAG,                                                                         \
     .group = "Comparing forms",                                                                   \
     .offset = (at) + offsetof(struct stk_stage_compare_settings, compare),                        \
     .help = "Measure how long staging takes as files, as a tar, as record shards and as "         \
             "squashfs, and with how many jobs at once it slows down; leaves nothing behind"},     \
        {.name = "forms",                                                                          \
         .type = STK_OPT_NAMES,                                                                    \
         .arg = "FORM,...",                                                                        \
         .suggest = stk_stage_compare_forms,                                                       \
         .offset = (at) + offsetof(struct stk_stage_compare_settings, forms),                      \
         .help = "Compare these forms only: files, tar, records, squashfs"},                       \
        {.name = "jobs-at-once",                                                                   \
         .type = STK_OPT_STRING,                                                                   \
         .arg = "N,...",                                                                           \
         .def = "1,2,4",                                                                           \
         .offset = (at) + offsetof(struct stk_stage_compare_settings, jobs),                       \
         .help = "Compare with these numbers of jobs at once, such as 1,2,4 or 1-64*2"},           \
        {.name = "runs",                                                                           \
         .type = STK_OPT_UNSIGNED,                                                                 \
         .arg = "N",                                                                               \
         .def = "3",                                                                               \
         .min = 1,                                                                                 \
         .max = 100,                                                                               \
         .offset = (at) + offsetof(struct stk_stage_compare_settings, runs),                       \
         .help = "Repeat each form with each number of jobs N times"},                             \
        {.name = "order-seed",                                                                     \
         .type = STK_OPT_UNSIGNED,                                                                 \
         .arg = "N",                                                                               \
         .def = "1",                                                                               \
         .offset = (at) + offsetof(struct stk_stage_compare_settings, seed),                       \
         .help = "Seed of the random order of the runs"},                                          \
        {.name = "beside",                                                                         \
         .type = STK_OPT_STRING,                                                                   \
         .arg = "DIR",                                                                             \
         .path = true,                                                                             \
         .offset = (at) + offsetof(struct stk_stage_compare_settings, beside),                     \
         .help = "Prepare the forms in a new folder in DIR, on the storage of SRC (default: in "   \
                 "the folder that contains SRC)"},                                                 \
        {.name = "executor",                                                                       \
         .type = STK_OPT_ENUM,                                                                     \
         .arg = "WHERE",                                                                           \
         .def = "local",                                                                           \
         .choices = stk_executor_names,                                                            \
         .offset = (at) + offsetof(struct stk_stage_compare_settings, executor),                   \
         .help = "Run the jobs here, or as jobs of Slurm"},                                        \
        {.name = "jobs-per-node",                                                                  \
         .type = STK_OPT_UNSIGNED,                                                                 \
         .arg = "N",                                                                               \
         .def = "1",                                                                               \
         .min = 1,                                                                                 \
         .max = 1024,                                                                              \
         .offset = (at) + offsetof(struct stk_stage_compare_settings, per_node),                   \
         .help = "With Slurm: this many of the jobs at once share a node"},                        \
        {.name = "sbatch",                                                                         \
         .type = STK_OPT_LIST,                                                                     \
         .arg = "OPTION",                                                                          \
         .offset = (at) + offsetof(struct stk_stage_compare_settings, sbatch),                     \
         .help = "With Slurm: an option for sbatch, as --sbatch --partition=gpu; may be "          \
                 "repeated"},                                                                      \
        {.name = "compare-step",                                                                   \
         .type = STK_OPT_STRING,                                                                   \
         .arg = "FORM",                                                                            \
         .hidden = true,                                                                           \
         .offset = (at) + offsetof(struct stk_stage_compare_settings, step),                       \
         .help = "Run one point of the comparison in SRC"},                                        \
        {.name = "compare-of",                                                                     \
         .type = STK_OPT_UNSIGNED,                                                                 \
         .arg = "N",                                                                               \
         .def = "1",                                                                               \
         .hidden = true,                                                                           \
         .offset = (at) + offsetof(struct stk_stage_compare_settings, of),                         \
         .help = "Jobs at once of the point"},                                                     \
    {                                                                                              \
        .name = "compare-here", .type = STK_OPT_UNSIGNED, .arg = "N", .def = "1", .hidden = true,  \
        .offset = (at) + offsetof(struct stk_stage_compare_settings, here),                        \
        .help = "Jobs at once of this process"                                                     \
    }

const char *const *stk_stage_compare_forms(void);
/* True if the options ask for a comparison or a point of one: then stk_stage_compare_run() does it
 * all. */
bool stk_stage_compare_asked(const struct stk_stage_compare_settings *s);
int stk_stage_compare_run(struct stk_run *run, const struct stk_stage_compare_settings *s);

#endif
