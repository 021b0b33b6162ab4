/*
 * priv.h - shared by the rules: the row of the table, the limits, the cost of storage here,
 * and the building of a finding. A rule is a function of an advisor that adds findings or none.
 */
#ifndef STK_ADVICE_PRIV_H
#define STK_ADVICE_PRIV_H

#include "advice/advice.h"
#include "model/fit.h"

#define MIB (1u << 20)

/* All thresholds. advice/limits.c has the reason for each value. */
struct advice_limits {
    double note_share, low_share, medium_share, high_share;
    double low_s, medium_s, local_s;
    double exposed_share;
    uint64_t small_read, big_read, unit_read, small_file, whole_file, shard_bytes, stream_call;
    uint64_t least_reads, least_files, least_shards, least_opens, least_of_file;
    uint64_t least_calls, least_meta, least_syncs, least_stdio_per_open, whole_reads;
    double shards_per_rank, plenty_of_shards;
    double consecutive, random, reread, overlap, turns, imbalance, straggler;
    double read_ahead, seeks_per_read, most, nearly_all;
    double other_kind;
    double few_ranks, busy_rank, alone, chunk_waste;
    double busy, ahead, busy_decode, cpu_part, idle_cores, lone_reader, reader_part, decode_part;
    double least_readers, most_readers;
    double meta_share;
    double memory_share, keep_share, spare, copy_pays;
    uint64_t assumed_memory, assumed_disk;
    double far_read_s;
    uint64_t told_bytes;
    uint64_t stats_file, stats_reads;
    uint64_t text_bytes, text_read, text_reads;
    double alike, text_gz, text_in_records, text_in_arrays;
    double slow_read_s, slow_for_size, slow_reads;
    uint64_t least_faults, least_idle;
    uint64_t little, least_to_carry, target_bytes, shared_out;
    double stats_per_open;
    double seen, far_from_mean, kept_again, piece, many_fail;
    double stripe_over, stripe_under, stripe_parts, stripe_ranks;
    uint64_t spread, ahead_workers, feed_workers, ahead_batches, ahead_bytes;
    uint64_t page;
    uint64_t library_ahead;
};
extern const struct advice_limits stk_limits;

#define STORAGES 8 /* file systems with numbers of their own, most time first */

struct advisor {
    const struct stk_analysis *a;
    const struct stk_profile *p;
    struct stk_advice *out;
    size_t room; /* of out->finding */
    bool nomem;
    double run_s;
    uint32_t ranks, nodes; /* at least 1 */
    double io_wall_s;      /* how long the job waits for I/O: see advice/cost.c */
    double longest_s;      /* the wait of the rank that waits longest … */
    uint32_t longest;      /* … and its unit */
    double wall_per_io;    /* seconds of the run per second in an I/O call */
    double hidden;         /* share of the workers' I/O that computing hides */
    double worker_busy;    /* share of CPU + I/O in the workers' life; -1: no workers, or unknown */
    double worker_cpu;     /* the CPU part of it */
    double worker_cpu_s;   /* CPU time of successive workers in the same place */
    uint32_t workers;      /* those that read, over all ranks */
    double readers_per_rank;
    double cpus;           /* of a rank, at least 1 */
    bool in_turn;          /* the thread that computes reads and decodes, too */
    double decode_s;       /* of a rank: CPU time of its readers, or what in turn counts as theirs */
    double cores_used;    /* CPU time / run time, -1: unknown */
    uint64_t node_memory; /* of the smallest node; 0: unknown */
    struct stk_storage storage[STORAGES];
    size_t nstorages;              /* at least 1 */
    struct stk_action_scene scene; /* what the lines are written for */
    bool trains;                   /* the program trains, as far as known */
    uint64_t batch, image;         /* as the command gives them; 0: unknown */
};

struct rule {
    const char *id, *summary;
    void (*fire)(struct advisor *);
};

/* ---- advice/cost.c ---- */
void stk_advice_costs(struct advisor *ad);
enum stk_reach stk_advice_reach(const char *fs);
uint64_t stk_advice_memory(const struct advisor *ad); /* of a node, or the assumption */
/* Where the files of this usage spend most of their time. */
enum stk_reach stk_advice_reach_of(const struct stk_usage *u);
/* Whether the owner of its files chooses their stripes. */
bool stk_advice_stripes(const struct stk_usage *u);
/* The storage its files lie on. */
const struct stk_storage *stk_advice_storage(const struct advisor *ad, const struct stk_usage *u);
/* Seconds that the run waits for the loaders of all ranks, which read these bytes in large requests
 * and decode them in cpu_s, while the program computes for compute_s. */
double stk_advice_load_s(const struct advisor *ad, const struct stk_storage *st, double bytes,
                         double cpu_s, double compute_s);
/* Seconds of the run that so many readers per rank save, which read and decode while the program
 * computes, and share the transfer and the CPUs of their rank. The program waits wait_s for this
 * work of all ranks; decode_s: what they decode that the thread that computes has decoded. */
double stk_advice_spread_s(const struct advisor *ad, const struct stk_storage *st,
                           const struct stk_work *work, double wait_s, double decode_s,
                           double readers);
/* Seconds in calls of the library that reads these files, beside its own reads: it unpacks and
 * converts. 0: unknown, or no such library. */
double stk_advice_unpack_s(const struct advisor *ad, const struct stk_usage *u);
/* Converts seconds in calls to seconds of the run. */
double stk_advice_wall(const struct advisor *ad, double io_s);
double stk_advice_share(const struct advisor *ad, double wall_s); /* of the run */
bool stk_advice_matters(const struct advisor *ad, double wall_s);
/* The same, and noticeable: where the pattern alone is no evidence, local files need more. */
bool stk_advice_felt(const struct advisor *ad, enum stk_reach reach, double wall_s);
enum stk_severity stk_advice_severity(const struct advisor *ad, double wall_s);

/* ---- advice/text.c ---- */
struct stk_finding *stk_advice_begin(struct advisor *ad, enum stk_rule rule, enum stk_severity s,
                                     const char *fmt, ...) STK_PRINTF(4, 5);
void stk_advice_say(struct advisor *ad, struct stk_finding *f, const char *fmt, ...)
    STK_PRINTF(3, 4);
void stk_advice_do(struct advisor *ad, struct stk_finding *f, const char *fmt, ...)
    STK_PRINTF(3, 4);
/* Keeps a copy of the action and its paths. */
void stk_advice_act(struct advisor *ad, struct stk_finding *f, struct stk_action a);
/* The same for all files the finding names. */
void stk_advice_act_all(struct advisor *ad, struct stk_finding *f, struct stk_action a);
/* The loader that reads this path; the caller adjusts it. */
struct stk_action stk_advice_loader(struct advisor *ad, const char *path);
/* The same in place of the reads of u, of which `path` is a copy: a program that reads in random
 * order does not mean the order of the file. */
struct stk_action stk_advice_loader_for(struct advisor *ad, const struct stk_usage *u,
                                        const char *path);
/* The loader as an action, and, where a DataLoader is, stoker's reads under that. */
void stk_advice_load(struct advisor *ad, struct stk_finding *f, struct stk_action loader);
void stk_advice_map(struct advisor *ad, struct stk_finding *f, struct stk_action loader);
/* What the program reads most of, as the loader would open it; NULL: stoker does not read it. */
const char *stk_advice_dataset(struct advisor *ad);
/* How the loader decodes files of this kind, in the program's image size; NULL: not at all. */
const char *stk_advice_decode(struct advisor *ad, const struct stk_format_use *use, bool evaluated);
/* For files that a library opens: kept in memory if they fit, or larger requests. */
struct stk_action stk_advice_library(const struct advisor *ad, const struct stk_usage *u,
                                     double size);
/* Packing into records, beside the source. */
struct stk_action stk_advice_pack(struct advisor *ad, const char *path);
/* Drops findings of which nothing applies, and makes lines of the actions of the others. */
void stk_advice_lines(struct advisor *ad);
void stk_advice_gain(struct advisor *ad, struct stk_finding *f, double seconds, const char *fmt,
                     ...) STK_PRINTF(4, 5);
void stk_advice_number(struct advisor *ad, struct stk_finding *f, const char *name, double value,
                       const char *unit);
void stk_advice_path(struct advisor *ad, struct stk_finding *f, const char *path);
/* Texts for sentences, all in the arena; "" when out of memory: */
const char *stk_advice_size(struct advisor *ad, double bytes);   /* "6.0 KiB" */
const char *stk_advice_rate(struct advisor *ad, double Bps);     /* "9.0 MiB/s" */
const char *stk_advice_time(struct advisor *ad, double seconds); /* "12.3 s", "850 us" */
/* Seconds in calls, which add up over threads: "12.3 s summed over 9 threads". With one thread they
 * are time of the run. */
const char *stk_advice_thread_time(struct advisor *ad, double seconds);
const char *stk_advice_count(struct advisor *ad, double n);        /* "1,234" */
const char *stk_advice_percent(struct advisor *ad, double share);  /* "6.2 %" */
const char *stk_advice_show(struct advisor *ad, const char *path); /* safe on a terminal */
const char *stk_advice_text(struct advisor *ad, const char *fmt, ...) STK_PRINTF(2, 3);

/* The numbers of a storage and whether they were measured: "1.0 ms per request (measured), …" */
const char *stk_advice_pace(struct advisor *ad, const struct stk_storage *st);
/* How seconds in calls become seconds of the run: a sentence with a leading space, or "". */
const char *stk_advice_calls(struct advisor *ad);
const char *stk_advice_parent(struct advisor *ad, const char *path); /* its directory */
/* The directory it is counted under: for class folders, their parent. */
const char *stk_advice_tree(struct advisor *ad, const struct stk_usage *u);
const char *stk_advice_files(struct advisor *ad, const struct stk_usage *u); /* "about 5,000" */
const char *stk_advice_rank(struct advisor *ad, uint32_t unit);              /* "rank 3" */
/* Whether an earlier rule covered that path (NULL: any path). */
bool stk_advice_said(const struct advisor *ad, enum stk_rule rule, const char *path);

/* Whether any of its programs is Python; also true when unknown. */
bool stk_advice_in_python(const struct advisor *ad);
/* A database is recognised by the journal beside it, whatever its name: returns the path of the
 * database that `path` is, or is the journal of; NULL: neither. */
const char *stk_advice_sqlite(struct advisor *ad, const char *path);

/* ---- advice/scene.c: who runs what ---- */
/* What program the lines are for: its framework, its command's batch and image size. */
void stk_advice_scene(struct advisor *ad);
/* Whether the finding would tell a program that uses stoker to use it, or to change reads that it
 * does not make itself. */
bool stk_advice_circular(const struct advisor *ad, const struct stk_finding *f,
                         const struct stk_action *a);

/* ---- advice/kind.c: how a file is read, by its format and by what was seen ---- */
static inline bool stk_kind_stream(const struct stk_usage *u)
{
    return u->use->how & STK_USE_STREAM;
}
static inline bool stk_kind_table(const struct stk_usage *u)
{
    return u->use->how & STK_USE_TABLE;
}
static inline bool stk_kind_sample(const struct stk_usage *u)
{
    return u->use->how & STK_USE_SAMPLE;
}
static inline bool stk_kind_model(const struct stk_usage *u)
{
    return u->use->how & STK_USE_MODEL;
}
static inline bool stk_kind_library(const struct stk_usage *u)
{
    return u->use->how & STK_USE_LIBRARY;
}
static inline bool stk_kind_store(const struct stk_usage *u)
{
    return u->use->how & STK_USE_STORE;
}
bool stk_kind_packable(const struct stk_usage *u); /* stoker reads it */
/* Files that are opened, read as a whole in a few requests, and closed. */
bool stk_kind_whole(const struct stk_usage *u);
/* Mean bytes per request, without the short one at the end of each file. */
double stk_kind_request(const struct stk_usage *u);
/* Reads that do not begin where the previous one ended; bytes / jumps is the contiguous length. */
double stk_kind_jumps(const struct stk_usage *u);
/*
 * Read in order, with half of the reads far faster than the mean: storage served the kernel's
 * read-ahead, not these requests. Larger requests save only calls (measured: a stream in 8 KiB and
 * in 4 MiB requests waits equally long).
 */
bool stk_kind_read_ahead(const struct stk_usage *u);
/* Evaluation data, not training data, by its name or its directory's (val, test, ...): it is read
 * in order, whole, and without augmentation. */
bool stk_kind_evaluated(const char *path);
/* One small file that a process repeatedly opens and reads as a whole. */
bool stk_kind_again(const struct stk_usage *u);
double stk_per(double a, uint64_t b); /* a / b, 0 when b is 0 */

/* Iterates over the file usages of one format, most time first; *at is the position. NULL: no
 * more. */
const struct stk_usage *stk_files_of(const struct stk_analysis *a, const char *format, size_t *at);

/* ---- the rules ---- */
#define X(constant, function, id, summary) void stk_rule_##function(struct advisor *ad);
STK_RULES(X)
#undef X

#endif
