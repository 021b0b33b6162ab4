/* stage.c - the result of `stoker stage`, the list of copies, and the check of a copy. */
#include "report/stage.h"

#include <stdio.h>
#include <time.h>

#include "base/text.h"
#include "base/units.h"
#include "report/grid.h"
#include "report/problems.h"

static void put_path_row(struct stk_grid *t, const char *what, const char *path)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_text_escape(&b, path, strlen(path), SIZE_MAX);
    stk_grid_row(t, what, stk_buf_cstr(&b));
    stk_buf_release(&b);
}

/* "1,200 files, 3.4 GiB; 1.1 GiB of it were there" */
static void put_amount(const struct stk_stage_result *r, struct stk_grid *t)
{
    char a[32], b[32], c[32], line[160];
    int n = snprintf(line, sizeof line, "%s file%s, %s", stk_format_count(r->files, a, sizeof a),
                     r->files == 1 ? "" : "s", stk_format_size(r->bytes, b, sizeof b));
    if (!r->already && r->bytes_before && n > 0)
        snprintf(line + n, sizeof line - (size_t)n, "; %s of it were there",
                 stk_format_size(r->bytes_before, c, sizeof c));
    stk_grid_row(t, "data", line);
}

static void put_time(const struct stk_stage_shown *s, struct stk_grid *t)
{
    const struct stk_stage_result *r = s->result;
    char a[32], b[32], c[32], d[32], line[200];
    double copy_s = r->copy_s > 0 ? r->copy_s : 1e-9;
    snprintf(line, sizeof line, "%s: list %s, copy %s (%s/s), sync and publish %s",
             stk_format_duration(s->total_s, a, sizeof a),
             stk_format_duration(s->list_s, b, sizeof b),
             stk_format_duration(r->copy_s, c, sizeof c),
             stk_format_size((uint64_t)((double)r->bytes_copied / copy_s), d, sizeof d),
             stk_format_duration(r->sync_s, (char[32]){0}, 32));
    stk_grid_row(t, "time", line);
}

void stk_stage_text(const struct stk_stage_shown *s, struct stk_buf *out)
{
    const struct stk_stage_result *r = s->result;
    struct stk_grid t;
    stk_grid_init(&t, "ll");
    put_path_row(&t, r->already ? "already there" : "staged", s->src->path);
    put_path_row(&t, "to", s->tier);
    if (s->why[0])
        put_path_row(&t, "", s->why);
    put_amount(r, &t);
    if (!r->already)
        put_time(s, &t);
    if (r->engine[0])
        stk_grid_row(&t, "read by", r->engine);
    stk_notes_rows(&s->src->notes, &t);
    stk_grid_render(&t, 0, out);
    stk_grid_release(&t);
}

void stk_stage_json(const struct stk_stage_shown *s, struct stk_jw *w)
{
    const struct stk_stage_result *r = s->result;
    stk_jw_put_str(w, "source", s->src->path);
    stk_jw_put_bool(w, "staged", r->path != NULL);
    stk_jw_put_str(w, "path", r->path ? r->path : s->src->path);
    stk_jw_put_str(w, "tier", s->tier);
    stk_jw_put_str(w, "tier_reason", s->why[0] ? s->why : NULL);
    stk_jw_put_str(w, "set", r->id);
    stk_jw_put_bool(w, "dataset", s->src->ds != NULL);
    stk_jw_put_bool(w, "already_there", r->already);
    stk_jw_put_u64(w, "files", s->src->count);
    stk_jw_put_u64(w, "bytes", s->src->bytes);
    stk_jw_put_u64(w, "bytes_before", r->bytes_before);
    stk_jw_put_u64(w, "bytes_copied", r->bytes_copied);
    stk_jw_put_f64(w, "list_seconds", s->list_s);
    stk_jw_put_known_f64(w, "first_seconds", s->first_s);
    stk_jw_put_f64(w, "copy_seconds", r->copy_s);
    stk_jw_put_f64(w, "publish_seconds", r->sync_s);
    stk_jw_put_f64(w, "total_seconds", s->total_s);
    stk_jw_put_str(w, "engine", r->engine[0] ? r->engine : NULL);
    stk_notes_json(&s->src->notes, w);
}

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
