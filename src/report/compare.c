/*
 * compare.c - two profiles side by side: what a change did to the run's time, to its I/O, and to
 * the findings. The second is compared with the first; nothing is scaled.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "result/grid.h"
#include "report/json_priv.h"
#include "report/report_priv.h"

enum kind { TIME, SIZE, COUNT, SHARE, TIMES, CORES };

/* A double of the analysis, or (counter) one of the job's counters. */
struct row {
    const char *name, *key; /* for people, for machines */
    enum kind kind;
    bool counter;
    size_t offset;
};

#define NUMBER(field)  .offset = offsetof(struct stk_analysis, field)
#define COUNTER(which) .counter = true, .offset = offsetof(struct stk_analysis, job.n.c[which])

static const struct row rows[] = {
    {"main loop, waited for data", "wait_s", TIME, NUMBER(loop.wait_s)},
    {"main loop, computed", "compute_s", TIME, NUMBER(loop.compute_s)},
    {"any thread in I/O", "io_share_merged", SHARE, NUMBER(io_share_merged)},
    {"main process in I/O", "io_share_main", SHARE, NUMBER(io_share_main)},
    {"time in reads, threads added", "read_s", TIME, NUMBER(job.read_s)},
    {"time in writes", "write_s", TIME, NUMBER(job.write_s)},
    {"time in metadata", "meta_s", TIME, NUMBER(job.meta_s)},
    {"bytes read", "read_bytes", SIZE, COUNTER(STK_C_READ_BYTES)},
    {"bytes written", "write_bytes", SIZE, COUNTER(STK_C_WRITE_BYTES)},
    {"reads", "reads", COUNT, COUNTER(STK_C_READS)},
    {"writes", "writes", COUNT, COUNTER(STK_C_WRITES)},
    {"mean read", "mean_read_bytes", SIZE, NUMBER(job.mean_read_bytes)},
    {"a read, p50", "read_p50_s", TIME, NUMBER(job.latency_p50_s)},
    {"a read, p99", "read_p99_s", TIME, NUMBER(job.latency_p99_s)},
    {"each byte read", "reread", TIMES, NUMBER(job.reread)},
    {"opens", "opens", COUNT, COUNTER(STK_C_OPENS)},
    {"stats", "stats", COUNT, COUNTER(STK_C_STATS)},
    {"seeks", "seeks", COUNT, COUNTER(STK_C_SEEKS)},
    {"directory reads", "dir_reads", COUNT, COUNTER(STK_C_DIR_READS)},
    {"fsyncs", "fsyncs", COUNT, COUNTER(STK_C_FSYNCS)},
    {"CPU, cores, mean", "cpu_cores_mean", CORES, NUMBER(cpu_cores_mean)},
    {"other programs, cores", "other_cores_mean", CORES, NUMBER(other_cores_mean)},
    {"GPU, mean", "gpu_util_mean", SHARE, NUMBER(gpu_util_mean)},
};
#define NROWS (sizeof rows / sizeof *rows)

/* Negative: unknown. */
static double value_of(const struct row *row, const struct stk_report *r)
{
    const char *at = (const char *)r->a + row->offset;
    uint64_t count;
    double number;
    memcpy(&count, at, sizeof count);
    memcpy(&number, at, sizeof number);
    return row->counter ? (double)count : number;
}

bool stk_report_compare_row(const struct stk_report *r, size_t i, struct stk_compare_row *out)
{
    static const char *const unit[] = {[TIME] = "s",      [SIZE] = "B",  [COUNT] = "count",
                                       [SHARE] = "share", [TIMES] = "x", [CORES] = "cores"};
    if (i >= NROWS)
        return false;
    *out = (struct stk_compare_row){rows[i].name, rows[i].key, unit[rows[i].kind],
                                    value_of(&rows[i], r)};
    return true;
}

/* ---- cells --------------------------------------------------------------------------------- */

static const char *value_text(enum kind kind, double v, char *buf, size_t size)
{
    switch (kind) {
    case TIME:
        return stk_word_time(v, buf, size);
    case SIZE:
        return stk_word_size(stk_nearest(v), buf, size);
    case COUNT:
        return stk_word_count(stk_nearest(v), buf, size);
    case SHARE:
        return stk_word_share(v, buf, size);
    case TIMES:
        return stk_word_times(v, buf, size);
    case CORES:
        break;
    }
    snprintf(buf, size, v >= 0 ? "%.1f" : "-", v);
    return buf;
}

/* Less than a hundredth counts as no change: two runs never take the same time. */
static const char *change_text(const struct row *row, double before, double after, char *buf,
                               size_t size)
{
    char times[24];
    double ratio = before > 0 ? after / before : 0;
    if (before < 0 || after < 0)
        snprintf(buf, size, "-");
    else if (row->kind == SHARE)
        snprintf(buf, size, "%+.1f points", 100 * (after - before));
    else if (before > 0 && after > 0 && fabs(ratio - 1) >= 0.01)
        snprintf(buf, size, "%s %s",
                 stk_word_times(ratio < 1 ? 1 / ratio : ratio, times, sizeof times),
                 ratio < 1 ? "less" : "more");
    else
        snprintf(buf, size, "%s", before > 0 && after > 0 ? "same" : before > 0 ? "none" : "new");
    return buf;
}

static void put_row(const struct row *row, double before, double after, struct stk_grid *t)
{
    char a[40], b[40], change[48];
    if (!(before > 0) && !(after > 0)) /* unknown, or zero, in both */
        return;
    stk_grid_row(t, row->name, value_text(row->kind, before, a, sizeof a),
                 value_text(row->kind, after, b, sizeof b),
                 change_text(row, before, after, change, sizeof change));
}

static void put_rows(const struct stk_report *before, const struct stk_report *after,
                     struct stk_buf *out)
{
    static const struct row run = {.name = "run time", .kind = TIME};
    static const struct row ranks = {.name = "ranks", .kind = COUNT};
    struct stk_grid t;
    stk_grid_init(&t, "lrrr");
    stk_grid_row(&t, "", "before", "after", "change");
    put_row(&run, before->a->p->run_s, after->a->p->run_s, &t);
    if (before->a->p->nranks != after->a->p->nranks)
        put_row(&ranks, before->a->p->nranks, after->a->p->nranks, &t);
    for (size_t i = 0; i < NROWS; i++)
        put_row(&rows[i], value_of(&rows[i], before), value_of(&rows[i], after), &t);
    stk_grid_render(&t, 0, out);
    stk_grid_release(&t);
}

/* ---- findings ------------------------------------------------------------------------------ */

static const struct stk_finding *same_finding(const struct stk_advice *in,
                                              const struct stk_finding *f)
{
    for (size_t i = 0; i < in->nfindings; i++)
        if (in->finding[i].rule == f->rule)
            return &in->finding[i];
    return NULL;
}

/* A rule may fire for several folders: its first finding is the most severe, and stands for the
 * others. */
static bool stands_for_its_id(const struct stk_advice *in, size_t i)
{
    return same_finding(in, &in->finding[i]) == &in->finding[i];
}

/* What became of a finding of `list` that `other` may also have. */
static void finding_rows(const struct stk_advice *list, const struct stk_advice *other,
                         bool list_is_first, struct stk_grid *t)
{
    char was[40], is[40];
    for (size_t i = 0; i < list->nfindings; i++) {
        const struct stk_finding *f = &list->finding[i], *twin = same_finding(other, f);
        if ((twin && !list_is_first) || !stands_for_its_id(list, i))
            continue;
        double first = list_is_first ? f->gain_s : 0;
        double second = list_is_first ? twin ? twin->gain_s : 0 : f->gain_s;
        stk_grid_row(t,
                     twin            ? "left"
                     : list_is_first ? "gone"
                                     : "new",
                     f->id, stk_word_time(first, was, sizeof was),
                     stk_word_time(second, is, sizeof is));
    }
}

static void put_finding_changes(const struct stk_report *before, const struct stk_report *after,
                                struct stk_buf *out)
{
    struct stk_grid t;
    bool blind = before->advice->blind || after->advice->blind;
    if (blind || (!before->advice->nfindings && !after->advice->nfindings)) {
        stk_buf_puts(out, blind ? "\nno findings: one of the profiles recorded nothing\n"
                                : "\nno findings, before or after\n");
        return;
    }
    stk_grid_init(&t, "llrr");
    stk_grid_row(&t, "findings", "", "gain before", "gain after");
    finding_rows(before->advice, after->advice, true, &t);
    finding_rows(after->advice, before->advice, false, &t);
    stk_buf_putc(out, '\n');
    stk_grid_render(&t, 0, out);
    stk_grid_release(&t);
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* A run that failed, or was not recorded to its end, is fast for another reason. */
static const char *not_whole(const struct stk_profile *p)
{
    return p->running           ? "has not ended"
           : p->stopped_early   ? "was not recorded to its end (--for)"
           : p->exit_signal     ? "was ended by a signal"
           : p->exit_status > 0 ? "failed"
           : p->exit_status < 0 && (p->source->knows & STK_KNOWS_ENDS) ? "was not seen to end"
                                                                       : NULL;
}

bool stk_report_comparable(const struct stk_report *before, const struct stk_report *after)
{
    return !not_whole(before->a->p) && !not_whole(after->a->p);
}

/* "the run after failed (exit status 3)" */
static void put_refusal(const char *which, const struct stk_profile *p, struct stk_buf *line)
{
    const char *why = not_whole(p);
    if (!why)
        return;
    stk_buf_printf(line, " The run %s %s", which, why);
    if (p->exit_signal)
        stk_buf_printf(line, " (%d)", p->exit_signal);
    else if (p->exit_status > 0)
        stk_buf_printf(line, " (exit status %d)", p->exit_status);
    stk_buf_puts(line, ".");
}

static void put_no_verdict(const struct stk_report *before, const struct stk_report *after,
                           struct stk_buf *out)
{
    struct stk_buf line = STK_BUF_INIT;
    stk_buf_puts(&line, "These runs are not compared: their times would say nothing.");
    put_refusal("before", before->a->p, &line);
    put_refusal("after", after->a->p, &line);
    stk_report_wrapped(stk_buf_cstr(&line), 0, after->columns, out);
    stk_buf_release(&line);
}

/* ---- what else differs --------------------------------------------------------------------- */

#define BUSY_SHARE 0.2  /* of the cores, in use by others: times are then not the program's own */
#define SAME_WORK  0.05 /* numbers of steps, samples, bytes closer than this are alike */

static void put_busy(const char *which, const struct stk_analysis *a, struct stk_buf *line)
{
    if (!(a->other_cores_mean > 0) || a->other_cores_mean < BUSY_SHARE * (double)a->cores)
        return;
    stk_buf_printf(line, " The machine was busy during the run %s: other programs used %.1f", which,
                   a->other_cores_mean);
    if (a->cores)
        stk_buf_printf(line, " of %llu", (unsigned long long)a->cores);
    stk_buf_puts(line, " cores.");
}

static bool differ(double x, double y)
{
    return x > 0 && y > 0 && fabs(x - y) > SAME_WORK * fmax(x, y);
}

/* The directory with most bytes read; NULL: none. */
static const char *data_of(const struct stk_analysis *a)
{
    const struct stk_usage *most = NULL;
    for (size_t i = 0; i < a->ndirs; i++)
        if (a->dir[i].n.c[STK_C_READ_BYTES] &&
            (!most || a->dir[i].n.c[STK_C_READ_BYTES] > most->n.c[STK_C_READ_BYTES]))
            most = &a->dir[i];
    return most ? most->name : NULL;
}

static void put_work(const struct stk_analysis *x, const struct stk_analysis *y,
                     struct stk_buf *line)
{
    char was[40], is[40];
    const struct {
        const char *what;
        double before, after;
    } counts[] = {{"step", x->steps.marked ? (double)x->steps.count : 0,
                   y->steps.marked ? (double)y->steps.count : 0},
                  {"epoch", (double)x->nepochs, (double)y->nepochs},
                  {"rank", x->p->nranks, y->p->nranks}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (differ(counts[i].before, counts[i].after))
            stk_buf_printf(
                line, " They did different work: %s before, %s after.",
                stk_word_many(stk_nearest(counts[i].before), counts[i].what, was, sizeof was),
                stk_word_many(stk_nearest(counts[i].after), counts[i].what, is, sizeof is));
}

/* A dataset that was packed has another path and other bytes: named, not judged. */
static void put_datasets(const struct stk_analysis *x, const struct stk_analysis *y,
                         struct stk_buf *line)
{
    const char *before = data_of(x), *after = data_of(y);
    double was = (double)x->job.distinct_bytes, is = (double)y->job.distinct_bytes;
    char a[40], b[40];
    bool moved = before && after && strcmp(before, after) != 0;
    if (!moved && !differ(was, is))
        return;
    stk_buf_printf(line, " They read different data: %s",
                   stk_word_size(x->job.distinct_bytes, a, sizeof a));
    stk_buf_printf(line, moved ? ", most of it in %s, before" : " before", before);
    stk_buf_printf(line, ", %s", stk_word_size(y->job.distinct_bytes, b, sizeof b));
    stk_buf_printf(line, moved ? ", most of it in %s, after." : " after.", after);
}

static void put_differences(const struct stk_report *before, const struct stk_report *after,
                            struct stk_buf *line)
{
    put_busy("before", before->a, line);
    put_busy("after", after->a, line);
    put_work(before->a, after->a, line);
    put_datasets(before->a, after->a, line);
}

static void put_verdict(const struct stk_report *before, const struct stk_report *after,
                        struct stk_buf *out)
{
    char was[40], is[40], text[STK_VERDICT_TEXT];
    struct stk_buf line = STK_BUF_INIT;
    struct stk_verdict v = stk_verdict_of_single(after->a->p->run_s, before->a->p->run_s);
    if (isnan(v.times))
        return;
    stk_buf_printf(&line, "The run took %s instead of %s: %s.",
                   stk_word_time(after->a->p->run_s, is, sizeof is),
                   stk_word_time(before->a->p->run_s, was, sizeof was),
                   stk_verdict_text(&v, text, sizeof text));
    put_differences(before, after, &line);
    stk_buf_putc(out, '\n');
    stk_report_wrapped(stk_buf_cstr(&line), 0, after->columns, out);
    stk_buf_release(&line);
}

static void put_name(const char *label, const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_profile *p = r->a->p;
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_printf(out, "%s%s\n", label,
                   stk_word_command(&b, *p->command ? p->command : p->path, r->columns - 8));
    stk_buf_release(&b);
}

void stk_report_compare(const struct stk_report *before, const struct stk_report *after,
                        struct stk_buf *out)
{
    put_name("before  ", before, out);
    put_name("after   ", after, out);
    stk_buf_putc(out, '\n');
    if (!stk_report_comparable(before, after)) {
        put_no_verdict(before, after, out);
        return;
    }
    put_rows(before, after, out);
    put_finding_changes(before, after, out);
    put_verdict(before, after, out);
}

static void put_ids(struct stk_jw *w, const char *key, const struct stk_advice *of,
                    const struct stk_advice *other, bool in_both)
{
    stk_jw_key(w, key);
    stk_jw_open(w, '[');
    for (size_t i = 0; i < of->nfindings; i++)
        if (stands_for_its_id(of, i) && !!same_finding(other, &of->finding[i]) == in_both)
            stk_jw_str(w, of->finding[i].id);
    stk_jw_close(w, ']');
}

static void put_value(struct stk_jw *w, const struct row *row, double v)
{
    if (row->counter)
        stk_jw_put_u64(w, row->key, stk_nearest(v));
    else
        stk_jw_put_known_f64(w, row->key, v);
}

void stk_report_compare_json(const struct stk_report *before, const struct stk_report *after,
                             struct stk_jw *w)
{
    const struct stk_report *side[] = {before, after};
    static const char *const name[] = {"before", "after"};
    for (size_t k = 0; k < 2; k++) {
        stk_jw_key(w, name[k]);
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "path", side[k]->a->p->path);
        stk_jw_put_str(w, "command", side[k]->a->p->command);
        stk_jw_put_known_f64(w, "run_s", side[k]->a->p->run_s);
        for (size_t i = 0; i < NROWS; i++)
            put_value(w, &rows[i], value_of(&rows[i], side[k]));
        stk_jw_close(w, '}');
    }
    struct stk_buf why = STK_BUF_INIT;
    bool comparable = stk_report_comparable(before, after);
    const struct stk_verdict v = stk_verdict_of_single(after->a->p->run_s, before->a->p->run_s);
    stk_jw_put_bool(w, "comparable", comparable);
    if (comparable)
        stk_report_verdict(w, "verdict", &v);
    put_refusal("before", before->a->p, &why);
    put_refusal("after", after->a->p, &why);
    if (comparable)
        put_differences(before, after, &why);
    stk_jw_put_str(w, "differences", why.len ? stk_buf_cstr(&why) + 1 : NULL);
    stk_buf_release(&why);
    put_ids(w, "findings_gone", before->advice, after->advice, false);
    put_ids(w, "findings_left", before->advice, after->advice, true);
    put_ids(w, "findings_new", after->advice, before->advice, false);
}
