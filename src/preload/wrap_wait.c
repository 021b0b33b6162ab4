/*
 * wrap_wait.c - how long the main thread waits for other processes (data on pipes and sockets) and
 * for other threads (semaphores, which Python's locks and queues are made of). In a program whose
 * workers prepare its data, that is the wait for data.
 *
 * Condition variables are not watched: a main thread also waits on them for the GIL and for
 * backward passes. A wait needs no record of a thread: threads that only wait are not readers.
 */
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "preload/priv.h"
#include "preload/wrap.h"

#define LEAST_NS 10000u /* a shorter wait found what it waited for */
#define FDS_MOST 64     /* of a wait that are looked at */

/* Whether this is the main thread, and in which process that was determined. */
static __thread struct {
    uint32_t epoch;
    bool is;
} main_thread STK_PL_TLS;

bool stk_pl_main_thread(void)
{
    if (UNLIKELY(main_thread.epoch != stk_pl.epoch)) {
        main_thread.is = stk_sys0(SYS_gettid) == stk_sys0(SYS_getpid);
        main_thread.epoch = stk_pl.epoch;
    }
    return main_thread.is;
}

static bool recording(void)
{
    return !(stk_pl_self.inside | stk_pl_self.vforked) &&
           __atomic_load_n(&stk_pl.state, __ATOMIC_RELAXED) == STK_PL_ON && stk_pl.watch->alive;
}

/* 0: this wait does not count. */
static uint64_t wait_begins(void)
{
    return recording() && stk_pl_main_thread() ? stk_pl_clock_mono() : 0;
}

static uint64_t waited_ns(uint64_t since)
{
    uint64_t now = since && recording() ? stk_pl_clock_mono() : 0;
    return now > since + LEAST_NS ? now - since : 0;
}

static void for_threads(uint64_t since)
{
    uint64_t ns = waited_ns(since);
    if (ns)
        stk_pl_sum(&stk_pl.log->wait_threads_ns, ns);
}

static void for_processes(uint64_t since)
{
    uint64_t ns = waited_ns(since);
    if (ns)
        stk_pl_sum(&stk_pl.log->wait_processes_ns, ns);
}

/* A library reports a wait that it made on a condition variable (base/mark.h). */
STK_EXPORT void stoker_preload_waited(uint64_t begin_mono_ns);
void stoker_preload_waited(uint64_t begin_mono_ns)
{
    if (wait_begins())
        for_threads(begin_mono_ns);
}

bool stk_pl_talks(uint32_t mode)
{
    return S_ISFIFO(mode) || S_ISSOCK(mode);
}

/* Whether another process or node is at the other end. */
static bool fd_talks(int fd)
{
    struct stat st;
    return fd >= 0 && stk_sys4(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) >= 0 &&
           stk_pl_talks(st.st_mode);
}

static bool any_talks(const struct pollfd *fds, nfds_t n)
{
    bool any = false;
    for (nfds_t i = 0; i < n && i < FDS_MOST && !any; i++)
        any = fd_talks(fds[i].fd);
    return any;
}

/* `set` as it was before the call: at the end it has only what arrived. */
static bool set_talks(const fd_set *set, int n)
{
    bool any = false;
    for (int fd = 0; set && fd < n && fd < FD_SETSIZE && !any; fd++)
        any = FD_ISSET(fd, set) && fd_talks(fd);
    return any;
}

#define POLL(name, parameters, types, arguments)                                                   \
    WRAP(int, name, parameters)                                                                    \
    {                                                                                              \
        REAL_OR(int, name, types, -1);                                                             \
        uint64_t since = wait_begins();                                                            \
        int n = real arguments;                                                                    \
        if (waited_ns(since) && any_talks(fds, count))                                             \
            for_processes(since);                                                                  \
        return n;                                                                                  \
    }
POLL(poll, (struct pollfd * fds, nfds_t count, int ms), (struct pollfd *, nfds_t, int),
     (fds, count, ms))
POLL(__poll_chk, (struct pollfd * fds, nfds_t count, int ms, size_t room),
     (struct pollfd *, nfds_t, int, size_t), (fds, count, ms, room))
POLL(ppoll, (struct pollfd * fds, nfds_t count, const struct timespec *limit, const sigset_t *mask),
     (struct pollfd *, nfds_t, const struct timespec *, const sigset_t *),
     (fds, count, limit, mask))

#define SELECT(name, parameters, types, arguments)                                                 \
    WRAP(int, name, parameters)                                                                    \
    {                                                                                              \
        REAL(int, name, types);                                                                    \
        uint64_t since = wait_begins();                                                            \
        bool talks = since && set_talks(in, n);                                                    \
        int ready = real arguments;                                                                \
        if (talks)                                                                                 \
            for_processes(since);                                                                  \
        return ready;                                                                              \
    }
SELECT(select, (int n, fd_set *in, fd_set *out, fd_set *bad, struct timeval *limit),
       (int, fd_set *, fd_set *, fd_set *, struct timeval *), (n, in, out, bad, limit))
SELECT(pselect,
       (int n, fd_set *in, fd_set *out, fd_set *bad, const struct timespec *limit,
        const sigset_t *mask),
       (int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *),
       (n, in, out, bad, limit, mask))

#define WAIT(type, for_whom, name, parameters, types, arguments)                                   \
    WRAP(type, name, parameters)                                                                   \
    {                                                                                              \
        REAL_OR(type, name, types, -1);                                                            \
        uint64_t since = wait_begins();                                                            \
        type result = real arguments;                                                              \
        for_whom(since);                                                                           \
        return result;                                                                             \
    }
WAIT(int, for_processes, epoll_wait, (int fd, struct epoll_event *events, int room, int ms),
     (int, struct epoll_event *, int, int), (fd, events, room, ms))
WAIT(int, for_processes, epoll_pwait,
     (int fd, struct epoll_event *events, int room, int ms, const sigset_t *mask),
     (int, struct epoll_event *, int, int, const sigset_t *), (fd, events, room, ms, mask))
WAIT(ssize_t, for_processes, recv, (int fd, void *p, size_t n, int flags),
     (int, void *, size_t, int), (fd, p, n, flags))
WAIT(ssize_t, for_processes, recvfrom,
     (int fd, void *p, size_t n, int flags, struct sockaddr *from, socklen_t *length),
     (int, void *, size_t, int, struct sockaddr *, socklen_t *), (fd, p, n, flags, from, length))
WAIT(ssize_t, for_processes, recvmsg, (int fd, struct msghdr *message, int flags),
     (int, struct msghdr *, int), (fd, message, flags))

WAIT(int, for_threads, sem_wait, (sem_t * s), (sem_t *), (s))
WAIT(int, for_threads, sem_timedwait, (sem_t * s, const struct timespec *limit),
     (sem_t *, const struct timespec *), (s, limit))
WAIT(int, for_threads, sem_clockwait, (sem_t * s, clockid_t clock, const struct timespec *limit),
     (sem_t *, clockid_t, const struct timespec *), (s, clock, limit))
