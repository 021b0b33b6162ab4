/*
 * stress.c - everything at once: threads that come and go read their files through descriptors that
 * are opened, dup'ed and closed all the time; a timer's handler reads, too, and sometimes jumps out
 * of whatever it interrupted; processes are forked from any thread, read and are gone; programs are
 * started by vfork. `stress FOLDER N` prints how many reads were done of FOLDER/a.bin and (by the
 * handler) FOLDER/b.bin, both of ten pages.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE    4096
#define PAGES   10
#define THREADS 4

static char a[4096], b[4096];
static int rounds, handler_fd;
static atomic_long *reads, *handled; /* shared with the children */
static pthread_t main_thread;
static sigjmp_buf out;
static volatile sig_atomic_t may_jump;

static void fail(const char *what)
{
    perror(what);
    _exit(3);
}

/* One look at the file, by read() and pread(), through a dup. */
static void look(void)
{
    char page[PAGE];
    int fd = open(a, O_RDONLY), other = fd < 0 ? -1 : dup(fd);
    if (other < 0)
        fail(a);
    for (int i = 0; i < PAGES; i++)
        if ((i & 1 ? read(fd, page, PAGE) : pread(other, page, PAGE, i * PAGE)) != PAGE)
            fail("read");
    close(fd);
    close(other);
    atomic_fetch_add(reads, PAGES);
}

static void in_a_child(void)
{
    pid_t pid = fork();
    if (pid < 0)
        fail("fork");
    if (pid == 0) {
        look();
        _exit(0);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0)
        ;
    if (status)
        fail("child");
}

static void in_a_program(void)
{
    pid_t pid = vfork();
    if (pid < 0)
        fail("vfork");
    if (pid == 0) {
        dup2(handler_fd, 0);
        close(handler_fd);
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0)
        ;
    if (status)
        fail("program");
}

static void *short_thread(void *none)
{
    look();
    return none;
}

static void *work(void *number)
{
    for (int i = 0; i < rounds; i++) {
        look();
        if (i % 16 == 3) {
            pthread_t one;
            if (pthread_create(&one, NULL, short_thread, NULL) || pthread_join(one, NULL))
                fail("thread");
        }
        if (i % 64 == 7)
            in_a_child();
        if (i % 64 == 40)
            in_a_program();
    }
    return number;
}

static void on_timer(int number)
{
    char page[PAGE];
    (void)number;
    if (pread(handler_fd, page, PAGE, 0) == PAGE)
        atomic_fetch_add(handled, 1);
    if (may_jump && pthread_equal(pthread_self(), main_thread))
        siglongjmp(out, 1);
}

/* Reads of b.bin that are left in the middle, by the main thread: how many ended is not known. */
static void jumps(void)
{
    char page[PAGE];
    for (volatile int i = 0; i < 300; i++) {
        if (sigsetjmp(out, 1))
            continue;
        may_jump = 1;
        for (int k = 0; k < 2000; k++)
            if (pread(handler_fd, page, PAGE, PAGE) != PAGE)
                fail("pread");
        may_jump = 0;
    }
    may_jump = 0;
}

static volatile sig_atomic_t forked, is_child;

static void fork_here(int number)
{
    (void)number;
    if (is_child || forked >= rounds)
        return;
    pid_t pid = fork();
    is_child = pid == 0;
    forked += pid > 0;
}

static int handler(void)
{
    char page[PAGE];
    int status, bad = 0, fd = open(a, O_RDONLY);
    struct sigaction sa = {.sa_handler = fork_here, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    if (fd < 0 || sigaction(SIGALRM, &sa, NULL) || setitimer(ITIMER_REAL, &often, NULL))
        fail("begin");
    for (int i = 0; !is_child && forked < rounds; i++) {
        if (pread(fd, page, 1, i % PAGE) != 1)
            fail("pread");
        if (i % 50 == 0)
            close(open(a, O_RDONLY));
    }
    setitimer(ITIMER_REAL, &never, NULL);
    if (is_child) {
        int other = open(b, O_RDONLY);
        for (int i = 0; i < PAGES; i++)
            if (read(other, page, PAGE) != PAGE)
                fail("read");
        _exit(0);
    }
    while (wait(&status) > 0)
        bad += status != 0;
    printf("%d %d\n", (int)forked, bad);
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t thread[THREADS];
    if (argc < 3)
        return 2;
    snprintf(a, sizeof a, "%s/a.bin", argv[1]);
    snprintf(b, sizeof b, "%s/b.bin", argv[1]);
    rounds = atoi(argv[2]);
    if (argc > 3)
        return handler();
    main_thread = pthread_self();
    reads = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    handled = reads + 1;
    handler_fd = open(b, O_RDONLY);
    struct sigaction sa = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    if (handler_fd < 0 || sigaction(SIGALRM, &sa, NULL) || setitimer(ITIMER_REAL, &often, NULL))
        fail("begin");
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, work, NULL))
            fail("thread");
    jumps();
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    close(
        -1); /* a call from here, above whatever was left by a jump, and the thread is seen again */
    look();
    printf("%ld %ld\n", atomic_load(reads), atomic_load(handled));
    return 0;
}
