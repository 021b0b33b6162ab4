/* test_watch.c - the screen of `stoker watch`: a node that is lost must not go on being busy, and
 * many nodes must not push the processes off the screen. */
#include "check.h"
#include "report/watch.h"

#include <stdio.h>

#define NODES 40u

static struct stk_watch_node node[NODES];
static struct stk_watch_process busy;
static struct stk_slurm_job job;
static struct stk_buf b = STK_BUF_INIT;

/* `n` nodes with a busy process each, on a terminal of 100 columns. */
static struct stk_watch_screen screen(size_t n)
{
    busy = (struct stk_watch_process){.pid = 7,
                                      .rank = -1,
                                      .threads = 1,
                                      .cpus = 1,
                                      .memory_bytes = 1 << 20,
                                      .state = "R",
                                      .command = "program",
                                      .gpu_memory_bytes = -1};
    job = (struct stk_slurm_job){
        .label = "1", .name = "x", .nodelist = "n", .alloc = {.cpus = 80, .memory_bytes = -1}};
    for (unsigned i = 0; i < NODES; i++) {
        node[i] = (struct stk_watch_node){.processes = 1,
                                          .threads = 1,
                                          .cpus = 1,
                                          .memory_bytes = 1 << 20,
                                          .process = &busy,
                                          .nprocesses = 1};
        snprintf(node[i].host, sizeof node[i].host, "node%u", i);
    }
    stk_buf_reset(&b);
    return (struct stk_watch_screen){.job = &job, .node = node, .nnodes = n, .columns = 100};
}

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

static void a_lost_node_is_not_busy(void)
{
    struct stk_watch_screen s = screen(2);
    node[1].silent = true;
    stk_watch_sentence(&s, &b);
    CHECK_STR(stk_buf_cstr(&b),
              "runs on 2 nodes (1 without an answer), 1 process, 1 thread, time 0 s, "
              "CPU 1 of 80 CPUs busy, 1.2 %, memory 1.00 MiB");
    stk_buf_reset(&b);
    stk_watch_text(&s, &b);
    CHECK_INT(count(stk_buf_cstr(&b), "no answer"), 1);
    CHECK_INT(count(stk_buf_cstr(&b), "program"), 1);
}

static void many_nodes_leave_room(void)
{
    struct stk_watch_screen s = screen(NODES);
    node[1].silent = true;
    s.rows = 24;
    stk_watch_text(&s, &b);
    CHECK(strstr(stk_buf_cstr(&b), "and 34 more nodes") != NULL);
    CHECK(count(stk_buf_cstr(&b), "program") >= 3);
    CHECK(count(stk_buf_cstr(&b), "\n") <= s.rows);
}

/* On a terminal of 80 columns every second line would be the rest of the one before. */
static void no_line_is_too_wide(void)
{
    struct stk_watch_screen s = screen(NODES);
    job.name = "a-job-with-a-long-name-indeed";
    job.nodelist = "a-node-with-a-long-name-[0001-0040]";
    job.state = STK_SLURM_OUT_OF_MEMORY;
    job.limit_s = 200000;
    job.elapsed_s = 100000;
    busy.gpu_memory_bytes = INT64_C(1000) << 30;
    busy.pid = 1234567;
    snprintf(busy.command, sizeof busy.command, "python3 /a/path/train.py --some --more --options");
    for (size_t i = 0; i < NODES; i++)
        snprintf(node[i].host, sizeof node[i].host, "a-node-with-a-long-name-%04zu", i);
    s.rows = 24;
    s.columns = 80;
    stk_watch_text(&s, &b);
    for (const char *line = stk_buf_cstr(&b); *line; line += strcspn(line, "\n") + 1)
        CHECK(strcspn(line, "\n") <= 80);
    CHECK(strstr(stk_buf_cstr(&b), "0005 ") && strstr(stk_buf_cstr(&b), " pyt"));
}

/* A program that reads the JSON would take -1 for a number of CPUs. */
static void what_is_not_known_is_null(void)
{
    screen(1);
    struct stk_watch_node n = node[0], back = {0};
    struct stk_watch_process p = busy;
    n.cpus = p.cpus = -1;
    n.process = &p;
    n.gpu[0] = (struct stk_gpu){
        .index = UINT32_MAX, .util = -1, .memory_bytes = -1, .total_bytes = -1};
    n.ngpus = 1;
    stk_jfields_text(stk_watch_fields, &n, false, &b);
    CHECK(!strstr(stk_buf_cstr(&b), "-1") && strstr(stk_buf_cstr(&b), "\"util\":null"));
    CHECK_INT(stk_watch_read(stk_buf_cstr(&b), b.len, &back, NULL), 0);
    CHECK(back.cpus < 0 && back.process[0].cpus < 0 && back.gpu[0].util < 0);
    CHECK(back.gpu[0].index == UINT32_MAX);
    stk_watch_node_release(&back);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(a_lost_node_is_not_busy);
    CHECK_RUN(many_nodes_leave_room);
    CHECK_RUN(no_line_is_too_wide);
    CHECK_RUN(what_is_not_known_is_null);
    stk_buf_release(&b);
    return CHECK_DONE();
}
