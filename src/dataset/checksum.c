/* checksum.c - the checksum of a file, or of a folder with everything in it. */
#include "dataset/checksum.h"
#include "base/beneath.h"
#include "base/file.h"
#include "base/hash.h"
#include "dataset/walk.h"
#include "format/format.h"
#include "io/files.h"
#include "base/pool.h"
#include "dataset/reader.h"
#include "host/cpus.h"
#include "dataset/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static int hash_one(int dirfd, bool outside, const char *name, uint64_t *hash, uint64_t *size,
                    const char *path, struct stk_err *err)
{
    int fd = stk_file_open_at(dirfd, outside, name, path, size, err);
    if (fd < 0)
        return fd;
    int rc = stk_hash_fd(fd, hash, size, path, err);
    close(fd);
    return rc;
}

/* Over name, size and content checksum of every file, in walking order. */
static int hash_files(struct stk_walk *w, uint64_t *size, uint64_t *hash, struct stk_err *err)
{
    const void *files = NULL, *names = NULL;
    struct stk_hash h;
    stk_hash_init(&h);
    int rc = stk_spool_map(&w->files, &files, err);
    if (rc == 0)
        rc = stk_spool_map(&w->names, &names, err);
    *size = 0;
    for (uint64_t i = 0; rc == 0 && i < w->nfiles; i++) {
        const struct stk_index_file *f = (const struct stk_index_file *)files + i;
        const char *name = (const char *)names + f->name_off;
        uint64_t one[2];
        char *full = stk_walk_path(w, name, f->name_len);
        rc = full ? hash_one(w->rootfd, w->outside, name, &one[0], &one[1], full, err)
                  : stk_err_nomem(err, f->name_len);
        stk_hash_update(&h, name, f->name_len + 1);
        stk_hash_update(&h, one, sizeof one);
        *size += rc == 0 ? one[1] : 0;
        free(full);
    }
    *hash = stk_hash_final(&h);
    if (rc == 0)
        rc = stk_spool_intact(&w->files, err);
    if (rc == 0)
        rc = stk_spool_intact(&w->names, err);
    return rc;
}

static int tree_checksum(int fd, bool outside, uint64_t *size, uint64_t *hash, const char *path,
                         struct stk_err *err)
{
    struct stk_walk w;
    struct stk_problems problems = {0};
    struct stk_walk_options o = {.rootfd = fd, .outside = outside, .want = stk_format_tree()->name};
    int rc = stk_walk_with(&w, path, &o, &problems, err);
    if (rc == 0 && problems.count)
        rc = stk_err_set(err, STK_E_SYS, path, -1, "%s", problems.item[0].what);
    if (rc == 0)
        rc = hash_files(&w, size, hash, err);
    stk_problems_release(&problems);
    stk_walk_release(&w);
    return rc;
}

int stk_content_checksum(int dirfd, bool outside, const char *name, uint64_t *size, uint64_t *hash,
                     const char *path, struct stk_err *err)
{
    int dir = stk_open_by_rule(dirfd, outside, name, O_RDONLY | O_DIRECTORY), rc;
    if (dir < 0)
        return hash_one(dirfd, outside, name, hash, size, path, err);
    rc = tree_checksum(dir, outside, size, hash, path, err);
    close(dir);
    return rc;
}

int stk_content_compare(int dirfd, bool outside, const struct stk_manifest_file *f,
                        const char *path, uint64_t *size, struct stk_err *err)
{
    struct stat st;
    uint64_t hash;
    *size = 0;
    if (!outside && stk_stat_beneath(dirfd, f->name, &st) < 0 && errno == EXDEV)
        return stk_err_set(err, STK_E_CORRUPT, path, -1, "a link that leads outside the dataset");
    int rc = stk_content_checksum(dirfd, outside, f->name, size, &hash, path, err);
    if (rc == 0 && *size != f->size)
        rc = stk_err_set(err, STK_E_CORRUPT, path, -1, "it has %llu bytes, the manifest says %llu",
                         (unsigned long long)*size, (unsigned long long)f->size);
    else if (rc == 0 && hash != f->xxh64)
        rc = stk_err_set(err, STK_E_CORRUPT, path, -1,
                         "its checksum is not the one in the manifest");
    return rc;
}

/* ---- of each sample -------------------------------------------------------------------------- */

/* Stores the checksums of packed samples in the index: those of their records, or of the samples,
 * which are read. */

#define ITEM_SAMPLES  4096u
#define BATCH_SAMPLES 256u
#define BATCH_BYTES   (4u << 20)
#define TAILS         (32u << 10) /* read at once, if several tails of records are in it */

struct checks {
    stk_checks_report *report;
    void *user;
    unsigned jobs;
    struct stk_dataset ds;      /* what was written */
    struct stk_reader **reader; /* per thread, made when it starts */
    int fd;                     /* a file without a name: u32 of each sample */
};

/* Reads one batch of samples from `first` on. Returns their number, or an error. */
static int64_t sum_batch(struct checks *c, struct stk_reader *r, uint64_t first, uint64_t end,
                         struct stk_err *err)
{
    uint64_t ids[BATCH_SAMPLES] = {0}, bytes = 0, one;
    uint32_t check[BATCH_SAMPLES];
    size_t n = 0;
    int rc = 0;
    while (rc == 0 && n < BATCH_SAMPLES && first + n < end && bytes < BATCH_BYTES) {
        rc = stk_index_sample_bytes(&c->ds.index, first + n, &one, err);
        bytes += one;
        ids[n] = first + n;
        n++;
    }
    if (rc == 0)
        rc = stk_reader_batch(r, ids, n, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = stk_reader_sum(r, i, &check[i], err);
    if (rc == 0)
        rc = stk_pwrite_full(c->fd, check, n * sizeof *check, first * sizeof *check, stk_tmpdir(),
                             err);
    return rc < 0 ? rc : (int64_t)n;
}

/* Bytes of a file in memory. */
struct window {
    uint32_t file;
    uint64_t from, len;
    uint8_t bytes[TAILS];
};

/* *tail: behind extent e, in the window. */
static int find_tail(struct checks *c, struct stk_reader *r, const struct stk_extent *e,
                     struct window *w, const uint8_t **tail, struct stk_err *err)
{
    uint64_t at = e->offset + e->length, size = c->ds.format->tail;
    const struct stk_index_file *f;
    const char *name;
    int rc = stk_index_file(&c->ds.index, e->file, &f, &name, err);
    if (rc == 0 && (at > f->size || f->size - at < size))
        rc = stk_err_set(err, STK_E_CORRUPT, c->ds.index.path, -1,
                         "damaged index: a record runs past its file");
    if (rc < 0)
        return rc;
    bool here = w->len && e->file == w->file && at >= w->from && at + size <= w->from + w->len;
    if (!here) {
        uint64_t most = e->length < TAILS / 2 ? TAILS : size;
        w->file = e->file;
        w->from = at;
        w->len = f->size - at < most ? f->size - at : most;
        rc = stk_reader_range(r, e->file, at, w->len, w->bytes, err);
    }
    *tail = w->bytes + (at - w->from);
    return rc;
}

/* The same for records of a segment: their own checksums, which readers compare with their data. */
static int64_t take_batch(struct checks *c, struct stk_reader *r, const struct stk_segment *seg,
                          uint64_t first, uint64_t end, struct window *w, struct stk_err *err)
{
    uint32_t check[BATCH_SAMPLES];
    uint64_t extent = seg->first_extent + (first - seg->first_sample);
    uint64_t most = seg->first_sample + seg->nsamples;
    size_t n = 0;
    int rc = 0;
    for (; rc == 0 && n < BATCH_SAMPLES && first + n < end && first + n < most; n++) {
        struct stk_extent e;
        const uint8_t *tail;
        rc = stk_index_extent(&c->ds.index, extent + n, &e, err);
        if (rc == 0)
            rc = find_tail(c, r, &e, w, &tail, err);
        if (rc == 0)
            check[n] = c->ds.format->sum(tail);
    }
    if (rc == 0)
        rc = stk_pwrite_full(c->fd, check, n * sizeof *check, first * sizeof *check, stk_tmpdir(),
                             err);
    return rc < 0 ? rc : (int64_t)n;
}

static int sum_item(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct checks *c = user;
    uint64_t first = item * ITEM_SAMPLES, all = c->ds.index.h->nsamples;
    uint64_t end = first + ITEM_SAMPLES < all ? first + ITEM_SAMPLES : all;
    int rc = c->reader[thread] ? 0 : stk_reader_new(&c->ds, &c->reader[thread], err);
    struct window w;
    w.len = 0;
    while (rc == 0 && first < end) {
        struct stk_reader *r = c->reader[thread];
        const struct stk_segment *seg = stk_index_segment(&c->ds.index, first);
        int64_t n = c->ds.format->sum && seg && seg->kind == STK_SEG_WHOLE
                        ? take_batch(c, r, seg, first, end, &w, err)
                        : sum_batch(c, r, first, end, err);
        rc = n < 0 ? (int)n : c->report(c->user, err);
        first += n < 0 ? 0 : (uint64_t)n;
    }
    return rc;
}

static int sum_all(struct checks *c, struct stk_err *err)
{
    uint64_t n = c->ds.index.h->nsamples;
    c->fd = stk_nameless_file(NULL, err);
    if (c->fd < 0)
        return c->fd;
    return stk_pool_run(c->jobs, (n + ITEM_SAMPLES - 1) / ITEM_SAMPLES, sum_item, c, err);
}

int stk_checks_add(const struct stk_walk *w, unsigned jobs, stk_checks_report *report, void *user,
                   int fd, const char *path, struct stk_err *err)
{
    struct checks c = {.report = report,
                       .user = user,
                       .jobs = jobs ? jobs : stk_cpus(),
                       .ds.format = w->format,
                       .fd = -1};
    int rc = stk_index_open_fd(fd, path, &c.ds.index, err);
    if (rc < 0)
        return rc;
    uint64_t n = c.ds.index.h->nsamples;
    c.ds.files = (struct stk_files){.rootfd = w->rootfd, .root = w->root, .outside = w->outside};
    stk_dataset_list_files(&c.ds);
    c.reader = calloc(c.jobs, sizeof *c.reader);
    if (!c.reader)
        rc = stk_err_nomem(err, c.jobs * sizeof *c.reader);
    if (rc == 0 && n)
        rc = sum_all(&c, err);
    for (unsigned i = 0; c.reader && i < c.jobs; i++)
        stk_reader_free(c.reader[i]);
    free(c.reader);
    stk_index_close(&c.ds.index);
    if (rc == 0)
        rc = stk_index_seal(fd, path, c.fd, n, err);
    if (c.fd >= 0)
        close(c.fd);
    return rc;
}

/* ---- of members of a zip --------------------------------------------------------------------- */

/* Compares the checksums that a zip has of its members. */

#define STEP (1u << 20)

static int crc_of_range(int fd, const struct stk_extent *e, uint32_t *crc, const char *path,
                        struct stk_err *err)
{
    uint8_t *buf = malloc(STEP);
    int rc = buf ? 0 : stk_err_nomem(err, STEP);
    uint64_t at = 0;
    *crc = 0;
    while (rc == 0 && at < e->length) {
        size_t want = e->length - at < STEP ? (size_t)(e->length - at) : STEP, got;
        rc = stk_pread_full(fd, buf, want, e->offset + at, &got, path, err);
        if (rc == 0 && !got)
            rc = stk_err_set(err, STK_E_CORRUPT, path, (int64_t)(e->offset + at),
                             "the file became shorter");
        *crc = rc == 0 ? (uint32_t)crc32(*crc, buf, (uInt)got) : 0;
        at += rc == 0 ? got : 0;
    }
    free(buf);
    return rc;
}

/* Decoding compares it. */
static int decode(const struct stk_dataset *ds, int fd, uint64_t number, const struct stk_extent *e,
                  const char *path, struct stk_err *err)
{
    struct stk_buf in = STK_BUF_INIT, out = STK_BUF_INIT, scratch = STK_BUF_INIT;
    size_t got = 0;
    int rc = stk_buf_extend(&in, (size_t)e->length + 1) ? 0 : stk_err_nomem(err, e->length);
    if (rc == 0)
        rc = stk_pread_full(fd, in.data, (size_t)e->length, e->offset, &got, path, err);
    if (rc == 0 && got < e->length)
        rc = stk_err_set(err, STK_E_CORRUPT, path, (int64_t)(e->offset + got),
                         "the file became shorter");
    if (rc == 0)
        rc = stk_fetch_decode(ds, number, e, in.data, &out, &scratch, err);
    stk_buf_release(&in);
    stk_buf_release(&out);
    stk_buf_release(&scratch);
    return rc;
}

static int check(const struct stk_dataset *ds, const struct stk_index_crc *c, bool stored,
                 uint64_t *bytes, struct stk_err *err)
{
    struct stk_extent e;
    struct stk_file f;
    uint32_t crc = c->crc32;
    int rc = stk_index_extent(&ds->index, c->extent, &e, err);
    if (rc < 0 || (stored && e.chain))
        return rc;
    rc = stk_file_open(&ds->files, e.file, STK_FILE_PLAIN, &f, err);
    if (rc < 0)
        return rc;
    char *path = stk_files_path(&ds->files, e.file);
    rc = e.chain ? decode(ds, f.fd, c->extent, &e, path, err)
                 : crc_of_range(f.fd, &e, &crc, path, err);
    stk_file_close(&f);
    *bytes += rc == 0 ? e.length : 0;
    if (rc == 0 && crc != c->crc32)
        rc = stk_err_set(err, STK_E_CORRUPT, path, (int64_t)e.offset,
                         "the data's checksum does not match");
    free(path);
    return rc;
}

int stk_crcs_check(const struct stk_dataset *ds, bool stored, uint64_t *bytes,
                   void (*problem)(void *user, const struct stk_err *what), void *user,
                   struct stk_err *err)
{
    const struct stk_index_crc *c = ds->index.table[STK_T_CRCS];
    int rc = stk_index_touch(&ds->index, STK_T_CRCS, err);
    for (uint64_t i = 0; rc == 0 && i < stk_index_count(&ds->index, STK_T_CRCS); i++) {
        struct stk_err why = {0};
        rc = check(ds, &c[i], stored, bytes, &why);
        if (rc < 0 && stk_is_finding(rc)) {
            problem(user, &why);
            rc = 0;
        } else if (rc < 0 && err) {
            *err = why;
        }
    }
    return rc;
}
