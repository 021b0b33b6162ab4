/*
 * source_wire.c - the list of a source as bytes, so that one rank lists it and all others do not
 * ask the shared file system for the same again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/priv.h"

#define MAGIC 0x73726332u

struct reader {
    const uint8_t *p;
    size_t left;
    bool bad;
};

/* ---- writing ---- */

static void put_u64(struct stk_buf *b, uint64_t v)
{
    uint8_t le[8];
    stk_put_le64(le, v);
    stk_buf_put(b, le, sizeof le);
}

static void put_text(struct stk_buf *b, const char *s)
{
    put_u64(b, strlen(s));
    stk_buf_put(b, s, strlen(s) + 1);
}

void stk_source_encode(const struct stk_source *s, struct stk_buf *out)
{
    put_u64(out, MAGIC);
    put_text(out, s->path);
    put_text(out, s->name);
    put_text(out, s->root);
    put_u64(out, (uint64_t)s->is_dir | (uint64_t)s->outside << 1 | (uint64_t)(s->ds != NULL) << 2);
    put_u64(out, s->identity);
    put_u64(out, (uint64_t)s->changed_ns);
    put_u64(out, s->count);
    put_u64(out, s->ndirs);
    for (uint64_t i = 0; i < s->count; i++) {
        const struct stk_tier_file *f = &s->file[i];
        put_u64(out, f->size);
        put_u64(out, (uint64_t)f->mtime_ns);
        put_u64(out, f->hash);
        put_u64(out, f->mode | (uint64_t)f->hashed << 32);
        put_text(out, f->name);
    }
    for (uint64_t i = 0; i < s->ndirs; i++) {
        put_u64(out, (uint64_t)s->dir[i].mtime_ns);
        put_u64(out, s->dir[i].mode);
        put_text(out, s->dir[i].name);
    }
}

/* ---- reading ---- */

static uint64_t get_u64(struct reader *r)
{
    if (r->left < 8) {
        r->bad = true;
        return 0;
    }
    uint64_t v = stk_le64(r->p);
    r->p += 8;
    r->left -= 8;
    return v;
}

/* Borrowed from the bytes being read. */
static const char *get_text(struct reader *r)
{
    uint64_t n = get_u64(r);
    const char *s = (const char *)r->p;
    if (r->bad || n >= r->left || s[n] != '\0' || memchr(s, 0, n)) {
        r->bad = true;
        return "";
    }
    r->p += n + 1;
    r->left -= n + 1;
    return s;
}

static int get_files(struct stk_source *s, struct reader *r, struct stk_err *err)
{
    /* Each takes at least these bytes: the numbers cannot ask for more memory than they came in. */
    if (s->count > r->left / 41 || s->ndirs > r->left / 25) {
        r->bad = true;
        return 0;
    }
    s->file = calloc(s->count + 1, sizeof *s->file);
    s->dir = calloc(s->ndirs + 1, sizeof *s->dir);
    if (!s->file || !s->dir)
        return stk_err_nomem(err, s->count * sizeof *s->file);
    for (uint64_t i = 0; i < s->count && !r->bad; i++) {
        struct stk_tier_file *f = &s->file[i];
        f->size = get_u64(r);
        f->mtime_ns = (int64_t)get_u64(r);
        f->hash = get_u64(r);
        uint64_t mode = get_u64(r);
        f->mode = (mode_t)(mode & 07777);
        f->hashed = mode >> 32 & 1;
        f->name = get_text(r);
    }
    for (uint64_t i = 0; i < s->ndirs && !r->bad; i++) {
        s->dir[i].mtime_ns = (int64_t)get_u64(r);
        s->dir[i].mode = (mode_t)(get_u64(r) & 07777);
        s->dir[i].name = get_text(r);
    }
    return 0;
}

int stk_source_decode(struct stk_source *s, const void *p, size_t n, struct stk_err *err)
{
    *s = STK_SOURCE_INIT;
    char *own = stk_arena_dup(&s->arena, p, n);
    struct reader r = {.p = (uint8_t *)own, .left = n};
    if (!own)
        return stk_err_nomem(err, n);
    r.bad = get_u64(&r) != MAGIC;
    s->path = strdup(get_text(&r));
    s->name = strdup(get_text(&r));
    s->root = strdup(get_text(&r));
    uint64_t flags = get_u64(&r);
    s->is_dir = flags & 1;
    s->outside = flags >> 1 & 1;
    s->identity = get_u64(&r);
    s->changed_ns = (int64_t)get_u64(&r);
    s->count = get_u64(&r);
    s->ndirs = get_u64(&r);
    int rc = !s->path || !s->name || !s->root ? stk_err_nomem(err, n) : get_files(s, &r, err);
    if (!rc && (r.bad || r.left))
        rc = stk_err_set(err, STK_E_CORRUPT, NULL, -1, "the list of the source came damaged");
    if (rc) {
        s->count = s->ndirs = 0;
        return rc;
    }
    s->rootfd = open(s->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->rootfd < 0)
        rc = stk_err_sys(err, s->root, "open the folder on this node");
    stk_source_settle(s);
    return rc;
}
