/* test_rank.c - which process of how many: environments as launchers leave them. A process that
 * takes itself for another trains on the wrong part of the data, and nobody notices. */
#include "check.h"
#include "sched/rank.h"

#include <stdlib.h>

/* Sets "A=1 B=2" and asks. Everything else launchers set is gone. */
static int detect(const char *env, struct stk_rank *r, struct stk_err *err)
{
    char copy[600], *save = NULL;
    clearenv();
    snprintf(copy, sizeof copy, "%s", env);
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        setenv(word, equals + 1, 1);
    }
    *err = (struct stk_err){0};
    return stk_rank_detect(r, err);
}

static void is(int line, const char *env, const char *from, uint32_t rank, uint32_t world,
               uint32_t local_rank, uint32_t local_world)
{
    struct stk_rank r = {0};
    struct stk_err err;
    check_int(__FILE__, line, detect(env, &r, &err), 0);
    check_text(__FILE__, line, err.what, "");
    check_text(__FILE__, line, r.from, from);
    check_int(__FILE__, line, r.rank, rank);
    check_int(__FILE__, line, r.world, world);
    check_int(__FILE__, line, r.local_rank, local_rank);
    check_int(__FILE__, line, r.local_world, local_world);
}

#define IS(...) is(__LINE__, __VA_ARGS__)

static void refuses(int line, const char *env, const char *says, const char *also)
{
    struct stk_rank r = {0};
    struct stk_err err;
    check_int(__FILE__, line, detect(env, &r, &err), STK_E_USAGE);
    if (!strstr(err.what, says) || !strstr(err.what, also))
        check_fail(__FILE__, line, err.what);
    check_int(__FILE__, line, stk_rank_detect(&r, NULL), STK_E_USAGE);
}

#define REFUSES(...) refuses(__LINE__, __VA_ARGS__)

/* srun -N 2 -n 3: the variables of its last task. */
#define STEP                                                                                       \
    "SLURM_JOB_ID=7 SLURM_NTASKS=3 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=3 SLURM_NODEID=1 "         \
    "SLURM_STEP_TASKS_PER_NODE=2,1 SLURM_PROCID=2 SLURM_LOCALID=0"

static void each_launcher(void)
{
    IS("", "", 0, 1, 0, 1);
    IS("RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4", "torchrun", 5, 8, 1, 4);
    IS("RANK=0 WORLD_SIZE=1", "torchrun", 0, 1, 0, 0);
    IS("OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 "
       "OMPI_COMM_WORLD_LOCAL_SIZE=2",
       "Open MPI", 3, 4, 1, 2);
    IS("PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2", "MPICH", 3, 4, 0, 2);
    IS("PMI_RANK=3 PMI_SIZE=4", "MPICH", 3, 4, 0, 0);
    IS("MV2_COMM_WORLD_RANK=3 MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_LOCAL_RANK=0 "
       "MV2_COMM_WORLD_LOCAL_SIZE=2",
       "MPICH", 3, 4, 0, 2);
    IS(STEP, "Slurm", 2, 3, 0, 1);
    IS(STEP " PMIX_RANK=2 PMIX_NAMESPACE=slurm.pmix.7.0", "PMIx", 2, 3, 0, 1);
}

static void inner_launchers_count(void)
{
    /* torchrun once a node, under srun: Slurm's ranks are nodes. */
    IS("RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2",
       "torchrun", 5, 8, 1, 4);
    /* mpirun in a job: what srun told its daemon stays behind. */
    IS("OMPI_COMM_WORLD_RANK=6 OMPI_COMM_WORLD_SIZE=8 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 "
       "PMIX_RANK=6",
       "Open MPI", 6, 8, 0, 0);
}

static void a_batch_script_is_one_process(void)
{
    IS("SLURM_JOB_ID=7 SLURM_NTASKS=16 SLURM_NPROCS=16 SLURM_PROCID=0 SLURM_LOCALID=0 "
       "SLURM_NODEID=0 SLURM_TASKS_PER_NODE=8(x2)",
       "", 0, 1, 0, 1);
}

static void half_a_pair(void)
{
    /* A script that exports WORLD_SIZE for its srun: the step says the same. */
    IS(STEP " WORLD_SIZE=3", "Slurm", 2, 3, 0, 1);
    REFUSES(STEP " WORLD_SIZE=4", "WORLD_SIZE=4", "SLURM_STEP_NUM_TASKS=3");
    REFUSES(STEP " PMI_RANK=1", "PMI_RANK=1", "SLURM_PROCID=2");
    REFUSES("WORLD_SIZE=4", "WORLD_SIZE", "RANK is not");
    REFUSES("RANK=4", "RANK", "WORLD_SIZE is not");
    REFUSES("OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK is not");
    REFUSES("PMIX_RANK=4", "PMIX_RANK", "is not");
    /* MPI begun without a launcher, as PyTorch Lightning does to see whether it is there. */
    IS("PMIX_RANK=0", "", 0, 1, 0, 1);
    IS("RANK= WORLD_SIZE=", "", 0, 1, 0, 1); /* empty is not set */
}

static void contradictions(void)
{
    REFUSES("RANK=4 WORLD_SIZE=4", "RANK=4", "WORLD_SIZE=4");
    REFUSES("RANK=0 WORLD_SIZE=0", "RANK=0", "WORLD_SIZE=0");
    REFUSES("RANK=-1 WORLD_SIZE=4", "RANK=-1", "not a whole number");
    REFUSES("RANK=1x WORLD_SIZE=4", "RANK=1x", "not a whole number");
    REFUSES("RANK=1 WORLD_SIZE=4294967296", "WORLD_SIZE=4294967296", "not a whole number");
    REFUSES("RANK=1 WORLD_SIZE=99999999999999999999", "WORLD_SIZE=9999", "not a whole number");
    REFUSES("RANK=1 WORLD_SIZE=4 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2", "LOCAL_RANK=2",
            "LOCAL_WORLD_SIZE=2");
    REFUSES("RANK=1 WORLD_SIZE=4 LOCAL_RANK=x", "LOCAL_RANK=x", "not a whole number");
    IS("RANK=4294967294 WORLD_SIZE=4294967295", "torchrun", 4294967294u, 4294967295u, 0, 0);
}

static void tasks_a_node(void)
{
    static const struct {
        const char *tasks;
        unsigned node, want;
    } cases[] = {{"4(x2),3", 0, 4}, {"4(x2),3", 1, 4}, {"4(x2),3", 2, 3}, {"4(x2),3", 3, 0},
                 {"2", 0, 2},       {"4(x", 0, 0},     {"(x2)", 0, 0},    {"4(x2", 0, 0},
                 {"4,", 1, 0},      {"x", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char env[200];
        snprintf(env, sizeof env,
                 "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=9 SLURM_LOCALID=0 SLURM_NODEID=%u "
                 "SLURM_STEP_TASKS_PER_NODE=%s",
                 cases[i].node, cases[i].tasks);
        IS(env, "Slurm", 0, 9, 0, cases[i].want);
    }
}

static void by_hand(void)
{
    static const char *const wrong[] = {"",     "1",   "/",           "1/",    "/2",
                                        "2/2",  "1/0", "-1/2",        "1/2/3", "1 /2",
                                        "1/ 2", "a/b", "1/4294967296"};
    struct stk_rank r = {0};
    struct stk_err err = {0};
    CHECK_INT(stk_rank_parse("3/16", &r, &err), 0);
    CHECK(r.rank == 3 && r.world == 16 && r.local_world == 0);
    CHECK_STR(r.from, "");
    CHECK_INT(stk_rank_parse("0/1", &r, &err), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_INT(stk_rank_parse(wrong[i], &r, &err), STK_E_USAGE);
    CHECK(r.rank == 0 && r.world == 1); /* untouched */
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(each_launcher);
    CHECK_RUN(inner_launchers_count);
    CHECK_RUN(a_batch_script_is_one_process);
    CHECK_RUN(half_a_pair);
    CHECK_RUN(contradictions);
    CHECK_RUN(tasks_a_node);
    CHECK_RUN(by_hand);
    return CHECK_DONE();
}
