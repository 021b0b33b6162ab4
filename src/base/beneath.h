/*
 * beneath.h - opening what stands beneath a folder, by a name that somebody else may have chosen or
 * whose links somebody else may change meanwhile: the way never leaves the folder.
 *
 * A link on the way is followed as long as it stays beneath the folder: by its own "..", or, where
 * it is absolute, by beginning with the folder's own path. One that leads outside gives EXDEV.
 */
#ifndef STK_BASE_BENEATH_H
#define STK_BASE_BENEATH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* As openat(), always O_CLOEXEC; nothing is ever made. Returns a descriptor, or -1 with errno. */
int stk_open_beneath(int folder, const char *name, int flags);
/* The same step by step, for kernels without openat2(): a descriptor for each folder on the way. */
int stk_open_beneath_stepwise(int folder, const char *name, int flags);
/* As openat() where links may lead outside, else as stk_open_beneath(). */
int stk_open_by_rule(int folder, bool outside, const char *name, int flags);
/* What the name leads to. Returns 0, or -1 with errno. */
int stk_stat_beneath(int folder, const char *name, struct stat *sb);

/* The same of many names, those of one folder beside each other: the folder stays open, and each
 * of its files takes a short look. */
struct stk_look {
    int folder, dir; /* dir: of the last name, -1: none yet */
    bool outside;    /* links are followed wherever they lead */
    size_t len;      /* of its name, which stands in `at` */
    char at[PATH_MAX];
};
void stk_look_init(struct stk_look *l, int folder, bool outside); /* Borrows folder. */
int stk_look(struct stk_look *l, const char *name, struct stat *sb);
void stk_look_release(struct stk_look *l);

#endif
