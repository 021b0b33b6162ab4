/* quote.h - quoting words for commands and code that a user may paste: safe for any bytes. */
#ifndef STK_BASE_QUOTE_H
#define STK_BASE_QUOTE_H

#include "base/buf.h"

/* One word for a POSIX shell: bare if nothing in it is special, else in '…'; with control
 * characters or bytes that are not UTF-8, as $'…' (bash, zsh, ksh), so that it cannot steer a
 * terminal. */
void stk_quote_word(struct stk_buf *out, const char *s, size_t n);
/* The same for a path: "-x" becomes "./-x", so that it does not look like an option. */
void stk_quote_shell(struct stk_buf *out, const char *path);
/* A relative name as a line of a list for `tar -T` of GNU, which unquotes it (without --null and
 * --verbatim-files-from): tar takes no option from it, and it cannot steer a terminal. */
void stk_quote_tar(struct stk_buf *out, const char *name);
/* Always in '…': for scripts that any shell may run, not for display. */
void stk_quote_raw(struct stk_buf *out, const char *s, size_t n);
/* A Python string literal "…" that names the same file: other bytes as \udcNN, as os.fsdecode(). */
void stk_quote_python(struct stk_buf *out, const char *s);
/* A C string literal "…" of the same bytes. */
void stk_quote_c(struct stk_buf *out, const char *s);

#endif
