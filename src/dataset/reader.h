/*
 * reader.h - reads samples of any format by the index: few large reads, filters undone, frames
 * checked, records decoded. One reader per thread.
 *
 * A batch is read at once; an unreadable sample fails alone, when it is requested.
 */
#ifndef STK_DATASET_READER_H
#define STK_DATASET_READER_H

#include "dataset/dataset.h"

struct stk_reader;

/* Caller frees with stk_reader_free(). */
int stk_reader_new(struct stk_dataset *ds, struct stk_reader **out, struct stk_err *err);
void stk_reader_free(struct stk_reader *r);
/* Frees the memory kept for the next reads, which may be far away. */
void stk_reader_rest(struct stk_reader *r);
void stk_reader_free_all(struct stk_reader *first); /* a dataset's idle ones */

/* Reads the bytes of n samples. Fails only on errors that do not concern a single sample. */
int stk_reader_batch(struct stk_reader *r, const uint64_t *ids, size_t n, struct stk_err *err);
/* Sample k of the batch. Its values are borrowed: valid until the next batch. */
int stk_reader_get(struct stk_reader *r, size_t k, struct stk_sample *s, struct stk_err *err);
/* The checksum of sample k of the batch, as an index keeps it. */
int stk_reader_sum(struct stk_reader *r, size_t k, uint32_t *crc, struct stk_err *err);
/* The stored place of sample i, by its number in the index, for messages: malloc'ed path (or NULL)
 * and offset (or -1). */
char *stk_reader_place(const struct stk_dataset *ds, uint64_t i, int64_t *offset);
uint64_t stk_reader_reads(const struct stk_reader *r);         /* so far */
uint64_t stk_reader_decoded_bytes(const struct stk_reader *r); /* produced by filters, so far */

/* Reads bytes of a file to `to`. */
int stk_reader_range(struct stk_reader *r, uint32_t file, uint64_t off, uint64_t len, uint8_t *to,
                     struct stk_err *err);

#endif
