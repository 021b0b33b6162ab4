/*
 * kernelaio.c - kernel aio, by syscall() and with -DLIBRARY by libaio: whose functions call
 * syscall() in turn.
 */
/* TRUTH
{"in.bin": {"posix": {"opens": 1, "closes": 1},
            "async": {"reads": 3, "read_bytes": 12288, "first_reads": 1, "seq_reads": 2,
                      "consec_reads": 2}},
 "out.bin": {"posix": {"opens": 1, "write_opens": 1, "closes": 1},
             "async": {"writes": 1, "write_bytes": 1000}}}
*/
#define _GNU_SOURCE
#include "truth.h"

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <sys/syscall.h>

#ifdef LIBRARY
int io_setup(int n, aio_context_t *context);
int io_submit(aio_context_t context, long n, struct iocb **list);
int io_getevents(aio_context_t context, long least, long n, struct io_event *event, void *timeout);
#else
#define io_setup(...)     syscall(SYS_io_setup, __VA_ARGS__)
#define io_submit(...)    syscall(SYS_io_submit, __VA_ARGS__)
#define io_getevents(...) syscall(SYS_io_getevents, __VA_ARGS__)
#endif

int main(int argc, char **argv)
{
    aio_context_t context = 0;
    struct iocb cb[4] = {0}, *list[4];
    struct io_event event[4];
    begin(argc, argv);
    int in = open("in.bin", O_RDONLY), out = open("out.bin", O_WRONLY | O_CREAT, 0600);
    MUST(in >= 0 && out >= 0);
    if (io_setup(4, &context) != 0)
        return 77;
    for (unsigned i = 0; i < 4; i++) {
        cb[i].aio_fildes = (unsigned)(i < 3 ? in : out);
        cb[i].aio_lio_opcode = i < 3 ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE;
        cb[i].aio_buf = (uintptr_t)(data + 4096 * i);
        cb[i].aio_nbytes = i < 3 ? 4096 : 1000;
        cb[i].aio_offset = i < 3 ? 4096 * i : 0;
        list[i] = &cb[i];
        MUST(io_submit(context, 1, list + i) == 1);
        MUST(io_getevents(context, 1, 4, event, NULL) == 1);
        MUST(event[0].res == (i < 3 ? 4096 : 1000));
    }
    if (argc > 1 && getenv("UNFETCHED"))
        MUST(io_submit(context, 1, list) == 1);
    MUST(close(in) == 0 && close(out) == 0);
    return 0;
}
