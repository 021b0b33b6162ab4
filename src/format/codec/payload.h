/*
 * payload.h - detects what the records of a file hold, from several: a single record may be empty,
 * unusual or too large to examine whole.
 */
#ifndef STK_FORMAT_CODEC_PAYLOAD_H
#define STK_FORMAT_CODEC_PAYLOAD_H

#include "format/format.h"

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
/* The payload of most of them; `usual` if all were empty. */
const char *stk_payload_decide(struct stk_payload_guess *g, const char *usual);
/* The field of the records, by the payload requested or else detected: look() passes the first
 * records to stk_payload_look(). usual: also for individually compressed records. Returns the
 * field's number, or a negative code. */
int stk_payload_field(struct stk_lister *l, const char *usual,
                      int (*look)(void *user, struct stk_payload_guess *g, struct stk_err *err),
                      void *user, struct stk_err *err);

#endif
