/*
 * sized.h - structs of stoker.h whose size the caller passes: they grow at their end, and a program
 * may have been built with an older or a newer header than the library.
 */
#ifndef STK_BASE_SIZED_H
#define STK_BASE_SIZED_H

#include "base/err.h"

/* Copies the caller's struct to ours: members that it lacks are 0, the default. theirs may be NULL.
 * STK_E_USAGE: it sets a member that we lack. what: "loader options". */
int stk_sized_in(void *own, size_t own_size, const void *theirs, size_t their_size,
                 const char *what, struct stk_err *err);
/* Copies ours to the caller's: drops members that it lacks, sets those that we lack to 0. theirs
 * may be NULL. */
void stk_sized_out(void *theirs, size_t their_size, const void *own, size_t own_size);

#endif
