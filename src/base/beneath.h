/*
 * beneath.h - opening files beneath a folder by names that another user may have chosen, through
 * links that another user may change meanwhile: the walk never leaves the folder.
 *
 * Links are followed as long as they stay beneath the folder: relative ones with "..", absolute
 * ones that begin with the folder's own path. A link that leads outside gives EXDEV.
 */
#ifndef STK_BASE_BENEATH_H
#define STK_BASE_BENEATH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Like openat(), always O_CLOEXEC; never creates. Returns a descriptor, or -1 with errno. */
int stk_open_beneath(int folder, const char *name, int flags);
/* The same step by step, for kernels without openat2(): a descriptor for each folder on the way. */
int stk_open_beneath_stepwise(int folder, const char *name, int flags);
/* Like openat() if links may lead outside, else like stk_open_beneath(). */
int stk_open_by_rule(int folder, bool outside, const char *name, int flags);
/* Status of the file that the name leads to. Returns 0, or -1 with errno. */
int stk_stat_beneath(int folder, const char *name, struct stat *sb);

/* The same for many names, sorted so that files of one folder are adjacent: the folder stays
 * open. */
struct stk_stat_walk {
    int folder, dir; /* dir: of the last name, -1: none yet */
    bool outside;    /* links are followed wherever they lead */
    size_t len;      /* of the name of dir, in `at` */
    char at[PATH_MAX];
};
void stk_stat_walk_init(struct stk_stat_walk *l, int folder, bool outside); /* Borrows folder. */
int stk_stat_walk(struct stk_stat_walk *l, const char *name, struct stat *sb);
void stk_stat_walk_release(struct stk_stat_walk *l);

#endif
