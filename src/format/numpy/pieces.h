/*
 * pieces.h - a large deflated range of a file as pieces that can be decoded independently.
 *
 * If a sample is a small part of a large deflated range, decoding the whole range for it is slow.
 * So the range is decoded once, while it is listed, and listed as extents that begin at access
 * points; reading a sample decodes only its piece.
 */
#ifndef STK_FORMAT_NUMPY_PIECES_H
#define STK_FORMAT_NUMPY_PIECES_H

#include "format/lister.h"

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
