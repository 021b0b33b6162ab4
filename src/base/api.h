/* api.h - what the functions of stoker.h need: live handles, and structs that grow. */
#ifndef STK_BASE_API_H
#define STK_BASE_API_H

#include <stdbool.h>

#include "base/err.h"

/* The live handles of callers: a second release is detected without touching memory that may be
 * freed. False: out of memory, it is not live. Any thread, like the next function. */
bool stk_live_add(const void *handle);
/* True when it was live: the caller releases it now. False: NULL, or released before. */
bool stk_live_end(const void *handle);

/* ---- structs of callers ---------------------------------------------------------------------- */

/* Structs of stoker.h whose size the caller passes: they grow at their end, and a program may have
 * been built with an older or a newer header than the library. */

/* Copies the caller's struct to ours: members that it lacks are 0, the default. theirs may be NULL.
 * STK_E_USAGE: it sets a member that we lack. what: "loader options". */
int stk_sized_in(void *own, size_t own_size, const void *theirs, size_t their_size,
                 const char *what, struct stk_err *err);
/* Copies ours to the caller's: drops members that it lacks, sets those that we lack to 0. theirs
 * may be NULL. */
void stk_sized_out(void *theirs, size_t their_size, const void *own, size_t own_size);

#endif
