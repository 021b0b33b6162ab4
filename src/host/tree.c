/*
 * tree.c - the processes of the node, from /proc: what they are, and which are ours.
 *
 * All processes of the node are in one table sorted by pid, so that a foreign process is examined
 * once and skipped from then on. A walk over /proc finds new processes, as often as it takes less
 * than a hundredth of the time; each look reads our own. If foreign processes can become ours
 * (rules.ask), each look reads all.
 */
#include "host/tree.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/dir.h"
#include "base/pool.h"

#define GONE_MAX   65536u /* ended processes that are remembered */
#define LOOK_AGAIN 16u    /* walks until a foreign pid is checked for reuse */

int stk_tree_open(struct stk_tree *t, const struct stk_tree_rules *rules, struct stk_err *err)
{
    *t = (struct stk_tree){.rules = *rules};
    return stk_proc_open(&t->proc_fd, err);
}

void stk_tree_release(struct stk_tree *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->p[i].command);
    for (size_t i = 0; i < t->ngone; i++)
        free(t->gone[i].command);
    free(t->p);
    free(t->gone);
    if (t->proc_fd >= 0)
        close(t->proc_fd);
    *t = (struct stk_tree){.proc_fd = -1};
}

double stk_thread_cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the table ---------------------------------------------------------------------------- */

static struct stk_proc *lookup(struct stk_proc *p, size_t n, pid_t pid)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (p[mid].pid < pid)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && p[lo].pid == pid ? &p[lo] : NULL;
}

static int by_pid(const void *a, const void *b)
{
    pid_t x = ((const struct stk_proc *)a)->pid, y = ((const struct stk_proc *)b)->pid;
    return (x > y) - (x < y);
}

/* Takes ownership of p's command. */
static void bury(struct stk_tree *t, struct stk_proc *p)
{
    if (!p->ours || !t->rules.ended || t->ngone >= GONE_MAX ||
        STK_ARRAY_MORE(t->gone, t->ngone, NULL))
        free(p->command);
    else
        t->gone[t->ngone++] = *p;
    p->command = NULL;
}

/* Removes processes that the last walk did not find, and ours that have ended. */
static void forget(struct stk_tree *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (t->p[i].alive)
            t->p[kept++] = t->p[i];
        else
            bury(t, &t->p[i]);
    }
    t->n = kept;
}

/* ---- which are ours ------------------------------------------------------------------------- */

static bool inherit(struct stk_tree *t, struct stk_proc *p)
{
    bool top = t->rules.root && p->stat.ppid == t->rules.root;
    const struct stk_proc *parent = top ? NULL : lookup(t->p, t->n, p->stat.ppid);
    if (!top && (!parent || !(parent->ours || parent->above)))
        return false;
    if (parent && !p->member.own) {
        p->member = parent->member;
        p->member.own = false;
    }
    p->ours = true;
    p->undecided = false;
    return true;
}

/* A child of ours is ours. Parents may have higher pids, so this repeats until nothing changes. */
static void decide(struct stk_tree *t)
{
    for (size_t i = 0; t->rules.ask && i < t->n; i++) {
        struct stk_proc *p = &t->p[i];
        if (!p->examined || p->again)
            t->rules.ask(t->rules.user, t->proc_fd, p);
        p->examined = !p->again;
        p->undecided = !p->ours && !p->above && !p->barred;
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < t->n; i++)
            if (t->p[i].undecided && inherit(t, &t->p[i]))
                changed = true;
    }
    for (size_t i = 0; i < t->n; i++)
        t->p[i].undecided = false;
}

/* ---- walking over /proc ------------------------------------------------------------------- */

static void take_stat(struct stk_tree *t, struct stk_proc *p, const struct stk_proc_stat *now)
{
    bool other_program = strcmp(p->stat.comm, now->comm) != 0;
    p->ticks_before = p->stat.ticks;
    p->stat = *now;
    p->examined = p->examined && !other_program;
    if (other_program && t->rules.ask) {
        p->ours = p->above = p->barred = p->again = false;
        p->member = (struct stk_proc_step){.rank = -1};
    }
}

/* Examines a process that /proc lists; old: the known process of that pid. Foreign processes are
 * examined again at intervals: the pid may by now belong to a process of ours. */
static int meet(struct stk_tree *t, pid_t pid, struct stk_proc *old, bool again)
{
    struct stk_proc new = {
        .pid = pid, .member.rank = -1, .alive = true, .fresh = true, .undecided = true};
    bool read = !old || t->rules.ask || (again && !old->ours);
    if (old)
        old->alive = true;
    if (!read)
        return 0;
    bool there = stk_proc_stat(t->proc_fd, pid, &new.stat);
    if (old && there && old->stat.start == new.stat.start) {
        take_stat(t, old, &new.stat);
        old->fresh = true;
        return 0;
    }
    if (old && there) {
        bury(t, old);
        *old = new;
    } else if (old)
        old->alive = false;
    else if (there) {
        if (STK_ARRAY_ROOM(t->p, t->room, t->n + 1, NULL))
            return STK_E_NOMEM;
        t->p[t->n++] = new;
    }
    return 0;
}

static int walk(struct stk_tree *t, struct stk_err *err)
{
    bool again = ++t->scans % LOOK_AGAIN == 0;
    size_t known = t->n;
    struct stk_dir d;
    int rc = stk_dir_open_fd(&d, t->proc_fd, "/proc", err);
    for (size_t i = 0; i < t->n && !rc; i++)
        t->p[i].alive = t->p[i].ours && !t->rules.ask;
    for (const struct dirent *e; (e = stk_dir_next(&d));) {
        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (pid != t->rules.skip && meet(t, pid, lookup(t->p, known, pid), again))
            break;
    }
    rc = stk_dir_end(&d, rc, err);
    if (t->n > known)
        qsort(t->p, t->n, sizeof *t->p, by_pid);
    decide(t);
    return rc;
}

/* ---- a look ------------------------------------------------------------------------------- */

/* Skips processes that the walk has just read. */
static void refresh(struct stk_tree *t, struct stk_proc *p)
{
    struct stk_proc_stat now;
    if (!p->ours || !p->alive || p->fresh)
        return;
    p->alive = stk_proc_stat(t->proc_fd, p->pid, &now) && now.start == p->stat.start;
    if (p->alive)
        take_stat(t, p, &now);
}

int stk_tree_look(struct stk_tree *t, struct stk_err *err)
{
    int rc = 0;
    if (t->rules.ask || stk_now() >= t->next_scan_s) {
        double before_s = stk_thread_cpu_s();
        rc = walk(t, err);
        t->next_scan_s = stk_now() + 100 * (stk_thread_cpu_s() - before_s);
    }
    for (size_t i = 0; i < t->n; i++) {
        refresh(t, &t->p[i]);
        t->p[i].fresh = false;
    }
    forget(t);
    return rc;
}

void stk_tree_ended(struct stk_tree *t, pid_t pid)
{
    struct stk_proc *p = lookup(t->p, t->n, pid);
    struct stk_proc new = {.pid = pid, .member.rank = -1, .ours = true};
    if (!p || !p->ours) {
        /* Never sampled; a foreign process of that pid is long gone. */
        (void)stk_proc_stat(t->proc_fd, pid, &new.stat);
        if (p)
            *p = new;
        p = p ? p : &new;
    }
    stk_proc_io(t->proc_fd, p->pid, p->io);
    if (!p->own_pid)
        p->own_pid = stk_proc_own_pid(t->proc_fd, p->pid);
    for (size_t k = 0; k < STK_IO_COUNTS; k++)
        t->reaped_io[k] += p->io[k];
    p->alive = false;
    if (p == &new)
        bury(t, p);
    else
        forget(t);
}
