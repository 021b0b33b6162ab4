/*
 * apart.h - the nodes of ranks that a launcher started and that cannot talk to each other (srun
 * --mpi=none, no MPI): each stages alone and says in a file how far it is, and rank 0 waits for all,
 * so that one speaks for all.
 */
#ifndef STK_STAGE_APART_H
#define STK_STAGE_APART_H

#include "stage/spread.h"

struct stk_apart;
/* dir: a folder that all nodes see; NULL, or one that cannot be used: the others are not heard of.
 * Caller closes. NULL: no memory. */
struct stk_apart *stk_apart_begin(const struct stk_rank *r, const char *dir);
/* This rank stages for its node, and speaks for it. */
bool stk_apart_leads(const struct stk_apart *a);
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
