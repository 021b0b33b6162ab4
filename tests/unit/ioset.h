/*
 * ioset.h - for the tests of the I/O engines: files whose bytes are known, of a dataset or not, and
 * requests that are compared with them.
 */
#ifndef IOSET_H
#define IOSET_H

#include "check.h"
#include "scratch.h"
#include "dataset/dataset.h"
#include "io/priv.h"

#include <stdlib.h>

struct engine {
    const char *label;
    enum stk_io_kind kind;
    bool no_uring;
};

#define NENGINES 6
static const struct engine all_engines[NENGINES] = {
    {"direct", STK_IO_DIRECT, false},   {"direct-without-uring", STK_IO_DIRECT, true},
    {"uring", STK_IO_URING, false},     {"uring-without-uring", STK_IO_URING, true},
    {"threads", STK_IO_THREADS, false}, {"mmap", STK_IO_MMAP, false},
};

static uint64_t rng = 1;

static inline uint64_t next_random(uint64_t below)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng % below;
}

/* ---- files whose bytes are known ---- */

#define FILES_MAX 700u

struct set {
    struct stk_dataset *ds; /* NULL: a plain list of files */
    const struct stk_files *files;
    unsigned nfiles;
    struct stk_buf bytes[FILES_MAX];
};

static inline void set_path(char *out, size_t room, const char *name, unsigned file)
{
    snprintf(out, room, "%s/%s/f-%05u.tfrecord", scratch, name, file);
}

/* File i: one record of size + i * step bytes. */
static inline void make_set(struct set *s, const char *name, unsigned nfiles, size_t size,
                            size_t step)
{
    struct stk_err err = {0};
    struct stk_open_options o = {.payload = "raw", .no_index_write = true};
    memset(s, 0, sizeof *s);
    s->nfiles = nfiles;
    for (unsigned i = 0; i < nfiles; i++) {
        char file[100];
        size_t n = size + i * step;
        uint8_t *p = malloc(n);
        for (size_t k = 0; k < n; k += sizeof rng) {
            next_random(1);
            memcpy(p + k, &rng, n - k < sizeof rng ? n - k : sizeof rng);
        }
        scratch_record(&s->bytes[i], p, n);
        snprintf(file, sizeof file, "%s/f-%05u.tfrecord", name, i);
        scratch_file(file, s->bytes[i].data, s->bytes[i].len);
        free(p);
    }
    CHECK_INT(stk_dataset_open(scratch_path(name), &o, &s->ds, &err), 0);
    CHECK_STR(err.what, "");
    CHECK_INT(s->ds->index.h->nfiles, nfiles);
    s->files = &s->ds->files;
}

static inline void drop_set(struct set *s)
{
    stk_dataset_close(s->ds);
    for (unsigned i = 0; i < s->nfiles; i++)
        stk_buf_release(&s->bytes[i]);
}

static inline struct stk_io *open_io(const struct stk_files *files, const struct engine *e,
                                     unsigned depth)
{
    struct stk_io *io = NULL;
    struct stk_err err = {0};
    struct stk_io_config cfg = {.kind = e->kind, .depth = depth, .random = depth & 1};
    if (e->no_uring)
        setenv("STOKER_NO_URING", "1", 1);
    CHECK_INT(stk_io_open(files, &cfg, &io, &err), 0);
    unsetenv("STOKER_NO_URING");
    CHECK_STR(err.what, "");
    if (!io)
        exit(CHECK_DONE());
    return io;
}

/* ---- requests ---- */

static inline void init_req(struct stk_io_req *req, struct stk_io *io, uint32_t file, uint64_t off,
                            size_t len)
{
    *req = (struct stk_io_req){.file = file, .off = off, .len = len, .segment = -1};
    if (!stk_io_maps(io))
        req->buf = aligned_alloc(STK_IO_ALIGN, stk_io_room(len));
}

static inline void free_req(struct stk_io_req *req)
{
    free(req->buf);
    free(req->why);
    req->buf = NULL;
    req->why = NULL;
}

static inline struct stk_io_req *reap_one(struct stk_io *io)
{
    struct stk_io_req *done = NULL;
    while (stk_io_reap(io, &done, 1, true) == 0)
        ;
    return done;
}

/* Reads one range; its code. *req is to be freed. */
static inline int read_one(struct stk_io *io, uint32_t file, uint64_t off, size_t len,
                           struct stk_io_req *req)
{
    init_req(req, io, file, off, len);
    stk_io_submit(io, req);
    CHECK(reap_one(io) == req);
    CHECK((req->code < 0) == (req->why != NULL));
    return req->code;
}

static inline bool right_bytes(const struct set *s, const struct stk_io_req *req)
{
    return req->code == 0 && req->data &&
           memcmp(req->data, s->bytes[req->file].data + req->off, req->len) == 0;
}

static inline void pick(const struct set *s, uint32_t *file, uint64_t *off, size_t *len, size_t max)
{
    *file = (uint32_t)next_random(s->nfiles);
    uint64_t size = s->bytes[*file].len;
    *off = next_random(size);
    *len = 1 + (size_t)next_random(size - *off < max ? size - *off : max);
    if (next_random(4) == 0)
        *len = (size_t)(size - *off); /* up to the very end */
}

/* Keeps the queue full with n random ranges, and compares every one. */
static inline void many_reads(const struct set *s, struct stk_io *io, unsigned n, size_t max)
{
    unsigned depth = stk_io_depth(io), submitted = 0, reaped = 0;
    struct stk_io_req *req = calloc(depth, sizeof *req), *done[16];
    unsigned nidle = depth;
    struct stk_io_req **idle = calloc(depth, sizeof(struct stk_io_req *));
    for (unsigned i = 0; i < depth; i++)
        idle[i] = &req[i];
    while (reaped < n) {
        while (submitted < n && stk_io_free_slots(io) && nidle) {
            uint32_t file;
            uint64_t off;
            size_t len;
            pick(s, &file, &off, &len, max);
            struct stk_io_req *r = idle[--nidle];
            init_req(r, io, file, off, len);
            stk_io_submit(io, r);
            submitted++;
        }
        CHECK_INT(stk_io_free_slots(io), depth - (submitted - reaped));
        size_t got = stk_io_reap(io, done, 16, true);
        for (size_t i = 0; i < got; i++) {
            CHECK(right_bytes(s, done[i]));
            free_req(done[i]);
            idle[nidle++] = done[i];
        }
        reaped += (unsigned)got;
    }
    CHECK_INT(stk_io_reap(io, done, 16, false), 0);
    free(idle);
    free(req);
}

#endif
