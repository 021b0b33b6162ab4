/*
 * json_time.c - as JSON: the time line, readings of CPU and GPU, steps, epochs, phases and marks.
 */
#include "report/json_priv.h"

static void put_bins(struct stk_jw *w, const struct stk_profile *p)
{
    size_t n = STK_PROF_BINS;
    static const struct stk_prof_bin nothing;
    while (n && memcmp(&p->bin[n - 1], &nothing, sizeof nothing) == 0)
        n--;
    stk_jw_key(w, "timeline");
    stk_jw_open(w, '{');
    stk_jw_put_f64(w, "bin_s", p->bin_s);
    put_array(w, "bins");
    for (size_t i = 0; i < n; i++) {
        const struct stk_prof_bin *b = &p->bin[i];
        bool pretty = open_row(w);
        stk_jw_put_f64(w, "at_s", (double)i * p->bin_s);
        stk_jw_put_u64(w, "read_bytes", b->read_bytes);
        stk_jw_put_u64(w, "write_bytes", b->write_bytes);
        stk_jw_put_u64(w, "reads", b->reads);
        stk_jw_put_u64(w, "meta_calls", b->meta_calls);
        stk_jw_put_u64(w, "read_ns", b->read_ns);
        stk_jw_put_u64(w, "write_ns", b->write_ns);
        stk_jw_put_u64(w, "meta_ns", b->meta_ns);
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
    put_array(w, "gaps");
    for (size_t i = 0; i < STK_GAP_BINS; i++) {
        bool pretty = open_row(w);
        stk_jw_put_u64(w, "count", p->gap[i].count);
        stk_jw_put_u64(w, "ns", p->gap[i].ns);
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
}

static void put_readings(struct stk_jw *w, const struct stk_profile *p)
{
    put_array(w, "samples");
    for (size_t i = 0; i < p->nreadings; i++) {
        const struct stk_prof_reading *s = &p->reading[i];
        bool pretty = open_row(w);
        stk_jw_put_f64(w, "at_s", s->at_s);
        stk_jw_put_u64(w, "launcher", s->launcher);
        stk_jw_put_known_f64(w, "cpu_cores", s->cpu_cores);
        stk_jw_put_known_f64(w, "iowait_cores", s->iowait_cores);
        stk_jw_put_known_f64(w, "other_cores", s->other_cores);
        stk_jw_put_u64(w, "threads", s->threads);
        stk_jw_put_u64(w, "processes", s->processes);
        stk_jw_put_u64(w, "resident_bytes", s->resident_bytes);
        stk_jw_put_u64(w, "cache_bytes", s->cache_bytes);
        stk_jw_put_known_f64(w, "gpu_util", s->gpu_util);
        stk_jw_put_known_f64(w, "gpu_memory_bytes", s->gpu_memory_bytes);
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
}

static void put_steps(struct stk_jw *w, const struct stk_steps *s)
{
    stk_jw_key(w, "steps");
    bool pretty = open_row(w);
    stk_jw_put_bool(w, "marked", s->marked);
    stk_jw_put_u64(w, "count", s->count);
    stk_jw_put_f64(w, "mean_s", s->mean_s);
    stk_jw_put_f64(w, "p50_s", s->p50_s);
    stk_jw_put_f64(w, "p99_s", s->p99_s);
    stk_jw_put_f64(w, "max_s", s->max_s);
    stk_jw_put_f64(w, "io_s", s->io_s);
    close_row(w, pretty);
}

static void put_epochs(struct stk_jw *w, const struct stk_analysis *a)
{
    stk_jw_put_bool(w, "epochs_marked", a->epochs_marked);
    put_array(w, "epochs");
    for (size_t i = 0; i < a->nepochs; i++) {
        bool pretty = open_row(w);
        stk_jw_put_u64(w, "number", a->epoch[i].number);
        stk_jw_put_f64(w, "start_s", a->epoch[i].start_s);
        stk_jw_put_f64(w, "end_s", a->epoch[i].end_s);
        stk_jw_put_u64(w, "read_bytes", a->epoch[i].read_bytes);
        stk_jw_put_f64(w, "io_s", a->epoch[i].io_s);
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
}

static void put_phases(struct stk_jw *w, const struct stk_analysis *a)
{
    put_array(w, "phases");
    for (size_t i = 0; i < a->nphases; i++) {
        const struct stk_phase *ph = &a->phase[i];
        bool pretty = open_row(w);
        stk_jw_put_str(w, "name", ph->name);
        stk_jw_put_u64(w, "count", ph->count);
        stk_jw_put_f64(w, "total_s", ph->total_s);
        stk_jw_put_f64(w, "mean_s", ph->mean_s);
        stk_jw_put_f64(w, "max_s", ph->max_s);
        stk_jw_put_f64(w, "io_s", ph->io_s);
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
}

static void put_marks(struct stk_jw *w, const struct stk_profile *p)
{
    put_array(w, "marks");
    for (size_t i = 0; i < p->nmarks; i++) {
        const struct stk_prof_mark *m = &p->mark[i];
        bool pretty = open_row(w);
        stk_jw_put_u64(w, "process", m->proc);
        stk_jw_put_str(w, "kind", stk_report_mark_kind(m->kind));
        stk_jw_put_str(w, "name", *m->name ? m->name : NULL);
        stk_jw_put_u64(w, "number", m->number);
        stk_jw_put_f64(w, "at_s", m->at_s);
        stk_jw_put_f64(w, "length_s", m->length_s);
        stk_jw_put_u64(w, "depth", m->depth);
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
}

void stk_rj_time(struct stk_jw *w, const struct stk_analysis *a)
{
    put_steps(w, &a->steps);
    put_epochs(w, a);
    put_phases(w, a);
    put_marks(w, a->p);
    put_bins(w, a->p);
    put_readings(w, a->p);
}
