/*
 * replay.h - makes a workload of a profile, which `stoker bench` replays. A profile has counters,
 * not calls: what it does not know is assumed, and every assumption is said.
 */
#ifndef STK_REPLAY_REPLAY_H
#define STK_REPLAY_REPLAY_H

#include "analysis/analysis.h"
#include "bench/workload.h"

/* Sentences about what was assumed or left out. All zero: none. */
struct stk_replay_said {
    struct stk_replay_line {
        const char *text;
        const char *key; /* of the workload, that is assumed; NULL: none, or several */
        bool failed;     /* it says that the run failed */
    } *line;
    size_t n;
    struct stk_arena arena; /* of the texts */
};

/* The workload of the profile, settled. Refuses a profile that has no reads of files. Caller frees
 * *w with stk_workload_release() and *said with stk_replay_said_release(), also on error. */
int stk_replay(const struct stk_analysis *a, struct stk_workload *w, struct stk_replay_said *said,
               struct stk_err *err);
/* The same, written to the file `path`. */
int stk_replay_write(const struct stk_analysis *a, const char *path, struct stk_replay_said *said,
                     struct stk_err *err);
void stk_replay_said_release(struct stk_replay_said *said);

#endif
