/*
 * core_meta.c - the calls that move no data: opens, closes, seeks, stat and the rest (core.h). A
 * failed call counts as an error and with its time, but not as one of its kind.
 */
#include "preload/count.h"

#include <errno.h>

static enum stk_log_op op_of(enum stk_counter what)
{
    switch (what) {
    case STK_C_OPENS:
        return STK_OP_OPEN;
    case STK_C_CLOSES:
        return STK_OP_CLOSE;
    case STK_C_SEEKS:
        return STK_OP_SEEK;
    case STK_C_STATS:
        return STK_OP_STAT;
    case STK_C_MMAPS:
        return STK_OP_MMAP;
    case STK_C_FSYNCS:
    case STK_C_MSYNCS:
        return STK_OP_SYNC;
    case STK_C_DIR_READS:
        return STK_OP_DIR;
    case STK_C_REMOVES:
        return STK_OP_REMOVE;
    case STK_C_RENAMES:
        return STK_OP_RENAME;
    case STK_C_COPIES:
        return STK_OP_COPY;
    case STK_C_HINTS:
        return STK_OP_HINT;
    default:
        return 0; /* not an operation of its own */
    }
}

/* META_NS as `what`: time only. */
static void count(const struct stk_pl_call *call, struct stk_pl_rec *r, enum stk_counter what,
                  bool ok, uint64_t end, uint64_t offset)
{
    static const enum stk_counter time_of[] = {[STK_PL_META] = STK_C_META_NS,
                                               [STK_PL_READ] = STK_C_READ_NS,
                                               [STK_PL_WRITE] = STK_C_WRITE_NS};
    struct stk_pl_thread *t = call->thread;
    struct stk_counts *n = &r->log->n;
    uint64_t start = call->start_ns;
    if (!ok)
        n->c[STK_C_ERRORS]++;
    else if (what != STK_C_META_NS)
        n->c[what]++;
    n->c[time_of[call->spent]] += end - start;
    stk_count_seen(n, start, end);
    if (stk_pl_on_line(r->api))
        stk_pl_line(t, call->spent, start, end, 0);
    enum stk_log_op op = stk_pl.trace ? op_of(what) : 0;
    if (op)
        stk_pl_trace(t, r->name, r->api, op, start, end, offset, 0);
}

/* The record for a call on fd; NULL: counted elsewhere, or not at all. */
static struct stk_pl_rec *rec_of_fd(struct stk_pl_thread *t, int fd, enum stk_api api, uint64_t ns,
                                    struct stk_pl_desc **desc)
{
    struct stk_pl_desc *d = stk_pl_desc_find(t, fd, api, -1);
    struct stk_pl_rec *r = NULL;
    if (d && d->kind != STK_PL_FILE)
        stk_pl_outside(d, false, 0, ns);
    else if (d && !(r = stk_pl_rec_of_desc(t, d, api)))
        stk_pl_dropped();
    *desc = d;
    return r;
}

static struct stk_pl_rec *rec_of_path(struct stk_pl_thread *t, int dirfd, const char *path,
                                      bool absent, enum stk_api api, uint64_t ns)
{
    struct stk_pl_desc nobody = {.kind = STK_PL_LEFT_OUT};
    if (!stk_pl_path_make(t, dirfd, path, -1))
        return NULL;
    size_t folder = stk_pl_left_out(t->path.text, t->path.length, false);
    if (folder) {
        nobody.place = stk_pl_place(t->path.text, folder);
        stk_pl_outside(&nobody, false, 0, ns);
        return NULL;
    }
    struct stk_pl_file *f = stk_pl_file_of(&t->path, absent ? STK_PL_ABSENT : STK_PL_ASKED);
    struct stk_pl_rec *r = f ? stk_pl_rec_of(t, f, api) : NULL;
    if (!r)
        stk_pl_dropped();
    else if (r->log->group)
        stk_pl_group_seen(r, t->path.hash);
    return r;
}

/* Describes the file in its record, once it is open. */
static void describe(struct stk_log_record *log, const struct stk_pl_desc *d, int flags,
                     uint64_t size, uint64_t end)
{
    struct stk_counts *n = &log->n;
    log->dev = d->file->dev;
    log->ino = log->group ? 0 : d->file->ino;
    log->fs_type = d->file->fs_type;
    log->stripe_bytes = d->file->stripe_bytes;
    log->stripe_count = d->file->stripe_count;
    n->c[STK_C_DIRECT_OPENS] += (flags & O_DIRECT) != 0;
    n->c[STK_C_WRITE_OPENS] += (flags & O_ACCMODE) != O_RDONLY;
    stk_count_max(&n->c[STK_C_FILE_SIZE], size);
    stk_count_min(&n->c[STK_C_OPEN_NS], end);
}

void stk_pl_opened(struct stk_pl_call *call, int dirfd, const char *path, int flags, int fd,
                   enum stk_api api)
{
    struct stk_pl_thread *t = call->thread;
    int why = errno;
    uint64_t end, size = 0;
    if (!stk_pl_ended(call, &end))
        return;
    uint64_t ns = end - call->start_ns;
    struct stk_pl_rec *r = NULL;
    if (fd >= 0) {
        struct stk_pl_desc *d = stk_pl_desc_open(t, dirfd, path, flags, fd, &size);
        if (d && d->kind != STK_PL_FILE)
            stk_pl_outside(d, false, 0, ns);
        else if (!d || !(r = stk_pl_rec_of_desc(t, d, api)))
            stk_pl_dropped();
        if (r)
            describe(r->log, d, flags, size, end);
    } else if (why != EFAULT) { /* otherwise the path is not a string */
        r = rec_of_path(t, dirfd, path, true, api, ns);
    }
    if (r)
        count(call, r, STK_C_OPENS, fd >= 0, end, 0);
    stk_pl_leave();
}

void stk_pl_closed(struct stk_pl_call *call, uint32_t what, bool ok, enum stk_api api)
{
    struct stk_pl_thread *t = call->thread;
    uint64_t end;
    if (!stk_pl_ended(call, &end))
        return;
    struct stk_pl_desc *d = what ? stk_pl_desc_by_index(what) : NULL;
    struct stk_pl_rec *r = NULL;
    if (d && d->kind != STK_PL_FILE)
        stk_pl_outside(d, false, 0, end - call->start_ns);
    else if (d && !(r = stk_pl_rec_of_desc(t, d, api)))
        stk_pl_dropped();
    if (r) {
        struct stk_counts *n = &r->log->n;
        stk_count_max(&n->c[STK_C_CLOSE_NS], end);
        stk_count_max(&n->c[STK_C_FILE_SIZE], n->c[STK_C_MAX_OFFSET]);
        count(call, r, STK_C_CLOSES, ok, end, 0);
    }
    stk_pl_desc_release(d);
    stk_pl_leave();
}

void stk_pl_closed_range(struct stk_pl_call *call, unsigned first, unsigned last)
{
    uint64_t end;
    if (!stk_pl_ended(call, &end))
        return;
    stk_pl_fds_forget_range(first, last);
    stk_pl_leave();
}

void stk_pl_duped(struct stk_pl_call *call, int from, int to)
{
    struct stk_pl_thread *t = call->thread;
    uint64_t end;
    if (!stk_pl_ended(call, &end))
        return;
    struct stk_pl_desc *d;
    struct stk_pl_rec *r = rec_of_fd(t, from, STK_API_POSIX, end - call->start_ns, &d);
    if (to >= 0)
        stk_pl_fds_dup(from, to);
    if (r)
        count(call, r, STK_C_DUPS, to >= 0, end, 0);
    stk_pl_leave();
}

void stk_pl_sought(struct stk_pl_call *call, int fd, int64_t position, enum stk_api api)
{
    uint64_t end;
    if (!stk_pl_ended(call, &end))
        return;
    struct stk_pl_desc *d;
    struct stk_pl_rec *r = rec_of_fd(call->thread, fd, api, end - call->start_ns, &d);
    if (r) {
        if (position >= 0)
            __atomic_store_n(&d->position, position, __ATOMIC_RELAXED);
        count(call, r, STK_C_SEEKS, position >= 0, end, position >= 0 ? (uint64_t)position : 0);
    }
    stk_pl_leave();
}

void stk_pl_meta_fd(struct stk_pl_call *call, int fd, enum stk_counter what, bool ok,
                    enum stk_api api)
{
    uint64_t end;
    if (!stk_pl_ended(call, &end))
        return;
    struct stk_pl_desc *d;
    struct stk_pl_rec *r = rec_of_fd(call->thread, fd, api, end - call->start_ns, &d);
    if (r)
        count(call, r, what, ok, end, 0);
    stk_pl_leave();
}

void stk_pl_meta_path(struct stk_pl_call *call, int dirfd, const char *path, enum stk_counter what,
                      bool ok)
{
    int why = errno;
    uint64_t end;
    if (!stk_pl_ended(call, &end))
        return;
    struct stk_pl_rec *r = NULL;
    if (ok || why != EFAULT)
        r = rec_of_path(call->thread, dirfd, path, !ok, STK_API_POSIX, end - call->start_ns);
    if (r)
        count(call, r, what, ok, end, 0);
    stk_pl_leave();
}

void stk_pl_walked(struct stk_pl_call *call, int dirfd, const char *path, int64_t names)
{
    int why = errno;
    uint64_t end;
    if (!stk_pl_ended(call, &end))
        return;
    struct stk_pl_rec *r = NULL;
    if (names >= 0 || why != EFAULT)
        r = rec_of_path(call->thread, dirfd, path, names < 0, STK_API_POSIX, end - call->start_ns);
    if (r && names > 0)
        r->log->n.c[STK_C_DIR_READS] += (uint64_t)names;
    if (r)
        count(call, r, STK_C_WALKS, names >= 0, end, 0);
    stk_pl_leave();
}

void stk_pl_mapped(struct stk_pl_call *call, int fd, size_t length, bool ok)
{
    uint64_t end;
    if (!stk_pl_ended(call, &end))
        return;
    struct stk_pl_desc *d;
    struct stk_pl_rec *r = rec_of_fd(call->thread, fd, STK_API_POSIX, end - call->start_ns, &d);
    if (r) {
        if (ok)
            r->log->n.c[STK_C_MMAP_BYTES] += length;
        count(call, r, STK_C_MMAPS, ok, end, 0);
    }
    stk_pl_leave();
}

void stk_pl_size_fd(int fd, uint64_t size)
{
    struct stk_pl_thread *t = stk_pl_self.thread;
    const struct stk_pl_call call = {.thread = t};
    if (!t || stk_pl_self.inside || stk_pl_self.vforked || !stk_pl.watch->alive ||
        !stk_pl_enter_call(&call))
        return;
    struct stk_pl_desc *d = stk_pl_desc_at(fd);
    if (d && d->kind == STK_PL_FILE) {
        struct stk_pl_stream *s = stk_pl_stream_of(t, d);
        if (s && s->way.rec)
            stk_count_max(&s->way.log->n.c[STK_C_FILE_SIZE], size);
    }
    stk_pl_leave();
}

uint32_t stk_pl_name(const char *path)
{
    struct stk_pl_call call;
    uint32_t id = 0;
    if (!stk_pl_begin(&call) || !stk_pl_enter_call(&call))
        return 0;
    struct stk_pl_thread *t = call.thread;
    if (stk_pl_path_make(t, AT_FDCWD, path, -1) &&
        !stk_pl_left_out(t->path.text, t->path.length, true)) {
        struct stk_pl_file *f = stk_pl_file_of(&t->path, STK_PL_OPENED);
        id = f ? f->id : 0;
    }
    stk_pl_leave();
    return id;
}

void stk_pl_named_meta(struct stk_pl_call *call, uint32_t name, enum stk_counter what, bool ok,
                       enum stk_api api)
{
    uint64_t end;
    if (!stk_pl_ended(call, &end))
        return;
    struct stk_pl_file *f = stk_pl_file_by_id(name);
    struct stk_pl_rec *r = f ? stk_pl_rec_of(call->thread, f, api) : NULL;
    if (r) {
        if (what == STK_C_OPENS && ok)
            stk_count_min(&r->log->n.c[STK_C_OPEN_NS], end);
        if (what == STK_C_CLOSES && ok)
            stk_count_max(&r->log->n.c[STK_C_CLOSE_NS], end);
        count(call, r, what, ok, end, 0);
    } else if (f) {
        stk_pl_dropped();
    }
    stk_pl_leave();
}

void stk_pl_named_layout(uint32_t name, uint8_t layouts, enum stk_api api)
{
    struct stk_pl_call call;
    if (!layouts || !stk_pl_begin(&call) || !stk_pl_enter_call(&call))
        return;
    struct stk_pl_file *f = stk_pl_file_by_id(name);
    struct stk_pl_rec *r = f ? stk_pl_rec_of(call.thread, f, api) : NULL;
    if (r)
        r->log->layouts |= layouts;
    stk_pl_leave();
}

void stk_pl_copied(struct stk_pl_call *call, int from, int64_t from_offset, int to,
                   int64_t to_offset, int64_t n)
{
    struct stk_pl_thread *t = call->thread;
    uint64_t start = call->start_ns, end;
    if (!stk_pl_ended(call, &end))
        return;
    struct stk_pl_desc *source = stk_pl_desc_find(t, from, STK_API_POSIX, n > 0 ? n : 0);
    struct stk_pl_desc *target = stk_pl_desc_find(t, to, STK_API_POSIX, n > 0 ? n : 0);
    struct stk_pl_desc *one = source && source->kind == STK_PL_FILE   ? source
                              : target && target->kind == STK_PL_FILE ? target
                                                                      : NULL;
    stk_pl_moved(t, from, false, from_offset, n, start, end, STK_API_POSIX);
    if (n > 0)
        stk_pl_moved(t, to, true, to_offset, n, end, end, STK_API_POSIX);
    struct stk_pl_rec *r = one && n > 0 ? stk_pl_rec_of_desc(t, one, STK_API_POSIX) : NULL;
    if (r)
        r->log->n.c[STK_C_COPIES]++;
    stk_pl_leave();
}

void stk_pl_read_ahead(int64_t bytes)
{
    struct stk_pl_call call;
    if (!bytes || !stk_pl_begin(&call) || !stk_pl_enter_call(&call))
        return;
    stk_pl_sum(&stk_pl.log->stream_ahead_bytes, (uint64_t)bytes);
    stk_pl_leave();
}

static uint64_t *place_of(struct stk_log_header *h, enum stk_pl_tally what)
{
    switch (what) {
    case STK_TALLY_URING_RING:
        return &h->uring_rings;
    case STK_TALLY_URING_ENTER:
        return &h->uring_enters;
    case STK_TALLY_KERNEL_AIO:
        return &h->kernel_aio_calls;
    case STK_TALLY_AIO_TRANSFERS:
        return &h->kernel_aio_transfers;
    case STK_TALLY_AIO_RESULTS:
        return &h->kernel_aio_results;
    case STK_TALLY_AIO_READ:
        return &h->kernel_aio_bytes[0];
    case STK_TALLY_AIO_WRITTEN:
        return &h->kernel_aio_bytes[1];
    }
    return NULL;
}

void stk_pl_tally(enum stk_pl_tally what, uint64_t n)
{
    struct stk_pl_call call;
    if (!n || !stk_pl_begin(&call) || !stk_pl_enter_call(&call))
        return;
    stk_pl_sum(place_of(stk_pl.log, what), n);
    stk_pl_leave();
}
