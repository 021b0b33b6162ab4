/*
 * own.h - the one way files are created, folders adopted and anything removed, on a node that
 * others share.
 *
 * A file is made exclusively, without following links, under a name nobody can guess, relative to
 * a folder's descriptor, and renamed. A folder that we adopt is opened without following a link and
 * must be ours. What is removed is reached through descriptors, never through a link.
 * (tests/security/test_source.py: nothing outside of own*.c calls open for writing, mkdir, rename,
 * unlink and their like.)
 *
 * Functions that take dirfd and name take path too: it is what messages call it.
 */
#ifndef STK_BASE_OWN_H
#define STK_BASE_OWN_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"

/* ---- whose ---------------------------------------------------------------------------------- */

/* True when `owner` may be trusted with something that describes data of data_uid: the caller,
 * root, or the owner of that data. */
bool stk_trusts(uid_t owner, uid_t data_uid);
/* "vic", or "uid 1001". Returns buf. */
const char *stk_user_name(uid_t uid, char buf[64]);
/* Refuses a folder that is not ours, or that others may write: what is in it may be theirs. */
int stk_own_check(int fd, const char *path, struct stk_err *err);
/* The path with a link as its last part followed, where the caller or root made that link; refuses
 * links of others. What is not there is fine. *out: caller frees with free(). */
int stk_own_resolve(const char *path, char **out, struct stk_err *err);

/* ---- folders -------------------------------------------------------------------------------- */

enum {
    STK_OWN_MAKE = 1,    /* make it when it is missing */
    STK_OWN_PRIVATE = 2, /* mode 0700 when made, else as the umask says */
    STK_OWN_NEW = 4,     /* it must not be there yet: STK_E_SYS with EEXIST */
};
/* Opens (makes) a folder that we adopt: no link as its last part, owned by the caller, writable by
 * nobody else. Else refused with STK_E_EXISTS, the owner's name and what to do. *fd: caller
 * closes. Folders above it are not made: stk_mkdirs(). */
int stk_own_folder(const char *path, unsigned flags, int *fd, struct stk_err *err);
int stk_own_folder_at(int dirfd, const char *name, unsigned flags, int *fd, const char *path,
                      struct stk_err *err);
/* A new folder below dir, "DIR/PREFIX.RANDOM", 0700. *path: caller frees; *fd (may be NULL):
 * caller closes. */
int stk_own_temp_folder(const char *dir, const char *prefix, char **path, int *fd,
                        struct stk_err *err);
/* mkdir -p with mode 0777 & ~umask: folders the user named, through whatever links are there. */
int stk_mkdirs(const char *path, struct stk_err *err);
/* The folder that root/name stands in, and all above it, made when missing. root is a folder that
 * the user named; below it, where names come out of data, no link is passed. *dirfd: caller closes.
 */
int stk_mkdirs_below(const char *root, const char *name, int *dirfd, struct stk_err *err);
/* The folder that a path's last part stands in (and that part, borrowed from path). *dirfd: caller
 * closes. */
int stk_open_parent(const char *path, int *dirfd, const char **name, struct stk_err *err);
/* Makes the names in a folder durable, where its file system can. */
int stk_fsync_dir(int fd, const char *path, struct stk_err *err);
int stk_fsync_dir_of(const char *path, struct stk_err *err);
/* "/proc/self/fd/N/NAME" (NAME may be NULL): what an open folder is called for libraries that take
 * paths only. It stays that folder wherever its name leads by now. Returns buf. */
#define STK_FD_PATH 320
const char *stk_fd_path(int dirfd, const char *name, char buf[STK_FD_PATH]);

/* ---- a file being written ------------------------------------------------------------------- */

/* "NAME.partial.RANDOM" beside its place until it is renamed there. */
struct stk_new {
    int dirfd;               /* -1: nothing was begun */
    int fd;                  /* the caller writes here */
    char *tmp, *name, *path; /* tmp NULL: it is written where it is (stk_new_output) */
};
#define STK_NEW_INIT ((struct stk_new){.dirfd = -1, .fd = -1})
#define STK_SHARED   0666 /* as the umask says */
#define STK_PRIVATE  0600

/* Open for reading and writing. path's folder is opened by the first; the second keeps a duplicate
 * of dirfd. */
int stk_new_begin(struct stk_new *f, const char *path, mode_t mode, struct stk_err *err);
int stk_new_begin_at(struct stk_new *f, int dirfd, const char *name, mode_t mode, const char *path,
                     struct stk_err *err);
/* For a file that the user names as output: as stk_new_begin(), but a pipe, a device, and what is
 * in /dev or /proc (/dev/stdout) is opened and written as it is. */
int stk_new_output(struct stk_new *f, const char *path, mode_t mode, struct stk_err *err);
/* fsync, rename, fsync of the folder. Releases f in any case; after an error nothing is left. */
int stk_new_commit(struct stk_new *f, struct stk_err *err);
/* Nothing is left; also after a failed begin, after commit, and of STK_NEW_INIT. */
void stk_new_abort(struct stk_new *f);

/* Opens a file that readers may watch while it grows: what has the name (a file, a link) is removed
 * first and never written through. A pipe, a device, and what is in /dev or /proc is opened as it
 * is. *fd: caller closes. */
int stk_open_fresh(int dirfd, const char *name, mode_t mode, int *fd, const char *path,
                   struct stk_err *err);
/* The same for a file that is appended to from several runs or processes: made when missing, else
 * it must be ours, regular, with no other name and writable by nobody else. */
int stk_open_append(int dirfd, const char *name, mode_t mode, int *fd, const char *path,
                    struct stk_err *err);
/* A file of a folder that is ours already (stk_own_folder, and below it): there is none of that
 * name, or EEXIST. The descriptor, -1: errno says why. */
int stk_create_at(int dirfd, const char *name, mode_t mode);
/* A folder in one that is ours already, made when missing (as the umask says), not through a link.
 * The descriptor, -1: errno says why. */
int stk_enter_at(int dirfd, const char *name);
/* A file without a name in that folder, 0600. The descriptor, -1: errno says why. */
int stk_create_nameless(const char *dir);

/* Writes a whole file: begin (the second: stk_new_output), write, commit. */
int stk_write_file_at(int dirfd, const char *name, const void *p, size_t n, mode_t mode,
                      const char *path, struct stk_err *err);
int stk_write_file_atomic(const char *path, const void *p, size_t n, struct stk_err *err);

/* Who may read some files and folders: those who may read all of them. */
struct stk_readers {
    int audience; /* 0: their owners, 1: the group, 2: everybody */
    gid_t gid;
    bool any; /* one was joined */
};
void stk_readers_join(struct stk_readers *r, const struct stat *st);
void stk_readers_merge(struct stk_readers *r, const struct stk_readers *other);
/* Lets those, and nobody whom the umask keeps out, read a file being written that was begun
 * STK_PRIVATE. What cannot be given is left out. */
void stk_new_share(struct stk_new *f, const struct stk_readers *r);

/* ---- reading, renaming, removing ------------------------------------------------------------ */

/* Opens a file for reading without blocking: what is not a regular file is refused by name ("is a
 * pipe", STK_E_UNSUPPORTED). flags: O_NOFOLLOW or 0. st may be NULL. *fd: caller closes. */
int stk_read_open(int dirfd, const char *name, int flags, int *fd, struct stat *st,
                  const char *path, struct stk_err *err);
/* Renames within a folder, or between two of ours. 0, or -1 and errno. */
int stk_rename_at(int from, const char *name, int to, const char *new_name);
/* Puts each in the other's place. EINVAL or ENOSYS: the file system cannot. */
int stk_exchange_at(int dirfd, const char *a, const char *b);
/* Removes a file or a link (never what it leads to). That it is not there is fine. */
int stk_unlink_at(int dirfd, const char *name, const char *path, struct stk_err *err);
/* Removes an empty folder. 0, or -1 and errno. */
int stk_rmdir_at(int dirfd, const char *name);
/* Removes name and all below it through descriptors; a link is removed, never followed; what is
 * mounted below it stays, and is an error. That it is not there is fine. */
int stk_remove_at(int dirfd, const char *name, const char *path, struct stk_err *err);
int stk_remove_tree(const char *path, struct stk_err *err);

#endif
