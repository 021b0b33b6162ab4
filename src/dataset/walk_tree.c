/*
 * walk_tree.c - decides which files of a folder are samples. Common layouts have other files: a
 * table next to class directories, annotations next to images. These are left out with a note.
 */
#include "base/buf.h"
#include "dataset/layout.h"
#include "dataset/priv.h"
#include "format/members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SUFFIXES 64 /* number of suffixes counted; a folder with more is no known layout */
#define SPLITS   16

struct tree {
    struct stk_walk *w;
    struct stk_walk_names v;
    uint8_t *keep;
    uint64_t files, top, media; /* kept so far */
    struct {
        const char *text;
        uint64_t files;
    } suffix[SUFFIXES]; /* of files in directories */
    size_t nsuffixes;
};

static bool is_top(const char *name)
{
    return !strchr(name, '/');
}

/* The number of a name's suffix; t->nsuffixes: unknown. */
static size_t suffix_number(const struct tree *t, const char *name)
{
    const char *suffix = stk_layout_suffix(name);
    size_t i = 0;
    while (i < t->nsuffixes && strcasecmp(t->suffix[i].text, suffix) != 0)
        i++;
    return i;
}

static void count_suffix(struct tree *t, const char *name)
{
    size_t i = suffix_number(t, name);
    if (i == SUFFIXES)
        return;
    if (i == t->nsuffixes) {
        t->nsuffixes++;
        t->suffix[i].text = stk_layout_suffix(name);
    }
    t->suffix[i].files++;
}

/* Drops files that are never data, and counts the rest. */
static void survey(struct tree *t)
{
    for (uint64_t i = 0; i < t->v.n; i++) {
        const char *name = stk_walk_name(&t->v, i);
        t->keep[i] = !stk_layout_is_junk(name);
        if (!t->keep[i]) {
            t->w->ignored++;
            continue;
        }
        t->files++;
        t->top += is_top(name);
        t->media += stk_layout_is_media(name);
        if (!is_top(name))
            count_suffix(t, name);
    }
}

static int leave_out(struct tree *t, uint64_t i, const char *why, struct stk_err *err)
{
    const char *name = stk_walk_name(&t->v, i);
    t->keep[i] = 0;
    t->files--;
    t->top -= is_top(name);
    t->media -= stk_layout_is_media(name);
    if (stk_layout_is_readme(name)) {
        t->w->ignored++;
        return 0;
    }
    return stk_notes_left_out(&t->w->notes, "file", name, why, 1, err);
}

/* ---- next to class directories ---- */

/* True if the files in directories are samples of one kind: nine in ten have one suffix, or are
 * media. */
static bool has_classes(const struct tree *t)
{
    uint64_t below = t->files - t->top, most = 0, media = 0;
    for (size_t i = 0; i < t->nsuffixes; i++) {
        if (t->suffix[i].text[0] && t->suffix[i].files > most)
            most = t->suffix[i].files;
        media += stk_layout_is_media(t->suffix[i].text) ? t->suffix[i].files : 0;
    }
    return below && (most * 10 >= below * 9 || media * 10 >= below * 9);
}

/* Files above the directories do not belong to a class: they are of another kind, or few. */
static int leave_top(struct tree *t, struct stk_err *err)
{
    uint64_t below = t->files - t->top;
    int rc = 0;
    if (!t->top || !has_classes(t))
        return 0;
    bool few = t->top <= below / 10, fewer = t->top <= below;
    for (uint64_t i = 0; rc == 0 && i < t->v.n; i++) {
        const char *name = stk_walk_name(&t->v, i);
        bool foreign = suffix_number(t, name) == t->nsuffixes;
        if (t->keep[i] && is_top(name) && (few || (fewer && foreign)))
            rc = leave_out(
                t, i, "not in a directory, unlike the others; give the format 'folder' to take all",
                err);
    }
    if (rc == 0 && t->top) {
        char why[160];
        snprintf(why, sizeof why, "%llu of %llu files are in no directory",
                 (unsigned long long)t->top, (unsigned long long)t->files);
        rc = stk_notes_taken(&t->w->notes, "label", "none", why, 1, err);
    }
    return rc;
}

/* ---- next to images ---- */

static bool same_stem(const struct stk_walk_names *v, uint64_t a, uint64_t b)
{
    const char *x = stk_walk_name(v, a), *y = stk_walk_name(v, b);
    size_t n = stk_member_stem(x, v->file[a].name_len);
    return n == stk_member_stem(y, v->file[b].name_len) && memcmp(x, y, n) == 0;
}

/* True if an adjacent file has the same name up to the dot. */
static bool has_companion(const struct tree *t, uint64_t i)
{
    return (i && same_stem(&t->v, i - 1, i)) || (i + 1 < t->v.n && same_stem(&t->v, i, i + 1));
}

/* Tables and texts among images describe them, unless each belongs to one image. */
static int leave_annotations(struct tree *t, struct stk_err *err)
{
    uint64_t companions = 0;
    bool among = t->media * 4 >= t->files * 3;
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && t->media && i < t->v.n; i++) {
        if (!t->keep[i] || !stk_layout_is_annotation(stk_walk_name(&t->v, i)))
            continue;
        if (has_companion(t, i))
            companions++;
        else if (among)
            rc = leave_out(
                t, i,
                "annotations beside the data are not read; give the format 'folder' to take all",
                err);
    }
    if (rc == 0 && companions)
        rc = stk_notes_taken(&t->w->notes, "sample", "a file",
                             "there are files of one name, as a.jpg and a.txt; --group takes them "
                             "as one sample",
                             companions, err);
    return rc;
}

/* ---- images/ and labels/ ---- */

#define PAIRED 2 /* in keep */

struct pairing {
    struct tree *t;
    struct pair {
        char *key; /* the path without the directory of its side */
        uint64_t file;
        enum stk_layout_side side;
    } * item;
    size_t n, cap;
    char beside[64]; /* the directory next to the images, for messages: "masks" */
    struct stk_arena arena;
};

static int by_key(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    int c = strcmp(x->key, y->key);
    return c ? c : (x->side > y->side) - (x->side < y->side);
}

/* The path without its directory [from, from + n). A mask may have the suffix of its image: then
 * the directory is added (masks/1.png: 1.masks.png). */
static char *pair_key(struct pairing *p, const char *name, size_t from, size_t n, bool mask)
{
    size_t len = strlen(name), stem = stk_member_stem(name, len);
    char *key = stk_arena_alloc(&p->arena, len + 2);
    if (key)
        snprintf(key, len + 2, "%.*s%.*s%s%.*s%s", (int)from, name, (int)(stem - from - n),
                 name + from + n, mask ? "." : "", mask ? (int)n - 1 : 0, name + from, name + stem);
    return key;
}

/* The side of a file: image or annotation. */
static enum stk_layout_side side_of(const char *name, size_t len, size_t *from, size_t *n,
                                    bool *mask)
{
    enum stk_layout_side side = stk_layout_side(name, len, from, n);
    bool media = stk_layout_is_media(name);
    *mask = side == STK_SIDE_LABELS && media;
    return media || (side == STK_SIDE_LABELS && stk_layout_is_annotation(name)) ? side
                                                                                : STK_SIDE_NONE;
}

static int gather_pairs(struct pairing *p, struct stk_err *err)
{
    const struct stk_walk_names *v = &p->t->v;
    if (STK_ARRAY_ROOM(p->item, p->cap, v->n, err))
        return STK_E_NOMEM;
    for (uint64_t i = 0; i < v->n; i++) {
        const char *name = stk_walk_name(v, i);
        size_t from, n;
        bool mask;
        enum stk_layout_side side = side_of(name, v->file[i].name_len, &from, &n, &mask);
        if (!p->t->keep[i] || side == STK_SIDE_NONE)
            continue;
        char *key = pair_key(p, name, from, n, mask);
        if (!key)
            return stk_err_nomem(err, v->file[i].name_len);
        if (side == STK_SIDE_LABELS && !p->beside[0])
            snprintf(p->beside, sizeof p->beside, "%.*s", (int)n - 1, name + from);
        p->item[p->n++] = (struct pair){.key = key, .file = i, .side = side};
    }
    if (p->n)
        qsort(p->item, p->n, sizeof *p->item, by_key);
    return 0;
}

/* The end of the items of one sample from i on; *images of them are images. */
static size_t pair_end(const struct pairing *p, size_t i, size_t *images)
{
    size_t stem = stk_member_stem(p->item[i].key, strlen(p->item[i].key)), end = i;
    for (*images = 0; end < p->n; end++) {
        const char *key = p->item[end].key;
        if (stk_member_stem(key, strlen(key)) != stem || memcmp(key, p->item[i].key, stem) != 0)
            break;
        *images += p->item[end].side == STK_SIDE_IMAGES;
    }
    return end;
}

/* The number of labels with an image, and of all labels. */
static void count_pairs(const struct pairing *p, size_t *paired, size_t *labels)
{
    *paired = *labels = 0;
    for (size_t i = 0, end, images; i < p->n; i = end) {
        end = pair_end(p, i, &images);
        *labels += end - i - images;
        *paired += images == 1 ? end - i - images : 0;
    }
}

static int keep_pair(struct pairing *p, const struct pair *x, struct stk_spool *files,
                     struct stk_err *err)
{
    struct stk_walk *w = p->t->w;
    struct stk_walk_key key = {.off = stk_spool_len(&w->names), .len = strlen(x->key)};
    int rc = stk_spool_put(files, &p->t->v.file[x->file], sizeof *p->t->v.file, err);
    if (rc == 0)
        rc = stk_spool_put(&w->keys, &key, sizeof key, err);
    return rc < 0 ? rc : stk_spool_put(&w->names, x->key, key.len + 1, err);
}

/* Takes the files in the order of their samples, each with its key. */
static int take_pairs(struct pairing *p, struct stk_err *err)
{
    struct stk_walk *w = p->t->w;
    struct stk_spool files;
    uint64_t kept = 0;
    int rc = 0;
    stk_spool_init(&files, w->files.dir);
    for (size_t i = 0, end, images; i < p->n; i = end) {
        end = pair_end(p, i, &images);
        for (size_t k = i; images && k < end; k++)
            p->t->keep[p->item[k].file] = PAIRED;
    }
    for (uint64_t i = 0; rc == 0 && i < p->t->v.n; i++)
        if (p->t->keep[i] && p->t->keep[i] != PAIRED)
            rc = leave_out(
                p->t, i,
                "neither an image nor the labels of one; give the format 'folder' to take all",
                err);
    for (size_t i = 0; rc == 0 && i < p->n; i++)
        if (p->t->keep[p->item[i].file] == PAIRED) {
            rc = keep_pair(p, &p->item[i], &files, err); /* may move the names */
            kept++;
        }
    char as[96], why[200];
    snprintf(as, sizeof as, "an image and its %s", p->beside);
    snprintf(why, sizeof why,
             "images/ and %s/ hold files of the same names; give the format 'folder' to take every "
             "file as a "
             "sample",
             p->beside);
    if (rc == 0)
        rc = stk_notes_taken(&w->notes, "sample", as, why, 1, err);
    if (rc == 0)
        rc = stk_spool_intact(&w->files, err);
    stk_spool_release(&w->files);
    w->files = files;
    w->nfiles = kept;
    return rc;
}

/* 1: it is such a layout, and the files are in order. */
static int pair_up(struct tree *t, struct stk_err *err)
{
    struct pairing p = {.t = t};
    size_t paired = 0, labels = 0;
    int rc = gather_pairs(&p, err);
    if (rc == 0)
        count_pairs(&p, &paired, &labels);
    if (rc == 0 && paired && paired * 2 > labels) {
        rc = take_pairs(&p, err);
        rc = rc < 0 ? rc : 1;
    }
    free(p.item);
    stk_arena_release(&p.arena);
    return rc;
}

int stk_walk_tree(struct stk_walk *w, struct stk_err *err)
{
    struct tree t = {.w = w};
    int rc = stk_walk_map(w, &t.v, err);
    if (rc < 0)
        return rc;
    t.keep = calloc(t.v.n ? t.v.n : 1, 1);
    if (!t.keep)
        return stk_err_nomem(err, t.v.n);
    survey(&t);
    int pairs = rc = pair_up(&t, err);
    if (rc == 0)
        rc = leave_annotations(&t, err);
    if (rc == 0)
        rc = leave_top(&t, err);
    if (rc == 0 && pairs == 0)
        rc = stk_walk_keep(w, &t.v, t.keep, err);
    free(t.keep);
    return rc < 0 ? rc : 0;
}

/* ---- splits ---- */

struct splits {
    struct stk_buf text; /* "train, test" */
    const char *name[SPLITS];
    size_t len[SPLITS], n;
};

static void add_split(struct splits *s, const char *p, size_t n)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->len[i] == n && strncasecmp(s->name[i], p, n) == 0)
            return;
    if (s->n == SPLITS)
        return;
    s->name[s->n] = p;
    s->len[s->n++] = n;
    stk_buf_printf(&s->text, "%s%.*s", s->n > 1 ? ", " : "", (int)n, p);
}

static int no_such_split(const struct stk_walk *w, const char *want, struct splits *s,
                         struct stk_err *err)
{
    return stk_err_set(err, STK_E_USAGE, w->root, -1, "there is no split '%s': %s%s", want,
                       s->n ? "there are " : "no file names indicate any",
                       s->n ? stk_buf_cstr(&s->text) : "");
}

int stk_walk_splits(struct stk_walk *w, const char *want, struct stk_err *err)
{
    struct stk_walk_names v;
    struct splits s = {.text = STK_BUF_INIT};
    bool in_base = !(w->format->caps & STK_CAN_TREE);
    int rc = stk_walk_map(w, &v, err);
    uint8_t *keep = rc < 0 ? NULL : calloc(v.n ? v.n : 1, 1);
    uint64_t kept = 0;
    if (rc == 0 && !keep)
        rc = stk_err_nomem(err, v.n);
    for (uint64_t i = 0; rc == 0 && i < v.n; i++) {
        const char *split = NULL;
        size_t n = 0;
        bool has = stk_layout_split(stk_walk_name(&v, i), v.file[i].name_len, in_base, &split, &n);
        if (has)
            add_split(&s, split, n);
        keep[i] = has && want && strlen(want) == n && strncasecmp(want, split, n) == 0;
        kept += keep[i];
    }
    if (rc == 0 && want)
        rc = kept ? stk_walk_keep(w, &v, keep, err) : no_such_split(w, want, &s, err);
    else if (rc == 0 && s.n > 1)
        rc = stk_notes_taken(&w->notes, "split", stk_buf_cstr(&s.text),
                             "from the names, and all are read; --split NAME reads one", 1, err);
    stk_buf_release(&s.text);
    free(keep);
    return rc;
}
