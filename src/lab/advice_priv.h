/*
 * advice_priv.h - shared by the rules: the table's row, the limits, what storage costs here, and
 * the building of a finding. A rule is a function of an advisor; it adds findings or does not.
 */
#ifndef STK_LAB_ADVICE_PRIV_H
#define STK_LAB_ADVICE_PRIV_H

#include "lab/advice.h"

#define MIB (1u << 20)
#define GIB (1u << 30)

/* Every threshold there is. The reason for each value: advice.c. */
struct advice_limits {
    double note_share, low_share, medium_share, high_share;
    double low_s, medium_s, local_s;
    double exposed_share;
    uint64_t small_read, big_read, unit_read, small_file, whole_file, shard_bytes;
    uint64_t least_reads, least_files, least_shards, least_opens;
    double consecutive, random, reread, overlap, imbalance;
    double busy, cpu_part, idle_cores;
    double meta_share;
    double memory_share;
    double local_Bps, shared_Bps, page_Bps;
    double local_latency_s, shared_latency_s, deep_read_s;
    uint64_t stats_file, stats_reads;
    uint64_t text_bytes, text_read;
    double slow_read_s;
    uint64_t least_faults;
};
extern const struct advice_limits stk_limits;

/* How far away a file is. */
enum reach { REACH_UNKNOWN, REACH_LOCAL, REACH_MEMORY, REACH_SHARED };

struct advisor {
    const struct stk_analysis *a;
    const struct stk_profile *p;
    struct stk_advice *out;
    size_t room; /* of out->finding */
    bool nomem;
    double run_s;
    uint32_t ranks, nodes; /* at least 1 */
    double io_wall_s;      /* what the job waits for I/O: see advice_cost.c */
    double wall_per_io;    /* seconds of the run that a second in an I/O call costs */
    double hidden;         /* share of the workers' I/O that computing hides */
    double worker_busy;    /* CPU + I/O of the workers' life; -1: no workers or not known */
    double worker_cpu;     /* CPU of it */
    double worker_cpu_s;   /* CPU of one worker after another in the same place */
    uint32_t workers; /* that read, of all ranks */
    double readers_per_rank;
    double cores_used;    /* CPU time / run time, -1: not known */
    double latency_s;     /* of a small read */
    double bandwidth_Bps; /* of one stream of large reads */
    bool latency_measured, bandwidth_measured;
    uint64_t node_memory; /* of the smallest node; 0: not known */
    uint32_t *prof;       /* of each of a->file: its number in the profile */
};

struct rule {
    const char *id, *summary;
    void (*fire)(struct advisor *);
};

/* ---- advice_cost.c ---- */
void stk_advice_costs(struct advisor *ad);
void stk_advice_costs_release(struct advisor *ad);
enum reach stk_advice_reach(const char *fs);
/* Where most of the time of this usage's files is spent. */
enum reach stk_advice_reach_of(const struct advisor *ad, const struct stk_usage *u);
const char *stk_advice_fs_of(const struct advisor *ad, const struct stk_usage *u);
/* The profile's entry of one of a->file, and its records [from, to). */
const struct stk_prof_file *stk_advice_file(const struct advisor *ad, const struct stk_usage *f);
void stk_advice_recs(const struct advisor *ad, const struct stk_usage *f, size_t *from, size_t *to);
/* Seconds a thread needs to read that much in requests of `request` bytes, on this storage. */
double stk_advice_read_s(const struct advisor *ad, enum reach reach, double bytes, double request);
/* Seconds of the run, of seconds in calls. */
double stk_advice_wall(const struct advisor *ad, double io_s);
double stk_advice_share(const struct advisor *ad, double wall_s); /* of the run */
bool stk_advice_matters(const struct advisor *ad, double wall_s);
/* The same, and felt: where the pattern is no evidence by itself, local files need more. */
bool stk_advice_felt(const struct advisor *ad, enum reach reach, double wall_s);
enum stk_severity stk_advice_severity(const struct advisor *ad, double wall_s);

/* ---- advice_text.c ---- */
struct stk_finding *stk_advice_begin(struct advisor *ad, const char *id, enum stk_severity s,
                                     const char *fmt, ...) STK_PRINTF(4, 5);
void stk_advice_say(struct advisor *ad, struct stk_finding *f, const char *fmt, ...)
    STK_PRINTF(3, 4);
void stk_advice_do(struct advisor *ad, struct stk_finding *f, const char *fmt, ...)
    STK_PRINTF(3, 4);
void stk_advice_line(struct advisor *ad, struct stk_finding *f, const char *fmt, ...)
    STK_PRINTF(3, 4);
void stk_advice_gain(struct advisor *ad, struct stk_finding *f, double seconds, const char *fmt,
                     ...) STK_PRINTF(4, 5);
void stk_advice_number(struct advisor *ad, struct stk_finding *f, const char *name, double value,
                       const char *unit);
void stk_advice_path(struct advisor *ad, struct stk_finding *f, const char *path);
/* For sentences, all in the arena, "" when memory ran out: */
const char *stk_advice_size(struct advisor *ad, double bytes);    /* "6.0 KiB" */
const char *stk_advice_rate(struct advisor *ad, double Bps);      /* "9.0 MiB/s" */
const char *stk_advice_time(struct advisor *ad, double seconds);  /* "12.3 s", "850 us" */
const char *stk_advice_count(struct advisor *ad, double n);       /* "1,234" */
const char *stk_advice_percent(struct advisor *ad, double share); /* "6.2 %" */
const char *stk_advice_shell(struct advisor *ad, const char *path);
const char *stk_advice_python(struct advisor *ad, const char *path);
const char *stk_advice_show(struct advisor *ad, const char *path); /* safe on a terminal */
const char *stk_advice_text(struct advisor *ad, const char *fmt, ...) STK_PRINTF(2, 3);

/* How seconds in calls become seconds of the run, as a sentence with a space before; or "". */
const char *stk_advice_calls(struct advisor *ad);
const char *stk_advice_parent(struct advisor *ad, const char *path); /* its directory */
/* Whether a rule before said something of that path (NULL: of any). */
bool stk_advice_said(const struct advisor *ad, const char *id, const char *path);

/* Whether any program in it is Python; also where nobody knows. */
bool stk_advice_in_python(const struct advisor *ad);
/* Whether the time of a file's calls that move no data is that of fsync and the like. */
bool stk_advice_syncs(const struct stk_usage *u);

/* ---- advice_kind.c: what a format is read like ---- */
bool stk_kind_stream(const char *format); /* records one after another: TFRecord, tar, … */
bool stk_kind_table(const char *format);  /* text that is parsed: CSV, JSON lines */
bool stk_kind_sample(const char *format); /* one sample a file: images, NPZ, … or nobody knows */
bool stk_kind_packable(const char *format); /* stoker reads it */
bool stk_kind_model(const char *format);  /* checkpoints and logs: no dataset */
/* Files that are opened, read as a whole in a few requests, and closed. */
bool stk_kind_whole(const struct stk_usage *u);
double stk_per(double a, uint64_t b); /* a / b, 0 when b is 0 */

/* The file usages of one format, most time first; *at goes through them. NULL: no more. */
const struct stk_usage *stk_files_of(const struct stk_analysis *a, const char *format, size_t *at);

/* ---- the rules ---- */
void stk_rule_accelerator_waits(struct advisor *ad);
void stk_rule_small_reads(struct advisor *ad);
void stk_rule_random_reads(struct advisor *ad);
void stk_rule_prefetch_depth(struct advisor *ad);
void stk_rule_read_parallelism(struct advisor *ad);
void stk_rule_decode_parallelism(struct advisor *ad);
void stk_rule_many_small_files(struct advisor *ad);
void stk_rule_open_per_sample(struct advisor *ad);
void stk_rule_metadata_load(struct advisor *ad);
void stk_rule_too_many_files(struct advisor *ad);
void stk_rule_too_few_files(struct advisor *ad);
void stk_rule_stripe_size(struct advisor *ad);
void stk_rule_csv_to_records(struct advisor *ad);
void stk_rule_reread_small_file(struct advisor *ad);
void stk_rule_stats_file_reread(struct advisor *ad);
void stk_rule_stage_to_node(struct advisor *ad);
void stk_rule_same_data_every_rank(struct advisor *ad);
void stk_rule_in_memory_hdf5(struct advisor *ad);
void stk_rule_checkpoint_local(struct advisor *ad);
void stk_rule_small_writes(struct advisor *ad);
void stk_rule_fsync_heavy(struct advisor *ad);
void stk_rule_stdio_heavy(struct advisor *ad);
void stk_rule_seek_heavy(struct advisor *ad);
void stk_rule_mmap_random(struct advisor *ad);
void stk_rule_imbalance(struct advisor *ad);
void stk_rule_slow_requests(struct advisor *ad);

#endif
