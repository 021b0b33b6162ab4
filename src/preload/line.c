/*
 * line.c - when a thread did what: its time line, whose bins double in width when the run outgrows
 * them, the gaps between its reads, and the blocks of its trace.
 */
#include "preload/priv.h"

#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define FIRST_BIN_NS 10000000u

static bool line_begin(struct stk_pl_thread *t)
{
    struct stk_log_block *b = stk_pl_log_block(STK_BLK_THREAD, t->slot);
    if (!b)
        return false;
    struct stk_log_thread *line = (struct stk_log_thread *)(b + 1);
    line->tid = (uint32_t)stk_sys0(SYS_gettid);
    line->threads = 1;
    line->bin_ns = FIRST_BIN_NS;
    __atomic_store_n(&b->used, (uint32_t)sizeof *line, __ATOMIC_RELEASE);
    /* Last: a longjmp() out of a signal handler must not leave a line without a width. */
    __atomic_store_n(&t->line, line, __ATOMIC_RELEASE);
    return true;
}

static void join(struct stk_log_bin *to, const struct stk_log_bin *a, const struct stk_log_bin *b)
{
    *to = (struct stk_log_bin){a->read_bytes + b->read_bytes, a->write_bytes + b->write_bytes,
                               a->read_ns + b->read_ns,       a->write_ns + b->write_ns,
                               a->meta_ns + b->meta_ns,       a->reads + b->reads,
                               a->meta_calls + b->meta_calls};
}

static void coarsen(struct stk_log_thread *line)
{
    static const struct stk_log_bin none;
    for (uint32_t i = 0; i < STK_LOG_BINS / 2; i++)
        join(&line->bin[i], &line->bin[2 * i], &line->bin[2 * i + 1]);
    for (uint32_t i = STK_LOG_BINS / 2; i < STK_LOG_BINS; i++)
        line->bin[i] = none;
    line->bin_ns *= 2;
}

static void add_time(struct stk_log_bin *bin, enum stk_pl_what what, uint64_t ns)
{
    if (what == STK_PL_READ)
        bin->read_ns += ns;
    else if (what == STK_PL_WRITE)
        bin->write_ns += ns;
    else
        bin->meta_ns += ns;
}

/* A call outside the previous call's bin. Its time goes to the bins it spans, everything else to
 * the bin of its end. */
void stk_pl_line_slow(struct stk_pl_thread *t, enum stk_pl_what what, uint64_t start, uint64_t end,
                      uint64_t bytes)
{
    if (!t->line && !line_begin(t))
        return;
    struct stk_log_thread *line = t->line;
    while (end / line->bin_ns >= STK_LOG_BINS)
        coarsen(line);
    uint64_t width = line->bin_ns, last = end / width;
    for (uint64_t i = start / width; i <= last; i++) {
        uint64_t from = i * width > start ? i * width : start;
        uint64_t to = (i + 1) * width < end ? (i + 1) * width : end;
        add_time(&line->bin[i], what, to - from);
    }
    t->bin = &line->bin[last];
    t->bin_from = last * width;
    t->bin_to = t->bin_from + width;
    t->bin->reads += what == STK_PL_READ && bytes;
    t->bin->read_bytes += what == STK_PL_READ ? bytes : 0;
    t->bin->write_bytes += what == STK_PL_WRITE ? bytes : 0;
    t->bin->meta_calls += what == STK_PL_META;
    if (stk_pl.log->last_ns < end) /* now and then is enough: records have it exactly */
        stk_pl.log->last_ns = end;
}

/* Makes room for one more event. */
bool stk_pl_trace_room(struct stk_pl_thread *t)
{
    struct stk_log_block *b = stk_pl_log_block(STK_BLK_TRACE, t->slot);
    if (b && b->room && !stk_pl_log_widen(b)) /* never: a trace has whole blocks */
        b = NULL;
    if (!b) {
        stk_pl_sum(&stk_pl.log->dropped_trace, 1);
        return false;
    }
    if (t->trace)
        stk_pl_log_cold(t->trace);
    /* Its 16 pages at once, rather than one fault each (Linux 5.14; otherwise by faults). */
    stk_sys3(SYS_madvise, b, STK_LOG_BLOCK, MADV_POPULATE_WRITE);
    t->trace = b;
    return true;
}
