/*
 * snapshot.c - the header of a log: who the process is, and the kernel's counts for it. Our own
 * count of bytes is compared with the kernel's.
 */
#include "base/rank_vars.h"
#include "base/secret.h"
#include "preload/priv.h"
#include "proflog/libraries.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>

static struct {
    char exe[512], command[2048], environment[2048];
} self;

/* The variables that tell rank, job and devices. */
static const char *const wanted[] = {
#define X(from, rank, world, local_rank, local_world) rank, world, local_rank, local_world,
    STK_RANK_LAUNCHERS(X)
#undef X
        STK_RANK_NODE,
    STK_RANK_NODE_TASKS,
    "GROUP_RANK",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_NTASKS",
    "CUDA_VISIBLE_DEVICES"};

static bool is_wanted(const char *variable)
{
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (!wanted[i] || wanted[i][0] != variable[0])
            continue;
        size_t n = strlen(wanted[i]);
        if (n && strncmp(variable, wanted[i], n) == 0 && variable[n] == '=')
            return true;
    }
    return false;
}

/* Appends n bytes of text and a NUL, completely or (if cut is allowed) their beginning; two NULs
 * always end the result. */
static size_t append(char *to, size_t at, size_t room, const char *text, size_t n, bool cut)
{
    if (at + n + 2 > room) {
        if (!cut || at + 3 > room)
            return at;
        n = room - at - 2;
    }
    memcpy(to + at, text, n);
    to[at + n] = 0;
    return at + n + 1;
}

/* The same for a word of the command, with likely secrets masked. */
static size_t append_word(size_t at, struct stk_secret *s, const char *word)
{
    size_t n = strlen(word), from = 0, begin, len;
    n = n < sizeof self.command ? n : sizeof self.command; /* the rest is dropped */
    while ((begin = stk_secret_find(s, word, n, from, &len)) < n) {
        size_t next =
            append(self.command, at, sizeof self.command, word + from, begin - from, true);
        at = next > at ? next - 1 : at; /* the next part overwrites its NUL */
        next = append(self.command, at, sizeof self.command, STK_SECRET_MASK,
                      sizeof STK_SECRET_MASK - 1, true);
        at = next > at ? next - 1 : at;
        from = begin + len;
    }
    return append(self.command, at, sizeof self.command, word + from, n - from, true);
}

void stk_pl_remember(int argc, char **argv, char **envp)
{
    struct utsname u;
    struct stk_secret secret = {0};
    size_t at = 0;
    for (int i = 0; argv && i < argc && argv[i]; i++)
        at = append_word(at, &secret, argv[i]);
    at = 0;
    for (char **e = envp; e && *e; e++)
        if (is_wanted(*e))
            at = append(self.environment, at, sizeof self.environment, *e, strlen(*e), false);
    stk_sys4(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", self.exe, sizeof self.exe - 1);
    stk_pl_rules_program(stk_pl_is_python(), self.exe, argc, argv);
    if (stk_sys1(SYS_uname, &u) < 0 || !u.nodename[0])
        strcpy(u.nodename, "localhost");
    size_t n = strnlen(u.nodename, sizeof stk_pl.host - 1);
    for (size_t i = 0; i < n; i++) /* it becomes part of a file name */
        stk_pl.host[i] = stk_name_char(u.nodename[i]);
    stk_pl.host[n] = 0;
}

void stk_pl_snapshot(struct stk_log_header *h)
{
    struct rusage use;
    struct timespec cpu;
    stk_pl_kernel_io(h->kernel);
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0)
        h->cpu_ns = (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec;
    if (stk_sys2(SYS_getrusage, RUSAGE_SELF, &use) >= 0) {
        uint64_t user_ms = (uint64_t)use.ru_utime.tv_sec * 1000 + (uint64_t)use.ru_utime.tv_usec / 1000;
        h->user_ms = user_ms < UINT32_MAX ? (uint32_t)user_ms : UINT32_MAX;
        h->minor_faults = (uint64_t)use.ru_minflt;
        h->major_faults = (uint64_t)use.ru_majflt;
    }
}

uint32_t stk_pl_pid_space(void)
{
    struct stat st;
    if (stk_sys4(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/pid", &st, 0) < 0)
        return 0;
    return (uint32_t)st.st_ino;
}

void stk_pl_library(const char *path)
{
    uint64_t bit = stk_library_of(path);
    if (bit)
        __atomic_fetch_or(&stk_pl.log->libraries, bit, __ATOMIC_RELAXED);
}

void stk_pl_header_fill(struct stk_log_header *h, enum stk_log_born born)
{
    h->version = STK_LOG_VERSION;
    h->header_bytes = sizeof *h;
    h->block_bytes = STK_LOG_BLOCK;
    h->counters = STK_C_COUNT;
    h->pid = (uint32_t)stk_sys0(SYS_getpid);
    h->ppid = (uint32_t)stk_sys0(SYS_getppid);
    h->pid_space = stk_pl_pid_space();
    h->born = born;
    h->start_mono_ns = stk_pl.start_mono_ns;
    uint64_t passed = stk_pl_clock_mono() - stk_pl.start_mono_ns;
    h->start_real_ns = stk_pl_clock_real() - passed;
    h->trace = stk_pl.trace;
    stk_pl_places_name(h);
    memcpy(h->name, stk_pl.name, strnlen(stk_pl.name, sizeof h->name - 1));
    memcpy(h->host, stk_pl.host, sizeof h->host);
    memcpy(h->exe, self.exe, sizeof h->exe);
    memcpy(h->command, self.command, sizeof h->command);
    memcpy(h->environment, self.environment, sizeof h->environment);
    stk_sys2(SYS_getcwd, h->cwd, sizeof h->cwd);
    if (h->cwd[0] != '/')
        h->cwd[0] = 0;
    if (born != STK_BORN_FORK) /* a forked child's counts start at 0 */
        stk_pl_kernel_io(h->kernel0);
    memcpy(h->kernel, h->kernel0, sizeof h->kernel);
    h->libraries = STK_LIBRARIES_SEEN;
    h->nblocks = 1;
    __atomic_store_n(&h->magic, STK_LOG_MAGIC, __ATOMIC_RELEASE);
}
