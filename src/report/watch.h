/*
 * watch.h - a running job as one screen: what it has and uses now, node by node, and its busiest
 * processes. Program names are escaped for the terminal.
 */
#ifndef STK_REPORT_WATCH_H
#define STK_REPORT_WATCH_H

#include "sched/slurm/slurm.h"
#include "job/watch.h"
#include "result/field.h"

enum stk_watch_sort { STK_WATCH_BY_CPU, STK_WATCH_BY_MEMORY };

struct stk_watch_screen {
    const struct stk_slurm_job *job;
    const struct stk_watch_node *node;
    size_t nnodes;
    unsigned columns, rows; /* rows 0: all processes */
    bool utf8;
    enum stk_watch_sort sort;
};

/* Lines that fit into the columns; at most `rows` of them. */
void stk_watch_text(const struct stk_watch_screen *s, struct stk_buf *out);
/* "runs on 2 nodes, 5 processes, 12 threads, time 10.0 s, CPU 3.9 of 4 CPUs busy, …" */
void stk_watch_sentence(const struct stk_watch_screen *s, struct stk_buf *out);
extern const struct stk_result_kind stk_watch_kind; /* of a struct stk_watch_screen */

#endif
