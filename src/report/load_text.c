/* load_show.c - the result of `stoker load` as one screen of text. */
#include <stdio.h>

#include "base/text.h"
#include "base/units.h"
#include "host/fs.h"
#include "report/grid.h"
#include "report/load.h"
#include "report/problems.h"

#define EPOCHS_SHOWN   10
#define PROBLEMS_SHOWN 10
#define PASSES_SHOWN   1.5

/* ---- problems ------------------------------------------------------------------------------ */

uint64_t stk_load_nproblems(const struct stk_load_result *r)
{
    /* A sample that stops the run is its error, which is reported anyway. */
    bool stops = r->options->on_error == STK_ON_ERROR_STOP;
    return stk_dataset_problems(r->ds)->count + (stops ? 0 : r->end.loader.corrupt);
}

static void put_problems(const struct stk_load_result *r, struct stk_buf *out)
{
    char text[2400];
    size_t shown = 0;
    for (const char *p; shown < PROBLEMS_SHOWN; shown++) {
        if (!(p = stk_loader_problem(r->ld, shown)))
            break;
        stk_text_escape(out, p, strlen(p), SIZE_MAX);
        stk_buf_putc(out, '\n');
    }
    uint64_t all = stk_load_nproblems(r);
    if (all > shown)
        stk_buf_printf(out, "and %s more; --json FILE lists the first 1,000\n",
                       stk_format_count(all - shown, text, sizeof text));
}

static void put_warnings(const struct stk_load_result *r, struct stk_buf *out)
{
    const char *text;
    for (size_t i = 0; (text = stk_loader_warning(r->ld, i)); i++)
        stk_buf_printf(out, "\nwarning: %s\n", text);
}

/* ---- rates --------------------------------------------------------------------------------- */

static double seconds_of(const struct stk_load_result *r)
{
    double s = r->end.at_s - r->start.at_s;
    return s > 0 ? s : 1e-9;
}

static const char *rate(double amount, double seconds, char *buf, size_t size)
{
    char one[32];
    double r = seconds > 0 ? amount / seconds : 0;
    snprintf(buf, size, "%s/s", stk_format_size(r > 0 ? (uint64_t)r : 0, one, sizeof one));
    return buf;
}

static const char *time_text(double s, char *buf, size_t size)
{
    return stk_format_duration(s, buf, size);
}

int64_t stk_load_device(const struct stk_load_result *r, const struct stk_load_counts *from,
                        const struct stk_load_counts *to)
{
    const struct stk_fs *fs = stk_fs_by_name(r->storage.fs);
    return fs ? stk_fs_fetched_between(fs, from->device_bytes, to->device_bytes,
                                       to->loader.bytes_read - from->loader.bytes_read)
              : -1;
}

double stk_load_passes(const struct stk_load_result *r)
{
    double bytes = (double)r->ds->files.bytes;
    double given = (double)r->samples / ((double)stk_dataset_len(r->ds) + 1e-9);
    /* Part of an epoch may read ahead, at most all of the files. */
    return bytes > 0 ? (double)r->end.loader.bytes_read / (bytes * (given > 1 ? given : 1)) : 0;
}

/* A block of many samples is decoded whole whenever one of them is needed. */
static void put_passes(const struct stk_load_result *r, struct stk_grid *t)
{
    char line[200];
    double n = stk_load_passes(r);
    const struct stk_index *idx = &r->ds->index;
    bool shared = stk_index_count(idx, STK_T_CHAINS) &&
                  stk_index_count(idx, STK_T_EXTENTS) < stk_dataset_len(r->ds);
    if (n < PASSES_SHOWN || !shared)
        return;
    snprintf(
        line, sizeof line,
        "%.1f times the dataset: compressed blocks of many samples were decoded repeatedly; pack "
        "the data%s",
        n, r->options->shuffle == STK_SHUFFLE_GLOBAL ? ", or shuffle by blocks" : "");
    stk_grid_row(t, "", line);
}

/* What really came from storage: cache hits must not pass for the speed of storage. */
static void device_text(const struct stk_load_result *r, char *line, size_t size)
{
    char a[32], b[32], share[16];
    uint64_t read = r->end.loader.bytes_read;
    int64_t got = stk_load_device(r, &r->start, &r->end);
    if (r->start.device_bytes < 0)
        snprintf(line, size, "not known: the kernel keeps no count (/proc/self/io)");
    else if (got < 0 && r->storage.cached >= 0)
        snprintf(line, size, "not known: the kernel does not count what %s reads; at the start %s of "
                             "the files was in the page cache",
                 r->storage.fs, stk_percent_text(r->storage.cached, share, sizeof share));
    else if (got < 0)
        snprintf(line, size, "not known: the kernel does not count what %s reads", r->storage.fs);
    else if (stk_fs_by_name(r->storage.fs)->memory)
        snprintf(line, size, "0 B: the files are in memory (%s)", r->storage.fs);
    else if (got == 0 && read)
        snprintf(line, size, "0 B: all data was in the page cache");
    else if ((double)got < 0.995 * (double)read)
        snprintf(line, size, "%s, %s; %s was read from the page cache",
                 stk_format_size((uint64_t)got, a, sizeof a),
                 rate((double)got, seconds_of(r), b, sizeof b),
                 stk_percent_text(1 - (double)got / (double)read, share, sizeof share));
    else
        snprintf(line, size, "%s, %s", stk_format_size((uint64_t)got, a, sizeof a),
                 rate((double)got, seconds_of(r), b, sizeof b));
}

/* ---- the facts ----------------------------------------------------------------------------- */

/* Nothing came, and nothing was wrong: the incomplete batch was the only one, and left out. */
static bool is_less_than_a_batch(const struct stk_load_result *r)
{
    return !r->batches && !r->end.loader.skipped && r->options->last == STK_LAST_DROP &&
           stk_dataset_len(r->ds) > 0;
}

static void put_order(const struct stk_load_result *r, struct stk_grid *t)
{
    char a[32], b[32], line[200];
    snprintf(line, sizeof line, "%s of %s samples", stk_format_count(r->batches, a, sizeof a),
             stk_format_count(r->options->batch, b, sizeof b));
    const struct {
        uint64_t n;
        const char *what;
    } odd[] = {{r->end.loader.repeats, "repeated"},
               {r->end.loader.skipped, "skipped"},
               {r->end.loader.replaced, "replaced"}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        if (odd[i].n)
            snprintf(line + strlen(line), sizeof line - strlen(line), ", %s %s",
                     stk_format_count(odd[i].n, a, sizeof a), odd[i].what);
    stk_grid_row(t, "batches", line);
    if (is_less_than_a_batch(r))
        stk_grid_row(t, "",
                     r->rank.world > 1
                         ? "each rank has less than a batch: --last short, or a smaller --batch"
                         : "there is less than a batch: --last short, or a smaller --batch");
    if (r->rank.world > 1) {
        snprintf(line, sizeof line, "%lu of %lu%s%s", (unsigned long)r->rank.rank,
                 (unsigned long)r->rank.world, *r->rank.from ? ", as set by " : "", r->rank.from);
        stk_grid_row(t, "rank", line);
    }
}

static void put_rates(const struct stk_load_result *r, struct stk_grid *t)
{
    char a[40], b[40], c[40], line[200];
    const struct stk_loader_stats *st = &r->end.loader;
    double s = seconds_of(r);
    snprintf(line, sizeof line, "%s; the first batch after %s", time_text(s, a, sizeof a),
             r->batches ? time_text(r->first_batch_s, b, sizeof b) : "-");
    stk_grid_row(t, "time", line);
    snprintf(line, sizeof line, "%s, %s/s", stk_format_count(r->samples, a, sizeof a),
             stk_format_count((uint64_t)((double)r->samples / s), b, sizeof b));
    stk_grid_row(t, "samples", line);
    snprintf(line, sizeof line, "%s, %s", stk_format_size(st->bytes_asked, a, sizeof a),
             rate((double)st->bytes_asked, s, b, sizeof b));
    stk_grid_row(t, "asked for", line);
    snprintf(line, sizeof line, "%s, %s", stk_format_size(st->bytes_read, a, sizeof a),
             rate((double)st->bytes_read, s, b, sizeof b));
    if (st->reads)
        snprintf(line + strlen(line), sizeof line - strlen(line), "; %s read%s of %s",
                 stk_format_count(st->reads, a, sizeof a), st->reads == 1 ? "" : "s",
                 stk_format_size(st->bytes_read / st->reads, c, sizeof c));
    stk_grid_row(t, "read", line);
    put_passes(r, t);
    device_text(r, line, sizeof line);
    stk_grid_row(t, "from storage", line);
}

/* The share of the data in which a flipped bit would have been detected. */
static void put_checked(const struct stk_load_result *r, struct stk_grid *t)
{
    char share[16], bytes[16], line[200];
    const struct stk_loader_stats *st = &r->end.loader;
    bool all = st->checked_bytes >= st->bytes_asked;
    if (r->options->no_check)
        snprintf(line, sizeof line, "not compared (--no-check)");
    else if (!st->samples)
        snprintf(line, sizeof line, "-");
    else if (!st->checked && !st->checked_bytes)
        snprintf(line, sizeof line,
                 "none: a flipped bit goes undetected (a packed dataset has them)");
    else if (st->checked >= st->samples && all)
        snprintf(line, sizeof line, "compared for every sample");
    else if (!st->checked)
        snprintf(line, sizeof line, "compared for %s of the bytes of each sample",
                 stk_percent_text((double)st->checked_bytes / (double)st->bytes_asked, bytes,
                                  sizeof bytes));
    else
        snprintf(line, sizeof line, "compared for %s of the samples, %s of their bytes",
                 stk_percent_text((double)st->checked / (double)st->samples, share, sizeof share),
                 stk_percent_text(all ? 1 : (double)st->checked_bytes / (double)st->bytes_asked,
                                  bytes, sizeof bytes));
    stk_grid_row(t, "checksums", line);
}

static void add_part(char *line, size_t size, const char *name, uint64_t bytes)
{
    char a[32];
    size_t n = strlen(line);
    if (bytes)
        snprintf(line + n, size - n, "%s%s from %s", n ? ", " : "",
                 stk_format_size(bytes, a, sizeof a), name);
}

/* What came from where, if there was a choice. */
static void put_tier(const struct stk_load_result *r, struct stk_grid *t)
{
    const struct stk_loader_stats *st = &r->end.loader;
    char a[32], line[300] = "";
    if (!st->tier || !*st->tier)
        return;
    stk_grid_row(t, "tier", st->tier);
    add_part(line, sizeof line, "memory", st->tier_memory_bytes);
    add_part(line, sizeof line, "disk", st->tier_disk_bytes);
    add_part(line, sizeof line, "the source", st->source_bytes);
    stk_grid_row(t, "", *line ? line : "nothing read");
    if (st->tier_refused) {
        snprintf(line, sizeof line, "%s reads of the source, because a copy was changed or gone",
                 stk_format_count(st->tier_refused, a, sizeof a));
        stk_grid_row(t, "", line);
    }
    bool ended = st->tier_ended && *st->tier_ended;
    if (!r->options->tier_fill)
        return;
    snprintf(line, sizeof line, "%s copied into it%s%s",
             stk_format_size(st->tier_filled_bytes, a, sizeof a), ended ? "; then it ended: " : "",
             ended ? st->tier_ended : "");
    stk_grid_row(t, "", line);
}

static void put_machine(const struct stk_load_result *r, struct stk_grid *t)
{
    char a[32], b[32], share[16], line[300];
    const struct stk_loader_stats *st = &r->end.loader;
    double s = seconds_of(r), wait_s = 1e-9 * (double)r->wait_ns;
    snprintf(line, sizeof line, "%s, %.1f reads in flight", st->io_detail ? st->io_detail : st->io,
             st->depth);
    stk_grid_row(t, "engine", line);
    if (st->io_reason && *st->io_reason) {
        snprintf(line, sizeof line, "chosen: %s", st->io_reason);
        stk_grid_row(t, "", line);
    }
    put_tier(r, t);
    snprintf(line, sizeof line, "%lu, busy %s of their time; %.2f cores in all",
             (unsigned long)st->threads,
             stk_percent_text(1e-9 * (double)st->decode_ns / (s * (st->threads ? st->threads : 1)),
                              share, sizeof share),
             (r->end.cpu_s - r->start.cpu_s) / s);
    stk_grid_row(t, "threads", line);
    snprintf(line, sizeof line, "%s at most, of %s",
             stk_format_size(st->memory_peak_bytes, a, sizeof a),
             stk_format_size(st->memory_bytes, b, sizeof b));
    stk_grid_row(t, "memory", line);
    snprintf(line, sizeof line, "%s, %s of the time", time_text(wait_s, a, sizeof a),
             stk_percent_text(wait_s / s, share, sizeof share));
    stk_grid_row(t, "stalls", line);
}

static void put_times(const struct stk_load_result *r, struct stk_grid *t)
{
    char a[32], b[32], c[32], line[160] = "-";
    const struct stk_histogram *h = &r->time;
    if (h->count)
        snprintf(line, sizeof line, "%s p50, %s p99, %s longest",
                 time_text(1e-9 * (double)stk_histogram_percentile(h, 0.5), a, sizeof a),
                 time_text(1e-9 * (double)stk_histogram_percentile(h, 0.99), b, sizeof b),
                 time_text(1e-9 * (double)h->max, c, sizeof c));
    stk_grid_row(t, "a batch", line);
    if (r->hashed) {
        snprintf(line, sizeof line, "%016llx", (unsigned long long)r->content);
        stk_grid_row(t, "content", line);
    }
}

/* ---- epochs -------------------------------------------------------------------------------- */

static void epoch_row(const struct stk_load_epoch *e,
                      struct stk_grid *t)
{
    char n[32], time[32], sps[40], asked[40], read[40], dev[40] = "-", wait[16], p50[32], p99[32];
    double s = e->seconds > 0 ? e->seconds : 1e-9;
    int64_t device = e->device_bytes;
    if (device >= 0)
        stk_format_size((uint64_t)device, dev, sizeof dev);
    stk_grid_row(t, stk_format_count(e->epoch, n, sizeof n), time_text(s, time, sizeof time),
                 stk_format_count((uint64_t)((double)e->samples / s), sps, sizeof sps),
                 rate((double)e->bytes_asked, s, asked, sizeof asked),
                 stk_format_size(e->bytes_read, read, sizeof read), dev,
                 stk_percent_text(e->wait_s / s, wait, sizeof wait),
                 time_text(1e-9 * (double)e->p50_ns, p50, sizeof p50),
                 time_text(1e-9 * (double)e->p99_ns, p99, sizeof p99));
}

static void put_epochs(const struct stk_load_result *r, struct stk_buf *out)
{
    size_t n = stk_load_nepochs(r);
    if (n < 2)
        return;
    struct stk_grid t;
    stk_grid_init(&t, "rrrrrrrrr");
    stk_grid_row(&t, "epoch", "time", "samples/s", "asked for", "read", "storage", "stalls", "p50",
                 "p99");
    for (size_t i = 0; i < n; i++) {
        /* The first epochs differ (caches fill); the last ones show the steady state. */
        if (n > EPOCHS_SHOWN && i == EPOCHS_SHOWN / 2) {
            stk_grid_row(&t, "...", "", "", "", "", "", "", "", "");
            i = n - EPOCHS_SHOWN / 2;
        }
        epoch_row(stk_load_epoch(r, i), &t);
    }
    stk_buf_putc(out, '\n');
    stk_grid_render(&t, 2, out);
    stk_grid_release(&t);
    stk_buf_puts(out, "  Data read ahead counts for the epoch in which it was read.\n");
}

/* ---- the screen ---------------------------------------------------------------------------- */

static void put_title(const struct stk_load_result *r, struct stk_buf *out)
{
    char a[32];
    stk_text_escape(out, r->path, strlen(r->path), SIZE_MAX);
    uint64_t n = stk_dataset_len(r->ds);
    stk_buf_printf(out, ": %s, %s sample%s, ", r->ds->format->title,
                   stk_format_count(n, a, sizeof a), n == 1 ? "" : "s");
    if (r->options->shuffle == STK_SHUFFLE_NONE)
        stk_buf_puts(out, "in order\n\n");
    else
        stk_buf_printf(out, "%s shuffle, seed %llu\n\n", stk_shuffle_name(r->options->shuffle),
                       (unsigned long long)r->options->seed);
}

void stk_load_text(const struct stk_load_result *r, struct stk_buf *out)
{
    struct stk_grid t;
    stk_grid_init(&t, "ll");
    put_title(r, out);
    put_order(r, &t);
    put_rates(r, &t);
    put_checked(r, &t);
    put_machine(r, &t);
    put_times(r, &t);
    stk_notes_rows(&r->ds->notes, &t);
    stk_grid_render(&t, 2, out);
    stk_grid_release(&t);
    put_epochs(r, out);
    if (r->has_mixing)
        stk_load_mixing_text(r, out);
    put_warnings(r, out);
    if (stk_load_nproblems(r)) {
        stk_buf_putc(out, '\n');
        put_problems(r, out);
    }
}
