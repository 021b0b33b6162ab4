/*
 * codec.h - detects what the records of a file hold, from several: a single record may be empty,
 * unusual or too large to examine whole.
 */
#ifndef STK_FORMAT_CODEC_CODEC_H
#define STK_FORMAT_CODEC_CODEC_H

#include "format/format.h"
#include "base/buf.h"

#define STK_PAYLOAD_RECORDS 16 /* examined, if they are small */

struct stk_payload_guess {
    unsigned looked;    /* records */
    unsigned empty;     /* of those: empty, which fits any payload */
    unsigned votes[16]; /* by the codec's index in the table; none: raw */
    unsigned raw;
    char because[80]; /* set by decide() */
};

/* Examines a record of `total` bytes, the first n of which are at p. header: an image record's
 * header is enough (RecordIO, which rarely holds anything else). */
void stk_payload_look(struct stk_payload_guess *g, const uint8_t *p, size_t n, uint64_t total,
                      bool header);
/* The field of the records, by the payload requested or else detected: look() passes the first
 * records to stk_payload_look(). usual: also for individually compressed records. Returns the
 * field's number, or a negative code. */
int stk_payload_field(struct stk_lister *l, const char *usual,
                      int (*look)(void *user, struct stk_payload_guess *g, struct stk_err *err),
                      void *user, struct stk_err *err);

/* ---- image records --------------------------------------------------------------------------- */

#define STK_IRHEADER 24 /* u32 flag, f32 label, u64 id, u64 id2 */

/* True if a record of `total` bytes, the first n of them at p, may begin with an IRHeader. Weak
 * evidence (24 zeros may), for a format that rarely holds anything else. */
bool stk_irheader_plausible(const uint8_t *p, size_t n, uint64_t total);
/* The id in the header of a record. */
uint64_t stk_irheader_id(const uint8_t *record);

struct stk_sample;
uint64_t stk_sample_id(const struct stk_sample *s);
/* True if the key is a number, the id to write. */
bool stk_sample_has_id(const struct stk_sample *s, uint64_t *id);

/* ---- packed arrays --------------------------------------------------------------------------- */

/* Arrays stored as other numbers than they mean, as netCDF's conventions (CF) pack them: value =
 * stored * scale + offset, and some stored values mean that there is none.
 *
 * Every file may have its own numbers, so they are no part of a field's name and type: the index
 * keeps a record of each packing in its context, and a field's codec names the record. */

#define STK_SCALED_FILLS 4u

/* A record of the context, which is an array of them, ascending by name. In the index as it is. */
struct stk_scaled {
    char name[16]; /* "scaled:" and a hash of the rest */
    char tile[16]; /* the codec of the stored values (tile.c), or "" */
    uint8_t stored, nfill; /* stored: enum stk_dtype */
    uint8_t pad[6];
    double scale, offset;
    uint64_t fill[STK_SCALED_FILLS]; /* stored values that mean nan: as int64, or as double */
};

/* Names the record: call it when all else is set. spec: the field, for its shape. */
void stk_scaled_name(struct stk_scaled *s, const struct stk_field_spec *spec);
/* Serves as stk_format's merge_context: the records of both. */
int stk_scaled_merge(const char *a, size_t a_len, const char *b, size_t b_len, struct stk_buf *out,
                     struct stk_err *err);

#endif
