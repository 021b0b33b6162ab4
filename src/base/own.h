/*
 * own.h - the only way stoker creates files, adopts folders and removes anything, on a node shared
 * with other users.
 *
 * A file is created exclusively, without following links, under an unguessable name, relative to a
 * folder's descriptor, and renamed. A folder that we adopt is opened without following a link and
 * must be ours. Files to remove are reached through descriptors, never through a link.
 * (tests/security/test_source.py checks that only own*.c opens for writing or calls mkdir, rename,
 * unlink and so on.)
 *
 * Functions that take dirfd and name also take path, for messages.
 */
#ifndef STK_BASE_OWN_H
#define STK_BASE_OWN_H

#include <limits.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"

/* ---- owners --------------------------------------------------------------------------------- */

/* True if a file of `owner` that describes data of data_uid can be trusted: the owner is the
 * caller, root, or data_uid. */
bool stk_trusts(uid_t owner, uid_t data_uid);
/* "vic", or "uid 1001". Returns buf. */
const char *stk_user_name(uid_t uid, char buf[64]);
/* The same as options take it: "vic", or "1001". Returns buf. */
const char *stk_user_word(uid_t uid, char buf[64]);
/* Refuses a folder that is not ours, or that others may write: its contents may be theirs. */
int stk_own_check(int fd, const char *path, struct stk_err *err);
/* Follows a link in the last component of path if the caller or root made it; refuses links of
 * other users. The path need not exist. *out: caller frees with free(). */
int stk_own_resolve(const char *path, char **out, struct stk_err *err);

/* ---- folders -------------------------------------------------------------------------------- */

enum {
    STK_OWN_MAKE = 1,    /* make it if missing */
    STK_OWN_PRIVATE = 2, /* made with mode 0700, else by the umask */
    STK_OWN_NEW = 4,     /* it must not exist yet: STK_E_SYS with EEXIST */
};
/* Opens (makes) a folder that we adopt: not a link, owned by the caller, writable only by the
 * caller. Refuses others with STK_E_EXISTS, the owner's name and what to do. *fd: caller closes.
 * Does not make parent folders: stk_mkdirs(). */
int stk_own_folder(const char *path, unsigned flags, int *fd, struct stk_err *err);
int stk_own_folder_at(int dirfd, const char *name, unsigned flags, int *fd, const char *path,
                      struct stk_err *err);
/* Makes a new folder in dir, "DIR/PREFIX.RANDOM", 0700. *path: caller frees; *fd (may be NULL):
 * caller closes. */
int stk_own_temp_folder(const char *dir, const char *prefix, char **path, int *fd,
                        struct stk_err *err);
/* mkdir -p with mode 0777 & ~umask, for folders the user named; follows links. */
int stk_mkdirs(const char *path, struct stk_err *err);
/* Opens the parent folder of root/name; makes missing folders. root is a folder that the user
 * named; below it, where names come from data, no link is followed. *dirfd: caller closes. */
int stk_mkdirs_below(const char *root, const char *name, int *dirfd, struct stk_err *err);
/* Opens the parent folder of path; *name: the last component, borrowed from path. *dirfd: caller
 * closes. */
int stk_open_parent(const char *path, int *dirfd, const char **name, struct stk_err *err);
/* Makes the names in a folder durable, if its file system can. */
int stk_fsync_dir(int fd, const char *path, struct stk_err *err);
/* "/proc/self/fd/N/NAME" (NAME may be NULL): the path of an open folder for libraries that take
 * only paths. It stays that folder even if its name leads elsewhere by now. Returns buf. */
#define STK_FD_PATH 320
const char *stk_fd_path(int dirfd, const char *name, char buf[STK_FD_PATH]);

/* ---- a file being written ------------------------------------------------------------------- */

/* "NAME.partial.RANDOM" in the target's folder until it is renamed to NAME, locked while its process
 * lives. What killed processes left is removed by the next one that writes NAME. */
struct stk_new {
    int dirfd;               /* -1: not begun */
    int fd;                  /* the caller writes here */
    char *tmp, *name, *path; /* tmp NULL: written in place (stk_new_output) */
};
#define STK_NEW_INIT ((struct stk_new){.dirfd = -1, .fd = -1})
#define STK_SHARED   0666 /* by the umask */
#define STK_PRIVATE  0600

/* Opens for reading and writing. The first opens path's folder; the second keeps a duplicate of
 * dirfd. */
int stk_new_begin(struct stk_new *f, const char *path, mode_t mode, struct stk_err *err);
int stk_new_begin_at(struct stk_new *f, int dirfd, const char *name, mode_t mode, const char *path,
                     struct stk_err *err);
/* For an output file that the user names: like stk_new_begin(), but opens pipes, devices, and files
 * in /dev or /proc (/dev/stdout) in place. */
int stk_new_output(struct stk_new *f, const char *path, mode_t mode, struct stk_err *err);
/* fsync, rename, fsync of the folder. Always releases f; leaves no file after an error. */
int stk_new_commit(struct stk_new *f, struct stk_err *err);
/* Leaves no file. Also valid after a failed begin, after commit, and for STK_NEW_INIT. */
void stk_new_abort(struct stk_new *f);
/* Removes what killed processes of this user left of NAME; returns how many files. */
unsigned stk_new_sweep(int dirfd, const char *name);

/* Opens a file that readers may watch while it grows. Removes an existing file or link of that name
 * first, and never writes through it. Opens pipes, devices, and files in /dev or /proc in place.
 * *fd: caller closes. */
int stk_open_fresh(int dirfd, const char *name, mode_t mode, int *fd, const char *path,
                   struct stk_err *err);
/* The same for a file that several runs or processes append to: made if missing, else it must be
 * ours, regular, without another name and writable only by us. */
int stk_open_append(int dirfd, const char *name, mode_t mode, int *fd, const char *path,
                    struct stk_err *err);
/* Creates a file in a folder that is ours already (stk_own_folder, and below it); EEXIST if the
 * name is taken. Returns the descriptor, or -1 with errno. */
int stk_create_at(int dirfd, const char *name, mode_t mode);
/* Opens a folder within one that is ours already, made if missing (by the umask), not through a
 * link. Returns the descriptor, or -1 with errno. */
int stk_enter_at(int dirfd, const char *name);
/* Creates a file without a name in that folder, 0600. Returns the descriptor, or -1 with errno. */
int stk_create_nameless(const char *dir);

/* Writes a whole file: begin (the second: stk_new_output), write, commit. */
int stk_write_file_at(int dirfd, const char *name, const void *p, size_t n, mode_t mode,
                      const char *path, struct stk_err *err);
int stk_write_file_atomic(const char *path, const void *p, size_t n, struct stk_err *err);

/* Who may read all of some files and folders. */
struct stk_readers {
    int audience; /* 0: their owners, 1: the group, 2: everybody */
    gid_t gid;
    bool any; /* at least one was joined */
};
void stk_readers_join(struct stk_readers *r, const struct stat *st);
void stk_readers_merge(struct stk_readers *r, const struct stk_readers *other);
/* Lets these readers, as far as the umask allows, read a file that was begun STK_PRIVATE. Skips
 * permissions that cannot be granted. */
void stk_new_share(struct stk_new *f, const struct stk_readers *r);
/* For a file that the user names and that tells what is in others: nobody else may read it. Without
 * a reader joined (or NULL): by the umask. */
int stk_new_derived(struct stk_new *f, const char *path, const struct stk_readers *r,
                    struct stk_err *err);
int stk_write_derived(const char *path, const void *p, size_t n, const struct stk_readers *r,
                      struct stk_err *err);

/* ---- reading, renaming, removing ------------------------------------------------------------ */

/* True for the errno of a name that does not exist. Every other error (EACCES, EIO, ESTALE, ELOOP,
 * EMFILE, …) says nothing about that: what cannot be looked at is not absent. */
bool stk_is_absent(int error);
/* For a file that need not be there. Takes what the function returned that opened or read it, with
 * its error. 1: it was there; 0: it does not exist, and *err is cleared; else the error. */
int stk_if_there(int rc, struct stk_err *err);
/* Looks for such a name; does not follow a link. 1: it is there, and *st (may be NULL) is its
 * status; 0: it does not exist; else the error. */
int stk_find_at(int dirfd, const char *name, struct stat *st, const char *path,
                struct stk_err *err);
/* False if the name certainly does not exist; true also if it cannot be looked at. */
bool stk_may_exist(int dirfd, const char *name);
/* Opens a file for reading without blocking. Refuses anything but a regular file, and says what it
 * is ("is a pipe", STK_E_UNSUPPORTED). flags: O_NOFOLLOW or 0. st may be NULL. *fd: caller
 * closes. */
int stk_read_open(int dirfd, const char *name, int flags, int *fd, struct stat *st,
                  const char *path, struct stk_err *err);
/* Locks an open file or folder against other processes; true also where there are no locks. A child
 * that a process started just before it was killed has the lock until it runs its program: waits a
 * second for that. False: another process has it. */
bool stk_lock_alone(int fd);
/* Renames within a folder, or between two folders of ours. 0, or -1 with errno. */
int stk_rename_at(int from, const char *name, int to, const char *new_name);
/* Renames within a folder. EEXIST: there is something of that name. */
int stk_rename_new_at(int dirfd, const char *name, const char *new_name);
/* Swaps two names. EINVAL or ENOSYS: the file system cannot. */
int stk_exchange_at(int dirfd, const char *a, const char *b);
/* Removes a file or a link (never its target). Succeeds if it does not exist. */
int stk_unlink_at(int dirfd, const char *name, const char *path, struct stk_err *err);
/* Removes an empty folder. 0, or -1 with errno. */
int stk_rmdir_at(int dirfd, const char *name);
/* Removes a folder if it is empty. Succeeds also if it stays because it holds anything, or is none,
 * or if it does not exist. path: of dirfd. */
int stk_rmdir_empty_at(int dirfd, const char *name, const char *path, struct stk_err *err);
/* Removes name and all below it through descriptors. Removes links, never follows them; fails at a
 * mount point below. Succeeds if name does not exist. */
int stk_remove_at(int dirfd, const char *name, const char *path, struct stk_err *err);
int stk_remove_tree(const char *path, struct stk_err *err);

/* What stays because it is not ours. */
struct stk_left {
    uint64_t n;
    char first[PATH_MAX]; /* below the folder: "a/b" */
};
/* Removes what is ours of an open folder: files and links that ours() recognises by their names
 * below it ("a/b"), and folders that are empty then; not the folder itself. Everything is reached
 * through the descriptor, so that it does not matter what the folder's name leads to by now. left
 * adds up over calls. Fails at a mount point. */
int stk_remove_ours(int dirfd, bool (*ours)(void *user, const char *name), void *user,
                    struct stk_left *left, const char *path, struct stk_err *err);
/* Counts what stk_remove_ours() would leave, and removes nothing. */
int stk_count_others(int dirfd, bool (*ours)(void *user, const char *name), void *user,
                     struct stk_left *left, const char *path, struct stk_err *err);

/* ---- for own.c and own_file.c ---------------------------------------------------------------- */

#define STK_RANDOM_NAME 240

/* NAME MARK RANDOM; a long name is cut to 200 bytes. */
void stk_random_name(char out[STK_RANDOM_NAME], const char *name, const char *mark);

/* Creates a file without a name; if the file system cannot, it is NAME.partial.RANDOM for a moment.
 * Returns the descriptor, or -1 with errno. */
int stk_create_nameless_at(int dirfd, const char *name, mode_t mode);

#endif
