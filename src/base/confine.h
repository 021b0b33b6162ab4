/*
 * confine.h - what a process gives up, for good, before it lets a library loose on a stranger's
 * file.
 *
 * Two locks of the kernel, each taken where it is there: seccomp lets system calls through that
 * read and compute, Landlock lets open the files that are named and no others. Neither needs
 * privileges.
 */
#ifndef STK_BASE_CONFINE_H
#define STK_BASE_CONFINE_H

#include <stddef.h>

enum {
    STK_CONFINED_CALLS = 1, /* seccomp: no network, no new process or program, nothing written but
                               what `answers` says, no memory made executable; refused with EPERM */
    STK_CONFINED_FILES = 2, /* Landlock: files are opened for reading alone, and only those named */
};

struct stk_confine {
    int readable; /* a descriptor: the file it is open on may be opened again, by any of its names
                   */
    int answers;  /* the descriptor that may be written to, beside standard output and error */
};

/* Confines this process (the calling thread and what it starts: call it in a child that has one).
 * All other descriptors but 0, 1 and 2 are closed. /proc/self/maps stays readable. Returns which
 * locks took hold: STK_CONFINED_*; none where the kernel, the machine's architecture or the
 * sandbox we run in already do not allow it. */
unsigned stk_confine(const struct stk_confine *c);

#endif
