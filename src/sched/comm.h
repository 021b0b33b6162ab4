/*
 * comm.h - ranks that talk to each other: the one seam between stoker and MPI.
 *
 * A communicator is alone (one process), forked (processes of this machine that share memory), or
 * MPI through a module that is loaded when it is needed (sched/mpi): nothing of stoker links MPI.
 * All collectives are made of the messages that each kind sends, so they are the same for all.
 *
 * No call waits forever. A thread of each rank sends a sign of life to the next rank twice per
 * second, whatever the caller does. A rank whose process has ended, that is stopped and silent for
 * STK_COMM_SILENT_S, that is silent for STK_COMM_BUSY_S, or that gave up (stk_comm_give_up) is
 * *lost*. Every call on every rank then fails with STK_E_STOPPED and its name, within two seconds.
 * After a failure the communicator can only be closed.
 *
 * Threads: one at a time per communicator and its subgroups; stk_comm_lost() any thread. The number
 * of ranks, ranks and tags are the same on every rank; collectives are called by all of them, in
 * one order.
 */
#ifndef STK_SCHED_COMM_H
#define STK_SCHED_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define STK_COMM_SILENT_S 8.0  /* without a sign of life, and its process is stopped: lost */
#define STK_COMM_BUSY_S   30.0 /* the same of one that may only be on a busy node */
#define STK_COMM_FOREVER  1e18 /* a time limit: only a lost rank ends the wait */
#define STK_COMM_ANY      UINT32_MAX
#define STK_COMM_TAGS     1000 /* tags of callers: 0 to this, exclusive */

struct stk_comm;

/* ---- opening ---- */

struct stk_comm_options {
    const char *module; /* name ("openmpi", "mpich") or path; NULL: $STOKER_MPI, else by launcher */
    const char *node;   /* the name of this node; NULL: $STOKER_NODE, else the host name. "%r" in it
                         * becomes the rank: each process is a node of its own */
    bool files;         /* MPI-IO is wanted: MPI must allow calls of several threads at once */
};

/* Joins the other processes that mpirun or srun started with this one, through a module; one
 * process, or no launcher: alone. A module that is missing or does not fit the launcher is no
 * error: the communicator is alone, and stk_comm_lacks() says what is missing and what to do. An
 * error: the named module cannot be used, or the launcher's variables contradict each other.
 * o may be NULL. Open it before threads start. Caller closes with stk_comm_close(). */
int stk_comm_open(const struct stk_comm_options *o, struct stk_comm **out, struct stk_err *err);
/* Caller closes with stk_comm_close(). NULL: no memory. */
struct stk_comm *stk_comm_alone(void);
/* Forks n - 1 children; returns in all n processes, each with its own *out. Call it while the
 * process has one thread. A child ends by stk_comm_close() and _exit(), never by return into code
 * of the parent. An error is reported in the parent only; no child is left then. */
int stk_comm_fork(unsigned n, struct stk_comm **out, struct stk_err *err);
/* Rank 0 of stk_comm_fork(): the process of another rank, to wait for and for signals. Else 0. */
int stk_comm_pid(const struct stk_comm *c, uint32_t rank);
/* Ends it, on all ranks. After a failure it does not wait for the others. NULL is fine. */
void stk_comm_close(struct stk_comm *c);

/* ---- who ---- */

uint32_t stk_comm_rank(const struct stk_comm *c);
uint32_t stk_comm_size(const struct stk_comm *c);
/* "alone", "forked", "openmpi", "mpich", or the name of the module. */
const char *stk_comm_kind(const struct stk_comm *c);
/* Why this is alone though a launcher started several processes, and what to do; "" if it is not.
 * Borrowed: valid until closed. */
const char *stk_comm_lacks(const struct stk_comm *c);
/* Nodes are numbered by their lowest rank, which is their leader. */
uint32_t stk_comm_nodes(const struct stk_comm *c);
uint32_t stk_comm_node(const struct stk_comm *c, uint32_t rank);
const char *stk_comm_node_name(const struct stk_comm *c, uint32_t node);
uint32_t stk_comm_leader(const struct stk_comm *c, uint32_t node);
/* The rank that is lost, or -1; why (may be NULL, size bytes) gets the reason. Any thread. */
int64_t stk_comm_lost(struct stk_comm *c, char *why, size_t size);
/* Calls lost(user, why) as soon as another rank is known to be lost, once: a launcher may end this
 * process before its own calls have failed and returned. It runs in any thread, and of this
 * communicator may only ask who is who. NULL: not any more. */
void stk_comm_on_lost(struct stk_comm *c, void (*lost)(void *user, const struct stk_err *why),
                      void *user);
/* Of less than STK_COMM_SILENT_S: a rank whose process is stopped is lost after so long. */
void stk_comm_set_patience(struct stk_comm *c, double seconds);
/* This rank cannot go on: the others fail with its name and this reason. */
void stk_comm_give_up(struct stk_comm *c, const char *why);

/* A launcher may end all ranks once one has ended without MPI_Finalize. So after a failure one rank
 * reports it, and says that it has; the others wait for that, limit_s at most. */
void stk_comm_reported(struct stk_comm *c);
void stk_comm_await_report(struct stk_comm *c, uint32_t from, double limit_s);

/* The given ranks of c in that order, as a communicator of their own; this rank is one of them.
 * Only these ranks call it, and each of them does. A rank is in at most 16 groups at once. Caller
 * closes with stk_comm_close(), before c. */
int stk_comm_group(struct stk_comm *c, const uint32_t *rank, uint32_t n, struct stk_comm **out,
                   struct stk_err *err);

/* ---- messages ---- */

/* One that is on its way; the caller's memory, and its bytes, stay in place until it is done. */
struct stk_comm_msg {
    uint32_t from;    /* received: its sender, once done */
    size_t size;      /* received: its bytes, once done */
    bool busy;        /* not done yet */
    bool sent;        /* else received */
    uint64_t room[8]; /* of the implementation */
};

#define STK_COMM_MSG_MAX ((size_t)1 << 30)

/* Messages between two ranks with the same tag arrive in order. At most STK_COMM_MSG_MAX bytes. */
int stk_comm_isend(struct stk_comm *c, uint32_t to, int tag, const void *p, size_t n,
                   struct stk_comm_msg *m, struct stk_err *err);
/* A message longer than n bytes is an error. from: STK_COMM_ANY for any rank. */
int stk_comm_irecv(struct stk_comm *c, uint32_t from, int tag, void *p, size_t n,
                   struct stk_comm_msg *m, struct stk_err *err);
/* Moves messages along and returns at once; m->busy says whether it is done. */
int stk_comm_test(struct stk_comm *c, struct stk_comm_msg *m, struct stk_err *err);
/* Waits; STK_E_STOPPED after limit_s seconds, or if a rank is lost. */
int stk_comm_wait(struct stk_comm *c, struct stk_comm_msg *m, double limit_s, struct stk_err *err);
/* Gives up a receive that is not done, so that its memory can be freed. Of one that is being sent,
 * the memory stays in use (below), unless the ranks are forked. */
void stk_comm_drop(struct stk_comm *c, struct stk_comm_msg *m);
/* After a failure, what was being sent must stay in place until the communicator is closed: frees p
 * with free() then. NULL is fine. */
void stk_comm_keep(struct stk_comm *c, void *p);

/* ---- collectives: all ranks, limit_s as above ---- */

int stk_comm_barrier(struct stk_comm *c, double limit_s, struct stk_err *err);
/* n is the same on all ranks. */
int stk_comm_bcast(struct stk_comm *c, uint32_t root, void *p, size_t n, double limit_s,
                   struct stk_err *err);
/* n bytes of each rank, in order of rank. all: size * n bytes. */
int stk_comm_allgather(struct stk_comm *c, const void *mine, size_t n, void *all, double limit_s,
                       struct stk_err *err);

enum stk_comm_op { STK_COMM_SUM, STK_COMM_MIN, STK_COMM_MAX, STK_COMM_OR };
/* In place; the result is the same on all ranks, bit by bit. */
int stk_comm_reduce_u64(struct stk_comm *c, enum stk_comm_op op, uint64_t *v, size_t n,
                        double limit_s, struct stk_err *err);
int stk_comm_reduce_f64(struct stk_comm *c, enum stk_comm_op op, double *v, size_t n,
                        double limit_s, struct stk_err *err);

/* ---- files ---- */

/* A file that all ranks of c read together: MPI-IO's collective read if there is MPI (opened with
 * .files), else each reads its part. These calls have no time limit, and wait for ranks that are
 * lost: use them in a thread that can be left behind. */
struct stk_comm_file;
int stk_comm_file_open(struct stk_comm *c, const char *path, struct stk_comm_file **out,
                       struct stk_err *err);
/* True: through MPI-IO. The same on all ranks. */
bool stk_comm_has_mpiio(const struct stk_comm *c);
/* Each rank its own range, which may be empty; *got < n only at the end of the file. */
int stk_comm_file_read_all(struct stk_comm_file *f, uint64_t off, void *p, size_t n, size_t *got,
                           struct stk_err *err);
/* After a failure it does not wait for the others. NULL is fine. */
void stk_comm_file_close(struct stk_comm_file *f);

/* ---- modules (sched/comm_mpi.c) ---- */

/* A module, for people. */
struct stk_comm_module {
    char name[32];     /* "openmpi" */
    char path[1024];   /* of the module */
    char library[160]; /* the first line of its MPI's version; "" if it does not load */
    char problem[256]; /* why it does not load; "" if it does */
    bool chosen;       /* stk_comm_open() would use it now */
};
/* Loads each module that is installed, built later, or named by $STOKER_MPI, in a child. *list:
 * caller frees with free(). */
int stk_comm_found(struct stk_comm_module **list, size_t *n, struct stk_err *err);
/* Builds a module with the site's compiler (NULL: mpicc), from the installed source, into the
 * user's folder of modules ($XDG_DATA_HOME/stoker/mpi), where it is found from then on. m is
 * filled in. The compiler's message is in err if it fails. */
int stk_comm_build(const char *mpicc, struct stk_comm_module *m, struct stk_err *err);

#endif
