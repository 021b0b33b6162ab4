/*
 * foreign.h - real functions of libraries other than the C library (HDF5, MPI, liburing, libaio). A
 * program may hold several copies of one, each loaded separately (as Python's packages do): the
 * caller determines which one a call means. Looked up once per call site.
 */
#ifndef STK_PRELOAD_FOREIGN_H
#define STK_PRELOAD_FOREIGN_H

#include "preload/wrap.h"

/* name: a literal (compared by address). NULL: none. */
void *stk_foreign(const char *name, const void *return_address);

/* In a library's function that is counted itself: functions that it calls are not. */
extern __thread int stk_inside_library
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

/* Declares `real` as REAL() does. */
#define FOREIGN(type, name, args) type(*const real) args = (type(*) args)stk_foreign(#name, CALLER)

#endif
