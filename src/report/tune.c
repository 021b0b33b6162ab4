/*
 * tune.c - the screen of `stoker tune`: the verdict in one sentence, the ranked table of what was
 * tried, what each costs, what was not tried and why, and how to apply the best.
 */
#include "report/tune.h"

#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "base/units.h"
#include "result/grid.h"
#include "report/report.h"

#define sentence(out, columns, ...) stk_report_sentence(out, 0, columns, __VA_ARGS__)

#define DIFFERS 2.0 /* times as long: two runs of one command did not do the same */

static bool is_measured(const struct stk_tune_candidate *c)
{
    return !isnan(c->gain.times) && c->nchanges;
}

static size_t count(const struct stk_tune *t, bool measured)
{
    size_t n = 0;
    for (size_t i = 1; i < t->n; i++)
        n += is_measured(&t->candidate[i]) == measured;
    return n;
}

/* Runs with the loader make more steps. */
static bool has_loader(const struct stk_tune *t)
{
    bool any = false;
    for (size_t i = 1; i < t->n; i++)
        any = any || (is_measured(&t->candidate[i]) && t->candidate[i].change[0].loader);
    return any;
}

/* ---- the head ------------------------------------------------------------------------------- */

static void write_head(const struct stk_tune *t, unsigned columns, struct stk_buf *out)
{
    char files[32], bytes[32], took[32];
    const char *fs = t->file_system;
    sentence(out, columns,
             "%.100s%s%s%s%s%s%s: %zu change%s measured on this storage, %llu%s step%s per run%s; %s",
             t->name, fs ? ", " : "", fs ? stk_format_count(t->files, files, sizeof files) : "",
             fs ? t->files == 1 ? " file, " : " files, " : "", fs ? stk_format_size(t->bytes, bytes, sizeof bytes) : "",
             fs ? " on " : "", fs ? fs : "", count(t, true), count(t, true) == 1 ? "" : "s",
             (unsigned long long)t->steps, has_loader(t) ? " or more" : "",
             t->steps == 1 && !has_loader(t) ? "" : "s",
             t->stopped        ? "; stopped before the end"
             : t->budget_spent ? "; the budget was spent"
                               : "",
             stk_format_duration(t->seconds, took, sizeof took));
    stk_buf_putc(out, '\n');
}

/* ---- the table ------------------------------------------------------------------------------ */

static int decimals_of(double times)
{
    return times < 10 ? 2 : times < 100 ? 1 : 0;
}

/* "2.31x (2.20-2.43)"; "-": not measured. */
static const char *times_text(const struct stk_tune_candidate *c, char *buf, size_t size)
{
    if (!c->nchanges)
        return "1x";
    int digits = decimals_of(c->gain.times);
    if (stk_interval_known(c->gain.ci))
        snprintf(buf, size, "%.*fx (%.*f-%.*f)", digits, c->gain.times, digits, c->gain.ci.lo,
                 digits, c->gain.ci.hi);
    else
        snprintf(buf, size, "%.*fx", digits, c->gain.times);
    return buf;
}

static const char *duration_text(double s, char *buf, size_t size)
{
    return isnan(s) ? "-" : s <= 0 ? "" : stk_format_duration(s, buf, size);
}

static const char *predicted_text(const struct stk_tune *t, const struct stk_tune_candidate *c,
                                  char *buf, size_t size)
{
    if (!c->nchanges || isnan(c->predicted_s) || !(t->candidate[0].predicted_s > 0))
        return "";
    double times = t->candidate[0].predicted_s / c->predicted_s;
    snprintf(buf, size, "%.*fx", decimals_of(times), times);
    return buf;
}

/* In one or two words. */
static const char *verdict_text(const struct stk_tune *t, const struct stk_tune_candidate *c,
                                char *buf, size_t size)
{
    bool timed = !isnan(c->gain.times);
    switch (c->verdict) {
    case STK_TUNE_FAILED:
        return "failed";
    case STK_TUNE_DROPPED:
    case STK_TUNE_SKIPPED:
        return "not tried";
    default:
        return !c->nchanges                                ? ""
               : t->best && c == &t->candidate[t->best] ? (t->chosen ? "chosen" : "best")
               : timed                                     ? stk_verdict_word(&c->gain, buf, size)
               : c->verdict == STK_TUNE_NOTHING            ? "slower"
                                                           : "not known";
    }
}

/* "~1.2 s": of a sample, multiplied. */
static const char *marked(const struct stk_tune *t, const char *text, char *buf, size_t size)
{
    bool is_number = *text >= '0' && *text <= '9';
    snprintf(buf, size, "%s%s", is_number && t->sample_bytes < t->bytes ? "~" : "", text);
    return buf;
}

/* ---- rows whose label may take several lines ------------------------------------------------- */

#define CELLS 7

/* The table while it is built: `width` columns are there for labels. */
struct table {
    const struct stk_tune *t;
    struct stk_grid g;
    size_t width;
};

/* Copies as much of a label as fits, up to a " + " or a blank; returns what is left. */
static const char *take_piece(const char *label, size_t width, char *out, size_t size)
{
    size_t n = strlen(label), end = n, blank = 0, plus = 0;
    for (size_t i = 1; n > width && i <= width; i++) {
        blank = label[i] == ' ' ? i : blank;
        plus = strncmp(label + i, " + ", 3) == 0 ? i : plus;
    }
    if (n > width)
        end = plus ? plus : blank ? blank : n; /* one word: the grid cuts it */
    snprintf(out, size, "%.*s", (int)end, label);
    return label + end + (label[end] == ' ');
}

static void put_row(struct table *x, const char *const cell[CELLS])
{
    const char *rest = cell[1];
    for (bool first = true; first || *rest; first = false) {
        char text[208] = "  ";
        size_t indent = first ? 0 : 2;
        rest = take_piece(rest, x->width - indent, text + indent, sizeof text - indent);
        if (first)
            stk_grid_row(&x->g, cell[0], text, cell[2], cell[3], cell[4], cell[5], cell[6]);
        else
            stk_grid_row(&x->g, "", text, "", "", "", "", "");
    }
}

/* Builds the table, and again with labels in pieces if they do not fit. */
static void put_table(const struct stk_tune *t, const char *align, void (*rows)(struct table *x),
                      unsigned columns, struct stk_buf *out)
{
    struct table x = {.t = t, .width = SIZE_MAX / 2};
    for (int pass = 0; pass < 2; pass++) {
        stk_grid_init(&x.g, align);
        rows(&x);
        size_t wanted = x.g.width[1];
        stk_grid_fit(&x.g, 0, columns);
        if (pass || x.g.width[1] == wanted)
            break;
        x.width = x.g.width[1];
        stk_grid_release(&x.g);
    }
    if (x.g.nrows > 1) {
        stk_grid_render(&x.g, 0, out);
        stk_buf_putc(out, '\n');
    }
    stk_grid_release(&x.g);
}

static void table_row(const struct stk_tune *t, const struct stk_tune_candidate *c, size_t number,
                      struct table *x)
{
    char epoch[32], use[32] = "", times[64], predicted[32], n[24] = "", shown[40], word[40];
    if (!isnan(c->utilisation))
        stk_percent_text(c->utilisation, use, sizeof use);
    if (c->nchanges)
        snprintf(n, sizeof n, "%zu", number);
    const char *const cell[CELLS] = {
        n, c->label,
        marked(t, duration_text(c->epoch_s, epoch, sizeof epoch), shown, sizeof shown), use,
        times_text(c, times, sizeof times), predicted_text(t, c, predicted, sizeof predicted),
        verdict_text(t, c, word, sizeof word)};
    put_row(x, cell);
}

static void speed_rows(struct table *x)
{
    const struct stk_tune *t = x->t;
    stk_grid_row(&x->g, "", "change", "epoch", "busy", "speed (95 %)", "expected", "");
    for (size_t i = 0; i < t->n; i++)
        if (!i || is_measured(&t->candidate[i]))
            table_row(t, &t->candidate[i], i, x);
}

/* ---- costs ---------------------------------------------------------------------------------- */

static const char *size_text(uint64_t bytes, char *buf, size_t size)
{
    return bytes ? stk_format_size(bytes, buf, size) : "";
}

static const char *pays_text(const struct stk_tune_candidate *c, char *buf, size_t size)
{
    if (isnan(c->pays_after))
        return "";
    if (isinf(c->pays_after))
        return "never";
    snprintf(buf, size, c->pays_after > 0 ? "%.0f epoch%s" : "at once", c->pays_after,
             c->pays_after > 1 ? "s" : "");
    return buf;
}

static bool costs(const struct stk_tune_candidate *c)
{
    return c->verdict == STK_TUNE_GAIN &&
           (c->disk_bytes || c->memory_bytes || c->once_s > 0 || !isnan(c->mixing));
}

static void cost_rows(struct table *x)
{
    const struct stk_tune *t = x->t;
    stk_grid_row(&x->g, "", "what it costs", "disk", "memory", "once", "pays after", "mixing");
    for (size_t i = 1; i < t->n; i++) {
        const struct stk_tune_candidate *c = &t->candidate[i];
        char n[24], disk[32], memory[32], once[32], pays[32], mix[32] = "", d[40], o[40];
        if (!costs(c))
            continue;
        snprintf(n, sizeof n, "%zu", i);
        if (!isnan(c->mixing))
            stk_percent_text(c->mixing, mix, sizeof mix);
        const char *const cell[CELLS] = {
            n, c->label, marked(t, size_text(c->disk_bytes, disk, sizeof disk), d, sizeof d),
            size_text(c->memory_bytes, memory, sizeof memory),
            marked(t, duration_text(c->once_s, once, sizeof once), o, sizeof o),
            pays_text(c, pays, sizeof pays), mix};
        put_row(x, cell);
    }
}

/* ---- sentences ------------------------------------------------------------------------------ */

/* All that were not measured for one reason, in one sentence. */
static void write_reason(const struct stk_tune *t, size_t first, unsigned columns,
                         struct stk_buf *out)
{
    struct stk_buf names = STK_BUF_INIT;
    char word[40];
    const struct stk_tune_candidate *one = &t->candidate[first];
    for (size_t i = 1; i < t->n; i++) {
        const struct stk_tune_candidate *c = &t->candidate[i];
        if (is_measured(c) || strcmp(c->why, one->why) != 0)
            continue;
        if (i < first) {
            stk_buf_release(&names);
            return;
        }
        stk_buf_printf(&names, "%s%s", names.len ? ", " : "", c->label);
    }
    sentence(out, columns, "%s: %s, %s.", stk_buf_cstr(&names),
             verdict_text(t, one, word, sizeof word), one->why);
    stk_buf_release(&names);
}

static void write_untried(const struct stk_tune *t, unsigned columns, struct stk_buf *out)
{
    for (size_t i = 1; i < t->n; i++)
        if (!is_measured(&t->candidate[i]) && t->candidate[i].why[0])
            write_reason(t, i, columns, out);
    for (size_t i = 0; i < t->nnotes; i++)
        sentence(out, columns, "%s.", t->note[i]);
}

/* The change that is most likely to help, of those whose runs do not show it. */
static const struct stk_tune_candidate *most_likely(const struct stk_tune *t)
{
    const struct stk_tune_candidate *best = NULL;
    for (size_t i = 1; i < t->n; i++) {
        const struct stk_tune_candidate *c = &t->candidate[i];
        if (c->verdict == STK_TUNE_UNCLEAR && is_measured(c) &&
            (!best || c->gain.times > best->gain.times))
            best = c;
    }
    return best;
}

static void put_unclear(const struct stk_tune *t, size_t unclear, struct stk_buf *out)
{
    const struct stk_tune_candidate *c = most_likely(t);
    char text[STK_VERDICT_TEXT];
    if (!c) {
        stk_buf_puts(out, "Not known: the changes were not measured to the end.");
        return;
    }
    stk_buf_printf(out, "Not known yet for %zu change%s. The most promising, %s: %s. A larger "
                        "--budget makes more runs.",
                   unclear, unclear == 1 ? "" : "s", c->label,
                   stk_verdict_text(&c->gain, text, sizeof text));
}

/* Not one run of a change came to its end: the first reason stands for the others. */
static void put_no_run(const struct stk_tune *t, struct stk_buf *out)
{
    for (size_t i = 1; i < t->n; i++) {
        const struct stk_tune_candidate *c = &t->candidate[i];
        if (c->verdict != STK_TUNE_FAILED || !*c->why)
            continue;
        stk_buf_printf(out, "Not known: no run of a change has ended well. %s: %s.", c->label, c->why);
        return;
    }
    stk_buf_puts(out, "Not known: no run of a change ended within the budget: use a larger --budget.");
}

static void put_nothing(const struct stk_tune *t, struct stk_buf *out)
{
    const struct stk_tune_candidate *base = &t->candidate[0];
    char use[32];
    size_t unclear = 0, skipped = 0, failed = 0;
    for (size_t i = 1; i < t->n; i++) {
        unclear += t->candidate[i].verdict == STK_TUNE_UNCLEAR;
        skipped += t->candidate[i].verdict == STK_TUNE_SKIPPED;
        failed += t->candidate[i].verdict == STK_TUNE_FAILED;
    }
    bool none = !count(t, true) && !t->stopped;
    if (none && (failed || unclear))
        put_no_run(t, out);
    else if (none && skipped)
        stk_buf_printf(out,
                       "Not known: no change was tried, and %zu might help. See above what each "
                       "needs.",
                       skipped);
    else if (unclear || t->stopped)
        put_unclear(t, unclear, out);
    else if (!isnan(base->utilisation) && base->utilisation > 0.95)
        stk_buf_printf(out, "Nothing to gain: the accelerators are busy for %s of the time.",
                       stk_percent_text(base->utilisation, use, sizeof use));
    else if (t->n == 1)
        stk_buf_puts(out, "Nothing was tried: tune knows no change for what this job does.");
    else
        stk_buf_printf(out,
                       "Nothing to gain: no change that was tried makes an epoch faster by more "
                       "than %.0f %%.",
                       100 * t->least);
}

void stk_tune_said(const struct stk_tune *t, struct stk_buf *out)
{
    const struct stk_tune_candidate *c = &t->candidate[t->best], *base = &t->candidate[0];
    char before[32], after[32], text[STK_VERDICT_TEXT];
    if (!t->best)
        put_nothing(t, out);
    else if (isnan(c->gain.times))
        stk_buf_printf(out, "Chosen: %s. It was not measured%s%s.", c->label,
                       c->why[0] ? ": " : "", c->why);
    else
        stk_buf_printf(out, "%s: %s. An epoch takes %s instead of %s: %s%s%s%s.",
                       t->chosen ? "Chosen" : "Best", c->label,
                       stk_format_duration(c->epoch_s, after, sizeof after),
                       stk_format_duration(base->epoch_s, before, sizeof before),
                       stk_verdict_text(&c->gain, text, sizeof text), c->why[0] ? " (" : "", c->why,
                       c->why[0] ? ")" : "");
}

static void write_said(const struct stk_tune *t, unsigned columns, struct stk_buf *out)
{
    struct stk_buf said = STK_BUF_INIT;
    stk_tune_said(t, &said);
    sentence(out, columns, "%s", stk_buf_cstr(&said));
    stk_buf_release(&said);
}

static void write_best(const struct stk_tune *t, unsigned columns, struct stk_buf *out)
{
    const struct stk_tune_candidate *c = &t->candidate[t->best];
    struct stk_snippets code = {0};
    for (size_t i = 0; i < c->nchanges; i++)
        if (stk_tune_advice(&c->change[i]))
            sentence(out, columns, "Note: %s.", stk_tune_advice(&c->change[i]));
    stk_tune_code(t, c, &code);
    stk_buf_putc(out, '\n');
    stk_report_code(code.snippet, code.n, 0, out);
    out->fail = out->fail || code.fail;
    stk_snippets_release(&code);
}

void stk_tune_code(const struct stk_tune *t, const struct stk_tune_candidate *c,
                   struct stk_snippets *out)
{
    struct stk_action act[STK_TUNE_CHANGES * STK_TUNE_ACTIONS];
    const struct stk_action_scene scene = {.nodes = 1, .python = true,
                                           .framework = t->framework};
    stk_actions_render(act, stk_tune_actions(t, c, act), &scene, out);
}

void stk_tune_screen(const struct stk_tune *t, unsigned columns, bool utf8, struct stk_buf *out)
{
    (void)utf8;
    char promise[120];
    write_head(t, columns, out);
    put_table(t, "rerrrrl", speed_rows, columns, out);
    put_table(t, "rerrrrr", cost_rows, columns, out);
    if (count(t, true))
        sentence(out, columns, "%s.", stk_verdict_promise(t->least, promise, sizeof promise));
    write_untried(t, columns, out);
    if (t->nnotes || count(t, false))
        stk_buf_putc(out, '\n');
    write_said(t, columns, out);
    if (t->best)
        write_best(t, columns, out);
}

void stk_tune_check_text(const struct stk_tune_check *c, unsigned columns, struct stk_buf *out)
{
    char before[32], after[32], text[STK_VERDICT_TEXT];
    sentence(out, columns, "The command takes %s instead of %s: %s, from %zu pairs of runs.",
             stk_format_duration(c->after_s, after, sizeof after),
             stk_format_duration(c->before_s, before, sizeof before),
             stk_verdict_text(&c->gain, text, sizeof text), c->gain.runs);
    if (c->failed_before || c->failed_after)
        sentence(out, columns,
                 "%zu runs before and %zu after the change failed and do not count: the command does "
                 "not do the same each time.",
                 c->failed_before, c->failed_after);
    if (c->before_most_s > DIFFERS * c->before_least_s)
        sentence(out, columns,
                 "The command as it is took between %s and %s: it does something else each time, or "
                 "the machine is busy with something else. Fix what differs (a seed, a cache), and "
                 "use more --runs.",
                 stk_format_duration(c->before_least_s, before, sizeof before),
                 stk_format_duration(c->before_most_s, after, sizeof after));
}
