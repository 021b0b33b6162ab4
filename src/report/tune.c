/*
 * tune.c - the results of `stoker tune`: what each change gains against the job as it is, what it
 * costs, and how to make it; and a command before and after a change.
 */
#include "report/tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/units.h"
#include "report/report.h"
#include "report/report_priv.h"
#include "result/blocks.h"
#include "result/screen.h"

#define WIDE    8   /* times as fast: more is drawn on a logarithmic axis */
#define DIFFERS 2.0 /* times as long: two runs of one command did not do the same */

/* ---- a change ------------------------------------------------------------------------------- */

STK_TEXT_OF(change_reader, struct stk_tune_change, r->loader ? "stoker" : "application")
STK_TEXT_OF(change_advice, struct stk_tune_change, stk_tune_advice(r))

static void change_set(const void *base, struct stk_jw *w)
{
    const struct stk_tune_change *c = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < c->nset; i++)
        stk_jw_str(w, c->set[i]);
    stk_jw_close(w, ']');
}

#define CHANGE(member) STK_FROM(struct stk_tune_change, member)
static const struct stk_result_field change_fields[] = {
    {"id", NULL, STK_U_TEXT, STK_FROM_AS(CHARS, struct stk_tune_change, id)},
    {"label", NULL, STK_U_TEXT, STK_FROM_AS(CHARS, struct stk_tune_change, label)},
    {"set", NULL, STK_U_LIST, .put = change_set, .meaning = "keys of the workload"},
    {"reader", NULL, STK_U_TEXT, .put = change_reader},
    {"format", NULL, STK_U_TEXT, CHANGE(format), "of prepared data"},
    {"where", NULL, STK_U_TEXT, CHANGE(where), "of a copy: the folder on faster storage"},
    {"advice", NULL, STK_U_TEXT, .put = change_advice, .meaning = "what no action carries out"},
    {NULL}};

/* ---- a candidate ---------------------------------------------------------------------------- */

struct row {
    const struct stk_tune *t;
    const struct stk_tune_candidate *c;
};

static bool is_measured(const struct stk_tune_candidate *c)
{
    return !isnan(c->gain.times) && c->nchanges;
}

static void times_ci(const void *base, struct stk_jw *w)
{
    const struct stk_tune_candidate *c = base; /* the baseline is compared with itself */
    stk_interval_put(c->nchanges ? c->gain.ci : (struct stk_interval){NAN, NAN}, w);
}

static void against(const void *base, struct stk_jw *w)
{
    const struct stk_tune_candidate *c = base;
    if (c->nchanges)
        stk_verdict_put(&c->gain, w);
    else
        stk_jw_null(w);
}

static void candidate_changes(const void *base, struct stk_jw *w)
{
    const struct stk_tune_candidate *c = base;
    stk_rows_put(change_fields, c->change, c->nchanges, sizeof c->change[0], w);
}

/* What became of it, in one or two words. */
static void outcome(const void *base, struct stk_jw *w)
{
    const struct row *r = base;
    const struct stk_tune_candidate *c = r->c;
    char word[40];
    stk_jw_str(w, !c->nchanges                           ? NULL
                  : c->verdict == STK_TUNE_FAILED        ? "failed"
                  : c->verdict == STK_TUNE_DROPPED ||
                          c->verdict == STK_TUNE_SKIPPED ? "not tried"
                  : c == &r->t->candidate[r->t->best]    ? (r->t->chosen ? "chosen" : "best")
                  : !isnan(c->gain.times)           ? stk_verdict_word(&c->gain, word, sizeof word)
                  : c->verdict == STK_TUNE_NOTHING       ? "slower"
                                                         : "not known");
}

/* Of gains that cost something. */
static void pays_after(const void *base, struct stk_jw *w)
{
    const struct stk_tune_candidate *c = base;
    bool costs = c->disk_bytes || c->memory_bytes || c->once_s > 0 || !isnan(c->mixing);
    char text[40];
    snprintf(text, sizeof text, c->pays_after > 0 ? "%.0f epoch%s" : "at once", c->pays_after,
             c->pays_after > 1 ? "s" : "");
    stk_jw_str(w, c->verdict != STK_TUNE_GAIN || !costs ? NULL
                  : isnan(c->pays_after)                ? "not known"
                  : isinf(c->pays_after)                ? "never"
                                                        : text);
}

/* The code that carries it out, for people to paste. */
static void put_code(const struct row *r, struct stk_jw *w)
{
    struct stk_action act[STK_TUNE_CHANGES * STK_TUNE_ACTIONS];
    const struct stk_action_scene scene = {.nodes = 1, .python = true,
                                           .framework = r->t->framework};
    struct stk_snippets code = {0};
    struct stk_buf lines = STK_BUF_INIT;
    size_t n = stk_tune_actions(r->t, r->c, act);
    stk_jw_key(w, "actions");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++)
        stk_report_action_json(&act[i], w);
    stk_jw_close(w, ']');
    stk_actions_render(act, n, &scene, &code);
    stk_report_code_json(w, code.snippet, code.n);
    for (size_t i = 0; i < code.n; i++)
        stk_buf_puts(&lines, code.snippet[i].text);
    stk_jw_put_str(w, "lines", stk_buf_cstr(&lines));
    stk_buf_release(&lines);
    stk_snippets_release(&code);
}

static void candidate_code(const void *base, struct stk_jw *w)
{
    put_code(base, w);
}

#define OF(name, expression) STK_NUMBER_OF(name, struct stk_tune_candidate, expression)
#define FROM(member)         STK_FROM(struct stk_tune_candidate, member)
#define CHARS(member)        STK_FROM_AS(CHARS, struct stk_tune_candidate, member)

OF(half_width, r->nchanges && stk_interval_known(r->gain.ci)
                   ? fmax(r->gain.times - r->gain.ci.lo, r->gain.ci.hi - r->gain.times) : NAN)
OF(computing, r->epoch_s *fmin(fmax(r->utilisation, 0), 1))
OF(the_rest, r->epoch_s *(isnan(r->utilisation) ? 1 : 1 - fmin(fmax(r->utilisation, 0), 1)))
OF(pairs, (double)r->gain.runs)
STK_NUMBER_OF(expected, struct row,
              r->c->nchanges ? r->t->candidate[0].predicted_s / r->c->predicted_s : NAN)
STK_TEXT_OF(verdict_name, struct stk_tune_candidate,
            r->nchanges ? stk_tune_verdict_name(r->verdict) : "baseline")
STK_TEXT_OF(candidate_why, struct stk_tune_candidate, r->why[0] ? r->why : NULL)

static const struct stk_result_field cost_fields[] = {
    {"disk_bytes", NULL, STK_U_BYTES, FROM(disk_bytes)},
    {"memory_bytes", NULL, STK_U_BYTES, FROM(memory_bytes), "on each node"},
    {"once_s", NULL, STK_U_SECONDS, FROM(once_s), "of preparing all of the data"},
    {"pays_after_epochs", NULL, STK_U_PLAIN, FROM(pays_after)},
    {"mixing", NULL, STK_U_SHARE, FROM(mixing), "compared with a full shuffle"},
    {NULL}};

static const struct stk_result_field code_fields[] = {
    {"language", NULL, STK_U_TEXT}, {"text", NULL, STK_U_TEXT}, {NULL}};
static const struct stk_result_field paste_fields[] = {
    {"actions", NULL, STK_U_LIST, .meaning = "paths and numbers that programs can act on"},
    {"code", NULL, STK_U_TABLE, .of = code_fields},
    {"lines", NULL, STK_U_TEXT, .meaning = "the code without the languages"},
    {NULL}};

static const struct stk_result_field own_fields[] = {
    {"id", NULL, STK_U_TEXT, CHARS(id)},
    {"label", NULL, STK_U_TEXT, CHARS(label)},
    {"verdict", NULL, STK_U_TEXT, .put = verdict_name},
    {"why", NULL, STK_U_TEXT, .put = candidate_why},
    {"predicted_epoch_s", NULL, STK_U_SECONDS, FROM(predicted_s)},
    {"epoch_s", NULL, STK_U_SECONDS, FROM(epoch_s)},
    {"epoch_ci", NULL, STK_U_LIST, FROM(epoch_ci)},
    {"computing_s", NULL, STK_U_SECONDS, .number = computing,
     .meaning = "the part of epoch_s in which the accelerators compute"},
    {"rest_s", NULL, STK_U_SECONDS, .number = the_rest},
    {"utilisation", NULL, STK_U_SHARE, FROM(utilisation), "of the accelerators"},
    {"times", NULL, STK_U_TIMES, FROM(gain.times), "as fast as the job as it is"},
    {"times_ci", NULL, STK_U_LIST, .put = times_ci, .meaning = "of it, 95 %"},
    {"times_half_width", NULL, STK_U_TIMES, .number = half_width,
     .meaning = "the larger half of times_ci"},
    {"pairs", NULL, STK_U_COUNT, .number = pairs, .meaning = "of runs that were compared"},
    {"against_baseline", NULL, STK_U_GROUP, .put = against, .of = stk_verdict_fields},
    {"cpus_busy", NULL, STK_U_PLAIN, FROM(cores)},
    {"runs", NULL, STK_U_COUNT, FROM(runs), "that ended well"},
    {"confirmed", NULL, STK_U_FLAG, FROM(confirmed), "its numbers are of a second measurement"},
    {"changes", NULL, STK_U_TABLE, .put = candidate_changes, .of = change_fields},
    {"costs", NULL, STK_U_GROUP, .of = cost_fields},
    {"pays_after", NULL, STK_U_TEXT, .put = pays_after, .meaning = "null: it costs nothing"},
    {NULL}};

static const struct stk_result_field candidate_fields[] = {
    {"", NULL, STK_U_GROUP, STK_FROM_AS(POINTER, struct row, c), .of = own_fields},
    {"times_expected", NULL, STK_U_TIMES, .number = expected,
     .meaning = "times, predicted before anything was tried"},
    {"outcome", NULL, STK_U_TEXT, .put = outcome, .meaning = "verdict, as it is shown"},
    {"", NULL, STK_U_GROUP, .put = candidate_code, .of = paste_fields},
    {NULL}};

static void put_candidates(const void *base, struct stk_jw *w)
{
    const struct stk_tune *t = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < t->n; i++) {
        const struct row r = {t, &t->candidate[i]};
        stk_jw_open(w, '{');
        stk_fields_put(candidate_fields, &r, w);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

/* ---- tables and plots of them --------------------------------------------------------------- */

static bool is_tried(const struct stk_jval *c)
{
    return isfinite(stk_pg_get(c, "times"));
}

static bool is_baseline(const struct stk_jval *c)
{
    const struct stk_jval *changes = stk_json_get(c, "changes");
    return changes && changes->type == STK_JARR && !changes->len;
}

static bool is_change(const struct stk_jval *c)
{
    return !is_baseline(c) && is_tried(c);
}

static bool is_untried(const struct stk_jval *c)
{
    return !is_baseline(c) && !is_tried(c);
}

static bool has_costs(const struct stk_jval *c)
{
    return stk_pg_text(c, "pays_after", NULL);
}

static const struct stk_result_field screen_columns[] = {
    {"epoch_s", "epoch", STK_U_SECONDS},
    {"utilisation", "busy", STK_U_SHARE, .flags = STK_F_IF_SET},
    {"times", "speed", STK_U_TIMES},
    {"times_half_width", stk_plus_minus, STK_U_TIMES, .flags = STK_F_IF_SET},
    {"times_expected", "expected", STK_U_TIMES, .flags = STK_F_IF_SET},
    {"outcome", "verdict", STK_U_TEXT, .flags = STK_F_IF_SET},
    {"label", "change", STK_U_TEXT, .flags = STK_F_WRAP},
    {NULL}};

static const struct stk_result_field cost_columns[] = {
    {"costs.disk_bytes", "disk", STK_U_BYTES, .flags = STK_F_IF_SET},
    {"costs.memory_bytes", "memory per node", STK_U_BYTES, .flags = STK_F_IF_SET},
    {"costs.once_s", "once", STK_U_SECONDS, .flags = STK_F_IF_SET},
    {"pays_after", "pays after", STK_U_TEXT},
    {"costs.mixing", "mixing", STK_U_SHARE, .flags = STK_F_IF_SET},
    {"label", "what it costs", STK_U_TEXT, .flags = STK_F_WRAP},
    {NULL}};

static const struct stk_result_field page_cost_columns[] = {
    {"label", "change", STK_U_TEXT},
    {"costs.disk_bytes", "disk", STK_U_BYTES},
    {"costs.memory_bytes", "memory per node", STK_U_BYTES},
    {"costs.once_s", "preparing, once", STK_U_SECONDS},
    {"costs.pays_after_epochs", "pays after epochs", STK_U_PLAIN},
    {"costs.mixing", "mixing", STK_U_SHARE},
    {NULL}};

static const struct stk_result_field page_columns[] = {
    {"label", "change", STK_U_TEXT},
    {"outcome", "verdict", STK_U_TEXT},
    {"epoch_s", "epoch", STK_U_SECONDS},
    {"epoch_ci.0", "low", STK_U_SECONDS},
    {"epoch_ci.1", "high", STK_U_SECONDS},
    {"utilisation", "busy", STK_U_SHARE},
    {"times", "times as fast", STK_U_TIMES},
    {"times_ci.0", "low", STK_U_TIMES},
    {"times_ci.1", "high", STK_U_TIMES},
    {"predicted_epoch_s", "epoch, expected", STK_U_SECONDS},
    {"cpus_busy", "CPUs busy", STK_U_PLAIN},
    {"runs", "runs", STK_U_COUNT},
    {"confirmed", "measured twice", STK_U_FLAG},
    {NULL}};

static const struct stk_result_field untried_columns[] = {
    {"label", "change", STK_U_TEXT},
    {"outcome", "verdict", STK_U_TEXT},
    {"why", "why", STK_U_PROSE},
    {NULL}};

static const struct stk_result_plot speed_plot = {
    .id = "speed",
    .title = "Changes against the job as it is",
    .text = "How many times as fast an epoch is: measured, with 95 % intervals, and as expected "
            "before anything was tried. Left of the line at 1, a change makes the job slower.",
    .x = "label", .x_name = "change", .flip = true,
    .mark = "candidates.0.times", .mark_name = "as it is",
    .panel = {{"times as fast", STK_U_TIMES,
               {{"times", "measured", "points", "times_ci"},
                {"times_expected", "expected", "points"}},
               .log_above = WIDE}}};

static const struct stk_result_plot epoch_plot = {
    .id = "epochs",
    .title = "An epoch",
    .text = "How long an epoch takes, and for how much of it the accelerators compute, if that is "
            "known. If the runs read a part of the data, it is that of a sample of the data, "
            "multiplied.",
    .x = "label", .x_name = "change", .flip = true,
    .panel = {{"epoch", STK_U_SECONDS,
               {{"computing_s", "computing", "bar"}, {"rest_s", "the rest", "bar"}},
               .stacked = true}}};

/* Those that were not measured for one reason stand in one sentence. */
static void draw_untried(const struct stk_result_field *f, const struct stk_jval *obj,
                         struct stk_screen *s)
{
    const struct stk_jval none = {.type = STK_JARR}, *all = stk_json_get(obj, f->key);
    struct stk_jval those = stk_rows_those(f, all ? all : &none);
    for (size_t i = 0; i < those.len; i++) {
        const char *why = stk_pg_text(&those.item[i], "why", "");
        struct stk_buf names = STK_BUF_INIT;
        bool first = *why;
        for (size_t k = 0; k < those.len && first; k++) {
            if (strcmp(stk_pg_text(&those.item[k], "why", ""), why) != 0)
                continue;
            first = k >= i;
            stk_buf_printf(&names, "%s%s", names.len ? ", " : "",
                           stk_pg_text(&those.item[k], "label", ""));
        }
        if (first && !names.fail) {
            stk_screen_part(s);
            stk_screen_say(s, "%s: %s, %s.", stk_buf_cstr(&names),
                           stk_pg_text(&those.item[i], "outcome",
                                       stk_pg_text(&those.item[i], "verdict", "not known")), why);
        }
        stk_buf_release(&names);
    }
    free(those.item);
}

static const struct stk_jval *best_of(const struct stk_jval *r)
{
    const struct stk_jval *all = stk_json_get(r, "candidates");
    const char *id = stk_pg_text(r, "best", NULL);
    for (size_t i = 0; id && stk_pg_has_rows(all) && i < all->len; i++)
        if (strcmp(stk_pg_text(&all->item[i], "id", ""), id) == 0)
            return &all->item[i];
    return NULL;
}

/* Lines to paste, as they are. */
static void draw_lines(const char *text, const char *indent, struct stk_screen *s)
{
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        stk_buf_puts(s->out, indent);
        stk_text_keep(s->out, text, n);
        stk_buf_putc(s->out, '\n');
    }
}

/* What to do for the best change. */
static void draw_code(const struct stk_result_field *f, const struct stk_jval *obj,
                      struct stk_screen *s)
{
    (void)f;
    const struct stk_jval *best = best_of(obj), *changes = stk_pg_at(best, "changes");
    for (size_t i = 0; stk_pg_has_rows(changes) && i < changes->len; i++) {
        const char *advice = stk_pg_text(&changes->item[i], "advice", NULL);
        if (advice)
            stk_screen_say(s, "Note: %s.", advice);
    }
    const struct stk_jval *code = stk_pg_at(best, "code");
    for (size_t i = 0; stk_pg_has_rows(code) && i < code->len; i++) {
        stk_screen_part(s);
        const char *language = stk_pg_text(&code->item[i], "language", "");
        stk_screen_say(s, "%s:", stk_language_title_of(language));
        draw_lines(stk_pg_text(&code->item[i], "text", ""), "      ", s);
    }
}

static void draw_promise(const struct stk_result_field *f, const struct stk_jval *obj,
                         struct stk_screen *s)
{
    if (!(stk_pg_get(obj, "measured") > 0))
        return;
    stk_screen_part(s);
    stk_screen_say(s, "%s.", stk_pg_text(obj, f->key, ""));
}

static void draw_ask(const struct stk_result_field *f, const struct stk_jval *obj,
                     struct stk_screen *s)
{
    stk_screen_part(s);
    draw_lines(stk_pg_text(obj, f->key, ""), "", s);
}

/* ---- what to change, on the page ------------------------------------------------------------ */

static void put_evidence(struct stk_jw *w, const char *name, double value, enum stk_unit unit)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "name", name);
    stk_jw_put_f64(w, "value", value);
    stk_jw_put_str(w, "unit", stk_unit_name(unit));
    stk_jw_close(w, '}');
}

/* A gain has the shape of a finding: what it is, its numbers, and code to copy. */
static void put_gain(struct stk_jw *w, const struct stk_jval *base, const struct stk_jval *c,
                     const char *word)
{
    static const struct {
        const char *name, *member;
        enum stk_unit unit;
    } evidence[] = {{"as fast", "times", STK_U_TIMES},
                    {"an epoch", "epoch_s", STK_U_SECONDS},
                    {"busy", "utilisation", STK_U_SHARE},
                    {"expected", "times_expected", STK_U_TIMES}};
    const struct stk_jval *code = stk_pg_at(c, "code");
    stk_pg_finding(w, word, stk_pg_text(c, "label", "?"), stk_pg_text(c, "why", NULL),
                   stk_pg_has_rows(code) ? NULL : stk_pg_text(c, "lines", NULL));
    if (stk_pg_has_rows(code)) {
        stk_jw_key(w, "code");
        stk_jw_raw(w, code->raw, code->raw_len);
    }
    stk_jw_put_str(w, "id", stk_pg_text(c, "id", ""));
    stk_jw_key(w, "evidence");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < sizeof evidence / sizeof *evidence; i++)
        if (isfinite(stk_pg_get(c, evidence[i].member)))
            put_evidence(w, evidence[i].name, stk_pg_get(c, evidence[i].member), evidence[i].unit);
    stk_jw_close(w, ']');
    stk_jw_put_f64(w, "gain_s", stk_pg_get(base, "epoch_s") - stk_pg_get(c, "epoch_s"));
    stk_jw_put_str(w, "gain_per", "epoch");
    stk_jw_close(w, '}');
}

static void put_gains(const struct stk_jval *r, struct stk_jw *w)
{
    const struct stk_jval *all = stk_json_get(r, "candidates"), *best = best_of(r);
    const char *gain = stk_tune_verdict_name(STK_TUNE_GAIN);
    stk_pg_findings(w, "What to change");
    if (best)
        put_gain(w, &all->item[0], best, stk_pg_true(r, "chosen") ? "chosen" : "best");
    for (size_t i = 0; stk_pg_has_rows(all) && i < all->len; i++) {
        const struct stk_jval *c = &all->item[i];
        if (c != best && is_change(c) && strcmp(stk_pg_text(c, "verdict", ""), gain) == 0)
            put_gain(w, &all->item[0], c, "faster");
    }
    stk_jw_close(w, ']');
}

/* ---- the verdict ---------------------------------------------------------------------------- */

static size_t count(const struct stk_tune *t, enum stk_tune_verdict verdict)
{
    size_t n = 0;
    for (size_t i = 1; i < t->n; i++)
        n += t->candidate[i].verdict == verdict;
    return n;
}

static double measured(const struct stk_tune *t)
{
    size_t n = 0;
    for (size_t i = 1; i < t->n; i++)
        n += is_measured(&t->candidate[i]);
    return (double)n;
}

static void say_unclear(const struct stk_tune *t, struct stk_buf *out)
{
    const struct stk_tune_candidate *most = NULL; /* that is likely to help */
    size_t unclear = count(t, STK_TUNE_UNCLEAR);
    char text[STK_VERDICT_TEXT];
    for (size_t i = 1; i < t->n; i++) {
        const struct stk_tune_candidate *c = &t->candidate[i];
        if (c->verdict == STK_TUNE_UNCLEAR && is_measured(c) &&
            (!most || c->gain.times > most->gain.times))
            most = c;
    }
    if (!most)
        stk_buf_puts(out, "Not known: the changes were not measured to the end.");
    else
        stk_buf_printf(out, "Not known yet for %zu change%s. The most promising, %s: %s. A larger "
                            "--budget makes more runs.",
                       unclear, unclear == 1 ? "" : "s", most->label,
                       stk_verdict_text(&most->gain, text, sizeof text));
}

/* Not one run of a change came to its end: the first reason stands for the others. */
static void say_no_run(const struct stk_tune *t, struct stk_buf *out)
{
    for (size_t i = 1; i < t->n; i++) {
        const struct stk_tune_candidate *c = &t->candidate[i];
        if (c->verdict != STK_TUNE_FAILED || !*c->why)
            continue;
        stk_buf_printf(out, "Not known: no run of a change has ended well. %s: %s.", c->label,
                       c->why);
        return;
    }
    stk_buf_puts(out, "Not known: no run of a change ended within the budget: use a larger "
                      "--budget.");
}

static void say_nothing(const struct stk_tune *t, struct stk_buf *out)
{
    size_t unclear = count(t, STK_TUNE_UNCLEAR), skipped = count(t, STK_TUNE_SKIPPED);
    bool none = !(measured(t) > 0) && !t->stopped;
    char use[32];
    if (none && (count(t, STK_TUNE_FAILED) || unclear))
        say_no_run(t, out);
    else if (none && skipped)
        stk_buf_printf(out, "Not known: no change was tried, and %zu might help. See above what "
                            "each needs.", skipped);
    else if (unclear || t->stopped)
        say_unclear(t, out);
    else if (t->candidate[0].utilisation > 0.95)
        stk_buf_printf(out, "Nothing to gain: the accelerators are busy for %s of the time.",
                       stk_unit_text(STK_U_SHARE, t->candidate[0].utilisation, use, sizeof use));
    else if (t->n == 1)
        stk_buf_puts(out, "Nothing was tried: tune knows no change for what this job does.");
    else
        stk_buf_printf(out, "Nothing to gain: no change that was tried makes an epoch faster by "
                            "more than %.0f %%.", 100 * t->least);
}

static void verdict(const void *base, struct stk_jw *w)
{
    const struct stk_tune *t = base;
    const struct stk_tune_candidate *c = &t->candidate[t->best];
    struct stk_buf out = STK_BUF_INIT;
    char before[32], after[32], text[STK_VERDICT_TEXT];
    if (!t->best)
        say_nothing(t, &out);
    else if (isnan(c->gain.times))
        stk_buf_printf(&out, "Chosen: %s. It was not measured%s%s.", c->label,
                       c->why[0] ? ": " : "", c->why);
    else
        stk_buf_printf(&out, "%s: %s. An epoch takes %s instead of %s: %s%s%s%s.",
                       t->chosen ? "Chosen" : "Best", c->label,
                       stk_unit_text(STK_U_SECONDS, c->epoch_s, after, sizeof after),
                       stk_unit_text(STK_U_SECONDS, t->candidate[0].epoch_s, before, sizeof before),
                       stk_verdict_text(&c->gain, text, sizeof text), c->why[0] ? " (" : "", c->why,
                       c->why[0] ? ")" : "");
    stk_jw_str(w, stk_buf_cstr(&out));
    stk_buf_release(&out);
}

static void caveat(const struct stk_jval *r, struct stk_buf *out)
{
    double lo = stk_pg_get(r, "times_ci.0"), hi = stk_pg_get(r, "times_ci.1");
    if (best_of(r))
        stk_buf_printf(out, "the %s change", stk_pg_true(r, "chosen") ? "chosen" : "best");
    if (isfinite(lo) && isfinite(hi))
        stk_buf_printf(out, " (95 %%: %.3g to %.3g)", lo, hi);
}

/* ---- the result ----------------------------------------------------------------------------- */

static void ask(const void *base, struct stk_jw *w)
{
    const struct stk_tune_shown *s = base;
    struct stk_buf out = STK_BUF_INIT;
    if (s->ask)
        stk_tune_ask(s->tune, s->scale, &out);
    stk_jw_str(w, s->ask ? stk_buf_cstr(&out) : NULL);
    stk_buf_release(&out);
}

/* What --apply would do for the best change; null if people do it. */
static void next(const void *base, struct stk_jw *w)
{
    const struct stk_tune_shown *s = base;
    const struct stk_tune *t = s->tune;
    const struct stk_tune_candidate *best = &t->candidate[t->best];
    const char *name = *t->script.module ? t->script.module : stk_base_name(t->script.file);
    struct stk_buf none = STK_BUF_INIT, out = STK_BUF_INIT;
    bool data = false, script = false;
    for (size_t i = 0; i < best->nchanges; i++) {
        const struct stk_tune_change *c = &best->change[i];
        data = data || c->use != STK_USE_NOTHING;
        script = script || (*name && stk_tune_patch(t, c, "", 0, &none));
    }
    stk_buf_puts(&out, "The same with --apply DST ");
    if (data)
        stk_buf_printf(&out, "makes the data ready%s", script ? ", and " : ".");
    if (script)
        stk_buf_printf(&out, "writes a patch for %s, if it knows its calls.", name);
    stk_jw_str(w, !s->applies && (data || script) ? stk_buf_cstr(&out) : NULL);
    stk_buf_release(&none);
    stk_buf_release(&out);
}

static void promise(const void *base, struct stk_jw *w)
{
    const struct stk_tune *t = base;
    char text[120];
    stk_jw_str(w, stk_verdict_promise(t->least, text, sizeof text));
}

static void notes(const void *base, struct stk_jw *w)
{
    const struct stk_tune *t = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < t->nnotes; i++)
        stk_jw_str(w, t->note[i]);
    stk_jw_close(w, ']');
}

static void best_ci(const void *base, struct stk_jw *w)
{
    const struct stk_tune *t = base;
    stk_interval_put(t->best ? t->candidate[t->best].gain.ci : (struct stk_interval){NAN, NAN}, w);
}

#define TUNE(member)            STK_FROM(struct stk_tune, member)
#define TUNED(name, expression) STK_NUMBER_OF(name, struct stk_tune, expression)

TUNED(changes_measured, measured(r))
TUNED(times_of_best, r->best ? r->candidate[r->best].gain.times : NAN)
TUNED(use_of_baseline, r->candidate[0].utilisation)
STK_TEXT_OF(ended, struct stk_tune, r->stopped        ? "stopped before the end"
                                    : r->budget_spent ? "the budget was spent"
                                                      : NULL)
STK_TEXT_OF(part_read, struct stk_tune, r->sample_bytes < r->bytes
                ? "; the runs read a sample of it, and times of an epoch are multiplied" : NULL)
STK_TEXT_OF(via, struct stk_tune, r->via ? r->via->name : NULL)
STK_TEXT_OF(best_id, struct stk_tune, r->best ? r->candidate[r->best].id : NULL)

static const struct stk_result_field tune_fields[] = {
    {"name", NULL, STK_U_TEXT, TUNE(name)},
    {"measured", NULL, STK_U_COUNT, .number = changes_measured, .flags = STK_F_HEAD,
     .say = "% change(s) measured", .meaning = "changes"},
    {"files", "files", STK_U_COUNT, TUNE(files), .row = "data", .say = "% file(s)",
     .flags = STK_F_IF_SET},
    {"bytes", "bytes", STK_U_BYTES, TUNE(bytes), .joins = ", %"},
    {"file_system", "data on", STK_U_TEXT, TUNE(file_system), .joins = " on %"},
    {"part_read", NULL, STK_U_TEXT, .put = part_read, .joins = "%", .flags = STK_F_SCREEN},
    {"sample_bytes", "read by the runs", STK_U_BYTES, TUNE(sample_bytes), .flags = STK_F_PAGE},
    {"seconds", "tuning took", STK_U_SECONDS, TUNE(seconds), .row = "time"},
    {"steps_per_run", "steps per run", STK_U_COUNT, TUNE(steps),
     .joins = ", for runs of % step(s) or more"},
    {"ranks", "ranks", STK_U_COUNT, TUNE(ranks), .joins = " of % ranks", .flags = STK_F_IF_MANY},
    {"ended", "ended", STK_U_TEXT, .put = ended, .joins = "; %"},
    {"least", "least gain", STK_U_SHARE, TUNE(least), .flags = STK_F_PAGE,
     .meaning = "a gain below this is not worth a change"},
    {"via", "runs were made", STK_U_TEXT, .put = via, .flags = STK_F_PAGE},
    {"stopped", NULL, STK_U_FLAG, TUNE(stopped)},
    {"budget_spent", NULL, STK_U_FLAG, TUNE(budget_spent)},
    {"folder", "kept in", STK_U_TEXT, TUNE(dir), .flags = STK_F_PAGE},
    {"best", NULL, STK_U_TEXT, .put = best_id, .meaning = "the id of that candidate"},
    {"chosen", NULL, STK_U_FLAG, TUNE(chosen), "by the user, whatever it gains"},
    {"times", "as fast", STK_U_TIMES, .number = times_of_best, .flags = STK_F_LEAD | STK_F_PAGE},
    {"times_ci", NULL, STK_U_LIST, .put = best_ci},
    {"utilisation", "busy as it is", STK_U_SHARE, .number = use_of_baseline,
     .flags = STK_F_LEAD | STK_F_PAGE},
    {"candidates", NULL, STK_U_TABLE, .put = put_candidates, .of = candidate_fields},
    {"candidates", NULL, STK_U_TABLE, .flags = STK_F_VIEW | STK_F_PAGE, .which = is_change,
     .of = page_columns, .plot = &speed_plot},
    {"candidates", "changes", STK_U_TABLE, .flags = STK_F_VIEW, .which = is_tried,
     .of = screen_columns},
    {"candidates", "changes", STK_U_TABLE, .flags = STK_F_VIEW | STK_F_PAGE, .which = is_tried,
     .of = page_columns, .id = "changes", .plot = &epoch_plot,
     .meaning = "Each change is compared with the job as it is in pairs of runs; low and high are "
                "the bounds of the 95 % interval."},
    {"candidates", "what the gains cost", STK_U_TABLE, .flags = STK_F_VIEW, .which = has_costs,
     .of = cost_columns},
    {"candidates", "what the gains cost", STK_U_TABLE, .flags = STK_F_VIEW | STK_F_PAGE,
     .which = has_costs, .of = page_cost_columns, .id = "costs",
     .meaning = "Preparing is done once; it is saved after so many epochs. Mixing: how well "
                "batches are mixed, compared with a full shuffle."},
    {"promise", NULL, STK_U_PROSE, .put = promise, .draw = draw_promise},
    {"candidates", "not tried", STK_U_TABLE, .flags = STK_F_VIEW, .which = is_untried,
     .draw = draw_untried},
    {"candidates", "not measured", STK_U_TABLE, .flags = STK_F_VIEW | STK_F_PAGE,
     .which = is_untried, .of = untried_columns, .id = "untried"},
    {"notes", "notes", STK_U_LIST, .put = notes, .flags = STK_F_NAMED | STK_F_WRAP},
    {"verdict", NULL, STK_U_PROSE, .put = verdict, .flags = STK_F_VERDICT},
    {"verdict", NULL, STK_U_PROSE, .flags = STK_F_VIEW},
    {"candidates", "what to do", STK_U_TABLE, .flags = STK_F_VIEW, .draw = draw_code},
    {NULL}};

static const struct stk_result_field fields[] = {
    {"", NULL, STK_U_GROUP, STK_FROM_AS(POINTER, struct stk_tune_shown, tune), .of = tune_fields},
    {"ask", "what to ask for", STK_U_TEXT, .put = ask, .draw = draw_ask, .flags = STK_F_SCREEN,
     .meaning = "lines of a batch file"},
    {"next", NULL, STK_U_PROSE, .put = next},
    /* With --apply, when it is done. */
    {"script", "script", STK_U_TEXT, .meaning = "that reads the data"},
    {"patch", "patch", STK_U_TEXT, .meaning = "a diff beside the script"},
    {"patch_command", "to apply the patch", STK_U_TEXT},
    {"check_commands", NULL, STK_U_TEXT, .meaning = "lines that compare both by the clock"},
    {NULL}};

static bool has_candidates(const struct stk_jval *r)
{
    return stk_pg_has_rows(stk_json_get(r, "candidates"));
}

/* The path of the profile as it was named: two are both called "p". A command has a name alone. */
static const char *subject_of(const struct stk_jval *r, const char *path)
{
    const char *name = stk_pg_text(r, "name", "a job"), *last = stk_base_name(path);
    size_t n = strlen(name);
    return strncmp(last, name, n) == 0 && (last[n] == '\0' || last[n] == '.') ? path : name;
}

const struct stk_result_kind stk_tune_kind = {.command = "tune",
                                              .doing = "Tuning",
                                              .fields = fields,
                                              .takes = has_candidates,
                                              .subject_of = subject_of,
                                              .caveat = caveat,
                                              .findings = put_gains};

/* ---- a command before and after a change ---------------------------------------------------- */

/* Of the members, so that an old result has it, too. */
static void draw_check(const struct stk_result_field *f, const struct stk_jval *obj,
                       struct stk_screen *s)
{
    const struct stk_jval *c = stk_field_of(f, obj);
    double least = stk_pg_get(c, "before_least_s"), most = stk_pg_get(c, "before_most_s");
    double failed = stk_pg_get(c, "failed_before"), failed_after = stk_pg_get(c, "failed_after");
    char a[32], b[32];
    stk_screen_part(s);
    stk_screen_say(s, "The command takes %s instead of %s: %s, from %.0f pairs of runs.",
                   stk_unit_text(STK_U_SECONDS, stk_pg_get(c, "after_s"), a, sizeof a),
                   stk_unit_text(STK_U_SECONDS, stk_pg_get(c, "before_s"), b, sizeof b),
                   stk_pg_text(c, "verdict.text", "not known"), stk_pg_get(c, "pairs"));
    if (failed > 0 || failed_after > 0)
        stk_screen_say(s, "%.0f runs before and %.0f after the change failed and do not count: the "
                          "command does not do the same each time.",
                       failed, failed_after);
    if (most > DIFFERS * least)
        stk_screen_say(s, "The command as it is took between %s and %s: it does something else "
                          "each time, or the machine is busy with something else. Fix what differs "
                          "(a seed, a cache), and use more --runs.",
                       stk_unit_text(STK_U_SECONDS, least, a, sizeof a),
                       stk_unit_text(STK_U_SECONDS, most, b, sizeof b));
}

#define CHECK(member) STK_FROM(struct stk_tune_check, member)
STK_NUMBER_OF(check_pairs, struct stk_tune_check, (double)r->gain.runs)
STK_NUMBER_OF(check_failed_before, struct stk_tune_check, (double)r->failed_before)
STK_NUMBER_OF(check_failed_after, struct stk_tune_check, (double)r->failed_after)

static const struct stk_result_field check_members[] = {
    {"before_s", "as it was", STK_U_SECONDS, CHECK(before_s), "median", STK_F_PAGE},
    {"after_s", "with the change", STK_U_SECONDS, CHECK(after_s), "before_s / times", STK_F_PAGE},
    {"before_least_s", "shortest before", STK_U_SECONDS, CHECK(before_least_s),
     .flags = STK_F_PAGE},
    {"before_most_s", "longest before", STK_U_SECONDS, CHECK(before_most_s), .flags = STK_F_PAGE},
    {"times", "times as fast", STK_U_TIMES, CHECK(gain.times), .flags = STK_F_PAGE | STK_F_LEAD},
    {"times_ci", NULL, STK_U_LIST, CHECK(gain.ci)},
    {"pairs", "pairs of runs", STK_U_COUNT, .number = check_pairs, .flags = STK_F_PAGE},
    {"failed_before", "failed before", STK_U_COUNT, .number = check_failed_before,
     .flags = STK_F_PAGE},
    {"failed_after", "failed after", STK_U_COUNT, .number = check_failed_after,
     .flags = STK_F_PAGE},
    {"verdict", NULL, STK_U_GROUP, STK_FROM_AS(STRUCT, struct stk_tune_check, gain),
     .put = stk_verdict_put, .of = stk_verdict_fields},
    {NULL}};

static const struct stk_result_field check_fields[] = {
    {"check", NULL, STK_U_GROUP, .of = check_members},
    {"check", "check", STK_U_ANY, .flags = STK_F_VIEW, .draw = draw_check},
    {NULL}};

static void check_verdict(const struct stk_jval *r, struct stk_buf *out)
{
    stk_buf_printf(out, "The command with the change against the command as it was: %s.",
                   stk_pg_text(r, "check.verdict.text", "not known"));
}

static void check_caveat(const struct stk_jval *r, struct stk_buf *out)
{
    double lo = stk_pg_get(r, "check.times_ci.0"), hi = stk_pg_get(r, "check.times_ci.1");
    if (isfinite(lo) && isfinite(hi))
        stk_buf_printf(out, "95 %%: %.3g to %.3g", lo, hi);
}

const struct stk_result_kind stk_tune_check_kind = {.command = "tune",
                                                    .doing = "Checking",
                                                    .fields = check_fields,
                                                    .verdict = check_verdict,
                                                    .caveat = check_caveat,
                                                    .needs = "check",
                                                    .lacks = "contains no changes"};
