/*
 * jail.c - the child process that lists a file, the pipe, and the parent's distrust of both.
 *
 * A message is a fixed header and a blob. The last message carries the result of list(); a child
 * that ends without it has crashed. The child cannot reach other files, and can only read and
 * answer (base/confine.h). This file knows no format.
 */
#include "format/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/confine.h"
#include "base/pool.h"
#include "base/spawn.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) ||                         \
    __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define BATCH_BYTES (256u << 10) /* per write: a quarter of the pipe */
#define PIPE_BYTES  (1 << 20)    /* the most that an unprivileged process may request */
#define CHILD_MEMORY                                                                               \
    (4ull << 30) /* address space beyond what is mapped at the fork and the file                   \
                  */
#define WAIT_TICK_MS    1000
#define KILL_PATIENCE_S 5.0
#define MSG_ALIVE       250
#define MSG_END         251

struct message {
    uint8_t type; /* enum stk_event_type, or MSG_* */
    uint8_t has_key;
    uint16_t chain;
    uint32_t field;
    uint64_t a, b, c;
    uint32_t blob_len;
    uint32_t pad;
};

/* ---- the child ---- */

struct child_sink {
    struct stk_sink sink;
    int fd;
    time_t sent; /* when the last batch left, coarse seconds */
    size_t len;
    uint8_t batch[BATCH_BYTES];
};

static time_t coarse_seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    return ts.tv_sec;
}

/* If a write fails, the parent is gone or wants no more: there is no one to report to. */
static void send_bytes(int fd, const uint8_t *p, size_t n)
{
    while (n) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            _exit(1);
        p += done;
        n -= (size_t)done;
    }
}

static void child_flush(struct child_sink *s)
{
    send_bytes(s->fd, s->batch, s->len);
    s->len = 0;
    s->sent = coarse_seconds();
}

static void child_send(struct child_sink *s, const struct message *m, const void *blob)
{
    if (s->len + sizeof *m + m->blob_len > sizeof s->batch)
        child_flush(s);
    if (sizeof *m + m->blob_len > sizeof s->batch) {
        send_bytes(s->fd, (const uint8_t *)m, sizeof *m);
        send_bytes(s->fd, blob, m->blob_len);
        return;
    }
    memcpy(s->batch + s->len, m, sizeof *m);
    if (m->blob_len)
        memcpy(s->batch + s->len + sizeof *m, blob, m->blob_len);
    s->len += sizeof *m + m->blob_len;
    /* Rare events must not wait here until the parent assumes a hang. */
    if (s->sent != coarse_seconds())
        child_flush(s);
}

/* Continues even after problems: a parent that wants to stop kills the child. */
static int child_event(struct stk_sink *sink, const struct stk_event *e, struct stk_err *err)
{
    if (e->blob_len > STK_EVENT_BLOB_MAX)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "a name or key of %u bytes",
                           e->blob_len);
    struct message m = {.type = e->type,
                        .has_key = e->has_key,
                        .chain = e->chain,
                        .field = e->field,
                        .a = e->a,
                        .b = e->b,
                        .c = e->c,
                        .blob_len = e->blob_len};
    child_send((struct child_sink *)sink, &m, e->blob);
    return 0;
}

void stk_list_alive(struct stk_lister *l)
{
    if (l->sink->event != child_event)
        return;
    struct child_sink *s = (struct child_sink *)l->sink;
    if (s->sent == coarse_seconds())
        return;
    struct message m = {.type = MSG_ALIVE};
    child_send(s, &m, NULL);
}

/* Bounds the memory that a damaged length could request; not with sanitizers, which map
 * terabytes. */
static void limit_memory(uint64_t file_bytes)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f)
        return;
    int got = fscanf(f, "%lu", &pages);
    fclose(f);
    long page = sysconf(_SC_PAGESIZE);
    rlim_t most;
    struct rlimit now;
    if (got != 1 || page <= 0 || getrlimit(RLIMIT_AS, &now) < 0 ||
        __builtin_add_overflow((rlim_t)pages * (rlim_t)page + CHILD_MEMORY, file_bytes, &most) ||
        now.rlim_cur < most)
        return;
    struct rlimit lim = {.rlim_cur = most, .rlim_max = now.rlim_max};
    (void)setrlimit(RLIMIT_AS, &lim);
}

/* Returns the descriptor for messages: the old standard output, which the library cannot print
 * to. */
static int child_prepare(uint64_t file_bytes)
{
    static const int deadly[] = {SIGSEGV, SIGBUS,  SIGABRT, SIGFPE, SIGILL,
                                 SIGTERM, SIGALRM, SIGTRAP, SIGSYS, SIGXCPU};
    /* A core file of an expected crash is useless. */
    struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        (void)signal(deadly[i], SIG_DFL);
    (void)signal(SIGPIPE, SIG_IGN);
    /* Ctrl-C goes to the whole group; the parent decides what it means. */
    (void)signal(SIGINT, SIG_IGN);
    sigset_t all;
    sigfillset(&all);
    (void)sigprocmask(SIG_UNBLOCK, &all, NULL);
    int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    if (!SANITIZED)
        limit_memory(file_bytes);
    return fd;
}

/* The child's task. */
struct task {
    const struct stk_format *format;
    const struct stk_list_options *opts;
    struct stk_src *src;
};

static int child_main(void *user)
{
    const struct task *t = user;
    struct child_sink *s = malloc(sizeof *s);
    if (!s)
        return 1;
    s->sink.event = child_event;
    s->fd = child_prepare(stk_src_file_size(t->src));
    (void)stk_confine(&(struct stk_confine){.readable = stk_src_fd(t->src), .answers = s->fd});
    s->len = 0;
    s->sent = coarse_seconds();
    struct stk_err err = {.offset = -1};
    struct stk_lister l;
    stk_lister_init(&l, &s->sink, t->src, t->opts);
    int rc = t->format->list(&l, t->src, &err);
    err.code = rc;
    struct message m = {.type = MSG_END, .blob_len = rc < 0 ? sizeof err : 0};
    child_send(s, &m, &err);
    child_flush(s);
    return 0; /* straight to _exit(): the parent's state is neither flushed nor torn down */
}

/* ---- the parent ---- */

struct parent {
    const struct stk_format *format;
    struct stk_lister *lister;
    const char *path;
    struct stk_child child;
    struct stk_buf in;
    size_t at; /* bytes of `in` already processed */
    uint32_t nfields, nchains;
    uint64_t nextents; /* extents the child may refer to */
    bool ended;        /* MSG_END was seen */
};

static int distrust(const struct parent *p, const char *what, struct stk_err *err)
{
    return stk_err_set(err, STK_E_CORRUPT, p->path, -1,
                       "lib%s listed this file wrongly (%s): it is damaged", p->format->name, what);
}

static bool field_is_sound(const struct message *m, const uint8_t *blob)
{
    struct stk_field_wire w;
    if (m->blob_len < sizeof w)
        return false;
    memcpy(&w, blob, sizeof w);
    return m->blob_len - sizeof w <= 4096 && w.kind >= STK_BYTES && w.kind <= STK_LIST &&
           w.dtype <= STK_BOOL && w.ndim <= STK_MAX_NDIM && memchr(w.codec, 0, sizeof w.codec);
}

static bool chain_is_sound(const struct message *m, const uint8_t *blob)
{
    struct stk_chain c;
    if (m->blob_len != sizeof c)
        return false;
    memcpy(&c, blob, sizeof c);
    return c.nsteps <= STK_CHAIN_MAX; /* decoding refuses unknown steps */
}

static bool column_is_sound(const struct parent *p, const struct message *m, const uint8_t *blob)
{
    struct stk_stripe c;
    if (m->blob_len != sizeof c)
        return false;
    memcpy(&c, blob, sizeof c);
    if (c.field < 0 || (uint32_t)c.field >= p->nfields || c.first_extent < 0 || !c.per_extent)
        return false;
    uint64_t tiles = c.tiles ? c.tiles : 1, end = m->a ? (m->a - 1) / c.per_extent + 1 : 0;
    return !m->a ||
           (!__builtin_mul_overflow(end, tiles, &end) &&
            !__builtin_add_overflow(end, (uint64_t)c.first_extent, &end) && end <= p->nextents);
}

/* Checks what later code assumes about events: a corrupted child may send anything. */
static bool note_is_sound(const struct message *m, const uint8_t *blob)
{
    const char *text[3];
    return m->blob_len <= 3 * STK_NOTE_MAX && stk_event_texts(blob, m->blob_len, text);
}

static const char *unsound(struct parent *p, const struct message *m, const uint8_t *blob)
{
    bool chain_ok = m->chain == STK_NO_CHAIN || m->chain < p->nchains;
    bool field_ok = m->field < p->nfields;
    switch (m->type) {
    case STK_EV_FIELD:
        p->nfields++;
        return field_is_sound(m, blob) ? NULL : "field";
    case STK_EV_CHAIN:
        p->nchains++;
        return chain_is_sound(m, blob) ? NULL : "filter chain";
    case STK_EV_EXTENT:
        p->nextents++;
        return chain_ok ? NULL : "extent";
    case STK_EV_RECORD:
        p->nextents++;
        return chain_ok && field_ok ? NULL : "record";
    case STK_EV_PART:
        return field_ok && m->c < p->nextents ? NULL : "part";
    case STK_EV_COLUMN:
        return column_is_sound(p, m, blob) ? NULL : "column";
    case STK_EV_CRC:
        return p->nextents ? NULL : "checksum";
    case STK_EV_SAMPLE:
    case STK_EV_KEY:
    case STK_EV_CONTEXT:
    case STK_EV_PROBLEM:
        return NULL;
    case STK_EV_LEFT_OUT:
    case STK_EV_TAKEN:
        return note_is_sound(m, blob) ? NULL : "note";
    default:
        return "event";
    }
}

static int take_end(struct parent *p, const struct message *m, const uint8_t *blob,
                    struct stk_err *err)
{
    p->ended = true;
    if (!m->blob_len)
        return 0;
    struct stk_err e;
    if (m->blob_len != sizeof e)
        return distrust(p, "end", err);
    memcpy(&e, blob, sizeof e);
    e.path[sizeof e.path - 1] = '\0';
    e.what[sizeof e.what - 1] = '\0';
    if (e.code >= 0 || e.code < STK_E_STOPPED)
        e.code = STK_E_CORRUPT;
    if (err)
        *err = e;
    return e.code;
}

static int take_message(struct parent *p, const struct message *m, const uint8_t *blob,
                        struct stk_err *err)
{
    if (m->type == MSG_ALIVE)
        return 0;
    if (m->type == MSG_END)
        return take_end(p, m, blob, err);
    const char *wrong = unsound(p, m, blob);
    if (wrong)
        return distrust(p, wrong, err);
    struct stk_event e = {.type = m->type,
                          .has_key = m->has_key != 0,
                          .chain = m->chain,
                          .field = m->field,
                          .a = m->a,
                          .b = m->b,
                          .c = m->c,
                          .blob = m->blob_len ? blob : NULL,
                          .blob_len = m->blob_len};
    struct stk_sink *sink = p->lister->sink;
    return sink->event(sink, &e, err);
}

/* Processes all complete messages in the buffer and keeps the rest. */
static int take_messages(struct parent *p, struct stk_err *err)
{
    int rc = 0;
    while (rc == 0 && !p->ended && p->in.len - p->at >= sizeof(struct message)) {
        struct message m;
        memcpy(&m, p->in.data + p->at, sizeof m);
        if (m.blob_len > STK_EVENT_BLOB_MAX)
            return distrust(p, "length", err);
        if (p->in.len - p->at - sizeof m < m.blob_len)
            break;
        rc = take_message(p, &m, p->in.data + p->at + sizeof m, err);
        p->at += sizeof m + m.blob_len;
    }
    memmove(p->in.data, p->in.data + p->at, p->in.len - p->at);
    p->in.len -= p->at;
    p->at = 0;
    return rc;
}

/* Reads what is available. 1: something came, 0: nothing yet, negative: the end, STK_E_STOPPED. */
static int read_some(struct parent *p)
{
    uint8_t *to = stk_buf_room(&p->in, BATCH_BYTES);
    if (!to)
        return 0;
    ssize_t n = read(p->child.pipe[1], to, BATCH_BYTES);
    if (n > 0)
        p->in.len += (size_t)n;
    if (n > 0)
        return 1;
    return n < 0 && errno == EINTR ? 0 : STK_E_STOPPED;
}

/* Reads until the child's last message, its death (0 with !ended) or its silence. */
static int follow(struct parent *p, double silence_s, struct stk_err *err)
{
    double heard = stk_now();
    bool dying = false; /* the child has ended: only the rest of the pipe is left */
    while (!p->ended) {
        struct pollfd pf = {.fd = p->child.pipe[1], .events = POLLIN};
        double left_ms = (heard + silence_s - stk_now()) * 1e3;
        int tick = left_ms < WAIT_TICK_MS ? (left_ms < 1 ? 1 : (int)left_ms) : WAIT_TICK_MS;
        int n = poll(&pf, 1, dying ? 0 : tick);
        int got = n > 0 ? read_some(p) : 0;
        if (got < 0 || (n == 0 && dying))
            return 0;
        if (p->in.fail)
            return stk_err_nomem(err, BATCH_BYTES);
        int rc = got ? take_messages(p, err) : 0;
        if (rc < 0)
            return rc;
        if (got)
            heard = stk_now();
        else if (n == 0 && stk_now() - heard >= silence_s)
            return stk_err_set(err, STK_E_CORRUPT, p->path, -1,
                               "lib%s did nothing for %g s on this file: it is damaged, or its "
                               "storage hangs",
                               p->format->name, silence_s);
        if (n == 0)
            dying = stk_child_has_ended(&p->child);
    }
    return 0;
}

static const char *signal_name(int sig)
{
    switch (sig) {
    case SIGSEGV:
        return "SIGSEGV";
    case SIGBUS:
        return "SIGBUS";
    case SIGABRT:
        return "SIGABRT";
    case SIGFPE:
        return "SIGFPE";
    case SIGILL:
        return "SIGILL";
    default:
        return strsignal(sig);
    }
}

static int crashed(const struct parent *p, bool known, struct stk_err *err)
{
    const char *lib = p->format->name;
    const struct stk_ending *e = &p->child.ending;
    if (e->signal == SIGKILL)
        return stk_err_set(err, STK_E_NOMEM, p->path, -1,
                           "lib%s was killed while it listed this file (out of memory?)", lib);
    if (e->signal)
        return stk_err_set(err, STK_E_CORRUPT, p->path, -1,
                           "lib%s crashed on this file (%s): it is damaged", lib,
                           signal_name(e->signal));
    return stk_err_set(err, STK_E_CORRUPT, p->path, -1,
                       "lib%s gave up on this file (exit status %d): it is damaged", lib,
                       known ? e->status : -1);
}

static int start(struct parent *p, struct stk_src *src, struct stk_err *err)
{
    struct task t = {.format = p->format, .opts = p->lister->opts, .src = src};
    p->child = (struct stk_child){.inside = child_main,
                                  .user = &t,
                                  .fd = {STK_FD_KEEP, STK_FD_PIPE, STK_FD_NULL},
                                  .keep_signals = true,
                                  .death_signal = SIGKILL};
    errno = stk_child_start(&p->child);
    if (errno)
        return stk_err_sys(err, p->path, "fork");
    (void)fcntl(p->child.pipe[1], F_SETPIPE_SZ, PIPE_BYTES);
    return 0;
}

/* A child that hangs in the kernel survives even SIGKILL: it is left to init instead of waiting for
 * it. */
static void end(struct stk_child *c)
{
    stk_child_kill(c, SIGKILL);
    (void)stk_child_wait_for(c, KILL_PATIENCE_S);
}

int stk_jail_list_within(const struct stk_format *f, struct stk_lister *l, struct stk_src *src,
                         double silence_s, struct stk_err *err)
{
    struct parent p = {.format = f, .lister = l, .path = stk_src_path(src)};
    int rc = start(&p, src, err);
    if (rc < 0)
        return rc;
    rc = follow(&p, silence_s, err);
    if (rc < 0 || p.ended)
        end(&p.child);
    else
        rc = crashed(&p, stk_child_wait(&p.child) == 0, err);
    stk_child_hang_up(&p.child);
    stk_buf_release(&p.in);
    return rc;
}

int stk_jail_take(const struct stk_format *f, struct stk_lister *l, const char *path,
                  const uint8_t *sent, size_t len, struct stk_err *err)
{
    struct parent p = {.format = f, .lister = l, .path = path};
    stk_buf_put(&p.in, sent, len);
    int rc = stk_buf_check(&p.in, err);
    if (rc == 0 && len)
        rc = take_messages(&p, err);
    stk_buf_release(&p.in);
    return rc;
}

/* ---- which confinement works here ---- */

static int try_locks(void *user)
{
    (void)user;
    return (int)stk_confine(
        &(struct stk_confine){.readable = STDIN_FILENO, .answers = STDERR_FILENO});
}

unsigned stk_jail_locks(void)
{
    struct stk_child c = {.inside = try_locks, .fd = {STK_FD_NULL, STK_FD_NULL, STK_FD_NULL}};
    if (stk_child_start(&c) != 0 || stk_child_wait(&c) != 0 || c.ending.signal)
        return 0;
    return (unsigned)c.ending.status;
}

/* ---- the whole listing ---- */

int stk_jail_list(const struct stk_format *f, struct stk_lister *l, struct stk_src *src,
                  struct stk_err *err)
{
    return stk_jail_list_within(f, l, src, STK_JAIL_SILENCE_S, err);
}
