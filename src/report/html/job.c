/* job.c - a result of `stoker job` on a page: what jobs asked for, what they used, what it cost. */
#include <stdio.h>
#include <string.h>

#include "report/html/priv.h"

#define JOBS_MAX     20000
#define PLOT_MAX     200 /* jobs that are drawn */
#define REQUESTS_MAX 40  /* lines for job scripts */

static const struct stk_pg_column columns[] = {
    {"job", "Job", "text"},
    {"name", "Name", "text"},
    {"user", "User", "text"},
    {"state", "State", "text"},
    {"elapsed_s", "Ran", "s"},
    {"waited_s", "Waited", "s"},
    {"cpus", "CPUs", "count"},
    {"cpus_busy", "CPUs busy", ""},
    {"cpu_share", "CPU use", "share"},
    {"memory_bytes", "Memory asked", "B"},
    {"memory_used", "Memory used", "B"},
    {"memory_share", "Memory use", "share"},
    {"gpus", "GPUs", "count"},
    {"gpu_util", "GPU use", "share"},
    {"time_share", "Time limit used", "share"},
    {"su", "SU", ""},
};

static void put_job(struct stk_jw *w, const struct stk_jval *j)
{
    const struct stk_jval *used = stk_json_get(j, "used"), *got = stk_json_get(j, "got"),
                          *cost = stk_json_get(j, "cost");
    static const char *const texts[] = {"job", "name", "user", "state"};
    const double v[] = {
        stk_pg_get(j, "elapsed_s"),       stk_pg_get(j, "waited_s"),
        stk_pg_get(got, "cpus"),          stk_pg_get(used, "cpus_busy"),
        stk_pg_get(used, "cpu_share"),    stk_pg_get(got, "memory_bytes"),
        stk_pg_get(used, "memory_bytes"), stk_pg_get(used, "memory_share"),
        stk_pg_get(got, "gpus"),          stk_pg_get(used, "gpu_util"),
        stk_pg_get(used, "time_share"),   stk_pg_get(cost, "su"),
    };
    stk_jw_open(w, '[');
    for (size_t i = 0; i < STK_PG_COUNT(texts); i++)
        stk_jw_str(w, stk_pg_text(j, texts[i], NULL));
    for (size_t i = 0; i < STK_PG_COUNT(v); i++)
        stk_jw_f64(w, v[i]);
    stk_jw_close(w, ']');
}

static void put_use(struct stk_jw *w, const struct stk_jval *jobs, const char *name,
                    const char *member)
{
    stk_pg_series(w, name, "bar");
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < jobs->len && i < PLOT_MAX; i++)
        stk_pg_value(w, stk_pg_get(stk_json_get(&jobs->item[i], "used"), member));
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

static void put_plot(struct stk_jw *w, const struct stk_jval *jobs)
{
    const struct stk_pg_axis axis = {"job", "", "category", NAN, NAN};
    char text[200];
    snprintf(text, sizeof text,
             "The share of the CPU time, memory and time limit that each job used; the rest was "
             "allocated in vain.%s",
             jobs->len > PLOT_MAX ? " The first 200 jobs." : "");
    stk_pg_plot(w, "use", "Use of what was allocated", text);
    stk_pg_x(w, &axis);
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < jobs->len && i < PLOT_MAX; i++)
        stk_jw_str(w, stk_pg_text(&jobs->item[i], "job", "?"));
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
    stk_pg_panels(w);
    stk_pg_panel(w, "used", "share");
    put_use(w, jobs, "CPU", "cpu_share");
    put_use(w, jobs, "memory", "memory_share");
    put_use(w, jobs, "time limit", "time_share");
    put_use(w, jobs, "GPU", "gpu_util");
    stk_pg_panel_end(w);
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

/* ---- the verdict --------------------------------------------------------------------------- */

static void put_one_verdict(struct stk_jw *w, const struct stk_jval *job)
{
    double share = stk_pg_get(job, "used.cpu_share");
    struct stk_buf b = STK_BUF_INIT;
    char a[32];
    stk_buf_printf(&b, "Job %.60s: %.60s", stk_pg_text(job, "job", "?"),
                   stk_pg_text(job, "state", "unknown"));
    if (isfinite(share))
        stk_buf_printf(&b, "; it used %s of its CPU time", stk_unit_text(STK_U_SHARE, share, a, sizeof a));
    stk_jw_put_str(w, "verdict", stk_buf_cstr(&b));
    stk_pg_number(w, share, "share", "of the CPU time was used");
    stk_buf_release(&b);
}

/* ": 5 completed, 1 failed", the states in their order. */
static void states_text(const struct stk_jval *states, struct stk_buf *b)
{
    const char *between = ": ";
    for (size_t i = 0; states && states->type == STK_JOBJ && i < states->len; i++) {
        double n = stk_pg_get(states, states->name[i].str);
        if (!(n > 0))
            continue;
        stk_buf_printf(b, "%s%.0f %.40s", between, n, states->name[i].str);
        between = ", ";
    }
}

/* The share of the core-hours whose use is known. */
static void put_many_verdict(struct stk_jw *w, const struct stk_jval *r, size_t jobs)
{
    double used = stk_pg_get(r, "totals.core_hours_used");
    double share = used / (used + stk_pg_get(r, "totals.core_hours_idle"));
    struct stk_buf b = STK_BUF_INIT;
    char a[32];
    stk_buf_printf(&b, "%zu jobs", jobs);
    states_text(stk_pg_at(r, "totals.by_state"), &b);
    if (isfinite(share))
        stk_buf_printf(&b, ". They used %s of their core-hours, where that is known",
                       stk_unit_text(STK_U_SHARE, share, a, sizeof a));
    stk_jw_put_str(w, "verdict", stk_buf_cstr(&b));
    if (isfinite(share))
        stk_pg_number(w, share, "share", "of the core-hours were used");
    else
        stk_pg_number(w, (double)jobs, "count", "jobs");
    stk_buf_release(&b);
}

static void put_totals(struct stk_jw *w, const struct stk_jval *r)
{
    static const struct stk_pg_column facts[] = {
        {"totals.jobs", "Jobs", "count"},
        {"totals.core_hours", "Core-hours", ""},
        {"totals.core_hours_used", "Used", ""},
        {"totals.core_hours_idle", "Idle", ""},
        {"totals.core_hours_unknown", "Of unknown use", ""},
        {"totals.core_hours_not_completed", "In jobs that did not complete", ""},
        {"totals.gpu_hours", "GPU-hours", ""},
        {"totals.su", "Service units", ""},
    };
    stk_pg_facts_of(w, r, facts, STK_PG_COUNT(facts));
}

/* ---- what to request next ------------------------------------------------------------------ */

static void put_request(struct stk_jw *w, const struct stk_jval *job, const struct stk_jval *next)
{
    const char *line = stk_pg_text(next, "line", NULL), *other = stk_pg_text(next, "or", NULL);
    struct stk_buf title = STK_BUF_INIT, lines = STK_BUF_INIT;
    stk_buf_printf(&title, "job %.60s, %.120s", stk_pg_text(job, "job", "?"),
                   stk_pg_text(job, "name", "without a name"));
    stk_buf_puts(&lines, line ? line : "");
    if (other)
        stk_buf_printf(&lines, "%s# or: %s", line ? "\n" : "", other);
    stk_pg_finding(w, line ? "request" : "note", stk_buf_cstr(&title),
                   stk_pg_text(next, "why", NULL), stk_buf_cstr(&lines));
    stk_jw_close(w, '}');
    stk_buf_release(&title);
    stk_buf_release(&lines);
}

static void put_next(struct stk_jw *w, const struct stk_jval *jobs)
{
    size_t shown = 0;
    stk_pg_findings(w, "What to request next time");
    for (size_t i = 0; i < jobs->len && shown < REQUESTS_MAX; i++) {
        const struct stk_jval *next = stk_json_get(&jobs->item[i], "next");
        for (size_t k = 0; stk_pg_has_rows(next) && k < next->len; k++, shown++)
            put_request(w, &jobs->item[i], &next->item[k]);
    }
    stk_jw_close(w, ']');
}

/* Whether the page shows the figure that a doubt is about. */
static bool is_shown(const struct stk_jval *job, const char *figure)
{
    static const struct {
        const char *figure, *member;
    } all[] = {{"cpu", "used.cpu_share"}, {"memory", "used.memory_share"}, {"gpu", "used.gpu_util"}};
    for (size_t i = 0; i < STK_PG_COUNT(all); i++)
        if (strcmp(all[i].figure, figure) == 0)
            return isfinite(stk_pg_get(job, all[i].member));
    return false;
}

/* Figures that are bounds only: what is unknown has no number. */
static void put_doubts(struct stk_jw *w, const struct stk_jval *jobs)
{
    size_t shown = 0;
    stk_jw_key(w, "notes");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < jobs->len && shown < REQUESTS_MAX; i++) {
        const struct stk_jval *all = stk_json_get(&jobs->item[i], "doubts");
        for (size_t k = 0; stk_pg_has_rows(all) && k < all->len; k++) {
            const char *figure = stk_pg_text(&all->item[k], "figure", "?");
            struct stk_buf b = STK_BUF_INIT;
            if (!is_shown(&jobs->item[i], figure))
                continue;
            stk_buf_printf(&b, "Job %.60s, %.40s: %.40s what is shown; %s",
                           stk_pg_text(&jobs->item[i], "job", "?"), figure,
                           stk_pg_text(&all->item[k], "worth", "about"),
                           stk_pg_text(&all->item[k], "why", ""));
            stk_jw_str(w, stk_buf_cstr(&b));
            stk_buf_release(&b);
            shown++;
        }
    }
    stk_jw_close(w, ']');
}

static int add_job(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err)
{
    struct stk_jw *w = &page->w;
    const struct stk_jval *jobs = stk_json_get(in->result, "jobs");
    if (!jobs || jobs->type != STK_JARR || !jobs->len)
        return stk_err_set(err, STK_E_UNSUPPORTED, in->path, -1, "the result contains no job");
    for (size_t i = 0; i < jobs->len; i++)
        if (jobs->item[i].type != STK_JOBJ)
            return stk_err_set(err, STK_E_CORRUPT, in->path, -1, "job %zu is not an object", i);
    stk_pg_begin(w, "job", in->name,
                 jobs->len == 1 ? stk_pg_text(&jobs->item[0], "name", "A job") : "Jobs");
    if (jobs->len == 1)
        put_one_verdict(w, &jobs->item[0]);
    else
        put_many_verdict(w, in->result, jobs->len);
    put_totals(w, in->result);
    put_next(w, jobs);
    stk_pg_blocks(w);
    put_plot(w, jobs);
    stk_pg_table(w, "jobs", "Jobs", NULL, columns, STK_PG_COUNT(columns));
    for (size_t i = 0; i < jobs->len && i < JOBS_MAX; i++)
        put_job(w, &jobs->item[i]);
    stk_pg_table_end(w);
    stk_jw_close(w, ']');
    put_doubts(w, jobs);
    stk_pg_end(w);
    return 0;
}

const struct stk_pg_kind stk_pg_job = {.name = "job", .command = "job", .add = add_job};
