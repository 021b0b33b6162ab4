/* fuzz_slurm.c - whatever Slurm's clients print, and what nodes of a watched job send: read,
 * judged, shown as text and as JSON. */
#include "base/text.h"
#include "harness.h"

#include "sched/slurm/priv.h"
#include "report/job.h"
#include "result/page.h"
#include "result/screen.h"
#include "report/watch.h"

#define FROM_A_NODE 0xff

static void no_controls(const struct stk_buf *b)
{
    stk_fuzz_touch(b->data, b->len);
    for (size_t i = 0; i < b->len; i++)
        if (b->data[i] < 0x20 && b->data[i] != '\n' && !stk_style_is_mark(b->data[i]))
            stk_fuzz_broken("nothing that steers a terminal is shown");
}

static void watch(const char *line, size_t len)
{
    struct stk_slurm_job job = {.label = "1", .name = "", .nodelist = ""};
    struct stk_watch_node node = {0}, again = {0};
    struct stk_watch_screen s = {
        .job = &job, .node = &node, .nnodes = 1, .columns = 80, .rows = 24};
    struct stk_buf b = STK_BUF_INIT;
    if (stk_watch_read(line, len, &node, NULL) == 0) {
        stk_watch_text(&s, &b);
        stk_watch_sentence(&s, &b);
        no_controls(&b);
        stk_buf_reset(&b);
        stk_jfields_text(stk_watch_fields, &node, false, &b);
        if (stk_watch_read((const char *)b.data, b.len, &again, NULL))
            stk_fuzz_broken("a sample that was written can be read");
    }
    stk_watch_node_release(&node);
    stk_watch_node_release(&again);
    stk_buf_release(&b);
}

static void show(const struct stk_slurm_jobs *jobs)
{
    const struct stk_job_list list = {.jobs = jobs, .scale = {.now = 1794742519, .advise_s = 1}};
    struct stk_buf b = STK_BUF_INIT;
    struct stk_screen s = {.columns = 80, .utf8 = jobs->n % 2, .out = &b};
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *v;
    struct stk_jw w;
    if (stk_result_fill(&stk_job_kind, &list, &arena, &v, NULL))
        stk_fuzz_broken("jobs are written as JSON");
    stk_screen_draw(&stk_job_kind, v, &s);
    no_controls(&b);
    stk_buf_reset(&b);
    stk_jw_init(&w, &b, false);
    stk_page_draw(&stk_job_kind, "jobs", "", v, &w);
    stk_arena_release(&arena);
    stk_buf_release(&b);
}

/* The first byte says which clients have printed it, in which order. */
int fuzz_slurm(const uint8_t *data, size_t size)
{
    struct stk_slurm_jobs jobs = {.max = 100};
    uint64_t id;
    if (size < 2)
        return 0;
    const char *text = (const char *)data + 1;
    size_t len = size - 1;
    if (data[0] == FROM_A_NODE) {
        watch(text, len);
        return 0;
    }
    (void)stk_slurm_read_sbatch(text, len, &id);
    for (unsigned order = data[0], i = 0; i < 4; i++, order >>= 2) {
        bool only = i > 1;
        if (order % 4 == 0)
            (void)stk_slurm_read_sacct(&jobs, text, len, "|@|", only);
        else if (order % 4 == 1)
            (void)stk_slurm_read_squeue(&jobs, text, len, "|@|", only);
        else if (order % 4 == 2)
            (void)stk_slurm_read_scontrol(&jobs, text, len, 0, only);
        else
            (void)stk_slurm_read_sstat(&jobs, text, len, "|");
    }
    for (size_t i = 0; i < jobs.n; i++)
        stk_slurm_job_settle(&jobs.job[i]);
    show(&jobs);
    stk_slurm_jobs_release(&jobs);
    return 0;
}
