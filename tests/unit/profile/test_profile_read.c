/* test_profile_read.c - a folder of logs becomes a profile: logs made by hand. A
 * number that is wrong here is wrong in every report and every piece of advice. */
#include "check.h"
#include "proflog.h"

/* Two threads of one process, one file by two names, two APIs: one record an API. */
static void threads_are_merged(void)
{
    struct proflog l;
    struct stk_profile p;
    const char *dir = folder("threads");
    proflog_init(&l, 100, 1, 0);
    l.head.kernel0[0] = 50;
    l.head.kernel[0] = 1050;
    l.head.stream_read_bytes = 30;
    l.head.left_out_read_bytes = 20;
    uint32_t relative = proflog_name(&l, "../u/./data//a.bin");
    uint32_t absolute = proflog_name(&l, "/home/u/data/a.bin");
    struct stk_log_record r[3] = {proflog_record(relative, STK_API_POSIX),
                                  proflog_record(absolute, STK_API_POSIX),
                                  proflog_record(absolute, STK_API_HDF5)};
    r[0].fs_type = 0x0BD00BD0;
    r[0].stripe_bytes = 1 << 20, r[0].stripe_count = 4;
    r[0].n.c[STK_C_FILE_SIZE] = 4000;
    proflog_read(&r[0], 0, 500);
    proflog_read(&r[1], 250, 700);
    proflog_read(&r[2], 0, 700);
    proflog_block(&l, STK_BLK_RECORDS, 0, r, sizeof r);
    proflog_write(&l, "threads/n1.100.0.stklog");
    CHECK_INT(read_it(dir, &p), 0);
    CHECK_INT(p.nprocs, 1);
    CHECK_INT(p.nfiles, 1);
    CHECK_INT(p.nrecs, 2);
    CHECK_STR(p.file[0].path, "/home/u/data/a.bin");
    CHECK_STR(p.file[0].fs, "lustre");
    CHECK_INT(p.file[0].stripe_count, 4);
    CHECK_INT(p.file[0].size_bytes, 4000);
    CHECK_INT(p.rec[0].n.c[STK_C_READS], 2);
    CHECK_INT(p.rec[0].n.c[STK_C_READ_BYTES], 950);
    CHECK_INT(p.rec[0].distinct_bytes, 700);
    CHECK_INT(p.rec[1].api, STK_API_HDF5);
    CHECK_INT(p.file[0].distinct_bytes, 700);
    CHECK(p.file[0].distinct_exact);
    CHECK_INT(p.proc[0].seen_read_bytes, 1000); /* HDF5 lies above POSIX: not twice */
    CHECK_INT(p.proc[0].kernel_read_bytes, 1000);
    CHECK(close_to(p.proc[0].io_sum_s, 2e-6));
    CHECK_STR(p.proc[0].command, "prog 'a b'");
    CHECK_STR(stk_prof_ended(&p.proc[0]), "exit");
    CHECK_STR(p.command, "prog 'a b'");
    CHECK(close_to(p.run_s, 1));
    CHECK_INT(p.nnotes, 0);
    stk_profile_release(&p);
}

/* Ten threads that read every second tenth: more stretches than a cover holds, still exact. */
static void many_stretches(void)
{
    struct proflog l;
    struct stk_profile p;
    const char *dir = folder("stretches");
    for (uint32_t proc = 0; proc < 2; proc++) {
        char name[60];
        proflog_init(&l, 100 + proc, 1, proc);
        uint32_t id = proflog_name(&l, "/d/x");
        for (uint64_t i = 0; i < 20; i++) {
            struct stk_log_record r = proflog_record(id, STK_API_POSIX);
            proflog_read(&r, i * 200, i * 200 + 100 + (proc && i < 10 ? 100 : 0));
            proflog_put(&l, &r);
        }
        snprintf(name, sizeof name, "stretches/n1.%u.0.stklog", 100 + proc);
        proflog_write(&l, name);
    }
    CHECK_INT(read_it(dir, &p), 0);
    CHECK_INT(p.nrecs, 2);
    CHECK_INT(p.rec[0].distinct_bytes, 2000);
    CHECK_INT(p.rec[1].distinct_bytes, 3000);
    CHECK(p.file[0].distinct_exact);
    CHECK_INT(p.file[0].distinct_bytes, 3000);
    CHECK_INT(p.file[0].rank_distinct_bytes, 5000);
    CHECK_INT(p.file[0].ranks, 2);
    stk_profile_release(&p);
}

/* Four ranks with a forked worker each: the worker's reads are its rank's. */
static void ranks_and_workers(void)
{
    struct proflog l;
    struct stk_profile p;
    char env[100], name[60];
    const char *dir = folder("ranks");
    for (uint32_t rank = 0; rank < 4; rank++) {
        snprintf(env, sizeof env,
                 "RANK=%u WORLD_SIZE=4 SLURM_JOB_ID=77 SLURM_PROCID=0 "
                 "SLURM_STEP_NUM_TASKS=1",
                 rank);
        for (uint32_t worker = 0; worker < 3; worker++) {
            proflog_init(&l, 100 + rank * 10 + worker, worker ? 100 + rank * 10 : 1,
                         rank * 0.1 + worker * 0.01);
            l.head.born = worker ? STK_BORN_FORK : STK_BORN_START;
            if (worker)
                snprintf(l.head.parent, sizeof l.head.parent, "n1.%u.0.stklog", 100 + rank * 10);
            if (worker != 2) /* the second has a clean environment: its parent says */
                proflog_env(&l, env);
            uint32_t shared = proflog_name(&l, "/d/shared"), own;
            snprintf(name, sizeof name, "/d/own%u", rank);
            own = proflog_name(&l, name);
            struct stk_log_record r[2] = {proflog_record(shared, STK_API_POSIX),
                                          proflog_record(own, STK_API_POSIX)};
            if (worker) {
                proflog_read(&r[0], 0, 1000);
                proflog_read(&r[1], worker * 100, worker * 100 + 100);
            }
            proflog_block(&l, STK_BLK_RECORDS, 0, r, sizeof r);
            snprintf(name, sizeof name, "ranks/n1.%u.0.stklog", 100 + rank * 10 + worker);
            proflog_write(&l, name);
        }
    }
    CHECK_INT(read_it(dir, &p), 0);
    CHECK_INT(p.nranks, 4);
    CHECK_INT(p.nunits, 4);
    CHECK_STR(p.job, "77");
    for (uint32_t i = 0; i < p.nprocs; i++) {
        CHECK_INT(p.proc[i].rank, i / 3);
        CHECK_INT(p.proc[i].unit, i / 3);
        CHECK_INT(p.proc[i].world, 4);
        CHECK_INT(p.proc[i].worker, i % 3);
        CHECK_INT(p.proc[i].parent, i % 3 ? (int)(i / 3 * 3) : -1);
    }
    const struct stk_prof_file *shared = file_of(&p, "/d/shared"), *own = file_of(&p, "/d/own2");
    CHECK_INT(shared->ranks, 4);
    CHECK_INT(shared->distinct_bytes, 1000);
    CHECK_INT(shared->rank_distinct_bytes, 4000);
    CHECK_INT(own->ranks, 1);
    CHECK_INT(own->rank_distinct_bytes, 200);
    CHECK_INT(own->distinct_bytes, 200);
    stk_profile_release(&p);
}

/* Where nobody tells ranks: workers forked anew for each epoch are one reader, not many ranks. */
static void workers_without_ranks(void)
{
    struct proflog l;
    struct stk_profile p;
    char name[60];
    const char *dir = folder("epochs");
    for (uint32_t i = 0; i < 5; i++) {
        proflog_init(&l, 100 + i, i ? 100 : 1, i);
        l.head.born = i ? STK_BORN_FORK : STK_BORN_START;
        struct stk_log_record r = proflog_record(proflog_name(&l, "/d/x"), STK_API_POSIX);
        if (i)
            proflog_read(&r, 0, 100);
        l.head.cpu_ns = 100000000;
        proflog_put(&l, &r);
        snprintf(name, sizeof name, "epochs/n1.%u.0.stklog", 100 + i);
        proflog_write(&l, name);
    }
    proflog_init(&l, 100, 1, 9); /* then the same process becomes another program … */
    l.head.born = STK_BORN_EXEC;
    strcpy(l.head.parent, "n1.100.0.stklog");
    proflog_write(&l, "epochs/n1.100.1.stklog");
    proflog_init(&l, 300, 100, 9.5); /* … which starts one */
    proflog_write(&l, "epochs/n1.300.0.stklog");
    CHECK_INT(read_it(dir, &p), 0);
    CHECK_INT(p.nunits, 2);
    CHECK_INT(p.nranks, 1);
    CHECK_INT(p.proc[0].world, 0);
    CHECK_INT(p.file[0].ranks, 1);
    CHECK_INT(p.file[0].rank_distinct_bytes, 100);
    CHECK_INT(p.proc[1].parent, 0); /* n1.100.1 comes second by name */
    CHECK_INT(p.proc[1].unit, 0);
    CHECK_INT(p.proc[6].parent, 1); /* the program that ran under that number then */
    CHECK_INT(p.proc[6].unit, 1);
    CHECK_INT(p.proc[5].worker, 1); /* one at a time: the same worker four times */
    stk_profile_release(&p);
}

static const char *chain = "launch"; /* the folder of a launch chain */
static double busy = 1;               /* the share of its life that a process of it computes */

/* A process of a launch chain: its log is NAME, and that of its parent, or of what it was before. */
static void one_step(const char *name, uint32_t pid, uint32_t ppid, uint32_t born,
                     const char *parent, double from_s, double to_s, uint32_t end,
                     uint64_t read_bytes, const char *env)
{
    struct proflog l;
    char path[80];
    proflog_init(&l, pid, ppid, from_s);
    l.head.born = born;
    l.head.end = end;
    l.head.end_ns = l.head.last_ns = (uint64_t)((to_s - from_s) * 1e9);
    l.head.cpu_ns = (uint64_t)(busy * (double)l.head.end_ns);
    snprintf(l.head.parent, sizeof l.head.parent, "%s", parent);
    proflog_env(&l, env);
    struct stk_log_record r = proflog_record(proflog_name(&l, "/d/x"), STK_API_POSIX);
    if (read_bytes)
        proflog_read(&r, 0, read_bytes);
    proflog_put(&l, &r);
    snprintf(path, sizeof path, "%s/%s", chain, name);
    proflog_write(&l, path);
}

/* A shim of bash finds the interpreter with forked readers and small programs, one of them from a
 * subshell without a log, and becomes it. The rank is the interpreter; without ranks as well. A
 * program before it that moves data is no step on the way, and neither is one after it. */
static void launch_chains(void)
{
    for (int ranked = 0; ranked < 2; ranked++) {
        const char *env = ranked ? "RANK=1 WORLD_SIZE=2" : "A=1";
        struct stk_profile p;
        uint64_t threads;
        const char *dir = folder("launch");
        one_step("n1.100.0.stklog", 100, 1, STK_BORN_START, "", 0, 1, STK_END_EXEC, 300, env);
        one_step("n1.100.1.stklog", 100, 1, STK_BORN_EXEC, "n1.100.0.stklog", 1, 9, STK_END_EXIT,
                 5000000, env);
        one_step("n1.101.0.stklog", 101, 100, STK_BORN_FORK, "n1.100.0.stklog", 0.1, 0.3,
                 STK_END_EXIT, 2000, env);
        one_step("n1.102.0.stklog", 102, 100, STK_BORN_FORK, "n1.100.0.stklog", 0.3, 0.4,
                 STK_END_EXEC, 0, env);
        one_step("n1.102.1.stklog", 102, 100, STK_BORN_EXEC, "n1.102.0.stklog", 0.4, 0.5,
                 STK_END_EXIT, 0, env);
        one_step("n1.103.0.stklog", 103, 99, STK_BORN_START, "", 0.5, 0.6, STK_END_EXIT, 0, env);
        one_step("n1.104.0.stklog", 104, 100, STK_BORN_START, "", 0.6, 0.9, STK_END_EXIT, 3000000,
                 env);
        one_step("n1.105.0.stklog", 105, 100, STK_BORN_FORK, "n1.100.1.stklog", 2, 8,
                 STK_END_EXIT, 6000000, env);
        CHECK_INT(read_it(dir, &p), 0);
        CHECK_INT(p.nprocs, 8);
        for (uint32_t i = 0; i < p.nprocs; i++)
            CHECK_INT(p.proc[i].launch, !(i == 1 || i >= 6));
        CHECK_INT(stk_profile_processes(&p, &threads), 3);
        CHECK_INT(p.nunits, ranked ? 1 : 2);
        CHECK_INT(p.proc[2].worker, 0);
        CHECK_INT(p.proc[7].worker, 1);
        CHECK_INT(p.proc[7].unit, p.proc[0].unit);
        stk_profile_release(&p);
    }
}

/* A script that starts programs without ranks: if all but one of them only led to that one, it is
 * the job, as if it had been started alone. Programs that did as much are counted, and the script
 * that starts several at the same time is one as well. */
static void scripts(void)
{
    for (int second = 0; second < 3; second++) { /* none, before, at the same time */
        struct stk_profile p;
        uint64_t threads;
        const char *dir = folder(chain = "scripts");
        busy = 0.01;
        one_step("n1.100.0.stklog", 100, 1, STK_BORN_START, "", 0, 10, STK_END_EXIT, 300, "A=1");
        busy = 1;
        one_step("n1.101.0.stklog", 101, 100, STK_BORN_FORK, "n1.100.0.stklog", 0.1, 0.2,
                 STK_END_EXEC, 0, "A=1");
        one_step("n1.101.1.stklog", 101, 100, STK_BORN_EXEC, "n1.101.0.stklog", 0.2, 0.3,
                 STK_END_EXIT, 0, "A=1");
        one_step("n1.102.0.stklog", 102, 100, STK_BORN_START, "", 5, 9.5, STK_END_EXIT, 5000000,
                 "A=1");
        double from = second == 1 ? 0.5 : 5.1;
        if (second)
            one_step("n1.103.0.stklog", 103, 100, STK_BORN_START, "", from, from + 4.4,
                     STK_END_EXIT, 30000, "A=1");
        CHECK_INT(read_it(dir, &p), 0);
        CHECK_INT(stk_profile_processes(&p, &threads), second == 0 ? 1 : second == 1 ? 2 : 4);
        CHECK_INT(p.nunits, second == 0 ? 1 : second == 1 ? 2 : 4);
        CHECK_INT(p.proc[0].launch, second < 2);
        CHECK_INT(p.proc[1].launch, 1); /* the child that became it */
        CHECK_INT(p.proc[3].launch, 0);
        stk_profile_release(&p);
    }
}

/* Two containers, each with its own process 1: whose child process 2 is, is not a matter of which
 * began last. */
static void numbers_of_containers(void)
{
    struct proflog l;
    struct stk_profile p;
    char name[60];
    const char *dir = folder("containers");
    for (uint32_t i = 0; i < 4; i++) {
        proflog_init(&l, 1 + i / 2, i / 2, i);
        l.head.pid_space = 7000 + i % 2;
        snprintf(name, sizeof name, "containers/n1.%u.%u.stklog", 1 + i / 2, i % 2);
        proflog_write(&l, name);
    }
    CHECK_INT(read_it(dir, &p), 0);
    CHECK_INT(p.nprocs, 4);
    CHECK_INT(p.proc[2].parent, 0);
    CHECK_INT(p.proc[3].parent, 1);
    stk_profile_release(&p);
}

/* A log has the kernel's count of its own process: children are not taken off it, or a shell with
 * many small ones would seem to have read nothing. What short threads read may be missing in it. */
static void kernel_counts(void)
{
    struct proflog l;
    struct stk_profile p;
    const char *dir = folder("kernel");
    for (uint32_t i = 0; i < 3; i++) {
        char name[60];
        proflog_init(&l, 100 + i, i ? 100 : 1, i * 0.1);
        l.head.born = i ? STK_BORN_FORK : STK_BORN_START;
        l.head.end_ns = i ? 500000000 : 2000000000;
        l.head.end = STK_END_EXIT;
        l.head.kernel[0] = i == 0 ? 1000000 : i == 1 ? 60000 : 700;
        struct stk_log_record r = proflog_record(proflog_name(&l, "/d/x"), STK_API_POSIX);
        proflog_read(&r, 0, i == 0 ? 990000 : i == 1 ? 50000 : 9000000);
        proflog_put(&l, &r);
        snprintf(name, sizeof name, "kernel/n1.%u.0.stklog", 100 + i);
        proflog_write(&l, name);
    }
    CHECK_INT(read_it(dir, &p), 0);
    CHECK_INT(p.proc[0].kernel_read_bytes, 1000000);
    CHECK_INT(p.proc[1].kernel_read_bytes, 60000);
    CHECK_INT(p.proc[2].kernel_read_bytes, 9000000);
    stk_profile_release(&p);
}

/* A second thread in half of each of two bins: by chance half of the other's idle time. */
static void time_lines(void)
{
    static struct stk_log_thread t[2];
    struct proflog l;
    struct stk_profile p;
    const char *dir = folder("time");
    memset(t, 0, sizeof t);
    proflog_init(&l, 100, 1, 0);
    l.head.end_ns = 512 * 10000000ull;
    t[0].bin_ns = 10000000;
    t[0].bin[3] = (struct stk_log_bin){.read_ns = 5000000, .reads = 7, .read_bytes = 700};
    t[0].gap_count[20] = 4, t[0].gap_ns[20] = 4000000;
    proflog_block(&l, STK_BLK_THREAD, 0, &t[0], sizeof t[0]);
    proflog_write(&l, "time/n1.100.0.stklog");
    CHECK_INT(read_it(dir, &p), 0);
    CHECK_INT(p.proc[0].threads, 1);
    CHECK(close_to(p.proc[0].io_union_s, 0.005));
    CHECK(close_to(p.bin_s, 0.01));
    CHECK_INT(p.bin[3].reads, 7);
    CHECK_INT(p.bin[3].read_bytes, 700);
    CHECK_INT(p.bin[3].read_ns, 5000000);
    CHECK_INT(p.gap[20].count, 4);
    CHECK_INT(p.nunits, 1);
    CHECK(close_to(p.unit_busy[0], 0.005 / 0.04)); /* a part is four bins */
    CHECK(close_to(p.unit_busy[1], 0));
    stk_profile_release(&p);

    proflog_init(&l, 100, 1, 0);
    l.head.end_ns = 512 * 10000000ull;
    t[1].bin_ns = 20000000; /* coarser: the first one's bin 3 is in its bin 1 */
    t[1].bin[1] = (struct stk_log_bin){.meta_ns = 10000000, .meta_calls = 9};
    proflog_block(&l, STK_BLK_THREAD, 0, &t[0], sizeof t[0]);
    proflog_block(&l, STK_BLK_THREAD, 1, &t[1], sizeof t[1]);
    proflog_write(&l, "time/n1.100.0.stklog");
    CHECK_INT(read_it(dir, &p), 0);
    CHECK_INT(p.proc[0].threads, 2);
    CHECK(close_to(p.proc[0].io_union_s, 0.02 * (1 - 0.75 * 0.5)));
    CHECK_INT(p.bin[2].meta_calls + p.bin[3].meta_calls, 9);
    CHECK_INT(p.bin[2].reads + p.bin[3].reads, 7);
    stk_profile_release(&p);
}

/* Within a host the monotonic clock counts: the wall clock was set back in between. */
static void one_axis(void)
{
    struct proflog l;
    struct stk_profile p;
    const char *dir = folder("axis");
    proflog_init(&l, 100, 1, 0);
    proflog_write(&l, "axis/n1.100.0.stklog");
    proflog_init(&l, 101, 1, 2);
    l.head.start_real_ns -= 5000000000; /* by 5 s */
    struct stk_log_mark m[] = {
        {.at_ns = 100000000, .number = 0, .kind = STK_MARK_STEP},
        {.at_ns = 150000000, .length_ns = 50000000, .kind = STK_MARK_PHASE, .name = 1, .depth = 1},
        {.at_ns = 300000000, .number = 1, .kind = STK_MARK_STEP},
        {.at_ns = 400000000, .number = 1, .kind = 99},
    };
    proflog_name(&l, "load");
    proflog_block(&l, STK_BLK_MARKS, 0, m, sizeof m);
    proflog_write(&l, "axis/n1.101.0.stklog");
    proflog_init(&l, 7, 1, 4);
    strcpy(l.head.host, "n2");
    l.head.start_mono_ns = 77;
    l.head.end = STK_END_NONE;
    l.head.end_ns = 0;
    proflog_write(&l, "axis/n2.7.0.stklog");
    CHECK_INT(read_it(dir, &p), 0);
    CHECK_INT(p.nhosts, 2);
    CHECK(close_to(p.proc[0].start_s, 0) && close_to(p.proc[1].start_s, 2));
    CHECK(close_to(p.proc[2].start_s, 4) && close_to(p.proc[2].end_s, 5));
    CHECK(close_to(p.run_s, 5));
    CHECK_STR(stk_prof_ended(&p.proc[2]), "killed");
    CHECK(noted(&p, "not seen to end"));
    CHECK(noted(&p, "some blocks are invalid"));
    CHECK_INT(p.nmarks, 3);
    CHECK(close_to(p.mark[0].at_s, 2.1) && close_to(p.mark[0].length_s, 0.2));
    CHECK_STR(p.mark[1].name, "load");
    CHECK(close_to(p.mark[1].length_s, 0.05));
    CHECK(close_to(p.mark[2].length_s, 0.7)); /* until the process's end */
    stk_profile_release(&p);
}

static void groups(void)
{
    struct proflog l;
    struct stk_profile p;
    const char *dir = folder("group");
    for (uint32_t proc = 0; proc < 2; proc++) {
        char name[60];
        proflog_init(&l, 100 + proc, 1, proc);
        struct stk_log_record r = proflog_record(proflog_name(&l, "data/*.jpg"), STK_API_POSIX);
        r.group = 1;
        r.read.overflow = 1;
        r.n.c[STK_C_FILE_SIZE] = 3000;
        for (uint64_t i = 0; i < 5000; i++) { /* both read the same 5,000 files */
            uint64_t hash = stk_mix64(i + 1);
            stk_cover_sample(&r.read, hash, 0, 2000);
            uint8_t rank = (uint8_t)(__builtin_clzll((hash >> 6) | 1) - 5);
            if (r.files[hash & 63] < rank)
                r.files[hash & 63] = rank;
            r.n.c[STK_C_READS]++;
            r.n.c[STK_C_OPENS]++;
            r.n.c[STK_C_READ_BYTES] += 2000;
        }
        proflog_put(&l, &r);
        snprintf(name, sizeof name, "group/n1.%u.0.stklog", 100 + proc);
        proflog_write(&l, name);
    }
    CHECK_INT(read_it(dir, &p), 0);
    CHECK_INT(p.nfiles, 1);
    CHECK_STR(p.file[0].path, "/home/u/data/*.jpg");
    CHECK(p.file[0].group && !p.file[0].distinct_exact);
    CHECK(p.file[0].files > 3500 && p.file[0].files < 6500);
    CHECK(p.file[0].distinct_bytes > 8000000 && p.file[0].distinct_bytes < 12000000);
    CHECK(p.file[0].rank_distinct_bytes > 16000000);
    stk_profile_release(&p);
}

static void blind_spots(void)
{
    struct proflog l;
    struct stk_profile p;
    const char *dir = folder("blind");
    proflog_init(&l, 100, 1, 0);
    l.head.uring_rings = 2;
    l.head.kernel_aio_calls = l.head.kernel_aio_transfers = 3;
    l.head.dropped_calls = 4;
    l.head.dropped_trace = 5;
    l.head.stopped = 1;
    struct stk_log_record r = proflog_record(proflog_name(&l, "/d/x"), STK_API_POSIX);
    r.n.c[STK_C_MMAPS] = 1;
    r.n.c[STK_C_MMAP_BYTES] = 1 << 20;
    proflog_put(&l, &r);
    proflog_write(&l, "blind/n1.100.0.stklog");
    CHECK_INT(read_it(dir, &p), 0);
    CHECK(noted(&p, "io_uring"));
    CHECK(noted(&p, "io_submit"));
    CHECK(noted(&p, "could not be recorded"));
    CHECK(noted(&p, "missing in the trace"));
    CHECK(noted(&p, "mapped into memory"));
    CHECK(noted(&p, "--for"));
    CHECK(p.stopped_early);
    stk_profile_release(&p);
}

/* Each reason by its name: a sandbox is not --for, a file that is mapped again and again is not
 * larger, calls that bypass us are no quiet program, and results of kernel aio may all be there. */
static void reasons(void)
{
    struct proflog l;
    struct stk_profile p;
    const char *dir = folder("reasons");
    proflog_init(&l, 100, 1, 0);
    l.head.stopped = STK_STOP_SANDBOX;
    struct stk_log_record r = proflog_record(proflog_name(&l, "/d/x"), STK_API_POSIX);
    r.n.c[STK_C_MMAPS] = 300;
    r.n.c[STK_C_FILE_SIZE] = 1 << 20;
    r.n.c[STK_C_MMAP_BYTES] = 300 << 20;
    proflog_put(&l, &r);
    proflog_write(&l, "reasons/n1.100.0.stklog");
    proflog_init(&l, 200, 1, 0);
    l.head.kernel_aio_calls = l.head.kernel_aio_transfers = l.head.kernel_aio_results = 9;
    l.head.kernel[0] = 50 << 20;
    l.head.stream_read_bytes = 1 << 20;
    l.head.stream_ahead_bytes = 3 << 20;
    proflog_write(&l, "reasons/n1.200.0.stklog");
    proflog_init(&l, 300, 1, 0);
    l.head.kernel_aio_transfers = 1;
    l.head.kernel[2] = 70 << 20; /* only the device counts what io_uring and kernel aio read */
    l.head.stream_ahead_bytes = (uint64_t)-5;
    proflog_write(&l, "reasons/n1.300.0.stklog");
    CHECK_INT(read_it(dir, &p), 0);
    CHECK(noted(&p, "seccomp") && !noted(&p, "--for"));
    CHECK(noted(&p, "1 file (1.00 MiB) was mapped into memory, 300 times"));
    CHECK(noted(&p, "The kernel counted 46.0 MiB more read by 1 process than was seen"));
    CHECK(noted(&p, "dlsym") && !noted(&p, "io_submit"));
    CHECK(!p.proc[1].blind && p.proc[2].blind);
    CHECK_INT(p.proc[2].kernel_read_bytes, 70 << 20);
    CHECK_INT(p.proc[2].seen_read_bytes, 0);
    stk_profile_release(&p);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    CHECK_RUN(threads_are_merged);
    CHECK_RUN(many_stretches);
    CHECK_RUN(ranks_and_workers);
    CHECK_RUN(workers_without_ranks);
    CHECK_RUN(launch_chains);
    CHECK_RUN(scripts);
    CHECK_RUN(numbers_of_containers);
    CHECK_RUN(kernel_counts);
    CHECK_RUN(time_lines);
    CHECK_RUN(one_axis);
    CHECK_RUN(groups);
    CHECK_RUN(blind_spots);
    CHECK_RUN(reasons);
    scratch_done();
    return CHECK_DONE();
}
