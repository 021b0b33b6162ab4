/*
 * wire.h - protobuf's wire encoding: walking the fields of a message, and writing them.
 *
 * No schema and no allocation: a reader gets the next field and decides by its number. Lengths are
 * checked against the message first; groups (deprecated) are refused.
 */
#ifndef STK_FORMAT_CODEC_WIRE_H
#define STK_FORMAT_CODEC_WIRE_H

#include "base/buf.h"

enum stk_wire_type {
    STK_WIRE_VARINT = 0,
    STK_WIRE_FIXED64 = 1,
    STK_WIRE_LEN = 2,
    STK_WIRE_FIXED32 = 5,
};

#define STK_WIRE_VARINT_MAX 10 /* bytes of a 64-bit varint; every negative int64 takes them all */

struct stk_wire {
    const uint8_t *p, *end;
};

struct stk_wire_field {
    uint32_t number;
    uint8_t type;     /* enum stk_wire_type */
    const uint8_t *p; /* LEN: the bytes; FIXED: the value. Borrowed from the message. */
    size_t len;       /* of p */
    uint64_t v;       /* VARINT */
};

static inline struct stk_wire stk_wire_of(const uint8_t *p, size_t n)
{
    return (struct stk_wire){p, n ? p + n : p}; /* p may be NULL when n is 0 */
}

/* Reads one varint; false when it is cut off or longer than 10 bytes. */
static inline bool stk_wire_varint(struct stk_wire *w, uint64_t *v)
{
    if (w->p < w->end && *w->p < 0x80) {
        *v = *w->p++;
        return true;
    }
    uint64_t sum = 0;
    for (unsigned i = 0; i < STK_WIRE_VARINT_MAX && w->p < w->end; i++) {
        uint8_t byte = *w->p++;
        sum |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *v = sum;
            return true;
        }
    }
    return false;
}

/* Next field of the message: 1; 0 at its end; -1 when the bytes are not a message. */
static inline int stk_wire_next(struct stk_wire *w, struct stk_wire_field *f)
{
    uint64_t tag, len;
    if (w->p == w->end)
        return 0;
    if (!stk_wire_varint(w, &tag) || tag >> 3 == 0 || tag >> 3 >= 1u << 29)
        return -1;
    f->number = (uint32_t)(tag >> 3);
    f->type = tag & 7;
    switch (f->type) {
    case STK_WIRE_VARINT:
        f->p = w->p;
        if (!stk_wire_varint(w, &f->v))
            return -1;
        f->len = (size_t)(w->p - f->p);
        return 1;
    case STK_WIRE_FIXED64:
        len = 8;
        break;
    case STK_WIRE_FIXED32:
        len = 4;
        break;
    case STK_WIRE_LEN:
        if (!stk_wire_varint(w, &len))
            return -1;
        break;
    default:
        return -1;
    }
    if (len > (size_t)(w->end - w->p))
        return -1;
    f->p = w->p;
    f->len = (size_t)len;
    w->p += len;
    return 1;
}

/* Length of v as a varint. */
static inline size_t stk_wire_varint_size(uint64_t v)
{
    return (size_t)(70 - __builtin_clzll(v | 1)) / 7;
}

/* Writes v at p, which has room; returns the byte after it. */
static inline uint8_t *stk_wire_put_varint(uint8_t *p, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *p++ = (uint8_t)(v | 0x80);
    *p++ = (uint8_t)v;
    return p;
}

/* Tag and length of a LEN field; number < 16, so that the tag is one byte. */
static inline uint8_t *stk_wire_put_head(uint8_t *p, unsigned number, uint64_t len)
{
    *p++ = (uint8_t)(number << 3 | STK_WIRE_LEN);
    return stk_wire_put_varint(p, len);
}

/* Bytes of such a field, tag and length included. */
static inline size_t stk_wire_field_size(size_t len)
{
    return 1 + stk_wire_varint_size(len) + len;
}

#endif
