/* inspect.c - a dataset: facts, sizes, its first sample and its problems as text and as JSON. */
#include "report/inspect.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/quote.h"
#include "base/style.h"
#include "base/text.h"
#include "base/units.h"
#include "format/format.h"
#include "report/grid.h"
#include "report/problems.h"

/* ---- the facts ---------------------------------------------------------------------------- */

/* 2^b bytes, exactly: "512 B", "4 KiB". */
static void power_text(unsigned b, char *buf, size_t size)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    snprintf(buf, size, "%u %s", 1u << b % 10, unit[b / 10]);
}

static void histogram_row(struct stk_grid *t, unsigned b, uint64_t count, uint64_t most,
                          uint64_t total, unsigned width, bool utf8)
{
    char from[16], to[16], number[32], share[16];
    struct stk_buf bar = STK_BUF_INIT;
    power_text(b, from, sizeof from);
    power_text(b + 1, to, sizeof to);
    snprintf(share, sizeof share, "%.1f %%", 100.0 * (double)count / (double)total);
    stk_grid_bar((double)count / (double)most, width, utf8, &bar);
    stk_grid_row(t, b ? from : "0 B", "to", to, stk_format_count(count, number, sizeof number),
                 share, stk_buf_cstr(&bar));
    stk_buf_release(&bar);
}

static void put_histogram(const struct stk_inspect_screen *s, struct stk_buf *out)
{
    const struct stk_inspect *in = s->in;
    uint64_t most = 1;
    for (unsigned b = 0; b < STK_INSPECT_BUCKETS; b++)
        most = in->histogram[b] > most ? in->histogram[b] : most;
    struct stk_grid t;
    stk_grid_init(&t, "rlrrrl");
    stk_grid_row(&t, "size", "", "", "samples", "share", "");
    for (unsigned b = 0, shown = 0; b < STK_INSPECT_BUCKETS; b++) {
        unsigned gap = 0;
        while (b + gap < STK_INSPECT_BUCKETS && !in->histogram[b + gap])
            gap++;
        /* Empty rows between full ones matter, but three say no more than one. */
        bool outside = !shown || b + gap == STK_INSPECT_BUCKETS;
        if (gap > 2 && !outside)
            stk_grid_row(&t, "...", "", "", "", "", "");
        if (gap > 2 || (gap && outside)) {
            b += gap - 1;
            continue;
        }
        histogram_row(&t, b, in->histogram[b], most, in->samples, s->columns > 90 ? 40 : 30,
                      s->utf8);
        shown++;
    }
    stk_grid_render(&t, 2, out);
    stk_grid_release(&t);
}

#define CLASS_COLUMNS 60 /* for all class names together */

/* "1,000: apple, bear, ..." */
static void put_classes(const struct stk_inspect *in, struct stk_grid *t)
{
    char count[32];
    struct stk_buf b = STK_BUF_INIT;
    size_t columns = 0, i = 0;
    stk_buf_printf(&b, "%s:", stk_format_count(in->classes, count, sizeof count));
    for (; i < in->nclass_names && columns < CLASS_COLUMNS; i++) {
        stk_buf_puts(&b, i ? ", " : " ");
        columns += 2 + stk_text_escape(&b, in->class_name[i], strlen(in->class_name[i]), 24);
    }
    if (i < in->classes)
        stk_buf_puts(&b, ", ...");
    stk_grid_row(t, "classes", stk_buf_cstr(&b));
    stk_buf_release(&b);
}

static void put_facts(const struct stk_inspect *in, const struct stk_notes *notes,
                      struct stk_buf *out)
{
    char a[32], b[32], c[32], line[160];
    struct stk_grid t;
    struct stk_buf path = STK_BUF_INIT;
    stk_grid_init(&t, "ll");
    stk_grid_row(&t, "samples", stk_format_count(in->samples, a, sizeof a));
    snprintf(line, sizeof line, "%s, %s", stk_format_count(in->files, a, sizeof a),
             stk_format_size(in->bytes_stored, b, sizeof b));
    stk_grid_row(&t, "files", line);
    if (in->files_ignored)
        stk_grid_row(&t, "ignored files", stk_format_count(in->files_ignored, a, sizeof a));
    stk_notes_rows(notes, &t);
    if (in->samples) {
        snprintf(line, sizeof line, "%s smallest, %s median, %s largest",
                 stk_format_size(in->size_min, a, sizeof a),
                 stk_format_size(in->size_median_estimate, b, sizeof b),
                 stk_format_size(in->size_max, c, sizeof c));
        stk_grid_row(&t, "sample size", line);
    }
    if (in->classes)
        put_classes(in, &t);
    if (in->has_manifest)
        stk_grid_row(&t, "manifest", "yes: packed by stoker");
    snprintf(line, sizeof line, "%s, %s%s", in->index_built_now ? "built now" : "found",
             stk_format_size(in->index_bytes, a, sizeof a), in->index_path[0] ? "" : ", not kept");
    stk_grid_row(&t, "index", line);
    if (in->index_path[0]) {
        stk_text_escape(&path, in->index_path, strlen(in->index_path), SIZE_MAX);
        stk_grid_row(&t, "", stk_buf_cstr(&path));
    }
    if (in->index_why) {
        snprintf(line, sizeof line, "existing index not used: %.120s", in->index_why);
        stk_grid_row(&t, "", line);
    }
    stk_grid_render(&t, 2, out);
    stk_grid_release(&t);
    stk_buf_release(&path);
}

/* ---- advice ------------------------------------------------------------------------------- */

#define ADVISE_FROM_SAMPLES 1000

/* The pack command that would help; empty if there is nothing to gain. */
static void advise(const struct stk_inspect *in, const char *path, struct stk_buf *out)
{
    if (in->samples < ADVISE_FROM_SAMPLES || in->small_reads_fraction < 0.5)
        return;
    struct stk_buf target = STK_BUF_INIT;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t start = n;
    while (start && path[start - 1] != '/')
        start--;
    /* "." and ".." have no name to derive the new one from. */
    char *real = strspn(path + start, ".") >= n - start ? realpath(path, NULL) : NULL;
    stk_buf_put(&target, real ? real : path, real ? strlen(real) : n);
    stk_buf_puts(&target, "-packed");
    stk_buf_puts(out, "stoker pack ");
    stk_quote_shell(out, path);
    stk_buf_putc(out, ' ');
    stk_quote_shell(out, stk_buf_cstr(&target));
    stk_buf_puts(out, " --format " STK_DEFAULT_FORMAT " --shuffle 1");
    stk_buf_release(&target);
    free(real);
}

/* ---- the screen --------------------------------------------------------------------------- */

void stk_inspect_text(const struct stk_inspect_screen *s, struct stk_buf *out)
{
    const struct stk_inspect *in = s->in;
    struct stk_buf advice = STK_BUF_INIT;
    char share[16];
    const struct stk_format *f = stk_format_find(in->format);
    advise(in, s->path, &advice);
    stk_buf_puts(out, STK_STRONG);
    stk_text_escape(out, s->path, strlen(s->path), SIZE_MAX);
    stk_buf_printf(out, STK_PLAIN ": %s%s%s\n\n", f ? f->title : in->format,
                   in->payload[0] ? ", payload " : "", in->payload);
    put_facts(in, s->notes, out);
    if (in->samples) {
        stk_buf_putc(out, '\n');
        put_histogram(s, out);
    }
    if (s->first) {
        stk_buf_puts(out, "\n  The first sample:\n");
        stk_sample_table(s->first, s->columns, out);
    }
    if (advice.len)
        stk_buf_printf(
            out,
            "\n%s of the samples are separate small files; read few large ones instead:\n  %s\n",
            stk_percent_text(in->small_reads_fraction, share, sizeof share), stk_buf_cstr(&advice));
    if (s->problems->count) {
        stk_buf_putc(out, '\n');
        stk_problems_text(s->problems, 20, out);
    }
    stk_buf_release(&advice);
}

/* ---- JSON --------------------------------------------------------------------------------- */

static void json_fields(struct stk_jw *w, const struct stk_inspect *in)
{
    stk_jw_key(w, "fields");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < in->nfields && i < STK_INSPECT_FIELDS; i++) {
        const struct stk_inspect_field *f = &in->field[i];
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "name", f->name);
        stk_jw_put_str(w, "kind", stk_kind_name(f->kind));
        if (f->kind == STK_ARRAY) {
            stk_jw_put_str(w, "dtype", stk_dtype_name(f->dtype));
            stk_jw_key(w, "shape");
            stk_jw_open(w, '[');
            for (unsigned d = 0; d < f->ndim && d < STK_MAX_NDIM; d++)
                stk_jw_u64(w, f->dim[d]);
            stk_jw_close(w, ']');
        }
        stk_jw_put_u64(w, "size_bytes", f->size);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
    stk_jw_put_u64(w, "fields_total", in->nfields_total);
}

static void json_classes(struct stk_jw *w, const struct stk_inspect *in)
{
    stk_jw_put_u64(w, "classes", in->classes);
    stk_jw_put_rows(w, "first_classes", in->class_name, sizeof(in->class_name[0]),
                    in->nclass_names);
}

static void json_histogram(struct stk_jw *w, const struct stk_inspect *in)
{
    stk_jw_key(w, "size_histogram");
    stk_jw_open(w, '[');
    for (unsigned b = 0; b < STK_INSPECT_BUCKETS; b++) {
        if (!in->histogram[b])
            continue;
        stk_jw_open(w, '{');
        stk_jw_put_u64(w, "from_bytes", b ? (uint64_t)1 << b : 0);
        stk_jw_put_u64(w, "below_bytes", (uint64_t)2 << b);
        stk_jw_put_u64(w, "samples", in->histogram[b]);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

void stk_inspect_json(const struct stk_inspect_screen *s, struct stk_jw *w)
{
    const struct stk_inspect *in = s->in;
    struct stk_buf advice = STK_BUF_INIT;
    advise(in, s->path, &advice);
    stk_jw_put_str(w, "format", in->format);
    stk_jw_put_str(w, "payload", in->payload[0] ? in->payload : NULL);
    stk_jw_put_u64(w, "files", in->files);
    stk_jw_put_u64(w, "files_ignored", in->files_ignored);
    stk_jw_put_u64(w, "samples", in->samples);
    stk_jw_put_u64(w, "extents", in->extents);
    json_classes(w, in);
    stk_jw_put_u64(w, "stored_bytes", in->bytes_stored);
    stk_jw_put_u64(w, "samples_bytes", in->bytes_samples);
    stk_jw_put_u64(w, "sample_min_bytes", in->size_min);
    stk_jw_put_u64(w, "sample_median_estimate_bytes", in->size_median_estimate);
    stk_jw_put_u64(w, "sample_max_bytes", in->size_max);
    json_histogram(w, in);
    json_fields(w, in);
    stk_jw_put_bool(w, "has_manifest", in->has_manifest);
    stk_jw_put_bool(w, "index_built_now", in->index_built_now);
    stk_jw_put_str(w, "index_path", in->index_path);
    stk_jw_put_str(w, "index_not_used", in->index_why);
    stk_jw_put_u64(w, "index_bytes", in->index_bytes);
    stk_jw_put_f64(w, "small_reads_fraction", in->small_reads_fraction);
    stk_jw_put_str(w, "advice", advice.len ? stk_buf_cstr(&advice) : NULL);
    stk_problems_json(s->problems, "problems", w);
    stk_notes_json(s->notes, w);
    stk_buf_release(&advice);
}
