/*
 * subject.c - what is tuned: the workload as it is, where its data lies and how much it is, and
 * what this node offers.
 */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "base/spawn.h"
#include "base/text.h"
#include "format/format.h"
#include "host/cpus.h"
#include "host/cgroup.h"
#include "stage/target.h"
#include "tune/priv.h"

/* ---- the workload --------------------------------------------------------------------------- */

/* A file, or the name of a workload that comes with stoker. *path: in the arena. */
static int find_workload(struct stk_tuner *t, const char **path, struct stk_err *err)
{
    const char *name = t->plan->workload;
    char beside[300];
    snprintf(beside, sizeof beside, "workloads/%.200s.yaml", name);
    bool named = !strchr(name, '/') && !stk_may_exist(AT_FDCWD, name);
    char *found = named ? stk_installed(beside) : realpath(name, NULL);
    if (!found && named)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "%.200s: there is no such file, and no workload of that name comes with "
                           "stoker",
                           name);
    if (!found)
        return stk_err_sys(err, name, "open");
    *path = stk_tune_text(t, "%s", found);
    free(found);
    return *path ? 0 : stk_err_nomem(err, strlen(name));
}

static bool says(const struct stk_workload *w, const char *const *set, const char *key)
{
    size_t n = strlen(key);
    for (const char *const *s = set; s && *s; s++)
        if (strncmp(*s, key, n) == 0 && (*s)[n] == '=')
            return true;
    for (size_t i = 0; stk_workload_keys[i].name; i++)
        if (strcmp(stk_workload_keys[i].name, key) == 0)
            return w->line[i] != 0;
    return false;
}

static int read_workload(struct stk_tuner *t, struct stk_err *err)
{
    struct stk_tune_subject *s = &t->s;
    const char *path = NULL;
    int rc = t->plan->made ? 0 : find_workload(t, &path, err);
    if (t->plan->made)
        stk_workload_borrow(t->plan->made, &s->w);
    else if (!rc)
        rc = stk_workload_read(path, t->plan->small, &s->w, err);
    for (const char *const *p = t->plan->set; p && *p && !rc; p++)
        rc = stk_workload_set(&s->w, *p, err);
    rc = rc ? rc : stk_workload_settle(&s->w, err);
    if (rc)
        return rc;
    s->w.path = path;
    s->cold = s->w.dataset.format != STK_BENCH_NONE &&
              !says(&s->w, t->plan->set, "reader.cache");
    return 0;
}

int stk_tune_describe(struct stk_tuner *t, struct stk_err *err)
{
    const struct stk_tune_subject *s = &t->s;
    const struct stk_format *f = s->format ? stk_format_find(s->format) : NULL;
    struct stk_tune *out = t->out;
    out->ranks = s->w.training.ranks;
    out->batch = s->w.training.batch;
    out->threads = s->w.reader.threads;
    out->shuffles = s->w.access.shuffle != STK_MIX_NONE;
    out->framework = t->plan->job.framework ? t->plan->job.framework : STK_FRAMEWORK_TORCH;
    out->file_system = s->fs ? s->fs->name : NULL;
    out->files = s->files;
    out->bytes = out->sample_bytes = s->bytes;
    out->use = f ? f->use : NULL;
    out->decode = s->decode;
    out->steps = s->steps;
    out->memory_bytes = s->peak_bytes;
    out->compute_s = s->compute_s;
    free(out->name);
    out->name = strdup(t->plan->name ? t->plan->name : s->w.name);
    return out->name ? 0 : stk_err_nomem(err, 64);
}

/* ---- its data ------------------------------------------------------------------------------- */

#define DEPTH  32
#define FOLDER (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

static void add_file(struct stk_tune_tree *t, const struct stat *st)
{
    double changed_s = (double)st->st_mtim.tv_sec + 1e-9 * (double)st->st_mtim.tv_nsec;
    t->files++;
    t->bytes += (uint64_t)st->st_size;
    t->newest_s = fmax(t->newest_s, changed_s);
}

/* No index of stoker's own, and of a profile only what the program opened. */
static bool is_counted(const struct stk_tune_tree *t, const char *name)
{
    return !stk_name_has_suffix(name, strlen(name), ".stkidx") &&
           (!t->match || fnmatch(t->match, name, 0) == 0);
}

/* Takes ownership of fd; negative: errno says why. */
static int measure_tree(int fd, const char *path, unsigned depth, struct stk_tune_tree *t,
                        struct stk_err *err)
{
    struct stk_dir d;
    struct stat st;
    int rc = stk_dir_take(&d, fd, path, err);
    for (const struct dirent *e; !rc && !t->stopped && (e = stk_dir_next(&d));) {
        if (e->d_name[0] == '.' || !stk_dir_stat(&d, e, AT_SYMLINK_NOFOLLOW, &st))
            continue;
        if (S_ISDIR(st.st_mode) && depth)
            rc = measure_tree(openat(fd, e->d_name, FOLDER | O_NOFOLLOW), path, depth - 1, t, err);
        if (S_ISREG(st.st_mode) && is_counted(t, e->d_name))
            add_file(t, &st);
        t->stopped = t->stopped || (t->tick && t->tick(t->user)); /* millions take minutes */
    }
    return stk_dir_end(&d, rc, err);
}

int stk_tune_measure_tree(const char *path, struct stk_tune_tree *t, struct stk_err *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return stk_err_sys(err, path, "open the data");
    if (!S_ISREG(st.st_mode))
        return measure_tree(open(path, FOLDER), path, DEPTH, t, err);
    add_file(t, &st);
    return 0;
}

/* The files of a replay: those of its first group. */
static const char *replayed(struct stk_tuner *t)
{
    const struct stk_workload *w = &t->s.w;
    const char *group = w->group[0].path;
    if (*group == '/' || strcmp(group, ".") == 0)
        return stk_tune_text(t, "%s", *group == '/' ? group : w->dataset.path);
    return stk_tune_text(t, "%s/%s", w->dataset.path, group);
}

static int measure_source(struct stk_tuner *t, struct stk_err *err)
{
    struct stk_tune_subject *s = &t->s;
    struct stk_tune_tree seen = {.tick = stk_tuner_tick, .user = t};
    if (!t->plan->data && s->w.ngroups)
        seen.match = s->w.group[0].match;
    if (t->plan->data && !stk_may_exist(AT_FDCWD, s->source))
        return stk_err_set(err, STK_E_USAGE, s->source, -1,
                           "no data of the workload; `stoker bench --generate` generates it");
    int rc = stk_tune_measure_tree(s->source, &seen, err);
    if (rc)
        return rc;
    s->files = seen.files;
    s->bytes = seen.bytes;
    s->newest_s = seen.newest_s;
    return seen.stopped ? stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped") : 0;
}

/* Where the data is, and where checkpoints go. */
static int find_places(struct stk_tuner *t, struct stk_err *err)
{
    struct stk_tune_subject *s = &t->s;
    const struct stk_workload *w = &s->w;
    bool reads = w->dataset.format != STK_BENCH_NONE;
    char *real = t->plan->data ? realpath(t->plan->data, NULL) : NULL;
    if (t->plan->data && !real)
        return stk_err_sys(err, t->plan->data, "open the data folder");
    const char *save = real ? real : w->checkpoint.dir;
    s->save = save ? stk_tune_text(t, "%s", save) : NULL;
    if (real && reads)
        s->source = stk_tune_text(t, "%s/train", real);
    else if (w->ngroups && (w->dataset.path || *w->group[0].path == '/'))
        s->source = replayed(t);
    free(real);
    if (reads && !s->source)
        return stk_err_set(err, STK_E_USAGE, w->path, -1,
                           "--data DIR is missing: the workload does not say where its data is");
    return 0;
}

int stk_tune_find_data(struct stk_tuner *t, struct stk_err *err)
{
    struct stk_tune_subject *s = &t->s;
    s->ranks = s->w.training.ranks;
    s->cpus = stk_cpus();
    s->memory_bytes = stk_memory_free();
    int rc = find_places(t, err);
    if (rc || !s->source)
        return rc;
    rc = measure_source(t, err);
    s->fs = stk_fs_of_path(s->source);
    return rc;
}

/* ---- this node ------------------------------------------------------------------------------ */

static bool same_device(const char *a, const char *b)
{
    struct stat x, y;
    return a && stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev;
}

static bool is_known(const struct stk_tune_subject *s, const char *path)
{
    for (size_t i = 0; i < s->nnear; i++)
        if (same_device(s->near[i].path, path))
            return true;
    return same_device(s->source ? s->source : s->save, path);
}

static int add_near(struct stk_tuner *t, const struct stk_target *g, struct stk_err *err)
{
    struct stk_tune_subject *s = &t->s;
    if (s->nnear == STK_TUNE_NEAR || g->verdict != STK_TARGET_FITS || is_known(s, g->path))
        return 0;
    struct stk_tune_near *n = &s->near[s->nnear++];
    n->path = stk_tune_text(t, "%s", g->path);
    n->fs = stk_fs_of_path(g->path);
    n->room_bytes = g->room_bytes;
    return n->path ? 0 : stk_err_nomem(err, strlen(g->path));
}

/* Folders of this node, or those that the user names. None is needed. */
static int find_near(struct stk_tuner *t, struct stk_err *err)
{
    const struct stk_target_wish wish = {.stop = stk_tuner_tick, .user = t};
    struct stk_targets *all = calloc(1, sizeof *all);
    int rc = all ? 0 : stk_err_nomem(err, sizeof *all);
    for (const char *const *p = t->plan->near; p && *p && !rc; p++) {
        rc = stk_target_judge(*p, &wish, &all->target[0], err);
        if (!rc && all->target[0].verdict != STK_TARGET_FITS)
            stk_tune_note(t->out, "Nothing is tried in --near %.120s: %.250s", *p,
                          all->target[0].reason);
        rc = rc ? rc : add_near(t, &all->target[0], err);
    }
    if (!rc && !t->plan->near)
        rc = stk_targets_find(&wish, all, err);
    for (size_t i = 0; !rc && !t->plan->near && i < all->n; i++)
        rc = add_near(t, &all->target[i], err);
    free(all);
    return rc;
}

int stk_tune_read_subject(struct stk_tuner *t, struct stk_err *err)
{
    int rc = read_workload(t, err);
    rc = rc ? rc : stk_tune_find_data(t, err);
    rc = rc ? rc : find_near(t, err);
    return rc ? rc : stk_tune_describe(t, err);
}

uint64_t stk_tune_whole_bytes(const struct stk_tune_subject *s)
{
    return s->whole.bytes ? s->whole.bytes : s->bytes;
}

void stk_tune_release_subject(struct stk_tune_subject *s)
{
    stk_workload_release(&s->w);
}
