/*
 * fetch.h - which stored bytes a set of samples needs, and the fewest reads that fetch them.
 *
 * Samples are added one by one; their slices become wants (ranges of files); wants near each other
 * form one bundle, read by one request. The reading is done elsewhere: by the reader at once, by
 * the loader through its engine. Then every want has its bytes, or an error.
 */
#ifndef STK_DATASET_FETCH_H
#define STK_DATASET_FETCH_H

#include "dataset/dataset.h"

/* The stored range of one slice. Want i belongs to slice i. */
struct stk_want {
    uint64_t off, len; /* in the file, frame included; len 0: nothing to read */
    const uint8_t *p;  /* its bytes, once read */
    uint32_t file;
    int32_t failed; /* 0, or the code of the error in errs[why] */
    union {
        uint32_t why;
        uint32_t sum; /* stk_fetch_sum() */
    };
    uint8_t chain; /* filters, as in struct stk_extent */
    bool framed;   /* the record's head and tail are around the bytes */
    bool leads;    /* belongs to its sample's first slice */
    bool summed;   /* sum is the CRC-32C of the sample's slices, as stored, up to this one */
};

/* The progress of the sums of a bundle. */
struct stk_sums {
    size_t place;  /* the current want, in the order... */
    uint64_t done; /* ...and the bytes of it that are summed */
};

struct stk_fetch {
    struct stk_dataset *ds;
    struct stk_buf ids;    /* u64: the samples, by their numbers in the index */
    struct stk_buf first;  /* u32: where each sample's slices begin, and the end */
    struct stk_buf slices; /* struct stk_slice of all samples */
    struct stk_buf wants;  /* struct stk_want */
    struct stk_buf order;  /* u32: wants by position, once sorted; without those that have no
                            * bytes */
    struct stk_buf places; /* room to sort in */
    struct stk_err *errs;  /* of failed wants, in the order they failed */
    size_t errs_room;
    uint32_t nerrs;
};

void stk_fetch_init(struct stk_fetch *f, struct stk_dataset *ds);
void stk_fetch_release(struct stk_fetch *f);
void stk_fetch_reset(struct stk_fetch *f); /* keeps the memory */
/* Adds a sample by its number in the dataset. have (may be NULL) returns true for a filtered extent
 * that need not be read. Fails only on errors that are not the sample's own. */
int stk_fetch_add(struct stk_fetch *f, uint64_t id, bool (*have)(void *user, uint64_t extent),
                  void *user, struct stk_err *err);
/* Ends adding: sorts the wants by position. */
int stk_fetch_sort(struct stk_fetch *f, struct stk_err *err);
/* The largest bundle from index i of the order that one request of `max` bytes should fetch (more
 * only if a single range is larger). Returns its end; *from and *to are in the file. */
size_t stk_fetch_bundle(const struct stk_fetch *f, size_t i, uint64_t max, uint64_t *from,
                        uint64_t *to);
/* True if decoding compares a checksum: load and verify call the same bytes checked. zstd and lz4
 * have one only if the writer asked for it, which is unknown here. */
bool stk_fetch_is_summed(const struct stk_index *idx, const struct stk_chain *c);
/* Computes the sums of wants [first, end) of the order as far as possible from bytes [from, to) of
 * their file, which are at p. A further call with a greater `to` continues, so that each byte is
 * summed just after it arrived. Leaves out wants that are not adjacent in both orders: they are
 * summed when they are compared. */
void stk_fetch_sum(struct stk_fetch *f, struct stk_sums *s, size_t first, size_t end,
                   const uint8_t *p, uint64_t from, uint64_t to);
/* Forgets them: other bytes come. */
void stk_fetch_sum_again(struct stk_fetch *f, struct stk_sums *s, size_t first, size_t end);
void stk_fetch_fail(struct stk_fetch *f, struct stk_want *w, int code, const struct stk_err *why);

static inline size_t stk_fetch_count(const struct stk_fetch *f)
{
    return f->ids.len / sizeof(uint64_t);
}
static inline size_t stk_fetch_nwants(const struct stk_fetch *f)
{
    return f->order.len / sizeof(uint32_t);
}
static inline struct stk_want *stk_fetch_want(const struct stk_fetch *f, size_t i)
{
    struct stk_want *w = (void *)f->wants.data;
    return w ? w + i : NULL; /* samples may have no slices at all */
}
static inline struct stk_want *stk_fetch_at(const struct stk_fetch *f, size_t place)
{
    return stk_fetch_want(f, ((const uint32_t *)(const void *)f->order.data)[place]);
}
static inline const struct stk_slice *stk_fetch_slice(const struct stk_fetch *f, size_t i)
{
    const struct stk_slice *s = (const void *)f->slices.data;
    return s ? s + i : NULL;
}
/* True if slice i is part of a filtered extent that other samples share, and that is to be read. */
static inline bool stk_fetch_shares(const struct stk_fetch *f, size_t i)
{
    const struct stk_want *w = stk_fetch_want(f, i);
    uint64_t length = stk_fetch_slice(f, i)->length;
    return w->chain && w->len && length && length != UINT64_MAX;
}
/* The number in the index of sample k. */
static inline uint64_t stk_fetch_id(const struct stk_fetch *f, size_t k)
{
    return ((const uint64_t *)(const void *)f->ids.data)[k];
}
/* Slices [first, end) are sample k's. */
static inline uint32_t stk_fetch_first(const struct stk_fetch *f, size_t k)
{
    return ((const uint32_t *)(const void *)f->first.data)[k];
}

/* The stored bytes of want i after the frame's head; compares the record's checksum unless `trust`.
 * Not for wants without bytes. */
int stk_fetch_stored(const struct stk_fetch *f, size_t i, bool trust, const uint8_t **p,
                     uint64_t *len, struct stk_err *err);
/* Undoes the filters of extent x into out. p: its stored bytes. */
int stk_fetch_decode(const struct stk_dataset *ds, uint64_t x, const struct stk_extent *e,
                     const uint8_t *p, struct stk_buf *out, struct stk_buf *scratch,
                     struct stk_err *err);
/* The part of a decoded extent that belongs to a slice. */
int stk_fetch_cut(const struct stk_dataset *ds, const struct stk_slice *s,
                  const struct stk_extent *e, const struct stk_buf *decoded, const uint8_t **p,
                  uint64_t *len, struct stk_err *err);

/* ---- samples from slices --------------------------------------------------------------------- */

/* From slices to a sample: assembles the parts of a field, and lets the codec decode records. */

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
