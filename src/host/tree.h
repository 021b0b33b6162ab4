/*
 * tree.h - the processes of the node, and which of them are ours: all descendants of one process,
 * or those of a job. `profile` samples this table and `watch` shows it.
 *
 * A process of ours stays ours even when its parent ends, and so do its descendants.
 */
#ifndef STK_HOST_TREE_H
#define STK_HOST_TREE_H

#include "host/proc.h"

/* The place of a process in a job, inherited by its descendants. */
struct stk_proc_step {
    char step[16];  /* "0", "batch"; "": unknown */
    int64_t rank;   /* in its step; -1: none */
    bool elsewhere; /* on another node of the job, if several nodes are one machine */
    bool own;       /* from the process itself, not from its parent */
};

struct stk_proc {
    pid_t pid;
    struct stk_proc_stat stat; /* as last read */
    uint64_t ticks_before;     /* stat.ticks at the previous look; 0: new */
    bool ours;
    bool above;  /* not ours, but its descendants are */
    bool barred; /* neither it nor its descendants are ours, wherever they come from */
    bool again;  /* could not be read: ask() is called again at the next look */
    bool alive, fresh, undecided;
    struct stk_proc_step member;
    /* For the user of the tree, which keeps it while the process lives, and afterwards if it is
     * ours. */
    bool examined; /* reset when it executes another program */
    bool uring;
    uint16_t age;  /* number of samples that include it */
    pid_t own_pid; /* from stk_proc_own_pid(); 0: not asked */
    uint64_t io[STK_IO_COUNTS];
    char *command; /* malloc'ed; NULL: not read */
};

struct stk_tree_rules {
    pid_t root; /* its descendants are ours; 0: only those that ask() selects, and their
                 * descendants */
    pid_t skip; /* never examined */
    bool ended; /* remember our processes after their end */
    /* Sets ours, above or barred, and member, and again if that needs another try. Called for every process of the node, and again when it
     * executes another program, so each look reads foreign processes, too. NULL: they are
     * skipped. */
    void (*ask)(void *user, int proc_fd, struct stk_proc *p);
    void *user;
};

struct stk_tree {
    struct stk_tree_rules rules;
    int proc_fd;        /* of /proc */
    struct stk_proc *p; /* all visible processes of the node, sorted by pid */
    size_t n, room;
    struct stk_proc *gone; /* ours that have ended */
    size_t ngone;
    double next_scan_s;
    unsigned scans;
    uint64_t reaped_io[STK_IO_COUNTS]; /* of processes that the root waited for */
};

int stk_tree_open(struct stk_tree *t, const struct stk_tree_rules *rules, struct stk_err *err);
void stk_tree_release(struct stk_tree *t); /* accepts all zero but proc_fd = -1 */
/* Finds new processes, reads stat of ours, removes those that have ended. Fails if /proc cannot be
 * listed; the table is then unchanged. */
int stk_tree_look(struct stk_tree *t, struct stk_err *err);
/* Reads the last counts of a child of the root that has ended and is not yet waited for. */
void stk_tree_ended(struct stk_tree *t, pid_t pid);

/* CPU time of this thread, which limits the cost of sampling however busy the node is. */
double stk_thread_cpu_s(void);

#endif
