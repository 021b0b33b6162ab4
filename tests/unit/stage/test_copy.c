/*
 * test_copy.c - what a source lists, and what the copier gives to a sink: every parcel once, with
 * its hash, whatever is skipped, changes or fails meanwhile.
 */
#include "check.h"
#include "scratch.h"
#include "base/hash.h"
#include "stage/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a sink in memory ---- */

#define FILES   8
#define PARCELS 8

struct memory {
    struct stk_copy_sink sink;
    const struct stk_source *src;
    pthread_mutex_t lock;
    struct {
        uint8_t *bytes;
        unsigned put[PARCELS], claimed[PARCELS];
        uint64_t there;
        unsigned finished;
        bool hashed;
        uint64_t hash;
    } file[FILES];
    uint64_t refuse_file, refuse_parcel; /* another process has it */
    uint64_t fail_file;                  /* its put fails */
};

static struct memory *of(struct stk_copy_sink *me)
{
    return (struct memory *)me;
}

static enum stk_tier_claim claim(struct stk_copy_sink *me, uint64_t file, uint64_t parcel)
{
    struct memory *m = of(me);
    if (file == m->refuse_file && parcel == m->refuse_parcel)
        return STK_TIER_BUSY;
    pthread_mutex_lock(&m->lock);
    m->file[file].claimed[parcel]++;
    pthread_mutex_unlock(&m->lock);
    return STK_TIER_OURS;
}

static void claim_files(struct stk_copy_sink *me, uint64_t first, uint64_t n, uint8_t *got)
{
    for (uint64_t i = 0; i < n; i++)
        got[i] = (uint8_t)claim(me, first + i, 0);
}

static void drop(struct stk_copy_sink *me, uint64_t file, uint64_t parcel)
{
    struct memory *m = of(me);
    pthread_mutex_lock(&m->lock);
    CHECK_INT(m->file[file].claimed[parcel], 1);
    m->file[file].claimed[parcel]--;
    pthread_mutex_unlock(&m->lock);
}

static void drop_files(struct stk_copy_sink *me, uint64_t first, uint64_t n, const uint8_t *got)
{
    for (uint64_t i = 0; i < n; i++)
        if (got[i] == STK_TIER_OURS)
            drop(me, first + i, 0);
}

static int put(struct stk_copy_sink *me, uint64_t file, uint64_t parcel, const void *p, size_t n,
               uint64_t hash, struct stk_err *err)
{
    struct memory *m = of(me);
    if (file == m->fail_file) {
        errno = ENOSPC;
        return stk_err_sys(err, "copy", "write");
    }
    CHECK(hash == stk_tier_hash(p, n));
    pthread_mutex_lock(&m->lock);
    if (n)
        memcpy(m->file[file].bytes + parcel * STK_TIER_PARCEL, p, n);
    m->file[file].put[parcel]++;
    bool whole = ++m->file[file].there == stk_tier_parcels(m->src->file[file].size);
    pthread_mutex_unlock(&m->lock);
    return whole;
}

static int finish(struct stk_copy_sink *me, uint64_t file, const uint64_t *hash,
                  struct stk_err *err)
{
    struct memory *m = of(me);
    (void)err;
    m->file[file].finished++;
    m->file[file].hashed = hash != NULL;
    m->file[file].hash = hash ? *hash : 0;
    return 0;
}

static void memory_init(struct memory *m, const struct stk_source *src)
{
    *m = (struct memory){.sink = {claim, claim_files, put, drop, drop_files, finish},
                         .src = src,
                         .refuse_file = UINT64_MAX,
                         .fail_file = UINT64_MAX};
    pthread_mutex_init(&m->lock, NULL);
    CHECK(src->count <= FILES);
    for (uint64_t i = 0; i < src->count; i++)
        m->file[i].bytes = calloc(1, src->file[i].size + 1);
}

static void memory_done(struct memory *m)
{
    for (uint64_t i = 0; i < FILES; i++) {
        for (uint64_t k = 0; k < PARCELS; k++)
            CHECK_INT(m->file[i].claimed[k], 0); /* all claims were given back */
        free(m->file[i].bytes);
    }
    pthread_mutex_destroy(&m->lock);
}

static int copy(struct memory *m, const struct stk_copy_options *o, struct stk_copy_result *r,
                struct stk_err *err)
{
    struct stk_part *part;
    size_t n;
    CHECK_INT(stk_copy_all(m->src, &part, &n, err), 0);
    int rc = stk_copy(m->src, part, n, o, &m->sink, r, err);
    free(part);
    return rc;
}

/* ---- a source ---- */

#define MIB (1u << 20)
static const size_t sizes[] = {0, 1, 5000, MIB, MIB + 1, 4 * MIB, 4 * MIB + 1, 21 * MIB};

static void make_source(const char *name)
{
    uint64_t x = 88172645463325252ull;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char file[64];
        uint8_t *p = malloc(sizes[i] + 8);
        for (size_t k = 0; k < sizes[i]; k += 8) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            memcpy(p + k, &x, 8);
        }
        snprintf(file, sizeof file, "%s/f%zu", name, i);
        scratch_file(file, p, sizes[i]);
        free(p);
    }
}

static void open_source(struct stk_source *s, const char *name)
{
    struct stk_err err = {0};
    CHECK_INT(stk_source_open(s, scratch_path(name), NULL, &err), 0);
    CHECK_STR(err.what, "");
}

static bool same_bytes(const struct memory *m, uint64_t file)
{
    struct stk_buf b = STK_BUF_INIT;
    char *path = stk_path_join(m->src->root, m->src->file[file].name);
    CHECK_INT(stk_read_file(path, SIZE_MAX, &b, NULL), 0);
    bool same = b.len == m->src->file[file].size &&
                (!b.len || memcmp(b.data, m->file[file].bytes, b.len) == 0);
    stk_buf_release(&b);
    free(path);
    return same;
}

/* ---- copying ---- */

static uint64_t hash_of(const struct stk_source *s, uint64_t file)
{
    char *path = stk_path_join(s->root, s->file[file].name);
    uint64_t hash = 0, size;
    CHECK_INT(stk_hash_file(path, &hash, &size, NULL), 0);
    free(path);
    return hash;
}

/* A parcel that comes twice or not at all would be a hole, or a write into a finished file. */
static void all_of_it(unsigned threads, uint64_t memory, bool gentle)
{
    struct stk_source s;
    struct memory m;
    struct stk_copy_result r;
    struct stk_err err = {0};
    struct stk_copy_options o = {.threads = threads, .memory_bytes = memory, .gentle = gentle};
    open_source(&s, "src");
    CHECK_INT(s.count, FILES);
    s.file[7].hashed = true;
    memory_init(&m, &s);
    CHECK_INT(copy(&m, &o, &r, &err), 0);
    CHECK_STR(err.what, "");
    CHECK_INT(r.bytes, s.bytes);
    for (uint64_t i = 0; i < s.count; i++) {
        CHECK(same_bytes(&m, i));
        for (uint64_t k = 0; k < PARCELS; k++)
            CHECK_INT(m.file[i].put[k], k < stk_tier_parcels(s.file[i].size));
    }
    CHECK_INT(m.file[7].finished, 1);
    CHECK(m.file[7].hashed && m.file[7].hash == hash_of(&s, 7));
    CHECK(m.file[6].finished == 1 && !m.file[6].hashed);
    memory_done(&m);
    stk_source_release(&s);
}

/* Another process copies a parcel: the file must not be finished by a hash that lacks it. */
static void one_is_busy(uint64_t parcel)
{
    struct stk_source s;
    struct memory m;
    struct stk_copy_result r;
    struct stk_err err = {0};
    open_source(&s, "src");
    s.file[7].hashed = true;
    memory_init(&m, &s);
    m.refuse_file = 7;
    m.refuse_parcel = parcel;
    CHECK_INT(copy(&m, NULL, &r, &err), 0);
    CHECK_INT(r.skipped, 1);
    CHECK_INT(m.file[7].there, 5);
    CHECK_INT(m.file[7].finished, 0);
    memory_done(&m);
    stk_source_release(&s);
}

static void put_fails(uint64_t file)
{
    struct stk_source s;
    struct memory m;
    struct stk_copy_result r;
    struct stk_err err = {0};
    open_source(&s, "src");
    memory_init(&m, &s);
    m.fail_file = file;
    CHECK_INT(copy(&m, NULL, &r, &err), STK_E_SYS);
    CHECK_INT(err.sys_errno, ENOSPC);
    CHECK_INT(m.file[file].finished, 0);
    memory_done(&m);
    stk_source_release(&s);
}

/* The list is from before the change: its bytes are of no known state. */
static void source_changed(uint64_t file)
{
    struct stk_source s;
    struct memory m;
    struct stk_copy_result r;
    struct stk_err err = {0};
    make_source("changes");
    open_source(&s, "changes");
    memory_init(&m, &s);
    struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1}};
    CHECK_INT(utimensat(s.rootfd, s.file[file].name, t, 0), 0);
    CHECK_INT(copy(&m, NULL, &r, &err), STK_E_STALE);
    char *path = stk_path_join(s.root, s.file[file].name);
    CHECK_STR(err.path, path);
    free(path);
    memory_done(&m);
    stk_source_release(&s);
}

/* ---- batches of small files ---- */

struct count {
    struct stk_copy_sink sink;
    _Atomic unsigned put[1000];
};

static int count_put(struct stk_copy_sink *me, uint64_t file, uint64_t parcel, const void *p,
                     size_t n, uint64_t hash, struct stk_err *err)
{
    (void)parcel, (void)p, (void)n, (void)hash, (void)err;
    ((struct count *)me)->put[file]++;
    return 1;
}

/* A batch that no thread takes, or two take, whatever the number of threads. */
static void every_batch(unsigned threads, bool any_order)
{
    struct stk_source s;
    struct count c = {.sink = {.put = count_put}};
    struct stk_copy_options o = {.threads = threads, .any_order = any_order};
    struct stk_copy_result r;
    struct stk_part *part;
    size_t n;
    open_source(&s, "many");
    CHECK_INT(stk_copy_all(&s, &part, &n, NULL), 0);
    CHECK_INT(stk_copy(&s, part, n, &o, &c.sink, &r, NULL), 0);
    for (uint64_t i = 0; i < s.count; i++)
        CHECK_INT(c.put[i], 1);
    CHECK_INT(r.files, s.count);
    free(part);
    stk_source_release(&s);
}

static void make_many(void)
{
    for (int i = 0; i < 700; i++) {
        char name[32];
        snprintf(name, sizeof name, "many/%d/%03d", i / 100, i);
        scratch_file(name, name, strlen(name));
    }
}

static int stop_after(void *user, uint64_t bytes, uint64_t files)
{
    (void)files;
    return bytes >= *(uint64_t *)user;
}

static void stopped(uint64_t after)
{
    struct stk_source s;
    struct memory m;
    struct stk_copy_result r;
    struct stk_err err = {0};
    struct stk_copy_options o = {.progress = stop_after, .user = &after};
    open_source(&s, "src");
    memory_init(&m, &s);
    CHECK_INT(copy(&m, &o, &r, &err), STK_E_STOPPED);
    memory_done(&m);
    stk_source_release(&s);
}

struct asking {
    struct memory *m;
    _Atomic int times; /* that are left; negative: always */
};

static unsigned put_so_far(struct memory *m)
{
    unsigned n = 0;
    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < FILES; i++)
        for (size_t k = 0; k < PARCELS; k++)
            n += m->file[i].put[k];
    pthread_mutex_unlock(&m->lock);
    return n;
}

static bool asks(void *user)
{
    struct asking *a = user;
    int left = atomic_load(&a->times);
    if (left > 0) {
        CHECK_INT(put_so_far(a->m), 0);
        left = atomic_fetch_sub(&a->times, 1);
    }
    return left != 0;
}

/* Readers that go first would wait behind the copier; one that hangs would stop it for ever. */
static void others_first(int times, bool gentle)
{
    struct stk_source s;
    struct memory m;
    struct stk_copy_result r;
    struct asking a = {.m = &m, .times = times};
    struct stk_copy_options o = {
        .threads = 1, .gentle = gentle, .others_first = asks, .user = &a};
    open_source(&s, "src");
    memory_init(&m, &s);
    CHECK_INT(copy(&m, &o, &r, NULL), 0);
    CHECK_INT(r.bytes, s.bytes);
    CHECK_INT(atomic_load(&a.times), gentle && times > 0 ? 0 : times);
    memory_done(&m);
    stk_source_release(&s);
}

/* ---- listing ---- */

static bool lists(const struct stk_source *s, const char *name)
{
    return stk_source_find(s, name) < s->count;
}

static bool left_out(const struct stk_source *s, const char *name, const char *why)
{
    for (size_t i = 0; i < s->notes.n; i++)
        for (size_t k = 0; k < s->notes.item[i].nnames; k++)
            if (strcmp(s->notes.item[i].name[k], name) == 0 && strstr(s->notes.item[i].why, why))
                return true;
    return false;
}

/* What a dataset needs beside its samples would be missing in the copy; a link would bring in files
 * of other folders. */
static void tree(void)
{
    struct stk_source s;
    scratch_file("t/a/1.jpg", "x", 1);
    scratch_file("t/a-b", "x", 1);
    scratch_file("t/.hidden", "x", 1);
    scratch_file("t/new\nline", "x", 1);
    scratch_file("outside", "secret", 6);
    CHECK_INT(mkdir(scratch_path("t/empty"), 0755), 0);
    CHECK_INT(symlink("a/1.jpg", scratch_path("t/in")), 0);
    CHECK_INT(symlink("../outside", scratch_path("t/out")), 0);
    CHECK_INT(symlink("nothing", scratch_path("t/dangling")), 0);
    CHECK_INT(symlink("a", scratch_path("t/dir")), 0);
    CHECK_INT(symlink("..", scratch_path("t/a/back")), 0);
    CHECK_INT(mkfifo(scratch_path("t/fifo"), 0600), 0);
    open_source(&s, "t");
    CHECK_INT(s.count, 6);
    CHECK(lists(&s, "a/1.jpg") && lists(&s, "a-b") && lists(&s, ".hidden") && lists(&s, "in"));
    CHECK(lists(&s, "new\nline") && lists(&s, "dir/1.jpg"));
    CHECK(left_out(&s, "out", "outside") && left_out(&s, "dangling", "nothing"));
    CHECK(left_out(&s, "a/back", "back") && left_out(&s, "dir/back", "back"));
    CHECK(left_out(&s, "fifo", "neither"));
    CHECK_INT(s.ndirs, 4);
    CHECK_STR(s.dir[0].name, "");
    for (uint64_t i = 1; i < s.count; i++)
        CHECK(strcmp(s.file[i - 1].name, s.file[i].name) < 0);
    stk_source_release(&s);
}

static void one_file(void)
{
    struct stk_source s;
    scratch_file("single.bin", "12345", 5);
    open_source(&s, "single.bin");
    CHECK(!s.is_dir && s.count == 1 && s.bytes == 5);
    CHECK_STR(s.file[0].name, "");
    CHECK_STR(s.name, "single.bin");
    uint8_t p[5];
    CHECK_INT(stk_file_read_whole(&s.files, 0, p, 5, NULL), 0);
    CHECK_INT(memcmp(p, "12345", 5), 0);
    stk_source_release(&s);
    struct stk_err err = {0};
    CHECK_INT(stk_source_open(&s, scratch_path("not there"), NULL, &err), STK_E_SYS);
    stk_source_release(&s);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    make_source("src");
    make_many();
    for (unsigned t = 1; t < 16; t += 3) {
        char label[32];
        snprintf(label, sizeof label, "%u threads", t);
        CHECK_FOR(label, every_batch, t, true);
    }
    CHECK_FOR("in order", every_batch, 3, false);
    CHECK_FOR("one thread", all_of_it, 1, 0, false);
    CHECK_FOR("many threads", all_of_it, 8, 0, false);
    CHECK_FOR("two buffers", all_of_it, 4, 1, false);
    CHECK_FOR("gentle", all_of_it, 4, 0, true);
    CHECK_FOR("gentle, two buffers", all_of_it, 4, 1, true);
    CHECK_FOR("for a while", others_first, 5, true);
    CHECK_FOR("for ever", others_first, -1, true);
    CHECK_FOR("not asked", others_first, 5, false);
    CHECK_FOR("first", one_is_busy, 0);
    CHECK_FOR("middle", one_is_busy, 3);
    CHECK_FOR("last", one_is_busy, 5);
    CHECK_FOR("small", put_fails, 2);
    CHECK_FOR("large", put_fails, 7);
    CHECK_FOR("small", source_changed, 2);
    CHECK_FOR("large", source_changed, 6);
    CHECK_FOR("at once", stopped, 0);
    CHECK_FOR("in large files", stopped, 10 * MIB);
    CHECK_RUN(tree);
    CHECK_RUN(one_file);
    scratch_done();
    return CHECK_DONE();
}
