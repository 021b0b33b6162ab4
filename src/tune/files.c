/* files.c - lists the files of the data, and thins the list out evenly by size. */
#include "tune/files.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/dir.h"
#include "base/file.h"
#include "base/random.h"
#include "format/format.h"

#define FOLDER (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* The folders above one, so that links cannot lead in circles. */
struct above {
    dev_t dev;
    ino_t ino;
    const struct above *up;
};

static bool is_above(const struct above *a, const struct stat *st)
{
    while (a && (a->dev != st->st_dev || a->ino != st->st_ino))
        a = a->up;
    return a;
}

static int add(struct stk_tune_files *f, const char *name, const struct stat *st,
               struct stk_err *err)
{
    if (STK_ARRAY_MORE(f->file, f->n, err))
        return STK_E_NOMEM;
    const char *kept = stk_arena_dup(&f->arena, name, strlen(name));
    if (!kept)
        return stk_err_nomem(err, strlen(name));
    f->file[f->n++] = (struct stk_tune_file){kept, (uint64_t)st->st_size};
    f->bytes += (uint64_t)st->st_size;
    return 0;
}

static int by_size(const void *x, const void *y)
{
    const struct stk_tune_file *a = x, *b = y;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

struct lister {
    const char *source, *match;
    struct stk_tune_files *out;
    struct stk_buf at; /* the name of the folder being listed, with "/"; empty: the source */
};

/* Takes ownership of fd; negative: errno says why. Follows links, as the program does that reads
 * the data. */
static int list_folder(struct lister *l, int fd, const struct above *up, struct stk_err *err)
{
    struct stk_dir d;
    struct stat st;
    size_t before = l->at.len;
    int rc = stk_dir_take(&d, fd, l->source, err);
    if (!rc && fstat(fd, &st) != 0)
        rc = stk_err_sys(err, l->source, "list");
    const struct above here = {rc ? 0 : st.st_dev, rc ? 0 : st.st_ino, up};
    for (const struct dirent *e; !rc && (e = stk_dir_next(&d)); l->at.len = before) {
        if (!stk_dir_stat(&d, e, 0, &st))
            continue;
        stk_buf_puts(&l->at, e->d_name);
        if (S_ISREG(st.st_mode) && (!l->match || fnmatch(l->match, e->d_name, 0) == 0))
            rc = add(l->out, stk_buf_cstr(&l->at), &st, err);
        if (!S_ISDIR(st.st_mode) || is_above(&here, &st))
            continue;
        stk_buf_putc(&l->at, '/');
        rc = stk_buf_check(&l->at, err);
        rc = rc ? rc : list_folder(l, openat(fd, e->d_name, FOLDER), &here, err);
    }
    return stk_dir_end(&d, rc, err);
}

int stk_tune_files_list(const char *source, const char *match, struct stk_tune_files *out,
                        struct stk_err *err)
{
    struct lister l = {.source = source, .match = match, .out = out, .at = STK_BUF_INIT};
    struct stat st;
    *out = (struct stk_tune_files){0};
    int rc = stat(source, &st) != 0  ? stk_err_sys(err, source, "list")
             : S_ISREG(st.st_mode) ? add(out, "", &st, err)
                                     : list_folder(&l, open(source, FOLDER), NULL, err);
    stk_buf_release(&l.at);
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
    for (size_t i = 0; stk_format_at(i) && !stk_format_at(i)->instead; i++)
        if (stk_format_suffix_matches(stk_format_at(i), name) &&
            strcmp(stk_format_at(i)->name, "lmdb") != 0)
            return stk_format_at(i);
    return NULL;
}
