/* list.c - the files of a group of a replay: found by their names, or generated. */
#include "bench/data.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/dir.h"
#include "base/own.h"
#include "base/random.h"
#include "bench/reader.h"

#define CHANGED      0.02 /* of the bytes of a group: more is another dataset */
#define LOOK_AT_ALL  64u  /* files; of more, this many and one in 64 */
#define LOOK_AT_SOME 16u
#define DEVIATIONS   4.0 /* one in 16,000 by chance */

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

static int add(struct stk_bench_list *l, const char *name, struct stk_err *err)
{
    if (STK_ARRAY_MORE(l->file, l->n, err))
        return STK_E_NOMEM;
    const char *kept = stk_arena_dup(&l->arena, name, strlen(name));
    if (!kept)
        return stk_err_nomem(err, strlen(name));
    l->file[l->n++] = kept;
    return 0;
}

struct walk {
    const struct stk_bench_group *g;
    struct stk_bench_list *out;
    size_t skip; /* bytes of the path before the name within the base */
    char path[4096];
};

/* The folders above one, so that links cannot lead in circles. */
struct above {
    dev_t dev;
    ino_t ino;
    const struct above *up;
};

static bool is_above(const struct above *a, const struct stat *st)
{
    for (; a; a = a->up)
        if (a->dev == st->st_dev && a->ino == st->st_ino)
            return true;
    return false;
}

struct entry {
    char *name;
    unsigned char type;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

/* Sorted; the caller frees, also after an error. */
static int read_entries(const char *path, struct entry **out, size_t *n, struct stk_err *err)
{
    struct stk_dir d;
    int rc = stk_dir_open(&d, path, err);
    for (const struct dirent *e; !rc && (e = stk_dir_next(&d));) {
        rc = STK_ARRAY_MORE(*out, *n, err);
        char *name = rc ? NULL : strdup(e->d_name);
        if (name)
            (*out)[(*n)++] = (struct entry){name, e->d_type};
        else if (!rc)
            rc = stk_err_nomem(err, 256);
    }
    if (*n)
        qsort(*out, *n, sizeof **out, by_name);
    return stk_dir_end(&d, rc, err);
}

/* A file is never looked at, only its name in the folder: its inode would be in memory then, and
 * the replay would not find it as cold as the program did. */
static int mode_of(const struct walk *w, const struct entry *e, mode_t *mode, struct stk_err *err)
{
    struct stat st = {0};
    if (e->type == DT_LNK || e->type == DT_UNKNOWN) {
        if (stat(w->path, &st) < 0 && !stk_is_absent(errno) && errno != ELOOP)
            return stk_err_sys(err, w->path, "list");
        *mode = st.st_mode;
    } else {
        *mode = (mode_t)e->type << 12;
    }
    return 0;
}

static int walk_folder(struct walk *w, const struct above *up, struct stk_err *err);

static int walk_entry(struct walk *w, size_t len, const struct entry *e, const struct above *up,
                      struct stk_err *err)
{
    size_t more = strlen(e->name) + 1;
    if (len + more >= sizeof w->path)
        return stk_err_set(err, STK_E_USAGE, w->path, -1, "a name in it is too long");
    w->path[len] = '/';
    memcpy(w->path + len + 1, e->name, more);
    mode_t mode;
    int rc = mode_of(w, e, &mode, err);
    bool matches = !w->g->match || fnmatch(w->g->match, e->name, 0) == 0;
    rc = rc                         ? rc
         : S_ISDIR(mode)            ? walk_folder(w, up, err)
         : S_ISREG(mode) && matches ? add(w->out, w->path + w->skip, err)
                                    : 0;
    w->path[len] = '\0';
    return rc;
}

static int walk_folder(struct walk *w, const struct above *up, struct stk_err *err)
{
    struct stat st;
    struct entry *entry = NULL;
    size_t n = 0;
    if (stat(w->path, &st) < 0)
        return stk_err_sys(err, w->path, "list");
    if (S_ISREG(st.st_mode))
        return add(w->out, w->path + w->skip, err);
    if (!S_ISDIR(st.st_mode) || is_above(up, &st))
        return 0;
    struct above here = {st.st_dev, st.st_ino, up};
    int rc = read_entries(w->path, &entry, &n, err);
    for (size_t i = 0; i < n; i++) {
        rc = rc ? rc : walk_entry(w, strlen(w->path), &entry[i], &here, err);
        free(entry[i].name);
    }
    free(entry);
    return rc;
}

/* ---- the same files as in the profile? ------------------------------------------------------ */

struct sample {
    double n, sum, squares;
};

/* Sizes of all files if there are few; of some if there are many: see mode_of(). */
static struct sample look_at_some(const struct stk_bench_list *l, const char *base)
{
    struct sample s = {0};
    struct stat st;
    char path[4400];
    size_t some = l->n <= LOOK_AT_ALL ? l->n : l->n / LOOK_AT_ALL + LOOK_AT_SOME;
    for (size_t i = 0; i < some; i++) {
        const char *name = l->file[i * l->n / some];
        bool below = base && *name != '/';
        snprintf(path, sizeof path, "%s%s%s", below ? base : "", below ? "/" : "", name);
        if (stat(path, &st) < 0)
            continue;
        s.n++;
        s.sum += (double)st.st_size;
        s.squares += (double)st.st_size * (double)st.st_size;
    }
    return s;
}

/* How far the mean of a sample may be from that of all files by chance. */
static double chance(const struct sample *s, double all)
{
    double mean = s->sum / s->n, variance = s->squares / s->n - mean * mean;
    double left = all > s->n ? 1 - s->n / all : 0;
    return DEVIATIONS * sqrt(fmax(variance, 0) * left / s->n);
}

/* Of single files, any change counts; of many, files may have come and gone. */
static int compare(const struct stk_workload *w, size_t g, const char *path, const char *base,
                   struct stk_bench_list *l, struct stk_err *err)
{
    const struct stk_bench_group *x = &w->group[g];
    double wanted = stk_dist_mean(&x->size);
    if (l->n < x->count)
        return stk_err_set(err, STK_E_SYS, path, -1,
                           "has %zu of the %llu files%s%s of group %zu: they are gone since the "
                           "profile was recorded; replay the same shape elsewhere with --data DIR "
                           "--generate",
                           l->n, (unsigned long long)x->count, x->match ? " " : "",
                           x->match ? x->match : "", g + 1);
    struct sample s = look_at_some(l, base);
    double mean = s.n > 0 ? s.sum / s.n : wanted;
    l->mean_bytes = s.n < (double)l->n ? wanted : mean;
    if (s.n > 0 && fabs(mean - wanted) > wanted * CHANGED + chance(&s, (double)l->n))
        return stk_err_set(err, STK_E_SYS, path, -1,
                           "the files of group %zu have %.0f bytes each, and %.0f when the profile "
                           "was recorded: they have changed; set files.%zu.size if this is meant",
                           g + 1, mean, wanted, g + 1);
    return 0;
}

int stk_bench_list_find(const struct stk_workload *w, size_t g, const char *base,
                        struct stk_bench_list *out, struct stk_err *err)
{
    const char *name = w->group[g].path;
    struct walk walk = {.g = &w->group[g], .out = out};
    bool below = base && *name != '/';
    *out = (struct stk_bench_list){0};
    int n = snprintf(walk.path, sizeof walk.path, "%s%s%s", below ? base : "", below ? "/" : "",
                     name);
    if (n < 0 || (size_t)n >= sizeof walk.path)
        return stk_err_set(err, STK_E_USAGE, name, -1, "the name is too long");
    /* As the program opened them: from the root, if the folder is named from there. */
    walk.skip = below && *base != '/' ? strlen(base) + 1 : 0;
    int rc = walk_folder(&walk, NULL, err);
    return rc ? rc : compare(w, g, walk.path, base, out, err);
}

int stk_bench_list_survey(const char *folder, const char *match, uint64_t *files,
                          double *mean_bytes, struct stk_err *err)
{
    struct stk_bench_group g = {.match = match};
    struct stk_bench_list l = {0};
    struct walk walk = {.g = &g, .out = &l};
    int n = snprintf(walk.path, sizeof walk.path, "%s", folder);
    int rc = n < 0 || (size_t)n >= sizeof walk.path
                 ? stk_err_set(err, STK_E_USAGE, folder, -1, "the name is too long")
                 : walk_folder(&walk, NULL, err);
    struct sample s = look_at_some(&l, NULL);
    *files = l.n;
    *mean_bytes = s.n > 0 ? s.sum / s.n : 0;
    stk_bench_list_release(&l);
    return rc;
}

int stk_bench_list_made(const struct stk_workload *w, size_t g, struct stk_bench_list *out,
                        struct stk_err *err)
{
    char name[STK_BENCH_NAME];
    uint64_t first = 0, n = stk_bench_group_files(w, g);
    double bytes = 0;
    int rc = 0;
    *out = (struct stk_bench_list){0};
    for (size_t i = 0; i < g; i++)
        first += stk_bench_group_files(w, i);
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        rc = add(out, stk_bench_file_name(w, first + i, name), err);
        bytes += (double)stk_bench_group_size(w, g, i);
    }
    out->mean_bytes = bytes / (double)n;
    return rc;
}
