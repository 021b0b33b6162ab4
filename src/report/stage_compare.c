/*
 * stage_compare.c - the result of `stoker stage --compare`: the forms, the jobs at once, and what
 * they mean in sentences.
 */
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "base/units.h"
#include "report/report_priv.h"
#include "report/stage.h"
#include "result/blocks.h"
#include "stage/compare.h"

#define CURVE 48 /* points of a law */

/* A row: a form of the comparison. */
struct row {
    const struct stk_compare *c;
    const struct stk_compare_form *f;
};

static bool has_times(const struct stk_compare_form *f)
{
    return f->form && f->ntimes;
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

/* ---- every number of jobs ------------------------------------------------------------------- */

struct point {
    const struct stk_compare_times *t;
    struct stk_interval last_ci;
};

#define TIMES(name, expression) STK_NUMBER_OF(name, struct point, expression)
TIMES(point_jobs, (double)r->t->n)
TIMES(point_measured, (double)r->t->jobs)
TIMES(point_first, r->t->first_s)
TIMES(point_last, r->t->last_s)
TIMES(point_slowest, r->t->slowest_s)

static const struct stk_result_field point_fields[] = {
    {"jobs", "jobs at once", STK_U_COUNT, .number = point_jobs},
    {"measured", "measured", STK_U_COUNT, .number = point_measured},
    {"first_s", "first sample", STK_U_SECONDS, .number = point_first},
    {"last_s", "last sample", STK_U_SECONDS, .number = point_last},
    {"slowest_s", "slowest job", STK_U_SECONDS, .number = point_slowest},
    {"last_ci", NULL, STK_U_LIST, STK_FROM(struct point, last_ci)},
    {NULL}};

static void put_points(const void *base, struct stk_jw *w)
{
    const struct stk_compare_form *f = ((const struct row *)base)->f;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < f->ntimes; i++) {
        struct point one = {&f->times[i], {NAN, NAN}};
        for (size_t k = 0; f->series && k < f->series->nrows; k++)
            if (f->series->row[k].n == one.t->n)
                one.last_ci = f->series->row[k].value_ci;
        stk_jw_open(w, '{');
        stk_fields_put(point_fields, &one, w);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static const struct stk_result_field curve_fields[] = {
    {"jobs", NULL, STK_U_PLAIN}, {"last_s", NULL, STK_U_SECONDS}, {NULL}};

static void put_curve(const void *base, struct stk_jw *w)
{
    const struct stk_compare_form *f = ((const struct row *)base)->f;
    double from = f->ntimes ? (double)f->times[0].n : 0;
    double to = f->ntimes ? (double)f->times[f->ntimes - 1].n : 0;
    bool drawn = to > from && !f->bend.poor && isfinite(stk_bend_time(&f->bend, from));
    stk_jw_open(w, '[');
    for (size_t i = 0; i < CURVE && drawn; i++) {
        double n = from * pow(to / from, (double)i / (CURVE - 1));
        stk_jw_open(w, '{');
        stk_jw_put_f64(w, "jobs", n);
        stk_jw_put_f64(w, "last_s", stk_bend_time(&f->bend, n));
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static const struct stk_result_plot jobs_plot = {
    "jobs", "Jobs at once",
    "How long a job takes until its last sample is staged, while others do the same: medians with "
    "95 % intervals. Beyond a bend, more jobs at once move hardly more together.",
    "jobs", "jobs at once", STK_U_PLAIN, STK_SCALE_LOG,
    {{"last sample", STK_U_SECONDS, {{"last_s", NULL, "both"}}, .logarithmic = true}},
    .mark = "bends_at", .mark_name = "bends", .interval = "last_ci", .curve = "curve",
    .curve_name = "law of", .least = 2};

#define BEND(member) STK_FROM(struct stk_bend, member)
STK_TEXT_OF(bend_law, struct stk_bend, stk_bend_id(r->kind))

static void put_unclear(const void *base, struct stk_jw *w)
{
    const struct stk_bend *b = base;
    if (b->unclear_at)
        stk_verdict_put(&b->unclear, w);
    else
        stk_jw_null(w);
}

static const struct stk_result_field bend_fields[] = {
    {"law", NULL, STK_U_TEXT, .put = bend_law},
    {"flat_to", "flat up to jobs", STK_U_COUNT, BEND(flat_to)},
    {"rises_at", "rises at jobs", STK_U_COUNT, BEND(rises_at), .flags = STK_F_KNOWN},
    {"unclear_at", NULL, STK_U_COUNT, BEND(unclear_at), .flags = STK_F_KNOWN},
    {"unclear", NULL, STK_U_ANY, .put = put_unclear},
    {"flat_within", NULL, STK_U_SHARE, BEND(flat_within)},
    {"one_job_s", NULL, STK_U_SECONDS, BEND(t1_s)},
    {"at", NULL, STK_U_PLAIN, BEND(at)},
    {"share", NULL, STK_U_SHARE, BEND(share), "of the time of one job that every further job adds"},
    {"ci", NULL, STK_U_LIST, BEND(ci), "of at, or of share"},
    {"rms", NULL, STK_U_SHARE, BEND(rms)},
    {"poor", NULL, STK_U_FLAG, BEND(poor)},
    {NULL}};

static void put_bend(const void *base, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_fields_put(bend_fields, &((const struct row *)base)->f->bend, w);
    stk_jw_close(w, '}');
}

/* ---- the forms ------------------------------------------------------------------------------ */

#define FORM(name, expression) STK_NUMBER_OF(name, struct row, expression)

static const struct stk_compare_form *files_of(const struct row *r)
{
    return &r->c->form[STK_FORM_FILES];
}

static double last_s(const struct stk_compare_form *f)
{
    return has_times(f) ? f->times[0].last_s : NAN;
}

STK_TEXT_OF(form_id, struct row, r->f->form->id)
STK_TEXT_OF(form_why, struct row, r->f->why[0] ? r->f->why : NULL)
FORM(form_prepare, r->f->prepare_s)
FORM(form_first, has_times(r->f) ? r->f->times[0].first_s : NAN)
FORM(form_last, last_s(r->f))
FORM(form_rate, (double)r->c->bytes / last_s(r->f))
FORM(form_speed, last_s(files_of(r)) / last_s(r->f))
FORM(form_files, (double)r->f->files)
FORM(form_bytes, (double)r->f->bytes)
FORM(form_pays, stk_compare_pays_after(r->f, files_of(r)))
FORM(form_bends, r->f->bend.at > 0 && !r->f->bend.poor ? r->f->bend.at : NAN)

static void put_against(const void *base, struct stk_jw *w)
{
    const struct row *r = base;
    const struct stk_compare_form *files = files_of(r);
    if (has_times(r->f) && has_times(files) && r->f != files) {
        const struct stk_verdict v = stk_compare_verdict(r->f, files);
        stk_verdict_put(&v, w);
    } else {
        stk_jw_null(w);
    }
}

static void form_verdict(const void *base, struct stk_jw *w)
{
    const struct row *r = base;
    struct stk_buf text = STK_BUF_INIT;
    if (has_times(r->f))
        put_bend_text(r->c, r->f, &text);
    stk_jw_str(w, text.len ? stk_buf_cstr(&text) : NULL);
    stk_buf_release(&text);
}

static const struct stk_result_field form_fields[] = {
    {"form", "form", STK_U_TEXT, .put = form_id},
    {"prepare_s", "prepare once", STK_U_SECONDS, .number = form_prepare},
    {"first_s", "first sample", STK_U_SECONDS, .number = form_first,
     .meaning = "with the fewest jobs at once, as all of the row"},
    {"last_s", "last sample", STK_U_SECONDS, .number = form_last},
    {"bytes_per_second", "rate", STK_U_BYTES_PER_S, .number = form_rate,
     .meaning = "bytes of the source, until the last sample"},
    {"speed", "speed", STK_U_TIMES, .number = form_speed, .meaning = "against files"},
    {"files", "files", STK_U_COUNT, .number = form_files, .flags = STK_F_PAGE},
    {"bytes", "bytes", STK_U_BYTES, .number = form_bytes, .flags = STK_F_PAGE},
    {"against_files", NULL, STK_U_ANY, .put = put_against},
    {"pays_after", "pays after stagings", STK_U_PLAIN, .number = form_pays, .flags = STK_F_PAGE},
    {"points", "every number of jobs", STK_U_TABLE, .put = put_points, .of = point_fields,
     .meaning = "Medians of the jobs.", .plot = &jobs_plot},
    {"bend", NULL, STK_U_GROUP, .put = put_bend, .of = bend_fields, .flags = STK_F_PAGE},
    {"bends_at", "bends at jobs", STK_U_PLAIN, .number = form_bends, .flags = STK_F_PAGE},
    {"curve", NULL, STK_U_TABLE, .put = put_curve, .of = curve_fields,
     .meaning = "the law, to be drawn"},
    {"not_measured", "not measured", STK_U_TEXT, .put = form_why, .flags = STK_F_REMARK,
     .say = "was not measured"},
    {"verdict", NULL, STK_U_PROSE, .put = form_verdict, .flags = STK_F_NOTE},
    {NULL}};

static const struct stk_result_field seconds_fields[] = {
    {"jobs", "jobs at once", STK_U_COUNT}, {"last_s", "last sample", STK_U_SECONDS}, {NULL}};
static const struct stk_result_field jobs_fields[] = {
    {"form", "form", STK_U_TEXT},
    {"points", "last sample", STK_U_TABLE, .of = seconds_fields, .by = "last_s",
     .flags = STK_F_SIDE},
    {"verdict", NULL, STK_U_PROSE, .flags = STK_F_NOTE},
    {NULL}};

static const struct stk_result_plot forms_plot = {
    "forms", "Forms compared",
    "How long one job waits for the first and for the last sample, and what preparing the form "
    "takes, once.",
    "form", "", STK_U_PLAIN, STK_SCALE_CATEGORY,
    {{"staging", STK_U_SECONDS, {{"first_s", NULL, "bar"}, {"last_s", NULL, "bar"}}},
     {"preparing", STK_U_SECONDS, {{"prepare_s", "prepared once", "bar"}}}}};

static void put_forms(const void *base, struct stk_jw *w)
{
    const struct stk_compare *c = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < STK_FORMS; i++) {
        const struct row one = {c, &c->form[i]};
        if (!one.f->form)
            continue;
        stk_jw_open(w, '{');
        stk_fields_put(form_fields, &one, w);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

/* ---- the result ----------------------------------------------------------------------------- */

#define FROM(member) STK_FROM(struct stk_compare, member)

static double best_speed(const void *base)
{
    const struct stk_compare *c = base;
    const struct stk_compare_form *best = stk_compare_best(c), *files = &c->form[STK_FORM_FILES];
    return best && best != files ? last_s(files) / last_s(best) : NAN;
}

static void best_id(const void *base, struct stk_jw *w)
{
    const struct stk_compare_form *best = stk_compare_best(base);
    stk_jw_str(w, best ? best->form->id : NULL);
}

static void put_verdict(const void *base, struct stk_jw *w)
{
    struct stk_buf text = STK_BUF_INIT;
    put_best_text(base, &text);
    stk_jw_str(w, stk_buf_cstr(&text));
    stk_buf_release(&text);
}

static void put_notes(const void *base, struct stk_jw *w)
{
    const struct stk_compare *c = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < c->nnotes; i++) {
        char text[sizeof c->note[0] + 1];
        snprintf(text, sizeof text, "%s.", c->note[i]);
        stk_jw_str(w, text);
    }
    stk_jw_close(w, ']');
}

STK_TEXT_OF(via, struct stk_compare, r->via->name)
STK_TEXT_OF(not_complete, struct stk_compare, r->complete ? NULL : "not all of them ended well")

static bool is_timed(const struct stk_jval *form)
{
    return isfinite(stk_pg_get(form, "last_s"));
}

static const struct stk_result_field fields[] = {
    {"source", "source", STK_U_TEXT, FROM(source)},
    {"source_file_system", "on", STK_U_TEXT, FROM(source_fs), .joins = " (%)"},
    {"files", "files", STK_U_COUNT, FROM(files), .joins = ": % file(s)"},
    {"bytes", "bytes", STK_U_BYTES, FROM(bytes), .joins = ", %"},
    {"target", "staged to", STK_U_TEXT, FROM(target), .none = "a folder of each node"},
    {"target_file_system", "file system there", STK_U_TEXT, FROM(target_fs), .joins = " (%)"},
    {"runs", "runs", STK_U_COUNT, FROM(runs), .say = "% of each, in random order"},
    {"not_complete", "", STK_U_TEXT, .put = not_complete, .flags = STK_F_SCREEN, .joins = "; %"},
    {"via", "jobs run", STK_U_TEXT, .put = via, .flags = STK_F_PAGE},
    {"complete", NULL, STK_U_FLAG, FROM(complete)},
    {"best", NULL, STK_U_TEXT, .put = best_id},
    {"best_speed", "as fast as files", STK_U_TIMES, .number = best_speed,
     .flags = STK_F_LEAD | STK_F_PAGE},
    {"forms", "forms", STK_U_TABLE, .put = put_forms, .of = form_fields, .plot = &forms_plot},
    {"verdict", NULL, STK_U_PROSE, .put = put_verdict, .flags = STK_F_VERDICT},
    {"verdict", NULL, STK_U_PROSE, .flags = STK_F_VIEW},
    {"forms", "jobs at once", STK_U_TABLE, .of = jobs_fields, .which = is_timed, .least = 2,
     .flags = STK_F_VIEW | STK_F_SIDE},
    {"notes", "notes", STK_U_LIST, .put = put_notes, .flags = STK_F_NAMED | STK_F_WRAP},
    {NULL}};

static void caveat(const struct stk_jval *r, struct stk_buf *out)
{
    (void)r;
    stk_buf_puts(out, "the form to use");
}

static bool has_forms(const struct stk_jval *r)
{
    return stk_pg_has_rows(stk_json_get(r, "forms"));
}

const struct stk_result_kind stk_forms_kind = {.command = "stage",
                                               .doing = "Staged in several forms:",
                                               .fields = fields,
                                               .takes = has_forms,
                                               .caveat = caveat};
