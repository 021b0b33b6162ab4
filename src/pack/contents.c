/* contents.c - tells the files of a packed dataset from those that somebody has put beside them. */
#include "pack/priv.h"
#include "base/text.h"
#include "dataset/checksum.h"
#include "format/format.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool stk_contents_name(const struct stk_contents *c, const char *name)
{
    return c->n && bsearch(&name, c->name, c->n, sizeof *c->name, by_name);
}

static int take_names(struct stk_contents *c, struct stk_err *err)
{
    const struct stk_manifest *m = &c->manifest;
    const struct stk_format *f = stk_format_find(m->format);
    size_t most = m->nshards + m->nother + 2;
    c->name = calloc(most, sizeof *c->name);
    if (!c->name)
        return stk_err_nomem(err, most * sizeof *c->name);
    for (size_t i = 0; i < m->nshards; i++)
        c->name[c->n++] = m->shard[i].name;
    for (size_t i = 0; i < m->nother; i++)
        c->name[c->n++] = m->other[i].name;
    c->name[c->n++] = STK_INDEX_NAME; /* also one that was built later */
    c->name[c->n++] = STK_MANIFEST_NAME;
    qsort(c->name, c->n, sizeof *c->name, by_name);
    c->tree = f && (f->caps & STK_CAN_TREE) && m->nshards == 1 ? m->shard[0].name : NULL;
    return 0;
}

/* Only the index that was packed says what was packed: one that was built again also names what has
 * been added. */
static int open_index(struct stk_contents *c, int fd, const char *path, struct stk_err *err)
{
    const struct stk_manifest *m = &c->manifest;
    struct stk_err why = {0};
    uint64_t size;
    int rc = STK_E_CORRUPT;
    for (size_t i = 0; i < m->nother; i++)
        if (strcmp(m->other[i].name, STK_INDEX_NAME) == 0)
            rc = stk_content_compare(fd, false, &m->other[i], path, &size, &why);
    int file = rc < 0 ? -1 : stk_read_open(fd, STK_INDEX_NAME, O_NOFOLLOW, &file, NULL, path, &why) < 0
                                 ? -1
                                 : file;
    if (file >= 0) {
        rc = stk_index_open_fd(file, path, &c->index, &why);
        close(file);
        c->indexed = rc == 0;
    }
    return rc == STK_E_NOMEM ? stk_err_nomem(err, 1) : 0;
}

int stk_contents_read(struct stk_contents *c, int fd, const char *path, struct stk_err *err)
{
    struct stk_manifest_at at = {.dirfd = fd, .outside = true, .dir = path};
    *c = (struct stk_contents){0};
    int ours = stk_manifest_read_at(&at, &c->manifest, err);
    int rc = ours == 1 ? take_names(c, err) : 0;
    if (rc == 0 && c->tree)
        rc = open_index(c, fd, path, err);
    return rc < 0 ? rc : ours;
}

void stk_contents_release(struct stk_contents *c)
{
    if (c->indexed)
        stk_index_close(&c->index);
    stk_manifest_release(&c->manifest);
    free(c->name);
    *c = (struct stk_contents){0};
}

/* The order of a walk: folder by folder, by the bytes of their names. */
static int path_order(const char *a, size_t na, const char *b, size_t nb)
{
    for (size_t i = 0; i < na && i < nb; i++)
        if (a[i] != b[i])
            return (a[i] == '/' ? 0 : (uint8_t)a[i]) - (b[i] == '/' ? 0 : (uint8_t)b[i]);
    return (na > nb) - (na < nb);
}

/* A damaged index names fewer files, so that more of them are left. */
static bool is_indexed(const struct stk_contents *c, const char *name)
{
    size_t len = strlen(name);
    uint64_t low = 0, high = c->indexed ? c->index.h->nfiles : 0;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        const struct stk_index_file *f;
        const char *there;
        if (stk_index_file(&c->index, mid, &f, &there, NULL) < 0)
            return false;
        int order = path_order(name, len, there, f->name_len);
        if (order == 0)
            return true;
        low = order > 0 ? mid + 1 : low;
        high = order < 0 ? mid : high;
    }
    return false;
}

/* NAME.partial and what follows: a file of the dataset that a killed process began. NAME-lock: made
 * by every other reader of LMDB. */
static bool is_leftover(const struct stk_contents *c, const char *name)
{
    size_t n = strlen(name);
    const char *end = strstr(name, ".partial");
    if (!end && c->n && strcmp(c->manifest.format, "lmdb") == 0 && stk_text_ends(name, n, "-lock"))
        end = name + n - strlen("-lock");
    char *base = end && !strchr(name, '/') ? strndup(name, (size_t)(end - name)) : NULL;
    bool is = base && stk_contents_name(c, base);
    free(base);
    return is;
}

static bool is_ours(void *user, const char *name)
{
    const struct stk_contents *c = user;
    size_t n = c->tree ? strlen(c->tree) : 0;
    if (n && strncmp(name, c->tree, n) == 0 && name[n] == '/')
        return is_indexed(c, name + n + 1);
    return stk_contents_name(c, name) || is_leftover(c, name);
}

static bool is_mark(const char *name)
{
    return strcmp(name, STK_INDEX_NAME) == 0 || strcmp(name, STK_MANIFEST_NAME) == 0;
}

static bool is_ours_but_marks(void *user, const char *name)
{
    return !is_mark(name) && is_ours(user, name);
}

static bool is_ours_but_manifest(void *user, const char *name)
{
    return strcmp(name, STK_MANIFEST_NAME) != 0 && is_ours(user, name);
}

int stk_contents_others(struct stk_contents *c, int fd, struct stk_left *left, const char *path,
                        struct stk_err *err)
{
    return stk_count_others(fd, is_ours, c, left, path, err);
}

int stk_contents_remove(struct stk_contents *c, int fd, struct stk_left *left, const char *path,
                        struct stk_err *err)
{
    /* If it is killed, the list is there for the next run until nothing else is. */
    bool (*const step[])(void *, const char *) = {is_ours_but_marks, is_ours_but_manifest, is_ours};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof step / sizeof *step; i++) {
        *left = (struct stk_left){0};
        rc = stk_remove_ours(fd, step[i], c, left, path, err);
    }
    return rc;
}
