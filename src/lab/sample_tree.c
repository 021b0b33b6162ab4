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

static size_t slurp(const struct stk_tree *t, pid_t pid, const char *file, char *buf, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "%d/%s", (int)pid, file);
    int fd = openat(t->proc_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, buf, size - 1) : 0;
    if (fd >= 0)
        close(fd);
    n = n > 0 ? n : 0;
    buf[n] = '\0';
    return (size_t)n;
}

/* "pid (any) thing)) S ppid …": the name may hold blanks and brackets. False: gone. */
static bool read_stat(const struct stk_tree *t, struct stk_proc *p)
{
    char buf[1024];
    if (!slurp(t, p->pid, "stat", buf, sizeof buf))
        return false;
    char *open = strchr(buf, '('), *close = strrchr(buf, ')');
    int ppid;
    unsigned long long u, s, cu, cs, threads, start;
    long long pages;
    if (!open || !close || close < open ||
        sscanf(close + 1,
               " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu %*d %*d %llu %*d "
               "%llu %*u %lld",
               &ppid, &u, &s, &cu, &cs, &threads, &start, &pages) != 8)
        return false;
    *close = '\0';
    snprintf(p->comm, sizeof p->comm, "%.15s", open + 1);
    p->ppid = ppid;
    p->start = start;
    p->threads = (uint32_t)threads;
    /* With children it has waited for: what a child used moves to its parent, never gets lost. */
    p->cpu_ticks = u + s + cu + cs;
    p->resident_bytes = pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
    return true;
}

static void read_io(const struct stk_tree *t, struct stk_proc *p)
{
    static const char *const name[STK_IO_COUNTS] = {
        "rchar: ", "wchar: ", "read_bytes: ", "\nwrite_bytes: "};
    char buf[512];
    if (!slurp(t, p->pid, "io", buf, sizeof buf))
        return;
    for (size_t i = 0; i < STK_IO_COUNTS; i++) {
        const char *at = strstr(buf, name[i]);
        if (at)
            p->io[i] = strtoull(at + strlen(name[i]), NULL, 10);
    }
}

static void read_command(const struct stk_tree *t, struct stk_proc *p)
{
    char buf[COMMAND_MAX];
    size_t n = slurp(t, p->pid, "cmdline", buf, sizeof buf);
    while (n && !buf[n - 1])
        n--;
    for (size_t i = 0; i < n; i++)
        if (!buf[i])
            buf[i] = ' ';
    buf[n] = '\0';
    free(p->command);
    p->command = strdup(n ? buf : p->comm);
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
    *t = (struct stk_tree){.root = root, .logs = logs, .host = host};
    t->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return t->proc_fd < 0 ? stk_err_sys(err, "/proc", "open") : 0;
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
    snprintf(path, sizeof path, "%s/%s.%d.0.stklog", t->logs, t->host, (int)p->pid);
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
    read_io(t, p);
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
    read_io(t, p);
    for (size_t k = 0; k < STK_IO_COUNTS; k++)
        t->reaped_io[k] += p->io[k];
    p->alive = false;
    if (p == &new)
        bury(t, p);
    else
        forget(t);
}
