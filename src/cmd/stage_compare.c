/* stage_compare.c - `stoker stage --compare`, and one point of it inside a study. */
#include "cmd/stage_compare.h"

#include <stdlib.h>

#include "report/stage.h"
#include "stage/compare.h"

const char *const *stk_stage_compare_forms(void)
{
    return stk_form_ids;
}

bool stk_stage_compare_asked(const struct stk_stage_compare_settings *s)
{
    return s->compare || s->step;
}

static int stop_asked(void *user)
{
    (void)user;
    return stk_stop_signal();
}

/* The study reads what this prints. */
static int run_step(struct stk_run *run, const struct stk_stage_compare_settings *s)
{
    struct stk_compare_step step = {
        .dir = run->opts.arg[0], .form = s->step, .n = s->of, .jobs = s->here, .stop = stop_asked};
    struct stk_compare_job *job;
    int rc = stk_compare_step(&step, &job, &run->err);
    for (uint64_t i = 0; i < s->here && !rc; i++)
        stk_say(run, STK_COMPARE_LINE, job[i].first_s, job[i].last_s);
    free(job);
    return rc;
}

static int on_tick(void *user, const char *doing)
{
    struct stk_run *run = user;
    return stk_progress_say(&run->progress, doing);
}

static int run_compare(struct stk_run *run, const struct stk_stage_compare_settings *s)
{
    const struct stk_compare_plan plan = {
        .source = run->opts.arg[0],
        .target = run->opts.nargs > 1 ? run->opts.arg[1] : NULL,
        .beside = s->beside,
        .ids = s->forms,
        .jobs = s->jobs,
        .runs = s->runs,
        .seed = s->seed,
        .via = stk_executor_find(s->executor),
        .per_node = s->per_node,
        .sbatch = s->sbatch,
        .tick = on_tick,
        .user = run,
    };
    struct stk_compare *c = calloc(1, sizeof *c);
    if (!c)
        return stk_err_nomem(&run->err, sizeof *c);
    int rc = stk_compare(&plan, c, &run->err);
    if (rc == STK_E_STOPPED)
        stk_buf_puts(&run->hint, "everything that the comparison made was removed");
    stk_progress_clear(&run->progress);
    if (!rc || (rc == STK_E_STOPPED && c->scaling.nseries)) {
        struct stk_err why = run->err;
        int shown = stk_say_result(run, &stk_forms_kind, c, NULL);
        rc = rc ? rc : shown;
        run->err = rc == STK_E_STOPPED ? why : run->err;
    }
    int status = rc ? rc : c->complete ? STK_EXIT_DONE : STK_EXIT_PARTLY;
    stk_compare_release(c);
    free(c);
    return status;
}

int stk_stage_compare_run(struct stk_run *run, const struct stk_stage_compare_settings *s)
{
    stk_stop_on_loss();
    run->cleans_up = true;
    return s->step ? run_step(run, s) : run_compare(run, s);
}
