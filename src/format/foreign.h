/*
 * foreign.h - formats that stoker recognises and does not read (foreign.c). They stand in the table
 * of formats behind the others, so that their files are named instead of being taken for something
 * else.
 */
#ifndef STK_FORMAT_FOREIGN_H
#define STK_FORMAT_FOREIGN_H

#include "format/format.h"

const struct stk_format *stk_foreign_at(size_t i); /* NULL past the end */
/* The format of a store (a folder with files for its chunks) that has a file of this name; NULL: it
 * marks none. */
const struct stk_format *stk_foreign_marked(const char *name);
/* STK_E_UNSUPPORTED: what it is, and what to do instead. */
int stk_foreign_refuse(const struct stk_format *f, const char *path, bool folder,
                       struct stk_err *err);

#endif
