/*
 * streams.c - what the C library does inside calls on streams that neither read nor write by
 * themselves, and streams and descriptors on one file. The kernel's count of bytes must be
 * explained by ours.
 */
/* TRUTH
{"in.bin": {"posix": {"opens": 1, "dups": 20},
            "stdio": {"closes": 21, "seeks": 420, "reads": 420, "read_bytes": 6720,
                      "first_reads": 1, "seq_reads": 201}},
 "lines.txt": {"posix": {"opens": 1, "write_opens": 1, "closes": 1, "reads": 2, "eof_reads": 1,
                         "read_bytes": 100, "first_reads": 1, "seq_reads": 1, "consec_reads": 1,
                         "writes": 2, "write_bytes": 200, "seq_writes": 1, "consec_writes": 1}},
 "log.txt": {"stdio": {"opens": 2, "write_opens": 2, "closes": 2, "seeks": 1, "reads": 1,
                       "read_bytes": 5, "first_reads": 1, "writes": 3, "write_bytes": 30,
                       "seq_writes": 1, "consec_writes": 1}},
 "sub": {"posix": {"opens": 1, "closes": 1, "makes": 1, "dir_reads": 4}}}
*/
#define _GNU_SOURCE
#include "truth.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

/* As np.fromfile() reads an array out of an open file: a duplicate, a stream on it, seek, read. */
static void arrays(void)
{
    int fd = open("in.bin", O_RDONLY);
    MUST(fd >= 0);
    for (int i = 0; i < 20; i++) {
        FILE *f = fdopen(dup(fd), "r");
        MUST(f && fseeko(f, (off_t)(i * 37 % 20) * 4999, SEEK_SET) == 0);
        MUST(fread(data, 1, 16, f) == 16 && fclose(f) == 0);
    }
    FILE *f = fdopen(fd, "r");
    unsigned at = 1;
    for (int i = 0; i < 400; i++) {
        at = at * 1103515245u + 12345u;
        MUST(fseek(f, (long)(at / 65536 % 24 * 4096), SEEK_SET) == 0);
        MUST(fread(data, 1, 16, f) == 16);
    }
    MUST(fclose(f) == 0);
}

/* Reads begin at the position, writes at the end. */
static void appending(void)
{
    int fd = open("lines.txt", O_RDWR | O_APPEND);
    MUST(fd >= 0 && read(fd, data, 50) == 50 && read(fd, data, 50) == 50);
    MUST(write(fd, data, 100) == 100 && read(fd, data, 50) == 0);
    MUST(pwrite(fd, data, 100, 7) == 100 && close(fd) == 0);
    FILE *f = fopen("log.txt", "w");
    MUST(f && fputs("0123456789", f) >= 0 && fclose(f) == 0);
    f = fopen("log.txt", "a+");
    MUST(f && fread(data, 1, 5, f) == 5 && fseek(f, 0, SEEK_END) == 0);
    MUST(fputs("0123456789", f) >= 0 && fputs("0123456789", f) >= 0 && fclose(f) == 0);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    MUST(mkdir("sub", 0700) == 0);
    arrays();
    appending();
    DIR *dir = fdopendir(open("sub", O_RDONLY | O_DIRECTORY));
    MUST(dir);
    while (readdir(dir))
        ;
    MUST(closedir(dir) == 0);
    return 0;
}
