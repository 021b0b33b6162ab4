/*
 * tree.h - the processes of the node, and which of them are ours: all below one process, or those
 * of a job, however that is told. One table for whoever samples (`profile`) or shows (`watch`).
 *
 * A process that is ours stays ours, also when its parent ends; what is below one that is ours is
 * ours.
 */
#ifndef STK_HOST_TREE_H
#define STK_HOST_TREE_H

#include "host/proc.h"

/* What a process is in a job: told of one, passed on to all below it. */
struct stk_member {
    char step[16];  /* "0", "batch"; "": not known */
    int64_t rank;   /* in its step; -1: none */
    bool elsewhere; /* of another node of the job, where several are one machine */
};

struct stk_proc {
    pid_t pid;
    struct stk_proc_stat stat; /* as last read */
    uint64_t ticks_before;     /* stat.ticks at the look before; 0: it is new */
    bool ours;
    bool above; /* not ours, but what is below it is */
    bool alive, fresh, undecided;
    struct stk_member member;
    /* For whoever looks; the tree keeps it while the process lives, and after if it is ours. */
    bool examined; /* false again when it runs another program */
    bool uring;
    uint16_t age;  /* samples it was seen in */
    pid_t own_pid; /* as stk_proc_own_pid; 0: not asked */
    uint64_t io[STK_IO_COUNTS];
    char *command; /* malloc'ed; NULL: not asked for */
};

struct stk_tree_rules {
    pid_t root; /* all below it are ours; 0: only those that ask() knows, and those below */
    pid_t skip; /* never looked at */
    bool ended; /* remember those of ours that have ended */
    /* Sets ours or above, and member. Asked of everybody on the node, and again when a process runs
     * another program: so strangers are read at every look. NULL: they are passed over. */
    void (*ask)(void *user, int proc_fd, struct stk_proc *p);
    void *user;
};

struct stk_tree {
    struct stk_tree_rules rules;
    int proc_fd;        /* of /proc */
    struct stk_proc *p; /* everybody on the node we may see, sorted by pid */
    size_t n, room;
    struct stk_proc *gone; /* ours that have ended */
    size_t ngone;
    double next_scan_s;
    unsigned scans;
    uint64_t reaped_io[STK_IO_COUNTS]; /* of those the root has waited for */
};

int stk_tree_open(struct stk_tree *t, const struct stk_tree_rules *rules, struct stk_err *err);
void stk_tree_release(struct stk_tree *t); /* all zero but proc_fd = -1 is fine */
/* Finds new processes, reads stat of ours, takes out who has ended. Fails when /proc cannot be
 * listed; the table is then as it was. */
int stk_tree_look(struct stk_tree *t, struct stk_err *err);
/* A child of the root has ended and is not yet waited for: its last counts. */
void stk_tree_ended(struct stk_tree *t, pid_t pid);

/* What this thread has used: what sampling may cost is a share of that, however busy the node. */
double stk_thread_cpu_s(void);

#endif
