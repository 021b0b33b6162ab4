/*
 * lister.h - the inside of a listing: events, the sink that takes them, and the source window.
 *
 * format.h's stk_list_* calls become events; a sink takes them: the index builder, or (in a child
 * process) a pipe whose other end feeds the builder. Numbers of fields, chains and extents are local
 * to the file, counted from 0 in the order of their events; the sink maps them to the dataset's.
 */
#ifndef STK_FORMAT_LISTER_H
#define STK_FORMAT_LISTER_H

#include "format/format.h"

enum stk_event_type {
    STK_EV_FIELD = 1, /* blob: struct stk_field_wire + name */
    STK_EV_CHAIN,     /* blob: struct stk_chain */
    STK_EV_CONTEXT,   /* blob: text */
    STK_EV_EXTENT,    /* a: offset, b: length, chain */
    STK_EV_CRC,       /* a: crc32 of the last extent's decoded bytes */
    STK_EV_RECORD,    /* a sample that is the extent (a: offset, b: length, chain); blob: key */
    STK_EV_SAMPLE,    /* blob: key; its parts follow */
    STK_EV_PART,      /* a: offset in the decoded extent, b: length, c: extent, field. In a
                         compressed file the extent's own event may come later. */
    STK_EV_COLUMN,    /* blob: struct stk_stripe, a: count */
    STK_EV_KEY,       /* blob: key of the next sample of the columns before it */
    STK_EV_POINT, /* of the last extent: a: decoded length, b: bits, c: lead, blob: window (zlib) */
    STK_EV_PROBLEM,  /* a: offset (as int64), blob: text. The sink decides whether to go on. */
    STK_EV_END,      /* the sample is complete: later damage does not belong to it */
    STK_EV_LEFT_OUT, /* blob: kind, name and why, each ending in a NUL */
    STK_EV_TAKEN,    /* blob: what, as and because, the same way */
    STK_EV_AT,       /* a: position of the listing in the file, for progress only */
};

#define STK_NO_CHAIN     0xffffu
#define STK_EVENT_BLOB_MAX (16u << 20) /* no key, name, window or context is longer */

struct stk_event {
    uint8_t type;     /* enum stk_event_type */
    bool has_key;     /* RECORD, SAMPLE: blob is a key (may be empty), else there is none */
    uint16_t chain;   /* local chain number or STK_NO_CHAIN */
    uint32_t field;   /* local field number */
    uint64_t a, b, c;
    const void *blob; /* Borrowed: valid during the call. */
    uint32_t blob_len;
};

struct stk_field_wire {
    uint8_t kind, dtype, ndim, pad;
    char codec[16]; /* "" none */
    uint64_t dim[STK_MAX_NDIM];
    /* the name follows */
};

#define STK_NOTE_MAX 400 /* bytes of each text of LEFT_OUT and TAKEN, including the NUL */

/* The three texts of such an event; false: malformed. */
bool stk_event_texts(const void *blob, size_t len, const char *text[3]);

struct stk_sink {
    /* 0, or a negative code that ends the listing. */
    int (*event)(struct stk_sink *sink, const struct stk_event *e, struct stk_err *err);
};

struct stk_lister {
    struct stk_sink *sink;
    const struct stk_list_options *opts;
    struct stk_src *src;
    uint32_t nfields, nchains;
    uint64_t nextents;
    struct stk_chain *chain;        /* local chains, to give equal ones the same number */
    struct lister_field *fields;    /* open-addressed by name; see lister.c */
    uint32_t fields_cap;
    int resume_chain;               /* local number of the RESUME chain, -1 not yet made */
};

/* One file's listing. src may be NULL (a child process forwards events it did not make). */
void stk_lister_init(struct stk_lister *l, struct stk_sink *sink, struct stk_src *src,
                     const struct stk_list_options *opts);
void stk_lister_release(struct stk_lister *l);
/* After list(): reports the extents of a compressed file that are still open. */
int stk_lister_finish(struct stk_lister *l, struct stk_err *err);

/* ---- the source (src.c) ---- */

/* fd: a regular file, closed with the source, or now on error. name is copied; path is for
 * messages. stream_ok: see through gzip/zlib. Caller frees with stk_src_close(). */
int stk_src_open(int fd, const char *name, const char *path, bool stream_ok, struct stk_src **out,
                 struct stk_err *err);
void stk_src_close(struct stk_src *s);
int64_t stk_src_mtime_ns(const struct stk_src *s);
uint64_t stk_src_file_size(const struct stk_src *s); /* stored bytes, also of a compressed file */

/*
 * Supplies a plain file's bytes in place of the source's own window, to a caller that must see all
 * of them while the file is listed (verify): blocks of STK_SRC_BLOCK bytes, fewer at the end.
 */
#define STK_SRC_BLOCK (256u << 10) /* two of them stay in a core's own cache */
struct stk_blocks {
    /* The bytes of a block. Borrowed until done() of it. */
    int (*get)(struct stk_blocks *f, uint64_t block, const uint8_t **p, struct stk_err *err);
    /* The listing has passed the block (called for each in order, up to the last one fetched). */
    int (*done)(struct stk_blocks *f, uint64_t block, struct stk_err *err);
};
/* From now on peeks go to the feed; NULL: to the file again. */
void stk_src_set_blocks(struct stk_src *s, struct stk_blocks *f);
int stk_src_fd(const struct stk_src *s);

/* An access point into a compressed file: from here `decoded_len` bytes can be inflated. */
struct stk_access_point {
    uint64_t in_off, in_len;      /* stored bytes */
    uint64_t out_off, decoded_len;
    unsigned bits;                /* bits of the byte before in_off that belong to it
                                   * (inflatePrime) */
    uint32_t lead;                /* decoded bytes to drop first */
    uint8_t *window;              /* the 32 KiB before it, zlib-compressed; NULL: none needed */
    size_t window_len;
};
#define STK_POINT_LEAD ((1u << 29) - 1) /* the longest */
/* Stores the n bytes before a point as its window (none for n 0). Caller frees p->window. */
int stk_access_point_window(struct stk_access_point *p, const uint8_t *before, size_t n,
                            struct stk_err *err);
/* Decodes forward to `off` (as peeking would). */
int stk_src_advance(struct stk_src *s, uint64_t off, struct stk_err *err);
/* Decodes `step` more bytes, or to the end, where a compressed file has its checksum. 1: there is
 * more; 0: that was all, and it was sound. */
int stk_src_drain(struct stk_src *s, uint64_t step, struct stk_err *err);
/* True if peek or advance has already reported damage in the compression. */
bool stk_src_told_damage(const struct stk_src *s);
/* The number of the point whose extent holds decoded byte off, and where that extent begins.
 * off must have been decoded already. */
uint64_t stk_src_point_of(const struct stk_src *s, uint64_t off, uint64_t *begins, uint64_t *ends);
/* Takes the next finished point in order (last: also the open one). False: none. Caller frees
 * p->window with free(). */
bool stk_src_take_point(struct stk_src *s, bool last, struct stk_access_point *p);
/* Inflates exactly p->decoded_len bytes from a point's stored bytes (p->in_len of them). */
int stk_point_decode(const struct stk_access_point *p, const uint8_t *in, uint8_t *out,
                     const char *path, struct stk_err *err);
int stk_point_damaged(const struct stk_access_point *p, const char *path, struct stk_err *err);
/* An extent that begins at a point, like stk_list_extent(); tail: further filters, or NULL. */
int64_t stk_list_point(struct stk_lister *l, const struct stk_access_point *p,
                       const struct stk_chain *tail, struct stk_err *err);
/* Reports the position of a listing that examines much and lists nothing. */
int stk_list_at(struct stk_lister *l, uint64_t off, struct stk_err *err);

#endif
