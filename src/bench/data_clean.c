/* data_clean.c - `--clean`: removes what the note of a data folder says was generated there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "bench/checkpoint.h"
#include "bench/data_priv.h"
#include "bench/reader.h"

/* Sets a key from the note. */
static int take_key(const struct stk_jval *keys, const char *key, const char *dir, bool must,
                    struct stk_workload *w, struct stk_err *err)
{
    char text[4400];
    const struct stk_jval *v = keys ? stk_json_get(keys, key) : NULL;
    if (!v && !must)
        return 0;
    if (!v || (v->type != STK_JSTR && v->type != STK_JINT))
        return stk_err_set(err, STK_E_CORRUPT, dir, -1, "the note %s lacks %s", STK_BENCH_NOTE,
                           key);
    snprintf(text, sizeof text, "%s=%.*s", key,
             v->type == STK_JSTR ? (int)v->len : (int)v->raw_len,
             v->type == STK_JSTR ? v->str : v->raw);
    return stk_workload_set(w, text, err);
}

static int groups_of(const struct stk_jval *keys, const char *dir, struct stk_workload *w,
                     struct stk_err *err)
{
    int rc = 0;
    for (size_t g = 0; g < STK_GROUPS && rc == 0; g++) {
        char key[32];
        snprintf(key, sizeof key, "files.%zu.count", g + 1);
        rc = take_key(keys, key, dir, false, w, err);
        if (stk_json_get(keys, key))
            w->group[g].path = "";
    }
    return rc;
}

/* The workload in a note: what decides the names of the files. */
static int workload_of(const struct stk_jval *note, const char *dir, struct stk_workload *w,
                       struct stk_err *err)
{
    static const char *const wanted[] = {
        "name", "dataset.format", "dataset.files", "dataset.eval_files", "dataset.folders",
        "dataset.eval_folders", NULL};
    const struct stk_jval *keys = stk_json_get(note, "workload");
    int rc = 0;
    for (const char *const *k = wanted; *k && rc == 0; k++)
        rc = take_key(keys, *k, dir, true, w, err);
    const struct stk_jval *saves = rc == 0 ? stk_json_get(keys, "checkpoint.dir") : NULL;
    if (saves && saves->type == STK_JSTR)
        rc = take_key(keys, "checkpoint.dir", dir, false, w, err);
    if (rc == 0 && w->dataset.format == STK_BENCH_REPLAY)
        rc = groups_of(keys, dir, w, err);
    if (rc == 0 && (strchr(w->name, '/') || !*w->name))
        rc = stk_err_set(err, STK_E_CORRUPT, dir, -1, "the note has an impossible name");
    return rc;
}

/* The folder of a file of ours, "train/00017/". *out: -1 if it is gone, or not a folder but
 * somebody's link. */
static int enter_there(const struct stk_bench_data *d, const char *name, int *out,
                       struct stk_err *err)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    char part[STK_BENCH_NAME];
    int at = -1;
    *out = -1;
    for (const char *slash; (slash = strchr(name, '/')); name = slash + 1) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - name), name);
        int next = openat(at < 0 ? d->dirfd : at, part, flags), saved = errno;
        if (at >= 0)
            close(at);
        errno = saved;
        if (next < 0)
            return stk_is_absent(errno) || errno == ENOTDIR || errno == ELOOP
                       ? 0
                       : stk_err_sys(err, d->dir, "open the folder %s", part);
        at = next;
    }
    *out = at;
    return 0;
}

static int remove_file(const struct stk_bench_data *d, const char *name, uint64_t *files,
                       struct stk_err *err)
{
    char partial[STK_BENCH_NAME + 16], path[4400];
    const char *base = stk_base_name(name);
    int dirfd, rc = enter_there(d, name, &dirfd, err);
    if (dirfd < 0)
        return rc;
    snprintf(path, sizeof path, "%s/%s", d->dir, name);
    snprintf(partial, sizeof partial, "%s" STK_BENCH_PART, base);
    bool there = stk_may_exist(dirfd, base);
    rc = stk_unlink_at(dirfd, base, path, err);
    rc = rc ? rc : stk_unlink_at(dirfd, partial, path, err);
    *files += rc == 0 && there;
    close(dirfd);
    return rc;
}

static int remove_files(const struct stk_bench_data *d, stk_bench_progress_fn *progress, void *user,
                        uint64_t *files, struct stk_err *err)
{
    char name[STK_BENCH_NAME];
    uint64_t all = stk_bench_data_files(d->w);
    int rc = 0;
    for (uint64_t i = 0; i < all && rc == 0; i++) {
        struct stk_workload eval;
        uint64_t file;
        const struct stk_workload *w = stk_bench_data_file(d->w, i, &eval, &file);
        rc = remove_file(d, stk_bench_file_name(w, file, name), files, err);
        if (rc == 0 && progress && progress(user, i + 1, all))
            rc = stk_err_set(err, STK_E_STOPPED, d->dir, -1,
                             "stopped; the same command removes the rest");
    }
    return rc;
}

static int remove_folders(const struct stk_bench_data *d, const char *above, uint64_t folders,
                          struct stk_err *err)
{
    char name[STK_BENCH_FOLDER], inside[STK_BENCH_FOLDER];
    int dirfd;
    snprintf(inside, sizeof inside, "%s/", above);
    int rc = enter_there(d, inside, &dirfd, err);
    for (uint64_t i = 0; dirfd >= 0 && rc == 0 && i < folders; i++) {
        snprintf(name, sizeof name, "%05llu", (unsigned long long)i);
        rc = stk_rmdir_empty_at(dirfd, name, d->dir, err);
    }
    if (dirfd >= 0)
        close(dirfd);
    return rc ? rc : stk_rmdir_empty_at(d->dirfd, above, d->dir, err);
}

/* What killed runs left, in the data folder and in the user's that the note names. */
static int remove_checkpoints(const struct stk_bench_data *d, struct stk_err *err)
{
    const char *dir = d->w->checkpoint.dir;
    struct stk_left left = {0};
    int rc = stk_bench_checkpoint_sweep(d->dirfd, false, &left, d->dir, err);
    int fd = rc == 0 && dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (rc == 0 && dir && fd < 0 && !stk_is_absent(errno))
        rc = stk_err_sys(err, dir, "open the folder");
    if (fd >= 0) {
        rc = stk_bench_checkpoint_sweep(fd, true, &left, dir, err);
        close(fd);
    }
    return rc;
}

static int clean_open(struct stk_bench_data *d, const struct stk_jval *note,
                      stk_bench_progress_fn *progress, void *user, uint64_t *files,
                      struct stk_err *err)
{
    struct stk_workload w = {0};
    d->w = &w;
    int rc = workload_of(note, d->dir, &w, err);
    if (rc == 0 && w.dataset.format != STK_BENCH_NONE)
        rc = remove_files(d, progress, user, files, err);
    rc = rc ? rc : remove_folders(d, "train", w.dataset.folders, err);
    rc = rc ? rc : remove_folders(d, "eval", w.dataset.eval_folders, err);
    rc = rc ? rc : remove_checkpoints(d, err);
    (void)stk_new_sweep(d->dirfd, STK_BENCH_INDEX);
    (void)stk_new_sweep(d->dirfd, STK_BENCH_EVAL_INDEX);
    rc = rc ? rc : stk_unlink_at(d->dirfd, STK_BENCH_INDEX, d->dir, err);
    rc = rc ? rc : stk_unlink_at(d->dirfd, STK_BENCH_EVAL_INDEX, d->dir, err);
    rc = rc ? rc : stk_unlink_at(d->dirfd, STK_BENCH_NOTE, d->dir, err);
    stk_workload_release(&w);
    d->w = NULL;
    return rc;
}

/* The folder itself, or the first thing in it that is not ours. */
static int remove_itself(const struct stk_bench_data *d, struct stk_left *left, struct stk_err *err)
{
    const char *name;
    struct stk_dir list;
    int parent, rc = stk_open_parent(d->dir, &parent, &name, err);
    if (rc < 0)
        return rc;
    rc = stk_rmdir_empty_at(parent, name, d->dir, err);
    close(parent);
    int open = stk_dir_open_fd(&list, d->dirfd, d->dir, err);
    for (const struct dirent *e; open == 0 && (e = stk_dir_next(&list));)
        if (!left->n++)
            snprintf(left->first, sizeof left->first, "%s", e->d_name);
    return stk_dir_end(&list, rc ? rc : open, err);
}

int stk_bench_data_clean(const char *dir, stk_bench_progress_fn *progress, void *user,
                         uint64_t *files, struct stk_left *left, struct stk_err *err)
{
    struct stk_bench_data d = {.dir = dir, .dirfd = -1};
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *note = NULL;
    *files = 0;
    int rc = stk_own_folder(dir, 0, &d.dirfd, err);
    rc = rc ? rc : stk_bench_note_read(d.dirfd, dir, &arena, &note, err);
    unsigned swept = rc == 0 ? stk_new_sweep(d.dirfd, STK_BENCH_NOTE) : 0;
    int empty = rc || note || swept ? 1 : stk_dir_is_empty(d.dirfd, dir, err); /* killed at once */
    rc = rc || empty > 0 ? rc : empty;
    if (rc == 0 && !empty)
        rc = stk_err_set(err, STK_E_SYS, dir, -1,
                         "was not made by stoker bench (no %s): nothing was removed",
                         STK_BENCH_NOTE);
    if (rc == 0 && note)
        rc = clean_open(&d, note, progress, user, files, err);
    rc = rc ? rc : remove_itself(&d, left, err);
    stk_arena_release(&arena);
    stk_bench_data_close(&d);
    return rc;
}
