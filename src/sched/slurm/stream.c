/*
 * stream.c - a client whose output is read line by line while it runs; its standard error is
 * kept for the end.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/pool.h"
#include "sched/slurm/priv.h"

#define LINE_MAX_BYTES ((size_t)1 << 20)
#define ERRORS_MAX     ((size_t)64 << 10)
#define PATIENCE_S     5.0 /* for its end, after SIGTERM or the end of its output */

#define OUT 1
#define ERR 2

struct stk_slurm_stream {
    struct stk_child child;
    int input; /* our end of its standard input: a socket, which needs no SIGPIPE */
    struct stk_buf text, errors;
    size_t taken; /* bytes of text that were returned */
};

int stk_slurm_stream_open(const char *const *argv, struct stk_slurm_stream **out,
                          struct stk_err *err)
{
    struct stk_slurm_stream *s = calloc(1, sizeof *s);
    if (!s)
        return stk_err_nomem(err, sizeof *s);
    int fd[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0) {
        free(s);
        return stk_err_sys(err, NULL, "socketpair");
    }
    s->child.argv = argv;
    for (int i = 0; i < 3; i++)
        s->child.fd[i] = i == 0 ? fd[1] : STK_FD_PIPE;
    int rc = stk_slurm_start(&s->child, err);
    close(fd[1]);
    s->input = fd[0];
    if (rc) {
        close(s->input);
        free(s);
        return stk_err_wrap(err, rc, "%s", argv[0]);
    }
    *out = s;
    return 0;
}

void stk_slurm_stream_beat(struct stk_slurm_stream *s)
{
    if (s->input >= 0)
        (void)send(s->input, "\n", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Drops further errors when full. */
static void read_errors(struct stk_slurm_stream *s)
{
    (void)stk_child_read(&s->child, ERR, &s->errors, ERRORS_MAX);
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

static void hang_up_input(struct stk_slurm_stream *s)
{
    if (s->input >= 0)
        close(s->input);
    s->input = -1;
}

static void end_within(struct stk_slurm_stream *s, double seconds)
{
    if (stk_child_wait_for(&s->child, seconds) == ETIMEDOUT)
        (void)stk_child_end(&s->child, PATIENCE_S);
}

static int ended(struct stk_slurm_stream *s, struct stk_err *err)
{
    struct stk_slurm_output out = {.err = s->errors};
    char words[240];
    hang_up_input(s);
    end_within(s, PATIENCE_S);
    out.status = s->child.ending.status;
    if (out.status == 0 && !s->errors.len)
        return stk_err_set(err, STK_E_STOPPED, NULL, -1,
                           "it ended without a message: the job has just started, or just ended");
    stk_slurm_words(&out, words, sizeof words);
    return stk_err_set(err, STK_E_STOPPED, NULL, -1, "%s", words);
}

int stk_slurm_stream_line(struct stk_slurm_stream *s, double wait_s, const char **line, size_t *len,
                          struct stk_err *err)
{
    double until = stk_now() + wait_s;
    if (take_line(s, line, len))
        return 1;
    /* Returned text is no longer needed. */
    if (s->taken) {
        memmove(s->text.data, s->text.data + s->taken, s->text.len - s->taken);
        s->text.len -= s->taken;
        s->taken = 0;
    }
    while (s->child.pipe[OUT] >= 0) {
        double left = until - stk_now();
        struct pollfd p[2] = {{.fd = s->child.pipe[OUT], .events = POLLIN},
                              {.fd = s->child.pipe[ERR], .events = POLLIN}};
        int got = poll(p, 2, left > 0 ? (int)(left * 1000) + 1 : 0);
        if (got > 0 && p[1].revents)
            read_errors(s);
        if (got > 0 && p[0].revents)
            (void)stk_child_read(&s->child, OUT, &s->text, LINE_MAX_BYTES + 65536);
        if (take_line(s, line, len))
            return 1;
        if (s->text.len > LINE_MAX_BYTES || s->text.fail)
            return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "a line of more than 1 MiB");
        if (got < 0 || (got == 0 && left <= 0))
            return 0;
    }
    while (s->child.pipe[ERR] >= 0 && stk_now() < until + 1) {
        struct pollfd p = {.fd = s->child.pipe[ERR], .events = POLLIN};
        if (poll(&p, 1, 100) > 0)
            read_errors(s);
    }
    return ended(s, err);
}

void stk_slurm_stream_close(struct stk_slurm_stream *s)
{
    if (!s)
        return;
    hang_up_input(s);
    stk_child_kill(&s->child, SIGTERM);
    end_within(s, PATIENCE_S);
    stk_child_hang_up(&s->child);
    stk_buf_release(&s->text);
    stk_buf_release(&s->errors);
    free(s);
}
