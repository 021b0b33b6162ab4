/* survey_node.c - the equipment of a node: CPUs, memory, GPUs, Slurm, MPI, tiers; what is missing.
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

#include "base/helper.h"
#include "base/spawn.h"
#include "host/cpus.h"
#include "host/gpu.h"
#include "host/memory.h"
#include "io/io.h"
#include "sched/slurm/slurm.h"
#include "tier/tier.h"

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
    const struct stk_limit limit = {GPU_S, o->stop, o->user};
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
    const struct stk_limit limit = {2 * SLURM_S, o->stop, o->user};
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
    const struct stk_limit limit = {MPI_S, o->stop, o->user};
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
    const struct stk_limit limit = {TIERS_S, o->stop, o->user};
    s->tiers.stalled =
        stk_helper_ask(ask_tiers, &s->targets, &limit, &s->tiers, sizeof s->tiers) == ETIMEDOUT;
}

/* ---- all of it ---------------------------------------------------------------------------------
 */

void stk_survey_node(struct stk_survey *s, const struct stk_survey_options *o)
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
