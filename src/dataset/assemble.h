/*
 * assemble.h - from slices to a sample: assembles the parts of a field, and lets the codec decode
 * records.
 */
#ifndef STK_DATASET_ASSEMBLE_H
#define STK_DATASET_ASSEMBLE_H

#include "dataset/fetch.h"

/* Returns the bytes of slice i. *fleeting: they are valid only until the next call. */
typedef int stk_slice_fn(void *user, uint32_t i, const uint8_t **p, uint64_t *len, bool *fleeting,
                         struct stk_err *err);

/* Sample k of f. Its values are borrowed: valid as long as the slices' bytes. */
int stk_assemble(const struct stk_fetch *f, size_t k, stk_slice_fn *slice, void *user,
                 struct stk_sample *s, struct stk_err *err);
/* CRC-32C over the slices of sample k: their stored bytes or, for a filtered extent that several
 * samples share, the sample's decoded part. *bytes: their number. */
int stk_assemble_sum(const struct stk_fetch *f, size_t k, stk_slice_fn *slice, void *user,
                     uint32_t *crc, uint64_t *bytes, struct stk_err *err);
/* Compares that with the checksum in the index. 1: it matches; 0: there is none. */
int stk_assemble_check(const struct stk_fetch *f, size_t k, stk_slice_fn *slice, void *user,
                       uint64_t *bytes, struct stk_err *err);
/* Puts the place of sample `id`, by its number in the index, into an error that names no file
 * yet. */
void stk_assemble_locate(const struct stk_dataset *ds, uint64_t id, int code, struct stk_err *err);

#endif
