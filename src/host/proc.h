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
 * do stk_proc_read_all() and stk_proc_environ(): host/proc_reader.h does not. */
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

#endif
