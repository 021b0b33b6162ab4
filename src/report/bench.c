/* bench.c - see bench.h. */
#include "report/bench.h"

#include <math.h>
#include <stdio.h>

#include "base/style.h"
#include "base/text.h"
#include "base/units.h"
#include "report/bench_io.h"

#define RANKS_SHOWN 8

static const char ours[] = "computing / time of the measured steps, checkpoints included";
static const char mlperf[] = "computing / time, without the first step and checkpoints";

/* ---- the screen ----------------------------------------------------------------------------- */

static void put_utilisation(const struct stk_bench_result *r, struct stk_grid *t)
{
    char a[32], line[200];
    snprintf(line, sizeof line, STK_STRONG "%s" STK_PLAIN "  (%s)",
             stk_percent_text(r->utilisation, a, sizeof a), ours);
    stk_grid_row(t, "utilisation", line);
    if (stk_bench_source_said(r)) {
        snprintf(line, sizeof line, STK_WARN "%s" STK_PLAIN, stk_bench_source_said(r));
        stk_grid_row(t, "", line);
    }
    snprintf(line, sizeof line, "%s  (%s)", stk_percent_text(r->mlperf, a, sizeof a), mlperf);
    stk_grid_row(t, "as MLPerf Storage", line);
    const struct stk_bench_calibration *c = &r->calibration;
    if (!c->done)
        return;
    snprintf(line, sizeof line, "%s by the clock, %llu steps%s",
             stk_percent_text(c->utilisation, a, sizeof a), (unsigned long long)c->steps,
             c->step_s > 0 && c->utilisation < STK_BENCH_PACE ? STK_WARN
                 "; this machine cannot keep the pace" STK_PLAIN
                                                          : "");
    stk_grid_row(t, "without I/O", line);
}

static void put_steps(const struct stk_bench_result *r, struct stk_grid *t)
{
    char a[32], b[32], c[32], d[32], line[200];
    uint64_t n = r->rank[0].measured_steps;
    snprintf(line, sizeof line, "%s of %s rank%s in %s", stk_format_count(n, a, sizeof a),
             stk_format_count(r->ranks, b, sizeof b), r->ranks == 1 ? "" : "s",
             stk_format_duration(r->wall_s, c, sizeof c));
    stk_grid_row(t, "steps", line);
    double bytes = stk_bench_bytes_per_s(r);
    snprintf(line, sizeof line, "%.0f/s%s%s", r->samples_per_s, bytes > 0 ? ", " : "",
             bytes > 0 ? stk_rate_text(bytes, a, sizeof a) : "");
    stk_grid_row(t, "samples", line);
    snprintf(line, sizeof line, "%s median, %s at 99 %%, %s at most; standard deviation %s",
             stk_duration_at(&r->step, 0.5, a), stk_duration_at(&r->step, 0.99, b),
             stk_duration_at(&r->step, 1, c), stk_format_duration(r->step_stdev_s, d, sizeof d));
    stk_grid_row(t, "time per step", line);
    bool before = r->io_share > r->io_share_steps + 0.01;
    snprintf(line, sizeof line, "%s of the time of the steps%s%s%s",
             stk_percent_text(r->io_share_steps, a, sizeof a), before ? "; " : "",
             before ? stk_percent_text(r->io_share, b, sizeof b) : "",
             before ? " of the run, with what is read before its first step" : "");
    stk_grid_row(t, "I/O", line);
}

static void put_checkpoints(const struct stk_bench_result *r, struct stk_grid *t)
{
    char a[32], b[32], c[32], line[200];
    if (!r->checkpoints)
        return;
    snprintf(line, sizeof line, "%llu, %s in %s; the slowest took %s",
             (unsigned long long)r->checkpoints, stk_format_size(r->checkpoint_bytes, a, sizeof a),
             stk_format_duration(r->checkpoint_s, b, sizeof b),
             stk_format_duration(r->checkpoint_max_s, c, sizeof c));
    stk_grid_row(t, "checkpoints", line);
    if (!r->restores)
        return;
    snprintf(line, sizeof line, "%llu, %s in %s", (unsigned long long)r->restores,
             stk_format_size(r->restore_bytes, a, sizeof a),
             stk_format_duration(r->restore_s, b, sizeof b));
    stk_grid_row(t, "read back", line);
}

static void put_evaluation(const struct stk_bench_result *r, struct stk_grid *t)
{
    char a[32], line[100];
    if (!r->rank[0].eval_steps)
        return;
    snprintf(line, sizeof line, "%llu steps in %s, apart from the steps above",
             (unsigned long long)r->rank[0].eval_steps,
             stk_format_duration(r->rank[0].eval_s, a, sizeof a));
    stk_grid_row(t, "evaluation", line);
}

static void put_slowest(const struct stk_bench_result *r, struct stk_grid *t)
{
    char a[32], node[300], line[400];
    struct stk_buf b = STK_BUF_INIT;
    const struct stk_bench_rank *s = &r->rank[r->slowest];
    if (r->ranks < 2)
        return;
    stk_text_escape(&b, s->node, strlen(s->node), 60);
    snprintf(node, sizeof node, "%s", stk_buf_cstr(&b));
    stk_buf_release(&b);
    if (s->wait_s > 0)
        snprintf(line, sizeof line, "rank %lu on %s waited %s for data", (unsigned long)r->slowest,
                 node, stk_format_duration(s->wait_s, a, sizeof a));
    else
        snprintf(line, sizeof line, "no rank waited for data");
    stk_grid_row(t, "slowest", line);
}

static void put_stragglers(const struct stk_bench_result *r, struct stk_grid *t)
{
    struct stk_buf b = STK_BUF_INIT;
    unsigned n = 0;
    for (uint32_t i = 0; i < r->ranks; i++)
        if (stk_bench_straggles(r, i) && n++ < RANKS_SHOWN) {
            stk_buf_printf(&b, "%srank %lu on ", n > 1 ? ", " : "", (unsigned long)i);
            stk_text_escape(&b, r->rank[i].node, strlen(r->rank[i].node), 60);
        }
    if (n > RANKS_SHOWN)
        stk_buf_printf(&b, " and %u more", n - RANKS_SHOWN);
    if (n)
        stk_grid_row(t, "stragglers", stk_buf_cstr(&b));
    stk_buf_release(&b);
}

static void put_rank(const struct stk_bench_rank *r, struct stk_grid *t)
{
    char rank[16], use[32], wait[32], rate[32], bytes[32], requests[32], latency[32] = "";
    struct stk_buf node = STK_BUF_INIT;
    snprintf(rank, sizeof rank, "%lu", (unsigned long)r->rank);
    stk_text_escape(&node, r->node, strlen(r->node), 40);
    snprintf(rate, sizeof rate, "%.0f",
             r->measured_s > 0 ? (double)r->measured_samples / r->measured_s : 0);
    if (r->io.latency.count)
        stk_duration_at(&r->io.latency, 0.99, latency);
    stk_grid_row(t, rank, stk_buf_cstr(&node),
                 stk_percent_text(stk_bench_utilisation(r), use, sizeof use),
                 stk_format_duration(r->wait_s, wait, sizeof wait), rate,
                 stk_format_size(r->io.bytes, bytes, sizeof bytes),
                 stk_format_count(r->io.requests, requests, sizeof requests), latency);
    stk_buf_release(&node);
}

/* True if fewer than RANKS_SHOWN ranks waited longer. */
static bool is_shown(const struct stk_bench_result *r, uint32_t rank)
{
    uint32_t longer = 0;
    double wait = r->rank[rank].wait_s;
    for (uint32_t i = 0; i < r->ranks; i++)
        longer += r->rank[i].wait_s > wait || (r->rank[i].wait_s == wait && i < rank);
    return longer < RANKS_SHOWN;
}

/* Each rank; of many, those that waited longest. */
static void put_ranks(const struct stk_bench_result *r, struct stk_buf *out)
{
    struct stk_grid t;
    if (r->ranks < 2)
        return;
    stk_grid_init(&t, "rlrrrrrr");
    stk_grid_row(&t, "rank", "node", "busy", "waited", "samples/s", "read", "requests",
                 "99 % latency");
    for (uint32_t i = 0; i < r->ranks; i++)
        if (is_shown(r, i))
            put_rank(&r->rank[i], &t);
    stk_buf_putc(out, '\n');
    stk_grid_render(&t, 0, out);
    stk_grid_release(&t);
    if (r->ranks > RANKS_SHOWN)
        stk_buf_printf(out, "Those that waited longest; --json has all %lu ranks.\n",
                       (unsigned long)r->ranks);
}

static void put_lost(const struct stk_bench_result *r, struct stk_buf *out)
{
    if (r->lost < 0)
        return;
    stk_buf_printf(out, STK_BAD "rank %lld was lost" STK_PLAIN ": ", (long long)r->lost);
    stk_text_escape(out, r->why_lost, strlen(r->why_lost), SIZE_MAX);
    stk_buf_puts(out, "\nThe other ranks ended; there is no result of the whole.\n");
}

void stk_bench_text(const struct stk_bench_result *r, unsigned columns, struct stk_buf *out)
{
    struct stk_grid t;
    put_lost(r, out);
    if (r->lost >= 0)
        return;
    stk_grid_init(&t, "lw");
    stk_grid_row(&t, "workload", r->w->name);
    put_utilisation(r, &t);
    put_steps(r, &t);
    stk_bench_io_rows(r, &t);
    put_checkpoints(r, &t);
    put_evaluation(r, &t);
    put_slowest(r, &t);
    put_stragglers(r, &t);
    stk_grid_fit(&t, 0, columns);
    stk_grid_render(&t, 0, out);
    stk_grid_release(&t);
    put_ranks(r, out);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* Six digits: a bin is a millisecond or more. */
static void json_bins(const char *key, const float *v, size_t n, struct stk_jw *w)
{
    stk_jw_key(w, key);
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        char text[32];
        int len = snprintf(text, sizeof text, "%.6g", isfinite(v[i]) ? (double)v[i] : 0);
        stk_jw_raw(w, text, (size_t)len);
    }
    stk_jw_close(w, ']');
}

static void json_course(const struct stk_course *c, struct stk_jw *w)
{
    size_t n = stk_course_used(c);
    stk_jw_key(w, "over_time");
    stk_jw_open(w, '{');
    stk_jw_put_f64(w, "bin_seconds", c->bin_s);
    stk_jw_key(w, "steps");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++)
        stk_jw_u64(w, c->steps[i]);
    stk_jw_close(w, ']');
    for (size_t p = 0; p < STK_COURSE_PARTS; p++)
        json_bins(stk_course_names[p], c->part_s[p], n, w);
    stk_jw_close(w, '}');
}

/* all: the course of all ranks, whose bins the rank's are made to fit. */
static void json_rank(const struct stk_bench_rank *r, const struct stk_course *all,
                      struct stk_jw *w)
{
    struct stk_course own = r->course;
    stk_course_widen(&own, all->bin_s);
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "rank", r->rank);
    stk_jw_put_str(w, "node", r->node);
    stk_jw_put_u64(w, "steps", r->steps);
    stk_jw_put_u64(w, "samples", r->samples);
    stk_jw_put_u64(w, "measured_steps", r->measured_steps);
    stk_jw_put_f64(w, "utilisation", stk_bench_utilisation(r));
    stk_jw_put_f64(w, "utilisation_mlperf", stk_bench_mlperf(r));
    stk_jw_put_f64(w, "measured_seconds", r->measured_s);
    stk_jw_put_f64(w, "compute_seconds", r->compute_s);
    stk_jw_put_f64(w, "wait_seconds", r->wait_s);
    stk_jw_put_f64(w, "barrier_seconds", r->barrier_s);
    stk_jw_put_f64(w, "head_seconds", r->head_s);
    stk_jw_put_f64(w, "load_seconds", r->load_s);
    stk_jw_put_f64(w, "first_batch_seconds", r->first_batch_s);
    stk_jw_put_u64(w, "evaluation_steps", r->eval_steps);
    stk_jw_put_f64(w, "evaluation_seconds", r->eval_s);
    stk_jw_put_f64(w, "checkpoint_seconds", r->checkpoint_s);
    stk_jw_put_u64(w, "checkpoint_bytes", r->checkpoint_bytes);
    stk_jw_put_f64(w, "elapsed_seconds", r->elapsed_s);
    stk_jw_put_f64(w, "late_seconds", r->late_s);
    stk_jw_put_f64(w, "late_max_seconds", r->late_max_s);
    stk_jw_put_u64(w, "memory_bytes", r->memory_bytes);
    json_bins("wait_over_time", own.part_s[STK_COURSE_WAIT], stk_course_used(all), w);
    stk_bench_io_json(&r->io, r->device_bytes, w);
    stk_jw_close(w, '}');
}

static void json_calibration(const struct stk_bench_calibration *c, struct stk_jw *w)
{
    stk_jw_key(w, "calibration");
    if (!c->done) {
        stk_jw_null(w);
        return;
    }
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "steps", c->steps);
    stk_jw_put_f64(w, "step_seconds", c->step_s);
    stk_jw_put_f64(w, "utilisation", c->utilisation);
    stk_jw_close(w, '}');
}

static void json_totals(const struct stk_bench_result *r, struct stk_jw *w)
{
    stk_jw_put_f64(w, "utilisation", r->utilisation);
    stk_jw_put_str(w, "utilisation_is", ours);
    stk_jw_put_str(w, "data_came_from", stk_bench_source_said(r));
    stk_jw_put_f64(w, "utilisation_least", r->utilisation_least);
    stk_jw_put_f64(w, "utilisation_mlperf", r->mlperf);
    stk_jw_put_str(w, "utilisation_mlperf_is", mlperf);
    json_calibration(&r->calibration, w);
    stk_jw_put_f64(w, "measured_seconds", r->wall_s);
    stk_jw_put_f64(w, "samples_per_second", r->samples_per_s);
    stk_jw_put_f64(w, "bytes_per_second", stk_bench_bytes_per_s(r));
    stk_jw_put_f64(w, "epoch_seconds", r->epoch_s);
    stk_jw_put_f64(w, "io_share", r->io_share);
    stk_jw_put_f64(w, "io_share_steps", r->io_share_steps);
    stk_jw_put_u64(w, "slowest_rank", r->slowest);
    stk_jw_key(w, "stragglers");
    stk_jw_open(w, '[');
    for (uint32_t i = 0; i < r->ranks; i++)
        if (stk_bench_straggles(r, i))
            stk_jw_u64(w, i);
    stk_jw_close(w, ']');
    stk_jw_put_u64(w, "memory_bytes", r->memory_bytes);
    stk_jw_put_u64(w, "checkpoints", r->checkpoints);
    stk_jw_put_u64(w, "checkpoint_bytes", r->checkpoint_bytes);
    stk_jw_put_f64(w, "checkpoint_seconds", r->checkpoint_s);
    stk_jw_put_f64(w, "checkpoint_max_seconds", r->checkpoint_max_s);
    stk_jw_put_u64(w, "restores", r->restores);
    stk_jw_put_u64(w, "restore_bytes", r->restore_bytes);
    stk_jw_put_f64(w, "restore_seconds", r->restore_s);
    stk_bench_times_json(&r->step, "step", w);
    stk_jw_put_f64(w, "step_stdev_seconds", r->step_stdev_s);
    json_course(&r->course, w);
    stk_bench_io_json(&r->io, r->device_bytes, w);
}

void stk_bench_json(const struct stk_bench_result *r, struct stk_jw *w)
{
    stk_jw_key(w, "workload");
    stk_jw_open(w, '{');
    stk_workload_json(r->w, w);
    stk_jw_close(w, '}');
    stk_jw_put_str(w, "reader", r->stoker ? "stoker" : "application");
    stk_jw_put_str(w, "clock", r->is_virtual ? "virtual" : "real");
    stk_jw_put_str(w, "ranks_are", r->kind);
    stk_jw_put_u64(w, "ranks", r->ranks);
    if (r->w->access.sharing == STK_SHARING_COLLECTIVE)
        stk_jw_put_str(w, "collective_reads", r->mpiio ? "MPI-IO" : "plain");
    stk_jw_put_known_i64(w, "lost_rank", r->lost);
    if (r->lost >= 0) {
        stk_jw_put_str(w, "lost_because", r->why_lost);
        return;
    }
    json_totals(r, w);
    stk_jw_key(w, "per_rank");
    stk_jw_open(w, '[');
    for (uint32_t i = 0; i < r->ranks; i++)
        json_rank(&r->rank[i], &r->course, w);
    stk_jw_close(w, ']');
}

/* ---- a workload ----------------------------------------------------------------------------- */

void stk_workload_text(const struct stk_workload *w, struct stk_buf *out)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *v = NULL;
    struct stk_grid t;
    struct stk_jw j;
    stk_jw_init(&j, &b, false);
    stk_jw_open(&j, '{');
    stk_workload_json(w, &j);
    stk_jw_close(&j, '}');
    stk_grid_init(&t, "ll");
    if (!b.fail && stk_json_parse(&arena, (const char *)b.data, b.len, &v, NULL) == 0)
        for (size_t i = 0; i < v->len; i++) {
            char text[400];
            struct stk_buf shown = STK_BUF_INIT;
            snprintf(text, sizeof text, "%.*s", (int)v->item[i].raw_len, v->item[i].raw);
            stk_text_escape(&shown, text, strlen(text), 60);
            stk_grid_row(&t, v->name[i].str, stk_buf_cstr(&shown));
            stk_buf_release(&shown);
        }
    stk_grid_render(&t, 0, out);
    stk_grid_release(&t);
    stk_arena_release(&arena);
    stk_buf_release(&b);
}
