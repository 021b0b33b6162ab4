/*
 * tier.h - copies of datasets on a node: a byte cache on a local disk or in memory (docs/tier.md).
 *
 * A *tier* is a folder of ours (0700). It holds *sets*: a set is the copy of one source, whose list
 * of files never changes. Files are divided into *parcels* of STK_TIER_PARCEL bytes; a parcel
 * counts once its entry in the set's ledger was written, after its bytes, so nothing torn is ever
 * read. Locks (OFD) on bytes of the ledger give each parcel one writer among all processes of the
 * node, and end with their process.
 *
 * A set may be used by several threads at once, except for opening and closing it.
 */
#ifndef STK_TIER_TIER_H
#define STK_TIER_TIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/own.h"

#define STK_TIER_PARCEL (4u << 20)
#define STK_TIER_ID     28 /* room for the name of a set */

/* ---- the source of a set ---- */

struct stk_tier_file {
    const char *name; /* relative to the source; "" if the source is a single file. A safe path */
    uint64_t size;
    int64_t mtime_ns; /* of the source; the copy gets it, too */
    uint64_t hash;    /* XXH64 of all bytes (the manifest has it), if `hashed` */
    bool hashed;
    mode_t mode; /* 0: 0600; else its permission bits, plus read and write for the owner */
};

struct stk_tier_source {
    const char *path, *name;    /* name: the last component of the path, and the name of the copy */
    const char *form;           /* format that the copy was packed into; NULL: files as they are */
    uint64_t identity;          /* stk_dataset_identity(); of a plain tree, any hash of its list */
    int64_t changed_ns;         /* the latest ctime of its files, which no program can set back */
    struct stk_tier_file *file; /* sorted by name (strcmp), no name twice */
    uint64_t count;
};

/* A hash of names, sizes and times: tells versions of one dataset apart. */
uint64_t stk_tier_version(const struct stk_tier_source *src);

/* ---- a tier ---- */

struct stk_opened_list;
struct stk_tier_info;
struct stk_tier_options {
    bool make;            /* make the folder if missing (not its parents), and allow filling */
    uint64_t limit_bytes; /* of all sets; 0: as in tier.json, else no limit but the disk */
    uint64_t age_s; /* sets unused for longer may be removed; 0: as in tier.json, else never */
    /* The job is given the paths of the sets that are opened: they stay until it is over, and for
     * keep_s after they were opened last. */
    bool hold;
    uint64_t keep_s;
    /* Whether a job of Slurm is over: 1, 0, or -1: not known. NULL: not known of any. */
    int (*job_over)(const char *job);
    /* What processes have open, for several tiers; borrowed. NULL: the tier looks for itself. */
    struct stk_opened_list *opened;
    /* Called for each set that was removed for room or by age; info: as for stk_tier_list(). May be
     * NULL. */
    void (*removed)(void *user, const struct stk_tier_info *info);
    void *user;
};

/* The tier that a path means which a user names: the path itself if it is a tier, does not exist,
 * or is an empty folder that only we may enter; else the folder stoker-UID in it, because the
 * folder has other uses (stoker-UID+N: another user took that name). malloc'ed; caller frees with
 * free(). NULL: no memory. */
char *stk_tier_at(const char *path);

struct stk_tier;
/* Refuses a folder that is a link, is not ours, that others may enter (mode 0700), or whose file
 * system has no OFD locks. Caller frees with stk_tier_close(). */
int stk_tier_open(const char *path, const struct stk_tier_options *o, struct stk_tier **out,
                  struct stk_err *err);
/* The same for the folder of that name in dirfd, wherever its path leads. */
int stk_tier_open_at(int dirfd, const char *name, const char *path,
                     const struct stk_tier_options *o, struct stk_tier **out, struct stk_err *err);
void stk_tier_close(struct stk_tier *t); /* after its sets */
bool stk_tier_is_made(const struct stk_tier *t); /* it has settings, so it was made by stoker */
const char *stk_tier_path(const struct stk_tier *t);
bool stk_tier_in_memory(const struct stk_tier *t); /* on a file system in memory */
/* 0: none. */
uint64_t stk_tier_limit_bytes(const struct stk_tier *t);
uint64_t stk_tier_age_s(const struct stk_tier *t);

/* A reader that has nothing yet asks whoever fills the tier in the background to begin no reads
 * until it went first, or the tier is closed. Best effort. */
void stk_tier_go_first(struct stk_tier *t);
void stk_tier_went_first(struct stk_tier *t);

/* A set as `--list` shows it. */
struct stk_tier_info {
    char id[STK_TIER_ID];
    const char *source, *name; /* these texts are borrowed: valid during the call */
    const char *tier;          /* the path of the tier */
    const char *form;          /* format that it was packed into; NULL: a plain copy */
    const char *path;          /* of the copy, usable once it is published */
    uint64_t files, bytes;     /* of the source */
    uint64_t bytes_there;
    bool published;
    bool filling;      /* a process is filling it now */
    bool used;         /* a process has it open now */
    int64_t used_ns;   /* last use, CLOCK_REALTIME */
    int64_t changed_ns; /* of the source, as in struct stk_tier_source */
    const char *lease; /* JSON: who fills it, or filled it last; NULL: unknown */
    /* It was removed, but for these files, which stoker did not put there; NULL: none. */
    const struct stk_left *left;
};
/* Calls `see` for each set; stops and returns what it returns if that is not 0. */
int stk_tier_list(struct stk_tier *t, int (*see)(void *user, const struct stk_tier_info *info),
                  void *user, struct stk_err *err);
/* Removes a set by its id, unless a process has it open, or a job that may run was given its path.
 * for_room: not the user asks for it; then neither one that this job was given, nor one that is to
 * be kept. left (may be NULL): files that stoker did not put there stay where they are. STK_E_EXISTS:
 * it stays, and why; STK_E_USAGE: there is none. */
int stk_tier_evict(struct stk_tier *t, const char *id, bool for_room, struct stk_left *left,
                   struct stk_err *err);
/* Whether a set may not be removed now, as for stk_tier_evict(): *err says why. */
bool stk_tier_stays(struct stk_tier *t, const char *id, bool for_room, struct stk_err *err);
/* Removes what a tier without sets has, but not its folder: settings, logs of copies of these
 * names, what was killed. */
int stk_tier_clear(struct stk_tier *t, const char *const *name, size_t n, struct stk_left *left,
                   struct stk_err *err);
struct stk_tier_set;
/* Makes room under the limit for a set of `bytes`: removes others, least recently used first. 2:
 * there is none, nothing was removed, and *err says what stays. */
int stk_tier_make_room(struct stk_tier_set *s, uint64_t bytes, struct stk_err *err);

/* ---- a set ---- */

/* True while a reader of its tier goes first. */
bool stk_tier_others_first(const struct stk_tier_set *s);
/* Makes the set of this source, or joins it. Copies what it needs of src. Caller closes. */
int stk_tier_set_open(struct stk_tier *t, const struct stk_tier_source *src,
                      struct stk_tier_set **out, struct stk_err *err);
/* Joins a set of this identity if there is one: 1, else 0. Of several takes that of the latest
 * version of the source, then the published, then the fullest. For readers and fillers alike. */
int stk_tier_set_find(struct stk_tier *t, uint64_t identity, struct stk_tier_set **out,
                      struct stk_err *err);
/* Joins the set of that name: 1, else 0. */
int stk_tier_set_join(struct stk_tier *t, const char *id, struct stk_tier_set **out,
                      struct stk_err *err);
void stk_tier_set_close(struct stk_tier_set *s); /* gives all claims back */
const char *stk_tier_set_id(const struct stk_tier_set *s);
/* Whether another process, or another opening of the set in this one, may be filling it. */
bool stk_tier_filled_by_others(const struct stk_tier_set *s);
/* A set that is open for filling counts as being filled, unless its process says otherwise. */
void stk_tier_set_fills(struct stk_tier_set *s, bool fills);
/* Its list, sorted by name. Borrowed: valid until the set is closed. */
const struct stk_tier_source *stk_tier_set_source(const struct stk_tier_set *s);
/* The folder that holds the copy (NAME in it), to make folders that have no files
 * (stk_enter_at()). Borrowed. */
int stk_tier_set_folder(const struct stk_tier_set *s);
/* The number of a file by its name, or -1. */
int64_t stk_tier_set_lookup(const struct stk_tier_set *s, const char *name, size_t len);

/* Parcels of a file; an empty file has one, of 0 bytes. */
static inline uint64_t stk_tier_parcels(uint64_t size)
{
    return size ? (size + STK_TIER_PARCEL - 1) / STK_TIER_PARCEL : 1;
}
static inline size_t stk_tier_parcel_len(uint64_t size, uint64_t parcel)
{
    uint64_t at = parcel * STK_TIER_PARCEL;
    return (size_t)(size - at < STK_TIER_PARCEL ? size - at : STK_TIER_PARCEL);
}

/* ---- filling it ---- */

/* The hash of a parcel: of its CRC-32C and its length. Four times as fast as XXH64, which files in
 * a manifest need as well. */
uint64_t stk_tier_hash(const void *p, size_t n);
/* The hash of bytes that are followed by p[0..n); 0: of none. */
uint64_t stk_tier_hash_more(uint64_t hash, const void *p, size_t n);

enum stk_tier_claim {
    STK_TIER_OURS,  /* claimed: the caller puts it, and then drops the claim */
    STK_TIER_THERE, /* it is there already */
    STK_TIER_BUSY,  /* another thread or process has claimed it */
};
/* A parcel written before the machine last started, in a set that was not published, is compared
 * with its hash first: it may not have reached the disk. */
enum stk_tier_claim stk_tier_claim(struct stk_tier_set *s, uint64_t file, uint64_t parcel);
/* Claims all parcels of n files that follow one another, with one lock if possible: for many small
 * files. got[i]: as above; OURS: all parcels that are missing were claimed (stk_tier_has() says
 * which are). */
void stk_tier_claim_files(struct stk_tier_set *s, uint64_t first, uint64_t n, uint8_t *got);
/* Writes a claimed parcel: n = stk_tier_parcel_len(). hash: stk_tier_hash() of these bytes,
 * computed from what was read from the source. Returns 0  stored. A file of one parcel is finished,
 * too (compared with its hash in the list) 1  stored, and now all parcels of the file are there:
 * call stk_tier_finish_file() 2  the tier is full (its limit, or the disk): stop filling; *err says
 * which <0  an error; STK_E_CORRUPT: the bytes do not match the hash in the list. */
int stk_tier_put(struct stk_tier_set *s, uint64_t file, uint64_t parcel, const void *p, size_t n,
                 uint64_t hash, struct stk_err *err);
/* Gives claims back, after a put or without one. */
void stk_tier_drop(struct stk_tier_set *s, uint64_t file, uint64_t parcel);
void stk_tier_drop_files(struct stk_tier_set *s, uint64_t first, uint64_t n, const uint8_t *got);
/* All parcels are there: gives the copy its times and records its stamp. hash: XXH64 of the whole
 * file if the caller has computed it from the source, else NULL: then a file with a hash in the
 * list is read back and compared. Finished already: 0. STK_E_CORRUPT: the hashes differ; the file's
 * parcels do not count any more. */
int stk_tier_finish_file(struct stk_tier_set *s, uint64_t file, const uint64_t *hash,
                         struct stk_err *err);
/* A file that is in the folder of the copy already (stk_tier_set_folder()), written by other means:
 * hashes it, and finishes it if it has the size and the hash of the list. STK_E_STALE: it is missing
 * or differs; 2: the tier is full. */
int stk_tier_adopt_file(struct stk_tier_set *s, uint64_t file, struct stk_err *err);
/* Counts bytes that are about to be written into the set without stk_tier_put(). 2: it is full. */
int stk_tier_expect(struct stk_tier_set *s, uint64_t bytes, struct stk_err *err);
/* If a process that has the set open is stopped: STK_E_EXISTS, which names it; else 0. */
int stk_tier_check_stopped(const struct stk_tier_set *s, struct stk_err *err);
/* If parts of it cannot be locked, others do not have them: the error, else 0. */
int stk_tier_check_locks(const struct stk_tier_set *s, struct stk_err *err);
/* True: no other process has asked this since it opened the set, so that one of several does what
 * cannot be shared. Until the set is closed. */
bool stk_tier_set_alone(struct stk_tier_set *s);
/* All files are finished: syncs, compares sizes, times and counts with the list, and renames the
 * copy to its usable path. *path: caller frees. Published already: the same. STK_E_STALE: a file
 * is not finished or was changed (the message names it; its parcels are missing now: fill again).
 */
int stk_tier_publish(struct stk_tier_set *s, char **path, struct stk_err *err);

/* ---- its state ---- */

struct stk_tier_state {
    uint64_t files, files_finished;
    uint64_t parcels, parcels_there;
    uint64_t bytes, bytes_there;
    bool published;
};
/* Reads the whole ledger. */
int stk_tier_state(struct stk_tier_set *s, struct stk_tier_state *st, struct stk_err *err);
/* True if the parcel is there. Cheap once it is. */
bool stk_tier_has(struct stk_tier_set *s, uint64_t file, uint64_t parcel);
bool stk_tier_file_finished(struct stk_tier_set *s, uint64_t file);
/* The path of the copy as a whole (under "filling" until it is published), malloc'ed. */
char *stk_tier_set_path(const struct stk_tier_set *s);
/* Reads a file of the copy and compares its size, and every parcel with its hash, whatever its times
 * say. Parcels that differ do not count any more; *bad: their number (all, if the size differs). */
int stk_tier_verify_file(struct stk_tier_set *s, uint64_t file, uint64_t *bad, struct stk_err *err);

#endif
