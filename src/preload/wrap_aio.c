/*
 * wrap_aio.c - asynchronous I/O, POSIX and kernel aio (libaio): a transfer is recorded when its
 * result is fetched, with the time from its start until then (its real end is unknown).
 */
#include <aio.h>
#include <linux/aio_abi.h>
#include <stdint.h>

#include "preload/wrap.h"

#include "base/random.h"

/* Transfers in progress, by the address of their control block. If all slots of one are taken, the
 * transfer is recorded with no duration. */
#define SLOTS  512
#define PROBES 8
static STK_TABLE struct transfer {
    const void *control; /* NULL: free (atomic) */
    uint64_t start_ns;
    bool write, counted; /* counted: lio_listio() waited and recorded it */
} transfers[SLOTS];

static unsigned slot_of(const void *control, unsigned probe)
{
    uint64_t key = (uint64_t)(uintptr_t)control * STK_GOLDEN64;
    return (unsigned)((key >> 32) + probe) % SLOTS;
}

static struct transfer *find(const void *control)
{
    for (unsigned p = 0; p < PROBES; p++) {
        struct transfer *t = &transfers[slot_of(control, p)];
        if (__atomic_load_n(&t->control, __ATOMIC_ACQUIRE) == control)
            return t;
    }
    return NULL;
}

/* A reused control block whose result was never fetched starts again. */
static void started(const void *control, bool write, uint64_t start_ns)
{
    struct transfer *t = find(control);
    for (unsigned p = 0; p < PROBES && !t; p++) {
        const void *expected = NULL;
        struct transfer *candidate = &transfers[slot_of(control, p)];
        if (__atomic_compare_exchange_n(&candidate->control, &expected, control, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            t = candidate;
    }
    if (!t)
        return;
    t->start_ns = start_ns;
    t->write = write;
    t->counted = false;
}

static void forget(struct transfer *t)
{
    __atomic_store_n(&t->control, NULL, __ATOMIC_RELEASE);
}

static void ended(const struct aiocb *cb, struct transfer *t, ssize_t n)
{
    struct stk_pl_call now;
    if (t->counted || !stk_pl_begin(&now))
        return;
    stk_pl_async(cb->aio_fildes, t->write, cb->aio_offset, n, t->start_ns, now.start_ns);
}

/* In librt before glibc 2.34, which a plugin may have loaded for itself alone. */
#define AIO(type, name, args)                                                                      \
    FOREIGN(type, name, args);                                                                     \
    if (!real) {                                                                                   \
        errno = ENOSYS;                                                                            \
        return -1;                                                                                 \
    }                                                                                              \
    (void)0

/* Registered before the call: on a fast disk the transfer may end before the call returns. */
#define START(name, writes)                                                                        \
    WRAP(int, name, (struct aiocb * cb))                                                           \
    {                                                                                              \
        AIO(int, name, (struct aiocb *));                                                          \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real(cb);                                                                       \
        started(cb, writes, call.start_ns);                                                        \
        int rc = real(cb);                                                                         \
        struct transfer *t = rc == 0 ? NULL : find(cb);                                            \
        if (t)                                                                                     \
            forget(t);                                                                             \
        return rc;                                                                                 \
    }
START(aio_read, false)
START(aio_read64, false)
START(aio_write, true)
START(aio_write64, true)

#define RESULT(name)                                                                               \
    WRAP(ssize_t, name, (struct aiocb * cb))                                                       \
    {                                                                                              \
        AIO(ssize_t, name, (struct aiocb *));                                                      \
        struct transfer *t = find(cb);                                                             \
        ssize_t n = real(cb);                                                                      \
        if (t) {                                                                                   \
            ended(cb, t, n);                                                                       \
            forget(t);                                                                             \
        }                                                                                          \
        return n;                                                                                  \
    }
RESULT(aio_return)
RESULT(aio_return64)

static void list_started(struct aiocb *const list[], int n)
{
    struct stk_pl_call now;
    if (!stk_pl_begin(&now))
        return;
    for (int i = 0; i < n; i++)
        if (list[i] && list[i]->aio_lio_opcode != LIO_NOP)
            started(list[i], list[i]->aio_lio_opcode == LIO_WRITE, now.start_ns);
}

/* All have ended: many programs do not fetch the results, which these duplicate. */
static void list_ended(struct aiocb *const list[], int n, const void *caller)
{
    int (*error)(const struct aiocb *) =
        (int (*)(const struct aiocb *))stk_foreign("aio_error", caller);
    ssize_t (*result)(struct aiocb *) =
        (ssize_t(*)(struct aiocb *))stk_foreign("aio_return", caller);
    for (int i = 0; error && result && i < n; i++) {
        struct transfer *t = list[i] ? find(list[i]) : NULL;
        if (!t || error(list[i]) == EINPROGRESS)
            continue;
        ended(list[i], t, result(list[i]));
        t->counted = true;
    }
}

#define LIST(name)                                                                                 \
    WRAP(int, name, (int mode, struct aiocb *const list[], int n, struct sigevent *event))         \
    {                                                                                              \
        AIO(int, name, (int, struct aiocb *const[], int, struct sigevent *));                      \
        list_started(list, n);                                                                     \
        int rc = real(mode, list, n, event);                                                       \
        int before = errno;                                                                        \
        if (mode == LIO_WAIT)                                                                      \
            list_ended(list, n, CALLER);                                                           \
        errno = before;                                                                            \
        return rc;                                                                                 \
    }
LIST(lio_listio)
LIST(lio_listio64)

/* ---- kernel aio ---- */

static bool moves_data(const struct iocb *cb)
{
    unsigned what = cb->aio_lio_opcode;
    return what == IOCB_CMD_PREAD || what == IOCB_CMD_PREADV || what == IOCB_CMD_PWRITE ||
           what == IOCB_CMD_PWRITEV;
}

static bool writes(const struct iocb *cb)
{
    return cb->aio_lio_opcode == IOCB_CMD_PWRITE || cb->aio_lio_opcode == IOCB_CMD_PWRITEV;
}

void stk_aio_submitting(struct iocb **list, long n)
{
    struct stk_pl_call now;
    if (!stk_pl_begin(&now))
        return;
    for (long i = 0; list && i < n; i++)
        if (list[i] && moves_data(list[i]))
            started(list[i], writes(list[i]), now.start_ns);
}

/* Those behind the accepted ones were not submitted. An accepted one may have been fetched by
 * another thread, and even be gone: only its address is used. */
void stk_aio_submitted(struct iocb **list, long n, long accepted)
{
    accepted = accepted < 0 ? 0 : accepted;
    if (accepted)
        stk_pl_tally(STK_TALLY_KERNEL_AIO, 1);
    stk_pl_tally(STK_TALLY_AIO_TRANSFERS, (uint64_t)accepted);
    for (long i = accepted; list && i < n; i++) {
        struct transfer *t = list[i] ? find(list[i]) : NULL;
        if (t)
            forget(t);
    }
}

void stk_aio_fetched(const struct io_event *event, long n)
{
    struct stk_pl_call now;
    if (n <= 0 || !event || !stk_pl_begin(&now))
        return;
    stk_pl_tally(STK_TALLY_AIO_RESULTS, (uint64_t)n);
    for (long i = 0; i < n; i++) {
        const struct iocb *cb = (const struct iocb *)(uintptr_t)event[i].obj;
        struct transfer *t = find(cb);
        uint64_t start = t ? t->start_ns : now.start_ns;
        if (t)
            forget(t);
        if (!moves_data(cb))
            continue;
        int64_t moved = event[i].res < 0 ? -1 : event[i].res;
        stk_pl_async((int)cb->aio_fildes, writes(cb), cb->aio_offset, moved, start, now.start_ns);
        stk_pl_tally(writes(cb) ? STK_TALLY_AIO_WRITTEN : STK_TALLY_AIO_READ,
                     moved > 0 ? (uint64_t)moved : 0);
    }
}

/* libaio's functions return negative error numbers. */
WRAP(int, io_submit, (void *context, long n, struct iocb **list))
{
    FOREIGN(int, io_submit, (void *, long, struct iocb **));
    if (!real)
        return -ENOSYS;
    stk_aio_submitting(list, n);
    stk_inside_library++;
    int rc = real(context, n, list);
    stk_inside_library--;
    stk_aio_submitted(list, n, rc);
    return rc;
}

#define FETCH(name, parameters, types, arguments)                                                  \
    WRAP(int, name, parameters)                                                                    \
    {                                                                                              \
        FOREIGN(int, name, types);                                                                 \
        if (!real)                                                                                 \
            return -ENOSYS;                                                                        \
        stk_inside_library++;                                                                      \
        int rc = real arguments;                                                                   \
        stk_inside_library--;                                                                      \
        stk_aio_fetched(events, rc);                                                               \
        return rc;                                                                                 \
    }
FETCH(io_getevents, (void *context, long least, long n, struct io_event *events, void *timeout),
      (void *, long, long, struct io_event *, void *), (context, least, n, events, timeout))
FETCH(io_pgetevents,
      (void *context, long least, long n, struct io_event *events, void *timeout, void *signals),
      (void *, long, long, struct io_event *, void *, void *),
      (context, least, n, events, timeout, signals))
