/* load_json.c - the result of `stoker load` as JSON: every number of the text and more. */
#include "report/load.h"

#include <stdio.h>

#include "report/problems.h"

#define PROBLEMS_LISTED 1000

static void put_dataset(const struct stk_load_result *r, struct stk_jw *w)
{
    stk_jw_put_str(w, "format", r->ds->format->name);
    stk_jw_put_u64(w, "dataset_samples", stk_dataset_len(r->ds));
    stk_jw_put_u64(w, "rank", r->rank.rank);
    stk_jw_put_u64(w, "world", r->rank.world);
    stk_jw_put_str(w, "rank_from", *r->rank.from ? r->rank.from : NULL);
    stk_jw_put_u64(w, "steps_per_epoch", stk_loader_steps(r->ld));
    stk_jw_put_str(w, "file_system", r->storage.fs[0] ? r->storage.fs : NULL);
    stk_jw_put_bool(w, "network", r->storage.network);
    stk_jw_put_known_f64(w, "in_memory_before_fraction", r->storage.cached);
}

static void put_counts(const struct stk_load_result *r, struct stk_jw *w)
{
    const struct stk_loader_stats *st = &r->end.loader;
    int64_t device = stk_load_device(r, &r->start, &r->end);
    stk_jw_put_u64(w, "samples", r->samples);
    stk_jw_put_u64(w, "batches", r->batches);
    stk_jw_put_u64(w, "repeats", st->repeats);
    stk_jw_put_u64(w, "replaced", st->replaced);
    stk_jw_put_u64(w, "skipped", st->skipped);
    stk_jw_put_u64(w, "corrupt", st->corrupt);
    stk_jw_put_u64(w, "unsupported", st->unsupported);
    stk_jw_put_u64(w, "checked", st->checked);
    stk_jw_put_u64(w, "checked_bytes", st->checked_bytes);
    stk_jw_put_u64(w, "asked_bytes", st->bytes_asked);
    stk_jw_put_u64(w, "read_bytes", st->bytes_read);
    stk_jw_put_f64(w, "read_passes", stk_load_passes(r));
    stk_jw_put_u64(w, "decoded_bytes", st->decoded_bytes);
    stk_jw_put_known_i64(w, "storage_bytes", device);
    stk_jw_put_u64(w, "reads", st->reads);
    stk_jw_put_u64(w, "opens", st->opens);
}

static void put_times(const struct stk_load_result *r, struct stk_jw *w)
{
    const struct stk_loader_stats *st = &r->end.loader;
    const struct stk_histogram *h = &r->time;
    double s = r->end.at_s - r->start.at_s, per = s > 0 ? 1 / s : 0;
    stk_jw_put_f64(w, "load_seconds", s);
    stk_jw_put_f64(w, "samples_per_second", (double)r->samples * per);
    stk_jw_put_f64(w, "asked_bytes_per_second", (double)st->bytes_asked * per);
    stk_jw_put_f64(w, "read_bytes_per_second", (double)st->bytes_read * per);
    stk_jw_put_f64(w, "first_batch_seconds", r->first_batch_s);
    stk_jw_put_f64(w, "stall_seconds", 1e-9 * (double)r->wait_ns);
    stk_jw_put_f64(w, "stall_fraction", 1e-9 * (double)r->wait_ns * per);
    stk_jw_put_f64(w, "batch_p50_seconds", 1e-9 * (double)stk_histogram_percentile(h, 0.5));
    stk_jw_put_f64(w, "batch_p99_seconds", 1e-9 * (double)stk_histogram_percentile(h, 0.99));
    stk_jw_put_f64(w, "batch_max_seconds", 1e-9 * (double)h->max);
    stk_jw_put_f64(w, "batch_mean_seconds", 1e-9 * stk_histogram_mean(h));
    stk_jw_put_f64(w, "decode_seconds", 1e-9 * (double)st->decode_ns);
    stk_jw_put_f64(w, "cpu_seconds", r->end.cpu_s - r->start.cpu_s);
}

static void put_engine(const struct stk_load_result *r, struct stk_jw *w)
{
    const struct stk_loader_stats *st = &r->end.loader;
    stk_jw_put_str(w, "engine", st->io);
    stk_jw_put_str(w, "engine_detail", st->io_detail);
    stk_jw_put_str(w, "engine_reason", st->io_reason && *st->io_reason ? st->io_reason : NULL);
    stk_jw_put_f64(w, "queue_depth_mean", st->depth);
    stk_jw_put_u64(w, "threads", st->threads);
    stk_jw_put_u64(w, "memory_bytes", st->memory_bytes);
    stk_jw_put_u64(w, "memory_peak_bytes", st->memory_peak_bytes);
    stk_jw_key(w, "content_hash");
    char hash[24];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)r->content);
    stk_jw_str(w, r->hashed ? hash : NULL);
}

static void put_tier(const struct stk_load_result *r, struct stk_jw *w)
{
    const struct stk_loader_stats *st = &r->end.loader;
    bool ended = st->tier_ended && *st->tier_ended;
    stk_jw_put_str(w, "tier", st->tier && *st->tier ? st->tier : NULL);
    stk_jw_put_u64(w, "source_bytes", st->source_bytes);
    stk_jw_put_u64(w, "tier_memory_bytes", st->tier_memory_bytes);
    stk_jw_put_u64(w, "tier_disk_bytes", st->tier_disk_bytes);
    stk_jw_put_u64(w, "tier_filled_bytes", st->tier_filled_bytes);
    stk_jw_put_u64(w, "tier_refused", st->tier_refused);
    stk_jw_put_str(w, "tier_ended", ended ? st->tier_ended : NULL);
}

static void put_epochs(const struct stk_load_result *r, struct stk_jw *w)
{
    stk_jw_key(w, "epochs");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < stk_load_nepochs(r); i++) {
        const struct stk_load_epoch *e = stk_load_epoch(r, i);
        stk_jw_open(w, '{');
        stk_jw_put_u64(w, "epoch", e->epoch);
        stk_jw_put_u64(w, "batches", e->batches);
        stk_jw_put_u64(w, "samples", e->samples);
        stk_jw_put_u64(w, "asked_bytes", e->bytes_asked);
        stk_jw_put_u64(w, "read_bytes", e->bytes_read);
        stk_jw_put_known_i64(w, "storage_bytes",
                             e->device_bytes);
        stk_jw_put_f64(w, "load_seconds", e->seconds);
        stk_jw_put_f64(w, "stall_seconds", e->wait_s);
        stk_jw_put_f64(w, "batch_p50_seconds", 1e-9 * (double)e->p50_ns);
        stk_jw_put_f64(w, "batch_p99_seconds", 1e-9 * (double)e->p99_ns);
        stk_jw_put_f64(w, "batch_max_seconds", 1e-9 * (double)e->max_ns);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static void put_mixing(const struct stk_load_result *r, struct stk_jw *w)
{
    const struct stk_mixing *m = &r->mixing;
    stk_jw_key(w, "mixing");
    if (!r->has_mixing) {
        stk_jw_null(w);
        return;
    }
    const struct {
        const char *name;
        double v;
    } numbers[] = {
        {"moved_fraction", m->moved},     {"moved_fraction_random", m->moved_random},
        {"kept_fraction", m->kept},       {"kept_fraction_random", m->kept_random},
        {"parts_fraction", m->spread},    {"parts_fraction_random", m->spread_random},
        {"classes_fraction", m->classes}, {"classes_fraction_random", m->classes_random}};
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "positions", m->looked_at);
    stk_jw_put_u64(w, "block_samples", r->block);
    stk_jw_put_u64(w, "window_blocks", r->window);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        stk_jw_put_f64(w, numbers[i].name, numbers[i].v);
    stk_jw_close(w, '}');
}

static void put_warnings(const struct stk_load_result *r, struct stk_jw *w)
{
    const char *text;
    stk_jw_key(w, "warnings");
    stk_jw_open(w, '[');
    for (size_t i = 0; (text = stk_loader_warning(r->ld, i)); i++)
        stk_jw_str(w, text);
    stk_jw_close(w, ']');
}

static void put_problems(const struct stk_load_result *r, struct stk_jw *w)
{
    stk_jw_put_u64(w, "problems_total", stk_load_nproblems(r));
    stk_jw_key(w, "problems");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < PROBLEMS_LISTED; i++) {
        const char *p = stk_loader_problem(r->ld, i);
        if (!p)
            break;
        stk_jw_str(w, p);
    }
    stk_jw_close(w, ']');
}

void stk_load_json(const struct stk_load_result *r, struct stk_jw *w)
{
    put_dataset(r, w);
    put_counts(r, w);
    put_times(r, w);
    put_engine(r, w);
    put_tier(r, w);
    put_epochs(r, w);
    put_mixing(r, w);
    put_warnings(r, w);
    put_problems(r, w);
    stk_notes_json(&r->ds->notes, w);
}
