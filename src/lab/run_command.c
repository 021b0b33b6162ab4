/*
 * run_command.c - what a run is started as: launcher, container and command as words, the CPUs it
 * may use, and an environment that tells libraries how many threads and which GPUs they have.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/spawn.h"
#include "host/gpu.h"
#include "lab/launch_priv.h"
#include "lab/run_priv.h"

#define GPUS_MAX 1024

/* Every library that would otherwise take all the cores it sees. */
static const char *const thread_variables[] = {
    "OMP_NUM_THREADS",     "MKL_NUM_THREADS",     "OPENBLAS_NUM_THREADS",   "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS", "NUMEXPR_MAX_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",   "JULIA_NUM_THREADS",   "TF_NUM_INTRAOP_THREADS", "GOMAXPROCS",
};

/* ---- launchers of ranks ------------------------------------------------------------------- */

enum mpi { MPI_OTHER, MPI_OPEN, MPI_HYDRA };

/* What kind of mpirun it is, in its own words. */
static enum mpi mpi_kind(const char *path)
{
    const char *const argv[] = {path, "--version", NULL};
    struct stk_exec_end end;
    struct stk_buf b = STK_BUF_INIT;
    enum mpi kind = MPI_OTHER;
    int fd;
    if (stk_output_open(&fd, NULL) != 0)
        return kind;
    struct stk_child c = {.path = path,
                          .argv = argv,
                          .fd = {STK_FD_NULL, fd, fd},
                          .own_group = true,
                          .timeout_s = 10};
    if (stk_exec_timed(&c, &end, NULL) == 0 && stk_output_read(fd, false, &b, NULL) == 0) {
        const char *text = stk_buf_cstr(&b);
        if (strstr(text, "Open MPI") || strstr(text, "OpenRTE") || strstr(text, "PRRTE"))
            kind = MPI_OPEN;
        else if (strstr(text, "HYDRA") || strstr(text, "Intel(R) MPI"))
            kind = MPI_HYDRA;
    }
    stk_buf_release(&b);
    close(fd);
    return kind;
}

static int find_mpirun(char **path, struct stk_err *err)
{
    static const char *const names[] = {"mpirun", "mpiexec"};
    for (size_t i = 0; i < 2; i++)
        if (stk_find_program(names[i], path) == 0)
            return 0;
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "mpirun is not in PATH: install openmpi-bin or mpich, load your MPI's "
                       "module, or say with --launcher what starts ranks");
}

static int add_mpirun(struct stk_launcher *l, const struct stk_runs_plan *p, struct stk_err *err)
{
    char *path = NULL, text[64];
    int rc = find_mpirun(&path, err);
    if (rc)
        return rc;
    enum mpi kind = mpi_kind(path);
    bool threads = p->threads_per_rank > 1 && !p->oversubscribe;
    stk_words_add(&l->prefix, path);
    stk_words_add(&l->prefix, "-n");
    stk_words_add(&l->prefix, "{ranks}");
    if (kind == MPI_OPEN && p->oversubscribe)
        stk_words_add(&l->prefix, "--oversubscribe");
    /* A rank with threads gets as many cores; by itself either would bind it to one. */
    if (kind == MPI_OPEN && threads) {
        snprintf(text, sizeof text, "slot:PE=%llu", (unsigned long long)p->threads_per_rank);
        stk_words_add(&l->prefix, "--map-by");
        stk_words_add(&l->prefix, text);
    } else if (kind == MPI_HYDRA && threads) {
        snprintf(text, sizeof text, "core:%llu", (unsigned long long)p->threads_per_rank);
        stk_words_add(&l->prefix, "-bind-to");
        stk_words_add(&l->prefix, text);
    }
    free(path);
    return 0;
}

/* ---- GPUs --------------------------------------------------------------------------------- */

static int find_gpus(struct stk_launcher *l, const struct stk_runs_plan *p,
                     struct stk_runs_conditions *c, struct stk_err *err)
{
    struct stk_words w = {.arena = &l->arena};
    const char *list = stk_gpus_list();
    uint64_t want = p->n[p->nn - 1];
    if (list) {
        struct stk_gpu_word word;
        while (w.n < GPUS_MAX && stk_gpus_next(&list, &word))
            stk_words_addn(&w, word.p, word.n);
    } else {
        unsigned n = stk_gpus_glance(c->gpu, sizeof c->gpu);
        for (unsigned i = 0; i < n && i < GPUS_MAX; i++) {
            char number[16];
            snprintf(number, sizeof number, "%u", i);
            stk_words_add(&w, number);
        }
    }
    if (w.fail)
        return stk_err_nomem(err, GPUS_MAX);
    l->visible = w.v;
    l->nvisible = w.n;
    if (w.n >= want)
        return 0;
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "N=%llu needs as many GPUs, and %zu can be seen",
                       (unsigned long long)want, w.n);
}

/* ---- the launcher ------------------------------------------------------------------------- */

static int add_launcher(struct stk_launcher *l, const struct stk_runs_plan *p, bool local,
                        struct stk_err *err)
{
    if (p->launcher)
        return stk_words_split(&l->prefix, p->launcher, err);
    if (!(p->sets & (STK_SETS_RANKS | STK_SETS_NODES)))
        return 0;
    if (local)
        return add_mpirun(l, p, err);
    stk_words_add(&l->prefix, "srun"); /* takes the numbers from the job's environment */
    return 0;
}

static void note_cores(const struct stk_launcher *l, const struct stk_runs_plan *p,
                       struct stk_runs_conditions *c)
{
    uint64_t largest = p->n[p->nn - 1];
    c->cores_usable = l->cores.physical;
    if (!(p->sets & STK_SETS_THREADS))
        return;
    if (l->cores.physical < l->cores.n && largest > l->cores.physical)
        stk_runs_note(c,
                      "N above %u uses a second hardware thread of the same cores: those are not "
                      "whole cores",
                      l->cores.physical);
    if (l->cores.mixed)
        stk_runs_note(c, "This machine has cores of different kinds: the curve bends where the "
                         "slower ones begin");
    if (largest > l->cores.n)
        stk_runs_note(c, "N above %u is more threads than CPUs (--oversubscribe)", l->cores.n);
}

int stk_launcher_init(struct stk_launcher *l, const struct stk_runs_plan *p, bool local,
                      struct stk_runs_conditions *c, struct stk_err *err)
{
    *l = (struct stk_launcher){0};
    l->prefix.arena = &l->arena;
    stk_cores_find(&l->cores);
    int rc = add_launcher(l, p, local, err);
    if (!rc && p->container)
        rc = stk_words_split(&l->prefix, p->container, err);
    if (!rc && local && (p->sets & STK_SETS_GPUS))
        rc = find_gpus(l, p, c, err);
    if (!rc && local)
        note_cores(l, p, c);
    return rc ? rc : l->prefix.fail ? stk_err_nomem(err, 4096) : 0;
}

void stk_launcher_release(struct stk_launcher *l)
{
    stk_arena_release(&l->arena);
}

/* ---- one command -------------------------------------------------------------------------- */

static void set_variable(struct stk_words *env, const char *name, const char *value)
{
    size_t len = strlen(name);
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_printf(&b, "%s=%s", name, value);
    const char *line = stk_arena_dup(env->arena, stk_buf_cstr(&b), b.len);
    stk_buf_release(&b);
    env->fail = env->fail || !line;
    for (size_t i = 0; line && i < env->n; i++)
        if (strncmp(env->v[i], name, len) == 0 && env->v[i][len] == '=') {
            env->v[i] = line;
            return;
        }
    if (line)
        stk_words_add(env, line);
}

/* How many threads a process is to take; 0: that is not ours to say. */
static uint64_t threads_of(const struct stk_runs_plan *p, uint64_t n)
{
    if (p->sets & STK_SETS_THREADS)
        return n;
    if (p->threads_per_rank)
        return p->threads_per_rank;
    /* Ranks that each take all cores are never meant. */
    return (p->sets & (STK_SETS_RANKS | STK_SETS_NODES)) && !getenv("OMP_NUM_THREADS") ? 1 : 0;
}

static void set_gpus(struct stk_words *env, const struct stk_launcher *l, uint64_t n)
{
    struct stk_buf b = STK_BUF_INIT;
    for (size_t i = 0; i < n && i < l->nvisible; i++)
        stk_buf_printf(&b, "%s%s", i ? "," : "", l->visible[i]);
    set_variable(env, "CUDA_VISIBLE_DEVICES", stk_buf_cstr(&b));
    env->fail = env->fail || b.fail;
    stk_buf_release(&b);
}

static void make_environment(struct stk_command *c, const struct stk_launcher *l,
                             const struct stk_runs_plan *p, uint64_t n)
{
    char number[32];
    uint64_t threads = threads_of(p, n);
    c->env = (struct stk_words){.arena = &c->arena};
    for (char **e = environ; *e; e++)
        stk_words_add(&c->env, *e);
    snprintf(number, sizeof number, "%llu", (unsigned long long)threads);
    for (size_t i = 0; threads && i < sizeof thread_variables / sizeof *thread_variables; i++)
        set_variable(&c->env, thread_variables[i], number);
    /* Since Slurm 22.05 srun no longer takes this from the job by itself. */
    snprintf(number, sizeof number, "%llu", (unsigned long long)p->threads_per_rank);
    if (p->slurm && p->threads_per_rank)
        set_variable(&c->env, "SRUN_CPUS_PER_TASK", number);
    if (l->nvisible && (p->sets & STK_SETS_GPUS))
        set_gpus(&c->env, l, n);
}

/* A path such as ./train is meant from where the study was begun. */
static int finish(struct stk_command *c, const struct stk_runs_plan *p, struct stk_err *err)
{
    free(c->path);
    c->path = NULL;
    if (c->argv.fail || c->env.fail)
        return stk_err_nomem(err, 4096);
    const char *name = c->argv.v[0];
    char *full = strchr(name, '/') && name[0] != '/' ? stk_path_join(p->cwd, name) : NULL;
    int bad = stk_find_program(full ? full : name, &c->path);
    free(full);
    errno = bad;
    return bad ? stk_err_sys(err, c->argv.v[0], "cannot be run") : 0;
}

int stk_command_shell(struct stk_command *c, const struct stk_launcher *l,
                      const struct stk_runs_plan *p, const char *line, uint64_t n,
                      struct stk_err *err)
{
    struct stk_runs_at at = stk_runs_at(p, n);
    stk_arena_reset(&c->arena);
    c->argv = (struct stk_words){.arena = &c->arena};
    c->pinned = false;
    stk_words_add(&c->argv, "/bin/sh");
    stk_words_add(&c->argv, "-c");
    stk_words_add_expanded(&c->argv, line, &at);
    make_environment(c, l, p, n);
    return finish(c, p, err);
}

int stk_command_make(struct stk_command *c, const struct stk_launcher *l,
                     const struct stk_runs_plan *p, uint64_t n, struct stk_err *err)
{
    struct stk_runs_at at = stk_runs_at(p, n);
    stk_arena_reset(&c->arena);
    c->argv = (struct stk_words){.arena = &c->arena};
    for (size_t i = 0; i < l->prefix.n; i++)
        stk_words_add_expanded(&c->argv, l->prefix.v[i], &at);
    if (p->shell) {
        stk_words_add(&c->argv, "/bin/sh");
        stk_words_add(&c->argv, "-c");
    }
    for (size_t i = 0; p->argv[i]; i++)
        stk_words_add_expanded(&c->argv, p->argv[i], &at);
    make_environment(c, l, p, n);
    c->pinned = p->pin && !p->slurm && (p->sets & STK_SETS_THREADS) && n <= l->cores.n;
    if (c->pinned)
        stk_cores_set(&l->cores, n, &c->cpus);
    return finish(c, p, err);
}

void stk_command_release(struct stk_command *c)
{
    free(c->path);
    stk_arena_release(&c->arena);
    *c = (struct stk_command){0};
}
