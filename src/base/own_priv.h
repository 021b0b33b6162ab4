/* own_priv.h - what own.c and own_file.c share. */
#ifndef STK_BASE_OWN_PRIV_H
#define STK_BASE_OWN_PRIV_H

#include "base/own.h"

#define STK_RANDOM_NAME 240

/* NAME MARK RANDOM; of a long name its first 200 bytes. */
void stk_random_name(char out[STK_RANDOM_NAME], const char *name, const char *mark);

/* A file that has no name: where that cannot be, NAME.partial.RANDOM for a moment. The descriptor,
 * -1: errno says why. */
int stk_create_nameless_at(int dirfd, const char *name, mode_t mode);

#endif
