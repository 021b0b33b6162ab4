/*
 * proc.h - what /proc says of one process. Any of it may be gone, hidden, or cut short.
 */
#ifndef STK_HOST_PROC_H
#define STK_HOST_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

/* What /proc/PID/io says: rchar, wchar, read_bytes, write_bytes. */
#define STK_IO_COUNTS 4

struct stk_proc_stat {
    pid_t ppid;
    uint64_t start; /* of the kernel's clock: tells a number that is used again */
    uint32_t threads;
    uint64_t ticks;          /* its own CPU time */
    uint64_t children_ticks; /* of children it has waited for */
    uint64_t resident_bytes;
    char state; /* as ps: R, S, D … */
    char comm[16];
};

/* /proc itself, for the functions below. Caller closes. */
int stk_proc_open(int *proc_fd, struct stk_err *err);
/* Are its numbers ours? In a container that is shown the node's, they are not. */
bool stk_proc_is_own(int proc_fd);

/* A file of a process, NUL-terminated; as much of it as fits. Returns its length, 0: gone. */
size_t stk_proc_read(int proc_fd, pid_t pid, const char *file, char *buf, size_t size);
/* False: gone. */
bool stk_proc_stat(int proc_fd, pid_t pid, struct stk_proc_stat *out);
/* What is not told stays as it is. */
void stk_proc_io(int proc_fd, pid_t pid, uint64_t io[STK_IO_COUNTS]);
/* Its words with blanks between them, secrets masked. Returns their length, 0: it has none. */
size_t stk_proc_command(int proc_fd, pid_t pid, char *buf, size_t size);
/* What it knows itself by: in a container another number. */
pid_t stk_proc_own_pid(int proc_fd, pid_t pid);
/* Whose it is (its real user id); STK_NOBODY: not known. */
#define STK_NOBODY ((uid_t)-1)
uid_t stk_proc_uid(int proc_fd, pid_t pid);
bool stk_proc_has_uring(int proc_fd, pid_t pid);
/* All of its environment, at buf->data: what a scheduler has set may be behind much else. Returns
 * its length. */
size_t stk_proc_environ(int proc_fd, pid_t pid, struct stk_buf *buf);
/* A variable in it. NULL: not set. Borrowed from env. */
const char *stk_proc_variable(const char *env, size_t n, const char *name);

#endif
