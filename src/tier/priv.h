/* priv.h - what the files of src/tier share: the layout of the ledger, and an open set. */
#ifndef STK_TIER_PRIV_H
#define STK_TIER_PRIV_H

#include "tier/tier.h"

#include "base/buf.h"
#include "base/own.h"
#include "host/fs.h"
#include "host/opened.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

#define STK_TIER_LIST    "list"
#define STK_TIER_LEDGER  "ledger"
#define STK_TIER_LEASE   "lease"
#define STK_TIER_JOBS    "jobs"
#define STK_TIER_JSON    "tier.json"
#define STK_TIER_DATA    "data"
#define STK_TIER_FILLING "filling"

/* Nanoseconds since 1970, also before that, as a time. */
static inline struct timespec stk_time_of_ns(int64_t ns)
{
    int64_t s = ns / 1000000000 - (ns % 1000000000 < 0);
    return (struct timespec){.tv_sec = (time_t)s, .tv_nsec = (long)(ns - s * 1000000000)};
}

struct stk_tier {
    char *path;
    int fd;
    bool make;
    const struct stk_fs *fs;
    uint64_t limit_bytes, age_s; /* 0: none */
    uint64_t boot;               /* hash of the boot id */
    int account;                 /* tier.json, to lock the account; -1: for readers only */
    bool hold;                   /* these as in struct stk_tier_options */
    uint64_t keep_s;
    int (*job_over)(const char *job);
    void (*removed)(void *user, const struct stk_tier_info *info);
    void *user;
    struct stk_opened_list *opened, own;
    pthread_mutex_t looking;     /* at what is opened */
    int first;                   /* tier.json, locked while we go first; -1: we do not */
    pthread_mutex_t lock;        /* of the account, in this process */
};

/* ---- the list (list.c) ---- */

/* Appends the list as it is stored. */
int stk_tier_list_write(const struct stk_tier_source *src, struct stk_buf *out,
                        struct stk_err *err);
/* Checks every byte of a stored list. The texts are borrowed from p, src->file is malloc'ed:
 * caller frees it with free(). path: for messages. */
int stk_tier_list_parse(const uint8_t *p, size_t n, struct stk_tier_source *src, const char *path,
                        struct stk_err *err);

/* ---- the ledger (ledger.c) ---- */

/* After the header come the files in order, each a record and an entry per parcel. Everything has a
 * place of its own and a check value, so that a write that was cut short, or foreign bytes, are
 * recognised. Native byte order: the ledger does not leave the node. */
struct stk_ledger_head {
    char magic[8];
    uint32_t version, parcel_bytes;
    uint64_t files, parcels;
    uint64_t salt;     /* of the check values: a hash of the list */
    uint64_t reserved; /* bytes that count against the limit; changes under the tier's lock */
    uint64_t spare;
    uint64_t check; /* of everything before `reserved` */
};

enum stk_record_state {
    STK_RECORD_NONE,     /* no parcel counts */
    STK_RECORD_OPEN,     /* some parcels may be there */
    STK_RECORD_FINISHED, /* all are there; the copy has its times */
};

/* The stamp is that of the copy after the last write of ours: a copy with another one was changed
 * by someone else. */
struct stk_ledger_record {
    uint64_t inode, size;
    int64_t ctime_ns, mtime_ns;
    uint64_t boot; /* of the machine when the file was begun */
    uint64_t done; /* parcels there; a hint, exact unless a writer was killed */
    uint32_t state;
    uint32_t tag; /* entries with another tag must be compared with their hash before they count */
    uint32_t spare, check;
};

struct stk_ledger_entry {
    uint64_t hash; /* stk_tier_hash() of the parcel */
    uint32_t tag;
    uint32_t check;
};

/* Bytes of the ledger that are locked; the ledger itself is shorter. Parcel g: byte g. */
#define STK_LOCK_FILE    (INT64_C(1) << 44) /* + number of the file: who writes its record */
#define STK_LOCK_USE     (INT64_C(1) << 60) /* shared: has the set open */
#define STK_LOCK_FILL    (STK_LOCK_USE + 1) /* shared: may fill it */
#define STK_LOCK_PUBLISH (STK_LOCK_USE + 2) /* renames the copy */
#define STK_LOCK_ALONE   (STK_LOCK_USE + 3) /* does what only one can do (stk_tier_set_alone()) */

/* A byte of tier.json, locked by readers who go first (stk_tier_go_first()). */
#define STK_LOCK_FIRST (INT64_C(1) << 60)

/* type: F_RDLCK, F_WRLCK or F_UNLCK. Returns 0, or -1 with errno: EAGAIN if another has it, and only
 * then. */
int stk_tier_lock(int fd, int type, int64_t at, int64_t n);
/* True if another open file has a lock there that excludes an exclusive one. */
bool stk_tier_locked(int fd, int64_t at);

struct stk_tier_set;
/* Writes the header of a new ledger and gives the file its size. */
int stk_ledger_create(int fd, const struct stk_tier_set *s, const char *path, struct stk_err *err);
/* STK_E_CORRUPT unless it is a ledger of this set's list. */
int stk_ledger_check(const struct stk_tier_set *s, struct stk_err *err);
/* False: it cannot be read, or its check value is wrong; *r is zeroed then. */
bool stk_ledger_record(const struct stk_tier_set *s, uint64_t file, struct stk_ledger_record *r);
bool stk_ledger_entry(const struct stk_tier_set *s, uint64_t file, uint64_t parcel,
                      struct stk_ledger_entry *e);
int stk_ledger_put_record(struct stk_tier_set *s, uint64_t file, struct stk_ledger_record *r,
                          struct stk_err *err);
int stk_ledger_put_entry(struct stk_tier_set *s, uint64_t file, uint64_t parcel, uint64_t hash,
                         uint32_t tag, struct stk_err *err);
/* Both, for a file of one parcel. */
int stk_ledger_put_small(struct stk_tier_set *s, uint64_t file, struct stk_ledger_record *r,
                         uint64_t hash, struct stk_err *err);
/* Reads records and entries of n files into p (stk_ledger_span() bytes), and finds them there. */
size_t stk_ledger_span(const struct stk_tier_set *s, uint64_t file, uint64_t n);
int stk_ledger_read(const struct stk_tier_set *s, uint64_t file, uint64_t n, uint8_t *p,
                    struct stk_err *err);
/* A part of the ledger in memory, from file `first` on. */
struct stk_ledger_view {
    struct stk_tier_set *set;
    const uint8_t *p;
    uint64_t first;
};
/* Calls see() for each file; stops if it does not return 0. */
int stk_ledger_each(struct stk_tier_set *s,
                    int (*see)(void *user, const struct stk_ledger_view *v, uint64_t file,
                               struct stk_err *err),
                    void *user, struct stk_err *err);
bool stk_ledger_record_in(const struct stk_ledger_view *v, uint64_t file,
                          struct stk_ledger_record *r);
bool stk_ledger_entry_in(const struct stk_ledger_view *v, uint64_t file, uint64_t parcel,
                         struct stk_ledger_entry *e);

/* ---- a set (set.c) ---- */

/* What this process knows of a parcel; what it knows to be there stays there as long as the set is
 * open. */
enum { STK_KNOWN_NOT, STK_KNOWN_THERE, STK_KNOWN_CLAIMED };

#define STK_TIER_STRIPES 64u

struct stk_tier_set {
    struct stk_tier *tier;
    char id[STK_TIER_ID];
    char *path;            /* of its folder */
    int dir, copy, ledger; /* folder of the set; "data" or "filling" in it; the ledger */
    struct stk_buf text;   /* of the list, as stored */
    struct stk_tier_source src;
    uint64_t bytes;
    uint64_t *base; /* number of each file's first parcel among all; base[count]: all parcels */
    uint64_t salt;
    pid_t pid;   /* of the process that opened it: a child that was forked only closes it */
    bool filler; /* may fill it */
    _Atomic bool published;
    _Atomic uint8_t *known;  /* per parcel */
    _Atomic uint64_t *stamp; /* per file: of the finished copy, hashed; 0: not known
                              * (stk_tier_preload) */
    _Atomic int refused;     /* errno of a lock that was neither got nor taken by others; 0: none */
    uint64_t allowed;        /* bytes reserved and not used yet; with `lock` */
    pthread_mutex_t lock;    /* claims, and the account */
    pthread_mutex_t stripe[STK_TIER_STRIPES]; /* one writer of a file's record in this process */
};

/* By the number of the parcel among all. */
static inline void stk_tier_know(struct stk_tier_set *s, uint64_t g, uint8_t what)
{
    atomic_store_explicit(&s->known[g], what, memory_order_relaxed);
}

/* Opens a set. use: it counts as used until it is closed, and may be filled if the tier was opened
 * for that; else only its ledger is read. 0: opened; 1: there is none, or it is being removed. */
int stk_tier_join(struct stk_tier *t, const char *id, bool use, struct stk_tier_set **out,
                  struct stk_err *err);
/* The path of a file's copy relative to s->copy: "NAME" or "NAME/FILE". False: too long. */
bool stk_tier_name_of(const struct stk_tier_set *s, uint64_t file, char *out, size_t room);
/* Refreshes s->published. */
void stk_tier_look_published(struct stk_tier_set *s);

/* For a lock on the file fd that was not got in time (errno EAGAIN): STK_E_EXISTS, and who may have
 * it; for one that was refused (another errno): STK_E_SYS. */
int stk_tier_held_up(int fd, const char *path, struct stk_err *err);

/* ---- files of a set (ledger.c) ---- */

/* A tag that no entry of the file has. */
uint32_t stk_tier_new_tag(const struct stk_tier_set *s, uint32_t old);
uint64_t stk_tier_stamp_hash(const struct stat *st); /* not 0 */
/* Forgets what this process knows of a file's parcels: the ledger is asked again. */
void stk_tier_forget(struct stk_tier_set *s, uint64_t file);
/* Notes the stamps of all finished files, so that a reader asks the ledger once. */
int stk_tier_preload(struct stk_tier_set *s, struct stk_err *err);
bool stk_tier_stamp_fits(const struct stk_ledger_record *r, const struct stat *st);
void stk_tier_stamp_take(struct stk_ledger_record *r, const struct stat *st);
/* The lock of a file's record. try: false if another has it; else waits, false after a while. */
bool stk_tier_file_lock(struct stk_tier_set *s, uint64_t file, bool try);
/* True if a thread of this or another process has that lock. */
bool stk_tier_file_busy(struct stk_tier_set *s, uint64_t file);
void stk_tier_file_unlock(struct stk_tier_set *s, uint64_t file);
/* The record, if the copy is as it was left: then entries with its tag count. Fillers get a fresh
 * tag for a copy that is not. With the file's lock. */
bool stk_tier_file_good(struct stk_tier_set *s, uint64_t file, struct stk_ledger_record *r);
/* Opens a copy for reading and writing, made if missing. Returns the descriptor, or negative. */
int stk_tier_copy_open(struct stk_tier_set *s, uint64_t file, bool make, struct stk_err *err);

/* ---- jobs that read a copy by its path (hold.c) ---- */

#define STK_TIER_WHY 320
/* Records in the set that this job was given its path, if the tier was opened for that. */
int stk_tier_hold(struct stk_tier_set *s, struct stk_err *err);
/* Whether a job may be reading the copy of the set in that folder, or it is to be kept, and why.
 * for_room: as for stk_tier_evict(). */
bool stk_tier_held(const struct stk_tier *t, int set, bool for_room, char why[STK_TIER_WHY]);

/* ---- processes that have a copy open (hold.c) ---- */

/* Looks at the processes of the node, unless that was done just now. Takes a while: before the set is
 * locked, which another process may be about to join. */
void stk_tier_look(struct stk_tier *t);
/* Whether a process had the copy of a set open then, as far as can be seen, and why. locked: another
 * process has a lock on the set: which one? */
bool stk_tier_opened(struct stk_tier *t, const char *id, bool locked, char why[STK_TIER_WHY]);

/* ---- removing (remove.c) ---- */

bool stk_tier_is_set(const char *name);
/* Whether a component of a path is a set, or one being made or removed. */
bool stk_tier_begins_set(const char *path);
/* Removes the empty folders of a set that was removed but for files of others: *left. */
int stk_tier_remove_rest(struct stk_tier *t, const char *id, int dir, struct stk_left *left,
                         struct stk_err *err);
/* Removes what is left of sets whose making or removal was killed, at least so long ago. left may
 * be NULL. */
void stk_tier_remove_leftovers(struct stk_tier *t, int64_t age_s, struct stk_left *left);

/* ---- limits (room.c) ---- */

/* Calls see() for each name in the tier; stops if it does not return 0. */
int stk_tier_each_name(struct stk_tier *t, int (*see)(void *user, const char *name), void *user,
                       struct stk_err *err);

/* Bytes about to be written. 0: allowed; 2: the tier is full. */
int stk_tier_reserve(struct stk_tier_set *s, uint64_t bytes, struct stk_err *err);
/* Gives back what was reserved and not used. */
void stk_tier_unreserve(struct stk_tier_set *s);
/* Corrects `reserved` by what is there, if no other process fills the set. */
void stk_tier_recount(struct stk_tier_set *s);
/* Removes what killed processes left, and sets that are too old. */
void stk_tier_sweep(struct stk_tier *t);
/* stk_tier_list() of the sets whose id begins so. */
int stk_tier_each(struct stk_tier *t, const char *prefix,
                  int (*see)(void *user, const struct stk_tier_info *info), void *user,
                  struct stk_err *err);

#endif
