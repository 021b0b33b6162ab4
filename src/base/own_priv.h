/* own_priv.h - what own.c and own_file.c share. */
#ifndef STK_BASE_OWN_PRIV_H
#define STK_BASE_OWN_PRIV_H

#include "base/own.h"

#define STK_RANDOM_NAME 240

/* NAME MARK RANDOM; a long name is cut to 200 bytes. */
void stk_random_name(char out[STK_RANDOM_NAME], const char *name, const char *mark);

/* Creates a file without a name; if the file system cannot, it is NAME.partial.RANDOM for a moment.
 * Returns the descriptor, or -1 with errno. */
int stk_create_nameless_at(int dirfd, const char *name, mode_t mode);

#endif
