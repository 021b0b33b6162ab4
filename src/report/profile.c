/*
 * profile.c - the result of `stoker report`: what ran, how long it waited for data, what it read
 * and wrote, by file, directory, format, rank and process.
 */
#include "report/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/file.h"
#include "base/text.h"
#include "report/report_priv.h"
#include "result/blocks.h"
#include "result/page.h"

/* ---- counters ------------------------------------------------------------------------------- */

#define X(id, text, how) {text, NULL, STK_U_COUNT, STK_FROM(struct stk_counts, c[STK_C_##id])},
static const struct stk_result_field counter_fields[] = {STK_COUNTERS(X){NULL}};
#undef X

#define COUNTER(id) STK_FROM(struct stk_counts, c[STK_C_##id])

static const struct stk_result_field moved_fields[] = {
    {"read_bytes", "read", STK_U_BYTES, COUNTER(READ_BYTES), .flags = STK_F_IF_SET, .none = "-"},
    {"write_bytes", "written", STK_U_BYTES, COUNTER(WRITE_BYTES),
     .flags = STK_F_IF_SET | STK_F_WIDE, .none = "-"},
    {"reads", "reads", STK_U_COUNT, COUNTER(READS), .flags = STK_F_PAGE},
    {NULL}};

#define BINS(name, member, n)                                                                      \
    static void name(const void *base, struct stk_jw *w)                                           \
    {                                                                                              \
        const struct stk_counts *c = base;                                                         \
        stk_jw_open(w, '[');                                                                       \
        for (size_t i = 0; i < (n); i++)                                                           \
            stk_jw_u64(w, c->member[i]);                                                           \
        stk_jw_close(w, ']');                                                                      \
    }
BINS(put_read_size, read_size, STK_SIZE_BINS)
BINS(put_write_size, write_size, STK_SIZE_BINS)
BINS(put_read_latency, read_latency, STK_LATENCY_BINS)

static void put_common(const struct stk_common_value *v, struct stk_jw *w)
{
    stk_jw_open(w, '[');
    for (size_t i = 0; i < STK_COMMON; i++) {
        if (!v[i].count)
            continue;
        stk_jw_open(w, '{');
        stk_jw_key(w, "bytes");
        stk_jw_i64(w, (int64_t)v[i].value);
        stk_jw_put_u64(w, "count", v[i].count);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static void put_sizes(const void *base, struct stk_jw *w)
{
    put_common(((const struct stk_counts *)base)->size, w);
}

static void put_strides(const void *base, struct stk_jw *w)
{
    put_common(((const struct stk_counts *)base)->stride, w);
}

static const struct stk_result_field common_fields[] = {
    {"bytes", "bytes", STK_U_COUNT}, {"count", "times", STK_U_COUNT}, {NULL}};

static const struct stk_result_field counts_fields[] = {
    {"counters", NULL, STK_U_GROUP, .of = counter_fields, .csv = ""},
    {"read_size", NULL, STK_U_LIST, .put = put_read_size,
     .meaning = "reads by size, as Darshan has them"},
    {"write_size", NULL, STK_U_LIST, .put = put_write_size},
    {"read_latency", NULL, STK_U_LIST, .put = put_read_latency,
     .meaning = "reads by powers of two of nanoseconds"},
    {"common_sizes", NULL, STK_U_TABLE, .put = put_sizes, .of = common_fields},
    {"common_strides", NULL, STK_U_TABLE, .put = put_strides, .of = common_fields},
    {NULL}};

static const struct stk_result_field drawn_counts_fields[] = {
    {"counters", NULL, STK_U_GROUP, .of = moved_fields}, {NULL}};

/* ---- usages --------------------------------------------------------------------------------- */

#define USAGE(member) STK_FROM(struct stk_usage, member)
#define NONE          .flags = STK_F_IF_SET, .none = "-"

/* What one file, or several together, were used for. named, format_: titles of what it is; NULL: of
 * the job. one, many: flags of columns that say something of single files, and of several. */
#define USAGE_FIELDS(named, format_, one, many)                                                    \
    {"name",          named,        STK_U_TEXT, USAGE(name), .flags = STK_F_IF_SET | STK_F_CUT,    \
     .none = "other", .csv = "path"},                                                              \
        {"io_s",                                                                                   \
         "I/O time",                                                                               \
         STK_U_SECONDS,                                                                            \
         USAGE(io_s),                                                                              \
         "read, write and metadata, threads added up",                                             \
         NONE},                                                                                    \
        {"io_share", (named) != NULL ? "share" : NULL, STK_U_SHARE,                                \
         USAGE(io_share), "of the job's I/O time", STK_F_PAGE},                                    \
        {"read_s", "in reads", STK_U_SECONDS, USAGE(read_s), .flags = STK_F_PAGE},                 \
        {"write_s", "in writes", STK_U_SECONDS, USAGE(write_s), .flags = STK_F_PAGE},              \
        {"meta_s", "in metadata", STK_U_SECONDS, USAGE(meta_s), .flags = STK_F_PAGE},              \
        {"counters", NULL, STK_U_GROUP, .of = moved_fields, .flags = STK_F_VIEW},                  \
        {"mean_read_bytes", "mean read", STK_U_BYTES, USAGE(mean_read_bytes), NONE},               \
        {"mean_write_bytes", NULL, STK_U_BYTES, USAGE(mean_write_bytes)},                          \
        {"bandwidth_Bps",                                                                          \
         "a read's speed",                                                                         \
         STK_U_BYTES_PER_S,                                                                        \
         USAGE(bandwidth_Bps),                                                                     \
         "read_bytes over read_s",                                                                 \
         STK_F_IF_SET | STK_F_WIDE,                                                                \
         "-"},                                                                                     \
        {"seq", NULL, STK_U_SHARE, USAGE(seq), "of the reads after the first"},                    \
        {"consec", NULL, STK_U_SHARE, USAGE(consec)},                                              \
        {"random", "random", STK_U_SHARE, USAGE(random), "of all reads: go back", one},            \
        {"files", "files", STK_U_COUNT, USAGE(files), "distinct", many},                           \
        {"format", format_, STK_U_TEXT, USAGE(format), .flags = STK_F_PAGE},                       \
        {"small", NULL, STK_U_SHARE, USAGE(small), "of the reads: under 1 MiB"},                   \
        {"small_time", NULL, STK_U_SHARE, USAGE(small_time), "of the read time, an estimate"},     \
        {"files_exact", NULL, STK_U_FLAG, USAGE(files_exact)},                                     \
        {"files_read", NULL, STK_U_COUNT, USAGE(files_read)},                                      \
        {"files_written", NULL, STK_U_COUNT, USAGE(files_written)},                                \
        {"files_read_once", NULL, STK_U_COUNT, USAGE(files_read_once)},                            \
        {"size_bytes", NULL, STK_U_BYTES, USAGE(size_bytes), "of the files read, where known"},    \
        {"distinct_bytes", NULL, STK_U_BYTES, USAGE(distinct_bytes), "read at least once"},        \
        {"distinct_exact", NULL, STK_U_FLAG, USAGE(exact)},                                        \
        {"rank_distinct_bytes", NULL, STK_U_BYTES, USAGE(rank_distinct_bytes),                     \
         "of each rank, added up"},                                                                \
        {"ranks", NULL, STK_U_COUNT, USAGE(ranks), "that read"},                                   \
        {"procs", NULL, STK_U_COUNT, USAGE(procs), "that read"},                                   \
        {"reread", "re-read", STK_U_TIMES, USAGE(reread), "how often each byte was read", NONE},   \
        {"rank_overlap", NULL, STK_U_TIMES, USAGE(rank_overlap), "1: disjoint; ranks: all alike"}, \
        {"latency_p50_s", NULL, STK_U_SECONDS, USAGE(latency_p50_s), "of a read"},                 \
    {                                                                                              \
        "latency_p99_s", "p99", STK_U_SECONDS, USAGE(latency_p99_s), "of a read",                  \
            STK_F_IF_SET | STK_F_WIDE, "-"                                                         \
    }

static const struct stk_result_field file_usage[] = {USAGE_FIELDS("path", "format", 0, STK_F_PAGE),
                                                     {NULL}};
static const struct stk_result_field dir_usage[] = {USAGE_FIELDS("path", "format", STK_F_PAGE, 0),
                                                    {NULL}};
static const struct stk_result_field format_usage[] = {USAGE_FIELDS("format", NULL, STK_F_PAGE, 0),
                                                       {NULL}};
static const struct stk_result_field job_usage[] = {USAGE_FIELDS(NULL, NULL, STK_F_PAGE, 0),
                                                    {NULL}};

STK_BOOL_OF(is_group, struct stk_usage, r->file->group)
STK_TEXT_OF(fs, struct stk_usage, r->file->fs)
STK_NUMBER_OF(stripe_bytes, struct stk_usage, r->file->stripe_bytes)
STK_NUMBER_OF(stripe_count, struct stk_usage, r->file->stripe_count)

static void put_arrays(const void *base, struct stk_jw *w)
{
    const struct stk_usage *u = base;
    stk_jw_open(w, '[');
    if (u->file->layouts & STK_LAYOUT_WHOLE)
        stk_jw_str(w, "whole");
    if (u->file->layouts & STK_LAYOUT_CHUNKS)
        stk_jw_str(w, "chunks");
    stk_jw_close(w, ']');
}

static const struct stk_result_field place_fields[] = {
    {"group", NULL, STK_U_FLAG, .put = is_group, .meaning = "many files folded together"},
    {"fs", NULL, STK_U_TEXT, .put = fs, .meaning = "the file system"},
    {"stripe_bytes", NULL, STK_U_BYTES, .number = stripe_bytes},
    {"stripe_count", NULL, STK_U_COUNT, .number = stripe_count},
    {"arrays", NULL, STK_U_LIST, .put = put_arrays,
     .meaning = "how those of an HDF5 file are stored: whole, chunks"},
    {NULL}};

#define COUNTS STK_FROM_AS(STRUCT, struct stk_usage, n)

static const struct stk_result_field file_fields[] = {
    {"", NULL, STK_U_GROUP, .of = file_usage},
    {"", NULL, STK_U_GROUP, COUNTS, .of = counts_fields},
    {"", NULL, STK_U_GROUP, .of = place_fields},
    {NULL}};
static const struct stk_result_field dir_fields[] = {
    {"", NULL, STK_U_GROUP, .of = dir_usage},
    {"", NULL, STK_U_GROUP, COUNTS, .of = counts_fields},
    {NULL}};
static const struct stk_result_field format_fields[] = {
    {"", NULL, STK_U_GROUP, .of = format_usage},
    {"", NULL, STK_U_GROUP, COUNTS, .of = counts_fields},
    {NULL}};
static const struct stk_result_field drawn_usage[] = {
    {"", NULL, STK_U_GROUP, .of = dir_usage},
    {"", NULL, STK_U_GROUP, COUNTS, .of = drawn_counts_fields},
    {NULL}};

/* A log may have any number of rows: those of a part that is not drawn take no memory. */
static size_t rows_of_part(const struct stk_report *r, unsigned part, size_t n)
{
    return r->drawn && r->parts && !(r->parts & part) ? 0 : n;
}

/* Of files, few are drawn. */
static void put_files(const void *base, struct stk_jw *w)
{
    const struct stk_report *r = base;
    size_t n = rows_of_part(r, STK_PART_FILES, r->a->nfiles);
    n = r->drawn && r->top && r->top < n ? r->top : n;
    stk_rows_put(r->drawn ? drawn_usage : file_fields, r->a->file, n, sizeof *r->a->file, w);
}

static void put_dirs(const void *base, struct stk_jw *w)
{
    const struct stk_report *r = base;
    stk_rows_put(r->drawn ? drawn_usage : dir_fields, r->a->dir,
                 rows_of_part(r, STK_PART_DIRS, r->a->ndirs), sizeof *r->a->dir, w);
}

static void put_formats(const void *base, struct stk_jw *w)
{
    const struct stk_report *r = base;
    stk_rows_put(r->drawn ? drawn_usage : format_fields, r->a->format,
                 rows_of_part(r, STK_PART_FORMATS, r->a->nformats), sizeof *r->a->format, w);
}

/* ---- one process's use of one file through one API ------------------------------------------ */

struct record {
    const struct stk_profile *p;
    const struct stk_prof_rec *rec;
};

STK_TEXT_OF(record_path, struct record, r->p->file[r->rec->file].path)
STK_NUMBER_OF(record_pid, struct record, r->p->proc[r->rec->proc].pid)
STK_TEXT_OF(record_api, struct record, stk_api_name((enum stk_api)r->rec->api))
STK_NUMBER_OF(record_process, struct record, r->rec->proc)
STK_NUMBER_OF(record_distinct, struct record, (double)r->rec->distinct_bytes)

static const struct stk_result_field counted_fields[] = {
    {"", NULL, STK_U_GROUP, STK_FROM_AS(STRUCT, struct stk_prof_rec, n), .of = counts_fields},
    {NULL}};

static const struct stk_result_field record_fields[] = {
    {"path", NULL, STK_U_TEXT, .put = record_path},
    {"process", NULL, STK_U_COUNT, .number = record_process,
     .meaning = "its place among the processes"},
    {"pid", NULL, STK_U_ID, .number = record_pid},
    {"api", NULL, STK_U_TEXT, .put = record_api, .meaning = "posix, stdio, async, hdf5, mpi-io"},
    {"distinct_bytes", NULL, STK_U_BYTES, .number = record_distinct},
    {"", NULL, STK_U_GROUP, STK_FROM_AS(POINTER, struct record, rec), .of = counted_fields},
    {NULL}};

static void put_records(const void *base, struct stk_jw *w)
{
    const struct stk_report *r = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; !r->drawn && i < r->a->p->nrecs; i++) {
        const struct record one = {r->a->p, &r->a->p->rec[i]};
        if (one.rec->proc < one.p->nprocs && one.rec->file < one.p->nfiles)
            stk_row_put(record_fields, &one, w);
    }
    stk_jw_close(w, ']');
}

/* ---- processes ------------------------------------------------------------------------------ */

struct process {
    const struct stk_profile *p;
    const struct stk_prof_proc *o;
};

static void put_short_command(const void *base, struct stk_jw *w)
{
    const struct stk_prof_proc *o = base;
    struct stk_buf b = STK_BUF_INIT;
    stk_jw_str(w, stk_word_command(&b, *o->command ? o->command : o->exe, 60));
    stk_buf_release(&b);
}

/* "rank 3 worker 1", "rank 3 launch", as far as known. */
static void put_who(const void *base, struct stk_jw *w)
{
    const struct stk_prof_proc *o = base;
    char worker[32] = "", rank[32] = "", text[80];
    if (o->world)
        snprintf(rank, sizeof rank, "rank %lu", (unsigned long)o->rank);
    if (o->worker)
        snprintf(worker, sizeof worker, "worker %lu", (unsigned long)o->worker);
    else if (o->launch)
        snprintf(worker, sizeof worker, "launch");
    snprintf(text, sizeof text, "%s%s%s", rank, *rank && *worker ? " " : "", worker);
    stk_jw_str(w, *text ? text : NULL);
}

/* Names of the Python packages it loaded; null: unknown. */
static void put_libraries(const void *base, struct stk_jw *w)
{
    static const char *const names[] = {STK_LIBRARY_NAMES};
    const struct stk_prof_proc *o = base;
    if (!(o->libraries & STK_LIBRARIES_SEEN)) {
        stk_jw_null(w);
        return;
    }
    stk_jw_open(w, '[');
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (o->libraries & 2ull << i)
            stk_jw_str(w, names[i]);
    stk_jw_close(w, ']');
}

static void put_born(const void *base, struct stk_jw *w)
{
    static const char *const born[] = {"start", "fork", "exec"};
    const struct stk_prof_proc *o = base;
    stk_jw_str(w, o->born < 3 ? born[o->born] : NULL);
}

#define PROC(member)                  STK_FROM(struct stk_prof_proc, member)
#define PROC_NUMBER(name, expression) STK_NUMBER_OF(name, struct stk_prof_proc, expression)
PROC_NUMBER(parent, r->parent)
PROC_NUMBER(proc_rank, r->world ? (double)r->rank : -1)
PROC_NUMBER(proc_ran, r->end_s - r->start_s)
PROC_NUMBER(proc_seen,
            r->kernel_read_bytes ? (double)r->seen_read_bytes / (double)r->kernel_read_bytes : -1)
STK_TEXT_OF(proc_ended, struct stk_prof_proc, stk_prof_ended(r))
STK_TEXT_OF(proc_host, struct process,
            r->o->host < r->p->nhosts ? r->p->host[r->o->host].name : NULL)
STK_NUMBER_OF(proc_index, struct process, (double)(r->o - r->p->proc))

static const struct stk_result_field proc_fields[] = {
    {"short", "command", STK_U_TEXT, .put = put_short_command,
     .flags = STK_F_CUT_END | STK_F_ESCAPED, .meaning = "the command, to be shown"},
    {"pid", "pid", STK_U_ID, PROC(pid)},
    {"ppid", NULL, STK_U_ID, PROC(ppid)},
    {"parent", NULL, STK_U_COUNT, .number = parent, .flags = STK_F_KNOWN,
     .meaning = "its place in this list"},
    {"born", NULL, STK_U_TEXT, .put = put_born, .meaning = "start, fork or exec"},
    {"rank", "rank", STK_U_ID, .number = proc_rank, .flags = STK_F_KNOWN | STK_F_PAGE},
    {"world", NULL, STK_U_COUNT, PROC(world)},
    {"who", "who", STK_U_TEXT, .put = put_who, .flags = STK_F_SCREEN, .none = "-"},
    {"worker", NULL, STK_U_COUNT, PROC(worker), "from 1; 0: none"},
    {"launch", NULL, STK_U_FLAG, PROC(launch), "it only led to the program"},
    {"exe", NULL, STK_U_TEXT, PROC(exe)},
    {"command", NULL, STK_U_TEXT, PROC(command)},
    {"cwd", NULL, STK_U_TEXT, PROC(cwd)},
    {"start_s", "began at", STK_U_SECONDS, PROC(start_s), .flags = STK_F_PAGE},
    {"end_s", NULL, STK_U_SECONDS, PROC(end_s)},
    {"threads", "threads", STK_U_COUNT, PROC(threads), "that did I/O", STK_F_PAGE},
    {"io_sum_s", NULL, STK_U_SECONDS, PROC(io_sum_s), "threads added up"},
    {"main_io_s", NULL, STK_U_SECONDS, PROC(main_io_s), "of the main thread"},
    {"wait_processes_s", NULL, STK_U_SECONDS, PROC(wait_processes_s), "of the main thread"},
    {"wait_threads_s", NULL, STK_U_SECONDS, PROC(wait_threads_s), "of the main thread"},
    {"read_bytes", "read", STK_U_BYTES, PROC(read_bytes), "of recorded files", NONE},
    {"write_bytes", "written", STK_U_BYTES, PROC(write_bytes), .flags = STK_F_PAGE},
    {"io_union_s", "in I/O", STK_U_SECONDS, PROC(io_union_s), "at least one thread was in a call",
     NONE},
    {"cpu_s", "CPU", STK_U_SECONDS, PROC(cpu_s), NULL, NONE},
    {"ended", "ended", STK_U_TEXT, .put = proc_ended, .meaning = "exit, exec, abort or killed"},
    {"ran_s", "ran", STK_U_SECONDS, .number = proc_ran, .flags = STK_F_WIDE},
    {"seen_share", "seen", STK_U_SHARE, .number = proc_seen, .flags = STK_F_KNOWN | STK_F_WIDE,
     .meaning = "of the bytes read, by the kernel's count"},
    {"seen_read_bytes", NULL, STK_U_BYTES, PROC(seen_read_bytes)},
    {"seen_write_bytes", NULL, STK_U_BYTES, PROC(seen_write_bytes)},
    {"kernel_read_bytes", NULL, STK_U_BYTES, PROC(kernel_read_bytes)},
    {"kernel_write_bytes", NULL, STK_U_BYTES, PROC(kernel_write_bytes)},
    {"storage_read_bytes", NULL, STK_U_BYTES, PROC(storage_read_bytes)},
    {"storage_write_bytes", NULL, STK_U_BYTES, PROC(storage_write_bytes)},
    {"left_out_files", NULL, STK_U_COUNT, PROC(left_out_files)},
    {"left_out_calls", NULL, STK_U_COUNT, PROC(left_out_calls)},
    {"left_out_read_bytes", NULL, STK_U_BYTES, PROC(left_out_read_bytes)},
    {"left_out_ns", NULL, STK_U_COUNT, PROC(left_out_ns)},
    {"dropped_calls", NULL, STK_U_COUNT, PROC(dropped_calls)},
    {"dropped_trace", NULL, STK_U_COUNT, PROC(dropped_trace)},
    {"uring_rings", NULL, STK_U_COUNT, PROC(uring_rings)},
    {"kernel_aio_calls", NULL, STK_U_COUNT, PROC(kernel_aio_calls)},
    {"blind", NULL, STK_U_FLAG, PROC(blind), "it moved data that nobody saw"},
    {"told_read_bytes", NULL, STK_U_BYTES, PROC(told_read_bytes)},
    {"grouped_files", NULL, STK_U_COUNT, PROC(grouped_files)},
    {"minor_faults", NULL, STK_U_COUNT, PROC(minor_faults)},
    {"major_faults", NULL, STK_U_COUNT, PROC(major_faults)},
    {"libraries", NULL, STK_U_LIST, .put = put_libraries, .meaning = "Python packages it loaded"},
    {NULL}};

static const struct stk_result_field process_fields[] = {
    {"process", NULL, STK_U_COUNT, .number = proc_index, .meaning = "its place in this list"},
    {"", NULL, STK_U_GROUP, STK_FROM_AS(POINTER, struct process, o), .of = proc_fields},
    {"host", "host", STK_U_TEXT, .put = proc_host, .flags = STK_F_WIDE},
    {NULL}};

static void put_processes(const void *base, struct stk_jw *w)
{
    const struct stk_report *r = base;
    const struct stk_profile *p = r->a->p;
    size_t n = rows_of_part(r, STK_PART_PROCESSES, p->nprocs);
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        const struct process one = {p, &p->proc[i]};
        stk_row_put(process_fields, &one, w);
    }
    stk_jw_close(w, ']');
}

/* ---- ranks and hosts ------------------------------------------------------------------------ */

#define RANK(member) STK_FROM(struct stk_rank_use, member)
STK_NUMBER_OF(rank_number, struct stk_rank_use, r->known ? (double)r->rank : -1)

static const struct stk_result_field rank_fields[] = {
    {"rank", "rank", STK_U_ID, .number = rank_number, .flags = STK_F_KNOWN, .none = "none",
     .meaning = "null: what ran beside the ranks"},
    {"procs", "processes", STK_U_COUNT, RANK(procs), .flags = STK_F_PAGE},
    {"workers", "workers", STK_U_COUNT, RANK(workers), NULL, NONE},
    {"read_bytes", "read", STK_U_BYTES, RANK(read_bytes), NULL, NONE},
    {"files_read", "files", STK_U_COUNT, RANK(files_read), "read", NONE},
    {"io_s", "I/O time", STK_U_SECONDS, RANK(io_s), NULL, NONE},
    {"meta_s", "metadata", STK_U_SECONDS, RANK(meta_s), "time in calls that move no data", NONE},
    {"cpu_s", "CPU", STK_U_SECONDS, RANK(cpu_s), NULL, NONE},
    {"run_s", "ran", STK_U_SECONDS, RANK(run_s), NULL, NONE},
    {"reads", "reads", STK_U_COUNT, RANK(reads), NULL, STK_F_IF_SET | STK_F_WIDE, "-"},
    {"write_bytes", "written", STK_U_BYTES, RANK(write_bytes), NULL, STK_F_IF_SET | STK_F_WIDE,
     "-"},
    {NULL}};

static void put_ranks(const void *base, struct stk_jw *w)
{
    const struct stk_report *r = base;
    stk_rows_put(rank_fields, r->a->rank, rows_of_part(r, STK_PART_RANKS, r->a->nranks),
                 sizeof *r->a->rank, w);
}

static const struct stk_result_plot balance_plot = {
    "balance",
    "Ranks against ranks",
    "All ranks wait for the slowest: one that stands out costs the whole job.",
    "rank",
    "rank",
    STK_U_PLAIN,
    STK_SCALE_RANKS,
    {{"time in I/O", STK_U_SECONDS, {{"io_s", "time in I/O", "bar"}}},
     {"bytes read", STK_U_BYTES, {{"read_bytes", "bytes read", "bar"}}}},
    .least = 2};

#define HOST(member) STK_FROM(struct stk_prof_host, member)

static const struct stk_result_field host_fields[] = {
    {"name", NULL, STK_U_TEXT, HOST(name)},
    {"cores", NULL, STK_U_COUNT, HOST(cores)},
    {"memory_bytes", NULL, STK_U_BYTES, HOST(memory_bytes)},
    {"gpus", NULL, STK_U_COUNT, HOST(gpus)},
    {"gpu_kind", NULL, STK_U_TEXT, HOST(gpu_kind)},
    {"local_dir", NULL, STK_U_TEXT, HOST(local_dir), "for copies on the node"},
    {"local_free_bytes", NULL, STK_U_BYTES, HOST(local_free_bytes)},
    {NULL}};

/* ---- sizes of requests ---------------------------------------------------------------------- */

const char *const stk_report_size_name[STK_SIZE_BINS] = {
    "to 100 B", "to 1 KiB",  "to 10 KiB",  "to 100 KiB", "to 1 MiB",
    "to 4 MiB", "to 10 MiB", "to 100 MiB", "to 1 GiB",   "above 1 GiB"};

struct size_row {
    const char *name;
    uint64_t reads, writes;
    double share;
};

static const struct stk_result_field size_fields[] = {
    {"size", "size", STK_U_TEXT, STK_FROM(struct size_row, name)},
    {"reads", "reads", STK_U_COUNT, STK_FROM(struct size_row, reads), NULL, NONE},
    {"read_share", "share", STK_U_SHARE, STK_FROM(struct size_row, share), "of the reads",
     STK_F_BAR},
    {"writes", "writes", STK_U_COUNT, STK_FROM(struct size_row, writes), .flags = STK_F_IF_SET},
    {NULL}};

static const struct stk_result_plot size_plot = {
    "sizes",
    "Sizes of requests",
    "Storage serves few large requests faster than many small ones.",
    "size",
    "size of a request",
    STK_U_TEXT,
    STK_SCALE_CATEGORY,
    {{"requests", STK_U_COUNT, {{"reads", NULL, "bar"}, {"writes", NULL, "bar"}}}}};

/* The bins with a count and those between. */
static void put_request_sizes(const void *base, struct stk_jw *w)
{
    const struct stk_counts *n = base;
    size_t from = STK_SIZE_BINS, to = 0;
    double all = 0;
    for (size_t i = 0; i < STK_SIZE_BINS; i++) {
        bool any = n->read_size[i] || n->write_size[i];
        all += (double)n->read_size[i];
        from = any && i < from ? i : from;
        to = any ? i + 1 : to;
    }
    stk_jw_open(w, '[');
    for (size_t i = from; i < to; i++) {
        const struct size_row row = {stk_report_size_name[i], n->read_size[i], n->write_size[i],
                                     all > 0 ? (double)n->read_size[i] / all : NAN};
        stk_row_put(size_fields, &row, w);
    }
    stk_jw_close(w, ']');
}

/* ---- what ran ------------------------------------------------------------------------------- */

/* A hostile log may hold any time; only four-digit years are shown. */
static void put_began(const void *base, struct stk_jw *w)
{
    const struct stk_profile *p = base;
    char when[40] = "";
    struct tm tm;
    time_t at = p->start_real_s > 0 && p->start_real_s < 2e11 ? (time_t)p->start_real_s : 0;
    if (at && gmtime_r(&at, &tm))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", &tm);
    stk_jw_str(w, *when ? when : NULL);
}

/* A shell reports a signal that ended its program as a status above 128; the launcher knows the
 * signal. */
static void put_ended(const void *base, struct stk_jw *w)
{
    const struct stk_profile *p = base;
    char text[80];
    if (p->exit_signal)
        snprintf(text, sizeof text, "ended by signal %d", p->exit_signal);
    else if (p->exit_status > 128 && p->exit_status <= 128 + 64)
        snprintf(text, sizeof text, "exit status %d (from a shell: signal %d)", p->exit_status,
                 p->exit_status - 128);
    else if (p->exit_status >= 0)
        snprintf(text, sizeof text, "exit status %d", p->exit_status);
    else
        snprintf(text, sizeof text,
                 p->running ? "still running (or stoker was killed)" : "exit status unknown");
    stk_jw_str(w, text);
}

static void put_on(const void *base, struct stk_jw *w)
{
    const struct stk_profile *p = base;
    struct stk_buf out = STK_BUF_INIT;
    char more[48];
    for (size_t i = 0; p->source->knows & STK_KNOWS_HOSTS && i < p->nhosts && i < 2; i++)
        stk_buf_printf(&out, "%s%.30s", i ? ", " : "", p->host[i].name);
    if (out.len && p->nhosts > 2)
        stk_buf_printf(&out, " and %s", stk_word_many(p->nhosts - 2, "host", more, sizeof more));
    stk_jw_str(w, out.len ? stk_buf_cstr(&out) : NULL);
    stk_buf_release(&out);
}

static double threads(const void *base)
{
    uint64_t n;
    stk_profile_processes(base, &n);
    return (double)n;
}

static double processes(const void *base)
{
    uint64_t n;
    return (double)stk_profile_processes(base, &n);
}

#define RUN(member)             STK_FROM(struct stk_profile, member)
#define RUN_NUMBER(name, value) STK_NUMBER_OF(name, struct stk_profile, value)
RUN_NUMBER(exit_status, r->exit_status)
RUN_NUMBER(exit_signal, r->exit_signal ? r->exit_signal : -1)
STK_TEXT_OF(source, struct stk_profile, r->source->name)
STK_TEXT_OF(scheduler, struct stk_profile, stk_scheduler_name(r->scheduler))

static const struct stk_result_field run_fields[] = {
    {"source", NULL, STK_U_TEXT, .put = source, .meaning = "stoker or darshan"},
    {"path", NULL, STK_U_TEXT, RUN(path)},
    {"command", NULL, STK_U_TEXT, RUN(command)},
    {"began", "began", STK_U_TEXT, .put = put_began},
    {"start_real_s", NULL, STK_U_SECONDS, RUN(start_real_s), "Unix time"},
    {"run_s", "ran", STK_U_SECONDS, RUN(run_s)},
    {"ended", "ended", STK_U_TEXT, .put = put_ended},
    {"exit_status", NULL, STK_U_COUNT, .number = exit_status, .flags = STK_F_KNOWN},
    {"exit_signal", NULL, STK_U_COUNT, .number = exit_signal, .flags = STK_F_KNOWN,
     .meaning = "the one that ended it"},
    {"running", NULL, STK_U_FLAG, RUN(running), "a launcher has not ended"},
    {"stopped_early", NULL, STK_U_FLAG, RUN(stopped_early),
     "recording ended before the run (--for)"},
    {"job", "job", STK_U_TEXT, RUN(job), .flags = STK_F_KNOWN},
    {"scheduler", NULL, STK_U_TEXT, .put = scheduler},
    {"on", "on", STK_U_TEXT, .put = put_on, .meaning = "its first hosts"},
    {"traced", NULL, STK_U_FLAG, RUN(traced)},
    {"has_size_zero", NULL, STK_U_FLAG, RUN(has_size_zero)},
    {"ranks", "ranks", STK_U_COUNT, RUN(nranks)},
    {"processes", "processes", STK_U_COUNT, .number = processes},
    {"threads", "threads with I/O", STK_U_COUNT, .number = threads},
    {NULL}};

/* ---- how long it waited --------------------------------------------------------------------- */

#define A(member)             STK_FROM(struct stk_analysis, member)
#define A_NUMBER(name, value) STK_NUMBER_OF(name, struct stk_analysis, value)

static void how_known(const struct stk_loop *l, struct stk_buf *out)
{
    static const char *const how[] = {
        [STK_LOOP_UNKNOWN] = "own I/O calls; no worker processes",
        [STK_LOOP_READS] = "own I/O calls; no worker processes",
        [STK_LOOP_PIPES] = "waits for data from other programs",
        [STK_LOOP_THREADS] = "waits for other threads",
        [STK_LOOP_MARKS] = "marked phases",
    };
    char many[40];
    if (l->how == STK_LOOP_WORKERS)
        stk_buf_printf(out, "measured in its waits for %s",
                       stk_word_many(l->workers, "worker", many, sizeof many));
    else
        stk_buf_printf(out, "measured in its %s", how[l->how]);
}

static void put_portion(const struct stk_loop *l, const char *what, double s, double least,
                        struct stk_buf *out)
{
    char time[40], share[16];
    double part = l->run_s > 0 ? s / l->run_s : 0;
    if (part >= least)
        stk_buf_printf(out, "%s%s %s (%s)", out->len ? ", " : "", what,
                       stk_unit_text(STK_U_SECONDS, s, time, sizeof time),
                       stk_unit_text(STK_U_SHARE, part, share, sizeof share));
}

#define LEAST_PORTION 0.005 /* of the run: less is not said */

static void put_loop(const void *base, struct stk_jw *w)
{
    const struct stk_loop *l = base;
    struct stk_buf out = STK_BUF_INIT;
    char time[40];
    if (l->why) {
        stk_buf_printf(&out, "how long it waited for data is not known: %s", l->why);
    } else {
        put_portion(l, "waited for data", l->wait_s, 0, &out);
        put_portion(l, "computed", l->compute_s, 0, &out);
        put_portion(l, "wrote", l->write_s, LEAST_PORTION, &out);
        put_portion(l, "started", l->start_s, LEAST_PORTION, &out);
        if (l->library_s >= LEAST_PORTION * l->run_s && l->library_s > 0)
            stk_buf_printf(&out, ", in files of libraries %s",
                           stk_unit_text(STK_U_SECONDS, l->library_s, time, sizeof time));
        stk_buf_puts(&out, l->loops > 1 ? "; mean of the ranks, " : "; ");
        how_known(l, &out);
    }
    stk_jw_str(w, stk_buf_cstr(&out));
    stk_buf_release(&out);
}

static void put_known_from(const void *base, struct stk_jw *w)
{
    static const char *const how[] = {
        [STK_LOOP_READS] = "reads",     [STK_LOOP_PIPES] = "pipes", [STK_LOOP_THREADS] = "threads",
        [STK_LOOP_WORKERS] = "workers", [STK_LOOP_MARKS] = "marks",
    };
    stk_jw_str(w, how[((const struct stk_loop *)base)->how]);
}

#define LOOP(member) STK_FROM(struct stk_loop, member)
STK_NUMBER_OF(wait_share, struct stk_loop,
              r->wait_s >= 0 && r->run_s > 0 ? r->wait_s / r->run_s : NAN)

static const struct stk_result_field loop_fields[] = {
    {"text", NULL, STK_U_TEXT, .put = put_loop},
    {"wait_share", "of the main loop waits for data", STK_U_SHARE, .number = wait_share,
     .flags = STK_F_LEAD | STK_F_PAGE},
    {"known_from", NULL, STK_U_TEXT, .put = put_known_from},
    {"unknown_because", NULL, STK_U_TEXT, LOOP(why)},
    {"processes", NULL, STK_U_COUNT, LOOP(loops), "that it was measured in"},
    {"workers", NULL, STK_U_COUNT, LOOP(workers)},
    {"run_s", NULL, STK_U_SECONDS, LOOP(run_s), "the sum of the next four"},
    {"start_s", NULL, STK_U_SECONDS, LOOP(start_s), "until the loop began"},
    {"wait_s", NULL, STK_U_SECONDS, LOOP(wait_s), .flags = STK_F_KNOWN},
    {"write_s", NULL, STK_U_SECONDS, LOOP(write_s)},
    {"compute_s", NULL, STK_U_SECONDS, LOOP(compute_s), "everything else", STK_F_KNOWN},
    {"library_s", NULL, STK_U_SECONDS, LOOP(library_s), "in files of libraries and of the system"},
    {NULL}};

/* ---- what was seen of it, and what it used -------------------------------------------------- */

static void put_coverage(const void *base, struct stk_jw *w)
{
    const struct stk_analysis *a = base;
    struct stk_buf out = STK_BUF_INIT;
    char text[24];
    bool read = a->coverage_read >= 0, write = a->coverage_write >= 0;
    const char *little = a->coverage_little ? "too little was read to tell" : "";
    if (!(a->p->source->knows & STK_KNOWS_KERNEL))
        stk_buf_printf(&out, "unknown (%s: see --notes)", a->p->source->title);
    else if (!read && !write)
        stk_buf_puts(&out, *little ? little
                                   : "unknown (the kernel counted nothing, or could not be asked)");
    if (out.len) {
        stk_jw_str(w, stk_buf_cstr(&out));
        stk_buf_release(&out);
        return;
    }
    if (read)
        stk_buf_printf(&out, "%s of the bytes read",
                       stk_unit_text(STK_U_SHARE, a->coverage_read, text, sizeof text));
    if (write)
        stk_buf_printf(&out, "%s%s of the bytes written", read ? ", " : "",
                       stk_unit_text(STK_U_SHARE, a->coverage_write, text, sizeof text));
    stk_buf_printf(&out, "%s%s", *little ? "; " : "", little);
    stk_jw_str(w, stk_buf_cstr(&out));
    stk_buf_release(&out);
}

static const struct stk_result_field coverage_fields[] = {
    {"text", NULL, STK_U_TEXT, .put = put_coverage},
    {"read", "reads observed", STK_U_SHARE, A(coverage_read), "of the bytes, by the kernel's count",
     STK_F_KNOWN | STK_F_PAGE},
    {"write", NULL, STK_U_SHARE, A(coverage_write), .flags = STK_F_KNOWN},
    {NULL}};

static const struct stk_result_field share_fields[] = {
    {"thread", NULL, STK_U_SHARE, A(io_share_thread), "of each thread", STK_F_KNOWN},
    {"merged", "of the run, a thread is in I/O", STK_U_SHARE, A(io_share_merged),
     .flags = STK_F_KNOWN | STK_F_LEAD | STK_F_PAGE},
    {"main", NULL, STK_U_SHARE, A(io_share_main), "of the main process", STK_F_KNOWN},
    {NULL}};

/* Simultaneous ones: a loader may restart them for every epoch. */
static double workers(const void *base)
{
    const struct stk_analysis *a = base;
    uint64_t n = 0;
    for (size_t i = 0; i < a->nranks; i++)
        n += a->rank[i].workers;
    return (double)n;
}

static double gpus(const void *base)
{
    const struct stk_analysis *a = base;
    uint64_t n = 0;
    for (size_t i = 0; i < a->p->nhosts; i++)
        n += a->p->host[i].gpus;
    return (double)n;
}

static const struct stk_result_field use_fields[] = {
    {"cpu_cores_mean", "CPU, cores, mean", STK_U_PLAIN, A(cpu_cores_mean), .flags = STK_F_KNOWN},
    {"cpu_cores_max", NULL, STK_U_PLAIN, A(cpu_cores_max), .flags = STK_F_KNOWN},
    {"iowait_mean", NULL, STK_U_PLAIN, A(iowait_mean), .flags = STK_F_KNOWN},
    {"other_cores_mean", NULL, STK_U_PLAIN, A(other_cores_mean), "other programs", STK_F_KNOWN},
    {"peak_resident_bytes", "peak memory", STK_U_BYTES, A(peak_resident_bytes),
     .flags = STK_F_IF_SET},
    {"gpu_util_mean", "GPU, mean", STK_U_SHARE, A(gpu_util_mean), .flags = STK_F_KNOWN},
    {"gpu_idle_share", NULL, STK_U_SHARE, A(gpu_idle_share), "readings under 10 %", STK_F_KNOWN},
    {"workers", "workers", STK_U_COUNT, .number = workers, .flags = STK_F_IF_SET},
    {"cores", "cores", STK_U_COUNT, A(cores), .flags = STK_F_IF_SET},
    {"gpus", "GPUs", STK_U_COUNT, .number = gpus, .flags = STK_F_IF_SET},
    {"memory_bytes", NULL, STK_U_BYTES, A(memory_bytes), "of all hosts"},
    {"local_free_bytes", NULL, STK_U_BYTES, A(local_free_bytes), "the smallest of all hosts"},
    {NULL}};

/* ---- the job's calls ------------------------------------------------------------------------ */

/* Those that move no data. */
static void put_calls(const void *base, struct stk_jw *w)
{
    const uint64_t *c = ((const struct stk_usage *)base)->n.c;
    const struct {
        uint64_t n;
        const char *one;
    } all[] = {{c[STK_C_OPENS], "open"},
               {c[STK_C_STATS], "stat"},
               {c[STK_C_SEEKS], "seek"},
               {c[STK_C_DIR_READS], "directory read"},
               {c[STK_C_FSYNCS] + c[STK_C_MSYNCS], "sync"},
               {c[STK_C_RENAMES], "rename"},
               {c[STK_C_REMOVES], "remove"},
               {c[STK_C_MAKES], "new name"},
               {c[STK_C_CHANGES], "change"},
               {c[STK_C_WALKS], "walk"},
               {c[STK_C_LOCKS], "lock"},
               {c[STK_C_ERRORS], "failed call"}};
    struct stk_buf out = STK_BUF_INIT;
    char text[48];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].n)
            stk_buf_printf(&out, "%s%s", out.len ? ", " : "",
                           stk_word_many(all[i].n, all[i].one, text, sizeof text));
    stk_jw_str(w, out.len ? stk_buf_cstr(&out) : NULL);
    stk_buf_release(&out);
}

/* "read 23.1 MiB in 6,200 requests of 3,903 B, wrote 5.72 MiB in 20" */
static void put_moved(const void *base, struct stk_jw *w)
{
    const struct stk_usage *j = base;
    const uint64_t *c = j->n.c;
    char a[40], b[40], d[40], text[300];
    int n = 0;
    if (c[STK_C_READS])
        n = snprintf(text, sizeof text, "read %s in %s of %s%s",
                     stk_unit_text(STK_U_BYTES, (double)c[STK_C_READ_BYTES], a, sizeof a),
                     stk_word_many(c[STK_C_READS], "request", b, sizeof b),
                     stk_unit_text(STK_U_BYTES, j->mean_read_bytes, d, sizeof d),
                     c[STK_C_WRITES] ? ", " : "");
    if (c[STK_C_WRITES])
        snprintf(text + n, sizeof text - (size_t)n, "wrote %s in %s",
                 stk_unit_text(STK_U_BYTES, (double)c[STK_C_WRITE_BYTES], a, sizeof a),
                 stk_unit_text(STK_U_COUNT, (double)c[STK_C_WRITES], b, sizeof b));
    stk_jw_str(w, c[STK_C_READS] || c[STK_C_WRITES] ? text : "read and wrote nothing");
}

static void put_order(const void *base, struct stk_jw *w)
{
    const struct stk_usage *j = base;
    const uint64_t *c = j->n.c;
    char a[40], b[40], d[40], text[160];
    if (!c[STK_C_READS])
        *text = '\0';
    else if (c[STK_C_FIRST_READS] >= c[STK_C_READS]) /* Darshan has none for C streams */
        snprintf(text, sizeof text,
                 c[STK_C_READS] > c[STK_C_OPENS] ? "unknown"
                                                 : "none: every read is the first after an open");
    else
        snprintf(text, sizeof text, "%s sequential, %s consecutive, %s random",
                 stk_unit_text(STK_U_SHARE, j->seq, a, sizeof a),
                 stk_unit_text(STK_U_SHARE, j->consec, b, sizeof b),
                 stk_unit_text(STK_U_SHARE, j->random, d, sizeof d));
    stk_jw_str(w, *text ? text : NULL);
}

static void put_files_text(const void *base, struct stk_jw *w)
{
    const struct stk_usage *j = base;
    char a[40], b[40], c[40], text[160];
    snprintf(text, sizeof text, "%s read, %s of them once; %s written",
             stk_word_about(j->files_read, j->files_exact, a, sizeof a),
             stk_word_about(j->files_read_once, j->files_exact, b, sizeof b),
             stk_word_about(j->files_written, j->files_exact, c, sizeof c));
    stk_jw_str(w, text);
}

STK_NUMBER_OF(write_Bps, struct stk_usage,
              r->write_s > 0 ? (double)r->n.c[STK_C_WRITE_BYTES] / r->write_s : 0)
STK_NUMBER_OF(longest_read, struct stk_usage, 1e-9 * (double)r->n.c[STK_C_MAX_READ_NS])
STK_NUMBER_OF(longest_write, struct stk_usage, 1e-9 * (double)r->n.c[STK_C_MAX_WRITE_NS])

#define FACT(key, title, unit)                                                                     \
    {                                                                                              \
        key, title, unit, .flags = STK_F_IF_SET                                                    \
    }

static const struct stk_result_field job_facts[] = {
    FACT("read_bytes", "read", STK_U_BYTES),     FACT("reads", "reads", STK_U_COUNT),
    FACT("write_bytes", "written", STK_U_BYTES), FACT("opens", "opens", STK_U_COUNT),
    FACT("stats", "stats", STK_U_COUNT),         {NULL}};

static const struct stk_result_field job_fields[] = {
    {"counters", NULL, STK_U_GROUP, .of = job_facts, .flags = STK_F_VIEW | STK_F_PAGE},
    {"", NULL, STK_U_GROUP, .of = job_usage},
    {"text", NULL, STK_U_TEXT, .put = put_moved},
    {"write_Bps", NULL, STK_U_BYTES_PER_S, .number = write_Bps},
    {"longest_read_s", NULL, STK_U_SECONDS, .number = longest_read},
    {"longest_write_s", NULL, STK_U_SECONDS, .number = longest_write},
    {"calls", "calls that move no data", STK_U_TEXT, .put = put_calls},
    {"order", "order of reads", STK_U_TEXT, .put = put_order},
    {"files_text", NULL, STK_U_TEXT, .put = put_files_text},
    {"", NULL, STK_U_GROUP, COUNTS, .of = counts_fields},
    {NULL}};

/* ---- where the time goes -------------------------------------------------------------------- */

struct split {
    const char *of;
    double read, write, meta, rest; /* seconds, then shares */
};

#define SPLIT(member) STK_FROM(struct split, member)

static const struct stk_result_field split_fields[] = {
    {"of", "share of time", STK_U_TEXT, SPLIT(of)},
    {"read", "read", STK_U_SHARE, SPLIT(read)},
    {"write", "write", STK_U_SHARE, SPLIT(write)},
    {"metadata", "metadata", STK_U_SHARE, SPLIT(meta)},
    {"rest", "rest", STK_U_SHARE, SPLIT(rest)},
    {NULL}};

/* Over the processes that were started, not forked: the training loop's own calls. */
static struct split main_split(const struct stk_profile *p)
{
    struct split s = {.of = "main process"};
    for (size_t i = 0; i < p->nrecs; i++) {
        const struct stk_prof_rec *rec = &p->rec[i];
        if (!stk_api_moves(rec->api) || rec->proc >= p->nprocs ||
            stk_prof_forked(&p->proc[rec->proc]))
            continue;
        s.read += (double)rec->n.c[STK_C_READ_NS];
        s.write += (double)rec->n.c[STK_C_WRITE_NS];
        s.meta += (double)rec->n.c[STK_C_META_NS];
    }
    return s;
}

#define PARTS 4

/* Rounds parts that sum to 1 to tenths of a percent that add up to 1, too; only a part that is the
 * whole gets all. The remainder of rounding down goes to the parts that lost most. */
static void share_out(double part[PARTS])
{
    double lost[PARTS];
    unsigned left = 1000, tenth[PARTS];
    for (size_t i = 0; i < PARTS; i++) {
        double exact = part[i] > 0 ? part[i] * 1000 : 0;
        tenth[i] = part[i] >= 1 ? 1000 : (unsigned)exact;
        lost[i] = part[i] >= 1 || tenth[i] == 999 ? -1 : exact - tenth[i];
        left -= tenth[i] < left ? tenth[i] : left;
    }
    for (; left; left--) {
        size_t most = 0;
        for (size_t i = 1; i < PARTS; i++)
            most = lost[i] > lost[most] ? i : most;
        tenth[most]++;
        lost[most] -= 1;
    }
    for (size_t i = 0; i < PARTS; i++)
        part[i] = (double)tenth[i] / 1000;
}

static void put_split(struct split s, double share, struct stk_jw *w)
{
    double sum = s.read + s.write + s.meta;
    double by = sum > 0 && share > 0 ? (share < 1 ? share : 1) / sum : 0;
    double part[PARTS] = {s.read * by, s.write * by, s.meta * by, 1 - sum * by};
    if (share < 0)
        return;
    share_out(part);
    stk_row_put(split_fields, &(struct split){s.of, part[0], part[1], part[2], part[3]}, w);
}

static void put_time(const void *base, struct stk_jw *w)
{
    const struct stk_analysis *a = base;
    const struct stk_usage *j = &a->job;
    stk_jw_open(w, '[');
    put_split((struct split){"each thread", j->read_s, j->write_s, j->meta_s, 0},
              a->io_share_thread, w);
    put_split((struct split){"any thread", j->read_s, j->write_s, j->meta_s, 0}, a->io_share_merged,
              w);
    put_split(main_split(a->p), a->io_share_main, w);
    stk_jw_close(w, ']');
}

/* ---- ranks over time ------------------------------------------------------------------------ */

/* A unit's rank, or its first process. */
static bool unit_names(const struct stk_profile *p, char (*name)[16])
{
    bool ranks = false;
    for (size_t i = 0; i < p->nprocs; i++) {
        const struct stk_prof_proc *o = &p->proc[i];
        if (o->launch || o->unit >= p->nunits || name[o->unit][0])
            continue;
        snprintf(name[o->unit], sizeof name[0], "%u", o->world ? o->rank : o->pid);
        ranks = ranks || o->world;
    }
    /* A job script beside the ranks is not one of them. */
    for (size_t i = 0; i < p->nprocs && ranks; i++)
        if (!p->proc[i].world && p->proc[i].unit < p->nunits)
            snprintf(name[p->proc[i].unit], sizeof name[0], "beside");
    return ranks;
}

/* Of units [first, last], the busiest. */
static void put_unit(struct stk_jw *w, const struct stk_profile *p, char (*name)[16], size_t first,
                     size_t last)
{
    char text[40];
    snprintf(text, sizeof text, last > first ? "%s to %s" : "%s", name[first], name[last]);
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "name", text);
    stk_jw_key(w, "threads");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < STK_PROF_UNIT_BINS; i++) {
        double most = 0;
        for (size_t k = first; k <= last; k++)
            most = fmax(most, (double)p->unit_busy[k * STK_PROF_UNIT_BINS + i]);
        int len = snprintf(text, sizeof text, "%.3g", most);
        stk_jw_raw(w, text, (size_t)len);
    }
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

static bool unit_used(const struct stk_profile *p, size_t unit)
{
    for (size_t i = 0; i < STK_PROF_UNIT_BINS; i++)
        if (p->unit_busy[unit * STK_PROF_UNIT_BINS + i] > 0)
            return true;
    return false;
}

static void put_units(const void *base, struct stk_jw *w)
{
    const struct stk_profile *p = base;
    size_t n = p->unit_busy ? p->nunits : 0, group = n ? stk_pg_heat_group(n) : 1;
    char(*name)[16] = calloc(n + 1, sizeof *name);
    bool pretty = w->pretty, ranks = name && n && unit_names(p, name);
    stk_jw_open(w, '{');
    w->pretty = false;
    stk_jw_put_str(w, "unit", ranks ? "rank" : "process");
    stk_jw_put_u64(w, "of_each", group);
    stk_jw_key(w, "rows");
    stk_jw_open(w, '[');
    for (size_t i = 0; name && i < n; i += group)
        if (group > 1 || unit_used(p, i))
            put_unit(w, p, name, i, i + group < n ? i + group - 1 : n - 1);
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
    w->pretty = pretty;
    w->out->fail = w->out->fail || !name;
    free(name);
}

static const struct stk_result_field unit_row_fields[] = {
    {"name", NULL, STK_U_TEXT},
    {"threads", NULL, STK_U_LIST, .meaning = "in an I/O call, on average, in 128 parts of the run"},
    {NULL}};

static const struct stk_result_field unit_fields[] = {
    {"unit", NULL, STK_U_TEXT, .meaning = "rank or process"},
    {"of_each", NULL, STK_U_COUNT, .meaning = "neighbours in a row, which shows the busiest"},
    {"rows", NULL, STK_U_TABLE, .of = unit_row_fields},
    {NULL}};

/* ---- the screen ----------------------------------------------------------------------------- */

static void draw_command(const struct stk_result_field *f, const struct stk_jval *obj,
                         struct stk_screen *s)
{
    const struct stk_jval *run = stk_json_get(obj, f->key);
    const char *command = stk_pg_text(run, "command", "");
    struct stk_buf b = STK_BUF_INIT;
    stk_screen_part(s);
    stk_buf_printf(
        s->out, STK_STRONG "%s" STK_PLAIN "\n",
        stk_word_command(&b, *command ? command : stk_pg_text(run, "path", ""), s->columns));
    stk_buf_release(&b);
    s->any = false; /* the rows stand directly below */
}

static void draw_note(const struct stk_result_field *f, const struct stk_jval *obj,
                      struct stk_screen *s)
{
    const struct stk_jval *notes = stk_json_get(obj, f->key);
    struct stk_buf b = STK_BUF_INIT;
    char more[40] = "; --notes";
    if (!stk_pg_has_rows(notes) || notes->item[0].type != STK_JSTR)
        return;
    if (notes->len > 1)
        snprintf(more, sizeof more, "; %zu notes: --notes", notes->len);
    stk_screen_end(s);
    stk_buf_printf(s->out, "note: %s%s\n",
                   stk_word_cut(&b, notes->item[0].str, s->columns - 6 - (unsigned)strlen(more)),
                   more);
    stk_buf_release(&b);
}

static void draw_notes(const struct stk_result_field *f, const struct stk_jval *obj,
                       struct stk_screen *s)
{
    const struct stk_jval *notes = stk_json_get(obj, f->key);
    stk_screen_part(s);
    stk_buf_printf(s->out, STK_STRONG "%s" STK_PLAIN "\n", f->title);
    if (!stk_pg_has_rows(notes))
        stk_screen_say(s, "nothing");
    for (size_t i = 0; stk_pg_has_rows(notes) && i < notes->len; i++)
        if (notes->item[i].type == STK_JSTR)
            stk_screen_say(s, "%s", notes->item[i].str);
}

#define JOINED(key_, unit_, joins_)                                                                \
    {                                                                                              \
        key_, "", unit_, .flags = STK_F_IF_SET, .joins = joins_                                    \
    }

static const struct stk_result_field ran_rows[] = {
    {"run_s", "ran", STK_U_SECONDS},
    JOINED("ended", STK_U_TEXT, ", %"),
    JOINED("job", STK_U_TEXT, ", job %"),
    JOINED("on", STK_U_TEXT, ", on %"),
    JOINED("began", STK_U_TEXT, ", since %"),
    {"stopped_early", "", STK_U_FLAG, .flags = STK_F_IF_SET, .joins = ", recording ended early"},
    {"ranks", "programs", STK_U_COUNT, .say = "% rank(s)"},
    JOINED("processes", STK_U_COUNT, ", % process(es)"),
    JOINED("threads", STK_U_COUNT, ", % thread(s) with I/O"),
    {NULL}};
static const struct stk_result_field machine_row[] = {
    JOINED("workers", STK_U_COUNT, ", % worker(s)"),
    JOINED("cores", STK_U_COUNT, "; % core(s)"),
    JOINED("gpus", STK_U_COUNT, ", % GPU(s)"),
    {NULL}};
static const struct stk_result_field coverage_row[] = {{"text", "coverage", STK_U_TEXT}, {NULL}};
static const struct stk_result_field loop_row[] = {{"text", "main loop", STK_U_TEXT}, {NULL}};

static const struct stk_result_field read_cells[] = {
    {"read_bytes", "read", STK_U_BYTES, .flags = STK_F_IF_SET, .none = "nothing"},
    JOINED("reads", STK_U_COUNT, " in % request(s)"),
    {NULL}};
static const struct stk_result_field write_cells[] = {
    {"write_bytes", "wrote", STK_U_BYTES, .flags = STK_F_IF_SET, .none = "nothing"},
    JOINED("writes", STK_U_COUNT, " in % request(s)"),
    {NULL}};
static const struct stk_result_field sums_rows[] = {
    {"text", "I/O", STK_U_TEXT},
    JOINED("calls", STK_U_TEXT, ", %"),
    {"name", "", STK_U_TEXT, .joins = "; more: --numbers"},
    {NULL}};
static const struct stk_result_field number_rows[] = {
    {"counters", NULL, STK_U_GROUP, .of = read_cells},
    JOINED("mean_read_bytes", STK_U_BYTES, " of %"),
    JOINED("read_s", STK_U_SECONDS, "; %, threads added"),
    JOINED("bandwidth_Bps", STK_U_BYTES_PER_S, ", % each"),
    {"latency_p50_s", "a read", STK_U_SECONDS, .flags = STK_F_IF_SET, .say = "% p50"},
    JOINED("latency_p99_s", STK_U_SECONDS, ", % p99"),
    JOINED("longest_read_s", STK_U_SECONDS, ", % longest"),
    JOINED("small", STK_U_SHARE, "; % are under 1 MiB"),
    {"order", "order", STK_U_TEXT, .flags = STK_F_IF_SET},
    {"reread", "re-read", STK_U_TIMES, .flags = STK_F_IF_SET, .say = "each byte % on average"},
    JOINED("distinct_bytes", STK_U_BYTES, ", of %"),
    {"counters", NULL, STK_U_GROUP, .of = write_cells},
    JOINED("mean_write_bytes", STK_U_BYTES, " of %"),
    JOINED("write_s", STK_U_SECONDS, "; %, threads added"),
    JOINED("write_Bps", STK_U_BYTES_PER_S, ", % each"),
    JOINED("longest_write_s", STK_U_SECONDS, "; % longest"),
    {"meta_s", "metadata", STK_U_SECONDS, .flags = STK_F_IF_SET, .none = "no calls",
     .say = "%, threads added"},
    JOINED("calls", STK_U_TEXT, ": %"),
    {"files_text", "files", STK_U_TEXT},
    JOINED("size_bytes", STK_U_BYTES, "; % of data"),
    {NULL}};
static const struct stk_result_field common_rows[] = {
    {"common_sizes", "most common reads", STK_U_TABLE, .of = common_fields, .flags = STK_F_NAMED},
    {"common_strides", "most common strides", STK_U_TABLE, .of = common_fields,
     .flags = STK_F_NAMED},
    {NULL}};
/* ---- the result ----------------------------------------------------------------------------- */

#define SHOW(key_, rows, part_)                                                                    \
    {                                                                                              \
        key_, NULL, STK_U_GROUP, .of = rows, .flags = STK_F_VIEW, .part = STK_PART_##part_         \
    }
#define DRAW(key_, title_, how, part_)                                                             \
    {                                                                                              \
        key_, title_, STK_U_ANY, .flags = STK_F_VIEW, .draw = how, .part = STK_PART_##part_        \
    }
#define LISTED STK_F_NAMED | STK_F_TOP

static const struct stk_result_field run_of[] = {
    {"profile", NULL, STK_U_GROUP, STK_FROM_AS(POINTER, struct stk_analysis, p), .of = run_fields,
     .flags = STK_F_PAGE},
    {"coverage", NULL, STK_U_GROUP, .of = coverage_fields, .flags = STK_F_PAGE},
    {"main_loop", NULL, STK_U_GROUP, STK_FROM_AS(STRUCT, struct stk_analysis, loop),
     .of = loop_fields, .flags = STK_F_PAGE},
    {"io_share", NULL, STK_U_GROUP, .of = share_fields, .flags = STK_F_PAGE},
    {"use", NULL, STK_U_GROUP, .of = use_fields, .flags = STK_F_PAGE},
    {"job", NULL, STK_U_GROUP, STK_FROM_AS(STRUCT, struct stk_analysis, job), .of = job_fields,
     .flags = STK_F_PAGE},
    {"time", "share of time", STK_U_TABLE, .put = put_time, .of = split_fields,
     .flags = STK_F_SCREEN, .part = STK_PART_NUMBERS},
    SHOW("job", number_rows, NUMBERS),
    {NULL}};

static const struct stk_result_field who_of[] = {
    {"", NULL, STK_U_GROUP, .of = stk_profile_time_fields},
    {"request_sizes", "sizes of requests", STK_U_TABLE,
     STK_FROM_AS(STRUCT, struct stk_analysis, job.n), .put = put_request_sizes, .of = size_fields,
     .flags = STK_F_NAMED, .none = "no data was read or written", .plot = &size_plot,
     .part = STK_PART_SIZES},
    SHOW("job", common_rows, SIZES),
    {"units", NULL, STK_U_GROUP, STK_FROM_AS(POINTER, struct stk_analysis, p), "ranks over time",
     .put = put_units, .of = unit_fields},
    {NULL}};

STK_TEXT_OF(verdict, struct stk_report, r->advice->verdict)
STK_NUMBER_OF(files_listed, struct stk_report, (double)r->a->nfiles)
STK_NUMBER_OF(files_total, struct stk_report, (double)r->a->p->nfiles)

static void put_notes(const void *base, struct stk_jw *w)
{
    const struct stk_profile *p = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < p->nnotes; i++)
        stk_jw_str(w, p->note[i]);
    stk_jw_close(w, ']');
}

static const struct stk_result_field host_of[] = {
    {"hosts", NULL, STK_U_TABLE, STK_FROM_ARRAY(struct stk_profile, host, nhosts),
     .of = host_fields},
    {"notes", "not seen, or left out", STK_U_LIST, .put = put_notes,
     .flags = STK_F_NAMED | STK_F_PAGE},
    {NULL}};

static const struct stk_result_field profile_of[] = {
    {"", NULL, STK_U_GROUP, STK_FROM_AS(POINTER, struct stk_analysis, p), .of = host_of}, {NULL}};

#define ANALYSIS STK_FROM_AS(POINTER, struct stk_report, a)

static const struct stk_result_field fields[] = {
    DRAW("profile", NULL, draw_command, SCREEN),
    SHOW("profile", ran_rows, SCREEN),
    SHOW("use", machine_row, SCREEN),
    SHOW("coverage", coverage_row, SCREEN),
    SHOW("main_loop", loop_row, SCREEN),
    SHOW("job", sums_rows, SCREEN),
    {"verdict", NULL, STK_U_PROSE, .put = verdict, .flags = STK_F_VERDICT},
    DRAW("verdict", NULL, stk_draw_verdict, SCREEN),
    {"findings", "findings", STK_U_TABLE, .of = stk_finding_fields, .most = 5,
     .flags = STK_F_VIEW | STK_F_TOP | STK_F_BARE, .part = STK_PART_SCREEN,
     .say = "--findings or `stoker advise` shows them in full"},
    DRAW("timeline", NULL, stk_draw_chart, CHART),
    DRAW("notes", NULL, draw_note, SCREEN),
    {"", NULL, STK_U_GROUP, ANALYSIS, .of = run_of},
    {"files", "files", STK_U_TABLE, .put = put_files, .of = file_fields, .total = "files_listed",
     .meaning = "Those with the most I/O time first; times are sums over threads.", .flags = LISTED,
     .none = "none", .part = STK_PART_FILES},
    {"files_listed", NULL, STK_U_COUNT, .number = files_listed},
    {"files_total", NULL, STK_U_COUNT, .number = files_total, .meaning = "files and groups"},
    {"directories", "directories", STK_U_TABLE, .put = put_dirs, .of = dir_fields,
     .meaning = "The files below each directory, added up.", .flags = LISTED, .none = "none",
     .part = STK_PART_DIRS},
    {"formats", "formats", STK_U_TABLE, .put = put_formats, .of = format_fields,
     .meaning = "The files of each format, added up.", .flags = LISTED, .none = "none",
     .part = STK_PART_FORMATS},
    {"ranks", "ranks", STK_U_TABLE, .put = put_ranks, .of = rank_fields,
     .meaning = "Each rank with all its processes.", .flags = LISTED, .none = "none",
     .plot = &balance_plot, .part = STK_PART_RANKS},
    {"processes", "processes", STK_U_TABLE, .put = put_processes, .of = process_fields,
     .meaning = "In I/O: at least one thread of the process was in a call.", .flags = LISTED,
     .none = "none", .part = STK_PART_PROCESSES},
    {"", NULL, STK_U_GROUP, ANALYSIS, .of = who_of},
    {"marks", NULL, STK_U_TABLE, .put = stk_put_marks},
    {"records", NULL, STK_U_TABLE, .put = put_records, .of = record_fields,
     .meaning = "one process's use of one file through one layer"},
    {"findings", NULL, STK_U_TABLE, .put = stk_put_findings, .of = stk_finding_fields,
     .draw = stk_draw_findings, .part = STK_PART_FINDINGS},
    DRAW("verdict", NULL, stk_draw_verdict, FINDINGS),
    {"", NULL, STK_U_GROUP, ANALYSIS, .of = profile_of},
    DRAW("notes", "not seen, or left out", draw_notes, NOTES),
    {NULL}};

static bool is_of_one(const struct stk_jval *result)
{
    return stk_json_get(result, "profile");
}

const struct stk_result_kind stk_profile_kind = {.command = "report",
                                                 .page = "profile",
                                                 .doing = "Profile of",
                                                 .fields = fields,
                                                 .takes = is_of_one,
                                                 .findings = stk_page_findings,
                                                 .blocks = stk_pg_profile_plots,
                                                 .screen = stk_profile_draw_result};

void stk_report_json(const struct stk_report *r, struct stk_jw *w)
{
    stk_fields_put(fields, r, w);
}

/* ---- the screen ----------------------------------------------------------------------------- */

#define FINDINGS_SHOWN 5
#define ROWS_MOST      23 /* a terminal of 24 rows, with the prompt */

static size_t rows_of(const struct stk_buf *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->len; i++)
        n += b->data[i] == '\n';
    return n;
}

/* As many findings as leave room for the rest; if that is not enough, no chart. */
static void draw_first(const struct stk_result_kind *kind, const struct stk_jval *result,
                       const struct stk_screen *s)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_screen one = *s;
    one.out = &b;
    one.table_columns = s->columns;
    one.parts = STK_PART_SCREEN | STK_PART_CHART;
    for (one.problems = FINDINGS_SHOWN; one.problems; one.problems--) {
        struct stk_screen now = one;
        stk_buf_reset(&b);
        stk_screen_draw(kind, result, &now);
        if (rows_of(&b) <= ROWS_MOST)
            break;
    }
    if (!one.problems) {
        one.problems = FINDINGS_SHOWN;
        one.parts = STK_PART_SCREEN;
        stk_buf_reset(&b);
        stk_screen_draw(kind, result, &one);
    }
    stk_buf_puts(s->out, stk_buf_cstr(&b));
    s->out->fail = s->out->fail || b.fail;
    stk_buf_release(&b);
}

void stk_profile_draw_result(const struct stk_result_kind *kind, const struct stk_jval *result,
                             struct stk_screen *s)
{
    unsigned parts = s->parts ? s->parts : STK_PART_SCREEN;
    if (parts & STK_PART_SCREEN)
        draw_first(kind, result, s);
    if (parts != STK_PART_SCREEN && parts & STK_PART_SCREEN)
        stk_buf_putc(s->out, '\n');
    s->parts = parts & ~(unsigned)STK_PART_SCREEN;
    if (s->parts)
        stk_screen_draw(kind, result, s);
}

int stk_profile_fill(const struct stk_result_kind *kind, const struct stk_report *r, unsigned parts,
                     struct stk_arena *arena, struct stk_jval **result, struct stk_err *err)
{
    struct stk_report drawn = *r;
    drawn.drawn = true;
    drawn.parts = parts;
    return stk_result_fill(kind, &drawn, arena, result, err);
}

void stk_profile_draw(const struct stk_result_kind *kind, const struct stk_report *r,
                      unsigned parts, struct stk_buf *out)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *result;
    struct stk_screen s = {.columns = r->columns,
                           .table_columns = r->table_columns ? r->table_columns : r->columns,
                           .utf8 = r->utf8,
                           .top = r->top,
                           .parts = parts,
                           .out = out};
    if (stk_profile_fill(kind, r, parts, &arena, &result, NULL))
        out->fail = true;
    else
        (kind->screen ? kind->screen : stk_screen_draw)(kind, result, &s);
    stk_arena_release(&arena);
}

void stk_report_text(const struct stk_report *r, unsigned parts, struct stk_buf *out)
{
    if (parts)
        stk_profile_draw(&stk_profile_kind, r, parts, out);
}

/* ---- CSV ------------------------------------------------------------------------------------ */

/* Row by row: a large job has millions of records. */
struct csv {
    struct stk_buf *out;
    struct stk_arena arena;
    struct stk_err *err;
    int rc;
};

static void add_row(struct csv *c, const struct stk_result_field *of, const void *row)
{
    if (!c->rc)
        c->rc = stk_csv_row(of, row, &c->arena, c->out, c->err);
}

static void add_rows(struct csv *c, const struct stk_result_field *of, const void *rows, size_t n,
                     size_t size)
{
    for (size_t i = 0; i < n; i++)
        add_row(c, of, (const char *)rows + i * size);
}

static void csv_files(const struct stk_analysis *a, struct csv *c)
{
    add_rows(c, file_fields, a->file, a->nfiles, sizeof *a->file);
}

static void csv_processes(const struct stk_analysis *a, struct csv *c)
{
    for (size_t i = 0; i < a->p->nprocs; i++)
        add_row(c, process_fields, &(struct process){a->p, &a->p->proc[i]});
}

static void csv_ranks(const struct stk_analysis *a, struct csv *c)
{
    add_rows(c, rank_fields, a->rank, a->nranks, sizeof *a->rank);
}

static void csv_samples(const struct stk_analysis *a, struct csv *c)
{
    add_rows(c, stk_reading_fields, a->p->reading, a->p->nreadings, sizeof *a->p->reading);
}

static void csv_timeline(const struct stk_analysis *a, struct csv *c)
{
    struct stk_bin_row row;
    for (size_t i = 0; stk_profile_bin(a->p, i, &row); i++)
        add_row(c, stk_bin_fields, &row);
}

static void csv_phases(const struct stk_analysis *a, struct csv *c)
{
    add_rows(c, stk_phase_fields, a->phase, a->nphases, sizeof *a->phase);
}

static void csv_records(const struct stk_analysis *a, struct csv *c)
{
    for (size_t i = 0; i < a->p->nrecs; i++) {
        const struct record one = {a->p, &a->p->rec[i]};
        if (one.rec->proc < one.p->nprocs && one.rec->file < one.p->nfiles)
            add_row(c, record_fields, &one);
    }
}

static const struct {
    const char *name;
    const struct stk_result_field *of;
    void (*put)(const struct stk_analysis *, struct csv *);
} tables[] = {
    {"files", file_fields, csv_files},          {"processes", process_fields, csv_processes},
    {"ranks", rank_fields, csv_ranks},          {"samples", stk_reading_fields, csv_samples},
    {"timeline", stk_bin_fields, csv_timeline}, {"phases", stk_phase_fields, csv_phases},
    {"records", record_fields, csv_records}};

#define NTABLES (sizeof tables / sizeof *tables)

const char *const *stk_report_csv_names(void)
{
    static const char *all[NTABLES + 1];
    for (size_t i = 0; i < NTABLES; i++)
        all[i] = tables[i].name;
    return all;
}

int stk_report_csv(const struct stk_analysis *a, const char *table, const char *path,
                   const struct stk_readers *readers, struct stk_err *err)
{
    for (size_t i = 0; i < NTABLES; i++) {
        if (strcmp(tables[i].name, table) != 0)
            continue;
        struct stk_buf b = STK_BUF_INIT;
        struct csv c = {.out = &b, .arena = STK_ARENA_INIT, .err = err};
        stk_csv_head(tables[i].of, &b);
        tables[i].put(a, &c);
        int rc = c.rc ? c.rc : stk_buf_check(&b, err);
        rc = rc ? rc : stk_write_derived(path, b.data, b.len, readers, err);
        stk_arena_release(&c.arena);
        stk_buf_release(&b);
        return rc;
    }
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "there is no table \"%.60s\"", table);
}
