/*
 * overlay.c - reads ranges of a dataset from its copies. What is where is decided per range, in
 * memory; a copy is compared with its record when it is opened. The tiers are those that the loader
 * is told, those of $STOKER_TIER, or those of this job; the dataset's identity costs some reads, so
 * it is computed only if there is a tier at all.
 *
 * Filling while reading: a range that no copy has is read from the source in whole parcels, each
 * once per node, put into the tier, and given to the reader. Whatever goes wrong with the tier, the
 * reader gets its bytes. A copy that has all samples also gets the few files that have none (a
 * manifest, an index, a README), so that it is complete and published like one of `stage`.
 */
#include "tier/overlay.h"
#include "tier/priv.h"
#include "tier/source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/pool.h"
#include "base/thread.h"
#include "host/scratch.h"

#define NO_FILE UINT32_MAX

struct level {
    struct stk_tier *tier;
    struct stk_tier_set *set;
    _Atomic uint32_t *file_of; /* by number in the dataset: number in the set, or NO_FILE */
    _Atomic uint8_t *strikes;  /* likewise: how often the copy was refused */
};

struct stk_tier_overlay {
    struct stk_files_overlay base;
    struct stk_dataset *ds;
    struct stk_files files; /* the dataset's, with this overlay */
    struct level level[STK_FILES_LEVELS];
    /* Filling: */
    unsigned fills;             /* the level that is filled; 0: none */
    struct stk_handles handles; /* of sources and copies */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a parcel is there, or a buffer is free */
    unsigned buffers;       /* in use */
    char why[200];          /* nothing more is filled (base.full), because... */
    uint64_t filled_bytes;
};

#define STRIKES 100 /* refusals of a copy until it is given up */

/* ---- the overlay's functions ---- */

static struct stk_tier_overlay *self(const struct stk_files_overlay *o)
{
    return (struct stk_tier_overlay *)(uintptr_t)o;
}

static bool has_range(struct stk_tier_set *s, uint64_t file, uint64_t off, uint64_t len)
{
    uint64_t last = (len ? off + len - 1 : off) / STK_TIER_PARCEL;
    if (atomic_load_explicit(&s->stamp[file], memory_order_relaxed))
        return true;
    bool there = last < s->base[file + 1] - s->base[file];
    for (uint64_t i = off / STK_TIER_PARCEL; there && i <= last; i++)
        there = stk_tier_has(s, file, i);
    return there;
}

static unsigned route(const struct stk_files_overlay *base, uint64_t number, uint64_t off,
                      uint64_t len)
{
    struct stk_tier_overlay *o = self(base);
    for (unsigned i = 0; i < o->base.levels; i++) {
        struct level *l = &o->level[i];
        uint32_t file = atomic_load_explicit(&l->file_of[number], memory_order_relaxed);
        if (file != NO_FILE && has_range(l->set, file, off, len))
            return i + 1;
    }
    return 0;
}

static int open_copy(const struct stk_files_overlay *base, uint64_t number, unsigned level,
                     int flags)
{
    const struct level *l = &self(base)->level[level - 1];
    uint32_t file = atomic_load_explicit(&l->file_of[number], memory_order_relaxed);
    char name[PATH_MAX];
    if (file == NO_FILE || !stk_tier_name_of(l->set, file, name, sizeof name))
        return -1;
    return openat(l->set->copy, name,
                  O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW | flags);
}

static struct timespec time_of(struct statx_timestamp t)
{
    return (struct timespec){.tv_sec = (time_t)t.tv_sec, .tv_nsec = (long)t.tv_nsec};
}

/* True if a writer of ours explains a stamp that is not the recorded one: it is at work, or has
 * recorded a newer one meanwhile. */
static bool is_being_filled(struct stk_tier_set *s, uint64_t file, const struct stat *st)
{
    struct stk_ledger_record r, now;
    bool at_work = stk_tier_file_busy(s, file);
    stk_tier_stamp_take(&now, st);
    return stk_ledger_record(s, file, &r) && r.state != STK_RECORD_NONE && r.inode == now.inode &&
           (at_work || r.ctime_ns > now.ctime_ns || stk_tier_stamp_fits(&r, st));
}

static bool fits(const struct stk_files_overlay *base, uint64_t number, unsigned level,
                 const struct statx *sx, bool *growing)
{
    struct level *l = &self(base)->level[level - 1];
    struct stk_tier_set *s = l->set;
    uint32_t file = atomic_load_explicit(&l->file_of[number], memory_order_relaxed);
    struct stk_ledger_record r;
    struct stat st = {.st_mode = sx->stx_mode,
                      .st_ino = sx->stx_ino,
                      .st_size = (off_t)sx->stx_size,
                      .st_ctim = time_of(sx->stx_ctime),
                      .st_mtim = time_of(sx->stx_mtime)};
    *growing = false;
    if (file == NO_FILE)
        return false;
    uint64_t stamp = atomic_load_explicit(&s->stamp[file], memory_order_relaxed);
    if (stamp && stamp == stk_tier_stamp_hash(&st))
        return true;
    if (!stk_ledger_record(s, file, &r) || r.state == STK_RECORD_NONE)
        return false;
    if (r.state == STK_RECORD_FINISHED)
        return stk_tier_stamp_fits(&r, &st);
    *growing = stk_tier_stamp_fits(&r, &st) || is_being_filled(s, file, &st);
    return *growing;
}

static char *path_of(const struct stk_files_overlay *base, uint64_t number, unsigned level)
{
    const struct level *l = &self(base)->level[level - 1];
    uint32_t file = atomic_load_explicit(&l->file_of[number], memory_order_relaxed);
    char *root = stk_tier_set_path(l->set), *path = NULL;
    const char *name = file == NO_FILE ? "" : l->set->src.file[file].name;
    if (root && asprintf(&path, "%s%s%s", root, name[0] ? "/" : "", name) < 0)
        path = NULL;
    free(root);
    return path;
}

/* The ledger is asked again: a filler mends the copy then. Several reads may be on their way, and
 * a descriptor of the old copy may be open, so it fails more than once. */
static void refuse(const struct stk_files_overlay *base, uint64_t number, unsigned level)
{
    struct level *l = &self(base)->level[level - 1];
    uint32_t file = atomic_load_explicit(&l->file_of[number], memory_order_relaxed);
    if (file == NO_FILE)
        return;
    stk_tier_forget(l->set, file);
    if (atomic_fetch_add(&l->strikes[number], 1) >= STRIKES)
        atomic_store_explicit(&l->file_of[number], NO_FILE, memory_order_relaxed);
}

/* ---- the files of a level ---- */

/* The set's number of a file of the dataset, if it has the same version of it. */
static uint32_t find_file(const struct stk_tier_set *s, const struct stk_files_entry *e)
{
    const struct stk_tier_file *f = s->src.file;
    bool single = s->src.count == 1 && !f->name[0] && strlen(s->src.name) == e->name_len &&
                  memcmp(s->src.name, e->name, e->name_len) == 0;
    int64_t at = single ? 0 : stk_tier_set_lookup(s, e->name, e->name_len);
    if (at < 0 || f[at].size != e->size ||
        (e->mtime_ns && f[at].mtime_ns && e->mtime_ns != f[at].mtime_ns))
        return NO_FILE;
    return (uint32_t)at;
}

static int map_files(const struct stk_files *files, struct level *l, bool *all, struct stk_err *err)
{
    l->file_of = calloc(files->count ? files->count : 1, sizeof *l->file_of);
    l->strikes = calloc(files->count ? files->count : 1, 1);
    if (!l->file_of || !l->strikes)
        return stk_err_nomem(err, files->count * sizeof *l->file_of);
    *all = atomic_load(&l->set->published);
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < files->count; i++) {
        struct stk_files_entry e;
        rc = files->entry(files->list, i, &e, err);
        uint32_t at = rc == 0 ? find_file(l->set, &e) : NO_FILE;
        atomic_store_explicit(&l->file_of[i], at, memory_order_relaxed);
        *all = *all && at != NO_FILE && l->set->stamp[at];
    }
    return rc;
}

static void free_level(struct level *l)
{
    free((void *)l->file_of);
    free((void *)l->strikes);
}

/* Takes ownership of t and s if it succeeds. */
static int add_level(struct stk_tier_overlay *o, struct stk_tier *t, struct stk_tier_set *s,
                     struct stk_err *err)
{
    struct level *l = &o->level[o->base.levels];
    *l = (struct level){.tier = t, .set = s};
    bool all = false;
    int rc = stk_tier_preload(s, err);
    if (rc == 0)
        rc = map_files(&o->files, l, &all, err);
    if (rc < 0) {
        free_level(l);
        return rc;
    }
    o->base.whole = o->base.whole || all;
    o->base.levels++;
    return 0;
}

struct finder {
    struct stk_tier_overlay *o;
    const struct stk_tier_use *use;
    struct stk_buf *notes;
    bool named; /* by the caller: a missing folder is worth a note */
};

static void note(struct finder *f, const char *path, const struct stk_err *why)
{
    stk_buf_printf(f->notes, "%sthe tier %s is not used: %s", f->notes->len ? "; " : "", path,
                   why->what);
}

/* ---- the source ---- */

/* With all files, also those without samples: it is the set that `stage` makes. */
static int make_set(struct stk_dataset *ds, struct stk_tier *t, struct stk_tier_set **out,
                    struct stk_err *err)
{
    struct stk_source src;
    if (!ds->is_dir && ds->files.count != 1)
        return stk_err_set(err, STK_E_UNSUPPORTED, ds->path, -1,
                           "a tier holds a folder or a single file");
    int rc = stk_source_of(&src, ds, err);
    const struct stk_tier_source ts = stk_source_for_tier(&src);
    rc = rc ? rc : stk_tier_set_open(t, &ts, out, err);
    stk_source_release(&src);
    return rc;
}

/* ---- one tier ---- */

static struct stk_dataset *whole_of(struct stk_dataset *ds)
{
    return ds->whole ? ds->whole : ds;
}

/* 1: it has no copy. */
static int open_set(struct finder *f, struct stk_tier *t, bool fill, struct stk_tier_set **out,
                    struct stk_err *err)
{
    struct stk_dataset *ds = whole_of(f->o->ds);
    struct stk_err old = {0};
    int rc = stk_tier_set_find(t, stk_dataset_identity(ds), out, err);
    if (rc == 1 && stk_files_changed_since(&ds->files, stk_tier_set_source(*out)->changed_ns)) {
        stk_err_set(&old, STK_E_STALE, NULL, -1, "the data was changed after it was copied there");
        note(f, stk_tier_path(t), &old);
        stk_tier_set_close(*out);
        *out = NULL;
        rc = 0;
    }
    if (rc == 0 && fill)
        rc = make_set(ds, t, out, err);
    else if (rc == 0)
        return 1;
    return rc < 0 ? rc : 0;
}

static int use_tier(struct finder *f, const char *path, bool fill, struct stk_err *err)
{
    struct stk_tier_options o = {.make = fill, .limit_bytes = f->use->limit_bytes};
    struct stk_tier *t = NULL;
    struct stk_tier_set *s = NULL;
    int rc = stk_tier_open(path, &o, &t, err);
    if (rc == 0) {
        stk_tier_go_first(t); /* from here on, we read the source */
        rc = open_set(f, t, fill, &s, err);
    }
    if (rc == 0)
        rc = add_level(f->o, t, s, err);
    if (rc == 0) {
        f->o->fills = fill ? f->o->base.levels : f->o->fills;
        return 0;
    }
    stk_tier_set_close(s);
    stk_tier_close(t);
    return rc < 0 ? rc : 0;
}

static bool is_absent(const struct stk_err *why)
{
    return why->sys_errno == ENOENT || why->sys_errno == ENOTDIR;
}

/* A tier that cannot be used costs speed, not the run; but one to fill must work. */
static int try_tier(struct finder *f, const char *path, bool fill, struct stk_err *err)
{
    struct stk_err why = {0};
    if (f->o->base.levels == STK_FILES_LEVELS)
        return 0;
    int rc = use_tier(f, path, fill, &why);
    if (rc < 0 && (fill || rc == STK_E_NOMEM)) {
        if (err)
            *err = why;
        return rc;
    }
    if (rc < 0 && (f->named || !is_absent(&why)))
        note(f, path, &why);
    return 0;
}

/* ---- all of them ---- */

/* Paths separated by ':'; the first is filled. */
static int try_paths(struct finder *f, const char *paths, struct stk_err *err)
{
    bool fill = f->use->fill;
    int rc = 0;
    while (rc == 0 && *paths) {
        size_t n = strcspn(paths, ":");
        char *named = n ? strndup(paths, n) : NULL, *one = named ? stk_tier_at(named) : NULL;
        free(named);
        if (n && !one)
            return stk_err_nomem(err, n);
        if (n)
            rc = try_tier(f, one, fill, err);
        fill = fill && !n;
        free(one);
        paths += n + (paths[n] == ':');
    }
    return rc;
}

static int try_default(struct finder *f, const char *folder, bool fill, struct stk_err *err)
{
    char *path = stk_scratch_tier(folder);
    int rc = path ? try_tier(f, path, fill, err) : stk_err_nomem(err, strlen(folder));
    free(path);
    return rc;
}

/* Where a tier is made: what the user set, else the first local folder with room for all of it. */
static const char *folder_to_fill(struct finder *f, const struct stk_scratch *at, size_t n)
{
    const char *path[STK_SCRATCHES];
    uint64_t room, need = f->o->files.bytes;
    for (size_t i = 0; i < n; i++)
        path[i] = at[i].path;
    const char *first = stk_fs_choose_local(path, 1, need, &room);
    return first ? first : stk_fs_choose_local(path, n, need, &room);
}

static int try_defaults(struct finder *f, struct stk_err *err)
{
    struct stk_scratch at[STK_SCRATCHES];
    size_t n = stk_scratch_list(at);
    const char *fill = f->use->fill ? folder_to_fill(f, at, n) : NULL;
    if (f->use->fill && !fill)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "no folder of this node has room for a copy; name one: tier=PATH");
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        bool again = false;
        for (size_t k = 0; k < i; k++)
            again = again || (at[i].path && at[k].path && strcmp(at[i].path, at[k].path) == 0);
        if (at[i].path && !again)
            rc = try_default(f, at[i].path, at[i].path == fill, err);
    }
    return rc;
}

/* Memory is read first. */
static void sort_levels(struct stk_tier_overlay *o)
{
    for (unsigned i = 1; i < o->base.levels; i++)
        for (unsigned k = i; k && o->level[k].tier->fs->memory && !o->level[k - 1].tier->fs->memory;
             k--) {
            struct level l = o->level[k];
            o->level[k] = o->level[k - 1];
            o->level[k - 1] = l;
            o->fills = o->fills == k + 1 ? k : o->fills == k ? k + 1 : o->fills;
        }
}

/* Opens the tiers that the caller means, memory first. */
static int find_tiers(struct stk_tier_overlay *o, const struct stk_tier_use *use,
                      struct stk_buf *notes, struct stk_err *err)
{
    const char *env = getenv("STOKER_TIER");
    struct finder f = {.o = o, .use = use, .notes = notes};
    int rc;
    f.named = use->tiers && strcmp(use->tiers, "auto") != 0;
    if (f.named)
        rc = try_paths(&f, use->tiers, err);
    else if (env && *env && strcmp(env, "off") == 0)
        rc = use->fill ? stk_err_set(err, STK_E_USAGE, NULL, -1,
                                     "no tier to fill: STOKER_TIER is \"off\"")
                       : 0;
    else if (env && *env && strcmp(env, "auto") != 0)
        rc = try_paths(&f, env, err);
    else
        rc = try_defaults(&f, err);
    sort_levels(o);
    return rc;
}

#define REST_MAX (UINT64_C(64) << 20) /* a run does not end with a long copy */

/* True if every file with samples is finished. */
static bool has_all_samples(const struct stk_tier_overlay *o, const struct level *l)
{
    bool all = true;
    for (uint64_t i = 0; all && i < o->files.count; i++) {
        uint32_t file = atomic_load_explicit(&l->file_of[i], memory_order_relaxed);
        all = file != NO_FILE && stk_tier_file_finished(l->set, file);
    }
    return all;
}

static int copy_parcel(struct stk_tier_set *s, uint64_t file, uint64_t parcel,
                       const struct stk_file *f)
{
    size_t n = stk_tier_parcel_len(s->src.file[file].size, parcel), got = 0;
    uint8_t *p = malloc(n ? n : 1);
    int rc =
        p ? stk_pread_full(f->fd, p, n, parcel * STK_TIER_PARCEL, &got, NULL, NULL) : STK_E_NOMEM;
    if (rc == 0)
        rc =
            got == n ? stk_tier_put(s, file, parcel, p, n, stk_tier_hash(p, n), NULL) : STK_E_STALE;
    free(p);
    return rc;
}

static int copy_file(const struct stk_source *src, struct stk_tier_set *s, uint64_t file)
{
    struct stk_file f;
    int rc = stk_file_open(&src->files, file, STK_FILE_PLAIN, &f, NULL);
    if (rc < 0)
        return rc;
    for (uint64_t i = 0; rc >= 0 && i < stk_tier_parcels(s->src.file[file].size); i++)
        if (stk_tier_claim(s, file, i) == STK_TIER_OURS) {
            rc = copy_parcel(s, file, i, &f);
            rc = rc == 2 ? STK_E_SYS : rc;
            stk_tier_drop(s, file, i);
        }
    if (rc >= 0)
        rc = stk_tier_finish_file(s, file, NULL, NULL);
    stk_file_close(&f);
    return rc;
}

/* The source is as the set's list has it: files have the same numbers. */
static bool is_same(const struct stk_source *src, const struct stk_tier_set *s)
{
    const struct stk_tier_source ts = stk_source_for_tier(src);
    return src->count == s->src.count && stk_tier_version(&ts) == stk_tier_version(&s->src);
}

static void complete(struct stk_dataset *ds, struct stk_tier_set *s)
{
    struct stk_source src;
    char *path = NULL;
    int rc = stk_source_of(&src, ds, NULL);
    if (rc == 0 && is_same(&src, s)) {
        for (uint64_t i = 0; rc == 0 && i < src.count; i++)
            rc = stk_tier_file_finished(s, i) ? 0 : copy_file(&src, s, i);
        if (rc == 0)
            (void)stk_source_publish(&src, s, &path, NULL);
    }
    free(path);
    stk_source_release(&src);
}

/* Publishes the set that was filled, if it has all samples. */
static void complete_set(struct stk_tier_overlay *o)
{
    const struct level *l = &o->level[o->fills - 1];
    struct stk_tier_set *s = l->set;
    struct stk_tier_state st;
    struct stk_dataset *ds = o->ds->whole ? o->ds->whole : o->ds;
    if (s->pid != getpid() || atomic_load(&s->published) || stk_tier_state(s, &st, NULL) < 0 ||
        st.published || st.bytes - st.bytes_there > REST_MAX || !has_all_samples(o, l))
        return;
    complete(ds, s);
}

#define BUFFERS 8  /* of a parcel each, in use at once */
#define WAIT_S  10 /* for a parcel that another process is fetching */
#define TICK_S  0.02

/* The part of a parcel that the reader wants, and its place. */
struct part {
    uint64_t number, file, parcel; /* in the dataset; in the set */
    uint64_t off;                  /* in the file */
    size_t len;
    uint8_t *to;
};

static struct stk_tier_set *set_of(const struct stk_tier_overlay *o)
{
    return o->level[o->fills - 1].set;
}

/* ---- waiting ---- */

static void signal_change(struct stk_tier_overlay *o)
{
    pthread_mutex_lock(&o->lock);
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
}

/* With the lock held. Other processes do not signal. */
static void wait_a_tick(struct stk_tier_overlay *o)
{
    (void)stk_cond_wait(&o->changed, &o->lock, stk_now() + TICK_S);
}

static uint8_t *take_buffer(struct stk_tier_overlay *o, size_t n)
{
    pthread_mutex_lock(&o->lock);
    while (o->buffers >= BUFFERS)
        pthread_cond_wait(&o->changed, &o->lock);
    o->buffers++;
    pthread_mutex_unlock(&o->lock);
    return malloc(n ? n : 1);
}

static void give_buffer(struct stk_tier_overlay *o, uint8_t *p)
{
    free(p);
    pthread_mutex_lock(&o->lock);
    o->buffers--;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
}

/* Nothing more is filled; reading goes on. */
static void end_filling(struct stk_tier_overlay *o, const struct stk_err *why)
{
    pthread_mutex_lock(&o->lock);
    if (!atomic_load(&o->base.full))
        snprintf(o->why, sizeof o->why, "%.199s", why->what);
    atomic_store(&o->base.full, true);
    pthread_mutex_unlock(&o->lock);
}

/* ---- one parcel ---- */

static int read_some(struct stk_tier_overlay *o, uint64_t number, void *p, size_t n, uint64_t off)
{
    struct stk_file *f = NULL;
    size_t got = 0;
    int rc = stk_handles_get(&o->handles, (uint32_t)number, &f, NULL);
    if (rc < 0)
        return rc;
    rc = stk_pread_full(f->fd, p, n, off, &got, NULL, NULL);
    bool changed = !f->growing && stk_file_changed(&o->files, number, f->fd, &f->stamp);
    stk_handles_put(&o->handles, f);
    return rc < 0 || got < n || changed ? STK_E_STALE : 0;
}

static int put(struct stk_tier_overlay *o, const struct part *w, const uint8_t *p, size_t n,
               struct stk_err *why)
{
    struct stk_tier_set *s = set_of(o);
    int rc = stk_tier_put(s, w->file, w->parcel, p, n, stk_tier_hash(p, n), why);
    if (rc == 0 || rc == 1) {
        pthread_mutex_lock(&o->lock);
        o->filled_bytes += n;
        pthread_mutex_unlock(&o->lock);
    }
    return rc == 1 ? stk_tier_finish_file(s, w->file, NULL, why) : rc;
}

/* A parcel that is ours to fetch. */
static int fetch_parcel(struct stk_tier_overlay *o, const struct part *w)
{
    struct stk_err why = {0};
    uint64_t at = w->parcel * STK_TIER_PARCEL;
    size_t n = stk_tier_parcel_len(set_of(o)->src.file[w->file].size, w->parcel);
    uint8_t *p = take_buffer(o, n);
    int rc = p ? read_some(o, w->number, p, n, at) : STK_E_NOMEM;
    if (rc == 0) {
        memcpy(w->to, p + (w->off - at), w->len);
        if (put(o, w, p, n, &why) != 0)
            end_filling(o, &why);
    }
    give_buffer(o, p);
    return rc;
}

static int read_copy(struct stk_tier_overlay *o, const struct part *w)
{
    return read_some(o, w->number + o->fills * o->files.count, w->to, w->len, w->off);
}

static int get_part(struct stk_tier_overlay *o, const struct part *w)
{
    struct stk_tier_set *s = set_of(o);
    double begin_s = stk_now();
    for (;;) {
        enum stk_tier_claim got = stk_tier_claim(s, w->file, w->parcel);
        if (got == STK_TIER_THERE)
            return read_copy(o, w);
        if (got == STK_TIER_OURS) {
            int rc = fetch_parcel(o, w);
            stk_tier_drop(s, w->file, w->parcel);
            signal_change(o);
            return rc;
        }
        if (atomic_load(&o->base.full) || stk_now() - begin_s > WAIT_S)
            return STK_E_STOPPED;
        pthread_mutex_lock(&o->lock);
        wait_a_tick(o);
        pthread_mutex_unlock(&o->lock);
    }
}

static int fetch(const struct stk_files_overlay *base, uint64_t number, uint64_t off, size_t len,
                 void *p)
{
    struct stk_tier_overlay *o = (struct stk_tier_overlay *)(uintptr_t)base;
    const struct level *l = &o->level[o->fills - 1];
    uint32_t file = atomic_load_explicit(&l->file_of[number], memory_order_relaxed);
    int rc = file == NO_FILE || atomic_load(&o->base.full) ? STK_E_STOPPED : 0;
    uint64_t size = rc == 0 ? l->set->src.file[file].size : 0;
    if (rc == 0 && (off > size || len > size - off))
        return STK_E_CORRUPT;
    for (size_t done = 0, n; rc == 0 && done < len; done += n) {
        uint64_t at = off + done, left = STK_TIER_PARCEL - at % STK_TIER_PARCEL;
        n = len - done < left ? len - done : (size_t)left;
        struct part w = {.number = number,
                         .file = file,
                         .parcel = at / STK_TIER_PARCEL,
                         .off = at,
                         .len = n,
                         .to = (uint8_t *)p + done};
        rc = get_part(o, &w);
    }
    return rc;
}

/* ---- beginning and end ---- */

/* Reads through the copy from now on. */
static int begin_fetching(struct stk_tier_overlay *o, struct stk_err *err)
{
    int rc = stk_handles_init(&o->handles, &o->files, STK_FILE_PLAIN, stk_handles_limit(), err);
    if (rc == 0)
        o->base.fetch = fetch;
    return rc;
}

static void end_fetching(struct stk_tier_overlay *o)
{
    if (!o->base.fetch)
        return;
    stk_handles_release(&o->handles);
    complete_set(o);
}

void stk_tier_overlay_filled(struct stk_tier_overlay *o, struct stk_tier_filled *out)
{
    pthread_mutex_lock(&o->lock);
    out->bytes = o->filled_bytes;
    memcpy(out->why, o->why, sizeof out->why);
    pthread_mutex_unlock(&o->lock);
}

/* ---- opening and closing ---- */

static bool fits_numbers(const struct stk_files *files)
{
    return files->count < UINT32_MAX / (STK_FILES_LEVELS + 1) && !files->any_size;
}

static struct stk_tier_overlay *new_overlay(struct stk_dataset *ds, struct stk_err *err)
{
    struct stk_tier_overlay *o = calloc(1, sizeof *o);
    if (!o) {
        stk_err_nomem(err, sizeof *o);
        return NULL;
    }
    o->base = (struct stk_files_overlay){
        .route = route, .open = open_copy, .fits = fits, .path = path_of, .refuse = refuse};
    o->ds = ds;
    o->files = ds->files;
    o->files.overlay = &o->base;
    pthread_mutex_init(&o->lock, NULL);
    stk_cond_init(&o->changed);
    return o;
}

int stk_tier_overlay_open(struct stk_dataset *ds, const struct stk_tier_use *use,
                          struct stk_tier_overlay **out, struct stk_buf *notes, struct stk_err *err)
{
    *out = NULL;
    if (use->tiers && strcmp(use->tiers, "off") == 0)
        return use->fill
                   ? stk_err_set(err, STK_E_USAGE, NULL, -1, "no tier to fill: tier is \"off\"")
                   : 0;
    if (!fits_numbers(&ds->files))
        return 0;
    struct stk_tier_overlay *o = new_overlay(ds, err);
    if (!o)
        return STK_E_NOMEM;
    int rc = find_tiers(o, use, notes, err);
    if (rc == 0 && use->fill)
        rc = begin_fetching(o, err);
    if (rc < 0 || !o->base.levels) {
        stk_tier_overlay_close(o);
        return rc;
    }
    *out = o;
    return 0;
}

void stk_tier_overlay_close(struct stk_tier_overlay *o)
{
    if (!o)
        return;
    end_fetching(o);
    for (unsigned i = 0; i < o->base.levels; i++) {
        stk_tier_set_close(o->level[i].set);
        stk_tier_close(o->level[i].tier);
        free_level(&o->level[i]);
    }
    pthread_cond_destroy(&o->changed);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

void stk_tier_overlay_started(struct stk_tier_overlay *o)
{
    for (unsigned i = 0; i < o->base.levels; i++)
        stk_tier_went_first(o->level[i].tier);
}

const struct stk_files_overlay *stk_tier_overlay_files(const struct stk_tier_overlay *o)
{
    return &o->base;
}

const char *stk_tier_overlay_path(const struct stk_tier_overlay *o, unsigned level)
{
    return level && level <= o->base.levels ? o->level[level - 1].tier->path : NULL;
}

bool stk_tier_overlay_in_memory(const struct stk_tier_overlay *o, unsigned level)
{
    return level && level <= o->base.levels && o->level[level - 1].tier->fs->memory;
}
