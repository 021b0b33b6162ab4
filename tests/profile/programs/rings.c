/*
 * rings.c - two io_uring rings made by syscall(), with -DLIBRARY a third one by liburing; and
 * kernel aio. Ends with 77 where the kernel does not give rings. What they move cannot be seen:
 * that they were there can.
 */
#define _GNU_SOURCE
#include "truth.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#ifdef LIBRARY
#include <liburing.h>
#endif

int main(int argc, char **argv)
{
    struct io_uring_params params;
    aio_context_t context = 0;
    struct iocb control = {.aio_fildes = 0}, *list[] = {&control};
    begin(argc, argv);
    for (int i = 0; i < 2; i++) {
        memset(&params, 0, sizeof(params));
        if (syscall(SYS_io_uring_setup, 4, &params) < 0)
            return 77;
    }
    memset(&params, 0, sizeof(params));
    MUST(syscall(SYS_io_uring_setup, 0, &params) == -1 && errno == EINVAL);
#ifdef LIBRARY
    struct io_uring ring;
    MUST(io_uring_queue_init(4, &ring, 0) == 0);
    io_uring_prep_nop(io_uring_get_sqe(&ring));
    MUST(io_uring_submit(&ring) == 1);
    io_uring_queue_exit(&ring);
#endif
    MUST(syscall(SYS_io_setup, 1, &context) == 0);
    MUST(syscall(SYS_io_submit, context, 0, list) == 0);
    return 0;
}
