/*
 * folder.h - a folder that we write: a profile, a study, a spool. It belongs to us, nobody
 * else can write it, and it is private unless it is shared; all access goes through its descriptor
 * (base/own.h). Also decides whose profiles and studies may be read.
 */
#ifndef STK_RECORD_FOLDER_H
#define STK_RECORD_FOLDER_H

#include "base/json_fields.h"
#include "base/own.h"

struct stk_folder {
    char *path; /* absolute, without links; for messages, and for programs that take paths */
    int fd;
    mode_t mode;  /* of its files: 0600, or 0644 minus the umask; others never get write access */
    bool trusted; /* it may belong to another user whom the caller trusts */
};
#define STK_FOLDER_INIT ((struct stk_folder){.fd = -1, .mode = STK_PRIVATE})

/* Creates it, with its parents, or adopts an existing one that belongs to the caller and that
 * nobody else can write (an empty folder of the caller's is made so). share: others may read it, as
 * the umask says. *made: it did not exist. Otherwise STK_E_EXISTS, with the owner. */
int stk_folder_take(struct stk_folder *f, const char *path, bool share, bool *made,
                    struct stk_err *err);
/* Opens an existing one that belongs to the caller or root, that nobody else can write, and that is
 * not reached through a link of others; or that belongs to a user in `trust` (names and numbers
 * separated by commas, or "all"; NULL: none). New files get the mode of `like`, a file in it.
 * STK_E_EXISTS: it does not qualify. */
int stk_folder_find(struct stk_folder *f, const char *path, const char *like, const char *trust,
                    struct stk_err *err);
/* The same check for a file in it that says what to run. A missing file is fine. */
int stk_folder_check(const struct stk_folder *f, const char *name, const char *trust,
                     struct stk_err *err);
/* Creates a private one below dir, "DIR/PREFIX.RANDOM". */
int stk_folder_temp(struct stk_folder *f, const char *dir, const char *prefix, struct stk_err *err);
/* It is in use by this process, until it is released. STK_E_USAGE: it is by another one. */
int stk_folder_lock(const struct stk_folder *f, struct stk_err *err);
/* Closes it and keeps its content. Harmless on STK_FOLDER_INIT, and when called twice. */
void stk_folder_release(struct stk_folder *f);

/* Removes its content through its descriptor, and then its name unless another folder has it by
 * now. It stays open. */
void stk_folder_destroy(const struct stk_folder *f);
/* The same, with this file last: if it is killed meanwhile, the file still says what is left. What
 * ours() does not recognise stays, as does the folder then: *left has its path. */
void stk_folder_destroy_ours(const struct stk_folder *f, const char *last,
                             bool (*ours)(void *user, const char *name), void *user,
                             struct stk_left *left);

/* Files in it. A name may lead to a file in a subfolder ("jobs/n1.json"), which is created for
 * writing. Caller closes *fd. */
int stk_folder_write(const struct stk_folder *f, const char *name, const void *p, size_t n,
                     struct stk_err *err);
int stk_folder_read(const struct stk_folder *f, const char *name, size_t max, struct stk_buf *b,
                    struct stk_err *err);
/* The same for a struct that is kept as JSON. What it reads is in the arena. */
int stk_folder_write_fields(const struct stk_folder *f, const char *name,
                            const struct stk_jfield *table, const void *from, bool pretty,
                            struct stk_err *err);
int stk_folder_read_fields(const struct stk_folder *f, const char *name, size_t max,
                           const struct stk_jfield *table, struct stk_arena *arena, void *to,
                           struct stk_err *err);
bool stk_folder_has(const struct stk_folder *f, const char *name);
/* Opens for reading and appending. In a trusted folder, a file of another user is replaced by a
 * copy of ours. */
int stk_folder_append(const struct stk_folder *f, const char *name, int *fd, struct stk_err *err);
/* Creates it anew, whatever has the name. */
int stk_folder_fresh(const struct stk_folder *f, const char *name, int *fd, struct stk_err *err);
int stk_folder_remove(const struct stk_folder *f, const char *name, struct stk_err *err);
/* Opens a subfolder that belongs to us. */
int stk_folder_below(const struct stk_folder *f, const char *name, int *fd, struct stk_err *err);
/* malloc'ed; NULL: out of memory. */
char *stk_folder_path(const struct stk_folder *f, const char *name);

/* Whether the description of a run at path (a profile or study; a file or folder) may be believed:
 * it belongs to the caller, to root, to the owner of the folder that contains it (a home), or to a
 * user in `trust`, and so do the files in it that count. Otherwise STK_E_UNSUPPORTED, with the
 * owner's name and what to do. */
int stk_folder_believe(const char *path, bool (*counts)(const char *name), const char *trust,
                       struct stk_err *err);

#endif
