/* test_profile_files.c - what stands beside the logs (run files, samples), logs that are damaged,
 * too many, or hold a trace. The user's job may have been killed in the middle of any of them. */
#include "check.h"
#include "profile/priv.h"
#include "proflog.h"
#include "proflog/slots.h"

#include <unistd.h>

static const char *run_json =
    "{\"kind\": \"stoker-run\", \"state\": \"ended\", \"host\": \"n1\", \"pid\": 50,"
    " \"command\": [\"python\", \"train it.py\"], \"start_real_ns\": 1700000000000000000,"
    " \"start_mono_ns\": 5000000000, \"seconds\": 20.5, \"exit_status\": 3, \"world\": null,"
    " \"job\": \"123\", \"cores\": 8, \"memory_bytes\": 1000, \"gpus\": 2, \"gpu_kind\": \"X\","
    " \"local_dir\": \"/local\", \"local_free_bytes\": 77, \"settings\": {\"trace\": true},"
    " \"notes\": [\"Something was seen.\"], \"spool\": null, \"future\": [1, 2],"
    " \"unseen\": [{\"pid\": 9, \"command\": \"busybox\", \"rchar\": 4096}], \"unseen_more\": 1}";

static const char *samples_csv =
    "at_s,new_one,threads,cpu_cores,iowait_cores,gpu_util,resident_bytes,processes\n"
    "1.5,x,4,2.5,,0.75,1048576,2\n"
    "2.5,x,4,nonsense,,0.75,1048576,2\n"
    "3.5,x,5,1,0.5,,1,2\n"
    "4.5,x,5,1,0.";

static void run_files(void)
{
    struct proflog l;
    struct stk_profile p;
    const char *dir = folder("run");
    proflog_init(&l, 100, 50, 1);
    l.head.end = STK_END_NONE;
    l.head.end_ns = 0;
    proflog_write(&l, "run/n1.100.0.stklog");
    scratch_file("run/run.n1.50.json", run_json, strlen(run_json));
    scratch_file("run/run.n1.51.json", "{\"kind\": ", 9);
    scratch_file("run/samples.n1.50.csv", samples_csv, strlen(samples_csv));
    CHECK_INT(read_it(dir, &p), 0);
    CHECK_STR(p.command, "python 'train it.py'");
    CHECK_STR(p.job, "123");
    CHECK_INT(p.exit_status, 3);
    CHECK(close_to(p.run_s, 20.5));
    CHECK(close_to(p.proc[0].end_s, 20.5)); /* its launcher waited for it */
    CHECK(p.traced);
    CHECK_INT(p.nhosts, 1);
    CHECK_INT(p.host[0].cores, 8);
    CHECK_INT(p.host[0].gpus, 2);
    CHECK_STR(p.host[0].local_dir, "/local");
    CHECK_INT(p.nreadings, 2);
    CHECK(close_to(p.reading[0].at_s, 1.5) && close_to(p.reading[0].cpu_cores, 2.5));
    CHECK(p.reading[0].iowait_cores == -1 && close_to(p.reading[0].gpu_util, 0.75));
    CHECK(close_to(p.reading[1].iowait_cores, 0.5) && p.reading[1].gpu_util == -1);
    CHECK_INT(p.reading[0].threads, 4);
    CHECK(noted(&p, "Something was seen."));
    CHECK(noted(&p, "run file"));
    CHECK(noted(&p, "2 processes left no log (first: busybox"));
    stk_profile_release(&p);
}

/* A static program: nothing is seen of it, and the coverage must not hide that. */
static void unseen_program(void)
{
    struct proflog l;
    struct stk_profile p;
    const char *dir = folder("static");
    const char *run =
        "{\"host\": \"n1\", \"pid\": 50, \"child\": 60, \"linkage\": \"static\","
        " \"command\": [\"./busybox\"], \"seconds\": 4, \"exit_status\": 0,"
        " \"start_real_ns\": 1700000000000000000, \"start_mono_ns\": 5000000000,"
        " \"unseen\": [{\"pid\": 60, \"command\": \"./busybox\", \"rchar\": 9000000}]}";
    scratch_file("static/run.n1.50.json", run, strlen(run));
    proflog_init(&l, 61, 60, 1); /* it started one that left a log, and waited for it */
    l.head.kernel[0] = 4000000;
    proflog_write(&l, "static/n1.61.0.stklog");
    CHECK_INT(read_it(dir, &p), 0);
    CHECK_INT(p.nprocs, 2);
    CHECK_STR(p.proc[1].command, "./busybox");
    CHECK_STR(p.proc[1].log, "");
    CHECK_INT(p.proc[1].pid, 60);
    CHECK_INT(p.proc[0].parent, 1);
    CHECK_INT(p.proc[1].seen_read_bytes, 0);
    CHECK_INT(p.proc[1].kernel_read_bytes, 5000000);
    CHECK(noted(&p, "left no log (first: ./busybox"));
    stk_profile_release(&p);
}

/* A Go program with C in it reads most files past the C library and ends past it: what the launcher
 * saw says how little of it the log has. */
static void ended_unseen(void)
{
    struct proflog l;
    struct stk_profile p;
    const char *dir = folder("ended");
    const char *run =
        "{\"host\": \"n1\", \"pid\": 50, \"child\": 60, \"seconds\": 4, \"exit_status\": 3,"
        " \"start_real_ns\": 1700000000000000000, \"start_mono_ns\": 5000000000,"
        " \"child_io\": [9000000, 0, 0, 0], \"unseen\": []}";
    scratch_file("ended/run.n1.50.json", run, strlen(run));
    proflog_init(&l, 60, 50, 0);
    l.head.end = STK_END_NONE;
    struct stk_log_record r = proflog_record(proflog_name(&l, "/d/x"), STK_API_POSIX);
    proflog_read(&r, 0, 1000);
    proflog_put(&l, &r);
    proflog_write(&l, "ended/n1.60.0.stklog");
    proflog_init(&l, 61, 60, 1); /* it waited for this one, whose bytes are in its count */
    l.head.end = STK_END_EXIT;
    l.head.kernel[0] = 4000000;
    proflog_write(&l, "ended/n1.61.0.stklog");
    CHECK_INT(read_it(dir, &p), 0);
    CHECK_INT(p.nprocs, 2);
    CHECK_STR(stk_prof_ended(&p.proc[0]), "exit");
    CHECK_INT(p.proc[0].kernel_read_bytes, 5000000);
    CHECK(!noted(&p, "not seen to end"));
    stk_profile_release(&p);
}

/* Any byte of a log may be wrong: nothing breaks, and what is whole is used. */
static void damaged_logs(void)
{
    struct proflog l;
    struct stk_profile p;
    const char *dir = folder("bad");
    proflog_init(&l, 100, 1, 0);
    uint32_t id = proflog_name(&l, "/d/x");
    struct stk_log_record r = proflog_record(id, STK_API_POSIX);
    proflog_read(&r, 0, 100);
    proflog_put(&l, &r);
    proflog_block(&l, 77, 0, NULL, 0);
    proflog_block(&l, STK_BLK_RECORDS, 0, NULL, 0)->used = STK_LOG_BLOCK;
    r.name = 4000000000u;
    proflog_put(&l, &r);
    r.name = id;
    r.api = 200;
    proflog_put(&l, &r);
    struct stk_log_name huge = {.id = 3000000000u, .length = 4000000000u};
    proflog_block(&l, STK_BLK_NAMES, 0, &huge, sizeof huge);
    proflog_write(&l, "bad/n1.100.0.stklog");
    scratch_file("bad/n1.101.0.stklog", "", 0);
    scratch_file("bad/n1.102.0.stklog", "not a log", 9);
    proflog_init(&l, 103, 1, 0);
    l.head.version = 99;
    proflog_write(&l, "bad/n1.103.0.stklog");
    proflog_init(&l, 104, 1, 0); /* cut within a block */
    r = proflog_record(proflog_name(&l, "/d/y"), STK_API_POSIX);
    proflog_read(&r, 0, 100);
    proflog_put(&l, &r);
    proflog_put(&l, &r);
    const char *cut = proflog_write(&l, "bad/n1.104.0.stklog");
    CHECK_INT(truncate(cut, 3 * STK_LOG_BLOCK + 100), 0);
    CHECK_INT(read_it(dir, &p), 0);
    CHECK_INT(p.nprocs, 2);
    CHECK_INT(p.nrecs, 2);
    CHECK_INT(file_of(&p, "/d/x")->distinct_bytes, 100);
    CHECK_INT(file_of(&p, "/d/y")->distinct_bytes, 100);
    CHECK(noted(&p, "4 of 5 logs are damaged"));
    CHECK(noted(&p, "another version"));
    stk_profile_release(&p);
}

/* A log in slot i that read `bytes` of /d/PID; name: its own, NULL: the one it should have. */
static void put_slot(struct stk_buf *file, uint32_t i, uint32_t pid, uint64_t bytes,
                     const char *name)
{
    struct proflog l;
    proflog_init(&l, pid, 1, i);
    l.head.nblocks = 1;
    snprintf(l.head.name, sizeof l.head.name, "n1.%u.700000%u.stklog", pid, i + 1);
    if (name)
        strcpy(l.head.name, name);
    struct stk_log_name n = {.id = 1, .length = 6};
    struct stk_log_record r = proflog_record(1, STK_API_POSIX);
    proflog_read(&r, 0, bytes);
    char path[8];
    snprintf(path, sizeof path, "/d/%u", pid);
    stk_buf_zeros(file, stk_slot_at(i + 1) - file->len);
    uint8_t *at = file->data + stk_slot_at(i);
    memcpy(at, &l.head, sizeof l.head);
    for (uint32_t k = 0; k < STK_LOG_SMALL; k++) {
        struct stk_log_small small = stk_log_small(k);
        struct stk_log_block b = {.kind = small.kind};
        if (small.kind == STK_BLK_NAMES) {
            memcpy(at + small.at + sizeof b, &n, sizeof n);
            memcpy(at + small.at + sizeof b + sizeof n, path, 6);
            b.used = sizeof n + 8;
        } else if (small.kind == STK_BLK_RECORDS) {
            memcpy(at + small.at + sizeof b, &r, sizeof r);
            b.used = sizeof r;
        }
        memcpy(at + small.at, &b, sizeof b);
    }
}

/* The log of a process that moved from slot i to a file, which read 500 bytes since. */
static const char *moved_log(uint32_t i, uint32_t pid)
{
    struct proflog l;
    char name[64], path[16];
    snprintf(path, sizeof path, "/d/%u", pid);
    snprintf(name, sizeof name, "slots/n1.%u.700000%u.stklog", pid, i + 1);
    proflog_init(&l, pid, 1, 0);
    struct stk_log_record r = proflog_record(proflog_name(&l, path), STK_API_POSIX);
    proflog_read(&r, 0, 500);
    proflog_put(&l, &r);
    return proflog_write(&l, name);
}

/* Small logs in one file. A process may be killed at any point of its log's move to a file of its
 * own: it counts once, with all that it did. */
static void slots(void)
{
    struct stk_buf file = STK_BUF_INIT;
    struct stk_profile p;
    const struct stk_slots head = {.magic = STK_SLOTS_MAGIC, .version = STK_LOG_VERSION, .next = 9};
    const char *dir = folder("slots");
    stk_buf_put(&file, &head, sizeof head);
    put_slot(&file, 0, 200, 100, NULL);
    put_slot(&file, 1, 201, 100, NULL); /* killed when the file was complete */
    moved_log(1, 201);
    put_slot(&file, 2, 202, 100, NULL); /* killed before it was */
    const uint64_t none = 0;
    FILE *f = fopen(moved_log(2, 202), "r+");
    CHECK(f && fwrite(&none, sizeof none, 1, f) == 1 && fclose(f) == 0);
    put_slot(&file, 3, 203, 100, NULL); /* has moved */
    memset(file.data + stk_slot_at(3), 0, sizeof none);
    moved_log(3, 203);
    put_slot(&file, 4, 204, 100, "../../etc/passwd"); /* by a stranger */
    put_slot(&file, 5, 205, 100, NULL);
    struct stk_log_block *b = (void *)(file.data + stk_slot_at(5) + stk_log_small(1).at);
    b->used = stk_log_small(1).bytes;        /* beyond its end */
    stk_buf_zeros(&file, STK_LOG_FIRST / 2); /* and a part of a slot */
    scratch_file("slots/n1.7.slots.stklog", file.data, file.len);
    CHECK_INT(read_it(dir, &p), 0);
    CHECK_INT(p.nprocs, 6);
    CHECK_INT(file_of(&p, "/d/200")->distinct_bytes, 100);
    CHECK_INT(file_of(&p, "/d/201")->distinct_bytes, 500);
    CHECK_INT(file_of(&p, "/d/202")->distinct_bytes, 100);
    CHECK_INT(file_of(&p, "/d/203")->distinct_bytes, 500);
    CHECK_INT(file_of(&p, "/d/204")->distinct_bytes, 100);
    CHECK(noted(&p, "1 of 6 logs are damaged"));
    stk_profile_release(&p);
    file.data[8] = 99; /* another version */
    scratch_file("slots/n1.7.slots.stklog", file.data, file.len);
    CHECK_INT(read_it(dir, &p), 0);
    CHECK(noted(&p, "another version"));
    stk_profile_release(&p);
    stk_buf_release(&file);
}

static void nothing_there(void)
{
    struct stk_profile p;
    struct stk_err err = {0};
    CHECK_INT(stk_profile_read(folder("empty"), &p, &err), STK_E_USAGE);
    CHECK(strstr(err.what, "holds no profile") != NULL);
    CHECK_INT(stk_profile_read(scratch_path("absent"), &p, &err), STK_E_SYS);
    scratch_file("plain.txt", "x", 1);
    CHECK_INT(stk_profile_read(scratch_path("plain.txt"), &p, &err), STK_E_USAGE);
}

/* ---- --trace ---- */

struct seen {
    struct stk_prof_event e[8];
    size_t n, stop_at;
};

static int take(void *user, const struct stk_prof_event *e)
{
    struct seen *s = user;
    if (s->n < 8)
        s->e[s->n] = *e;
    return ++s->n == s->stop_at ? 5 : 0;
}

static void traces(void)
{
    struct proflog l;
    struct stk_profile p;
    struct seen s = {0};
    const char *dir = folder("trace");
    proflog_init(&l, 100, 1, 0);
    proflog_write(&l, "trace/n1.100.0.stklog");
    proflog_init(&l, 101, 1, 2);
    l.head.trace = 1;
    uint32_t id = proflog_name(&l, "x");
    struct stk_log_record r = proflog_record(id, STK_API_POSIX);
    proflog_read(&r, 0, 100);
    proflog_put(&l, &r);
    struct stk_log_event one[2] = {
        {.start_ns = 100, .length_ns = 1000, .op = STK_OP_READ, .bytes = 10, .name = id, .slot = 0},
        {.start_ns = 5000, .length_ns = 10, .op = STK_OP_CLOSE, .name = id, .slot = 0}};
    struct stk_log_event two[3] = {
        {.start_ns = 200, .length_ns = 100, .op = STK_OP_OPEN, .name = id, .slot = 1},
        {.start_ns = 300, .op = 250, .name = id, .slot = 1},
        {.start_ns = 900, .length_ns = 900, .op = STK_OP_READ, .offset = 7, .name = id, .slot = 1}};
    proflog_block(&l, STK_BLK_TRACE, 0, one, sizeof one);
    proflog_block(&l, STK_BLK_TRACE, 1, two, sizeof two);
    proflog_write(&l, "trace/n1.101.0.stklog");
    CHECK_INT(read_it(dir, &p), 0);
    CHECK(p.traced);
    CHECK_INT(stk_profile_events(&p, take, &s, NULL), 0);
    CHECK_INT(s.n, 4); /* the damaged one is left out */
    CHECK_INT(s.e[0].op, STK_OP_OPEN);
    CHECK_INT(s.e[1].bytes, 10);
    CHECK_INT(s.e[2].offset, 7);
    CHECK_INT(s.e[3].op, STK_OP_CLOSE);
    CHECK_INT(s.e[0].proc, 1);
    CHECK_STR(p.file[s.e[0].file].path, "/home/u/x");
    CHECK(close_to(s.e[0].start_s, 2 + 200e-9) && close_to(s.e[0].length_s, 100e-9));
    s = (struct seen){.stop_at = 2};
    CHECK_INT(stk_profile_events(&p, take, &s, NULL), 5);
    CHECK_INT(s.n, 2);
    stk_profile_release(&p);
}

/* More records than there is memory for: files become groups, no count is lost. */
static void folded(void)
{
    struct proflog l;
    struct stk_profile p;
    char name[60];
    const char *dir = folder("folded");
    for (uint32_t proc = 0; proc < 6; proc++) {
        proflog_init(&l, 100 + proc, 1, proc);
        l.head.trace = 1;
        for (uint32_t i = 0; i < 100; i++) {
            snprintf(name, sizeof name, i < 90 ? "/d/%c/%u.jpg" : "/other/%c%u", 'a' + i % 2, i);
            struct stk_log_record r = proflog_record(proflog_name(&l, name), STK_API_POSIX);
            r.n.c[STK_C_OPENS] = 1;
            r.fs_type = 0x6969;
            proflog_read(&r, 0, 100);
            proflog_put(&l, &r);
        }
        struct stk_log_event e = {.op = STK_OP_READ, .name = 3, .length_ns = 5};
        proflog_block(&l, STK_BLK_TRACE, 0, &e, sizeof e);
        snprintf(name, sizeof name, "folded/n1.%u.0.stklog", 100 + proc);
        proflog_write(&l, name);
    }
    CHECK_INT(stk_profile_read_within(dir, 150, &p, NULL), 0);
    uint64_t reads = 0, bytes = 0;
    for (size_t i = 0; i < p.nrecs; i++) {
        reads += p.rec[i].n.c[STK_C_READS];
        bytes += p.rec[i].n.c[STK_C_READ_BYTES];
        CHECK(!i || p.rec[i].file > p.rec[i - 1].file ||
              (p.rec[i].file == p.rec[i - 1].file && p.rec[i].proc > p.rec[i - 1].proc));
    }
    CHECK_INT(reads, 600);
    CHECK_INT(bytes, 60000);
    CHECK_INT(p.nfiles, 12); /* two groups of 45, and ten files that are too few for one */
    const struct stk_prof_file *f = file_of(&p, "/d/a/*.jpg");
    CHECK(f->group && f->files > 30 && f->files < 62);
    CHECK(f->distinct_bytes > 3000 && f->distinct_bytes < 6200 && !f->distinct_exact);
    CHECK_INT(f->ranks, 6);
    CHECK_STR(f->fs, "nfs");
    CHECK(noted(&p, "were grouped"));
    struct seen s = {0};
    CHECK_INT(stk_profile_events(&p, take, &s, NULL), 0);
    CHECK_INT(s.n, 6);
    CHECK_STR(p.file[s.e[0].file].path, "/d/a/*.jpg"); /* the group that took it in */
    stk_profile_release(&p);
    CHECK_INT(stk_profile_read_within(dir, 12, &p, NULL), 0); /* far too few: all are one */
    CHECK_INT(p.nrecs, 6);
    CHECK(file_of(&p, "*")->files > 60);
    stk_profile_release(&p);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    CHECK_RUN(run_files);
    CHECK_RUN(unseen_program);
    CHECK_RUN(ended_unseen);
    CHECK_RUN(damaged_logs);
    CHECK_RUN(slots);
    CHECK_RUN(nothing_there);
    CHECK_RUN(traces);
    CHECK_RUN(folded);
    scratch_done();
    return CHECK_DONE();
}
