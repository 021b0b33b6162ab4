/* list.c - see list.h. */
#include "bench/list.h"

#include <errno.h>
#include <fnmatch.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/random.h"
#include "bench/reader.h"

#define CHANGED 0.02 /* of the bytes of a group: more is another dataset */

void stk_bench_list_release(struct stk_bench_list *l)
{
    free(l->file);
    stk_arena_release(&l->arena);
    *l = (struct stk_bench_list){0};
}

/* ---- numbers of files ----------------------------------------------------------------------- */

uint64_t stk_bench_group_files(const struct stk_workload *w, size_t g)
{
    return g == 0 && w->dataset.files < w->group[0].count ? w->dataset.files : w->group[g].count;
}

uint64_t stk_bench_groups_files(const struct stk_workload *w)
{
    uint64_t n = 0;
    for (size_t g = 0; g < STK_GROUPS && w->group[g].path; g++)
        n += stk_bench_group_files(w, g);
    return n;
}

size_t stk_bench_group_of(const struct stk_workload *w, uint64_t item, uint64_t *file)
{
    size_t g = 0;
    while (g + 1 < STK_GROUPS && item >= stk_bench_group_files(w, g))
        item -= stk_bench_group_files(w, g++);
    *file = item;
    return g;
}

uint64_t stk_bench_group_size(const struct stk_workload *w, size_t g, uint64_t file)
{
    double v = stk_dist_at(&w->group[g].size, stk_mix64(w->dataset.seed ^ stk_mix64(file + 1) ^ g));
    return v < 1 ? 1 : (uint64_t)v;
}

/* ---- finding -------------------------------------------------------------------------------- */

static int add(struct stk_bench_list *l, const char *name, uint64_t size, struct stk_err *err)
{
    if (STK_ARRAY_MORE(l->file, l->n, err))
        return STK_E_NOMEM;
    const char *kept = stk_arena_dup(&l->arena, name, strlen(name));
    if (!kept)
        return stk_err_nomem(err, strlen(name));
    l->file[l->n++] = (struct stk_bench_listed){kept, size};
    l->bytes += size;
    return 0;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* skip: bytes of the path before the name within the base. */
static int add_found(const struct stk_bench_group *g, const FTSENT *e, size_t skip,
                     struct stk_bench_list *out, struct stk_err *err)
{
    bool matches = !g->match || fnmatch(g->match, e->fts_name, 0) == 0 || e->fts_level == 0;
    if (e->fts_info == FTS_ERR || e->fts_info == FTS_DNR) {
        errno = e->fts_errno;
        return stk_err_sys(err, e->fts_path, "list");
    }
    return e->fts_info == FTS_F && matches && S_ISREG(e->fts_statp->st_mode)
               ? add(out, e->fts_path + skip, (uint64_t)e->fts_statp->st_size, err)
               : 0;
}

static int walk(const struct stk_bench_group *g, char *path, size_t skip,
                struct stk_bench_list *out, struct stk_err *err)
{
    char *const roots[] = {path, NULL};
    FTS *f = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    int rc = f ? 0 : stk_err_sys(err, path, "list");
    for (FTSENT *e; rc == 0 && (e = fts_read(f));)
        rc = add_found(g, e, skip, out, err);
    if (f)
        fts_close(f);
    return rc;
}

/* The same files as in the profile? Of single files, any change counts; of many, files may have
 * come and gone. */
static int compare(const struct stk_workload *w, size_t g, const char *path,
                   const struct stk_bench_list *l, struct stk_err *err)
{
    const struct stk_bench_group *x = &w->group[g];
    double wanted = stk_dist_mean(&x->size) * (double)x->count, found = (double)l->bytes;
    if (l->n < x->count)
        return stk_err_set(err, STK_E_SYS, path, -1,
                           "has %zu of the %llu files%s%s of group %zu: they are gone since the "
                           "profile was recorded; replay the same shape elsewhere with --data DIR "
                           "--generate",
                           l->n, (unsigned long long)x->count, x->match ? " " : "",
                           x->match ? x->match : "", g + 1);
    double scale = (double)x->count / (double)l->n;
    if (found * scale < wanted * (1 - CHANGED) || found * scale > wanted * (1 + CHANGED))
        return stk_err_set(err, STK_E_SYS, path, -1,
                           "the files of group %zu have %.0f bytes each, and %.0f when the profile "
                           "was recorded: they have changed; set files.%zu.size if this is meant",
                           g + 1, found / (double)l->n, wanted / (double)x->count, g + 1);
    return 0;
}

int stk_bench_list_find(const struct stk_workload *w, size_t g, const char *base,
                        struct stk_bench_list *out, struct stk_err *err)
{
    const char *name = w->group[g].path;
    char path[4096];
    bool below = base && *name != '/';
    *out = (struct stk_bench_list){0};
    int n = snprintf(path, sizeof path, "%s%s%s", below ? base : "", below ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof path)
        return stk_err_set(err, STK_E_USAGE, name, -1, "the name is too long");
    int rc = walk(&w->group[g], path, below ? strlen(base) + 1 : 0, out, err);
    return rc ? rc : compare(w, g, path, out, err);
}

int stk_bench_list_made(const struct stk_workload *w, size_t g, struct stk_bench_list *out,
                        struct stk_err *err)
{
    char name[STK_BENCH_NAME];
    uint64_t first = 0;
    int rc = 0;
    *out = (struct stk_bench_list){0};
    for (size_t i = 0; i < g; i++)
        first += stk_bench_group_files(w, i);
    for (uint64_t i = 0; i < stk_bench_group_files(w, g) && rc == 0; i++)
        rc = add(out, stk_bench_file_name(w, first + i, name), stk_bench_group_size(w, g, i), err);
    return rc;
}
