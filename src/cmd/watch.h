/* watch.h - what the files of `stoker watch` share. */
#ifndef STK_CMD_WATCH_H
#define STK_CMD_WATCH_H

#include <sys/types.h>

#include "cmd/cmd.h"

struct stk_watch_target;

struct stk_watch_sampling {
    double every_s;
    uint64_t samples; /* 0: no limit */
    /* Ends when its standard input ends, or has been silent this long: srun may be killed without a
     * chance to end its tasks. 0: does not read it. */
    double lifeline_s;
};

/* Prints samples of the job's processes on this node until a signal or its lifeline ends it. */
int stk_watch_here(struct stk_run *run, const struct stk_watch_target *target,
                   const struct stk_watch_sampling *how);
void stk_nap(double seconds);

/* Shows what runs in a folder (report/live/live.h), until it ends. */
struct stk_watch_folder {
    double every_s;
    uint64_t samples; /* 0: no limit */
    bool once;
    const char *trust;
};
int stk_watch_folder(struct stk_run *run, const char *path, const struct stk_watch_folder *how);

#endif
