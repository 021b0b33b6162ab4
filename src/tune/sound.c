/*
 * sound.c - whether files are what their names say: a broken array that is packed as bytes is packed
 * broken. Some of the files are read whole, in their formats; those that cannot be are named before
 * anything is advised. If they are pictures, that also shows how long the loader decodes one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/pool.h"
#include "base/text.h"
#include "dataset/verify.h"
#include "format/format.h"
#include "host/tree.h"
#include "image/image.h"
#include "tune/files.h"
#include "tune/priv.h"

#define LOOK_AT   64            /* files */
#define FILE_MAX  (32ull << 20) /* larger ones are not read */
#define TIME_S    2.0           /* for all of it */

struct look {
    struct stk_tuner *t;
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

/* ---- formats -------------------------------------------------------------------------------- */

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
    return rc ? rc : stk_image_decode(l->image, b->data, b->len, op, l->looked, l->pixels, need, err);
}

/* In the job's size. If that is not known: in the usual one, but no picture becomes larger by it. */
static void time_decoding(struct look *l, const struct stk_buf *b)
{
    struct stk_image_op op = *l->wanted, stored = {.channels = 3, .tone = {.dtype = STK_U8}};
    uint32_t width = 0, height = 0;
    if (!l->t->plan->job.size_known &&
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

/* ---- the files ------------------------------------------------------------------------------ */

static void look_at(struct look *l, const struct stk_tune_file *file)
{
    const char *source = l->t->s.source, *name = *file->name ? file->name : stk_base_name(source);
    const struct stk_format *f = stk_tune_format_of(name);
    bool picture = is_picture(name);
    char *path = stk_tune_file_path(source, file), why[160] = "";
    l->differ = l->differ || !f || (l->format && l->format != f);
    l->format = f;
    if (path && (f || picture) && file->bytes <= FILE_MAX && stk_now() < l->until_s) {
        bool sound = f ? reads_as(l, path, f, why, sizeof why)
                       : decodes(l, path, why, sizeof why);
        l->looked++;
        l->arrays += f && (strcmp(f->name, "npy") == 0 || strcmp(f->name, "npz") == 0 ||
                           strcmp(f->name, "hdf5") == 0);
        if (!sound && !l->broken++)
            snprintf(l->first, sizeof l->first, "%.90s: %.100s", name, why);
    }
    free(path);
}

static void say(struct look *l, size_t files)
{
    bool all = l->looked == files;
    if (l->broken)
        stk_tune_note(l->t->out,
                      "%zu of %zu files%s cannot be read as what %s name%s: %s. Repair or remove "
                      "%s first: packing does not repair %s (`stoker verify` reads everything)",
                      l->broken, l->looked, all ? "" : " that were looked at",
                      l->broken > 1 ? "their" : "its", l->broken > 1 ? "s say" : " says", l->first,
                      l->broken > 1 ? "them" : "it", l->broken > 1 ? "them" : "it");
}

/* Whether changes with a loader decode, and how: if the job decodes pictures, and reads nothing else. */
static void settle_decoding(const struct look *l, const char *how)
{
    struct stk_tuner *t = l->t;
    if (!l->decoded || l->decoded != l->looked)
        return;
    const char *rest = strchr(how, ',');
    t->s.decode_s = l->decode_s / (double)l->decoded;
    t->s.decode = t->plan->job.size_known
                         ? stk_tune_text(t, "%s", how)
                         : stk_tune_text(t, "image:%llu%s", (unsigned long long)(l->side / l->decoded),
                                         rest ? rest : "");
    stk_tune_note(t->out,
                  "stoker's loader decodes the pictures itself (%s), with a thread per CPU. Where it "
                  "cannot do what your transforms do, they run as before, and it gains less",
                  t->s.decode ? t->s.decode : how);
}

static void look_at_all(struct look *l, const struct stk_tune_files *f, size_t files)
{
    if (stk_image_new(&l->image, NULL) != 0)
        l->image = NULL;
    for (size_t i = 0; i < f->n; i++)
        look_at(l, &f->file[i]);
    say(l, files);
    l->t->s.arrays = l->arrays && l->arrays == l->looked;
    l->t->s.packs_as = l->format && !l->differ ? l->format->packs_as : NULL;
    l->t->s.format = l->format && !l->differ ? l->format->name : NULL;
    l->t->out->use = l->t->s.format ? l->format->use : NULL;
    if (l->image)
        stk_image_free(l->image);
}

void stk_tune_check_sound(struct stk_tuner *t)
{
    struct stk_tune_files f = {0};
    struct stk_image_op op;
    char *field = NULL;
    const char *how = t->plan->job.decode;
    bool thinks = stk_dist_mean(&t->s.w.reader.think) > 0;
    bool wanted = how && thinks && stk_image_op_parse(how, &op, &field, NULL) == 0;
    struct look l = {.t = t, .until_s = stk_now() + TIME_S, .wanted = wanted ? &op : NULL};
    free(field);
    if (!t->s.source ||
        stk_tuner_doing(t, "looking at some of the files") ||
        stk_tune_files_list(t->s.source, NULL, &f, NULL) != 0) {
        stk_tune_files_release(&f);
        return;
    }
    size_t files = f.n;
    stk_tune_files_thin(&f, LOOK_AT, t->plan->seed);
    stk_tune_unpack(t->s.source, &f, stk_tuner_tick, t, &t->s.unpack);
    if (!t->plan->data) /* what bench has made is sound */
        look_at_all(&l, &f, files);
    settle_decoding(&l, how);
    if (t->plan->storage) /* a virtual clock counts the CPU time of the workload alone */
        t->s.unpack.program_s = t->s.unpack.loader_s = t->s.unpack.unzstd_s = t->s.decode_s = 0;
    free(l.pixels);
    stk_tune_files_release(&f);
}
