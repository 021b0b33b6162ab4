/*
 * harm.c - programs that a library inside them can easily break: harm CASE FOLDER [MORE] does one.
 * FOLDER has a.bin of ten pages. What each prints must not depend on whether somebody watches.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE  4096
#define PAGES 10

static char file[4096];
static const char *more;

static void fail(const char *what)
{
    perror(what);
    _exit(3);
}

static int read_file(void)
{
    char some[64];
    int fd = open(file, O_RDONLY), reads = 0;
    if (fd < 0)
        fail(file);
    for (int i = 0; i < PAGES; i++)
        reads += pread(fd, some, sizeof some, (off_t)i * PAGE) == (ssize_t)sizeof some;
    close(fd);
    return reads;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- little stack ---- */

/* A thread with the smallest stack there is reads, and forks a child that reads. */
static void *small_thread(void *sum)
{
    int status = 0;
    *(int *)sum += read_file();
    pid_t child = fork();
    if (child == 0)
        _exit(read_file() == PAGES ? 0 : 1);
    waitpid(child, &status, 0);
    *(int *)sum += status == 0;
    return NULL;
}

static void small_stack(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int sum = 0;
    long least = sysconf(_SC_THREAD_STACK_MIN);
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, (size_t)least) ||
        pthread_create(&thread, &attributes, small_thread, &sum))
        fail("thread");
    pthread_join(thread, NULL);
    printf("%d\n", sum);
}

static volatile sig_atomic_t handled;

static void on_signal(int number)
{
    (void)number;
    handled += read_file();
}

/* A handler with 3 KiB for itself, below which nothing is mapped, does the process's first I/O. */
static void alternate_stack(void)
{
    unsigned long frame = getauxval(51 /* AT_MINSIGSTKSZ */);
    size_t size = ((frame ? frame : MINSIGSTKSZ) + 3072 + PAGE - 1) / PAGE * PAGE;
    size_t asked = (frame ? frame : MINSIGSTKSZ) + 3072;
    char *at = mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at, PAGE, PROT_NONE))
        fail("mmap");
    stack_t stack = {.ss_sp = at + PAGE, .ss_size = asked};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL))
        fail("sigaltstack");
    raise(SIGUSR1);
    printf("%d\n", (int)handled);
}

/* ---- the loader ---- */

/* A library whose constructor waits for a thread that does I/O, while the loader's lock is held. */
static void constructor(void)
{
    alarm(300);
    void *library = dlopen(more, RTLD_NOW);
    printf("%s\n", library ? "loaded" : dlerror());
}

/* What dlerror() has to say is the program's, whatever it calls before it asks. */
static void loader_error(void)
{
    struct iovec;
    if (dlopen("/none/such.so", RTLD_NOW))
        fail("dlopen");
    read_file();
    unlink("/none/file");
    dprintf(1, "%s", "");
    const char *why = dlerror();
    printf("%s\n", why && strstr(why, "/none/such.so") ? "kept" : why ? why : "lost");
    if (fcntl(99, F_GETFD) != -1 || (why = dlerror()))
        printf("made: %s\n", why ? why : "fcntl");
}

/* ---- sandboxes ---- */

static _Noreturn void leave(int status)
{
    for (;;)
        syscall(SYS_exit, status);
}

static void read_much(int fd)
{
    char some[PAGE];
    for (int i = 0; i < 200000; i++)
        if (read(fd, some, sizeof some) < 0)
            leave(4);
}

/* Only read(), write(), exit() are allowed: anything else is death. */
static void strict_sandbox(void)
{
    read_file();
    int fd = open("/dev/zero", O_RDONLY);
    if (prctl(PR_SET_SECCOMP, 77, 0, 0, 0) != -1) /* a try that fails changes nothing */
        fail("prctl");
    if (fd < 0 || read_file() != PAGES || prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0))
        fail("seccomp");
    read_much(fd);
    if (write(1, "done\n", 5) != 5)
        leave(5);
    leave(0);
}

/* The same by a filter, which also lets threads end and the process exit. */
static void *filtered(void *fd)
{
    read_much(*(int *)fd);
    return NULL;
}

static void filter_sandbox(void)
{
    static const int allowed[] = {
        SYS_read,          SYS_write,        SYS_exit_group,     SYS_exit,   SYS_futex,
        SYS_clone,         SYS_clone3,       SYS_mmap,           SYS_munmap, SYS_mprotect,
        SYS_madvise,       SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rseq,   SYS_set_robust_list,
        SYS_clock_gettime, SYS_getrandom,    SYS_sched_yield,    SYS_brk};
    struct sock_filter program[64];
    unsigned short n = 0;
    program[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        program[n++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1);
        program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0x80000000u /* KILL_PROCESS */);
    struct sock_fprog filter = {n, program};
    pthread_t thread;
    read_file();
    int fd = open("/dev/zero", O_RDONLY);
    if (fd < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter))
        fail("seccomp");
    if (pthread_create(&thread, NULL, filtered, &fd))
        leave(6);
    pthread_join(thread, NULL);
    if (write(1, "done\n", 5) != 5)
        leave(5);
    exit(0);
}

/* The time stamp counter is forbidden: some sandboxes do. */
static void no_counter(void)
{
    int sum = read_file();
#ifdef PR_SET_TSC
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) && errno != EINVAL)
        fail("prctl");
#endif
    sum += read_file();
    if (write(1, sum == 2 * PAGES ? "done\n" : "less\n", 5) != 5)
        _exit(5);
    _exit(0);
}

/* ---- threads that are ended ---- */

static int pipe_ends[2];
static atomic_int cleaned;

static void clean(void *none)
{
    (void)none;
    atomic_fetch_add(&cleaned, 1);
}

static void *waits(void *none)
{
    char c;
    pthread_cleanup_push(clean, NULL);
    if (read(pipe_ends[0], &c, 1) != 1) /* a cancellation point */
        fail("pipe");
    pthread_cleanup_pop(0);
    return none;
}

static void *opens(void *none)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;) {
        int fd = open(file, O_RDONLY | O_CLOEXEC);
        struct timespec until = {0, 0};
        nanosleep(&until, NULL);
        if (fd >= 0)
            close(fd);
    }
    return none;
}

/* In the middle of read(), and anywhere in a loop of open() and close(). */
static void cancelled(void)
{
    struct rlimit many = {4096, 4096};
    setrlimit(RLIMIT_NOFILE, &many);
    alarm(300);
    if (pipe(pipe_ends))
        fail("pipe");
    for (int i = 0; i < 300; i++) {
        pthread_t one, two;
        if (pthread_create(&one, NULL, waits, NULL) || pthread_create(&two, NULL, opens, NULL))
            fail("thread");
        usleep(100 + (unsigned)i * 7 % 500);
        pthread_cancel(one);
        pthread_cancel(two);
        pthread_join(one, NULL);
        pthread_join(two, NULL);
    }
    printf("%d %d\n", (int)cleaned, read_file());
}

/* ---- descriptors that are closed while they are read ---- */

static atomic_int shared_fd, over;

static void *reads_on(void *none)
{
    char some[64];
    while (!atomic_load(&over)) {
        ssize_t n = pread(atomic_load(&shared_fd), some, sizeof some, 0);
        if (n < 0 && errno != EBADF && errno != ESPIPE && errno != EISDIR)
            fail("pread");
    }
    return none;
}

static void closed_while_read(void)
{
    pthread_t thread[2];
    atomic_store(&shared_fd, open(file, O_RDONLY));
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, reads_on, NULL);
    for (double until = seconds() + 1; seconds() < until;) {
        int other[2], fd = atomic_load(&shared_fd);
        char c = 0;
        close(fd);
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, other)) /* takes the number, and is no file */
            fail("socketpair");
        if (write(other[0], &c, 1) != 1 || read(other[1], &c, 1) != 1)
            fail("socket");
        close(other[0]);
        close(other[1]);
        atomic_store(&shared_fd, open(file, O_RDONLY));
        if (dup2(atomic_load(&shared_fd), 200) == 200)
            close(200);
    }
    atomic_store(&over, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    printf("%d\n", read_file());
}

/* ---- handlers that jump out of open(), of a thread that does no I/O from then on ---- */

static sigjmp_buf out;
static volatile sig_atomic_t may_jump;
static pthread_t jumper;

static void jump(int number)
{
    (void)number;
    if (pthread_equal(pthread_self(), jumper) && may_jump) {
        may_jump = 0;
        siglongjmp(out, 1);
    }
}

static atomic_int is_out;

static void *jumps(void *none)
{
    jumper = pthread_self();
    if (!sigsetjmp(out, 1)) {
        for (int i = 0;; i++) {
            char name[4200];
            snprintf(name, sizeof name, "%s.%d.%d", file, getpid(), i);
            may_jump = 1;
            int fd = open(name, O_RDONLY); /* none such: a new name, all locks are needed */
            may_jump = 0;
            if (fd >= 0)
                close(fd);
        }
    }
    atomic_store(&is_out, 1);
    while (!atomic_load(&over))
        sched_yield();
    return none;
}

static void jumped(void)
{
    struct sigaction action = {.sa_handler = jump, .sa_flags = SA_RESTART};
    sigaction(SIGUSR2, &action, NULL);
    alarm(300);
    for (int i = 0; i < 80; i++) {
        pthread_t thread;
        char name[4200];
        atomic_store(&over, 0);
        atomic_store(&is_out, 0);
        if (pthread_create(&thread, NULL, jumps, NULL))
            fail("thread");
        while (!atomic_load(&is_out)) {
            for (double until = seconds() + 0.00005; seconds() < until;)
                ;
            pthread_kill(thread, SIGUSR2);
        }
        snprintf(name, sizeof name, "%s.new.%d", file, i);
        close(open(name, O_CREAT | O_RDWR, 0600));
        unlink(name);
        atomic_store(&over, 1);
        pthread_join(thread, NULL);
    }
    printf("%d\n", read_file());
}

/* ---- memory ---- */

extern void *__libc_calloc(size_t, size_t);
extern void *__libc_malloc(size_t);
static _Thread_local int watching, allocated;

void *calloc(size_t n, size_t size)
{
    allocated += watching;
    return __libc_calloc(n, size);
}

void *malloc(size_t size)
{
    allocated += watching;
    return __libc_malloc(size);
}

/* So many keys of thread-specific data, before any library begins, that one more needs memory. */
static void take_keys(void)
{
    pthread_key_t key;
    for (int i = 0; i < 64; i++)
        pthread_key_create(&key, NULL);
}
__attribute__((section(".preinit_array"), used)) static void (*const before_all)(void) = take_keys;

static void *first_io(void *sum)
{
    watching = 1;
    *(int *)sum += read_file() - PAGES;
    watching = 0;
    *(int *)sum += allocated;
    return NULL;
}

/* The first I/O of a thread may be in a handler that interrupted malloc(). */
static void allocates(void)
{
    pthread_t thread;
    int sum = 0;
    read_file();
    if (pthread_create(&thread, NULL, first_io, &sum))
        fail("thread");
    pthread_join(thread, NULL);
    printf("%d\n", sum);
}

/* ---- many threads, one after the other ---- */

static void *short_thread(void *sum)
{
    *(int *)sum += read_file();
    return NULL;
}

static void many_threads(void)
{
    int sum = 0;
    for (int i = 0; i < 2000; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, short_thread, &sum))
            fail("thread");
        pthread_join(thread, NULL);
    }
    printf("%d\n", sum);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"small_stack", small_stack},
                 {"alternate_stack", alternate_stack},
                 {"constructor", constructor},
                 {"loader_error", loader_error},
                 {"strict_sandbox", strict_sandbox},
                 {"filter_sandbox", filter_sandbox},
                 {"cancelled", cancelled},
                 {"closed_while_read", closed_while_read},
                 {"jumped", jumped},
                 {"allocates", allocates},
                 {"many_threads", many_threads},
                 {"no_counter", no_counter}};
    if (argc < 3)
        return 2;
    snprintf(file, sizeof file, "%s/a.bin", argv[2]);
    more = argc > 3 ? argv[3] : "";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    return 2;
}
