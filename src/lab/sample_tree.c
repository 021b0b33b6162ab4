/*
 * sample_tree.c - the processes below the launcher, from /proc: who they are, and what each has
 * used so far.
 *
 * Everybody on the node is in one table sorted by number, so that a stranger is looked at once and
 * only passed over from then on. Finding new ones (a walk over /proc) is done as often as it stays
 * below a hundredth of the time, our own are read at every sample. A process whose parent ends
 * comes to the launcher, which is the subreaper: once ours, always ours.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/pool.h"
#include "lab/sample.h"

#define GONE_MAX    65536u /* processes that are remembered after their end */
#define COMMAND_MAX 512u
#define LOOK_AGAIN  16u /* walks until a stranger's number is checked for a new process */
#define FDS_MAX     1024

/* ---- reading /proc ------------------------------------------------------------------------ */

/* False: gone. */
static bool read_stat(const struct stk_tree *t, struct stk_proc *p)
{
    struct stk_proc_stat now;
    if (!stk_proc_stat(t->proc_fd, p->pid, &now))
        return false;
    memcpy(p->comm, now.comm, sizeof p->comm);
    p->ppid = now.ppid;
    p->start = now.start;
    p->threads = now.threads;
    /* With children it has waited for: what a child used moves to its parent, never gets lost. */
    p->cpu_ticks = now.ticks + now.children_ticks;
    p->resident_bytes = now.resident_bytes;
    return true;
}

static void read_command(const struct stk_tree *t, struct stk_proc *p)
{
    char buf[COMMAND_MAX];
    size_t n = stk_proc_command(t->proc_fd, p->pid, buf, sizeof buf);
    free(p->command);
    p->command = strdup(n ? buf : p->comm);
}

/* "NSpid: 4711 2": the last is that of the innermost namespace. */
static void read_own_pid(const struct stk_tree *t, struct stk_proc *p)
{
    char buf[4096];
    p->own_pid = p->pid;
    stk_proc_read(t->proc_fd, p->pid, "status", buf, sizeof buf);
    char *at = strstr(buf, "\nNSpid:");
    for (at = at ? at + 7 : NULL; at && (*at == '\t' || *at == ' ');)
        p->own_pid = (pid_t)strtol(at, &at, 10);
    if (p->own_pid <= 0)
        p->own_pid = p->pid;
}

static bool has_uring(const struct stk_tree *t, pid_t pid)
{
    char path[64], link[32];
    snprintf(path, sizeof path, "%d/fd", (int)pid);
    int fd = openat(t->proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0)
        close(fd);
    bool found = false;
    int left = FDS_MAX;
    for (struct dirent *e; d && !found && left-- && (e = readdir(d));) {
        ssize_t n = readlinkat(fd, e->d_name, link, sizeof link - 1);
        link[n > 0 ? n : 0] = '\0';
        found = strcmp(link, "anon_inode:[io_uring]") == 0;
    }
    if (d)
        closedir(d);
    return found;
}

/* ---- the table ---------------------------------------------------------------------------- */

int stk_tree_init(struct stk_tree *t, pid_t root, const char *logs, const char *host,
                  struct stk_err *err)
{
    char self[32] = "";
    *t = (struct stk_tree){.root = root, .logs = logs, .host = host};
    t->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->proc_fd < 0)
        return stk_err_sys(err, "/proc", "open");
    /* In a container that shows the node's: numbers there are not ours. */
    if (readlinkat(t->proc_fd, "self", self, sizeof self - 1) > 0 &&
        strtol(self, NULL, 10) == getpid())
        return 0;
    stk_tree_release(t);
    return stk_err_set(err, STK_E_UNSUPPORTED, "/proc", -1,
                       "/proc does not show the processes of this container");
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

static bool append(struct stk_proc **p, size_t *n, size_t *room, const struct stk_proc *one)
{
    if (*n == *room) {
        size_t more = *room ? *room * 2 : 256;
        struct stk_proc *grown = realloc(*p, more * sizeof *grown);
        if (!grown)
            return false;
        *p = grown;
        *room = more;
    }
    (*p)[(*n)++] = *one;
    return true;
}

/* Takes over p's command. */
static void bury(struct stk_tree *t, struct stk_proc *p)
{
    if (!p->ours || t->ngone >= GONE_MAX || !append(&t->gone, &t->ngone, &t->gone_room, p))
        free(p->command);
    p->command = NULL;
}

static int by_pid(const void *a, const void *b)
{
    pid_t x = ((const struct stk_proc *)a)->pid, y = ((const struct stk_proc *)b)->pid;
    return (x > y) - (x < y);
}

/* Whose parent is ours is ours. Parents may have higher numbers: repeated until nothing changes. */
static void decide(struct stk_tree *t)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < t->n; i++) {
            struct stk_proc *p = &t->p[i];
            const struct stk_proc *parent = p->undecided ? lookup(t->p, t->n, p->ppid) : NULL;
            if (p->undecided && (p->ppid == t->root || (parent && parent->ours))) {
                p->ours = changed = true;
                p->undecided = false;
            }
        }
    }
    for (size_t i = 0; i < t->n; i++)
        t->p[i].undecided = false;
}

/* Adds whom we have not met. Strangers are met again now and then: their number may by now be that
 * of a process of ours. */
static void walk(struct stk_tree *t)
{
    bool again = ++t->scans % LOOK_AGAIN == 0;
    size_t known = t->n;
    int fd = openat(t->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0)
        close(fd);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        struct stk_proc new = {.pid = (pid_t)strtol(e->d_name, NULL, 10), .alive = true};
        struct stk_proc *old = lookup(t->p, known, new.pid);
        if (old)
            old->alive = true;
        if (new.pid == t->root || (old && (old->ours || !again)))
            continue;
        if (!read_stat(t, &new) || (old && old->start == new.start))
            continue;
        new.undecided = true;
        if (old)
            *old = new;
        else if (!append(&t->p, &t->n, &t->room, &new))
            break;
    }
    if (d)
        closedir(d);
    if (t->n)
        qsort(t->p, t->n, sizeof *t->p, by_pid);
    decide(t);
}

double stk_thread_cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- a sample ----------------------------------------------------------------------------- */

/* A process that has no log yet may never get one: what it is called is asked while it lives. */
static void examine(struct stk_tree *t, struct stk_proc *p)
{
    char path[4300];
    if (p->age == 2 || p->age % 32 == 0)
        p->uring = p->uring || has_uring(t, p->pid);
    if (p->age < 2 || p->examined)
        return;
    p->examined = true;
    snprintf(path, sizeof path, "%s/%s.%d.0.stklog", t->logs, t->host, (int)p->own_pid);
    if (access(path, F_OK) != 0)
        read_command(t, p);
}

static void sample_one(struct stk_tree *t, struct stk_proc *p)
{
    struct stk_proc now = {.pid = p->pid};
    if (!read_stat(t, &now) || now.start != p->start) {
        p->alive = false;
        return;
    }
    if (strcmp(now.comm, p->comm) != 0) {
        memcpy(p->comm, now.comm, sizeof p->comm); /* it runs another program now */
        p->examined = false;
    }
    p->threads = now.threads;
    p->cpu_ticks = now.cpu_ticks;
    p->resident_bytes = now.resident_bytes;
    p->age = (uint16_t)(p->age < UINT16_MAX ? p->age + 1 : 1024);
    stk_proc_io(t->proc_fd, p->pid, p->io);
    if (!p->own_pid)
        read_own_pid(t, p);
    examine(t, p);
}

/* Takes out whom the last walk did not meet, and ours that have ended. */
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

void stk_tree_sample(struct stk_tree *t, struct stk_tree_sum *sum)
{
    if (stk_now() >= t->next_scan_s) {
        double before_s = stk_thread_cpu_s();
        for (size_t i = 0; i < t->n; i++)
            t->p[i].alive = t->p[i].ours;
        walk(t);
        t->next_scan_s = stk_now() + 100 * (stk_thread_cpu_s() - before_s);
    }
    *sum = (struct stk_tree_sum){0};
    memcpy(sum->io, t->reaped_io, sizeof sum->io);
    for (size_t i = 0; i < t->n; i++) {
        struct stk_proc *p = &t->p[i];
        if (!p->ours)
            continue;
        sample_one(t, p);
        if (!p->alive)
            continue;
        sum->processes++;
        sum->threads += p->threads;
        sum->cpu_ticks += p->cpu_ticks;
        sum->resident_bytes += p->resident_bytes;
        for (size_t k = 0; k < STK_IO_COUNTS; k++)
            sum->io[k] += p->io[k];
    }
    forget(t);
}

void stk_tree_ended(struct stk_tree *t, pid_t pid)
{
    struct stk_proc *p = lookup(t->p, t->n, pid);
    struct stk_proc new = {.pid = pid, .ours = true};
    if (!p || !p->ours) {
        (void)read_stat(t, &new); /* never sampled; a stranger of that number is long gone */
        if (p)
            *p = new;
        p = p ? p : &new;
    }
    stk_proc_io(t->proc_fd, p->pid, p->io);
    if (!p->own_pid)
        read_own_pid(t, p);
    for (size_t k = 0; k < STK_IO_COUNTS; k++)
        t->reaped_io[k] += p->io[k];
    p->alive = false;
    if (p == &new)
        bury(t, p);
    else
        forget(t);
}
