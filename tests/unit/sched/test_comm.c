/* Ranks that talk: each case runs in forked ranks here. Started by mpirun or srun with the argument
 * "ranks", it is one rank, and the same checks run over MPI (tests/cli/test_mpi.py). */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/pool.h"
#include "sched/comm.h"

#define LIMIT_S 60.0

static struct stk_err err;

#define CHECK_OK(call) CHECK_INT((call), 0)

/* ---- what every communicator does ---- */

static void talk(struct stk_comm *c)
{
    uint32_t n = stk_comm_size(c), me = stk_comm_rank(c);
    CHECK_OK(stk_comm_barrier(c, LIMIT_S, &err));

    /* More than any ring or eager buffer holds. */
    size_t big = (size_t)3 << 20;
    uint8_t *p = malloc(big);
    for (size_t i = 0; i < big; i++)
        p[i] = me == n - 1 ? (uint8_t)(i * 7 >> 3) : 0;
    CHECK_OK(stk_comm_bcast(c, n - 1, p, big, LIMIT_S, &err));
    CHECK(p[12345] == (uint8_t)(12345 * 7 >> 3) && p[big - 1] == (uint8_t)((big - 1) * 7 >> 3));
    free(p);

    uint64_t *all = calloc(n, sizeof *all), mine = 100 + me;
    CHECK_OK(stk_comm_allgather(c, &mine, sizeof mine, all, LIMIT_S, &err));
    for (uint32_t i = 0; i < n; i++)
        CHECK(all[i] == 100 + i);
    free(all);

    uint64_t sum[2] = {me, 1}, least = 7 + me, bits = 1ull << (me % 64);
    double most = (double)me;
    CHECK_OK(stk_comm_reduce_u64(c, STK_COMM_SUM, sum, 2, LIMIT_S, &err));
    CHECK_OK(stk_comm_reduce_u64(c, STK_COMM_MIN, &least, 1, LIMIT_S, &err));
    CHECK_OK(stk_comm_reduce_u64(c, STK_COMM_OR, &bits, 1, LIMIT_S, &err));
    CHECK_OK(stk_comm_reduce_f64(c, STK_COMM_MAX, &most, 1, LIMIT_S, &err));
    CHECK(sum[0] == (uint64_t)n * (n - 1) / 2 && sum[1] == n && least == 7);
    CHECK(bits == (n == 64 ? ~0ull : (1ull << n) - 1) && most == n - 1);
}

/* Several messages at once, of all to all, received in another order than they were sent. */
static void cross(struct stk_comm *c)
{
    enum { EACH = 3 };
    uint32_t n = stk_comm_size(c), me = stk_comm_rank(c);
    size_t size = 100000;
    struct stk_comm_msg *out = calloc(n * EACH, sizeof *out), *in = calloc(n * EACH, sizeof *in);
    uint32_t *text = calloc(n * EACH * size, 4), *got = calloc(n * EACH * size, 4);
    for (uint32_t i = 0; i < n * EACH; i++) {
        text[i * size] = me * 1000 + i;
        text[i * size + size - 1] = i;
        CHECK_OK(stk_comm_isend(c, i / EACH, (int)(i % EACH), text + i * size, (size - i) * 4,
                                &out[i], &err));
    }
    CHECK_OK(stk_comm_barrier(c, LIMIT_S, &err));
    for (uint32_t i = n * EACH; i-- > 0;)
        CHECK_OK(
            stk_comm_irecv(c, i / EACH, (int)(i % EACH), got + i * size, size * 4, &in[i], &err));
    for (uint32_t i = 0; i < n * EACH; i++) {
        CHECK_OK(stk_comm_wait(c, &in[i], LIMIT_S, &err));
        CHECK(in[i].from == i / EACH && got[i * size] == in[i].from * 1000 + me * EACH + i % EACH);
        CHECK(in[i].size == (size - (me * EACH + i % EACH)) * 4);
    }
    for (uint32_t i = 0; i < n * EACH; i++)
        CHECK_OK(stk_comm_wait(c, &out[i], LIMIT_S, &err));
    free(out);
    free(in);
    free(text);
    free(got);
}

/* Odd and even ranks, at once; then the ranks backwards. */
static void groups(struct stk_comm *c)
{
    uint32_t n = stk_comm_size(c), me = stk_comm_rank(c), member[64], count = 0;
    struct stk_comm *half, *back;
    for (uint32_t i = me % 2; i < n; i += 2)
        member[count++] = i;
    CHECK_OK(stk_comm_group(c, member, count, &half, &err));
    CHECK(stk_comm_size(half) == count && stk_comm_rank(half) == me / 2);
    talk(half);
    for (uint32_t i = 0; i < n; i++)
        member[i] = n - 1 - i;
    CHECK_OK(stk_comm_group(c, member, n, &back, &err));
    CHECK(stk_comm_rank(back) == n - 1 - me);
    talk(back);
    talk(c);
    stk_comm_close(half);
    stk_comm_close(back);
}

/* Each rank but the last its own range; that one has nothing to read, and takes part. */
static void file(struct stk_comm *c, const char *path)
{
    struct stk_comm_file *f;
    uint32_t me = stk_comm_rank(c), n = stk_comm_size(c);
    char text[4] = "none";
    size_t got = 0, want = me + 1 < n ? 4 : 0;
    CHECK_OK(stk_comm_file_open(c, path, &f, &err));
    CHECK_OK(stk_comm_file_read_all(f, me, text, want, &got, &err));
    CHECK(got == want);
    CHECK(!want || (text[0] == (char)('a' + me) && text[3] == (char)('d' + me)));
    stk_comm_file_close(f);
}

/* The even ranks read one file, the odd ranks another at the same time. */
static void files_of_groups(struct stk_comm *c, const char *path)
{
    uint32_t n = stk_comm_size(c), member[64], count = 0;
    struct stk_comm *half;
    for (uint32_t i = stk_comm_rank(c) % 2; i < n; i += 2)
        member[count++] = i;
    CHECK_OK(stk_comm_group(c, member, count, &half, &err));
    CHECK(stk_comm_has_mpiio(half) == stk_comm_has_mpiio(c));
    file(half, path);
    file(half, path);
    stk_comm_close(half);
}

/* ---- forked ---- */

/* A failed check in a child fails the case. */
static void end(struct stk_comm *c)
{
    uint32_t me = stk_comm_rank(c), n = stk_comm_size(c);
    pid_t pid[64];
    for (uint32_t i = 1; i < n; i++)
        pid[i] = stk_comm_pid(c, i);
    stk_comm_close(c);
    if (me)
        _exit(check_failures ? 9 : 0);
    for (uint32_t i = 1; i < n; i++) {
        int status = -1;
        CHECK(waitpid(pid[i], &status, 0) == pid[i]);
        CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    }
}

static void forked(unsigned n)
{
    struct stk_comm *c;
    CHECK_OK(stk_comm_fork(n, &c, &err));
    CHECK(strcmp(stk_comm_kind(c), "forked") == 0 && stk_comm_size(c) == n);
    CHECK(stk_comm_nodes(c) == 1 && stk_comm_node(c, n - 1) == 0);
    talk(c);
    cross(c);
    groups(c);
    end(c);
}

static void alone(void)
{
    struct stk_comm *c = stk_comm_alone();
    CHECK(c && stk_comm_size(c) == 1 && stk_comm_nodes(c) == 1 && !*stk_comm_lacks(c));
    talk(c);
    stk_comm_close(c);
}

static _Atomic unsigned told;

static void on_lost(void *user, const struct stk_err *why)
{
    told += strstr(why->what, user) && strstr(why->what, "rank 2 on node ") ? 1 : 100;
}

/* A rank that is killed, or that gives up: all others say which, and end. */
static void lost(bool killed)
{
    struct stk_comm *c;
    struct stk_err why = {0};
    struct timespec t = {.tv_nsec = 10000000};
    CHECK_OK(stk_comm_fork(4, &c, &err));
    told = 0;
    stk_comm_on_lost(c, on_lost, killed ? "its process has ended" : "its disk is full");
    CHECK_OK(stk_comm_barrier(c, LIMIT_S, &err));
    if (stk_comm_rank(c) == 2) {
        if (killed)
            kill(getpid(), SIGKILL);
        stk_comm_give_up(c, "its disk is full");
        CHECK(told == 0);
    } else {
        CHECK(stk_comm_barrier(c, STK_COMM_FOREVER, &why) == STK_E_STOPPED);
        CHECK(strstr(why.what, "rank 2 on node ") != NULL);
        CHECK(strstr(why.what, killed ? "its process has ended" : "its disk is full") != NULL);
        CHECK(stk_comm_lost(c, NULL, 0) == 2);
        while (!told) /* by the thread that has found out */
            nanosleep(&t, NULL);
        CHECK(told == 1);
    }
    end(c);
}

static unsigned forks;

static void die_as_the_second(void)
{
    if (++forks == 2)
        kill(getpid(), SIGKILL);
}

static void count_fork(void)
{
    forks++;
}

/* A rank that dies before it has met the others: they would wait for a minute, and not know for
 * which. Only the signs of life tell the rank; a wait that runs out makes no communicator. */
static void lost_early(void)
{
    struct stk_comm *c;
    struct stk_err why = {0};
    pthread_atfork(NULL, count_fork, die_as_the_second);
    CHECK_OK(stk_comm_fork(4, &c, &err));
    CHECK(stk_comm_barrier(c, STK_COMM_FOREVER, &why) == STK_E_STOPPED);
    CHECK(strstr(why.what, "rank 2 is lost") != NULL);
    CHECK(stk_comm_lost(c, NULL, 0) == 2 && stk_comm_size(c) == 4);
    end(c);
}

/* A rank that is alive and says nothing: the limit of the call ends the wait. */
static void late(void)
{
    struct stk_comm *c;
    struct stk_err why = {0};
    CHECK_OK(stk_comm_fork(2, &c, &err));
    if (stk_comm_rank(c) == 0) {
        CHECK(stk_comm_barrier(c, 0.05, &why) == STK_E_STOPPED && strstr(why.what, "no answer"));
        stk_comm_give_up(c, "tired of waiting");
    } else {
        struct timespec t = {.tv_nsec = 10000000};
        while (stk_comm_lost(c, NULL, 0) < 0)
            nanosleep(&t, NULL);
        CHECK(stk_comm_barrier(c, LIMIT_S, &why) == STK_E_STOPPED && strstr(why.what, "tired"));
    }
    end(c);
}

/* A receive that is given up in the middle of a long message: later messages are understood. */
static void given_up(void)
{
    struct stk_comm *c;
    struct stk_comm_msg m;
    uint32_t word = 0;
    size_t size = (size_t)8 << 20;
    char *big = calloc(size, 1);
    CHECK_OK(stk_comm_fork(2, &c, &err));
    if (stk_comm_rank(c) == 0) {
        CHECK_OK(stk_comm_isend(c, 1, 0, big, size, &m, &err));
        CHECK_OK(stk_comm_test(c, &m, &err));
        CHECK(m.busy); /* no ring holds that much */
        stk_comm_drop(c, &m);
        memset(big, 1, size);
        word = 4711;
        CHECK_OK(stk_comm_isend(c, 1, 1, &word, sizeof word, &m, &err));
    } else {
        CHECK_OK(stk_comm_irecv(c, 0, 0, big, size, &m, &err));
        CHECK_OK(stk_comm_test(c, &m, &err));
        stk_comm_drop(c, &m);
        CHECK_OK(stk_comm_irecv(c, 0, 1, &word, sizeof word, &m, &err));
    }
    free(big);
    CHECK_OK(stk_comm_wait(c, &m, LIMIT_S, &err));
    CHECK(word == 4711);
    end(c);
}

static void misuse(void)
{
    struct stk_comm *c, *g;
    struct stk_comm_msg m;
    uint32_t other = 1;
    CHECK(stk_comm_fork(0, &c, &err) == STK_E_USAGE &&
          stk_comm_fork(5000, &c, &err) == STK_E_USAGE);
    CHECK_OK(stk_comm_fork(2, &c, &err));
    other = 1 - stk_comm_rank(c);
    CHECK(stk_comm_isend(c, 2, 0, "", 1, &m, &err) == STK_E_USAGE);
    CHECK(stk_comm_isend(c, 0, -1, "", 1, &m, &err) == STK_E_USAGE);
    CHECK(stk_comm_group(c, &other, 1, &g, &err) == STK_E_USAGE);
    CHECK_OK(stk_comm_barrier(c, LIMIT_S, &err));
    end(c);
}

/* ---- a rank of mpirun or srun ---- */

/* ranks KIND SIZE FILE: everything above; ranks KIND SIZE kill: rank 1 ends without a word. */
static int rank_main(char **argv)
{
    struct stk_comm *c;
    char text[2200];
    const struct stk_comm_options with_files = {.files = true};
    if (stk_comm_open(&with_files, &c, &err)) {
        printf("error: %s\n", stk_err_text(&err, text, sizeof text));
        return 2;
    }
    if (*stk_comm_lacks(c))
        printf("lacks: %s\n", stk_comm_lacks(c));
    CHECK_STR(stk_comm_kind(c), argv[0]);
    CHECK((long)stk_comm_size(c) == atol(argv[1]));
    if (check_failures)
        return 9;
    if (strcmp(argv[2], "kill") == 0) {
        CHECK_OK(stk_comm_barrier(c, LIMIT_S, &err));
        if (stk_comm_rank(c) == 1)
            kill(getpid(), SIGKILL);
        CHECK(stk_comm_barrier(c, STK_COMM_FOREVER, &err) == STK_E_STOPPED);
        printf("rank %u: %s\n", (unsigned)stk_comm_rank(c), err.what);
    } else if (stk_comm_size(c) > 1) {
        talk(c);
        cross(c);
        groups(c);
        CHECK(stk_comm_has_mpiio(c));
        file(c, argv[2]);
        files_of_groups(c, argv[2]);
        printf("rank %u of %u, node %s, %u nodes, %s\n", (unsigned)stk_comm_rank(c),
               (unsigned)stk_comm_size(c),
               stk_comm_node_name(c, stk_comm_node(c, stk_comm_rank(c))),
               (unsigned)stk_comm_nodes(c), stk_comm_kind(c));
    }
    fflush(stdout);
    stk_comm_close(c);
    fflush(stdout);
    _exit(check_failures ? 9 : 0);
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "ranks") == 0)
        return rank_main(argv + 2);
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(alone);
    CHECK_FOR("2", forked, 2);
    CHECK_FOR("5", forked, 5);
    CHECK_FOR("9", forked, 9);
    CHECK_FOR("killed", lost, true);
    CHECK_FOR("gave up", lost, false);
    CHECK_RUN(late);
    CHECK_RUN(lost_early);
    CHECK_RUN(given_up);
    CHECK_RUN(misuse);
    return CHECK_DONE();
}
