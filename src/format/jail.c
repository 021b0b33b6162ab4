/*
 * jail.c - the helper process that lists a file, and the parent's distrust of what it sends.
 *
 * A message is a fixed header and a blob. The last message carries the result of list(); a child
 * that ends without it has crashed. The child cannot reach other files, and can only read and
 * answer (base/helper.h). This file knows no format.
 */
#include "format/jail.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/helper.h"

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

#define ANSWERS      STDIN_FILENO /* of the child: the socket of the helper */
#define BATCH_BYTES  (256u << 10) /* per write */
#define CHILD_MEMORY (4ull << 30)  /* address space beyond the file and what is mapped already */
#define MSG_ALIVE    250
#define MSG_END      251

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

/* To the parent. If a write fails, it is gone or wants no more: there is no one to report to. */
static void send_bytes(const void *p, size_t n)
{
    if (stk_write_full(ANSWERS, p, n, NULL, NULL) < 0)
        _exit(1);
}

static void child_flush(struct child_sink *s)
{
    send_bytes(s->batch, s->len);
    s->len = 0;
    s->sent = coarse_seconds();
}

static void child_send(struct child_sink *s, const struct message *m, const void *blob)
{
    if (s->len + sizeof *m + m->blob_len > sizeof s->batch)
        child_flush(s);
    if (sizeof *m + m->blob_len > sizeof s->batch) {
        send_bytes(m, sizeof *m);
        send_bytes(blob, m->blob_len);
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

/* What the library prints is dropped, and a core file of an expected crash is useless. */
static void child_prepare(uint64_t file_bytes)
{
    const struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)dup2(STDOUT_FILENO, STDERR_FILENO);
    if (!SANITIZED)
        limit_memory(file_bytes);
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
    child_prepare(stk_src_file_size(t->src));
    (void)stk_confine(&(struct stk_confine){.readable = stk_src_fd(t->src), .answers = ANSWERS});
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
    struct stk_helper helper;
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

static int is_silent(const struct parent *p, double silence_s, struct stk_err *err)
{
    return stk_err_set(err, STK_E_CORRUPT, p->path, -1,
                       "lib%s did nothing for %g s on this file: it is damaged, or its "
                       "storage hangs",
                       p->format->name, silence_s);
}

/* Reads until the child's last message, its death (0 with !ended) or its silence. */
static int follow(struct parent *p, double silence_s, struct stk_err *err)
{
    int rc = 0;
    while (rc == 0 && !p->ended) {
        uint8_t *to = stk_buf_room(&p->in, BATCH_BYTES);
        if (!to)
            return stk_err_nomem(err, BATCH_BYTES);
        ssize_t n = stk_helper_receive(&p->helper, to, BATCH_BYTES, silence_s);
        if (n == 0)
            break;
        if (n < 0)
            return is_silent(p, silence_s, err);
        p->in.len += (size_t)n;
        rc = take_messages(p, err);
    }
    return rc;
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
    const struct stk_ending *e = &p->helper.child.ending;
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

int stk_jail_list_within(const struct stk_format *f, struct stk_lister *l, struct stk_src *src,
                         double silence_s, struct stk_err *err)
{
    struct task t = {.format = f, .opts = l->opts, .src = src};
    struct parent p = {.format = f, .lister = l, .path = stk_src_path(src)};
    p.helper = (struct stk_helper){.run = child_main, .user = &t, .keep = stk_src_fd(src)};
    errno = stk_helper_start(&p.helper);
    if (errno)
        return stk_err_sys(err, p.path, "fork");
    int rc = follow(&p, silence_s, err), why = 0;
    if (rc == 0 && !p.ended) {
        why = stk_child_wait_for(&p.helper.child, silence_s);
        rc = why == ETIMEDOUT ? is_silent(&p, silence_s, err) : crashed(&p, !why, err);
    }
    stk_helper_end(&p.helper, STK_CHILD_END_S);
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

static int try_locks(void *user, void *answer)
{
    (void)user;
    *(unsigned *)answer = /* Landlock has rules for files: standard input is a socket */
        stk_confine(&(struct stk_confine){.readable = STDOUT_FILENO, .answers = STDERR_FILENO});
    return 0;
}

unsigned stk_jail_locks(void)
{
    const struct stk_limit none = {0};
    unsigned locks = 0;
    (void)stk_helper_ask(try_locks, NULL, &none, &locks, sizeof locks);
    return locks;
}

/* ---- the whole listing ---- */

int stk_jail_list(const struct stk_format *f, struct stk_lister *l, struct stk_src *src,
                  struct stk_err *err)
{
    return stk_jail_list_within(f, l, src, STK_JAIL_SILENCE_S, err);
}
