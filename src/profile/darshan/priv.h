/*
 * priv.h - a Darshan log on its way into a profile: lines of darshan-parser
 * (profile/darshan/text.c) become records, records become counts (profile/darshan/map.c), and records that Darshan
 * keeps only as a sum over all ranks are divided among the ranks (profile/darshan/ranks.c).
 */
#ifndef STK_PROFILE_DARSHAN_PRIV_H
#define STK_PROFILE_DARSHAN_PRIV_H

#include "profile/priv.h"

/* The fields we use: names without the module prefix ("POSIX_", …). */
#define STK_DARSHAN_FIELDS(X)                                                                      \
    X(OPENS)                                                                                       \
    X(FILENOS) X(DUPS) X(READS) X(WRITES) X(SEEKS) X(STATS) X(FSYNCS) X(FDSYNCS) X(RENAME_SOURCES) \
        X(BYTES_READ) X(BYTES_WRITTEN) X(MAX_BYTE_READ) X(MAX_BYTE_WRITTEN) X(CONSEC_READS) X(     \
            CONSEC_WRITES) X(SEQ_READS) X(SEQ_WRITES) X(RW_SWITCHES) X(SIZE_READ_0_100)            \
            X(SIZE_READ_100_1K) X(SIZE_READ_1K_10K) X(SIZE_READ_10K_100K) X(SIZE_READ_100K_1M) X(  \
                SIZE_READ_1M_4M) X(SIZE_READ_4M_10M) X(SIZE_READ_10M_100M) X(SIZE_READ_100M_1G)    \
                X(SIZE_READ_1G_PLUS) X(SIZE_WRITE_0_100) X(SIZE_WRITE_100_1K) X(                   \
                    SIZE_WRITE_1K_10K) X(SIZE_WRITE_10K_100K) X(SIZE_WRITE_100K_1M)                \
                    X(SIZE_WRITE_1M_4M) X(SIZE_WRITE_4M_10M) X(SIZE_WRITE_10M_100M) X(             \
                        SIZE_WRITE_100M_1G) X(SIZE_WRITE_1G_PLUS) X(ACCESS1_ACCESS)                \
                        X(ACCESS2_ACCESS) X(ACCESS3_ACCESS) X(ACCESS4_ACCESS) X(ACCESS1_COUNT) X(  \
                            ACCESS2_COUNT) X(ACCESS3_COUNT) X(ACCESS4_COUNT) X(FASTEST_RANK)       \
                            X(FASTEST_RANK_BYTES) X(SLOWEST_RANK) X(SLOWEST_RANK_BYTES) X(         \
                                INDEP_OPENS) X(COLL_OPENS) X(INDEP_READS) X(INDEP_WRITES)          \
                                X(COLL_READS) X(COLL_WRITES) X(SPLIT_READS) X(SPLIT_WRITES) X(     \
                                    NB_READS) X(NB_WRITES) X(GLOBAL_OPENS) X(LOOKUPS) X(READXS)    \
                                    X(WRITEXS) X(SYNCS) X(FLUSHES) X(STRIPE_SIZE) X(STRIPE_WIDTH)  \
                                        X(COMP1_STRIPE_SIZE) X(COMP1_STRIPE_COUNT) X(              \
                                            F_OPEN_START_TIMESTAMP) X(F_READ_START_TIMESTAMP)      \
                                            X(F_WRITE_START_TIMESTAMP) X(F_CLOSE_START_TIMESTAMP)  \
                                                X(F_OPEN_END_TIMESTAMP) X(F_READ_END_TIMESTAMP)    \
                                                    X(F_WRITE_END_TIMESTAMP)                       \
                                                        X(F_CLOSE_END_TIMESTAMP) X(F_READ_TIME)    \
                                                            X(F_WRITE_TIME) X(F_META_TIME)         \
                                                                X(F_MAX_READ_TIME)                 \
                                                                    X(F_MAX_WRITE_TIME)            \
                                                                        X(F_FASTEST_RANK_TIME)     \
                                                                            X(F_SLOWEST_RANK_TIME)

enum stk_darshan_field {
#define X(name) STK_D_##name,
    STK_DARSHAN_FIELDS(X)
#undef X
        STK_D_COUNT
};

enum stk_darshan_module {
    STK_DM_NONE,
    STK_DM_POSIX,
    STK_DM_STDIO,
    STK_DM_MPIIO,
    STK_DM_H5F,
    STK_DM_H5D,
    STK_DM_DFS,
    STK_DM_DAOS,
    STK_DM_LUSTRE,
    STK_DM_HEATMAP
};

struct stk_darshan_rec { /* one file, rank (-1: all together) and API */
    int64_t rank;
    uint32_t file;
    uint8_t api;
    struct stk_counts n;
    uint64_t distinct_bytes;               /* an estimate: the bytes read, at most up to the last
                                              byte */
    int64_t slowest, fastest;              /* shared records: which ranks; -1: unknown */
    double slowest_s, fastest_s;           /* their time in calls … */
    uint64_t slowest_bytes, fastest_bytes; /* … and the bytes they moved */
};

#define STK_DARSHAN_BINS 1024 /* of a heat map; Darshan makes 200 */
struct stk_darshan_heat {
    int64_t rank;
    double width_s;
    uint32_t bin;
    bool write;
    uint64_t bytes;
};

struct stk_darshan {
    struct stk_pb *pb;
    const char *exe, *job; /* in the profile's arena */
    uint64_t nprocs, jobid, start_s, pid, fork_parent;
    double run_s;
    bool any;            /* at least one line that only darshan-parser writes */
    bool mmaps;          /* mmap calls are not counted (-1) */
    bool zeros;          /* reads of 0 bytes may be among the smallest */
    bool stdio_sizes;    /* sizes of STDIO requests are means */
    bool old;            /* from Darshan 1 or 2, whose counters have other names */
    bool dxt;            /* has single operations, which darshan-parser does not print */
    bool daos, dfs;      /* DAOS objects; the DAOS file system above them */
    bool trusted_common; /* common sizes are correct (not in runtime 3.2.0) */
    /* The record being read. */
    enum stk_darshan_module module;
    int64_t rank;
    uint64_t id;
    struct stk_buf name;
    char fs[32];
    double value[STK_D_COUNT]; /* negative: absent */
    uint32_t next;             /* the most likely next field */
    double heat_width_s;
    struct stk_darshan_rec *rec;
    size_t nrecs;
    struct stk_darshan_heat *heat;
    size_t nheat;
};

/* profile/darshan/text.c */
void stk_darshan_begin(struct stk_darshan *d, struct stk_pb *pb, const char *path);
int stk_darshan_line(struct stk_darshan *d, const char *line, size_t n, struct stk_err *err);
/* Converts everything read into the profile. path is for messages. */
int stk_darshan_end(struct stk_darshan *d, const char *path, struct stk_err *err);
int stk_darshan_old(const char *path, struct stk_err *err); /* reports that it is too old */
void stk_darshan_release(struct stk_darshan *d);

/* profile/darshan/map.c: d's current record becomes one of d->rec. */
int stk_darshan_map(struct stk_darshan *d, struct stk_err *err);

/* profile/darshan/ranks.c: d->rec and d->heat become processes and records of the profile. */
int stk_darshan_ranks(struct stk_darshan *d, struct stk_err *err);

#endif
