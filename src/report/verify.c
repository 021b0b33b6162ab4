/* verify.c - the result of `stoker verify`. */
#include "report/data.h"

#include "base/text.h"
#include "base/units.h"
#include "format/format.h"
#include "result/blocks.h"

/* "whole", "readable", "damaged, 3 problems", "not all of it was read: 2 links left out". Nothing
 * is known to be whole if there is no checksum to compare it with. */
static void put_state(const struct stk_verify_result *r, struct stk_buf *out)
{
    char a[32];
    uint64_t damage = r->problems.count - r->problems.unsupported;
    bool left_out = stk_notes_missing(&r->notes);
    if (damage)
        stk_buf_printf(out, "damaged, %s problem%s", stk_format_count(damage, a, sizeof a),
                       damage == 1 ? "" : "s");
    else if (!r->problems.count && !left_out)
        stk_buf_puts(out, r->checksummed_bytes || !r->bytes ? "whole" : "readable");
    if (!r->problems.unsupported && !left_out)
        return;
    stk_buf_printf(out, "%snot all of it was read: ", damage ? "; " : "");
    if (r->problems.unsupported)
        stk_buf_printf(out, "%s unsupported%s",
                       stk_format_count(r->problems.unsupported, a, sizeof a),
                       left_out ? ", " : "");
    if (left_out) {
        stk_notes_summary(&r->notes, out);
        stk_buf_puts(out, " left out");
    }
}

static void put_state_text(const void *base, struct stk_jw *w)
{
    const struct stk_verify_result *r = base;
    char a[32];
    struct stk_buf text = STK_BUF_INIT;
    put_state(r, &text);
    if (r->checksummed_bytes)
        stk_buf_printf(&text, "; %s of the bytes are under checksums",
                       stk_unit_text(STK_U_SHARE, (double)r->checksummed_bytes / (double)r->bytes,
                                     a, sizeof a));
    else if (r->bytes)
        stk_buf_puts(&text, "; no checksums to compare");
    stk_jw_str(w, stk_buf_cstr(&text));
    stk_buf_release(&text);
}

/* "PATH: whole; 100 % of the bytes are under checksums" */
static void draw_state(const struct stk_result_field *f, const struct stk_jval *obj,
                         struct stk_screen *s)
{
    const struct stk_jval *v = stk_json_get(obj, f->key), *whole = stk_json_get(obj, "whole");
    size_t n = strcspn(v->str, ";,:");
    bool damaged = strncmp(v->str, "damaged", 7) == 0;
    stk_screen_end(s);
    stk_text_escape(s->out, s->subject, strlen(s->subject), SIZE_MAX);
    stk_buf_printf(s->out, ": %s", damaged ? STK_BAD : whole && whole->b ? STK_GOOD : STK_WARN);
    stk_text_escape(s->out, v->str, n, SIZE_MAX);
    stk_buf_puts(s->out, STK_PLAIN);
    stk_text_escape(s->out, v->str + n, v->len - n, SIZE_MAX);
    stk_buf_putc(s->out, '\n');
}

static void verdict(const struct stk_jval *r, struct stk_buf *out)
{
    double faults = stk_pg_get(r, "problems_total");
    if (faults != 0)
        stk_buf_printf(out, "%.0f problem%s found.", faults, faults == 1 ? " was" : "s were");
    else if (!stk_pg_true(r, "whole"))
        stk_buf_puts(out, "No damage was found; not all of it was read.");
    else if (stk_pg_get(r, "checksummed_bytes") > 0)
        stk_buf_puts(out, "The dataset is whole.");
    else
        stk_buf_puts(out, "The dataset is readable. There are no checksums to compare.");
}

static void put_whole(const void *base, struct stk_jw *w)
{
    const struct stk_verify_result *r = base;
    stk_jw_bool(w, r->problems.count == 0 && stk_notes_missing(&r->notes) == 0);
}

#define FROM(member) STK_FROM(struct stk_verify_result, member)

STK_NUMBER_OF(rate, struct stk_verify_result, (double)r->bytes / r->seconds)

static const struct stk_result_field fields[] = {
    {"problems_total", "problems", STK_U_COUNT, FROM(problems.count),
     .flags = STK_F_LEAD | STK_F_PAGE},
    {"problems", "problems", STK_U_TABLE, STK_FROM_AS(STRUCT, struct stk_verify_result, problems),
     .put = stk_put_problems, .of = stk_problem_fields, .draw = stk_draw_problems, .most = 20},
    STK_NOTE_FIELDS(STK_FROM_AS(STRUCT, struct stk_verify_result, notes)),
    {"format", "format", STK_U_TEXT, STK_FROM_AS(CHARS, struct stk_verify_result, format),
     .word = stk_format_title, .flags = STK_F_PAGE},
    {"whole", NULL, STK_U_FLAG, .put = put_whole, .meaning = "no problem, and nothing left out"},
    {"unsupported", NULL, STK_U_COUNT, FROM(problems.unsupported),
     "problems that are sound data of a kind that stoker does not read"},
    {"samples", "samples", STK_U_COUNT, FROM(samples), .row = "checked",
     .say = "% sample(s)"},
    {"files", "files", STK_U_COUNT, FROM(files), .joins = " in % file(s)"},
    {"bytes", "bytes", STK_U_BYTES, FROM(bytes), .joins = ", %"},
    {"checksummed_bytes", "compared with checksums", STK_U_BYTES, FROM(checksummed_bytes),
     .flags = STK_F_PAGE},
    {"verify_seconds", "time", STK_U_SECONDS, FROM(seconds), .joins = " in %"},
    {"bytes_per_second", "rate", STK_U_BYTES_PER_S, .number = rate, .joins = " (%)"},
    {"has_manifest", NULL, STK_U_FLAG, FROM(has_manifest)},
    {"state", NULL, STK_U_PROSE, .put = put_state_text, .draw = draw_state},
    {NULL}};

const struct stk_result_kind stk_verify_kind = {
    .command = "verify", .doing = "Checking", .fields = fields, .verdict = verdict};
