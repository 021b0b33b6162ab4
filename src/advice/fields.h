/*
 * fields.h - the fields that a batch of stoker's loader has if samples are files: what they are
 * called, what they hold, and code that makes objects of them.
 */
#ifndef STK_ADVICE_FIELDS_H
#define STK_ADVICE_FIELDS_H

#include "base/buf.h"

struct stk_file_field {
    const char *name;   /* in a batch and in a sample; NULL: there is none, or it is not known */
    const char *format; /* of the files */
    bool parsed;        /* the loader gives objects, not the bytes of a file */
};

#define STK_FIELDS 2 /* a file of each of two folders is one sample */

/* "io, numpy": what the expressions need. */
void stk_fields_modules(const struct stk_file_field field[STK_FIELDS], struct stk_buf *out);
/* The expression that makes an object of `from`, an expression for what field n holds. */
void stk_field_load(const struct stk_file_field field[STK_FIELDS], size_t n, const char *from,
                    struct stk_buf *out);
/* `"jpg": the bytes of each file; "txt": the content of each file` */
void stk_fields_show(const struct stk_file_field field[STK_FIELDS], bool labelled,
                     struct stk_buf *out);

#endif
