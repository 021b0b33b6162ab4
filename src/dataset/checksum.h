/* checksum.h - the checksum of an entry of a manifest: a file, or a folder with everything in
 * it. */
#ifndef STK_DATASET_CHECKSUM_H
#define STK_DATASET_CHECKSUM_H

#include "base/err.h"

/* Size and checksum of a file, or of a tree (names, sizes and contents). outside: links may lead
 * out of dirfd. */
int stk_content_checksum(int dirfd, bool outside, const char *name, uint64_t *size, uint64_t *hash,
                         const char *path, struct stk_err *err);

#endif
