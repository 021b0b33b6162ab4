/* verify.c - the result of `stoker verify`: its problems and a verdict as text, all as JSON. */
#include "report/verify.h"

#include "base/style.h"
#include "base/text.h"
#include "base/units.h"
#include "report/grid.h"
#include "report/problems.h"

/* "whole", "readable", "damaged, 3 problems", "not all of it was read: 2 links left out". Nothing
 * is known to be whole if there is no checksum to compare it with. */
static void put_verdict(const struct stk_verify_result *r, struct stk_buf *out)
{
    char a[32];
    uint64_t damage = r->problems.count - r->problems.unsupported;
    const char *comma = ": ";
    if (!r->problems.count && !stk_notes_missing(&r->notes)) {
        stk_buf_printf(out, ": " STK_GOOD "%s" STK_PLAIN,
                       r->checksummed_bytes || !r->bytes ? "whole" : "readable");
        return;
    }
    if (damage)
        stk_buf_printf(out, ": " STK_BAD "damaged" STK_PLAIN ", %s problem%s",
                       stk_format_count(damage, a, sizeof a), damage == 1 ? "" : "s");
    if (!r->problems.unsupported && !stk_notes_missing(&r->notes))
        return;
    stk_buf_printf(out, "%s " STK_WARN "not all of it was read" STK_PLAIN, damage ? ";" : ":");
    if (r->problems.unsupported) {
        stk_buf_printf(out, ": %s unsupported",
                       stk_format_count(r->problems.unsupported, a, sizeof a));
        comma = ", ";
    }
    if (stk_notes_missing(&r->notes)) {
        stk_buf_puts(out, comma);
        stk_notes_summary(&r->notes, out);
        stk_buf_puts(out, " left out");
    }
}

void stk_verify_text(const struct stk_verify_result *r, const char *path, size_t most,
                     struct stk_buf *out)
{
    char a[32], b[32], c[32], d[32];
    stk_problems_text(&r->problems, most, out);
    struct stk_grid t;
    stk_grid_init(&t, "ll");
    stk_notes_rows(&r->notes, &t);
    stk_grid_render(&t, 0, out);
    stk_grid_release(&t);
    stk_buf_printf(out, "checked %s sample%s in %s file%s, %s in %s",
                   stk_format_count(r->samples, a, sizeof a), r->samples == 1 ? "" : "s",
                   stk_format_count(r->files, b, sizeof b), r->files == 1 ? "" : "s",
                   stk_format_size(r->bytes, c, sizeof c),
                   stk_format_duration(r->seconds, d, sizeof d));
    if (r->seconds > 0)
        stk_buf_printf(out, " (%s/s)",
                       stk_format_size((uint64_t)((double)r->bytes / r->seconds), d, sizeof d));
    stk_buf_putc(out, '\n');
    stk_text_escape(out, path, strlen(path), SIZE_MAX);
    put_verdict(r, out);
    if (r->checksummed_bytes)
        stk_buf_printf(
            out, "; %s of the bytes are under checksums",
            stk_percent_text((double)r->checksummed_bytes / (double)r->bytes, a, sizeof a));
    else if (r->bytes)
        stk_buf_puts(out, "; no checksums to compare");
    stk_buf_putc(out, '\n');
}

void stk_verify_json(const struct stk_verify_result *r, struct stk_jw *w)
{
    stk_jw_put_str(w, "format", r->format);
    stk_jw_put_bool(w, "whole", r->problems.count == 0 && stk_notes_missing(&r->notes) == 0);
    stk_jw_put_u64(w, "unsupported", r->problems.unsupported);
    stk_jw_put_u64(w, "files", r->files);
    stk_jw_put_u64(w, "samples", r->samples);
    stk_jw_put_u64(w, "bytes", r->bytes);
    stk_jw_put_u64(w, "checksummed_bytes", r->checksummed_bytes);
    stk_jw_put_bool(w, "has_manifest", r->has_manifest);
    stk_jw_put_f64(w, "verify_seconds", r->seconds);
    stk_problems_json(&r->problems, "problems", w);
    stk_notes_json(&r->notes, w);
}
