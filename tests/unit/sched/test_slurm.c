/* test_slurm.c - what Slurm's clients print, word by word; and clients that are slow, loud, or
 * not there. A number that is read wrong makes a user ask for the wrong resources. */
#include "check.h"
#include "sched/slurm/priv.h"
#include "scratch.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static struct stk_slurm_word word(const char *text)
{
    return (struct stk_slurm_word){text, strlen(text)};
}

static void numbers(void)
{
    CHECK_INT(stk_slurm_bytes(word("2000M")), 2000LL << 20);
    CHECK_INT(stk_slurm_bytes(word("387.50M")), 387LL * 1048576 + 524288);
    CHECK_INT(stk_slurm_bytes(word("806821888")), 806821888);
    CHECK_INT(stk_slurm_bytes(word("1.5T")), 1536LL << 30);
    CHECK_INT(stk_slurm_bytes(word("500Mc")), 500LL << 20);
    CHECK_INT(stk_slurm_megas(word("500")), 500LL << 20);
    CHECK_INT(stk_slurm_bytes(word("")), -1);
    CHECK_INT(stk_slurm_bytes(word("M")), -1);
    CHECK_INT(stk_slurm_bytes(word("-5M")), -1);
    CHECK_INT(stk_slurm_bytes(word("99999999999999999999E")), -1);
    CHECK(stk_slurm_seconds(word("00:01.922")) == 1.922);
    CHECK(stk_slurm_seconds(word("1-02:03:04")) == 86400 + 7384);
    CHECK(stk_slurm_seconds(word("02:03:04")) == 7384);
    CHECK(stk_slurm_seconds(word("02:03")) == 123);
    CHECK(stk_slurm_seconds(word("1-02")) == 86400 + 7200);
    CHECK(stk_slurm_seconds(word("7:00")) == 420);
    CHECK(stk_slurm_seconds(word("1:2:3:4")) < 0);
    CHECK(stk_slurm_seconds(word("INVALID")) < 0);
    CHECK(stk_slurm_seconds(word("1:")) < 0);
    CHECK(stk_slurm_limit(word("UNLIMITED")) == INT64_MAX);
    CHECK_INT(stk_slurm_limit(word("Partition_Limit")), -1);
    CHECK_INT(stk_slurm_time(word("1794740886")), 1794740886);
    CHECK_INT(stk_slurm_time(word("Unknown")), -1);
    CHECK_INT(stk_slurm_time(word("0")), -1);
    setenv("TZ", "UTC", 1);
    CHECK_INT(stk_slurm_time(word("2026-11-15T11:48:06")), 1794743286);
}

static void states(void)
{
    const struct {
        const char *text;
        enum stk_slurm_state state;
    } all[] = {
        {"COMPLETED", STK_SLURM_COMPLETED},  {"CANCELLED by 0", STK_SLURM_CANCELLED},
        {"CANCELLED+", STK_SLURM_CANCELLED}, {"OUT_OF_ME+", STK_SLURM_OUT_OF_MEMORY},
        {"NODE_FAIL", STK_SLURM_NODE_FAIL},  {"COMPLETING", STK_SLURM_RUNNING},
        {"RESIZING", STK_SLURM_RUNNING},     {"REQUEUED", STK_SLURM_REQUEUED},
        {"COMPLETE", STK_SLURM_UNKNOWN},     {"", STK_SLURM_UNKNOWN},
        {"C+", STK_SLURM_UNKNOWN},           {"PREEMPTED", STK_SLURM_PREEMPTED},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CHECK_INT(stk_slurm_state_of(all[i].text, strlen(all[i].text)), all[i].state);
    CHECK(!stk_slurm_ended(STK_SLURM_REQUEUED) && stk_slurm_ended(STK_SLURM_FAILED));
    CHECK(stk_slurm_poll_s(0) == 2 && stk_slurm_poll_s(30) == 15 && stk_slurm_poll_s(1e6) == 60);
}

static void tres(void)
{
    struct stk_slurm_tres t;
    stk_slurm_tres(word("billing=4,cpu=4,gres/gpu:k80=4,gres/gpu=4,mem=2000M,node=2"), &t);
    CHECK_INT(t.cpus, 4);
    CHECK_INT(t.gpus, 4);
    CHECK_INT(t.nodes, 2);
    CHECK_INT(t.memory_bytes, 2000LL << 20);
    CHECK_STR(t.gpu_kind, "k80");
    stk_slurm_tres(word("cpu=2,gres/gpu:a=1,gres/gpu:b=2"), &t);
    CHECK_INT(t.gpus, 3);
    CHECK_STR(t.gpu_kind, "a,b");
    stk_slurm_tres(word("cpu=2,mem=1G"), &t);
    CHECK_INT(t.gpus, 0); /* said by leaving it out */
    stk_slurm_tres(word(""), &t);
    CHECK_INT(t.gpus, -1);
    stk_slurm_tres(word("cpu=,=,,gres/gpu:=9999999999999999999,mem"), &t);
    CHECK_INT(t.cpus, -1);
}

static void ids(void)
{
    struct stk_slurm_id id;
    uint64_t n = 0;
    CHECK(stk_slurm_id(word("12_3.batch"), &id) && id.job == 12 && id.task == 3 && id.step.n == 5);
    CHECK(stk_slurm_id(word("12_[4-9%2]"), &id) && id.job == 12 && id.task == -1);
    CHECK(stk_slurm_id(word("12+1"), &id) && id.job == 12);
    CHECK(!stk_slurm_id_ok("12.0") && stk_slurm_id_ok("12") && stk_slurm_id_ok("12_3"));
    CHECK(!stk_slurm_id_ok("-12") && !stk_slurm_id_ok("12;x") && !stk_slurm_id_ok("0"));
    /* Slurm cuts a long list of tasks short. */
    CHECK(stk_slurm_id(word("12_[1,3,5,...]"), &id) && id.step.n == 0 && id.label.n == 14);
    CHECK(stk_slurm_id_ok("12_[1,3,5,...]") && stk_slurm_id_ok("12_[1-5:2,9%2]"));
    CHECK(!stk_slurm_id_ok("12_[]") && !stk_slurm_id_ok("12_[3-1]") && !stk_slurm_id_ok("12_[1"));
    CHECK(!stk_slurm_id_ok("12_[1-99999999]") && !stk_slurm_id_ok("12_[1:0]"));
    CHECK(!stk_slurm_id_ok("12_") && !stk_slurm_id_ok("99999999999"));
    CHECK(stk_slurm_read_sbatch("123\n", 4, &n) && n == 123);
    CHECK(stk_slurm_read_sbatch("welcome to the site\n124;other\n", 30, &n) && n == 124);
    CHECK(!stk_slurm_read_sbatch("Submitted batch job 7\n", 22, &n));
    CHECK(!stk_slurm_read_sbatch("", 0, &n));
}

/* A job that was requeued: the last life counts, steps of the first are not its steps. */
static void lives(void)
{
    struct stk_slurm_jobs jobs = {0};
    struct stk_buf b = STK_BUF_INIT;
    const char *const rows[][3] = {{"7", "REQUEUED", "x"},
                                   {"7.batch", "CANCELLED", "batch"},
                                   {"7", "COMPLETED", "two\nlines"},
                                   {"7.0", "COMPLETED", "prog"}};
    for (size_t i = 0; i < 4; i++)
        stk_buf_printf(&b,
                       "%s#%s#%s#0:0#1#1#%d#%d#5#10#cpu=2#cpu=2,mem=1G#1#00:04.000#10M#n1#mem=20M"
                       "###0#u#a#p#q#n1#/w#%s\n",
                       rows[i][0], rows[i][0], rows[i][1], 100 + (int)i, 105 + (int)i, rows[i][2]);
    CHECK_INT(stk_slurm_read_sacct(&jobs, (const char *)b.data, b.len, "#", false), 0);
    CHECK_INT(jobs.n, 1);
    stk_slurm_job_settle(&jobs.job[0]);
    CHECK_STR(jobs.job[0].name, "two\nlines");
    CHECK_INT(jobs.job[0].state, STK_SLURM_COMPLETED);
    CHECK_INT(jobs.job[0].restarts, 1);
    CHECK_INT(jobs.job[0].nsteps, 1);
    CHECK_INT(jobs.job[0].start, 102);
    CHECK_INT(jobs.job[0].use.memory_bytes, 20 << 20);
    CHECK_INT(jobs.job[0].use.task_memory_bytes, 10 << 20);
    stk_buf_release(&b);
    stk_slurm_jobs_release(&jobs);
}

/* Steps are found by their names, however many there are, and ours are not the job's. */
static void steps(void)
{
    static const char row[] = "%s#%s#COMPLETED#0:0#1#1#100#200#100#10#cpu=2#cpu=2,mem=1G#1#%s#10M#"
                              "n1#mem=20M###0#u#a#p#q#n1#/w#%s\n";
    struct stk_slurm_jobs jobs = {0};
    struct stk_buf b = STK_BUF_INIT;
    char id[24];
    stk_buf_printf(&b, row, "7", "7", "00:50.000", "x");
    stk_buf_printf(&b, row, "7.0", "7.0", "00:40.000", "prog");
    stk_buf_printf(&b, row, "7.1", "7.1", "00:08.000", STK_SLURM_WATCH_STEP);
    CHECK_INT(stk_slurm_read_sacct(&jobs, (const char *)b.data, b.len, "#", false), 0);
    stk_slurm_job_settle(&jobs.job[0]);
    CHECK_INT(jobs.job[0].nsteps, 2);
    CHECK_INT(jobs.job[0].use.memory_bytes, 20 << 20);
    CHECK(jobs.job[0].use.cpu_s == 42);
    CHECK(!stk_slurm_step_is_ours(&jobs.job[0].step[0]));
    CHECK(stk_slurm_step_is_ours(&jobs.job[0].step[1]));
    stk_buf_reset(&b);
    for (int i = 0; i < 4000; i++) {
        snprintf(id, sizeof id, "7.%d", i % 3000);
        stk_buf_printf(&b, row, id, id, "00:01.000", "prog");
    }
    CHECK_INT(stk_slurm_read_sacct(&jobs, (const char *)b.data, b.len, "#", false), 0);
    CHECK_INT(jobs.job[0].nsteps, 3000);
    CHECK_STR(jobs.job[0].step[2999].name, "2999");
    stk_buf_release(&b);
    stk_slurm_jobs_release(&jobs);
}

/* What Slurm tells a job, and what it tells of one that waits. */
static void words(void)
{
    const char *text = "4(x2),2";
    uint32_t number, nodes;
    CHECK(stk_slurm_per_node(&text, &number, &nodes) && number == 4 && nodes == 2);
    CHECK(stk_slurm_per_node(&text, &number, &nodes) && number == 2 && nodes == 1);
    CHECK(!stk_slurm_per_node(&text, &number, &nodes) && !*text);
    for (size_t i = 0; i < 5; i++) {
        text = ((const char *[]){"x", "4(x", "4(x2", "4;", "99999999999"})[i];
        CHECK(!stk_slurm_per_node(&text, &number, &nodes));
    }
    CHECK(stk_slurm_reason_is_final("PartitionConfig"));
    CHECK(stk_slurm_reason_is_final("QOSMaxCpuPerJobLimit"));
    CHECK(!stk_slurm_reason_is_final("Priority") && !stk_slurm_reason_is_final(""));
    CHECK(strstr(stk_slurm_reason_text("ReqNodeNotAvail, UnavailableNodes:n1"), "drained") != NULL);
    CHECK(!stk_slurm_reason_text("Something"));
}

/* The name of a job cannot make fields of its own. */
static void forged(void)
{
    static const char text[] = "JobId=7 JobName=x\n   JobState=COMPLETED ExitCode=0:0\n"
                               "JobId=8 JobName=y\n   UserId=a(1)\n"
                               "   UserId=root(0) GroupId=root(0)\n"
                               "   JobState=FAILED Reason=None Dependency=(null)\n"
                               "   Requeue=1 Restarts=0 ExitCode=3:0\n   Command=/x\n"
                               "   JobState=COMPLETED\n";
    struct stk_slurm_jobs jobs = {0};
    CHECK_INT(stk_slurm_read_scontrol(&jobs, text, strlen(text), 7, false), 0);
    CHECK_INT(jobs.n, 1); /* 8 was not asked for */
    stk_slurm_jobs_clear(&jobs);
    CHECK_INT(stk_slurm_read_scontrol(&jobs, text, strlen(text), 8, false), 0);
    CHECK_INT(jobs.job[0].state, STK_SLURM_FAILED);
    CHECK_INT(jobs.job[0].exit_code, 3);
    stk_slurm_jobs_clear(&jobs);
    /* Nor end its record, nor begin one of a job that was not asked for. */
    static const char task[] = "JobId=9 ArrayJobId=5 ArrayTaskId=2 JobName=x\nJobId=1 JobName=z\n"
                               "   UserId=u(1) GroupId=u(1)\n   JobState=PENDING Reason=Priority\n"
                               "   NodeList=\n   TRES=cpu=2,mem=500M,node=1\n";
    CHECK_INT(stk_slurm_read_scontrol(&jobs, task, strlen(task), 5, false), 0);
    CHECK(jobs.n == 1 && jobs.job[0].id == 9);
    CHECK_INT(jobs.job[0].asked.memory_bytes, 500LL << 20);
    CHECK_INT(jobs.job[0].alloc.cpus, -1);
    stk_slurm_jobs_release(&jobs);
}

/* Forms that newer versions may print (made by hand, not kept from one): both kinds of TRES, GPUs
 * with "=", "N/A". */
static void newer(void)
{
    static const char queue[] =
        "9#9#RUNNING#None#2#4#gres/gpu:k80=2#30:00#0:10#1794742519#1794742520#"
        "1794744320#u#a#p#q#n[1-2]##/w#x\n";
    static const char shown[] =
        "JobId=9 JobName=x\n   UserId=u(1) GroupId=u(1) MCS_label=N/A\n"
        "   JobState=PENDING Reason=Priority Dependency=(null)\n   NodeList=\n   "
        "StepMgrEnabled=Yes\n"
        "   NumNodes=2-2 NumCPUs=4 NumTasks=4 CPUs/Task=N/A ReqB:S:C:T=0:0:*:*\n"
        "   ReqTRES=cpu=4,mem=2G,node=2,billing=4,gres/gpu=4\n   AllocTRES=(null)\n"
        "   OverSubscribe=OK Contiguous=0 Licenses=(null) LicensesAlloc=(null) Network=(null)\n";
    struct stk_slurm_jobs jobs = {0};
    CHECK_INT(stk_slurm_read_squeue(&jobs, queue, strlen(queue), "#", false), 0);
    CHECK(jobs.n == 1 && jobs.job[0].alloc.gpus == 4 && jobs.job[0].asked.gpus == -1);
    CHECK_STR(jobs.job[0].alloc.gpu_kind, "k80");
    stk_slurm_jobs_clear(&jobs);
    CHECK_INT(stk_slurm_read_scontrol(&jobs, shown, strlen(shown), 9, false), 0);
    CHECK_INT(jobs.job[0].asked.gpus, 4);
    CHECK_INT(jobs.job[0].asked.memory_bytes, 2LL << 30);
    CHECK(jobs.job[0].alloc.cpus == -1 && jobs.job[0].cpus_per_task == -1);
    CHECK_INT(jobs.job[0].tasks, 4);
    stk_slurm_jobs_release(&jobs);
}

/* ---- clients ------------------------------------------------------------------------------ */

static void client(const char *name, const char *script)
{
    char path[32];
    snprintf(path, sizeof path, "bin/%s", name);
    chmod(scratch_file(path, script, strlen(script)), 0755);
}

static void calls(void)
{
    struct stk_slurm s = {.timeout_s = 300};
    struct stk_slurm_output out;
    struct stk_err err = {0};
    const char *const argv[] = {"sinfo", "a b;$(c)", NULL};
    client("sinfo",
           "#!/bin/sh\necho \"$1|$SLURM_TIME_FORMAT|$SQUEUE_FORMAT|$SLURM_JOB_ID|$SLURM_CONF\"\n"
           "cat\necho oops >&2\nexit 3\n");
    setenv("SQUEUE_FORMAT", "x", 1);
    setenv("SLURM_JOB_ID", "5", 1);
    setenv("SLURM_CONF", "c", 1);
    CHECK_INT(stk_slurm_call(&s, argv, "in", 2, &out, &err), 0);
    CHECK_INT(out.status, 3);
    CHECK_STR(stk_buf_cstr(&out.out), "a b;$(c)|%s|||c\nin");
    CHECK_STR(stk_buf_cstr(&out.err), "oops\n");
    stk_slurm_output_release(&out);

    client("sinfo", "#!/bin/sh\nexec sleep 10000\n");
    s.timeout_s = 0.2;
    CHECK_INT(stk_slurm_call(&s, argv, NULL, 0, &out, &err), STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "did not answer"));
    stk_slurm_output_release(&out);
    s.timeout_s = 300;
    client("sinfo", "#!/bin/sh\nsleep 3 &\necho done\n"); /* a child keeps the pipe open */
    CHECK_INT(stk_slurm_call(&s, argv, NULL, 0, &out, &err), 0);
    CHECK_STR(stk_buf_cstr(&out.out), "done\n");
    stk_slurm_output_release(&out);
    client("sinfo", "#!/bin/sh\nexec yes 0123456789012345678901234567890123456789\n");
    CHECK_INT(stk_slurm_call(&s, argv, NULL, 0, &out, &err), STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "64 MiB"));
    stk_slurm_output_release(&out);
    const char *const none[] = {"sjstat", NULL};
    CHECK_INT(stk_slurm_call(&s, none, NULL, 0, &out, &err), STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "slurm-client"));
    stk_slurm_output_release(&out);
    CHECK_INT(stk_slurm_have("sinfo", &err), 0);
    CHECK_INT(stk_slurm_have("sjstat", &err), STK_E_UNSUPPORTED);
}

static void submits(void)
{
    static const char script[] = "#!/bin/sh\n#SBATCH -n 4\necho hi\n";
    const char *const more[] = {"--partition=gpu", NULL};
    struct stk_slurm_batch batch = {script, strlen(script), more, "/w"};
    struct stk_err err = {0};
    struct stk_buf got = STK_BUF_INIT;
    struct stk_slurm_receipt got_id;
    /* Field 5 is the group: Ctrl-C in a terminal is not for it. */
    client("sbatch", "#!/bin/sh\necho \"$@\" >args\ncat >script\nset -- $(cat /proc/$$/stat)\n"
                     "[ $5 = $$ ] && echo 42\n");
    CHECK_INT(chdir(scratch), 0);
    CHECK_INT(stk_slurm_submit(NULL, &batch, &got_id, &err), 0);
    CHECK_INT(got_id.id, 42);
    CHECK_INT(stk_read_file(scratch_path("script"), 1000, &got, &err), 0);
    CHECK_STR(stk_buf_cstr(&got), script);
    stk_buf_reset(&got);
    CHECK_INT(stk_read_file(scratch_path("args"), 1000, &got, &err), 0);
    CHECK_STR(stk_buf_cstr(&got), "--parsable -D /w --partition=gpu\n");
    stk_buf_release(&got);

    client("sbatch", "#!/bin/sh\necho 'sbatch: error: invalid partition specified: nope' >&2\n"
                     "echo 'sbatch: error: Batch job submission failed: Invalid partition name "
                     "specified' >&2\nexit 1\n");
    CHECK_INT(stk_slurm_submit(NULL, &batch, &got_id, &err), STK_E_UNSUPPORTED);
    CHECK_STR(err.what, "sbatch refused the job: invalid partition specified: nope; Batch job "
                        "submission failed: Invalid partition name specified");
    client("sbatch", "#!/bin/sh\necho hello\n");
    CHECK_INT(stk_slurm_submit(NULL, &batch, &got_id, &err), STK_E_UNSUPPORTED);
    client("scancel", "#!/bin/sh\necho \"$@\" >cancelled\n"
                      "echo 'scancel: error: Kill job error on job id 3: Invalid job id specified' "
                      ">&2\nexit 1\n");
    CHECK_INT(stk_slurm_cancel(NULL, (const uint64_t[]){3, 4}, 2, NULL, &err), 0);
    client("scancel", "#!/bin/sh\necho 'scancel: error: Access denied' >&2\nexit 1\n");
    CHECK_INT(stk_slurm_cancel(NULL, (const uint64_t[]){3}, 1, NULL, &err), STK_E_UNSUPPORTED);
}

/* Who is asked for what: sacct only about those that are not in the queue, scontrol last. */
static void looks(void)
{
    struct stk_slurm_jobs jobs = {0};
    struct stk_err err = {0};
    const uint64_t id[] = {11, 12, 13, 14};
    CHECK_INT(chdir(scratch), 0);
    client("squeue",
           "#!/bin/sh\nf=${5#%i}; s=${f%%%A*}; echo \"squeue $7\" >>asked\n"
           "printf \"11${s}11${s}RUNNING$s$s$s$s$s$s$s$s$s$s$s$s$s$s$s$s${s}n\\n\"\n"
           "printf \"12${s}12${s}PENDING${s}Priority$s$s$s$s$s$s$s$s$s$s$s$s$s$s$s${s}m\\n\"\n");
    client("sacct",
           "#!/bin/sh\ns=${5#--delimiter=}; echo \"sacct $9\" >>asked\n"
           "printf "
           "\"13${s}13${s}TIMEOUT${s}0:0$s$s$s$s$s$s$s$s$s$s$s$s$s$s$s$s$s$s$s$s$s$s${s}n\\n\"\n");
    client("scontrol", "#!/bin/sh\necho \"scontrol $4\" >>asked\n"
                       "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1\n");
    int rc = stk_slurm_look(NULL, id, 4, &jobs, &err);
    CHECK_INT(rc, 0);
    if (rc == 0) {
        CHECK_INT(jobs.job[0].state, STK_SLURM_RUNNING);
        CHECK_INT(jobs.job[1].state, STK_SLURM_PENDING);
        CHECK_STR(jobs.job[1].reason, "Priority");
        CHECK_INT(jobs.job[2].state, STK_SLURM_TIMEOUT);
        CHECK_INT(jobs.job[3].state, STK_SLURM_UNKNOWN);
        CHECK_INT(jobs.failed, 0);
    }
    struct stk_buf got = STK_BUF_INIT;
    CHECK_INT(stk_read_file(scratch_path("asked"), 1000, &got, &err), 0);
    CHECK_STR(stk_buf_cstr(&got), "squeue 11,12,13,14\nsacct 13,14\nscontrol 14\n");
    stk_buf_release(&got);
    /* A controller that is silent is not asked again for each job. */
    CHECK_INT(unlink(scratch_path("asked")), 0);
    client("squeue", "#!/bin/sh\n"
                     "echo 'squeue: error: Unable to contact slurm controller' >&2\nexit 1\n");
    CHECK_INT(stk_slurm_look(NULL, id, 4, &jobs, &err), 0);
    CHECK_INT(stk_read_file(scratch_path("asked"), 1000, &got, &err), 0);
    CHECK_STR(stk_buf_cstr(&got), "sacct 11,12,13,14\n");
    CHECK_INT(jobs.failed, STK_SLURM_BY_SQUEUE | STK_SLURM_BY_SCONTROL);
    stk_buf_release(&got);
    for (int i = 0; i < 3; i++)
        client(((const char *[]){"squeue", "sacct", "scontrol"})[i],
               "#!/bin/sh\necho 'x: error: Unable to contact slurm controller' >&2\nexit 1\n");
    CHECK_INT(stk_slurm_look(NULL, id, 4, &jobs, &err), STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "Unable to contact"));
    stk_slurm_jobs_release(&jobs);
}

static void streams(void)
{
    struct stk_slurm_stream *s = NULL;
    struct stk_err err = {0};
    const char *const argv[] = {"srun", NULL};
    const char *line;
    size_t len;
    client("srun", "#!/bin/sh\nprintf 'one\\ntw'\nsleep 0.1\nprintf 'o\\n'\n"
                   "echo 'srun: error: gone' >&2\nexit 1\n");
    CHECK_INT(stk_slurm_stream_open(argv, &s, &err), 0);
    CHECK_INT(stk_slurm_stream_line(s, 300, &line, &len, &err), 1);
    CHECK(len == 3 && memcmp(line, "one", 3) == 0);
    CHECK_INT(stk_slurm_stream_line(s, 300, &line, &len, &err), 1);
    CHECK(len == 3 && memcmp(line, "two", 3) == 0);
    CHECK_INT(stk_slurm_stream_line(s, 300, &line, &len, &err), STK_E_STOPPED);
    CHECK_STR(err.what, "gone");
    stk_slurm_stream_close(s);
    client("srun", "#!/bin/sh\necho x\nexec sleep 10000\n");
    CHECK_INT(stk_slurm_stream_open(argv, &s, &err), 0);
    CHECK_INT(stk_slurm_stream_line(s, 300, &line, &len, &err), 1);
    CHECK_INT(stk_slurm_stream_line(s, 0.05, &line, &len, &err), 0);
    stk_slurm_stream_close(s);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    char path[600];
    scratch_begin();
    snprintf(path, sizeof path, "%s/bin:/usr/bin:/bin", scratch);
    setenv("PATH", path, 1);
    CHECK_RUN(numbers);
    CHECK_RUN(states);
    CHECK_RUN(tres);
    CHECK_RUN(ids);
    CHECK_RUN(lives);
    CHECK_RUN(forged);
    CHECK_RUN(steps);
    CHECK_RUN(words);
    CHECK_RUN(newer);
    CHECK_RUN(calls);
    CHECK_RUN(submits);
    CHECK_RUN(looks);
    CHECK_RUN(streams);
    scratch_done();
    return CHECK_DONE();
}
