/*
 * format.h - the contract between formats and the rest of stoker.
 *
 * A format is one const struct in one table (format.c). It recognises its files (bid), *lists* a
 * file (which byte ranges hold which samples), and *writes*. It never reads samples: the reader
 * (dataset/reader.c) does that for all formats, from the listing.
 *
 * Listing reports, for each file, in order:
 *   extents  a stored range of bytes and the filter chain that turns it into data;
 *   samples  as one of: a record (one extent is one sample), a group of parts (slices of decoded
 *            extents, each belonging to a named field), or columns (uniform slices: sample k of
 *            the file is at a computable place, nothing is stored per sample).
 */
#ifndef STK_FORMAT_H
#define STK_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* ---- the file being listed --------------------------------------------------------------- */

/*
 * A read-only file, seen through a window. A gzip- or zlib-compressed file is seen decompressed:
 * offsets are then offsets in the decompressed bytes and may only be asked for in ascending order
 * (anything still in the window may be asked for again). Listing code need not care.
 */
struct stk_src;

#define STK_PEEK_MAX (4u << 20) /* largest n stk_src_peek() takes */

/* Makes bytes [off, off+n) visible. *got < n only where the file ends first (0 at or past the
 * end). *p is borrowed: valid until the next peek. I/O errors and damaged compression fail. */
int stk_src_peek(struct stk_src *s, uint64_t off, size_t n, const uint8_t **p, size_t *got,
                 struct stk_err *err);
/* Bytes in the file; UINT64_MAX for a compressed file (known only at its end). */
uint64_t stk_src_size(const struct stk_src *s);
/* True for a compressed file: the bytes passed over are decoded anyway. */
bool stk_src_is_stream(const struct stk_src *s);
/* Where the file is, for messages. Borrowed. */
const char *stk_src_path(const struct stk_src *s);
/* For libraries that open files themselves: a path to exactly the open file, even if it was
 * replaced since. Borrowed. */
const char *stk_src_library_path(struct stk_src *s);
/* Its name relative to the dataset ("train/a.tar"). Borrowed. */
const char *stk_src_name(const struct stk_src *s);

/* ---- filters ----------------------------------------------------------------------------- */

enum stk_filter_id {
    STK_FILTER_ZLIB = 1, /* RFC 1950 */
    STK_FILTER_GZIP,     /* RFC 1952, all members */
    STK_FILTER_DEFLATE,  /* RFC 1951, raw */
    STK_FILTER_ZSTD,
    STK_FILTER_LZ4F,     /* LZ4 frame */
    STK_FILTER_LZ4B,     /* LZ4 block without frame (squashfs) */
    STK_FILTER_XZ,
    STK_FILTER_SHUFFLE,  /* HDF5 byte shuffle; arg: element size */
    STK_FILTER_FLETCHER, /* HDF5 Fletcher-32 in the last 4 bytes; checked and removed */
    STK_FILTER_BSWAP,    /* arg: element size; big-endian to little-endian */
    STK_FILTER_RESUME,   /* raw deflate from an access point (window in the index) */
    STK_FILTER_JOIN,     /* multi-part RecordIO: drops 8-byte part headers, puts the magic back */
    STK_FILTER_ZEROS,    /* a hole (squashfs): 2^arg zero bytes, whatever is stored */
    STK_FILTER_LZF,      /* LibLZF without header, as h5py stores it */
};

#define STK_CHAIN_MAX 5

/* Steps in decoding order: step[0] is applied to the stored bytes first. */
struct stk_chain {
    uint32_t nsteps;
    struct {
        uint16_t id;  /* enum stk_filter_id */
        uint16_t arg;
    } step[STK_CHAIN_MAX];
    uint64_t max_decoded; /* refuse to produce more than this; 0: the reader's own limit */
};

/* Decodes into out (reset first). path and offset are for messages. */
int stk_filter_decode(const struct stk_chain *c, const uint8_t *in, size_t len,
                      struct stk_buf *out, struct stk_buf *scratch, const char *path,
                      uint64_t offset, struct stk_err *err);
/* NULL when built in, else the package to install ("libzstd-dev"). */
const char *stk_filter_missing(enum stk_filter_id id);
/* One-shot compression for writers: ZLIB, DEFLATE, ZSTD, LZ4F; level 0: the default. Appends. */
int stk_filter_encode(enum stk_filter_id id, int level, const uint8_t *in, size_t len,
                      struct stk_buf *out, struct stk_err *err);

/* ---- what a listing reports -------------------------------------------------------------- */

struct stk_lister; /* one file's listing; made by the data layer */

/* A stored range. Returns its number in this file (from 0) or a negative code. chain: NULL, or
 * what decodes it. Not for compressed files (they have extents of their own): use
 * stk_list_record/stk_list_part_bytes there, which work for both. */
int64_t stk_list_extent(struct stk_lister *l, uint64_t offset, uint64_t length,
                        const struct stk_chain *chain, struct stk_err *err);

/* The file's stored checksum of the extent just listed (of its *decoded* bytes, CRC-32 as in
 * zip); `verify` checks it, the index does not keep it. */
int stk_list_crc32(struct stk_lister *l, uint32_t crc, struct stk_err *err);

/* One sample that is one stored range, with the single field `field` (stk_list_field). key may be
 * NULL. off and len count the bytes stk_src_peek() shows, also for compressed files. */
int stk_list_record(struct stk_lister *l, int field, uint64_t off, uint64_t len, const char *key,
                    size_t key_len, struct stk_err *err);
/* The same, with a filter chain on the stored range (not in compressed files). */
int stk_list_record_filtered(struct stk_lister *l, int field, uint64_t off, uint64_t len,
                             const struct stk_chain *chain, const char *key, size_t key_len,
                             struct stk_err *err);

/* A sample of several parts: begin, then its parts. Consecutive parts of the same field are one
 * value, concatenated. A field may have a zero-length part (an empty file). */
int stk_list_sample(struct stk_lister *l, const char *key, size_t key_len, struct stk_err *err);
int stk_list_part(struct stk_lister *l, int field, int64_t extent, uint64_t offset,
                  uint64_t length, struct stk_err *err);
/* A part that is a plain byte range of the file as peek shows it (also in compressed files). */
int stk_list_part_bytes(struct stk_lister *l, int field, uint64_t off, uint64_t len,
                        struct stk_err *err);

/* Columns: the file has `count` samples, and field's value in sample k is `length` bytes at base +
 * (k % per_extent) * stride of decoded extent first_extent + k / per_extent. Call once per field;
 * count must be the same for all fields of a file. */
struct stk_stripe {
    int field;
    int64_t first_extent;
    uint64_t per_extent, base, stride, length;
    /* For a value cut into several extents (HDF5 chunks that split more axes than the first): the
     * number of consecutive extents that replace one. The value is `length` bytes of each,
     * concatenated, for a codec to arrange ("tile:..."). 0 and 1: the value is in one piece. */
    uint64_t tiles;
};
int stk_list_column(struct stk_lister *l, const struct stk_stripe *c, uint64_t count,
                    struct stk_err *err);
/* After the columns: the key of the next sample. All of them get one, or none. */
int stk_list_key(struct stk_lister *l, const char *key, size_t key_len, struct stk_err *err);

/* Describes a field's bytes. codec: NULL (the bytes are the value) or the name of a codec that
 * turns them into fields. The same name returns the same number. Negative: error. */
struct stk_field_spec {
    const char *name;
    size_t name_len; /* 0: strlen(name) */
    uint8_t kind;    /* enum stk_kind; BYTES for codec fields */
    uint8_t dtype, ndim;
    uint64_t dim[STK_MAX_NDIM];
    const char *codec;
};
int stk_list_field(struct stk_lister *l, const struct stk_field_spec *spec, struct stk_err *err);

/* Settings a codec needs that come from the data (the column names and types of a CSV). All files
 * of a dataset must give the same text, or texts that the format's merge_context can join; the
 * builder reports a difference as an error. */
int stk_list_context(struct stk_lister *l, const char *text, size_t len, struct stk_err *err);

/* Reports damage at `offset` (-1: the whole file). Returns 0: continue (skip the damage; return 0
 * from list() if nothing more can be read), or a negative code to return unchanged because the
 * caller wants to stop at the first problem. */
int stk_list_problem(struct stk_lister *l, int64_t offset, struct stk_err *err, const char *fmt,
                     ...) STK_PRINTF(4, 5);

/* Reports something sound that is left out: "link", "group", "dataset", "column", "file", "member",
 * "split"; `why` as text, the same text for the same reason. The listing continues. Users see it in
 * inspect, pack, verify (which does not call the dataset whole) and Dataset.left_out. A file that
 * cannot be read at all is an error, STK_E_UNSUPPORTED. */
int stk_list_left_out(struct stk_lister *l, const char *kind, const char *name, const char *why,
                      struct stk_err *err);
/* Reports a guess: `what` ("payload", "header", "sample", "label", "format", "split") was taken as
 * `as`; `because` gives the reason and how to override it. */
int stk_list_taken(struct stk_lister *l, const char *what, const char *as, const char *because,
                   struct stk_err *err);

/* Options from the user or the manifest. Borrowed, never NULL. */
struct stk_list_options {
    const char *payload; /* "auto" or a codec's name */
    int compress;        /* enum stk_filter_id of per-sample compression, 0 none */
    bool grouped;        /* trees: files of one stem are one sample */
    const char *datasets; /* STK_CAN_PICK: globs of the arrays to read; NULL: all */
    int header;          /* tables of text: enum stk_list_header */
    int delimiter;       /* tables of text: the character between cells; 0: detect */
    const char *types;   /* tables of text: types of columns, as in csv.h's context; NULL: none */
};
/* Whether the first row of a table holds the names of its columns. */
enum stk_list_header { STK_HEADER_AUTO, STK_HEADER_YES, STK_HEADER_NO };
const struct stk_list_options *stk_list_opts(const struct stk_lister *l);
/* STK_CAN_PICK: true if the user wants the array or group of that name, or did not choose. */
bool stk_list_wants(const struct stk_lister *l, const char *name);

/* ---- codecs: a record's bytes <-> fields -------------------------------------------------- */

struct stk_sample; /* sample.h */

/* What a format, or the payload of its records, can hold when written (types.h). */
enum stk_holds {
    STK_HOLDS_NULL = 1 << 0,   /* null beside values of any type */
    STK_HOLDS_ANY = 1 << 1,    /* values of any type in any sample */
    STK_HOLDS_SHAPES = 1 << 2, /* arrays whose shape differs between samples */
    STK_HOLDS_GAPS = 1 << 3,   /* samples without some of the fields */
    STK_HOLDS_BYTES = 1 << 4,  /* only bytes: types do not matter */
    STK_HOLDS_KEY = 1 << 5,    /* any key */
    STK_HOLDS_ID = 1 << 6,     /* a key that is a number */
};

struct stk_codec {
    const char *name;  /* "example" */
    const char *title; /* "tf.train.Example" */
    bool payload; /* may encode a whole record (--payload); other codecs belong to one format */
    /* The codec that this one extends: records in this codec keep it in formats that default to the
     * other. NULL: none. */
    const char *widens;
    unsigned holds; /* enum stk_holds */
    /* True if with this context all records have the same fields of the same types. NULL: they may
     * differ. */
    bool (*uniform)(const char *context, size_t context_len);
    /* 0..100: how likely the bytes are in this codec. May be NULL (never guessed). */
    int (*bid)(const uint8_t *p, size_t n);
    /* Adds fields to s. The bytes stay valid as long as s, so values may point into them; new data
     * goes into the sample's arena. context: the text of stk_list_context(), or "". Errors need no
     * path or offset: the reader adds them. */
    int (*explode)(const char *context, size_t context_len, const uint8_t *p, size_t n,
                   struct stk_sample *s, struct stk_err *err);
    /* Appends the sample in this encoding. May be NULL (read only). Deterministic. */
    int (*implode)(const struct stk_sample *s, struct stk_buf *out, struct stk_err *err);
    /* Instead of explode, for arrays stored in another order or as other numbers: returns the bytes of the
     * field in C order, in the sample's arena. spec: of the field; its codec includes the arguments
     * after the colon ("tile:28x28x1"). */
    int (*arrange)(const struct stk_field_spec *spec, const char *context, size_t context_len,
                   const uint8_t *p, size_t n, struct stk_sample *s, const uint8_t **out,
                   size_t *out_len, struct stk_err *err);
};

/* By name, ignoring arguments after a colon. */
const struct stk_codec *stk_codec_find(const char *name);
const struct stk_codec *stk_codec_at(size_t i); /* NULL past the end */
/* The best bidder on a first record, or NULL for raw bytes. */
const struct stk_codec *stk_codec_guess(const uint8_t *p, size_t n);

/* ---- writing ----------------------------------------------------------------------------- */

/*
 * One shard being written. The writer (pack/out.c) embeds this in its own struct and supplies the
 * operations; formats see only this.
 */
struct stk_out {
    const struct stk_out_ops *ops;
    int dirfd;        /* the folder it is in. Borrowed */
    const char *name; /* being written there (a *.partial) */
    const char *path; /* its name in messages */
    void *state;      /* the format's state for this shard, NULL at begin */
};

struct stk_out_ops {
    int (*write)(struct stk_out *o, const void *p, size_t n, struct stk_err *err);
    uint64_t (*tell)(const struct stk_out *o);
    int (*patch)(struct stk_out *o, uint64_t off, const void *p, size_t n, struct stk_err *err);
    int (*sidecar)(struct stk_out *o, const void *p, size_t n, struct stk_err *err);
};

/* Appends. */
static inline int stk_out_write(struct stk_out *o, const void *p, size_t n, struct stk_err *err)
{
    return o->ops->write(o, p, n, err);
}

/* Bytes written so far. */
static inline uint64_t stk_out_tell(const struct stk_out *o)
{
    return o->ops->tell(o);
}

/* Overwrites bytes already written (an NPY header whose count is known last). */
static inline int stk_out_patch(struct stk_out *o, uint64_t off, const void *p, size_t n,
                                struct stk_err *err)
{
    return o->ops->patch(o, off, p, n, err);
}

/* Appends to the file next to the shard that is published with it: the shard's name with the
 * format's `sidecar` in place of its suffix (NAME.rec -> NAME.idx). */
static inline int stk_out_sidecar(struct stk_out *o, const void *p, size_t n, struct stk_err *err)
{
    return o->ops->sidecar(o, p, n, err);
}

/* For formats that write the file themselves (STK_CAN_OWN_FILE): o->name in the folder o->dirfd,
 * which a library that takes paths calls stk_fd_path(o->dirfd, o->name, buf). The path is for
 * messages only: in a folder that others may write it can lead elsewhere. */
static inline const char *stk_out_path(const struct stk_out *o)
{
    return o->path;
}

static inline void **stk_out_state(struct stk_out *o)
{
    return &o->state;
}

struct stk_write_config {
    const struct stk_format *format;
    const struct stk_codec *codec;  /* record formats: how a sample becomes a record; NULL raw */
    const struct stk_sample *first; /* the first sample: the schema of formats that need one */
    const struct stk_types *types;  /* of all samples (types.h); NULL: all are like the first */
    int compress;                   /* enum stk_filter_id or 0 */
    int level;                      /* 0: default */
    uint64_t total_samples;
    bool grouped;        /* set by prepare: a sample is several files of a tree */
    const char *columns; /* set by prepare: the output is a table of text with a header and columns
                          * of these types (stk_list_options); else NULL */
    bool label_in_key;   /* labels are the directories of keys: a tree of files need not repeat
                          * them */
    void *priv; /* made by prepare, freed by unprepare; read-only while packing */
};

enum stk_caps {
    STK_CAN_READ = 1 << 0,
    STK_CAN_WRITE = 1 << 1,
    STK_CAN_SHARD = 1 << 2,    /* several files make one dataset */
    STK_CAN_COMPRESS = 1 << 3, /* per-sample zstd/lz4 */
    STK_CAN_DEFLATE = 1 << 4,  /* its own deflate option (npz, hdf5, squashfs) */
    STK_CAN_OWN_FILE =
        1 << 5,             /* writes the shard file or folder itself, not through stk_out_write */
    STK_CAN_CODEC = 1 << 6, /* records: takes --payload */
    STK_CAN_TREE = 1 << 7,  /* the dataset is a directory tree, one file per sample (folder) */
    STK_CAN_CRASH = 1 << 8, /* list() uses a library that crashes on damaged files: run it in a
                             * child */
    STK_CAN_GZIP = 1 << 9,  /* gzip/zlib-compressed files are listed through the window */
    STK_CAN_BE_SAMPLE = 1 << 10, /* a folder of such files is a folder of samples, not of shards,
                                    unless the user names the format (npy, npz, json) */
    STK_CAN_BE_ONE = 1 << 12,    /* one file whatever the size, unless the user splits it (lmdb) */
    STK_CAN_SUM = 1 << 14,       /* check() compares a checksum of the data, not only the frame */
    STK_CAN_STREAM = 1 << 13,    /* list() reports a record before it looks past it */
    STK_CAN_PICK = 1 << 15,      /* files hold arrays that the user may select by name */
    STK_CAN_EMPTY = 1 << 16,     /* an empty file has no samples: writers leave such files */
    STK_CAN_BE_FOLDER = 1 << 17, /* a store of it may be a folder named like a file (lmdb) */
    STK_CAN_BE_ARRAYS = 1 << 18, /* its files hold arrays (npy, npz, hdf5) */
    STK_CAN_PATHS = 1 << 11, /* keys are paths of files: directories are classes, as in a folder */
};

/* What bid() sees of a file. */
struct stk_probe {
    const char *name; /* relative name */
    const uint8_t *head;
    size_t head_len; /* usually up to 4096, decompressed if the file is gzip */
    uint64_t size;
    bool gzip;
    bool whole; /* the head is the whole file */
};

/* How programs read files of a format; several may apply. */
enum stk_use_how {
    STK_USE_STREAM = 1 << 0,     /* records, one after another */
    STK_USE_TABLE = 1 << 1,      /* text that is parsed */
    STK_USE_SAMPLE = 1 << 2,     /* a file is a sample, and read as a whole */
    STK_USE_LINES = 1 << 3,      /* text that is naturally read in small pieces */
    STK_USE_BARE = 1 << 4,       /* shards may lack a suffix: NAME-00000-of-00010 */
    STK_USE_MODEL = 1 << 5,      /* not a dataset: what a program saves, logs or consists of */
    STK_USE_CHECKPOINT = 1 << 6, /* of those: the state of a training run */
    STK_USE_SYSTEM = 1 << 7,     /* of those: libraries and interpreters */
    STK_USE_LIBRARY = 1 << 8,    /* opened by a library, not by the program itself */
    STK_USE_STORE = 1 << 9,      /* a chunk of an array: the directory is the dataset */
    STK_USE_PICTURE = 1 << 10,
    STK_USE_ARRAY = 1 << 11, /* one array, which numpy can map */
    STK_USE_LOG = 1 << 12,   /* of what a program saves: what people read while it runs */
};

/*
 * What I/O advice needs to know about a format: how programs read it with existing libraries, and
 * the code that follows the advice (format/code; advice/code.h says how it is filled in). NULL: the
 * general advice applies, or it cannot be done.
 */
struct stk_format_use {
    unsigned how;            /* enum stk_use_how */
    const char *package;     /* the Python package of the code below; NULL: none is needed */
    const char *library;     /* that reads it piecewise; set if `load` is */
    const char *open;        /* an expression that opens it, to be kept open */
    const char *parse;       /* reads the whole file into objects of the program */
    const char *load;        /* opens it so that the library reads the whole file at once */
    const char *keep;        /* opens a copy that the program holds in memory */
    const char *larger;      /* lets the library make larger requests */
    const char *rewrite;     /* SOURCE to TARGET, in pieces that suit the reader... */
    const char *rewriter;    /* ...as a shell command */
    const char *batch_read;  /* many samples in one request */
    const char *batch_write; /* the same for writing */
    const char *readers;     /* COUNT files at a time */
    const char *ahead;       /* large buffers, filled ahead of use */
    const char *divide;      /* a part for each rank */
    const char *decode;      /* how stoker's loader should decode training samples... */
    const char *decode_val;  /* ...and evaluation samples: nothing random */
};

struct stk_format {
    const char *name;            /* "tfrecord" */
    const char *title;           /* "TFRecord" */
    const char *suffix;          /* of shards written, ".tfrecord" */
    const char *const *suffixes; /* recognised, NULL-terminated, lower case */
    const char *payload;         /* STK_CAN_CODEC: the default payload of records */
    unsigned caps;
    unsigned holds;      /* enum stk_holds; STK_CAN_CODEC: in addition to its codec's */
    const char *instead; /* not NULL: it is only recognised; what to do instead of reading it */
    /* Files that make the folder they are in a store of this format: NULL, or as `side`. */
    const char *const *marks;
    bool missing;        /* this build lacks the package below and only knows the name */
    const char *package; /* what to install to build it in; NULL: always built in */
    const char *sidecar; /* suffix of the file written next to each shard (".idx"), or NULL */
    /* The format that its data is packed into to be read fast: as records, the cells of a table would
     * take six times as many bytes. NULL: tfrecord. */
    const char *packs_as;
    /* Files next to its files that hold no samples, NULL or NULL-terminated: "*.idx" is a suffix,
     * "lock.mdb" a whole name. */
    const char *const *side;

    /* 0 (no) .. 100 (certain: magic and structure); 30: by name alone. */
    int (*bid)(const struct stk_probe *p);
    /* Loads the library that list() and prepare() need, so that not every child that lists must
     * load it. May be NULL; may be called more than once. */
    int (*load)(struct stk_err *err);
    /* Lists one file. */
    int (*list)(struct stk_lister *l, struct stk_src *src, struct stk_err *err);
    /* Merges the contexts of two files (a: of all files so far) into out, which is empty; an error
     * says how b differs. NULL: contexts must be equal. Called only if they differ. */
    int (*merge_context)(const char *a, size_t a_len, const char *b, size_t b_len,
                         struct stk_buf *out, struct stk_err *err);

    /* Framing around each record extent, read and checked along with it (0, 0: none).
     * frame = head bytes, payload, tail bytes; path/offset are of the frame's first byte. sum: the
     * payload's CRC-32C where somebody has computed it already, else NULL. */
    size_t head, tail;
    int (*check)(const uint8_t *frame, uint64_t payload_len, const uint32_t *sum, const char *path,
                 uint64_t offset, struct stk_err *err);
    /* The CRC-32C of a payload, as the tail of its frame has it; NULL: it has none. */
    uint32_t (*sum)(const uint8_t *tail);

    /* Refuses data that cannot be written, with the reason ("image bytes cannot go into CSV"), and
     * sets cfg->priv. May be NULL. unprepare may be NULL if priv is. */
    int (*prepare)(struct stk_write_config *cfg, struct stk_err *err);
    void (*unprepare)(struct stk_write_config *cfg);
    /* Appends the bytes of one sample to out: pure, called from several threads at once. */
    int (*encode)(const struct stk_write_config *cfg, const struct stk_sample *s,
                  struct stk_buf *out, struct stk_err *err);
    /* One shard: begin, append encoded samples in order, finish. begin and finish may be NULL;
     * append NULL means stk_out_write of the bytes. abort frees state after an error. */
    int (*begin)(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err);
    int (*append)(const struct stk_write_config *cfg, struct stk_out *o, const uint8_t *bytes,
                  size_t len, uint64_t nsamples, struct stk_err *err);
    int (*finish)(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err);
    void (*abort)(const struct stk_write_config *cfg, struct stk_out *o);

    const struct stk_format_use *use; /* NULL: unknown */
};

#define STK_DEFAULT_FORMAT "tfrecord" /* written by default */

const struct stk_format *stk_format_find(const char *name);
/* "TFRecord"; the name itself if there is no such format. */
const char *stk_format_title(const char *name);
/* NULL past the end. Those with `instead` come last. */
const struct stk_format *stk_format_at(size_t i);
/* The format of trees of files (STK_CAN_TREE): a folder that is nothing else. */
const struct stk_format *stk_format_tree(void);
/* True when name ends in one of f's suffixes (".gz" or ".deflate" after it allowed with STK_CAN_GZIP, and behind
 * all the number of a shard: "-00000-of-00010"). */
bool stk_format_suffix_matches(const struct stk_format *f, const char *name);
/* True if the base name of name is in a list such as `side`. */
bool stk_side_matches(const char *const *side, const char *name);

/* ---- files compressed as a whole ------------------------------------------------------------- */

/* Files compressed as a whole in a way that stoker cannot read through: such a stream cannot be
 * entered in the middle. They are refused by name, with what to do. */

#define STK_COMPRESSION_HEAD 16u /* bytes stk_compression_of() looks at */

struct stk_compression {
    const char *name, *suffix; /* "zstd", ".zst" */
    const char *undo;          /* "zstd -d" */
};

/* The compression of a file with these first bytes; NULL: none, or one that stoker reads. */
const struct stk_compression *stk_compression_of(const uint8_t *head, size_t n);
/* By a file's name: "a.tar.zst". *len loses the suffix. */
const struct stk_compression *stk_compression_named(const char *name, size_t *len);
/* STK_E_UNSUPPORTED, and what to do. */
int stk_compression_refuse(const struct stk_compression *c, const char *path, struct stk_err *err);

/* ---- formats that are not read --------------------------------------------------------------- */

/* Formats that stoker recognises and does not read (foreign.c). They stand in the table of formats
 * behind the others, so that their files are named instead of being taken for something else. */

const struct stk_format *stk_foreign_at(size_t i); /* NULL past the end */
/* The format of a store (a folder with files for its chunks) that has a file of this name; NULL: it
 * marks none. */
const struct stk_format *stk_foreign_marked(const char *name);
/* STK_E_UNSUPPORTED: what it is, and what to do instead. */
int stk_foreign_refuse(const struct stk_format *f, const char *path, bool folder,
                       struct stk_err *err);

#endif
