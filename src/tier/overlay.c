/*
 * overlay.c - reads ranges of a dataset from its copies. What is where is decided per range, in
 * memory; a copy is compared with its record when it is opened.
 */
#include "tier/overlay.h"
#include "tier/use.h"

#include "base/file.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

int stk_tier_add_level(struct stk_tier_overlay *o, struct stk_tier *t, struct stk_tier_set *s,
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
    int rc = stk_tier_find(o, use, notes, err);
    if (rc == 0 && use->fill)
        rc = stk_tier_begin_fetching(o, err);
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
    stk_tier_end_fetching(o);
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
