/* launch.c - a program that `stoker profile` has run: a line of text, and JSON. */
#include "report/launch.h"

#include "base/quote.h"

void stk_launch_text(const struct stk_launch_result *r, struct stk_buf *out)
{
    struct stk_buf dir = STK_BUF_INIT;
    stk_quote_shell(&dir, r->dir);
    stk_buf_printf(out, "stoker: profile in %s; read it with: stoker report %s\n",
                   stk_buf_cstr(&dir), stk_buf_cstr(&dir));
    stk_buf_release(&dir);
}

void stk_launch_json(const struct stk_launch_result *r, struct stk_jw *w)
{
    stk_jw_put_str(w, "profile", r->dir);
    stk_jw_put_str(w, "run", r->run);
    stk_jw_put_u64(w, "program_status", (uint64_t)r->status);
    stk_jw_put_known_i64(w, "program_signal", r->signal ? r->signal : -1);
    stk_jw_put_f64(w, "program_seconds", r->seconds);
    stk_jw_put_f64(w, "cpu_s", r->cpu_s);
    stk_jw_put_u64(w, "peak_resident_bytes", r->peak_resident_bytes);
    stk_jw_put_u64(w, "samples", r->readings);
    stk_jw_put_u64(w, "logs", r->logs);
    stk_jw_put_u64(w, "unseen_processes", r->unseen);
    stk_jw_put_str(w, "spool_left", r->spool_left);
    stk_jw_put_strs(w, "notes", r->note, r->nnotes);
}
