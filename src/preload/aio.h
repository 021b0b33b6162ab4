/*
 * aio.h - kernel aio, by libaio and by syscall(): what is submitted, and results that are fetched.
 */
#ifndef STK_PRELOAD_AIO_H
#define STK_PRELOAD_AIO_H

struct iocb;
struct io_event;

/* Before the call: a transfer may end, and its result be fetched by another thread, before it
 * returns. */
void stk_aio_submitting(struct iocb **list, long n);
/* `accepted` of them were (negative: an error). */
void stk_aio_submitted(struct iocb **list, long n, long accepted);
void stk_aio_fetched(const struct io_event *event, long n);

#endif
