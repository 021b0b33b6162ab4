/* load.c - a result of `stoker load` on a page: speed, waits and bytes, epoch by epoch. */
#include <stdio.h>

#include "base/units.h"
#include "report/html/priv.h"
#include "report/report_priv.h"

static const struct stk_pg_column facts[] = {
    {"format", "Format", "text"},
    {"dataset_samples", "Samples of the dataset", "count"},
    {"samples", "Samples", "count"},
    {"batches", "Batches", "count"},
    {"samples_per_second", "Samples per second", ""},
    {"load_seconds", "Time", "s"},
    {"first_batch_seconds", "First batch after", "s"},
    {"read_bytes", "Read", "B"},
    {"read_bytes_per_second", "Read rate", "B/s"},
    {"asked_bytes", "Asked for", "B"},
    {"storage_bytes", "From storage", "B"},
    {"stall_seconds", "Stalls", "s"},
    {"batch_p50_seconds", "A batch, p50", "s"},
    {"batch_p99_seconds", "A batch, p99", "s"},
    {"batch_max_seconds", "A batch, longest", "s"},
    {"engine", "Engine", "text"},
    {"queue_depth_mean", "Reads in flight", ""},
    {"threads", "Threads", "count"},
    {"memory_peak_bytes", "Peak memory", "B"},
    {"file_system", "File system", "text"},
    {"corrupt", "Damaged samples", "count"},
};

static const struct stk_pg_column epochs[] = {
    {"epoch", "Epoch", "count"},
    {"load_seconds", "Time", "s"},
    {"samples", "Samples", "count"},
    {"batches", "Batches", "count"},
    {"asked_bytes", "Asked for", "B"},
    {"read_bytes", "Read", "B"},
    {"storage_bytes", "From storage", "B"},
    {"stall_seconds", "Stalls", "s"},
    {"batch_p50_seconds", "A batch, p50", "s"},
    {"batch_p99_seconds", "A batch, p99", "s"},
    {"batch_max_seconds", "A batch, longest", "s"},
};

static void put_epoch_plot(struct stk_jw *w, const struct stk_jval *rows)
{
    const struct stk_pg_axis axis = {"epoch", "", "category", NAN, NAN};
    if (!stk_pg_has_rows(rows))
        return;
    stk_pg_plot(w, "epochs", "Epochs",
                "Time of each epoch and the part of it in which the program would have waited; "
                "bytes that were asked for and read. Data read ahead counts for the epoch in which "
                "it was read.");
    stk_pg_x_of(w, &axis, rows, "epoch");
    stk_pg_panels(w);
    stk_pg_panel(w, "time", "s");
    stk_pg_series_of(w, "epoch", "bar", rows, "load_seconds");
    stk_pg_series_of(w, "stalls", "bar", rows, "stall_seconds");
    stk_pg_panel_end(w);
    stk_pg_panel(w, "data", "B");
    stk_pg_series_of(w, "asked for", "bar", rows, "asked_bytes");
    stk_pg_series_of(w, "read", "bar", rows, "read_bytes");
    stk_pg_panel_end(w);
    stk_pg_plot_end(w);
}

/* A speed of the page cache is not one of the storage. NULL: most came from there. */
static const char *came_from(const struct stk_jval *r, char *buf, size_t size)
{
    double read = stk_pg_get(r, "read_bytes"), from = stk_pg_get(r, "storage_bytes");
    double before = stk_pg_get(r, "in_memory_before_fraction");
    char share[32];
    if (!(read > 0) || from >= read / 2)
        return NULL;
    if (isfinite(from))
        return "most of the data came from memory, not from storage";
    int n = snprintf(buf, size, "how much of the data came from storage is not known");
    if (before > 0)
        snprintf(buf + n, size - (size_t)n, "; at the start %s of the files was in the page cache",
                 stk_pg_percent(before, share, sizeof share));
    return buf;
}

static void put_verdict(struct stk_jw *w, const struct stk_jval *r)
{
    char text[400], count[32], waited[32], buf[160], what[200];
    const char *from = came_from(r, buf, sizeof buf);
    double rate = stk_pg_get(r, "samples_per_second"), stall = stk_pg_get(r, "stall_fraction");
    snprintf(text, sizeof text,
             "The loader delivered %s samples per second; the caller waited %s of the time%s%s.",
             stk_format_count(stk_nearest(rate), count, sizeof count),
             stk_pg_percent(stall, waited, sizeof waited), from ? "; " : "", from ? from : "");
    stk_jw_put_str(w, "verdict",
                   isfinite(rate) && isfinite(stall) ? text : "The result has no speed.");
    snprintf(what, sizeof what, "samples per second%s%s", from ? ": " : "", from ? from : "");
    stk_pg_number(w, rate, "", what);
}

static int add_load(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err)
{
    struct stk_jw *w = &page->w;
    char title[300];
    (void)err;
    snprintf(title, sizeof title, "Loading %.280s", stk_pg_argument(in, 0, "a dataset"));
    stk_pg_begin(w, "load", in->name, title);
    put_verdict(w, in->result);
    stk_pg_facts_of(w, in->result, facts, STK_PG_COUNT(facts));
    stk_pg_blocks(w);
    put_epoch_plot(w, stk_json_get(in->result, "epochs"));
    stk_pg_table_of(w, "epoch-table", "Every epoch", NULL, stk_json_get(in->result, "epochs"),
                    epochs, STK_PG_COUNT(epochs));
    stk_jw_close(w, ']');
    stk_pg_end(w);
    return 0;
}

const struct stk_pg_kind stk_pg_load = {.name = "load", .command = "load", .add = add_load};
