/*
 * mmap.c - files mapped, with hints and writing back; memory without a file is not counted.
 */
/* TRUTH
{"in.bin": {"posix": {"opens": 1, "closes": 1, "mmaps": 2, "mmap_bytes": 104096, "munmaps": 1,
                      "hints": 5}},
 "out.bin": {"posix": {"opens": 1, "write_opens": 1, "closes": 1, "mmaps": 1, "mmap_bytes": 8192,
                       "msyncs": 1, "changes": 1}}}
*/
#define _GNU_SOURCE
#include "truth.h"

#include <fcntl.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
    begin(argc, argv);
    int fd = open("in.bin", O_RDONLY);
    MUST(fd >= 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM) == 0);
    MUST(readahead(fd, 0, 4096) == 0);
    char *all = mmap(NULL, 100000, PROT_READ, MAP_SHARED, fd, 0);
    char *page = mmap64(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 4096);
    MUST(all != MAP_FAILED && page != MAP_FAILED && all[4096] == page[0]);
    MUST(close(fd) == 0); /* the mappings stay, and are still the file's */
    MUST(madvise(all, 100000, MADV_WILLNEED) == 0);
    MUST(madvise(all + 4096, 4096, MADV_RANDOM) == 0);
    MUST(posix_madvise(page, 4096, POSIX_MADV_SEQUENTIAL) == 0);
    MUST(munmap(page, 4096) == 0);

    fd = open("out.bin", O_RDWR | O_CREAT, 0600);
    MUST(fd >= 0 && ftruncate(fd, 8192) == 0);
    char *out = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(out != MAP_FAILED && close(fd) == 0);
    memcpy(out, data, 8192);
    MUST(msync(out, 8192, MS_SYNC) == 0);

    char *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(memory != MAP_FAILED && memory[0] == 0);
    MUST(madvise(memory, 1 << 20, MADV_SEQUENTIAL) == 0);
    MUST(munmap(memory, 1 << 20) == 0);
    return 0;
}
