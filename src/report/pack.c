/* pack.c - the result of `stoker pack` as a table of facts, and as JSON. */
#include "report/pack.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"
#include "format/format.h"
#include "report/grid.h"
#include "report/problems.h"

const char *stk_pack_replaced(const struct stk_pack_result *r, char *buf, size_t n)
{
    char a[32], b[32];
    snprintf(buf, n, "a dataset of %s samples", stk_format_count(r->replaced, a, sizeof a));
    if (r->replaced > r->samples)
        snprintf(buf + strlen(buf), n - strlen(buf), ": %s more than now",
                 stk_format_count(r->replaced - r->samples, b, sizeof b));
    return buf;
}

void stk_pack_text(const struct stk_pack_result *r, const char *dst, struct stk_buf *out)
{
    char a[32], b[32], c[32], line[200];
    const struct stk_format *f = stk_format_find(r->format);
    struct stk_buf name = STK_BUF_INIT;
    struct stk_grid t;
    stk_text_escape(&name, dst, strlen(dst), SIZE_MAX);
    stk_grid_init(&t, "ll");
    stk_grid_row(&t, r->whole ? "already complete" : "packed", stk_buf_cstr(&name));
    stk_grid_row(&t, "format", f ? f->title : r->format);
    stk_grid_row(&t, "samples", stk_format_count(r->samples, a, sizeof a));
    if (r->replaced)
        stk_grid_row(&t, "replaced", stk_pack_replaced(r, line, sizeof line));
    if (r->classes)
        stk_grid_row(&t, "classes", stk_format_count(r->classes, a, sizeof a));
    if (r->class_by_class)
        stk_grid_row(&t, "order", "class after class; --shuffle SEED mixes them permanently");
    snprintf(line, sizeof line, "%s, %s", stk_format_count(r->files, a, sizeof a),
             stk_format_size(r->bytes_out, b, sizeof b));
    if (r->shards_kept)
        snprintf(line + strlen(line), sizeof line - strlen(line), "; %s kept from the earlier run",
                 stk_format_count(r->shards_kept, a, sizeof a));
    if (r->shards_redone)
        snprintf(line + strlen(line), sizeof line - strlen(line),
                 "; %s packed again, changed since they were finished",
                 stk_format_count(r->shards_redone, a, sizeof a));
    stk_grid_row(&t, "files", line);
    double s = r->seconds_total > 0 ? r->seconds_total : 1e-9;
    snprintf(line, sizeof line, "%s; %s/s read, %s samples/s",
             stk_format_duration(r->seconds_total, a, sizeof a),
             stk_format_size((uint64_t)((double)r->bytes_in / s), b, sizeof b),
             stk_format_count((uint64_t)((double)r->samples / s), c, sizeof c));
    stk_grid_row(&t, "time", line);
    if (r->skipped.count)
        stk_grid_row(&t, "skipped", stk_format_count(r->skipped.count, a, sizeof a));
    stk_notes_rows(&r->notes, &t);
    stk_grid_render(&t, 0, out);
    stk_problems_text(&r->skipped, 20, out);
    stk_grid_release(&t);
    stk_buf_release(&name);
}

void stk_pack_json(const struct stk_pack_result *r, struct stk_jw *w)
{
    const struct {
        const char *name;
        uint64_t v;
    } numbers[] = {{"samples", r->samples},         {"shards", r->shards},
                   {"shards_kept", r->shards_kept}, {"classes", r->classes},
                   {"bytes_in", r->bytes_in},       {"bytes_out", r->bytes_out},
                   {"replaced", r->replaced},       {"shards_redone", r->shards_redone}};
    stk_jw_put_str(w, "format", r->format);
    stk_jw_put_bool(w, "whole_already", r->whole);
    stk_jw_put_bool(w, "class_by_class", r->class_by_class);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        stk_jw_key(w, numbers[i].name);
        stk_jw_u64(w, numbers[i].v);
    }
    stk_jw_put_f64(w, "index_seconds", r->seconds_index);
    stk_jw_put_f64(w, "total_seconds", r->seconds_total);
    stk_problems_json(&r->skipped, "skipped", w);
    stk_notes_json(&r->notes, w);
}
