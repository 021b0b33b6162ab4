/*
 * confine.c - the list of system calls a reader of files needs, as a filter for seccomp, and the
 * files it may open, as rules for Landlock. Both use raw system calls: they need no library, and
 * headers may be older than the kernel.
 */
#include "base/helper.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- seccomp: the calls --------------------------------------------------------------------- */

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef OUR_ARCH

/* The filter looks at 32 bits at a time; both machines are little-endian. */
#define CALL_NR          offsetof(struct seccomp_data, nr)
#define CALL_ARCH        offsetof(struct seccomp_data, arch)
#define LOW_HALF_OF(arg) (offsetof(struct seccomp_data, args) + 8 * (arg))
#define REFUSED          (SECCOMP_RET_ERRNO | 1 /* EPERM */)
#define MOST_OPS         400

/* Calls that only read, compute or exit, whatever their arguments. libhdf5 locks the files it reads
 * (flock), which is harmless: the lock ends with the process. */
/* clang-format off */
static const int harmless[] = {
    __NR_pread64, __NR_read, __NR_lseek, __NR_clock_gettime, __NR_munmap, __NR_brk, __NR_mremap,
    __NR_madvise, __NR_futex, __NR_close, __NR_fstat, __NR_newfstatat, __NR_statx, __NR_fadvise64,
    __NR_flock, __NR_fstatfs, __NR_statfs, __NR_readlinkat, __NR_faccessat, __NR_getcwd,
    __NR_getrandom, __NR_sched_yield, __NR_nanosleep, __NR_clock_nanosleep, __NR_ppoll,
    __NR_gettimeofday, __NR_getpid, __NR_gettid, __NR_getppid, __NR_getuid, __NR_geteuid,
    __NR_getgid, __NR_getegid, __NR_rt_sigaction, __NR_rt_sigprocmask, __NR_rt_sigreturn,
    __NR_sigaltstack, __NR_restart_syscall, __NR_exit, __NR_exit_group,
#ifdef __x86_64__ /* older variants of some of these */
    __NR_stat, __NR_lstat, __NR_access, __NR_readlink, __NR_poll, __NR_pause, __NR_time,
#endif
};
/* clang-format on */

#define NHARMLESS (sizeof harmless / sizeof *harmless)

struct program {
    struct sock_filter op[MOST_OPS];
    unsigned short n;
};

static void put(struct program *p, unsigned code, unsigned char yes, unsigned char no, uint32_t k)
{
    if (p->n < MOST_OPS)
        p->op[p->n++] = (struct sock_filter){(unsigned short)code, yes, no, k};
}

static void load(struct program *p, size_t offset)
{
    put(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

static void answer(struct program *p, uint32_t action)
{
    put(p, BPF_RET | BPF_K, 0, 0, action);
}

/* Allows the call if the argument is one of these. */
static void allow_with(struct program *p, int nr, unsigned arg, const uint32_t *value, unsigned n)
{
    put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, (unsigned char)(2 * n + 2), (uint32_t)nr);
    load(p, LOW_HALF_OF(arg));
    for (unsigned i = 0; i < n; i++) {
        put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, value[i]);
        answer(p, SECCOMP_RET_ALLOW);
    }
    answer(p, REFUSED);
}

/* Allows the call if the argument has none of these bits. */
static void allow_without(struct program *p, int nr, unsigned arg, uint32_t bits)
{
    put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, (uint32_t)nr);
    load(p, LOW_HALF_OF(arg));
    put(p, BPF_JMP | BPF_JSET | BPF_K, 1, 0, bits);
    answer(p, SECCOMP_RET_ALLOW);
    answer(p, REFUSED);
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Finds where ranges of consecutive numbers begin and (exclusively) end; `edge` has room for two
 * per number. */
static size_t find_edges(int *nr, size_t n, uint32_t *edge)
{
    size_t edges = 0;
    qsort(nr, n, sizeof *nr, by_number);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || nr[i] != nr[i - 1] + 1)
            edge[edges++] = (uint32_t)nr[i];
        if (i == n - 1 || nr[i] + 1 != nr[i + 1])
            edge[edges++] = (uint32_t)nr[i] + 1;
    }
    return edges;
}

/* A binary search: the kernel runs the filter on every call number when it installs it, and a
 * linear list would take as long as the fork. inside: whether numbers below the first edge are
 * allowed. */
static void search(struct program *p, const uint32_t *edge, size_t n, bool inside)
{
    if (n == 0) {
        answer(p, inside ? SECCOMP_RET_ALLOW : REFUSED);
        return;
    }
    size_t half = n / 2;
    unsigned short at = p->n;
    put(p, BPF_JMP | BPF_JGE | BPF_K, 0, 0, edge[half]);
    search(p, edge, half, inside);
    p->op[at].jt = (unsigned char)(p->n - at - 1);
    search(p, edge + half + 1, n - half - 1, inside != (half % 2 == 0));
}

static void allow_some_arguments(struct program *p, int answers)
{
    const uint32_t out[] = {(uint32_t)answers, STDOUT_FILENO, STDERR_FILENO};
    const uint32_t queries[] = {F_GETFD, F_SETFD, F_GETFL, F_DUPFD, F_DUPFD_CLOEXEC};
    const uint32_t self[] = {(uint32_t)getpid()};
    const uint32_t writing =
        O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY);
    allow_with(p, __NR_write, 0, out, 3);
    allow_with(p, __NR_writev, 0, out, 3);
    allow_without(p, __NR_openat, 2, writing);
#ifdef __NR_open
    allow_without(p, __NR_open, 1, writing);
#endif
    allow_without(p, __NR_mmap, 2, PROT_EXEC);
    allow_without(p, __NR_mprotect, 2, PROT_EXEC);
    allow_with(p, __NR_fcntl, 1, queries, 5);
    /* To itself: how abort() ends a process. */
    allow_with(p, __NR_tgkill, 0, self, 1);
    allow_with(p, __NR_tkill, 0, self, 1);
}

/* Refuses instead of killing: a profiler or an allocator loaded into the process may try more than
 * the library does, and copes with the error. Calls with another architecture's numbers are no
 * mistake. */
static void make_program(struct program *p, int answers)
{
    load(p, CALL_ARCH);
    put(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, OUR_ARCH);
    answer(p, SECCOMP_RET_KILL_PROCESS);
    load(p, CALL_NR);
    allow_some_arguments(p, answers);
    int sorted[NHARMLESS];
    uint32_t edge[2 * NHARMLESS];
    memcpy(sorted, harmless, sizeof sorted);
    search(p, edge, find_edges(sorted, NHARMLESS, edge), false);
}

static bool confine_calls(int answers)
{
    struct program p = {.n = 0};
    make_program(&p, answers);
    struct sock_fprog prog = {.len = p.n, .filter = p.op};
    return p.n < MOST_OPS && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0;
}

#else

static bool confine_calls(int answers)
{
    (void)answers;
    return false;
}

#endif

/* ---- Landlock: the files -------------------------------------------------------------------- */

/* From <linux/landlock.h>, which older distributions lack. */
#define CREATE_RULESET  444
#define ADD_RULE        445
#define RESTRICT_SELF   446
#define ABI_VERSION     1u
#define PATH_BENEATH    1
#define READ_FILE       (1ull << 2)
#define FS_OF_ABI_1     ((1ull << 13) - 1)
#define FS_REFER        (1ull << 13) /* ABI 2 */
#define FS_TRUNCATE     (1ull << 14) /* 3 */
#define FS_IOCTL_DEV    (1ull << 15) /* 5 */
#define NET_BIND_TCP    (1ull << 0)  /* 4 */
#define NET_CONNECT_TCP (1ull << 1)
#define SCOPE_ABSTRACT  (1ull << 0) /* 6: sockets without a file */
#define SCOPE_SIGNAL    (1ull << 1)

struct ruleset {
    uint64_t fs, net, scoped;
};

struct path_beneath {
    uint64_t allowed;
    int32_t fd;
} __attribute__((packed));

/* Everything that this kernel can refuse, unless a rule allows it. */
static struct ruleset everything(long abi)
{
    return (struct ruleset){.fs = FS_OF_ABI_1 | (abi >= 2 ? FS_REFER : 0) |
                                  (abi >= 3 ? FS_TRUNCATE : 0) | (abi >= 5 ? FS_IOCTL_DEV : 0),
                            .net = abi >= 4 ? NET_BIND_TCP | NET_CONNECT_TCP : 0,
                            .scoped = abi >= 6 ? SCOPE_ABSTRACT | SCOPE_SIGNAL : 0};
}

static bool may_read(int rules, int fd)
{
    struct path_beneath rule = {.allowed = READ_FILE, .fd = fd};
    return syscall(ADD_RULE, rules, PATH_BENEATH, &rule, 0) == 0;
}

/* The descriptor of /proc/self/maps stays open: the rule names its inode, and procfs makes a new
 * inode once nobody holds the old one. */
static bool confine_files(int readable)
{
    long abi = syscall(CREATE_RULESET, NULL, 0, ABI_VERSION);
    if (abi < 1)
        return false;
    struct ruleset all = everything(abi);
    int rules = (int)syscall(CREATE_RULESET, &all, sizeof all, 0);
    if (rules < 0)
        return false;
    int maps = open("/proc/self/maps", O_PATH | O_CLOEXEC);
    bool done = may_read(rules, readable) && (maps < 0 || may_read(rules, maps)) &&
                syscall(RESTRICT_SELF, rules, 0) == 0;
    close(rules);
    return done;
}

/* ---- both ----------------------------------------------------------------------------------- */

unsigned stk_confine(const struct stk_confine *c)
{
    unsigned held = 0;
    /* Works without seccomp and Landlock, too: no file grows. Pipes do not count as files. */
    const struct rlimit none = {0, 0};
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)setrlimit(RLIMIT_FSIZE, &none);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return 0;
    if (confine_files(c->readable))
        held |= STK_CONFINED_FILES;
    if (confine_calls(c->answers))
        held |= STK_CONFINED_CALLS;
    return held;
}
