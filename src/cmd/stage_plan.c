/* stage_plan.c - `stoker stage --dry-run`: where the copy would go, what it takes, whether it pays.
 */
#include "cmd/stage.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advice/advice.h"
#include "base/units.h"
#include "host/cgroup.h"
#include "report/stage.h"
#include "stage/cost.h"
#include "model/measure.h"
#include "result/grid.h"

static int stopped(void *user)
{
    (void)user;
    return stk_stop_signal();
}

/* ---- rates that the user gives ---- */

static double *rate_of(struct stk_cost_case *c, const char *name, size_t n)
{
    const struct {
        const char *name;
        double *value;
    } known[] = {{"source", &c->source.read_Bps},
                 {"source-all", &c->source.all_Bps},
                 {"write", &c->target.write_Bps},
                 {"read", &c->target.read_Bps},
                 {"fabric", &c->fabric_Bps}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == n && strncmp(known[i].name, name, n) == 0)
            return known[i].value;
    return NULL;
}

/* "source=2G,write=800M": bytes per second. */
static int read_rates(struct stk_run *run, const char *text, struct stk_cost_case *c)
{
    char word[64];
    for (const char *at = text; at && *at;) {
        size_t n = strcspn(at, ","), name = strcspn(at, "=");
        double *value = name < n ? rate_of(c, at, name) : NULL;
        uint64_t bytes = 0;
        snprintf(word, sizeof word, "%.*s", name < n ? (int)(n - name - 1) : 0, at + name + 1);
        if (!value || n >= sizeof word || stk_parse_size(word, &bytes, NULL) < 0 || !bytes)
            return stk_err_set(
                &run->err, STK_E_USAGE, NULL, -1,
                "--rates: \"%.80s\": write source=2G,source-all=20G,write=1G,read=3G,"
                "fabric=10G, or some of them",
                text);
        *value = (double)bytes;
        at += n + (at[n] == ',');
    }
    return 0;
}

/* ---- rates of a profile ---- */

static int read_profile(struct stk_stage_job *job, struct stk_cost_case *c, struct stk_buf *from)
{
    struct stk_run *run = job->run;
    const char *path = job->s->profile;
    struct stk_judged *j = path ? malloc(sizeof *j) : NULL;
    if (!path)
        return 0;
    if (!j)
        return stk_err_nomem(&run->err, sizeof *j);
    int rc = stk_judge_profile(run, path, job->s->open.trust, j);
    if (rc == 0) {
        if (!stk_cost_take_profile(&j->analysis, job->src.path, c))
            rc = stk_err_set(&run->err, STK_E_USAGE, path, -1, "this profile has no reads of %s",
                             job->src.path);
        stk_judged_release(j);
    }
    if (rc == 0)
        stk_buf_printf(from, "profile %s", path);
    free(j);
    return rc;
}

/* ---- rates that are measured ---- */

static void take(double *to, double measured)
{
    *to = *to > 0 ? *to : measured;
}

/* What neither the user nor a profile has given. */
static void complete(struct stk_storage *st, const struct stk_storage *measured)
{
    take(&st->read_Bps, measured->read_Bps);
    take(&st->stream_Bps, measured->stream_Bps);
    take(&st->write_Bps, measured->write_Bps);
    take(&st->open_s, measured->open_s);
    take(&st->latency_s, measured->latency_s);
    take(&st->create_s, measured->create_s);
}

static void measure(struct stk_stage_job *job, const struct stk_fs_facts *src,
                    struct stk_cost_case *c, struct stk_buf *from)
{
    struct stk_measure_how how = {.limit.stop = stopped};
    struct stk_measured m;
    const struct stk_target *t = job->at.target;
    if (!(c->source.read_Bps > 0)) {
        stk_measure_data(job->src.path, src->fs, src->reach == STK_REACH_MEMORY, &how, &m);
        complete(&c->source, &m.storage);
        stk_buf_printf(from, "%ssource measured just now (%s)", from->len ? ", " : "",
                       m.way[0] ? m.way : "not known");
    }
    if (t && t->verdict == STK_TARGET_FITS &&
        !(c->target.write_Bps > 0 && c->target.read_Bps > 0)) {
        stk_measure_folder(t->path, t->facts.fs, t->facts.reach == STK_REACH_MEMORY, &how, &m);
        complete(&c->target, &m.storage);
        stk_buf_printf(from, "%starget measured just now (%s)", from->len ? ", " : "",
                       m.way[0] ? m.way : "not known");
    }
    if (job->s->rates)
        stk_buf_printf(from, "%s--rates %s", from->len ? ", " : "", job->s->rates);
}

/* ---- the plan ---- */

static unsigned nodes_of_job(void)
{
    const char *text = getenv("SLURM_JOB_NUM_NODES");
    uint64_t n = 0;
    return text && stk_parse_u64(text, &n, NULL) == 0 && n && n < 1000000 ? (unsigned)n : 1;
}

static int show(struct stk_stage_job *job, const struct stk_cost_case *c, const char *rates)
{
    struct stk_run *run = job->run;
    struct stk_cost cost;
    stk_cost_compute(c, &cost);
    struct stk_stage_plan plan = {.source = job->src.path,
                                  .targets = job->at.targets,
                                  .target = job->at.target,
                                  .asked = c,
                                  .cost = &cost,
                                  .there = job->at.there,
                                  .rates = *rates ? rates : NULL};
    return stk_say_result(run, &stk_stage_plan_kind, &plan, NULL);
}

int stk_stage_plan(struct stk_stage_job *job, const char *dst)
{
    struct stk_run *run = job->run;
    static struct stk_fs_facts src;
    struct stk_buf from = STK_BUF_INIT;
    struct stk_cost_case c = {
        .bytes = job->src.bytes,
        .files = job->src.count,
        .nodes = nodes_of_job(),
        .copies = job->s->copies < UINT_MAX ? (unsigned)job->s->copies : UINT_MAX,
        .epochs = stk_opts_given(&job->run->opts, "epochs") ? job->s->loader.epochs : 0,
        .background = job->s->background,
        .cache_bytes = stk_memory_free()};
    int rc = read_profile(job, &c, &from);
    rc = rc ? rc : read_rates(run, job->s->rates, &c);
    rc = rc ? rc : stk_stage_place(job, dst, &job->src, job->src.bytes);
    if (rc == STK_E_UNSUPPORTED) { /* no folder takes it: the plan says so */
        run->err = (struct stk_err){0};
        rc = 0;
    }
    if (rc == 0) {
        (void)stk_fs_facts(job->src.path, NULL, &src);
        c.source_local = src.reach == STK_REACH_LOCAL || src.reach == STK_REACH_MEMORY;
        measure(job, &src, &c, &from);
    }
    if (rc == 0 && stopped(NULL))
        rc = stk_err_set(&run->err, STK_E_STOPPED, NULL, -1, "stopped");
    rc = rc ? rc : show(job, &c, stk_buf_cstr(&from));
    stk_buf_release(&from);
    return rc;
}

/* ---- --compare ------------------------------------------------------------------------------- */

/* `stoker stage --compare`, and one point of it inside a study. */

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
