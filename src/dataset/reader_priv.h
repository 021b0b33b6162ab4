/*
 * reader_priv.h - what the parts of the reader share: reader.c reads samples and batches,
 * reader_decode.c undoes filters and keeps shared extents.
 */
#ifndef STK_DATASET_READER_PRIV_H
#define STK_DATASET_READER_PRIV_H

#include "dataset/assemble.h"
#include "dataset/reader.h"

#define OPEN_FILES  16          /* descriptors kept by a reader */
#define DECODED_MAX (32u << 20)  /* decoded extents kept, in bytes (but always the last one) */
#define SAMPLE_MOST (256u << 20) /* the same for the last sample: the next is in them, too */
#define NDECODED    1024 /* a value may be cut into this many extents without thrashing */

struct decoded {
    uint64_t extent;
    struct stk_buf data;
    uint64_t used; /* 0: empty */
    uint16_t next; /* in its chain: index + 1; 0: the last */
    bool linked;   /* is in the chain of `extent`, in use or not */
};

struct stk_reader {
    struct stk_dataset *ds;
    struct stk_fetch fetch;
    struct stk_buf bytes; /* the bytes that were read */
    struct stk_handles handles;
    struct stk_file *held; /* the one read last, or NULL */
    struct decoded decoded[NDECODED];
    size_t decoded_bytes;
    uint16_t decoded_chain[NDECODED]; /* by extent: place + 1 in decoded, 0: none */
    struct stk_buf scratch, stored;
    uint64_t clock;
    uint64_t batch_clock;                     /* when the last batch began */
    uint64_t sample_clock, last_sample_clock; /* when this sample began, and the one before it */
    uint64_t reads, decoded_total;
    struct stk_reader *next; /* among the dataset's idle ones */
};

/* ---- reader_decode.c ---- */

/* A decoded extent that is kept, or NULL. */
struct decoded *stk_reader_decoded(struct stk_reader *r, uint64_t extent);
/* Frees the slots of extents not used since then; their memory is reused. */
void stk_reader_forget(struct stk_reader *r, uint64_t since);
/* The bytes of slice i of the batch (a stk_slice_fn; user: the reader). Borrowed: until the next
 * batch, for filtered ones until the next slice. */
int stk_reader_slice(void *user, uint32_t i, const uint8_t **p, uint64_t *len, bool *fleeting,
                     struct stk_err *err);

#endif
