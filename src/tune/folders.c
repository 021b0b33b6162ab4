/*
 * folders.c - what a call makes, and removes: its folder beside the data, those on faster storage,
 * one for checkpoints (what a killed run has written lies where --clean removes it, and nothing of
 * the job is touched), and indexes of the data.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "base/text.h"
#include "dataset/place.h"
#include "model/measure.h"
#include "record/launch.h"
#include "tune/priv.h"

/* ---- beside the data ------------------------------------------------------------------------ */

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

/* The folder of which the data is a part by a finding, or the data. Caller frees. */
static char *dataset_of(const struct stk_tuner *t, const char *data)
{
    char *root = strdup(data);
    for (size_t i = 0; root && i < t->plan.nactions; i++) {
        const struct stk_action *a = &t->plan.action[i];
        if ((a->kind == STK_ACT_LOADER || a->kind == STK_ACT_PACK) && a->path &&
            is_below(root, a->path)) {
            free(root);
            root = strdup(a->path);
        }
    }
    return root;
}

static char *beside(struct stk_tuner *t, const char *data)
{
    bool inside;
    char *root = data ? dataset_of(t, data) : NULL;
    char *up = root ? stk_place_beside(data, root, &inside) : NULL;
    free(root);
    if (up && inside)
        stk_tune_note(t, "%.200s " STK_PLACE_SEEN, up, STK_TUNE_PREFIX);
    return up;
}

static int make_work(struct stk_tuner *t, const struct stk_tune_subject *s, struct stk_err *err)
{
    /* Checkpoints may go to other storage, where copies of the data have no business. */
    const char *data = s->source && !t->plan.data ? s->source : s->save;
    char *up = t->plan.beside ? strdup(t->plan.beside) : beside(t, data);
    int rc = stk_folder_temp(&t->work, up ? up : ".", STK_TUNE_PREFIX, err);
    if (!rc)
        rc = stk_folder_lock(&t->work, err);
    else
        rc = stk_err_wrap(err, rc,
                          "prepared data and results lie in a folder on the storage of the data; "
                          "--beside names one that you can write");
    free(up);
    return rc;
}

/* ---- on other storage ----------------------------------------------------------------------- */

static const char *same_in(struct stk_tuner *t, const char *dir)
{
    return stk_tune_text(&t->out->arena, "%s/%s", dir, stk_base_name(t->work.path));
}

bool stk_tune_saves(const struct stk_workload *w)
{
    return w->checkpoint.every || w->checkpoint.every_epochs || w->checkpoint.at_end;
}

/* The folder of the job's checkpoints, or the nearest one above it: that of an earlier run may be
 * gone. malloc'ed; NULL: none. */
static char *nearest(const char *dir)
{
    char *at = dir ? strdup(dir) : NULL, *real = at ? realpath(at, NULL) : NULL, *slash;
    while (at && !real && (slash = strrchr(at, '/')) && slash > at) {
        *slash = '\0';
        real = realpath(at, NULL);
    }
    free(at);
    return real;
}

static void name_saves(struct stk_tuner *t, const struct stk_workload *w)
{
    if (!stk_tune_saves(w))
        return;
    char *dir = nearest(w->checkpoint.dir);
    if (dir && access(dir, W_OK | X_OK) == 0)
        t->saves = same_in(t, dir);
    else
        t->saves = stk_tune_text(&t->out->arena, "%s", t->work.path);
    free(dir);
    if (t->saves && strcmp(t->saves, t->work.path) != 0)
        t->folder[t->nfolders++] = t->saves;
}

/* Jobs of Slurm may run on other nodes, where no folder of the call is: bench makes and removes its
 * own. */
const char *stk_tune_saves_at(const struct stk_tuner *t, const struct stk_tune_change *c)
{
    bool elsewhere = c && c->kind->helps == STK_HELPS_SAVES;
    if (!elsewhere)
        return t->saves;
    return t->plan.via == &stk_executor_local ? t->folder[c->near] : NULL;
}

static int name_others(struct stk_tuner *t, const struct stk_tune_subject *s, struct stk_err *err)
{
    for (; t->nfolders < s->nnear; t->nfolders++)
        if (!(t->folder[t->nfolders] = same_in(t, s->near[t->nfolders].path)))
            return stk_err_nomem(err, 4096);
    name_saves(t, &s->w);
    return 0;
}

int stk_tune_enter(const char *folder, struct stk_err *err)
{
    struct stk_folder f = STK_FOLDER_INIT;
    bool made;
    int rc = folder ? stk_folder_take(&f, folder, false, &made, err) : 0;
    stk_folder_release(&f);
    return rc;
}

/* ---- indexes -------------------------------------------------------------------------------- */

void stk_tune_indexes_of(struct stk_arena *a, const char *data, const char *index[STK_TUNE_PLACES])
{
    const struct stk_dataset ds = {.path = (char *)(uintptr_t)data};
    char *place[STK_PLACES];
    size_t n = 0;
    for (size_t i = 0; i < STK_TUNE_PLACES; i++)
        index[i] = NULL;
    if (!data || stk_places(&ds, NULL, 0, place, NULL) != 0)
        return;
    for (size_t i = 0; i < STK_PLACES && place[i] && n < STK_TUNE_PLACES; i++)
        if (!stk_may_exist(AT_FDCWD, place[i]))
            index[n++] = stk_arena_dup(a, place[i], strlen(place[i]));
    stk_places_free(place);
}

static void note_indexes(struct stk_tuner *t, const struct stk_tune_subject *s)
{
    const char *data[] = {s->source, s->save}, *index[STK_TUNE_PLACES];
    for (size_t i = 0; i < 2; i++) {
        stk_tune_indexes_of(&t->out->arena, data[i], index);
        for (size_t k = 0; k < STK_TUNE_PLACES; k++)
            if (index[k])
                t->index[t->nindexes++] = index[k];
    }
}

void stk_tune_remove_index(const char *index)
{
    if (index)
        stk_place_remove(index);
}

void stk_tune_remove_indexes(struct stk_tuner *t)
{
    for (size_t i = 0; i < t->nindexes; i++)
        stk_tune_remove_index(t->index[i]);
}

int stk_tune_folders(struct stk_tuner *t, const struct stk_tune_subject *s, struct stk_err *err)
{
    int rc = make_work(t, s, err);
    rc = rc ? rc : name_others(t, s, err);
    if (!rc)
        note_indexes(t, s);
    return rc;
}

/* ---- removing ------------------------------------------------------------------------------- */

static bool is_ours(const char *path)
{
    return strncmp(stk_base_name(path), STK_TUNE_PREFIX ".", sizeof STK_TUNE_PREFIX) == 0;
}

/* "NAME" and "NAME.anything". */
static bool begins(const char *name, const char *with)
{
    size_t n = strlen(with);
    return strncmp(name, with, n) == 0 && (!name[n] || name[n] == '.');
}

/* What is in a folder before, or without, its description. */
static bool is_first(const char *name)
{
    return begins(name, STK_TUNE_SPEC) || begins(name, "workload.yaml") /* earlier versions */ ||
           strcmp(name, "study") == 0 || begins(name, "before.sh") || begins(name, "after.sh") ||
           stk_launch_is_ours(name);
}

/* What tune makes: its own files, and a copy or files per candidate. */
static bool is_made(void *user, const char *name)
{
    static const char *const own[] = {STK_TUNE_STATUS, STK_TUNE_FIRST, STK_TUNE_SECOND, "sample",
                                      "loader.stkidx", "checkpoint",   "stoker-bench-checkpoint",
                                      STK_MEASURE_FOLDER};
    const struct stk_tuner *t = user;
    bool made = is_first(name);
    for (size_t i = 0; !made && i < sizeof own / sizeof *own; i++)
        made = begins(name, own[i]);
    for (size_t i = 0; !made && i < t->npoints; i++)
        made = begins(name, t->point[i]);
    return made;
}

/* Also the folders of an earlier call: storage that it tried may not be tried now. */
static void remove_all(struct stk_tuner *t, struct stk_left *left)
{
    for (size_t i = 0; i < t->nfolders; i++) {
        struct stk_folder f = STK_FOLDER_INIT;
        if (is_ours(t->folder[i]) &&
            stk_folder_find(&f, t->folder[i], STK_TUNE_SPEC, NULL, NULL) == 0)
            stk_folder_destroy_ours(&f, STK_TUNE_SPEC, is_made, t, left);
        stk_folder_release(&f);
        if (!left->n && stk_may_exist(AT_FDCWD, t->folder[i]))
            stk_tune_note(t, "%.250s could not be removed", t->folder[i]);
    }
    if (t->work.fd >= 0)
        stk_folder_destroy_ours(&t->work, STK_TUNE_SPEC, is_made, t, left);
    if (t->work.fd >= 0 && !left->n && stk_may_exist(AT_FDCWD, t->work.path))
        stk_tune_note(t, "%.250s could not be removed", t->work.path);
}

void stk_tune_remove(struct stk_tuner *t)
{
    struct stk_left left = {0};
    remove_all(t, &left);
    if (left.n)
        stk_tune_note(t, "%.250s was not removed: tune did not make it", left.first);
}

/* A call that was killed before it had described its folder, or while it profiled or checked a
 * command. False: it is not such a folder, or holds something else. */
static bool is_bare(const struct stk_folder *f)
{
    bool ours = strncmp(stk_base_name(f->path), STK_TUNE_PREFIX, sizeof STK_TUNE_PREFIX - 1) == 0;
    struct stk_dir d;
    int rc = stk_dir_open_fd(&d, f->fd, f->path, NULL);
    for (const struct dirent *e; ours && (e = stk_dir_next(&d));)
        ours = is_first(e->d_name);
    return stk_dir_end(&d, rc, NULL) == 0 && ours;
}

/* rc: why it has no description. */
static int clean_bare(const char *dir, int rc, struct stk_err *err)
{
    struct stk_folder f = STK_FOLDER_INIT;
    if (stk_folder_find(&f, dir, STK_TUNE_SPEC, NULL, NULL) == 0 && is_bare(&f)) {
        rc = stk_folder_lock(&f, err);
        if (!rc)
            stk_folder_destroy(&f);
    }
    stk_folder_release(&f);
    return rc;
}

static int clean(struct stk_tuner *t, struct stk_left *left, struct stk_err *err)
{
    int rc = stk_folder_lock(&t->work, err);
    if (!rc && t->plan.via->cancel)
        rc = stk_tune_cancel(&t->work, err);
    if (rc)
        return rc;
    stk_tune_remove_indexes(t);
    remove_all(t, left);
    return 0;
}

int stk_tune_clean(const char *dir, struct stk_left *left, struct stk_err *err)
{
    struct stk_tune out;
    struct stk_tuner t;
    const struct stk_tune_plan plan = {0};
    int rc = stk_tune_init(&t, &plan, &out, err);
    if (!rc) {
        rc = stk_tune_read_made(&t, dir, err);
        rc = rc ? clean_bare(dir, rc, err) : clean(&t, left, err);
    }
    stk_tune_end(&t);
    stk_tune_release(&out);
    return rc;
}
