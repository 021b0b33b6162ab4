/*
 * peek.c - reads files of /proc in a child, which is killed if a read takes too long. The next read
 * starts another child.
 */
#include "host/peek.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/spawn.h"
#include "host/proc.h"

#define WAIT_S       1.0 /* for one file of a process: the child may have to wait for a CPU */
#define WAIT_D_S     0.1 /* … of a process in state D */
#define ROUND_S      2.0 /* for all files of a round */
#define END_S        0.1 /* for the end of a killed child */
#define CHILDREN_MAX 64  /* that were killed and have not ended: then nothing more is read */
#define FILE_MAX     16
#define ANSWER_MAX   ((uint32_t)8 << 20)

struct question {
    pid_t pid;
    char file[FILE_MAX];
};

struct stk_peek {
    int proc_fd;
    int ours; /* our end of a socket; -1: no child */
    struct stk_child child;
    pid_t stuck[CHILDREN_MAX]; /* children that have not ended */
    unsigned nstuck;
    double left_s; /* of the round */
};

/* ---- the child ---------------------------------------------------------------------------- */

static bool send_all(int fd, const void *data, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = send(fd, (const char *)data + done, n - done, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        done += (size_t)k;
    }
    return true;
}

static int answer_all(void *user)
{
    struct stk_peek *k = user;
    struct stk_buf text = STK_BUF_INIT;
    struct question q;
    close(k->ours);
    while (recv(STDIN_FILENO, &q, sizeof q, MSG_WAITALL) == (ssize_t)sizeof q) {
        q.file[FILE_MAX - 1] = '\0';
        uint32_t n = (uint32_t)stk_proc_read_all(k->proc_fd, q.pid, q.file, &text);
        if (!send_all(STDIN_FILENO, &n, sizeof n) || !send_all(STDIN_FILENO, text.data, n))
            break;
    }
    stk_buf_release(&text);
    return 0;
}

/* ---- the parent --------------------------------------------------------------------------- */

static void hang_up(struct stk_peek *k)
{
    if (k->ours >= 0)
        close(k->ours);
    k->ours = -1;
}

static bool start_child(struct stk_peek *k)
{
    int fd[2];
    if (k->nstuck >= CHILDREN_MAX || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0)
        return false;
    k->ours = fd[0];
    k->child = (struct stk_child){.inside = answer_all,
                                  .fd = {fd[1], STK_FD_NULL, STK_FD_NULL},
                                  .death_signal = SIGKILL,
                                  .user = k};
    int why = stk_child_start(&k->child);
    close(fd[1]);
    if (why)
        hang_up(k);
    return !why;
}

/* The read it hangs in ends with it, unless the kernel does not let even that happen. */
static void end_child(struct stk_peek *k)
{
    hang_up(k);
    if (!k->child.pid)
        return;
    stk_child_kill(&k->child, SIGKILL);
    if (stk_child_wait_for(&k->child, END_S) == ETIMEDOUT)
        k->stuck[k->nstuck++] = k->child.pid;
    k->child.pid = 0;
}

bool stk_peek_is_child(const struct stk_peek *k, pid_t pid)
{
    bool found = k && pid && k->child.pid == pid;
    for (unsigned i = 0; k && i < k->nstuck; i++)
        found = found || k->stuck[i] == pid;
    return found;
}

/* Receives n bytes before `until`; false: too late, or the child has ended. */
static bool receive(int fd, void *data, size_t n, double until)
{
    for (size_t done = 0; done < n;) {
        double left = until - stk_now();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = poll(&p, 1, left > 0 ? (int)(left * 1000) + 1 : 0);
        if (ready < 0 && errno == EINTR)
            continue;
        ssize_t k = ready > 0 ? recv(fd, (char *)data + done, n - done, 0) : 0;
        if (k <= 0)
            return false;
        done += (size_t)k;
    }
    return true;
}

static bool ask(struct stk_peek *k, const struct question *q, double limit_s, struct stk_buf *to)
{
    double until = stk_now() + limit_s;
    uint32_t n;
    if (!send_all(k->ours, q, sizeof *q) || !receive(k->ours, &n, sizeof n, until) ||
        n > ANSWER_MAX)
        return false;
    char *text = stk_buf_room(to, (size_t)n + 1);
    if (!text || !receive(k->ours, text, n, until + WAIT_S))
        return false;
    text[n] = '\0';
    to->len = n;
    return true;
}

enum stk_peeked stk_peek_read(struct stk_peek *k, pid_t pid, const char *file, char state,
                              struct stk_buf *to)
{
    struct question q = {.pid = pid};
    double limit_s = state == 'D' ? WAIT_D_S : WAIT_S;
    stk_buf_reset(to);
    if (k->left_s <= 0 || (k->ours < 0 && !start_child(k)))
        return STK_PEEK_LATER;
    snprintf(q.file, sizeof q.file, "%s", file);
    if (ask(k, &q, limit_s, to))
        return STK_PEEK_READ;
    k->left_s -= limit_s;
    stk_buf_reset(to);
    end_child(k);
    return STK_PEEK_HANGS;
}

void stk_peek_round(struct stk_peek *k)
{
    k->left_s = ROUND_S;
}

int stk_peek_open(int proc_fd, struct stk_peek **out, struct stk_err *err)
{
    struct stk_peek *k = calloc(1, sizeof *k);
    if (!k)
        return stk_err_nomem(err, sizeof *k);
    k->proc_fd = proc_fd;
    k->ours = -1;
    k->left_s = ROUND_S;
    *out = k;
    return 0;
}

void stk_peek_close(struct stk_peek *k)
{
    if (!k)
        return;
    end_child(k);
    free(k);
}
