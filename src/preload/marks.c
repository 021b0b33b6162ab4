/*
 * marks.c - what a program reports about itself: steps, epochs, phases, and reads that we cannot
 * see (io_uring). Callers find these functions by dlsym(RTLD_DEFAULT, ...).
 */
#include "preload/priv.h"

STK_EXPORT void stoker_preload_mark(uint32_t kind, const char *name, uint64_t number);
STK_EXPORT void stoker_preload_phase_begin(const char *name);
STK_EXPORT void stoker_preload_phase_end(void);
STK_EXPORT void stoker_preload_told(int fd, int is_write, int64_t offset, int64_t bytes,
                                    uint64_t start_mono_ns, uint64_t end_mono_ns);

/* Adds a mark to the log; NULL: no room. */
static struct stk_log_mark *put(struct stk_pl_thread *t, uint32_t kind, const char *name,
                                uint64_t number, uint64_t at_ns)
{
    struct stk_log_block *b = t->marks;
    struct stk_pl_file *label = name && name[0] ? stk_pl_label(name) : NULL;
    if (!b || !stk_pl_log_fits(b, sizeof(struct stk_log_mark))) {
        b = stk_pl_log_block(STK_BLK_MARKS, t->slot);
        if (!b) {
            stk_pl_dropped();
            return NULL;
        }
        t->marks = b;
    }
    struct stk_log_mark *m = (struct stk_log_mark *)((char *)(b + 1) + b->used);
    m->at_ns = at_ns;
    m->number = number;
    m->kind = kind;
    m->name = label && stk_pl_file_log(label) ? label->id : 0;
    m->slot = t->slot;
    m->depth = t->depth;
    __atomic_store_n(&b->used, b->used + (uint32_t)sizeof *m, __ATOMIC_RELEASE);
    return m;
}

void stoker_preload_mark(uint32_t kind, const char *name, uint64_t number)
{
    struct stk_pl_call call;
    if ((kind != STK_MARK_STEP && kind != STK_MARK_EPOCH) || !stk_pl_begin(&call) ||
        !stk_pl_enter_call(&call))
        return;
    uint64_t next = __atomic_fetch_add(&stk_pl.marks[kind], 1, __ATOMIC_RELAXED);
    put(call.thread, kind, name, number == UINT64_MAX ? next : number, call.start_ns);
    stk_pl_leave();
}

void stoker_preload_phase_begin(const char *name)
{
    struct stk_pl_call call;
    if (!stk_pl_begin(&call) || !stk_pl_enter_call(&call))
        return;
    struct stk_pl_thread *t = call.thread;
    struct stk_log_mark *m = put(t, STK_MARK_PHASE, name, 0, call.start_ns);
    if (t->depth < STK_PL_PHASES)
        t->phase[t->depth] = m;
    t->depth++;
    stk_pl_leave();
}

void stoker_preload_phase_end(void)
{
    struct stk_pl_call call;
    if (!stk_pl_begin(&call) || !stk_pl_enter_call(&call))
        return;
    struct stk_pl_thread *t = call.thread;
    if (t->depth && --t->depth < STK_PL_PHASES && t->phase[t->depth]) {
        struct stk_log_mark *m = t->phase[t->depth];
        uint64_t length = call.start_ns - m->at_ns;
        m->length_ns = length ? length : 1;
    }
    stk_pl_leave();
}

/* Converts a monotonic time to the process's own clock. */
static uint64_t since_start(uint64_t mono_ns)
{
    return mono_ns > stk_pl.start_mono_ns ? mono_ns - stk_pl.start_mono_ns : 0;
}

void stoker_preload_told(int fd, int is_write, int64_t offset, int64_t bytes,
                         uint64_t start_mono_ns, uint64_t end_mono_ns)
{
    struct stk_pl_call call;
    if (offset < 0 || bytes > INT64_MAX - offset || !stk_pl_begin(&call) ||
        !stk_pl_enter_call(&call))
        return;
    if (!is_write && bytes > 0)
        stk_pl_sum(&stk_pl.log->told_read_bytes, (uint64_t)bytes);
    stk_pl_leave();
    stk_pl_async(fd, is_write != 0, offset, bytes, since_start(start_mono_ns),
                 since_start(end_mono_ns));
}
