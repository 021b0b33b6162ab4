/*
 * comm_priv.h - inside a communicator: the messages that each kind provides, and the root that a
 * communicator shares with its groups.
 */
#ifndef STK_SCHED_COMM_PRIV_H
#define STK_SCHED_COMM_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "sched/comm.h"

/* Each communicator has a block of tags: the callers' and, behind them, our own. */
#define COMM_BLOCK       1024
#define COMM_TAG_OWN     1000 /* in a block: collectives */
#define COMM_BLOCK_SETUP 30   /* the block of a group that is being made */
#define COMM_GROUPS      16
#define COMM_TAG_NOTICE  32000 /* outside of all blocks; MPI allows at least 32767 */

/* What a kind provides. Ranks are those of the root. Called with the root's lock held, except
 * close(), which comes last. */
struct comm_ops {
    int (*isend)(void *impl, uint32_t to, int tag, const void *p, size_t n, uint64_t *room,
                 struct stk_err *err);
    int (*irecv)(void *impl, uint32_t from, int tag, void *p, size_t n, uint64_t *room,
                 struct stk_err *err);
    int (*test)(void *impl, uint64_t *room, bool *done, uint32_t *from, size_t *n,
                struct stk_err *err);
    /* Of a receive; with `forgets` also of what is being sent. */
    void (*cancel)(void *impl, uint64_t *room);
    bool forgets; /* close() ends all messages, also after a failure */
    /* failed: do not wait for the others. */
    void (*close)(void *impl, bool failed);
    pid_t (*pid)(void *impl, uint32_t rank); /* may be NULL */
    /* MPI-IO; NULL: plain reads. Called without the lock, by one thread; n: ranks of the file. */
    int (*file_open)(void *impl, const uint32_t *rank, uint32_t n, const char *path, void *room,
                     struct stk_err *err);
    int (*file_read_all)(void *impl, void *room, uint64_t off, void *p, size_t n, size_t *got,
                         struct stk_err *err);
    void (*file_close)(void *impl, void *room);
};

/* A rank as the others see it. Exchanged when the communicator is made. */
struct comm_peer {
    uint64_t machine; /* equal: processes see each other in /proc; 0: unknown */
    int64_t pid;
    uint64_t start; /* of the process, in ticks */
    char node[64];
};

/* What ranks tell each other unasked. */
struct comm_notice {
    uint32_t kind; /* NOTICE_* */
    uint32_t rank;
    char why[248];
};
enum { NOTICE_ALIVE = 1, NOTICE_LOST = 2, NOTICE_REPORTED = 3 };

struct comm_pulse;

struct comm_root {
    const struct comm_ops *ops;
    void *impl;
    char kind[32], lacks[640];
    uint32_t rank, size;
    bool threads; /* a thread of its own may call ops */
    bool files;   /* ops->file_* may be called while that thread calls others */
    pthread_mutex_t lock;
    uint32_t groups; /* bit i: block i + 1 is in use */
    bool failed;     /* an operation failed: cannot be used any more */
    struct comm_peer *peer;
    struct comm_pulse *pulse; /* NULL: alone */
    _Atomic double patience_s; /* 0: STK_COMM_SILENT_S */
    /* See stk_comm_on_lost(); with the lock, as everything that marks a rank. */
    void (*on_lost)(void *user, const struct stk_err *why);
    void *on_lost_user;
    void **kept;              /* memory that messages may use until the end */
    size_t nkept;
};

struct stk_comm {
    struct comm_root *root;
    bool owner; /* closes the root */
    uint32_t rank, size;
    uint32_t block;   /* of tags */
    uint32_t *map;    /* root's rank by rank; NULL: the same */
    uint32_t *node;   /* node by rank */
    uint32_t *leader; /* lowest rank by node */
    uint32_t nodes;
};

static inline uint32_t stk_comm_world(const struct stk_comm *c, uint32_t rank)
{
    return c->map ? c->map[rank] : rank;
}

/* Makes a communicator of all ranks on a kind; exchanges who they are and starts the signs of life.
 * Takes ownership of impl, also on error. node may be NULL. */
int stk_comm_make(const struct comm_ops *ops, void *impl, const char *kind, uint32_t rank,
                  uint32_t size, bool threads, const char *node, struct stk_comm **out,
                  struct stk_err *err);

/* ---- signs of life (sched/comm_pulse.c) ---- */

int stk_pulse_start(struct comm_root *r, struct stk_err *err);
/* No rank is missed from now on: they are about to leave. */
void stk_pulse_closing(struct comm_root *r);
void stk_pulse_stop(struct comm_root *r);
/* Looks for notices and sends ours if it is time; with the root's lock held. */
void stk_pulse_beat(struct comm_root *r);
/* 0, or STK_E_STOPPED: a rank is lost. */
int stk_pulse_check(struct comm_root *r, struct stk_err *err);
int64_t stk_pulse_lost(struct comm_root *r, char *why, size_t size);
/* Tells all others that a rank is lost, and marks it here; with the lock held. */
void stk_pulse_tell(struct comm_root *r, uint32_t rank, const char *why);
/* stk_comm_reported(); and whether there is nothing to wait for. */
void stk_pulse_reported(struct comm_root *r);
bool stk_pulse_await_report(struct comm_root *r, uint32_t from);
/* Waits until the notices are on their way, for a second at most. */
void stk_pulse_flush(struct comm_root *r);

/* ---- MPI (sched/comm_mpi.c) ---- */

struct stoker_mpi;
/* Joins through a loaded module. world: the number of processes that the launcher gave. An error
 * says what to do. */
int stk_comm_mpi_join(const struct stoker_mpi *mpi, uint32_t world,
                      const struct stk_comm_options *o, struct stk_comm **out, struct stk_err *err);
/* Loads the module to use: by name or path, or by the launcher if NULL. *out is valid forever. */
int stk_module_load(const char *want, const struct stoker_mpi **out, struct stk_err *err);
/* Its MPI in a few words: "MPICH 4.0.2". */
void stk_module_library(const struct stoker_mpi *mpi, char *text, size_t size);

#endif
