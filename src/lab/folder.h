/*
 * folder.h - a folder that the lab writes: a profile, a study, a spool. It is ours, writable by
 * nobody else, and private unless it is to be shared; everything in it is done through its
 * descriptor (base/own.h). And whose profile or study may be read.
 */
#ifndef STK_LAB_FOLDER_H
#define STK_LAB_FOLDER_H

#include "base/buf.h"
#include "base/own.h"

struct stk_folder {
    char *path; /* absolute, without links; for messages, and for programs that take paths */
    int fd;
    mode_t mode;  /* of files in it: 0600, or 0644 less the umask; others never write there */
    bool trusted; /* it may be somebody else's, whom the caller trusts */
};
#define STK_FOLDER_INIT ((struct stk_folder){.fd = -1, .mode = STK_PRIVATE})

/* Makes it, with those above it, or adopts one that is there: of the caller, writable by nobody
 * else (an empty one that is the caller's own is made so). share: others may read it, as the umask
 * says. *made: it was not there. Else STK_E_EXISTS, with whose it is. */
int stk_folder_take(struct stk_folder *f, const char *path, bool share, bool *made,
                    struct stk_err *err);
/* One that is there: of the caller or root, writable by nobody else, and not reached through a link
 * of others; or of one of the users in `trust` (names and numbers with commas between, or "all";
 * NULL: none). Files in it get the mode of `like`, a file in it. STK_E_EXISTS: it is not so. */
int stk_folder_find(struct stk_folder *f, const char *path, const char *like, const char *trust,
                    struct stk_err *err);
/* The same of a file in it that says what is run. That it is not there is fine. */
int stk_folder_check(const struct stk_folder *f, const char *name, const char *trust,
                     struct stk_err *err);
/* A new one below dir, "DIR/PREFIX.RANDOM", private. */
int stk_folder_temp(struct stk_folder *f, const char *dir, const char *prefix, struct stk_err *err);
/* Closes it; what is in it stays. Of STK_FOLDER_INIT, and twice, too. */
void stk_folder_release(struct stk_folder *f);

/* Takes away all that is in it, through its descriptor, and then its name if nobody has put another
 * folder there. It stays open. */
void stk_folder_destroy(const struct stk_folder *f);

/* Files in it. A name may be that of a file in a folder below it ("jobs/n1.json"), which is made
 * when something is written there. Caller closes *fd. */
int stk_folder_write(const struct stk_folder *f, const char *name, const void *p, size_t n,
                     struct stk_err *err);
int stk_folder_read(const struct stk_folder *f, const char *name, size_t max, struct stk_buf *b,
                    struct stk_err *err);
bool stk_folder_has(const struct stk_folder *f, const char *name);
/* Read and added to. One of somebody else's, in a trusted folder, is replaced by a copy of ours. */
int stk_folder_append(const struct stk_folder *f, const char *name, int *fd, struct stk_err *err);
/* Begun anew, whatever has the name. */
int stk_folder_fresh(const struct stk_folder *f, const char *name, int *fd, struct stk_err *err);
int stk_folder_remove(const struct stk_folder *f, const char *name, struct stk_err *err);
/* A folder below it, of ours. */
int stk_folder_below(const struct stk_folder *f, const char *name, int *fd, struct stk_err *err);
/* malloc'ed; NULL: no memory. */
char *stk_folder_path(const struct stk_folder *f, const char *name);

/* Whether what describes a run at path (a profile, a study; a file or a folder) may be believed:
 * it is of the caller, of root, of whose folder it lies in (a home), or of a user in `trust`, and
 * the files in it that count are of the same. Else STK_E_UNSUPPORTED, with the owner's name and
 * what to do. */
int stk_folder_believe(const char *path, bool (*counts)(const char *name), const char *trust,
                       struct stk_err *err);

#endif
