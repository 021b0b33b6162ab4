/*
 * actions.c - what carries a change out: actions, and arguments of stoker.patch, for each of the
 * datasets in the data. Folders of it may be datasets of their own: "train", "val". A script reads
 * each by itself, so each is packed by itself, and nobody trains with the samples for validation.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/dir.h"
#include "base/file.h"
#include "dataset/layout.h"
#include "tune/priv.h"

#define CLASSES 2 /* folders, at least, that are classes */

/* ---- the folders ---------------------------------------------------------------------------- */

static bool is_split(const char *name)
{
    char path[300]; /* a folder is one if something is in it */
    const char *split;
    size_t n;
    int len = snprintf(path, sizeof path, "%s/x", name);
    return len > 0 && (size_t)len < sizeof path &&
           stk_layout_split(path, (size_t)len, false, &split, &n) && n == strlen(name);
}

/* How many folders are in it: splits, of which the first are named, and others. A file has none. */
static int count_folders(struct stk_arena *a, const char *dir, struct stk_tune_part *part,
                         size_t *splits, size_t *others, struct stk_err *err)
{
    struct stk_dir d;
    struct stat st;
    int rc = stk_dir_open_optional(&d, dir, err);
    *splits = *others = 0;
    for (const struct dirent *e; !rc && (e = stk_dir_next(&d));) {
        if (e->d_name[0] == '.' || !stk_dir_stat(&d, e, 0, &st) || !S_ISDIR(st.st_mode))
            continue;
        if (!is_split(e->d_name))
            (*others)++;
        else if ((*splits)++ < STK_TUNE_PARTS && part)
            part[*splits - 1].name = stk_tune_text(a, "%s", e->d_name);
    }
    return stk_dir_end(&d, rc, err);
}

/* What is trained with comes first. */
static int by_use(const void *a, const void *b)
{
    const struct stk_tune_part *x = a, *y = b;
    return x->evaluated != y->evaluated ? x->evaluated - y->evaluated : strcmp(x->name, y->name);
}

/* ---- what the findings say about them ------------------------------------------------------- */

/* The result outlives the findings. */
static void keep_fields(struct stk_arena *a, const struct stk_file_field from[STK_FIELDS],
                        struct stk_file_field to[STK_FIELDS])
{
    for (size_t i = 0; i < STK_FIELDS && from[i].name; i++)
        to[i] = (struct stk_file_field){.name = stk_tune_text(a, "%s", from[i].name),
                                        .format = stk_tune_text(a, "%s", from[i].format),
                                        .parsed = from[i].parsed};
}

/* How the pictures of this folder are decoded: for validation, nothing is random. */
static void take_finding(const struct stk_tune_plan *plan, struct stk_arena *a,
                         struct stk_tune_part *p)
{
    for (size_t i = 0; i < plan->nactions; i++) {
        const struct stk_action *x = &plan->action[i];
        if (x->kind != STK_ACT_LOADER || !x->path || strcmp(x->path, p->source) != 0)
            continue;
        p->decode = x->loader.decode ? stk_tune_text(a, "%s", x->loader.decode) : NULL;
        keep_fields(a, x->loader.field, p->field);
        return;
    }
}

/* A finding says that each sample is a file of each of two folders, of which the data is one or
 * both. */
static void find_sides(struct stk_tuner *t, const char *source, struct stk_tune_parts *out)
{
    struct stk_arena *a = &t->out->arena;
    for (size_t i = 0; i < t->plan.nactions && !out->sides; i++) {
        const struct stk_action *x = &t->plan.action[i];
        size_t n = x->loader.parts && x->path ? strlen(x->path) : 0;
        const char *rest = n && strncmp(source, x->path, n) == 0 ? source + n : NULL;
        if (!rest || (*rest && (*rest != '/' || strchr(rest + 1, '/'))))
            continue;
        out->sides = stk_tune_text(a, "%s", x->path);
        keep_fields(a, x->loader.field, out->sides_field);
        out->sides_packed = stk_tune_text(a, "%s-packed", x->path);
        stk_tune_note(t,
                      "Each sample is a file of each of two folders: stoker's loader gives both as "
                      "fields of one sample, and your code decodes them. The runs read only the "
                      "first of the two with the loader: it gains more than they show");
    }
}

static int pack_to(struct stk_arena *a, struct stk_tune_parts *parts, const char *to,
                   struct stk_err *err)
{
    parts->packed = to;
    for (size_t i = 0; i < parts->nparts; i++) {
        struct stk_tune_part *p = &parts->part[i];
        p->packed = *p->name ? stk_tune_text(a, "%s/%s", to, p->name) : stk_tune_text(a, "%s", to);
        if (!p->packed)
            return stk_err_nomem(err, strlen(to));
    }
    return 0;
}

int stk_tune_pack_to(struct stk_tune *t, const char *to, struct stk_err *err)
{
    return pack_to(&t->arena, &t->data, to, err);
}

static int describe(struct stk_tuner *t, const char *source, struct stk_tune_part *p,
                    struct stk_err *err)
{
    struct stk_arena *a = &t->out->arena;
    size_t splits, others;
    p->source = *p->name ? stk_tune_text(a, "%s/%s", source, p->name) : source;
    if (!p->source)
        return stk_err_nomem(err, 1);
    int rc = count_folders(a, p->source, NULL, &splits, &others, err);
    p->classes = !splits && others >= CLASSES;
    take_finding(&t->plan, a, p);
    return rc;
}

int stk_tune_find_parts(struct stk_tuner *t, const struct stk_tune_subject *s,
                        struct stk_tune_parts *out, struct stk_err *err)
{
    const char *source = stk_tune_whole_source(s);
    size_t n = 0, others = 0;
    *out = (struct stk_tune_parts){0};
    if (!source)
        return 0;
    find_sides(t, source, out);
    int rc = count_folders(&t->out->arena, source, out->part, &n, &others, err);
    bool whole = !n || n > STK_TUNE_PARTS || others;
    out->nparts = whole ? 1 : n;
    if (whole)
        out->part[0] = (struct stk_tune_part){.name = ""};
    for (size_t i = 0; i < out->nparts && !rc; i++) {
        struct stk_tune_part *p = &out->part[i];
        p->evaluated = !whole && p->name && strncmp(p->name, "train", 5) != 0;
        rc = p->name ? describe(t, source, p, err) : stk_err_nomem(err, 1);
    }
    if (rc)
        return rc;
    qsort(out->part, out->nparts, sizeof *out->part, by_use);
    const char *to = stk_tune_text(&t->out->arena, "%s-packed", source);
    return to ? pack_to(&t->out->arena, out, to, err) : stk_err_nomem(err, 1);
}

/* ---- actions about all of the data become one per part -------------------------------------- */

static void set_loader(const struct stk_tune *t, const struct stk_tune_part *p,
                       struct stk_action *a)
{
    bool in_order = p->evaluated || !t->shuffles;
    a->loader.shuffle = in_order ? "none" : NULL;
    a->loader.last = p->evaluated ? "short" : NULL;
    a->loader.decode = !t->decode || !p->evaluated ? t->decode : p->decode;
    a->loader.labelled = t->job.labelled || (p->classes && !t->decode && p->field[0].name);
    memcpy(a->loader.field, p->field, sizeof p->field);
    a->loader.size_known = t->job.size_known;
    if (p->evaluated)
        a->note = "the validation set: every sample once, in order, nothing random";
}

/* Both sides, and nothing decoded: as it was measured, and what takes less to change. */
static size_t act_on_sides(const struct stk_tune *t, const struct stk_action *a,
                         struct stk_action *out)
{
    bool packed = a->path && strcmp(a->path, STK_TUNE_PACKED) == 0;
    *out = *a;
    out->path = packed ? t->data.sides_packed : t->data.sides;
    out->loader.parts = true;
    if (a->kind == STK_ACT_PACK) {
        out->to = t->data.sides_packed;
        return 1;
    }
    out->loader.shuffle = t->shuffles ? NULL : "none";
    memcpy(out->loader.field, t->data.sides_field, sizeof t->data.sides_field);
    if (t->framework != STK_FRAMEWORK_TORCH)
        return 1;
    out[1] = out[0];
    out[1].kind = STK_ACT_MAP_DATASET;
    out[1].note = "or, in place of the dataset alone, which was not measured and gains less: your "
                  "own code for each sample, your DataLoader";
    return 2;
}

/* The same action for each part, if it is about packed data or a loader. Returns how many. */
static size_t act_parts(const struct stk_tune *t, const struct stk_action *a,
                        struct stk_action *out)
{
    bool packs = a->kind == STK_ACT_PACK;
    if (t->data.sides && (packs || a->kind == STK_ACT_LOADER))
        return act_on_sides(t, a, out);
    if (!t->data.nparts || !(packs || a->kind == STK_ACT_LOADER)) {
        *out = *a;
        return 1;
    }
    for (size_t i = 0; i < t->data.nparts; i++) {
        const struct stk_tune_part *p = &t->data.part[i];
        bool packed = a->path && strcmp(a->path, STK_TUNE_PACKED) == 0;
        out[i] = *a;
        out[i].path = packed ? p->packed : p->source;
        out[i].to = packs ? p->packed : a->to;
        if (packs)
            out[i].depth = stk_tune_mixes(t, p);
        else
            set_loader(t, p, &out[i]);
    }
    return t->data.nparts;
}

uint64_t stk_tune_mixes(const struct stk_tune *t, const struct stk_tune_part *p)
{
    return t->shuffles && p->classes && !p->evaluated ? 1 : 0;
}

/* ---- the actions of a candidate ----------------------------------------------------------------
 */

static size_t act(const struct stk_tune_change *c, struct stk_action out[STK_TUNE_ACTIONS])
{
    const struct stk_tune_kind *k = c->kind;
    if (k->act)
        return k->act(c, out);
    if (k->helps == STK_HELPS_COST)
        return 0;
    out[0] = k->action;
    out[0].path = c->source;
    if (out[0].kind == STK_ACT_STAGE) {
        out[0].to = c->named;
        out[0].to_named = *c->named != '\0';
    }
    if (k->number)
        memcpy((char *)out + k->number, &c->number, sizeof c->number);
    return 1;
}

size_t stk_tune_actions(const struct stk_tune *t, const struct stk_tune_candidate *c,
                        struct stk_action out[STK_TUNE_CHANGES * STK_TUNE_ACTIONS])
{
    struct stk_action whole[STK_TUNE_ACTIONS];
    size_t n = 0;
    for (size_t i = 0; i < c->nchanges; i++) {
        size_t some = act(&c->change[i], whole);
        for (size_t j = 0; j < some; j++)
            n += act_parts(t, &whole[j], out + n);
    }
    for (size_t i = 0; i < n; i++) {
        if (t->data.packed && out[i].path && strcmp(out[i].path, STK_TUNE_PACKED) == 0)
            out[i].path = t->data.packed;
        out[i].use = out[i].kind >= STK_ACT_READERS ? t->use : NULL; /* lines for that library */
        if (out[i].kind >= STK_ACT_LARGER_READS && !out[i].is_file && t->files != 1)
            out[i].path = NULL; /* they open a file, not the folder */
        if (out[i].kind == STK_ACT_PREFETCH && t->threads) { /* torch counts batches per worker */
            out[i].count = t->threads;
            out[i].depth = (out[i].depth + t->threads - 1) / t->threads;
        }
        out[i].loader.framework = t->framework;
        out[i].loader.batch = t->batch;
        out[i].loader.batch_known = !t->job.batch_guessed;
    }
    return n;
}

const char *stk_tune_advice(const struct stk_tune_change *c)
{
    return c->kind->advice;
}

const char *stk_tune_patch(const struct stk_tune *t, const struct stk_tune_change *c,
                           const char *made, size_t n, struct stk_buf *argument)
{
    const struct stk_tune_kind *k = c->kind;
    const struct stk_tune_part *p = n < t->data.nparts ? &t->data.part[n] : NULL;
    bool can = k->patch_option && (k->patches_parts ? p && made : !n);
    stk_buf_reset(argument);
    if (can && k->patches_parts)
        stk_buf_printf(argument, "%s=%s%s%s", p->source, made, *p->name ? "/" : "", p->name);
    else if (can && k->patch)
        can = k->patch(t, c, made, argument);
    return can && !argument->fail ? k->patch_option : NULL;
}
