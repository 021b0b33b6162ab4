/* quote.h - paths put into commands and code that a person will paste: safe for any bytes. */
#ifndef STK_LAB_QUOTE_H
#define STK_LAB_QUOTE_H

#include "base/buf.h"

/* One word for a POSIX shell: bare where nothing in it is special, else in '…'; where it holds
 * control characters or bytes that are not UTF-8, as $'…' (bash, zsh, ksh), so that nothing in it
 * steers a terminal. "-x" becomes "./-x": no word looks like an option. */
void stk_quote_shell(struct stk_buf *out, const char *s);
/* A Python string literal "…" that names the same file: other bytes as \udcNN, as os.fsdecode(). */
void stk_quote_python(struct stk_buf *out, const char *s);

#endif
