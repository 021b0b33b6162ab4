/*
 * opened.h - what the processes of this node have open: files, the folders that they work in, files
 * that they have mapped, and what is mounted for them. Those of other users, of another PID
 * namespace, and those that hide (prctl(2), hidepid) are not seen.
 */
#ifndef STK_HOST_OPENED_H
#define STK_HOST_OPENED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"

struct stk_opened {
    char *path; /* as the kernel names it: below another root in a container */
    pid_t pid;
    char comm[16];
    bool place;    /* it works in that folder, or has it mounted */
    bool known;    /* `inode` is */
    bool any_dev;  /* the device is not, as for files that are mapped from btrfs */
    dev_t dev;
    ino_t inode;
};

/* Zeroed: nothing was looked at. */
struct stk_opened_list {
    struct stk_opened *item;
    size_t n;
    double at; /* when it was made (stk_now()); 0: never */
};

/* Looks at all processes, unless that was done within the last second. wanted: by the path. An
 * error: it cannot be known. Caller releases the list, also after an error. */
int stk_opened_look(struct stk_opened_list *l, bool (*wanted)(const char *path),
                    struct stk_err *err);
void stk_opened_release(struct stk_opened_list *l);

/* Whether a process has that file open; reads: for reading. */
bool stk_proc_has_open(int proc_fd, pid_t pid, const struct stat *file, bool reads);
/* A process that is stopped and has that file open; 0: none that can be seen. */
pid_t stk_proc_stopped_with(const struct stat *file);

#endif
