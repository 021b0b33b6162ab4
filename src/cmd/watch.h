/* watch.h - what the files of `stoker watch` share. */
#ifndef STK_CMD_WATCH_H
#define STK_CMD_WATCH_H

#include <sys/types.h>

#include "cmd/cmd.h"

/* Prints samples of the job's processes on this node until a signal stops it, or `samples` are
 * printed (0: no limit). owner: as for stk_watcher_new(). */
int stk_watch_here(struct stk_run *run, uint64_t job, uid_t owner, double every_s,
                   uint64_t samples);
void stk_nap(double seconds);

#endif
