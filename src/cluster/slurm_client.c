/*
 * slurm_client.c - runs one client to its end: by argv, with a time limit, with what it prints in
 * memory, and with an environment that does not change what it prints.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pool.h"
#include "base/spawn.h"
#include "cluster/slurm_priv.h"

#define OUT_MAX ((size_t)64 << 20)
#define ERR_MAX ((size_t)64 << 10)

extern char **environ;

struct call {
    const struct stk_slurm *s;
    const char *name;
    struct stk_slurm_output *out;
    int fd[2]; /* its output and errors; -1: closed */
    pid_t pid;
    double until_s;
};

void stk_slurm_output_release(struct stk_slurm_output *out)
{
    stk_buf_release(&out->out);
    stk_buf_release(&out->err);
}

/* ---- what it is started with -------------------------------------------------------------- */

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* SBATCH_* are wishes of the user for sbatch; SLURM_* come from a job we are in, and would make a
 * job that we submit look like a step of it. */
static bool kept(const char *var)
{
    static const char *const dropped[] = {"SQUEUE_", "SACCT_",   "SSTAT_",  "SCONTROL_",
                                          "SINFO_",  "SCANCEL_", "LC_ALL=", "LANG="};
    static const char *const needed[] = {
        "SLURM_CONF=", "SLURM_CLUSTERS=", "SLURM_JWT=", "SLURM_CONF_SERVER="};
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
        if (starts_with(var, dropped[i]))
            return false;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (starts_with(var, needed[i]))
            return true;
    return !starts_with(var, "SLURM_");
}

/* malloc'ed; the texts are borrowed from the environment. The locale is the user's again in a job
 * that is submitted. NULL: no memory. */
static char **make_environment(bool submits)
{
    static char c_locale[] = "LC_ALL=C", numbers[] = "SLURM_TIME_FORMAT=%s";
    size_t n = 0, k = 0;
    while (environ[n])
        n++;
    char **env = malloc((n + 3) * sizeof *env);
    if (!env)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (kept(environ[i]) ||
            (submits && (starts_with(environ[i], "LC_ALL=") || starts_with(environ[i], "LANG="))))
            env[k++] = environ[i];
    if (!submits) {
        env[k++] = c_locale;
        env[k++] = numbers;
    }
    env[k] = NULL;
    return env;
}

/* A file without a name that holds the input: no pipe to fill, no signal when nobody reads. */
static int input_fd(const void *input, size_t len, struct stk_err *err)
{
    if (!len) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return null < 0 ? stk_err_sys(err, "/dev/null", "open") : null;
    }
    int fd = memfd_create("stoker-input", MFD_CLOEXEC);
    if (fd < 0)
        return stk_err_sys(err, NULL, "memfd_create");
    int rc = stk_write_full(fd, input, len, NULL, err);
    if (!rc && lseek(fd, 0, SEEK_SET) != 0)
        rc = stk_err_sys(err, NULL, "lseek");
    if (rc) {
        close(fd);
        return rc;
    }
    return fd;
}

static int not_there(const char *client, struct stk_err *err)
{
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "%s: not found: Slurm's clients are not in PATH (package slurm-client)",
                       client);
}

int stk_slurm_have(const char *client, struct stk_err *err)
{
    char *path;
    int e = stk_find_program(client, &path);
    free(path);
    return e ? not_there(client, err) : 0;
}

int stk_slurm_spawn(const char *const *argv, const int fd[3], pid_t *pid, struct stk_err *err)
{
    bool sbatch = strcmp(argv[0], "sbatch") == 0;
    char **env = make_environment(sbatch || strcmp(argv[0], "srun") == 0);
    if (!env)
        return stk_err_nomem(err, 0);
    /* Ctrl-C reaches everybody in the terminal's group: an sbatch that died of it may have
     * submitted a job that nobody knows of. */
    int e = stk_spawn(argv, env, fd, sbatch, pid);
    free(env);
    if (e == ENOENT)
        return not_there(argv[0], err);
    errno = e;
    return e ? stk_err_sys(err, NULL, "%s", argv[0]) : 0;
}

/* ---- while it runs ------------------------------------------------------------------------ */

/* Takes what is there; closes at its end. */
static int drain(struct call *c, int which, struct stk_err *err)
{
    struct stk_buf *b = which ? &c->out->err : &c->out->out;
    char chunk[65536];
    for (;;) {
        ssize_t got = read(c->fd[which], chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return 0;
        if (got <= 0) {
            close(c->fd[which]);
            c->fd[which] = -1;
            return 0;
        }
        size_t room = (which ? ERR_MAX : OUT_MAX) - b->len;
        if ((size_t)got > room && !which)
            return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "%s wrote more than 64 MiB",
                               c->name);
        stk_buf_put(b, chunk, (size_t)got < room ? (size_t)got : room);
        if (b->fail)
            return stk_err_nomem(err, b->len);
    }
}

static int patience(const struct call *c, struct stk_err *err)
{
    double limit_s = c->s && c->s->timeout_s > 0 ? c->s->timeout_s : 30;
    if (stk_now() > c->until_s)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "%s " STK_SLURM_NO_ANSWER " %.0f s",
                           c->name, limit_s);
    if (c->s && c->s->stop && c->s->stop(c->s->user))
        return stk_err_set(err, STK_E_STOPPED, NULL, -1, "%s: stopped", c->name);
    return 0;
}

/* Until it has ended and nothing more is there to read. A child of its own that keeps the pipe
 * open does not keep us. */
static int attend(struct call *c, int *status, struct stk_err *err)
{
    bool ended = false;
    for (int rc = 0;;) {
        struct pollfd p[2] = {{.fd = c->fd[0], .events = POLLIN},
                              {.fd = c->fd[1], .events = POLLIN}};
        bool open = c->fd[0] >= 0 || c->fd[1] >= 0;
        poll(p, 2, ended ? 0 : open ? 100 : 5);
        for (int i = 0; i < 2 && !rc; i++)
            if (c->fd[i] >= 0)
                rc = drain(c, i, err);
        if (rc || ended)
            return rc;
        pid_t got = waitpid(c->pid, status, WNOHANG);
        if (got < 0 && errno != EINTR)
            return stk_err_sys(err, NULL, "waitpid");
        ended = got == c->pid;
        if (ended)
            c->pid = -1;
        else if ((rc = patience(c, err)) != 0)
            return rc;
    }
}

static int communicate(struct call *c, struct stk_err *err)
{
    int status = 0;
    int rc = attend(c, &status, err);
    if (c->pid > 0) {
        kill(c->pid, SIGKILL);
        while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    for (int i = 0; i < 2; i++)
        if (c->fd[i] >= 0)
            close(c->fd[i]);
    c->out->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return rc;
}

int stk_slurm_call(const struct stk_slurm *s, const char *const *argv, const void *input,
                   size_t input_len, struct stk_slurm_output *out, struct stk_err *err)
{
    struct call c = {.s = s, .name = argv[0], .out = out, .pid = -1};
    int pipes[2][2] = {{-1, -1}, {-1, -1}}, w[2], rc = 0;
    *out = (struct stk_slurm_output){0};
    c.until_s = stk_now() + (s && s->timeout_s > 0 ? s->timeout_s : 30);
    int in = input_fd(input, input_len, err);
    if (in < 0)
        return in;
    for (int i = 0; i < 2 && !rc; i++)
        if (pipe2(pipes[i], O_CLOEXEC) != 0 || fcntl(pipes[i][0], F_SETFL, O_NONBLOCK) != 0)
            rc = stk_err_sys(err, NULL, "pipe");
    for (int i = 0; i < 2; i++) {
        c.fd[i] = pipes[i][0];
        w[i] = pipes[i][1];
    }
    if (!rc)
        rc = stk_slurm_spawn(argv, (const int[3]){in, w[0], w[1]}, &c.pid, err);
    close(in);
    for (int i = 0; i < 2; i++) {
        if (w[i] >= 0)
            close(w[i]);
        if (rc && c.fd[i] >= 0)
            close(c.fd[i]);
    }
    return rc ? rc : communicate(&c, err);
}

/* Every "error:" it made, without its name; else the first line it wrote. */
void stk_slurm_words(const struct stk_slurm_output *out, char *to, size_t size)
{
    const struct stk_buf *b = out->err.len ? &out->err : &out->out;
    struct stk_slurm_word first = {"", 0};
    size_t used = 0;
    for (size_t at = 0; at < b->len && used + 1 < size;) {
        const char *p = (const char *)b->data + at;
        const char *end = memchr(p, '\n', b->len - at);
        size_t n = end ? (size_t)(end - p) : b->len - at;
        at += n + 1;
        const char *error = memmem(p, n, "error: ", 7);
        first = first.n ? first : (struct stk_slurm_word){p, n};
        if (!error)
            continue;
        int len = snprintf(to + used, size - used, "%s%.*s", used ? "; " : "",
                           (int)(n - (size_t)(error - p) - 7), error + 7);
        used += len > 0 ? (size_t)len : 0;
    }
    if (!used && first.n)
        snprintf(to, size, "%.*s", (int)(first.n < size ? first.n : size - 1), first.p);
    else if (!used)
        snprintf(to, size, "it ended with status %d and said nothing", out->status);
}
