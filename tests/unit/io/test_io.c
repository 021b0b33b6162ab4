/*
 * test_io.c - one suite for every engine: the right bytes from any range, whatever happens to the
 * files meanwhile an error of that request only, and no call that hangs.
 */
#include "ioset.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A training run would learn from the wrong bytes. */
static void random_ranges(const struct set *s, const struct engine *e)
{
    struct stk_io_stats st;
    for (unsigned depth = 1; depth <= 33; depth += 16) {
        struct stk_io *io = open_io(s->files, e, depth);
        CHECK_INT(stk_io_depth(io), depth);
        CHECK_INT(stk_io_free_slots(io), depth);
        many_reads(s, io, 100, 200000);
        many_reads(s, io, 100, 100);
        stk_io_stats(io, &st);
        CHECK(st.reads >= 200 && st.bytes_read > 0);
        CHECK_INT(st.opens, s->nfiles);
        CHECK(st.busy_s > 0 && st.depth_integral_s > 0);
        CHECK(st.depth_integral_s <= st.busy_s * (depth + 0.01));
        stk_io_close(io);
    }
}

/* The last record of a file could not be read. */
static void ends_of_files(const struct set *s, const struct engine *e)
{
    struct stk_io *io = open_io(s->files, e, 4);
    struct stk_io_req req;
    for (uint32_t i = 0; i < s->nfiles; i++) {
        uint64_t size = s->bytes[i].len;
        uint64_t at[][2] = {
            {0, 1},       {0, size}, {size - 1, 1}, {1, size - 1}, {size / 2, size - size / 2},
            {0, size / 2}};
        for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
            CHECK_INT(read_one(io, i, at[k][0], (size_t)at[k][1], &req), 0);
            CHECK(right_bytes(s, &req));
            free_req(&req);
        }
        CHECK_INT(read_one(io, i, 0, (size_t)size + 1, &req), STK_E_CORRUPT);
        CHECK_STR(req.why->what, "a read past the end of the file");
        free_req(&req);
        CHECK_INT(read_one(io, i, UINT64_MAX - 5, 10, &req), STK_E_CORRUPT);
        free_req(&req);
    }
    CHECK(read_one(io, s->nfiles, 0, 1, &req) < 0); /* no such file */
    free_req(&req);
    stk_io_close(io);
}

/* A file that vanished or changed would end the program, or give bytes of another file. */
static void changed_files(const struct engine *e)
{
    struct set s;
    struct stk_io_req req;
    char path[4][700];
    make_set(&s, "changed", 4, 100000, 0);
    for (unsigned i = 0; i < 4; i++)
        set_path(path[i], sizeof path[i], "changed", i);
    struct stk_io *io = open_io(s.files, e, 8);
    CHECK_INT(unlink(path[0]), 0);
    CHECK_INT(truncate(path[1], 5000), 0);
    CHECK(unlink(path[2]) == 0 && mkdir(path[2], 0700) == 0);
    CHECK_INT(read_one(io, 0, 10, 10, &req), STK_E_SYS);
    CHECK_STR(req.why->path, path[0]);
    CHECK_STR(req.why->what, "open: No such file or directory");
    free_req(&req);
    CHECK_INT(read_one(io, 1, 10, 10, &req), STK_E_STALE);
    CHECK_STR(req.why->path, path[1]);
    CHECK_STR(req.why->what, "the file changed since it was indexed; run again");
    free_req(&req);
    CHECK_INT(read_one(io, 2, 10, 10, &req), STK_E_STALE);
    CHECK_STR(req.why->what, "not a regular file");
    free_req(&req);
    CHECK(rmdir(path[2]) == 0 && mkfifo(path[2], 0600) == 0);
    CHECK_INT(read_one(io, 2, 10, 10, &req), STK_E_STALE); /* and does not hang */
    free_req(&req);
    CHECK_INT(read_one(io, 3, 7, 50000, &req), 0); /* the others go on */
    CHECK(right_bytes(&s, &req));
    free_req(&req);
    stk_io_close(io);
    drop_set(&s);
    stk_remove_tree(scratch_path("changed"), NULL);
}

static void look_at_all(const struct stk_io_req *req)
{
    static volatile uint8_t sink;
    for (size_t i = 0; i < req->len; i++)
        sink = req->data[i];
    (void)sink;
}

/* A file that shrinks while it is open would give zeros for data, or SIGBUS. */
static void shrinking_file(const struct engine *e)
{
    struct set s;
    struct stk_io_req req, kept;
    char path[700];
    make_set(&s, "shrink", 1, 300000, 0);
    set_path(path, sizeof path, "shrink", 0);
    struct stk_io *io = open_io(s.files, e, 8);
    CHECK_INT(read_one(io, 0, 200000, 90000, &kept), 0);
    CHECK(stk_io_intact(io, 0, 200000, 90000));
    CHECK_INT(truncate(path, 65536), 0);
    int rc = read_one(io, 0, 60000, 100000, &req);
    if (stk_io_maps(io)) {
        /* Either the engine or the reader of the bytes detects it. */
        CHECK(rc == 0 || rc == STK_E_STALE);
        if (rc == 0) {
            look_at_all(&req);
            CHECK(!stk_io_intact(io, 0, 60000, 100000));
        }
        look_at_all(&kept);
        CHECK(!stk_io_intact(io, 0, 200000, 90000));
        CHECK(stk_io_intact(io, 0, 0, 65536));
    } else {
        CHECK_INT(rc, STK_E_STALE);
        CHECK_STR(req.why->what, "the file became shorter");
        CHECK_STR(req.why->path, path);
        CHECK_INT(req.why->offset, 65536);
        CHECK(right_bytes(&s, &kept));
    }
    free_req(&req);
    CHECK_INT(read_one(io, 0, 1000, 60000, &req), 0);
    CHECK(right_bytes(&s, &req));
    free_req(&req);
    free_req(&kept);
    stk_io_close(io);
    drop_set(&s);
    stk_remove_tree(scratch_path("shrink"), NULL);
}

/* A file system that refuses a direct read half way (another device below, a network's server)
 * would stop the training. */
static void refused_direct_reads(const struct set *s, const struct engine *e)
{
    struct stk_io *io = open_io(s->files, e, 8);
    struct stk_io_req req;
    for (uint32_t i = 0; i < s->nfiles; i++) {
        CHECK_INT(read_one(io, i, 3, 1000, &req), 0);
        free_req(&req);
    }
    for (struct stk_file *f = io->handles.newest; f; f = f->older)
        f->refuses = true;
    many_reads(s, io, 100, 100000);
    stk_io_close(io);
}

/* ---- waking ---- */

static void *wake_later(void *io)
{
    usleep(20000);
    stk_io_wake(io);
    return NULL;
}

/* Ctrl-C would not end a loader that waits. */
static void waking(const struct set *s, const struct engine *e)
{
    struct stk_io *io = open_io(s->files, e, 4);
    struct stk_io_req *done[4], req;
    pthread_t t;
    CHECK_INT(stk_io_reap(io, done, 4, false), 0);
    stk_io_wake(io);
    stk_io_wake(io);
    CHECK_INT(stk_io_reap(io, done, 4, true), 0); /* one that came before counts once */
    for (int i = 0; i < 3; i++) {
        CHECK_INT(pthread_create(&t, NULL, wake_later, io), 0);
        CHECK_INT(stk_io_reap(io, done, 4, true), 0);
        pthread_join(t, NULL);
    }
    CHECK_INT(read_one(io, 0, 5, 100, &req), 0);
    CHECK(right_bytes(s, &req));
    free_req(&req);
    stk_io_close(io);
}

struct wakers {
    struct stk_io *io;
    _Atomic bool stop;
};

static void *wake_often(void *arg)
{
    struct wakers *w = arg;
    while (!w->stop) {
        struct stk_io_stats st;
        stk_io_wake(w->io);
        stk_io_stats(w->io, &st);
        usleep(50);
    }
    return NULL;
}

/* The same while reads go on; the sanitizers see what goes wrong. */
static void waking_under_load(const struct set *s, const struct engine *e)
{
    struct wakers w = {.io = open_io(s->files, e, 16)};
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        CHECK_INT(pthread_create(&t[i], NULL, wake_often, &w), 0);
    many_reads(s, w.io, 500, 50000);
    w.stop = true;
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    stk_io_close(w.io);
}

/* ---- ending ---- */

struct owner {
    struct stk_io *io;
    const struct set *s;
    struct stk_io_req req[16];
    bool stop;
};

static void *submit_and_leave(void *arg)
{
    struct owner *o = arg;
    for (uint32_t i = 0; i < 16; i++) {
        init_req(&o->req[i], o->io, i % (o->s->nfiles + 1), i * 100, 50000);
        stk_io_submit(o->io, &o->req[i]);
        if (i == 11) {
            struct stk_io_req *done;
            stk_io_reap(o->io, &done, 0, false); /* so that some have begun */
        }
    }
    if (o->stop)
        stk_io_stop(o->io);
    return NULL;
}

/* Reads would go on into memory that was freed, or the program would not end. */
static void closing_in_flight(const struct set *s, const struct engine *e)
{
    for (int round = 0; round < 4; round++) {
        struct owner o = {.io = open_io(s->files, e, 16), .s = s, .stop = round & 1};
        pthread_t t;
        if (round >= 2) { /* the owner is a thread of its own */
            CHECK_INT(pthread_create(&t, NULL, submit_and_leave, &o), 0);
            pthread_join(t, NULL);
        } else {
            submit_and_leave(&o);
        }
        stk_io_close(o.io);
        for (int i = 0; i < 16; i++)
            free(o.req[i].buf);
    }
    stk_io_close(open_io(s->files, e, 3)); /* nothing was done with it */
    stk_io_close(NULL);
}

/* A worker process forked off while a loader reads would hang when it ends, or take the loader's
 * reads with it. */
static void closing_after_fork(const struct set *s, const struct engine *e)
{
    struct stk_io *io = open_io(s->files, e, 8);
    struct stk_io_req req[8];
    int status = -1;
    for (uint32_t i = 0; i < 8; i++) {
        init_req(&req[i], io, i % s->nfiles, i * 100, 50000);
        stk_io_submit(io, &req[i]);
    }
    stk_io_reap(io, NULL, 0, false);
    pid_t child = fork();
    if (child == 0) {
        alarm(300);
        stk_io_close(io);
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    for (int i = 0; i < 8; i++)
        CHECK(right_bytes(s, reap_one(io)));
    stk_io_close(io);
    for (int i = 0; i < 8; i++)
        free_req(&req[i]);
}

/* ---- many files ---- */

static unsigned open_fds(void)
{
    unsigned n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* A dataset of more files than the process may open could not be read. */
static void more_files_than_allowed(const struct engine *e, const struct set *s)
{
    struct rlimit old, few;
    getrlimit(RLIMIT_NOFILE, &old);
    few = (struct rlimit){.rlim_cur = 64, .rlim_max = old.rlim_max};
    unsigned before = open_fds();
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct stk_io *io = open_io(s->files, e, 8);
    many_reads(s, io, 3 * s->nfiles, 100000);
    CHECK(open_fds() < before + 16 + 8 + 4);
    stk_io_close(io);
    CHECK_INT(open_fds(), before);
    setrlimit(RLIMIT_NOFILE, &old);
}

/* ---- registered memory ---- */

/* Reads into memory the engine knows of would go to the wrong place. */
static void registered_memory(const struct set *s, const struct engine *e)
{
    enum { PIECE = 1 << 20, PIECES = 3 };
    struct stk_io *io = open_io(s->files, e, 8);
    uint8_t *p[PIECES];
    int segment[PIECES];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PIECES; i++) {
            p[i] = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            segment[i] = stk_io_register(io, p[i], PIECE);
        }
        for (unsigned k = 0; k < 60; k++) {
            struct stk_io_req req = {.segment = segment[k % PIECES]};
            pick(s, &req.file, &req.off, &req.len, 200000);
            if (req.len > PIECE / 2)
                req.len = PIECE / 2;
            req.buf = stk_io_maps(io) ? NULL : p[k % PIECES] + k % 7 * STK_IO_ALIGN;
            stk_io_submit(io, &req);
            CHECK(reap_one(io) == &req);
            CHECK(right_bytes(s, &req));
        }
        for (int i = 0; i < PIECES; i++) {
            stk_io_unregister(io, segment[i]);
            munmap(p[i], PIECE);
        }
    }
    stk_io_close(io);
}

/* ---- bytes that are looked at as they come ---- */

struct watched {
    const struct set *s;
    size_t told; /* bytes, the last time */
    unsigned calls, wrong;
};

static void note_arrived(struct stk_io_req *req, size_t n)
{
    struct watched *w = req->user;
    const uint8_t *want = w->s->bytes[req->file].data + req->off;
    w->wrong += n < w->told || n > req->len || memcmp(req->data, want, n) != 0;
    w->told = n;
    w->calls++;
}

/* A checksum would be taken of bytes that are not there yet, or not of all. */
static void told_as_they_come(const struct set *s, const struct engine *e)
{
    struct stk_io *io = open_io(s->files, e, 4);
    struct stk_io_req req;
    for (unsigned i = 0; i < 40; i++) {
        struct watched w = {.s = s};
        uint32_t file;
        uint64_t off;
        size_t len;
        pick(s, &file, &off, &len, 600000);
        init_req(&req, io, file, off, len);
        req.user = &w;
        req.arrived = note_arrived;
        stk_io_submit(io, &req);
        CHECK(reap_one(io) == &req);
        CHECK(right_bytes(s, &req));
        CHECK_INT(w.wrong, 0);
        CHECK(!w.calls || w.told == len);
        CHECK(w.calls || e->kind != STK_IO_THREADS);
        CHECK(!w.calls || e->kind != STK_IO_MMAP);
        free_req(&req);
    }
    CHECK(read_one(io, s->nfiles, 0, 1, &req) < 0);
    free_req(&req);
    stk_io_close(io);
}

static void suite(const struct engine *e, const struct set *s, const struct set *small,
                  const struct set *large)
{
    CHECK_FOR(e->label, random_ranges, s, e);
    CHECK_FOR(e->label, ends_of_files, s, e);
    CHECK_FOR(e->label, changed_files, e);
    CHECK_FOR(e->label, shrinking_file, e);
    CHECK_FOR(e->label, refused_direct_reads, s, e);
    CHECK_FOR(e->label, waking, s, e);
    CHECK_FOR(e->label, waking_under_load, s, e);
    CHECK_FOR(e->label, closing_in_flight, s, e);
    CHECK_FOR(e->label, closing_after_fork, s, e);
    CHECK_FOR(e->label, registered_memory, s, e);
    CHECK_FOR(e->label, told_as_they_come, s, e);
    CHECK_FOR(e->label, more_files_than_allowed, e, small);
    CHECK_CASE("more_large_files_than_allowed", e->label, more_files_than_allowed(e, large));
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    static struct set s, small, large;
    scratch_begin();
    make_set(&s, "set", 5, 150000, 99991);
    make_set(&small, "small", 400, 3, 17);     /* opened, read and closed in one go */
    make_set(&large, "large", 24, 1100000, 3); /* the oldest is closed */
    for (size_t i = 0; i < NENGINES; i++)
        suite(&all_engines[i], &s, &small, &large);
    drop_set(&s);
    drop_set(&small);
    drop_set(&large);
    scratch_done();
    return CHECK_DONE();
}
