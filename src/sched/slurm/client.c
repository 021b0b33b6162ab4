/*
 * client.c - runs Slurm's clients: without a shell, with a time limit, with an environment that
 * does not change the output. One runs to its end with its output in memory, or is read line by
 * line while it runs. A question to one is answered into the list of jobs: its failure is noted in
 * the list and not an error, since another client may know.
 */
#include "sched/slurm/priv.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pool.h"

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

/* Starts the client argv[0]; sets its environment and group, as for stk_slurm_call(). Its errors do
 * not name the client, nor do those of slurm_run(). */
static int slurm_start(struct stk_child *c, struct stk_err *err)
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

static int slurm_run(const struct stk_slurm *s, const char *const *argv, const void *input,
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
    int rc = slurm_start(&c, err);
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
    int rc = slurm_run(s, argv, input, input_len, out, err);
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
    int rc = slurm_start(&s->child, err);
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

static int why_it_ended(struct stk_slurm_stream *s, struct stk_err *err)
{
    struct stk_slurm_output out = {.err = s->errors};
    char words[240];
    hang_up_input(s);
    end_within(s, PATIENCE_S);
    out.status = s->child.ending.status;
    if (out.status == 0 && !s->errors.len)
        return stk_err_set(
            err, STK_E_STOPPED, NULL, -1,
            "it why_it_ended without a message: the job has just started, or just ended");
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
    return why_it_ended(s, err);
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

/* ---- arguments and answers ---------------------------------------------------------------- */

void stk_slurm_arg(struct stk_slurm_args *a, const char *text)
{
    if (a->n < STK_SLURM_ARGV_MAX - 1)
        a->v[a->n++] = text;
}

void stk_slurm_args(struct stk_slurm_args *a, const struct stk_slurm *s, const char *const *words)
{
    *a = (struct stk_slurm_args){.v = {words[0]}, .n = 1};
    if (s && s->cluster && strcmp(words[0], "sstat") != 0) {
        stk_slurm_arg(a, "-M");
        stk_slurm_arg(a, s->cluster);
    }
    while (*++words)
        stk_slurm_arg(a, *words);
}

unsigned stk_slurm_bit(unsigned source)
{
    return (unsigned)__builtin_ctz(source);
}

/* A client that hangs for a minute would do so again, job by job: after a failure it is not called
 * again, nor are others that use the same controller. */
static bool in_vain(struct stk_slurm_jobs *jobs, unsigned source)
{
    const unsigned controllers = STK_SLURM_BY_SQUEUE | STK_SLURM_BY_SCONTROL | STK_SLURM_BY_SSTAT;
    if (!(jobs->silent & (source & controllers ? controllers : source)))
        return false;
    if (!(jobs->failed & source))
        snprintf(jobs->why[stk_slurm_bit(source)], sizeof jobs->why[0],
                 "not asked: the controller is silent");
    jobs->failed |= source;
    return true;
}

/* Some versions end with status 0 although the controller or the database did not answer. */
static bool complains(const struct stk_slurm_output *out)
{
    return !out->out.len && out->err.len && memmem(out->err.data, out->err.len, "error: ", 7);
}

/* An answer that ends in the middle says nothing about the jobs that it does not name. */
static int judge_answer(struct stk_slurm_jobs *jobs, unsigned source, int rc)
{
    if (rc != STK_SLURM_CUT)
        return rc;
    jobs->failed |= source;
    snprintf(jobs->why[stk_slurm_bit(source)], sizeof jobs->why[0], "its answer was cut short");
    return 0;
}

/* Runs a client whose failure is noted, not returned; only a request to stop and lack of memory are
 * errors. *said: out holds an answer. */
static int ask(const struct stk_slurm *s, const struct stk_slurm_args *a, unsigned source,
               struct stk_slurm_jobs *jobs, struct stk_slurm_output *out, bool *said,
               struct stk_err *err)
{
    struct stk_err why = {0};
    char *words = jobs->why[stk_slurm_bit(source)];
    jobs->asked |= source;
    *said = false;
    if (in_vain(jobs, source))
        return 0;
    int rc = slurm_run(s, a->v, NULL, 0, out, &why);
    *said = rc == 0 && out->status == 0 && !complains(out);
    if (rc == STK_E_STOPPED || rc == STK_E_NOMEM) {
        if (err)
            *err = why;
        return rc;
    }
    if (*said)
        return 0;
    if (rc == 0 && out->trouble & STK_SLURM_NO_JOB) { /* an answer */
        *said = true;
        return 0;
    }
    jobs->failed |= source;
    jobs->silent |= out->trouble & (STK_SLURM_LATE | STK_SLURM_UNREACHABLE) ? source : 0;
    if (rc)
        snprintf(words, sizeof jobs->why[0], "%.239s", why.what);
    else
        stk_slurm_words(out, words, sizeof jobs->why[0]);
    return 0;
}

/* ---- the clients that report -------------------------------------------------------------- */

/* who: "-j", ids or "-u", user; since: for sacct by user, or NULL. */
int stk_slurm_ask_squeue(const struct stk_slurm *s, const char *who, const char *list,
                         struct stk_slurm_jobs *jobs, bool only, struct stk_err *err)
{
    char sep[STK_SLURM_SEP_MAX];
    struct stk_buf format = STK_BUF_INIT;
    struct stk_slurm_output out = {0};
    struct stk_slurm_args a;
    bool said;
    stk_slurm_separator(sep);
    for (const char *f = stk_slurm_squeue_fields; *f; f++)
        stk_buf_printf(&format, "%s%%%c", f == stk_slurm_squeue_fields ? "" : sep, *f);
    stk_slurm_args(&a, s,
                   (const char *[]){"squeue", "-h", "-t", "all", "-o", stk_buf_cstr(&format), who,
                                    list, NULL});
    int rc = stk_buf_check(&format, err);
    rc = rc ? rc : ask(s, &a, STK_SLURM_BY_SQUEUE, jobs, &out, &said, err);
    if (!rc && said)
        rc = stk_slurm_read_squeue(jobs, (const char *)out.out.data, out.out.len, sep, only);
    rc = judge_answer(jobs, STK_SLURM_BY_SQUEUE, rc);
    stk_buf_release(&format);
    stk_slurm_output_release(&out);
    return rc;
}

int stk_slurm_ask_sacct(const struct stk_slurm *s, const char *who, const char *list,
                        const struct stk_slurm_range *range, struct stk_slurm_jobs *jobs, bool only,
                        struct stk_err *err)
{
    char sep[STK_SLURM_SEP_MAX], delimiter[STK_SLURM_SEP_MAX + 16];
    struct stk_slurm_output out = {0};
    struct stk_slurm_args a;
    bool said;
    stk_slurm_separator(sep);
    snprintf(delimiter, sizeof delimiter, "--delimiter=%s", sep);
    /* -D: every life of a requeued job */
    stk_slurm_args(&a, s,
                   (const char *[]){"sacct", "-D", "-n", "-P", "--noconvert", delimiter, "-o",
                                    stk_slurm_sacct_fields, who, list, range ? "-S" : NULL,
                                    range ? range->since : NULL, NULL});
    if (range && range->until[0]) {
        stk_slurm_arg(&a, "-E");
        stk_slurm_arg(&a, range->until);
    }
    int rc = ask(s, &a, STK_SLURM_BY_SACCT, jobs, &out, &said, err);
    if (!rc && said)
        rc = stk_slurm_read_sacct(jobs, (const char *)out.out.data, out.out.len, sep, only);
    rc = judge_answer(jobs, STK_SLURM_BY_SACCT, rc);
    stk_slurm_output_release(&out);
    return rc;
}

int stk_slurm_ask_scontrol(const struct stk_slurm *s, const char *id, uint64_t want,
                           struct stk_slurm_jobs *jobs, bool only, struct stk_err *err)
{
    struct stk_slurm_output out = {0};
    struct stk_slurm_args a;
    bool said;
    stk_slurm_args(&a, s, (const char *[]){"scontrol", "-d", "show", "job", id, NULL});
    int rc = ask(s, &a, STK_SLURM_BY_SCONTROL, jobs, &out, &said, err);
    if (!rc && said)
        rc = stk_slurm_read_scontrol(jobs, (const char *)out.out.data, out.out.len, want, only);
    rc = judge_answer(jobs, STK_SLURM_BY_SCONTROL, rc);
    stk_slurm_output_release(&out);
    return rc;
}

int stk_slurm_ask_sstat(const struct stk_slurm *s, const char *list, struct stk_slurm_jobs *jobs,
                        struct stk_err *err)
{
    struct stk_slurm_output out = {0};
    struct stk_slurm_args a;
    bool said;
    stk_slurm_args(&a, s,
                   (const char *[]){"sstat", "-a", "-n", "-P", "--noconvert", "-o",
                                    stk_slurm_sstat_fields, "-j", list, NULL});
    int rc = ask(s, &a, STK_SLURM_BY_SSTAT, jobs, &out, &said, err);
    if (!rc && said)
        rc = stk_slurm_read_sstat(jobs, (const char *)out.out.data, out.out.len, "|");
    rc = judge_answer(jobs, STK_SLURM_BY_SSTAT, rc);
    stk_slurm_output_release(&out);
    return rc;
}
