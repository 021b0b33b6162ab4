/*
 * index.h - the index of a dataset: tables in one file, used without parsing.
 *
 * Blocks of it are loaded at their first use, and stay in memory: if the file is truncated,
 * overwritten or unreadable later, readers do not notice, and are not killed. (A mapping would give
 * SIGBUS, or other bytes than those that were checked.) If a loader has too little memory, old pages
 * are dropped; a page that cannot be loaded again unchanged is an error (index_pages.c).
 *
 * Layout: a header, then tables, each at a multiple of 64 bytes. Nothing in it is trusted: the
 * header and the small tables are checked when it is opened, every other entry at its use: for
 * plausibility, and (once per 64 KiB) against a checksum. For a format without checksums nothing
 * else would detect a flipped bit in an offset.
 *
 *   extent   16 bytes: 48 bits offset, 44 bits length, 28 bits file, 8 bits filter chain
 *   segment  a range of samples that are stored alike (usually a file's)
 *     WHOLE    sample k is extent first_extent + k, whole; one field
 *     PARTS    row k of `rows` says where its parts begin in `parts` (16 bytes each)
 *     COLUMNS  sample k of each column is at a computable place; nothing is stored per sample
 */
#ifndef STK_DATASET_INDEX_H
#define STK_DATASET_INDEX_H

#include "base/err.h"
#include "format/format.h"

#include <stdatomic.h>

enum stk_table {
    STK_T_FILES,      /* struct stk_index_file */
    STK_T_NAMES,      /* bytes: names of files and folders */
    STK_T_DIRS,       /* struct stk_index_dir: folders walked, to detect new files */
    STK_T_EXTENTS,    /* struct stk_packed */
    STK_T_SEGMENTS,   /* struct stk_segment */
    STK_T_COLUMNS,    /* struct stk_index_column */
    STK_T_ROWS,       /* u64: first part of each row, and one more at the end */
    STK_T_PARTS,      /* struct stk_packed */
    STK_T_KEYOFF,     /* u64: nsamples + 1 offsets into KEYS, or none at all */
    STK_T_KEYS,       /* bytes */
    STK_T_FIELDS,     /* struct stk_index_field */
    STK_T_FIELDNAMES, /* bytes */
    STK_T_CHAINS,     /* struct stk_chain */
    STK_T_POINTS,     /* struct stk_index_point, by extent */
    STK_T_WINDOWS,    /* bytes */
    STK_T_CRCS,       /* struct stk_index_crc, by extent */
    STK_T_CONTEXT,    /* bytes */
    STK_T_SUMS,       /* u64: XXH64 of each block of the other tables; last in the file */
    STK_T_CHECKS,     /* u32: CRC-32C of each sample (see stk_assemble_sum()), or none at all */
    STK_T_NOTES,      /* bytes: stk_notes_write() */
    STK_T_COUNT
};

struct stk_packed {
    uint64_t a, b;
};

struct stk_index_file {
    uint64_t name_off;
    uint32_t name_len;
    uint32_t inode; /* stk_inode_fold(); 0: not kept */
    uint64_t size;
    int64_t mtime_ns;
};

struct stk_index_dir {
    uint64_t name_off;
    uint32_t name_len;
    uint32_t inode; /* as of a file */
    int64_t mtime_ns;
};

enum stk_segment_kind { STK_SEG_WHOLE = 1, STK_SEG_PARTS, STK_SEG_COLUMNS };

struct stk_segment {
    uint64_t first_sample, nsamples;
    uint64_t first_extent, nextents;
    uint64_t first; /* PARTS: first row; COLUMNS: first column */
    uint32_t ncolumns;
    uint16_t field; /* WHOLE */
    uint16_t kind;
};

struct stk_index_column {
    uint64_t first_extent; /* relative to the segment */
    uint64_t per_extent, base, stride, length;
    uint32_t field, tiles; /* tiles: extents per value; 0 means 1 */
};

struct stk_index_field {
    uint32_t name_off, name_len;
    uint8_t kind, dtype, ndim, pad;
    char codec[16];
    uint32_t pad2;
    uint64_t dim[STK_MAX_NDIM];
};

struct stk_index_point {
    uint64_t extent, decoded_len, window_off;
    uint32_t window_len, bits_lead; /* 3 bits, and the lead above them */
};

static inline uint32_t stk_point_bits(const struct stk_index_point *p)
{
    return p->bits_lead & 7;
}
static inline uint32_t stk_point_lead(const struct stk_index_point *p)
{
    return p->bits_lead >> 3;
}

struct stk_index_crc {
    uint64_t extent;
    uint32_t crc32, pad;
};

struct stk_index_header {
    char magic[8];
    uint32_t version, ntables;
    uint64_t file_size, header_hash;
    uint64_t nfiles, nextents, nsamples;
    uint64_t bytes_stored, bytes_samples;
    uint64_t files_ignored;
    uint64_t data_id; /* stk_manifest_id() of a packed dataset, else 0 */
    char format[16], payload[16];
    int32_t compress;
    uint32_t flags;
    struct {
        uint64_t off, count, hash;
        uint32_t elem, pad;
    } table[STK_T_COUNT];
    uint64_t listing; /* hash of the options given instead of detected; 0: none */
    /* Since version 6: the latest ctime of a file, which no program can set back, and the inode of
     * the folder that the names are relative to. 0: none */
    int64_t changed_ns;
    uint64_t root_inode;
    /* Since version 7: the inode of the index, by which it knows whether it was copied, and
     * stk_fit_pieces() of the files, by which data without ctimes is known. 0: none */
    uint64_t own_inode, pieces;
};
#define STK_INDEX_MAGIC          "STKINDX" /* with its zero byte */
#define STK_INDEX_GROUPED        2u /* files of one stem are one sample */
#define STK_INDEX_KEYS_ARE_FILES 1u /* a sample's key is its file's name (folder) */
#define STK_INDEX_ALIGN          64u
#define STK_INDEX_VERSION        7u
#define STK_INDEX_OLDEST         3u          /* that is read: access points have no leads */
#define STK_INDEX_BLOCK          (64u << 10) /* bytes under one checksum */
/* The offset of the tables, and so of the blocks. */
#define STK_INDEX_TABLES                                                                           \
    ((sizeof(struct stk_index_header) + STK_INDEX_ALIGN - 1) / STK_INDEX_ALIGN * STK_INDEX_ALIGN)

#define STK_MAX_OFFSET ((1ull << 48) - 1)
#define STK_MAX_EXTENT ((1ull << 44) - 1)
#define STK_MAX_FILES  ((1ull << 28) - 1)
#define STK_MAX_PART   ((1ull << 40) - 1)

struct stk_extent {
    uint64_t offset, length;
    uint32_t file;
    uint32_t chain; /* 0: none, else chain number + 1 */
};

struct stk_slice {
    uint64_t extent;
    uint64_t offset, length; /* of the decoded extent; length UINT64_MAX: all of it */
    uint32_t field;
};

static inline struct stk_packed stk_extent_pack(const struct stk_extent *e)
{
    return (struct stk_packed){.a = e->offset | e->length << 48,
                               .b = e->length >> 16 | (uint64_t)e->file << 28 |
                                    (uint64_t)e->chain << 56};
}

static inline struct stk_extent stk_extent_unpack(struct stk_packed p)
{
    return (struct stk_extent){.offset = p.a & STK_MAX_OFFSET,
                               .length = p.a >> 48 | (p.b & 0xfffffffull) << 16,
                               .file = (uint32_t)(p.b >> 28 & 0xfffffffu),
                               .chain = (uint32_t)(p.b >> 56)};
}

/* Parts: 32 bits extent (relative to the segment's), 16 bits field, 40 bits offset and length. */
static inline struct stk_packed stk_part_pack(uint64_t extent, uint32_t field, uint64_t off,
                                              uint64_t len)
{
    return (struct stk_packed){.a = extent | (uint64_t)field << 32 | off << 48,
                               .b = off >> 16 | len << 24};
}

static inline struct stk_slice stk_part_unpack(struct stk_packed p)
{
    return (struct stk_slice){.extent = p.a & 0xffffffffu,
                              .field = (uint32_t)(p.a >> 32 & 0xffff),
                              .offset = p.a >> 48 | (p.b & 0xffffffu) << 16,
                              .length = p.b >> 24};
}

struct stk_index_pages;

struct stk_index {
    const struct stk_index_header *h;
    const void *table[STK_T_COUNT];
    size_t size;
    int fd;
    int pid;                       /* of the process that opened it */
    char *path;                    /* for messages */
    struct stk_index_pages *pages; /* those in memory; their checksums were right */
};

uint64_t stk_index_header_hash(const struct stk_index_header *h);
/* Reads and checks the header. Caller releases with stk_index_close(). STK_E_CORRUPT: not an index,
 * of another version, or damaged. */
int stk_index_open(const char *path, struct stk_index *idx, struct stk_err *err);
/* The same for an open file that may have no name. */
int stk_index_open_fd(int fd, const char *path, struct stk_index *idx, struct stk_err *err);
void stk_index_close(struct stk_index *idx);
/* From now on pages of it may be dropped... */
int stk_index_limit(const struct stk_index *idx, struct stk_err *err);
/* ...until about `most` bytes are in memory: those of the tables that grow with the samples, the
 * oldest first. Names and keys stay. From any thread, also while others use the index. */
void stk_index_trim(const struct stk_index *idx, uint64_t most);
/* Checks the bytes of a table that is used as a whole. */
int stk_index_touch(const struct stk_index *idx, enum stk_table t, struct stk_err *err);
/* The same for n bytes from `off` on of a table of bytes. */
int stk_index_touch_bytes(const struct stk_index *idx, enum stk_table t, uint64_t off, uint64_t n,
                          struct stk_err *err);
/* Checks the checksums of all tables (reads the whole index). */
int stk_index_check(const struct stk_index *idx, struct stk_err *err);
/* Writes the checksums of all n samples, u32 each in the file `checks`, into an index built with
 * room for them. */
int stk_index_seal(int fd, const char *path, int checks, uint64_t n, struct stk_err *err);

static inline uint64_t stk_index_count(const struct stk_index *idx, enum stk_table t)
{
    return idx->h->table[t].count;
}

int stk_index_extent(const struct stk_index *idx, uint64_t i, struct stk_extent *e,
                     struct stk_err *err);
/* Name is borrowed and not terminated. */
int stk_index_file(const struct stk_index *idx, uint64_t i, const struct stk_index_file **f,
                   const char **name, struct stk_err *err);
/* NULL when out of range. */
const struct stk_index_field *stk_index_field(const struct stk_index *idx, uint64_t i,
                                              const char **name);
const struct stk_index_point *stk_index_point(const struct stk_index *idx, uint64_t extent,
                                              const uint8_t **window);
const struct stk_index_crc *stk_index_crc(const struct stk_index *idx, uint64_t extent);
/* The segment sample s is in; NULL when out of range. */
const struct stk_segment *stk_index_segment(const struct stk_index *idx, uint64_t s);
/* A sample's key, borrowed; length 0 when the index keeps none. */
int stk_index_key(const struct stk_index *idx, uint64_t s, const char **key, size_t *len,
                  struct stk_err *err);
/* The checksum of sample s. 1; 0: the index has none. */
int stk_index_sample_check(const struct stk_index *idx, uint64_t s, uint32_t *crc,
                           struct stk_err *err);
/* Prefetches the part of the index that locates sample s. True: it had not been loaded. */
bool stk_index_prefetch(const struct stk_index *idx, uint64_t s);
/* Appends the slices of sample s, in order, to out (struct stk_slice each). */
int stk_index_slices(const struct stk_index *idx, uint64_t s, struct stk_buf *out,
                     struct stk_err *err);
/* Stored bytes of sample s (its share of a shared extent counts as the slice's length). */
int stk_index_sample_bytes(const struct stk_index *idx, uint64_t s, uint64_t *bytes,
                           struct stk_err *err);

#endif
