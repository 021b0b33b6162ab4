/*
 * confine.h - what a process gives up for good before it lets a library read an untrusted file.
 *
 * Uses two mechanisms of the kernel if they exist: seccomp allows only system calls that read and
 * compute, Landlock allows opening only the named files. Neither needs privileges.
 */
#ifndef STK_BASE_CONFINE_H
#define STK_BASE_CONFINE_H

#include <stddef.h>

enum {
    STK_CONFINED_CALLS = 1, /* seccomp: no network, no new process or program, writing only to
                             * `answers`, no executable memory; refused with EPERM */
    STK_CONFINED_FILES = 2, /* Landlock: opens only the named files, and only for reading */
};

struct stk_confine {
    int readable; /* descriptor of a file that may be opened again, by any of its names */
    int answers;  /* descriptor that may be written to, besides standard output and error */
};

/* Confines the calling thread and what it starts: call it in a helper process (base/helper.h).
 * /proc/self/maps stays readable. Returns the mechanisms that took effect, STK_CONFINED_*; none if the
 * kernel, the architecture or an outer sandbox does not allow them. */
unsigned stk_confine(const struct stk_confine *c);

#endif
