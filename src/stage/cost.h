/*
 * cost.h - whether staging pays: the seconds it takes in each way, what it saves per epoch, after
 * how many epochs it has paid, and the plain reasons why it will not.
 *
 * Arithmetic only. The storages come from measurements (model/measure.h), a profile or the user. An
 * unknown rate is 0; what follows from it is unknown (NAN), never a guess.
 */
#ifndef STK_STAGE_COST_H
#define STK_STAGE_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "model/fit.h"

struct stk_cost_case {
    uint64_t bytes, files; /* of the source */
    unsigned nodes;        /* 0: 1 */
    unsigned copies;       /* sharded: copies of each file over all nodes; 0: 1 */
    uint64_t epochs;       /* of the training; 0: not known */
    uint64_t cache_bytes;  /* page cache that the job may fill on a node; 0: not known */
    double need_Bps;       /* what the training consumes, all nodes together; 0: not known */
    bool source_local;     /* the source is on a disk or in memory of this node */
    bool background;       /* training runs while the copy is made */
    bool in_turn;          /* the training reads or computes, never both at once */
    /* What it asks for per epoch, all nodes together, in the lanes of a node; no bytes: not known, and
     * taken for all files, each in one request. */
    struct stk_work epoch;
    /* A client is a node. source.all_Bps 0: not known, between one node's rate and N times that. */
    struct stk_storage source, target;
    double fabric_Bps; /* into a node, from other nodes; 0: not known */
};

enum stk_cost_way { STK_COST_NAIVE, STK_COST_ONCE, STK_COST_SHARD, STK_COST_WAYS };
/* "each node alone", "read once, then spread", "sharded" */
const char *stk_cost_way_name(enum stk_cost_way way);

struct stk_cost_time {
    double least_s, most_s; /* equal if all rates are known; NAN: not known */
    const char *wall;       /* the bottleneck: "source", "fabric", "target"; NULL: not known */
};

enum stk_cost_verdict {
    STK_COST_PAYS,
    STK_COST_UNKNOWN, /* a rate is missing: `reason` names it */
    STK_COST_LOCAL,   /* the source is on this node already */
    STK_COST_CACHED,  /* the page cache holds the data after the first epoch */
    STK_COST_FEW,     /* fewer epochs than it takes to pay */
    STK_COST_SLOWER,  /* the target is not faster than the source */
    STK_COST_IDLE,    /* the source already delivers what the training consumes */
};
/* Its name in JSON: "pays", "unknown", … */
const char *stk_cost_verdict_name(enum stk_cost_verdict v);

struct stk_cost {
    struct stk_cost_time way[STK_COST_WAYS]; /* with one node, only the first */
    enum stk_cost_way best;                  /* the fastest */
    double cached_share;  /* of the reads of a later epoch that the page cache answers; NAN */
    double first_epoch_s; /* from the source, nothing cached */
    double source_epoch_s, target_epoch_s; /* of a later epoch */
    double saved_s;                        /* per later epoch; NAN: not known */
    double pays_after;                     /* epochs; INFINITY: never; NAN: not known */
    enum stk_cost_verdict verdict;
    char reason[320]; /* one sentence, with the numbers */
};

/* Seconds per file on top of its bytes. */
double stk_cost_file_s(const struct stk_storage *st);
void stk_cost_compute(const struct stk_cost_case *c, struct stk_cost *out);

/* Fills in what the profile shows of the source at `path` (absolute) and its file system: the rate
 * of its reads, the time of an open, and what the training consumes when it need not wait. Leaves
 * all others. False: the profile has no reads of it, and c is unchanged. */
bool stk_cost_take_profile(const struct stk_analysis *a, const char *path, struct stk_cost_case *c);

#endif
