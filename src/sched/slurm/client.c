/*
 * client.c - runs one client to its end: without a shell, with a time limit, with its output
 * in memory, and with an environment that does not change the output.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "sched/slurm/priv.h"

#define OUT_MAX ((size_t)64 << 20)
#define ERR_MAX ((size_t)64 << 10)

void stk_slurm_output_release(struct stk_slurm_output *out)
{
    stk_buf_release(&out->out);
    stk_buf_release(&out->err);
}

/* ---- how it is started -------------------------------------------------------------------- */

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* SBATCH_* are the user's settings for sbatch; SLURM_* come from a surrounding job, and would make
 * a submitted job look like a step of it. */
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

/* A submitted job gets the user's locale back. */
static bool is_kept(const char *var, const void *submits)
{
    bool locale = starts_with(var, "LC_ALL=") || starts_with(var, "LANG=");
    return kept(var) || (*(const bool *)submits && locale);
}

/* An unnamed file that holds the input: no pipe to fill, no SIGPIPE. */
static int input_fd(const void *input, size_t len, struct stk_err *err)
{
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

static int find_client(const char *client, const char **path, struct stk_err *err)
{
    int e = stk_find_tool(client, path, err);
    return e > 0 ? stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                               "not found: Slurm's clients are not in PATH (package slurm-client)")
                 : e;
}

int stk_slurm_have(const char *client, struct stk_err *err)
{
    const char *path;
    int rc = find_client(client, &path, err);
    return rc ? stk_err_wrap(err, rc, "%s", client) : 0;
}

int stk_slurm_start(struct stk_child *c, struct stk_err *err)
{
    static const char *const steady[] = {"LC_ALL=C", "SLURM_TIME_FORMAT=%s", NULL};
    const char *client = c->argv[0];
    int rc = find_client(client, &c->path, err);
    if (rc)
        return rc;
    bool sbatch = strcmp(client, "sbatch") == 0, submits = sbatch || strcmp(client, "srun") == 0;
    const char **env = stk_environment(is_kept, &submits, submits ? NULL : steady);
    if (!env)
        return stk_err_nomem(err, 0);
    c->env = env;
    /* Ctrl-C reaches the whole group of the terminal: an interrupted sbatch may have submitted a
     * job that nobody knows of. */
    c->own_group = sbatch;
    /* The others are useless once we are gone, even before they have started. */
    c->death_signal = sbatch ? 0 : SIGTERM;
    int e = stk_child_start(c);
    c->env = NULL;
    free(env);
    errno = e;
    return e ? stk_err_sys(err, c->path, "start") : 0;
}

/* ---- while it runs ------------------------------------------------------------------------ */

struct call {
    const struct stk_slurm *s;
    const struct stk_slurm_output *out;
};

static bool is_too_much(const struct stk_slurm_output *out)
{
    return out->out.len > OUT_MAX;
}

static int on_tick(void *user)
{
    const struct call *c = user;
    return is_too_much(c->out) || (c->s && c->s->stop && c->s->stop(c->s->user));
}

static int judge(const struct stk_child *c, const struct stk_slurm_output *out, struct stk_err *err)
{
    if (out->out.fail || out->err.fail)
        return stk_err_nomem(err, out->out.len);
    if (is_too_much(out))
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "it wrote more than 64 MiB");
    if (c->timed_out)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "it did not answer within %.0f s",
                           c->timeout_s);
    if (c->stopped)
        return stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    return 0;
}

/* The one place that reads messages of Slurm's clients. */
static unsigned trouble_of(const struct stk_buf *err)
{
    static const struct {
        const char *words;
        enum stk_slurm_trouble means;
    } known[] = {{"timed out", STK_SLURM_LATE}, /* "Socket timed out on send/recv operation" */
                 {"Unable to contact", STK_SLURM_UNREACHABLE},
                 {"SubmitJob", STK_SLURM_NOT_NOW}, /* "AssocMaxSubmitJobLimit" */
                 {"temporarily", STK_SLURM_NOT_NOW},
                 {"Invalid job id", STK_SLURM_NO_JOB},
                 {"already", STK_SLURM_OVER}};
    unsigned found = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (err->len && memmem(err->data, err->len, known[i].words, strlen(known[i].words)))
            found |= known[i].means;
    return found;
}

int stk_slurm_run(const struct stk_slurm *s, const char *const *argv, const void *input,
                  size_t input_len, struct stk_slurm_output *out, struct stk_err *err)
{
    struct call call = {.s = s, .out = out};
    struct stk_child c = {.argv = argv,
                          .fd = {STK_FD_NULL, STK_FD_PIPE, STK_FD_PIPE},
                          .text = {NULL, &out->out, &out->err},
                          .text_max = {0, OUT_MAX + 1, ERR_MAX},
                          .timeout_s = s && s->timeout_s > 0 ? s->timeout_s : 30,
                          .tick = on_tick,
                          .user = &call};
    *out = (struct stk_slurm_output){0};
    int in = input_len ? input_fd(input, input_len, err) : STK_FD_NULL;
    if (input_len && in < 0)
        return in;
    c.fd[0] = in;
    int rc = stk_slurm_start(&c, err);
    if (in >= 0)
        close(in);
    if (rc)
        return rc;
    int unknown = stk_child_attend(&c);
    stk_child_hang_up(&c);
    out->status = c.ending.status;
    out->trouble = trouble_of(&out->err) | (c.timed_out ? STK_SLURM_LATE : 0);
    errno = unknown;
    return unknown ? stk_err_sys(err, NULL, "waitpid") : judge(&c, out, err);
}

int stk_slurm_call(const struct stk_slurm *s, const char *const *argv, const void *input,
                   size_t input_len, struct stk_slurm_output *out, struct stk_err *err)
{
    int rc = stk_slurm_run(s, argv, input, input_len, out, err);
    return rc ? stk_err_wrap(err, rc, "%s", argv[0]) : 0;
}

/* All its "error:" messages, without its name; otherwise its first line. */
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
        snprintf(to, size, "it ended with status %d and no message", out->status);
}
