/* buf.c - growable buffer and bump arena. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <string.h>

/* AddressSanitizer sees what goes past the end of malloc()'s memory only. */
#ifdef __SANITIZE_ADDRESS__
#define BOUNDS_ARE_WATCHED 1
#elif defined(__has_feature)
#define BOUNDS_ARE_WATCHED __has_feature(address_sanitizer)
#else
#define BOUNDS_ARE_WATCHED 0
#endif

#define LARGE (256u << 10)
#define HUGE  (2u << 20)

static bool has_own_pages(const struct stk_buf *b, size_t cap)
{
    return b->own_pages && cap >= LARGE && !BOUNDS_ARE_WATCHED;
}

void stk_buf_release(struct stk_buf *b)
{
    if (has_own_pages(b, b->cap))
        munmap(b->data, b->cap);
    else
        free(b->data);
    *b = (struct stk_buf){.own_pages = b->own_pages};
}

static size_t whole_pages(size_t n, size_t more)
{
    size_t cap;
    if (__builtin_add_overflow(n, more + LARGE - 1, &cap))
        return n;
    return cap / LARGE * LARGE;
}

/* From malloc() to pages: the bytes move once. */
static void *move_to_pages(struct stk_buf *b, size_t cap)
{
    void *p = mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (cap >= HUGE)
        (void)madvise(p, cap, MADV_HUGEPAGE); /* fewer faults */
    if (b->len)
        memcpy(p, b->data, b->len);
    free(b->data);
    return p;
}

/* Pages that grow, perhaps elsewhere. ThreadSanitizer does not know mremap(): an address that was
 * another thread's before would look shared. */
static void *grow_pages(struct stk_buf *b, size_t cap)
{
#ifdef __SANITIZE_THREAD__
    void *p = mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) {
        memcpy(p, b->data, b->len);
        munmap(b->data, b->cap);
    }
#else
    void *p = mremap(b->data, b->cap, cap, MREMAP_MAYMOVE);
#endif
    return p == MAP_FAILED ? NULL : p;
}

static void *resize(struct stk_buf *b, size_t cap)
{
    if (!has_own_pages(b, cap))
        return realloc(b->data, cap);
    if (!has_own_pages(b, b->cap))
        return move_to_pages(b, cap);
    return grow_pages(b, cap);
}

void stk_buf_reset(struct stk_buf *b)
{
    b->len = 0;
    b->fail = false;
}

void *stk_buf_room(struct stk_buf *b, size_t n)
{
    if (b->fail)
        return NULL;
    if (n <= b->cap - b->len)
        return b->data + b->len;
    size_t want = b->len + n;
    if (want < n) {
        b->fail = true;
        return NULL;
    }
    size_t cap = b->cap ? b->cap : 256;
    while (cap < want)
        cap = cap > SIZE_MAX / 2 ? want : cap * 2;
    if (has_own_pages(b, cap)) /* they are cheap to extend: no more than a quarter in vain */
        cap = whole_pages(want, b->len / 4);
    uint8_t *p = resize(b, cap);
    if (!p) {
        b->fail = true;
        return NULL;
    }
    b->data = p;
    b->cap = cap;
    return p + b->len;
}

void *stk_buf_extend(struct stk_buf *b, size_t n)
{
    void *p = stk_buf_room(b, n);
    if (p)
        b->len += n;
    return p;
}

void stk_buf_put(struct stk_buf *b, const void *p, size_t n)
{
    if (!n)
        return;
    void *to = stk_buf_extend(b, n);
    if (to)
        memcpy(to, p, n);
}

void stk_buf_puts(struct stk_buf *b, const char *s)
{
    stk_buf_put(b, s, strlen(s));
}

void stk_buf_putc(struct stk_buf *b, char c)
{
    stk_buf_put(b, &c, 1);
}

void stk_buf_zeros(struct stk_buf *b, size_t n)
{
    void *to = n ? stk_buf_extend(b, n) : NULL;
    if (to)
        memset(to, 0, n);
}

void stk_buf_printf(struct stk_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    stk_buf_vprintf(b, fmt, ap);
    va_end(ap);
}

void stk_buf_vprintf(struct stk_buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *to = n < 0 ? NULL : stk_buf_room(b, (size_t)n + 1);
    if (to) {
        vsnprintf(to, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

int stk_buf_check(const struct stk_buf *b, struct stk_err *err)
{
    return b->fail ? stk_err_nomem(err, b->len) : 0;
}

const char *stk_buf_cstr(struct stk_buf *b)
{
    char *end = stk_buf_room(b, 1);
    if (!end)
        return "";
    *end = '\0';
    return (const char *)b->data;
}

struct stk_arena_block {
    struct stk_arena_block *next;
    size_t cap, len;
    _Alignas(16) uint8_t data[];
};

#define ARENA_BLOCK (64u << 10)

void stk_arena_release(struct stk_arena *a)
{
    for (struct stk_arena_block *b = a->first, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    *a = (struct stk_arena)STK_ARENA_INIT;
}

void stk_arena_reset(struct stk_arena *a)
{
    a->cur = a->first;
    if (a->cur)
        a->cur->len = 0;
}

size_t stk_arena_size(const struct stk_arena *a)
{
    size_t n = 0;
    for (const struct stk_arena_block *b = a->first; b; b = b->next)
        n += sizeof *b + b->cap;
    return n;
}

static struct stk_arena_block *arena_grow(struct stk_arena *a, size_t n)
{
    /* Reuses a block kept from before the last reset if it is large enough. */
    struct stk_arena_block *next = a->cur ? a->cur->next : a->first;
    if (next && next->cap >= n) {
        next->len = 0;
        return a->cur = next;
    }
    size_t cap = n > ARENA_BLOCK ? n : ARENA_BLOCK;
    struct stk_arena_block *b = malloc(sizeof *b + cap);
    if (!b)
        return NULL;
    b->cap = cap;
    b->len = 0;
    b->next = next;
    if (a->cur)
        a->cur->next = b;
    else
        a->first = b;
    return a->cur = b;
}

void *stk_arena_alloc(struct stk_arena *a, size_t n)
{
    if (n > SIZE_MAX / 2)
        return NULL;
    n = (n + 15) & ~(size_t)15;
    struct stk_arena_block *b = a->cur;
    if (!b || b->cap - b->len < n)
        b = arena_grow(a, n);
    if (!b)
        return NULL;
    void *p = b->data + b->len;
    b->len += n;
    return p;
}

void *stk_arena_dup(struct stk_arena *a, const void *p, size_t n)
{
    uint8_t *to = stk_arena_alloc(a, n + 1);
    if (to) {
        if (n)
            memcpy(to, p, n);
        to[n] = 0;
    }
    return to;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/* Copies pointers as bytes: the caller's pointer has another type than void *. */
static int resize_array(void *array, size_t room, size_t size, struct stk_err *err)
{
    void *p;
    size_t bytes;
    memcpy(&p, array, sizeof p);
    if (__builtin_mul_overflow(room, size, &bytes))
        return stk_err_nomem(err, UINT64_MAX);
    p = realloc(p, bytes);
    if (!p)
        return stk_err_nomem(err, bytes);
    memcpy(array, &p, sizeof p);
    return 0;
}

int stk_array_more(void *array, size_t n, size_t size, struct stk_err *err)
{
    if (n & (n - 1)) /* between powers of two there is room */
        return 0;
    if (n > SIZE_MAX / 2)
        return stk_err_nomem(err, UINT64_MAX);
    return resize_array(array, n ? 2 * n : 1, size, err);
}

int stk_array_room(void *array, size_t *room, size_t need, size_t size, struct stk_err *err)
{
    size_t more = *room > SIZE_MAX / 2 ? SIZE_MAX : 2 * *room;
    if (need <= *room)
        return 0;
    more = more > need ? more : need;
    more = more < 8 ? 8 : more;
    int rc = resize_array(array, more, size, err);
    if (rc == 0)
        *room = more;
    return rc;
}
