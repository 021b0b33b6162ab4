/* bench.c - the result of a run of `stoker bench`; a workload as text. */
#include "report/bench.h"

#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "base/units.h"
#include "host/fs.h"
#include "result/blocks.h"
#include "result/grid.h"

#define RANKS_SHOWN 8

static double ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

/* ---- a distribution of times ---------------------------------------------------------------- */

#define TIMES(name, expression) STK_NUMBER_OF(name, struct stk_histogram, 1e-9 * (double)(expression))

TIMES(mean_s, stk_histogram_mean(r))
TIMES(p50_s, stk_histogram_percentile(r, 0.5))
TIMES(p90_s, stk_histogram_percentile(r, 0.9))
TIMES(p99_s, stk_histogram_percentile(r, 0.99))
TIMES(p999_s, stk_histogram_percentile(r, 0.999))

static void put_histogram(const void *base, struct stk_jw *w)
{
    const struct stk_histogram *h = base;
    stk_jw_open(w, '[');
    for (unsigned power = 0; power < 64; power++) {
        uint64_t n = stk_histogram_octave(h, power);
        if (!n)
            continue;
        stk_jw_open(w, '{');
        stk_jw_put_f64(w, "from_s", power ? 1e-9 * (double)((uint64_t)1 << power) : 0);
        stk_jw_put_f64(w, "below_s", 2e-9 * (double)((uint64_t)1 << power));
        stk_jw_put_u64(w, "count", n);
        stk_jw_put_f64(w, "seconds", 1.5e-9 * (double)((uint64_t)1 << power) * (double)n);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static const struct stk_result_field octave_fields[] = {
    {"from_s", NULL, STK_U_SECONDS},
    {"below_s", NULL, STK_U_SECONDS},
    {"count", NULL, STK_U_COUNT},
    {"seconds", NULL, STK_U_SECONDS, .meaning = "about, as if spread evenly"},
    {NULL}};

#define OCTAVES(id, title, text, name, what)                                                       \
    {                                                                                              \
        id, title, text, "from_s", name, STK_U_SECONDS, STK_SCALE_CATEGORY,                        \
            {{what, STK_U_COUNT, {{"count", what, "bar"}}},                                        \
             {"time, about", STK_U_SECONDS, {{"seconds", "time, about", "bar"}}}},                 \
            .trim = true                                                                           \
    }
static const struct stk_result_plot latency_plot = OCTAVES(
    "latency", "How long requests took",
    "Each bar counts the requests up to twice its time. A second hill far to the right: a cache "
    "that some requests miss. Below, the time that the requests of each bar took.",
    "a request took at least", "requests");
static const struct stk_result_plot step_plot = OCTAVES(
    "steps", "How long steps took", "Each bar counts the measured steps up to twice its time.",
    "a step took at least", "steps");
static const struct stk_result_plot size_plot = {
    "sizes", "Sizes of requests", "Storage serves few large requests faster than many small ones.",
    "bytes", "bytes of a request", STK_U_PLAIN, STK_SCALE_CATEGORY,
    {{"requests", STK_U_COUNT, {{"count", "requests", "bar"}}}},
    .trim = true};

#define HISTOGRAM(plot_)                                                                           \
    {"histogram", NULL, STK_U_TABLE, .put = put_histogram, .of = octave_fields,                    \
     .meaning = "by powers of two of nanoseconds", .plot = plot_}
static const struct stk_result_field step_histogram[] = {HISTOGRAM(&step_plot), {NULL}};
static const struct stk_result_field latency_histogram[] = {HISTOGRAM(&latency_plot), {NULL}};

static const struct stk_result_field moment_fields[] = {
    {"count", NULL, STK_U_COUNT, STK_FROM(struct stk_histogram, count)},
    {"mean_s", NULL, STK_U_SECONDS, .number = mean_s},
    {"min_s", NULL, STK_U_SECONDS, STK_FROM_AS(NS, struct stk_histogram, min)},
    {"p50_s", "p50", STK_U_SECONDS, .number = p50_s, .say = "% median"},
    {"p90_s", "p90", STK_U_SECONDS, .number = p90_s, .joins = ", % at 90 %%"},
    {"p99_s", "p99", STK_U_SECONDS, .number = p99_s, .joins = ", % at 99 %%"},
    {"p999_s", NULL, STK_U_SECONDS, .number = p999_s},
    {"max_s", "longest", STK_U_SECONDS, STK_FROM_AS(NS, struct stk_histogram, max),
     .joins = ", % at most"},
    {NULL}};
static const struct stk_result_field step_fields[] = {
    {"", NULL, STK_U_GROUP, .of = moment_fields}, {"", NULL, STK_U_GROUP, .of = step_histogram},
    {NULL}};
static const struct stk_result_field latency_fields[] = {
    {"", NULL, STK_U_GROUP, .of = moment_fields}, {"", NULL, STK_U_GROUP, .of = latency_histogram},
    {NULL}};

/* ---- requests ------------------------------------------------------------------------------- */

#define TALLY(member)           STK_FROM(struct stk_io_tally, member)
#define IO(name, expression)    STK_NUMBER_OF(name, struct stk_io_tally, expression)
#define RATE_AT(name, fraction) IO(name, (double)stk_histogram_percentile(&r->rate, fraction))

RATE_AT(rate_p1, 0.01)
RATE_AT(rate_p10, 0.1)
RATE_AT(rate_p50, 0.5)
RATE_AT(rate_p90, 0.9)
RATE_AT(rate_p99, 0.99)
IO(rate_mean, r->request_s > 0 ? (double)r->bytes / r->request_s : 0)
IO(sequential_share, ratio((double)r->sequential, (double)(r->requests - r->first)))
IO(consecutive_share, ratio((double)r->consecutive, (double)(r->requests - r->first)))

/* "60.0 % of 1.00 MiB" */
static void common_text(const void *base, struct stk_jw *w)
{
    const struct stk_io_tally *io = base;
    struct stk_io_tally_size most = stk_io_tally_common(io);
    char text[80], a[32], b[32];
    snprintf(text, sizeof text, "%s of %s",
             stk_percent_text(ratio((double)most.count, (double)io->requests), a, sizeof a),
             stk_format_size(most.bytes, b, sizeof b));
    stk_jw_str(w, most.count ? text : NULL);
}

/* The bins that have requests. */
static void sizes_text(const void *base, struct stk_jw *w)
{
    const struct stk_io_tally *io = base;
    struct stk_buf b = STK_BUF_INIT;
    char share[32];
    for (int i = 0; i < STK_TALLY_COUNTS; i++)
        if (io->bin[i])
            stk_buf_printf(&b, "%s%s %s", b.len ? ", " : "",
                           stk_percent_text((double)io->bin[i] / (double)io->requests, share,
                                            sizeof share),
                           stk_io_tally_bin_name[i]);
    stk_jw_str(w, b.len ? stk_buf_cstr(&b) : NULL);
    stk_buf_release(&b);
}

static void put_sizes(const void *base, struct stk_jw *w)
{
    const struct stk_io_tally *io = base;
    stk_jw_open(w, '[');
    for (int i = 0; i < STK_TALLY_COUNTS; i++) {
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "bytes", stk_io_tally_bin_name[i]);
        stk_jw_put_u64(w, "count", io->bin[i]);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static void put_common(const void *base, struct stk_jw *w)
{
    const struct stk_io_tally *io = base;
    stk_jw_open(w, '[');
    for (int i = 0; i < STK_TALLY_SIZES && io->size[i].count; i++) {
        stk_jw_open(w, '{');
        stk_jw_put_u64(w, "bytes", io->size[i].bytes);
        stk_jw_put_u64(w, "count", io->size[i].count);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static const struct stk_result_field bin_fields[] = {
    {"bytes", NULL, STK_U_TEXT}, {"count", NULL, STK_U_COUNT}, {NULL}};
static const struct stk_result_field common_fields[] = {
    {"bytes", NULL, STK_U_BYTES}, {"count", NULL, STK_U_COUNT}, {NULL}};

static const struct stk_result_field rate_fields[] = {
    {"mean", "mean", STK_U_BYTES_PER_S, .number = rate_mean, .say = "% mean"},
    {"p50", "p50", STK_U_BYTES_PER_S, .number = rate_p50, .joins = ", % median"},
    {"p1", NULL, STK_U_BYTES_PER_S, .number = rate_p1},
    {"p10", "p10", STK_U_BYTES_PER_S, .number = rate_p10, .joins = ", % at 10 %%"},
    {"p90", "p90", STK_U_BYTES_PER_S, .number = rate_p90,
     .joins = ", % at 90 %% of the requests"},
    {"p99", NULL, STK_U_BYTES_PER_S, .number = rate_p99},
    {NULL}};

static const struct stk_result_field detail_fields[] = {
    {"first_requests", NULL, STK_U_COUNT, TALLY(first), "the first after their file was opened"},
    {"sequential", NULL, STK_U_COUNT, TALLY(sequential), "beyond the end of the one before"},
    {"consecutive", NULL, STK_U_COUNT, TALLY(consecutive), "right at the end of the one before"},
    {"sequential_fraction", "sequential", STK_U_SHARE, .number = sequential_share, .row = "order",
     .say = "% sequential"},
    {"consecutive_fraction", "consecutive", STK_U_SHARE, .number = consecutive_share,
     .joins = ", % consecutive"},
    {"request_seconds", NULL, STK_U_SECONDS, TALLY(request_s)},
    {"open_seconds", NULL, STK_U_SECONDS, TALLY(open_s), "all but requests"},
    {"request_sizes", NULL, STK_U_TABLE, .put = put_sizes, .of = bin_fields, .plot = &size_plot},
    {"sizes", "sizes", STK_U_TEXT, .put = sizes_text, .flags = STK_F_SCREEN},
    {"common_sizes", NULL, STK_U_TABLE, .put = put_common, .of = common_fields},
    {"latency", "latency", STK_U_GROUP, STK_FROM_AS(STRUCT, struct stk_io_tally, latency),
     .of = latency_fields},
    {"bytes_per_second_of_request", "bandwidth", STK_U_GROUP, .of = rate_fields},
    {NULL}};

/* Null if requests were counted only. */
static void put_details(const void *base, struct stk_jw *w)
{
    const struct stk_io_tally *io = base;
    if (!io->requests || io->latency.count) {
        stk_fields_put(detail_fields, io, w);
        return;
    }
    for (const struct stk_result_field *f = detail_fields; f->key; f++) {
        stk_jw_key(w, f->key);
        stk_jw_null(w);
    }
}

STK_TEXT_OF(counted_only, struct stk_io_tally,
            r->requests && !r->latency.count
                ? "not known: stoker's loader counts requests only"
                : NULL)

static const struct stk_result_field io_fields[] = {
    {"samples", NULL, STK_U_COUNT, TALLY(samples)},
    {"bytes_asked", "asked for", STK_U_BYTES, TALLY(asked_bytes), .row = "bytes",
     .say = "% asked for"},
    {"bytes_read", "read", STK_U_BYTES, TALLY(bytes), .joins = ", % read"},
    {"requests", "requests", STK_U_COUNT, TALLY(requests)},
    {"opens", "opens", STK_U_COUNT, TALLY(opens), .joins = " in % opened files"},
    {"most_common", "most requests", STK_U_TEXT, .put = common_text, .joins = "; %"},
    {"stats", NULL, STK_U_COUNT, TALLY(stats)},
    {"seeks", NULL, STK_U_COUNT, TALLY(seeks)},
    {"counted_only", "sizes, latency", STK_U_TEXT, .put = counted_only, .flags = STK_F_SCREEN},
    {"", NULL, STK_U_GROUP, .put = put_details, .of = detail_fields},
    {NULL}};

static void put_io(const struct stk_io_tally *io, int64_t device, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_fields_put(io_fields, io, w);
    stk_jw_put_known_i64(w, "bytes_from_device", device);
    stk_jw_close(w, '}');
}

#define IO_OF(put_) {"io", NULL, STK_U_GROUP, .put = put_, .of = io_and_device}

static const struct stk_result_field io_and_device[] = {
    {"", NULL, STK_U_GROUP, .of = io_fields},
    {"bytes_from_device", "from the device", STK_U_BYTES, .flags = STK_F_PAGE},
    {NULL}};

/* ---- where the data came from --------------------------------------------------------------- */

static const char *source_text(const struct stk_bench_result *r, char *buf, size_t size)
{
    char a[32];
    const char *fs = r->fs ? r->fs->name : "this file system";
    if (r->is_virtual)
        snprintf(buf, size, "nothing: the storage is modelled");
    else if (r->device_bytes == 0)
        snprintf(buf, size, "0 B: everything was in the page cache, or in memory");
    else if (r->device_bytes > 0)
        snprintf(buf, size, "%s%s", stk_format_size((uint64_t)r->device_bytes, a, sizeof a),
                 (uint64_t)r->device_bytes < r->io.bytes ? "; the rest was in the page cache" : "");
    else if (stk_bench_source(r) == STK_BENCH_NOT_COUNTED_SLOW)
        snprintf(buf, size, "not known: not counted for %s; slower than memory", fs);
    else if (stk_bench_source(r) == STK_BENCH_NOT_COUNTED_FAST)
        snprintf(buf, size, "not known: not counted for %s; as fast as memory", fs);
    else
        snprintf(buf, size, "not known: not counted for %s", fs);
    return buf;
}

static const char *source_said(const struct stk_bench_result *r)
{
    static const char *const said[] = {
        [STK_BENCH_FROM_MEMORY] = "most of the data came from memory, not from storage",
        [STK_BENCH_NOT_COUNTED_FAST] = "the data came as fast as from memory: whether storage was "
                                       "read is not known",
        [STK_BENCH_NOT_COUNTED] = "whether storage or memory was read is not known",
    };
    enum stk_bench_source from = stk_bench_source(r);
    return from < sizeof said / sizeof *said ? said[from] : NULL;
}

/* ---- over time ------------------------------------------------------------------------------ */

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

/* ---- ranks ---------------------------------------------------------------------------------- */

#define RANK(member)             STK_FROM(struct stk_bench_rank, member)
#define OF_RANK(name, expression) STK_NUMBER_OF(name, struct stk_bench_rank, expression)

OF_RANK(rank_use, stk_bench_utilisation(r))
OF_RANK(rank_mlperf, stk_bench_mlperf(r))
OF_RANK(rank_rate, ratio((double)r->measured_samples, r->measured_s))

static void put_rank_io(const void *base, struct stk_jw *w)
{
    const struct stk_bench_rank *r = base;
    put_io(&r->io, r->device_bytes, w);
}

static const struct stk_result_field rank_fields[] = {
    {"rank", NULL, STK_U_COUNT, RANK(rank)},
    {"node", NULL, STK_U_TEXT, STK_FROM_AS(CHARS, struct stk_bench_rank, node)},
    {"steps", NULL, STK_U_COUNT, RANK(steps)},
    {"samples", NULL, STK_U_COUNT, RANK(samples)},
    {"measured_steps", NULL, STK_U_COUNT, RANK(measured_steps)},
    {"utilisation", NULL, STK_U_SHARE, .number = rank_use},
    {"utilisation_mlperf", NULL, STK_U_SHARE, .number = rank_mlperf},
    {"samples_per_second", NULL, STK_U_PER_S, .number = rank_rate},
    {"measured_seconds", NULL, STK_U_SECONDS, RANK(measured_s)},
    {"compute_seconds", NULL, STK_U_SECONDS, RANK(compute_s)},
    {"wait_seconds", NULL, STK_U_SECONDS, RANK(wait_s)},
    {"barrier_seconds", NULL, STK_U_SECONDS, RANK(barrier_s)},
    {"head_seconds", NULL, STK_U_SECONDS, RANK(head_s)},
    {"load_seconds", NULL, STK_U_SECONDS, RANK(load_s)},
    {"first_batch_seconds", NULL, STK_U_SECONDS, RANK(first_batch_s)},
    {"evaluation_steps", NULL, STK_U_COUNT, RANK(eval_steps)},
    {"evaluation_seconds", NULL, STK_U_SECONDS, RANK(eval_s)},
    {"checkpoint_seconds", NULL, STK_U_SECONDS, RANK(checkpoint_s)},
    {"checkpoint_bytes", NULL, STK_U_BYTES, RANK(checkpoint_bytes)},
    {"elapsed_seconds", NULL, STK_U_SECONDS, RANK(elapsed_s)},
    {"late_seconds", NULL, STK_U_SECONDS, RANK(late_s)},
    {"late_max_seconds", NULL, STK_U_SECONDS, RANK(late_max_s)},
    {"memory_bytes", NULL, STK_U_BYTES, RANK(memory_bytes)},
    {"wait_over_time", NULL, STK_U_LIST},
    IO_OF(put_rank_io),
    {NULL}};

/* all: the course of all ranks, whose bins the rank's are made to fit. */
static void put_rank(const struct stk_bench_rank *r, const struct stk_course *all,
                     struct stk_jw *w)
{
    struct stk_course own = r->course;
    stk_course_widen(&own, all->bin_s);
    stk_jw_open(w, '{');
    stk_fields_put(rank_fields, r, w);
    json_bins("wait_over_time", own.part_s[STK_COURSE_WAIT], stk_course_used(all), w);
    stk_jw_close(w, '}');
}

static void put_ranks(const void *base, struct stk_jw *w)
{
    const struct stk_bench_result *r = base;
    stk_jw_open(w, '[');
    for (uint32_t i = 0; i < r->ranks; i++)
        put_rank(&r->rank[i], &r->course, w);
    stk_jw_close(w, ']');
}

static const struct stk_result_field p99_column[] = {{"p99_s", "99 % latency", STK_U_SECONDS},
                                                     {NULL}};
static const struct stk_result_field io_columns[] = {
    {"bytes_read", "read", STK_U_BYTES},
    {"requests", "requests", STK_U_COUNT},
    {"latency", NULL, STK_U_GROUP, .of = p99_column},
    {NULL}};
static const struct stk_result_field screen_columns[] = {
    {"rank", "rank", STK_U_COUNT},
    {"node", "node", STK_U_TEXT, .flags = STK_F_CUT_END},
    {"utilisation", "busy", STK_U_SHARE},
    {"wait_seconds", "waited", STK_U_SECONDS},
    {"samples_per_second", "samples", STK_U_PER_S},
    {"io", NULL, STK_U_GROUP, .of = io_columns},
    {NULL}};
static const struct stk_result_field latency_columns[] = {
    {"p50_s", "a request, p50", STK_U_SECONDS}, {"p99_s", "a request, p99", STK_U_SECONDS}, {NULL}};
static const struct stk_result_field page_io_columns[] = {
    {"requests", "requests", STK_U_COUNT},
    {"bytes_read", "read", STK_U_BYTES},
    {"latency", NULL, STK_U_GROUP, .of = latency_columns},
    {NULL}};
static const struct stk_result_field page_columns[] = {
    {"rank", "rank", STK_U_COUNT},
    {"node", "node", STK_U_TEXT},
    {"utilisation", "utilisation", STK_U_SHARE},
    {"measured_steps", "steps", STK_U_COUNT},
    {"measured_seconds", "measured", STK_U_SECONDS},
    {"compute_seconds", "computed", STK_U_SECONDS},
    {"wait_seconds", "waited for data", STK_U_SECONDS},
    {"barrier_seconds", "waited for others", STK_U_SECONDS},
    {"checkpoint_seconds", "in checkpoints", STK_U_SECONDS},
    {"first_batch_seconds", "first batch after", STK_U_SECONDS},
    {"io", NULL, STK_U_GROUP, .of = page_io_columns},
    {"memory_bytes", "memory", STK_U_BYTES},
    {NULL}};

static const struct stk_result_plot where_plot = {
    "where", "Where the time went",
    "The measured steps of each rank. Checkpoints count as part of them.",
    "rank", "rank", STK_U_PLAIN, STK_SCALE_CATEGORY,
    {{"time", STK_U_SECONDS,
      {{"compute_seconds", "computing", "bar"}, {"wait_seconds", "waiting for data", "bar"},
       {"barrier_seconds", "waiting for other ranks", "bar"},
       {"checkpoint_seconds", "checkpoints", "bar"}},
      .stacked = true}},
    .flip = true, .most = 32};
static const struct stk_result_plot balance_plot = {
    "balance", "Ranks against ranks", "With a barrier per step, all ranks wait for the slowest.",
    "rank", "rank", STK_U_PLAIN, STK_SCALE_RANKS,
    {{"utilisation", STK_U_SHARE, {{"utilisation", "utilisation", "bar"}}},
     {"waited for data", STK_U_SECONDS, {{"wait_seconds", "waited for data", "bar"}}},
     {"a request, p99", STK_U_SECONDS, {{"io.latency.p99_s", "a request, p99", "bar"}}}},
    .least = 2};
#define RANKS_DRAWN(plot_)                                                                         \
    {"per_rank", NULL, STK_U_TABLE, .of = page_columns, .flags = STK_F_VIEW | STK_F_PAGE,          \
     .plot = plot_}

/* ---- all ranks ------------------------------------------------------------------------------ */

static const char ours[] = "computing / time of the measured steps, checkpoints included";
static const char mlperf[] = "computing / time, without the first step and checkpoints";

#define FROM(member)             STK_FROM(struct stk_bench_result, member)
#define NUMBER(name, expression) STK_NUMBER_OF(name, struct stk_bench_result, expression)
#define TEXT(name, expression)   STK_TEXT_OF(name, struct stk_bench_result, expression)

TEXT(ours_is, ours)
TEXT(mlperf_is, mlperf)
TEXT(came_from, source_said(r))
NUMBER(steps, (double)r->rank[0].measured_steps)
NUMBER(bytes_rate, stk_bench_bytes_per_s(r))
NUMBER(eval_steps, (double)r->rank[0].eval_steps)
NUMBER(eval_s, r->rank[0].eval_steps ? r->rank[0].eval_s : NAN)

static void io_before(const void *base, struct stk_jw *w)
{
    const struct stk_bench_result *r = base;
    char text[100], a[32];
    snprintf(text, sizeof text, "%s of the run, with what is read before its first step",
             stk_percent_text(r->io_share, a, sizeof a));
    stk_jw_str(w, r->io_share > r->io_share_steps + 0.01 ? text : NULL);
}

static void device_text(const void *base, struct stk_jw *w)
{
    char text[200];
    stk_jw_str(w, source_text(base, text, sizeof text));
}

static void collective_text(const void *base, struct stk_jw *w)
{
    const struct stk_bench_result *r = base;
    char text[200];
    snprintf(text, sizeof text, "%llu of %lu ranks read through %s and broadcast",
             (unsigned long long)r->w->access.readers, (unsigned long)r->ranks,
             r->mpiio ? "MPI-IO" : "plain reads (MPI-IO needs mpirun or srun)");
    bool is = r->w->access.sharing == STK_SHARING_COLLECTIVE && !r->stoker;
    stk_jw_str(w, is ? text : NULL);
}

static void slowest_text(const void *base, struct stk_jw *w)
{
    const struct stk_bench_result *r = base;
    const struct stk_bench_rank *s = &r->rank[r->slowest];
    char text[200], a[32];
    snprintf(text, sizeof text, "rank %lu on %s waited %s for data", (unsigned long)r->slowest,
             s->node, stk_format_duration(s->wait_s, a, sizeof a));
    stk_jw_str(w, r->ranks < 2 ? NULL : s->wait_s > 0 ? text : "no rank waited for data");
}

static void stragglers_text(const void *base, struct stk_jw *w)
{
    const struct stk_bench_result *r = base;
    struct stk_buf b = STK_BUF_INIT;
    unsigned n = 0;
    for (uint32_t i = 0; i < r->ranks; i++)
        if (stk_bench_straggles(r, i) && n++ < RANKS_SHOWN)
            stk_buf_printf(&b, "%srank %lu on %s", n > 1 ? ", " : "", (unsigned long)i,
                           r->rank[i].node);
    if (n > RANKS_SHOWN)
        stk_buf_printf(&b, " and %u more", n - RANKS_SHOWN);
    stk_jw_str(w, n ? stk_buf_cstr(&b) : NULL);
    stk_buf_release(&b);
}

static void put_stragglers(const void *base, struct stk_jw *w)
{
    const struct stk_bench_result *r = base;
    stk_jw_open(w, '[');
    for (uint32_t i = 0; i < r->ranks; i++)
        if (stk_bench_straggles(r, i))
            stk_jw_u64(w, i);
    stk_jw_close(w, ']');
}

static void put_course(const void *base, struct stk_jw *w)
{
    json_course(&((const struct stk_bench_result *)base)->course, w);
}

static void put_all_io(const void *base, struct stk_jw *w)
{
    const struct stk_bench_result *r = base;
    put_io(&r->io, r->device_bytes, w);
}

#define CALIBRATION(member) STK_FROM(struct stk_bench_calibration, member)

STK_TEXT_OF(pace, struct stk_bench_calibration,
            r->step_s > 0 && r->utilisation < STK_BENCH_PACE
                ? "this machine cannot keep the pace: a part of the lost time is the machine's, "
                  "not the storage's"
                : NULL)

static const struct stk_result_field calibration_fields[] = {
    {"utilisation", "utilisation", STK_U_SHARE, CALIBRATION(utilisation), .say = "% by the clock"},
    {"steps", "steps", STK_U_COUNT, CALIBRATION(steps), .joins = ", % steps"},
    {"step_seconds", NULL, STK_U_SECONDS, CALIBRATION(step_s)},
    {"pace", "pace", STK_U_TEXT, .put = pace, .flags = STK_F_WARN, .joins = "; %"},
    {NULL}};

static void put_calibration(const void *base, struct stk_jw *w)
{
    const struct stk_bench_calibration *c = base;
    if (!c->done) {
        stk_jw_null(w);
        return;
    }
    stk_jw_open(w, '{');
    stk_fields_put(calibration_fields, c, w);
    stk_jw_close(w, '}');
}

static const struct stk_result_field total_fields[] = {
    RANKS_DRAWN(&where_plot),
    RANKS_DRAWN(&balance_plot),
    {"utilisation", "utilisation", STK_U_SHARE, FROM(utilisation), .flags = STK_F_LEAD},
    {"utilisation_is", "utilisation is", STK_U_TEXT, .put = ours_is, .flags = STK_F_SCREEN,
     .joins = "  (%)"},
    {"data_came_from", "", STK_U_TEXT, .put = came_from, .flags = STK_F_WARN | STK_F_SCREEN},
    {"utilisation_least", "utilisation, least rank", STK_U_SHARE, FROM(utilisation_least),
     .flags = STK_F_PAGE},
    {"utilisation_mlperf", "as MLPerf Storage", STK_U_SHARE, FROM(mlperf)},
    {"utilisation_mlperf_is", "which is", STK_U_TEXT, .put = mlperf_is, .flags = STK_F_SCREEN,
     .joins = "  (%)"},
    {"calibration", "without I/O", STK_U_GROUP,
     STK_FROM_AS(STRUCT, struct stk_bench_result, calibration), .put = put_calibration,
     .of = calibration_fields},
    {"measured_steps", "steps", STK_U_COUNT, .number = steps},
    {"ranks", "ranks", STK_U_COUNT, .flags = STK_F_VIEW, .joins = " of % rank(s)"},
    {"measured_seconds", "measured", STK_U_SECONDS, FROM(wall_s), .joins = " in %"},
    {"samples_per_second", "samples per second", STK_U_PER_S, FROM(samples_per_s),
     .row = "samples"},
    {"bytes_per_second", "bytes per second", STK_U_BYTES_PER_S, .number = bytes_rate,
     .flags = STK_F_IF_SET, .joins = ", %"},
    {"epoch_seconds", NULL, STK_U_SECONDS, FROM(epoch_s)},
    {"step", "a step", STK_U_GROUP, STK_FROM_AS(STRUCT, struct stk_bench_result, step),
     .of = step_fields},
    {"step_stdev_seconds", NULL, STK_U_SECONDS, FROM(step_stdev_s),
     .joins = "; standard deviation %"},
    {"io_share_steps", "I/O, of the steps", STK_U_SHARE, FROM(io_share_steps), .row = "I/O",
     .say = "% of the time of the steps"},
    {"io_share", "I/O, of the run", STK_U_SHARE, FROM(io_share),
     "with what is read before the first step", STK_F_PAGE},
    {"io_before", "before the first step", STK_U_TEXT, .put = io_before, .flags = STK_F_SCREEN,
     .joins = "; %"},
    {"device", "from the device", STK_U_TEXT, .put = device_text, .flags = STK_F_SCREEN},
    {"collective", "collective", STK_U_TEXT, .put = collective_text},
    IO_OF(put_all_io),
    {"memory_bytes", "memory, largest rank", STK_U_BYTES, FROM(memory_bytes),
     .flags = STK_F_PAGE},
    {"checkpoints", "checkpoints", STK_U_COUNT, FROM(checkpoints), .flags = STK_F_IF_SET},
    {"checkpoint_bytes", "checkpoints wrote", STK_U_BYTES, FROM(checkpoint_bytes), .joins = ", %"},
    {"checkpoint_seconds", "in checkpoints", STK_U_SECONDS, FROM(checkpoint_s), .joins = " in %"},
    {"checkpoint_max_seconds", "longest checkpoint", STK_U_SECONDS, FROM(checkpoint_max_s),
     .joins = "; the slowest took %"},
    {"restores", "read back", STK_U_COUNT, FROM(restores), .flags = STK_F_IF_SET},
    {"restore_bytes", "checkpoints read", STK_U_BYTES, FROM(restore_bytes),
     .flags = STK_F_IF_SET, .joins = ", %"},
    {"restore_seconds", "reading checkpoints", STK_U_SECONDS, FROM(restore_s),
     .flags = STK_F_IF_SET, .joins = " in %"},
    {"evaluation_steps", "evaluation", STK_U_COUNT, .number = eval_steps, .flags = STK_F_IF_SET,
     .say = "% steps"},
    {"evaluation_seconds", "in evaluations", STK_U_SECONDS, .number = eval_s,
     .joins = " in %, apart from the steps above"},
    {"slowest_rank", NULL, STK_U_COUNT, FROM(slowest)},
    {"slowest", "slowest", STK_U_TEXT, .put = slowest_text, .flags = STK_F_SCREEN},
    {"stragglers", NULL, STK_U_LIST, .put = put_stragglers,
     .meaning = "ranks that waited twice as long as the median"},
    {"straggling", "stragglers", STK_U_TEXT, .put = stragglers_text, .flags = STK_F_SCREEN},
    {"over_time", NULL, STK_U_ANY, .put = put_course},
    {"per_rank", NULL, STK_U_TABLE, .put = put_ranks, .of = rank_fields},
    {"per_rank", "ranks", STK_U_TABLE, .of = screen_columns, .least = 2, .most = RANKS_SHOWN,
     .by = "wait_seconds", .flags = STK_F_VIEW,
     .say = "Those that waited longest; --json has all ranks."},
    {"per_rank", "ranks", STK_U_TABLE, .of = page_columns, .flags = STK_F_VIEW | STK_F_PAGE,
     .meaning = "The measured steps of each."},
    {NULL}};

/* ---- the result ----------------------------------------------------------------------------- */

TEXT(reader, r->stoker ? "stoker" : "application")
TEXT(clock_name, r->is_virtual ? "virtual" : "real")
TEXT(collective, r->mpiio ? "MPI-IO" : "plain")
TEXT(lost_because, r->lost >= 0 ? r->why_lost : NULL)

static void put_workload(const void *base, struct stk_jw *w)
{
    const struct stk_bench_result *r = base;
    stk_jw_open(w, '{');
    stk_workload_json(r->w, w);
    stk_jw_close(w, '}');
}

static const struct stk_result_field collective_fields[] = {
    {"collective_reads", "collective reads", STK_U_TEXT, .put = collective, .flags = STK_F_PAGE},
    {NULL}};

static void put_if_collective(const void *base, struct stk_jw *w)
{
    const struct stk_bench_result *r = base;
    if (r->w->access.sharing == STK_SHARING_COLLECTIVE)
        stk_fields_put(collective_fields, base, w);
}

/* A rank that was lost leaves no result of the whole. */
static void put_totals(const void *base, struct stk_jw *w)
{
    const struct stk_bench_result *r = base;
    if (r->lost < 0)
        stk_fields_put(total_fields, r, w);
}

static const struct stk_result_field fields[] = {
    {"workload", NULL, STK_U_ANY, .put = put_workload, .meaning = "every key with its value"},
    {"lost_rank", "lost rank", STK_U_COUNT, FROM(lost), .flags = STK_F_WARN, .row = "lost",
     .say = "rank % was lost"},
    {"lost_because", "because", STK_U_TEXT, .put = lost_because,
     .joins = ": %; the other ranks ended, and there is no result of the whole"},
    {"ranks", NULL, STK_U_COUNT, .flags = STK_F_VIEW | STK_F_HEAD, .say = "% rank(s)"},
    {"reader", "reads as", STK_U_TEXT, .put = reader, .flags = STK_F_PAGE},
    {"clock", NULL, STK_U_TEXT, .put = clock_name},
    {"ranks_are", "ranks are", STK_U_TEXT, STK_FROM_AS(CHARS, struct stk_bench_result, kind),
     .flags = STK_F_PAGE},
    {"ranks", "ranks", STK_U_COUNT, FROM(ranks), .flags = STK_F_PAGE},
    {"", NULL, STK_U_GROUP, .put = put_if_collective, .of = collective_fields},
    {"", NULL, STK_U_GROUP, .put = put_totals, .of = total_fields},
    {"workload", "workload", STK_U_ANY, .flags = STK_F_VIEW | STK_F_PAGE | STK_F_MAP},
    {NULL}};

static bool is_run(const struct stk_jval *r)
{
    return isfinite(stk_pg_get(r, "utilisation")) || stk_pg_text(r, "lost_because", NULL);
}

static void caveat(const struct stk_jval *r, struct stk_buf *out)
{
    stk_buf_puts(out, stk_pg_text(r, "data_came_from", ""));
}

static void verdict(const struct stk_jval *r, struct stk_buf *out)
{
    double use = stk_pg_get(r, "utilisation"), io = stk_pg_get(r, "io_share");
    double steps = stk_pg_get(r, "io_share_steps");
    const char *lost = stk_pg_text(r, "lost_because", NULL);
    const char *from = stk_pg_text(r, "data_came_from", NULL);
    char a[32], b[32];
    if (lost) {
        stk_buf_printf(out, "Rank %.0f was lost: %s. There is no result of the whole.",
                       stk_pg_get(r, "lost_rank"), lost);
        return;
    }
    stk_buf_printf(out,
                   "The accelerators compute %s of the time of the steps; %s of it goes into I/O: "
                   "waiting for data and checkpoints",
                   stk_unit_text(STK_U_SHARE, use, a, sizeof a),
                   stk_unit_text(STK_U_SHARE, isfinite(steps) ? steps : io, b, sizeof b));
    if (io > steps + 0.01)
        stk_buf_printf(out, ". With what is read before the first step, I/O is %s of the run",
                       stk_unit_text(STK_U_SHARE, io, a, sizeof a));
    stk_buf_printf(out, "%s%s.", from ? "; " : "", from ? from : "");
}

const struct stk_result_kind stk_bench_kind = {.command = "bench",
                                               .doing = "Benchmark",
                                               .fields = fields,
                                               .takes = is_run,
                                               .verdict = verdict,
                                               .caveat = caveat,
                                               .blocks = stk_bench_blocks,
                                               .compared = &stk_benches_kind};

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
