/*
 * scale_json.c - a study and its results, as JSON and as CSV. Unknown numbers are null, or an empty
 * cell: never 0.
 */
#include <math.h>

#include "base/csv.h"
#include "base/num.h"
#include "report/report_priv.h"
#include "report/scale.h"

static void put_n(struct stk_jw *w, const char *key, bool known, uint64_t n)
{
    stk_jw_key(w, key);
    if (known)
        stk_jw_u64(w, n);
    else
        stk_jw_null(w);
}

/* null unless there are several. */
static void write_modes(const struct stk_modes *m, struct stk_jw *w)
{
    if (m->n < 2) {
        stk_jw_null(w);
        return;
    }
    stk_jw_open(w, '[');
    for (size_t k = 0; k < m->n; k++) {
        stk_jw_open(w, '{');
        stk_jw_put_f64(w, "cost", m->mode[k].median);
        stk_jw_put_u64(w, "runs", m->mode[k].runs);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static void write_row(const struct stk_scaling_row *r, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "n", r->n);
    stk_jw_put_u64(w, "runs", r->runs);
    stk_jw_put_u64(w, "failed_runs", r->bad);
    stk_jw_put_u64(w, "lost_runs", r->lost);
    stk_jw_put_str(w, "failure", r->bad + r->lost ? stk_run_status_ids[r->why] : NULL);
    stk_jw_put_str(w, "failure_note", r->note);
    stk_jw_put_str(w, "failure_output", r->output);
    stk_jw_put_f64(w, "value", r->value);
    stk_report_interval(w, "value_interval", r->value_ci);
    stk_jw_put_bool(w, "interval_is_range", r->cost.ci_is_range);
    stk_jw_put_f64(w, "interval_coverage", r->runs ? r->cost.coverage : NAN);
    stk_jw_put_f64(w, "time_s", r->wall_s);
    stk_jw_put_f64(w, "speedup", r->speedup);
    stk_report_interval(w, "speedup_interval", r->speedup_ci);
    stk_jw_put_f64(w, "efficiency", r->efficiency);
    stk_jw_put_f64(w, "karp_flatt", r->karp_flatt);
    stk_jw_put_f64(w, "cores", r->cores);
    stk_jw_put_f64(w, "gpus", r->gpus);
    stk_jw_put_f64(w, "nodes", r->nodes);
    stk_jw_put_f64(w, "su", r->su);
    stk_jw_put_f64(w, "relative_su", r->relative_su);
    stk_jw_put_u64(w, "outliers", r->cost.outliers);
    stk_jw_key(w, "modes");
    write_modes(&r->modes, w);
    stk_jw_close(w, '}');
}

static void write_fit(const struct stk_law_fit *f, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_jw_put_f64(w, "t1", f->t1_s);
    stk_report_interval(w, "t1_interval", f->t1_ci);
    stk_jw_put_f64(w, "serial", f->serial);
    stk_report_interval(w, "serial_interval", f->serial_ci);
    if (f->kind == STK_LAW_USL) {
        stk_jw_put_f64(w, "coherence", f->coherence);
        stk_report_interval(w, "coherence_interval", f->coherence_ci);
        stk_jw_put_f64(w, "peak_n", f->peak_n);
        stk_report_interval(w, "peak_n_interval", f->peak_ci);
    }
    stk_jw_put_f64(w, "relative_residual", f->rms);
    stk_jw_put_f64(w, "aicc", f->aicc);
    stk_jw_put_f64(w, "leave_one_out_smape", f->loo_smape);
    stk_jw_close(w, '}');
}

static void write_laws(const struct stk_laws *l, struct stk_jw *w)
{
    stk_jw_key(w, "laws");
    stk_jw_open(w, '{');
    for (int k = 0; k < STK_LAWS; k++) {
        if (!l->fit[k].ok)
            continue;
        stk_jw_key(w, stk_law_id((enum stk_law_kind)k));
        write_fit(&l->fit[k], w);
    }
    stk_jw_put_str(w, "chosen", l->chosen < 0 ? NULL : stk_law_id((enum stk_law_kind)l->chosen));
    stk_jw_put_str(w, "rival", l->rival < 0 ? NULL : stk_law_id((enum stk_law_kind)l->rival));
    stk_jw_put_str(w, "reason", l->reason);
    stk_jw_put_bool(w, "poor_fit", l->poor);
    stk_jw_put_f64(w, "peak_n", l->has_peak ? l->fit[l->chosen].peak_n : NAN);
    stk_jw_close(w, '}');
}

static void write_plateau(const struct stk_plateau *p, struct stk_jw *w)
{
    stk_jw_key(w, "plateau");
    stk_jw_open(w, '{');
    put_n(w, "n", p->found, p->n);
    stk_jw_put_f64(w, "best_share_beyond", p->found ? p->best_share : NAN);
    put_n(w, "best_share_at", p->found, p->best_n);
    stk_jw_put_bool(w, "noise_known", p->noise_known);
    stk_jw_put_bool(w, "sure", p->found && p->sure);
    if (p->has_last_step)
        stk_report_verdict(w, "last_step", &p->last_step);
    stk_jw_close(w, '}');
}

static void write_choices(const struct stk_scaling_series *s, struct stk_jw *w)
{
    stk_jw_key(w, "recommended");
    stk_jw_open(w, '{');
    for (int k = 0; k < STK_WISHES; k++) {
        const struct stk_choice *c = &s->choice[k];
        if (!c->asked)
            continue;
        stk_jw_key(w, stk_wish_id((enum stk_wish)k));
        stk_jw_open(w, '{');
        put_n(w, "n", c->found, c->found ? s->row[c->row].n : 0);
        stk_jw_put_bool(w, "known", c->found && c->known);
        stk_jw_put_str(w, "sentence", c->sentence);
        stk_jw_put_str(w, "reason", c->reason);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, '}');
}

static void write_predictions(const struct stk_scaling *all, const struct stk_scaling_series *s,
                              struct stk_jw *w)
{
    stk_jw_key(w, "predictions");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < all->o.npredict; i++) {
        const struct stk_prediction *p = &s->prediction[i];
        stk_jw_open(w, '{');
        stk_jw_put_f64(w, "n", p->n);
        stk_jw_put_bool(w, "refused", p->refused);
        stk_jw_put_str(w, "why", p->why);
        stk_jw_put_f64(w, "cost", p->time_s);
        stk_report_interval(w, "cost_interval", p->time_ci);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static void write_missing(unsigned missing, struct stk_jw *w)
{
    static const char *const names[] = {"cores", "gpus", "nodes", "time"}; /* enum stk_su_missing */
    stk_jw_key(w, "su_missing");
    stk_jw_open(w, '[');
    for (unsigned i = 0; i < 4; i++)
        if (missing >> i & 1)
            stk_jw_str(w, names[i]);
    stk_jw_close(w, ']');
}

static void write_series(const struct stk_scaling *all, size_t index, struct stk_jw *w)
{
    const struct stk_scaling_series *s = &all->series[index];
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "name", s->from->name);
    put_n(w, "base_n", s->base < s->nrows, s->base < s->nrows ? s->row[s->base].n : 0);
    stk_jw_put_str(w, "noise", stk_noise_word(stk_noise_verdict(&s->noise)));
    stk_jw_put_f64(w, "noise_relative_sd", s->noise.relative_sd);
    stk_jw_put_bool(w, "relative_su_from_allocation", s->su_known);
    write_missing(s->su_missing, w);
    stk_jw_put_bool(w, "superlinear", s->superlinear);
    stk_jw_key(w, "points");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < s->nrows; i++)
        write_row(&s->row[i], w);
    stk_jw_close(w, ']');
    write_laws(s->laws, w);
    write_plateau(&s->plateau, w);
    write_choices(s, w);
    write_predictions(all, s, w);
    stk_jw_close(w, '}');
}

static void write_comparison(const struct stk_comparison *c, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "a", c->a);
    stk_jw_put_u64(w, "b", c->b);
    stk_jw_put_bool(w, "accelerator", c->accelerator);
    stk_jw_key(w, "pays");
    if (c->accelerator && isfinite(c->su))
        stk_jw_bool(w, c->pays);
    else
        stk_jw_null(w);
    stk_jw_put_f64(w, "speed_of_b", c->speed);
    stk_jw_put_f64(w, "su_of_b", c->su);
    stk_jw_put_u64(w, "common_n", c->common);
    put_n(w, "clear_of_noise", stk_interval_known(c->at_best.ci), c->clear);
    put_n(w, "n", c->n > 0, c->n);
    if (c->n)
        stk_report_verdict(w, "at_n", &c->at_n);
    stk_report_verdict(w, "at_best", &c->at_best);
    stk_jw_put_str(w, "text", c->text);
    stk_jw_close(w, '}');
}

static void write_placement(const struct stk_scaling *all, struct stk_jw *w)
{
    const struct stk_placement *p = &all->placement;
    stk_jw_key(w, "placement");
    if (!p->found) {
        stk_jw_null(w);
        return;
    }
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "n", p->n);
    stk_jw_put_u64(w, "best", p->best);
    stk_jw_put_f64(w, "speed", p->speed);
    stk_report_verdict(w, "verdict", &p->verdict);
    stk_jw_put_str(w, "text", p->text);
    stk_jw_close(w, '}');
}

void stk_scale_json(const struct stk_scaling *all, struct stk_jw *w)
{
    stk_jw_key(w, "study");
    stk_study_write_json(all->study, w);
    stk_jw_key(w, "su_weights");
    stk_jw_open(w, '{');
    stk_jw_put_f64(w, "core", all->o.su.core);
    stk_jw_put_f64(w, "gpu", all->o.su.gpu);
    stk_jw_put_f64(w, "node", all->o.su.node);
    stk_jw_put_str(w, "site", all->o.su.site);
    stk_jw_close(w, '}');
    stk_jw_key(w, "series");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < all->nseries; i++)
        write_series(all, i, w);
    stk_jw_close(w, ']');
    stk_jw_key(w, "comparisons");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < all->ncomparisons; i++)
        write_comparison(&all->comparison[i], w);
    stk_jw_close(w, ']');
    write_placement(all, w);
    stk_jw_key(w, "cautions");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < all->ncautions; i++) {
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "id", all->caution[i].id);
        stk_jw_put_u64(w, "series", all->caution[i].series);
        stk_jw_put_str(w, "text", all->caution[i].text);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

/* ---- CSV ---------------------------------------------------------------------------------- */

static void put_cell(struct stk_buf *out, double v)
{
    char text[STK_NUM_ROOM];
    stk_buf_putc(out, ',');
    if (isfinite(v))
        stk_buf_put(out, text, stk_num_f64(text, v));
}

void stk_scale_csv(const struct stk_scaling *all, struct stk_buf *out)
{
    stk_buf_puts(out, "series,n,runs,failed_runs,value,value_low,value_high,time_s,speedup,"
                      "speedup_low,speedup_high,efficiency,su,relative_su,karp_flatt,cores,gpus,"
                      "nodes\n");
    for (size_t k = 0; k < all->nseries; k++)
        for (size_t i = 0; i < all->series[k].nrows; i++) {
            const struct stk_scaling_row *r = &all->series[k].row[i];
            stk_csv_put_text(out, all->series[k].from->name);
            stk_buf_printf(out, ",%llu,%zu,%zu", (unsigned long long)r->n, r->runs, r->bad);
            const double v[] = {r->value,   r->value_ci.lo,   r->value_ci.hi,   r->wall_s,
                                r->speedup, r->speedup_ci.lo, r->speedup_ci.hi, r->efficiency,
                                r->su,      r->relative_su,   r->karp_flatt,    r->cores,
                                r->gpus,    r->nodes};
            for (size_t j = 0; j < sizeof v / sizeof *v; j++)
                put_cell(out, v[j]);
            stk_buf_putc(out, '\n');
        }
}
