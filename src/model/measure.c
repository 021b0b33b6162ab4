/* measure.c - the tests of measure.h, in a child, and the removal of what they have written. */
#include "model/measure.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/dir.h"
#include "base/helper.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/random.h"
#include "host/fs.h"

#define FIRST     ((uint64_t)8 << 20) /* bytes before the first sync; then twice that, and so on */
#define FILES_MAX 512u  /* made */
#define LOOKS     64u   /* random reads */
#define LARGE     1e6   /* bytes per read, from which on the rate is that of the file system */
#define REMOVE_S  20.0
#define DATA      "data"
#define SMALL_ONE "small-"
#define LEFT_S    60 /* a folder that is younger may be about to be locked */
#define FOUND_MAX 256u  /* files of a dataset */
#define SEEN_MAX  4000u /* names looked at to find them */
#define DEPTH_MAX 5u
#define BLOCK     ((size_t)4 << 20)
#define SMALL     ((size_t)4096)

struct file {
    char *path;
    uint64_t size;
};

struct block {
    size_t file;
    uint64_t off;
};

enum way { WAY_NONE, WAY_MEMORY, WAY_DIRECT, WAY_COLD };

struct task {
    const char *path, *fs;
    bool memory;
    struct stk_measure_how how;
    struct stk_measured *out;
    int dirfd; /* of the folder that was made; -1: files that were found */
    enum way way;
    struct file *file;
    size_t nfiles;
    struct block *block;
    size_t nblocks;
    uint8_t *buf[STK_MEASURE_READERS];
    double until_s;
    _Atomic uint64_t bytes, done;
};

static void begin(struct task *t)
{
    t->until_s = stk_now() + t->how.test_s;
    t->bytes = t->done = 0;
}

static bool is_over(const struct task *t)
{
    return stk_now() >= t->until_s;
}

static const struct stk_measure_how usual = {
    .test_s = 0.4, .limit.seconds = 15, .max_bytes = (uint64_t)128 << 20};

static int make_buffers(struct task *t)
{
    uint64_t seed = 7;
    for (unsigned i = 0; i < STK_MEASURE_READERS; i++)
        if (posix_memalign((void **)&t->buf[i], 4096, BLOCK) != 0)
            return ENOMEM;
    for (size_t i = 0; i < BLOCK; i += sizeof seed) { /* nothing that a disk can compress */
        uint64_t v = stk_random_next(&seed);
        memcpy(t->buf[0] + i, &v, sizeof v);
    }
    return 0;
}

/* ---- files that the page cache does not answer for ------------------------------------------ */

static int open_file(const struct task *t, size_t i, int flags)
{
    return t->dirfd >= 0 ? openat(t->dirfd, DATA, O_RDONLY | O_CLOEXEC | flags)
                         : open(t->file[i].path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
}

static int open_cold(const struct task *t, size_t i)
{
    return open_file(t, i, t->way == WAY_DIRECT ? O_DIRECT : 0);
}

/* False: it is in the page cache, or this is unknown. */
static bool is_cold(int fd, uint64_t off)
{
    uint8_t byte;
    return stk_pread_nowait(fd, &byte, 1, off) < 0 && errno == EAGAIN;
}

static bool reads_directly(const struct task *t)
{
    int fd = open_file(t, 0, O_DIRECT);
    bool can = fd >= 0 && pread(fd, t->buf[1], SMALL, 0) >= 0;
    if (fd >= 0)
        close(fd);
    return can;
}

/* Our own file is dropped from the cache in any case; those of others stay, since programs on this
 * node may need them. ZFS has a cache of its own, which answers direct reads, too. */
static void find_way(struct task *t)
{
    static const char *const names[] = {"", "memory", "O_DIRECT", "pages dropped"};
    const struct stk_fs *fs = stk_fs_by_name(t->fs);
    int fd = open_file(t, 0, 0);
    if (fd < 0)
        return;
    if (t->dirfd >= 0)
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (t->memory)
        t->way = WAY_MEMORY;
    else if (fs && fs->own_cache)
        t->way = WAY_NONE;
    else if (reads_directly(t))
        t->way = WAY_DIRECT;
    else if (is_cold(fd, 0))
        t->way = WAY_COLD;
    close(fd);
    snprintf(t->out->way, sizeof t->out->way, "%s",
             t->way == WAY_COLD && t->dirfd < 0 ? "not cached" : names[t->way]);
}

/* ---- reads -------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void test_latency(struct task *t, uint64_t size)
{
    double s[LOOKS];
    uint64_t seed = (uint64_t)(stk_now() * 1e9);
    size_t n = 0;
    int fd = size >= SMALL ? open_cold(t, 0) : -1;
    if (fd < 0)
        return;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    begin(t);
    for (unsigned i = 0; i < LOOKS && !is_over(t); i++) {
        uint64_t off = stk_random_next(&seed) % (size / SMALL) * SMALL;
        if (t->way == WAY_COLD && !is_cold(fd, off))
            continue;
        double start = stk_now();
        if (pread(fd, t->buf[1], SMALL, (off_t)off) <= 0)
            break;
        s[n++] = stk_now() - start;
    }
    close(fd);
    qsort(s, n, sizeof *s, by_value);
    t->out->storage.latency_s = n ? s[n / 2] : 0;
}

static int read_block(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct task *t = user;
    const struct block *b = &t->block[item];
    (void)err;
    int fd = is_over(t) ? -1 : open_cold(t, b->file);
    ssize_t n = 0;
    if (fd >= 0 && (t->way != WAY_COLD || is_cold(fd, b->off)))
        n = pread(fd, t->buf[thread % STK_MEASURE_READERS], BLOCK, (off_t)b->off);
    if (fd >= 0)
        close(fd);
    t->bytes += n > 0 ? (uint64_t)n : 0;
    t->done += n > 0;
    return 0;
}

/* The blocks to read, as many as the limit allows. */
static int list_blocks(struct task *t, const uint64_t *size, size_t nfiles)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < nfiles; i++)
        for (uint64_t off = 0; off < size[i] && bytes < t->how.max_bytes; off += BLOCK) {
            if (STK_ARRAY_MORE(t->block, t->nblocks, NULL) < 0)
                return ENOMEM;
            t->block[t->nblocks++] = (struct block){i, off};
            bytes += size[i] - off < BLOCK ? size[i] - off : BLOCK;
        }
    return 0;
}

static int test_read(struct task *t, const uint64_t *size, size_t nfiles)
{
    int wrong = list_blocks(t, size, nfiles);
    if (wrong)
        return wrong;
    begin(t);
    double start = stk_now();
    (void)stk_pool_run(STK_MEASURE_READERS, t->nblocks, read_block, t, NULL);
    double took = stk_now() - start;
    t->out->read_bytes = t->bytes;
    if (t->bytes < SMALL || took <= 0)
        return 0;
    t->out->read_each = (double)t->bytes / (double)t->done;
    *(t->out->read_each < LARGE ? &t->out->small_Bps : &t->out->large_Bps) =
        (double)t->bytes / took;
    return 0;
}

static int test_reads(struct task *t, const uint64_t *size, size_t nfiles)
{
    find_way(t);
    if (t->way == WAY_NONE)
        return 0;
    test_latency(t, size[0]);
    return test_read(t, size, nfiles);
}

/* ---- files that are there ----------------------------------------------------------------- */

struct walk {
    struct task *task;
    unsigned seen;
};

static int add_file(struct task *t, const char *path, uint64_t size)
{
    if (STK_ARRAY_MORE(t->file, t->nfiles, NULL) < 0 || !(t->file[t->nfiles].path = strdup(path)))
        return ENOMEM;
    t->file[t->nfiles++].size = size;
    return 0;
}

static int find_files(struct walk *w, const char *folder, unsigned depth)
{
    struct stk_err err = {0};
    struct stk_dir d;
    int wrong = 0, rc = stk_dir_open(&d, folder, &err);
    for (const struct dirent *e; !wrong && (e = stk_dir_next(&d));) {
        struct stat st;
        char *path = e->d_name[0] == '.' ? NULL : stk_path_join(folder, e->d_name);
        if (!path || lstat(path, &st) != 0)
            st.st_mode = 0; /* some files are enough */
        if (w->task->nfiles >= FOUND_MAX || w->seen++ >= SEEN_MAX || is_over(w->task))
            st.st_mode = 0;
        if (S_ISREG(st.st_mode) && st.st_size > 0)
            wrong = add_file(w->task, path, (uint64_t)st.st_size);
        else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
            (void)find_files(w, path, depth + 1); /* one that cannot be read is left out */
        free(path);
    }
    rc = stk_dir_end(&d, rc, &err);
    return wrong || !rc ? wrong : err.sys_errno;
}

static int find(struct task *t)
{
    struct walk w = {t, 0};
    struct stat st;
    if (stat(t->path, &st) != 0)
        return errno;
    begin(t);
    int wrong = S_ISDIR(st.st_mode) ? find_files(&w, t->path, 0)
                                    : add_file(t, t->path, (uint64_t)st.st_size);
    return wrong ? wrong : t->nfiles ? 0 : ENOENT;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = ((const struct file *)a)->size, y = ((const struct file *)b)->size;
    return (x < y) - (x > y);
}

static int open_one(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct task *t = user;
    (void)err;
    if (is_over(t))
        return 0;
    int fd = open_file(t, item, O_DIRECT);
    fd = fd < 0 ? open_file(t, item, 0) : fd;
    if (fd >= 0 && pread(fd, t->buf[thread % STK_MEASURE_READERS], SMALL, 0) > 0)
        t->done++;
    if (fd >= 0)
        close(fd);
    return 0;
}

#define FEW 8u /* files: too few to tell a rate */

static void test_opens(struct task *t)
{
    if (t->nfiles < FEW)
        return;
    begin(t);
    double start = stk_now();
    (void)stk_pool_run(STK_MEASURE_READERS, t->nfiles, open_one, t, NULL);
    double took = stk_now() - start;
    if (took > 0 && t->done)
        t->out->opens_per_s = (double)t->done / took;
}

/* Opens first: nothing of these files has been asked for yet. */
static int test_data(void *user, void *answer)
{
    struct task *t = user;
    uint64_t size[FOUND_MAX];
    t->out = answer;
    t->dirfd = -1;
    int wrong = make_buffers(t);
    wrong = wrong ? wrong : find(t);
    if (wrong)
        return wrong;
    test_opens(t);
    qsort(t->file, t->nfiles, sizeof *t->file, by_size);
    for (size_t i = 0; i < t->nfiles; i++)
        size[i] = t->file[i].size;
    wrong = test_reads(t, size, t->nfiles);
    if (t->way == WAY_NONE)
        t->out->opens_per_s = 0;
    return wrong;
}

/* ---- a folder of ours --------------------------------------------------------------------- */

/* Synced ever more rarely: a slow disk does not gather more than it can write in time. */
static uint64_t test_write(struct task *t)
{
    struct stk_measured *o = t->out;
    int fd = stk_create_at(t->dirfd, DATA, 0600);
    struct stk_err err = {0};
    uint64_t next = FIRST, n = 0;
    if (fd < 0) {
        o->error = errno;
        return 0;
    }
    begin(t);
    double start = stk_now();
    for (; n < t->how.max_bytes && !is_over(t) && !o->error; n += BLOCK) {
        if (stk_write_full(fd, t->buf[0], BLOCK, t->path, &err) < 0)
            o->error = err.sys_errno;
        else if (n + BLOCK >= next && fdatasync(fd) != 0)
            o->error = errno;
        if (n + BLOCK >= next)
            next *= 2;
        o->written_bytes += BLOCK;
    }
    if (!o->error && fdatasync(fd) != 0)
        o->error = errno;
    double took = stk_now() - start;
    if (!o->error && took > 0)
        o->storage.write_Bps = (double)n / took;
    close(fd);
    return o->error ? 0 : n;
}

static int create_one(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct task *t = user;
    char name[24];
    (void)thread;
    if (is_over(t))
        return 0;
    snprintf(name, sizeof name, SMALL_ONE "%llu", (unsigned long long)item);
    int fd = stk_create_at(t->dirfd, name, 0600);
    if (fd < 0)
        return stk_err_sys(err, t->path, "create");
    int rc = stk_write_full(fd, t->buf[0], SMALL, t->path, err);
    close(fd);
    t->done++;
    return rc;
}

static void test_create(struct task *t)
{
    struct stk_err err = {0};
    begin(t);
    double start = stk_now();
    int rc = stk_pool_run(STK_MEASURE_READERS, FILES_MAX, create_one, t, &err);
    double took = stk_now() - start;
    t->out->written_bytes += t->done * SMALL;
    if (rc < 0)
        t->out->error = err.sys_errno ? err.sys_errno : EIO;
    else if (took > 0)
        t->out->creates_per_s = (double)t->done / took;
}

static int test_folder(void *user, void *answer)
{
    struct task *t = user;
    t->out = answer;
    t->dirfd = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int wrong = t->dirfd < 0 ? errno : make_buffers(t);
    if (!wrong)
        (void)flock(t->dirfd, LOCK_EX | LOCK_NB); /* it is in use: remove_left() */
    if (wrong)
        return wrong;
    test_create(t);
    uint64_t size = t->out->error ? 0 : test_write(t);
    wrong = size ? test_reads(t, &size, 1) : 0;
    return t->out->error ? t->out->error : wrong;
}

/* ---- what follows ------------------------------------------------------------------------- */

#define LEAST_PART 0.1 /* of a small file's time that its transfer takes, as far as can be told */

void stk_measure_storage(struct stk_measured *m)
{
    struct stk_storage *st = &m->storage;
    double readers = STK_MEASURE_READERS;
    if (m->opens_per_s > 0) /* with its first request */
        st->open_s = st->ask_s = fmax(0, readers / m->opens_per_s - st->latency_s);
    if (m->creates_per_s > 0)
        st->create_s = readers / m->creates_per_s;
    st->read_Bps = m->large_Bps;
    if (m->small_Bps > 0) { /* the rest of a file's time is its transfer */
        double file_s = readers * m->read_each / m->small_Bps;
        double rest = fmax(file_s - st->open_s - st->latency_s, LEAST_PART * file_s);
        st->stream_Bps = m->read_each / rest;
        st->read_Bps = readers * st->stream_Bps;
    }
}

/* ---- in the parent ------------------------------------------------------------------------ */

static struct task make_task(const char *path, const char *fs, bool memory,
                             const struct stk_measure_how *how)
{
    struct task t = {.path = path, .fs = fs, .memory = memory, .how = how ? *how : usual};
    t.how.test_s = t.how.test_s > 0 ? t.how.test_s : usual.test_s;
    if (!(t.how.limit.seconds > 0))
        t.how.limit.seconds = usual.limit.seconds;
    t.how.max_bytes = t.how.max_bytes ? t.how.max_bytes : usual.max_bytes;
    return t;
}

static int run_tests(struct task *t, int (*tests)(void *user, void *answer),
                     struct stk_measured *out)
{
    double start = stk_now();
    int wrong = stk_helper_ask(tests, t, &t->how.limit, out, sizeof *out);
    out->seconds = stk_now() - start;
    stk_measure_storage(out);
    return out->error = wrong;
}

int stk_measure_data(const char *path, const char *fs, bool memory,
                     const struct stk_measure_how *how, struct stk_measured *out)
{
    struct task t = make_task(path, fs, memory, how);
    return run_tests(&t, test_data, out);
}

static bool is_measured(void *user, const char *name)
{
    (void)user;
    return strcmp(name, DATA) == 0 || strncmp(name, SMALL_ONE, sizeof SMALL_ONE - 1) == 0;
}

/* A folder of ours, if no process measures in it. before: only if it is older than that. Returns 0
 * or errno. */
static int remove_one(int dirfd, const char *name, int64_t before)
{
    struct stk_left left = {0};
    struct stk_err err = {0};
    struct stat st;
    int fd = -1, rc = stk_own_folder_at(dirfd, name, 0, &fd, name, &err);
    bool idle = rc == 0 && fstat(fd, &st) == 0 && st.st_mtim.tv_sec < before &&
                flock(fd, LOCK_EX | LOCK_NB) == 0;
    rc = idle ? stk_remove_ours(fd, is_measured, NULL, &left, name, &err) : rc;
    if (idle && rc == 0 && (left.n || stk_rmdir_at(dirfd, name) < 0))
        rc = stk_err_sys(&err, name, "remove");
    if (fd >= 0)
        close(fd);
    return rc == 0 ? 0 : err.sys_errno ? err.sys_errno : EIO;
}

/* What a doctor that was killed has left. */
static void remove_left(const char *folder)
{
    struct stk_dir d;
    int rc = stk_dir_open(&d, folder, NULL);
    for (const struct dirent *e; (e = stk_dir_next(&d));)
        if (strncmp(e->d_name, STK_MEASURE_FOLDER ".", sizeof STK_MEASURE_FOLDER) == 0)
            (void)remove_one(d.fd, e->d_name, (int64_t)time(NULL) - LEFT_S);
    (void)stk_dir_end(&d, rc, NULL); /* the next one tries again */
}

static int make_folder(void *user, void *answer)
{
    struct stk_err err = {0};
    char *path = NULL;
    remove_left(user);
    if (stk_own_temp_folder(user, STK_MEASURE_FOLDER, &path, NULL, &err) < 0)
        return err.sys_errno ? err.sys_errno : EIO;
    snprintf(answer, sizeof((struct stk_measured *)0)->left, "%s", path);
    free(path);
    return 0;
}

static int remove_folder(void *user, void *answer)
{
    const char *name;
    int dir = -1;
    (void)answer;
    (void)prctl(PR_SET_PDEATHSIG, 0); /* goes on if we are killed: it cleans up */
    if (stk_open_parent(user, &dir, &name, NULL) < 0)
        return EIO;
    int wrong = remove_one(dir, name, INT64_MAX);
    close(dir);
    return wrong;
}

int stk_measure_folder(const char *folder, const char *fs, bool memory,
                       const struct stk_measure_how *how, struct stk_measured *out)
{
    char path[sizeof out->left] = "", nothing;
    struct task t = make_task(path, fs, memory, how);
    const struct stk_limit limit = {.seconds = t.how.limit.seconds}, last = {.seconds = REMOVE_S};
    memset(out, 0, sizeof *out);
    int wrong = stk_helper_ask(make_folder, (void *)folder, &limit, path, sizeof path);
    if (!wrong)
        (void)run_tests(&t, test_folder, out);
    else
        out->error = wrong;
    if (path[0] && stk_helper_ask(remove_folder, path, &last, &nothing, sizeof nothing) != 0)
        memcpy(out->left, path, sizeof path);
    return out->error;
}
