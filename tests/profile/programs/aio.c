/*
 * aio.c - POSIX asynchronous I/O, by itself and in lists.
 */
/* TRUTH
{"in.bin": {"posix": {"opens": 1, "closes": 1},
            "async": {"reads": 6, "read_bytes": 24576, "first_reads": 1, "seq_reads": 5,
                      "consec_reads": 5}},
 "out.bin": {"posix": {"opens": 1, "write_opens": 1, "closes": 1},
             "async": {"writes": 1, "write_bytes": 1000}}}
*/
#define _GNU_SOURCE
#include "truth.h"

#include <aio.h>
#include <errno.h>
#include <fcntl.h>

#define PAGE 4096

static void wait_for(struct aiocb *cb, ssize_t expected)
{
    const struct aiocb *list[] = {cb};
    while (aio_error(cb) == EINPROGRESS)
        aio_suspend(list, 1, NULL);
    MUST(aio_return(cb) == expected);
}

int main(int argc, char **argv)
{
    struct aiocb cb[4] = {0}, *list[4];
    begin(argc, argv);
    int in = open("in.bin", O_RDONLY), out = open("out.bin", O_WRONLY | O_CREAT, 0600);
    MUST(in >= 0 && out >= 0);
    for (int i = 0; i < 2; i++) {
        cb[i] = (struct aiocb){.aio_fildes = in, .aio_buf = data, .aio_nbytes = PAGE};
        cb[i].aio_offset = i * PAGE;
        MUST(aio_read(&cb[i]) == 0);
        wait_for(&cb[i], PAGE);
    }
    cb[0] = (struct aiocb){.aio_fildes = out, .aio_buf = data, .aio_nbytes = 1000};
    MUST(aio_write(&cb[0]) == 0);
    wait_for(&cb[0], 1000);
    for (int i = 0; i < 4; i++) {
        cb[i] = (struct aiocb){.aio_fildes = in, .aio_buf = data, .aio_nbytes = PAGE};
        cb[i].aio_offset = (i + 2) * PAGE;
        cb[i].aio_lio_opcode = LIO_READ;
        list[i] = &cb[i];
    }
    MUST(lio_listio(LIO_WAIT, list, 4, NULL) == 0);
    MUST(aio_return(&cb[0]) == PAGE); /* of one the result is fetched, of the others not */
    MUST(close(in) == 0 && close(out) == 0);
    return 0;
}
