/* dataset.c - results of `stoker pack`, `verify` and `inspect` on a page. */
#include <stdio.h>

#include "base/units.h"
#include "report/html/priv.h"

/* "1,200", or "?" for a number that the result lacks. */
static const char *count_text(double n, char *buf, size_t size)
{
    return n >= 0 && n < 1e18 ? stk_format_count((uint64_t)n, buf, size) : "?";
}

static const struct stk_pg_column left_out[] = {
    {"kind", "Kind", "text"}, {"count", "Count", "count"}, {"why", "Why", "text"}};

static const struct stk_pg_column problems[] = {
    {"path", "File", "text"}, {"offset", "Offset", "count"}, {"what", "What", "text"}};

static void put_problems(struct stk_jw *w, const struct stk_jval *r)
{
    stk_pg_table_of(w, "problems", "Problems", NULL, stk_json_get(r, "problems"), problems,
                    STK_PG_COUNT(problems));
    stk_pg_table_of(w, "left-out", "Left out", "Sound, but not samples of this dataset.",
                    stk_json_get(r, "left_out"), left_out, STK_PG_COUNT(left_out));
}

static void put_result(struct stk_page *page, const struct stk_pg_input *in,
                       const struct stk_pg_column *facts, size_t n)
{
    struct stk_jw *w = &page->w;
    stk_pg_facts_of(w, in->result, facts, n);
    stk_pg_blocks(w);
    put_problems(w, in->result);
    stk_jw_close(w, ']');
    stk_pg_end(w);
}

static int add_pack(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err)
{
    static const struct stk_pg_column facts[] = {
        {"format", "Format", "text"},
        {"samples", "Samples", "count"},
        {"shards", "Files written", "count"},
        {"classes", "Classes", "count"},
        {"bytes_in", "Read", "B"},
        {"bytes_out", "Written", "B"},
        {"total_seconds", "Time", "s"},
        {"index_seconds", "Listing", "s"},
        {"skipped_total", "Skipped", "count"},
    };
    double samples = stk_pg_get(in->result, "samples"), shards = stk_pg_get(in->result, "shards");
    char title[640], verdict[160], a[32], b[32];
    (void)err;
    snprintf(title, sizeof title, "Packing %.280s into %.280s", stk_pg_argument(in, 0, "a dataset"), stk_pg_argument(in, 1, "a dataset"));
    snprintf(verdict, sizeof verdict, "%s sample%s in %s file%s.", count_text(samples, a, sizeof a),
             samples == 1 ? " is" : "s are", count_text(shards, b, sizeof b),
             shards == 1 ? "" : "s");
    stk_pg_begin(&page->w, "pack", in->name, title);
    stk_jw_put_str(&page->w, "verdict",
                   isfinite(samples) && isfinite(shards) ? verdict : "The result has no counts.");
    stk_pg_number(&page->w, samples, "count", "samples packed");
    put_result(page, in, facts, STK_PG_COUNT(facts));
    return 0;
}

static int add_verify(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err)
{
    static const struct stk_pg_column facts[] = {
        {"format", "Format", "text"},
        {"files", "Files", "count"},
        {"samples", "Samples", "count"},
        {"bytes", "Bytes", "B"},
        {"checksummed_bytes", "Compared with checksums", "B"},
        {"verify_seconds", "Time", "s"},
    };
    double faults = stk_pg_get(in->result, "problems_total");
    char title[320], verdict[120];
    (void)err;
    snprintf(title, sizeof title, "Checking %.280s", stk_pg_argument(in, 0, "a dataset"));
    if (faults != 0)
        snprintf(verdict, sizeof verdict, "%.0f problem%s found.", faults,
                 faults == 1 ? " was" : "s were");
    else if (!stk_pg_true(in->result, "whole"))
        snprintf(verdict, sizeof verdict, "No damage was found; not all of it was read.");
    else if (stk_pg_get(in->result, "checksummed_bytes") > 0)
        snprintf(verdict, sizeof verdict, "The dataset is whole.");
    else
        snprintf(verdict, sizeof verdict,
                 "The dataset is readable. There are no checksums to compare.");
    stk_pg_begin(&page->w, "verify", in->name, title);
    stk_jw_put_str(&page->w, "verdict", verdict);
    stk_pg_number(&page->w, faults, "count", "problems");
    put_result(page, in, facts, STK_PG_COUNT(facts));
    return 0;
}

/* ---- inspect ------------------------------------------------------------------------------- */

static void put_sizes(struct stk_jw *w, const struct stk_jval *bins)
{
    const struct stk_pg_axis axis = {"a sample has at least", "B", "category", NAN, NAN};
    if (!stk_pg_has_rows(bins))
        return;
    stk_pg_plot(w, "sizes", "Sizes of samples",
                "Each bar counts the samples up to twice its size. Small samples in files of their "
                "own make small requests.");
    stk_pg_x_of(w, &axis, bins, "from_bytes");
    stk_pg_panels(w);
    stk_pg_panel(w, "samples", "count");
    stk_pg_series_of(w, "samples", "bar", bins, "samples");
    stk_pg_panel_end(w);
    stk_pg_plot_end(w);
}

static void put_dataset(struct stk_jw *w, const struct stk_jval *r)
{
    static const struct stk_pg_column facts[] = {
        {"format", "Format", "text"},
        {"payload", "Payload", "text"},
        {"files", "Files", "count"},
        {"files_ignored", "Files ignored", "count"},
        {"samples", "Samples", "count"},
        {"classes", "Classes", "count"},
        {"stored_bytes", "Stored", "B"},
        {"samples_bytes", "In samples", "B"},
        {"sample_min_bytes", "Smallest sample", "B"},
        {"sample_median_estimate_bytes", "Median sample, about", "B"},
        {"sample_max_bytes", "Largest sample", "B"},
        {"small_reads_fraction", "Small files of their own", "share"},
        {"index_bytes", "Index", "B"},
    };
    static const struct stk_pg_column fields[] = {{"name", "Field", "text"},
                                                  {"kind", "Kind", "text"},
                                                  {"dtype", "Type", "text"},
                                                  {"size_bytes", "Bytes", "B"}};
    stk_pg_facts_of(w, r, facts, STK_PG_COUNT(facts));
    stk_pg_blocks(w);
    put_sizes(w, stk_json_get(r, "size_histogram"));
    stk_pg_table_of(w, "fields", "Fields", "Of the first sample.", stk_json_get(r, "fields"), fields,
                    STK_PG_COUNT(fields));
    put_problems(w, r);
    stk_jw_close(w, ']');
}

static int add_inspect(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err)
{
    struct stk_jw *w = &page->w;
    const struct stk_jval *r = in->result;
    const char *advice = stk_pg_text(r, "advice", NULL);
    double samples = stk_pg_get(r, "samples"), files = stk_pg_get(r, "files");
    char title[320], verdict[400], a[32], b[32];
    if (!isfinite(samples))
        return stk_err_set(err, STK_E_UNSUPPORTED, in->path, -1,
                           "the result of `stoker inspect` describes no dataset");
    snprintf(title, sizeof title, "The dataset %.280s", stk_pg_argument(in, 0, ""));
    snprintf(verdict, sizeof verdict, "%s sample%s of format %.60s in %s file%s%s.",
             count_text(samples, a, sizeof a), samples == 1 ? "" : "s",
             stk_pg_text(r, "format", "unknown"), count_text(files, b, sizeof b),
             files == 1 ? "" : "s",
             advice ? "; most are small files of their own, which shards would replace" : "");
    stk_pg_begin(w, "inspect", in->name, title);
    stk_jw_put_str(w, "verdict", verdict);
    stk_pg_number(w, samples, "count", "samples");
    put_dataset(w, r);
    stk_pg_findings(w, "What to change");
    if (advice) {
        stk_pg_finding(w, "note", "pack the small files into a few large ones", NULL, advice);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
    stk_pg_end(w);
    return 0;
}

const struct stk_pg_kind stk_pg_pack = {.name = "pack", .command = "pack", .add = add_pack};
const struct stk_pg_kind stk_pg_inspect = {.name = "inspect",
                                           .command = "inspect",
                                           .add = add_inspect};
const struct stk_pg_kind stk_pg_verify = {.name = "verify", .command = "verify", .add = add_verify};
