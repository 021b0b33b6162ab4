/* test_index.c - the index's packed entries, lookups, and what happens when any of its bytes is
 * another: an error or the truth, never something else. */
#include "check.h"
#include "scratch.h"
#include "base/hash.h"
#include "dataset/build.h"
#include "dataset/dataset.h"
#include "dataset/priv.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

/* ---- packed entries ---- */

static void extents_pack(void)
{
    static const struct stk_extent all[] = {{0, 0, 0, 0},
                                            {STK_MAX_OFFSET, STK_MAX_EXTENT, STK_MAX_FILES, 255},
                                            {1, STK_MAX_EXTENT, 0, 0},
                                            {STK_MAX_OFFSET, 0, 1, 0},
                                            {0x123456789abc, 0x9876543210f, 0x7654321, 0x42},
                                            {1ull << 47, 1ull << 16, 1u << 27, 1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct stk_extent e = stk_extent_unpack(stk_extent_pack(&all[i]));
        CHECK_INT(e.offset, all[i].offset);
        CHECK_INT(e.length, all[i].length);
        CHECK_INT(e.file, all[i].file);
        CHECK_INT(e.chain, all[i].chain);
    }
    CHECK_INT(sizeof(struct stk_packed), 16); /* what an extent may cost */
}

static void parts_pack(void)
{
    static const uint64_t values[][4] = {{0, 0, 0, 0},
                                         {UINT32_MAX, 65535, STK_MAX_PART, STK_MAX_PART},
                                         {1, 2, 1ull << 39, 3},
                                         {0x12345678, 0x4321, 0x98765432ff, 0x1234567890}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const uint64_t *v = values[i];
        struct stk_slice s = stk_part_unpack(stk_part_pack(v[0], (uint32_t)v[1], v[2], v[3]));
        CHECK_INT(s.extent, v[0]);
        CHECK_INT(s.field, v[1]);
        CHECK_INT(s.offset, v[2]);
        CHECK_INT(s.length, v[3]);
    }
}

/* ---- an index of a folder of tar-like samples and one of records ---- */

static int build(const char *folder, const char *format, unsigned jobs, const char *to)
{
    struct stk_walk w;
    struct stk_problems problems = {0};
    struct stk_err err = {0};
    int rc = stk_walk(&w, folder, format, NULL, NULL, &problems, &err);
    int fd = open(to, O_RDWR | O_CREAT | O_TRUNC, 0600);
    struct stk_build_options o = {.list = {.payload = "auto"}, .jobs = jobs, .data_id = 42};
    if (rc == 0)
        rc = stk_build_index(&w, &o, fd, &err);
    CHECK_STR(err.what, "");
    close(fd);
    stk_walk_release(&w);
    stk_problems_release(&problems);
    return rc;
}

/* Everything an index says, as text; "error" where it says that it is damaged. */
static const char *told(const char *path, struct stk_buf *text)
{
    struct stk_index idx;
    struct stk_err err = {0};
    struct stk_buf slices = STK_BUF_INIT;
    stk_buf_reset(text);
    int rc = stk_index_open(path, &idx, &err);
    if (rc < 0) {
        CHECK(rc == STK_E_CORRUPT && strcmp(err.path, path) == 0);
        return "error";
    }
    stk_buf_printf(text, "%s %s\n", idx.h->format, idx.h->payload);
    for (uint64_t i = 0; rc == 0 && i < idx.h->nsamples; i++) {
        const char *key, *name;
        size_t len;
        uint64_t bytes;
        stk_buf_reset(&slices);
        rc = stk_index_key(&idx, i, &key, &len, &err);
        if (rc == 0)
            rc = stk_index_slices(&idx, i, &slices, &err);
        if (rc == 0)
            rc = stk_index_sample_bytes(&idx, i, &bytes, &err);
        if (rc == 0)
            stk_buf_printf(text, "%.*s %llu:", (int)len, key, (unsigned long long)bytes);
        const struct stk_slice *s = (const void *)slices.data;
        for (size_t k = 0; rc == 0 && k < slices.len / sizeof *s; k++) {
            struct stk_extent e;
            const struct stk_index_file *f;
            const char *file;
            const struct stk_index_field *field = stk_index_field(&idx, s[k].field, &name);
            rc = field ? stk_index_extent(&idx, s[k].extent, &e, &err) : STK_E_CORRUPT;
            if (rc == 0)
                rc = stk_index_file(&idx, e.file, &f, &file, &err);
            if (rc == 0)
                stk_buf_printf(text, " %.*s %.*s@%llu+%llu", (int)field->name_len, name,
                               (int)f->name_len, file, (unsigned long long)e.offset,
                               (unsigned long long)e.length);
        }
        stk_buf_putc(text, '\n');
    }
    stk_buf_release(&slices);
    stk_index_close(&idx);
    return rc < 0 ? "error" : stk_buf_cstr(text);
}

static void out_of_range(const char *path)
{
    struct stk_index idx;
    struct stk_extent e;
    const struct stk_index_file *f;
    const char *name;
    size_t len;
    struct stk_buf b = STK_BUF_INIT;
    CHECK_INT(stk_index_open(path, &idx, NULL), 0);
    uint64_t n = idx.h->nsamples;
    CHECK_INT(idx.h->data_id, 42);
    CHECK_INT(stk_index_check(&idx, NULL), 0);
    CHECK(stk_index_slices(&idx, n, &b, NULL) < 0);
    CHECK(stk_index_slices(&idx, UINT64_MAX, &b, NULL) < 0);
    CHECK(stk_index_extent(&idx, idx.h->nextents, &e, NULL) < 0);
    CHECK(stk_index_extent(&idx, UINT64_MAX, &e, NULL) < 0);
    CHECK(stk_index_file(&idx, idx.h->nfiles, &f, &name, NULL) < 0);
    CHECK(stk_index_field(&idx, stk_index_count(&idx, STK_T_FIELDS), &name) == NULL);
    CHECK(stk_index_segment(&idx, n) == NULL);
    CHECK(stk_index_key(&idx, n, &name, &len, NULL) < 0 || len == 0);
    stk_index_close(&idx);
    stk_buf_release(&b);
}

/* One bit of each byte flipped in turn. */
static void flipped(const char *path, const char *truth)
{
    struct stk_buf blob = STK_BUF_INIT, text = STK_BUF_INIT;
    const char *bad = scratch_path("flipped.stkidx");
    unsigned noticed = 0, wrong = 0;
    CHECK_INT(stk_read_file(path, 1 << 20, &blob, NULL), 0);
    int fd = open(bad, O_RDWR | O_CREAT, 0600);
    CHECK(write(fd, blob.data, blob.len) == (ssize_t)blob.len);
    for (size_t i = 0; i < blob.len; i++) {
        uint8_t other = (uint8_t)(blob.data[i] ^ 1u << i % 8);
        CHECK(pwrite(fd, &other, 1, (off_t)i) == 1);
        const char *says = told(bad, &text);
        if (strcmp(says, "error") == 0)
            noticed++;
        else if (strcmp(says, truth) != 0)
            wrong++; /* the same words: the bit was in what is not looked at */
        CHECK(pwrite(fd, &blob.data[i], 1, (off_t)i) == 1);
    }
    CHECK_INT(wrong, 0);
    CHECK(noticed > blob.len * 9 / 10);
    CHECK_STR(told(bad, &text), truth);
    close(fd);
    stk_buf_release(&blob);
    stk_buf_release(&text);
}

static void truncated(const char *path)
{
    struct stk_buf blob = STK_BUF_INIT, text = STK_BUF_INIT;
    CHECK_INT(stk_read_file(path, 1 << 20, &blob, NULL), 0);
    for (size_t n = 0; n < blob.len; n += 1 + n / 20)
        CHECK_STR(told(scratch_file("cut.stkidx", blob.data, n), &text), "error");
    stk_buf_putc(&blob, 0);
    CHECK_STR(told(scratch_file("cut.stkidx", blob.data, blob.len), &text), "error");
    stk_buf_release(&blob);
    stk_buf_release(&text);
}

/* Clears what tells one file of these bytes from another. */
static bool without_itself(struct stk_buf *blob)
{
    struct stk_index_header *h = (void *)blob->data;
    if (blob->len < sizeof *h)
        return false;
    h->own_inode = h->header_hash = 0;
    return true;
}

/* The bytes of an index do not depend on the number of threads. */
static void same_with_any_jobs(const char *folder, const char *format, const char *path)
{
    struct stk_buf a = STK_BUF_INIT, b = STK_BUF_INIT;
    CHECK_INT(stk_read_file(path, 1 << 20, &a, NULL), 0);
    for (unsigned jobs = 2; jobs < 9; jobs += 3) {
        const char *other = scratch_path("jobs.stkidx");
        CHECK_INT(build(folder, format, jobs, other), 0);
        CHECK_INT(stk_read_file(other, 1 << 20, &b, NULL), 0);
        CHECK(without_itself(&a) && without_itself(&b));
        CHECK(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
    }
    stk_buf_release(&a);
    stk_buf_release(&b);
}

static void make_records(void)
{
    struct stk_buf b = STK_BUF_INIT;
    for (int file = 0; file < 3; file++) {
        char name[32];
        stk_buf_reset(&b);
        for (int i = 0; i < 5; i++)
            scratch_record(&b, "some bytes of a record", (size_t)(i * 4 + file));
        snprintf(name, sizeof name, "records/%d.tfrecord", file);
        scratch_file(name, b.data, b.len);
    }
    stk_buf_release(&b);
}

static void make_files(void)
{
    char name[64];
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "files/class%d/%d.jpg", i % 3, i);
        scratch_file(name, "0123456789abcdef", (size_t)(i + 1));
    }
}

static void check_kind(const char *folder, const char *format, const char *first_line)
{
    struct stk_buf text = STK_BUF_INIT;
    char path[600], root[600];
    snprintf(path, sizeof path, "%s", scratch_path("x.stkidx"));
    snprintf(root, sizeof root, "%s", scratch_path(folder));
    CHECK_INT(build(root, format, 1, path), 0);
    char *truth = strdup(told(path, &text));
    const char *line = strchr(truth, '\n');
    CHECK(line && strncmp(line + 1, first_line, strlen(first_line)) == 0);
    out_of_range(path);
    flipped(path, truth);
    truncated(path);
    same_with_any_jobs(root, format, path);
    free(truth);
    stk_buf_release(&text);
}

/* Everything of one that is open; negative: it says that it cannot. */
static int look_up_all(const struct stk_index *idx, struct stk_err *err)
{
    struct stk_buf slices = STK_BUF_INIT;
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < idx->h->nsamples; i++) {
        const char *key;
        size_t len;
        struct stk_extent e;
        rc = stk_index_key(idx, i, &key, &len, err);
        if (rc == 0)
            rc = stk_index_slices(idx, i, &slices, err);
        if (rc == 0)
            rc = stk_index_extent(idx, i, &e, err);
    }
    stk_buf_release(&slices);
    return rc;
}

#define MANY 20000 /* several blocks */

static const char *make_many(const char *name)
{
    const char *path = scratch_path(name);
    struct stk_buf b = STK_BUF_INIT;
    for (int i = 0; i < MANY; i++)
        scratch_record(&b, "x", 1);
    scratch_file("many/x.tfrecord", b.data, b.len);
    stk_buf_release(&b);
    CHECK_INT(build(scratch_path("many"), "tfrecord", 1, path), 0);
    return path;
}

enum { EMPTIED, CUT, OVERWRITTEN, HOWS };

static void spoil(const char *path, int how)
{
    static const uint8_t other[1 << 20] = {7};
    int fd = open(path, O_WRONLY);
    if (how < OVERWRITTEN)
        CHECK_INT(ftruncate(fd, how == CUT ? 100000 : 0), 0);
    else
        CHECK(pwrite(fd, other, sizeof other, 0) == sizeof other);
    close(fd);
}

/* A purge of scratch space, or a full disk, under a training would kill it (SIGBUS). */
static void changed_while_open(void)
{
    for (int how = 0; how < HOWS; how++) {
        struct stk_index idx, old;
        struct stk_err err = {0};
        const char *path = make_many("open.stkidx");
        CHECK_INT(stk_index_open(path, &idx, NULL), 0);
        CHECK_INT(stk_index_open(path, &old, NULL), 0);
        CHECK_INT(look_up_all(&old, NULL), 0);
        spoil(path, how);
        CHECK_INT(look_up_all(&idx, &err), how < OVERWRITTEN ? STK_E_STALE : STK_E_CORRUPT);
        CHECK_STR(err.path, path);
        CHECK_INT(look_up_all(&old, NULL), 0); /* what was looked at before stays */
        stk_index_close(&old);
        stk_index_close(&idx);
    }
}

/* ---- pages that are dropped ---- */

#define MOST (64u << 10)

static uint64_t present_bytes(const struct stk_index *idx)
{
    return atomic_load(&idx->pages->present) << idx->pages->bits;
}

/* With all of it in memory, and then as much as may be. */
static void open_limited(const char *path, struct stk_index *idx)
{
    CHECK_INT(stk_index_open(path, idx, NULL), 0);
    CHECK_INT(look_up_all(idx, NULL), 0);
    stk_index_trim(idx, MOST); /* not allowed yet */
    CHECK(present_bytes(idx) > MOST);
    CHECK_INT(stk_index_limit(idx, NULL), 0);
    stk_index_trim(idx, MOST); /* what came since the last time stays once */
    stk_index_trim(idx, MOST);
    CHECK(present_bytes(idx) <= MOST);
}

struct looker {
    pthread_t id;
    const struct stk_index *idx;
    uint64_t step, drops;
    bool ok;
    _Atomic bool *done;
};

/* All extents, far apart: twice, and until pages were dropped meanwhile. */
static void *look_around(void *arg)
{
    struct looker *l = arg;
    l->ok = true;
    for (uint64_t i = 0; l->ok && (i < 2 * MANY || atomic_load(&l->idx->pages->drops) == l->drops);
         i++) {
        struct stk_extent e = {0};
        uint64_t k = i * l->step % MANY;
        l->ok =
            stk_index_extent(l->idx, k, &e, NULL) == 0 && e.offset == k * 17 + 12 && e.length == 1;
    }
    atomic_store(l->done, true);
    return NULL;
}

/* A page that goes while a thread looks at it would be a sample somewhere else. */
static void dropped_under_threads(void)
{
    struct stk_index idx;
    struct looker l[3];
    _Atomic bool done[3] = {false};
    open_limited(make_many("threads.stkidx"), &idx);
    uint64_t before = atomic_load(&idx.pages->drops);
    for (size_t i = 0; i < 3; i++) {
        l[i] =
            (struct looker){.idx = &idx, .step = 7919 + 2 * i, .drops = before, .done = &done[i]};
        CHECK_INT(pthread_create(&l[i].id, NULL, look_around, &l[i]), 0);
    }
    while (!done[0] || !done[1] || !done[2])
        stk_index_trim(&idx, MOST);
    for (size_t i = 0; i < 3; i++) {
        pthread_join(l[i].id, NULL);
        CHECK(l[i].ok);
    }
    CHECK(atomic_load(&idx.pages->drops) > before);
    stk_index_close(&idx);
}

/* What comes again must be what it was. */
static void changed_when_dropped(void)
{
    for (int how = 0; how < HOWS; how++) {
        struct stk_index idx;
        struct stk_err err = {0};
        const char *path = make_many("again.stkidx");
        open_limited(path, &idx);
        CHECK_INT(look_up_all(&idx, NULL), 0);
        stk_index_trim(&idx, MOST);
        stk_index_trim(&idx, MOST);
        spoil(path, how);
        CHECK_INT(look_up_all(&idx, &err), STK_E_STALE);
        CHECK_STR(err.path, path);
        stk_index_close(&idx);
    }
}

/* Names in an index that came with the data. */
static void names_that_leave(void)
{
    static const char *const bad[] = {"../x", "/etc/passwd", "a/../../b", "a//b", "./a", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct stk_index_header h = {.nfiles = 1};
        struct stk_index_file f = {.name_len = (uint32_t)strlen(bad[i])}, *entry;
        const struct stk_index_file *got;
        const char *name;
        uint8_t *image = calloc(1, STK_INDEX_TABLES + 4096);
        struct stk_index idx = {.h = (const void *)image};
        _Atomic uint8_t state[1] = {STK_PAGE_HERE};
        struct stk_index_pages pages = {.bits = 12, .count = 1, .state = state};
        h.table[STK_T_FILES].count = 1;
        h.table[STK_T_NAMES].count = 100;
        memcpy(image, &h, sizeof h);
        entry = (void *)(image + STK_INDEX_TABLES);
        memcpy(entry, &f, sizeof f);
        idx.table[STK_T_FILES] = entry;
        idx.table[STK_T_NAMES] = image + STK_INDEX_TABLES + 64;
        memcpy(image + STK_INDEX_TABLES + 64, bad[i], strlen(bad[i]));
        idx.pages = &pages;
        CHECK_INT(stk_index_file(&idx, 0, &got, &name, NULL), STK_E_CORRUPT);
        free(image);
    }
}

/* Makes the index at `path` one of another version. */
static void set_version(const char *path, uint32_t version)
{
    struct stk_index_header h;
    int fd = open(path, O_RDWR);
    CHECK_INT(pread(fd, &h, sizeof h, 0), sizeof h);
    h.version = version;
    h.header_hash = stk_index_header_hash(&h);
    CHECK_INT(pwrite(fd, &h, sizeof h, 0), sizeof h);
    close(fd);
}

/* An index of a former version lacks new parts: it is rebuilt, and a message says so. */
static void former_version(void)
{
    struct stk_open_options o = {.payload = "raw", .index = scratch_path("former.stkidx")};
    static const uint32_t version[] = {STK_INDEX_VERSION, STK_INDEX_OLDEST, STK_INDEX_VERSION};
    for (size_t i = 0; i < 3; i++) {
        struct stk_dataset *ds = NULL;
        if (i)
            set_version(o.index, version[i]);
        CHECK_INT(stk_dataset_open(scratch_path("records"), &o, &ds, NULL), 0);
        CHECK_INT(ds->index_built, i < 2);
        CHECK_STR(ds->index_why ? ds->index_why : "",
                  i == 1 ? "an index of version 3; this stoker writes version 7" : "");
        stk_dataset_close(ds);
    }
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    CHECK_RUN(extents_pack);
    CHECK_RUN(parts_pack);
    make_records();
    make_files();
    CHECK_FOR("records", check_kind, "records", "tfrecord", " 0: record 0.tfrecord@12+0");
    CHECK_FOR("files", check_kind, "files", "folder", "class0/0.jpg 1: data class0/0.jpg@0+1");
    CHECK_RUN(changed_while_open);
    CHECK_RUN(dropped_under_threads);
    CHECK_RUN(changed_when_dropped);
    CHECK_RUN(names_that_leave);
    CHECK_RUN(former_version);
    scratch_done();
    return CHECK_DONE();
}
