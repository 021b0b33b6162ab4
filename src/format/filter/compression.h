/*
 * compression.h - files compressed as a whole in a way that stoker cannot read through: such a
 * stream cannot be entered in the middle. They are refused by name, with what to do.
 */
#ifndef STK_FORMAT_FILTER_COMPRESSION_H
#define STK_FORMAT_FILTER_COMPRESSION_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STK_COMPRESSION_HEAD 16u /* bytes stk_compression_of() looks at */

struct stk_compression {
    const char *name, *suffix; /* "zstd", ".zst" */
    const char *undo;          /* "zstd -d" */
};

/* The compression of a file with these first bytes; NULL: none, or one that stoker reads. */
const struct stk_compression *stk_compression_of(const uint8_t *head, size_t n);
/* By a file's name: "a.tar.zst". *len loses the suffix. */
const struct stk_compression *stk_compression_named(const char *name, size_t *len);
/* STK_E_UNSUPPORTED, and what to do. */
int stk_compression_refuse(const struct stk_compression *c, const char *path, struct stk_err *err);

#endif
