/* pack.h - writing a dataset of any format from a dataset of any format. */
#ifndef STK_PACK_PACK_H
#define STK_PACK_PACK_H

#include "dataset/dataset.h"

struct stk_pack_result {
    char format[32];
    bool whole;                            /* --resume: it was complete already, nothing was done */
    uint64_t samples, shards, shards_kept; /* kept: found finished by --resume */
    uint64_t shards_redone;                /* they were finished too, but had changed since */
    uint64_t files;                        /* written: the shards, or the files of a tree */
    uint64_t bytes_in, bytes_out;
    uint64_t classes;
    uint64_t replaced;   /* samples of the dataset that --force replaced */
    bool class_by_class; /* its samples are ordered by class */
    double seconds_index, seconds_total;
    struct stk_problems skipped;
    struct stk_notes notes; /* of the source */
};

void stk_pack_result_release(struct stk_pack_result *r);

/* Packs src, read as `open` says, into the new folder dst. On failure nothing is at dst that was not
 * there before. *result is filled in any case: caller releases it. */
int stk_pack_into(const char *src, const char *dst, const struct stk_open_options *open,
                  const struct stk_pack_options *o, struct stk_pack_result *result,
                  struct stk_err *err);

#endif
