/* unpack.h - what it costs to unpack compressed data, and what compressing would leave of it. */
#ifndef STK_TUNE_UNPACK_H
#define STK_TUNE_UNPACK_H

#include "tune/files.h"

/* CPU seconds per stored byte in which a program, and stoker's loader, unpack it; 0: it is not
 * compressed. */
struct stk_unpack {
    double program_s, loader_s;
    double grows; /* bytes per stored byte, unpacked, and of a table as arrays; 0: not known */
    double zstd_leaves; /* bytes per stored byte if zstd packs it; 0: not known */
    double unzstd_s;    /* CPU seconds per stored byte in which that is unpacked */
};

/* Tries some of the files, for two seconds at most. tick: called now and then; non-zero: stop. May be
 * NULL. */
void stk_tune_unpack(const char *source, const struct stk_tune_files *f, int (*tick)(void *user),
                     void *user, struct stk_unpack *out);

#endif
