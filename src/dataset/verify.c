/*
 * verify.c - lists a dataset again, reads and decodes every sample, and compares the result with
 * the manifest and the published index. Trusts neither.
 */
#include "dataset/verify.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/own.h"
#include "base/pool.h"
#include "host/cpus.h"
#include "dataset/priv.h"
#include "dataset/fetch.h"
#include "dataset/checksum.h"
#include "dataset/reader.h"
#include "base/buf.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <errno.h>

/* ---- sidecars -------------------------------------------------------------------------------- */

/* Compares sidecars with the records of their files: lines of a number and an offset. stoker finds
 * records by itself; another program would miss those that are not in the list, and read garbage
 * where none begins. */

#define SIDECAR_MAX (1u << 30)

/* The records of one file. */
struct records {
    uint64_t *start;
    size_t n;
};

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int compare(const struct records *r, const struct stk_buf *text, const char *path,
                   struct stk_err *err)
{
    const char *at = (const char *)text->data, *end = at + text->len;
    uint64_t lines = 0;
    for (const char *next; at < end; at = next) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        next = line ? line + 1 : end;
        const char *tab = memchr(at, '\t', (size_t)(next - at));
        if (next - at <= 1)
            continue;
        lines++;
        char number[24];
        snprintf(number, sizeof number, "%.*s", tab ? (int)(next - tab - 1) : 0,
                 tab ? tab + 1 : "");
        char *stop;
        uint64_t off = strtoull(number, &stop, 10);
        if (stop == number || !bsearch(&off, r->start, r->n, sizeof off, by_value))
            return stk_err_set(err, STK_E_CORRUPT, path, at - (const char *)text->data,
                               "line %llu: no record begins where it says",
                               (unsigned long long)lines);
    }
    if (lines != r->n)
        return stk_err_set(err, STK_E_CORRUPT, path, -1,
                           "it lists %llu of the %llu records: programs that read by it miss the "
                           "others",
                           (unsigned long long)lines, (unsigned long long)r->n);
    return 0;
}

/* The name of the sidecar of a file, malloc'ed; NULL: the file has another ending. */
static char *side_name(const struct stk_format *f, const struct stk_files_entry *e)
{
    size_t n = strlen(f->suffix), stem = e->name_len - (e->name_len < n ? 0 : n);
    char *name = NULL;
    if (e->name_len <= n || memcmp(e->name + stem, f->suffix, n) != 0 ||
        asprintf(&name, "%.*s%s", (int)stem, e->name, f->sidecar) < 0)
        return NULL;
    return name;
}

static int check_sidecar(const struct stk_dataset *ds, uint64_t file, const struct records *r,
                      struct stk_err *err)
{
    struct stk_files_entry e;
    struct stk_buf text = STK_BUF_INIT;
    uint64_t size;
    int rc = ds->files.entry(ds->files.list, file, &e, err);
    char *name = rc == 0 ? side_name(ds->format, &e) : NULL;
    char *path = name ? stk_path_join(ds->files.root, name) : NULL;
    struct stk_err why = {0};
    int fd = path ? stk_file_open_at(ds->files.rootfd, ds->files.outside, name, path, &size, &why)
                  : -1;
    if (fd >= 0)
        rc = stk_read_fd(fd, SIDECAR_MAX, &text, path, &why);
    else if (path && why.sys_errno != ENOENT)
        rc = why.code;
    if (rc == 0 && fd >= 0)
        rc = compare(r, &text, path, &why);
    if (rc < 0 && err)
        *err = why;
    if (fd >= 0)
        close(fd);
    stk_buf_release(&text);
    free(path);
    free(name);
    return rc;
}

int stk_sidecars_check(const struct stk_dataset *ds, stk_sidecar_problem *problem, void *user,
                       struct stk_err *err)
{
    struct records r = {0};
    uint64_t n = ds->index.h->nextents;
    int rc = 0;
    /* A record in several parts (its data has the magic number in it) has more extents than one. */
    bool records = ds->format->sidecar && n == ds->index.h->nsamples;
    for (uint64_t i = 0; records && rc == 0 && i < n; i++) {
        struct stk_extent e, next = {0};
        struct stk_err why = {0};
        rc = stk_index_extent(&ds->index, i, &e, err);
        if (rc == 0 && i + 1 < n)
            rc = stk_index_extent(&ds->index, i + 1, &next, err);
        if (rc == 0)
            rc = STK_ARRAY_MORE(r.start, r.n, err);
        if (rc < 0)
            break;
        r.start[r.n++] = e.offset - ds->format->head;
        if (i + 1 < n && next.file == e.file)
            continue;
        if (check_sidecar(ds, e.file, &r, &why) < 0)
            problem(user, &why);
        r.n = 0;
    }
    free(r.start);
    return rc;
}

#define CHUNK_BYTES   (4u << 20)
#define CHUNK_SAMPLES 4096u

struct verify {
    const struct stk_open_options *open;
    struct stk_verify_result *r;
    struct stk_dataset *ds;
    struct stk_index published; /* index of a packed dataset, while it is open */
    struct stk_checker checker; /* of records, while they are listed */
    int top;                    /* the folder of a packed dataset, while its files are checked */
    unsigned jobs;
    uint64_t chunk_bytes;
    struct worker_state *worker;
    pthread_mutex_t lock; /* protects what follows, and the result's problems */
    uint64_t next;        /* next sample to assign */
    uint64_t bytes_done, bytes_total;
    double last_progress;
};

struct worker_state {
    struct stk_reader *reader;
    struct stk_sample sample;
    struct stk_buf ids;
};

static void coded_problem(struct verify *v, int code, const char *path, int64_t offset,
                          const char *what)
{
    pthread_mutex_lock(&v->lock);
    stk_problems_add_code(&v->r->problems, code, path, offset, what);
    pthread_mutex_unlock(&v->lock);
}

static void problem(struct verify *v, const char *path, int64_t offset, const char *what)
{
    coded_problem(v, STK_E_CORRUPT, path, offset, what);
}

/* Reports a problem of a file that the manifest names. */
static void manifest_problem(struct verify *v, const char *name, int64_t offset, const char *what)
{
    char *path = stk_path_join(v->ds->path, name);
    problem(v, path ? path : name, offset, what);
    free(path);
}

static int progress(struct verify *v, uint64_t bytes, struct stk_err *err)
{
    int stop = 0;
    pthread_mutex_lock(&v->lock);
    v->bytes_done += bytes;
    double now = stk_now();
    const struct stk_open_options *o = v->open;
    if (o->progress && now - v->last_progress > 0.1) {
        v->last_progress = now;
        stop = o->progress(o->user, v->bytes_done, v->bytes_total, v->next);
    }
    pthread_mutex_unlock(&v->lock);
    return stop ? stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped") : 0;
}

static void on_problem(void *user, const struct stk_err *what)
{
    coded_problem(user, what->code, what->path, what->offset, what->what);
}

/* ---- samples ---- */

/* True when the sample is a plain record that was checked when it was listed. */
static bool is_checked(const struct verify *v, uint64_t i)
{
    const struct stk_segment *seg = stk_index_segment(&v->ds->index, i);
    struct stk_extent e;
    return v->ds->format->check && (v->ds->format->caps & STK_CAN_STREAM) && seg &&
           seg->kind == STK_SEG_WHOLE &&
           stk_index_extent(&v->ds->index, seg->first_extent + (i - seg->first_sample), &e, NULL) ==
               0 &&
           !e.chain && stk_checker_saw_all(&v->checker, e.file);
}

static int take_chunk(struct verify *v, struct worker_state *w, uint64_t *bytes,
                      struct stk_err *err)
{
    uint64_t n = stk_dataset_len(v->ds);
    int rc = 0;
    *bytes = 0;
    stk_buf_reset(&w->ids);
    pthread_mutex_lock(&v->lock);
    while (rc == 0 && v->next < n && *bytes < v->chunk_bytes && w->ids.len / 8 < CHUNK_SAMPLES) {
        uint64_t one;
        if (is_checked(v, v->next)) {
            v->next++;
            continue;
        }
        rc = stk_index_sample_bytes(&v->ds->index, v->next, &one, err);
        *bytes += one;
        stk_buf_put(&w->ids, &v->next, sizeof v->next);
        v->next++;
    }
    pthread_mutex_unlock(&v->lock);
    return rc < 0 ? rc : stk_buf_check(&w->ids, err);
}

static int check_samples(struct verify *v, struct worker_state *w, struct stk_err *err)
{
    for (;;) {
        uint64_t bytes;
        int rc = take_chunk(v, w, &bytes, err);
        size_t n = w->ids.len / 8;
        if (rc < 0 || !n)
            return rc;
        rc = stk_reader_batch(w->reader, (const void *)w->ids.data, n, err);
        for (size_t i = 0; rc == 0 && i < n; i++) {
            struct stk_err why = {0};
            int one = stk_reader_get(w->reader, i, &w->sample, &why);
            if (one < 0 && stk_is_finding(one))
                coded_problem(v, one, why.path, why.offset, why.what);
            else if (one < 0) {
                if (err)
                    *err = why;
                rc = one;
            }
        }
        if (rc == 0)
            rc = progress(v, bytes, err);
        if (rc < 0)
            return rc;
    }
}

static int work(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct verify *v = user;
    struct worker_state w = {0};
    (void)item, (void)thread;
    stk_sample_init(&w.sample);
    int rc = stk_reader_new(v->ds, &w.reader, err);
    if (rc == 0)
        rc = check_samples(v, &w, err);
    stk_reader_free(w.reader);
    stk_sample_release(&w.sample);
    stk_buf_release(&w.ids);
    return rc;
}

/* Bytes whose checksum is compared when they are decoded. A gzip file was decoded as a whole, to
 * its checksum, when it was listed. */
static int count_summed(struct verify *v, struct stk_err *err)
{
    const struct stk_index *idx = &v->ds->index;
    const struct stk_chain *c = idx->table[STK_T_CHAINS];
    uint64_t nchains = stk_index_count(idx, STK_T_CHAINS);
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && nchains && i < stk_index_count(idx, STK_T_EXTENTS); i++) {
        struct stk_extent e;
        rc = stk_index_extent(idx, i, &e, err);
        const struct stk_chain *x = rc == 0 && e.chain ? &c[e.chain - 1] : NULL;
        if (x && (stk_fetch_is_summed(idx, x) || x->step[0].id == STK_FILTER_RESUME))
            v->r->checksummed_bytes += e.length;
    }
    return rc;
}

/* ---- manifest and index ---- */

static int check_file(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct verify *v = user;
    const struct stk_manifest *m = &v->ds->manifest;
    const struct stk_manifest_file *f =
        item < m->nshards ? &m->shard[item] : &m->other[item - m->nshards];
    struct stk_err why = {0};
    uint64_t size = 0;
    (void)thread;
    char *path = stk_path_join(v->ds->path, f->name);
    if (!path)
        return stk_err_nomem(err, strlen(f->name));
    int rc = stk_content_compare(v->top, v->open->follow_links, f, path, &size, &why);
    free(path);
    if (rc < 0)
        manifest_problem(v, f->name, why.offset, why.what);
    pthread_mutex_lock(&v->lock);
    v->r->checksummed_bytes += size;
    pthread_mutex_unlock(&v->lock);
    return progress(v, 0, err);
}

/* True for an index of another version of stoker: then the manifest's checksum must suffice. */
static bool of_another_version(const char *path)
{
    struct stk_index_header h = {0};
    size_t got = 0;
    int fd;
    if (stk_read_open(AT_FDCWD, path, 0, &fd, NULL, path, NULL) == 0) {
        (void)stk_pread_full(fd, &h, offsetof(struct stk_index_header, file_size), 0, &got, path,
                             NULL);
        close(fd);
    }
    return got && memcmp(h.magic, STK_INDEX_MAGIC, 8) == 0 && h.version < STK_INDEX_VERSION;
}

/* The published index must match the files. Then its checksums of samples are compared as they are
 * read. */
static void check_published_index(struct verify *v)
{
    static const enum stk_table same[] = {STK_T_EXTENTS, STK_T_SEGMENTS, STK_T_COLUMNS,
                                          STK_T_ROWS,    STK_T_PARTS,    STK_T_KEYS};
    const struct stk_index *idx = &v->published;
    struct stk_err why = {0};
    char *path = stk_path_join(v->ds->path, STK_INDEX_NAME);
    int rc = path ? stk_index_open(path, &v->published, &why) : STK_E_NOMEM;
    bool other = rc < 0 && path && of_another_version(path);
    free(path);
    if (other)
        return;
    if (rc < 0) {
        manifest_problem(v, STK_INDEX_NAME, -1, why.what);
        return;
    }
    if (stk_index_check(idx, &why) < 0) {
        manifest_problem(v, STK_INDEX_NAME, -1, why.what);
        return;
    }
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (idx->h->table[same[i]].hash != v->ds->index.h->table[same[i]].hash) {
            manifest_problem(v, STK_INDEX_NAME, -1, "the index does not match these files");
            return;
        }
    v->ds->checks = idx;
}

/* Of files or folders, which have other inodes in a copy. */
static bool same_but_inodes(const struct stk_index *a, const struct stk_index *b, enum stk_table t)
{
    _Static_assert(offsetof(struct stk_index_file, inode) ==
                       offsetof(struct stk_index_dir, inode),
                   "one place");
    const size_t at = offsetof(struct stk_index_file, inode), after = at + sizeof(uint32_t);
    size_t n = a->h->table[t].elem;
    const uint8_t *x = a->table[t], *y = b->table[t];
    if (stk_index_count(a, t) != stk_index_count(b, t) || stk_index_touch(a, t, NULL) < 0 ||
        stk_index_touch(b, t, NULL) < 0)
        return false;
    for (uint64_t i = 0; i < stk_index_count(a, t); i++, x += n, y += n)
        if (memcmp(x, y, at) != 0 || memcmp(x + after, y + after, n - after) != 0)
            return false;
    return true;
}

static bool says_the_same(const struct stk_index *a, const struct stk_index *b)
{
    const struct stk_index_header *x = a->h, *y = b->h;
    for (int t = 0; t < STK_T_COUNT; t++)
        if (t != STK_T_SUMS && t != STK_T_CHECKS && x->table[t].hash != y->table[t].hash &&
            ((t != STK_T_FILES && t != STK_T_DIRS) || !same_but_inodes(a, b, (enum stk_table)t)))
            return false;
    return x->nsamples == y->nsamples && x->nextents == y->nextents && x->flags == y->flags &&
           x->compress == y->compress && strcmp(x->payload, y->payload) == 0;
}

/* Checks an index that a user who opens the dataset may find. */
static void check_found(void *user, const struct stk_index *idx, const char *path, uid_t owner)
{
    struct verify *v = user;
    struct stk_err why = {0};
    char who[64], what[160];
    if (v->ds->has_manifest && strcmp(stk_base_name(path), STK_INDEX_NAME) == 0)
        return; /* the packed index is checked more closely */
    if (stk_index_check(idx, &why) < 0) {
        problem(v, path, -1, why.what);
    } else if (!says_the_same(idx, &v->ds->index)) {
        snprintf(what, sizeof what,
                 "the index does not match the files (it belongs to %s): remove it",
                 stk_user_name(owner, who));
        problem(v, path, -1, what);
    }
}

/* With damaged data no index can match. */
static int check_found_indexes(struct verify *v, struct stk_err *err)
{
    return v->ds->problems.count ? 0 : stk_dataset_published(v->ds, v->open, check_found, v, err);
}

static int check_manifest(struct verify *v, struct stk_err *err)
{
    const struct stk_manifest *m = &v->ds->manifest;
    char what[160];
    v->r->has_manifest = v->ds->has_manifest;
    if (!v->ds->has_manifest)
        return 0;
    v->top = open(v->ds->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (v->top < 0)
        return stk_err_sys(err, v->ds->path, "open folder");
    int rc = stk_pool_run(v->jobs, m->nshards + m->nother, check_file, v, err);
    close(v->top);
    if (rc < 0)
        return rc;
    if (m->samples != stk_dataset_len(v->ds)) {
        snprintf(what, sizeof what, "%llu samples are there, the manifest says %llu",
                 (unsigned long long)stk_dataset_len(v->ds), (unsigned long long)m->samples);
        manifest_problem(v, STK_MANIFEST_NAME, -1, what);
    }
    uint64_t in_shards = 0;
    for (size_t i = 0; i < m->nshards; i++)
        in_shards += m->shard[i].samples;
    if (in_shards != m->samples)
        problem(v, STK_MANIFEST_NAME, -1, "the shards' numbers of samples do not add up");
    check_published_index(v);
    return 0;
}

/* ---- the whole ---- */

static int verify_opened(struct verify *v, struct stk_err *err)
{
    const struct stk_index_header *h = v->ds->index.h;
    struct stk_verify_result *r = v->r;
    snprintf(r->format, sizeof r->format, "%s", v->ds->format->name);
    r->files = h->nfiles;
    r->samples = h->nsamples;
    r->bytes = h->bytes_stored;
    v->bytes_total = h->bytes_samples;
    stk_problems_join(&r->problems, &v->ds->problems);
    if (v->ds->format->caps & STK_CAN_SUM)
        r->checksummed_bytes += h->bytes_samples;
    int rc = stk_notes_join(&r->notes, &v->ds->notes, err);
    if (rc == 0)
        rc = count_summed(v, err);
    if (rc == 0)
        rc = check_manifest(v, err);
    if (rc == 0)
        rc = check_found_indexes(v, err);
    if (rc == 0)
        rc = stk_sidecars_check(v->ds, on_problem, v, err);
    if (rc == 0)
        rc = stk_pool_run(v->jobs, v->jobs, work, v, err);
    rc = rc < 0 ? rc : stk_crcs_check(v->ds, false, &r->checksummed_bytes, on_problem, v, err);
    /* Several of them may cover the same bytes. */
    r->checksummed_bytes = r->checksummed_bytes < r->bytes ? r->checksummed_bytes : r->bytes;
    return rc;
}

void stk_verify_release(struct stk_verify_result *r)
{
    stk_problems_release(&r->problems);
    stk_notes_release(&r->notes);
}

int stk_verify_all(const char *path, const struct stk_open_options *open,
                   const struct stk_verify_options *o, struct stk_verify_result *r,
                   struct stk_err *err)
{
    struct verify v = {.open = open, .r = r, .chunk_bytes = CHUNK_BYTES};
    double start = stk_now();
    *r = (struct stk_verify_result){0};
    pthread_mutex_init(&v.lock, NULL);
    v.jobs = open->jobs ? open->jobs : stk_cpus();
    if (o->memory_bytes && o->memory_bytes / (2 * v.jobs) < v.chunk_bytes)
        v.chunk_bytes = o->memory_bytes / (2 * v.jobs);
    stk_checker_init(&v.checker, on_problem, &v);
    struct stk_err why = {0};
    int rc = stk_dataset_open_checked(path, open, &v.checker, &v.ds, &why);
    if (rc == 0)
        rc = verify_opened(&v, err);
    else if (rc == STK_E_CORRUPT) /* what describes the dataset is damaged: found, not failed */
        on_problem(&v, &why);
    else if (err)
        *err = why;
    rc = rc == STK_E_CORRUPT && !v.ds ? 0 : rc;
    stk_problems_sort(&r->problems);
    r->seconds = stk_now() - start;
    stk_checker_release(&v.checker);
    stk_dataset_close(v.ds);
    stk_index_close(&v.published);
    pthread_mutex_destroy(&v.lock);
    return rc;
}
