/*
 * find.c - the tiers that a loader uses: those it is told, those of $STOKER_TIER, or those of this
 * job. The dataset's identity costs some reads, so it is computed only if there is a tier at all.
 */
#include "tier/source.h"
#include "tier/use.h"

#include "base/file.h"
#include "host/scratch.h"

#include <errno.h>
#include <stdlib.h>

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
        rc = stk_tier_add_level(f->o, t, s, err);
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

int stk_tier_find(struct stk_tier_overlay *o, const struct stk_tier_use *use, struct stk_buf *notes,
                  struct stk_err *err)
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
