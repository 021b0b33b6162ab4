/*
 * fortify.c - the checked functions that a program built with -D_FORTIFY_SOURCE=2 calls.
 */
/* TRUTH
{"in.bin": {"posix": {"opens": 2, "closes": 2, "reads": 20, "read_bytes": 20000, "first_reads": 2,
                      "seq_reads": 18, "consec_reads": 18},
            "stdio": {"opens": 1, "closes": 1, "reads": 10, "read_bytes": 10000, "first_reads": 1,
                      "seq_reads": 9, "consec_reads": 9}},
 "lines.txt": {"stdio": {"opens": 1, "closes": 1, "reads": 10, "read_bytes": 100, "first_reads": 1,
                         "seq_reads": 9, "consec_reads": 9}},
 "out.txt": {"stdio": {"opens": 1, "write_opens": 1, "closes": 1, "writes": 3, "write_bytes": 30,
                       "seq_writes": 2, "consec_writes": 2}},
 "link": {"posix": {"makes": 1, "stats": 1}}}
*/
#ifndef _FORTIFY_SOURCE
#define _FORTIFY_SOURCE 2
#endif
#define _GNU_SOURCE
#include "truth.h"

#include <fcntl.h>

static char small[1000];

int main(int argc, char **argv)
{
    volatile size_t n = 1000; /* not known to the compiler: it has to check */
    volatile int line = 20, flags = O_RDONLY;
    begin(argc, argv);
    int fd = open("in.bin", flags), at = open64("in.bin", flags);
    MUST(fd >= 0 && at >= 0);
    for (int i = 0; i < 10; i++) {
        MUST(read(fd, small, n) == 1000);
        MUST(pread(at, small, n, i * 1000) == 1000);
    }
    MUST(close(fd) == 0 && close(at) == 0);
    FILE *f = fopen("in.bin", "r");
    MUST(f);
    for (int i = 0; i < 10; i++)
        MUST((i % 2 ? fread(small, 1, n, f) : fread_unlocked(small, 1, n, f)) == 1000);
    MUST(fclose(f) == 0 && (f = fopen("lines.txt", "r")));
    for (int i = 0; i < 10; i++)
        MUST(fgets(small, line, f));
    MUST(fclose(f) == 0 && (f = fopen("out.txt", "w")));
    for (int i = 0; i < 3; i++)
        MUST(fprintf(f, "%09d\n", i) == 10);
    MUST(fclose(f) == 0);
    MUST(symlink("in.bin", "link") == 0 && readlink("link", small, n) == 6);
    return 0;
}
