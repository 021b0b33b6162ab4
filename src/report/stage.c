/* stage.c - the result of `stoker stage`, the list of copies, and the check of a copy. */
#include "report/stage.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "base/text.h"
#include "base/units.h"
#include "result/grid.h"
#include "report/data.h"
#include "result/blocks.h"

#define NUMBER(name, expression) STK_NUMBER_OF(name, struct stk_stage_shown, expression)
#define TEXT(name, expression)   STK_TEXT_OF(name, struct stk_stage_shown, expression)
#define FROM(member)             STK_FROM(struct stk_stage_shown, member)

TEXT(source, r->src->path)
TEXT(path, r->result->path ? r->result->path : r->src->path)
TEXT(set, r->result->id)
TEXT(engine, r->result->engine[0] ? r->result->engine : NULL)
TEXT(done, r->result->already ? "already there" : "staged")
NUMBER(files, (double)r->src->count)
NUMBER(bytes, (double)r->src->bytes)
NUMBER(before, (double)r->result->bytes_before)
NUMBER(there, r->result->already ? 0 : (double)r->result->bytes_before)
NUMBER(copied, (double)r->result->bytes_copied)
NUMBER(copy_s, r->result->copy_s)
NUMBER(sync_s, r->result->sync_s)
NUMBER(copy_rate, r->result->copy_s > 0 ? (double)r->result->bytes_copied / r->result->copy_s : NAN)

static void put_staged(const void *base, struct stk_jw *w)
{
    const struct stk_stage_shown *s = base;
    stk_jw_bool(w, s->result->path != NULL);
}

static void put_dataset(const void *base, struct stk_jw *w)
{
    const struct stk_stage_shown *s = base;
    stk_jw_bool(w, s->src->ds != NULL);
}

static void put_already(const void *base, struct stk_jw *w)
{
    const struct stk_stage_shown *s = base;
    stk_jw_bool(w, s->result->already);
}

static const struct stk_result_field fields[] = {
    {"source", "source", STK_U_TEXT, .put = source, .flags = STK_F_PAGE},
    {"done", NULL, STK_U_TEXT, .put = done, .flags = STK_F_HEAD},
    {"staged", NULL, STK_U_FLAG, .put = put_staged, .meaning = "the copy can be used"},
    {"path", "read from", STK_U_TEXT, .put = path, .flags = STK_F_PAGE,
     .meaning = "what a job should read"},
    {"tier", "to", STK_U_TEXT, FROM(tier)},
    {"tier_reason", "", STK_U_TEXT, FROM(why), .flags = STK_F_KNOWN},
    {"set", NULL, STK_U_TEXT, .put = set},
    {"dataset", NULL, STK_U_FLAG, .put = put_dataset},
    {"already_there", NULL, STK_U_FLAG, .put = put_already},
    {"files", "files", STK_U_COUNT, .number = files, .row = "data", .say = "% file(s)"},
    {"bytes", "bytes", STK_U_BYTES, .number = bytes, .joins = ", %"},
    {"bytes_before", NULL, STK_U_BYTES, .number = before},
    {"bytes_there", "were there", STK_U_BYTES, .number = there, .flags = STK_F_IF_SET,
     .joins = "; % of it were there"},
    {"bytes_copied", NULL, STK_U_BYTES, .number = copied},
    {"total_seconds", "time", STK_U_SECONDS, FROM(total_s)},
    {"list_seconds", "listing", STK_U_SECONDS, FROM(list_s), .joins = ": list %"},
    {"first_seconds", NULL, STK_U_SECONDS, FROM(first_s), "until the first bytes were in the copy",
     STK_F_KNOWN},
    {"copy_seconds", "copying", STK_U_SECONDS, .number = copy_s, .joins = ", copy %"},
    {"copy_bytes_per_second", "copied", STK_U_BYTES_PER_S, .number = copy_rate,
     .flags = STK_F_LEAD, .joins = " (%)"},
    {"publish_seconds", "sync and publish", STK_U_SECONDS, .number = sync_s,
     .joins = ", sync and publish %"},
    {"engine", "read by", STK_U_TEXT, .put = engine},
    STK_NOTE_FIELDS(STK_FROM_AS(POINTER, struct stk_stage_shown, notes)),
    {NULL}};

/* Also of a packed copy, which has members of a pack besides. */
static void verdict(const struct stk_jval *r, struct stk_buf *out)
{
    const char *from = stk_pg_text(r, "source", "the data"), *at = stk_pg_text(r, "path", "");
    if (!stk_pg_true(r, "staged"))
        stk_buf_printf(out, "Nothing was staged: %s is read from %s.", from, at);
    else if (stk_pg_true(r, "already_there"))
        stk_buf_printf(out, "A copy of %s was there already, at %s.", from, at);
    else
        stk_buf_printf(out, "%s is staged at %s.", from, at);
}

const struct stk_result_kind stk_stage_kind = {.command = "stage",
                                               .doing = "Staging",
                                               .fields = fields,
                                               .needs = "path",
                                               .lacks = "contains neither a copy nor a comparison: "
                                                        "the command failed, or its result was "
                                                        "not complete",
                                               .verdict = verdict};

/* ---- the list ---- */

/* "complete", "40 %, being filled", "40 %, not complete"; a packed copy has no size before it is
 * done. */
static const char *state_of(const struct stk_tier_info *i, char *buf, size_t size)
{
    char share[32];
    double part = i->bytes ? (double)i->bytes_there / (double)i->bytes : i->published ? 1 : 0;
    if (i->published)
        snprintf(buf, size, "complete");
    else if (!i->files && i->form)
        snprintf(buf, size, "%s", i->filling ? "being packed" : "not complete");
    else
        snprintf(buf, size, "%s%s", stk_percent_text(part, share, sizeof share),
                 i->filling ? ", being filled" : ", not complete");
    return buf;
}

/* "now", "6 s ago", "2 h 05 min ago" */
static const char *last_use(const struct stk_tier_info *i, char *buf, size_t size)
{
    char text[32];
    double s = (double)time(NULL) - (double)i->used_ns * 1e-9;
    if (i->used || s < 1)
        snprintf(buf, size, "now");
    else if (s < 60)
        snprintf(buf, size, "%.0f s ago", s);
    else
        snprintf(buf, size, "%s ago", stk_format_duration(s, text, sizeof text));
    return buf;
}

void stk_stage_list_row(const struct stk_tier_info *i, struct stk_grid *t)
{
    char a[32], b[32], c[64], d[48];
    struct stk_buf path = STK_BUF_INIT;
    stk_text_escape(&path, i->source, strlen(i->source), SIZE_MAX);
    if (i->form) {
        stk_buf_puts(&path, " as ");
        stk_text_escape(&path, i->form, strlen(i->form), SIZE_MAX);
    }
    stk_grid_row(t, i->id, stk_format_size(i->bytes, a, sizeof a),
                 stk_format_count(i->files, b, sizeof b), state_of(i, c, sizeof c),
                 last_use(i, d, sizeof d), stk_buf_cstr(&path));
    stk_buf_release(&path);
}

void stk_stage_list_json(const char *tier, const struct stk_tier_info *i, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "tier", tier);
    stk_jw_put_str(w, "set", i->id);
    stk_jw_put_str(w, "source", i->source);
    stk_jw_put_str(w, "packed", i->form);
    stk_jw_put_str(w, "path", i->published ? i->path : NULL);
    stk_jw_put_bool(w, "complete", i->published);
    stk_jw_put_bool(w, "filling", i->filling);
    stk_jw_put_bool(w, "used", i->used);
    stk_jw_put_u64(w, "files", i->files);
    stk_jw_put_u64(w, "bytes", i->bytes);
    stk_jw_put_u64(w, "bytes_there", i->bytes_there);
    stk_jw_put_f64(w, "used_time", (double)i->used_ns * 1e-9);
    stk_jw_put_str(w, "lease", i->lease);
    stk_jw_close(w, '}');
}

/* Members of --list, --verify and --evict; each has some of them. */
static const struct stk_result_field set_fields[] = {
    {"set", "set", STK_U_TEXT, .flags = STK_F_IF_SET},
    {"source", "source", STK_U_TEXT, .flags = STK_F_CUT | STK_F_IF_SET},
    {"packed", "packed as", STK_U_TEXT, .flags = STK_F_IF_SET},
    {"tier", "folder", STK_U_TEXT, .flags = STK_F_CUT | STK_F_IF_SET},
    {"path", NULL, STK_U_TEXT, .meaning = "the copy, if it is complete"},
    {"complete", "complete", STK_U_FLAG, .flags = STK_F_IF_SET, .none = "no"},
    {"filling", "being filled", STK_U_FLAG, .flags = STK_F_PAGE},
    {"used", "in use", STK_U_FLAG, .flags = STK_F_IF_SET, .none = "no"},
    {"files", "files", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"bytes", "bytes", STK_U_BYTES, .flags = STK_F_IF_SET},
    {"bytes_there", "there", STK_U_BYTES, .flags = STK_F_IF_SET, .none = "-"},
    {"used_time", NULL, STK_U_PLAIN, .meaning = "of the last use, seconds since 1970"},
    {"lease", NULL, STK_U_TEXT, .meaning = "who filled it last"},
    {"parcels_bad", "damaged parcels", STK_U_COUNT, .flags = STK_F_IF_SET, .none = "none"},
    {"first", "first damage", STK_U_TEXT, .flags = STK_F_REMARK},
    {"evicted", "removed", STK_U_FLAG, .flags = STK_F_IF_SET, .none = "no"},
    {NULL}};

static const struct stk_result_field sets_fields[] = {
    {"sets", "copies", STK_U_TABLE, .of = set_fields, .none = "no copies on this node"}, {NULL}};

static bool is_sets(const struct stk_jval *r)
{
    return stk_json_get(r, "sets") != NULL;
}

static void sets_verdict(const struct stk_jval *r, struct stk_buf *out)
{
    const struct stk_jval *sets = stk_json_get(r, "sets");
    size_t n = stk_pg_has_rows(sets) ? sets->len : 0, complete = 0;
    for (size_t i = 0; i < n; i++)
        complete += stk_pg_true(&sets->item[i], "complete");
    if (n == 1)
        stk_buf_printf(out, "1 copy of a dataset: it is %scomplete.", complete ? "" : "not ");
    else
        stk_buf_printf(out, "%zu copies of datasets, %zu of them complete.", n, complete);
}

const struct stk_result_kind stk_sets_kind = {.command = "stage",
                                              .doing = "Copies on a node",
                                              .subject = SIZE_MAX,
                                              .fields = sets_fields,
                                              .takes = is_sets,
                                              .verdict = sets_verdict};

/* ---- the check ---- */

void stk_stage_check_text(const struct stk_stage_check *c, const char *path, struct stk_buf *out)
{
    char a[32], b[32], d[32];
    stk_buf_printf(out, "checked %s file%s, %s, of the copy of ",
                   stk_format_count(c->files, a, sizeof a), c->files == 1 ? "" : "s",
                   stk_format_size(c->bytes, b, sizeof b));
    stk_text_escape(out, path, strlen(path), SIZE_MAX);
    if (!c->bad) {
        stk_buf_puts(out, ": every byte is as it was read from the source\n");
        return;
    }
    stk_buf_printf(out, ": %s of its parcels differ or are missing, the first in ",
                   stk_format_count(c->bad, d, sizeof d));
    stk_text_escape(out, c->first, strlen(c->first), SIZE_MAX);
    stk_buf_puts(out, "; they are not used any more, and the next `stoker stage` mends them\n");
}

void stk_stage_check_json(const struct stk_stage_check *c, const char *path, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "source", path);
    stk_jw_put_u64(w, "files", c->files);
    stk_jw_put_u64(w, "bytes", c->bytes);
    stk_jw_put_u64(w, "parcels_bad", c->bad);
    stk_jw_put_str(w, "first", c->first[0] ? c->first : NULL);
    stk_jw_close(w, '}');
}
