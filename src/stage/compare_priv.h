/* compare_priv.h - what the comparison and its points share: the file that describes it. */
#ifndef STK_STAGE_COMPARE_PRIV_H
#define STK_STAGE_COMPARE_PRIV_H

#include "record/folder.h"
#include "stage/compare.h"

#define STK_COMPARE_SPEC    "compare.json"
#define STK_COMPARE_RESULTS "results"
#define STK_COMPARE_PREFIX  "stoker-compare"

/* A form as a point finds it. Texts are in the arena. */
struct stk_compare_spec {
    struct stk_arena arena;
    const struct stk_form *form;
    const char *path;      /* of the form */
    const char *target;    /* NULL: to be chosen on this node */
    uint64_t files, bytes; /* of the data, for the space it takes */
};
int stk_compare_write_spec(const struct stk_compare *c, const char *target,
                           const struct stk_folder *dir, struct stk_err *err);
int stk_compare_read_spec(struct stk_compare_spec *s, const struct stk_folder *dir,
                          const char *form, struct stk_err *err);

/* Adds the times of a point's jobs to the folder of the comparison: one file per process. */
int stk_compare_write_times(const struct stk_folder *dir, const struct stk_compare_step *step,
                            const struct stk_compare_job *job, struct stk_err *err);
/* Reads all of them. */
int stk_compare_read_times(struct stk_compare *c, const struct stk_folder *dir,
                           struct stk_err *err);

/* The target for a copy of that many bytes: `named`, or the best folder of this node. */
int stk_compare_target(const char *named, uint64_t bytes, uint64_t files, char *path, size_t size,
                       struct stk_err *err);

#endif
