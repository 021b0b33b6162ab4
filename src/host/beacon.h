/*
 * beacon.h - a small file in which a running process says what it is doing, for `stoker watch` from
 * another shell or node.
 *
 * {"kind": "stoker-status", "version": 1, "command": "bench", "state": "running" | "ended",
 * host, pid, pid_space, boot_id, start_ticks (host/beacon.h), "started_s", "updated_s": by
 * CLOCK_REALTIME, "now": {what the command adds}}
 *
 * It is private, replaced as a whole by renaming, never synced (it says nothing that matters after
 * a crash of the machine), and written at most once per every_s. That it cannot be written is no
 * error of the run. A reader believes its owner (record/folder.h) and nothing else in it.
 */
#ifndef STK_HOST_BEACON_H
#define STK_HOST_BEACON_H

#include <sys/types.h>

#include "base/json_fields.h"

/* ---- which process --------------------------------------------------------------------------- */

/* Which process of which machine a file speaks of, and whether that process still runs.
 *
 * A process id is reused, also after a restart of the machine, and means nothing on another node
 * or in a container: start time, boot id, host and namespace tell them apart. */

struct stk_alive {
    char host[65], boot[40]; /* "": unknown */
    int64_t pid;             /* 0: unknown */
    uint64_t start;          /* in kernel clock ticks since the boot; 0: unknown */
    uint64_t space;          /* its namespace of process ids; 0: unknown */
};

enum stk_life {
    STK_LIFE_RUNS,
    STK_LIFE_GONE,
    STK_LIFE_UNKNOWN, /* it is of another machine or namespace, or was described too vaguely */
};

/* This process. */
void stk_alive_self(struct stk_alive *a);
extern const struct stk_jfield stk_alive_fields[];
/* Takes them from an object that anyone may have written: all 0 if anything is wrong. */
void stk_alive_get(const struct stk_jval *o, struct stk_alive *a);
enum stk_life stk_alive_check(const struct stk_alive *a);

#define STK_BEACON_MAX ((size_t)1 << 20) /* bytes of such a file */

struct stk_beacon {
    /* Set by the caller: */
    const char *name, *command; /* borrowed until the end */
    double every_s;
    mode_t mode;                               /* 0: STK_PRIVATE */
    void (*put)(void *user, struct stk_jw *w); /* the members of "now" */
    void *user;
    /* Not by the caller: */
    int dirfd; /* -1: it shows nothing */
    struct stk_alive self;
    double started_s, next_s; /* next: by stk_now() */
    bool failed;              /* the last attempt to write it */
};
#define STK_BEACON_INIT ((struct stk_beacon){.dirfd = -1})

/* dirfd: a folder of ours, of which it keeps a duplicate. Writes the file for the first time.
 * Caller ends it. */
void stk_beacon_begin(struct stk_beacon *b, int dirfd);
/* Writes it if it is due, or now. */
void stk_beacon_tick(struct stk_beacon *b, bool now);
/* Removes the file, or keeps it with the state "ended". Harmless on STK_BEACON_INIT, and twice. */
void stk_beacon_end(struct stk_beacon *b, bool keep);

/* What a beacon says. */
struct stk_beacon_seen {
    char command[16];
    bool ended;
    struct stk_alive who;
    double started_s, updated_s; /* 0: unknown */
    const struct stk_jval *now;  /* an object, in the arena */
};
/* STK_E_CORRUPT: it is not one. STK_E_UNSUPPORTED: of another version. Borrows text. */
int stk_beacon_parse(struct stk_arena *arena, const char *text, size_t len,
                     struct stk_beacon_seen *out, struct stk_err *err);
/* Reads one in an open folder, without following a link. path: of the folder. */
int stk_beacon_read(struct stk_arena *arena, int dirfd, const char *name, const char *path,
                    struct stk_beacon_seen *out, struct stk_err *err);
/* Members of objects in it. NaN, 0 and "": missing, or of another type. */
double stk_beacon_f64(const struct stk_jval *o, const char *key);
uint64_t stk_beacon_u64(const struct stk_jval *o, const char *key);
const char *stk_beacon_text(const struct stk_jval *o, const char *key);

#endif
