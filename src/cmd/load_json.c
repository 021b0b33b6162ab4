/* load_json.c - the result of `stoker load` as JSON: every number of the text and more. */
#include "cmd/load.h"
#include "report/problems.h"

#define PROBLEMS_LISTED 1000

/* null: unknown. */
static void put_known(struct stk_jw *w, const char *key, int64_t v)
{
    stk_jw_key(w, key);
    if (v >= 0)
        stk_jw_i64(w, v);
    else
        stk_jw_null(w);
}

static void put_dataset(const struct stk_load *l, struct stk_jw *w)
{
    stk_jw_put_str(w, "format", l->ds->format->name);
    stk_jw_put_u64(w, "dataset_samples", stk_dataset_len(l->ds));
    stk_jw_put_u64(w, "rank", l->rank.rank);
    stk_jw_put_u64(w, "world", l->rank.world);
    stk_jw_put_str(w, "rank_from", *l->rank.from ? l->rank.from : NULL);
    stk_jw_put_u64(w, "steps_per_epoch", stk_loader_steps(l->ld));
    stk_jw_put_str(w, "file_system", l->place.fs[0] ? l->place.fs : NULL);
    stk_jw_put_bool(w, "network", l->place.network);
    stk_jw_key(w, "in_memory_before_fraction");
    if (l->place.cached >= 0)
        stk_jw_f64(w, l->place.cached);
    else
        stk_jw_null(w);
}

static void put_counts(const struct stk_load *l, struct stk_jw *w)
{
    const struct stk_loader_stats *st = &l->end.loader;
    int64_t device = l->end.device_bytes < 0 || l->start.device_bytes < 0
                         ? -1
                         : l->end.device_bytes - l->start.device_bytes;
    stk_jw_put_u64(w, "samples", l->samples);
    stk_jw_put_u64(w, "batches", l->batches);
    stk_jw_put_u64(w, "repeats", st->repeats);
    stk_jw_put_u64(w, "replaced", st->replaced);
    stk_jw_put_u64(w, "skipped", st->skipped);
    stk_jw_put_u64(w, "corrupt", st->corrupt);
    stk_jw_put_u64(w, "unsupported", st->unsupported);
    stk_jw_put_u64(w, "checked", st->checked);
    stk_jw_put_u64(w, "checked_bytes", st->checked_bytes);
    stk_jw_put_u64(w, "asked_bytes", st->bytes_asked);
    stk_jw_put_u64(w, "read_bytes", st->bytes_read);
    stk_jw_put_f64(w, "read_passes", stk_load_passes(l));
    stk_jw_put_u64(w, "decoded_bytes", st->decoded_bytes);
    put_known(w, "storage_bytes", stk_load_device(l, device, st->bytes_read));
    stk_jw_put_u64(w, "reads", st->reads);
    stk_jw_put_u64(w, "opens", st->opens);
}

static void put_times(const struct stk_load *l, struct stk_jw *w)
{
    const struct stk_loader_stats *st = &l->end.loader;
    const struct stk_histogram *h = &l->time;
    double s = l->end.at_s - l->start.at_s, per = s > 0 ? 1 / s : 0;
    stk_jw_put_f64(w, "load_seconds", s);
    stk_jw_put_f64(w, "samples_per_second", (double)l->samples * per);
    stk_jw_put_f64(w, "asked_bytes_per_second", (double)st->bytes_asked * per);
    stk_jw_put_f64(w, "read_bytes_per_second", (double)st->bytes_read * per);
    stk_jw_put_f64(w, "first_batch_seconds", l->first_batch_s);
    stk_jw_put_f64(w, "stall_seconds", 1e-9 * (double)l->wait_ns);
    stk_jw_put_f64(w, "stall_fraction", 1e-9 * (double)l->wait_ns * per);
    stk_jw_put_f64(w, "batch_p50_seconds", 1e-9 * (double)stk_histogram_percentile(h, 0.5));
    stk_jw_put_f64(w, "batch_p99_seconds", 1e-9 * (double)stk_histogram_percentile(h, 0.99));
    stk_jw_put_f64(w, "batch_max_seconds", 1e-9 * (double)h->max);
    stk_jw_put_f64(w, "batch_mean_seconds", 1e-9 * stk_histogram_mean(h));
    stk_jw_put_f64(w, "decode_seconds", 1e-9 * (double)st->decode_ns);
    stk_jw_put_f64(w, "cpu_seconds", l->end.cpu_s - l->start.cpu_s);
}

static void put_engine(const struct stk_load *l, struct stk_jw *w)
{
    const struct stk_loader_stats *st = &l->end.loader;
    stk_jw_put_str(w, "engine", st->io);
    stk_jw_put_str(w, "engine_detail", st->io_detail);
    stk_jw_put_str(w, "engine_reason", st->io_reason && *st->io_reason ? st->io_reason : NULL);
    stk_jw_put_f64(w, "queue_depth_mean", st->depth);
    stk_jw_put_u64(w, "threads", st->threads);
    stk_jw_put_u64(w, "memory_bytes", st->memory_bytes);
    stk_jw_put_u64(w, "memory_peak_bytes", st->memory_peak_bytes);
    stk_jw_key(w, "content_hash");
    char hash[24];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)l->content);
    stk_jw_str(w, l->s->consume[0] == 'h' ? hash : NULL);
}

static void put_epochs(const struct stk_load *l, struct stk_jw *w)
{
    stk_jw_key(w, "epochs");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < stk_load_nepochs(l); i++) {
        const struct stk_load_epoch *e = stk_load_epoch(l, i);
        stk_jw_open(w, '{');
        stk_jw_put_u64(w, "epoch", e->epoch);
        stk_jw_put_u64(w, "batches", e->batches);
        stk_jw_put_u64(w, "samples", e->samples);
        stk_jw_put_u64(w, "asked_bytes", e->bytes_asked);
        stk_jw_put_u64(w, "read_bytes", e->bytes_read);
        put_known(w, "storage_bytes", stk_load_device(l, e->device_bytes, e->bytes_read));
        stk_jw_put_f64(w, "load_seconds", e->seconds);
        stk_jw_put_f64(w, "stall_seconds", e->wait_s);
        stk_jw_put_f64(w, "batch_p50_seconds", 1e-9 * (double)e->p50_ns);
        stk_jw_put_f64(w, "batch_p99_seconds", 1e-9 * (double)e->p99_ns);
        stk_jw_put_f64(w, "batch_max_seconds", 1e-9 * (double)e->max_ns);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static void put_mixing(const struct stk_load *l, struct stk_jw *w)
{
    const struct stk_mixing *m = &l->mixing;
    stk_jw_key(w, "mixing");
    if (!l->has_mixing) {
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
    stk_jw_put_u64(w, "block_samples", l->block);
    stk_jw_put_u64(w, "window_blocks", l->window);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        stk_jw_put_f64(w, numbers[i].name, numbers[i].v);
    stk_jw_close(w, '}');
}

static void put_warnings(const struct stk_load *l, struct stk_jw *w)
{
    const char *text;
    stk_jw_key(w, "warnings");
    stk_jw_open(w, '[');
    for (size_t i = 0; (text = stk_loader_warning(l->ld, i)); i++)
        stk_jw_str(w, text);
    stk_jw_close(w, ']');
}

static void put_problems(const struct stk_load *l, struct stk_jw *w)
{
    char text[2400];
    stk_jw_put_u64(w, "problems_total", stk_load_nproblems(l));
    stk_jw_key(w, "problems");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < PROBLEMS_LISTED; i++) {
        const char *p = stk_load_problem(l, i, text, sizeof text);
        if (!p)
            break;
        stk_jw_str(w, p);
    }
    stk_jw_close(w, ']');
}

void stk_load_json(const struct stk_load *l)
{
    struct stk_jw *w = &l->run->json;
    put_dataset(l, w);
    put_counts(l, w);
    put_times(l, w);
    put_engine(l, w);
    put_epochs(l, w);
    put_mixing(l, w);
    put_warnings(l, w);
    put_problems(l, w);
    stk_notes_json(&l->ds->notes, w);
}
