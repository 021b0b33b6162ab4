/* Reading a dataset through its copies, and filling them while reading: by several threads, by
 * several processes' worth of overlays, and with everything that may happen to a copy meanwhile. */
#include "ioset.h"
#include "tier/overlay.h"
#include "tier/priv.h"

#include <fcntl.h>
#include <unistd.h>

#define SIZE  (STK_TIER_PARCEL + 100000u) /* two parcels */
#define NSET  3u
#define READS 40u

static struct stk_tier_overlay *open_overlay(struct set *s, const char *tiers, bool fill)
{
    struct stk_tier_overlay *o = NULL;
    struct stk_buf notes = STK_BUF_INIT;
    struct stk_err err = {0};
    struct stk_tier_use use = {.tiers = tiers, .fill = fill};
    CHECK_INT(stk_tier_overlay_open(s->ds, &use, &o, &notes, &err), 0);
    CHECK_STR(err.what, "");
    CHECK_STR(stk_buf_cstr(&notes), "");
    stk_buf_release(&notes);
    return o;
}

/* ---- reads ---- */

struct reader {
    struct set *set;
    struct stk_tier_overlay *o;
    const struct engine *engine;
    struct stk_io_stats stats;
    unsigned wrong, failed;
};

static void read_at(struct reader *r, struct stk_io *io, uint64_t *seed, void *buf)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    uint32_t file = (uint32_t)(*seed >> 33) % NSET;
    uint64_t off = (*seed >> 20) % (SIZE - 70000);
    struct stk_io_req *done = NULL,
                      req = {.file = file, .off = off, .len = 65536, .buf = buf, .segment = -1};
    stk_io_submit(io, &req);
    while (stk_io_reap(io, &done, 1, true) == 0)
        ;
    r->failed += req.code != 0;
    r->wrong += req.code == 0 && memcmp(req.data, r->set->bytes[file].data + off, req.len) != 0;
    free(req.why);
}

static void *read_many(void *arg)
{
    struct reader *r = arg;
    struct stk_files files = *r->set->files;
    struct stk_io_config cfg = {.kind = r->engine->kind, .depth = 4};
    struct stk_io *io = NULL;
    uint64_t seed = (uintptr_t)r;
    void *buf = aligned_alloc(STK_IO_ALIGN, stk_io_room(65536));
    files.overlay = r->o ? stk_tier_overlay_files(r->o) : NULL;
    if (stk_io_open(&files, &cfg, &io, NULL) < 0)
        r->failed++;
    for (unsigned i = 0; io && i < READS; i++)
        read_at(r, io, &seed, buf);
    if (io)
        stk_io_stats(io, &r->stats);
    stk_io_close(io);
    free(buf);
    return NULL;
}

static void read_alone(struct set *s, struct stk_tier_overlay *o, const struct engine *e,
                       struct stk_io_stats *stats)
{
    struct reader r = {.set = s, .o = o, .engine = e};
    read_many(&r);
    CHECK_INT(r.wrong, 0);
    CHECK_INT(r.failed, 0);
    *stats = r.stats;
}

static const struct engine threads = {"threads", STK_IO_THREADS, false};

/* Every range of every file. */
static void fill_all(struct set *s, struct stk_tier_overlay *o)
{
    const struct stk_files_overlay *base = stk_tier_overlay_files(o);
    void *p = malloc(SIZE + 100);
    for (uint32_t f = 0; f < NSET; f++) {
        CHECK_INT(base->fetch(base, f, 0, s->bytes[f].len, p), 0);
        CHECK(memcmp(p, s->bytes[f].data, s->bytes[f].len) == 0);
    }
    free(p);
}

/* ---- cases ---- */

/* A tier that is filled is found, and all bytes come from it, whatever the engine. */
static void filled(struct set *s)
{
    const char *tier = scratch_path("filled");
    struct stk_tier_overlay *o = open_overlay(s, tier, true);
    struct stk_tier_filled did;
    struct stk_io_stats st;
    read_alone(s, o, &threads, &st);
    CHECK(st.level_bytes[0] > 0 && st.level_bytes[1] > 0);
    fill_all(s, o);
    stk_tier_overlay_filled(o, &did);
    CHECK_INT(did.bytes, s->files->bytes);
    CHECK_STR(did.why, "");
    stk_tier_overlay_close(o); /* publishes it */
    o = open_overlay(s, tier, false);
    CHECK(o && stk_tier_overlay_files(o)->whole);
    for (size_t e = 0; e < NENGINES; e++) {
        read_alone(s, o, &all_engines[e], &st);
        CHECK_INT(st.level_bytes[0], 0);
        CHECK_INT(st.level_bytes[1], READS * 65536);
    }
    stk_tier_overlay_close(o);
    CHECK(open_overlay(s, "off", false) == NULL);
    setenv("STOKER_TIER", tier, 1);
    o = open_overlay(s, NULL, false);
    CHECK(o != NULL);
    stk_tier_overlay_close(o);
    setenv("STOKER_TIER", "off", 1);
    CHECK(open_overlay(s, "auto", false) == NULL);
    unsetenv("STOKER_TIER");
}

/* Several threads with one overlay, and another overlay as another process has it, fill one set. */
static void filled_at_once(struct set *s)
{
    enum { N = 4 };
    const char *tier = scratch_path("at-once");
    struct stk_tier_overlay *a = open_overlay(s, tier, true), *b = open_overlay(s, tier, true);
    struct stk_tier_overlay *c = open_overlay(s, tier, false);
    struct reader r[N + 1];
    pthread_t t[N + 1];
    for (unsigned i = 0; i <= N; i++) {
        r[i] = (struct reader){.set = s, .o = i == N ? c : i % 2 ? a : b, .engine = &threads};
        CHECK(pthread_create(&t[i], NULL, read_many, &r[i]) == 0);
    }
    for (unsigned i = 0; i <= N; i++) {
        CHECK(pthread_join(t[i], NULL) == 0);
        CHECK_INT(r[i].wrong, 0);
        CHECK_INT(r[i].failed, 0);
    }
    fill_all(s, a);
    struct stk_tier_filled one, two;
    stk_tier_overlay_filled(a, &one);
    stk_tier_overlay_filled(b, &two);
    CHECK_INT(one.bytes + two.bytes, s->files->bytes); /* each parcel was fetched once */
    stk_tier_overlay_close(c);
    stk_tier_overlay_close(b);
    stk_tier_overlay_close(a);
}

/* Does something to the copy of file 1, with the path that the overlay reads. */
static void harm(struct stk_tier_overlay *o, const char *how)
{
    const struct stk_files_overlay *base = stk_tier_overlay_files(o);
    char *path = base->path(base, 1, 1);
    struct stat st;
    usleep(20000); /* a tick of the file system's clock */
    if (strcmp(how, "gone") == 0) {
        CHECK(unlink(path) == 0);
    } else if (strcmp(how, "cut") == 0) {
        CHECK(truncate(path, 1000) == 0);
    } else {
        int fd = open(path, O_RDWR);
        CHECK(fd >= 0 && fstat(fd, &st) == 0);
        for (off_t at = 0; at < SIZE; at += 1000)
            CHECK(pwrite(fd, "x", 1, at) == 1);
        if (strcmp(how, "kept") == 0)
            CHECK(futimens(fd, (struct timespec[2]){st.st_atim, st.st_mtim}) == 0);
        close(fd);
    }
    free(path);
}

/* No engine ever returns a byte of a copy that was changed, before or after it was opened. */
static void harmed(struct set *s, const char *how)
{
    const char *tier = scratch_path(how);
    for (size_t e = 0; e < NENGINES; e++) {
        const struct engine *engine = &all_engines[e];
        if (engine->no_uring)
            continue;
        struct stk_tier_overlay *o = open_overlay(s, tier, true);
        struct stk_io_stats st;
        fill_all(s, o);
        stk_tier_overlay_close(o);
        o = open_overlay(s, tier, false);
        CHECK(o != NULL);
        harm(o, how);
        read_alone(s, o, engine, &st);
        CHECK(st.level_bytes[0] > 0 && st.level_bytes[1] > 0);
        CHECK(st.level_bytes[0] + st.level_bytes[1] == READS * 65536);
        stk_tier_overlay_close(o);
    }
}

/* The same between two reads of a file that is open: through the page cache it is seen at once. */
static void harmed_while_open(struct set *s, const char *how)
{
    char name[40];
    snprintf(name, sizeof name, "open-%s", how);
    struct stk_tier_overlay *o = open_overlay(s, scratch_path(name), true);
    fill_all(s, o);
    stk_tier_overlay_close(o);
    o = open_overlay(s, scratch_path(name), false);
    struct stk_files files = *s->files;
    files.overlay = stk_tier_overlay_files(o);
    struct stk_io *io = open_io(&files, &threads, 4);
    struct reader r = {.set = s};
    void *buf = aligned_alloc(STK_IO_ALIGN, stk_io_room(65536));
    uint64_t seed = 1;
    for (unsigned i = 0; i < 10; i++)
        read_at(&r, io, &seed, buf);
    harm(o, how);
    for (unsigned i = 0; i < 20; i++)
        read_at(&r, io, &seed, buf);
    CHECK_INT(r.wrong, 0);
    CHECK_INT(r.failed, 0);
    stk_io_close(io);
    free(buf);
    stk_tier_overlay_close(o);
}

/* A disk that loses bytes changes no time: the checksums of the samples reveal it, and they come
 * from the source. */
static void rotten(struct set *s)
{
    const char *tier = scratch_path("rotten");
    struct stk_tier_overlay *o = open_overlay(s, tier, true);
    struct stk_tier *t = NULL;
    struct stk_tier_set *ts = NULL;
    struct stk_ledger_record r;
    struct stat st;
    fill_all(s, o);
    harm(o, "kept");
    stk_tier_overlay_close(o);
    CHECK(stk_tier_open(tier, &(struct stk_tier_options){0}, &t, NULL) == 0);
    CHECK_INT(stk_tier_set_find(t, stk_dataset_identity(s->ds), &ts, NULL), 1);
    char *path = stk_tier_set_path(ts), file[800];
    snprintf(file, sizeof file, "%s/f-00001.tfrecord", path);
    free(path);
    CHECK(stat(file, &st) == 0 && stk_ledger_record(ts, 1, &r));
    stk_tier_stamp_take(&r, &st); /* as if nothing had happened */
    CHECK(stk_ledger_put_record(ts, 1, &r, NULL) == 0);
    stk_tier_set_close(ts);
    stk_tier_close(t);

    struct stk_loader_options lo = {.batch = 1, .tier = tier};
    struct stk_loader *ld = NULL;
    struct stk_batch *b = NULL;
    struct stk_loader_stats stats;
    unsigned n = 0;
    CHECK_INT(stk_loader_open(s->ds, &lo, &ld, NULL), 0);
    for (; stk_loader_next(ld, &b, NULL) == 1; n++) {
        const struct stk_span *v = &b->column[0].span[0];
        const struct stk_buf *want = &s->bytes[b->id[0]];
        CHECK(v->size == want->len - 16 && memcmp(v->data, want->data + 12, v->size) == 0);
        stk_batch_release(b);
    }
    CHECK_INT(n, NSET);
    stk_loader_stats(ld, &stats);
    CHECK_INT(stats.corrupt, 0);
    CHECK(stats.tier_disk_bytes + stats.tier_memory_bytes > 0);
    stk_loader_close(ld);
}

/* A copy of another version of the dataset is no copy of this one. */
static void other_version(struct set *s)
{
    const char *tier = scratch_path("versions");
    struct stk_tier_overlay *o = open_overlay(s, tier, true);
    struct set newer;
    fill_all(s, o);
    stk_tier_overlay_close(o);
    make_set(&newer, "newer", NSET, SIZE, 8);
    CHECK(open_overlay(&newer, tier, false) == NULL);
    o = open_overlay(&newer, tier, true);
    fill_all(&newer, o);
    stk_tier_overlay_close(o);
    drop_set(&newer);
}

int main(int argc, char **argv)
{
    struct set s;
    scratch_begin();
    CHECK_BEGIN(argc, argv);
    make_set(&s, "set", NSET, SIZE, 8);
    CHECK_CASE("filled", NULL, filled(&s));
    CHECK_CASE("filled_at_once", NULL, filled_at_once(&s));
    CHECK_FOR("gone", harmed, &s, "gone");
    CHECK_FOR("cut", harmed, &s, "cut");
    CHECK_FOR("changed", harmed, &s, "changed");
    CHECK_FOR("kept", harmed, &s, "kept");
    CHECK_FOR("gone", harmed_while_open, &s, "gone");
    CHECK_FOR("cut", harmed_while_open, &s, "cut");
    CHECK_FOR("changed", harmed_while_open, &s, "changed");
    CHECK_FOR("kept", harmed_while_open, &s, "kept");
    CHECK_CASE("rotten", NULL, rotten(&s));
    CHECK_CASE("other_version", NULL, other_version(&s));
    drop_set(&s);
    scratch_done();
    return CHECK_DONE();
}
