/* bench_io.c - see bench_io.h. */
#include "report/bench_io.h"

#include <stdio.h>

#include "base/text.h"
#include "base/units.h"
#include "host/fs.h"

const char *stk_rate_text(double per_second, char *buf, size_t n)
{
    char size[32];
    snprintf(buf, n, "%s/s",
             stk_format_size(per_second > 0 ? (uint64_t)per_second : 0, size, sizeof size));
    return buf;
}

const char *stk_duration_at(const struct stk_histogram *h, double fraction, char *buf)
{
    uint64_t ns = fraction < 1 ? stk_histogram_percentile(h, fraction) : h->max;
    return stk_format_duration(1e-9 * (double)ns, buf, 32);
}

const char *stk_bench_source_text(const struct stk_bench_result *r, char *buf, size_t size)
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

const char *stk_bench_source_said(const struct stk_bench_result *r)
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

/* ---- the screen ----------------------------------------------------------------------------- */

static void put_bytes(const struct stk_bench_result *r, struct stk_grid *t)
{
    char a[32], b[32], line[200];
    const struct stk_io_tally *io = &r->io;
    snprintf(line, sizeof line, "%s asked for, %s read",
             stk_format_size(io->asked_bytes, a, sizeof a),
             stk_format_size(io->bytes, b, sizeof b));
    stk_grid_row(t, "bytes", line);
    stk_grid_row(t, "from the device", stk_bench_source_text(r, line, sizeof line));
}

static bool has_latency(const struct stk_io_tally *io)
{
    return io->latency.count > 0;
}

/* The bins that have requests. */
static void put_sizes(const struct stk_io_tally *io, struct stk_grid *t)
{
    struct stk_buf b = STK_BUF_INIT;
    char share[32];
    for (int i = 0; i < STK_TALLY_COUNTS; i++)
        if (io->bin[i])
            stk_buf_printf(&b, "%s%s %s", b.len ? ", " : "",
                           stk_percent_text((double)io->bin[i] / (double)io->requests, share,
                                            sizeof share),
                           stk_io_tally_bin_name[i]);
    stk_grid_row(t, "sizes", stk_buf_cstr(&b));
    stk_buf_release(&b);
}

static void put_latency(const struct stk_io_tally *io, struct stk_grid *t)
{
    char a[32], b[32], c[32], d[32], line[200];
    snprintf(line, sizeof line, "%s median, %s at 90 %%, %s at 99 %%, %s at most",
             stk_duration_at(&io->latency, 0.5, a), stk_duration_at(&io->latency, 0.9, b),
             stk_duration_at(&io->latency, 0.99, c), stk_duration_at(&io->latency, 1, d));
    stk_grid_row(t, "latency", line);
    snprintf(line, sizeof line, "%s mean, %s median, %s at 10 %%, %s at 90 %% of the requests",
             stk_rate_text(io->request_s > 0 ? (double)io->bytes / io->request_s : 0, a, sizeof a),
             stk_rate_text((double)stk_histogram_percentile(&io->rate, 0.5), b, sizeof b),
             stk_rate_text((double)stk_histogram_percentile(&io->rate, 0.1), c, sizeof c),
             stk_rate_text((double)stk_histogram_percentile(&io->rate, 0.9), d, sizeof d));
    stk_grid_row(t, "bandwidth", line);
}

static void put_collective(const struct stk_bench_result *r, struct stk_grid *t)
{
    char line[200];
    if (r->w->access.sharing != STK_SHARING_COLLECTIVE || r->stoker)
        return;
    snprintf(line, sizeof line, "%llu of %lu ranks read through %s and broadcast",
             (unsigned long long)r->w->access.readers, (unsigned long)r->ranks,
             r->mpiio ? "MPI-IO" : "plain reads (MPI-IO needs mpirun or srun)");
    stk_grid_row(t, "collective", line);
}

static void put_requests(const struct stk_bench_result *r, struct stk_grid *t)
{
    char a[32], b[32], line[240];
    const struct stk_io_tally *io = &r->io;
    struct stk_io_tally_size most = stk_io_tally_common(io);
    uint64_t follow = io->requests - io->first;
    snprintf(line, sizeof line, "%s in %s opened files",
             stk_format_count(io->requests, a, sizeof a), stk_format_count(io->opens, b, sizeof b));
    if (most.count)
        snprintf(line + strlen(line), sizeof line - strlen(line), "; %s of %s",
                 stk_percent_text((double)most.count / (double)io->requests, a, sizeof a),
                 stk_format_size(most.bytes, b, sizeof b));
    stk_grid_row(t, "requests", line);
    if (follow && has_latency(io)) {
        snprintf(line, sizeof line, "%s sequential, %s consecutive",
                 stk_percent_text((double)io->sequential / (double)follow, a, sizeof a),
                 stk_percent_text((double)io->consecutive / (double)follow, b, sizeof b));
        stk_grid_row(t, "order", line);
    }
    if (!has_latency(io)) {
        if (io->requests)
            stk_grid_row(t, "sizes, latency", "not known: stoker's loader counts requests only");
        return;
    }
    put_sizes(io, t);
    put_latency(io, t);
}

void stk_bench_io_rows(const struct stk_bench_result *r, struct stk_grid *t)
{
    put_bytes(r, t);
    put_collective(r, t);
    put_requests(r, t);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* Powers of two, as those of a profile. */
static void json_histogram(const struct stk_histogram *h, struct stk_jw *w)
{
    stk_jw_key(w, "histogram");
    stk_jw_open(w, '[');
    for (unsigned power = 0; power < 64; power++) {
        uint64_t n = stk_histogram_octave(h, power);
        if (!n)
            continue;
        stk_jw_open(w, '{');
        stk_jw_put_f64(w, "from_s", power ? 1e-9 * (double)((uint64_t)1 << power) : 0);
        stk_jw_put_f64(w, "below_s", 2e-9 * (double)((uint64_t)1 << power));
        stk_jw_put_u64(w, "count", n);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

void stk_bench_times_json(const struct stk_histogram *h, const char *key, struct stk_jw *w)
{
    static const struct {
        const char *name;
        double at;
    } points[] = {{"p50_s", 0.5}, {"p90_s", 0.9}, {"p99_s", 0.99}, {"p999_s", 0.999}};
    stk_jw_key(w, key);
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "count", h->count);
    stk_jw_put_f64(w, "mean_s", 1e-9 * stk_histogram_mean(h));
    stk_jw_put_f64(w, "min_s", 1e-9 * (double)h->min);
    stk_jw_put_f64(w, "max_s", 1e-9 * (double)h->max);
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        stk_jw_put_f64(w, points[i].name, 1e-9 * (double)stk_histogram_percentile(h, points[i].at));
    json_histogram(h, w);
    stk_jw_close(w, '}');
}

static void json_sizes(const struct stk_io_tally *io, struct stk_jw *w)
{
    stk_jw_key(w, "request_sizes");
    stk_jw_open(w, '[');
    for (int i = 0; i < STK_TALLY_COUNTS; i++) {
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "bytes", stk_io_tally_bin_name[i]);
        stk_jw_put_u64(w, "count", io->bin[i]);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
    stk_jw_key(w, "common_sizes");
    stk_jw_open(w, '[');
    for (int i = 0; i < STK_TALLY_SIZES && io->size[i].count; i++) {
        stk_jw_open(w, '{');
        stk_jw_put_u64(w, "bytes", io->size[i].bytes);
        stk_jw_put_u64(w, "count", io->size[i].count);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

#define RATE_KEY "bytes_per_second_of_request"

/* Bytes per second of single requests. */
static void json_rate(const struct stk_io_tally *io, struct stk_jw *w)
{
    static const struct {
        const char *name;
        double at;
    } points[] = {{"p1", 0.01}, {"p10", 0.1}, {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}};
    stk_jw_key(w, RATE_KEY);
    stk_jw_open(w, '{');
    stk_jw_put_f64(w, "mean", io->request_s > 0 ? (double)io->bytes / io->request_s : 0);
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        stk_jw_put_u64(w, points[i].name, stk_histogram_percentile(&io->rate, points[i].at));
    stk_jw_close(w, '}');
}

/* Null if requests were counted only. */
static void json_details(const struct stk_io_tally *io, struct stk_jw *w)
{
    static const char *const names[] = {"first_requests",  "sequential",   "consecutive",
                                        "request_seconds", "open_seconds", "request_sizes",
                                        "common_sizes",    "latency",      RATE_KEY};
    if (io->requests && !has_latency(io)) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            stk_jw_key(w, names[i]);
            stk_jw_null(w);
        }
        return;
    }
    stk_jw_put_u64(w, "first_requests", io->first);
    stk_jw_put_u64(w, "sequential", io->sequential);
    stk_jw_put_u64(w, "consecutive", io->consecutive);
    stk_jw_put_f64(w, "request_seconds", io->request_s);
    stk_jw_put_f64(w, "open_seconds", io->open_s);
    json_sizes(io, w);
    stk_bench_times_json(&io->latency, "latency", w);
    json_rate(io, w);
}

void stk_bench_io_json(const struct stk_io_tally *io, int64_t device, struct stk_jw *w)
{
    stk_jw_key(w, "io");
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "samples", io->samples);
    stk_jw_put_u64(w, "bytes_asked", io->asked_bytes);
    stk_jw_put_u64(w, "bytes_read", io->bytes);
    stk_jw_put_known_i64(w, "bytes_from_device", device);
    stk_jw_put_u64(w, "opens", io->opens);
    stk_jw_put_u64(w, "stats", io->stats);
    stk_jw_put_u64(w, "seeks", io->seeks);
    stk_jw_put_u64(w, "requests", io->requests);
    json_details(io, w);
    stk_jw_close(w, '}');
}
