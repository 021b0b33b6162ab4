/* survey.c - goes through the file systems and the equipment of a node, and says what is missing.
 */
#include "stage/survey.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/helper.h"
#include "base/pool.h"
#include "base/spawn.h"
#include "base/units.h"
#include "host/cpus.h"
#include "host/gpu.h"
#include "host/cgroup.h"
#include "host/fs.h"
#include "io/io.h"
#include "sched/slurm/slurm.h"
#include "tier/tier.h"

#define ANSWER_S  3.0
#define ROOM_MIN  ((uint64_t)1 << 30) /* free, before anything is written there */
#define ROOM_PART 16                  /* at most this part of it is written */

/* ---- the list of file systems ---------------------------------------------------------------- */

static struct stk_limit limit_of(const struct stk_survey_options *o)
{
    struct stk_limit limit = o->limit;
    limit.seconds = limit.seconds > 0 ? limit.seconds : ANSWER_S;
    return limit;
}

static struct stk_fs_look look_of(const struct stk_survey_options *o)
{
    return (struct stk_fs_look){.limit = limit_of(o)};
}

static bool is_stopped(const struct stk_survey_options *o)
{
    return o->limit.stop && o->limit.stop(o->limit.user);
}

/* One that has not answered is told by its mount point. */
static bool is_same(const struct stk_survey_fs *a, const struct stk_fs_facts *f)
{
    if (a->facts.error == ETIMEDOUT || f->error == ETIMEDOUT)
        return a->facts.error == f->error && strcmp(a->facts.point, f->point) == 0;
    return !a->facts.error && !f->error && a->facts.dev == f->dev;
}

static struct stk_survey_fs *find_same(struct stk_survey *s, const struct stk_fs_facts *f)
{
    for (size_t i = 0; i < s->nfs; i++)
        if (!s->fs[i].asked && is_same(&s->fs[i], f))
            return &s->fs[i];
    return NULL;
}

static const char home_name[] = "$HOME";

static void add_name(struct stk_survey_fs *fs, const char *name)
{
    size_t n = strlen(fs->names);
    if (n + strlen(name) + 3 < sizeof fs->names)
        snprintf(fs->names + n, sizeof fs->names - n, "%s%s", n ? ", " : "", name);
}

static int add(struct stk_survey *s, const char *name, const char *path, bool asked,
               const struct stk_fs_facts *facts, struct stk_err *err)
{
    struct stk_survey_fs *fs = asked ? NULL : find_same(s, facts);
    if (!fs) {
        int rc = STK_ARRAY_MORE(s->fs, s->nfs, err);
        if (rc)
            return rc;
        fs = &s->fs[s->nfs++];
        memset(fs, 0, sizeof *fs);
        fs->asked = asked;
        snprintf(fs->path, sizeof fs->path, "%s", path);
        fs->facts = *facts;
    } else if (facts->writable && !fs->facts.writable) {
        fs->facts = *facts;
        snprintf(fs->path, sizeof fs->path, "%s", path);
    }
    add_name(fs, name);
    fs->home = fs->home || name == home_name;
    s->lustre = s->lustre || facts->stripes;
    return 0;
}

/* True if the path is on a mount that has not answered before: it is not asked again. */
static bool is_stalled(const struct stk_survey *s, const char *path, struct stk_fs_facts *f)
{
    static struct stk_mount m;
    if (path[0] != '/' || !stk_mount_of(path, &m))
        return false;
    for (size_t i = 0; i < s->nfs; i++)
        if (s->fs[i].facts.error == ETIMEDOUT && strcmp(s->fs[i].facts.point, m.point) == 0) {
            *f = s->fs[i].facts;
            snprintf(f->path, sizeof f->path, "%s", path);
            return true;
        }
    return false;
}

static int ask(struct stk_survey *s, const struct stk_survey_options *o, const char *name,
               const char *path, bool asked, struct stk_err *err)
{
    static struct stk_fs_facts facts;
    struct stk_fs_look look = look_of(o);
    if (!is_stalled(s, path, &facts))
        (void)stk_fs_facts(path, &look, &facts);
    if (!asked && facts.error && facts.error != ETIMEDOUT)
        return 0;
    return add(s, name, path, asked, &facts, err);
}

static int find_all(struct stk_survey *s, const struct stk_survey_options *o, struct stk_err *err)
{
    const char *home = getenv("HOME");
    char cwd[4096];
    int rc = 0;
    for (size_t i = 0; i < o->npaths && !rc && !is_stopped(o); i++)
        rc = ask(s, o, "argument", o->path[i], true, err);
    if (!rc && getcwd(cwd, sizeof cwd))
        rc = ask(s, o, ".", cwd, false, err);
    if (!rc && home && *home)
        rc = ask(s, o, home_name, home, false, err);
    for (size_t i = 0; i < s->targets.n && !rc; i++) {
        const struct stk_target *t = &s->targets.target[i];
        if (t->path[0] && (!t->facts.error || t->facts.error == ETIMEDOUT))
            rc = add(s, t->name, t->path, false, &t->facts, err);
    }
    return rc;
}

/* ---- their speed ------------------------------------------------------------------------------
 */

static void note(struct stk_survey_fs *fs, const char *fmt, ...) STK_PRINTF(2, 3);
static void note(struct stk_survey_fs *fs, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(fs->note, sizeof fs->note, fmt, ap);
    va_end(ap);
}

/* Bytes that may be written there; 0: nothing, and the note says why. */
static uint64_t may_write(struct stk_survey_fs *fs)
{
    const struct stk_fs_facts *f = &fs->facts;
    uint64_t room = f->free_bytes < f->quota_bytes ? f->free_bytes : f->quota_bytes;
    if (f->reach == STK_REACH_MEMORY && stk_memory_free() < room)
        room = stk_memory_free();
    if (!f->writable || f->read_only)
        note(fs, "not measured: not writable");
    else if (f->free_bytes == UINT64_MAX)
        note(fs, "not measured: how much is free is not known");
    else if (room < ROOM_MIN)
        note(fs, "not measured: less than 1 GiB is free");
    else
        return room / ROOM_PART;
    return 0;
}

static void end_note(struct stk_survey_fs *fs)
{
    const struct stk_measured *m = &fs->speed;
    char each[32], rate[32];
    if (m->left[0])
        note(fs, "could not be removed: %.250s", m->left);
    else if (m->error == ETIMEDOUT)
        note(fs, "took too long, and was ended");
    else if (m->error && m->error != ECANCELED)
        note(fs, "not measured: %s", strerror(m->error));
    else if (!m->way[0] && !m->error)
        note(fs, "reads not known: the page cache cannot be avoided here");
    else if (m->small_Bps > 0)
        note(fs,
             "small files, %s on average, are read at %s/s: how fast this file system reads large "
             "ones is not known from them",
             stk_format_size((uint64_t)m->read_each, each, sizeof each),
             stk_format_size((uint64_t)m->small_Bps, rate, sizeof rate));
}

static void measure(struct stk_survey_fs *fs, const struct stk_survey_options *o)
{
    struct stk_measure_how how = o->how;
    bool memory = fs->facts.reach == STK_REACH_MEMORY;
    how.limit.stop = o->limit.stop;
    how.limit.user = o->limit.user;
    int wrong = ENOENT;
    if (fs->asked)
        wrong = stk_measure_data(fs->path, fs->facts.fs, memory, &how, &fs->speed);
    if (wrong == ENOENT) { /* no files to read */
        uint64_t room = may_write(fs);
        if (!room)
            return;
        if (!how.max_bytes || room < how.max_bytes)
            how.max_bytes = room < ((uint64_t)128 << 20) ? room : (uint64_t)128 << 20;
        (void)stk_measure_folder(fs->path, fs->facts.fs, memory, &how, &fs->speed);
    }
    fs->measured = true;
    end_note(fs);
}

static void measure_all(struct stk_survey *s, const struct stk_survey_options *o)
{
    double start = stk_now();
    if (o->tell)
        o->tell(o->limit.user);
    for (size_t i = 0; i < s->nfs && !is_stopped(o); i++) {
        if (!s->fs[i].facts.error)
            measure(&s->fs[i], o);
        s->written_bytes += s->fs[i].speed.written_bytes;
    }
    s->measured_s = stk_now() - start;
}

#define GPU_S   20.0 /* the driver may have to be started */
#define SLURM_S 5.0
#define TIERS_S 5.0
#define MPI_S   15.0 /* each is loaded, which may take seconds on a busy file system */

/* ---- the node ---------------------------------------------------------------------------------
 */

static int ask_gpus(void *user, void *answer)
{
    struct stk_survey_gpus *g = answer;
    struct stk_gpu first;
    (void)user;
    struct stk_gpus *all = stk_gpus_open();
    if (!all)
        return ENODEV;
    stk_gpus_read(all, 0, &first);
    g->count = stk_gpus_count(all);
    g->total_bytes = first.total_bytes;
    snprintf(g->kind, sizeof g->kind, "%s", stk_gpus_kind(all));
    g->nvml = true;
    stk_gpus_close(all);
    return 0;
}

static void take_gpus(struct stk_survey *s, const struct stk_survey_options *o)
{
    const struct stk_limit limit = {GPU_S, o->limit.stop, o->limit.user};
    if (stk_helper_ask(ask_gpus, NULL, &limit, &s->gpus, sizeof s->gpus) == 0)
        return;
    s->gpus = (struct stk_survey_gpus){.total_bytes = -1};
    s->gpus.count = stk_gpus_glance(s->gpus.kind, sizeof s->gpus.kind);
}

/* Looking up a program goes through PATH, which may lead to a file system that hangs. */
struct tools {
    bool slurm, lfs, mksquashfs;
    char slurm_version[sizeof((struct stk_survey *)0)->slurm_version];
};

/* "slurm 23.11.4" */
static void ask_slurm(struct tools *t)
{
    static const char *const argv[] = {"sinfo", "--version", NULL};
    struct stk_slurm how = {.timeout_s = SLURM_S};
    struct stk_slurm_output out = {0};
    t->slurm = stk_slurm_have("sinfo", NULL) == 0;
    if (t->slurm && stk_slurm_call(&how, argv, NULL, 0, &out, NULL) == 0 && !out.status) {
        const char *text = stk_buf_cstr(&out.out), *word = strchr(text, ' ');
        word = word ? word + 1 : text;
        snprintf(t->slurm_version, sizeof t->slurm_version, "%.*s", (int)strcspn(word, "\n"), word);
    }
    stk_slurm_output_release(&out);
}

static int ask_tools(void *user, void *answer)
{
    struct tools *t = answer;
    const char *path;
    (void)user;
    t->lfs = stk_find_tool("lfs", &path, NULL) == 0;
    t->mksquashfs = stk_find_tool("mksquashfs", &path, NULL) == 0;
    ask_slurm(t);
    return 0;
}

static void take_tools(struct stk_survey *s, const struct stk_survey_options *o)
{
    struct tools t;
    const struct stk_limit limit = {2 * SLURM_S, o->limit.stop, o->limit.user};
    (void)stk_helper_ask(ask_tools, NULL, &limit, &t, sizeof t);
    s->slurm = t.slurm;
    s->lfs = t.lfs;
    s->mksquashfs = t.mksquashfs;
    snprintf(s->slurm_version, sizeof s->slurm_version, "%s", t.slurm_version);
}

static bool home_hangs(const struct stk_survey *s)
{
    for (size_t i = 0; i < s->nfs; i++)
        if (s->fs[i].facts.error == ETIMEDOUT && s->fs[i].home)
            return true;
    return false;
}

/* Modules may be in the user's home. */
static int ask_mpi(void *user, void *answer)
{
    struct stk_survey_mpi *m = answer;
    struct stk_comm_module *list = NULL;
    size_t n = 0;
    if (home_hangs(user)) { /* those of the system are found without it */
        setenv("HOME", "/nonexistent", 1);
        unsetenv("XDG_DATA_HOME");
    }
    if (stk_comm_found(&list, &n, NULL) != 0)
        return 0;
    m->n = n < STK_SURVEY_MPIS ? n : STK_SURVEY_MPIS;
    if (m->n)
        memcpy(m->module, list, m->n * sizeof *list);
    free(list);
    return 0;
}

static void take_mpi(struct stk_survey *s, const struct stk_survey_options *o)
{
    const struct stk_limit limit = {MPI_S, o->limit.stop, o->limit.user};
    s->mpi.stalled = stk_helper_ask(ask_mpi, s, &limit, &s->mpi, sizeof s->mpi) == ETIMEDOUT;
}

static void take_limits(struct stk_survey *s)
{
    struct stk_cgroup_memory m;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    stk_cgroup_memory(0, &m);
    s->cpus = stk_cpus();
    s->machine_cpus = online > 0 ? (unsigned)online : 0;
    s->quota_cpus = stk_cgroup_cpus(0);
    s->memory_limited = m.limit_bytes != UINT64_MAX;
    s->memory_limit_bytes = stk_memory_limit();
    s->memory_free_bytes = stk_memory_free();
}

/* ---- tiers -------------------------------------------------------------------------------------
 */

static int count_set(void *user, const struct stk_tier_info *info)
{
    struct stk_survey_tier *t = user;
    t->sets++;
    t->complete += info->published;
    t->bytes += info->bytes_there;
    return 0;
}

static void look_at_tier(const char *path, struct stk_survey_tiers *all)
{
    struct stk_survey_tier *t = &all->tier[all->n];
    struct stk_tier *tier = NULL;
    struct stk_err err = {0};
    struct stat st;
    if (all->n == STK_SURVEY_TIERS || stat(path, &st) != 0)
        return;
    snprintf(t->path, sizeof t->path, "%s", path);
    int rc = stk_tier_open(path, &(struct stk_tier_options){0}, &tier, &err);
    if (rc == 0) {
        t->limit_bytes = stk_tier_limit_bytes(tier);
        t->age_s = stk_tier_age_s(tier);
        t->memory = stk_tier_in_memory(tier);
        rc = stk_tier_list(tier, count_set, t, &err);
    }
    if (rc < 0)
        snprintf(t->problem, sizeof t->problem, "%.300s", err.what);
    stk_tier_close(tier);
    all->n++;
}

/* $STOKER_TIER, as loaders read it. */
static void look_at_named(const char *list, struct stk_survey_tiers *all)
{
    char path[4096];
    for (size_t n; *list; list += n + (list[n] == ':')) {
        n = strcspn(list, ":");
        snprintf(path, sizeof path, "%.*s", (int)n, list);
        if (n)
            look_at_tier(path, all);
    }
}

static int ask_tiers(void *user, void *answer)
{
    const struct stk_targets *targets = user;
    const char *named = getenv("STOKER_TIER");
    if (named && *named && strcmp(named, "auto") != 0) {
        if (strcmp(named, "off") != 0)
            look_at_named(named, answer);
        return 0;
    }
    for (size_t i = 0; i < targets->n; i++) {
        const struct stk_target *t = &targets->target[i];
        bool answers = t->path[0] && !t->facts.error && t->verdict != STK_TARGET_SAME;
        char *path = answers ? stk_scratch_tier(t->path) : NULL;
        if (path)
            look_at_tier(path, answer);
        free(path);
    }
    return 0;
}

static void take_tiers(struct stk_survey *s, const struct stk_survey_options *o)
{
    const struct stk_limit limit = {TIERS_S, o->limit.stop, o->limit.user};
    s->tiers.stalled =
        stk_helper_ask(ask_tiers, &s->targets, &limit, &s->tiers, sizeof s->tiers) == ETIMEDOUT;
}

/* ---- all of it ---------------------------------------------------------------------------------
 */

static void look_at_node(struct stk_survey *s, const struct stk_survey_options *o)
{
    struct utsname u;
    if (uname(&u) == 0) {
        snprintf(s->host, sizeof s->host, "%s", u.nodename);
        snprintf(s->kernel, sizeof s->kernel, "%s %s", u.sysname, u.release);
    }
    take_limits(s);
    take_gpus(s, o);
    take_tools(s, o);
    take_mpi(s, o);
    take_tiers(s, o);
    (void)stk_io_try_uring(&s->uring);
    if (stk_job_detect(&s->scheduler))
        (void)stk_job_id(s->job);
}

/* ---- the whole --------------------------------------------------------------------------- */

int stk_survey_take(const struct stk_survey_options *o, struct stk_survey *out, struct stk_err *err)
{
    struct stk_target_wish wish = {.no_probe = o->quick,
                                   .limit = limit_of(o)};
    memset(out, 0, sizeof *out);
    out->quick = o->quick;
    int rc = stk_targets_find(&wish, &out->targets, err);
    rc = rc ? rc : find_all(out, o, err);
    if (!rc)
        look_at_node(out, o);
    if (!rc && !o->quick)
        measure_all(out, o);
    if (!rc && is_stopped(o))
        rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    return rc;
}

void stk_survey_release(struct stk_survey *s)
{
    free(s->fs);
    s->fs = NULL;
    s->nfs = 0;
}

/* ---- what is missing ----------------------------------------------------------------------------
 */

struct list {
    struct stk_survey_lack *lack;
    size_t n;
};

static void lacks(struct list *l, const char *what, const char *fmt, ...) STK_PRINTF(3, 4);
static void lacks(struct list *l, const char *what, const char *fmt, ...)
{
    va_list ap;
    if (l->n >= STK_SURVEY_LACKS)
        return;
    l->lack[l->n].what = what;
    va_start(ap, fmt);
    vsnprintf(l->lack[l->n].gives, sizeof l->lack->gives, fmt, ap);
    va_end(ap);
    l->n++;
}

static bool usable_mpi(const struct stk_survey *s)
{
    for (size_t i = 0; i < s->mpi.n; i++)
        if (!s->mpi.module[i].problem[0])
            return true;
    return s->mpi.stalled; /* not known */
}

size_t stk_survey_lacks(const struct stk_survey *s, struct stk_survey_lack out[STK_SURVEY_LACKS])
{
    struct list l = {out, 0};
    const struct stk_target *best = stk_targets_best(&s->targets);
    if (!best)
        lacks(&l, "a folder for copies",
              "no local folder takes a copy: `stoker stage` cannot help here. Request local disk "
              "for the job, or name a folder in STOKER_SCRATCH");
    else if (best->facts.reach == STK_REACH_MEMORY)
        lacks(&l, "a local disk",
              "copies go to memory and take it from the job; a folder on a disk of the node "
              "(STOKER_SCRATCH) would not");
    if (s->uring.code)
        lacks(&l, "io_uring", "%s; threads read instead, at more CPU time per read", s->uring.what);
    if (!usable_mpi(s))
        lacks(&l, "an MPI module",
              "on several nodes, each copies alone and the shared file system is read once per "
              "node; `stoker doctor --build-mpi mpicc` builds a module");
    if (s->lustre && !s->lfs)
        lacks(&l, "lfs",
              "stripes and quota of Lustre are not known, and copies to Lustre keep the "
              "folder's stripe");
    if (s->scheduler == STK_SCHEDULER_SLURM && !s->slurm)
        lacks(&l, "Slurm's clients",
              "`stoker job`, `stoker watch` and `stoker scale --via slurm` "
              "need them in PATH");
    if (s->gpus.count && !s->gpus.nvml)
        lacks(&l, "NVML", "with libnvidia-ml.so.1, profiles show how busy the GPUs are");
    if (!s->mksquashfs)
        lacks(&l, "mksquashfs", "with squashfs-tools, `stoker pack` writes squashfs images");
    return l.n;
}
