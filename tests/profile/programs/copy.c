/*
 * copy.c - bytes that move inside the kernel: a read of one file and a write of the other. Here the
 * same system calls are made by their function and by syscall(), which count alike.
 */
/* TRUTH
{"in.bin": {"posix": {"opens": 2, "closes": 2, "copies": 5, "seeks": 1, "reads": 7, "first_reads":
2, "read_bytes": 49400, "seq_reads": 4, "consec_reads": 1, "stats": 1, "errors": 1}}, "out.bin":
{"posix": {"opens": 1, "write_opens": 1, "closes": 1, "writes": 4, "write_bytes": 40100,
"seq_writes": 2, "consec_writes": 2, "fsyncs": 1}}}
*/
#define _GNU_SOURCE
#include "truth.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>

int main(int argc, char **argv)
{
    off_t from = 10000, to = 20000;
    struct statx sx;
    int pipes[2];
    begin(argc, argv);
    int in = open("in.bin", O_RDONLY), out = open("out.bin", O_WRONLY | O_CREAT, 0600);
    MUST(in >= 0 && out >= 0 && pipe(pipes) == 0);
    MUST(sendfile(out, in, NULL, 10000) == 10000);    /* 0 to 0 */
    MUST(sendfile64(out, in, &from, 10000) == 10000); /* 10,000 (the end of it) to 10,000 */
    MUST(from == 20000);
    from = 50000;
    MUST(syscall(SYS_copy_file_range, in, &from, out, &to, 20000, 0) ==
         20000); /* 50,000 to 20,000 */
    MUST(from == 70000 && to == 40000);
    MUST(splice(in, NULL, pipes[1], NULL, 4000, 0) == 4000); /* at 10,000: goes back */
    from = 80000;
    MUST(copy_file_range(in, &from, pipes[1], NULL, 10, 0) == -1); /* not into a pipe */
    MUST(splice(in, &from, pipes[1], NULL, 5000, 0) == 5000);      /* sequential */
    /* as the C library would do it */
    MUST(syscall(SYS_pwrite64, out, data, 100, 0L) == 100);
    MUST(syscall(SYS_fsync, out) == 0);
    MUST(syscall(SYS_statx, AT_FDCWD, "in.bin", 0, STATX_SIZE, &sx) == 0 && sx.stx_size == 100000);
    int again = (int)syscall(SYS_openat, AT_FDCWD, "in.bin", O_RDONLY);
    MUST(again >= 0);
    MUST(syscall(SYS_lseek, again, 100L, SEEK_SET) == 100);
    MUST(syscall(SYS_read, again, data, 200) == 200);
    MUST(syscall(SYS_pread64, again, data, 200, 1000L) == 200);
    MUST(syscall(SYS_close, again) == 0);
    MUST(syscall(SYS_getpid) == getpid());
    MUST(close(in) == 0 && close(out) == 0);
    return 0;
}
