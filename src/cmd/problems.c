/* problems.c - rendering lists of damage. Names and messages hold bytes of the data: escaped. */
#include "cmd/problems.h"

#include <stdio.h>

#include "base/text.h"
#include "base/units.h"

void stk_problems_text(const struct stk_problems *p, size_t most, struct stk_buf *out)
{
    size_t n = p->kept < most ? p->kept : most;
    for (size_t i = 0; i < n; i++) {
        const struct stk_problem *one = &p->item[i];
        if (one->path)
            stk_text_escape(out, one->path, strlen(one->path), SIZE_MAX);
        if (one->offset >= 0)
            stk_buf_printf(out, ":%lld", (long long)one->offset);
        stk_buf_puts(out, ": ");
        if (one->what)
            stk_text_escape(out, one->what, strlen(one->what), SIZE_MAX);
        stk_buf_putc(out, '\n');
    }
    char count[32];
    if (p->count > n)
        stk_buf_printf(out, "and %s more; --json FILE lists %s\n",
                       stk_format_count(p->count - n, count, sizeof count),
                       p->count > p->kept ? "the first 1,000" : "all");
}

void stk_problems_json(const struct stk_problems *p, const char *name, struct stk_jw *w)
{
    char total[64];
    snprintf(total, sizeof total, "%s_total", name);
    stk_jw_key(w, total);
    stk_jw_u64(w, p->count);
    stk_jw_key(w, name);
    stk_jw_open(w, '[');
    for (size_t i = 0; i < p->kept; i++) {
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "path", p->item[i].path);
        stk_jw_key(w, "offset");
        if (p->item[i].offset >= 0)
            stk_jw_i64(w, p->item[i].offset);
        else
            stk_jw_null(w);
        stk_jw_put_str(w, "what", p->item[i].what);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}
