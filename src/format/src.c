/*
 * src.c - the window through which a listing sees a file: plain files by pread, gzip and zlib files
 * decompressed on the fly, with an access point every few MiB so that they can later be read from
 * the middle (the method of zlib's own example zran.c). Knows no formats.
 */
#include "format/lister.h"
#include "base/buf.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define WINDOW_DENSE  (256u << 10) /* read size while a listing touches nearly every page */
#define WINDOW_SPARSE 1024u        /* read size while it hops from header to header */
#define AHEAD         (8u << 20)   /* read-ahead hint for the kernel while hopping */
#define AHEAD_GAP     (128u << 10) /* hops shorter than this read the whole file anyway */
#define POINT_SPAN    (4u << 20)   /* decoded bytes between access points */
#define HISTORY       32768u       /* deflate's window */
#define IN_CHUNK      (256u << 10)

struct point_mark {
    uint64_t in_off, out_off;
    unsigned bits;
    uint8_t *window; /* until taken */
    size_t window_len;
};

struct stream {
    z_stream z;
    uint8_t *in;
    uint64_t in_off; /* file offset after the bytes in `in` */
    uint64_t out;    /* decoded bytes so far */
    bool ended, broken;
    bool told;               /* `why` has been reported to a caller */
    bool fresh;              /* no access point in this member yet */
    struct stk_err why;      /* of broken */
    struct point_mark *mark; /* all of them: 32 bytes per point are negligible */
    size_t nmarks, taken;
};

struct stk_src {
    int fd;
    const char *name; /* borrowed */
    char *path;
    char again[32]; /* "" until needed */
    uint64_t size;
    int64_t mtime_ns;
    struct stk_buf win;
    uint64_t win_off;
    uint64_t last_off; /* offset of the last peek outside the window */
    uint64_t gap;      /* between the last two of them */
    uint64_t advised;  /* end of the read-ahead hint */
    unsigned peeks;    /* in the current window */
    bool dense;
    struct stk_blocks *feed; /* alternative source of the bytes, or NULL */
    uint64_t fed;          /* blocks the listing has passed */
    struct stream *st;     /* NULL: plain */
};

const char *stk_src_path(const struct stk_src *s)
{
    return s->path;
}

const char *stk_src_library_path(struct stk_src *s)
{
    snprintf(s->again, sizeof s->again, "/proc/self/fd/%d", s->fd);
    return access(s->again, R_OK) == 0 ? s->again : s->path; /* there may be no /proc */
}

const char *stk_src_name(const struct stk_src *s)
{
    return s->name;
}

bool stk_src_is_stream(const struct stk_src *s)
{
    return s->st != NULL;
}

uint64_t stk_src_size(const struct stk_src *s)
{
    return s->st ? UINT64_MAX : s->size;
}

uint64_t stk_src_file_size(const struct stk_src *s)
{
    return s->size;
}

int64_t stk_src_mtime_ns(const struct stk_src *s)
{
    return s->mtime_ns;
}

/* ---- opening ---- */

static bool is_zlib(const uint8_t *p, size_t n)
{
    if (n < 6 || (p[0] & 0x0f) != 8 || (p[0] >> 4) > 7 || (p[0] * 256 + p[1]) % 31 || (p[1] & 32))
        return false;
    /* Two bytes prove little: what we see must also inflate. */
    uint8_t out[1024];
    z_stream z = {.next_in = (Bytef *)(uintptr_t)p,
                  .avail_in = (uInt)n,
                  .next_out = out,
                  .avail_out = sizeof out};
    if (inflateInit2(&z, 15) != Z_OK)
        return false;
    int rc = inflate(&z, Z_NO_FLUSH);
    bool good = rc == Z_STREAM_END || ((rc == Z_OK || rc == Z_BUF_ERROR) && z.total_out > 0);
    inflateEnd(&z);
    return good;
}

static int stream_start(struct stk_src *s, struct stk_err *err)
{
    struct stream *st = calloc(1, sizeof *st);
    s->st = st;
    if (st)
        st->fresh = true;
    if (!st || !(st->in = malloc(IN_CHUNK)) || inflateInit2(&st->z, 15 + 32) != Z_OK)
        return stk_err_nomem(err, IN_CHUNK);
    return 0;
}

static int detect_stream(struct stk_src *s, struct stk_err *err)
{
    uint8_t head[4096];
    size_t got;
    int rc = stk_pread_full(s->fd, head, sizeof head, 0, &got, s->path, err);
    if (rc < 0)
        return rc;
    bool gzip = got >= 10 && head[0] == 0x1f && head[1] == 0x8b && head[2] == 8;
    return gzip || is_zlib(head, got) ? stream_start(s, err) : 0;
}

int stk_src_open(int fd, const char *name, const char *path, bool stream_ok, struct stk_src **out,
                 struct stk_err *err)
{
    struct stk_src *s = calloc(1, sizeof *s);
    if (!s || !(s->path = strdup(path))) {
        close(fd);
        free(s);
        return stk_err_nomem(err, sizeof *s);
    }
    s->fd = fd;
    s->name = name;
    s->dense = true;
    struct stat sb;
    int rc = fstat(fd, &sb) < 0 ? stk_err_sys(err, path, "stat") : 0;
    if (rc == 0) {
        s->size = (uint64_t)sb.st_size;
        s->mtime_ns = (int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec;
        rc = stream_ok ? detect_stream(s, err) : 0;
    }
    if (rc < 0)
        stk_src_close(s);
    else
        *out = s;
    return rc;
}

void stk_src_close(struct stk_src *s)
{
    if (!s)
        return;
    if (s->st) {
        inflateEnd(&s->st->z);
        for (size_t i = 0; i < s->st->nmarks; i++)
            free(s->st->mark[i].window);
        free(s->st->mark);
        free(s->st->in);
        free(s->st);
    }
    if (s->fd >= 0)
        close(s->fd);
    stk_buf_release(&s->win);
    free(s->path);
    free(s);
}

/* ---- plain files ---- */

/* Dense if the last window served a peek per 4 KiB. */
static size_t choose_read(struct stk_src *s, uint64_t off)
{
    s->gap = off > s->last_off ? off - s->last_off : 0;
    if (s->dense)
        s->dense = s->win.len == 0 || s->peeks >= s->win.len / 4096;
    else
        s->dense = s->gap < 4096;
    s->last_off = off;
    return s->dense ? WINDOW_DENSE : WINDOW_SPARSE;
}

/* For hops across a file on storage: tells the kernel to prefetch it in large requests. */
static void read_ahead(struct stk_src *s, uint64_t off)
{
    if (s->dense || s->gap >= AHEAD_GAP || off + AHEAD / 2 <= s->advised)
        return;
    uint64_t from = s->advised > off ? s->advised : off;
    (void)posix_fadvise(s->fd, (off_t)from, AHEAD, POSIX_FADV_WILLNEED);
    s->advised = from + AHEAD;
}

static int plain_fill(struct stk_src *s, uint64_t off, size_t n, struct stk_err *err)
{
    size_t want = choose_read(s, off), got;
    want = n > want ? n : want;
    want = want < s->size - off ? want : (size_t)(s->size - off);
    s->peeks = 0;
    stk_buf_reset(&s->win);
    if (!stk_buf_room(&s->win, want))
        return stk_err_nomem(err, want);
    s->win_off = off;
    s->win.len = want;
    if (stk_pread_cached(s->fd, s->win.data, want, off))
        return 0;
    read_ahead(s, off);
    int rc = stk_pread_full(s->fd, s->win.data, want, off, &got, s->path, err);
    if (rc == 0 && got < want)
        rc = stk_err_set(err, STK_E_CORRUPT, s->path, (int64_t)(off + got),
                         "the file became shorter while it was read");
    s->win.len = rc == 0 ? got : 0;
    return rc;
}

/* ---- files with a feed ---- */

void stk_src_set_blocks(struct stk_src *s, struct stk_blocks *f)
{
    s->feed = f;
    s->fed = 0;
    stk_buf_reset(&s->win);
}

int stk_src_fd(const struct stk_src *s)
{
    return s->fd;
}

/* [off, off+n) is in the file; a range across blocks is assembled in the window. */
static int fed_peek(struct stk_src *s, uint64_t off, size_t n, const uint8_t **p,
                    struct stk_err *err)
{
    uint64_t block = off / STK_SRC_BLOCK;
    size_t at = (size_t)(off % STK_SRC_BLOCK);
    int rc = 0;
    if (n > STK_SRC_BLOCK || block < s->fed) { /* too many blocks, or a released one */
        rc = plain_fill(s, off, n, err);
        *p = s->win.data;
        return rc;
    }
    while (rc == 0 && s->fed < block)
        rc = s->feed->done(s->feed, s->fed++, err);
    if (rc < 0 || n <= STK_SRC_BLOCK - at) {
        rc = rc < 0 ? rc : s->feed->get(s->feed, block, p, err);
        *p = rc < 0 ? NULL : *p + at;
        return rc;
    }
    stk_buf_reset(&s->win);
    while (rc == 0 && n) {
        size_t k = n < STK_SRC_BLOCK - at ? n : STK_SRC_BLOCK - at;
        rc = s->feed->get(s->feed, block, p, err);
        if (rc == 0)
            stk_buf_put(&s->win, *p + at, k);
        n -= k;
        at = 0;
        block++;
    }
    *p = s->win.data;
    return rc < 0 ? rc : stk_buf_check(&s->win, err);
}

static int plain_peek(struct stk_src *s, uint64_t off, size_t n, const uint8_t **p, size_t *got,
                      struct stk_err *err)
{
    if (off >= s->size) {
        *got = 0;
        return 0;
    }
    n = n < s->size - off ? n : (size_t)(s->size - off);
    *got = n;
    if (s->feed)
        return fed_peek(s, off, n, p, err);
    if (off < s->win_off || off + n > s->win_off + s->win.len) {
        int rc = plain_fill(s, off, n, err);
        if (rc < 0)
            return rc;
    }
    s->peeks++;
    *p = s->win.data + (off - s->win_off);
    *got = n;
    return 0;
}

/* ---- compressed files ---- */

static int broken(struct stk_src *s, struct stk_err *err)
{
    if (err)
        *err = s->st->why;
    return s->st->why.code;
}

static int stream_fail(struct stk_src *s, const char *what, struct stk_err *err)
{
    struct stream *st = s->st;
    st->broken = true;
    stk_err_set(&st->why, STK_E_CORRUPT, s->path, (int64_t)(st->in_off - st->z.avail_in),
                "damaged compressed data: %s", what);
    return broken(s, err);
}

int stk_access_point_window(struct stk_access_point *p, const uint8_t *before, size_t n,
                            struct stk_err *err)
{
    uLongf cap = compressBound(n);
    p->window = NULL;
    p->window_len = 0;
    if (!n)
        return 0;
    uint8_t *window = malloc(cap);
    if (!window || compress2(window, &cap, before, n, 1) != Z_OK) {
        free(window);
        return stk_err_nomem(err, cap);
    }
    p->window = window;
    p->window_len = cap;
    return 0;
}

/* Saves the last HISTORY decoded bytes, which a decoder starting here needs. */
static int save_window(struct stk_src *s, struct point_mark *m, struct stk_err *err)
{
    size_t n = s->win.len < HISTORY ? s->win.len : HISTORY;
    struct stk_access_point p;
    int rc = stk_access_point_window(&p, n ? s->win.data + s->win.len - n : NULL, n, err);
    m->window = p.window;
    m->window_len = p.window_len;
    return rc;
}

/* fresh: a member begins here, which does not refer to earlier bytes. */
static int add_point(struct stk_src *s, bool fresh, struct stk_err *err)
{
    struct stream *st = s->st;
    if (STK_ARRAY_MORE(st->mark, st->nmarks, err))
        return STK_E_NOMEM;
    struct point_mark *m = &st->mark[st->nmarks];
    *m = (struct point_mark){.in_off = st->in_off - st->z.avail_in,
                             .out_off = st->out,
                             .bits = (unsigned)st->z.data_type & 7};
    int rc = fresh ? 0 : save_window(s, m, err);
    st->nmarks += rc == 0;
    return rc;
}

static int stream_feed(struct stk_src *s, struct stk_err *err)
{
    struct stream *st = s->st;
    size_t got;
    int rc = stk_pread_full(s->fd, st->in, IN_CHUNK, st->in_off, &got, s->path, err);
    if (rc < 0)
        return rc;
    if (!got)
        return stream_fail(s, "the file ends inside it", err);
    st->z.next_in = st->in;
    st->z.avail_in = (uInt)got;
    st->in_off += got;
    return 0;
}

/* After a member: the next one, zero padding, or the end. */
static int next_member(struct stk_src *s, struct stk_err *err)
{
    struct stream *st = s->st;
    uint8_t b[2];
    size_t got;
    uint64_t at = st->in_off - st->z.avail_in;
    int rc = stk_pread_full(s->fd, b, 2, at, &got, s->path, err);
    if (rc < 0)
        return rc;
    bool member = got == 2 && b[0] == 0x1f && b[1] == 0x8b;
    st->fresh = true;
    if (member && inflateReset2(&st->z, 15 + 32) != Z_OK)
        return stream_fail(s, "cannot begin a member", err);
    if (!member && got == 2 && (b[0] || b[1]))
        return stream_fail(s, "bytes after its end", err); /* not the end: reported */
    st->ended = !member;
    return 0;
}

/* Inflates up to `room` more bytes after the window. Stops at block boundaries (Z_BLOCK), where
 * access points are possible. */
static int stream_step(struct stk_src *s, size_t room, struct stk_err *err)
{
    struct stream *st = s->st;
    if (!st->z.avail_in) {
        int fed = stream_feed(s, err);
        if (fed < 0)
            return fed;
    }
    uint8_t *to = stk_buf_room(&s->win, room);
    if (!to)
        return stk_err_nomem(err, room);
    st->z.next_out = to;
    st->z.avail_out = (uInt)room;
    int rc = inflate(&st->z, Z_BLOCK);
    size_t made = room - st->z.avail_out;
    s->win.len += made;
    st->out += made;
    if (rc == Z_STREAM_END)
        return next_member(s, err);
    if (rc != Z_OK && rc != Z_BUF_ERROR)
        return stream_fail(s, st->z.msg ? st->z.msg : "cannot be inflated", err);
    bool at_block = (st->z.data_type & 128) && !(st->z.data_type & 64);
    if (!at_block)
        return 0;
    if (st->fresh) { /* right after the member's header */
        st->fresh = false;
        return add_point(s, true, err);
    }
    if (st->out - st->mark[st->nmarks - 1].out_off >= POINT_SPAN)
        return add_point(s, false, err);
    return 0;
}

/* Drops decoded bytes before `keep_from`, except the history that access points need. */
static void trim_window(struct stk_src *s, uint64_t keep_from)
{
    uint64_t end = s->win_off + s->win.len;
    uint64_t history = end > HISTORY ? end - HISTORY : 0;
    uint64_t from = keep_from < history ? keep_from : history;
    if (from <= s->win_off + (1u << 20))
        return; /* moving bytes pays off only occasionally */
    size_t drop = (size_t)(from - s->win_off);
    memmove(s->win.data, s->win.data + drop, s->win.len - drop);
    s->win.len -= drop;
    s->win_off = from;
}

static int stream_until(struct stk_src *s, uint64_t keep_from, uint64_t end, struct stk_err *err)
{
    struct stream *st = s->st;
    while (st->out < end && !st->ended) {
        if (st->broken)
            return broken(s, err);
        trim_window(s, keep_from < st->out ? keep_from : st->out);
        uint64_t missing = end - st->out;
        size_t room = missing < (64u << 10) ? 64u << 10 : (256u << 10);
        int rc = stream_step(s, room, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int stream_peek(struct stk_src *s, uint64_t off, size_t n, const uint8_t **p, size_t *got,
                       struct stk_err *err)
{
    if (off < s->win_off)
        return stk_err_set(err, STK_E_UNSUPPORTED, s->path, (int64_t)off,
                           "a compressed file can only be listed forwards");
    uint64_t end = off + n;
    if (s->st->out < end) {
        int rc = stream_until(s, off, end, err);
        /* Bytes decoded before the damage are still valid. */
        if (rc < 0 && s->st->out <= off) {
            s->st->told = true;
            return rc;
        }
    }
    uint64_t have = s->st->out > off ? s->st->out - off : 0;
    *got = have < n ? (size_t)have : n;
    *p = *got ? s->win.data + (off - s->win_off) : NULL;
    return 0;
}

int stk_src_advance(struct stk_src *s, uint64_t off, struct stk_err *err)
{
    if (!s->st || s->st->out >= off)
        return 0;
    int rc = stream_until(s, off, off, err);
    s->st->told = s->st->told || rc < 0;
    if (rc == 0 && s->st->out < off)
        rc = stk_err_set(err, STK_E_CORRUPT, s->path, (int64_t)s->st->out,
                         "the decompressed data ends inside a record");
    return rc;
}

bool stk_src_told_damage(const struct stk_src *s)
{
    return s->st && s->st->told;
}

int stk_src_drain(struct stk_src *s, uint64_t step, struct stk_err *err)
{
    if (!s->st || s->st->ended)
        return 0;
    uint64_t end = s->st->out + step;
    int rc = stream_until(s, end, end, err);
    return rc < 0 ? rc : !s->st->ended;
}

uint64_t stk_src_point_of(const struct stk_src *s, uint64_t off, uint64_t *begins, uint64_t *ends)
{
    const struct stream *st = s->st;
    size_t lo = 0, hi = st->nmarks;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (st->mark[mid].out_off <= off)
            lo = mid;
        else
            hi = mid;
    }
    *begins = st->nmarks ? st->mark[lo].out_off : 0;
    *ends = lo + 1 < st->nmarks ? st->mark[lo + 1].out_off : UINT64_MAX;
    return lo;
}

bool stk_src_take_point(struct stk_src *s, bool last, struct stk_access_point *p)
{
    struct stream *st = s->st;
    size_t i = st->taken;
    if (i >= st->nmarks || (i + 1 == st->nmarks && !last))
        return false;
    bool open = i + 1 == st->nmarks;
    struct point_mark *m = &st->mark[i];
    uint64_t in_end = open ? st->in_off - st->z.avail_in : st->mark[i + 1].in_off;
    uint64_t out_end = open ? st->out : st->mark[i + 1].out_off;
    *p = (struct stk_access_point){.in_off = m->in_off,
                            .in_len = in_end - m->in_off,
                            .out_off = m->out_off,
                            .decoded_len = out_end - m->out_off,
                            .bits = m->bits,
                            .window = m->window,
                            .window_len = m->window_len};
    if (m->bits) { /* the first bits are in the byte before */
        p->in_off--;
        p->in_len++;
    }
    m->window = NULL;
    st->taken++;
    return true;
}

/* Starts a decoder at the point. */
static int point_begin(z_stream *z, const struct stk_access_point *p, const uint8_t *in)
{
    uint8_t history[HISTORY];
    uLongf n = sizeof history;
    z->next_in = (Bytef *)(uintptr_t)in;
    z->avail_in = (uInt)p->in_len;
    if (p->bits) {
        if (!p->in_len || inflatePrime(z, (int)p->bits, in[0] >> (8 - p->bits)) != Z_OK)
            return Z_DATA_ERROR;
        z->next_in++;
        z->avail_in--;
    }
    if (p->window_len && (uncompress(history, &n, p->window, (uLong)p->window_len) != Z_OK ||
                          inflateSetDictionary(z, history, (uInt)n) != Z_OK))
        return Z_DATA_ERROR;
    return Z_OK;
}

/* Decodes the next n bytes to out; false: it cannot. */
static bool point_inflate(z_stream *z, uint8_t *out, size_t n)
{
    int rc = Z_OK;
    z->next_out = out;
    z->avail_out = (uInt)n;
    while (rc == Z_OK && z->avail_out)
        rc = inflate(z, Z_NO_FLUSH);
    return !z->avail_out;
}

static bool point_decode(z_stream *z, const struct stk_access_point *p, const uint8_t *in,
                         uint8_t *out)
{
    bool good = point_begin(z, p, in) == Z_OK;
    size_t n, most = p->decoded_len ? (size_t)p->decoded_len : 1;
    /* The lead goes where the extent's own bytes will overwrite it. */
    for (size_t lead = p->lead; good && lead; lead -= n) {
        n = lead < most ? lead : most;
        good = point_inflate(z, out, n);
    }
    return good && point_inflate(z, out, (size_t)p->decoded_len);
}

int stk_point_damaged(const struct stk_access_point *p, const char *path, struct stk_err *err)
{
    return stk_err_set(err, STK_E_CORRUPT, path, (int64_t)p->in_off,
                       "damaged compressed data (or an index of another file)");
}

int stk_point_decode(const struct stk_access_point *p, const uint8_t *in, uint8_t *out,
                     const char *path, struct stk_err *err)
{
    if (p->bits > 7 || p->in_len > UINT32_MAX || p->decoded_len > UINT32_MAX)
        return stk_err_set(err, STK_E_CORRUPT, path, (int64_t)p->in_off,
                           "bad access point in index");
    z_stream z = {0};
    if (inflateInit2(&z, -15) != Z_OK)
        return stk_err_nomem(err, HISTORY);
    bool good = point_decode(&z, p, in, out);
    inflateEnd(&z);
    return good ? 0 : stk_point_damaged(p, path, err);
}

int stk_src_peek(struct stk_src *s, uint64_t off, size_t n, const uint8_t **p, size_t *got,
                 struct stk_err *err)
{
    if (n > STK_PEEK_MAX)
        return stk_err_set(err, STK_E_USAGE, s->path, (int64_t)off, "peek of %zu bytes", n);
    return s->st ? stream_peek(s, off, n, p, got, err) : plain_peek(s, off, n, p, got, err);
}
