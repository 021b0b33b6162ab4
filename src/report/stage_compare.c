/*
 * stage_compare.c - a comparison of forms: one table of the forms, one of the jobs at once, the
 * curves, and what they mean in sentences; the same as JSON.
 */
#include "report/stage_compare.h"

#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "base/units.h"
#include "result/grid.h"
#include "report/report.h"
#include "report/report_priv.h"
#include "report/scale.h"

#define BAR 16

#define sentence(out, columns, ...) stk_report_sentence(out, 2, columns, __VA_ARGS__)

/* ---- the forms ------------------------------------------------------------------------------ */

static bool has_times(const struct stk_compare_form *f)
{
    return f->form && f->ntimes;
}

static double slowest_last(const struct stk_compare *c)
{
    double most = 0;
    for (size_t i = 0; i < STK_FORMS; i++)
        if (has_times(&c->form[i]))
            most = fmax(most, c->form[i].times[0].last_s);
    return most;
}

static void write_head(const struct stk_compare *c, unsigned columns, struct stk_buf *out)
{
    char files[32], bytes[32], text[700];
    snprintf(text, sizeof text,
             "%s file%s, %s: %.200s (%s) to %.200s%s%s%s; %llu run%s of each, in random order%s",
             stk_format_count(c->files, files, sizeof files), c->files == 1 ? "" : "s",
             stk_format_size(c->bytes, bytes, sizeof bytes), c->source, c->source_fs,
             c->target ? c->target : "a folder of each node", c->target_fs ? " (" : "",
             c->target_fs ? c->target_fs : "", c->target_fs ? ")" : "", (unsigned long long)c->runs,
             c->runs == 1 ? "" : "s", c->complete ? "" : "; not all of them ended well");
    stk_report_wrapped(text, 0, columns, out);
    stk_buf_putc(out, '\n');
}

static void form_row(const struct stk_compare *c, const struct stk_compare_form *f, bool utf8,
                     struct stk_grid *t)
{
    const struct stk_compare_form *files = &c->form[STK_FORM_FILES];
    const struct stk_compare_times *one = f->times;
    char once[32], first[32], last[32], rate[40], bytes[32], ratio[32] = "";
    struct stk_buf bar = STK_BUF_INIT;
    if (!isnan(f->prepare_s))
        stk_format_duration(f->prepare_s, once, sizeof once);
    else
        snprintf(once, sizeof once, "-");
    snprintf(rate, sizeof rate, "%s/s",
             stk_format_size((uint64_t)((double)c->bytes / one->last_s), bytes, sizeof bytes));
    if (has_times(files))
        snprintf(ratio, sizeof ratio, "%.2fx", files->times[0].last_s / one->last_s);
    stk_grid_bar(one->last_s / slowest_last(c), BAR, utf8, &bar);
    stk_grid_row(t, f->form->id, once, stk_format_duration(one->first_s, first, sizeof first),
                 stk_format_duration(one->last_s, last, sizeof last), rate, ratio,
                 stk_buf_cstr(&bar));
    stk_buf_release(&bar);
}

static uint64_t smallest_n(const struct stk_compare *c)
{
    for (size_t i = 0; i < STK_FORMS; i++)
        if (has_times(&c->form[i]))
            return c->form[i].times[0].n;
    return 0;
}

static void write_forms(const struct stk_compare *c, unsigned columns, bool utf8,
                        struct stk_buf *out)
{
    struct stk_grid t;
    stk_grid_init(&t, "lrrrrrl");
    stk_grid_row(&t, "form", "prepare once", "first sample", "last sample", "rate", "speed", "");
    for (size_t i = 0; i < STK_FORMS; i++)
        if (has_times(&c->form[i]))
            form_row(c, &c->form[i], utf8, &t);
    if (smallest_n(c))
        stk_grid_render(&t, 0, out);
    stk_grid_release(&t);
    for (size_t i = 0; i < STK_FORMS; i++)
        if (c->form[i].form && c->form[i].why[0])
            sentence(out, columns, "%s was not measured: %s.", c->form[i].form->id, c->form[i].why);
    stk_buf_putc(out, '\n');
}

/* ---- jobs at once --------------------------------------------------------------------------- */

static const struct stk_compare_times *times_at(const struct stk_compare_form *f, uint64_t n)
{
    for (size_t i = 0; i < f->ntimes; i++)
        if (f->times[i].n == n)
            return &f->times[i];
    return NULL;
}

static size_t most_times(const struct stk_compare *c)
{
    size_t most = 0;
    for (size_t i = 0; i < STK_FORMS; i++)
        most = c->form[i].ntimes > most ? c->form[i].ntimes : most;
    return most;
}

static void jobs_row(const struct stk_compare *c, uint64_t n, struct stk_grid *t)
{
    char cell[STK_FORMS][32], jobs[24];
    for (size_t i = 0; i < STK_FORMS; i++) {
        const struct stk_compare_times *at = times_at(&c->form[i], n);
        if (at)
            stk_format_duration(at->last_s, cell[i], sizeof cell[i]);
        else
            snprintf(cell[i], sizeof cell[i], c->form[i].form ? "-" : "");
    }
    snprintf(jobs, sizeof jobs, "%llu", (unsigned long long)n);
    stk_grid_row(t, jobs, cell[0], cell[1], cell[2], cell[3]);
}

static void write_jobs(const struct stk_compare *c, struct stk_buf *out)
{
    struct stk_grid t;
    const struct stk_compare_form *longest = &c->form[0];
    for (size_t i = 1; i < STK_FORMS; i++)
        longest = c->form[i].ntimes > longest->ntimes ? &c->form[i] : longest;
    stk_grid_init(&t, "rrrrr");
    stk_grid_row(&t, "jobs at once", c->form[0].form ? stk_forms[0].id : "",
                 c->form[1].form ? stk_forms[1].id : "", c->form[2].form ? stk_forms[2].id : "",
                 c->form[3].form ? stk_forms[3].id : "");
    for (size_t i = 0; i < longest->ntimes; i++)
        jobs_row(c, longest->times[i].n, &t);
    stk_grid_render(&t, 0, out);
    stk_grid_release(&t);
    stk_buf_putc(out, '\n');
}

/* ---- sentences ------------------------------------------------------------------------------ */

/* " (95 %: 8.7 to 10.4)" */
static const char *interval(struct stk_interval i, double factor, char *buf, size_t size)
{
    buf[0] = '\0';
    if (stk_interval_known(i))
        snprintf(buf, size, " (95 %%: %.3g to %.3g)", factor * i.lo, factor * i.hi);
    return buf;
}

/* "flat up to 2 jobs at once (same within 8 %)", and from where on that is not known. */
static void put_flat_text(const struct stk_bend *b, unsigned long long first, struct stk_buf *out)
{
    unsigned long long flat = b->flat_to, unclear = b->unclear_at;
    char text[STK_VERDICT_TEXT];
    struct stk_verdict same = {.kind = STK_VERDICT_SAME, .ci = {1, 1 + b->flat_within}};
    if (b->flat_within > 0)
        stk_buf_printf(out, "flat up to %llu jobs at once (%s)", flat,
                       stk_verdict_word(&same, text, sizeof text));
    if (unclear)
        stk_buf_printf(out, "%s%llu jobs at once against %llu: %s", b->flat_within > 0 ? "; " : "",
                       unclear, first,
                       stk_verdict_text(&b->unclear, text, sizeof text));
    if (b->rises_at)
        stk_buf_printf(out, "%slonger with %llu jobs at once",
                       b->flat_within > 0 || unclear ? "; " : "",
                       (unsigned long long)b->rises_at);
}

/* The most that its jobs moved together, as the table has it: other forms may move more. */
static void put_together(const struct stk_compare *c, const struct stk_compare_form *f,
                         struct stk_buf *out)
{
    const struct stk_compare_times *most = f->times;
    char total[32];
    for (size_t i = 1; i < f->ntimes; i++)
        if ((double)f->times[i].n / f->times[i].last_s > (double)most->n / most->last_s)
            most = &f->times[i];
    double rate = (double)c->bytes * (double)most->n / most->last_s;
    stk_buf_printf(out, "; the most that jobs of this form moved together was %s/s, with %llu",
                   stk_format_size((uint64_t)rate, total, sizeof total),
                   (unsigned long long)most->n);
}

/* It takes longer from some number on, but no law says from which. */
static void put_no_law(const struct stk_compare_form *f, struct stk_buf *out)
{
    const struct stk_bend *b = &f->bend;
    if (!b->rises_at)
        return;
    if (f->ntimes < STK_BEND_POINTS)
        stk_buf_printf(out, "; where it bends is not known from %zu numbers of jobs", f->ntimes);
    else
        stk_buf_printf(out, "; where between %llu and %llu jobs it bends is not known",
                       (unsigned long long)b->flat_to, (unsigned long long)b->rises_at);
}

/* Empty: nothing can be said. */
static void put_bend_text(const struct stk_compare *c, const struct stk_compare_form *f,
                          struct stk_buf *out)
{
    const struct stk_bend *b = &f->bend;
    char range[64];
    if (f->ntimes < 2 && b->kind == STK_BEND_UNKNOWN)
        return;
    stk_buf_printf(out, "%s: ", f->form->id);
    put_flat_text(b, f->times[0].n, out);
    if (b->kind == STK_BEND_FLAT)
        stk_buf_puts(out, ", the most measured");
    else if (b->kind == STK_BEND_UNKNOWN)
        put_no_law(f, out);
    else if (b->poor)
        stk_buf_puts(out, "; no law fits");
    else if (b->kind == STK_BEND_LIMIT)
        stk_buf_printf(out, "; bends at %.3g%s", b->at, interval(b->ci, 1, range, sizeof range));
    else if (b->kind == STK_BEND_CONTENTION)
        stk_buf_printf(out, "; no bend: every further job adds %.3g %% of the time of one%s",
                       100 * b->share, interval(b->ci, 100, range, sizeof range));
    if (b->rises_at)
        put_together(c, f, out);
    stk_buf_putc(out, '.');
}

/* The other form that took least; NULL: none. */
static const struct stk_compare_form *rival_of(const struct stk_compare *c,
                                               const struct stk_compare_form *best)
{
    const struct stk_compare_form *least = NULL;
    for (size_t i = 0; i < STK_FORMS; i++)
        if (has_times(&c->form[i]) && &c->form[i] != best &&
            (!least || c->form[i].times[0].last_s < least->times[0].last_s))
            least = &c->form[i];
    return least;
}

/* Nothing is known of the data as it is. */
static void put_without_files(const struct stk_compare *c, const struct stk_compare_form *best,
                              struct stk_buf *out)
{
    const struct stk_compare_form *other = rival_of(c, best);
    char text[STK_VERDICT_TEXT];
    const struct stk_verdict v = stk_compare_verdict(best, other);
    stk_buf_printf(out,
                   "Whether a form is faster than files is not known: files were not measured. %s "
                   "against %s: %s.",
                   best->form->id, other->form->id, stk_verdict_text(&v, text, sizeof text));
}

/* Never empty: a page shows it above everything else. */
static void put_best_text(const struct stk_compare *c, struct stk_buf *out)
{
    const struct stk_compare_form *best = stk_compare_best(c), *files = &c->form[STK_FORM_FILES];
    const struct stk_compare_form *other = best && best != files ? files : rival_of(c, files);
    char a[32], text[STK_VERDICT_TEXT];
    if (!best)
        stk_buf_puts(out, "No form was measured.");
    else if (!rival_of(c, best))
        stk_buf_printf(out, "One form was measured, %s: there is none to compare it with.",
                       best->form->id);
    else if (!has_times(files))
        put_without_files(c, best, out);
    if (out->len)
        return;
    struct stk_verdict v = best == files ? stk_compare_verdict(other, files)
                                         : stk_compare_verdict(best, files);
    stk_verdict_text(&v, text, sizeof text);
    if (best == files) {
        stk_buf_printf(out, "Stage it as it is: no other form is shown to be faster. %s against "
                            "files: %s.",
                       other->form->id, text);
        return;
    }
    double after = stk_compare_pays_after(best, files);
    stk_buf_printf(out,
                   "Use %s: against files %s; preparing it takes %s once, which it saves in %.0f "
                   "staging%s.",
                   best->form->id, text, stk_format_duration(best->prepare_s, a, sizeof a), after,
                   after == 1 ? "" : "s");
}

static void say(const struct stk_compare *c, const struct stk_compare_form *f, unsigned columns,
                struct stk_buf *out)
{
    struct stk_buf b = STK_BUF_INIT;
    if (f)
        put_bend_text(c, f, &b);
    else
        put_best_text(c, &b);
    if (b.len)
        sentence(out, columns, "%s", stk_buf_cstr(&b));
    stk_buf_release(&b);
}

void stk_stage_compare_text(const struct stk_compare *c, unsigned columns, bool utf8,
                            struct stk_buf *out)
{
    write_head(c, columns, out);
    write_forms(c, columns, utf8, out);
    if (most_times(c) > 1) {
        write_jobs(c, out);
        stk_scaling_plot(&c->scaling, STK_PLOT_TIME, columns, utf8, out);
        stk_buf_putc(out, '\n');
    }
    say(c, NULL, columns, out);
    for (size_t i = 0; i < STK_FORMS; i++)
        if (has_times(&c->form[i]))
            say(c, &c->form[i], columns, out);
    for (size_t i = 0; i < c->nnotes; i++)
        sentence(out, columns, "%s.", c->note[i]);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void put_times(struct stk_jw *w, const struct stk_compare_form *f)
{
    stk_jw_key(w, "points");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < f->ntimes; i++) {
        const struct stk_compare_times *t = &f->times[i];
        stk_jw_open(w, '{');
        stk_jw_put_u64(w, "jobs", t->n);
        stk_jw_put_u64(w, "measured", t->jobs);
        stk_jw_put_f64(w, "first_s", t->first_s);
        stk_jw_put_f64(w, "last_s", t->last_s);
        stk_jw_put_f64(w, "slowest_s", t->slowest_s);
        for (size_t k = 0; f->series && k < f->series->nrows; k++)
            if (f->series->row[k].n == t->n)
                stk_report_interval(w, "last_ci", f->series->row[k].value_ci);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static void put_bend(struct stk_jw *w, const struct stk_bend *b)
{
    stk_jw_key(w, "bend");
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "law", stk_bend_id(b->kind));
    stk_jw_put_u64(w, "flat_to", b->flat_to);
    stk_jw_key(w, "rises_at");
    if (b->rises_at)
        stk_jw_u64(w, b->rises_at);
    else
        stk_jw_null(w);
    stk_jw_key(w, "unclear_at");
    if (b->unclear_at)
        stk_jw_u64(w, b->unclear_at);
    else
        stk_jw_null(w);
    if (b->unclear_at)
        stk_report_verdict(w, "unclear", &b->unclear);
    stk_jw_put_f64(w, "flat_within", b->flat_within);
    stk_jw_put_f64(w, "one_job_s", b->t1_s);
    stk_jw_put_f64(w, "at", b->at);
    stk_jw_put_f64(w, "share", b->share);
    stk_report_interval(w, "ci", b->ci);
    stk_jw_put_f64(w, "rms", b->rms);
    stk_jw_put_bool(w, "poor", b->poor);
    stk_jw_close(w, '}');
}

/* The sentence about a form, or about all of them. */
static void put_said(struct stk_jw *w, const struct stk_compare *c,
                     const struct stk_compare_form *f)
{
    struct stk_buf b = STK_BUF_INIT;
    if (f && has_times(f))
        put_bend_text(c, f, &b);
    else if (!f)
        put_best_text(c, &b);
    stk_jw_put_str(w, "verdict", b.len ? stk_buf_cstr(&b) : NULL);
    stk_buf_release(&b);
}

static void put_form(struct stk_jw *w, const struct stk_compare *c,
                     const struct stk_compare_form *f)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "form", f->form->id);
    stk_jw_put_str(w, "not_measured", f->why[0] ? f->why : NULL);
    stk_jw_put_f64(w, "prepare_s", f->prepare_s);
    stk_jw_put_u64(w, "files", f->files);
    stk_jw_put_u64(w, "bytes", f->bytes);
    if (has_times(f) && has_times(&c->form[STK_FORM_FILES]) && f != &c->form[STK_FORM_FILES]) {
        const struct stk_verdict v = stk_compare_verdict(f, &c->form[STK_FORM_FILES]);
        stk_report_verdict(w, "against_files", &v);
    }
    stk_jw_put_f64(w, "pays_after", stk_compare_pays_after(f, &c->form[STK_FORM_FILES]));
    put_times(w, f);
    put_bend(w, &f->bend);
    put_said(w, c, f);
    stk_jw_close(w, '}');
}

void stk_stage_compare_json(const struct stk_compare *c, struct stk_jw *w)
{
    stk_jw_put_str(w, "source", c->source);
    stk_jw_put_str(w, "source_file_system", c->source_fs);
    stk_jw_put_str(w, "target", c->target);
    stk_jw_put_str(w, "target_file_system", c->target_fs);
    stk_jw_put_u64(w, "files", c->files);
    stk_jw_put_u64(w, "bytes", c->bytes);
    stk_jw_put_u64(w, "runs", c->runs);
    stk_jw_put_str(w, "via", c->via->name);
    stk_jw_put_bool(w, "complete", c->complete);
    const struct stk_compare_form *best = stk_compare_best(c);
    stk_jw_put_str(w, "best", best ? best->form->id : NULL);
    put_said(w, c, NULL);
    stk_jw_key(w, "forms");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < STK_FORMS; i++)
        if (c->form[i].form)
            put_form(w, c, &c->form[i]);
    stk_jw_close(w, ']');
    stk_jw_put_rows(w, "notes", c->note, sizeof c->note[0], c->nnotes);
}
