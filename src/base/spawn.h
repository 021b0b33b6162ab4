/*
 * spawn.h - other programs: finding them, starting them without a shell, waiting for them.
 *
 * A child is a struct that describes what to start; fields left out are inherited. The three
 * entries of fd[] are required:
 *
 *     struct stk_child c = {.argv = argv, .fd = {STK_FD_NULL, STK_FD_PIPE, STK_FD_KEEP}};
 *     int why = stk_child_start(&c);
 *     ... read c.pipe[1] ...
 *     stk_child_hang_up(&c);
 *     why = stk_child_wait(&c);
 *     ... c.ending, c.use ...
 *
 * Programs are started by vfork(), which copies no page tables. If a function runs in the child, it
 * is fork(): that function has its own memory and may do anything.
 */
#ifndef STK_BASE_SPAWN_H
#define STK_BASE_SPAWN_H

#include <sched.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* The path execvp() would use, malloc'ed. 0, or errno (ENOENT, EACCES, ENOMEM). */
int stk_find_program(const char *name, char **out);
/* The path of a system program that stoker starts on its own (sbatch, mksquashfs): as above, but
 * looked up once and reported through stk_tools_tell(). Root refuses (STK_E_UNSUPPORTED) a program
 * that another user could have put there: the PATH entry, a folder above it or the file itself is
 * writable by others, or the entry is not absolute. Else 0 or errno: the caller says what is
 * missing. *path: borrowed, valid forever. */
int stk_find_tool(const char *name, const char **path, struct stk_err *err);
/* Sets the function that is called with each tool's path when it is first needed; NULL: none. */
void stk_tools_tell(void (*told)(const char *name, const char *path));
/* The path of this program. The preload library has its own way. */
int stk_self_path(char *out, size_t size, struct stk_err *err);
/* Our environment: the variables ("NAME=value") that keep() accepts, then `more`, which ends in
 * NULL and may be NULL. malloc'ed; the texts are borrowed. NULL: no memory. Caller frees with
 * free(). */
const char **stk_environment(bool (*keep)(const char *var, const void *user), const void *user,
                             const char *const *more);

/* ---- how a child ended -------------------------------------------------------------------- */

struct stk_ending {
    int status; /* as in a shell: 128 + signal if a signal ended it */
    int signal; /* the signal that ended it, or 0 */
};
/* From the status of waitpid(). */
struct stk_ending stk_ending_of(int wait_status);
/* waitpid() for a process that is not a struct stk_child, such as an adopted orphan. use may be
 * NULL. Returns 0, or errno with status 0. */
int stk_reap(pid_t pid, int *wait_status, struct rusage *use);
/* User and system time. */
double stk_cpu_seconds(const struct rusage *use);

/* ---- a child ------------------------------------------------------------------------------ */

/* Its standard input, output or error, if not a descriptor of ours. */
enum {
    STK_FD_KEEP = -1, /* as ours */
    STK_FD_NULL = -2, /* /dev/null */
    STK_FD_PIPE = -3, /* a pipe; our end of it is in pipe[] */
    STK_FD_SOCKET = -4, /* a stream in both directions; likewise */
};

struct stk_child {
    /* What to start. Everything is borrowed until stk_child_start() returns. */
    const char *const *argv; /* NULL: no program, only inside() */
    const char *path;        /* NULL: argv[0], looked up in PATH as a shell does */
    const char *const *env;  /* NULL: ours */
    const char *dir;         /* NULL: ours */
    const cpu_set_t *cpus;   /* NULL: ours */
    int fd[3];
    /* In its own process group: a terminal's Ctrl-C does not reach it, and our signals reach its
     * children, too. */
    bool own_group;
    /* Inherits ignored and blocked signals (as with nohup). Else it starts with the defaults. */
    bool keep_signals;
    int death_signal; /* sent to it when the thread that started it ends; 0: none */
    /* Runs in the child before the program, after all of the above. Non-zero: an errno that
     * stk_child_start() returns. Without a program, it is the exit status. */
    int (*inside)(void *user);

    /* For stk_child_attend(). */
    double timeout_s;        /* 0: none */
    double grace_s;          /* between SIGTERM and SIGKILL; 0: no SIGTERM */
    int (*tick)(void *user); /* called at intervals; non-zero: the child is ended */
    struct stk_buf *text[3]; /* collect what comes through its pipes; NULL: not read */
    size_t text_max[3];      /* bytes; more is read and dropped */
    void *user;

    /* Filled in by stk_child_start(). */
    pid_t pid; /* 0: not running, or waited for */
    int pipe[3];
    double start_s; /* stk_now() just before the start */

    /* Filled in by waiting. */
    struct stk_ending ending;
    struct rusage use;
    double wall_s;           /* from start_s until its end was noticed */
    bool timed_out, stopped; /* why stk_child_attend() ended it */
};

/* 0, or errno: it does not run, and nothing is left behind. Reports also that the program does not
 * exist or cannot be executed. */
int stk_child_start(struct stk_child *c);
/* True if it has ended; it can still be waited for. */
bool stk_child_has_ended(const struct stk_child *c);
/* Waits for its end. 0, or errno: how it ended is unknown (something else waited for it). */
int stk_child_wait(struct stk_child *c);
/* The same for at most that long (0: checks once); ETIMEDOUT: it is still running. */
int stk_child_wait_for(struct stk_child *c, double seconds);
/* Waits for its end, collects text, and ends it at its timeout or when tick() says so: SIGTERM,
 * then SIGKILL after grace_s, to its group if it has its own. Reads all output before it returns,
 * but does not wait for other processes that keep the pipes open. Returns like stk_child_wait(), or
 * ETIMEDOUT like stk_child_end(). */
int stk_child_attend(struct stk_child *c);
/* Sends a signal to it, or to its group if it has its own. Does nothing if it is gone. */
void stk_child_kill(const struct stk_child *c, int signal);
/* Kills it and waits for its end, at most that long. ETIMEDOUT: the kernel does not let it go,
 * since it waits for a file system or a driver. It is left behind, and waited for when it has
 * ended. */
int stk_child_end(struct stk_child *c, double seconds);
#define STK_CHILD_END_S 5.0 /* for one that is not expected to hang */
#define STK_CHILDREN_LEFT 64 /* at most; stk_children_left() counts those that have not ended */
unsigned stk_children_left(void);
bool stk_child_is_left(pid_t pid);
/* Reads once from pipe[which] into `to`; drops bytes beyond max. 1: read something, 0: nothing yet,
 * -1: end of file, and the pipe is closed. */
int stk_child_read(struct stk_child *c, int which, struct stk_buf *to, size_t max);
/* Closes our ends of its pipes. */
void stk_child_hang_up(struct stk_child *c);

/* ---- files that are installed ---------------------------------------------------------------- */

/* The files that are installed with stoker, other than its programs. */

/* The folder they are installed in. */
extern const char stk_installed_folder[];
/* The path of one: beside this program (a build tree), in the folder as it is relative to the
 * program (an installation that was moved as a whole), or in the folder. NULL: missing. Caller
 * frees with free(). */
char *stk_installed(const char *name);
/* Calls each() for those folders, in that order, until it returns non-zero; returns that. */
int stk_installed_folders(int (*each)(void *user, const char *folder), void *user);

#endif
