/*
 * slowfs.c - a stand-in for a busy parallel file system: options, mount, signals, end.
 *
 * Passes a directory through FUSE with configurable latency, bandwidth and faults (docs/slowfs.md).
 * Runs without privileges; leaves nothing behind when it is unmounted or gets SIGTERM.
 */
#include "slowfs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"
#include "base/opt.h"

#define MAX_THREADS 64

static const char *const caches[] = {"open", "keep", "off", NULL};

#define FIELD(f) offsetof(struct settings, f)
static const struct stk_opt options[] = {
    {.name = "open",
     .type = STK_OPT_DURATION,
     .offset = FIELD(open_s),
     .arg = "TIME",
     .def = "0",
     .max = 3600,
     .help = "latency of an open"},
    {.name = "stat",
     .type = STK_OPT_DURATION,
     .offset = FIELD(stat_s),
     .arg = "TIME",
     .def = "0",
     .max = 3600,
     .help = "latency of a lookup, stat, directory page or change of names"},
    {.name = "read",
     .type = STK_OPT_DURATION,
     .offset = FIELD(read_s),
     .arg = "TIME",
     .def = "0",
     .max = 3600,
     .help = "latency of a read request; requests overlap"},
    {.name = "write",
     .type = STK_OPT_DURATION,
     .offset = FIELD(write_s),
     .arg = "TIME",
     .def = "0",
     .max = 3600,
     .help = "latency of a write request or fsync"},
    {.name = "bandwidth",
     .type = STK_OPT_SIZE,
     .offset = FIELD(bandwidth_Bps),
     .arg = "SIZE",
     .def = "0",
     .help = "bytes per second in total (500MB = 500,000,000, 500M = 524,288,000; 0: no limit)"},
    {.name = "client-bandwidth",
     .type = STK_OPT_SIZE,
     .offset = FIELD(client_bandwidth_Bps),
     .arg = "SIZE",
     .def = "0",
     .help = "bytes per second and process"},
    {.name = "jitter",
     .type = STK_OPT_PERCENT,
     .offset = FIELD(jitter),
     .arg = "PERCENT",
     .def = "0",
     .max = 100,
     .help = "latency varies by this much either way"},
    {.name = "seed",
     .type = STK_OPT_UNSIGNED,
     .offset = FIELD(seed),
     .arg = "N",
     .def = "0",
     .help = "seed of the jitter"},
    {.name = "catch-up",
     .type = STK_OPT_FLAG,
     .offset = FIELD(catch_up),
     .help = "what an answer is late is taken off the thread's next delay: the mean is what is set"},
    {.name = "max-read",
     .type = STK_OPT_SIZE,
     .offset = FIELD(max_read_bytes),
     .arg = "SIZE",
     .def = "1M",
     .min = 4096,
     .max = 1 << 20,
     .help = "largest read request; larger reads are split"},
    {.name = "readahead",
     .type = STK_OPT_SIZE,
     .offset = FIELD(readahead_bytes),
     .arg = "SIZE",
     .def = "0",
     .max = 1 << 30,
     .help = "the kernel's read-ahead for buffered reads; needs root (0: the default, 128K)"},
    {.name = "cache",
     .type = STK_OPT_ENUM,
     .offset = FIELD(cache),
     .arg = "WHAT",
     .def = "open",
     .choices = caches,
     .help = "pages are dropped when a file is opened again, kept, or never cached"},
    {.name = "meta-cache",
     .type = STK_OPT_DURATION,
     .offset = FIELD(meta_cache_s),
     .arg = "TIME",
     .def = "1",
     .max = 86400,
     .help = "how long the kernel may remember names and attributes"},
    {.name = "faults",
     .type = STK_OPT_STRING,
     .offset = FIELD(faults),
     .arg = "FILE",
     .help = "rules; read again on SIGHUP"},
    {.name = "stats",
     .type = STK_OPT_STRING,
     .offset = FIELD(stats),
     .arg = "FILE",
     .help = "counts as JSON, written at the end and on SIGUSR1"},
    {.name = "threads",
     .type = STK_OPT_UNSIGNED,
     .offset = FIELD(threads),
     .arg = "N",
     .def = "0",
     .max = MAX_THREADS,
     .help = "event threads (0: one per core, at most four)"},
    {.name = "allow-other",
     .type = STK_OPT_FLAG,
     .offset = FIELD(allow_other),
     .help = "other users may use the mount"},
    {.name = "foreground",
     .letter = 'f',
     .type = STK_OPT_FLAG,
     .offset = FIELD(foreground),
     .help = "stay in the foreground"},
    {.name = "help",
     .letter = 'h',
     .type = STK_OPT_FLAG,
     .offset = FIELD(help),
     .help = "this text"},
    {0},
};

static void print_help(void)
{
    puts("usage: slowfs SRC MNT [options]\n\n"
         "Shows SRC at MNT as a slow file system would. Unmount with fusermount3 -u MNT.\n"
         "Faults: write rules to MNT/" CONTROL_NAME "; counts: read MNT/" STATS_NAME ".\n");
    for (const struct stk_opt *o = options; o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", o->name, o->arg ? o->arg : "");
        printf("  %-24s %s%s%s%s\n", left, o->help, o->def ? " (default " : "",
               o->def ? o->def : "", o->def ? ")" : "");
    }
}

static int complain(const struct stk_err *err)
{
    char text[2200];
    fprintf(stderr, "slowfs: %s\n", stk_err_text(err, text, sizeof text));
    return err->code == STK_E_USAGE ? 2 : 4;
}

/* ---- while it is mounted ------------------------------------------------------------------- */

/* Requires root; otherwise reports and ignores the setting. */
static void set_readahead(const struct slowfs *fs, const char *mnt)
{
    struct stat st;
    char path[128], kib[32];
    if (!fs->set.readahead_bytes || stat(mnt, &st) != 0)
        return;
    snprintf(path, sizeof path, "/sys/class/bdi/%u:%u/read_ahead_kb", major(st.st_dev),
             minor(st.st_dev));
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int n = snprintf(kib, sizeof kib, "%llu", (unsigned long long)fs->set.readahead_bytes / 1024);
    if (fd < 0 || write(fd, kib, (size_t)n) != n)
        fprintf(stderr, "slowfs: --readahead: %s: %s\n", path, strerror(errno));
    if (fd >= 0)
        close(fd);
}

static void write_stats(struct slowfs *fs)
{
    struct stk_err err = {0};
    char *text = fs->set.stats ? stats_text(fs) : NULL;
    if (text && stk_write_file_atomic(fs->set.stats, text, strlen(text), &err) != 0)
        complain(&err);
    free(text);
}

static void handle_signals(struct slowfs *fs, const sigset_t *signals)
{
    for (;;) {
        int number = sigwaitinfo(signals, NULL);
        if (number == SIGUSR1)
            write_stats(fs);
        else if (number == SIGHUP)
            control_reload(fs);
        else if (number == SIGTERM || number == SIGINT)
            return;
    }
}

/* Only the main thread handles signals; event threads send it SIGTERM when the mount is gone. */
static int serve(struct slowfs *fs, const char *mnt)
{
    pthread_t thread[MAX_THREADS];
    uint64_t started = 0, one = 1;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    int rc = control_start(fs);
    while (rc == 0 && started < fs->set.threads &&
           (rc = pthread_create(&thread[started], NULL, loop_run, fs)) == 0)
        started++;
    if (rc == 0) {
        set_readahead(fs, mnt);
        handle_signals(fs, &signals);
    }
    fuse_session_exit(fs->session);
    if (write(fs->wake_fd, &one, sizeof one) < 0)
        rc = errno;
    while (started)
        pthread_join(thread[--started], NULL);
    control_stop(fs);
    write_stats(fs);
    return rc;
}

/* ---- start and end ------------------------------------------------------------------------- */

static uint64_t ns_of(double seconds)
{
    return (uint64_t)(seconds * 1e9);
}

static int open_source(struct slowfs *fs, const char *src, struct stk_err *err)
{
    struct pace *p = &fs->pace;
    const struct settings *set = &fs->set;
    p->latency_ns[OP_OPEN] = ns_of(set->open_s);
    p->latency_ns[OP_STAT] = ns_of(set->stat_s);
    p->latency_ns[OP_READ] = ns_of(set->read_s);
    p->latency_ns[OP_WRITE] = ns_of(set->write_s);
    p->link_Bps = set->bandwidth_Bps;
    p->client_Bps = set->client_bandwidth_Bps;
    p->jitter = set->jitter;
    p->seed = set->seed;
    fs->root_fd = open(src, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fs->root_fd < 0)
        return stk_err_sys(err, src, "open");
    fs->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fs->wake_fd < 0)
        return stk_err_sys(err, NULL, "eventfd");
    faults_init(&fs->faults);
    if (nodes_init(&fs->nodes) != 0)
        return stk_err_nomem(err, sizeof fs->nodes);
    return set->faults ? control_load(fs, false, err) : 0;
}

/* Each open file of a caller is one here. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void choose_defaults(struct settings *set)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (!set->threads)
        set->threads = cores < 1 ? 1 : cores > 4 ? 4 : (uint64_t)cores;
    set->max_read_bytes &= ~(uint64_t)4095;
}

static int mount_and_serve(struct slowfs *fs, const char *mnt)
{
    int rc = 4;
    fs->started_ns = now_ns();
    if (session_mount(fs, mnt) == 0 && fuse_daemonize(fs->set.foreground) == 0)
        rc = serve(fs, mnt) == 0 ? 0 : 4;
    session_unmount(fs);
    return rc;
}

/* Closes what was still open when we were told to leave. */
static void close_all(struct slowfs *fs)
{
    struct node *node;
    struct handle *h;
    while (fs->nodes.bucket && (h = nodes_any_handle(&fs->nodes, &node)))
        handle_close(fs, node, h);
    nodes_release(&fs->nodes);
}

/* The daemon works in /: names from the command line are made absolute first. */
static char *absolute(const char *path)
{
    char *cwd = *path == '/' ? strdup("") : getcwd(NULL, 0);
    char *whole = cwd ? stk_path_join(cwd, path) : NULL;
    free(cwd);
    return whole;
}

static int run(struct slowfs *fs, const char *src, const char *mnt)
{
    struct stk_err err = {0};
    char *stats = fs->set.stats ? absolute(fs->set.stats) : NULL;
    char *faults = fs->set.faults ? absolute(fs->set.faults) : NULL;
    char *where = realpath(mnt, NULL);
    fs->set.stats = stats;
    fs->set.faults = faults;
    fs->root_fd = fs->wake_fd = -1;
    choose_defaults(&fs->set);
    raise_file_limit();
    /* A real file server has cores of its own. Requires root; without it, timing is less even. */
    setpriority(PRIO_PROCESS, 0, -10);
    int rc = where ? open_source(fs, src, &err) : stk_err_sys(&err, mnt, "mount point");
    rc = rc == 0 ? mount_and_serve(fs, where) : complain(&err);
    close_all(fs);
    if (fs->root_fd >= 0)
        close(fs->root_fd);
    if (fs->wake_fd >= 0)
        close(fs->wake_fd);
    free(stats);
    free(faults);
    free(where);
    return rc;
}

int main(int argc, char **argv)
{
    static struct slowfs fs;
    struct stk_err err = {0};
    struct stk_opts opts;
    if (stk_opts_init(&opts, "slowfs", options, &fs.set, &err) != 0)
        return complain(&err);
    int rc = 0;
    if (stk_opts_read_argv(&opts, argc - 1, argv + 1, &err) != 0) {
        rc = complain(&err);
    } else if (fs.set.help) {
        print_help();
    } else if (opts.nargs != 2) {
        fputs("usage: slowfs SRC MNT [options]; see slowfs --help\n", stderr);
        rc = 2;
    } else {
        rc = run(&fs, opts.arg[0], opts.arg[1]);
    }
    stk_opts_release(&opts);
    return rc;
}
