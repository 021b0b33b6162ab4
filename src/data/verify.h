/* verify.h - reading every byte of a dataset and saying exactly what is wrong. */
#ifndef STK_DATA_VERIFY_H
#define STK_DATA_VERIFY_H

#include "data/dataset.h"

struct stk_verify_options {
    const char *format, *payload, *datasets; /* NULL: found out */
    const char *split;                       /* NULL: all */
    const char *header, *types;              /* as in stk_open_options */
    unsigned jobs;                           /* 0: one a core */
    uint64_t memory_bytes;                   /* 0: default */
    int (*progress)(void *user, uint64_t bytes_done, uint64_t bytes_total, uint64_t samples);
    void *user;
};

struct stk_verify_result {
    char format[32];
    uint64_t files, samples, bytes; /* bytes: of the dataset's files, each read once or more */
    uint64_t checksummed_bytes;     /* bytes a stored checksum vouches for */
    bool has_manifest;
    double seconds;
    struct stk_problems problems; /* and nothing left out: whole */
    struct stk_notes notes;
};

void stk_verify_release(struct stk_verify_result *r);

/* Returns 0 when the reading itself worked, also when problems were found. */
int stk_verify(const char *path, const struct stk_verify_options *o, struct stk_verify_result *r,
               struct stk_err *err);

#endif
