/* priv.h - the model between a profile and a workload. */
#ifndef STK_REPLAY_PRIV_H
#define STK_REPLAY_PRIV_H

#include "bench/workload.h"
#include "replay/replay.h"

/* How a group is used. */
enum rp_style {
    RP_VISITS, /* opened for each sample, and read in a few requests */
    RP_STREAM, /* stays open, read from its start on: a request is a sample */
    RP_RANDOM, /* stays open, read here and there: a jump begins a sample */
    RP_START,  /* read a few times only: before the first step */
};

struct rp_group {
    const char *path;   /* of the only file; NULL: several */
    const char *dir;    /* of the files: as the analysis groups them, in the end the deepest one */
    const char *root;   /* begins with the path of that deepest folder, of root_len bytes */
    size_t root_len;
    const char *suffix; /* ".jpg"; "": any name */
    struct stk_counts n;
    uint64_t files, size_bytes, distinct_bytes, rank_distinct_bytes;
    double io_s;
    enum rp_style style;
    bool estimated; /* the number of files is an estimate */
};

struct rp_model {
    const struct stk_analysis *a;
    struct rp_group *group; /* the dataset first, then by time */
    size_t ngroups;
    uint64_t ranks, workers, threads; /* threads: that read ahead, per rank */
    int passes;            /* reader.epochs */
    double start_s, begin_s; /* of a worker: in the main loop, and its own; of each epoch, if they restart */
    uint64_t starts;       /* of workers, of all ranks and epochs */
    uint64_t rounds;       /* how often the main loop started workers; 0: they stay, or there are none */
    uint64_t samples;                 /* of all ranks and epochs … */
    uint64_t replayed;                /* … and those that the replay has: whole ones per file */
    uint64_t files, per_file;         /* dataset.files, dataset.samples_per_file */
    uint64_t epochs, batch, most_steps;
    uint64_t sorted; /* access.sorted */
    bool same; /* every rank reads everything */
    double think_s, compute_s;
    struct { /* of a checkpoint */
        uint64_t bytes, files, opens, every_epochs, transfer_bytes;
        bool all_ranks, fsync;
        const char *dir;
    } writes;
    struct stk_replay_said *said;
    struct stk_arena arena;
};

/* groups.c: finds the groups, and the checkpoints. */
int stk_rp_groups(struct rp_model *m, struct stk_err *err);
/* model.c: samples, ranks, threads and times. */
int stk_rp_model(struct rp_model *m, struct stk_err *err);
/* The sizes of requests of a group, ascending; returns their number. */
size_t stk_rp_sizes(const struct rp_group *g, struct stk_bench_sizes out[STK_GROUP_SIZES]);

/* Adds a sentence. key: that it is about; NULL: none, or several. */
void stk_rp_say(const struct rp_model *m, const char *key, const char *fmt, ...) STK_PRINTF(3, 4);

#endif
