/* inspect.c - the result of `stoker inspect` for a dataset. */
#include "report/data.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "base/units.h"
#include "format/format.h"
#include "result/blocks.h"

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

static void put_advice(const void *base, struct stk_jw *w)
{
    const struct stk_inspect_shown *s = base;
    struct stk_buf text = STK_BUF_INIT;
    advise(s->in, s->path, &text);
    stk_jw_str(w, text.len ? stk_buf_cstr(&text) : NULL);
    stk_buf_release(&text);
}

static void draw_advice(const struct stk_result_field *f, const struct stk_jval *obj,
                        struct stk_screen *s)
{
    const struct stk_jval *v = stk_json_get(obj, f->key);
    const struct stk_jval *small = stk_json_get(obj, "small_reads_fraction");
    char share[16];
    stk_screen_part(s);
    stk_buf_printf(s->out, "%s of the samples are separate small files; read few large ones instead:\n  ",
                   stk_unit_text(STK_U_SHARE, small ? small->f : 0, share, sizeof share));
    stk_text_escape(s->out, v->str, v->len, SIZE_MAX);
    stk_buf_putc(s->out, '\n');
}

/* ---- lists ---------------------------------------------------------------------------------- */

static void put_classes(const void *base, struct stk_jw *w)
{
    const struct stk_inspect *in = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < in->nclass_names; i++)
        stk_jw_str(w, in->class_name[i]);
    stk_jw_close(w, ']');
}

#define CLASS_COLUMNS 60 /* for all class names together */

/* "1,000: apple, bear, ..." */
static void draw_classes(const struct stk_result_field *f, const struct stk_jval *obj,
                         struct stk_screen *s)
{
    const struct stk_jval *n = stk_json_get(obj, "classes"), *list = stk_json_get(obj, f->key);
    struct stk_buf b = STK_BUF_INIT;
    size_t columns = 0, i = 0;
    char count[32];
    if (!n || !(n->f > 0) || list->type != STK_JARR)
        return;
    stk_buf_printf(&b, "%s:", stk_unit_text(STK_U_COUNT, n->f, count, sizeof count));
    for (; i < list->len && columns < CLASS_COLUMNS; i++) {
        stk_buf_puts(&b, i ? ", " : " ");
        if (list->item[i].type == STK_JSTR)
            columns += 2 + stk_text_escape(&b, list->item[i].str, list->item[i].len, 24);
    }
    if ((double)i < n->f)
        stk_buf_puts(&b, ", ...");
    stk_screen_row(s, "classes", stk_buf_cstr(&b));
    stk_buf_release(&b);
}

static const struct stk_result_field size_fields[] = {
    {"from_bytes", "size from", STK_U_BYTES},
    {"below_bytes", "below", STK_U_BYTES},
    {"samples", "samples", STK_U_COUNT},
    {"fraction", "share", STK_U_SHARE, .flags = STK_F_BAR},
    {NULL}};

static const struct stk_result_plot size_plot = {
    "sizes", "Sizes of samples",
    "Each bar counts the samples up to twice its size. Small samples in files of their own make "
    "small requests.",
    "from_bytes", "a sample has at least", STK_U_BYTES, STK_SCALE_CATEGORY,
    {{"samples", STK_U_COUNT, {{"samples", NULL, "bar"}}}}};

static void put_histogram(const void *base, struct stk_jw *w)
{
    const struct stk_inspect *in = base;
    stk_jw_open(w, '[');
    for (unsigned b = 0; b < STK_INSPECT_BUCKETS; b++) {
        if (!in->histogram[b])
            continue;
        stk_jw_open(w, '{');
        stk_jw_put_u64(w, "from_bytes", b ? (uint64_t)1 << b : 0);
        stk_jw_put_u64(w, "below_bytes", (uint64_t)2 << b);
        stk_jw_put_u64(w, "samples", in->histogram[b]);
        stk_jw_put_f64(w, "fraction", (double)in->histogram[b] / (double)in->samples);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static void put_sample(const void *base, struct stk_jw *w)
{
    const struct stk_inspect_shown *s = base;
    stk_put_sample_fields(s->first, w);
}

static void verdict(const struct stk_jval *r, struct stk_buf *out)
{
    double samples = stk_pg_get(r, "samples"), files = stk_pg_get(r, "files");
    char a[32], b[32];
    stk_buf_printf(out, "%s sample%s of format %.60s in %s file%s%s.",
                   stk_unit_text(STK_U_COUNT, samples, a, sizeof a), samples == 1 ? "" : "s",
                   stk_format_title(stk_pg_text(r, "format", "unknown")),
                   stk_unit_text(STK_U_COUNT, files, b, sizeof b), files == 1 ? "" : "s",
                   stk_pg_text(r, "advice", NULL)
                       ? "; most are small files of their own, which shards would replace"
                       : "");
}

/* ---- the result ----------------------------------------------------------------------------- */

#define IN(member)               STK_FROM(struct stk_inspect, member)
#define CHARS(member)            STK_FROM_AS(CHARS, struct stk_inspect, member)

STK_TEXT_OF(built, struct stk_inspect, r->index_built_now ? "built now" : "found")
STK_TEXT_OF(kept, struct stk_inspect, r->index_path[0] ? NULL : "not kept")

static const struct stk_result_field dataset_fields[] = {
    {"format", "format", STK_U_TEXT, CHARS(format), .word = stk_format_title,
     .flags = STK_F_HEAD},
    {"payload", "payload", STK_U_TEXT, CHARS(payload), .flags = STK_F_HEAD | STK_F_KNOWN,
     .say = "payload %"},
    {"samples", "samples", STK_U_COUNT, IN(samples), .flags = STK_F_LEAD},
    {"files", "files", STK_U_COUNT, IN(files)},
    {"stored_bytes", "stored", STK_U_BYTES, IN(bytes_stored), "bytes of all files", .joins = ", %"},
    {"files_ignored", "ignored files", STK_U_COUNT, IN(files_ignored), .flags = STK_F_IF_SET},
    {"extents", NULL, STK_U_COUNT, IN(extents), "ranges of bytes that are read"},
    {"samples_bytes", "in samples", STK_U_BYTES, IN(bytes_samples), "stored bytes of the samples",
     STK_F_PAGE},
    {"sample_min_bytes", "smallest sample", STK_U_BYTES, IN(size_min),
     .flags = STK_F_IF_SET, .row = "sample size", .say = "% smallest"},
    {"sample_median_estimate_bytes", "median sample, about", STK_U_BYTES, IN(size_median_estimate),
     .joins = ", % median"},
    {"sample_max_bytes", "largest sample", STK_U_BYTES, IN(size_max), .joins = ", % largest"},
    {"classes", "classes", STK_U_COUNT, IN(classes), .flags = STK_F_IF_SET | STK_F_PAGE},
    {"first_classes", "classes", STK_U_LIST, .put = put_classes, .draw = draw_classes},
    {"has_manifest", "manifest", STK_U_FLAG, IN(has_manifest), "it was packed by stoker",
     STK_F_IF_SET, .say = "%: packed by stoker"},
    {"index_was", "index", STK_U_TEXT, .put = built},
    {"index_built_now", NULL, STK_U_FLAG, IN(index_built_now)},
    {"index_bytes", "size of the index", STK_U_BYTES, IN(index_bytes), .joins = ", %"},
    {"index_kept", "index kept", STK_U_TEXT, .put = kept, .joins = ", %"},
    {"index_path", "", STK_U_TEXT, CHARS(index_path), .flags = STK_F_IF_SET | STK_F_SCREEN},
    {"index_not_used", "", STK_U_TEXT, IN(index_why), .flags = STK_F_SCREEN,
     .say = "existing index not used: %"},
    {"small_reads_fraction", "small files of their own", STK_U_SHARE, IN(small_reads_fraction),
     "samples under 64 KiB that are separate files", STK_F_PAGE},
    {"size_histogram", "sizes of samples", STK_U_TABLE, .put = put_histogram, .of = size_fields,
     .plot = &size_plot},
    {"fields_total", NULL, STK_U_COUNT, IN(nfields_total)},
    {NULL}};

static const struct stk_result_field fields[] = {
    {"", NULL, STK_U_GROUP, STK_FROM_AS(POINTER, struct stk_inspect_shown, in),
     .of = dataset_fields},
    STK_NOTE_FIELDS(STK_FROM_AS(POINTER, struct stk_inspect_shown, notes)),
    {"fields", "the first sample", STK_U_TABLE, .put = put_sample, .of = stk_sample_fields,
     .flags = STK_F_NAMED, .most = 64},
    {"advice", "what to change", STK_U_TEXT, .put = put_advice, .draw = draw_advice},
    {"", NULL, STK_U_GROUP, STK_FROM_AS(POINTER, struct stk_inspect_shown, problems),
     .of = stk_problems_of},
    {NULL}};

const struct stk_result_kind stk_inspect_kind = {.command = "inspect",
                                                 .doing = "The dataset",
                                                 .fields = fields,
                                                 .verdict = verdict,
                                                 .needs = "samples",
                                                 .lacks = "describes no dataset"};
