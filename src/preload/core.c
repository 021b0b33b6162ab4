/*
 * core.c - what the wrappers call (core.h): begins and records a call. The path of a read through
 * here is hot: no lock, no allocation, no system call.
 */
#include "preload/count.h"

#include "base/random.h"

static struct stk_pl_watch watch; /* used if the kernel cannot wipe a page on fork (life.c) */
struct stk_pl_process stk_pl = {.until_ns = UINT64_MAX, .watch = &watch};

void stk_pl_ahead(int fd)
{
    struct stk_pl_thread *t = stk_pl_self.thread;
    const struct stk_pl_desc *d = t ? stk_pl_desc_at(fd) : NULL;
    const struct stk_pl_stream *page = d ? t->page[d->index / STK_PL_STREAM_PAGE] : NULL;
    if (!page)
        return;
    const struct stk_log_record *log = page[d->index % STK_PL_STREAM_PAGE].way.log;
    __builtin_prefetch(&log->n, 1); /* harmless for an invalid address */
    __builtin_prefetch(&log->n.c[STK_C_MAX_OFFSET], 1);
    __builtin_prefetch(&log->n.read_latency[STK_LATENCY_BINS / 3], 1);
    __builtin_prefetch(&log->n.size, 1);
    __builtin_prefetch(&log->n.stride, 1);
}

bool stk_pl_begin(struct stk_pl_call *call)
{
    struct stk_pl_thread *t = stk_pl_self.thread;
    if (UNLIKELY(!t || (stk_pl_self.inside | stk_pl_self.vforked) || !stk_pl.watch->alive))
        return stk_pl_begin_slow(call);
    call->thread = t;
    call->spent = STK_PL_META;
    call->start_ns = stk_pl_now(t);
    if (UNLIKELY(call->start_ns >= __atomic_load_n(&stk_pl.watch->next_ns, __ATOMIC_RELAXED)))
        return stk_pl_begin_slow(call);
    return true;
}

#define ALL_STRIDES   256u /* reads of a record whose strides are all examined */
#define STRIDES_APART 16u

/* What is known about a call when it is recorded. */
struct moved {
    uint64_t start, end;
    int64_t offset, n; /* offset -1: unknown */
    enum stk_api api;
    uint32_t each; /* of several reads of this length; 0: one */
};

void stk_pl_outside(const struct stk_pl_desc *d, bool write, uint64_t bytes, uint64_t ns)
{
    struct stk_log_header *h = stk_pl.log;
    if (d->kind == STK_PL_STREAM) {
        stk_pl_sum(write ? &h->stream_write_bytes : &h->stream_read_bytes, bytes);
        if (!write && d->talks && stk_pl_main_thread())
            stk_pl_sum(&h->wait_processes_ns, ns);
        return;
    }
    stk_pl_sum(&h->left_out_calls, 1);
    stk_pl_sum(&h->left_out_ns, ns);
    stk_pl_sum(&h->left_out[d->place].calls, 1);
    stk_pl_sum(&h->left_out[d->place].ns, ns);
    if (bytes)
        stk_pl_sum(write ? &h->left_out_write_bytes : &h->left_out_read_bytes, bytes);
}

/* Makes the record that s leads to this thread's record of d's file; false: no room. */
static bool choose(struct stk_pl_thread *t, const struct stk_pl_desc *d, struct stk_pl_way *w,
                   enum stk_api api)
{
    struct stk_pl_rec *r = w->rec = stk_pl_rec_of(t, d->file, api);
    if (!r)
        return false;
    w->log = r->log;
    w->name = r->name;
    w->api = r->api;
    w->begun = w->scattered = false;
    if (r->log->group)
        stk_pl_group_seen(r, d->hash);
    return true;
}

static inline struct stk_pl_way *way_of(struct stk_pl_thread *t, const struct stk_pl_desc *d,
                                        enum stk_api api)
{
    struct stk_pl_stream *s = stk_pl_stream_of(t, d);
    if (LIKELY(s && s->way.rec && s->way.api == api))
        return &s->way;
    return s && choose(t, d, &s->way, api) ? &s->way : NULL;
}

struct stk_pl_rec *stk_pl_rec_of_desc(struct stk_pl_thread *t, const struct stk_pl_desc *d,
                                      enum stk_api api)
{
    struct stk_pl_way *w = way_of(t, d, api);
    return w ? w->rec : NULL;
}

/* A stride that is none of the four. If reads are scattered, every stride is, and finding a common
 * fifth would bring more memory into the cache than all the rest: then a fraction of them is
 * examined. */
static inline void stray(struct stk_pl_thread *t, struct stk_pl_way *w, uint64_t stride)
{
    struct stk_counts *c = &w->log->n;
    if (c->c[STK_C_READS] < ALL_STRIDES || t->strays++ % STRIDES_APART == 0)
        stk_pl_contend(t, c->stride, &w->rec->stride, stride);
}

static inline void in_order(struct stk_pl_thread *t, struct stk_pl_way *w, int64_t from, int64_t n)
{
    struct stk_counts *c = &w->log->n;
    if (LIKELY(w->read_end >= 0)) {
        c->c[STK_C_SEQ_READS] += from >= w->read_end;
        if (from == w->read_end)
            c->c[STK_C_CONSEC_READS]++;
        else if (!stk_pl_common(c->stride, (uint64_t)(from - w->read_start)))
            stray(t, w, (uint64_t)(from - w->read_start));
    } else {
        c->c[STK_C_FIRST_READS]++;
    }
    w->read_start = from;
    w->read_end = from + n;
}

enum { OP_READ = 1, OP_WRITE };

static inline void turned(struct stk_pl_way *w, uint8_t op)
{
    if (w->last_op && w->last_op != op)
        w->log->n.c[STK_C_RW_SWITCHES]++;
    w->last_op = op;
}

/* A read that returned data. */
static inline void count_read(struct stk_pl_thread *t, struct stk_pl_way *w, uint64_t hash,
                              const struct moved *m)
{
    struct stk_log_record *log = w->log;
    struct stk_counts *c = &log->n;
    uint64_t n = (uint64_t)m->n, ns = m->end - m->start;
    unsigned bin = stk_log2(ns);
    c->c[STK_C_READS]++;
    c->c[STK_C_READ_BYTES] += n;
    c->c[STK_C_READ_NS] += ns;
    stk_count_max(&c->c[STK_C_MAX_READ_NS], ns);
    c->read_size[stk_size_bin(n)]++;
    uint32_t *latency = &c->read_latency[bin < STK_LATENCY_BINS ? bin : STK_LATENCY_BINS - 1];
    *latency += *latency != UINT32_MAX; /* more than an hour of a million reads per second */
    if (UNLIKELY(!stk_pl_common(c->size, n)))
        stk_pl_contend(t, c->size, &w->rec->size, n);
    stk_count_max(&c->c[STK_C_LAST_READ_NS], m->end);
    stk_count_max(&c->c[STK_C_LAST_NS], m->end);
    if (UNLIKELY(!w->begun || m->api == STK_API_ASYNC)) { /* otherwise one came before */
        stk_count_min(&c->c[STK_C_FIRST_READ_NS], m->start);
        stk_count_min(&c->c[STK_C_FIRST_NS], m->start);
        w->begun = true;
    }
    turned(w, OP_READ);
    if (UNLIKELY(m->offset < 0))
        return;
    uint64_t from = (uint64_t)m->offset;
    stk_count_min(&c->c[STK_C_MIN_OFFSET], from);
    stk_count_max(&c->c[STK_C_MAX_OFFSET], from + n);
    in_order(t, w, m->offset, m->n);
    if (!w->scattered)
        w->scattered = !stk_cover_span(&log->read, from, from + n);
    stk_cover_sample(&log->read, hash, from, from + n);
}

#define FROM_BUFFER_BIN 3 /* of latencies: 8 to 16 ns */

/* Reads that follow the one that was counted, of as many bytes each. */
static void count_more(struct stk_pl_thread *t, struct stk_pl_way *w, uint64_t hash, uint64_t more,
                       const struct moved *m)
{
    struct stk_log_record *log = w->log;
    struct stk_counts *c = &log->n;
    uint64_t n = more * m->each, from = (uint64_t)w->read_end;
    uint32_t *latency = &c->read_latency[FROM_BUFFER_BIN];
    c->c[STK_C_READS] += more;
    c->c[STK_C_READ_BYTES] += n;
    c->c[STK_C_SEQ_READS] += more;
    c->c[STK_C_CONSEC_READS] += more;
    c->read_size[stk_size_bin(m->each)] += more;
    *latency = more < UINT32_MAX - *latency ? *latency + (uint32_t)more : UINT32_MAX;
    for (unsigned i = 0; i < STK_COMMON; i++)
        if (c->size[i].value == m->each)
            c->size[i].count += more;
    stk_count_max(&c->c[STK_C_MAX_OFFSET], from + n);
    w->read_start = (int64_t)(from + n - m->each);
    w->read_end = (int64_t)(from + n);
    if (!w->scattered)
        w->scattered = !stk_cover_span(&log->read, from, from + n);
    stk_cover_sample(&log->read, hash, from, from + n);
    if (t->bin) {
        t->bin->reads += (uint32_t)more;
        t->bin->read_bytes += n;
    }
}

static void count_write(struct stk_pl_way *w, const struct moved *m)
{
    struct stk_counts *c = &w->log->n;
    uint64_t n = (uint64_t)m->n, ns = m->end - m->start;
    c->c[STK_C_WRITES]++;
    c->c[STK_C_WRITE_BYTES] += n;
    c->c[STK_C_WRITE_NS] += ns;
    stk_count_max(&c->c[STK_C_MAX_WRITE_NS], ns);
    c->write_size[stk_size_bin(n)]++;
    stk_count_seen(c, m->start, m->end);
    turned(w, OP_WRITE);
    if (m->offset < 0)
        return;
    stk_count_min(&c->c[STK_C_MIN_OFFSET], (uint64_t)m->offset);
    stk_count_max(&c->c[STK_C_MAX_OFFSET], (uint64_t)m->offset + n);
    if (w->write_end >= 0) {
        c->c[STK_C_SEQ_WRITES] += m->offset >= w->write_end;
        c->c[STK_C_CONSEC_WRITES] += m->offset == w->write_end;
    }
    w->write_end = m->offset + m->n;
}

/* The end of data, a write of nothing, an error. */
static void count_none(struct stk_pl_way *w, bool write, const struct moved *m)
{
    struct stk_counts *c = &w->log->n;
    stk_count_seen(c, m->start, m->end);
    c->c[write ? STK_C_WRITE_NS : STK_C_READ_NS] += m->end - m->start;
    if (m->n < 0) {
        c->c[STK_C_ERRORS]++;
    } else if (write) {
        c->c[STK_C_WRITES]++;
        c->write_size[0]++;
    } else {
        c->c[STK_C_EOF_READS]++;
        if (c->c[STK_C_MAX_OFFSET] > c->c[STK_C_FILE_SIZE])
            c->c[STK_C_FILE_SIZE] = c->c[STK_C_MAX_OFFSET];
    }
}

/* Counts the time since the thread's last read. */
static inline void gap(struct stk_pl_thread *t, const struct moved *m)
{
    if (LIKELY(t->line && t->last_read_ns && m->start > t->last_read_ns)) {
        uint64_t ns = m->start - t->last_read_ns;
        unsigned bin = stk_log2(ns);
        bin = bin < STK_GAP_BINS ? bin : STK_GAP_BINS - 1;
        t->line->gap_count[bin]++;
        t->line->gap_ns[bin] += ns;
    }
    t->last_read_ns = m->end;
}

static inline void record(struct stk_pl_thread *t, struct stk_pl_way *w, uint64_t hash, bool write,
                          const struct moved *m)
{
    uint64_t bytes = m->n > 0 ? (uint64_t)m->n : 0;
    if (UNLIKELY(m->n <= 0))
        count_none(w, write, m);
    else if (write)
        count_write(w, m);
    else
        count_read(t, w, hash, m);
    if (LIKELY(stk_pl_on_line(m->api))) {
        if (!write && m->n > 0 && m->api != STK_API_ASYNC)
            gap(t, m);
        stk_pl_line(t, write ? STK_PL_WRITE : STK_PL_READ, m->start, m->end, bytes);
    }
    if (stk_pl.watch->trace)
        stk_pl_trace(t, w->name, w->api, write ? STK_OP_WRITE : STK_OP_READ, m->start, m->end,
                     m->offset < 0 ? 0 : (uint64_t)m->offset, bytes);
}

static inline void moved(struct stk_pl_thread *t, int fd, bool write, struct moved *m)
{
    int64_t n = m->n > 0 ? m->n : 0;
    struct stk_pl_desc *d = stk_pl_desc_at(fd);
    if (UNLIKELY(!d && !(d = stk_pl_desc_find(t, fd, m->api, m->offset < 0 ? n : -1)))) {
        if (m->n >= 0) /* otherwise most likely a descriptor that is not open */
            stk_pl_dropped();
        return;
    }
    if (UNLIKELY(d->kind != STK_PL_FILE)) {
        stk_pl_outside(d, write, (uint64_t)n, m->end - m->start);
        return;
    }
    if (write && UNLIKELY(d->append))
        m->offset = stk_pl_appended(d, fd, m->offset < 0, n, m->api);
    else if (m->offset < 0)
        m->offset = stk_pl_position(d, fd, n, m->api);
    struct stk_pl_way *w = way_of(t, d, m->api);
    if (UNLIKELY(!w)) {
        stk_pl_dropped();
        return;
    }
    uint64_t more = UNLIKELY(m->each) && n > m->each ? ((uint64_t)n - 1) / m->each : 0;
    m->n -= (int64_t)(more * m->each);
    record(t, w, d->hash, write, m);
    if (UNLIKELY(more))
        count_more(t, w, d->hash, more, m);
}

void stk_pl_read(struct stk_pl_call *call, int fd, int64_t offset, int64_t got, enum stk_api api)
{
    uint64_t end;
    if (UNLIKELY(!stk_pl_ended(call, &end)))
        return;
    struct moved m = {call->start_ns, end, offset, got, api, 0};
    moved(call->thread, fd, false, &m);
    stk_pl_leave();
}

void stk_pl_read_blocks(struct stk_pl_call *call, int fd, int64_t got, uint32_t each,
                        enum stk_api api)
{
    uint64_t end;
    if (!stk_pl_ended(call, &end))
        return;
    struct moved m = {call->start_ns, end, STK_AT_POSITION, got, api, each};
    moved(call->thread, fd, false, &m);
    stk_pl_leave();
}

void stk_pl_write(struct stk_pl_call *call, int fd, int64_t offset, int64_t put, enum stk_api api)
{
    uint64_t end;
    if (UNLIKELY(!stk_pl_ended(call, &end)))
        return;
    struct moved m = {call->start_ns, end, offset, put, api, 0};
    moved(call->thread, fd, true, &m);
    stk_pl_leave();
}

void stk_pl_moved(struct stk_pl_thread *t, int fd, bool write, int64_t offset, int64_t n,
                  uint64_t start, uint64_t end, enum stk_api api)
{
    struct moved m = {start, end, offset, n, api, 0};
    moved(t, fd, write, &m);
}

void stk_pl_named_data(struct stk_pl_call *call, uint32_t name, bool write, int64_t offset,
                       int64_t n, enum stk_api api)
{
    struct stk_pl_thread *t = call->thread;
    uint64_t end;
    if (!stk_pl_ended(call, &end))
        return;
    struct moved m = {call->start_ns, end, offset, n, api, 0};
    struct stk_pl_file *f = stk_pl_file_by_id(name);
    struct stk_pl_rec *r = f ? stk_pl_rec_of(t, f, api) : NULL;
    if (r) {
        record(t, r->way, f->hash, write, &m);
    } else if (f) {
        stk_pl_dropped();
    }
    stk_pl_leave();
}

void stk_pl_async(int fd, bool write, int64_t offset, int64_t n, uint64_t start_ns, uint64_t end_ns)
{
    struct stk_pl_call call;
    if (!stk_pl_begin(&call) || !stk_pl_enter_call(&call))
        return;
    struct moved m = {start_ns, end_ns > start_ns ? end_ns : start_ns, offset, n, STK_API_ASYNC, 0};
    moved(call.thread, fd, write, &m);
    stk_pl_leave();
}
