/*
 * sidecar.c - compares sidecars with the records of their files: lines of a number and an offset.
 * stoker finds records by itself; another program would miss those that are not in the list, and
 * read garbage where none begins.
 */
#include "dataset/sidecar.h"
#include "base/array.h"
#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SIDECAR_MAX (1u << 30)

/* The records of one file. */
struct records {
    uint64_t *start;
    size_t n;
};

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int compare(const struct records *r, const struct stk_buf *text, const char *path,
                   struct stk_err *err)
{
    const char *at = (const char *)text->data, *end = at + text->len;
    uint64_t lines = 0;
    for (const char *next; at < end; at = next) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        next = line ? line + 1 : end;
        const char *tab = memchr(at, '\t', (size_t)(next - at));
        if (next - at <= 1)
            continue;
        lines++;
        char number[24];
        snprintf(number, sizeof number, "%.*s", tab ? (int)(next - tab - 1) : 0,
                 tab ? tab + 1 : "");
        char *stop;
        uint64_t off = strtoull(number, &stop, 10);
        if (stop == number || !bsearch(&off, r->start, r->n, sizeof off, by_value))
            return stk_err_set(err, STK_E_CORRUPT, path, at - (const char *)text->data,
                               "line %llu: no record begins where it says",
                               (unsigned long long)lines);
    }
    if (lines != r->n)
        return stk_err_set(err, STK_E_CORRUPT, path, -1,
                           "it lists %llu of the %llu records: programs that read by it miss the "
                           "others",
                           (unsigned long long)lines, (unsigned long long)r->n);
    return 0;
}

/* The name of the sidecar of a file, malloc'ed; NULL: the file has another ending. */
static char *side_name(const struct stk_format *f, const struct stk_files_entry *e)
{
    size_t n = strlen(f->suffix), stem = e->name_len - (e->name_len < n ? 0 : n);
    char *name = NULL;
    if (e->name_len <= n || memcmp(e->name + stem, f->suffix, n) != 0 ||
        asprintf(&name, "%.*s%s", (int)stem, e->name, f->sidecar) < 0)
        return NULL;
    return name;
}

static int check_file(const struct stk_dataset *ds, uint64_t file, const struct records *r,
                      struct stk_err *err)
{
    struct stk_files_entry e;
    struct stk_buf text = STK_BUF_INIT;
    uint64_t size;
    int rc = ds->files.entry(ds->files.list, file, &e, err);
    char *name = rc == 0 ? side_name(ds->format, &e) : NULL;
    char *path = name ? stk_path_join(ds->files.root, name) : NULL;
    struct stk_err why = {0};
    int fd = path ? stk_file_open_at(ds->files.rootfd, ds->files.outside, name, path, &size, &why)
                  : -1;
    if (fd >= 0)
        rc = stk_read_fd(fd, SIDECAR_MAX, &text, path, &why);
    else if (path && why.sys_errno != ENOENT)
        rc = why.code;
    if (rc == 0 && fd >= 0)
        rc = compare(r, &text, path, &why);
    if (rc < 0 && err)
        *err = why;
    if (fd >= 0)
        close(fd);
    stk_buf_release(&text);
    free(path);
    free(name);
    return rc;
}

int stk_sidecars_check(const struct stk_dataset *ds, stk_sidecar_problem *problem, void *user,
                       struct stk_err *err)
{
    struct records r = {0};
    uint64_t n = ds->index.h->nextents;
    int rc = 0;
    /* A record in several parts (its data has the magic number in it) has more extents than one. */
    bool records = ds->format->sidecar && n == ds->index.h->nsamples;
    for (uint64_t i = 0; records && rc == 0 && i < n; i++) {
        struct stk_extent e, next = {0};
        struct stk_err why = {0};
        rc = stk_index_extent(&ds->index, i, &e, err);
        if (rc == 0 && i + 1 < n)
            rc = stk_index_extent(&ds->index, i + 1, &next, err);
        if (rc == 0)
            rc = STK_ARRAY_MORE(r.start, r.n, err);
        if (rc < 0)
            break;
        r.start[r.n++] = e.offset - ds->format->head;
        if (i + 1 < n && next.file == e.file)
            continue;
        if (check_file(ds, e.file, &r, &why) < 0)
            problem(user, &why);
        r.n = 0;
    }
    free(r.start);
    return rc;
}
