/*
 * slurm_stream.c - a client that runs on while its output is read line by line; what it says on
 * standard error is kept for the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/pool.h"
#include "cluster/slurm_priv.h"

#define LINE_MAX_BYTES ((size_t)1 << 20)
#define ERRORS_MAX     ((size_t)64 << 10)

struct stk_slurm_stream {
    int out, err; /* -1: at its end */
    pid_t pid;    /* -1: waited for */
    struct stk_buf text, errors;
    size_t taken; /* of text: given out */
    int status;
};

int stk_slurm_stream_open(const char *const *argv, struct stk_slurm_stream **out,
                          struct stk_err *err)
{
    struct stk_slurm_stream *s = calloc(1, sizeof *s);
    int o[2] = {-1, -1}, e[2] = {-1, -1}, null = open("/dev/null", O_RDONLY | O_CLOEXEC), rc = 0;
    if (!s)
        rc = stk_err_nomem(err, sizeof *s);
    else if (null < 0 || pipe2(o, O_CLOEXEC) != 0 || pipe2(e, O_CLOEXEC) != 0 ||
             fcntl(o[0], F_SETFL, O_NONBLOCK) != 0 || fcntl(e[0], F_SETFL, O_NONBLOCK) != 0)
        rc = stk_err_sys(err, NULL, "pipe");
    else
        rc = stk_slurm_spawn(argv, (const int[3]){null, o[1], e[1]}, &s->pid, err);
    const int ours[] = {null, o[1], e[1], rc ? o[0] : -1, rc ? e[0] : -1};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (ours[i] >= 0)
            close(ours[i]);
    if (rc) {
        free(s);
        return rc;
    }
    s->out = o[0];
    s->err = e[0];
    *out = s;
    return 0;
}

/* Takes what is there, at most `room` bytes; the rest of errors is dropped. */
static void drain(int *fd, struct stk_buf *b, size_t max)
{
    char chunk[16384];
    ssize_t got = read(*fd, chunk, sizeof chunk);
    if (got > 0) {
        size_t room = max > b->len ? max - b->len : 0;
        stk_buf_put(b, chunk, (size_t)got < room ? (size_t)got : room);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        close(*fd);
        *fd = -1;
    }
}

/* 1: a line; 0: none yet. */
static int take_line(struct stk_slurm_stream *s, const char **line, size_t *len)
{
    const char *p = (const char *)s->text.data + s->taken;
    size_t left = s->text.len - s->taken;
    const char *end = left ? memchr(p, '\n', left) : NULL;
    if (!end)
        return 0;
    *line = p;
    *len = (size_t)(end - p);
    s->taken += *len + 1;
    return 1;
}

static int ended(struct stk_slurm_stream *s, struct stk_err *err)
{
    struct stk_slurm_output out = {.err = s->errors};
    char words[240];
    int status = 0;
    if (s->pid > 0 && waitpid(s->pid, &status, 0) == s->pid) {
        s->pid = -1;
        s->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    out.status = s->status;
    if (s->status == 0 && !s->errors.len)
        return stk_err_set(err, STK_E_STOPPED, NULL, -1,
                           "it ended without a word: the job has just begun, or just ended");
    stk_slurm_words(&out, words, sizeof words);
    return stk_err_set(err, STK_E_STOPPED, NULL, -1, "%s", words);
}

int stk_slurm_stream_line(struct stk_slurm_stream *s, double wait_s, const char **line, size_t *len,
                          struct stk_err *err)
{
    double until = stk_now() + wait_s;
    if (take_line(s, line, len))
        return 1;
    /* What was given out is not needed any more. */
    if (s->taken) {
        memmove(s->text.data, s->text.data + s->taken, s->text.len - s->taken);
        s->text.len -= s->taken;
        s->taken = 0;
    }
    while (s->out >= 0) {
        double left = until - stk_now();
        struct pollfd p[2] = {{.fd = s->out, .events = POLLIN}, {.fd = s->err, .events = POLLIN}};
        int got = poll(p, 2, left > 0 ? (int)(left * 1000) + 1 : 0);
        if (got > 0 && p[1].revents)
            drain(&s->err, &s->errors, ERRORS_MAX);
        if (got > 0 && p[0].revents)
            drain(&s->out, &s->text, LINE_MAX_BYTES + 65536);
        if (take_line(s, line, len))
            return 1;
        if (s->text.len > LINE_MAX_BYTES || s->text.fail)
            return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "a line of more than 1 MiB");
        if (got < 0 || (got == 0 && left <= 0))
            return 0;
    }
    while (s->err >= 0 && stk_now() < until + 1) {
        struct pollfd p = {.fd = s->err, .events = POLLIN};
        if (poll(&p, 1, 100) > 0)
            drain(&s->err, &s->errors, ERRORS_MAX);
    }
    return ended(s, err);
}

void stk_slurm_stream_close(struct stk_slurm_stream *s)
{
    if (!s)
        return;
    double until = stk_now() + 5;
    struct timespec nap = {0, 20 * 1000000};
    int status;
    if (s->pid > 0)
        kill(s->pid, SIGTERM);
    while (s->pid > 0) {
        pid_t got = waitpid(s->pid, &status, WNOHANG);
        if (got == s->pid || (got < 0 && errno != EINTR))
            s->pid = -1;
        else if (stk_now() > until)
            kill(s->pid, SIGKILL);
        if (s->pid > 0)
            nanosleep(&nap, NULL);
    }
    if (s->out >= 0)
        close(s->out);
    if (s->err >= 0)
        close(s->err);
    stk_buf_release(&s->text);
    stk_buf_release(&s->errors);
    free(s);
}
