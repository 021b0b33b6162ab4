/*
 * data.c - the data folder of a benchmark: its note, its files by number, their generation and
 * their removal (`--clean`: what the note says was generated there), and opening it unless its
 * storage hangs.
 */
#include "bench/rank.h"
#include "bench/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "base/json.h"
#include "base/pool.h"

#define STK_BENCH_PART   ".partial" /* after the name of a file that is being written */
#define STK_BENCH_FOLDER 32         /* bytes for the name of a folder */

#define NOTE_MAX  (1u << 20)
#define NOTE_KIND "stoker bench data"

static bool ends_with(const char *key, const char *end)
{
    size_t n = strlen(key), k = strlen(end);
    return n >= k && strcmp(key + n - k, end) == 0;
}

/* Only what decides the names and the bytes of the files. */
static bool decides(const char *key)
{
    if (strncmp(key, "files.", 6) == 0)
        return ends_with(key, ".count") || ends_with(key, ".size");
    return (strncmp(key, "dataset.", 8) == 0 && strcmp(key, "dataset.path") != 0) ||
           strcmp(key, "name") == 0;
}

static int note_write(const struct stk_bench_data *d, bool complete, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw j;
    stk_jw_init(&j, &b, false); /* as note_compare() writes ours */
    stk_jw_open(&j, '{');
    stk_jw_put_str(&j, "kind", NOTE_KIND);
    stk_jw_put_bool(&j, "complete", complete);
    stk_jw_key(&j, "workload");
    stk_jw_open(&j, '{');
    stk_workload_json(d->w, &j);
    stk_jw_close(&j, '}');
    stk_jw_close(&j, '}');
    stk_buf_putc(&b, '\n');
    int rc = stk_buf_check(&b, err);
    rc = rc ? rc
            : stk_write_file_at(d->dirfd, STK_BENCH_NOTE, b.data, b.len, STK_SHARED, STK_BENCH_NOTE,
                                err);
    stk_buf_release(&b);
    return rc;
}

/* The note as a tree in the arena. STK_E_NOTFOUND: there is none. */
static int note_read(int dirfd, const char *dir, struct stk_arena *arena, struct stk_jval **out,
                     struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_err why = {0};
    char path[4400];
    snprintf(path, sizeof path, "%s/%s", dir, STK_BENCH_NOTE);
    *out = NULL;
    int rc = stk_read_file_at(dirfd, STK_BENCH_NOTE, O_NOFOLLOW, NOTE_MAX, &b, path, &why);
    if (rc < 0 && why.sys_errno == ENOENT) {
        stk_buf_release(&b);
        return 0;
    }
    char *text = rc == 0 ? stk_arena_dup(arena, b.data, b.len) : NULL;
    size_t n = b.len;
    stk_buf_release(&b);
    if (rc == 0 && !text)
        return stk_err_nomem(err, n);
    rc = rc ? rc : stk_json_parse(arena, text, n, out, &why);
    if (rc < 0 && !*why.path)
        stk_err_set(&why, rc, path, why.offset, "%s", why.what);
    const struct stk_jval *kind = rc == 0 ? stk_json_get(*out, "kind") : NULL;
    if (rc == 0 && (!kind || kind->type != STK_JSTR || strcmp(kind->str, NOTE_KIND) != 0))
        rc = stk_err_set(&why, STK_E_CORRUPT, path, -1, "not a note of stoker bench");
    if (rc < 0 && err)
        *err = why;
    return rc;
}

/* Compares the note's keys with ours, as JSON text. */
static int note_compare(const struct stk_bench_data *d, const struct stk_jval *note,
                        struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *ours;
    struct stk_jw j;
    const struct stk_jval *theirs = stk_json_get(note, "workload");
    stk_jw_init(&j, &b, false);
    stk_jw_open(&j, '{');
    stk_workload_json(d->w, &j);
    stk_jw_close(&j, '}');
    int rc = stk_buf_check(&b, err);
    rc = rc ? rc : stk_json_parse(&arena, (const char *)b.data, b.len, &ours, err);
    for (size_t i = 0; rc == 0 && i < ours->len; i++) {
        const char *key = ours->name[i].str;
        const struct stk_jval *a = theirs ? stk_json_get(theirs, key) : NULL;
        const struct stk_jval *o = &ours->item[i];
        bool same = a && a->raw_len == o->raw_len && memcmp(a->raw, o->raw, o->raw_len) == 0;
        if (!same && decides(key))
            rc = stk_err_set(err, STK_E_EXISTS, d->dir, -1,
                             "holds the data of another workload: %s is %.*s there and %.*s here; "
                             "use another --data, or remove it with --clean",
                             key, a ? (int)a->raw_len : 7, a ? a->raw : "missing", (int)o->raw_len,
                             o->raw);
    }
    stk_arena_release(&arena);
    stk_buf_release(&b);
    return rc;
}

static bool note_is_complete(const struct stk_jval *note)
{
    const struct stk_jval *v = stk_json_get(note, "complete");
    return v && v->type == STK_JBOOL && v->b;
}

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

/* Opens the folder. The dataset must be there, complete, and made for the same keys `dataset.*`. */
static int bench_data_open(struct stk_bench_data *d, const struct stk_workload *w, const char *dir,
                           struct stk_err *err)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *note = NULL;
    *d = (struct stk_bench_data){.w = w, .dir = dir, .dirfd = -1};
    int rc = open_dir(d, err);
    rc = rc ? rc : note_read(d->dirfd, dir, &arena, &note, err);
    if (rc == 0 && !note)
        rc = stk_err_set(err, STK_E_SYS, dir, -1,
                         "holds no dataset of stoker bench (no %s); generate it with --generate",
                         STK_BENCH_NOTE);
    rc = rc ? rc : note_compare(d, note, err);
    if (rc == 0 && !note_is_complete(note))
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
static int data_enter(const struct stk_bench_data *d, const char *name, int *out,
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

/* Files of training and evaluation. */
static uint64_t data_files(const struct stk_workload *w)
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
    return (data_files(m->d->w) + m->ranks - 1 - m->rank) / m->ranks;
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
static const struct stk_workload *data_file(const struct stk_workload *w, uint64_t item,
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
    const struct stk_workload *w = data_file(m->d->w, m->rank + item * m->ranks, &eval, &file);
    char name[STK_BENCH_NAME], path[4400];
    int dirfd = -1;
    (void)thread;
    stk_bench_file_name(w, file, name);
    snprintf(path, sizeof path, "%s/%s", m->d->dir, name);
    const char *base = stk_base_name(name);
    int rc = data_enter(m->d, name, &dirfd, err);
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
    rc = rc ? rc : note_read(d->dirfd, d->dir, &arena, &note, err);
    if (rc == 0 && !note) /* a killed run may have left no more than its note, half written */
        (void)stk_new_sweep(d->dirfd, STK_BENCH_NOTE);
    int empty = rc || note ? 1 : stk_dir_is_empty(d->dirfd, d->dir, err);
    rc = rc || empty > 0 ? rc : empty;
    if (rc == 0 && !empty)
        rc = stk_err_set(err, STK_E_EXISTS, d->dir, -1,
                         "is not empty and was not made by stoker bench: nothing was written; "
                         "name a new folder");
    if (rc == 0 && note)
        rc = note_compare(d, note, err);
    *complete = rc == 0 && note && note_is_complete(note);
    if (rc == 0 && !note)
        rc = note_write(d, false, err);
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
    return rc || m->rank ? rc : note_write(m->d, true, err);
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
    const struct stk_workload *w = data_file(d->w, i, &eval, &file);
    drop_file(d->dirfd, d->w->ngroups ? listed(d, i) : stk_bench_file_name(w, file, name));
    return 0;
}

void stk_bench_data_drop(const struct stk_bench_data *d, bool stoker)
{
    uint64_t n = d->w->dataset.format == STK_BENCH_NONE ? 0 : data_files(d->w);
    bool elsewhere = stoker && d->w->reader.path;
    if (elsewhere)
        drop_tree(AT_FDCWD, d->w->reader.path, DROP_DEPTH);
    if (!elsewhere || d->w->ngroups > 1)
        (void)stk_pool_run(DROP_THREADS, n, drop_item, (void *)(uintptr_t)d, NULL);
}

/* What the helper thread works with: it may outlast the caller. */
struct opening {
    struct stk_bench_data data;
    const struct stk_workload *w;
    const char *dir;
};

static int open_it(void *arg, struct stk_err *err)
{
    struct opening *o = arg;
    return bench_data_open(&o->data, o->w, o->dir, err);
}

static void drop_opening(void *arg)
{
    struct opening *o = arg;
    stk_bench_data_close(&o->data);
    free(o);
}

int stk_bench_data_open_within(struct stk_bench_data *d, const struct stk_workload *w,
                               const char *dir, double patience_s, struct stk_comm *comm,
                               struct stk_err *err)
{
    struct opening *o = calloc(1, sizeof *o);
    struct stk_bench_patience p = {.comm = comm, .dir = dir, .seconds = patience_s};
    *d = STK_BENCH_DATA_INIT;
    if (!o)
        return stk_err_nomem(err, sizeof *o);
    *o = (struct opening){.data = STK_BENCH_DATA_INIT, .w = w, .dir = dir};
    int rc = stk_bench_patience_open(&p, err);
    rc = rc ? rc : stk_bench_within(&p, open_it, drop_opening, o, err);
    stk_bench_patience_close(&p);
    if (p.stuck)
        return rc;
    *d = o->data;
    free(o);
    return rc;
}

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
    snprintf(text, sizeof text, "%s=%.*s", key, v->type == STK_JSTR ? (int)v->len : (int)v->raw_len,
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
    static const char *const wanted[] = {"name",
                                         "dataset.format",
                                         "dataset.files",
                                         "dataset.eval_files",
                                         "dataset.folders",
                                         "dataset.eval_folders",
                                         NULL};
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
    uint64_t all = data_files(d->w);
    int rc = 0;
    for (uint64_t i = 0; i < all && rc == 0; i++) {
        struct stk_workload eval;
        uint64_t file;
        const struct stk_workload *w = data_file(d->w, i, &eval, &file);
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
    rc = rc ? rc : note_read(d.dirfd, dir, &arena, &note, err);
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
