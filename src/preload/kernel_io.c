/*
 * kernel_io.c - the kernel's own count of what the process read and wrote, for comparison with
 * ours. /proc/self/io has it, until a child is reaped: then it includes the child's bytes. From
 * then on threads are added up instead: live ones, and the final counts of ended ones. Not before,
 * since a thread that was queried in /proc takes half a millisecond to end (measured on Linux
 * 6.18).
 */
#include "preload/priv.h"

#include <sys/resource.h>

#define ENDED   64u  /* the last ones that ended, so that none is counted twice while it ends */
#define THREADS 256u /* further threads are not queried */

struct io {
    uint64_t value[4];
};
static struct stk_pl_lock ended_lock;
static struct {
    uint32_t tid;
    struct io io;
} ended[ENDED];
static uint32_t nended;
static struct io gone;     /* of all ended threads */
static struct io last;     /* of the process, before there were children */
static bool by_thread;     /* a child was reaped, or soon will be (atomic) */
#define SHORT_NS 50000000u /* a thread that lived shorter is not queried when it ends */

/* The number after `key`, which begins a line. */
static uint64_t number_after(const char *text, const char *key)
{
    size_t n = strlen(key);
    uint64_t v = 0;
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncmp(line, key, n))
            continue;
        for (line += n; *line >= '0' && *line <= '9'; line++)
            v = v * 10 + (uint64_t)(*line - '0');
        return v;
    }
    return v;
}

static bool read_io(const char *path, struct io *io)
{
    char text[320];
    long fd = stk_sys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    long n = stk_sys3(SYS_read, fd, text, sizeof text - 1);
    stk_sys1(SYS_close, fd);
    if (n <= 0)
        return false;
    stk_pl_sum(&stk_pl.own_read_bytes, (uint64_t)n);
    text[n] = 0;
    *io = (struct io){{number_after(text, "rchar: "), number_after(text, "wchar: "),
                       number_after(text, "read_bytes: "), number_after(text, "write_bytes: ")}};
    return true;
}

static void add(struct io *to, const struct io *from, bool less)
{
    for (int i = 0; i < 4; i++)
        to->value[i] += less ? -from->value[i] : from->value[i];
}

void stk_pl_kernel_forked(void)
{
    memset(ended, 0, sizeof ended);
    memset(&gone, 0, sizeof gone);
    ended_lock.owner = 0;
    memset(&last, 0, sizeof last);
    by_thread = false;
}

/* A thread that announced its end does I/O after all (in another destructor), or its id was
 * reused. */
void stk_pl_kernel_thread_begins(void)
{
    if (!__atomic_load_n(&by_thread, __ATOMIC_RELAXED))
        return;
    uint32_t tid = (uint32_t)stk_sys0(SYS_gettid);
    stk_pl_lock(&ended_lock);
    for (uint32_t i = 0; i < ENDED; i++) {
        if (ended[i].tid != tid)
            continue;
        struct io now;
        bool same = read_io("/proc/thread-self/io", &now) && now.value[0] >= ended[i].io.value[0] &&
                    now.value[1] >= ended[i].io.value[1];
        if (same)
            add(&gone, &ended[i].io, true);
        ended[i].tid = 0;
    }
    stk_pl_unlock(&ended_lock);
}

void stk_pl_kernel_thread_ends(const struct stk_pl_thread *t)
{
    struct io now;
    if (!__atomic_load_n(&by_thread, __ATOMIC_RELAXED) ||
        stk_pl_clock_mono() - t->born_ns < SHORT_NS || !read_io("/proc/thread-self/io", &now))
        return;
    stk_pl_lock(&ended_lock);
    uint32_t i = nended++ % ENDED;
    ended[i].tid = (uint32_t)stk_sys0(SYS_gettid);
    ended[i].io = now;
    add(&gone, &now, false);
    stk_pl_unlock(&ended_lock);
}

static bool has_ended(uint32_t tid)
{
    for (uint32_t i = 0; i < ENDED; i++)
        if (ended[i].tid == tid)
            return true;
    return false;
}

/* Adds the thread called `name` in /proc/self/task. */
static bool add_thread(struct io *sum, const char *name)
{
    char path[64] = "/proc/self/task/";
    struct io one;
    size_t at = strlen(path), n = strlen(name);
    uint32_t tid = 0;
    for (const char *c = name; *c; c++)
        tid = tid * 10 + (uint32_t)(*c - '0');
    if (name[0] < '0' || name[0] > '9' || n > 10 || has_ended(tid))
        return false;
    memcpy(path + at, name, n);
    memcpy(path + at + n, "/io", 4);
    if (!read_io(path, &one))
        return false;
    add(sum, &one, false);
    return true;
}

struct entry { /* struct linux_dirent64 */
    uint64_t ino;
    int64_t next;
    unsigned short length;
    unsigned char type;
    char name[];
};

static bool add_threads(struct io *sum)
{
    _Alignas(8) char list[512];
    uint32_t n = 0;
    long fd =
        stk_sys4(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    for (long got; n < THREADS && (got = stk_sys3(SYS_getdents64, fd, list, sizeof list)) > 0;)
        for (long at = 0; at < got && n < THREADS;) {
            const struct entry *e = (const struct entry *)(list + at);
            n += add_thread(sum, e->name);
            at += e->length;
        }
    stk_sys1(SYS_close, fd);
    return n > 0;
}

/* Once a process has reaped a child, the kernel's counts are no longer its own. */
static bool had_children(void)
{
    struct rusage use;
    return stk_sys2(SYS_getrusage, RUSAGE_CHILDREN, &use) < 0 || use.ru_minflt || use.ru_majflt ||
           use.ru_utime.tv_sec || use.ru_utime.tv_usec || use.ru_stime.tv_sec ||
           use.ru_stime.tv_usec;
}

/* What ended threads moved so far: the process's count minus that of live threads. */
static void ask_threads(const struct io *all)
{
    struct io living = {{0}};
    if (add_threads(&living))
        for (int i = 0; i < 4; i++)
            if (all->value[i] > living.value[i])
                gone.value[i] = all->value[i] - living.value[i];
    __atomic_store_n(&by_thread, true, __ATOMIC_RELEASE);
}

void stk_pl_kernel_child_comes(void)
{
    struct io all;
    if (__atomic_load_n(&by_thread, __ATOMIC_ACQUIRE))
        return;
    stk_pl_lock(&ended_lock);
    if (!by_thread && !had_children() && read_io("/proc/self/io", &all))
        ask_threads(&all);
    stk_pl_unlock(&ended_lock);
}

static bool ask(struct io *sum)
{
    if (!__atomic_load_n(&by_thread, __ATOMIC_ACQUIRE)) {
        if (!had_children()) {
            bool known = read_io("/proc/self/io", sum);
            last = known ? *sum : last;
            return known;
        }
        stk_pl_lock(&ended_lock);
        if (!by_thread) /* system(), popen(): not announced */
            ask_threads(&last);
        stk_pl_unlock(&ended_lock);
    }
    *sum = gone;
    return add_threads(sum);
}

void stk_pl_kernel_io(uint64_t value[4])
{
    uint64_t ours = stk_pl.own_read_bytes; /* bytes read by the query itself are not counted yet */
    struct io sum;
    if (!ask(&sum))
        return;
    sum.value[0] -= ours < sum.value[0] ? ours : sum.value[0];
    sum.value[1] -= stk_pl.own_write_bytes < sum.value[1] ? stk_pl.own_write_bytes : sum.value[1];
    memcpy(value, sum.value, sizeof sum.value);
}
