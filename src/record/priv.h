/* priv.h - shared by the parts of the launcher. */
#ifndef STK_RECORD_PRIV_H
#define STK_RECORD_PRIV_H

#include <pthread.h>
#include <signal.h>
#include <sys/types.h>
#include <time.h>

#include "base/buf.h"
#include "base/spawn.h"
#include "record/folder.h"
#include "record/launch.h"
#include "record/sampler.h"
#include "proflog/log.h"

enum stk_linkage { STK_LINK_UNKNOWN, STK_LINK_DYNAMIC, STK_LINK_STATIC, STK_LINK_SETUID };

/* What matters for preloading about a program file. */
struct stk_program {
    enum stk_linkage linkage;
    bool other_libc; /* for another C library or machine: preloading would break it */
};

struct stk_copier; /* record/spool.c */

struct stk_launch {
    struct stk_launch_options o;
    struct stk_arena arena;
    struct stk_rank rank;
    bool ranked; /* rank.world is meaningful */
    char host[64];
    char *name;         /* of the program, usable as a file name */
    char *program_path; /* found in PATH; NULL: not found */
    struct stk_program program;
    char *preload; /* malloc'ed */
    char cwd[4096];
    struct stk_folder folder; /* the profile's */
    const char *dir;          /* its path; NULL: nothing is recorded */
    bool made_dir;
    bool by_command;       /* run_id is derived from the command: another run of it has the same
                              id */
    char stem[96];         /* HOST.PID, or HOST.PID.rRANK for one of many tasks */
    struct sigaction size; /* the original SIGXFSZ, for the program */
    const char *logs;      /* dir or spool: where logs and readings are written */
    struct stk_folder spool_folder;
    const char *spool; /* its path; NULL: none */
    char slots[96];    /* the file of slots for small logs; "": none */
    int slots_fd;      /* -1: none */
    char run_name[128];
    const char *readings_name, *run_id;
    uint64_t start_real_ns, start_mono_ns, end_real_ns, end_mono_ns;
    const char *local_dir; /* NULL: none */
    uint64_t local_free_bytes;
    pid_t child;
    bool ended;
    struct stk_ending ending;
    double cpu_s;
    uint64_t max_resident_bytes; /* of one process, from the kernel */
    uint64_t logs_found, unseen;
    const char *spool_left, *warning;
    struct stk_sampler *sampler;
    bool stuck; /* the sampler's thread hangs, and uses this struct */
    struct stk_copier *copier;
    const char **note; /* malloc'ed; the texts are in the arena */
    size_t nnotes;
};

/* record/begin.c */
void stk_launch_note(struct stk_launch *l, const char *fmt, ...) STK_PRINTF(2, 3);
void stk_launch_warn(struct stk_launch *l, const char *fmt, ...) STK_PRINTF(2, 3);

/* launch.c */
uint64_t stk_launch_clock(clockid_t clock); /* ns */

/* record/exec.c */
void stk_program_look(const char *path, struct stk_program *p);
/* Whether the preload library writes logs that this stoker reads. */
bool stk_launch_preload_fits(const char *path);
/* Checks that the options' patterns fit into the library's limits. */
int stk_launch_check_rules(const struct stk_launch_options *o, const char *cwd,
                           struct stk_err *err);
/* Sets the program's environment. Call it in the child. 0 or errno. */
int stk_launch_environment(const struct stk_launch *l);

/* record/dir.c */
/* Determines the run, finds or creates its folder, and writes the run file there. */
int stk_launch_take_dir(struct stk_launch *l, struct stk_err *err);
/* Removes this run from the folder again. */
void stk_launch_drop_dir(struct stk_launch *l);

/* record/unseen.c */
struct stk_unseen {
    pid_t pid;
    const char *command; /* Borrowed from the sampler. */
    uint64_t io[STK_IO_COUNTS];
};
/* Lists processes of the tree without a log, most bytes first; malloc'ed, caller frees with free().
 * Also counts the logs. */
int stk_launch_unseen(struct stk_launch *l, struct stk_unseen **out, size_t *n,
                      struct stk_err *err);

/* record/spool.c */
int stk_launch_take_spool(struct stk_launch *l, struct stk_err *err);
/* Removes the spool and its content. */
void stk_launch_drop_spool(struct stk_launch *l);
/* A node-local folder with room to stage data; NULL: none. */
const char *stk_launch_local_dir(uint64_t *free_bytes);
int stk_copier_start(struct stk_launch *l, struct stk_err *err);
/* Copies the rest and removes the spool; sets spool_left if that fails. */
int stk_copier_finish(struct stk_launch *l, struct stk_err *err);

/* record/slots.c */
/* Creates the file of slots, if there can be one. */
void stk_launch_make_slots(struct stk_launch *l);
void stk_launch_drop_slots(struct stk_launch *l);  /* removes it */
void stk_launch_close_slots(struct stk_launch *l); /* no further slot is taken; gives back room */
void stk_launch_release_slots(struct stk_launch *l);
uint32_t stk_slots_taken(int fd); /* fd: -1 has none */
bool stk_slot_read(int fd, uint32_t i, struct stk_log_header *h);
/* Whether a process with this id has, or had, a log in a slot. */
bool stk_slots_know(int fd, pid_t pid);

/* record/json.c */
int stk_launch_write_run(struct stk_launch *l, struct stk_err *err);

#endif
