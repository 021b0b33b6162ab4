/* checksum.h - the checksum of an entry of a manifest: a file, or a folder with everything in
 * it. */
#ifndef STK_DATASET_CHECKSUM_H
#define STK_DATASET_CHECKSUM_H

#include "base/err.h"
#include "dataset/manifest.h"

/* Size and checksum of a file, or of a tree (names, sizes and contents). outside: links may lead
 * out of dirfd. */
int stk_content_checksum(int dirfd, bool outside, const char *name, uint64_t *size, uint64_t *hash,
                         const char *path, struct stk_err *err);
/* Compares size and checksum of an entry of a manifest with what is there. path: for messages.
 * *size: what is there. */
int stk_content_compare(int dirfd, bool outside, const struct stk_manifest_file *f,
                        const char *path, uint64_t *size, struct stk_err *err);

#endif
