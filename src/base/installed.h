/* installed.h - the files that are installed with stoker, other than its programs. */
#ifndef STK_BASE_INSTALLED_H
#define STK_BASE_INSTALLED_H

/* The folder they are installed in. */
extern const char stk_installed_folder[];
/* The path of one: beside this program (a build tree), in the folder as it is relative to the
 * program (an installation that was moved as a whole), or in the folder. NULL: missing. Caller
 * frees with free(). */
char *stk_installed(const char *name);
/* Calls each() for those folders, in that order, until it returns non-zero; returns that. */
int stk_installed_folders(int (*each)(void *user, const char *folder), void *user);

#endif
