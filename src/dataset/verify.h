/* verify.h - reading every byte of a dataset and reporting exactly what is wrong. */
#ifndef STK_DATASET_VERIFY_H
#define STK_DATASET_VERIFY_H

#include "dataset/dataset.h"

struct stk_verify_result {
    char format[32];
    uint64_t files, samples, bytes; /* bytes: of the dataset's files, each read once or more */
    uint64_t checksummed_bytes;     /* bytes covered by a stored checksum */
    bool has_manifest;
    double seconds;
    struct stk_problems problems; /* none, and nothing left out: whole */
    struct stk_notes notes;
};

void stk_verify_release(struct stk_verify_result *r);

/* Returns 0 when the reading itself worked, also when problems were found. The jobs and progress of
 * `open` apply to all of it. *r is filled in any case: caller releases it. */
int stk_verify_all(const char *path, const struct stk_open_options *open,
                   const struct stk_verify_options *o, struct stk_verify_result *r,
                   struct stk_err *err);

#endif
