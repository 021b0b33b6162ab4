/*
 * spread_run.h - one call of stk_spread() on one rank, and its steps in their order. Ranks that lead no
 * node take part in the first and the last only.
 */
#ifndef STK_STAGE_SPREAD_RUN_H
#define STK_STAGE_SPREAD_RUN_H

#include "base/thread.h"
#include "stage/spread_priv.h"

#define STK_SPREAD_ANSWER_S STK_COMM_FOREVER /* only a lost rank ends a wait: a node may be slow */

struct spread {
    struct stk_comm *all, *leaders;
    struct stk_spread_options o;
    struct stk_spread_result *r;
    struct stk_source src;
    struct spread_map map;
    uint32_t node, nodes;
    struct stk_spread_node me;
    struct spread_counts counts;
    struct stk_tier *tier;
    struct stk_tier_set *set;
    uint64_t room;
    uint8_t *readers;  /* by node */
    uint64_t *shall;   /* parcels that this node shall have */
    uint64_t *missing; /* those that travel */
    uint64_t *wanted;  /* SHARD: by node; else NULL */
    int index_fd;      /* the index of the source, in memory; -1: none */
    char index_path[64];
    struct spread_status *status;
    double start, ticked, disk_s;
    bool agreed; /* the error is known to all ranks */
    _Atomic bool stuck; /* a thread waits for the disk: it ends without a word when that answers */
    bool unread;        /* some parcels could be read by no node */
    int read_rc; /* why this node could not read its part; another one may have read it */
    struct stk_err read_err;
};

/* ---- this node's record (spread.c) ---- */

/* The first failure is the one that is told. */
void stk_spread_failed(struct spread *s, int code, const struct stk_err *err);
void stk_spread_enter(struct spread *s, enum stk_spread_phase phase);
/* Runs step(user) in a helper thread, so that a disk that hangs does not keep this node from telling
 * the others. STK_E_STOPPED and s->stuck: the thread still runs, and uses what user leads to. */
int stk_spread_step(struct spread *s, stk_thread_fn *step, void *user, double limit_s,
                    struct stk_err *err);
/* Non-zero: stop. */
int stk_spread_tell(struct spread *s, enum stk_stage_phase phase, uint64_t bytes);
int stk_spread_tick(void *spread);

/* ---- the list (spread_list.c) ---- */

/* Every rank gets the list, or the error. Ranks that lead no node have no use for it. */
int stk_spread_share_list(struct spread *s, const char *path, struct stk_err *err);

/* ---- who shall have what (spread_plan.c) ---- */

/* Without a place the node takes part all the same: it reads and passes on. */
void stk_spread_open_place(struct spread *s);
int stk_spread_agree(struct spread *s, struct stk_err *err);
/* s->shall. */
int stk_spread_divide(struct spread *s, struct stk_err *err);
/* Bytes that this node shall have. */
uint64_t stk_spread_count(const struct spread *s);
/* Parcels that this node shall have and lacks; counts the bytes that are there. */
void stk_spread_look(struct spread *s, uint64_t *bits);
/* s->missing or s->wanted. *some: there are any, on whichever node. */
int stk_spread_missing(struct spread *s, bool *some, struct stk_err *err);

/* ---- moving and completing it (spread_move.c) ---- */

void stk_spread_close_set(struct spread *s);
/* A node that cannot hold what it shall have takes part all the same, as one without a place. */
void stk_spread_refuse_small(struct spread *s);
int stk_spread_move(struct spread *s, struct stk_err *err);
void stk_spread_complete(struct spread *s);

#endif
