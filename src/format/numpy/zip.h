/*
 * zip.h - the directory of a ZIP file, read and written: what NPZ needs (stored and deflated
 * members, ZIP64), with every length checked against the file.
 */
#ifndef STK_FORMAT_NUMPY_ZIP_H
#define STK_FORMAT_NUMPY_ZIP_H

#include "format/format.h"
#include "format/lister.h"

#define STK_ZIP_MEMBERS_MAX 16384u

enum { STK_ZIP_STORED = 0, STK_ZIP_DEFLATED = 8 };

struct stk_zip_entry {
    const char *name; /* terminated too; in the zip's arena */
    size_t name_len;
    uint16_t method, flags;
    uint32_t crc;
    uint64_t stored, size; /* bytes in the file; bytes when decoded */
    uint64_t header_off;   /* of the local header */
    uint64_t data_off;     /* of the stored bytes */
};

struct stk_zip {
    struct stk_zip_entry *entry; /* in the order of the directory */
    size_t nentries;
    struct stk_arena arena;
};

/* Reads the directory and every local header. The entries are inside the file, do not overlap and
 * have unique names. Errors name the file and the offset. Caller frees with stk_zip_release(), also
 * on error. */
int stk_zip_read(struct stk_zip *z, struct stk_src *src, struct stk_err *err);
void stk_zip_release(struct stk_zip *z);

/* Writing: local header, the member's bytes, ...; then a central header per member and the end. All
 * dates are 1980-01-01: the same content gives the same bytes. */
void stk_zip_put_local(struct stk_buf *out, const struct stk_zip_entry *e);
void stk_zip_put_central(struct stk_buf *out, const struct stk_zip_entry *e);
void stk_zip_put_end(struct stk_buf *out, uint64_t nentries, uint64_t directory_off,
                     uint64_t directory_size);

/* ---- pieces ---------------------------------------------------------------------------------- */

/* A large deflated range of a file as pieces that can be decoded independently.
 *
 * If a sample is a small part of a large deflated range, decoding the whole range for it is slow.
 * So the range is decoded once, while it is listed, and listed as extents that begin at access
 * points; reading a sample decodes only its piece. */

#define STK_PIECES_LEAST ((uint64_t)4 << 20) /* decoded: a smaller range is decoded as one */
#define STK_PIECE_MOST   ((uint64_t)1 << 30) /* no larger one is decoded */

struct stk_piece {
    struct stk_access_point at; /* its window is owned */
    uint32_t crc;        /* CRC-32 of its decoded bytes */
};

struct stk_pieces {
    /* Set by the caller: the range, and which of its decoded bytes are cut. */
    uint64_t off, stored, size; /* place and length in the file; length decoded */
    uint64_t begin, end;        /* decoded bytes [begin, end), */
    uint64_t unit;              /* cut at multiples of this, never inside */
    /* Found: */
    uint64_t length; /* of a piece: a multiple of `unit`; the last may be shorter */
    struct stk_piece *piece;
    size_t n;
    uint32_t crc; /* of all decoded bytes */
    bool damaged; /* it does not decode to its end, or the end is not at `size`: the pieces from
                   * there on fail when read, and those before may be wrong, too */
};

/* Decodes the range. Damage is not an error here: see `damaged`. Release also on error. */
int stk_pieces_find(struct stk_pieces *p, struct stk_lister *l, struct stk_err *err);
/* Lists them, with their checksums if `sums`; tail: filters after decompression, or NULL. Returns
 * the number of the first extent, or a negative code. */
int64_t stk_pieces_list(const struct stk_pieces *p, struct stk_lister *l,
                        const struct stk_chain *tail, bool sums, struct stk_err *err);
void stk_pieces_release(struct stk_pieces *p);

#endif
