/*
 * small.c - processes whose logs are small, and some that outgrow that: small CASE FOLDER [N].
 * FOLDER has f00.bin … of ten pages.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE  4096
#define PAGES 10
#define TURNS 20000

static const char *folder;

static int opened(int i)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/f%02d.bin", folder, i);
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        _exit(3);
    return fd;
}

static void read_files(int n)
{
    char page[PAGE];
    for (int i = 0; i < n; i++) {
        int fd = opened(i);
        while (read(fd, page, sizeof page) > 0)
            ;
        close(fd);
    }
}

static void read_often(int i)
{
    char page[PAGE];
    int fd = opened(i);
    for (int k = 0; k < TURNS; k++)
        if (pread(fd, page, 100, k % PAGES * PAGE) != 100)
            _exit(4);
    close(fd);
}

static pthread_barrier_t both;

static void *reader(void *arg)
{
    pthread_barrier_wait(&both);
    read_often((int)(long)arg);
    return NULL;
}

/* The main thread's records are in use while those of the other threads need room. */
static void threads(void)
{
    pthread_t t[3];
    read_often(0);
    pthread_barrier_init(&both, NULL, 4);
    for (long i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, reader, (void *)(i + 1));
    pthread_barrier_wait(&both);
    read_often(0);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
}

/* Leaves a child behind that reads before the parent ends, and after FOLDER/go is there. */
static void left_behind(void)
{
    char path[4096], c;
    int p[2];
    if (pipe(p) != 0)
        exit(5);
    if (fork() != 0) {
        close(p[1]);
        exit(read(p[0], &c, 1) == 1 ? 0 : 6);
    }
    read_files(1);
    if (write(p[1], "x", 1) != 1)
        exit(7);
    close(0), close(1), close(2);
    snprintf(path, sizeof path, "%s/go", folder);
    while (access(path, F_OK) != 0)
        usleep(10000);
    read_files(12);
    snprintf(path, sizeof path, "%s/done", folder);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    _exit(0);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    folder = argv[2];
    int n = argc > 3 ? atoi(argv[3]) : 1;
    if (strcmp(what, "files") == 0) {
        read_files(n);
    } else if (strcmp(what, "killed") == 0) {
        read_files(n);
        kill(getpid(), SIGKILL);
    } else if (strcmp(what, "_exit") == 0) {
        read_files(n);
        _exit(0);
    } else if (strcmp(what, "threads") == 0) {
        threads();
    } else if (strcmp(what, "left_behind") == 0) {
        left_behind();
    } else if (strcmp(what, "forks") == 0) {
        for (int i = 0; i < n; i++) {
            if (fork() == 0) {
                read_files(i % 2 ? 1 : 12);
                _exit(0);
            }
            wait(NULL);
        }
    } else {
        return 2;
    }
    return 0;
}
