/*
 * trace.c - every traced operation as Chrome trace JSON, for ui.perfetto.dev and chrome://tracing.
 *
 * Events are written as the log is read: memory does not grow with them. A process of the profile
 * is a process of the trace (by its index, since pids repeat across hosts and exec), a thread slot
 * is a thread; steps, epochs and phases have tracks of their own; rates and readings are counters
 * of a process "job". Asynchronous transfers overlap within a thread and become async events.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "report/report_priv.h"

#define CHUNK       (1u << 20)
#define JOB_PID     1
#define FIRST_PID   2
#define MAX_THREADS 1024u /* that get a name */
#define MAX_DEPTH   64u
/* Tracks of marks: above every thread slot (16 bits). */
#define TID_STEPS  100001u
#define TID_EPOCHS 100002u
#define TID_PHASES 100010u

struct trace {
    const struct stk_profile *p;
    int fd;
    const char *path;
    struct stk_buf buf;
    struct stk_jw w;
    uint64_t events, marks, async_id;
    struct stk_err *err;
    int rc; /* of the first failed write */
};

static int flush(struct trace *t, size_t threshold)
{
    if (t->rc || t->buf.len < threshold)
        return t->rc;
    t->rc = stk_buf_check(&t->buf, t->err);
    if (!t->rc)
        t->rc = stk_write_full(t->fd, t->buf.data, t->buf.len, t->path, t->err);
    stk_buf_reset(&t->buf);
    return t->rc;
}

/* Microseconds with three decimals: whole nanoseconds, whatever the locale. */
static void put_us(struct stk_jw *w, const char *key, double seconds)
{
    char text[48];
    double ns = seconds > 0 && seconds < 1e9 ? seconds * 1e9 + 0.5 : 0;
    uint64_t n = (uint64_t)ns;
    int len = snprintf(text, sizeof text, "%llu.%03llu", (unsigned long long)(n / 1000),
                       (unsigned long long)(n % 1000));
    stk_jw_key(w, key);
    stk_jw_raw(w, text, (size_t)len);
}

static void open_event(struct stk_jw *w, const char *ph, uint64_t pid, uint64_t tid,
                       const char *name)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "ph", ph);
    stk_jw_put_u64(w, "pid", pid);
    stk_jw_put_u64(w, "tid", tid);
    stk_jw_put_str(w, "name", name);
}

static void close_event(struct trace *t)
{
    stk_jw_close(&t->w, '}');
    stk_buf_putc(&t->buf, '\n');
    flush(t, CHUNK);
}

/* ---- names --------------------------------------------------------------------------------- */

static void put_name(struct trace *t, const char *kind, uint64_t pid, uint64_t tid,
                     const char *name)
{
    struct stk_jw *w = &t->w;
    open_event(w, "M", pid, tid, kind);
    stk_jw_key(w, "args");
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "name", name);
    stk_jw_close(w, '}');
    close_event(t);
}

static void put_sort_index(struct trace *t, uint64_t pid)
{
    struct stk_jw *w = &t->w;
    open_event(w, "M", pid, 0, "process_sort_index");
    stk_jw_key(w, "args");
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "sort_index", pid);
    stk_jw_close(w, '}');
    close_event(t);
}

/* "rank 3 worker 1: python train.py (pid 4711, n001)" */
static void put_process_name(struct trace *t, size_t i)
{
    const struct stk_prof_proc *o = &t->p->proc[i];
    struct stk_buf name = STK_BUF_INIT;
    if (o->world)
        stk_buf_printf(&name, "rank %lu%s", (unsigned long)o->rank, o->worker ? " " : ": ");
    if (o->worker)
        stk_buf_printf(&name, "worker %lu: ", (unsigned long)o->worker);
    stk_buf_printf(&name, "%.200s (pid %lu", *o->command ? o->command : o->exe,
                   (unsigned long)o->pid);
    if (o->host < t->p->nhosts)
        stk_buf_printf(&name, ", %s", t->p->host[o->host].name);
    stk_buf_puts(&name, ")");
    put_name(t, "process_name", FIRST_PID + i, 0, stk_buf_cstr(&name));
    put_sort_index(t, FIRST_PID + i);
    for (uint32_t s = 0; s < o->threads && s < MAX_THREADS; s++) {
        char thread[40];
        snprintf(thread, sizeof thread, "I/O thread %lu", (unsigned long)s);
        put_name(t, "thread_name", FIRST_PID + i, s + 1, thread);
    }
    stk_buf_release(&name);
}

static void put_names(struct trace *t)
{
    put_name(t, "process_name", JOB_PID, 0, "job");
    put_sort_index(t, JOB_PID);
    for (size_t i = 0; i < t->p->nprocs && !t->rc; i++)
        put_process_name(t, i);
}

/* ---- marks --------------------------------------------------------------------------------- */

static uint32_t track_of(const struct stk_prof_mark *m, char *name, size_t size)
{
    uint32_t depth = m->depth < MAX_DEPTH ? m->depth : MAX_DEPTH;
    snprintf(name, size, "%ss", stk_report_mark_kind(m->kind));
    if (m->kind == STK_MARK_STEP)
        return TID_STEPS;
    if (m->kind == STK_MARK_EPOCH)
        return TID_EPOCHS;
    if (depth)
        snprintf(name, size, "phases, level %lu", (unsigned long)depth + 1);
    return TID_PHASES + depth;
}

static void put_mark(struct trace *t, const struct stk_prof_mark *m, uint64_t tid)
{
    struct stk_jw *w = &t->w;
    char name[32];
    snprintf(name, sizeof name, "%s %llu", stk_report_mark_kind(m->kind),
             (unsigned long long)m->number);
    open_event(w, "X", FIRST_PID + m->proc, tid, *m->name ? m->name : name);
    stk_jw_put_str(w, "cat", stk_report_mark_kind(m->kind));
    put_us(w, "ts", m->at_s);
    put_us(w, "dur", m->length_s);
    stk_jw_key(w, "args");
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "number", m->number);
    stk_jw_close(w, '}');
    close_event(t);
    t->marks++;
}

static void put_marks(struct trace *t)
{
    /* Marks are sorted by process: a track is named at its first mark in one. */
    uint8_t named[3 + MAX_DEPTH] = {0};
    uint32_t proc = UINT32_MAX;
    for (size_t i = 0; i < t->p->nmarks && !t->rc; i++) {
        const struct stk_prof_mark *m = &t->p->mark[i];
        char name[40];
        uint32_t tid = track_of(m, name, sizeof name);
        uint32_t slot = tid >= TID_PHASES ? 2 + tid - TID_PHASES : tid - TID_STEPS;
        if (m->proc != proc)
            memset(named, 0, sizeof named);
        proc = m->proc;
        if (!named[slot])
            put_name(t, "thread_name", FIRST_PID + m->proc, tid, name);
        named[slot] = 1;
        put_mark(t, m, tid);
    }
}

/* ---- counters ------------------------------------------------------------------------------ */

static void put_counter(struct trace *t, const char *name, double at_s, double value)
{
    struct stk_jw *w = &t->w;
    if (!(value >= 0))
        return;
    open_event(w, "C", JOB_PID, 0, name);
    put_us(w, "ts", at_s);
    stk_jw_key(w, "args");
    stk_jw_open(w, '{');
    stk_jw_put_f64(w, "value", value);
    stk_jw_close(w, '}');
    close_event(t);
}

static void put_rates(struct trace *t)
{
    const struct stk_profile *p = t->p;
    for (size_t i = 0; i < STK_PROF_BINS && p->bin_s > 0 && !t->rc; i++) {
        double at = (double)i * p->bin_s;
        if (at > stk_report_span_s(p))
            break;
        put_counter(t, "read MB/s", at, 1e-6 * (double)p->bin[i].read_bytes / p->bin_s);
        put_counter(t, "write MB/s", at, 1e-6 * (double)p->bin[i].write_bytes / p->bin_s);
        put_counter(t, "metadata calls/s", at, (double)p->bin[i].meta_calls / p->bin_s);
    }
}

static void put_readings(struct trace *t)
{
    for (size_t i = 0; i < t->p->nreadings && !t->rc; i++) {
        const struct stk_prof_reading *s = &t->p->reading[i];
        char suffix[32] = "", name[64];
        if (s->launcher)
            snprintf(suffix, sizeof suffix, ", task %lu", (unsigned long)s->launcher);
        const struct {
            const char *name;
            double value;
        } all[] = {{"CPU cores", s->cpu_cores},
                   {"GPU %", s->gpu_util >= 0 ? 100 * s->gpu_util : -1},
                   {"I/O wait cores", s->iowait_cores},
                   {"resident MB", 1e-6 * (double)s->resident_bytes}};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
            snprintf(name, sizeof name, "%s%s", all[k].name, suffix);
            put_counter(t, name, s->at_s, all[k].value);
        }
    }
}

/* ---- operations ---------------------------------------------------------------------------- */

static const char *op_name(uint8_t op)
{
    static const char *const name[STK_OP_COUNT] = {"?",      "open",   "close", "read", "write",
                                                   "seek",   "stat",   "mmap",  "sync", "dir",
                                                   "remove", "rename", "copy",  "hint"};
    return op < STK_OP_COUNT ? name[op] : "?";
}

static void put_args(struct trace *t, const struct stk_prof_event *e)
{
    struct stk_jw *w = &t->w;
    stk_jw_key(w, "args");
    stk_jw_open(w, '{');
    if (e->file < t->p->nfiles)
        stk_jw_put_str(w, "file", t->p->file[e->file].path);
    if (e->op == STK_OP_READ || e->op == STK_OP_WRITE || e->op == STK_OP_COPY ||
        e->op == STK_OP_MMAP) {
        stk_jw_put_u64(w, "offset", e->offset);
        stk_jw_put_u64(w, "bytes", e->bytes);
    }
    stk_jw_close(w, '}');
}

static void put_async(struct trace *t, const struct stk_prof_event *e, const char *ph, double at_s)
{
    struct stk_jw *w = &t->w;
    open_event(w, ph, FIRST_PID + e->proc, (uint64_t)e->slot + 1, op_name(e->op));
    stk_jw_put_str(w, "cat", stk_api_name((enum stk_api)e->api));
    stk_jw_put_u64(w, "id", t->async_id);
    put_us(w, "ts", at_s);
    if (*ph == 'b')
        put_args(t, e);
    close_event(t);
}

static int on_event(void *user, const struct stk_prof_event *e)
{
    struct trace *t = user;
    struct stk_jw *w = &t->w;
    t->events++;
    if (e->api == STK_API_ASYNC) {
        t->async_id++;
        put_async(t, e, "b", e->start_s);
        put_async(t, e, "e", e->start_s + e->length_s);
        return t->rc;
    }
    open_event(w, "X", FIRST_PID + e->proc, (uint64_t)e->slot + 1, op_name(e->op));
    stk_jw_put_str(w, "cat", e->api < STK_API_COUNT ? stk_api_name((enum stk_api)e->api) : "?");
    put_us(w, "ts", e->start_s);
    put_us(w, "dur", e->length_s);
    put_args(t, e);
    close_event(t);
    return t->rc;
}

static int put_all(struct trace *t)
{
    struct stk_jw *w = &t->w;
    stk_jw_init(w, &t->buf, false);
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "displayTimeUnit", "ms");
    stk_jw_key(w, "traceEvents");
    stk_jw_open(w, '[');
    put_names(t);
    put_marks(t);
    put_rates(t);
    put_readings(t);
    int rc = t->rc ? t->rc : stk_profile_events(t->p, on_event, t, t->err);
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
    stk_buf_putc(&t->buf, '\n');
    return t->rc ? t->rc : rc ? rc : flush(t, 0);
}

int stk_report_trace(const struct stk_profile *p, const char *path,
                     const struct stk_readers *readers, uint64_t *events, uint64_t *marks,
                     struct stk_err *err)
{
    if (!p->traced)
        return stk_err_set(err, STK_E_UNSUPPORTED, p->path, -1,
                           "this profile has no single operations: record it with --trace");
    struct stk_new file;
    struct trace t = {.p = p, .path = path, .err = err};
    int rc = stk_new_derived(&file, path, readers, err);
    t.fd = file.fd;
    if (!rc)
        rc = put_all(&t);
    if (!rc)
        rc = stk_new_commit(&file, err);
    stk_new_abort(&file);
    stk_buf_release(&t.buf);
    *events = t.events;
    *marks = t.marks;
    return rc;
}
