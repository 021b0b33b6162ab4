/* status.c - what a study in progress shows to `stoker watch`: how far it is, and its points. */
#include <math.h>

#include "study/priv.h"

#define EVERY_S 2.0

static void put_point(const struct stk_tally *t, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "label", t->point->label);
    stk_jw_put_str(w, "series", t->point->series);
    stk_jw_put_u64(w, "n", t->point->n);
    stk_jw_put_u64(w, "good", t->good);
    stk_jw_put_u64(w, "bad", t->bad);
    stk_jw_put_u64(w, "waiting", t->waiting);
    stk_jw_put_f64(w, "wall_s", t->wall_s);
    stk_jw_put_f64(w, "cost", t->cost);
    stk_jw_put_f64(w, "half_width", t->half_width);
    stk_jw_put_bool(w, "done", t->done);
    stk_jw_close(w, '}');
}

static void put_now(void *user, struct stk_jw *w)
{
    const struct stk_runner *r = user;
    const struct stk_runner_state *st = &r->state;
    stk_jw_put_str(w, "unit", r->study.unit);
    stk_jw_put_str(w, "metric", r->study.metric);
    stk_jw_put_bool(w, "weak", r->study.weak);
    stk_jw_put_u64(w, "done", st->done);
    stk_jw_put_u64(w, "planned", st->planned);
    stk_jw_put_str(w, "phase", st->phase);
    stk_jw_put_str(w, "label", st->label);
    stk_jw_put_f64(w, "left_s", st->phase ? st->left_s : NAN);
    stk_jw_put_u64(w, "pending", st->pending);
    stk_jw_put_u64(w, "running", st->running);
    stk_jw_put_str(w, "reason", st->reason);
    stk_jw_put_u64(w, "waiting", stk_runner_waiting(r));
    stk_jw_put_f64(w, "budget_s", r->plan.budget_s > 0 ? r->plan.budget_s : NAN);
    stk_jw_key(w, "points");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < r->points.n; i++)
        put_point(&r->tally[i], w);
    stk_jw_close(w, ']');
}

void stk_runner_show(struct stk_runner *r)
{
    r->beacon = (struct stk_beacon){.name = STK_STUDY_STATUS,
                                    .command = "scale",
                                    .every_s = EVERY_S,
                                    .mode = r->folder.mode,
                                    .put = put_now,
                                    .user = r};
    stk_beacon_begin(&r->beacon, r->folder.fd);
}
