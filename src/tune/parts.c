/*
 * parts.c - folders of the data that are datasets of their own: "train", "val". A script reads each
 * by itself, so each is packed by itself, and nobody trains with the samples for validation.
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
static int count_folders(struct stk_tuner *t, const char *dir, struct stk_tune_part *part,
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
            part[*splits - 1].name = stk_tune_text(t, "%s", e->d_name);
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
static void keep_fields(struct stk_tuner *t, const struct stk_action *a,
                        struct stk_file_field field[STK_FIELDS])
{
    for (size_t i = 0; i < STK_FIELDS && a->loader.field[i].name; i++)
        field[i] = (struct stk_file_field){.name = stk_tune_text(t, "%s", a->loader.field[i].name),
                                      .format = stk_tune_text(t, "%s", a->loader.field[i].format),
                                      .parsed = a->loader.field[i].parsed};
}

/* How the pictures of this folder are decoded: for validation, nothing is random. */
static void take_finding(struct stk_tuner *t, struct stk_tune_part *p)
{
    for (size_t i = 0; i < t->plan->nactions; i++) {
        const struct stk_action *a = &t->plan->action[i];
        if (a->kind != STK_ACT_LOADER || !a->path || strcmp(a->path, p->source) != 0)
            continue;
        p->decode = a->loader.decode ? stk_tune_text(t, "%s", a->loader.decode) : NULL;
        keep_fields(t, a, p->field);
        return;
    }
}

static int describe(struct stk_tuner *t, const char *source, struct stk_tune_part *p,
                    struct stk_err *err)
{
    size_t splits, others;
    p->source = *p->name ? stk_tune_text(t, "%s/%s", source, p->name) : source;
    if (!p->source)
        return stk_err_nomem(err, 1);
    int rc = count_folders(t, p->source, NULL, &splits, &others, err);
    p->classes = !splits && others >= CLASSES;
    take_finding(t, p);
    return rc;
}

/* A finding says that each sample is a file of each of two folders, of which the data is one or both. */
static void find_sides(struct stk_tuner *t, const char *source)
{
    for (size_t i = 0; source && i < t->plan->nactions && !t->out->sides; i++) {
        const struct stk_action *a = &t->plan->action[i];
        size_t n = a->loader.parts && a->path ? strlen(a->path) : 0;
        const char *rest = n && strncmp(source, a->path, n) == 0 ? source + n : NULL;
        if (!rest || (*rest && (*rest != '/' || strchr(rest + 1, '/'))))
            continue;
        t->out->sides = stk_tune_text(t, "%s", a->path);
        keep_fields(t, a, t->out->sides_field);
        t->out->sides_packed = stk_tune_text(t, "%s-packed", a->path);
        stk_tune_note(t->out,
                      "Each sample is a file of each of two folders: stoker's loader gives both as "
                      "fields of one sample, and your code decodes them. The runs read only the "
                      "first of the two with the loader: it gains more than they show");
    }
}

int stk_tune_find_parts(struct stk_tuner *t, const char *source, struct stk_err *err)
{
    find_sides(t, source);
    struct stk_tune *out = t->out;
    size_t n = 0, others = 0;
    int rc = source ? count_folders(t, source, out->part, &n, &others, err) : 0;
    if (rc)
        return rc;
    bool whole = !n || n > STK_TUNE_PARTS || others;
    out->nparts = !source ? 0 : whole ? 1 : n;
    if (whole)
        out->part[0] = (struct stk_tune_part){.name = ""};
    for (size_t i = 0; i < out->nparts; i++) {
        struct stk_tune_part *p = &out->part[i];
        if (!p->name)
            return stk_err_nomem(err, 1);
        p->evaluated = !whole && strncmp(p->name, "train", 5) != 0;
        rc = describe(t, source, p, err);
        if (rc)
            return rc;
    }
    qsort(out->part, out->nparts, sizeof *out->part, by_use);
    const char *to = source ? stk_tune_text(t, "%s-packed", source) : NULL;
    return to ? stk_tune_pack_to(out, to, err) : 0;
}

int stk_tune_pack_to(struct stk_tune *t, const char *to, struct stk_err *err)
{
    t->packed = to;
    for (size_t i = 0; i < t->nparts; i++) {
        struct stk_tune_part *p = &t->part[i];
        char *path = *p->name ? stk_path_join(to, p->name) : strdup(to);
        p->packed = path ? stk_arena_dup(&t->arena, path, strlen(path)) : NULL;
        free(path);
        if (!p->packed)
            return stk_err_nomem(err, strlen(to));
    }
    return 0;
}

/* ---- actions about all of the data become one per part -------------------------------------- */

static void set_loader(const struct stk_tune *t, const struct stk_tune_part *p, struct stk_action *a)
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
    out->path = packed ? t->sides_packed : t->sides;
    out->loader.parts = true;
    if (a->kind == STK_ACT_PACK) {
        out->to = t->sides_packed;
        return 1;
    }
    out->loader.shuffle = t->shuffles ? NULL : "none";
    memcpy(out->loader.field, t->sides_field, sizeof t->sides_field);
    if (t->framework != STK_FRAMEWORK_TORCH)
        return 1;
    out[1] = out[0];
    out[1].kind = STK_ACT_MAP_DATASET;
    out[1].note = "or, in place of the dataset alone, which was not measured and gains less: your "
                  "own code for each sample, your DataLoader";
    return 2;
}

size_t stk_tune_act_parts(const struct stk_tune *t, const struct stk_action *a,
                          struct stk_action *out)
{
    bool packs = a->kind == STK_ACT_PACK;
    if (t->sides && (packs || a->kind == STK_ACT_LOADER))
        return act_on_sides(t, a, out);
    if (!t->nparts || !(packs || a->kind == STK_ACT_LOADER)) {
        *out = *a;
        return 1;
    }
    for (size_t i = 0; i < t->nparts; i++) {
        const struct stk_tune_part *p = &t->part[i];
        bool packed = a->path && strcmp(a->path, STK_TUNE_PACKED) == 0;
        out[i] = *a;
        out[i].path = packed ? p->packed : p->source;
        out[i].to = packs ? p->packed : a->to;
        if (packs)
            out[i].depth = stk_tune_mixes(t, p);
        else
            set_loader(t, p, &out[i]);
    }
    return t->nparts;
}

uint64_t stk_tune_mixes(const struct stk_tune *t, const struct stk_tune_part *p)
{
    return t->shuffles && p->classes && !p->evaluated ? 1 : 0;
}
