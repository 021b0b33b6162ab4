/*
 * proc.h - /proc for one process. Any file may be missing, hidden, or cut short.
 */
#ifndef STK_HOST_PROC_H
#define STK_HOST_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/helper.h"

/* Of /proc/PID/io: rchar, wchar, read_bytes, write_bytes. */
#define STK_IO_COUNTS 4

struct stk_proc_stat {
    pid_t ppid;
    uint64_t start; /* in kernel clock ticks: detects a reused pid */
    uint32_t threads;
    uint64_t ticks;          /* its own CPU time */
    uint64_t children_ticks; /* of children that it waited for */
    uint64_t resident_bytes;
    char state; /* as in ps: R, S, D … */
    char comm[16];
};

/* Opens /proc for the functions below. Caller closes. */
int stk_proc_open(int *proc_fd, struct stk_err *err);
/* True if its pids are ours: not in a container that sees the /proc of the node. */
bool stk_proc_is_own(int proc_fd);

/* Reads as much of a process's file as fits, NUL-terminated. Returns its length; 0: gone. */
size_t stk_proc_read(int proc_fd, pid_t pid, const char *file, char *buf, size_t size);
/* False: gone. */
bool stk_proc_stat(int proc_fd, pid_t pid, struct stk_proc_stat *out);
/* Leaves unknown counts unchanged. */
void stk_proc_io(int proc_fd, pid_t pid, uint64_t io[STK_IO_COUNTS]);
/* A command line, separated by blanks, secrets masked, from the n bytes of cmdline. Returns the
 * length; 0: none. To read cmdline waits for a process that hangs in a stalled file system, and so
 * do stk_proc_read_all() and stk_proc_environ(): host/proc.h does not. */
size_t stk_proc_command_of(const char *list, size_t n, char *buf, size_t size);
/* Its pid as it sees it itself: in a container, another number. */
pid_t stk_proc_own_pid(int proc_fd, pid_t pid);
/* Its real user id; STK_NOBODY: unknown. */
#define STK_NOBODY ((uid_t)-1)
uid_t stk_proc_uid(int proc_fd, pid_t pid);
bool stk_proc_has_uring(int proc_fd, pid_t pid);
/* Reads a whole file of a process, up to 8 MiB, to buf->data. Returns the length. */
size_t stk_proc_read_all(int proc_fd, pid_t pid, const char *file, struct stk_buf *buf);
/* Its environment: a scheduler's variables may come last. */
size_t stk_proc_environ(int proc_fd, pid_t pid, struct stk_buf *buf);
/* The value of a variable in it; NULL: not set. Borrowed from env. */
const char *stk_proc_variable(const char *env, size_t n, const char *name);

/* ---- files that may hang --------------------------------------------------------------------- */

/* Reads files of /proc that the kernel may hold back: environ, cmdline, maps and smaps take the
 * memory lock of the process, which a process that hangs in a stalled file system may hold for as
 * long as it hangs. A helper process reads them, with a time limit; stat, status, cgroup and io do
 * not take that lock. */

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
