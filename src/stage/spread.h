/*
 * spread.h - brings a source to many nodes at once: each byte leaves the shared file system once.
 *
 * One rank per node, its *leader*, does the work. The leaders form a ring. Each reads its own part
 * of the source and sends it to the next leader in *crates* (parcels that travel together); a
 * leader passes a crate on while its threads write the parcels to the tier of its node. Reading,
 * sending and writing overlap in bounded memory. A node whose disk is full or broken goes on
 * reading and passing on.
 */
#ifndef STK_STAGE_SPREAD_H
#define STK_STAGE_SPREAD_H

#include "sched/comm.h"
#include "stage/stage.h"

enum stk_spread_mode {
    STK_SPREAD_AUTO,      /* by size and room */
    STK_SPREAD_REPLICATE, /* all of it on every node */
    STK_SPREAD_SHARD,     /* on each node what the epochs of its ranks ask for */
};
extern const char *const stk_spread_names[]; /* by mode, NULL at the end */

struct stk_spread_options {
    int mode;                         /* enum stk_spread_mode */
    uint32_t copies;                  /* SHARD: nodes that hold each parcel, at least; 0: 1 */
    struct stk_loader_options loader; /* SHARD: the plan. world: 0: the ranks of the communicator;
                                       * epochs 0: 1 */
    struct stk_source_options source;
    struct stk_copy_options copy; /* its progress and user are set by the function; max_rate is
                                   * that of all nodes together */
    uint32_t min_nodes;           /* with a copy of all of it are enough; 0: all */
    double disk_s;                /* a disk that completes no write for so long is given up */
    const char *status;           /* a folder for a file per node; NULL: none (spread_status.c) */
    /* Opens the tier of this node; called by its leader. Also gives the bytes that fit in it. An
     * error: the node takes part without a copy. The function closes the tier. */
    int (*place)(void *user, const struct stk_source *src, struct stk_tier **tier, uint64_t *room,
                 struct stk_err *err);
    /* Called often by the leader's own thread; non-zero: stop, on all nodes. May be NULL. bytes:
     * in the copy of this node. */
    int (*progress)(void *user, enum stk_stage_phase phase, uint64_t bytes, uint64_t total);
    void *user;
};

enum stk_spread_phase {
    STK_SPREAD_UNHEARD, /* nothing is known of it */
    STK_SPREAD_LISTING,
    STK_SPREAD_PREPARING,
    STK_SPREAD_COPYING,
    STK_SPREAD_SYNCING,
    STK_SPREAD_DONE, /* the last three: it has ended */
    STK_SPREAD_FAILED,
    STK_SPREAD_LOST,
};
/* "", "listing", …; whatever another node sent. */
extern const char *const stk_spread_phases[]; /* ends in NULL */
const char *stk_spread_phase_name(uint32_t phase);
enum stk_spread_phase stk_spread_phase_of(const char *name); /* UNHEARD: no such name */

/* A node as the table shows it. */
struct stk_spread_node {
    char name[64];
    char path[1024]; /* the usable path: of the copy; SHARD: of the source; "": there is none */
    uint32_t rank;   /* of its leader */
    uint32_t ranks;  /* that it has; 0: not known */
    uint64_t updated; /* when it said so, seconds since 1970 */
    int32_t code;    /* 0, or the code of `what` */
    uint64_t wanted; /* bytes of the source that this node shall have... */
    uint64_t there;  /* ...and has now */
    uint64_t read;   /* bytes from the source, by this node */
    uint64_t sent, received, written;
    double read_s, seconds; /* reading; in all */
    char what[256];         /* why it has no complete copy; "" if it has one */
    uint32_t phase;         /* enum stk_spread_phase; from a file: when it was last heard of */
};

struct stk_spread_result {
    int mode;      /* that was used */
    char why[256]; /* AUTO: the reason */
    uint64_t files, bytes;
    struct stk_spread_node *node; /* by node */
    uint32_t nodes, good;         /* good: with all that they shall have */
    int64_t slowest;              /* node, or -1 */
    bool stuck; /* a thread still waits for the disk of this node: what it uses must stay */
    bool from_status;             /* a rank was lost: the table comes from the status files */
};
void stk_spread_result_release(struct stk_spread_result *r);

/* All ranks of c call it with the same options. Rank 0 lists the source at `path`. Returns 0 if the
 * nodes worked together to the end, whatever became of each (result); an error if the source cannot
 * be listed, the user stopped it, or a rank was lost. *r is filled on every rank as far as it is
 * known; caller releases it in any case. */
int stk_spread(struct stk_comm *c, const char *path, const struct stk_spread_options *o,
               struct stk_spread_result *r, struct stk_err *err);

/* ---- ranks that cannot talk to each other ---------------------------------------------------- */

/* A launcher started them without MPI (srun --mpi=none): each node stages alone and says in a file
 * how far it is, and rank 0 waits for all, so that one speaks for all. */

struct stk_apart;
/* dir: a folder that all nodes see; NULL, or one that cannot be used: the others are not heard of.
 * Caller closes. NULL: no memory. */
struct stk_apart *stk_apart_begin(const struct stk_rank *r, const char *dir);
/* Bytes that are in the copy of this node. */
void stk_apart_tick(struct stk_apart *a, uint64_t there, uint64_t total);
/* This node has come to an end. path: to use there, "" if it has no copy; what: why. */
void stk_apart_done(struct stk_apart *a, const char *path, const char *what);
/* Rank 0, after that: waits until all nodes have come to an end, or give no sign of life. stop(user)
 * is asked often. *r: the nodes that are known; caller releases. */
int stk_apart_gather(struct stk_apart *a, bool (*stop)(void *user), void *user,
                     struct stk_spread_result *r, struct stk_err *err);
/* clean: nobody needs the file of this node; all: nor those of all others. */
void stk_apart_close(struct stk_apart *a, bool clean, bool all);

#endif
