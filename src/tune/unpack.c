/*
 * unpack.c - what it costs to unpack compressed data: files that are compressed as a whole (gzip),
 * and the compressed extents of a format (chunks of HDF5, members of an npz). With stoker's loader,
 * the program no longer does that: the loader unpacks in its own threads, and packed data may not
 * be compressed at all. So that part of the program's CPU time is taken off. Programs use zlib for
 * what the loader unpacks with a faster library, so zlib is timed as well. The cells of a table are
 * counted: packed, each takes as many bytes as its type. Pieces of files are packed with zstd:
 * whether compression can pay is known before anything is packed.
 */
#include "tune/unpack.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/pool.h"
#include "base/text.h"
#include "dataset/fetch.h"
#include "host/tree.h"

#define FILES    4
#define EXTENTS  16            /* of a file */
#define PART_MAX (8u << 20)    /* of a file, or of an extent, this much at most */
#define TIME_S   2.0           /* for all of it */
#define PIECES   8             /* packed with zstd, each of another file */
#define PIECE    (128u << 10)
#define WINDOW   15            /* the largest */
#define WRAPPED  (WINDOW + 32) /* gzip or zlib, by the header */
#define OUT_SIZE (256u << 10)
#define TABLE_PART (64u << 10)

struct packed {
    const char *source;
    int (*tick)(void *user);
    void *user;
    double until_s;
    uint8_t *data, *out;
    struct stk_buf undone, scratch;
    double bytes, unpacked_bytes;
    double unpack_s, undo_s; /* CPU time of zlib, and of the loader */
};

/* Unpacks as much as there is; the CPU time. made (may be NULL): bytes. */
static double inflate_s(struct packed *p, size_t n, int window, double *made)
{
    z_stream z = {.next_in = p->data, .avail_in = (uInt)n};
    double begin = stk_thread_cpu_s();
    int rc = inflateInit2(&z, window);
    while (rc == Z_OK) {
        z.next_out = p->out;
        z.avail_out = OUT_SIZE;
        rc = inflate(&z, Z_NO_FLUSH);
    }
    if (made)
        *made += (double)z.total_out;
    inflateEnd(&z);
    return stk_thread_cpu_s() - begin;
}

static size_t read_part(const char *path, uint8_t *to, uint64_t off, size_t n)
{
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    size_t got = 0;
    if (fd >= 0 && stk_pread_full(fd, to, n, off, &got, path, NULL) != 0)
        got = 0;
    if (fd >= 0)
        close(fd);
    return got;
}

static void try_whole(struct packed *p, const char *path)
{
    size_t n = read_part(path, p->data, 0, PART_MAX);
    double s = n ? inflate_s(p, n, WRAPPED, &p->unpacked_bytes) : 0;
    p->bytes += (double)n;
    p->unpack_s += s;
    p->undo_s += s;
}

/* ---- extents -------------------------------------------------------------------------------- */

/* The window of zlib for what is stored; 0: something else. */
static int window_of(const struct stk_chain *c)
{
    switch (c->nsteps ? c->step[0].id : 0) {
    case STK_FILTER_ZLIB:
    case STK_FILTER_GZIP:
        return WRAPPED;
    case STK_FILTER_DEFLATE:
        return -WINDOW;
    default:
        return 0;
    }
}

static void try_extent(struct packed *p, const struct stk_dataset *ds, uint64_t i)
{
    struct stk_extent e;
    if (stk_index_extent(&ds->index, i, &e, NULL) || e.length > PART_MAX)
        return;
    char *path = stk_files_path(&ds->files, e.file);
    size_t n = e.chain ? read_part(path, p->data, e.offset, (size_t)e.length) : (size_t)e.length;
    free(path);
    if (n < e.length)
        return;
    p->bytes += (double)n;
    p->unpacked_bytes += e.chain ? 0 : (double)n;
    if (!e.chain)
        return;
    const struct stk_chain *c =
        (const struct stk_chain *)ds->index.table[STK_T_CHAINS] + (e.chain - 1);
    double begin = stk_thread_cpu_s();
    if (stk_fetch_decode(ds, i, &e, p->data, &p->undone, &p->scratch, NULL))
        return;
    double undo = stk_thread_cpu_s() - begin;
    int window = window_of(c);
    p->unpacked_bytes += (double)p->undone.len;
    p->undo_s += undo;
    p->unpack_s += fmax(undo, window ? inflate_s(p, n, window, NULL) : 0);
}

static int on_progress(void *user, uint64_t done, uint64_t total, uint64_t samples)
{
    struct packed *p = user;
    (void)done, (void)total, (void)samples;
    return stk_now() > p->until_s || (p->tick && p->tick(p->user));
}

static void try_extents(struct packed *p, const char *path, const struct stk_format *f)
{
    struct stk_open_options o = {
        .format = f->name, .jobs = 1, .no_index_write = true, .progress = on_progress, .user = p};
    struct stk_dataset *ds = NULL;
    if (stk_dataset_open(path, &o, &ds, NULL))
        return;
    uint64_t all = ds->index.h->nextents, n = all < EXTENTS ? all : EXTENTS;
    for (uint64_t i = 0; i < n && stk_now() < p->until_s; i++)
        try_extent(p, ds, i * all / n);
    stk_dataset_close(ds);
}

/* ---- tables of text ------------------------------------------------------------------------- */

#define CELL      8u  /* a number in an array */
#define TEXT_CELL 24u /* what a text takes beside its bytes: its end, its place in the index */
#define ROW       20u /* key and checksum of a row in the index */

/* The cells of its first rows as arrays: short numbers grow, long ones shrink. */
static void try_table(struct packed *p, const char *path)
{
    size_t n = read_part(path, p->data, 0, TABLE_PART), from = 0, rows = 0;
    double bytes = 0;
    for (size_t i = 0; i < n; i++) {
        bool ends = p->data[i] == '\n';
        if (!ends && p->data[i] != ',' && p->data[i] != '\t')
            continue;
        bool number = from == i || strchr("0123456789+-.", p->data[from]);
        bytes += number ? CELL : (double)(i - from) + TEXT_CELL;
        from = i + 1;
        rows += ends;
    }
    p->bytes += (double)from;
    p->unpacked_bytes += bytes + (double)(ROW * rows);
}

/* ---- zstd ----------------------------------------------------------------------------------- */

struct zstd {
    double in, out, seconds; /* bytes, those that zstd leaves, CPU time to unpack them */
};

/* A piece from the middle of a file. */
static void try_zstd(struct packed *p, const struct stk_tune_file *file, struct zstd *z)
{
    static const struct stk_chain chain = {.nsteps = 1, .step = {{.id = STK_FILTER_ZSTD}}};
    struct stk_buf small = STK_BUF_INIT;
    char *path = stk_tune_file_path(p->source, file);
    uint64_t at = file->bytes > PIECE ? (file->bytes - PIECE) / 2 : 0;
    size_t n = read_part(path, p->data, at, PIECE);
    if (n && stk_filter_encode(STK_FILTER_ZSTD, 0, p->data, n, &small, NULL) == 0) {
        double begin = stk_thread_cpu_s();
        (void)stk_filter_decode(&chain, small.data, small.len, &p->undone, &p->scratch, "", 0, NULL);
        z->seconds += stk_thread_cpu_s() - begin;
        z->in += (double)n;
        z->out += (double)small.len;
    }
    stk_buf_release(&small);
    free(path);
}

/* ---- files ---------------------------------------------------------------------------------- */

static bool is_packed(const char *name)
{
    size_t n = strlen(name);
    return stk_name_has_suffix(name, n, ".gz") || stk_name_has_suffix(name, n, ".tgz");
}

/* False: it says nothing about packed data. */
static bool try_file(struct packed *p, const struct stk_tune_file *file)
{
    const char *name = *file->name ? file->name : stk_base_name(p->source);
    const struct stk_format *f = stk_tune_format_of(name);
    bool whole = is_packed(name);
    if (!whole && !f)
        return false;
    char *path = stk_tune_file_path(p->source, file);
    if (path && whole)
        try_whole(p, path);
    else if (path && f->packs_as)
        try_table(p, path);
    else if (path)
        try_extents(p, path, f);
    free(path);
    return true;
}

void stk_tune_unpack(const char *source, const struct stk_tune_files *f, int (*tick)(void *user),
                     void *user, struct stk_unpack *out)
{
    struct packed p = {.source = source,
                       .tick = tick,
                       .user = user,
                       .until_s = stk_now() + TIME_S,
                       .data = malloc(PART_MAX + 1),
                       .out = malloc(OUT_SIZE),
                       .undone = STK_BUF_INIT,
                       .scratch = STK_BUF_INIT};
    size_t tried = 0, pieces = f->n < PIECES ? f->n : PIECES;
    struct zstd z = {0};
    for (size_t i = 0; p.data && i < pieces; i++)
        try_zstd(&p, &f->file[i * f->n / pieces], &z);
    for (size_t i = 0; p.data && p.out && i < f->n && tried < FILES && stk_now() < p.until_s; i++)
        tried += try_file(&p, &f->file[i]);
    *out = p.bytes > 0 ? (struct stk_unpack){.program_s = p.unpack_s / p.bytes,
                                             .loader_s = p.undo_s / p.bytes,
                                             .grows = p.unpacked_bytes / p.bytes}
                       : (struct stk_unpack){0};
    out->zstd_leaves = z.in > 0 ? z.out / z.in : 0;
    out->unzstd_s = z.in > 0 ? z.seconds / z.in : 0;
    stk_buf_release(&p.undone);
    stk_buf_release(&p.scratch);
    free(p.data);
    free(p.out);
}
