/* data.c - see data.h. */
#include "bench/data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "base/pool.h"
#include "bench/data_priv.h"
#include "bench/reader.h"
#include "bench/spare.h"

/* ---- opening -------------------------------------------------------------------------------- */

void stk_bench_data_close(struct stk_bench_data *d)
{
    if (d->dirfd >= 0)
        close(d->dirfd);
    d->dirfd = -1;
    for (size_t g = 0; g < STK_GROUPS; g++)
        stk_bench_list_release(&d->list[g]);
}

/* The files of a replay. */
static int list_groups(struct stk_bench_data *d, struct stk_err *err)
{
    int rc = 0;
    for (size_t g = 0; g < d->w->ngroups && rc == 0; g++)
        rc = d->users ? stk_bench_list_find(d->w, g, d->w->dataset.path, &d->list[g], err)
                      : stk_bench_list_made(d->w, g, &d->list[g], err);
    return rc;
}

static int open_dir(struct stk_bench_data *d, struct stk_err *err)
{
    d->dirfd = open(d->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->dirfd < 0 && errno == ENOENT)
        return stk_err_set(err, STK_E_SYS, d->dir, -1,
                           "there is no data folder; generate the dataset with --generate");
    return d->dirfd < 0 ? stk_err_sys(err, d->dir, "open the data folder") : 0;
}

int stk_bench_data_open(struct stk_bench_data *d, const struct stk_workload *w, const char *dir,
                        struct stk_err *err)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *note = NULL;
    *d = (struct stk_bench_data){.w = w, .dir = dir, .dirfd = -1};
    int rc = open_dir(d, err);
    rc = rc ? rc : stk_bench_note_read(d->dirfd, dir, &arena, &note, err);
    if (rc == 0 && !note)
        rc = stk_err_set(err, STK_E_SYS, dir, -1,
                         "holds no dataset of stoker bench (no %s); generate it with --generate",
                         STK_BENCH_NOTE);
    rc = rc ? rc : stk_bench_note_compare(d, note, err);
    if (rc == 0 && !stk_bench_note_is_complete(note))
        rc = stk_err_set(err, STK_E_SYS, dir, -1,
                         "the dataset is not complete; --generate resumes its generation");
    stk_arena_release(&arena);
    rc = rc ? rc : list_groups(d, err);
    if (rc < 0)
        stk_bench_data_close(d);
    return rc;
}

int stk_bench_data_users(struct stk_bench_data *d, const struct stk_workload *w,
                         struct stk_err *err)
{
    *d = (struct stk_bench_data){.w = w, .dirfd = -1, .users = true};
    d->dir = w->dataset.path ? w->dataset.path : "/";
    d->dirfd = open(d->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = d->dirfd < 0 ? stk_err_sys(err, d->dir, "open the folder of dataset.path") : 0;
    rc = rc ? rc : list_groups(d, err);
    if (rc < 0)
        stk_bench_data_close(d);
    return rc;
}

/* ---- generating ----------------------------------------------------------------------------- */

/* "train" or "train/00017", opened; made if missing. */
int stk_bench_data_enter(const struct stk_bench_data *d, const char *name, int *out,
                        struct stk_err *err)
{
    char part[STK_BENCH_NAME];
    int at = d->dirfd;
    const char *slash;
    while ((slash = strchr(name, '/'))) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - name), name);
        int next = stk_enter_at(at, part);
        int saved = errno;
        if (at != d->dirfd)
            close(at);
        errno = saved;
        if (next < 0)
            return stk_err_sys(err, d->dir, "make the folder %s", part);
        at = next;
        name = slash + 1;
    }
    *out = at;
    return 0;
}

uint64_t stk_bench_data_files(const struct stk_workload *w)
{
    return w->dataset.format == STK_BENCH_REPLAY ? stk_bench_groups_files(w)
                                                 : w->dataset.files + w->dataset.eval_files;
}

struct making {
    struct stk_bench_data *d;
    struct stk_comm *comm; /* NULL: one process makes all */
    uint64_t rank, ranks;
    stk_bench_progress_fn *progress;
    void *user;
    _Atomic uint64_t made, kept;
};

/* Files that this process makes: every `ranks`th. */
static uint64_t share_of(const struct making *m)
{
    return (stk_bench_data_files(m->d->w) + m->ranks - 1 - m->rank) / m->ranks;
}

static int write_one(const struct stk_workload *w, uint64_t file, int dirfd, const char *base,
                     const char *path, struct stk_err *err)
{
    char partial[STK_BENCH_NAME + 16];
    snprintf(partial, sizeof partial, "%s" STK_BENCH_PART, base);
    int rc = stk_unlink_at(dirfd, partial, path, err); /* of a killed run */
    rc = rc ? rc : stk_bench_kind_of(w->dataset.format)->write(w, file, dirfd, partial, path, err);
    if (rc == 0 && stk_rename_at(dirfd, partial, dirfd, base) < 0)
        rc = stk_err_sys(err, path, "rename into place");
    if (rc < 0)
        (void)stk_unlink_at(dirfd, partial, path, NULL);
    return rc;
}

/* The workload that file number `item` of all belongs to, training first, and its number there. */
const struct stk_workload *stk_bench_data_file(const struct stk_workload *w, uint64_t item,
                                          struct stk_workload *eval, uint64_t *file)
{
    *file = item;
    if (item < w->dataset.files || w->dataset.format == STK_BENCH_REPLAY)
        return w;
    stk_workload_eval(w, eval);
    *file = item - w->dataset.files;
    return eval;
}

/* A file that has its name is complete. */
static int make_file(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct making *m = user;
    struct stk_workload eval;
    uint64_t file;
    const struct stk_workload *w = stk_bench_data_file(m->d->w, m->rank + item * m->ranks, &eval, &file);
    char name[STK_BENCH_NAME], path[4400];
    int dirfd = -1;
    (void)thread;
    stk_bench_file_name(w, file, name);
    snprintf(path, sizeof path, "%s/%s", m->d->dir, name);
    const char *base = stk_base_name(name);
    int rc = stk_bench_data_enter(m->d, name, &dirfd, err);
    rc = rc ? rc : stk_find_at(dirfd, base, NULL, path, err);
    bool there = rc == 1;
    if (rc >= 0)
        rc = there ? 0 : write_one(w, file, dirfd, base, path, err);
    if (dirfd >= 0)
        close(dirfd);
    if (rc < 0)
        return rc;
    uint64_t done = (there ? ++m->kept : ++m->made) + (there ? m->made : m->kept);
    if (m->progress && m->progress(m->user, done, share_of(m)))
        rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped; --generate resumes");
    return rc;
}

static int make_parents(const char *dir, struct stk_err *err)
{
    char above[4096];
    size_t n = (size_t)snprintf(above, sizeof above, "%s", dir);
    if (n >= sizeof above)
        return stk_err_set(err, STK_E_USAGE, dir, -1, "the name of the folder is too long");
    while (n > 1 && above[n - 1] == '/')
        above[--n] = '\0';
    char *slash = strrchr(above, '/');
    if (!slash || slash == above)
        return 0;
    *slash = '\0';
    return stk_mkdirs(above, err);
}

/* Makes the folder ours, or refuses it. *complete: nothing to do. */
static int claim(struct stk_bench_data *d, bool *complete, struct stk_err *err)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *note = NULL;
    int rc = make_parents(d->dir, err);
    rc = rc ? rc : stk_own_folder(d->dir, STK_OWN_MAKE, &d->dirfd, err);
    rc = rc ? rc : stk_bench_note_read(d->dirfd, d->dir, &arena, &note, err);
    if (rc == 0 && !note) /* a killed run may have left no more than its note, half written */
        (void)stk_new_sweep(d->dirfd, STK_BENCH_NOTE);
    int empty = rc || note ? 1 : stk_dir_is_empty(d->dirfd, d->dir, err);
    rc = rc || empty > 0 ? rc : empty;
    if (rc == 0 && !empty)
        rc = stk_err_set(err, STK_E_EXISTS, d->dir, -1,
                         "is not empty and was not made by stoker bench: nothing was written; "
                         "name a new folder");
    if (rc == 0 && note)
        rc = stk_bench_note_compare(d, note, err);
    *complete = rc == 0 && note && stk_bench_note_is_complete(note);
    if (rc == 0 && !note)
        rc = stk_bench_note_write(d, false, err);
    stk_arena_release(&arena);
    return rc;
}

static int meet(const struct making *m, struct stk_err *err)
{
    return m->comm ? stk_comm_barrier(m->comm, STK_COMM_FOREVER, err) : 0;
}

/* The first rank claims the folder; the others wait for that. */
static int enter(struct making *m, bool *complete, struct stk_err *err)
{
    int rc = m->rank == 0 ? claim(m->d, complete, err) : 0;
    uint64_t done = rc == 0 && *complete;
    rc = rc ? rc : meet(m, err);
    if (rc == 0 && m->comm)
        rc = stk_comm_bcast(m->comm, 0, &done, sizeof done, STK_COMM_FOREVER, err);
    *complete = done;
    return rc == 0 && m->rank ? open_dir(m->d, err) : rc;
}

/* One sync for all files: one per file would take longer than writing it. */
static int make_share(struct making *m, unsigned jobs, struct stk_err *err)
{
    int rc = 0;
    if (m->d->w->dataset.format != STK_BENCH_NONE)
        rc = stk_pool_run(jobs, share_of(m), make_file, m, err);
    stk_spare_free();
    if (rc == 0 && syncfs(m->d->dirfd) < 0)
        rc = stk_err_sys(err, m->d->dir, "sync");
    rc = rc ? rc : meet(m, err);
    return rc || m->rank ? rc : stk_bench_note_write(m->d, true, err);
}

int stk_bench_data_generate(struct stk_bench_data *d, const struct stk_workload *w, const char *dir,
                            unsigned jobs, struct stk_comm *comm, stk_bench_progress_fn *progress,
                            void *user, struct stk_err *err)
{
    bool complete = false;
    *d = (struct stk_bench_data){.w = w, .dir = dir, .dirfd = -1};
    struct making m = {.d = d, .comm = comm, .ranks = 1, .progress = progress, .user = user};
    const struct stk_bench_kind *kind = stk_bench_kind_of(w->dataset.format);
    if (kind && kind->package)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "dataset.format: this build writes no %s: install %s and build stoker "
                           "again",
                           stk_bench_formats[w->dataset.format], kind->package);
    if (comm) {
        m.rank = stk_comm_rank(comm);
        m.ranks = stk_comm_size(comm);
    }
    int rc = enter(&m, &complete, err);
    if (rc == 0 && !complete)
        rc = make_share(&m, jobs, err);
    d->made = m.made;
    d->kept = complete ? share_of(&m) : (uint64_t)m.kept;
    rc = rc ? rc : meet(&m, err);
    rc = rc ? rc : list_groups(d, err);
    if (rc < 0)
        stk_bench_data_close(d);
    return rc;
}

/* ---- the page cache ------------------------------------------------------------------------- */

static const char *listed(const struct stk_bench_data *d, uint64_t item)
{
    uint64_t file;
    size_t g = stk_bench_group_of(d->w, item, &file);
    return d->list[g].file[file];
}

static void drop_file(int dirfd, const char *name)
{
    int fd = -1;
    if (stk_read_open(dirfd, name, 0, &fd, NULL, name, NULL))
        return;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

#define DROP_DEPTH 16

/* A file, or all files below a folder. */
static void drop_tree(int dirfd, const char *name, unsigned depth)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stk_dir d;
    int rc = stk_dir_take(&d, fd, name, NULL);
    if (fd < 0)
        drop_file(dirfd, name);
    for (const struct dirent *e; depth && (e = stk_dir_next(&d));)
        drop_tree(fd, e->d_name, depth - 1);
    (void)stk_dir_end(&d, rc, NULL); /* posix_fadvise() promises nothing, either */
}

#define DROP_THREADS 16 /* opens wait for the file server, not for a CPU */

static int drop_item(void *user, uint64_t i, unsigned thread, struct stk_err *err)
{
    const struct stk_bench_data *d = user;
    char name[STK_BENCH_NAME];
    struct stk_workload eval;
    uint64_t file;
    (void)thread, (void)err;
    const struct stk_workload *w = stk_bench_data_file(d->w, i, &eval, &file);
    drop_file(d->dirfd, d->w->ngroups ? listed(d, i) : stk_bench_file_name(w, file, name));
    return 0;
}

void stk_bench_data_drop(const struct stk_bench_data *d, bool stoker)
{
    uint64_t n = d->w->dataset.format == STK_BENCH_NONE ? 0 : stk_bench_data_files(d->w);
    bool elsewhere = stoker && d->w->reader.path;
    if (elsewhere)
        drop_tree(AT_FDCWD, d->w->reader.path, DROP_DEPTH);
    if (!elsewhere || d->w->ngroups > 1)
        (void)stk_pool_run(DROP_THREADS, n, drop_item, (void *)(uintptr_t)d, NULL);
}
