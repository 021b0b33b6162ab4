/*
 * dir.h - the only way stoker lists a folder. readdir() returns NULL at the end and after an error
 * alike (glibc's even takes ENOENT for the end), and a list that ends early reads as a smaller
 * dataset; here an error is kept until stk_dir_end() reports it. (tests/security/test_source.py checks
 * that nothing else lists.)
 *
 *     struct stk_dir d;
 *     int rc = stk_dir_open(&d, path, err);
 *     for (const struct dirent *e; !rc && (e = stk_dir_next(&d));)
 *         rc = take(e->d_name, err);
 *     return stk_dir_end(&d, rc, err);
 */
#ifndef STK_BASE_DIR_H
#define STK_BASE_DIR_H

#include <dirent.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"

struct stk_dir {
    int fd;
    char *list;      /* what the kernel returned last; NULL: not open */
    size_t at, have; /* in list */
    const char *path;
    int error;   /* errno of the first failure; 0: none */
    char *entry; /* the entry that could not be looked at; NULL: it was the folder */
};

/* path: borrowed until the end, for messages. All of them leave d valid for stk_dir_end(), also
 * after an error. */
int stk_dir_open(struct stk_dir *d, const char *path, struct stk_err *err);
/* A folder that does not exist has no entries. */
int stk_dir_open_optional(struct stk_dir *d, const char *path, struct stk_err *err);
/* From its beginning, of an open folder. dirfd stays the caller's. */
int stk_dir_open_fd(struct stk_dir *d, int dirfd, const char *path, struct stk_err *err);
/* Takes ownership of fd, also on error. Negative: it could not be opened, errno says why. */
int stk_dir_take(struct stk_dir *d, int fd, const char *path, struct stk_err *err);

/* The next entry, without "." and ".."; NULL: no more, or an error. Borrowed until the next call. */
const struct dirent *stk_dir_next(struct stk_dir *d);
/* DT_REG, DT_DIR, DT_LNK, …; DT_UNKNOWN: it is gone by now, or an error. */
unsigned char stk_dir_type(struct stk_dir *d, const struct dirent *e);
/* flags: AT_SYMLINK_NOFOLLOW or 0. False: it is gone by now (or a link that leads to nothing), or an
 * error. */
bool stk_dir_stat(struct stk_dir *d, const struct dirent *e, int flags, struct stat *st);

/* Closes. Returns rc if that is an error of the caller, else why the list is not complete
 * (STK_E_SYS, with errno in err->sys_errno), else rc. */
int stk_dir_end(struct stk_dir *d, int rc, struct stk_err *err);

/* 1: the open folder is empty; 0: it is not; negative: not known. */
int stk_dir_is_empty(int dirfd, const char *path, struct stk_err *err);

#endif
