/* index.c - opening an index and looking things up in it, every entry checked when it is used. */
#include "dataset/priv.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/own.h"
#include "base/spool.h"
#include "format/sample.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SMALL_MAX   (1ull << 30) /* bytes of all tables that are loaded at once */
#define SAMPLES_MAX (1ull << 48) /* so that no sum of sample numbers overflows */
#define SIZE_MOST   (1ull << 40) /* of a file: its blocks' checksums are kept */
#define AHEAD       (1u << 20)   /* an index up to this size is asked for as a whole */

static const uint32_t elem_size[STK_T_COUNT] = {
    [STK_T_FILES] = sizeof(struct stk_index_file),
    [STK_T_NAMES] = 1,
    [STK_T_DIRS] = sizeof(struct stk_index_dir),
    [STK_T_EXTENTS] = sizeof(struct stk_packed),
    [STK_T_SEGMENTS] = sizeof(struct stk_segment),
    [STK_T_COLUMNS] = sizeof(struct stk_index_column),
    [STK_T_ROWS] = 8,
    [STK_T_PARTS] = sizeof(struct stk_packed),
    [STK_T_KEYOFF] = 8,
    [STK_T_KEYS] = 1,
    [STK_T_FIELDS] = sizeof(struct stk_index_field),
    [STK_T_FIELDNAMES] = 1,
    [STK_T_CHAINS] = sizeof(struct stk_chain),
    [STK_T_POINTS] = sizeof(struct stk_index_point),
    [STK_T_WINDOWS] = 1,
    [STK_T_CRCS] = sizeof(struct stk_index_crc),
    [STK_T_CONTEXT] = 1,
    [STK_T_SUMS] = 8,
    [STK_T_CHECKS] = 4,
    [STK_T_NOTES] = 1,
};

static int check_table(const struct stk_index *idx, int t, struct stk_err *err)
{
    uint64_t bytes, end, off = idx->h->table[t].off;
    uint64_t limit = t == STK_T_SUMS ? idx->size : idx->h->table[STK_T_SUMS].off;
    if (idx->h->table[t].elem != elem_size[t] || off % STK_INDEX_ALIGN || off < STK_INDEX_TABLES ||
        __builtin_mul_overflow(idx->h->table[t].count, (uint64_t)elem_size[t], &bytes) ||
        __builtin_add_overflow(off, bytes, &end) || end > limit)
        return stk_index_bad(idx, err, "a table runs past its end");
    return 0;
}

/* ---- checksums ---- */

int stk_index_touch(const struct stk_index *idx, enum stk_table t, struct stk_err *err)
{
    return stk_pages_touch(idx, idx->table[t], idx->h->table[t].count * elem_size[t], err);
}

int stk_index_touch_bytes(const struct stk_index *idx, enum stk_table t, uint64_t off, uint64_t n,
                          struct stk_err *err)
{
    uint64_t room = idx->h->table[t].count;
    if (elem_size[t] != 1 || off > room || n > room - off)
        return stk_index_bad(idx, err, "a name is out of range");
    return stk_pages_touch(idx, (const uint8_t *)idx->table[t] + off, n, err);
}

/* The checksums themselves. */
static int check_sums(struct stk_index *idx, struct stk_err *err)
{
    uint64_t n = idx->h->table[STK_T_SUMS].count;
    if (n != (stk_index_summed(idx) + STK_INDEX_BLOCK - 1) / STK_INDEX_BLOCK)
        return stk_index_bad(idx, err, "it has not as many checksums as blocks");
    int rc = stk_index_read(idx, (void *)(uintptr_t)idx->table[STK_T_SUMS],
                            idx->h->table[STK_T_SUMS].off, n * 8, err);
    if (rc < 0)
        return rc;
    if (stk_hash64(idx->table[STK_T_SUMS], n * 8) != idx->h->table[STK_T_SUMS].hash)
        return stk_index_bad(idx, err, "its checksums are not right themselves");
    return stk_pages_new(idx, err);
}

/* Tables that do not grow with the number of samples are loaded at once. A sparse file can claim
 * any size in its header, and must not get that much memory. */
static int check_small(const struct stk_index *idx, struct stk_err *err)
{
    static const enum stk_table small[] = {STK_T_SEGMENTS,   STK_T_COLUMNS, STK_T_FIELDS,
                                           STK_T_FIELDNAMES, STK_T_CHAINS,  STK_T_CONTEXT,
                                           STK_T_NOTES};
    uint64_t bytes = 0;
    int rc = 0;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        bytes += idx->h->table[small[i]].count * elem_size[small[i]];
    if (bytes > SMALL_MAX)
        return stk_index_bad(idx, err, "tables that should be small are not");
    for (size_t i = 0; rc == 0 && i < sizeof small / sizeof *small; i++)
        rc = stk_index_touch(idx, small[i], err);
    return rc;
}

static bool segment_fits(const struct stk_index *idx, const struct stk_segment *seg)
{
    uint64_t nextents = idx->h->nextents, nrows = stk_index_count(idx, STK_T_ROWS);
    uint64_t ncolumns = stk_index_count(idx, STK_T_COLUMNS);
    if (seg->first_extent > nextents || seg->nextents > nextents - seg->first_extent)
        return false;
    switch (seg->kind) {
    case STK_SEG_WHOLE:
        return seg->nsamples <= seg->nextents;
    case STK_SEG_PARTS: /* one more row marks the end of the last */
        return seg->first < nrows && seg->nsamples < nrows - seg->first;
    case STK_SEG_COLUMNS:
        return seg->first <= ncolumns && seg->ncolumns <= ncolumns - seg->first;
    default:
        return false;
    }
}

/* Checks that segments cover all samples without a gap, so that other code can rely on the number
 * of samples. */
static int check_segments(const struct stk_index *idx, struct stk_err *err)
{
    const struct stk_segment *seg = idx->table[STK_T_SEGMENTS];
    uint64_t next = 0;
    for (uint64_t i = 0; i < stk_index_count(idx, STK_T_SEGMENTS); i++) {
        if (seg[i].first_sample != next || seg[i].nsamples > SAMPLES_MAX - next ||
            !segment_fits(idx, &seg[i]))
            return stk_index_bad(idx, err, "its segments contradict each other or the tables");
        next += seg[i].nsamples;
    }
    return next == idx->h->nsamples ? 0
                                    : stk_index_bad(idx, err, "its segments hold other samples");
}

/* ---- opening ---- */

uint64_t stk_index_header_hash(const struct stk_index_header *h)
{
    struct stk_index_header copy = *h;
    copy.header_hash = 0;
    size_t n = h->version < 6   ? offsetof(struct stk_index_header, changed_ns)
               : h->version < 7 ? offsetof(struct stk_index_header, own_inode)
                                : sizeof copy;
    return stk_hash64(&copy, n);
}

static int check_header(struct stk_index *idx, struct stk_err *err)
{
    struct stk_index_header copy;
    if (idx->size < sizeof copy || memcmp(idx->h->magic, STK_INDEX_MAGIC, 8) != 0)
        return stk_err_set(err, STK_E_CORRUPT, idx->path, -1, "not a stoker index");
    memcpy(&copy, idx->h, sizeof copy);
    if (copy.version < STK_INDEX_OLDEST || copy.version > STK_INDEX_VERSION ||
        copy.ntables != STK_T_COUNT)
        return stk_err_set(err, STK_E_CORRUPT, idx->path, -1,
                           "an index of version %u, this stoker reads %u to %u", copy.version,
                           STK_INDEX_OLDEST, STK_INDEX_VERSION);
    if (copy.header_hash != stk_index_header_hash(&copy) || copy.file_size != idx->size)
        return stk_index_bad(idx, err, "its header's checksum or size does not match");
    const struct stk_index_header *h = idx->h;
    int rc = 0;
    for (int t = 0; rc == 0 && t < STK_T_COUNT; t++) {
        rc = check_table(idx, t, err);
        if (rc == 0)
            idx->table[t] = (const uint8_t *)h + h->table[t].off;
    }
    uint64_t nkeys = h->table[STK_T_KEYOFF].count, nchecks = h->table[STK_T_CHECKS].count;
    if (rc == 0 &&
        (h->nfiles != h->table[STK_T_FILES].count || h->nfiles > STK_MAX_FILES ||
         h->nextents != h->table[STK_T_EXTENTS].count || (nkeys && nkeys != h->nsamples + 1) ||
         (nchecks && nchecks != h->nsamples) || memchr(h->format, 0, sizeof h->format) == NULL ||
         memchr(h->payload, 0, sizeof h->payload) == NULL))
        rc = stk_index_bad(idx, err, "its counts contradict each other");
    if (rc == 0)
        rc = check_sums(idx, err);
    if (rc == 0)
        rc = check_small(idx, err);
    return rc < 0 ? rc : check_segments(idx, err);
}

/* Reserves room for the whole file; only loaded blocks use memory. */
static int make_room(struct stk_index *idx, uint64_t size, struct stk_err *err)
{
    uint8_t *p = mmap(NULL, STK_INDEX_LEAD + (size_t)size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return stk_err_nomem(err, size);
    idx->h = (const void *)(p + STK_INDEX_LEAD);
    idx->size = (size_t)size;
    return 0;
}

static int open_index(struct stk_index *idx, int fd, const char *path, struct stk_err *err)
{
    struct stat sb;
    if (fstat(fd, &sb) < 0)
        return stk_err_sys(err, path, "stat");
    uint64_t size = (uint64_t)sb.st_size;
    if (size < STK_INDEX_TABLES || size > SIZE_MOST)
        return stk_err_set(err, STK_E_CORRUPT, path, -1, "not a stoker index");
    idx->path = strdup(path);
    idx->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (!idx->path || idx->fd < 0)
        return idx->path ? stk_err_sys(err, path, "open") : stk_err_nomem(err, strlen(path));
    if (size <= AHEAD) /* one round trip instead of one for each table */
        (void)posix_fadvise(fd, 0, (off_t)size, POSIX_FADV_WILLNEED);
    int rc = make_room(idx, size, err);
    if (rc == 0)
        rc = stk_index_read(idx, (void *)(uintptr_t)idx->h, 0, STK_INDEX_TABLES, err);
    return rc < 0 ? rc : check_header(idx, err);
}

int stk_index_open_fd(int fd, const char *path, struct stk_index *idx, struct stk_err *err)
{
    *idx = (struct stk_index){.fd = -1, .pid = getpid()};
    int rc = open_index(idx, fd, path, err);
    if (rc < 0)
        stk_index_close(idx);
    return rc;
}

int stk_index_open(const char *path, struct stk_index *idx, struct stk_err *err)
{
    int fd, rc = stk_read_open(AT_FDCWD, path, 0, &fd, NULL, path, err);
    *idx = (struct stk_index){0};
    if (rc < 0)
        return rc;
    rc = stk_index_open_fd(fd, path, idx, err);
    close(fd);
    return rc;
}

void stk_index_close(struct stk_index *idx)
{
    if (idx->h)
        munmap((uint8_t *)(uintptr_t)idx->h - STK_INDEX_LEAD, STK_INDEX_LEAD + idx->size);
    if (idx->path && idx->fd >= 0) /* one that was never opened is all zeros */
        close(idx->fd);
    stk_pages_free(idx->pages);
    free(idx->path);
    *idx = (struct stk_index){0};
}

int stk_index_check(const struct stk_index *idx, struct stk_err *err)
{
    int rc = 0;
    for (enum stk_table t = 0; rc == 0 && t < STK_T_COUNT; t++)
        if (t != STK_T_SUMS) /* read at opening */
            rc = stk_index_touch(idx, t, err);
    if (rc < 0)
        return rc;
    for (int t = 0; t < STK_T_COUNT; t++)
        if (stk_hash64(idx->table[t], idx->h->table[t].count * elem_size[t]) !=
            idx->h->table[t].hash)
            return stk_index_bad(idx, err, "a table's checksum does not match");
    return 0;
}

/* ---- checksums of samples ---- */

int stk_index_sample_check(const struct stk_index *idx, uint64_t s, uint32_t *crc,
                           struct stk_err *err)
{
    uint64_t n = stk_index_count(idx, STK_T_CHECKS);
    if (s >= n)
        return n ? stk_index_bad(idx, err, "a sample's number is out of range") : 0;
    uint64_t word = 0; /* of two checksums: the table has room for one after the last */
    int rc = stk_pages_copy(idx, (const uint64_t *)idx->table[STK_T_CHECKS] + s / 2, 1, &word, err);
    memcpy(crc, (const uint8_t *)&word + s % 2 * sizeof *crc, sizeof *crc);
    return rc < 0 ? rc : 1;
}

/* Fills a block's part of the checksums from `checks`; *at, *n: the bytes that changed. */
static int fill_block(const struct stk_index *idx, uint64_t b, int checks, uint8_t *block,
                      size_t *at, size_t *n, struct stk_err *err)
{
    uint64_t from = STK_INDEX_TABLES + b * STK_INDEX_BLOCK, off = idx->h->table[STK_T_CHECKS].off;
    uint64_t end = off + idx->h->table[STK_T_CHECKS].count * sizeof(uint32_t);
    size_t size = stk_index_block_size(idx, b), got = 0;
    uint64_t first = off > from ? off : from, last = end < from + size ? end : from + size;
    *at = (size_t)(first - from);
    *n = (size_t)(last - first);
    int rc = *n < size ? stk_pages_touch(idx, (const uint8_t *)idx->h + from, size, err) : 0;
    if (rc == 0 && *n < size)
        memcpy(block, (const uint8_t *)idx->h + from, size);
    if (rc == 0)
        rc = stk_pread_full(checks, block + *at, *n, first - off, &got, stk_tmpdir(), err);
    if (rc == 0 && got < *n)
        rc = stk_err_set(err, STK_E_SYS, stk_tmpdir(), -1, "a temporary file became shorter");
    return rc;
}

/* Writes the table block by block; *hash: of the whole table; `sum`: checksums of the blocks. */
static int seal_blocks(const struct stk_index *idx, int fd, int checks, uint64_t *sum,
                       uint64_t *hash, struct stk_err *err)
{
    uint64_t first = idx->h->table[STK_T_CHECKS].off - STK_INDEX_TABLES;
    uint64_t bytes = idx->h->table[STK_T_CHECKS].count * sizeof(uint32_t);
    uint8_t *block = malloc(STK_INDEX_BLOCK);
    struct stk_hash h;
    int rc = block ? 0 : stk_err_nomem(err, STK_INDEX_BLOCK);
    stk_hash_init(&h);
    for (uint64_t b = first / STK_INDEX_BLOCK;
         rc == 0 && b <= (first + bytes - 1) / STK_INDEX_BLOCK; b++) {
        size_t at, n;
        rc = fill_block(idx, b, checks, block, &at, &n, err);
        if (rc == 0) {
            stk_hash_update(&h, block + at, n);
            sum[b] = stk_hash64(block, stk_index_block_size(idx, b));
            rc = stk_pwrite_full(fd, block + at, n, STK_INDEX_TABLES + b * STK_INDEX_BLOCK + at,
                                 idx->path, err);
        }
    }
    *hash = stk_hash_final(&h);
    free(block);
    return rc;
}

/* Writes the table, its blocks, and their checksums. Changes and writes the in-memory sums and
 * header: the file is not trusted meanwhile. */
static int seal(struct stk_index *idx, int fd, int checks, struct stk_err *err)
{
    struct stk_index_header h = *idx->h;
    uint64_t *sum = (void *)(uintptr_t)idx->table[STK_T_SUMS];
    size_t nsums = (size_t)h.table[STK_T_SUMS].count * sizeof *sum;
    int rc = seal_blocks(idx, fd, checks, sum, &h.table[STK_T_CHECKS].hash, err);
    h.table[STK_T_SUMS].hash = stk_hash64(sum, nsums);
    h.header_hash = stk_index_header_hash(&h);
    if (rc == 0)
        rc = stk_pwrite_full(fd, sum, nsums, h.table[STK_T_SUMS].off, idx->path, err);
    return rc < 0 ? rc : stk_pwrite_full(fd, &h, sizeof h, 0, idx->path, err);
}

int stk_index_seal(int fd, const char *path, int checks, uint64_t n, struct stk_err *err)
{
    struct stk_index idx;
    int rc = stk_index_open_fd(fd, path, &idx, err);
    if (rc < 0)
        return rc;
    if (stk_index_count(&idx, STK_T_CHECKS) != n)
        rc = stk_err_set(err, STK_E_CORRUPT, path, -1, "no room for the checksums of samples");
    else if (n)
        rc = seal(&idx, fd, checks, err);
    stk_index_close(&idx);
    return rc;
}

int stk_index_extent(const struct stk_index *idx, uint64_t i, struct stk_extent *e,
                     struct stk_err *err)
{
    if (i >= idx->h->nextents)
        return stk_index_bad(idx, err, "an extent's number is out of range");
    const struct stk_packed *packed = (const struct stk_packed *)idx->table[STK_T_EXTENTS] + i;
    uint64_t copy[2];
    int rc = stk_pages_copy(idx, &packed->a, 2, copy, err);
    if (rc < 0)
        return rc;
    *e = stk_extent_unpack((struct stk_packed){.a = copy[0], .b = copy[1]});
    if (e->file >= idx->h->nfiles || e->chain > stk_index_count(idx, STK_T_CHAINS))
        return stk_index_bad(idx, err, "an extent names a file or filter that is not there");
    const struct stk_index_file *f =
        &((const struct stk_index_file *)idx->table[STK_T_FILES])[e->file];
    rc = stk_pages_touch(idx, f, sizeof *f, err);
    if (rc < 0)
        return rc;
    if (e->offset > f->size || e->length > f->size - e->offset)
        return stk_index_bad(idx, err, "an extent runs past its file");
    return 0;
}

int stk_index_file(const struct stk_index *idx, uint64_t i, const struct stk_index_file **f,
                   const char **name, struct stk_err *err)
{
    if (i >= idx->h->nfiles)
        return stk_index_bad(idx, err, "a file's number is out of range");
    *f = &((const struct stk_index_file *)idx->table[STK_T_FILES])[i];
    int rc = stk_pages_touch(idx, *f, sizeof **f, err);
    if (rc < 0)
        return rc;
    uint64_t room = stk_index_count(idx, STK_T_NAMES);
    if ((*f)->name_off > room || (*f)->name_len > room - (*f)->name_off)
        return stk_index_bad(idx, err, "a file's name is out of range");
    *name = (const char *)idx->table[STK_T_NAMES] + (*f)->name_off;
    rc = stk_pages_touch(idx, *name, (*f)->name_len, err);
    if (rc < 0)
        return rc;
    /* An index that came with untrusted data must not make us read files outside of it. */
    if (!stk_key_is_safe_path(*name, (*f)->name_len))
        return stk_index_bad(idx, err, "a file's name leaves the folder");
    return 0;
}

const struct stk_index_field *stk_index_field(const struct stk_index *idx, uint64_t i,
                                              const char **name)
{
    if (i >= stk_index_count(idx, STK_T_FIELDS))
        return NULL;
    const struct stk_index_field *f =
        &((const struct stk_index_field *)idx->table[STK_T_FIELDS])[i];
    uint64_t room = stk_index_count(idx, STK_T_FIELDNAMES);
    if (f->name_off > room || f->name_len > room - f->name_off || f->ndim > STK_MAX_NDIM ||
        !memchr(f->codec, 0, sizeof f->codec) || f->kind < STK_BYTES || f->kind > STK_ARRAY ||
        (f->kind == STK_ARRAY && !stk_dtype_is_read((enum stk_dtype)f->dtype)))
        return NULL;
    *name = (const char *)idx->table[STK_T_FIELDNAMES] + f->name_off;
    return f;
}

/* The entry with `want` as its first u64 in a table sorted by it, or NULL (also if damaged). */
static const void *find_u64(const struct stk_index *idx, enum stk_table t, uint64_t want)
{
    const uint8_t *base = idx->table[t];
    size_t lo = 0, hi = stk_index_count(idx, t);
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        uint64_t v;
        if (stk_pages_touch(idx, base + mid * elem_size[t], elem_size[t], NULL) < 0)
            return NULL;
        memcpy(&v, base + mid * elem_size[t], 8);
        if (v == want)
            return base + mid * elem_size[t];
        if (v < want)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

const struct stk_index_point *stk_index_point(const struct stk_index *idx, uint64_t extent,
                                              const uint8_t **window)
{
    const struct stk_index_point *p = find_u64(idx, STK_T_POINTS, extent);
    uint64_t room = stk_index_count(idx, STK_T_WINDOWS);
    if (!p || p->window_off > room || p->window_len > room - p->window_off)
        return NULL;
    *window = (const uint8_t *)idx->table[STK_T_WINDOWS] + p->window_off;
    return stk_pages_touch(idx, *window, p->window_len, NULL) < 0 ? NULL : p;
}

const struct stk_index_crc *stk_index_crc(const struct stk_index *idx, uint64_t extent)
{
    return stk_index_count(idx, STK_T_CRCS) ? find_u64(idx, STK_T_CRCS, extent) : NULL;
}

const struct stk_segment *stk_index_segment(const struct stk_index *idx, uint64_t s)
{
    const struct stk_segment *seg = idx->table[STK_T_SEGMENTS];
    size_t lo = 0, hi = stk_index_count(idx, STK_T_SEGMENTS);
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (s < seg[mid].first_sample)
            hi = mid;
        else if (s - seg[mid].first_sample >= seg[mid].nsamples)
            lo = mid + 1;
        else
            return &seg[mid];
    }
    return NULL;
}

/* The key of a sample in a folder: the name of the file its extent is in. */
static int file_key(const struct stk_index *idx, uint64_t s, const char **key, size_t *len,
                    struct stk_err *err)
{
    const struct stk_segment *seg = stk_index_segment(idx, s);
    struct stk_extent e;
    const struct stk_index_file *f;
    if (!seg || seg->kind != STK_SEG_WHOLE)
        return stk_index_bad(idx, err, "a sample of a folder is not a file");
    int rc = stk_index_extent(idx, seg->first_extent + (s - seg->first_sample), &e, err);
    if (rc == 0)
        rc = stk_index_file(idx, e.file, &f, key, err);
    if (rc == 0)
        *len = f->name_len;
    return rc;
}

int stk_index_key(const struct stk_index *idx, uint64_t s, const char **key, size_t *len,
                  struct stk_err *err)
{
    *key = "";
    *len = 0;
    if (idx->h->flags & STK_INDEX_KEYS_ARE_FILES)
        return file_key(idx, s, key, len, err);
    if (!stk_index_count(idx, STK_T_KEYOFF))
        return 0;
    if (s >= idx->h->nsamples)
        return stk_index_bad(idx, err, "a sample's number is out of range");
    uint64_t off[2];
    int rc = stk_pages_copy(idx, (const uint64_t *)idx->table[STK_T_KEYOFF] + s, 2, off, err);
    if (rc < 0)
        return rc;
    if (off[0] > off[1] || off[1] > stk_index_count(idx, STK_T_KEYS))
        return stk_index_bad(idx, err, "a key is out of range");
    *key = (const char *)idx->table[STK_T_KEYS] + off[0];
    *len = (size_t)(off[1] - off[0]);
    return stk_pages_touch(idx, *key, *len, err);
}

/* ---- slices ---- */

static int put_slice(const struct stk_index *idx, struct stk_buf *out, const struct stk_slice *s,
                     struct stk_err *err)
{
    if (s->field >= stk_index_count(idx, STK_T_FIELDS))
        return stk_index_bad(idx, err, "a sample has a field that is not there");
    stk_buf_put(out, s, sizeof *s);
    return stk_buf_check(out, err);
}

static int part_slices(const struct stk_index *idx, const struct stk_segment *seg, uint64_t k,
                       struct stk_buf *out, struct stk_err *err)
{
    const struct stk_packed *part = idx->table[STK_T_PARTS];
    uint64_t r = seg->first + k, nrows = stk_index_count(idx, STK_T_ROWS), row[2], copy[2];
    if (r < k || r >= nrows || r + 1 >= nrows)
        return stk_index_bad(idx, err, "a row is out of range");
    int rc = stk_pages_copy(idx, (const uint64_t *)idx->table[STK_T_ROWS] + r, 2, row, err);
    if (rc == 0 && (row[0] > row[1] || row[1] > stk_index_count(idx, STK_T_PARTS)))
        rc = stk_index_bad(idx, err, "a row is out of range");
    for (uint64_t i = row[0]; rc == 0 && i < row[1]; i++) {
        rc = stk_pages_copy(idx, &part[i].a, 2, copy, err);
        if (rc < 0)
            return rc;
        struct stk_slice s = stk_part_unpack((struct stk_packed){.a = copy[0], .b = copy[1]});
        if (s.extent >= seg->nextents && s.length)
            rc = stk_index_bad(idx, err, "a part names an extent of another file");
        s.extent += seg->first_extent;
        if (rc == 0)
            rc = put_slice(idx, out, &s, err);
    }
    return rc;
}

static int column_slices(const struct stk_index *idx, const struct stk_segment *seg, uint64_t k,
                         struct stk_buf *out, struct stk_err *err)
{
    const struct stk_index_column *c = idx->table[STK_T_COLUMNS];
    uint64_t n = stk_index_count(idx, STK_T_COLUMNS);
    if (seg->first > n || seg->ncolumns > n - seg->first)
        return stk_index_bad(idx, err, "a column is out of range");
    int rc = 0;
    /* A value has its own extent or a share of one: this bounds the number of slices. */
    uint64_t room = idx->h->nextents + seg->ncolumns;
    for (uint64_t i = seg->first; rc == 0 && i < seg->first + seg->ncolumns; i++) {
        struct stk_slice s = {.field = c[i].field, .length = c[i].length};
        uint64_t per = c[i].per_extent ? c[i].per_extent : 1, extent = k / per;
        uint64_t tiles = c[i].tiles ? c[i].tiles : 1;
        if (__builtin_mul_overflow(extent, tiles, &extent) ||
            __builtin_add_overflow(extent, c[i].first_extent, &extent) ||
            ((extent >= seg->nextents || tiles > seg->nextents - extent) &&
             (s.length || tiles > 1)))
            return stk_index_bad(idx, err, "a column names an extent of another file");
        if (tiles > room)
            return stk_index_bad(idx, err, "a column has more pieces than there are");
        room -= tiles;
        if (__builtin_mul_overflow(k % per, c[i].stride, &s.offset) ||
            __builtin_add_overflow(s.offset, c[i].base, &s.offset))
            return stk_index_bad(idx, err, "a column runs past any file's end");
        s.extent = seg->first_extent + extent;
        for (uint64_t t = 0; rc == 0 && t < tiles; t++, s.extent++)
            rc = put_slice(idx, out, &s, err);
    }
    return rc;
}

int stk_index_slices(const struct stk_index *idx, uint64_t s, struct stk_buf *out,
                     struct stk_err *err)
{
    const struct stk_segment *seg = stk_index_segment(idx, s);
    if (!seg)
        return stk_err_set(err, STK_E_USAGE, idx->path, -1, "there is no sample %llu: %llu in all",
                           (unsigned long long)s, (unsigned long long)idx->h->nsamples);
    uint64_t k = s - seg->first_sample;
    struct stk_slice whole = {
        .extent = seg->first_extent + k, .length = UINT64_MAX, .field = seg->field};
    switch (seg->kind) {
    case STK_SEG_WHOLE:
        return put_slice(idx, out, &whole, err);
    case STK_SEG_PARTS:
        return part_slices(idx, seg, k, out, err);
    case STK_SEG_COLUMNS:
        return column_slices(idx, seg, k, out, err);
    default:
        return stk_index_bad(idx, err, "a segment of an unknown kind");
    }
}

/* Prefetches the block of entry i of a table. True: it had not been loaded. */
static bool prefetch_entry(const struct stk_index *idx, enum stk_table t, uint64_t i)
{
    if (i >= stk_index_count(idx, t))
        return false;
    const struct stk_index_pages *pg = idx->pages;
    uint64_t at = idx->h->table[t].off + i * elem_size[t] - STK_INDEX_TABLES;
    if (atomic_load_explicit(&pg->state[at >> pg->bits], memory_order_relaxed) >= STK_PAGE_HERE)
        return false;
    (void)posix_fadvise(idx->fd, (off_t)(STK_INDEX_TABLES + at / STK_INDEX_BLOCK * STK_INDEX_BLOCK),
                        STK_INDEX_BLOCK, POSIX_FADV_WILLNEED);
    return true;
}

bool stk_index_prefetch(const struct stk_index *idx, uint64_t s)
{
    const struct stk_segment *seg = stk_index_segment(idx, s);
    bool cold = prefetch_entry(idx, STK_T_CHECKS, s);
    if (!seg || seg->kind == STK_SEG_COLUMNS)
        return cold; /* computed, not looked up */
    enum stk_table t = seg->kind == STK_SEG_WHOLE ? STK_T_EXTENTS : STK_T_ROWS;
    uint64_t i = (t == STK_T_EXTENTS ? seg->first_extent : seg->first) + (s - seg->first_sample);
    return prefetch_entry(idx, t, i) || cold;
}

int stk_index_sample_bytes(const struct stk_index *idx, uint64_t s, uint64_t *bytes,
                           struct stk_err *err)
{
    const struct stk_segment *seg = stk_index_segment(idx, s);
    struct stk_extent e;
    *bytes = 0;
    if (seg && seg->kind == STK_SEG_WHOLE) { /* the common case, without the detour */
        int rc = stk_index_extent(idx, seg->first_extent + (s - seg->first_sample), &e, err);
        *bytes = e.length;
        return rc;
    }
    struct stk_buf b = STK_BUF_INIT;
    int rc = stk_index_slices(idx, s, &b, err);
    const struct stk_slice *slice = (const void *)b.data;
    for (size_t i = 0; rc == 0 && i < b.len / sizeof *slice; i++)
        *bytes += slice[i].length;
    stk_buf_release(&b);
    return rc;
}
