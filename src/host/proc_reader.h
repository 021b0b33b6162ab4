/*
 * proc_reader.h - reads files of /proc that the kernel may hold back: environ, cmdline, maps and
 * smaps take the memory lock of the process, which a process that hangs in a stalled file system
 * may hold for as long as it hangs. A helper process reads them, with a time limit; stat, status,
 * cgroup and io do not take that lock.
 */
#ifndef STK_HOST_PROC_READER_H
#define STK_HOST_PROC_READER_H

#include "base/helper.h"

struct stk_proc_reader {
    struct stk_helper helper; /* one that had to be killed is replaced at the next read */
    double left_s;            /* of the round */
};

enum stk_proc_read {
    STK_PROC_READ,  /* possibly nothing: the process is gone, or of another user */
    STK_PROC_HANGS, /* the process did not let it be read in time */
    STK_PROC_LATER, /* the round has used up its time, or there is no helper: not tried */
};

/* proc_fd: of /proc, borrowed. Begins a round. */
void stk_proc_reader_init(struct stk_proc_reader *r, int proc_fd);
void stk_proc_reader_release(struct stk_proc_reader *r);
/* Whether pid is a helper that reads for us, or one that was killed and has not ended. */
bool stk_proc_reader_is(const struct stk_proc_reader *r, pid_t pid);
/* Begins a round: all reads of a round together wait a limited time for processes that hang. */
void stk_proc_reader_round(struct stk_proc_reader *r);
/* Reads /proc/PID/file into to, without earlier content. state: of the process, as in ps. One that
 * waits for a file system (D) gets less time: it is likely to hang. */
enum stk_proc_read stk_proc_reader_read(struct stk_proc_reader *r, pid_t pid, const char *file,
                                        char state, struct stk_buf *to);

#endif
