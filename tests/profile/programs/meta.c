/*
 * meta.c - calls that ask about files and change names.
 */
/* TRUTH
{"in.bin": {"posix": {"opens": 1, "closes": 1, "stats": 12}},
 "lines.txt": {"posix": {"stats": 5, "reads": 1, "read_bytes": 10, "opens": 1, "closes": 1,
                         "first_reads": 1}},
 "link": {"posix": {"makes": 1, "stats": 2, "removes": 1}},
 "a.txt": {"posix": {"opens": 1, "write_opens": 1, "closes": 1, "renames": 1, "errors": 1,
                     "changes": 4, "locks": 3, "xattrs": 1, "statfs": 2}},
 "b.txt": {"posix": {"renames": 1}},
 "c.txt": {"posix": {"removes": 1}},
 "sub": {"posix": {"makes": 1, "removes": 1}},
 "missing": {"posix": {"errors": 4}}}
*/
#define _GNU_SOURCE
#include "truth.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

static void asking(void)
{
    struct stat st;
    struct statx sx;
    int dir = open(".", O_RDONLY | O_DIRECTORY);
    int fd = open("in.bin", O_RDONLY);
    MUST(dir >= 0 && fd >= 0);
    MUST(stat("in.bin", &st) == 0 && st.st_size == 100000);
    MUST(stat64("./in.bin", (struct stat64 *)&st) == 0);
    MUST(lstat("in.bin", &st) == 0);
    MUST(fstat(fd, &st) == 0 && fstat64(fd, (struct stat64 *)&st) == 0);
    MUST(fstatat(dir, "in.bin", &st, 0) == 0 && fstatat(fd, "", &st, AT_EMPTY_PATH) == 0);
    MUST(statx(dir, "in.bin", 0, STATX_SIZE, &sx) == 0 && sx.stx_size == 100000);
    MUST(statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &sx) == 0);
    MUST(access("in.bin", R_OK) == 0 && faccessat(dir, "in.bin", R_OK, 0) == 0);
    MUST(euidaccess("in.bin", R_OK) == 0);
    MUST(close(fd) == 0 && close(dir) == 0);
}

/* What programs that were built long ago call. */
int __xstat(int version, const char *path, struct stat *st);
int __lxstat(int version, const char *path, struct stat *st);
int __fxstat(int version, int fd, struct stat *st);
int __fxstatat(int version, int fd, const char *path, struct stat *st, int flags);
#ifdef __x86_64__
#define OLD_VERSION 1
#else
#define OLD_VERSION 0
#endif

static void asking_as_before(void)
{
    struct stat st;
    int fd = open("lines.txt", O_RDONLY);
    MUST(fd >= 0);
    MUST(__xstat(OLD_VERSION, "lines.txt", &st) == 0 && st.st_size == 10000);
    MUST(__lxstat(OLD_VERSION, "lines.txt", &st) == 0);
    MUST(__fxstat(OLD_VERSION, fd, &st) == 0);
    MUST(__fxstatat(OLD_VERSION, AT_FDCWD, "lines.txt", &st, 0) == 0);
    MUST(__fxstatat(OLD_VERSION, fd, "", &st, AT_EMPTY_PATH) == 0);
    MUST(read(fd, data, 10) == 10 && close(fd) == 0);
}

static void names(void)
{
    struct stat st;
    int fd = open("a.txt", O_WRONLY | O_CREAT, 0600);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct statfs fs;
    struct statvfs vfs;
    MUST(fd >= 0 && flock(fd, LOCK_EX) == 0 && fcntl(fd, F_SETLK, &lock) == 0);
    MUST(lockf(fd, F_ULOCK, 0) == 0 && fstatfs(fd, &fs) == 0);
    MUST(ftruncate(fd, 100) == 0 && futimens(fd, NULL) == 0 && close(fd) == 0);
    MUST(truncate("a.txt", 50) == 0 && chmod("a.txt", 0644) == 0);
    MUST(statvfs("a.txt", &vfs) == 0);
    if (listxattr("a.txt", data, 0) < 0) /* a file system without attributes */
        MUST(errno == ENOTSUP);
    MUST(mkdir("sub", 0700) == 0);
    MUST(rename("a.txt", "nowhere/a.txt") == -1 && errno == ENOENT);
    MUST(rename("a.txt", "b.txt") == 0);
    MUST(renameat(AT_FDCWD, "b.txt", AT_FDCWD, "c.txt") == 0);
    MUST(unlink("c.txt") == 0);
    MUST(remove("sub") == 0);
    MUST(symlink("in.bin", "link") == 0);
    MUST(lstat("link", &st) == 0 && readlink("link", data, sizeof(data)) == 6);
    MUST(unlinkat(AT_FDCWD, "link", 0) == 0);
    MUST(stat("missing", &st) == -1 && errno == ENOENT);
    MUST(access("missing", F_OK) == -1 && errno == ENOENT);
    MUST(readlink("missing", data, 10) == -1 && errno == ENOENT);
    MUST(unlink("missing") == -1 && errno == ENOENT);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    asking();
    asking_as_before();
    names();
    return 0;
}
