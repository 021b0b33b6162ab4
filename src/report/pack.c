/* pack.c - the result of `stoker pack`. */
#include "report/data.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "format/format.h"
#include "result/blocks.h"

const char *stk_pack_replaced(const struct stk_pack_result *r, char *buf, size_t n)
{
    char a[32], b[32];
    snprintf(buf, n, "a dataset of %s samples", stk_format_count(r->replaced, a, sizeof a));
    if (r->replaced > r->samples)
        snprintf(buf + strlen(buf), n - strlen(buf), ": %s more than now",
                 stk_format_count(r->replaced - r->samples, b, sizeof b));
    return buf;
}

static void replaced_text(const void *base, struct stk_jw *w)
{
    const struct stk_pack_result *r = base;
    char text[120];
    stk_jw_str(w, r->replaced ? stk_pack_replaced(r, text, sizeof text) : NULL);
}

static void verdict(const struct stk_jval *r, struct stk_buf *out)
{
    double samples = stk_pg_get(r, "samples"), shards = stk_pg_get(r, "shards");
    char a[32], b[32];
    if (isfinite(samples) && isfinite(shards))
        stk_buf_printf(out, "%s sample%s in %s file%s.",
                       stk_unit_text(STK_U_COUNT, samples, a, sizeof a), samples == 1 ? "" : "s",
                       stk_unit_text(STK_U_COUNT, shards, b, sizeof b), shards == 1 ? "" : "s");
    else
        stk_buf_puts(out, "The result has no counts.");
}

#define FROM(member)             STK_FROM(struct stk_pack_result, member)
#define NUMBER(name, expression) STK_NUMBER_OF(name, struct stk_pack_result, expression)

NUMBER(read_rate, (double)r->bytes_in / r->seconds_total)
NUMBER(samples_rate, (double)r->samples / r->seconds_total)
STK_TEXT_OF(done, struct stk_pack_result, r->whole ? "already complete" : "packed")
STK_TEXT_OF(order, struct stk_pack_result,
            r->class_by_class ? "class after class; --shuffle SEED mixes them permanently" : NULL)

static const struct stk_result_field fields[] = {
    {"done", NULL, STK_U_TEXT, .put = done, .flags = STK_F_HEAD},
    {"format", "format", STK_U_TEXT, STK_FROM_AS(CHARS, struct stk_pack_result, format),
     .word = stk_format_title},
    {"whole_already", NULL, STK_U_FLAG, FROM(whole), "--resume found the dataset complete"},
    {"samples", "samples", STK_U_COUNT, FROM(samples), .flags = STK_F_LEAD},
    {"samples_per_second", "samples per second", STK_U_PER_S, .number = samples_rate,
     .joins = ", %"},
    {"replaced", NULL, STK_U_COUNT, FROM(replaced), "samples of the dataset that was replaced"},
    {"replaced_text", "replaced", STK_U_TEXT, .put = replaced_text},
    {"classes", "classes", STK_U_COUNT, FROM(classes), .flags = STK_F_IF_SET},
    {"class_by_class", NULL, STK_U_FLAG, FROM(class_by_class),
     "the samples of a class are neighbours"},
    {"order", "order", STK_U_TEXT, .put = order},
    {"files", "files", STK_U_COUNT, FROM(files)},
    {"bytes_out", "written", STK_U_BYTES, FROM(bytes_out), .joins = ", %"},
    {"shards", NULL, STK_U_COUNT, FROM(shards)},
    {"shards_kept", "kept from the earlier run", STK_U_COUNT, FROM(shards_kept),
     .flags = STK_F_IF_SET, .joins = "; % kept from the earlier run"},
    {"shards_redone", "packed again", STK_U_COUNT, FROM(shards_redone), .flags = STK_F_IF_SET,
     .joins = "; % packed again, changed since they were finished"},
    {"total_seconds", "time", STK_U_SECONDS, FROM(seconds_total)},
    {"bytes_in", "read", STK_U_BYTES, FROM(bytes_in), .joins = "; % read"},
    {"bytes_in_per_second", "read rate", STK_U_BYTES_PER_S, .number = read_rate, .joins = ", %"},
    {"index_seconds", "listing", STK_U_SECONDS, FROM(seconds_index), .flags = STK_F_PAGE},
    STK_NOTE_FIELDS(STK_FROM_AS(STRUCT, struct stk_pack_result, notes)),
    STK_PROBLEM_FIELDS("skipped", "skipped", struct stk_pack_result, skipped),
    {NULL}};

const struct stk_result_kind stk_pack_kind = {
    .command = "pack", .doing = "Packing", .subject = 1, .fields = fields, .verdict = verdict};
