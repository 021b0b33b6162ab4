/*
 * payload.h - what the records of a file hold, decided over the first ones: a first record may be
 * empty, odd or too large to look at whole, and says little about the others.
 */
#ifndef STK_FORMAT_PAYLOAD_H
#define STK_FORMAT_PAYLOAD_H

#include "format/format.h"

#define STK_PAYLOAD_RECORDS 16 /* looked at, where they are small */

struct stk_payload_guess {
    unsigned looked;    /* records */
    unsigned empty;     /* of those: nothing in them, which any payload may be */
    unsigned votes[16]; /* by the codec's place in the table; none: raw */
    unsigned raw;
    char because[80]; /* set by decide() */
};

/* One record of `total` bytes of which the first n are at p. header: an image record's header is
 * enough (RecordIO, which hardly ever holds anything else). */
void stk_payload_look(struct stk_payload_guess *g, const uint8_t *p, size_t n, uint64_t total,
                      bool header);
/* What most of them are; `usual` where all were empty. */
const char *stk_payload_decide(struct stk_payload_guess *g, const char *usual);
/* The field that records are, of the payload that was asked for or else found: look() shows the
 * first records to stk_payload_look(). usual: also for records that are compressed one by one.
 * Returns the field's number, or a negative code. */
int stk_payload_field(struct stk_lister *l, const char *usual,
                      int (*look)(void *user, struct stk_payload_guess *g, struct stk_err *err),
                      void *user, struct stk_err *err);

#endif
