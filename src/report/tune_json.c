/* tune_json.c - the result of `stoker tune` for programs: every candidate with its keys, its
 * numbers and its actions. */
#include <math.h>

#include "report/report.h"
#include "report/report_priv.h"
#include "report/tune.h"

static void put_change(struct stk_jw *w, const struct stk_tune_change *c)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "id", c->id);
    stk_jw_put_str(w, "label", c->label);
    stk_jw_put_strs(w, "set", c->set, c->nset);
    stk_jw_put_str(w, "reader", c->loader ? "stoker" : "application");
    stk_jw_put_str(w, "format", c->format);
    stk_jw_put_str(w, "where", c->where);
    stk_jw_close(w, '}');
}

static void put_costs(struct stk_jw *w, const struct stk_tune_candidate *c)
{
    stk_jw_key(w, "costs");
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "disk_bytes", c->disk_bytes);
    stk_jw_put_u64(w, "memory_bytes", c->memory_bytes);
    stk_jw_put_f64(w, "once_s", c->once_s);
    stk_jw_put_f64(w, "pays_after_epochs", c->pays_after);
    stk_jw_put_f64(w, "mixing", c->mixing);
    stk_jw_close(w, '}');
}

static void put_actions(struct stk_jw *w, const struct stk_tune *t,
                        const struct stk_tune_candidate *c)
{
    struct stk_action act[STK_TUNE_CHANGES * STK_TUNE_ACTIONS];
    struct stk_snippets code = {0};
    struct stk_buf lines = STK_BUF_INIT;
    size_t n = stk_tune_actions(t, c, act);
    stk_jw_key(w, "actions");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++)
        stk_report_action_json(&act[i], w);
    stk_jw_close(w, ']');
    stk_tune_code(t, c, &code);
    stk_report_code_json(w, code.snippet, code.n);
    for (size_t i = 0; i < code.n; i++)
        stk_buf_puts(&lines, code.snippet[i].text);
    stk_jw_put_str(w, "lines", stk_buf_cstr(&lines)); /* the same without the languages */
    stk_buf_release(&lines);
    stk_snippets_release(&code);
}

static void put_candidate(struct stk_jw *w, const struct stk_tune *t,
                          const struct stk_tune_candidate *c)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "id", c->id);
    stk_jw_put_str(w, "label", c->label);
    stk_jw_put_str(w, "verdict", c->nchanges ? stk_tune_verdict_name(c->verdict) : "baseline");
    stk_jw_put_str(w, "why", c->why[0] ? c->why : NULL);
    stk_jw_put_f64(w, "predicted_epoch_s", c->predicted_s);
    stk_jw_put_f64(w, "epoch_s", c->epoch_s);
    stk_report_interval(w, "epoch_ci", c->epoch_ci);
    stk_jw_put_f64(w, "utilisation", c->utilisation);
    stk_jw_put_f64(w, "times", c->gain.times);
    /* The baseline is compared with itself: it has no interval. */
    stk_report_interval(w, "times_ci", c->nchanges ? c->gain.ci : (struct stk_interval){NAN, NAN});
    stk_jw_put_u64(w, "pairs", c->gain.runs);
    if (c->nchanges)
        stk_report_verdict(w, "against_baseline", &c->gain);
    stk_jw_put_f64(w, "cpus_busy", c->cores);
    stk_jw_put_u64(w, "runs", c->runs);
    stk_jw_put_bool(w, "confirmed", c->confirmed);
    stk_jw_key(w, "changes");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < c->nchanges; i++)
        put_change(w, &c->change[i]);
    stk_jw_close(w, ']');
    put_costs(w, c);
    put_actions(w, t, c);
    stk_jw_close(w, '}');
}

void stk_tune_json(const struct stk_tune *t, struct stk_jw *w)
{
    struct stk_buf said = STK_BUF_INIT;
    char promise[120];
    stk_jw_put_str(w, "name", t->name);
    stk_jw_put_str(w, "file_system", t->file_system);
    stk_jw_put_u64(w, "files", t->files);
    stk_jw_put_u64(w, "bytes", t->bytes);
    stk_jw_put_u64(w, "sample_bytes", t->sample_bytes);
    stk_jw_put_u64(w, "ranks", t->ranks);
    stk_jw_put_u64(w, "steps_per_run", t->steps);
    stk_jw_put_f64(w, "least", t->least);
    stk_jw_put_str(w, "promise", stk_verdict_promise(t->least, promise, sizeof promise));
    stk_jw_put_str(w, "via", t->via ? t->via->name : NULL);
    stk_jw_put_bool(w, "stopped", t->stopped);
    stk_jw_put_bool(w, "budget_spent", t->budget_spent);
    stk_jw_put_f64(w, "seconds", t->seconds);
    stk_jw_put_str(w, "folder", t->dir);
    stk_jw_put_str(w, "best", t->best ? t->candidate[t->best].id : NULL);
    stk_jw_put_bool(w, "chosen", t->chosen);
    stk_tune_said(t, &said);
    stk_jw_put_str(w, "verdict", stk_buf_cstr(&said));
    stk_buf_release(&said);
    stk_jw_key(w, "candidates");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < t->n; i++)
        put_candidate(w, t, &t->candidate[i]);
    stk_jw_close(w, ']');
    stk_jw_put_rows(w, "notes", t->note, sizeof t->note[0], t->nnotes);
}

void stk_tune_check_json(const struct stk_tune_check *c, struct stk_jw *w)
{
    stk_jw_key(w, "check");
    stk_jw_open(w, '{');
    stk_jw_put_f64(w, "before_s", c->before_s);
    stk_jw_put_f64(w, "after_s", c->after_s);
    stk_jw_put_f64(w, "before_least_s", c->before_least_s);
    stk_jw_put_f64(w, "before_most_s", c->before_most_s);
    stk_jw_put_u64(w, "failed_before", c->failed_before);
    stk_jw_put_u64(w, "failed_after", c->failed_after);
    stk_jw_put_f64(w, "times", c->gain.times);
    stk_report_interval(w, "times_ci", c->gain.ci);
    stk_jw_put_u64(w, "pairs", c->gain.runs);
    stk_report_verdict(w, "verdict", &c->gain);
    stk_jw_close(w, '}');
}
