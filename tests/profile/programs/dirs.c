/*
 * dirs.c - directories: opendir() and each readdir() are a call; scandir(), glob(), nftw(), fts and
 * realpath() walk inside the C library, and return names.
 */
/* TRUTH
{"sub": {"posix": {"opens": 2, "closes": 2, "makes": 1, "seeks": 1, "walks": 7, "stats": 4,
                   "dir_reads": 27}},
 "f0": {"posix": {"opens": 1, "write_opens": 1, "closes": 1, "stats": 4, "walks": 1}}}
*/
#define _GNU_SOURCE
#include "truth.h"

#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <sys/stat.h>

static int seen;

static int see(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)path, (void)st, (void)type, (void)where;
    seen++;
    return 0;
}

static int see_old(const char *path, const struct stat *st, int type)
{
    (void)path, (void)st, (void)type;
    seen++;
    return 0;
}

static void walk(int options)
{
    char *roots[] = {"sub", NULL};
    int n = 0;
    FTS *f = fts_open(roots, options, NULL);
    MUST(f);
    for (FTSENT *e; (e = fts_read(f));)
        n += e->fts_info == FTS_F;
    MUST(n == 3 && fts_close(f) == 0);
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
    MUST(scandir("sub", &list, NULL, alphasort) == 5); /* 5 names */
    for (n = 0; n < 5; n++)
        free(list[n]);
    free(list);
    MUST(nftw("sub", see, 4, 0) == 0 && seen == 4); /* 4 stats, and a directory read */
    MUST(nftw("sub", see, 4, FTW_CHDIR) == 0 && seen == 8);
    MUST(ftw("sub", see_old, 4) == 0 && seen == 12);
    glob_t found;
    MUST(glob("sub/f?", GLOB_MARK, NULL, &found) == 0 && found.gl_pathc == 3); /* 3 names */
    globfree(&found);
    walk(FTS_PHYSICAL); /* 4 stats, and a directory read: it comes twice */
    MUST(realpath("sub", data) && canonicalize_file_name("sub/f0"));
    return 0;
}
