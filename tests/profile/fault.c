/*
 * fault.c - programs that end or behave in ways that break profilers: fault CASE FOLDER does one.
 * FOLDER has f00.bin … f63.bin of 40,960 bytes. What each prints, and its end, must not depend on
 * whether somebody watches.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE  4096
#define PAGES 10
#define FILES 64

extern char **environ;
static const char *self, *folder;

static const char *file(int i)
{
    static _Thread_local char path[4096];
    snprintf(path, sizeof path, "%s/f%02d.bin", folder, i);
    return path;
}

/* Ten reads of a page; returns the bytes. */
static long read_through(int fd)
{
    char page[PAGE];
    long total = 0;
    for (int i = 0; i < PAGES; i++) {
        ssize_t n = read(fd, page, sizeof page);
        if (n > 0)
            total += n;
    }
    return total;
}

static long read_file(const char *path)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0) {
        perror(path);
        exit(3);
    }
    long total = read_through(fd);
    close(fd);
    return total;
}

static void say(const char *what, long n)
{
    printf("%s %ld\n", what, n);
    fflush(stdout);
}

/* ---- how it ends ---- */

static void end_kill(void)
{
    kill(getpid(), SIGKILL);
}
static void end_abort(void)
{
    abort();
}
static void end__exit(void)
{
    _exit(7);
}
static void end_exit_group(void)
{
    syscall(SYS_exit_group, 9);
}
static void end_segv(void)
{
    raise(SIGSEGV);
}
static void end_term(void)
{
    raise(SIGTERM);
}
static void end_quick_exit(void)
{
    quick_exit(11);
}
static void end_return(void)
{
}

/* ---- children ---- */

static void wait_for(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0)
        say("child ended with", status);
}

static void do_fork64(void)
{
    pid_t child[FILES];
    for (int i = 0; i < FILES; i++) {
        child[i] = fork();
        if (child[i] == 0)
            _exit(read_file(file(i)) == PAGE * PAGES ? 0 : 1);
    }
    for (int i = 0; i < FILES; i++)
        wait_for(child[i]);
    say("children", FILES);
}

static void do_vfork(void)
{
    for (volatile int i = 0; i < 3; i++) {
        pid_t child = vfork();
        if (child == 0) {
            execl(self, self, "read", folder, (char *)NULL);
            _exit(1);
        }
        wait_for(child);
    }
    say("vforked", 3);
}

static void do_spawn(void)
{
    for (int i = 0; i < 3; i++) {
        char *argv[] = {(char *)self, (char *)"read", (char *)folder, NULL};
        pid_t child = -1;
        if (posix_spawn(&child, self, NULL, NULL, argv, environ) == 0)
            wait_for(child);
    }
    say("spawned", 3);
}

static void do_system(void)
{
    char line[8192];
    snprintf(line, sizeof line, "'%s' read '%s' && (exec '%s' read '%s')", self, folder, self,
             folder);
    say("system", system(line));
}

/* Three programs one after another in one process; the last one returns. */
static void do_exec(void)
{
    const char *left = getenv("FAULT_LEFT");
    int n = left ? atoi(left) : 2;
    char text[16];
    say("read", read_file(file(n)));
    if (n == 0)
        return;
    snprintf(text, sizeof text, "%d", n - 1);
    setenv("FAULT_LEFT", text, 1);
    execl(self, self, "exec", folder, (char *)NULL);
    perror("exec");
}

static void do_exec_fails(void)
{
    execl("/nonexistent/program", "program", (char *)NULL);
    say("read after exec failed", read_file(file(1)));
}

static void do_read(void)
{
    say("read", read_file(file(0)));
}

/* ---- descriptors ---- */

static void do_closeall(void)
{
    say("before", read_file(file(0)));
    int kept = open(file(1), O_RDONLY);
    closefrom(3);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    say("closed", read(kept, &kept, 1));
    say("after", read_file(file(2)));
    syscall(SYS_close_range, 3u, ~0u, 0u);
    say("again", read_file(file(3)));
}

static void do_reuse(void)
{
    long total = 0;
    for (int i = 0; i < 1000; i++)
        total += read_file(file(i % 4));
    int a = open(file(4), O_RDONLY), b = open(file(5), O_RDONLY);
    total += read_through(a);
    dup2(b, a); /* a is file 5 from here on, at its start */
    total += read_through(a);
    close(a);
    close(b);
    say("bytes", total);
}

static void do_chdir(void)
{
    char away[4096];
    snprintf(away, sizeof away, "%s/away", folder);
    if (chdir(folder) != 0)
        exit(3);
    say("here", read_file("f00.bin"));
    if (chdir(away) != 0)
        exit(3);
    say("there", read_file("../f01.bin"));
    int dir = open(folder, O_RDONLY | O_DIRECTORY), fd = openat(dir, "f02.bin", O_RDONLY);
    say("at", read_through(fd));
    close(fd);
    close(dir);
}

static void do_gone(void)
{
    char away[4200];
    snprintf(away, sizeof away, "%s.renamed", file(1));
    int deleted = open(file(0), O_RDONLY), renamed = open(file(1), O_RDONLY);
    unlink(file(0));
    rename(file(1), away);
    say("deleted", read_through(deleted));
    say("renamed", read_through(renamed));
    close(deleted);
    close(renamed);
    say("new name", read_file(away));
}

static void do_hugefd(void)
{
    struct rlimit most;
    getrlimit(RLIMIT_NOFILE, &most);
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
    int fd = open(file(0), O_RDONLY);
    int top = (int)(most.rlim_cur > 1000000 ? 1000000 : most.rlim_cur) - 1;
    if (dup2(fd, top) != top)
        perror("dup2");
    close(fd);
    say("from the highest descriptor", read_through(top));
    close(top);
}

static void do_names(void)
{
    static const char *const names[] = {"new\nline.bin", "esc\033[31m.bin", "latin\xe9.bin",
                                        "quote\"back\\slash.bin", "tab\tcomma,.bin"};
    char path[4096];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        int fd = open(path, O_RDWR | O_CREAT, 0644);
        if (write(fd, path, 10) != 10 || pread(fd, path, 10, 0) != 10)
            perror("names");
        close(fd);
    }
    say("names", 5);
}

/* Standard descriptors closed: files get the numbers 0 to 2. */
static void do_nostd(void)
{
    close(0);
    close(2);
    say("read", read_file(file(0)));
}

/* ---- threads and signals ---- */

static volatile long in_handler;
static int handler_fd;

static void on_alarm(int number)
{
    char byte;
    int saved = errno;
    (void)number;
    if (pread(handler_fd, &byte, 1, 0) == 1)
        __atomic_add_fetch(&in_handler, 1, __ATOMIC_RELAXED);
    errno = saved;
}

static void *reader(void *arg)
{
    char page[PAGE];
    int fd = open(file((int)(intptr_t)arg), O_RDONLY);
    long total = 0;
    for (int i = 0; i < 20000; i++)
        total += pread(fd, page, sizeof page, (off_t)(i % PAGES) * PAGE);
    close(fd);
    return (void *)total;
}

static void do_threads(void)
{
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    pthread_t thread[4];
    long total = 0;
    handler_fd = open(file(10), O_RDONLY);
    sigaction(SIGALRM, &sa, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, reader, (void *)(intptr_t)i);
    for (int i = 0; i < 4; i++) {
        void *got;
        pthread_join(thread[i], &got);
        total += (long)got;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    say("threads read", total);
    fprintf(stderr, "%ld\n", in_handler); /* how often varies */
}

/* A thousand threads one after another, each with its own file and end. */
static void *one_file(void *arg)
{
    return (void *)read_file(file((int)(intptr_t)arg % FILES));
}

static void do_manythreads(void)
{
    long total = 0;
    for (int i = 0; i < 1000; i++) {
        pthread_t thread;
        void *got = NULL;
        if (pthread_create(&thread, NULL, one_file, (void *)(intptr_t)i) == 0)
            pthread_join(thread, &got);
        total += (long)got;
    }
    say("bytes", total);
}

static void do_sigpipe(void)
{
    int ends[2];
    if (pipe(ends) != 0)
        exit(3);
    close(ends[0]);
    if (write(ends[1], "x", 1) < 0)
        perror("write");
}

/* A handler that does not return: the read it interrupted never ends. */
static sigjmp_buf way_out;

static void jump_out(int number)
{
    (void)number;
    siglongjmp(way_out, 1);
}

static void do_longjmp(void)
{
    struct sigaction sa = {.sa_handler = jump_out};
    volatile int jumps = 0;
    int ends[2];
    char byte;
    if (pipe(ends) != 0)
        exit(3);
    sigaction(SIGALRM, &sa, NULL);
    for (volatile int i = 0; i < 3; i++) {
        if (sigsetjmp(way_out, 1)) {
            jumps++;
            continue;
        }
        struct itimerval soon = {{0, 0}, {0, 20000}};
        setitimer(ITIMER_REAL, &soon, NULL);
        if (read(ends[0], &byte, 1) == 1)
            say("nobody wrote", 1);
    }
    say("jumped", jumps);
    say("read", read_file(file(0)));
}

/* Threads that are cancelled while they read. */
static void *blocked(void *arg)
{
    char byte;
    ssize_t n = read((int)(intptr_t)arg, &byte, 1);
    return (void *)(intptr_t)n;
}

static void do_cancel(void)
{
    int ends[2];
    long cancelled = 0;
    if (pipe(ends) != 0)
        exit(3);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        void *got = NULL;
        if (pthread_create(&thread, NULL, blocked, (void *)(intptr_t)ends[0]) != 0)
            exit(3);
        usleep(1000);
        pthread_cancel(thread);
        pthread_join(thread, &got);
        cancelled += got == PTHREAD_CANCELED;
    }
    say("cancelled", cancelled);
    say("read", read_file(file(0)));
}

/* Parent and child share a descriptor's position: the parent's second read is the third page. */
static void do_shared(void)
{
    char page[PAGE];
    int fd = open(file(0), O_RDONLY);
    long got = read(fd, page, PAGE);
    pid_t child = fork();
    if (child == 0)
        _exit(read(fd, page, PAGE) == PAGE ? 0 : 1);
    wait_for(child);
    got += read(fd, page, PAGE);
    say("bytes", got);
    say("position", lseek(fd, 0, SEEK_CUR));
    close(fd);
}

static void do_append(void)
{
    int fd = open(file(0), O_WRONLY | O_APPEND);
    for (int i = 0; i < 4; i++)
        if (write(fd, "12345678", 8) != 8)
            exit(3);
    close(fd);
    FILE *f = fopen(file(0), "a");
    if (!f || fputs("12345678", f) < 0 || fclose(f) != 0)
        exit(3);
    struct stat st;
    say("size", stat(file(0), &st) == 0 ? st.st_size : -1);
}

/* The daemon's way: the parent is gone at once, the child works on. */
static void do_daemon(void)
{
    if (fork() != 0)
        _exit(0);
    setsid();
    if (fork() != 0)
        _exit(0);
    close(0);
    close(1);
    close(2);
    usleep(300000);
    long got = read_file(file(0));
    char path[4096];
    snprintf(path, sizeof path, "%s/done", folder);
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    if (write(fd, &got, sizeof got) != sizeof got)
        _exit(1);
    _exit(0);
}

/* No more descriptors, no more memory: for the program it is enough. */
static void do_limits(void)
{
    struct rlimit few = {8, 8}, little = {64 << 20, 64 << 20};
    setrlimit(RLIMIT_NOFILE, &few);
    setrlimit(RLIMIT_AS, &little);
    for (int i = 0; i < FILES; i++)
        if (read_file(file(i)) != PAGE * PAGES)
            exit(3);
    pid_t child = fork();
    if (child == 0)
        _exit(read_file(file(0)) == PAGE * PAGES ? 0 : 1);
    wait_for(child);
    say("read", FILES);
}

static void do_gone_folder(void)
{
    char away[4096];
    snprintf(away, sizeof away, "%s/gone", folder);
    if (mkdir(away, 0755) != 0 || chdir(away) != 0 || rmdir(away) != 0)
        exit(3);
    say("relative", open("x.bin", O_RDONLY));
    say("read", read_file(file(0)));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
        void (*end)(void);
    } cases[] = {{"return", do_read, end_return},
                 {"kill", do_read, end_kill},
                 {"abort", do_read, end_abort},
                 {"_exit", do_read, end__exit},
                 {"exit_group", do_read, end_exit_group},
                 {"segv", do_read, end_segv},
                 {"term", do_read, end_term},
                 {"quick_exit", do_read, end_quick_exit},
                 {"read", do_read, end_return},
                 {"fork64", do_fork64, end_return},
                 {"vfork", do_vfork, end_return},
                 {"spawn", do_spawn, end_return},
                 {"system", do_system, end_return},
                 {"exec", do_exec, end_return},
                 {"exec_fails", do_exec_fails, end_return},
                 {"closeall", do_closeall, end_return},
                 {"reuse", do_reuse, end_return},
                 {"chdir", do_chdir, end_return},
                 {"gone", do_gone, end_return},
                 {"hugefd", do_hugefd, end_return},
                 {"names", do_names, end_return},
                 {"nostd", do_nostd, end_return},
                 {"threads", do_threads, end_return},
                 {"manythreads", do_manythreads, end_return},
                 {"sigpipe", do_sigpipe, end_return},
                 {"longjmp", do_longjmp, end_return},
                 {"cancel", do_cancel, end_return},
                 {"shared", do_shared, end_return},
                 {"append", do_append, end_return},
                 {"daemon", do_daemon, end_return},
                 {"limits", do_limits, end_return},
                 {"gone_folder", do_gone_folder, end_return}};
    self = argv[0];
    folder = argc == 3 ? argv[2] : "";
    for (size_t i = 0; argc == 3 && i < sizeof cases / sizeof *cases; i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            cases[i].end();
            return 0;
        }
    fprintf(stderr, "usage: fault CASE FOLDER\n");
    return 2;
}
