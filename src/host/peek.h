/*
 * peek.h - reads files of /proc that the kernel may hold back: environ, cmdline, maps and smaps
 * take the memory lock of the process, which a process that hangs in a stalled file system may hold
 * for as long as it hangs. A child reads them, with a time limit; stat, status, cgroup and io do
 * not take that lock.
 */
#ifndef STK_HOST_PEEK_H
#define STK_HOST_PEEK_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"

struct stk_peek;

enum stk_peeked {
    STK_PEEK_READ,  /* possibly nothing: the process is gone, or of another user */
    STK_PEEK_HANGS, /* the process did not let it be read in time */
    STK_PEEK_LATER, /* the round has used up its time, or there is no child: not tried */
};

/* proc_fd: of /proc, borrowed. Caller closes. */
int stk_peek_open(int proc_fd, struct stk_peek **out, struct stk_err *err);
void stk_peek_close(struct stk_peek *k); /* NULL is fine */
/* Whether pid is a child that reads for us, or one that was killed and has not ended. */
bool stk_peek_is_child(const struct stk_peek *k, pid_t pid); /* NULL has none */
/* Begins a round: all reads of a round together wait a limited time for processes that hang. */
void stk_peek_round(struct stk_peek *k);
/* Reads /proc/PID/file into to, without earlier content. state: of the process, as in ps. One that
 * waits for a file system (D) gets less time: it is likely to hang. */
enum stk_peeked stk_peek_read(struct stk_peek *k, pid_t pid, const char *file, char state,
                              struct stk_buf *to);

#endif
