/*
 * profile_time.c - a profile over time, as fields of its result: the time line, readings of CPU and
 * GPU, steps, epochs, phases and marks, how long reads took and the pauses between them. And back:
 * what is drawn over time is read from the result.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/profile.h"
#include "report/report_priv.h"
#include "result/blocks.h"

/* ---- the time line -------------------------------------------------------------------------- */

struct timeline {
    double bin_s;
    struct stk_bin_row *bin;
    size_t nbins;
};

#define BIN(member) STK_FROM(struct stk_bin_row, b.member)

const struct stk_result_field stk_bin_fields[] = {
    {"at_s", NULL, STK_U_SECONDS, STK_FROM(struct stk_bin_row, at_s)},
    {"read_bytes", NULL, STK_U_BYTES, BIN(read_bytes)},
    {"write_bytes", NULL, STK_U_BYTES, BIN(write_bytes)},
    {"reads", NULL, STK_U_COUNT, BIN(reads)},
    {"meta_calls", NULL, STK_U_COUNT, BIN(meta_calls)},
    {"read_ns", NULL, STK_U_COUNT, BIN(read_ns), "in reads, threads added up"},
    {"write_ns", NULL, STK_U_COUNT, BIN(write_ns)},
    {"meta_ns", NULL, STK_U_COUNT, BIN(meta_ns)},
    {NULL}};

static const struct stk_result_field timeline_fields[] = {
    {"bin_s", NULL, STK_U_SECONDS, STK_FROM(struct timeline, bin_s), "the width of a bin"},
    {"bins", NULL, STK_U_TABLE, STK_FROM_ARRAY(struct timeline, bin, nbins), .of = stk_bin_fields},
    {NULL}};

/* The i-th bin as a row; false: the run has ended, and nothing came later. */
bool stk_profile_bin(const struct stk_profile *p, size_t i, struct stk_bin_row *row)
{
    static const struct stk_prof_bin nothing;
    if (i >= STK_PROF_BINS)
        return false;
    *row = (struct stk_bin_row){(double)i * p->bin_s, p->bin[i]};
    for (size_t k = i; k < STK_PROF_BINS; k++)
        if (memcmp(&p->bin[k], &nothing, sizeof nothing) != 0)
            return true;
    return row->at_s < stk_report_span_s(p);
}

static void put_timeline(const void *base, struct stk_jw *w)
{
    const struct stk_profile *p = base;
    struct stk_bin_row row[STK_PROF_BINS];
    struct timeline t = {.bin_s = p->bin_s, .bin = row};
    while (t.nbins < STK_PROF_BINS && stk_profile_bin(p, t.nbins, &row[t.nbins]))
        t.nbins++;
    stk_jw_open(w, '{');
    stk_fields_put(timeline_fields, &t, w);
    stk_jw_close(w, '}');
}

/* ---- the same in few rows ------------------------------------------------------------------- */

#define MOMENTS 24

struct moment {
    double from_s, read, write, reads, meta, io, cpu, gpu;
};

#define MOMENT(member) STK_FROM(struct moment, member)
#define OR_NONE        .flags = STK_F_IF_SET, .none = "-"

static const struct stk_result_field moment_fields[] = {
    {"from_s", "from", STK_U_SECONDS, MOMENT(from_s)},
    {"read_Bps", "read", STK_U_BYTES_PER_S, MOMENT(read), OR_NONE},
    {"write_Bps", "write", STK_U_BYTES_PER_S, MOMENT(write), OR_NONE},
    {"reads_per_s", "reads", STK_U_PER_S, MOMENT(reads), OR_NONE},
    {"meta_per_s", "metadata", STK_U_PER_S, MOMENT(meta), OR_NONE},
    {"io_threads", "in I/O", STK_U_PLAIN, MOMENT(io), "threads in a call, on average"},
    {"cpu_cores", "CPU", STK_U_PLAIN, MOMENT(cpu), "cores in use", STK_F_KNOWN},
    {"gpu_util", "GPU", STK_U_SHARE, MOMENT(gpu), .flags = STK_F_KNOWN},
    {NULL}};

static double hundredths(double v)
{
    return round(100 * v) / 100;
}

static void put_moments(const void *base, struct stk_jw *w)
{
    static const enum stk_series what[] = {
        STK_SERIES_READ_BPS, STK_SERIES_WRITE_BPS, STK_SERIES_READS, STK_SERIES_META,
        STK_SERIES_IO,       STK_SERIES_CPU,       STK_SERIES_GPU};
    const struct stk_profile *p = base;
    double v[7][MOMENTS], span = stk_report_span_s(p);
    for (size_t s = 0; s < 7; s++)
        if (!stk_report_series(p, what[s], v[s], MOMENTS))
            for (size_t i = 0; i < MOMENTS; i++)
                v[s][i] = what[s] >= STK_SERIES_CPU ? -1 : 0;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < MOMENTS && span > 0; i++) {
        const struct moment m = {
            span * (double)i / MOMENTS, v[0][i], v[1][i], v[2][i], v[3][i], hundredths(v[4][i]),
            hundredths(v[5][i]),        v[6][i]};
        stk_row_put(moment_fields, &m, w);
    }
    stk_jw_close(w, ']');
}

/* ---- how long reads took, and the pauses between them --------------------------------------- */

struct octave {
    double from_s, share, time_s;
    uint64_t count;
};

#define OCTAVE(member) STK_FROM(struct octave, member)

static const struct stk_result_field latency_fields[] = {
    {"from_s", "took from", STK_U_SECONDS, OCTAVE(from_s), "to twice as long"},
    {"reads", "reads", STK_U_COUNT, OCTAVE(count)},
    {"share", "share", STK_U_SHARE, OCTAVE(share), .flags = STK_F_BAR},
    {"time_s", "time, about", STK_U_SECONDS, OCTAVE(time_s), "of these reads in all", STK_F_PAGE},
    {NULL}};

static const struct stk_result_field pause_fields[] = {
    {"from_s", "lasted from", STK_U_SECONDS, OCTAVE(from_s), "to twice as long"},
    {"pauses", "pauses", STK_U_COUNT, OCTAVE(count)},
    {"share", "share", STK_U_SHARE, OCTAVE(share), .flags = STK_F_BAR},
    {NULL}};

static const struct stk_result_plot latency_plot = {
    "latency",
    "How long reads took",
    "Below, the time that the reads of each bar took in all: few slow ones may take most of it.",
    "from_s",
    "a read took at least",
    STK_U_SECONDS,
    STK_SCALE_CATEGORY,
    {{"reads", STK_U_COUNT, {{"reads", NULL, "bar"}}},
     {"time, about", STK_U_SECONDS, {{"time_s", NULL, "bar"}}}}};

static const struct stk_result_field latency_rows[] = {
    {"latency_p50_s", "a read", STK_U_SECONDS, .say = "p50 %"},
    {"latency_p99_s", "", STK_U_SECONDS, .joins = ", p99 %"},
    {"longest_read_s", "", STK_U_SECONDS, .joins = ", longest read %"},
    {"longest_write_s", "", STK_U_SECONDS, .joins = ", longest write %"},
    {NULL}};

/* The bins with a count and those between, by powers of two of nanoseconds. */
static void put_octaves(const struct stk_result_field *f, const uint64_t *count, size_t n,
                        struct stk_jw *w)
{
    size_t from = n, to = 0;
    double all = 0;
    for (size_t i = 0; i < n; i++) {
        all += (double)count[i];
        from = count[i] && i < from ? i : from;
        to = count[i] ? i + 1 : to;
    }
    stk_jw_open(w, '[');
    for (size_t i = from; i < to; i++) {
        struct octave o = {.from_s = 1e-9 * (double)((uint64_t)1 << i), .count = count[i]};
        o.share = (double)count[i] / all;
        o.time_s = stk_pg_octave_s(o.from_s, (double)count[i]);
        stk_row_put(f, &o, w);
    }
    stk_jw_close(w, ']');
}

static void put_latency(const void *base, struct stk_jw *w)
{
    const struct stk_analysis *a = base;
    uint64_t count[STK_LATENCY_BINS];
    for (size_t i = 0; i < STK_LATENCY_BINS; i++)
        count[i] = a->job.n.read_latency[i];
    put_octaves(latency_fields, count, STK_LATENCY_BINS, w);
}

static void put_pauses(const void *base, struct stk_jw *w)
{
    const struct stk_profile *p = base;
    uint64_t count[STK_GAP_BINS];
    for (size_t i = 0; i < STK_GAP_BINS; i++)
        count[i] = p->gap[i].count;
    put_octaves(pause_fields, count, STK_GAP_BINS, w);
}

static const struct stk_result_field gap_fields[] = {
    {"count", NULL, STK_U_COUNT, STK_FROM(struct stk_prof_gap, count)},
    {"ns", NULL, STK_U_COUNT, STK_FROM(struct stk_prof_gap, ns)},
    {NULL}};

static void put_gaps(const void *base, struct stk_jw *w)
{
    const struct stk_profile *p = base;
    stk_rows_put(gap_fields, p->gap, STK_GAP_BINS, sizeof *p->gap, w);
}

/* ---- readings of the machine ---------------------------------------------------------------- */

#define READING(member) STK_FROM(struct stk_prof_reading, member)

const struct stk_result_field stk_reading_fields[] = {
    {"at_s", NULL, STK_U_SECONDS, READING(at_s)},
    {"launcher", NULL, STK_U_COUNT, READING(launcher), "of which `stoker profile`, from 0"},
    {"cpu_cores", NULL, STK_U_PLAIN, READING(cpu_cores), .flags = STK_F_KNOWN},
    {"iowait_cores", NULL, STK_U_PLAIN, READING(iowait_cores), .flags = STK_F_KNOWN},
    {"other_cores", NULL, STK_U_PLAIN, READING(other_cores), .flags = STK_F_KNOWN},
    {"threads", NULL, STK_U_COUNT, READING(threads)},
    {"processes", NULL, STK_U_COUNT, READING(processes)},
    {"resident_bytes", NULL, STK_U_BYTES, READING(resident_bytes)},
    {"cache_bytes", NULL, STK_U_BYTES, READING(cache_bytes)},
    {"gpu_util", NULL, STK_U_SHARE, READING(gpu_util), .flags = STK_F_KNOWN},
    {"gpu_memory_bytes", NULL, STK_U_BYTES, READING(gpu_memory_bytes), .flags = STK_F_KNOWN},
    {NULL}};

static const struct stk_result_field samples_fields[] = {
    {"samples", NULL, STK_U_TABLE, STK_FROM_ARRAY(struct stk_profile, reading, nreadings),
     .of = stk_reading_fields},
    {NULL}};

/* ---- steps, epochs, phases, marks ----------------------------------------------------------- */

#define STEPS(member) STK_FROM(struct stk_steps, member)
#define EPOCH(member) STK_FROM(struct stk_epoch, member)
#define PHASE(member) STK_FROM(struct stk_phase, member)
#define MARK(member)  STK_FROM(struct stk_prof_mark, member)

STK_TEXT_OF(steps_how, struct stk_steps,
            r->marked ? "marked" : "detected from pauses between reads: an estimate")
STK_TEXT_OF(epochs_how, struct stk_analysis,
            !r->nepochs        ? NULL
            : r->epochs_marked ? "marked"
                               : "detected where reads repeat")
STK_NUMBER_OF(lasts, struct stk_epoch, r->end_s - r->start_s)
STK_TEXT_OF(mark_kind, struct stk_prof_mark, stk_report_mark_kind(r->kind))

static const struct stk_result_field steps_fields[] = {
    {"count", "steps", STK_U_COUNT, STEPS(count), .flags = STK_F_IF_SET, .say = "% step(s)"},
    {"how", "", STK_U_TEXT, .put = steps_how, .flags = STK_F_SCREEN, .joins = " (%)"},
    {"marked", NULL, STK_U_FLAG, STEPS(marked)},
    {"mean_s", "a step, mean", STK_U_SECONDS, STEPS(mean_s), .flags = STK_F_IF_SET,
     .joins = ": mean %"},
    {"p50_s", "a step, p50", STK_U_SECONDS, STEPS(p50_s), .flags = STK_F_SCREEN,
     .joins = ", p50 %"},
    {"p99_s", "a step, p99", STK_U_SECONDS, STEPS(p99_s), .flags = STK_F_IF_SET,
     .joins = ", p99 %"},
    {"max_s", "a step, longest", STK_U_SECONDS, STEPS(max_s), .flags = STK_F_SCREEN,
     .joins = ", longest %"},
    {"io_s", "I/O per step, about", STK_U_SECONDS, STEPS(io_s),
     "of all processes during a step, threads added up", STK_F_SCREEN,
     .joins = "; I/O per step about %, threads added up"},
    {NULL}};

static const struct stk_result_field epoch_fields[] = {
    {"number", "epoch", STK_U_ID, EPOCH(number)},
    {"start_s", "begins", STK_U_SECONDS, EPOCH(start_s)},
    {"end_s", NULL, STK_U_SECONDS, EPOCH(end_s)},
    {"lasts_s", "lasts", STK_U_SECONDS, .number = lasts},
    {"read_bytes", "read", STK_U_BYTES, EPOCH(read_bytes)},
    {"io_s", "I/O, threads added", STK_U_SECONDS, EPOCH(io_s)},
    {NULL}};

const struct stk_result_field stk_phase_fields[] = {
    {"name", "phase", STK_U_TEXT, PHASE(name), .flags = STK_F_CUT_END},
    {"count", "times", STK_U_COUNT, PHASE(count)},
    {"total_s", "in all", STK_U_SECONDS, PHASE(total_s)},
    {"mean_s", "mean", STK_U_SECONDS, PHASE(mean_s)},
    {"max_s", "longest", STK_U_SECONDS, PHASE(max_s)},
    {"io_s", "I/O, threads added", STK_U_SECONDS, PHASE(io_s), "within it, an estimate"},
    {NULL}};

static const struct stk_result_field mark_fields[] = {
    {"process", NULL, STK_U_COUNT, MARK(proc), "its place among the processes"},
    {"kind", NULL, STK_U_TEXT, .put = mark_kind, .meaning = "step, epoch or phase"},
    {"name", NULL, STK_U_TEXT, MARK(name), .flags = STK_F_KNOWN},
    {"number", NULL, STK_U_ID, MARK(number)},
    {"at_s", NULL, STK_U_SECONDS, MARK(at_s)},
    {"length_s", NULL, STK_U_SECONDS, MARK(length_s)},
    {"depth", NULL, STK_U_COUNT, MARK(depth)},
    {NULL}};

/* A chart needs the steps of the first process that marks them. */
static bool is_wanted(const struct stk_report *r, const struct stk_prof_mark *m, uint32_t *proc)
{
    if (!r->drawn)
        return true;
    if (m->kind == STK_MARK_STEP && *proc == UINT32_MAX)
        *proc = m->proc;
    return m->kind == STK_MARK_STEP && m->proc == *proc;
}

void stk_put_marks(const void *report, struct stk_jw *w)
{
    const struct stk_report *r = report;
    uint32_t proc = UINT32_MAX;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < r->a->p->nmarks; i++)
        if (is_wanted(r, &r->a->p->mark[i], &proc))
            stk_row_put(mark_fields, &r->a->p->mark[i], w);
    stk_jw_close(w, ']');
}

static void draw_no_phases(const struct stk_result_field *f, const struct stk_jval *obj,
                           struct stk_screen *s)
{
    if (stk_pg_has_rows(stk_json_get(obj, f->key)))
        return;
    stk_screen_part(s);
    stk_screen_say(s, "no phases were marked: mark portions of the code with `with "
                      "stoker.phase(\"load\"):` in Python, stk_phase_begin(\"load\") in C");
}

/* ---- the chart ------------------------------------------------------------------------------ */

static const struct stk_result_field back_marks[] = {
    {"marks", NULL, STK_U_TABLE, STK_FROM_ARRAY(struct stk_profile, mark, nmarks),
     .of = mark_fields},
    {NULL}};

static const struct stk_result_field back_fields[] = {
    {"epochs", NULL, STK_U_TABLE, STK_FROM_ARRAY(struct stk_analysis, epoch, nepochs),
     .of = epoch_fields},
    {"epochs_marked", NULL, STK_U_FLAG, STK_FROM(struct stk_analysis, epochs_marked)},
    {"steps", NULL, STK_U_GROUP, STK_FROM_AS(STRUCT, struct stk_analysis, steps),
     .of = steps_fields},
    {NULL}};

static void set_kinds(const struct stk_jval *marks, struct stk_profile *p)
{
    for (size_t i = 0; i < p->nmarks; i++) {
        const char *kind = stk_pg_text(&marks->item[i], "kind", "");
        p->mark[i].kind = strcmp(kind, "step") == 0 ? STK_MARK_STEP : STK_MARK_PHASE;
    }
}

static double or_unknown(const struct stk_jval *result, const char *name)
{
    double v = stk_pg_get(result, name);
    return v >= 0 ? v : -1;
}

int stk_profile_time_of(const struct stk_jval *result, struct stk_profile_time *t,
                        struct stk_arena *arena)
{
    struct timeline line = {0};
    const struct stk_jval *marks = stk_json_get(result, "marks");
    const struct stk_jval *bins = stk_json_get(result, "timeline");
    double run_s = stk_pg_get(result, "profile.run_s");
    *t = (struct stk_profile_time){.a.p = &t->p};
    int rc = bins ? stk_fields_get(timeline_fields, bins, &line, arena, NULL) : 0;
    rc = rc ? rc : stk_fields_get(samples_fields, result, &t->p, arena, NULL);
    rc = rc ? rc : stk_fields_get(back_marks, result, &t->p, arena, NULL);
    rc = rc ? rc : stk_fields_get(back_fields, result, &t->a, arena, NULL);
    if (rc)
        return rc;
    for (size_t i = 0; i < line.nbins && i < STK_PROF_BINS; i++)
        t->p.bin[i] = line.bin[i].b;
    t->p.bin_s = line.bin_s > 0 && line.bin_s < 1e12 ? line.bin_s : 0;
    t->p.run_s = run_s > 0 && run_s < 1e15 ? run_s : 0;
    set_kinds(marks, &t->p);
    t->a.cpu_cores_mean = or_unknown(result, "use.cpu_cores_mean");
    t->a.gpu_util_mean = or_unknown(result, "use.gpu_util_mean");
    t->a.job.n.c[STK_C_READ_BYTES] = stk_nearest(stk_pg_get(result, "job.counters.read_bytes"));
    t->a.job.n.c[STK_C_WRITE_BYTES] = stk_nearest(stk_pg_get(result, "job.counters.write_bytes"));
    t->a.loop.run_s = or_unknown(result, "main_loop.run_s");
    t->a.loop.wait_s = or_unknown(result, "main_loop.wait_s");
    t->a.loop.start_s = or_unknown(result, "main_loop.start_s");
    t->a.loop.write_s = or_unknown(result, "main_loop.write_s");
    t->a.loop.compute_s = or_unknown(result, "main_loop.compute_s");
    t->a.job.read_s = or_unknown(result, "job.read_s");
    t->a.job.write_s = or_unknown(result, "job.write_s");
    t->a.job.meta_s = or_unknown(result, "job.meta_s");
    return 0;
}

void stk_draw_chart(const struct stk_result_field *f, const struct stk_jval *obj,
                    struct stk_screen *s)
{
    struct stk_profile_time *t = malloc(sizeof *t);
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_buf chart = STK_BUF_INIT;
    (void)f;
    if (t && stk_profile_time_of(obj, t, &arena) == 0) {
        const struct stk_report r = {.a = &t->a, .columns = s->columns, .utf8 = s->utf8};
        stk_report_chart(&r, &chart);
        s->any = true;
        if (chart.len)
            stk_screen_part(s);
        stk_buf_puts(s->out, stk_buf_cstr(&chart));
    }
    s->out->fail = s->out->fail || !t || chart.fail;
    stk_buf_release(&chart);
    stk_arena_release(&arena);
    free(t);
}

/* ---- all of it ------------------------------------------------------------------------------ */

#define PROFILE STK_FROM_AS(POINTER, struct stk_analysis, p)

const struct stk_result_field stk_profile_time_fields[] = {
    {"steps", NULL, STK_U_GROUP, STK_FROM_AS(STRUCT, struct stk_analysis, steps),
     .of = steps_fields, .part = STK_PART_PHASES},
    {"epochs_from", "epochs", STK_U_TEXT, .put = epochs_how, .flags = STK_F_SCREEN,
     .part = STK_PART_PHASES},
    {"epochs_marked", NULL, STK_U_FLAG, STK_FROM(struct stk_analysis, epochs_marked)},
    {"phases", "phases", STK_U_TABLE, STK_FROM_ARRAY(struct stk_analysis, phase, nphases),
     "The parts that the program marked.", STK_F_NAMED | STK_F_TOP, .of = stk_phase_fields,
     .part = STK_PART_PHASES},
    {"epochs", "epochs", STK_U_TABLE, STK_FROM_ARRAY(struct stk_analysis, epoch, nepochs),
     .flags = STK_F_NAMED | STK_F_TOP, .of = epoch_fields, .part = STK_PART_PHASES},
    {"phases", NULL, STK_U_TABLE, .flags = STK_F_VIEW, .draw = draw_no_phases,
     .part = STK_PART_PHASES},
    {"latency", "how long reads took", STK_U_TABLE, .put = put_latency, .of = latency_fields,
     .flags = STK_F_NAMED, .none = "nothing was read", .plot = &latency_plot,
     .part = STK_PART_LATENCY},
    {"pauses", "time between a thread's reads", STK_U_TABLE, PROFILE,
     "What a thread did with the data before it read again.", STK_F_NAMED, .put = put_pauses,
     .of = pause_fields, .part = STK_PART_LATENCY},
    {"job", NULL, STK_U_GROUP, .of = latency_rows, .flags = STK_F_VIEW, .part = STK_PART_LATENCY},
    {"timeline", NULL, STK_U_GROUP, PROFILE, .put = put_timeline, .of = timeline_fields},
    {"over_time", "over time", STK_U_TABLE, PROFILE, "The run in 24 parts.",
     STK_F_NAMED | STK_F_SCREEN, "nothing", .put = put_moments, .of = moment_fields,
     .say = "in I/O: threads in a call, on average; CPU: cores in use", .part = STK_PART_TIMELINE},
    {"gaps", NULL, STK_U_TABLE, PROFILE,
     "time between reads: bin b has the pauses of 2^b to 2^(b+1) ns", .put = put_gaps,
     .of = gap_fields},
    {"", NULL, STK_U_GROUP, PROFILE, .of = samples_fields},
    {NULL}};
