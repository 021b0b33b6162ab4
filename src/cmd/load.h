/*
 * load.h - one run of `stoker load`. load.c ties the parts together: load_loop.c takes the batches
 * and measures, load_state.c reads and writes states, and rates the shuffle.
 */
#ifndef STK_CMD_LOAD_H
#define STK_CMD_LOAD_H

#include "cmd/cmd.h"
#include "report/data.h"

enum stk_consume { STK_CONSUME_NONE, STK_CONSUME_TOUCH, STK_CONSUME_HASH };

struct stk_load_settings {
    struct stk_common common;
    struct stk_open_options open;
    struct stk_loader_options loader; /* rank and state are filled in by the run */
    int consume; /* enum stk_consume */
    const char *rank, *state, *ids;
    const char **from;
    uint64_t steps;
    bool mixing;
};

struct stk_load {
    struct stk_run *run;
    const struct stk_load_settings *s;
    uint64_t samples_total; /* of this run, approximately; 0: unknown */
    FILE *ids;
    double next_tick_s;
    struct stk_histogram epoch_time; /* of the current epoch, as r.time */
    struct stk_load_result r;
};

/* Starts the counters. Call it before the loader is opened. */
void stk_load_begin(struct stk_load *l);
/* Takes batches until --epochs or --steps are done: 0, or a negative code with run->err filled.
 * l->r holds the measurements in either case. */
int stk_load_loop(struct stk_load *l);
/* Does what --consume says with a batch; writes --ids. */
int stk_load_consume(struct stk_load *l, const struct stk_batch *b);

/* The state to start from; *text is NULL if there is none. Caller frees with free(). */
int stk_load_read_state(struct stk_load *l, char **text);
int stk_load_write_state(struct stk_load *l);

/* Fills l->r.mixing. */
int stk_load_mix(struct stk_load *l);

#endif
