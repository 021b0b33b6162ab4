/* files.c - lists the files of the data, and thins the list out evenly by size. */
#include "tune/files.h"

#include <errno.h>
#include <fnmatch.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/file.h"
#include "base/random.h"
#include "format/format.h"

static int add(struct stk_tune_files *f, const FTSENT *e, size_t skip, struct stk_err *err)
{
    const char *name = e->fts_path + (e->fts_level ? skip + 1 : skip);
    if (STK_ARRAY_MORE(f->file, f->n, err))
        return STK_E_NOMEM;
    const char *kept = stk_arena_dup(&f->arena, name, strlen(name));
    if (!kept)
        return stk_err_nomem(err, strlen(name));
    f->file[f->n++] = (struct stk_tune_file){kept, (uint64_t)e->fts_statp->st_size};
    f->bytes += (uint64_t)e->fts_statp->st_size;
    return 0;
}

static int by_size(const void *x, const void *y)
{
    const struct stk_tune_file *a = x, *b = y;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Follows links, as the program does that reads the data. */
int stk_tune_files_list(const char *source, const char *match, struct stk_tune_files *out,
                        struct stk_err *err)
{
    char *root = strdup(source), *const roots[] = {root, NULL};
    size_t skip = strlen(source);
    FTS *f = root ? fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, NULL) : NULL;
    int rc = f ? 0 : stk_err_sys(err, source, "list");
    *out = (struct stk_tune_files){0};
    for (FTSENT *e; !rc && (e = fts_read(f));)
        if (e->fts_info == FTS_F && S_ISREG(e->fts_statp->st_mode) &&
            (!match || !e->fts_level || fnmatch(match, e->fts_name, 0) == 0))
            rc = add(out, e, skip, err);
    if (f)
        fts_close(f);
    free(root);
    if (out->n)
        qsort(out->file, out->n, sizeof *out->file, by_size);
    return rc;
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

/* A folder that is a dataset is no file, so LMDB is left out. */
const struct stk_format *stk_tune_format_of(const char *name)
{
    for (size_t i = 0; stk_format_at(i); i++)
        if (stk_format_suffix_matches(stk_format_at(i), name) &&
            strcmp(stk_format_at(i)->name, "lmdb") != 0)
            return stk_format_at(i);
    return NULL;
}
