/* load.c - the result of `stoker load`. */
#include "report/data.h"

#include <stdio.h>

#include "base/units.h"
#include "host/fs.h"
#include "result/blocks.h"

#define PROBLEMS_LISTED 1000
#define PASSES_SAID     1.5

/* ---- what was measured ---------------------------------------------------------------------- */

uint64_t stk_load_nproblems(const struct stk_load_result *r)
{
    /* A sample that stops the run is its error, which is reported anyway. */
    bool stops = r->options->on_error == STK_ON_ERROR_STOP;
    return stk_dataset_problems(r->ds)->count + (stops ? 0 : r->end.loader.corrupt);
}

int64_t stk_load_device(const struct stk_load_result *r, const struct stk_load_counts *from,
                        const struct stk_load_counts *to)
{
    const struct stk_fs *fs = stk_fs_by_name(r->storage.fs);
    return fs ? stk_fs_fetched_between(fs, from->device_bytes, to->device_bytes,
                                       to->loader.bytes_read - from->loader.bytes_read)
              : -1;
}

static double seconds_of(const struct stk_load_result *r)
{
    double s = r->end.at_s - r->start.at_s;
    return s > 0 ? s : 1e-9;
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

/* How many times an epoch read the files: more than once if compressed blocks hold several samples
 * and are not kept. Part of an epoch may read ahead, at most all of the files. */
static double passes(const void *base)
{
    const struct stk_load_result *r = base;
    double bytes = (double)r->ds->files.bytes;
    double given = (double)r->samples / ((double)stk_dataset_len(r->ds) + 1e-9);
    return bytes > 0 ? (double)r->end.loader.bytes_read / (bytes * (given > 1 ? given : 1)) : 0;
}

static double percentile(const struct stk_load_result *r, double p)
{
    return 1e-9 * (double)stk_histogram_percentile(&r->time, p);
}

#define NUMBER(name, expression) STK_NUMBER_OF(name, struct stk_load_result, expression)
#define TEXT(name, expression)   STK_TEXT_OF(name, struct stk_load_result, expression)

NUMBER(dataset_samples, (double)stk_dataset_len(r->ds))
NUMBER(batch_samples, r->options->batch)
NUMBER(steps, (double)stk_loader_steps(r->ld))
NUMBER(storage, (double)stk_load_device(r, &r->start, &r->end))
NUMBER(seconds, r->end.at_s - r->start.at_s)
NUMBER(samples_rate, (double)r->samples / seconds_of(r))
NUMBER(asked_rate, (double)r->end.loader.bytes_asked / seconds_of(r))
NUMBER(read_rate, (double)r->end.loader.bytes_read / seconds_of(r))
NUMBER(storage_rate, storage(r) > 0 ? storage(r) / seconds_of(r) : NAN)
NUMBER(mean_read, ratio((double)r->end.loader.bytes_read, (double)r->end.loader.reads))
NUMBER(stall_share, 1e-9 * (double)r->wait_ns / seconds_of(r))
NUMBER(p50, percentile(r, 0.5))
NUMBER(p99, percentile(r, 0.99))
NUMBER(longest, 1e-9 * (double)r->time.max)
NUMBER(mean_batch, 1e-9 * stk_histogram_mean(&r->time))
NUMBER(cpu, r->end.cpu_s - r->start.cpu_s)
NUMBER(cores, (r->end.cpu_s - r->start.cpu_s) / seconds_of(r))
NUMBER(busy, ratio(1e-9 * (double)r->end.loader.decode_ns / seconds_of(r), r->end.loader.threads))
NUMBER(problems, (double)stk_load_nproblems(r))
TEXT(format, r->ds->format->name)
TEXT(rank_from, *r->rank.from ? r->rank.from : NULL)

/* ---- what it means -------------------------------------------------------------------------- */

static void order_text(const void *base, struct stk_jw *w)
{
    const struct stk_load_result *r = base;
    char text[80] = "in order";
    if (r->options->shuffle != STK_SHUFFLE_NONE)
        snprintf(text, sizeof text, "%s shuffle, seed %llu", stk_shuffle_name(r->options->shuffle),
                 (unsigned long long)r->options->seed);
    stk_jw_str(w, text);
}

/* Nothing came, and nothing was wrong: the incomplete batch was the only one, and left out. */
static void batches_note(const void *base, struct stk_jw *w)
{
    const struct stk_load_result *r = base;
    bool less = !r->batches && !r->end.loader.skipped && r->options->last == STK_LAST_DROP &&
                stk_dataset_len(r->ds) > 0;
    stk_jw_str(w, !less ? NULL
                  : r->rank.world > 1
                      ? "each rank has less than a batch: --last short, or a smaller --batch"
                      : "there is less than a batch: --last short, or a smaller --batch");
}

/* A block of many samples is decoded whole whenever one of them is needed. */
static void passes_note(const void *base, struct stk_jw *w)
{
    const struct stk_load_result *r = base;
    const struct stk_index *idx = &r->ds->index;
    bool shared = stk_index_count(idx, STK_T_CHAINS) &&
                  stk_index_count(idx, STK_T_EXTENTS) < stk_dataset_len(r->ds);
    char text[200];
    snprintf(text, sizeof text,
             "%.1f times the dataset: compressed blocks of many samples were decoded repeatedly; "
             "pack the data%s",
             passes(r),
             r->options->shuffle == STK_SHUFFLE_GLOBAL ? ", or shuffle by blocks" : "");
    stk_jw_str(w, shared && passes(r) >= PASSES_SAID ? text : NULL);
}

/* Cache hits must not pass for the speed of storage. */
static void storage_note(const void *base, struct stk_jw *w)
{
    const struct stk_load_result *r = base;
    char share[16], text[200] = "";
    uint64_t read = r->end.loader.bytes_read;
    int64_t got = stk_load_device(r, &r->start, &r->end);
    int n = 0;
    if (r->start.device_bytes < 0) {
        snprintf(text, sizeof text, "the kernel keeps no count (/proc/self/io)");
    } else if (got < 0) {
        n = snprintf(text, sizeof text, "the kernel does not count what %s reads",
                     r->storage.fs);
        if (r->storage.cached >= 0)
            snprintf(text + n, sizeof text - (size_t)n,
                     "; at the start %s of the files was in the page cache",
                     stk_unit_text(STK_U_SHARE, r->storage.cached, share, sizeof share));
    } else if (stk_fs_by_name(r->storage.fs)->memory) {
        snprintf(text, sizeof text, "the files are in memory (%s)", r->storage.fs);
    } else if (got == 0 && read) {
        snprintf(text, sizeof text, "all data was in the page cache");
    } else if ((double)got < 0.995 * (double)read) {
        snprintf(text, sizeof text, "%s was read from the page cache",
                 stk_unit_text(STK_U_SHARE, 1 - (double)got / (double)read, share, sizeof share));
    }
    stk_jw_str(w, *text ? text : NULL);
}

/* The share of the data in which a flipped bit would have been detected. */
static void checked_text(const void *base, struct stk_jw *w)
{
    const struct stk_load_result *r = base;
    const struct stk_loader_stats *st = &r->end.loader;
    bool all = st->checked_bytes >= st->bytes_asked;
    double bytes = all ? 1 : ratio((double)st->checked_bytes, (double)st->bytes_asked);
    char samples[16], of_bytes[16], text[120];
    stk_unit_text(STK_U_SHARE, ratio((double)st->checked, (double)st->samples), samples,
                  sizeof samples);
    stk_unit_text(STK_U_SHARE, bytes, of_bytes, sizeof of_bytes);
    if (r->options->no_check)
        snprintf(text, sizeof text, "not compared (--no-check)");
    else if (!st->samples)
        snprintf(text, sizeof text, "-");
    else if (!st->checked && !st->checked_bytes)
        snprintf(text, sizeof text,
                 "none: a flipped bit goes undetected (a packed dataset has them)");
    else if (st->checked >= st->samples && all)
        snprintf(text, sizeof text, "compared for every sample");
    else if (!st->checked)
        snprintf(text, sizeof text, "compared for %s of the bytes of each sample", of_bytes);
    else
        snprintf(text, sizeof text, "compared for %s of the samples, %s of their bytes", samples,
                 of_bytes);
    stk_jw_str(w, text);
}

static void content_text(const void *base, struct stk_jw *w)
{
    const struct stk_load_result *r = base;
    char hash[24];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)r->content);
    stk_jw_str(w, r->hashed ? hash : NULL);
}

/* A speed of the page cache is not one of the storage. */
static void caveat(const struct stk_jval *r, struct stk_buf *out)
{
    double read = stk_pg_get(r, "read_bytes"), from = stk_pg_get(r, "storage_bytes");
    double before = stk_pg_get(r, "in_memory_before_fraction");
    char text[32];
    if (!(read > 0) || from >= read / 2)
        return;
    stk_buf_puts(out, from >= 0 ? "most of the data came from memory, not from storage"
                                : "how much of the data came from storage is not known");
    if (!(from >= 0) && before > 0)
        stk_buf_printf(out, "; at the start %s of the files was in the page cache",
                       stk_unit_text(STK_U_SHARE, before, text, sizeof text));
}

static void verdict(const struct stk_jval *r, struct stk_buf *out)
{
    double rate = stk_pg_get(r, "samples_per_second"), stall = stk_pg_get(r, "stall_fraction");
    struct stk_buf but = STK_BUF_INIT;
    char a[32], b[32];
    caveat(r, &but);
    if (isfinite(rate) && isfinite(stall))
        stk_buf_printf(out,
                       "The loader delivered %s samples per second; the caller waited %s of the "
                       "time%s%s.",
                       stk_unit_text(STK_U_COUNT, rate, a, sizeof a),
                       stk_unit_text(STK_U_SHARE, stall, b, sizeof b), but.len ? "; " : "",
                       stk_buf_cstr(&but));
    else
        stk_buf_puts(out, "The result has no speed.");
    stk_buf_release(&but);
}

/* ---- lists ---------------------------------------------------------------------------------- */

static void put_warnings(const void *base, struct stk_jw *w)
{
    const struct stk_load_result *r = base;
    const char *text;
    stk_jw_open(w, '[');
    for (size_t i = 0; (text = stk_loader_warning(r->ld, i)); i++)
        stk_jw_str(w, text);
    stk_jw_close(w, ']');
}

static void put_problems(const void *base, struct stk_jw *w)
{
    const struct stk_load_result *r = base;
    const char *text;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < PROBLEMS_LISTED && (text = stk_loader_problem(r->ld, i)); i++)
        stk_jw_str(w, text);
    stk_jw_close(w, ']');
}

/* ---- epochs --------------------------------------------------------------------------------- */

#define EPOCH(member) STK_FROM(struct stk_load_epoch, member)
#define EPOCH_NS(member) STK_FROM_AS(NS, struct stk_load_epoch, member)
#define EPOCH_NUMBER(name, expression) STK_NUMBER_OF(name, struct stk_load_epoch, expression)

EPOCH_NUMBER(epoch_rate, ratio((double)r->samples, r->seconds))
EPOCH_NUMBER(epoch_asked_rate, ratio((double)r->bytes_asked, r->seconds))
EPOCH_NUMBER(epoch_stall, ratio(r->wait_s, r->seconds))

static const struct stk_result_field epoch_fields[] = {
    {"epoch", "epoch", STK_U_COUNT, EPOCH(epoch)},
    {"load_seconds", "time", STK_U_SECONDS, EPOCH(seconds)},
    {"samples", "samples", STK_U_COUNT, EPOCH(samples), .flags = STK_F_PAGE},
    {"batches", "batches", STK_U_COUNT, EPOCH(batches), .flags = STK_F_PAGE},
    {"samples_per_second", "samples", STK_U_PER_S, .number = epoch_rate, .flags = STK_F_SCREEN},
    {"asked_bytes", "asked for", STK_U_BYTES, EPOCH(bytes_asked), .flags = STK_F_PAGE},
    {"asked_bytes_per_second", "asked for", STK_U_BYTES_PER_S, .number = epoch_asked_rate,
     .flags = STK_F_SCREEN},
    {"read_bytes", "read", STK_U_BYTES, EPOCH(bytes_read)},
    {"storage_bytes", "from storage", STK_U_BYTES, EPOCH(device_bytes)},
    {"stall_seconds", "stalls", STK_U_SECONDS, EPOCH(wait_s), .flags = STK_F_PAGE},
    {"stall_fraction", "stalls", STK_U_SHARE, .number = epoch_stall, .flags = STK_F_SCREEN},
    {"batch_p50_seconds", "p50", STK_U_SECONDS, EPOCH_NS(p50_ns), "median time between batches"},
    {"batch_p99_seconds", "p99", STK_U_SECONDS, EPOCH_NS(p99_ns)},
    {"batch_max_seconds", "longest", STK_U_SECONDS, EPOCH_NS(max_ns), .flags = STK_F_PAGE},
    {NULL}};

static const struct stk_result_plot epoch_plot = {
    "epochs", "Epochs",
    "Time of each epoch and the part of it in which the program would have waited; bytes that were "
    "asked for and read. Data read ahead counts for the epoch in which it was read.",
    "epoch", "epoch", STK_U_PLAIN, STK_SCALE_CATEGORY,
    {{"time", STK_U_SECONDS, {{"load_seconds", "epoch", "bar"}, {"stall_seconds", NULL, "bar"}}},
     {"data", STK_U_BYTES, {{"asked_bytes", NULL, "bar"}, {"read_bytes", NULL, "bar"}}}}};

static void put_epochs(const void *base, struct stk_jw *w)
{
    const struct stk_load_result *r = base;
    stk_rows_put(epoch_fields, r->epochs.data, r->epochs.len / sizeof(struct stk_load_epoch),
                 sizeof(struct stk_load_epoch), w);
}

/* ---- mixing --------------------------------------------------------------------------------- */

#define AS_GOOD 0.95 /* of a random batch: no training can tell the difference */

#define MIXING(member) STK_FROM(struct stk_load_result, mixing.member)
#define RANDOM         "; % in a random order"

/* Sums up the figures in a sentence, with what to do about it. */
static void mixing_text(const void *base, struct stk_jw *w)
{
    const struct stk_load_result *r = base;
    const struct stk_mixing *m = &r->mixing;
    bool by_class = m->classes_random > 0;
    double here = by_class ? m->classes : m->spread;
    double random = by_class ? m->classes_random : m->spread_random;
    double share = random > 0 ? here / random : 1;
    char text[200];
    if (share >= AS_GOOD && m->spread >= AS_GOOD * m->spread_random)
        snprintf(text, sizeof text, "Batches are as mixed as random ones.");
    else if (share >= AS_GOOD)
        snprintf(text, sizeof text,
                 "Batches have as many classes as random ones, from fewer parts of the data.");
    else
        snprintf(text, sizeof text, "A batch has %.0f %% of the %s that a random batch has%s.",
                 100 * share, by_class ? "classes" : "parts of the data",
                 r->options->shuffle == STK_SHUFFLE_BLOCK  ? ": a larger --window mixes more"
                 : r->options->shuffle == STK_SHUFFLE_NONE ? ": --shuffle block or global mixes"
                                                           : "");
    stk_jw_str(w, text);
}

static const struct stk_result_field mixing_fields[] = {
    {"positions", "positions", STK_U_COUNT, MIXING(looked_at), "positions of the epoch looked at"},
    {"block_samples", "samples per block", STK_U_COUNT, STK_FROM(struct stk_load_result, block),
     .joins = "; blocks of % samples", .flags = STK_F_IF_SET},
    {"window_blocks", "blocks per window", STK_U_COUNT, STK_FROM(struct stk_load_result, window),
     .joins = ", % per window", .flags = STK_F_IF_SET},
    {"moved_fraction", "mean distance moved, of the dataset", STK_U_SHARE, MIXING(moved)},
    {"moved_fraction_random", "the same in a random order", STK_U_SHARE, MIXING(moved_random),
     .joins = RANDOM},
    {"kept_fraction", "neighbours still neighbours", STK_U_SHARE, MIXING(kept)},
    {"kept_fraction_random", "the same in a random order", STK_U_SHARE, MIXING(kept_random),
     .joins = RANDOM},
    {"parts_fraction", "parts of the data in a batch, of 64", STK_U_SHARE, MIXING(spread)},
    {"parts_fraction_random", "the same in a random order", STK_U_SHARE, MIXING(spread_random),
     .joins = RANDOM},
    {"classes_fraction", "classes in a batch, of all", STK_U_SHARE, MIXING(classes),
     .flags = STK_F_IF_SET},
    {"classes_fraction_random", "the same in a random order", STK_U_SHARE, MIXING(classes_random),
     .joins = RANDOM, .flags = STK_F_IF_SET},
    {"verdict", NULL, STK_U_PROSE, .put = mixing_text},
    {NULL}};

static void put_mixing(const void *base, struct stk_jw *w)
{
    const struct stk_load_result *r = base;
    if (!r->has_mixing) {
        stk_jw_null(w);
        return;
    }
    stk_jw_open(w, '{');
    stk_fields_put(mixing_fields, base, w);
    stk_jw_close(w, '}');
}

/* ---- the result ----------------------------------------------------------------------------- */

#define FROM(member)   STK_FROM(struct stk_load_result, member)
#define LOADER(member) STK_FROM(struct stk_load_result, end.loader.member)
#define NS(member)     STK_FROM_AS(NS, struct stk_load_result, member)
#define CHARS(member)  STK_FROM_AS(CHARS, struct stk_load_result, member)

static const struct stk_result_field fields[] = {
    {"format", "format", STK_U_TEXT, .put = format, .word = stk_format_title, .flags = STK_F_HEAD},
    {"dataset_samples", "samples of the dataset", STK_U_COUNT, .number = dataset_samples,
     .flags = STK_F_HEAD, .say = "% sample(s)"},
    {"order", "order", STK_U_TEXT, .put = order_text, .flags = STK_F_HEAD},
    {"batches", "batches", STK_U_COUNT, FROM(batches)},
    {"batch_samples", "samples of a batch", STK_U_COUNT,
     .number = batch_samples, .joins = " of % samples"},
    {"repeats", "repeated", STK_U_COUNT, LOADER(repeats),
     "samples given twice to make the parts of all ranks equal", STK_F_IF_SET,
     .joins = ", % repeated"},
    {"skipped", "skipped", STK_U_COUNT, LOADER(skipped), "samples that could not be read",
     STK_F_IF_SET, .joins = ", % skipped"},
    {"replaced", "replaced", STK_U_COUNT, LOADER(replaced),
     "samples that could not be read, given as others", STK_F_IF_SET, .joins = ", % replaced"},
    {"batches_note", "", STK_U_TEXT, .put = batches_note, .flags = STK_F_SCREEN},
    {"world", "ranks", STK_U_COUNT, FROM(rank.world), .flags = STK_F_IF_MANY},
    {"rank", "rank", STK_U_COUNT, FROM(rank.rank), .flags = STK_F_SCREEN,
     .joins = ", of which this is %"},
    {"rank_from", "as set by", STK_U_TEXT, .put = rank_from, .flags = STK_F_SCREEN,
     .joins = ", as set by %"},
    {"steps_per_epoch", NULL, STK_U_COUNT, .number = steps, .meaning = "batches of an epoch"},
    {"load_seconds", "time", STK_U_SECONDS, .number = seconds},
    {"first_batch_seconds", "first batch after", STK_U_SECONDS, FROM(first_batch_s),
     "since the loader was opened", STK_F_IF_SET, .joins = "; the first batch after %"},
    {"samples", "samples", STK_U_COUNT, FROM(samples)},
    {"samples_per_second", "samples per second", STK_U_PER_S, .number = samples_rate,
     .flags = STK_F_LEAD, .joins = ", %"},
    {"asked_bytes", "asked for", STK_U_BYTES, LOADER(bytes_asked), "stored bytes of the samples"},
    {"asked_bytes_per_second", "asked for, rate", STK_U_BYTES_PER_S, .number = asked_rate,
     .joins = ", %"},
    {"read_bytes", "read", STK_U_BYTES, LOADER(bytes_read),
     "bytes that were asked of the file system"},
    {"read_bytes_per_second", "read rate", STK_U_BYTES_PER_S, .number = read_rate, .joins = ", %"},
    {"reads", "reads", STK_U_COUNT, LOADER(reads), .flags = STK_F_IF_SET, .joins = "; % read(s)"},
    {"mean_read_bytes", "mean read", STK_U_BYTES, .number = mean_read, .joins = " of %"},
    {"read_passes", NULL, STK_U_TIMES, .number = passes,
     .meaning = "bytes read, as a multiple of the dataset"},
    {"read_passes_note", "", STK_U_TEXT, .put = passes_note, .flags = STK_F_SCREEN},
    {"decoded_bytes", NULL, STK_U_BYTES, LOADER(decoded_bytes), "bytes that filters produced"},
    {"opens", NULL, STK_U_COUNT, LOADER(opens), "files that were opened"},
    {"storage_bytes", "from storage", STK_U_BYTES, .number = storage,
     .flags = STK_F_KNOWN, .none = "not known",
     .meaning = "bytes that came from the device, by the kernel's count"},
    {"storage_bytes_per_second", "storage rate", STK_U_BYTES_PER_S, .number = storage_rate,
     .joins = ", %"},
    {"data_came_from", "where data came from", STK_U_TEXT, .put = storage_note,
     .joins = "; %"},
    {"checksums", "checksums", STK_U_TEXT, .put = checked_text},
    {"checked", NULL, STK_U_COUNT, LOADER(checked), "samples whose checksum was compared"},
    {"checked_bytes", NULL, STK_U_BYTES, LOADER(checked_bytes), "bytes of them under a checksum"},
    {"engine", NULL, STK_U_TEXT, LOADER(io)},
    {"engine_detail", "engine", STK_U_TEXT, LOADER(io_detail)},
    {"queue_depth_mean", "reads in flight", STK_U_PLAIN, LOADER(depth),
     .joins = ", % reads in flight"},
    {"engine_reason", "", STK_U_TEXT, LOADER(io_reason), .flags = STK_F_KNOWN | STK_F_SCREEN,
     .say = "chosen: %"},
    {"file_system", "file system", STK_U_TEXT, CHARS(storage.fs),
     .flags = STK_F_KNOWN | STK_F_PAGE},
    {"network", NULL, STK_U_FLAG, FROM(storage.network), "the files are on another machine"},
    {"in_memory_before_fraction", NULL, STK_U_SHARE, FROM(storage.cached),
     "part of the files that was in the page cache at the start", STK_F_KNOWN},
    {"tier", "tier", STK_U_TEXT, LOADER(tier), .flags = STK_F_KNOWN},
    {"tier_memory_bytes", "from copies in memory", STK_U_BYTES, LOADER(tier_memory_bytes),
     .flags = STK_F_IF_SET, .joins = "; % from memory"},
    {"tier_disk_bytes", "from copies on disk", STK_U_BYTES, LOADER(tier_disk_bytes),
     .flags = STK_F_IF_SET, .joins = "; % from disk"},
    {"source_bytes", "from the source", STK_U_BYTES, LOADER(source_bytes),
     .flags = STK_F_IF_SET | STK_F_SCREEN, .joins = "; % from the source"},
    {"tier_refused", "reads repeated", STK_U_COUNT, LOADER(tier_refused),
     "reads of a copy that failed and were repeated from the source", STK_F_IF_SET,
     .joins = "; % read(s) of the source, because a copy was changed or gone"},
    {"tier_filled_bytes", "copied into the tier", STK_U_BYTES, LOADER(tier_filled_bytes),
     .flags = STK_F_IF_SET, .joins = "; % copied into it"},
    {"tier_ended", "copying ended", STK_U_TEXT, LOADER(tier_ended), .flags = STK_F_KNOWN,
     .joins = "; then it ended: %"},
    {"threads", "threads", STK_U_COUNT, LOADER(threads)},
    {"decode_fraction", "threads busy", STK_U_SHARE, .number = busy,
     .joins = ", busy % of their time"},
    {"cores", "cores in use", STK_U_PLAIN, .number = cores, .joins = "; % cores in all"},
    {"decode_seconds", NULL, STK_U_SECONDS, NS(end.loader.decode_ns),
     "checking and decoding, of all threads"},
    {"cpu_seconds", NULL, STK_U_SECONDS, .number = cpu},
    {"memory_peak_bytes", "peak memory", STK_U_BYTES, LOADER(memory_peak_bytes),
     .row = "memory", .say = "% at most"},
    {"memory_bytes", "memory budget", STK_U_BYTES, LOADER(memory_bytes), .joins = ", of %"},
    {"stall_seconds", "stalls", STK_U_SECONDS, NS(wait_ns), "the caller waited for a batch"},
    {"stall_fraction", "stalls, share of the time", STK_U_SHARE, .number = stall_share,
     .joins = ", % of the time"},
    {"batch_p50_seconds", "a batch, p50", STK_U_SECONDS, .number = p50, .row = "a batch",
     .say = "% p50"},
    {"batch_p99_seconds", "a batch, p99", STK_U_SECONDS, .number = p99, .joins = ", % p99"},
    {"batch_max_seconds", "a batch, longest", STK_U_SECONDS, .number = longest,
     .joins = ", % longest"},
    {"batch_mean_seconds", NULL, STK_U_SECONDS, .number = mean_batch},
    {"content_hash", "content", STK_U_TEXT, .put = content_text},
    STK_NOTE_FIELDS(STK_FROM_AS(POINTER, struct stk_load_result, notes)),
    {"epochs", "every epoch", STK_U_TABLE, .put = put_epochs, .of = epoch_fields, .least = 2,
     .most = 10, .plot = &epoch_plot,
     .say = "Data read ahead counts for the epoch in which it was read."},
    {"mixing", "mixing", STK_U_GROUP, .put = put_mixing, .of = mixing_fields,
     .flags = STK_F_NAMED},
    {"warnings", "warnings", STK_U_LIST, .put = put_warnings, .say = "warning: ",
     .flags = STK_F_NAMED},
    {"corrupt", "damaged samples", STK_U_COUNT, LOADER(corrupt), .flags = STK_F_PAGE},
    {"unsupported", NULL, STK_U_COUNT, LOADER(unsupported),
     "damaged samples that are sound, but of a kind that stoker does not read"},
    {"problems_total", "problems", STK_U_COUNT, .number = problems, .flags = STK_F_IF_SET},
    {"problems", "problems", STK_U_LIST, .put = put_problems, .most = 10, .flags = STK_F_NAMED},
    {NULL}};

const struct stk_result_kind stk_load_kind = {
    .command = "load", .doing = "Loading", .fields = fields, .verdict = verdict, .caveat = caveat};
