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

/* ---- functions of other libraries ------------------------------------------------------------ */

/* Real functions of libraries other than the C library (HDF5, MPI, liburing, libaio). A program
 * may hold several copies of one, each loaded separately (as Python's packages do): the caller
 * determines which one a call means. Looked up once per call site. */

/* name: a literal (compared by address). NULL: none. */
void *stk_foreign(const char *name, const void *return_address);

/* In a library's function that is counted itself: functions that it calls are not. */
extern __thread int stk_inside_library
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

/* Declares `real` as REAL() does. */
#define FOREIGN(type, name, args) type(*const real) args = (type(*) args)stk_foreign(#name, CALLER)

/* ---- kernel aio ------------------------------------------------------------------------------ */

/* Kernel aio, by libaio and by syscall(): what is submitted, and results that are fetched. */

struct iocb;
struct io_event;

/* Before the call: a transfer may end, and its result be fetched by another thread, before it
 * returns. */
void stk_aio_submitting(struct iocb **list, long n);
/* `accepted` of them were (negative: an error). */
void stk_aio_submitted(struct iocb **list, long n, long accepted);
void stk_aio_fetched(const struct io_event *event, long n);

#endif
