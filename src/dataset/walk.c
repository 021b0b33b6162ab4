/*
 * walk.c - lists the files of a dataset depth first in byte order (so that the same data always
 * has the same order), and decides whether a folder is shards of one format or a folder of files.
 */
#include "dataset/priv.h"
#include "base/beneath.h"
#include "base/dir.h"
#include "base/file.h"
#include "base/text.h"
#include "dataset/layout.h"
#include "format/format.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define MAX_DEPTH    100
#define HEAD_BYTES   4096
#define BID_FILES    8 /* files examined before names without a known suffix are trusted */
#define BID_SURE     80
#define BID_LIKELY   60
#define DEEP_BYTES   (1u << 20)
#define DEEP_FILES   2
#define MOST_FORMATS 64

/* Files that may be next to shards of any format without being data; each format lists its own. */
static const char *const notes[] = {"*.json", "*.txt",    "*.md",    "*.yaml", "*.yml", "*.log",
                                    "*.crc",  "_SUCCESS", "LICENSE", "README", NULL};

static bool is_side_file(const char *name)
{
    for (size_t i = 0; stk_format_at(i); i++)
        if (stk_side_matches(stk_format_at(i)->side, name))
            return true;
    return stk_side_matches(notes, name);
}

/* stoker's own, hidden, or unfinished files: never data. */
static bool is_ignored(const char *base)
{
    size_t n = strlen(base);
    return base[0] == '.' || stk_name_has_suffix(base, n, ".stkidx") ||
           stk_name_has_suffix(base, n, ".partial") || strstr(base, ".partial.") != NULL;
}

/* ---- bids ---- */

/* *whole: the output is the whole file. */
static size_t inflate_head(const uint8_t *in, size_t n, uint8_t *out, size_t cap, bool *whole)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)in,
                  .avail_in = (uInt)n,
                  .next_out = out,
                  .avail_out = (uInt)cap};
    *whole = false;
    if (inflateInit2(&z, 15 + 32) != Z_OK)
        return 0;
    *whole = inflate(&z, Z_SYNC_FLUSH) == Z_STREAM_END && !z.avail_in;
    inflateEnd(&z);
    return z.total_out;
}

static void best_bid(const struct stk_probe *p, const struct stk_format **best, int *bid)
{
    for (size_t i = 0; stk_format_at(i); i++) {
        const struct stk_format *f = stk_format_at(i);
        if (!f->bid || (p->gzip && !(f->caps & STK_CAN_GZIP)))
            continue;
        int b = f->bid(p);
        b += b > 0 && b < 95 && stk_format_suffix_matches(f, p->name) ? 5 : 0;
        if (b > *bid) {
            *bid = b;
            *best = f;
        }
    }
}

/* The beginning of a file, plain and decompressed. .head_len 0: nothing. */
struct look {
    struct stk_probe plain, inflated;
};

/* buf: twice `room` bytes, which must stay. */
static int look_at(const struct stk_walk *w, const char *name, const char *path, uint8_t *buf,
                   size_t room, struct look *k, struct stk_err *err)
{
    k->plain = (struct stk_probe){.name = name, .head = buf};
    int fd = stk_file_open_at(w->rootfd, w->outside, name, path, &k->plain.size, err);
    if (fd < 0)
        return fd;
    int rc = stk_pread_full(fd, buf, room, 0, &k->plain.head_len, path, err);
    close(fd);
    k->plain.whole = k->plain.head_len == k->plain.size;
    k->inflated = k->plain;
    k->inflated.gzip = true;
    k->inflated.head = buf + room;
    k->inflated.head_len =
        rc < 0 ? 0 : inflate_head(buf, k->plain.head_len, buf + room, room, &k->inflated.whole);
    return rc;
}

/* The bid of one format. */
static int bid_of(const struct stk_format *f, const struct look *k)
{
    bool packed = k->inflated.head_len && (f->caps & STK_CAN_GZIP);
    int plain = f->bid && k->plain.head_len ? f->bid(&k->plain) : 0;
    int inflated = f->bid && packed ? f->bid(&k->inflated) : 0;
    return plain > inflated ? plain : inflated;
}

static void best_of(const struct look *k, const struct stk_format **best, int *bid)
{
    *best = NULL;
    *bid = 0;
    if (k->plain.head_len) /* an empty file is recognised by its name */
        best_bid(&k->plain, best, bid);
    if (*bid < BID_SURE && k->inflated.head_len)
        best_bid(&k->inflated, best, bid);
}

/* What cannot be listed or looked at: the files that are seen, and so their format, may be others
 * than those of the dataset. */
static void add_problem(const struct stk_walk *w, const char *name, const struct stk_err *why)
{
    char *path = *name ? stk_path_join(w->root, name) : NULL;
    stk_problems_add(w->problems, path ? path : *name ? name : w->root, why->offset, why->what);
    free(path);
}

/* look_at(), of a file that only helps to decide. False: it decides nothing. */
static bool glance_at(const struct stk_walk *w, const char *name, uint8_t *buf, size_t room,
                      struct look *k)
{
    struct stk_err why = {0};
    int rc = look_at(w, name, name, buf, room, k, &why);
    if (rc == STK_E_SYS && !stk_is_absent(why.sys_errno) && why.sys_errno != EXDEV)
        add_problem(w, name, &why);
    return rc == 0;
}

/* The format of a file: the highest bid, or by suffix. NULL: unknown. */
static const struct stk_format *format_of(const struct look *k, const char *name, int *bid)
{
    const struct stk_format *best;
    best_of(k, &best, bid);
    for (size_t i = 0; !best && stk_format_at(i); i++)
        if (stk_format_suffix_matches(stk_format_at(i), name)) {
            best = stk_format_at(i);
            *bid = 30;
        }
    return best;
}

/* ---- walking ---- */

enum entry_type { IS_NOTHING, IS_FILE, IS_DIR, IS_LINK };

struct entry {
    char *name;
    enum entry_type type;
};

/* The parents of the folder being walked: a link may lead back to one of them. */
struct above {
    dev_t dev;
    ino_t ino;
    const struct above *next;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static enum entry_type type_of(mode_t mode)
{
    return S_ISREG(mode) ? IS_FILE : S_ISDIR(mode) ? IS_DIR : S_ISLNK(mode) ? IS_LINK : IS_NOTHING;
}

static int read_entries(struct stk_walk *w, struct stk_dir *d, struct entry **out, size_t *nout,
                        struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    int rc = 0;
    for (const struct dirent *e; rc == 0 && (e = stk_dir_next(d));) {
        w->mark = w->mark ? w->mark : stk_foreign_marked(e->d_name);
        /* DTTOIF(), which clang warns of */
        enum entry_type type =
            is_ignored(e->d_name) ? IS_NOTHING : type_of((mode_t)stk_dir_type(d, e) << 12);
        if (type == IS_NOTHING) {
            w->ignored++;
            continue;
        }
        struct entry x = {.name = strdup(e->d_name), .type = type};
        if (x.name)
            stk_buf_put(&b, &x, sizeof x);
        rc = x.name ? stk_buf_check(&b, err) : stk_err_nomem(err, 256);
    }
    *out = (struct entry *)(void *)b.data;
    *nout = b.len / sizeof **out;
    if (*nout)
        qsort(*out, *nout, sizeof **out, by_name);
    return rc;
}

static int add_file(struct stk_walk *w, const char *rel, size_t len, struct stk_err *err)
{
    struct stk_index_file f = {.name_off = stk_spool_len(&w->names), .name_len = (uint32_t)len};
    if (w->nfiles >= STK_MAX_FILES)
        return stk_err_set(err, STK_E_UNSUPPORTED, w->root, -1, "more than %llu files",
                           (unsigned long long)STK_MAX_FILES);
    w->nfiles++;
    /* With its terminator, so that names can be used in place. */
    int rc = stk_spool_put(&w->names, rel, len + 1, err);
    return rc < 0 ? rc : stk_spool_put(&w->files, &f, sizeof f, err);
}

static int add_dir(struct stk_walk *w, int fd, const char *rel, struct stk_err *err)
{
    struct stat sb;
    if (fstat(fd, &sb) < 0)
        return stk_err_sys(err, rel, "stat");
    struct stk_index_dir d = {.name_off = stk_spool_len(&w->names),
                              .name_len = (uint32_t)strlen(rel),
                              .inode = stk_inode_fold(sb.st_ino),
                              .mtime_ns =
                                  (int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec};
    int rc = stk_spool_put(&w->names, rel, strlen(rel) + 1, err);
    return rc < 0 ? rc : stk_spool_put(&w->dirs, &d, sizeof d, err);
}

static int walk_dir(struct stk_walk *w, int fd, struct stk_buf *rel, const struct above *above,
                    int depth, struct stk_err *err);

static bool leads_back(int fd, const struct above *a)
{
    struct stat sb;
    if (fstat(fd, &sb) < 0)
        return false;
    for (; a; a = a->next)
        if (a->dev == sb.st_dev && a->ino == sb.st_ino)
            return true;
    return false;
}

/* Takes ownership of fd; negative: it could not be opened, errno says why. */
static int walk_sub(struct stk_walk *w, int fd, struct stk_buf *rel, const struct above *above,
                    int depth, struct stk_err *err)
{
    struct stk_err why;
    if (fd >= 0)
        return walk_dir(w, fd, rel, above, depth + 1, err);
    (void)stk_err_sys(&why, NULL, "open the folder");
    add_problem(w, stk_buf_cstr(rel), &why);
    return 0;
}

static int leave_link(struct stk_walk *w, const char *name, const char *why, struct stk_err *err)
{
    return stk_notes_left_out(&w->notes, "link", name, why, 1, err);
}

/* A link that cannot be followed. error: the reason, an errno. */
static int broken_link(struct stk_walk *w, const char *name, int error, struct stk_err *err)
{
    struct stat sb;
    struct stk_err why;
    bool outside = error == EXDEV;
    if (outside)
        error = fstatat(w->rootfd, name, &sb, 0) < 0 ? errno : 0;
    if (stk_is_absent(error) || error == ELOOP)
        return leave_link(w, name, "leads to nothing", err);
    if (outside)
        return leave_link(w, name, "leads outside the dataset; --follow-links follows it", err);
    errno = error;
    (void)stk_err_sys(&why, NULL, "follow the link");
    add_problem(w, name, &why);
    return 0;
}

/* Walks the target of a link as if it were there. */
static int walk_link(struct stk_walk *w, struct stk_buf *rel, const struct above *above, int depth,
                     struct stk_err *err)
{
    const char *name = stk_buf_cstr(rel);
    struct stat sb;
    int fd = stk_open_by_rule(w->rootfd, w->outside, name, O_PATH);
    if (fd < 0 || fstat(fd, &sb) < 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return broken_link(w, name, error, err);
    }
    enum entry_type type = type_of(sb.st_mode);
    bool back = type == IS_DIR && leads_back(fd, above);
    close(fd);
    if (back)
        return leave_link(w, name, "leads back to a folder it is in", err);
    if (type == IS_FILE)
        return add_file(w, name, rel->len, err);
    w->ignored += type != IS_DIR;
    return type == IS_DIR
               ? walk_sub(w, stk_open_by_rule(w->rootfd, w->outside, name, O_RDONLY | O_DIRECTORY),
                          rel, above, depth, err)
               : 0;
}

static int walk_entry(struct stk_walk *w, int fd, const struct entry *e, struct stk_buf *rel,
                      const struct above *above, int depth, struct stk_err *err)
{
    size_t before = rel->len;
    if (before)
        stk_buf_putc(rel, '/');
    stk_buf_puts(rel, e->name);
    const char *name = stk_buf_cstr(rel);
    int rc = stk_buf_check(rel, err);
    if (rc == 0 && e->type == IS_FILE)
        rc = add_file(w, name, rel->len, err);
    else if (rc == 0 && e->type == IS_LINK)
        rc = walk_link(w, rel, above, depth, err);
    else if (rc == 0)
        rc = walk_sub(w, openat(fd, e->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), rel,
                      above, depth, err);
    rel->len = before;
    return rc;
}

/* A folder that is a store of a format that is not read. The root is refused later. */
static int leave_store(struct stk_walk *w, const char *name, struct stk_err *err)
{
    char why[160];
    w->store = w->mark;
    snprintf(why, sizeof why, "%s, which stoker does not read", w->store->title);
    return *name ? stk_notes_left_out(&w->notes, "store", name, why, 1, err) : 0;
}

/* Takes ownership of fd, also on error. */
static int walk_dir(struct stk_walk *w, int fd, struct stk_buf *rel, const struct above *above,
                    int depth, struct stk_err *err)
{
    struct above here = {.next = above};
    struct stat sb;
    if (fstat(fd, &sb) == 0) {
        here.dev = sb.st_dev;
        here.ino = sb.st_ino;
        stk_readers_join(&w->readers, &sb);
    }
    struct stk_dir d;
    struct stk_err why;
    struct entry *e = NULL;
    size_t n = 0;
    int rc = stk_dir_take(&d, fd, NULL, err);
    w->mark = NULL;
    if (rc == 0 && depth > MAX_DEPTH)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, stk_buf_cstr(rel), -1,
                         "folders nested more than %d deep", MAX_DEPTH);
    if (rc == 0)
        rc = add_dir(w, fd, stk_buf_cstr(rel), err);
    if (rc == 0)
        rc = read_entries(w, &d, &e, &n, err);
    bool store = rc == 0 && w->mark && !w->format; /* of a named format everything is taken */
    if (store)
        rc = leave_store(w, stk_buf_cstr(rel), err);
    for (size_t i = 0; i < n; i++) {
        if (rc == 0 && !store)
            rc = walk_entry(w, fd, &e[i], rel, &here, depth, err);
        free(e[i].name);
    }
    free(e);
    if (stk_dir_end(&d, rc, &why) < 0 && rc == 0)
        add_problem(w, stk_buf_cstr(rel), &why); /* the entries that are there may be read */
    return rc;
}

/* ---- deciding ---- */

int stk_walk_map(struct stk_walk *w, struct stk_walk_names *v, struct stk_err *err)
{
    const void *files, *text;
    int rc = stk_spool_map(&w->files, &files, err);
    if (rc == 0)
        rc = stk_spool_map(&w->names, &text, err);
    if (rc == 0)
        *v = (struct stk_walk_names){files, text, w->nfiles};
    return rc;
}

int stk_walk_keep(struct stk_walk *w, const struct stk_walk_names *v, const uint8_t *keep,
                  struct stk_err *err)
{
    struct stk_spool kept;
    uint64_t n = 0;
    int rc = 0;
    stk_spool_init(&kept, w->files.dir);
    for (uint64_t i = 0; rc == 0 && i < v->n; i++)
        if (keep[i]) {
            rc = stk_spool_put(&kept, &v->file[i], sizeof v->file[i], err);
            n++;
        }
    if (rc == 0)
        rc = stk_spool_intact(&w->files, err);
    stk_spool_release(&w->files);
    w->files = kept;
    w->nfiles = n;
    return rc;
}

/* Tables and reports next to shards: at most as many as there are shards. */
static bool is_annex(const char *name)
{
    return stk_layout_is_annotation(name) || stk_layout_is_junk(name) || stk_layout_is_readme(name);
}

static bool is_container(const struct stk_format *f)
{
    return ((f->caps & STK_CAN_SHARD) || f->missing) && !(f->caps & STK_CAN_BE_SAMPLE);
}

/* The container format whose suffix all files (except those next to shards) have, or NULL. */
static const struct stk_format *by_suffix(const struct stk_walk_names *v)
{
    for (size_t k = 0; stk_format_at(k); k++) {
        const struct stk_format *f = stk_format_at(k);
        uint64_t mine = 0, annexes = 0, i = 0;
        if (!is_container(f))
            continue;
        for (; i < v->n; i++) {
            const char *name = stk_walk_name(v, i);
            bool side = is_side_file(name), match = stk_format_suffix_matches(f, name);
            if (!match && !side && !is_annex(name))
                break;
            mine += match && !side;
            annexes += !match && !side;
        }
        if (i == v->n && mine && annexes <= mine)
            return f;
    }
    return NULL;
}

/* The container format of all the first files, ignoring empty ones, or NULL. */
static const struct stk_format *by_content(struct stk_walk *w, const struct stk_walk_names *v)
{
    const struct stk_format *all = NULL;
    unsigned seen = 0;
    uint8_t head[2 * HEAD_BYTES];
    for (uint64_t i = 0; i < v->n && seen < BID_FILES; i++) {
        const struct stk_format *f;
        struct look k;
        struct stat sb;
        int bid;
        const char *name = stk_walk_name(v, i);
        if (is_side_file(name) ||
            (fstatat(w->rootfd, name, &sb, 0) == 0 && S_ISREG(sb.st_mode) && !sb.st_size))
            continue;
        if (!glance_at(w, name, head, HEAD_BYTES, &k) || !(f = format_of(&k, name, &bid)) ||
            bid < BID_SURE || !(f->caps & STK_CAN_SHARD) || (f->caps & STK_CAN_BE_SAMPLE) || (all && f != all))
            return NULL;
        all = f;
        seen++;
    }
    return all;
}

/* Whether files may be shards of a container despite their names. */
struct disguise {
    uint8_t *buf;
    size_t room;
    bool never[MOST_FORMATS], sure[MOST_FORMATS]; /* by the number of the format */
};

/* Examines one file. Ignores files that may be next to shards. */
static bool weigh(struct disguise *d, const struct stk_walk *w, const char *name)
{
    struct look k;
    const struct stk_format *best, *f;
    int bid;
    bool any = false,
         aside = is_side_file(name) || stk_layout_is_junk(name) || stk_layout_is_readme(name);
    if (!glance_at(w, name, d->buf, d->room, &k))
        return false;
    if (!k.plain.head_len || (k.inflated.whole && !k.inflated.head_len))
        return false; /* an empty file decides nothing */
    best_of(&k, &best, &bid);
    for (size_t i = 0; i < MOST_FORMATS && (f = stk_format_at(i)); i++)
        any |= is_container(f) && bid_of(f, &k) > 0;
    for (size_t i = 0; (any || !aside) && i < MOST_FORMATS && (f = stk_format_at(i)); i++) {
        d->never[i] |= !is_container(f) || bid_of(f, &k) == 0;
        d->sure[i] |= best == f && bid >= BID_LIKELY;
    }
    return any;
}

/* The container that all of the first files may be shards of, and at least one must be: JSON Lines
 * in .json, as Spark and BigQuery write them. NULL: none. *open: reading more may decide. */
static const struct stk_format *look_behind(struct stk_walk *w, const struct stk_walk_names *v,
                                            size_t room, unsigned files, bool *open)
{
    struct disguise d = {.buf = malloc(2 * room), .room = room};
    const struct stk_format *f, *found = NULL;
    unsigned seen = 0;
    *open = false;
    for (uint64_t i = 0; d.buf && i < v->n && i < 4 * files && seen < files; i++)
        seen += weigh(&d, w, stk_walk_name(v, i));
    for (size_t i = 0; seen && !found && i < MOST_FORMATS && (f = stk_format_at(i)); i++) {
        *open |= !d.never[i];
        found = !d.never[i] && d.sure[i] ? f : NULL;
    }
    free(d.buf);
    return found;
}

static const struct stk_format *by_disguise(struct stk_walk *w, const struct stk_walk_names *v)
{
    bool open;
    const struct stk_format *f = look_behind(w, v, HEAD_BYTES, BID_FILES, &open);
    return f || !open ? f : look_behind(w, v, DEEP_BYTES, DEEP_FILES, &open); /* rows may be long */
}

/* A store of a format that is not read, by a file that describes it. NULL: none. */
static const struct stk_format *by_description(struct stk_walk *w, const struct stk_walk_names *v)
{
    const struct stk_format *f;
    unsigned seen = 0;
    for (uint64_t i = 0; i < v->n && seen < BID_FILES; i++) {
        const char *name = stk_walk_name(v, i);
        uint8_t head[2 * HEAD_BYTES];
        struct look k;
        if (!stk_text_ends(name, v->file[i].name_len, ".json") &&
            !stk_text_ends(name, v->file[i].name_len, ".idx"))
            continue;
        seen++;
        if (!glance_at(w, name, head, HEAD_BYTES, &k))
            continue;
        for (size_t n = 0; (f = stk_foreign_at(n)); n++)
            if (stk_side_matches(f->side, name) && bid_of(f, &k) >= BID_SURE)
                return f;
    }
    return NULL;
}

/* True if there is nothing but stores and notes. */
static bool only_stores(const struct stk_walk *w, const struct stk_walk_names *v)
{
    for (uint64_t i = 0; i < v->n; i++) {
        const char *name = stk_walk_name(v, i);
        if (!is_side_file(name) && !stk_layout_is_junk(name) && !stk_layout_is_readme(name))
            return false;
    }
    return w->store != NULL;
}

static int say_disguise(struct stk_walk *w, struct stk_err *err)
{
    return stk_notes_taken(&w->notes, "format", w->format->title,
                           "files hold several values, one per line, despite their names; "
                           "give the format 'folder' to take every file as a sample",
                           1, err);
}

/* Refuses a folder of shards with unsupported compression: it is never a folder of samples. */
static int refuse_compressed(const struct stk_walk *w, const struct stk_walk_names *v,
                             struct stk_err *err)
{
    const struct stk_compression *c = NULL;
    uint64_t first = 0;
    for (uint64_t i = 0; i < v->n; i++) {
        const char *name = stk_walk_name(v, i);
        size_t len = v->file[i].name_len;
        const struct stk_compression *one = stk_compression_named(name, &len);
        bool shard = false;
        if (!one && (is_side_file(name) || is_annex(name)))
            continue;
        char *plain = one ? strndup(name, len) : NULL;
        for (size_t k = 0; plain && !shard && stk_format_at(k); k++)
            shard = (is_container(stk_format_at(k)) || (stk_format_at(k)->caps & STK_CAN_GZIP)) &&
                    stk_format_suffix_matches(stk_format_at(k), plain);
        free(plain);
        if (!shard)
            return 0;
        first = c ? first : i;
        c = one;
    }
    if (!c)
        return 0;
    char *path = stk_walk_path(w, stk_walk_name(v, first), v->file[first].name_len);
    int rc = stk_compression_refuse(c, path ? path : w->root, err);
    free(path);
    return rc;
}

/* True if every file has the name of shards: they are of several formats, as one was not found. */
static bool are_mixed_shards(const struct stk_walk_names *v)
{
    uint64_t shards = 0;
    for (uint64_t i = 0; i < v->n; i++) {
        const char *name = stk_walk_name(v, i);
        const struct stk_format *f;
        size_t k = 0;
        while ((f = stk_format_at(k)) && !(is_container(f) && stk_format_suffix_matches(f, name)))
            k++;
        if (!f && !is_side_file(name) && !stk_layout_is_junk(name) && !stk_layout_is_readme(name))
            return false;
        shards += f != NULL;
    }
    return shards > 0;
}

/* Partitioned tables have the values of some columns only in directory names (year=2024/part-0.csv,
 * as Spark, DuckDB and Arrow write): the first file's path tells which. */
static int note_partitions(struct stk_walk *w, const char *name, struct stk_err *err)
{
    int rc = 0;
    for (const char *end; rc == 0 && (end = strchr(name, '/')); name = end + 1) {
        const char *is = memchr(name, '=', (size_t)(end - name));
        char column[256];
        snprintf(column, sizeof column, "%.*s", is ? (int)(is - name) : 0, name);
        if (is && is > name)
            rc = stk_notes_left_out(
                &w->notes, "column", column,
                "its values are in the names of directories, which are not read", 1, err);
    }
    return rc;
}

/* True for a file with the name of a note but other content. */
static bool may_be_shard(const struct stk_walk *w, const char *name)
{
    uint8_t head[2 * HEAD_BYTES];
    struct look k;
    return glance_at(w, name, head, HEAD_BYTES, &k) && bid_of(w->format, &k) > 0;
}

/* Keeps only the files of the container format. */
static int keep_matching(struct stk_walk *w, const struct stk_walk_names *v, struct stk_err *err)
{
    uint64_t with_suffix = 0;
    bool first = true;
    uint8_t *keep = calloc(v->n ? v->n : 1, 1);
    int rc = keep ? 0 : stk_err_nomem(err, v->n);
    for (uint64_t i = 0; i < v->n; i++)
        with_suffix += stk_format_suffix_matches(w->format, stk_walk_name(v, i));
    for (uint64_t i = 0; rc == 0 && i < v->n; i++) {
        const char *name = stk_walk_name(v, i);
        bool side = stk_side_matches(w->format->side, name);
        keep[i] = with_suffix ? !side && stk_format_suffix_matches(w->format, name)
                              : !is_side_file(name) || may_be_shard(w, name);
        if (keep[i]) {
            rc = first ? note_partitions(w, name, err) : 0;
            first = false;
            continue;
        }
        if (side || is_side_file(name) || stk_layout_is_junk(name) || stk_layout_is_readme(name))
            w->ignored++;
        else
            rc = stk_notes_left_out(&w->notes, "file", name, "not a shard, but next to the shards",
                                    1, err);
    }
    if (rc == 0)
        rc = stk_walk_keep(w, v, keep, err);
    free(keep);
    return rc;
}

static int say_mixed(struct stk_walk *w, struct stk_err *err)
{
    return stk_notes_taken(&w->notes, "sample", "a whole file",
                           "files are of several formats; give one of these files, or a folder "
                           "for each format, for the samples in them",
                           1, err);
}

static int decide_folder(struct stk_walk *w, const char *split, struct stk_err *err)
{
    struct stk_walk_names v = {0};
    bool named = w->format != NULL;
    int rc = stk_walk_map(w, &v, err);
    if (rc < 0)
        return rc;
    const struct stk_format *found = by_suffix(&v);
    found = found ? found : by_content(w, &v);
    found = found || named ? found : only_stores(w, &v) ? w->store : by_description(w, &v);
    if (!found && !named)
        rc = refuse_compressed(w, &v, err);
    if (rc < 0)
        return rc;
    const struct stk_format *disguised = found ? NULL : by_disguise(w, &v);
    found = found ? found : disguised;
    if (found && found->instead && !named)
        return stk_foreign_refuse(found, w->root, true, err);
    found = found ? found : stk_format_tree();
    bool tree = (named ? w->format : found)->caps & STK_CAN_TREE;
    /* A folder whose format is named consists of all its files. */
    w->as_found = !named || (w->format == found && !tree);
    w->format = named ? w->format : found;
    if (!named && disguised)
        rc = say_disguise(w, err);
    else if (!named && found == stk_format_tree() && are_mixed_shards(&v))
        rc = say_mixed(w, err);
    if (rc < 0)
        return rc;
    if (split || !tree || !named)
        rc = stk_walk_splits(w, split, err);
    if (rc == 0)
        rc = stk_walk_map(w, &v, err);
    if (rc < 0)
        return rc;
    return !tree ? keep_matching(w, &v, err) : named ? 0 : stk_walk_tree(w, err);
}

static int refuse_file(const struct stk_walk *w, const char *name, const char *path,
                       struct stk_err *err)
{
    uint8_t head[STK_COMPRESSION_HEAD];
    uint64_t size;
    size_t got;
    int fd = stk_file_open_at(w->rootfd, w->outside, name, path, &size, err);
    int rc = fd < 0 ? fd : stk_pread_full(fd, head, sizeof head, 0, &got, path, err);
    if (fd >= 0)
        close(fd);
    const struct stk_compression *c = rc < 0 ? NULL : stk_compression_of(head, got);
    return c ? stk_compression_refuse(c, path, err) : rc;
}

/* By the file beside it that describes it: a.idx of a.bin. */
static const struct stk_format *by_neighbour(const struct stk_walk *w, const char *name)
{
    const struct stk_format *f, *found = NULL;
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && !found && (f = stk_foreign_at(i)); i++) {
        uint8_t head[2 * HEAD_BYTES];
        struct look k;
        struct stk_buf other = STK_BUF_INIT;
        stk_buf_printf(&other, "%.*s%s", (int)(dot - name), name, f->sidecar ? f->sidecar : "");
        const char *beside = stk_buf_cstr(&other);
        if (f->sidecar && glance_at(w, beside, head, HEAD_BYTES, &k) &&
            bid_of(f, &k) >= BID_SURE)
            found = f;
        stk_buf_release(&other);
    }
    return found;
}

static int decide_file(struct stk_walk *w, const char *path, struct stk_err *err)
{
    struct stk_walk_names v = {0};
    uint8_t head[2 * HEAD_BYTES];
    struct look k;
    int bid, rc = stk_walk_map(w, &v, err);
    if (rc == 0)
        rc = look_at(w, stk_walk_name(&v, 0), path, head, HEAD_BYTES, &k, err);
    if (rc < 0)
        return rc;
    const struct stk_format *best = format_of(&k, stk_walk_name(&v, 0), &bid);
    if (!best && !w->format)
        best = by_neighbour(w, stk_walk_name(&v, 0));
    w->as_found = !w->format || w->format == best;
    w->format = w->format ? w->format : best;
    if (w->format && w->format->instead)
        return stk_foreign_refuse(w->format, path, false, err);
    if (!w->format && !(rc = refuse_file(w, stk_walk_name(&v, 0), path, err)))
        rc = stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                         "no format recognises this file; give its format (pack: --from-format, "
                         "others: --format), or a folder");
    return rc;
}

/* ---- opening ---- */

static int open_root(struct stk_walk *w, const char *path, int rootfd, bool is_dir,
                     struct stk_err *err)
{
    const char *slash = strrchr(path, '/');
    w->is_dir = is_dir;
    w->outside = w->outside || !is_dir; /* the user named the file itself */
    w->root = is_dir          ? strdup(path)
              : !slash        ? strdup(".")
              : slash == path ? strdup("/")
                              : strndup(path, (size_t)(slash - path));
    if (!w->root)
        return stk_err_nomem(err, strlen(path));
    w->rootfd = rootfd >= 0 ? fcntl(rootfd, F_DUPFD_CLOEXEC, 3)
                            : open(w->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat sb;
    if (is_dir && w->rootfd >= 0 && fstat(w->rootfd, &sb) == 0)
        stk_readers_join(&w->readers, &sb);
    return w->rootfd < 0 ? stk_err_sys(err, w->root, "open folder") : 0;
}

static void walk_init(struct stk_walk *w, const struct stk_walk_options *o)
{
    const char *tmpdir = o->tmpdir;
    *w = (struct stk_walk){.rootfd = -1, .outside = o->outside};
    stk_spool_init(&w->names, tmpdir);
    stk_spool_init(&w->files, tmpdir);
    stk_spool_init(&w->dirs, tmpdir);
    stk_spool_init(&w->keys, tmpdir);
}

int stk_walk(struct stk_walk *w, const char *path, const char *want, const char *split,
             const char *tmpdir, struct stk_problems *problems, struct stk_err *err)
{
    struct stk_walk_options o = {.rootfd = -1, .want = want, .split = split, .tmpdir = tmpdir};
    return stk_walk_with(w, path, &o, problems, err);
}

int stk_walk_with(struct stk_walk *w, const char *path, const struct stk_walk_options *o,
                  struct stk_problems *problems, struct stk_err *err)
{
    struct stat sb;
    walk_init(w, o);
    w->problems = problems;
    if (o->want && !(w->format = stk_format_find(o->want)))
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "no format is called '%s'", o->want);
    if ((o->rootfd >= 0 ? fstat(o->rootfd, &sb) : stat(path, &sb)) < 0)
        return stk_err_sys(err, path, "open");
    int rc = open_root(w, path, o->rootfd, S_ISDIR(sb.st_mode), err);
    if (rc < 0)
        return rc;
    if (!w->is_dir) {
        rc = add_file(w, stk_base_name(path), strlen(stk_base_name(path)), err);
        if (rc == 0 && o->split)
            rc = stk_err_set(err, STK_E_USAGE, path, -1,
                             "a single file has no splits to choose from");
        return rc < 0 ? rc : decide_file(w, path, err);
    }
    struct stk_buf rel = STK_BUF_INIT;
    /* Not a duplicate, which would begin where the last walk of this folder ended. */
    int fd = openat(w->rootfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rc = fd < 0 ? stk_err_sys(err, path, "open folder")
                : walk_dir(w, fd, &rel, NULL, 0, err);
    stk_buf_release(&rel);
    return rc < 0 ? rc : decide_folder(w, o->split, err);
}

int stk_walk_shards(struct stk_walk *w, const char *path, const struct stk_walk_options *o,
                    const struct stk_format *format, const char *const *names, size_t n,
                    struct stk_err *err)
{
    walk_init(w, o);
    w->format = format;
    int rc = open_root(w, path, o->rootfd, true, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = add_file(w, names[i], strlen(names[i]), err);
    return rc;
}

void stk_walk_release(struct stk_walk *w)
{
    stk_spool_release(&w->names);
    stk_spool_release(&w->files);
    stk_spool_release(&w->dirs);
    stk_spool_release(&w->keys);
    stk_notes_release(&w->notes);
    if (w->rootfd >= 0)
        close(w->rootfd);
    free(w->root);
    *w = (struct stk_walk){.rootfd = -1};
}

char *stk_walk_path(const struct stk_walk *w, const char *name, size_t len)
{
    char *copy = strndup(name, len), *path = copy ? stk_path_join(w->root, copy) : NULL;
    free(copy);
    return path;
}
