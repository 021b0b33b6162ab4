/*
 * style.h - emphasis in text that is shown.
 *
 * Who draws a screen puts these marks around words; whoever prints it turns them into colours on a
 * terminal, or removes them (stk_style_apply()). A mark is one control character, which takes no
 * column (stk_cp_width()) and cannot come from a name or value: those are escaped (base/text.h).
 */
#ifndef STK_BASE_STYLE_H
#define STK_BASE_STYLE_H

#include "base/buf.h"

#define STK_PLAIN  "\x0e" /* ends the others */
#define STK_STRONG "\x0f"
#define STK_FAINT  "\x10"
#define STK_GOOD   "\x11"
#define STK_WARN   "\x12"
#define STK_BAD    "\x13"

/* Appends the n bytes of text, with escape sequences for its marks, or without its marks. */
void stk_style_apply(const char *text, size_t n, bool colour, struct stk_buf *out);
bool stk_style_is_mark(uint32_t cp);

#endif
