/*
 * command.c - how a run is started: launcher, container and command as words, the CPUs it
 * may use, and an environment that tells libraries how many threads and which GPUs they have.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/spawn.h"
#include "host/gpu.h"
#include "record/launch.h"
#include "study/priv.h"
#include "base/num.h"
#include "base/stats.h"

#define GPUS_MAX 1024

/* Every library that would otherwise use all visible cores. */
static const char *const thread_variables[] = {
    "OMP_NUM_THREADS",     "MKL_NUM_THREADS",     "OPENBLAS_NUM_THREADS",   "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS", "NUMEXPR_MAX_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",   "JULIA_NUM_THREADS",   "TF_NUM_INTRAOP_THREADS", "GOMAXPROCS",
};

/* ---- launchers of ranks ------------------------------------------------------------------- */

enum mpi { MPI_OTHER, MPI_OPEN, MPI_HYDRA };

/* Identifies an mpirun by its own output. */
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

static int find_mpirun(const char **path, struct stk_err *err)
{
    static const char *const names[] = {"mpirun", "mpiexec"};
    for (size_t i = 0; i < 2; i++) {
        int why = stk_find_tool(names[i], path, err);
        if (why <= 0)
            return why;
    }
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "mpirun is not in PATH: install openmpi-bin or mpich, load your MPI's "
                       "module, or use --launcher to say what starts ranks");
}

static int add_mpirun(struct stk_launcher *l, const struct stk_runner_plan *p, struct stk_err *err)
{
    const char *path = NULL;
    char text[64];
    int rc = find_mpirun(&path, err);
    if (rc)
        return rc;
    enum mpi kind = mpi_kind(path);
    bool threads = p->threads_per_rank > 1 && !p->oversubscribe, placed = p->nspread + p->npack > 0;
    stk_words_add(&l->prefix, path);
    stk_words_add(&l->prefix, "-n");
    stk_words_add(&l->prefix, "{ranks}");
    if (kind == MPI_OPEN && p->oversubscribe)
        stk_words_add(&l->prefix, "--oversubscribe");
    /* A rank with threads gets as many cores; by default both would bind it to one. */
    if (kind == MPI_OTHER && placed)
        return stk_err_set(err, STK_E_USAGE, path, -1,
                           "it is neither Open MPI nor MPICH: say with --launcher how it places "
                           "{ranks_per_node} ranks on each node");
    if (kind == MPI_HYDRA && placed) {
        stk_words_add(&l->prefix, "-ppn");
        stk_words_add(&l->prefix, "{ranks_per_node}");
    }
    if (kind == MPI_OPEN && (threads || placed)) {
        snprintf(text, sizeof text, "%s:PE=%llu", placed ? "ppr:{ranks_per_node}:node" : "slot",
                 (unsigned long long)(threads ? p->threads_per_rank : 1));
        stk_words_add(&l->prefix, "--map-by");
        stk_words_add(&l->prefix, text);
    } else if (kind == MPI_HYDRA && threads) {
        snprintf(text, sizeof text, "core:%llu", (unsigned long long)p->threads_per_rank);
        stk_words_add(&l->prefix, "-bind-to");
        stk_words_add(&l->prefix, text);
    }
    return 0;
}

/* ---- GPUs --------------------------------------------------------------------------------- */

static int find_gpus(struct stk_launcher *l, const struct stk_points *points,
                     struct stk_runner_conditions *c, struct stk_err *err)
{
    struct stk_words w = {.arena = &l->arena};
    const char *list = stk_gpus_list();
    const struct stk_point *most = stk_points_most(points, offsetof(struct stk_point, give.gpus));
    if (!most->give.gpus)
        return 0;
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
    if (w.n >= most->give.gpus)
        return 0;
    char number[24] = "as many";
    if (most->give.gpus != most->n)
        snprintf(number, sizeof number, "%llu", (unsigned long long)most->give.gpus);
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "%s needs %s GPUs, and %zu are visible",
                       most->label, number, w.n);
}

/* ---- the launcher ------------------------------------------------------------------------- */

static bool any_ranks(const struct stk_points *points)
{
    return stk_points_most(points, offsetof(struct stk_point, give.ranks))->give.ranks > 0;
}

static int add_launcher(struct stk_launcher *l, const struct stk_runner_plan *p,
                        const struct stk_points *points, struct stk_err *err)
{
    if (p->launcher)
        return stk_words_split(&l->prefix, p->launcher, err);
    if (!any_ranks(points))
        return 0;
    if (!p->via->launcher)
        return add_mpirun(l, p, err);
    const char *path;
    int rc = stk_find_tool(p->via->launcher, &path, err);
    if (rc < 0)
        return rc;
    /* A missing launcher is reported by name when it is run. */
    stk_words_add(&l->prefix, rc ? p->via->launcher : path);
    return 0;
}

/* Threads are pinned to cores if there is one process; a launcher places its ranks itself. */
static uint64_t threads_alone(const struct stk_point *p)
{
    return p->give.ranks ? 0 : p->give.threads;
}

static void note_cores(const struct stk_launcher *l, const struct stk_points *points,
                       struct stk_runner_conditions *c)
{
    uint64_t largest = 0;
    c->cores_usable = l->cores.physical;
    for (size_t i = 0; i < points->n; i++)
        if (threads_alone(&points->v[i]) > largest)
            largest = threads_alone(&points->v[i]);
    if (!largest)
        return;
    if (l->cores.physical < l->cores.n && largest > l->cores.physical)
        stk_runner_note(c,
                        "N above %u uses second hardware threads of the same cores, not whole "
                        "cores",
                        l->cores.physical);
    if (l->cores.mixed)
        stk_runner_note(c, "This machine has cores of different kinds: the curve bends where the "
                           "slower ones begin");
    if (largest > l->cores.n)
        stk_runner_note(c, "N above %u means more threads than CPUs (--oversubscribe)", l->cores.n);
}

int stk_launcher_init(struct stk_launcher *l, const struct stk_runner_plan *p,
                      const struct stk_points *points, struct stk_runner_conditions *c,
                      struct stk_err *err)
{
    bool ours = p->via->can & STK_VIA_CHOOSES;
    *l = (struct stk_launcher){0};
    l->prefix.arena = &l->arena;
    stk_cores_find(&l->cores);
    int rc = add_launcher(l, p, points, err);
    if (!rc && p->container)
        rc = stk_words_split(&l->prefix, p->container, err);
    if (!rc && ours)
        rc = find_gpus(l, points, c, err);
    if (!rc && ours)
        note_cores(l, points, c);
    return rc ? rc : l->prefix.fail ? stk_err_nomem(err, 4096) : 0;
}

void stk_launcher_release(struct stk_launcher *l)
{
    stk_arena_release(&l->arena);
}

/* ---- one command -------------------------------------------------------------------------- */

/* line: NAME=VALUE, in the arena of env; the name is its first len bytes. */
static void set_line(struct stk_words *env, const char *line, size_t len)
{
    for (size_t i = 0; i < env->n; i++)
        if (strncmp(env->v[i], line, len) == 0 && env->v[i][len] == '=') {
            env->v[i] = line;
            return;
        }
    stk_words_add(env, line);
}

static void set_variable(struct stk_words *env, const char *name, const char *value)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_printf(&b, "%s=%s", name, value);
    const char *line = stk_arena_dup(env->arena, stk_buf_cstr(&b), b.len);
    env->fail = env->fail || b.fail || !line;
    stk_buf_release(&b);
    if (line)
        set_line(env, line, strlen(name));
}

static void set_number(struct stk_words *env, const char *name, uint64_t v)
{
    char number[32];
    snprintf(number, sizeof number, "%llu", (unsigned long long)v);
    set_variable(env, name, number);
}

/* The number of threads per process; 0: not ours to set. */
static uint64_t threads_of(const struct stk_resources *give)
{
    if (give->threads)
        return give->threads;
    /* Nobody wants each rank to use all cores. */
    return give->ranks && !getenv("OMP_NUM_THREADS") ? 1 : 0;
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

/* Our environment, then variables for the resources, then the point's own. */
static void make_environment(struct stk_command *c, const struct stk_launcher *l,
                             const struct stk_runner_plan *p, const struct stk_point *point)
{
    const struct stk_resources *give = &point->give;
    uint64_t threads = threads_of(give);
    c->env = (struct stk_words){.arena = &c->arena};
    for (char **e = environ; *e; e++)
        stk_words_add(&c->env, *e);
    for (size_t i = 0; threads && i < sizeof thread_variables / sizeof *thread_variables; i++)
        set_number(&c->env, thread_variables[i], threads);
    if (p->via->cpus_variable && give->ranks && give->threads)
        set_number(&c->env, p->via->cpus_variable, give->threads);
    if (l->nvisible && give->gpus)
        set_gpus(&c->env, l, give->gpus);
    for (size_t i = 0; point->env && point->env[i]; i++)
        set_line(&c->env, point->env[i], strcspn(point->env[i], "="));
}

/* A path such as ./train is relative to where the study was started. */
static int finish(struct stk_command *c, const struct stk_runner_plan *p, struct stk_err *err)
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
                      const struct stk_runner_plan *p, const char *line,
                      const struct stk_point *point, struct stk_err *err)
{
    const struct stk_marks marks = stk_point_marks(point);
    stk_arena_reset(&c->arena);
    c->argv = (struct stk_words){.arena = &c->arena};
    c->pinned = false;
    stk_words_add(&c->argv, "/bin/sh");
    stk_words_add(&c->argv, "-c");
    stk_words_add_expanded(&c->argv, line, &marks);
    make_environment(c, l, p, point);
    return finish(c, p, err);
}

int stk_command_make(struct stk_command *c, const struct stk_launcher *l,
                     const struct stk_runner_plan *p, const struct stk_point *point,
                     struct stk_err *err)
{
    const struct stk_marks marks = stk_point_marks(point);
    uint64_t threads = threads_alone(point);
    stk_arena_reset(&c->arena);
    c->argv = (struct stk_words){.arena = &c->arena};
    for (size_t i = 0; i < l->prefix.n; i++)
        stk_words_add_expanded(&c->argv, l->prefix.v[i], &marks);
    if (p->shell) {
        stk_words_add(&c->argv, "/bin/sh");
        stk_words_add(&c->argv, "-c");
    }
    for (size_t i = 0; point->argv[i]; i++)
        stk_words_add(&c->argv, point->argv[i]);
    make_environment(c, l, p, point);
    c->pinned = p->pin && (p->via->can & STK_VIA_CHOOSES) && threads && threads <= l->cores.n;
    if (c->pinned)
        stk_cores_set(&l->cores, threads, &c->cpus);
    return finish(c, p, err);
}

void stk_command_release(struct stk_command *c)
{
    free(c->path);
    stk_arena_release(&c->arena);
    *c = (struct stk_command){0};
}

static const char *mark_at(const char *s, const struct stk_marks *m, uint64_t *value)
{
    if (strncmp(s, "{n}", 3) == 0) {
        *value = m->n;
        return s + 3;
    }
    if (strncmp(s, "{ranks}", 7) == 0) {
        *value = m->ranks;
        return s + 7;
    }
    if (m->size && strncmp(s, "{size}", 6) == 0) {
        *value = m->size;
        return s + 6;
    }
    if (m->nodes && strncmp(s, "{nodes}", 7) == 0) {
        *value = m->nodes;
        return s + 7;
    }
    if (m->ranks_per_node && strncmp(s, "{ranks_per_node}", 16) == 0) {
        *value = m->ranks_per_node;
        return s + 16;
    }
    return NULL;
}

void stk_marks_expand(struct stk_buf *out, const char *text, const struct stk_marks *m)
{
    while (*text) {
        uint64_t value;
        const char *after = *text == '{' ? mark_at(text, m, &value) : NULL;
        if (after) {
            char digits[STK_NUM_ROOM];
            stk_buf_put(out, digits, stk_num_u64(digits, value));
            text = after;
        } else {
            size_t n = strcspn(text + 1, "{") + 1;
            stk_buf_put(out, text, n);
            text += n;
        }
    }
}

bool stk_marks_in(const char *text, const char *mark)
{
    return text && strstr(text, mark) != NULL;
}

/* ---- lists of words ----------------------------------------------------------------------- */

void stk_words_addn(struct stk_words *w, const char *text, size_t len)
{
    if (w->n + 2 > w->room) {
        size_t room = w->room ? 2 * w->room : 16;
        const char **more = stk_arena_alloc(w->arena, room * sizeof *more);
        if (!more) {
            w->fail = true;
            return;
        }
        if (w->n)
            memcpy(more, w->v, w->n * sizeof *more);
        w->v = more;
        w->room = room;
    }
    const char *copy = stk_arena_dup(w->arena, text, len);
    w->fail = w->fail || !copy;
    if (!copy)
        return;
    w->v[w->n++] = copy;
    w->v[w->n] = NULL;
}

void stk_words_add(struct stk_words *w, const char *text)
{
    stk_words_addn(w, text, strlen(text));
}

/* Appends one word at p to b; returns what follows, NULL if a quote is not closed. */
static const char *take_word(const char *p, struct stk_buf *b)
{
    char quote = 0;
    for (; *p && (quote || !strchr(" \t\n", *p)); p++) {
        if (quote ? *p == quote : (*p == '\'' || *p == '"'))
            quote = quote ? 0 : *p;
        else if (*p == '\\' && quote != '\'' && p[1] && (!quote || strchr("\\\"$`", p[1])))
            stk_buf_putc(b, *++p);
        else
            stk_buf_putc(b, *p);
    }
    return quote ? NULL : p;
}

int stk_words_split(struct stk_words *w, const char *text, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    int rc = 0;
    for (const char *p = text; !rc && *(p += strspn(p, " \t\n"));) {
        stk_buf_reset(&b);
        p = take_word(p, &b);
        if (!p) {
            rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "a quote is not closed in: %.200s", text);
            break;
        }
        rc = stk_buf_check(&b, err);
        stk_words_addn(w, stk_buf_cstr(&b), b.len);
    }
    stk_buf_release(&b);
    return rc ? rc : w->fail ? stk_err_nomem(err, strlen(text)) : 0;
}

void stk_words_add_expanded(struct stk_words *w, const char *text, const struct stk_marks *m)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_marks_expand(&b, text, m);
    w->fail = w->fail || b.fail;
    stk_words_addn(w, stk_buf_cstr(&b), b.len);
    stk_buf_release(&b);
}

/* ---- lists of N --------------------------------------------------------------------------- */

static bool take_number(const char **p, uint64_t *v)
{
    size_t n = strspn(*p, "0123456789");
    int64_t i;
    double f;
    if (!n || stk_num_parse(*p, n, &i, &f) != STK_NUM_INT || i < 1 || i > STK_STUDY_N_MAX)
        return false;
    *v = (uint64_t)i;
    *p += n;
    return true;
}

/* "4", "1-8" or "1-64*2". */
static bool take_range(const char **p, uint64_t *n, size_t *nn)
{
    uint64_t from, to, factor = 1;
    if (!take_number(p, &from))
        return false;
    to = from;
    if (**p == '-' && (++*p, !take_number(p, &to) || to < from))
        return false;
    if (**p == '*' && (++*p, !take_number(p, &factor) || factor < 2 || factor > 1000))
        return false;
    for (uint64_t v = from; v <= to; v = factor > 1 ? v * factor : v + 1) {
        if (*nn == STK_RUNNER_N_MAX)
            return false;
        n[(*nn)++] = v;
    }
    return true;
}

int stk_runner_parse_n(const char *option, const char *text, uint64_t *n, size_t *nn,
                       struct stk_err *err)
{
    const char *p = text;
    bool good;
    *nn = 0;
    do {
        good = take_range(&p, n, nn);
    } while (good && *p == ',' && *++p);
    if (!good || *p)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "--%s: \"%.80s\": give numbers from 1 on, such as 1,2,4,8 or 1-8 or "
                           "1-64*2 (doubled each time), %d at most",
                           option, text, STK_RUNNER_N_MAX);
    qsort(n, *nn, sizeof *n, stk_by_u64);
    size_t k = 0;
    for (size_t i = 0; i < *nn; i++)
        if (!k || n[i] != n[k - 1])
            n[k++] = n[i];
    *nn = k;
    return 0;
}
