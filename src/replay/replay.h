/*
 * replay.h - makes a workload of a profile, which `stoker bench` replays. A profile has counters,
 * not calls: what it does not know is assumed, and every assumption is said.
 */
#ifndef STK_REPLAY_REPLAY_H
#define STK_REPLAY_REPLAY_H

#include "analysis/analysis.h"

/* Sentences about what was assumed or left out. All zero: none. */
struct stk_replay_said {
    const char **line;
    size_t n;
    struct stk_arena arena; /* of the lines */
};

/* Writes the workload of the profile to the file `path`. Refuses a profile that has no reads of
 * files. Caller frees *said with stk_replay_said_release(), also on error. */
int stk_replay_write(const struct stk_analysis *a, const char *path, struct stk_replay_said *said,
                     struct stk_err *err);
/* The same as text. */
int stk_replay_text(const struct stk_analysis *a, struct stk_buf *out, struct stk_replay_said *said,
                    struct stk_err *err);
void stk_replay_said_release(struct stk_replay_said *said);

#endif
