/* build.h - making an index: lists every file, in parallel, and writes the tables. */
#ifndef STK_DATASET_BUILD_H
#define STK_DATASET_BUILD_H

#include "dataset/walk.h"

struct stk_checker;

struct stk_build_options {
    struct stk_list_options list;
    unsigned jobs;                 /* 0: one per core */
    const char *tmpdir;            /* for the tables while they grow; NULL: $TMPDIR or /tmp */
    struct stk_problems *problems; /* NULL: stop at the first */
    struct stk_checker *checker;   /* NULL, or checks framed records during listing */
    bool portable;                 /* keep no times: the index travels with the files */
    bool checks;                   /* leave room for the samples' checksums: stk_index_seal() */
    uint64_t data_id;              /* of the packed dataset; 0: not packed */
    uint64_t listing;              /* hash of the caller's options, as in the header */
    const char *path;              /* of the index, for messages; NULL: it has no name */
    int (*progress)(void *user, uint64_t bytes_done, uint64_t bytes_total, uint64_t samples);
    void *user;
};

/* Writes the index of the walked files to fd (empty, open for reading and writing). */
int stk_build_index(struct stk_walk *w, const struct stk_build_options *o, int fd,
                    struct stk_err *err);

#endif
