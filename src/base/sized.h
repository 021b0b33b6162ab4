/*
 * sized.h - structs of stoker.h whose size the caller says: they grow at their end, and a program
 * may have been built with an older or a newer header than the library.
 */
#ifndef STK_BASE_SIZED_H
#define STK_BASE_SIZED_H

#include "base/err.h"

/* The caller's struct as ours: members that it does not have are 0, the default. theirs may be
 * NULL. STK_E_USAGE: it sets a member that we do not have. what: "loader options". */
int stk_sized_in(void *own, size_t own_size, const void *theirs, size_t their_size,
                 const char *what, struct stk_err *err);
/* Ours as the caller's: what it does not have is left out, what we do not have is 0. theirs may be
 * NULL. */
void stk_sized_out(void *theirs, size_t their_size, const void *own, size_t own_size);

#endif
