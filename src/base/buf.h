/*
 * buf.h - a growable byte buffer, a bump arena, and arrays that grow.
 *
 * stk_buf: contiguous, owned, grows by doubling; `fail` is sticky so that a chain of puts is
 * checked once at the end (stk_buf_check). stk_arena: many small allocations freed together,
 * pointers stay valid until reset; nothing is returned to the system by reset, so a warmed-up
 * arena allocates nothing.
 */
#ifndef STK_BASE_BUF_H
#define STK_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

struct stk_buf {
    uint8_t *data;
    size_t len, cap;
    bool fail;      /* an allocation failed; contents are then meaningless */
    bool own_pages; /* large buffers bypass malloc(): released memory returns to the system at once.
                       Set by the owner; stays */
};

#define STK_BUF_INIT                                                                               \
    {                                                                                              \
        0                                                                                          \
    }

void stk_buf_release(struct stk_buf *b);
void stk_buf_reset(struct stk_buf *b); /* len = 0, fail = false; keeps memory */
/* Makes room for n more bytes and returns where they go, NULL on failure; does not change len. */
void *stk_buf_room(struct stk_buf *b, size_t n);
/* Appends n uninitialised bytes and returns them, NULL on failure. */
void *stk_buf_extend(struct stk_buf *b, size_t n);
void stk_buf_put(struct stk_buf *b, const void *p, size_t n);
void stk_buf_puts(struct stk_buf *b, const char *s);
void stk_buf_putc(struct stk_buf *b, char c);
void stk_buf_zeros(struct stk_buf *b, size_t n);
void stk_buf_printf(struct stk_buf *b, const char *fmt, ...) STK_PRINTF(2, 3);
void stk_buf_vprintf(struct stk_buf *b, const char *fmt, va_list ap);
int stk_buf_check(const struct stk_buf *b, struct stk_err *err); /* 0 or STK_E_NOMEM */
/* NUL-terminates (not counted in len) and returns the text; "" when empty or failed. */
const char *stk_buf_cstr(struct stk_buf *b);

struct stk_arena_block;
struct stk_arena {
    struct stk_arena_block *first, *cur;
};

#define STK_ARENA_INIT                                                                             \
    {                                                                                              \
        0                                                                                          \
    }

void stk_arena_release(struct stk_arena *a);
void stk_arena_reset(struct stk_arena *a);
size_t stk_arena_size(const struct stk_arena *a);     /* bytes allocated, used or not */
void *stk_arena_alloc(struct stk_arena *a, size_t n); /* 16-byte aligned; NULL on failure */
void *stk_arena_dup(struct stk_arena *a, const void *p, size_t n); /* adds a NUL after n bytes */

/* Unaligned little-endian loads and stores. */
static inline uint16_t stk_le16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? v : __builtin_bswap16(v);
}
static inline uint32_t stk_le32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? v : __builtin_bswap32(v);
}
static inline uint64_t stk_le64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? v : __builtin_bswap64(v);
}
static inline void stk_put_le16(void *p, uint16_t v)
{
    v = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? v : __builtin_bswap16(v);
    memcpy(p, &v, sizeof v);
}
static inline void stk_put_le32(void *p, uint32_t v)
{
    v = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? v : __builtin_bswap32(v);
    memcpy(p, &v, sizeof v);
}
static inline void stk_put_le64(void *p, uint64_t v)
{
    v = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? v : __builtin_bswap64(v);
    memcpy(p, &v, sizeof v);
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/*
 * Arrays that grow by doubling.
 *
 * Two ways. If elements come one by one, the count alone gives the room (the next power of two):
 *
 *     if (STK_ARRAY_MORE(list->item, list->n, err))
 *         return STK_E_NOMEM;
 *     list->item[list->n++] = item;
 *
 * If they come in bulk, or room is made in advance, the room is kept beside the array:
 * STK_ARRAY_ROOM(p, room, need, err). Do not mix the two for one array. On failure the array is
 * unchanged. The caller frees it with free().
 */

/* Makes room for one element after n. array: address of the pointer. Returns 0 or STK_E_NOMEM. */
int stk_array_more(void *array, size_t n, size_t size, struct stk_err *err);
/* Room for `need` elements in all. */
int stk_array_room(void *array, size_t *room, size_t need, size_t size, struct stk_err *err);

#define STK_ARRAY_MORE(p, n, err)          stk_array_more(&(p), (n), sizeof *(p), (err))
#define STK_ARRAY_ROOM(p, room, need, err) stk_array_room(&(p), &(room), (need), sizeof *(p), (err))

#endif
