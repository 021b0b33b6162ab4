/*
 * look.c - the files of the data, and what some of them show: whether they are what their names say
 * (a broken array that is packed as bytes is packed broken: those that cannot be read are named
 * before anything is advised), how long the loader decodes a picture, and what it costs to unpack
 * compressed data.
 *
 * With stoker's loader, the program no longer unpacks: the loader does in its own threads, and
 * packed data may not be compressed at all. So that part of the program's CPU time is taken off.
 * Programs use zlib for what the loader unpacks with a faster library, so zlib is timed as well.
 * The cells of a table are counted: packed, each takes as many bytes as its type. Pieces of files
 * are packed with zstd: whether compression can pay is known before anything is packed.
 */
#include <fcntl.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/dir.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/random.h"
#include "base/text.h"
#include "dataset/fetch.h"
#include "dataset/verify.h"
#include "format/format.h"
#include "host/tree.h"
#include "image/image.h"
#include "tune/priv.h"

#define LOOK_AT  64            /* files */
#define FILE_MAX (32ull << 20) /* larger ones are not read */
#define TIME_S   2.0           /* for all of it, and for unpacking */

/* ---- a list of them -----------------------------------------------------------------------------
 */

#define FOLDER (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* The folders above one, so that links cannot lead in circles. */
struct above {
    dev_t dev;
    ino_t ino;
    const struct above *up;
};

static bool is_above(const struct above *a, const struct stat *st)
{
    while (a && (a->dev != st->st_dev || a->ino != st->st_ino))
        a = a->up;
    return a;
}

struct lister {
    const char *source, *match;
    bool names;
    int (*tick)(void *user);
    void *user;
    struct stk_tune_files *out;
    struct stk_buf at; /* the name of the folder being listed, with "/"; empty: the source */
};

static int add(struct lister *l, const char *name, const struct stat *st, struct stk_err *err)
{
    struct stk_tune_files *f = l->out;
    if (l->names) {
        if (STK_ARRAY_MORE(f->file, f->n, err))
            return STK_E_NOMEM;
        const char *kept = stk_arena_dup(&f->arena, name, strlen(name));
        if (!kept)
            return stk_err_nomem(err, strlen(name));
        f->file[f->n] = (struct stk_tune_file){kept, (uint64_t)st->st_size};
    }
    f->n++;
    f->bytes += (uint64_t)st->st_size;
    f->newest_s = fmax(f->newest_s,
                       (double)st->st_mtim.tv_sec + 1e-9 * (double)st->st_mtim.tv_nsec);
    return 0;
}

static bool is_counted(const struct lister *l, const char *name)
{
    return !stk_name_has_suffix(name, strlen(name), ".stkidx") &&
           (!l->match || fnmatch(l->match, name, 0) == 0);
}

static int by_size(const void *x, const void *y)
{
    const struct stk_tune_file *a = x, *b = y;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Takes ownership of fd; negative: errno says why. */
static int list_folder(struct lister *l, int fd, const struct above *up, struct stk_err *err)
{
    struct stk_dir d;
    struct stat st;
    size_t before = l->at.len;
    int rc = stk_dir_take(&d, fd, l->source, err);
    if (!rc && fstat(fd, &st) != 0)
        rc = stk_err_sys(err, l->source, "list");
    const struct above here = {rc ? 0 : st.st_dev, rc ? 0 : st.st_ino, up};
    for (const struct dirent *e; !rc && (e = stk_dir_next(&d)); l->at.len = before) {
        if (l->tick && l->tick(l->user))
            rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
        if (rc || e->d_name[0] == '.' || !stk_dir_stat(&d, e, 0, &st))
            continue;
        stk_buf_puts(&l->at, e->d_name);
        if (S_ISREG(st.st_mode) && is_counted(l, e->d_name))
            rc = add(l, stk_buf_cstr(&l->at), &st, err);
        if (!S_ISDIR(st.st_mode) || is_above(&here, &st))
            continue;
        stk_buf_putc(&l->at, '/');
        rc = stk_buf_check(&l->at, err);
        rc = rc ? rc : list_folder(l, openat(fd, e->d_name, FOLDER), &here, err);
    }
    return stk_dir_end(&d, rc, err);
}

static int list(struct lister *l, struct stk_err *err)
{
    struct stat st;
    *l->out = (struct stk_tune_files){0};
    int rc = stat(l->source, &st) != 0 ? stk_err_sys(err, l->source, "open the data")
             : S_ISREG(st.st_mode)     ? add(l, "", &st, err)
                                   : list_folder(l, open(l->source, FOLDER), NULL, err);
    stk_buf_release(&l->at);
    return rc;
}

int stk_tune_files_list(const char *source, const char *match, struct stk_tune_files *out,
                        struct stk_err *err)
{
    struct lister l = {
        .source = source, .match = match, .names = true, .out = out, .at = STK_BUF_INIT};
    int rc = list(&l, err);
    if (out->n)
        qsort(out->file, out->n, sizeof *out->file, by_size);
    return rc;
}

int stk_tune_files_count(const char *source, const char *match, int (*tick)(void *user), void *user,
                         struct stk_tune_files *out, struct stk_err *err)
{
    struct lister l = {.source = source, .match = match, .tick = tick, .user = user, .out = out,
                       .at = STK_BUF_INIT};
    return list(&l, err);
}

void stk_tune_files_thin(struct stk_tune_files *f, size_t keep, uint64_t seed)
{
    if (keep >= f->n)
        return;
    uint64_t state = seed;
    double step = keep ? (double)f->n / (double)keep : 0;
    double first = step * stk_random_unit(&state);
    uint64_t bytes = 0;
    for (size_t i = 0; i < keep; i++) {
        size_t at = (size_t)(first + step * (double)i);
        f->file[i] = f->file[at < f->n ? at : f->n - 1];
        bytes += f->file[i].bytes;
    }
    f->n = keep;
    f->bytes = bytes;
}

void stk_tune_files_release(struct stk_tune_files *f)
{
    free(f->file);
    stk_arena_release(&f->arena);
}

char *stk_tune_file_path(const char *source, const struct stk_tune_file *f)
{
    return *f->name ? stk_path_join(source, f->name) : strdup(source);
}

static const char *name_of(const char *source, const struct stk_tune_file *f)
{
    return *f->name ? f->name : stk_base_name(source);
}

/* The format of a file by its name; NULL: the name says nothing. */
static const struct stk_format *format_of(const char *name)
{
    for (size_t i = 0; stk_format_at(i) && !stk_format_at(i)->instead; i++)
        if (stk_format_suffix_matches(stk_format_at(i), name) &&
            !(stk_format_at(i)->caps & STK_CAN_BE_FOLDER))
            return stk_format_at(i);
    return NULL;
}

/* ---- unpacking: whole files ------------------------------------------------------------------ */

#define FILES    4
#define EXTENTS  16            /* of a file */
#define PART_MAX (8u << 20)    /* of a file, or of an extent, this much at most */
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

static int stops(void *user, uint64_t done, uint64_t total, uint64_t samples)
{
    struct packed *p = user;
    (void)done, (void)total, (void)samples;
    return stk_now() > p->until_s || (p->tick && p->tick(p->user));
}

static void try_extents(struct packed *p, const char *path, const struct stk_format *f)
{
    struct stk_open_options o = {
        .format = f->name, .jobs = 1, .no_index_write = true, .progress = stops, .user = p};
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
        (void)stk_filter_decode(&chain, small.data, small.len, &p->undone, &p->scratch, "", 0,
                                NULL);
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
    const char *name = name_of(p->source, file);
    const struct stk_format *f = format_of(name);
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

/* ---- pictures, and files that are broken -------------------------------------------------------
 */

struct look {
    struct stk_tuner *t;
    const char *source;
    struct stk_image *image;
    uint8_t *pixels;
    size_t pixels_size;
    double until_s;
    size_t looked, broken, arrays;
    const struct stk_format *format; /* of the last one, by its name */
    bool differ;                     /* they do not have one format */
    const struct stk_image_op *wanted; /* what the loader would decode to; NULL: nothing */
    double decode_s;                   /* of all `decoded` */
    uint64_t side;                     /* pixels, added up */
    size_t decoded;
    char first[200]; /* the first that is broken, and why */
};

static int on_progress(void *user, uint64_t done, uint64_t total, uint64_t samples)
{
    struct look *l = user;
    (void)done, (void)total, (void)samples;
    return stk_tuner_tick(l->t);
}

/* ---- are they what their names say?
 * -------------------------------------------------------------------------------- */

static bool is_picture(const char *name)
{
    size_t n = strlen(name);
    return stk_name_has_suffix(name, n, ".jpg") || stk_name_has_suffix(name, n, ".jpeg") ||
           stk_name_has_suffix(name, n, ".png");
}

/* False: why says what is wrong. Formats that this build cannot read, and what is sound but not
 * supported, are not broken. */
static bool reads_as(struct look *l, const char *path, const struct stk_format *f, char *why,
                     size_t size)
{
    struct stk_open_options open = {.format = f->name,
                                    .jobs = 1,
                                    .no_index_write = true,
                                    .progress = on_progress,
                                    .user = l};
    struct stk_verify_options o = {0};
    struct stk_verify_result r = {0};
    struct stk_err err = {0};
    int rc = stk_verify_all(path, &open, &o, &r, &err);
    bool damaged = r.problems.count > r.problems.unsupported;
    if (rc == STK_E_CORRUPT)
        snprintf(why, size, "%.150s", err.what);
    else if (damaged)
        snprintf(why, size, "%s", r.problems.kept ? r.problems.item[0].what : "damaged");
    stk_verify_release(&r);
    return !damaged && rc != STK_E_CORRUPT;
}

static int decode(struct look *l, const struct stk_buf *b, const struct stk_image_op *op,
                  struct stk_err *err)
{
    uint32_t width = 0, height = 0;
    int rc = stk_image_size(l->image, b->data, b->len, op, &width, &height, err);
    size_t need = rc ? 0 : stk_image_bytes(op, width, height);
    if (need > l->pixels_size) {
        free(l->pixels);
        l->pixels = malloc(need);
        l->pixels_size = l->pixels ? need : 0;
        rc = l->pixels ? 0 : STK_E_NOMEM;
    }
    return rc ? rc
              : stk_image_decode(l->image, b->data, b->len, op, l->looked, l->pixels, need, err);
}

/* In the job's size. If that is not known: in the usual one, but no picture becomes larger by it.
 */
static void time_decoding(struct look *l, const struct stk_buf *b)
{
    struct stk_image_op op = *l->wanted, stored = {.channels = 3, .tone = {.dtype = STK_U8}};
    uint32_t width = 0, height = 0;
    if (!l->t->plan.job.size_known &&
        stk_image_size(l->image, b->data, b->len, &stored, &width, &height, NULL) == 0) {
        uint32_t side = width < height ? width : height;
        op.width = op.height = side < op.width ? side : op.width;
    }
    double begin = stk_thread_cpu_s();
    if (decode(l, b, &op, NULL))
        return;
    l->decode_s += stk_thread_cpu_s() - begin;
    l->side += op.width;
    l->decoded++;
}

static bool decodes(struct look *l, const char *path, char *why, size_t size)
{
    const struct stk_image_op op = {.channels = 3, .tone = {.dtype = STK_U8}};
    struct stk_buf b = STK_BUF_INIT;
    struct stk_err err = {0};
    int rc = l->image ? stk_read_file(path, FILE_MAX, &b, &err) : STK_E_UNSUPPORTED;
    if (!rc && !stk_image_is(b.data, b.len))
        rc = stk_err_set(&err, STK_E_CORRUPT, NULL, -1, "neither JPEG nor PNG");
    rc = rc ? rc : decode(l, &b, &op, &err);
    if (!rc && l->wanted)
        time_decoding(l, &b);
    stk_buf_release(&b);
    snprintf(why, size, "%.150s", rc == STK_E_CORRUPT ? err.what : "");
    return rc != STK_E_CORRUPT;
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static void look_at(struct look *l, const struct stk_tune_file *file)
{
    const char *name = name_of(l->source, file);
    const struct stk_format *f = format_of(name);
    char *path = stk_tune_file_path(l->source, file), why[160] = "";
    l->differ = l->differ || !f || (l->format && l->format != f);
    l->format = f;
    if (path && (f || is_picture(name)) && file->bytes <= FILE_MAX && stk_now() < l->until_s) {
        bool sound = f ? reads_as(l, path, f, why, sizeof why)
                       : decodes(l, path, why, sizeof why);
        l->looked++;
        l->arrays += f && f->caps & STK_CAN_BE_ARRAYS;
        if (!sound && !l->broken++)
            snprintf(l->first, sizeof l->first, "%.90s: %.100s", name, why);
    }
    free(path);
}

static void say(const struct look *l, size_t files)
{
    bool all = l->looked == files, many = l->broken > 1;
    if (l->broken)
        stk_tune_note(l->t,
                      "%zu of %zu files%s cannot be read as what %s name%s: %s. Repair or remove "
                      "%s first: packing does not repair %s (`stoker verify` reads everything)",
                      l->broken, l->looked, all ? "" : " that were looked at",
                      many ? "their" : "its", many ? "s say" : " says", l->first,
                      many ? "them" : "it", many ? "them" : "it");
}

/* Whether changes with a loader decode, and how: if the job decodes pictures, and reads nothing
 * else. */
static void settle_decoding(const struct look *l, const char *how, struct stk_tune_look *out)
{
    struct stk_arena *a = &l->t->out->arena;
    if (!l->decoded || l->decoded != l->looked)
        return;
    const char *rest = strchr(how, ',');
    out->decode_s = l->decode_s / (double)l->decoded;
    out->decode = l->t->plan.job.size_known
                      ? stk_tune_text(a, "%s", how)
                      : stk_tune_text(a, "image:%llu%s", (unsigned long long)(l->side / l->decoded),
                                      rest ? rest : "");
    stk_tune_note(
        l->t,
        "stoker's loader decodes the pictures itself (%s), with a thread per CPU. Where it "
        "cannot do what your transforms do, they run as before, and it gains less",
        out->decode ? out->decode : how);
}

static void look_at_all(struct look *l, const struct stk_tune_files *f, size_t files,
                        struct stk_tune_look *out)
{
    if (stk_image_new(&l->image, NULL) != 0)
        l->image = NULL;
    for (size_t i = 0; i < f->n; i++)
        look_at(l, &f->file[i]);
    say(l, files);
    const struct stk_format *one = l->differ ? NULL : l->format;
    out->arrays = l->arrays && l->arrays == l->looked;
    out->packs_as = one ? one->packs_as : NULL;
    out->format = one ? one->name : NULL;
    if (l->image)
        stk_image_free(l->image);
}

void stk_tune_look(struct stk_tuner *t, const struct stk_tune_subject *s, struct stk_tune_look *out)
{
    struct stk_tune_files f = {0};
    struct stk_image_op op;
    char *field = NULL;
    const char *how = t->plan.job.decode;
    bool thinks = stk_dist_mean(&s->w.reader.think) > 0;
    bool wanted = how && thinks && stk_image_op_parse(how, &op, &field, NULL) == 0;
    struct look l = {
        .t = t, .source = s->source, .until_s = stk_now() + TIME_S, .wanted = wanted ? &op : NULL};
    free(field);
    *out = (struct stk_tune_look){0};
    if (s->source && !stk_tuner_doing(t, NULL, "looking at some of the files") &&
        stk_tune_files_list(s->source, NULL, &f, NULL) == 0) {
        size_t files = f.n;
        stk_tune_files_thin(&f, LOOK_AT, t->plan.seed);
        stk_tune_unpack(s->source, &f, stk_tuner_tick, t, &out->unpack);
        if (!t->plan.data) /* what bench has made is sound */
            look_at_all(&l, &f, files, out);
        settle_decoding(&l, how, out);
        if (t->plan.storage) { /* a virtual clock counts the CPU time of the workload alone */
            struct stk_unpack *u = &out->unpack;
            u->program_s = u->loader_s = u->unzstd_s = out->decode_s = 0;
        }
    }
    free(l.pixels);
    stk_tune_files_release(&f);
}
