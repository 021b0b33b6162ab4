/* test_job.c - what to write in the next batch file: never less than was used, never more than was
 * asked for, all lines of it together. With a line that is wrong the next job dies, or waits. */
#include "check.h"
#include "job/job.h"

#include <stdio.h>

#define MIB (INT64_C(1) << 20)

static struct stk_slurm_step step(const char *name, int64_t start, int64_t end, int64_t mib)
{
    return (struct stk_slurm_step){
        .name = name,
        .tasks = 1,
        .start = start,
        .end = end,
        .alloc = {.cpus = 1, .nodes = 1},
        .use = {.cpu_s = 1, .memory_bytes = mib * MIB, .task_memory_bytes = mib * MIB}};
}

/* An hour of two, four CPUs, 4000 MiB. */
static struct stk_slurm_job job(struct stk_slurm_step *steps, size_t n)
{
    return (struct stk_slurm_job){.state = STK_SLURM_COMPLETED,
                                  .state_word = "COMPLETED",
                                  .label = "1",
                                  .reason = "",
                                  .nodelist = "n1",
                                  .sources = STK_SLURM_BY_SACCT,
                                  .tasks = -1,
                                  .cpus_per_task = -1,
                                  .memory_per_cpu_bytes = -1,
                                  .memory_per_node_bytes = -1,
                                  .start = 1000,
                                  .end = 4600,
                                  .elapsed_s = 3600,
                                  .limit_s = 7200,
                                  .asked = {.cpus = 4, .nodes = 1},
                                  .alloc = {.cpus = 4, .nodes = 1, .memory_bytes = 4000 * MIB},
                                  .step = steps,
                                  .nsteps = n,
                                  .use = {.cpu_s = 3600, .gpu_util = -1}};
}

static double memory_of(const struct stk_slurm_step *s)
{
    return (double)(s->use.memory_bytes / MIB);
}

/* The lines, each with a "\n"; "-" for a remark. */
static const char *lines(struct stk_slurm_job *j)
{
    static char text[600];
    struct stk_job_view v;
    double mib = stk_slurm_at_once(j, memory_of);
    j->use.memory_bytes = mib < 0 ? -1 : (int64_t)mib * MIB;
    stk_job_judge(j, 5000, 300, &v);
    text[0] = '\0';
    for (size_t i = 0, n = 0; i < v.nnotes; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s%s\n",
                              v.note[i].line[0] ? v.note[i].line + 8 : "-",
                              v.note[i].other[0] ? " or " : "", v.note[i].other);
    return text;
}

static void at_once(void)
{
    struct stk_slurm_step s[] = {step("batch", 1000, 4600, 100), step("0", 1001, 2000, 700),
                                 step("1", 1999, 3000, 800), step("2", 2500, 2900, 50),
                                 step("3", 4000, 4000, 60)};
    struct stk_slurm_job j = job(s, 5);
    CHECK_INT(stk_slurm_at_once(&j, memory_of), 950); /* 0 and 1 follow one another */
    s[1].end = 2100;
    CHECK_INT(stk_slurm_at_once(&j, memory_of), 1600);
    s[4].end = s[4].start = -1; /* nobody knows when */
    CHECK_INT(stk_slurm_at_once(&j, memory_of), 1660);
    j.nsteps = 0;
    CHECK_INT(stk_slurm_at_once(&j, memory_of), -1);
}

static void memory_goes_with_cpus(void)
{
    struct stk_slurm_step s[] = {step("batch", 1000, 4600, 400)};
    struct stk_slurm_job j = job(s, 1);
    /* One CPU in place of four: it has to have all of the memory. */
    CHECK_STR(lines(&j), "--mem=500M or --mem-per-cpu=500M\n--time=01:15:00\n"
                         "--ntasks=1 --cpus-per-task=1\n");
    j.tasks = 1;
    j.cpus_per_task = 4;
    j.memory_per_cpu_bytes = 1000 * MIB;
    CHECK_STR(lines(&j), "--mem-per-cpu=500M\n--time=01:15:00\n--cpus-per-task=1\n");
    j.tasks = 4;
    j.cpus_per_task = 1;
    CHECK_STR(lines(&j), "--mem-per-cpu=500M\n--time=01:15:00\n--ntasks=1\n");
    j.use.cpu_s = 2 * 3600; /* processes of its own: not more CPUs a task than there were */
    CHECK_STR(lines(&j), "--mem-per-cpu=250M\n--time=01:15:00\n--ntasks=1 --cpus-per-task=2\n");
    /* A core has two of them, or the node is a gift: it has asked for one. */
    j.asked.cpus = 1;
    j.use.cpu_s = 3600;
    CHECK_STR(lines(&j), "--mem-per-cpu=500M\n--time=01:15:00\n");
}

static void steps_side_by_side(void)
{
    struct stk_slurm_step s[] = {step("batch", 1000, 4600, 10), step("0", 1001, 4600, 300),
                                 step("1", 1001, 4600, 300), step("2", 1001, 4600, 300),
                                 step("3", 1001, 4600, 300)};
    struct stk_slurm_job j = job(s, 5);
    CHECK_STR(lines(&j), "--mem=1500M or --mem-per-cpu=400M\n--time=01:15:00\n-\n");
    s[1].tasks = 4;
    s[1].use.memory_bytes = 1200 * MIB;
    j.nsteps = 2;
    j.alloc.cpus = j.asked.cpus = 16; /* four tasks of four CPUs, one of them busy */
    CHECK_STR(lines(&j), "--mem=1500M or --mem-per-cpu=400M\n--time=01:15:00\n"
                         "--cpus-per-task=1\n");
    j.alloc.nodes = s[1].alloc.nodes = 2; /* the script's own memory is on one of them */
    s[0].use.memory_bytes = s[0].use.task_memory_bytes = 500 * MIB;
    CHECK_STR(lines(&j), "--mem=1500M or --mem-per-cpu=700M\n--time=01:15:00\n"
                         "--cpus-per-task=1\n");
}

static void time_is_never_more(void)
{
    struct stk_slurm_step s[] = {step("batch", 1000, 4600, 3500)};
    struct stk_slurm_job j = job(s, 1);
    j.use.cpu_s = 4 * 3600;
    j.elapsed_s = 320;
    j.limit_s = 540;
    CHECK_STR(lines(&j), ""); /* rounded up it would be ten minutes of nine */
    j.limit_s = 900;
    CHECK_STR(lines(&j), "--time=00:10:00\n");
    j.state = STK_SLURM_TIMEOUT;
    j.state_word = "TIMEOUT";
    CHECK_STR(lines(&j), "--time=00:30:00\n");
    j.deadline = true;
    CHECK_STR(lines(&j), "");
}

static struct stk_slurm_job killed_job(struct stk_slurm_step *s, enum stk_slurm_state state)
{
    struct stk_slurm_job j = job(s, 1);
    j.state = state;
    j.state_word = state == STK_SLURM_TIMEOUT ? "TIMEOUT" : "";
    j.killed = s->killed = state > STK_SLURM_FAILED;
    s->state = state;
    return j;
}

static const struct stk_job_doubt *doubt(const struct stk_slurm_job *j, enum stk_job_figure figure)
{
    static struct stk_job_view v;
    stk_job_judge(j, 5000, 300, &v);
    return &v.doubt[figure];
}

/* Slurm counts next to no CPU time of a program that is killed with its script: the job would be
 * called idle, and the next one get one CPU; or less memory than it was about to need. */
static void killed_is_not_idle(void)
{
    static const enum stk_slurm_state ends[] = {STK_SLURM_FAILED,    STK_SLURM_CANCELLED,
                                                STK_SLURM_TIMEOUT,   STK_SLURM_OUT_OF_MEMORY,
                                                STK_SLURM_NODE_FAIL, STK_SLURM_PREEMPTED};
    struct stk_job_view v;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct stk_slurm_step s[] = {step("batch", 1000, 4600, 400)};
        struct stk_slurm_job j = killed_job(s, ends[i]);
        j.use.cpu_s = 0.002;
        CHECK(!strstr(lines(&j), "cpus-per-task") && !strstr(lines(&j), "--ntasks"));
        bool more = ends[i] == STK_SLURM_OUT_OF_MEMORY;
        CHECK_INT(strstr(lines(&j), "--mem") != NULL, more);
        if (ends[i] == STK_SLURM_FAILED) /* it ended by itself: it was idle */
            continue;
        CHECK_INT(doubt(&j, STK_JOB_CPU)->worth, STK_JOB_UNKNOWN);
        stk_job_judge(&j, 5000, 300, &v);
        CHECK(v.cpus_busy < 0 && v.use.cpu_s < 0 && v.use.memory_bytes > 0);
        j.use.cpu_s = 1800; /* of srun's tasks, at least */
        stk_job_judge(&j, 5000, 300, &v);
        CHECK(v.doubt[STK_JOB_CPU].worth == STK_JOB_AT_LEAST && v.cpus_busy == 0.5);
        CHECK(!strstr(lines(&j), "cpus-per-task"));
        j.elapsed_s = 0; /* killed within its first second, of which Slurm counts none */
        j.use.cpu_s = 0.001;
        CHECK_INT(doubt(&j, STK_JOB_CPU)->worth, STK_JOB_UNKNOWN);
    }
}

/* A step that was killed for memory in a job that went on: its next one would be killed, too. */
static void a_step_killed_for_memory(void)
{
    struct stk_slurm_step s[] = {step("batch", 1000, 4600, 10), step("0", 1001, 2000, 5000)};
    struct stk_slurm_job j = job(s, 2);
    s[1].state = STK_SLURM_OUT_OF_MEMORY;
    s[1].killed = true;
    CHECK_STR(lines(&j), "--mem=8000M or --mem-per-cpu=2000M\n--time=01:15:00\n");
    CHECK_INT(doubt(&j, STK_JOB_MEMORY)->worth, STK_JOB_AT_LEAST);
    CHECK_INT(doubt(&j, STK_JOB_CPU)->worth, STK_JOB_AT_LEAST);
    s[1].alloc.memory_bytes =
        1000 * MIB; /* it had a part of the job's memory only: srun's option */
    s[1].use.memory_bytes = s[1].use.task_memory_bytes = 1200 * MIB;
    struct stk_job_view v;
    (void)lines(&j);
    stk_job_judge(&j, 5000, 300, &v);
    CHECK_STR(v.note[0].line, "srun --mem=2000M");
}

/* The reason of a missing figure would be wrong: another user's job is not too short. */
static void reasons(void)
{
    struct stk_slurm_step s[] = {step("batch", 1000, -1, 0)};
    struct stk_slurm_job j = job(s, 0);
    j.use = (struct stk_slurm_use){-1, -1, -1, -1, -1, -1, -1, -1};
    j.state = STK_SLURM_RUNNING;
    j.elapsed_s = 5;
    j.others = true;
    CHECK(strstr(doubt(&j, STK_JOB_MEMORY)->why, "another user"));
    j.others = false;
    CHECK(strstr(doubt(&j, STK_JOB_MEMORY)->why, "sstat"));
    j.state = STK_SLURM_SUSPENDED;
    CHECK(strstr(doubt(&j, STK_JOB_CPU)->why, "suspended"));
    j.state = STK_SLURM_COMPLETED;
    CHECK(strstr(doubt(&j, STK_JOB_MEMORY)->why, "too short"));
    CHECK_STR(doubt(&j, STK_JOB_CPU)->why, "not recorded");
    j.elapsed_s = 3600;
    CHECK_STR(doubt(&j, STK_JOB_MEMORY)->why, "not recorded");
    j.sources = STK_SLURM_BY_SCONTROL;
    CHECK(strstr(doubt(&j, STK_JOB_MEMORY)->why, "accounting"));
    j.state = STK_SLURM_CANCELLED; /* in the queue */
    j.elapsed_s = 0;
    j.nodelist = "";
    CHECK(strstr(doubt(&j, STK_JOB_CPU)->why, "not run"));
}

/* A job that is held, or depends on another, would seem to wait for its turn. */
static void not_eligible(void)
{
    struct stk_slurm_job j = job(NULL, 0);
    struct stk_job_view v;
    j.state = STK_SLURM_PENDING;
    j.start = j.end = j.eligible = -1;
    j.submit = 4900;
    stk_job_judge(&j, 5000, 300, &v);
    CHECK(v.wait_s < 0 && v.queued_s == 100);
    j.eligible = 4950;
    stk_job_judge(&j, 5000, 300, &v);
    CHECK(v.wait_s == 50 && v.queued_s < 0);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(at_once);
    CHECK_RUN(memory_goes_with_cpus);
    CHECK_RUN(steps_side_by_side);
    CHECK_RUN(time_is_never_more);
    CHECK_RUN(killed_is_not_idle);
    CHECK_RUN(a_step_killed_for_memory);
    CHECK_RUN(reasons);
    CHECK_RUN(not_eligible);
    return CHECK_DONE();
}
