/*
 * subject.c - what is tuned: the workload as it is, where its data lies and how much it is, the
 * storage under it, and what this node offers. Of data that is larger than the space for copies, a
 * part is copied into the folder of the call, and that part is tuned, as it is and with each
 * change.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/spawn.h"
#include "host/cgroup.h"
#include "host/cpus.h"
#include "model/measure.h"
#include "stage/target.h"
#include "tune/priv.h"

/* ---- the workload --------------------------------------------------------------------------- */

/* A file, or the name of a workload that comes with stoker. *path: in the arena. */
static int find_workload(struct stk_tuner *t, const char **path, struct stk_err *err)
{
    const char *name = t->plan.workload;
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
    *path = stk_tune_text(&t->out->arena, "%s", found);
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

static int read_workload(struct stk_tuner *t, struct stk_tune_subject *s, struct stk_err *err)
{
    const char *path = NULL;
    int rc = t->plan.made ? 0 : find_workload(t, &path, err);
    if (t->plan.made)
        stk_workload_borrow(t->plan.made, &s->w);
    else if (!rc)
        rc = stk_workload_read(path, t->plan.small, &s->w, err);
    for (const char *const *p = t->plan.set; p && *p && !rc; p++)
        rc = stk_workload_set(&s->w, *p, err);
    rc = rc ? rc : stk_workload_settle(&s->w, err);
    if (rc)
        return rc;
    s->w.path = path;
    s->cold = s->w.dataset.format != STK_BENCH_NONE &&
              !says(&s->w, t->plan.set, "reader.cache");
    return 0;
}

/* ---- its data ------------------------------------------------------------------------------- */

/* The files of a replay: those of its first group. */
static const char *replayed(struct stk_arena *a, const struct stk_workload *w)
{
    const char *group = w->group[0].path;
    if (*group == '/' || strcmp(group, ".") == 0)
        return stk_tune_text(a, "%s", *group == '/' ? group : w->dataset.path);
    return stk_tune_text(a, "%s/%s", w->dataset.path, group);
}

/* Of a profile, only what the program opened. */
static int measure_source(struct stk_tuner *t, struct stk_tune_subject *s, struct stk_err *err)
{
    const char *match = !t->plan.data && s->w.ngroups ? s->w.group[0].match : NULL;
    struct stk_tune_files seen;
    if (t->plan.data && !stk_may_exist(AT_FDCWD, s->source))
        return stk_err_set(err, STK_E_USAGE, s->source, -1,
                           "no data of the workload; `stoker bench --generate` generates it");
    int rc = stk_tune_files_count(s->source, match, stk_tuner_tick, t, &seen, err);
    s->files = seen.n;
    s->bytes = seen.bytes;
    s->newest_s = seen.newest_s;
    return rc;
}

/* Where the data is, and where checkpoints go. */
static int find_places(struct stk_tuner *t, struct stk_tune_subject *s, struct stk_err *err)
{
    const struct stk_workload *w = &s->w;
    struct stk_arena *a = &t->out->arena;
    bool reads = w->dataset.format != STK_BENCH_NONE;
    char *real = t->plan.data ? realpath(t->plan.data, NULL) : NULL;
    if (t->plan.data && !real)
        return stk_err_sys(err, t->plan.data, "open the data folder");
    const char *save = real ? real : w->checkpoint.dir;
    s->save = save ? stk_tune_text(a, "%s", save) : NULL;
    if (real && reads)
        s->source = stk_tune_text(a, "%s/train", real);
    else if (w->ngroups && (w->dataset.path || *w->group[0].path == '/'))
        s->source = replayed(a, w);
    free(real);
    if (reads && !s->source)
        return stk_err_set(err, STK_E_USAGE, w->path, -1,
                           "--data DIR is missing: the workload does not say where its data is");
    return 0;
}

int stk_tune_find_data(struct stk_tuner *t, struct stk_tune_subject *s, struct stk_err *err)
{
    s->cpus = stk_cpus();
    s->memory_bytes = stk_memory_free();
    int rc = find_places(t, s, err);
    if (rc || !s->source)
        return rc;
    s->fs = stk_fs_of_path(s->source);
    return measure_source(t, s, err);
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

static int add_near(struct stk_tuner *t, struct stk_tune_subject *s, const struct stk_target *g,
                    struct stk_err *err)
{
    if (s->nnear == STK_TUNE_NEAR || g->verdict != STK_TARGET_FITS || is_known(s, g->path))
        return 0;
    struct stk_tune_near *n = &s->near[s->nnear++];
    n->path = stk_tune_text(&t->out->arena, "%s", g->path);
    n->fs = stk_fs_of_path(g->path);
    n->room_bytes = g->room_bytes;
    return n->path ? 0 : stk_err_nomem(err, strlen(g->path));
}

/* Folders of this node, or those that the user names. None is needed. */
static int find_near(struct stk_tuner *t, struct stk_tune_subject *s, struct stk_err *err)
{
    const struct stk_target_wish wish = {.limit = {.stop = stk_tuner_tick, .user = t}};
    struct stk_targets *all = calloc(1, sizeof *all);
    int rc = all ? 0 : stk_err_nomem(err, sizeof *all);
    for (const char *const *p = t->plan.near; p && *p && !rc; p++) {
        rc = stk_target_judge(*p, &wish, &all->target[0], err);
        if (!rc && all->target[0].verdict != STK_TARGET_FITS)
            stk_tune_note(t, "Nothing is tried in --near %.120s: %.250s", *p,
                          all->target[0].reason);
        rc = rc ? rc : add_near(t, s, &all->target[0], err);
    }
    if (!rc && !t->plan.near)
        rc = stk_targets_find(&wish, all, err);
    for (size_t i = 0; !rc && !t->plan.near && i < all->n; i++)
        rc = add_near(t, s, &all->target[i], err);
    free(all);
    return rc;
}

int stk_tune_find_subject(struct stk_tuner *t, struct stk_tune_subject *out, struct stk_err *err)
{
    int rc = read_workload(t, out, err);
    rc = rc ? rc : stk_tune_find_data(t, out, err);
    return rc ? rc : find_near(t, out, err);
}

/* ---- its storage ---------------------------------------------------------------------------- */

#define MEASURE_S     0.2
#define MEASURE_BYTES (32u << 20)

/* All ranks run on this node, and share what it gets. */
static void take(struct stk_storage *to, const struct stk_storage *from, const struct stk_fs *fs)
{
    *to = *from;
    stk_storage_on(to, fs);
    to->all_Bps = from->all_Bps > 0 || isinf(from->read_Bps) ? from->all_Bps : from->read_Bps;
}

/* What the calls of the job itself took says more than any other measurement. Requests that are
 * under way together share the rate. */
static void take_pilot(struct stk_tune_subject *s)
{
    struct stk_storage *st = &s->storage;
    double wire = st->read_Bps > 0 ? s->pilot.request_bytes / st->read_Bps : 0;
    double own = s->pilot.request_s - wire * stk_tune_lanes(s, &s->w) * (double)stk_tune_ranks(s);
    if (s->pilot.open_s > 0)
        st->open_s = st->ask_s = s->pilot.open_s;
    if (s->pilot.request_s > 0)
        st->latency_s = fmax(own, fmin(st->latency_s, s->pilot.request_s));
}

/* Small files say little about the rate of large requests. */
static void measure_beside(const char *path, const struct stk_measure_how *how,
                           struct stk_storage *st)
{
    const struct stk_fs *fs = stk_fs_of_path(path);
    struct stk_measured m;
    if (stk_measure_folder(path, fs->name, fs->memory, how, &m) != 0)
        return;
    if (m.storage.read_Bps > st->read_Bps)
        st->read_Bps = st->stream_Bps = st->all_Bps = m.storage.read_Bps;
    st->write_Bps = m.storage.write_Bps;
}

static void measure_near(struct stk_tune_near *n, const struct stk_measure_how *how)
{
    const struct stk_storage memory = stk_storage_assumed(STK_REACH_MEMORY);
    struct stk_measured m;
    if (n->fs->memory)
        take(&n->storage, &memory, n->fs);
    else if (stk_measure_folder(n->path, n->fs->name, false, how, &m) == 0)
        take(&n->storage, &m.storage, n->fs);
}

void stk_tune_measure_storage(struct stk_tuner *t, struct stk_tune_subject *s)
{
    const struct stk_measure_how how = {.test_s = MEASURE_S,
                                        .max_bytes = MEASURE_BYTES,
                                        .limit = {.stop = stk_tuner_tick, .user = t}};
    struct stk_measured m;
    struct stk_storage given;
    if (stk_tuner_doing(t, NULL, "measuring the storage"))
        return;
    if (t->plan.storage) { /* which is everywhere */
        if (stk_storage_parse(t->plan.storage, &given, NULL) == 0)
            take(&s->storage, &given, NULL);
        for (size_t i = 0; i < s->nnear; i++)
            s->near[i].storage = s->storage;
        return;
    }
    if (s->source &&
        stk_measure_data(s->source, s->fs->name, s->fs->memory, &how, &m) == 0)
        take(&s->storage, &m.storage, s->fs);
    s->storage.memory = s->storage.memory || s->pilot.cached;
    measure_beside(t->work.path, &how, &s->storage);
    take_pilot(s);
    for (size_t i = 0; i < s->nnear; i++)
        measure_near(&s->near[i], &how);
}

/* ---- a sample of it ----------------------------------------------------------------------------
 */

#define SAMPLE   "sample"
#define COPIES   4u          /* as large as the sample that the space should take, with itself */
#define PER_FILE 4096u       /* bytes that a file takes besides its data, at most */
#define LEAST    8u          /* files: fewer represent nothing */
#define BLOCK    (1u << 20)
#define SPARE    (64u << 20) /* bytes that stay free */

static int copy_bytes(int from, int to, void *buf, const char *path, struct stk_err *err)
{
    for (uint64_t at = 0;;) {
        size_t got;
        int rc = stk_pread_full(from, buf, BLOCK, at, &got, path, err);
        if (rc || !got)
            return rc;
        rc = stk_pwrite_full(to, buf, got, at, path, err);
        if (rc)
            return rc;
        at += got;
    }
}

static int copy_file(const char *source, const char *to, const char *name, void *buf,
                     struct stk_err *err)
{
    int dirfd = -1, in = -1, out = -1;
    char *from = stk_path_join(source, name);
    int rc = from ? stk_mkdirs_below(to, name, &dirfd, err) : stk_err_nomem(err, 4096);
    if (!rc && (in = open(from, O_RDONLY | O_CLOEXEC)) < 0)
        rc = stk_err_sys(err, from, "open");
    if (!rc && (out = stk_create_at(dirfd, stk_base_name(name), STK_PRIVATE)) < 0)
        rc = stk_err_sys(err, name, "create");
    rc = rc ? rc : copy_bytes(in, out, buf, from, err);
    const int opened[] = {dirfd, in, out};
    for (size_t i = 0; i < 3; i++)
        if (opened[i] >= 0)
            close(opened[i]);
    free(from);
    return rc;
}

static int copy_all(struct stk_tuner *t, const char *source, const struct stk_tune_files *f,
                    const char *to, struct stk_err *err)
{
    void *buf = malloc(BLOCK);
    int rc = buf ? stk_mkdirs(to, err) : stk_err_nomem(err, BLOCK);
    for (size_t i = 0; i < f->n && !rc; i++) {
        rc = stk_tuner_doing(t, err, "copying a sample: %zu of %zu files", i + 1, f->n);
        rc = rc ? rc : copy_file(source, to, f->file[i].name, buf, err);
    }
    free(buf);
    return rc;
}

uint64_t stk_tune_free_bytes(const char *path)
{
    struct statvfs fs;
    if (statvfs(path, &fs) != 0)
        return 0;
    uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
    return room > SPARE ? room - SPARE : 0;
}

static size_t files_for(const struct stk_tune_files *f, uint64_t space)
{
    double each = (double)f->bytes / (double)f->n + PER_FILE;
    return (size_t)((double)space / COPIES / each);
}

/* A replay needs more than one step of all ranks. */
static size_t least_files(const struct stk_workload *w)
{
    uint64_t samples = w->training.batch * w->training.ranks + 1,
             each = w->dataset.samples_per_file;
    uint64_t files = each ? (samples + each - 1) / each : samples;
    return files > LEAST ? (size_t)files : LEAST;
}

/* The sample is the dataset of the workload then: through its keys, so that every run, the model
 * and a resume see it. */
static int use_sample(struct stk_tuner *t, size_t files, const char *path,
                      struct stk_tune_subject *s, struct stk_err *err)
{
    struct stk_arena *a = &t->out->arena;
    const char *keys[] = {stk_tune_text(a, "files.1.path=%s", path),
                          stk_tune_text(a, "files.1.count=%zu", files),
                          stk_tune_text(a, "dataset.files=%zu", files)};
    const struct stk_tune_whole whole = {s->source, s->files, s->bytes};
    int rc = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !rc; i++)
        rc = keys[i] ? stk_workload_set(&s->w, keys[i], err) : stk_err_nomem(err, 4096);
    rc = rc ? rc : stk_workload_settle(&s->w, err);
    rc = rc ? rc : stk_tune_find_data(t, s, err);
    s->whole = whole;
    return rc;
}

/* Data that stoker generated can be generated smaller. */
int stk_tune_take_sample(struct stk_tuner *t, struct stk_tune_subject *s, struct stk_err *err)
{
    struct stk_tune_files f = {0};
    uint64_t room = stk_tune_free_bytes(t->work.path), limit = t->plan.space_bytes;
    uint64_t space = limit && limit < room ? limit : room;
    bool can = s->source && s->w.ngroups && !t->plan.data && !s->whole.bytes;
    if (!can || s->bytes + s->files * PER_FILE <= space)
        return 0;
    const char *path = stk_tune_text(&t->out->arena, "%s/" SAMPLE, t->work.path);
    int rc = path ? stk_tune_files_list(s->source, s->w.group[0].match, &f, err)
                  : stk_err_nomem(err, 4096);
    size_t keep = !rc && f.n ? files_for(&f, space) : 0;
    if (!rc && keep >= least_files(&s->w)) {
        stk_tune_files_thin(&f, keep, t->plan.seed);
        rc = stk_remove_tree(path, err); /* of a call that was killed */
        rc = rc ? rc : copy_all(t, s->source, &f, path, err);
        rc = rc ? rc : use_sample(t, f.n, path, s, err);
    }
    stk_tune_files_release(&f);
    return rc;
}
