/*
 * spawn.h - other programs: where they are, starting them without a shell, how they ended.
 *
 * A child is a struct that says what to start, filled in by name; what is not said is as it is
 * with us. The three of fd[] must be said:
 *
 *     struct stk_child c = {.argv = argv, .fd = {STK_FD_NULL, STK_FD_PIPE, STK_FD_KEEP}};
 *     int why = stk_child_start(&c);
 *     ... read c.pipe[1] ...
 *     stk_child_hang_up(&c);
 *     why = stk_child_wait(&c);
 *     ... c.ending, c.use ...
 *
 * A program is started by vfork(), which copies no page tables. Only where a function runs in the
 * child is it fork(): that function may do what it likes, it has memory of its own.
 */
#ifndef STK_BASE_SPAWN_H
#define STK_BASE_SPAWN_H

#include <sched.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* Where execvp() would find it: malloc'ed. 0, or errno (ENOENT, EACCES, ENOMEM). */
int stk_find_program(const char *name, char **out);
/* Where a program of the system is that we start by ourselves (sbatch, mksquashfs): as above, but
 * looked up once, told to stk_tools_tell(), and where we are root refused (STK_E_UNSUPPORTED) when
 * somebody else could have put it there: the entry of PATH, a folder above it or the file itself is
 * writable by others, or the entry is not absolute. Else 0 or errno: the caller says what is
 * missing. *path: borrowed, for good. */
int stk_find_tool(const char *name, const char **path, struct stk_err *err);
/* Who is told where each tool was found, when it is first needed; NULL: nobody. */
void stk_tools_tell(void (*told)(const char *name, const char *path));
/* Where this program is. The preload library has a way of its own. */
int stk_self_path(char *out, size_t size, struct stk_err *err);
/* Our environment: what keep() wants of it ("NAME=value"), and then `more`, which ends in NULL and
 * may be NULL. malloc'ed; the texts are borrowed. NULL: no memory. Caller frees with free(). */
const char **stk_environment(bool (*keep)(const char *var, const void *user), const void *user,
                             const char *const *more);

/* ---- how a child ended -------------------------------------------------------------------- */

struct stk_ending {
    int status; /* as a shell has it: 128 + signal where one ended it */
    int signal; /* that ended it, or 0 */
};
/* From what waitpid() says. */
struct stk_ending stk_ending_of(int wait_status);
/* waitpid() for one that was not started as a struct stk_child: an orphan that came to us, say. use
 * may be NULL. 0 or errno, then the status is 0. */
int stk_reap(pid_t pid, int *wait_status, struct rusage *use);
/* User and system time. */
double stk_cpu_seconds(const struct rusage *use);

/* ---- a child ------------------------------------------------------------------------------ */

/* What its standard input, output or errors are, where it is not a file descriptor of ours. */
enum {
    STK_FD_KEEP = -1, /* as ours */
    STK_FD_NULL = -2, /* /dev/null */
    STK_FD_PIPE = -3, /* a pipe; our end of it is in pipe[] */
};

struct stk_child {
    /* What is started. All is borrowed, until stk_child_start() returns. */
    const char *const *argv; /* NULL: no program, inside() is all */
    const char *path;        /* NULL: argv[0], looked for in PATH as a shell does */
    const char *const *env;  /* NULL: ours */
    const char *dir;         /* NULL: ours */
    const cpu_set_t *cpus;   /* NULL: ours */
    int fd[3];
    /* In a process group of its own a terminal's Ctrl-C does not reach it, and signals that we
     * send reach its children too. */
    bool own_group;
    /* Signals that are ignored or blocked with us are so with it (nohup, say). Else it gets them
     * as a program expects them. */
    bool keep_signals;
    int death_signal; /* it gets this when the thread that started it ends; 0: none */
    /* Runs in the child before the program, with everything above done. Not 0: errno, for
     * stk_child_start() to return. Without a program: what the child exits with. */
    int (*inside)(void *user);

    /* For stk_child_attend(). */
    double timeout_s;        /* 0: none */
    double grace_s;          /* between asking it to end and ending it; 0: it is not asked */
    int (*tick)(void *user); /* called now and then; not 0: it is ended */
    struct stk_buf *text[3]; /* where what comes through its pipes goes; NULL: it stays there */
    size_t text_max[3];      /* bytes; what is beyond is read and dropped */
    void *user;

    /* Filled in by stk_child_start(). */
    pid_t pid; /* 0: it does not run, or was waited for */
    int pipe[3];
    double start_s; /* stk_now() just before it was started */

    /* Filled in when it was waited for. */
    struct stk_ending ending;
    struct rusage use;
    double wall_s;           /* from start_s until it was seen to have ended */
    bool timed_out, stopped; /* why it was ended by stk_child_attend() */
};

/* 0, or errno: it does not run, and nothing is left of it. That no such program exists, or that it
 * is none, is found here. */
int stk_child_start(struct stk_child *c);
/* Whether it has ended; it can still be waited for. */
bool stk_child_has_ended(const struct stk_child *c);
/* Waits for its end. 0, or errno: nobody can tell how it ended (somebody else waited for it). */
int stk_child_wait(struct stk_child *c);
/* The same for at most that long (0: looks once); ETIMEDOUT: it still runs. */
int stk_child_wait_for(struct stk_child *c, double seconds);
/* Waits for its end, collects text, and ends it when its time is up or tick() says so: SIGTERM,
 * then SIGKILL after grace_s, to its group if it has its own. What it wrote is read before this
 * returns; a process that keeps its pipes open does not keep us. As stk_child_wait(). */
int stk_child_attend(struct stk_child *c);
/* Sends a signal to it, and to all of its group where it has its own. Nothing if it is gone. */
void stk_child_kill(const struct stk_child *c, int signal);
/* One read of what comes through pipe[which]; beyond max bytes in `to`, it is dropped. 1: there was
 * something, 0: there is nothing yet, -1: it was the end, and the pipe is closed. */
int stk_child_read(struct stk_child *c, int which, struct stk_buf *to, size_t max);
/* Closes our ends of its pipes. */
void stk_child_hang_up(struct stk_child *c);

#endif
