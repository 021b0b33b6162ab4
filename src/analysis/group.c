/*
 * group.c - under which directory a file is counted: a folder with one subfolder per class
 * is one dataset, not a thousand directories.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "analysis/parts.h"

struct node {
    const char *path; /* without the trailing slash; not terminated */
    size_t len;
    const char *format; /* of most of its files (Boyer-Moore), and by what majority */
    uint64_t votes, records;
    size_t into; /* the node it is counted under; initially itself */
    uint64_t hash;
};

struct tree {
    struct node *node;
    size_t n, room;
    size_t *slot, slots; /* by hash; index + 1 */
};

static size_t parent_len(const char *path, size_t len)
{
    while (len && path[len - 1] != '/')
        len--;
    while (len > 1 && path[len - 1] == '/')
        len--;
    return len;
}

static unsigned depth(const char *path, size_t len)
{
    unsigned n = 0;
    for (size_t i = 0; i < len; i++)
        n += path[i] != '/' && (i == 0 || path[i - 1] == '/');
    return n;
}

/* The node of a path, created if missing. Capacity was reserved beforehand. */
static size_t tree_node(struct tree *t, const char *path, size_t len)
{
    uint64_t hash = stk_hash64(path, len);
    size_t at = (size_t)hash & (t->slots - 1);
    for (; t->slot[at]; at = (at + 1) & (t->slots - 1)) {
        const struct node *o = &t->node[t->slot[at] - 1];
        if (o->hash == hash && o->len == len && memcmp(o->path, path, len) == 0)
            return t->slot[at] - 1;
    }
    t->node[t->n] =
        (struct node){.path = path, .len = len, .format = "", .into = t->n, .hash = hash};
    t->slot[at] = ++t->n;
    return t->n - 1;
}

static int tree_init(struct tree *t, size_t files, struct stk_err *err)
{
    /* Each file adds a directory, and each directory may be rolled up into one more. */
    *t = (struct tree){.room = 2 * files + 2, .slots = 16};
    while (t->slots < 2 * t->room)
        t->slots *= 2;
    t->node = calloc(t->room, sizeof *t->node);
    t->slot = calloc(t->slots, sizeof *t->slot);
    return t->node && t->slot ? 0 : stk_err_nomem(err, t->room * sizeof *t->node);
}

static size_t root_of(const struct tree *t, size_t i)
{
    while (t->node[i].into != i)
        i = t->node[i].into;
    return i;
}

static void vote(struct node *d, const char *format, uint64_t files)
{
    if (strcmp(d->format, format) == 0) {
        d->votes += files;
    } else if (d->votes < files) {
        d->format = format;
        d->votes = files - d->votes;
    } else {
        d->votes -= files;
    }
}

/* Parts of a dataset that people keep apart: never rolled up into one. */
static bool is_split_name(const struct node *d)
{
    static const char *const names[] = {"train", "training", "val",  "valid", "validation",
                                        "test",  "testing",  "eval", "dev"};
    size_t at = parent_len(d->path, d->len);
    while (at < d->len && d->path[at] == '/')
        at++;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == d->len - at &&
            strncasecmp(names[i], d->path + at, d->len - at) == 0)
            return true;
    return false;
}

static int by_parent(const void *x, const void *y)
{
    const struct node *a = *(const struct node *const *)x, *b = *(const struct node *const *)y;
    size_t la = parent_len(a->path, a->len), lb = parent_len(b->path, b->len);
    int d = memcmp(a->path, b->path, la < lb ? la : lb);
    if (d == 0)
        d = la < lb ? -1 : la > lb ? 1 : strcmp(a->format, b->format);
    return d ? d : a < b ? -1 : a > b;
}

static bool same_family(const struct node *a, const struct node *b)
{
    size_t la = parent_len(a->path, a->len), lb = parent_len(b->path, b->len);
    return la == lb && memcmp(a->path, b->path, la) == 0 && strcmp(a->format, b->format) == 0;
}

/* Rolls n siblings up into their parent where that makes sense. */
static bool roll_up(struct tree *t, struct node **child, size_t n, size_t least)
{
    size_t len = parent_len(child[0]->path, child[0]->len), splits = 0;
    for (size_t i = 0; i < n; i++)
        splits += is_split_name(child[i]);
    if (n < least || splits == n || (stk_use_of(child[0]->format)->how & STK_USE_STORE) ||
        depth(child[0]->path, len) < 2 || t->n >= t->room)
        return false;
    size_t up = tree_node(t, child[0]->path, len);
    if (t->node[up].votes && strcmp(t->node[up].format, child[0]->format) != 0)
        return false; /* the parent holds files of another kind */
    up = root_of(t, up);
    for (size_t i = 0; i < n; i++) {
        if ((size_t)(child[i] - t->node) == up)
            continue;
        child[i]->into = up;
        t->node[up].votes += child[i]->votes;
        t->node[up].records += child[i]->records;
    }
    t->node[up].format = child[0]->format;
    return true;
}

/* Rolls up one level of all remaining directories. Returns how many remain, or 0 when out of
 * memory. */
static size_t roll_level(struct tree *t, size_t least, bool *changed)
{
    struct node **live = malloc((t->n + 1) * sizeof(*live));
    size_t n = 0, left = 0;
    *changed = false;
    if (!live)
        return 0;
    for (size_t i = 0; i < t->n; i++)
        if (t->node[i].into == i && t->node[i].records)
            live[n++] = &t->node[i];
    qsort(live, n, sizeof(*live), by_parent);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && same_family(live[i], live[end]); end++)
            ;
        if (roll_up(t, live + i, end - i, least))
            *changed = true;
    }
    for (size_t i = 0; i < t->n; i++)
        left += t->node[i].into == i && t->node[i].records;
    free(live);
    return left;
}

static int by_records(const void *x, const void *y)
{
    const struct node *a = *(const struct node *const *)x, *b = *(const struct node *const *)y;
    return a->records < b->records ? 1 : a->records > b->records ? -1 : a < b ? -1 : a > b;
}

/* Numbers the remaining directories; number[node] is the result. */
static int number_dirs(struct tree *t, uint32_t *number, struct stk_dir_name **names, size_t *count,
                       struct stk_arena *arena, struct stk_err *err)
{
    struct node **live = malloc((t->n + 1) * sizeof(*live));
    size_t n = 0;
    *names = stk_arena_alloc(arena, (ANALYSIS_DIRSMAX + 1) * sizeof **names);
    if (!live || !*names) {
        free(live);
        return stk_err_nomem(err, (t->n + 1) * sizeof(*live));
    }
    for (size_t i = 0; i < t->n; i++)
        if (t->node[i].into == i && t->node[i].records)
            live[n++] = &t->node[i];
    qsort(live, n, sizeof(*live), by_records);
    *count = n < ANALYSIS_DIRSMAX ? n : ANALYSIS_DIRSMAX;
    for (size_t i = 0; i < n; i++) {
        size_t k = i < ANALYSIS_DIRSMAX ? i : ANALYSIS_DIRSMAX - 1;
        number[live[i] - t->node] = (uint32_t)k;
        const char *name = live[i]->len ? live[i]->path : ".";
        size_t len = live[i]->len ? live[i]->len : 1;
        if (k == ANALYSIS_DIRSMAX - 1 && n > ANALYSIS_DIRSMAX) {
            name = "(other)";
            len = strlen(name);
        }
        if (i <= k)
            (*names)[k] = (struct stk_dir_name){stk_arena_dup(arena, name, len), live[i]->format};
        if (!(*names)[k].path) {
            free(live);
            return stk_err_nomem(err, len);
        }
    }
    free(live);
    return 0;
}

/* Directories that were listed are in the profile too, and counted under their own name. */
static bool is_directory(const struct stk_profile *p, size_t from, size_t to)
{
    uint64_t lists = 0, bytes = 0;
    for (size_t i = from; i < to; i++) {
        const uint64_t *c = p->rec[i].n.c;
        lists |= c[STK_C_DIR_READS];
        bytes |= c[STK_C_READ_BYTES] | c[STK_C_WRITE_BYTES] | c[STK_C_MMAPS];
    }
    return lists && !bytes;
}

static void plant(struct tree *t, const struct stk_profile *p, const struct stk_stores *stores,
                  uint32_t *dir_of)
{
    for (size_t i = 0, from = 0, to; i < p->nfiles; i++, from = to) {
        while (from < p->nrecs && p->rec[from].file < i)
            from++;
        for (to = from; to < p->nrecs && p->rec[to].file == i; to++)
            ;
        const char *path = p->file[i].path;
        bool dir = is_directory(p, from, to);
        size_t len = strlen(path);
        while (dir && len > 1 && path[len - 1] == '/')
            len--;
        const char *format;
        size_t store = stk_store_of(stores, path, &format);
        size_t at = tree_node(t, path, store ? store : dir ? len : parent_len(path, len));
        if (!dir)
            vote(&t->node[at], stk_analysis_format(p, stores, path),
                 p->file[i].files ? p->file[i].files : 1);
        t->node[at].records++;
        dir_of[i] = (uint32_t)at;
    }
}

int stk_analysis_dirs(const struct stk_profile *p, const struct stk_stores *stores,
                      uint32_t *dir_of, struct stk_dir_name **names, size_t *n,
                      struct stk_arena *arena, struct stk_err *err)
{
    struct tree t;
    uint32_t *number = NULL;
    bool changed = true;
    int rc = tree_init(&t, p->nfiles, err);
    if (rc == 0) {
        plant(&t, p, stores, dir_of);
        /* Siblings of one kind are one folder per class. Other siblings are rolled up only when
         * there are many. */
        size_t left = roll_level(&t, 2, &changed);
        while (left > ANALYSIS_DIRS && (changed || left > ANALYSIS_DIRSMAX)) {
            left = roll_level(&t, changed ? 2 : 1, &changed);
            if (!changed)
                left = roll_level(&t, 1, &changed);
            if (!changed)
                break;
        }
        number = calloc(t.n + 1, sizeof *number);
        rc = number ? number_dirs(&t, number, names, n, arena, err)
                    : stk_err_nomem(err, t.n * sizeof *number);
    }
    for (size_t i = 0; rc == 0 && i < p->nfiles; i++)
        dir_of[i] = number[root_of(&t, dir_of[i])];
    free(number);
    free(t.node);
    free(t.slot);
    return rc;
}
