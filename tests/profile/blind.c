/*
 * blind.c - where Darshan 3.5 is known to see nothing or something else: blind CASE FILE... does
 * one case to the file (1 MiB, zeros), a known number of times; test_blind_spots.py knows the
 * numbers. Prints "ok". Built twice, plain and with -O2 -D_FORTIFY_SOURCE=2.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE   4096
#define MIB    (1 << 20)
#define ROUNDS 100

static char buffer[PAGE];

static int must(long got, const char *what)
{
    if (got < 0) {
        perror(what);
        exit(1);
    }
    return (int)got;
}

/* Kept from the compiler, so that a fortified build calls __pread_chk and not pread. */
static size_t page(void)
{
    static volatile size_t n = PAGE;
    return n;
}

static void do_stat(const char *path)
{
    struct stat st;
    int fd = must(open(path, O_RDONLY), "open");
    for (int i = 0; i < ROUNDS; i++) {
        must(stat(path, &st), "stat");
        must(fstat(fd, &st), "fstat");
    }
    close(fd);
}

static void do_mmap(const char *path)
{
    int fd = must(open(path, O_RDONLY), "open");
    volatile char *at = mmap(NULL, MIB, PROT_READ, MAP_SHARED, fd, 0);
    int sum = 0;
    for (size_t i = 0; at != MAP_FAILED && i < MIB; i += PAGE)
        sum += at[i];
    must(at == MAP_FAILED || sum ? -1 : 0, "mmap");
    munmap((void *)(uintptr_t)at, MIB);
    close(fd);
}

static void do_copy(const char *path, const char *sent, const char *copied)
{
    int from = must(open(path, O_RDONLY), "open");
    int to = must(open(sent, O_WRONLY | O_CREAT, 0644), "open");
    for (off_t at = 0; at < MIB;)
        must(sendfile(to, from, &at, (size_t)(MIB - at)), "sendfile");
    close(to);
    to = must(open(copied, O_WRONLY | O_CREAT, 0644), "open");
    for (loff_t at = 0; at < MIB;)
        must(copy_file_range(from, &at, to, NULL, (size_t)(MIB - at), 0), "copy_file_range");
    close(to);
    close(from);
}

static void preads(int fd)
{
    for (int i = 0; i < ROUNDS; i++)
        must(pread(fd, buffer, page(), (off_t)i * PAGE), "pread");
}

static void do_openat2(const char *path)
{
    struct open_how how = {.flags = O_RDONLY};
    int fd = must(syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how), "openat2");
    preads(fd);
    close(fd);
}

static void do_fortify(const char *path)
{
    int fd = must(open(path, O_RDONLY), "open");
    preads(fd);
    for (int i = 0; i < ROUNDS; i++)
        must(read(fd, buffer, page()), "read");
    close(fd);
    FILE *f = fopen(path, "r");
    for (int i = 0; f && i < ROUNDS; i++)
        must(fread(buffer, 1, page(), f) == PAGE ? 0 : -1, "fread");
    if (f)
        fclose(f);
}

static void do_inherit(const char *path)
{
    int fd = must(open(path, O_RDONLY), "open");
    pid_t child = must(fork(), "fork");
    int status = 1;
    if (child == 0) {
        preads(fd);
        _exit(0);
    }
    waitpid(child, &status, 0);
    must(status ? -1 : 0, "child");
    close(fd);
}

static void do_unlocked(const char *path)
{
    FILE *f = fopen(path, "r");
    for (int i = 0; f && i < ROUNDS; i++)
        must(fread_unlocked(buffer, 1, page(), f) == PAGE ? 0 : -1, "fread_unlocked");
    must(f ? fclose(f) : -1, "fclose");
}

static void do_walk(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *e;
    struct stat st;
    while (dir && (e = readdir(dir)))
        if (e->d_name[0] != '.')
            must(fstatat(dirfd(dir), e->d_name, &st, 0), e->d_name);
    must(dir ? closedir(dir) : -1, "closedir");
}

static void do_files(const char *folder)
{
    char path[4096];
    for (int i = 0; i < 3000; i++) {
        snprintf(path, sizeof path, "%s/%04d.bin", folder, i);
        int fd = must(open(path, O_RDONLY), path);
        must(read(fd, buffer, 10) == 10 ? 0 : -1, "read");
        close(fd);
    }
}

/* Two descriptors on one file, each read in order, in turn: 1,000 pages from 0, 1,000 from 32 MiB.
 */
static void do_two(const char *path)
{
    int low = must(open(path, O_RDWR), "open"), high = must(open(path, O_RDONLY), "open");
    must(ftruncate(low, 64 << 20), "ftruncate");
    must(lseek(high, 32 << 20, SEEK_SET), "lseek");
    for (int i = 0; i < 1000; i++) {
        must(read(low, buffer, page()), "read");
        must(read(high, buffer, page()), "read");
    }
    close(low);
    close(high);
}

static void do_eof(const char *path)
{
    int fd = must(open(path, O_RDONLY), "open");
    char *all = malloc(2 * MIB);
    must(read(fd, all, 2 * MIB) == MIB ? 0 : -1, "read");
    must(read(fd, all, 2 * MIB), "read");
    free(all);
    close(fd);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(const char *);
    } cases[] = {{"stat", do_stat},       {"mmap", do_mmap},       {"openat2", do_openat2},
                 {"fortify", do_fortify}, {"inherit", do_inherit}, {"unlocked", do_unlocked},
                 {"walk", do_walk},       {"files", do_files},     {"two", do_two},
                 {"eof", do_eof}};
    if (argc == 5 && strcmp(argv[1], "copy") == 0) {
        do_copy(argv[2], argv[3], argv[4]);
        return puts("ok") < 0;
    }
    for (size_t i = 0; argc == 3 && i < sizeof cases / sizeof *cases; i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run(argv[2]);
            return puts("ok") < 0;
        }
    fprintf(stderr, "usage: blind CASE FILE...\n");
    return 2;
}
