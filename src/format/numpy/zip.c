/*
 * zip.c - the directory of a ZIP file.
 *
 * Sizes come from the central directory: Python writes 0xffffffff into local headers even of tiny
 * members, and streaming writers leave them empty. Offsets and sizes must fit the file and each
 * other.
 */
#include "format/numpy/zip.h"

#include <stdlib.h>

#define LOCAL_SIG     0x04034b50u
#define CENTRAL_SIG   0x02014b50u
#define END_SIG       0x06054b50u
#define END64_SIG     0x06064b50u
#define LOCATOR64_SIG 0x07064b50u

#define LOCAL_SIZE     30u
#define CENTRAL_SIZE   46u
#define END_SIZE       22u
#define END64_SIZE     56u
#define LOCATOR64_SIZE 20u

#define DIRECTORY_MAX (64u << 20)
#define DOS_DATE      0x0021u /* 1980-01-01, the earliest date */

struct reading {
    struct stk_zip *z;
    struct stk_src *src;
    uint64_t directory_off, directory_size, nentries;
    struct stk_err *err;
};

static int bad(const struct reading *r, uint64_t at, const char *what)
{
    return stk_err_set(r->err, STK_E_CORRUPT, stk_src_path(r->src), (int64_t)at, "ZIP: %s", what);
}

/* Exactly n bytes at off, or an error. */
static int need(const struct reading *r, uint64_t off, size_t n, const uint8_t **p)
{
    size_t got;
    int rc = stk_src_peek(r->src, off, n, p, &got, r->err);
    if (rc < 0)
        return rc;
    return got < n ? bad(r, off, "the file ends here in the middle of its directory") : 0;
}

/* ---- the end record ----------------------------------------------------------------------- */

/* Only a comment of up to 64 KiB may follow the end record. */
static int find_end(const struct reading *r, uint64_t *end_off, uint8_t end[END_SIZE])
{
    uint64_t size = stk_src_size(r->src);
    size_t n = size < END_SIZE + 65535u ? (size_t)size : END_SIZE + 65535u, got;
    const uint8_t *p;
    int rc = stk_src_peek(r->src, size - n, n, &p, &got, r->err);
    if (rc < 0)
        return rc;
    for (size_t at = got < END_SIZE ? 0 : got - END_SIZE + 1; at-- > 0;) {
        if (stk_le32(p + at) != END_SIG || at + END_SIZE + stk_le16(p + at + 20) != got)
            continue;
        *end_off = size - n + at;
        memcpy(end, p + at, END_SIZE);
        return 0;
    }
    return bad(r, size, "no end of a directory: not a ZIP file, or cut off");
}

/* Replaces the numbers of the end record with those of the ZIP64 end record, if any. */
static int read_end64(struct reading *r, uint64_t *end_off)
{
    const uint8_t *p;
    if (*end_off < LOCATOR64_SIZE)
        return 0;
    int rc = need(r, *end_off - LOCATOR64_SIZE, LOCATOR64_SIZE, &p);
    if (rc < 0 || stk_le32(p) != LOCATOR64_SIG)
        return rc;
    uint64_t at = stk_le64(p + 8);
    if (*end_off < LOCATOR64_SIZE + END64_SIZE || at > *end_off - LOCATOR64_SIZE - END64_SIZE)
        return bad(r, *end_off - LOCATOR64_SIZE, "the ZIP64 end record is not in the file");
    rc = need(r, at, END64_SIZE, &p);
    if (rc < 0)
        return rc;
    if (stk_le32(p) != END64_SIG)
        return bad(r, at, "no ZIP64 end record where it should be");
    r->nentries = stk_le64(p + 32);
    r->directory_size = stk_le64(p + 40);
    r->directory_off = stk_le64(p + 48);
    *end_off = at;
    return 0;
}

static int read_end(struct reading *r)
{
    uint8_t end[END_SIZE] = {0};
    uint64_t end_off = 0;
    int rc = find_end(r, &end_off, end);
    if (rc < 0)
        return rc;
    r->nentries = stk_le16(end + 10);
    r->directory_size = stk_le32(end + 12);
    r->directory_off = stk_le32(end + 16);
    if (stk_le16(end + 4) || stk_le16(end + 6))
        return bad(r, end_off, "an archive of several parts");
    rc = read_end64(r, &end_off);
    if (rc < 0)
        return rc;
    if (r->directory_off > end_off || r->directory_size > end_off - r->directory_off)
        return bad(r, end_off, "the directory is not inside the file");
    if (r->nentries > r->directory_size / CENTRAL_SIZE)
        return bad(r, end_off, "the directory is too small for its members");
    if (r->nentries > STK_ZIP_MEMBERS_MAX || r->directory_size > DIRECTORY_MAX)
        return stk_err_set(r->err, STK_E_UNSUPPORTED, stk_src_path(r->src), (int64_t)end_off,
                           "ZIP: too many members");
    return 0;
}

/* ---- entries ------------------------------------------------------------------------------ */

/* Numbers that do not fit 32 bits are in extra field 1, in this order, only if needed. */
static bool read_extra64(struct stk_zip_entry *e, const uint8_t *p, size_t n)
{
    uint64_t *want[3];
    size_t nwant = 0;
    if (e->size == UINT32_MAX)
        want[nwant++] = &e->size;
    if (e->stored == UINT32_MAX)
        want[nwant++] = &e->stored;
    if (e->header_off == UINT32_MAX)
        want[nwant++] = &e->header_off;
    while (nwant && n >= 4) {
        size_t len = stk_le16(p + 2);
        if (len > n - 4)
            return false;
        if (stk_le16(p) == 1) {
            for (size_t i = 0; i < nwant; i++) {
                if (len < 8 * (i + 1))
                    return false;
                *want[i] = stk_le64(p + 4 + 8 * i);
            }
            return true;
        }
        p += 4 + len;
        n -= 4 + len;
    }
    return true; /* without the field, the 32-bit number is valid */
}

/* One central header at off; *used: its length. */
static int read_central(struct reading *r, uint64_t off, struct stk_zip_entry *e, uint64_t *used)
{
    const uint8_t *p;
    int rc = need(r, off, CENTRAL_SIZE, &p);
    if (rc < 0)
        return rc;
    if (stk_le32(p) != CENTRAL_SIG)
        return bad(r, off, "no entry of the directory where one should be");
    size_t name = stk_le16(p + 28), extra = stk_le16(p + 30), comment = stk_le16(p + 32);
    *used = CENTRAL_SIZE + name + extra + comment;
    if (*used > r->directory_off + r->directory_size - off)
        return bad(r, off, "an entry runs past the directory's end");
    *e = (struct stk_zip_entry){.flags = stk_le16(p + 8),
                                .method = stk_le16(p + 10),
                                .crc = stk_le32(p + 16),
                                .stored = stk_le32(p + 20),
                                .size = stk_le32(p + 24),
                                .header_off = stk_le32(p + 42)};
    rc = need(r, off + CENTRAL_SIZE, name + extra, &p);
    if (rc < 0)
        return rc;
    e->name_len = name;
    e->name = stk_arena_dup(&r->z->arena, p, name);
    if (!e->name)
        return stk_err_nomem(r->err, name);
    if (!read_extra64(e, p + name, extra))
        return bad(r, off, "a damaged ZIP64 field");
    if (e->header_off > r->directory_off || r->directory_off - e->header_off < LOCAL_SIZE ||
        e->stored > r->directory_off - e->header_off - LOCAL_SIZE)
        return bad(r, off, "a member is not inside the file");
    if (e->method == STK_ZIP_STORED && e->stored != e->size)
        return bad(r, off, "a stored member with two different sizes");
    return 0;
}

/* Only the local header tells where the member's bytes begin. */
static int read_local(struct reading *r, struct stk_zip_entry *e)
{
    const uint8_t *p;
    int rc = need(r, e->header_off, LOCAL_SIZE, &p);
    if (rc < 0)
        return rc;
    if (stk_le32(p) != LOCAL_SIG || stk_le16(p + 8) != e->method || stk_le16(p + 26) != e->name_len)
        return bad(r, e->header_off, "a member's header does not match the directory");
    size_t extra = stk_le16(p + 28);
    e->data_off = e->header_off + LOCAL_SIZE + e->name_len + extra;
    if (e->data_off > r->directory_off || e->stored > r->directory_off - e->data_off)
        return bad(r, e->header_off, "a member runs into the directory");
    rc = need(r, e->header_off + LOCAL_SIZE, e->name_len, &p);
    if (rc == 0 && memcmp(p, e->name, e->name_len) != 0)
        return bad(r, e->header_off, "a member's name does not match the directory");
    return rc;
}

static int by_offset(const void *a, const void *b)
{
    const struct stk_zip_entry *x = *(struct stk_zip_entry *const *)a;
    const struct stk_zip_entry *y = *(struct stk_zip_entry *const *)b;
    return (x->header_off > y->header_off) - (x->header_off < y->header_off);
}

static int by_name(const void *a, const void *b)
{
    const struct stk_zip_entry *x = *(struct stk_zip_entry *const *)a;
    const struct stk_zip_entry *y = *(struct stk_zip_entry *const *)b;
    size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
    int order = memcmp(x->name, y->name, n);
    return order ? order : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

/* With overlapping members a small file pretends to hold much; with duplicate names two readers see
 * different files. */
static int check_entries(struct reading *r)
{
    struct stk_zip *z = r->z;
    struct stk_zip_entry **order = malloc((z->nentries + 1) * sizeof *order);
    if (!order)
        return stk_err_nomem(r->err, z->nentries * sizeof *order);
    for (size_t i = 0; i < z->nentries; i++)
        order[i] = &z->entry[i];
    int rc = 0;
    qsort(order, z->nentries, sizeof *order, by_offset);
    for (size_t i = 1; i < z->nentries && rc == 0; i++)
        if (order[i - 1]->data_off + order[i - 1]->stored > order[i]->header_off)
            rc = bad(r, order[i]->header_off, "members overlap");
    qsort(order, z->nentries, sizeof *order, by_name);
    for (size_t i = 1; i < z->nentries && rc == 0; i++)
        if (by_name(&order[i - 1], &order[i]) == 0)
            rc = stk_err_set(r->err, STK_E_UNSUPPORTED, stk_src_path(r->src),
                             (int64_t)order[i]->header_off,
                             "two members are called '%.200s', of which readers keep one or the "
                             "other",
                             order[i]->name);
    free(order);
    return rc;
}

int stk_zip_read(struct stk_zip *z, struct stk_src *src, struct stk_err *err)
{
    *z = (struct stk_zip){0};
    struct reading r = {.z = z, .src = src, .err = err};
    int rc = read_end(&r);
    if (rc < 0)
        return rc;
    z->entry = stk_arena_alloc(&z->arena, (size_t)(r.nentries + 1) * sizeof *z->entry);
    if (!z->entry)
        return stk_err_nomem(err, r.nentries * sizeof *z->entry);
    uint64_t at = r.directory_off, used = 0;
    for (; z->nentries < r.nentries; z->nentries++, at += used) {
        rc = read_central(&r, at, &z->entry[z->nentries], &used);
        if (rc < 0)
            return rc;
    }
    if (at != r.directory_off + r.directory_size)
        return bad(&r, at, "the directory is longer than its entries");
    for (size_t i = 0; i < z->nentries && rc == 0; i++)
        rc = read_local(&r, &z->entry[i]);
    return rc < 0 ? rc : check_entries(&r);
}

void stk_zip_release(struct stk_zip *z)
{
    stk_arena_release(&z->arena);
    *z = (struct stk_zip){0};
}

/* ---- writing ------------------------------------------------------------------------------ */

/* Depends only on the size, so that a header can be rewritten in place when the rest is known. */
static bool is_large(const struct stk_zip_entry *e)
{
    return e->size >= 0xf0000000u;
}

static void put16(struct stk_buf *out, uint64_t v)
{
    uint8_t b[2];
    stk_put_le16(b, (uint16_t)v);
    stk_buf_put(out, b, sizeof b);
}

static void put32(struct stk_buf *out, uint64_t v)
{
    uint8_t b[4];
    stk_put_le32(b, (uint32_t)v);
    stk_buf_put(out, b, sizeof b);
}

static void put64(struct stk_buf *out, uint64_t v)
{
    uint8_t b[8];
    stk_put_le64(b, v);
    stk_buf_put(out, b, sizeof b);
}

/* What local and central headers have in common: version needed to name length. */
static void put_common(struct stk_buf *out, const struct stk_zip_entry *e, bool zip64)
{
    put16(out, zip64 ? 45 : 20);
    put16(out, e->flags);
    put16(out, e->method);
    put16(out, 0);
    put16(out, DOS_DATE);
    put32(out, e->crc);
    put32(out, is_large(e) ? UINT32_MAX : e->stored);
    put32(out, is_large(e) ? UINT32_MAX : e->size);
    put16(out, e->name_len);
}

void stk_zip_put_local(struct stk_buf *out, const struct stk_zip_entry *e)
{
    bool large = is_large(e);
    put32(out, LOCAL_SIG);
    put_common(out, e, large);
    put16(out, large ? 20 : 0);
    stk_buf_put(out, e->name, e->name_len);
    if (large) {
        put16(out, 1);
        put16(out, 16);
        put64(out, e->size);
        put64(out, e->stored);
    }
}

void stk_zip_put_central(struct stk_buf *out, const struct stk_zip_entry *e)
{
    bool large = is_large(e), far = e->header_off >= UINT32_MAX;
    unsigned extra = (large ? 16u : 0) + (far ? 8u : 0);
    put32(out, CENTRAL_SIG);
    put16(out, 45 | 3 << 8); /* made by: ZIP64 level, Unix */
    put_common(out, e, large || far);
    put16(out, extra ? extra + 4 : 0);
    put16(out, 0);           /* comment */
    put16(out, 0);           /* disk */
    put16(out, 0);           /* internal attributes */
    put32(out, 0644u << 16); /* mode */
    put32(out, far ? UINT32_MAX : e->header_off);
    stk_buf_put(out, e->name, e->name_len);
    if (extra) {
        put16(out, 1);
        put16(out, extra);
    }
    if (large) {
        put64(out, e->size);
        put64(out, e->stored);
    }
    if (far)
        put64(out, e->header_off);
}

void stk_zip_put_end(struct stk_buf *out, uint64_t nentries, uint64_t directory_off,
                     uint64_t directory_size)
{
    bool zip64 = nentries >= 65535 || directory_off >= UINT32_MAX || directory_size >= UINT32_MAX;
    if (zip64) {
        put32(out, END64_SIG);
        put64(out, END64_SIZE - 12);
        put16(out, 45 | 3 << 8);
        put16(out, 45);
        put32(out, 0);
        put32(out, 0);
        put64(out, nentries);
        put64(out, nentries);
        put64(out, directory_size);
        put64(out, directory_off);
        put32(out, LOCATOR64_SIG);
        put32(out, 0);
        put64(out, directory_off + directory_size);
        put32(out, 1);
    }
    put32(out, END_SIG);
    put16(out, 0);
    put16(out, 0);
    put16(out, zip64 ? 65535 : nentries);
    put16(out, zip64 ? 65535 : nentries);
    put32(out, zip64 ? UINT32_MAX : directory_size);
    put32(out, zip64 ? UINT32_MAX : directory_off);
    put16(out, 0);
}
