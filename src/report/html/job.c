/* job.c - a result of `stoker job` on a page: what jobs asked for, what they used, what it cost. */
#include <stdio.h>

#include "report/html/priv.h"

#define JOBS_MAX 20000

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
    for (size_t i = 0; i < jobs->len && i < 200; i++)
        stk_pg_value(w, stk_pg_get(stk_json_get(&jobs->item[i], "used"), member));
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

static void put_plot(struct stk_jw *w, const struct stk_jval *jobs)
{
    const struct stk_pg_axis axis = {"job", "", "category", NAN, NAN};
    stk_pg_plot(w, "use", "Use of what was allocated",
                "The share of the CPU time, memory and time limit that each job used; the rest was "
                "allocated in vain. The first 200 jobs.");
    stk_pg_x(w, &axis);
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < jobs->len && i < 200; i++)
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

static void put_verdict(struct stk_jw *w, const struct stk_jval *jobs)
{
    char text[300];
    const struct stk_jval *used = stk_json_get(&jobs->item[0], "used");
    double share = stk_pg_get(used, "cpu_share");
    if (jobs->len == 1)
        snprintf(text, sizeof text, "Job %.60s: %.60s; it used %.3g %% of its CPU time.",
                 stk_pg_text(&jobs->item[0], "job", "?"),
                 stk_pg_text(&jobs->item[0], "state", "unknown"), 100 * share);
    else
        snprintf(text, sizeof text, "%zu jobs.", jobs->len);
    if (jobs->len == 1 && !isfinite(share))
        snprintf(text, sizeof text, "Job %.60s: %.60s.", stk_pg_text(&jobs->item[0], "job", "?"),
                 stk_pg_text(&jobs->item[0], "state", "unknown"));
    stk_jw_put_str(w, "verdict", text);
    if (jobs->len == 1)
        stk_pg_number(w, share, "share", "of the CPU time was used");
    else
        stk_pg_number(w, (double)jobs->len, "count", "jobs");
}

/* What to change in the next job script: sentences of the result. */
static void put_next(struct stk_jw *w, const struct stk_jval *jobs)
{
    stk_jw_key(w, "notes");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < jobs->len && i < 20; i++) {
        const struct stk_jval *next = stk_json_get(&jobs->item[i], "next");
        for (size_t k = 0; next && next->type == STK_JARR && k < next->len; k++) {
            struct stk_buf b = STK_BUF_INIT;
            const char *line = stk_pg_text(&next->item[k], "line", NULL);
            stk_buf_printf(&b, "%s%s%s", line ? line : "", line ? ": " : "",
                           stk_pg_text(&next->item[k], "why", ""));
            stk_jw_str(w, stk_buf_cstr(&b));
            stk_buf_release(&b);
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
    put_verdict(w, jobs);
    stk_pg_blocks(w);
    put_plot(w, jobs);
    stk_pg_table(w, "jobs", "Jobs", NULL, columns, STK_PG_COUNT(columns));
    for (size_t i = 0; i < jobs->len && i < JOBS_MAX; i++)
        put_job(w, &jobs->item[i]);
    stk_pg_table_end(w);
    stk_jw_close(w, ']');
    put_next(w, jobs);
    stk_pg_end(w);
    return 0;
}

const struct stk_pg_kind stk_pg_job = {.name = "job", .command = "job", .add = add_job};
