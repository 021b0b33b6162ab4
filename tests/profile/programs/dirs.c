/*
 * dirs.c - directories: opendir() and each readdir() are a call; scandir() and nftw() are one.
 */
/* TRUTH
{"sub": {"posix": {"opens": 2, "closes": 2, "dir_reads": 17, "seeks": 1}},
 "f0": {"posix": {"opens": 1, "write_opens": 1, "closes": 1}}}
*/
#define _GNU_SOURCE
#include "truth.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

static int seen;

static int see(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)path, (void)st, (void)type, (void)where;
    seen++;
    return 0;
}

int main(int argc, char **argv)
{
    struct dirent **list;
    int n = 0;
    begin(argc, argv);
    MUST(mkdir("sub", 0700) == 0);
    for (int i = 0; i < 3; i++) {
        snprintf(data, 20, "sub/f%d", i);
        int fd = open(data, O_WRONLY | O_CREAT, 0600);
        MUST(fd >= 0 && close(fd) == 0);
    }
    DIR *dir = opendir("sub"); /* 1, and 5 entries with . and .., and the end */
    MUST(dir);
    while (readdir(dir))
        n++;
    MUST(n == 5 && closedir(dir) == 0);
    int fd = open("sub", O_RDONLY | O_DIRECTORY);
    MUST(fd >= 0 && getdents64(fd, data, sizeof(data)) > 0); /* 1 */
    MUST(lseek(fd, 0, SEEK_SET) == 0);
    MUST((dir = fdopendir(fd))); /* 1, 5 entries, the end */
    for (n = 0; readdir64(dir);)
        n++;
    MUST(n == 5 && closedir(dir) == 0);
    MUST(scandir("sub", &list, NULL, alphasort) == 5); /* 1 */
    for (n = 0; n < 5; n++)
        free(list[n]);
    free(list);
    MUST(nftw("sub", see, 4, 0) == 0 && seen == 4); /* 1 */
    return 0;
}
