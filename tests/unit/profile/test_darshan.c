/* test_darshan.c - Darshan logs as profiles: what darshan-parser prints, mapped into our counts,
 * and darshan-parser itself where it is there, is missing, or fails. Sites have years of these
 * logs. */
#include "check.h"
#include "scratch.h"
#include "profile/profile.h"

#include <sys/stat.h>
#include <unistd.h>

#define HEAD                                                                                       \
    "# darshan log version: 3.41\n# compression method: ZLIB\n# exe: python train.py \n"           \
    "# uid: 1000\n# jobid: 4711\n# start_time: 1700000000\n# end_time: 1700000100\n"               \
    "# run time: 100.0000\n# metadata: lib_ver = 3.5.0\n"

static struct stk_profile p;
static struct stk_err err;

/* Records in short: "module rank name" begins one, "COUNTER value" is a line of it. */
static void text_of(struct stk_buf *out, const char *const *line)
{
    char module[20] = "", rank[20] = "", name[100] = "";
    stk_buf_puts(out, HEAD);
    for (; *line; line++) {
        char one[80], two[40], three[100];
        int words = sscanf(*line, "%79s %39s %99s", one, two, three);
        if (**line == '#' || strchr(*line, '\t'))
            stk_buf_printf(out, "%s\n", *line);
        else if (words == 3)
            snprintf(module, sizeof module, "%.19s", one),
                snprintf(rank, sizeof rank, "%.19s", two), snprintf(name, sizeof name, "%s", three);
        else if (words == 2)
            stk_buf_printf(out, "%s\t%s\t77\t%s_%s\t%s\t%s\t/scratch\tlustre\n", module, rank,
                           strcmp(module, "MPI-IO") == 0 ? "MPIIO" : module, one, two, name);
    }
}

static const char *write_lines(const char *file, const char *const *line)
{
    struct stk_buf text = STK_BUF_INIT;
    text_of(&text, line);
    const char *path = scratch_file(file, text.data, text.len);
    stk_buf_release(&text);
    return path;
}

static int read_lines(const char *const *line)
{
    err = (struct stk_err){0};
    return stk_profile_read(write_lines("log.txt", line), &p, &err);
}

#define READ(...) read_lines((const char *const[]){__VA_ARGS__, NULL})

static bool noted(const char *words)
{
    for (size_t i = 0; i < p.nnotes; i++)
        if (strstr(p.note[i], words))
            return true;
    return false;
}

/* A loader that opens a file of 1,500,000 bytes twice and reads it whole: each time one read of all
 * and one of nothing, which Darshan has among its reads. */
static void whole_file_reader(void)
{
    CHECK_INT(READ("# nprocs: 1", "POSIX 0 /d/a.npy", "OPENS 2", "READS 4", "WRITES 0", "SEEKS 2",
                   "MMAPS -1", "BYTES_READ 3000000", "MAX_BYTE_READ 1499999", "CONSEC_READS 2",
                   "SEQ_READS 2", "SIZE_READ_0_100 2", "SIZE_READ_1M_4M 2",
                   "ACCESS1_ACCESS 1500000", "ACCESS1_COUNT 2", "F_READ_TIME 0.250000"),
              0);
    CHECK_INT(p.nrecs, 1);
    const struct stk_counts *n = &p.rec[0].n;
    CHECK_STR(p.source->name, "darshan");
    CHECK_STR(p.command, "python train.py");
    CHECK_STR(p.job, "4711");
    CHECK(p.run_s > 99.9 && p.run_s < 100.1);
    CHECK_STR(p.file[0].fs, "lustre");
    CHECK_INT(n->c[STK_C_OPENS], 2);
    CHECK_INT(n->c[STK_C_READS], 2);
    CHECK_INT(n->c[STK_C_EOF_READS], 2);
    CHECK_INT(n->c[STK_C_FIRST_READS], 2); /* so none is random */
    CHECK_INT(n->c[STK_C_SEQ_READS], 0);
    CHECK_INT(n->read_size[0], 0);
    CHECK_INT(n->read_size[5], 2);
    CHECK_INT(n->size[0].value, 1500000);
    CHECK_INT(n->c[STK_C_READ_NS], 250000000);
    CHECK(!p.has_size_zero);
    CHECK_INT(p.file[0].distinct_bytes, 1500000);
    CHECK(!p.file[0].distinct_exact);
    CHECK_INT(p.proc[0].world, 0);
    CHECK(noted("mmap"));
    stk_profile_release(&p);
}

/* Where there are more sizes than Darshan keeps, reads of nothing cannot be told from small ones.
 */
static void small_or_nothing(void)
{
    CHECK_INT(READ("# nprocs: 1", "POSIX 0 /d/a", "READS 100", "SIZE_READ_0_100 50",
                   "ACCESS1_COUNT 20", "ACCESS4_COUNT 5"),
              0);
    CHECK(p.has_size_zero);
    CHECK_INT(p.rec[0].n.c[STK_C_READS], 100);
    stk_profile_release(&p);
}

/* A file that all four ranks read whole, one of them slowly; and one that rank 2 has alone. */
static void shared_files(void)
{
    CHECK_INT(READ("# nprocs: 4", "POSIX -1 /d/s", "OPENS 4", "READS 402", "BYTES_READ 4000",
                   "MAX_BYTE_READ 999", "SEQ_READS 398", "FASTEST_RANK 1",
                   "FASTEST_RANK_BYTES 1000", "SLOWEST_RANK 3", "SLOWEST_RANK_BYTES 1000",
                   "F_READ_TIME 10.0", "F_FASTEST_RANK_TIME 1.0", "F_SLOWEST_RANK_TIME 5.0",
                   "POSIX 2 /d/own", "READS 7", "BYTES_READ 70", "MAX_BYTE_READ 69"),
              0);
    CHECK_INT(p.nprocs, 4);
    CHECK_INT(p.nranks, 4);
    CHECK_INT(p.nunits, 4);
    CHECK_INT(p.nrecs, 5);
    uint64_t reads = 0, ns = 0, bytes = 0;
    for (size_t i = 0; i < p.nrecs; i++)
        if (p.rec[i].file == 0) {
            reads += p.rec[i].n.c[STK_C_READS];
            ns += p.rec[i].n.c[STK_C_READ_NS];
            bytes += p.rec[i].n.c[STK_C_READ_BYTES];
        }
    CHECK_INT(reads, 402); /* nothing is lost */
    CHECK_INT(bytes, 4000);
    CHECK_INT(ns, 10000000000);
    CHECK_INT(p.rec[1].n.c[STK_C_READ_NS], 1000000000);
    CHECK_INT(p.rec[3].n.c[STK_C_READ_NS], 5000000000);
    CHECK_INT(p.rec[0].n.c[STK_C_READ_NS], 2000000000);
    CHECK_INT(p.file[0].ranks, 4);
    CHECK_INT(p.file[0].distinct_bytes, 1000);
    CHECK_INT(p.file[0].rank_distinct_bytes, 4000); /* every byte by every rank */
    CHECK_INT(p.file[1].ranks, 1);
    CHECK_INT(p.proc[2].rank, 2);
    CHECK(noted("all 4 ranks opened"));
    stk_profile_release(&p);
}

/* What a rank's time and bytes were is not known where a file is read and written: no rank is
 * blamed for reads that were perhaps writes. And however they are cut, nothing is lost. */
static void shares(void)
{
    CHECK_INT(READ("# nprocs: 4", "POSIX -1 /d/s", "OPENS 4", "READS 40", "WRITES 40",
                   "BYTES_READ 4000", "BYTES_WRITTEN 4000", "FASTEST_RANK 1",
                   "FASTEST_RANK_BYTES 1500", "SLOWEST_RANK 3", "SLOWEST_RANK_BYTES 4000",
                   "F_READ_TIME 4.0", "F_WRITE_TIME 5.0", "F_META_TIME 1.0",
                   "F_FASTEST_RANK_TIME 0.5", "F_SLOWEST_RANK_TIME 6.5"),
              0);
    CHECK_INT(p.rec[3].n.c[STK_C_READ_NS], 1000000000); /* 6.5 s, of which 5.5 may be others */
    CHECK_INT(p.rec[3].n.c[STK_C_WRITE_NS] + p.rec[3].n.c[STK_C_META_NS], 5500000000);
    CHECK_INT(p.rec[1].n.c[STK_C_READ_NS], 500000000);
    CHECK_INT(p.rec[3].n.c[STK_C_READ_BYTES], 1000);
    CHECK_INT(p.rec[3].n.c[STK_C_WRITE_BYTES], 3000);
    stk_profile_release(&p);
    CHECK_INT(READ("# nprocs: 512", "STDIO -1 /d/s", "READS 199687", "BYTES_READ 1812408359",
                   "FASTEST_RANK 1", "FASTEST_RANK_BYTES 3539808", "SLOWEST_RANK 127",
                   "SLOWEST_RANK_BYTES 3539808", "F_READ_TIME 28.5", "STDIO 7 /d/own", "READS 1"),
              0);
    uint64_t bytes = 0, reads = 0;
    for (size_t i = 0; i < p.nrecs; i++) {
        bytes += p.rec[i].n.c[STK_C_READ_BYTES];
        reads += p.rec[i].n.c[STK_C_READS];
    }
    CHECK_INT(bytes, 1812408359);
    CHECK_INT(reads, 199688);
    stk_profile_release(&p);
    CHECK_INT(READ("# nprocs: 3", "POSIX 1 /d/own", "READS 7"), 0);
    CHECK_INT(p.proc[0].threads, 0); /* with I/O */
    CHECK_INT(p.proc[1].threads, 1);
    stk_profile_release(&p);
}

/* STDIO has no sizes and no order, MPI-IO and HDF5 lie above POSIX, Lustre tells stripes. */
static void other_modules(void)
{
    CHECK_INT(READ("# nprocs: 1", "STDIO 0 /d/x.csv", "OPENS 1", "READS 100", "BYTES_READ 400000",
                   "MAX_BYTE_READ 199999", "STDIO 0 <STDOUT>", "BYTES_WRITTEN 9", "MPI-IO 0 /d/m",
                   "COLL_READS 3", "NB_READS 2", "SIZE_READ_AGG_1M_4M 5", "H5F 0 /d/h.h5",
                   "OPENS 1", "H5D 0 /d/h.h5:/images", "READS 6", "BYTES_READ 600",
                   "LUSTRE 0 /d/x.csv", "COMP1_STRIPE_SIZE 1048576", "COMP1_STRIPE_COUNT 4"),
              0);
    CHECK_INT(p.nfiles, 3);
    CHECK_INT(p.nrecs, 3);
    const struct stk_prof_rec *r = p.rec;
    CHECK_INT(r[0].api, STK_API_STDIO);
    CHECK_INT(r[0].n.c[STK_C_FIRST_READS], 100); /* in no order that we know: not random */
    CHECK_INT(r[0].n.read_size[2], 100);         /* 4,000 bytes each, as a mean */
    CHECK_INT(p.file[0].distinct_bytes, 200000);
    CHECK_INT(p.file[0].stripe_bytes, 1048576);
    CHECK_INT(p.file[0].stripe_count, 4);
    CHECK_INT(r[1].api, STK_API_MPIIO);
    CHECK_INT(r[1].n.c[STK_C_READS], 5);
    CHECK_INT(r[1].n.read_size[5], 5);
    CHECK_INT(r[2].api, STK_API_HDF5);
    CHECK_STR(p.file[2].path, "/d/h.h5");
    CHECK_INT(r[2].n.c[STK_C_OPENS], 1);
    CHECK_INT(r[2].n.c[STK_C_READS], 6);
    CHECK_INT(p.proc[0].seen_read_bytes, 400000); /* HDF5's bytes are POSIX's: not twice */
    CHECK(noted("STDIO"));
    stk_profile_release(&p);
}

/* DAOS: files without a name, and objects that are none. A layout in parts, narrow only at first;
 * "rootfs" says nothing of where a file lies. Reads that found nothing, between writes. */
static void storage(void)
{
#define AT_ROOT(counter, value) "POSIX\t0\t9\tPOSIX_" counter "\t" value "\t/d/x\t/\trootfs"
    CHECK_INT(READ("# nprocs: 1", "# DXT_POSIX module: 82 bytes (compressed), ver=1",
                   "DFS\t0\t5\tDFS_OPENS\t1\t\tpool:box\tN/A",
                   "DFS\t0\t5\tDFS_GLOBAL_OPENS\t2\t\tpool:box\tN/A",
                   "DFS\t0\t5\tDFS_READS\t64\t\tpool:box\tN/A",
                   "DFS\t0\t5\tDFS_READXS\t6\t\tpool:box\tN/A",
                   "DFS\t0\t5\tDFS_NB_READS\t30\t\tpool:box\tN/A",
                   "DFS\t0\t5\tDFS_BYTES_READ\t7000\t\tpool:box\tN/A",
                   "DAOS\t0\t6\tDAOS_BYTES_READ\t7000\t9.1\tpool:box\tN/A", "POSIX 0 /d/p",
                   "READS 1", "LUSTRE 0 /d/p", "COMP1_STRIPE_SIZE 65536", "COMP1_STRIPE_COUNT 1",
                   "COMP2_STRIPE_SIZE 1048576", "COMP2_STRIPE_COUNT 16", "COMP12_STRIPE_COUNT 4",
                   AT_ROOT("READS", "50"), AT_ROOT("WRITES", "90"), AT_ROOT("BYTES_READ", "0"),
                   AT_ROOT("SIZE_READ_0_100", "50"), AT_ROOT("ACCESS4_COUNT", "3")),
              0);
    CHECK_INT(p.nfiles, 3);
    CHECK_STR(p.file[0].fs, "daos");
    CHECK(strstr(p.file[0].path, "pool:box/5") != NULL);
    CHECK_INT(p.rec[0].api, STK_API_POSIX);
    CHECK_INT(p.rec[0].n.c[STK_C_OPENS], 3);
    CHECK_INT(p.rec[0].n.c[STK_C_READS], 70);
    CHECK_INT(p.rec[0].n.c[STK_C_FIRST_READS], 70);
    CHECK_INT(p.proc[0].seen_read_bytes, 7000); /* the objects below are the same bytes */
    CHECK_INT(p.file[1].stripe_count, 16);
    CHECK_INT(p.file[1].stripe_bytes, 1048576);
    CHECK_STR(p.file[2].fs, "");
    CHECK_INT(p.rec[2].n.c[STK_C_READS], 0);
    CHECK_INT(p.rec[2].n.c[STK_C_EOF_READS], 50);
    CHECK_INT(p.rec[2].n.read_size[0], 0);
    CHECK(!p.has_size_zero);
    CHECK(noted("darshan-dxt-parser"));
    stk_profile_release(&p);
    CHECK_INT(READ("DAOS\t0\t6\tDAOS_BYTES_READ\t7000\t9.1\tpool:box\tN/A"), 0);
    CHECK(noted("DAOS objects"));
    stk_profile_release(&p);
}

static void heat_map_and_gaps(void)
{
#define HEAT(counter, value)                                                                       \
    "HEATMAP\t0\t5\tHEATMAP_" counter "\t" value "\theatmap:POSIX\tUNKNOWN\tUNKNOWN"
    CHECK_INT(READ("# nprocs: 1", "# *WARNING*: The POSIX module contains incomplete data!",
                   "POSIX\t0\t1\tPOSIX_READS\t10\t/d/with\ttab\t/\text4",
                   "POSIX\t0\t1\tPOSIX_BYTES_READ\t30\t/d/with\ttab\t/\text4",
                   HEAT("F_BIN_WIDTH_SECONDS", "50.0"), HEAT("READ_BIN_0", "10"),
                   HEAT("READ_BIN_1", "20"), "\t\t\t\t", "POSIX\tx\ty\tz"),
              0);
    CHECK_STR(p.file[0].path, "/d/with\ttab");
    uint64_t early = 0, late = 0;
    for (size_t i = 0; i < STK_PROF_BINS; i++)
        *(i < STK_PROF_BINS / 2 ? &early : &late) += p.bin[i].read_bytes;
    CHECK_INT(early, 10);
    CHECK_INT(late, 20);
    CHECK(noted("ran out of memory for its POSIX records"));
    stk_profile_release(&p);
}

/* ---- the program itself, played by a script ---- */

static void play(const char *script)
{
    chmod(scratch_file("parser", script, strlen(script)), 0700);
    setenv("STOKER_DARSHAN_PARSER", scratch_path("parser"), 1);
}

static int read_log(const char *name)
{
    static const char log[32] = "3.41\0\0\0\0\x37\x35\x64"; /* 6567223, little-endian */
    err = (struct stk_err){0};
    scratch_file(name, log, sizeof log);
    return stk_profile_read(scratch_path(name), &p, &err);
}

static void runs_the_parser(void)
{
    write_lines("text", (const char *const[]){"# nprocs: 1", "POSIX 0 /d/a", "READS 10", NULL});
    char script[1200];
    snprintf(script, sizeof script,
             "#!/bin/sh\n[ $# = 2 ] && [ \"$1\" = --show-incomplete ] && [ -f \"$2\" ] || exit 9\n"
             "cat '%s'\n",
             scratch_path("text"));
    play(script);
    CHECK_INT(read_log("u_python_id7-7_1;$(touch x)'_.darshan"), 0); /* no shell sees the name */
    CHECK_INT(p.nrecs, 1);
    CHECK_INT(p.proc[0].pid, 7);
    stk_profile_release(&p);
    play("#!/bin/sh\necho '# Error: bad log' >&2\nexit 1\n");
    CHECK_INT(read_log("a.darshan"), STK_E_CORRUPT);
    CHECK(strstr(err.what, "Error: bad log") != NULL);
    /* It ends well where it could read only part of a log, or nothing of one. */
    snprintf(script, sizeof script,
             "#!/bin/sh\necho 'Warning: x' >&2\necho 'Error: cut short.' >&2\ncat '%s'\n",
             scratch_path("text"));
    play(script);
    CHECK_INT(read_log("a.darshan"), 0);
    CHECK(noted("a.darshan cannot be read completely (darshan-parser: Error: cut short)"));
    stk_profile_release(&p);
    play("#!/bin/sh\necho '# darshan log version: 3.41'\necho 'Error: cut short.' >&2\n");
    CHECK_INT(read_log("a.darshan"), STK_E_CORRUPT);
    play("#!/bin/sh\necho hello\n");
    CHECK_INT(read_log("a.darshan"), STK_E_CORRUPT);
    setenv("STOKER_DARSHAN_PARSER", scratch_path("absent"), 1);
    CHECK_INT(read_log("a.darshan"), STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "darshan-util") != NULL);
}

/* Without MPI there is a log a process: a folder of them is one profile. */
static void folder_of_logs(void)
{
    char script[1200];
    write_lines("text", (const char *const[]){"# nprocs: 1", "POSIX 0 /d/a", "READS 10",
                                              "BYTES_READ 100", "MAX_BYTE_READ 99", NULL});
    snprintf(
        script, sizeof script,
        "#!/bin/sh\ncat '%s'\ncase \"$2\" in *id9-9*) echo '# metadata: fork_parent = 7';; esac\n",
        scratch_path("text"));
    play(script);
    static const char log[32] = "3.41\0\0\0\0\x37\x35\x64";
    scratch_file("many/u_python_id7-7_1.darshan", log, sizeof log);
    scratch_file("many/u_python_id9-9_1.darshan", log, sizeof log);
    CHECK_INT(stk_profile_read(scratch_path("many"), &p, &err), 0);
    CHECK_STR(p.source->name, "darshan");
    CHECK_INT(p.nprocs, 2);
    CHECK_INT(p.nfiles, 1);
    CHECK_INT(p.proc[1].parent, 0);
    CHECK_INT(p.proc[1].worker, 1);
    CHECK_INT(p.nunits, 1);
    CHECK_INT(p.nnotes, 1); /* what both say is said once */
    stk_profile_release(&p);
    scratch_file("many/cut.darshan", log, 3); /* one of many is damaged */
    snprintf(script, sizeof script, "#!/bin/sh\ncase \"$2\" in *cut*) exit 1;; esac\ncat '%s'\n",
             scratch_path("text"));
    play(script);
    CHECK_INT(stk_profile_read(scratch_path("many"), &p, &err), 0);
    CHECK_INT(p.nprocs, 2);
    CHECK(noted("cut.darshan is left out"));
    stk_profile_release(&p);
    play("#!/bin/sh\nexit 1\n"); /* all are */
    CHECK_INT(stk_profile_read(scratch_path("many"), &p, &err), STK_E_CORRUPT);
}

/* Logs of Darshan 1 and 2 are not taken for something else, nor for a run without I/O. */
static void old_logs(void)
{
    static const char text[] =
        "# darshan log version: 2.05\n# nprocs: 1\n0\t1\tCP_POSIX_READS\t9\n";
    scratch_file("a.darshan.gz", "\x1f\x8b\x08 and so on, and on", 22);
    CHECK_INT(stk_profile_read(scratch_path("a.darshan.gz"), &p, &err), STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "Darshan 1 or 2") != NULL);
    scratch_file("old.txt", text, sizeof text - 1);
    CHECK_INT(stk_profile_read(scratch_path("old.txt"), &p, &err), STK_E_UNSUPPORTED);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    CHECK_RUN(whole_file_reader);
    CHECK_RUN(small_or_nothing);
    CHECK_RUN(shared_files);
    CHECK_RUN(shares);
    CHECK_RUN(storage);
    CHECK_RUN(other_modules);
    CHECK_RUN(heat_map_and_gaps);
    CHECK_RUN(runs_the_parser);
    CHECK_RUN(folder_of_logs);
    CHECK_RUN(old_logs);
    scratch_done();
    return CHECK_DONE();
}
