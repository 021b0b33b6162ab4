/*
 * progress.h - progress of a long job: a bar on a terminal, a line at intervals elsewhere.
 *
 * Commands pass the update function to the library as its callback. Any thread may call it, at any
 * rate; it returns non-zero when a signal asked to stop.
 */
#ifndef STK_CMD_PROGRESS_H
#define STK_CMD_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define STK_PROGRESS_WINDOW 16

struct stk_progress {
    FILE *to; /* NULL: silent */
    bool bar, drawn, utf8;
    const char *command;
    const char *counted; /* what is counted beside bytes; NULL: samples. Set it before the first update */
    char phase[24];
    double every_s, next_s, phase_start_s;
    /* Amounts done over the last seconds: the rate shown is the current one, not the average. */
    struct stk_progress_mark {
        double at_s;
        uint64_t done;
    } mark[STK_PROGRESS_WINDOW];
    unsigned nmarks;
    pthread_mutex_t lock;
};

/* to: where to draw, NULL for nowhere. */
void stk_progress_init(struct stk_progress *p, FILE *to, const char *command, double every_s);
/* Totals are 0 when unknown. Returns non-zero when the job should stop. */
int stk_progress_update(struct stk_progress *p, const char *phase, uint64_t bytes_done,
                        uint64_t bytes_total, uint64_t samples_done, uint64_t samples_total);
/* The same with a text of the caller's, shown verbatim when a line is due. */
int stk_progress_say(struct stk_progress *p, const char *text);
/* Erases the bar. Call it before printing anything else. */
void stk_progress_clear(struct stk_progress *p);
void stk_progress_release(struct stk_progress *p);

/* SIGINT and SIGTERM ask to stop; a second one kills. */
void stk_stop_on_signals(void);
/* So do a terminal and a reader of the output that are gone: for a command that must remove what it
 * made. */
void stk_stop_on_loss(void);
int stk_stop_signal(void); /* the signal received, or 0 */

#endif
