/*
 * rank.c - which process of how many this is, from the variables of launchers; and whether what it
 * prints is for itself, or goes where all ranks print.
 *
 * A table of launchers, innermost first. Values are considered wrong until they are numbers that
 * are consistent: two processes with the same rank would silently train on the same data.
 */
#include "sched/rank.h"
#include "sched/slurm/slurm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rank_vars.h"
#include "base/api.h"
#include "base/text.h"
#include "host/opened.h"
#include "host/proc.h"

struct launcher {
    const char *from;
    const char *rank, *world, *local_rank, *local_world;
};

static const struct launcher launchers[] = {
#define X(from, rank, world, local_rank, local_world) {from, rank, world, local_rank, local_world},
    STK_RANK_LAUNCHERS(X)
#undef X
};

#define NLAUNCHERS (sizeof launchers / sizeof *launchers)

/* Digits only, up to 2^32 - 1. */
static bool parse_u32(const char *s, size_t n, uint32_t *out)
{
    uint64_t v = 0;
    if (!n || n > 10)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(s[i] - '0');
    }
    *out = (uint32_t)v;
    return v <= UINT32_MAX;
}

/* Where variables are looked up: this process's environment, or a recorded one. */
struct source {
    const char *(*get)(void *user, const char *name);
    void *user;
};

static const char *look_up(const struct source *s, const char *name)
{
    return name ? s->get(s->user, name) : NULL;
}

/* 1: *out is set; 0: the variable is missing or empty; negative: it is not a number. */
static int number(const struct source *s, const char *name, uint32_t *out, struct stk_err *err)
{
    const char *text = look_up(s, name);
    if (!text || !*text)
        return 0;
    if (!parse_u32(text, strlen(text), out))
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "%s=%.40s in the environment is not a whole number", name, text);
    return 1;
}

static int check_pair(uint32_t rank, uint32_t world, const char *rank_name, const char *world_name,
                      struct stk_err *err)
{
    if (rank < world)
        return 0;
    return stk_err_set(err, STK_E_USAGE, NULL, -1,
                       "%s=%lu and %s=%lu in the environment contradict each other: ranks count "
                       "from 0",
                       rank_name, (unsigned long)rank, world_name, (unsigned long)world);
}

/* Tasks on node `node` of "4(x2),3": 4, 4, 3. 0: not in the text. */
static uint32_t tasks_of_node(const char *text, uint32_t node)
{
    uint64_t first = 0;
    uint32_t tasks, nodes;
    for (; text && stk_slurm_per_node(&text, &tasks, &nodes); first += nodes)
        if (node < first + nodes)
            return tasks;
    return 0;
}

/* How many tasks share this node; unknown is no error. */
static int slurm_local_world(const struct source *s, uint32_t *out, struct stk_err *err)
{
    uint32_t node;
    int rc = number(s, STK_RANK_NODE, &node, err);
    if (rc <= 0)
        return rc;
    *out = tasks_of_node(look_up(s, STK_RANK_NODE_TASKS), node);
    return 0;
}

static int fill_local(const struct source *s, const struct launcher *l, struct stk_rank *r,
                      struct stk_err *err)
{
    int have = number(s, l->local_rank, &r->local_rank, err), rc = have < 0 ? have : 0;
    if (!rc && l->local_world)
        rc = number(s, l->local_world, &r->local_world, err);
    else if (!rc)
        rc = slurm_local_world(s, &r->local_world, err);
    if (rc < 0)
        return rc;
    if (!have || !r->local_world) {
        r->local_world = 0;
        return 0;
    }
    return check_pair(r->local_rank, r->local_world, l->local_rank,
                      l->local_world ? l->local_world : STK_RANK_NODE_TASKS, err);
}

/* A launcher that gave only one of two numbers: it must agree with one that gives both. */
struct half {
    const struct launcher *by;
    bool has_rank;
    uint32_t value;
};

static int check_half(const struct half *h, const struct launcher *l, const struct stk_rank *r,
                      struct stk_err *err)
{
    if (!h->by || h->value == (h->has_rank ? r->rank : r->world))
        return 0;
    return stk_err_set(
        err, STK_E_USAGE, NULL, -1, "%s=%lu in the environment contradicts %s (%s=%lu)",
        h->has_rank ? h->by->rank : h->by->world, (unsigned long)h->value, l->from,
        h->has_rank ? l->rank : l->world, (unsigned long)(h->has_rank ? r->rank : r->world));
}

static int nobody_else(const struct half *h, struct stk_err *err)
{
    /* A program that starts MPI without a launcher is rank 0 of PMIx, and alone. */
    bool singleton = h->by && h->has_rank && h->value == 0 && strcmp(h->by->rank, "PMIX_RANK") == 0;
    if (!h->by || singleton)
        return 0;
    return stk_err_set(err, STK_E_USAGE, NULL, -1,
                       "%s is set in the environment and %s is not: say which process of how many "
                       "this is",
                       h->has_rank ? h->by->rank : h->by->world,
                       h->has_rank ? h->by->world : h->by->rank);
}

/* 1: *r is filled; 0: this launcher is absent, or gave half (kept in *h); negative: nonsense. */
static int ask(const struct source *s, const struct launcher *l, struct half *h, struct stk_rank *r,
               struct stk_err *err)
{
    int has_world = 0, has_rank = number(s, l->rank, &r->rank, err);
    if (has_rank >= 0)
        has_world = number(s, l->world, &r->world, err);
    if (has_rank < 0 || has_world < 0)
        return has_rank < 0 ? has_rank : has_world;
    if (has_rank && has_world) {
        r->from = l->from;
        int rc = check_pair(r->rank, r->world, l->rank, l->world, err);
        rc = rc ? rc : check_half(h, l, r, err);
        rc = rc ? rc : fill_local(s, l, r, err);
        return rc ? rc : 1;
    }
    /* Slurm's variables never count as half of a pair: a batch script has SLURM_PROCID alone, and a
     * step without PMIx has SLURM_STEP_NUM_TASKS. */
    bool slurm = strncmp(has_rank ? l->rank : l->world, "SLURM_", 6) == 0;
    if ((has_rank || has_world) && !h->by && !slurm)
        *h = (struct half){.by = l, .has_rank = has_rank, .value = has_rank ? r->rank : r->world};
    return 0;
}

int stk_rank_detect_from(const char *(*get)(void *user, const char *name), void *user,
                         struct stk_rank *r, struct stk_err *err)
{
    const struct source source = {get, user};
    struct half half = {0};
    int rc = 0;
    *r = (struct stk_rank){.world = 1, .local_world = 1, .from = ""};
    for (size_t i = 0; i < NLAUNCHERS && !rc; i++) {
        struct stk_rank found = {0};
        rc = ask(&source, &launchers[i], &half, &found, err);
        if (rc > 0)
            *r = found;
    }
    rc = rc ? rc : nobody_else(&half, err);
    return rc < 0 ? rc : 0;
}

enum stk_rank_from stk_rank_from(const struct stk_rank *r)
{
    static const char *const names[] = {"", "torchrun", "Open MPI", "MPICH", "PMIx", "Slurm", NULL};
    int i = stk_text_index(r->from, names);
    return i < 0 ? STK_FROM_NOBODY : (enum stk_rank_from)i;
}

static const char *of_this_process(void *user, const char *name)
{
    (void)user;
    return getenv(name);
}

int stk_rank_detect_sized(struct stk_rank *r, size_t size, struct stk_err *err)
{
    struct stk_rank found;
    int rc = stk_rank_detect_from(of_this_process, NULL, &found, err);
    if (rc == 0)
        stk_sized_out(r, size, &found, sizeof found);
    return rc;
}

int stk_rank_parse(const char *text, struct stk_rank *r, struct stk_err *err)
{
    const char *slash = strchr(text, '/');
    struct stk_rank v = {.from = ""};
    if (!slash || !parse_u32(text, (size_t)(slash - text), &v.rank) ||
        !parse_u32(slash + 1, strlen(slash + 1), &v.world) || v.rank >= v.world)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "\"%.40s\" is not R/W: a rank, counted from 0, and the number of "
                           "processes",
                           text);
    *r = v;
    return 0;
}

#define ABOVE_MAX 32

struct environment {
    struct stk_buf text;
    size_t len;
};

static const char *of_environment(void *user, const char *name)
{
    const struct environment *e = user;
    return stk_proc_variable((const char *)e->text.data, e->len, name);
}

/* True for a process that the launcher started as this rank, or that one of those started. */
static bool is_in_rank(int proc, pid_t pid, const struct stk_rank *r)
{
    struct environment e = {.text = STK_BUF_INIT};
    struct stk_rank other = {0};
    e.len = stk_proc_environ(proc, pid, &e.text);
    bool is = e.len && stk_rank_detect_from(of_environment, &e, &other, NULL) == 0 &&
              other.world == r->world && other.rank == r->rank;
    stk_buf_release(&e.text);
    return is;
}

/* A shell or another program of this rank takes what is printed here, for itself: $(...). */
bool stk_rank_is_captured(const struct stk_rank *r)
{
    struct stk_proc_stat st;
    struct stat out;
    int proc = -1;
    bool captured = false;
    if (fstat(STDOUT_FILENO, &out) < 0 || !S_ISFIFO(out.st_mode) || stk_proc_open(&proc, NULL) != 0)
        return false;
    pid_t pid = getppid();
    for (int i = 0; pid > 1 && i < ABOVE_MAX && !captured && is_in_rank(proc, pid, r); i++) {
        captured = stk_proc_has_open(proc, pid, &out, true);
        pid = stk_proc_stat(proc, pid, &st) ? st.ppid : 0;
    }
    close(proc);
    return captured;
}
