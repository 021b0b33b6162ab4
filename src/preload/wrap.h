/*
 * wrap.h - how to write a wrapper.
 *
 * WRAP(type, name, args) defines the C function wrap_NAME under the symbol NAME. Its own C name
 * keeps the headers out of it: they redirect names (fscanf is __isoc99_fscanf, stat is stat64 with
 * 64-bit offsets), inline them in fortified builds and promise that pointers are not NULL.
 */
#ifndef STK_PRELOAD_WRAP_H
#define STK_PRELOAD_WRAP_H

#include <errno.h>

#include "preload/core.h"

#define WRAP(type, name, args)                                                                     \
    STK_EXPORT type wrap_##name args __asm__(#name);                                               \
    type wrap_##name args

/* For a function that not every C library has: a program that finds ours by dlsym() must get an
 * error, not a crash. */
#define REAL_OR(type, name, args, fail)                                                            \
    REAL(type, name, args);                                                                        \
    if (__builtin_expect(!real, 0)) {                                                              \
        errno = ENOSYS;                                                                            \
        return fail;                                                                               \
    }                                                                                              \
    (void)0

/* For stk_pl_meta_*(): time only, no other counter. */
#define STK_TIME_ONLY STK_C_META_NS

#endif
