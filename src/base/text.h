/*
 * text.h - UTF-8, showing untrusted text, emphasis in it, and quoting it.
 *
 * Names and values come from datasets, so they may contain escape sequences that a terminal obeys,
 * bytes that are not UTF-8, and characters two columns wide. Everything shown goes through here.
 */
#ifndef STK_BASE_TEXT_H
#define STK_BASE_TEXT_H

#include "base/buf.h"

/* Decodes one character at p (n >= 1 bytes there). Returns its length 1..4 and sets *cp, or 0
 * when the bytes are not UTF-8 (overlong, surrogate, past U+10FFFF, cut short). */
size_t stk_utf8_next(const char *p, size_t n, uint32_t *cp);
/* Writes cp to out (room for 4) and returns its length. */
size_t stk_utf8_put(char *out, uint32_t cp);
/* True for characters that steer a terminal or reorder a line instead of showing: C0, DEL, C1,
 * line and paragraph separators, bidirectional controls and other invisible format characters. */
bool stk_cp_is_control(uint32_t cp);
/* Columns a character takes on a terminal: 0 (combining, or a mark, below), 1 or 2. */
unsigned stk_cp_width(uint32_t cp);

/* Appends s with control characters as \n, \t, \xNN or \u{NNNN}, backslashes doubled, and bytes
 * that are not UTF-8 as \xNN, at most max_cols columns ("..." at the end when cut; SIZE_MAX: all).
 * Returns the columns taken. */
size_t stk_text_escape(struct stk_buf *out, const char *s, size_t n, size_t max_cols);
/* Columns s takes; s is already safe to show. */
size_t stk_text_width(const char *s, size_t n);

/* True if the n bytes at s end in `end` exactly. */
bool stk_text_ends(const char *s, size_t n, const char *end);
/* True if a file's name ends in suffix, ignoring case, with something before it. */
bool stk_name_has_suffix(const char *name, size_t n, const char *suffix);

/* True if the first bytes of a file look like UTF-16: a byte order mark, or every other byte
 * zero. */
bool stk_text_is_utf16(const uint8_t *p, size_t n);
#define STK_SAY_UTF16 "the file is UTF-16; convert it: iconv -f utf-16 -t utf-8"

/* Damerau-Levenshtein distance (optimal string alignment), ignoring case, of words up to 63
 * bytes; longer ones are UINT_MAX apart. */
unsigned stk_text_distance(const char *a, const char *b);
/* The entry of words (NULL-terminated) that the user probably meant by `word`: the nearest
 * spelling, or an entry that begins with it. NULL if none is near. */
const char *stk_text_nearest(const char *word, const char *const *words);
/* Where word is in a list that ends with NULL: the value of an enum by its name. -1: nowhere, or
 * word is NULL. */
int stk_text_index(const char *word, const char *const *words);

/* ---- emphasis -------------------------------------------------------------------------------- */

/* Emphasis in text that is shown.
 *
 * Who draws a screen puts these marks around words; whoever prints it turns them into colours on a
 * terminal, or removes them (stk_style_apply()). A mark is one control character, which takes no
 * column (stk_cp_width()) and cannot come from a name or value: those are escaped. */

#define STK_PLAIN  "\x0e" /* ends the others */
#define STK_STRONG "\x0f"
#define STK_FAINT  "\x10"
#define STK_GOOD   "\x11"
#define STK_WARN   "\x12"
#define STK_BAD    "\x13"

/* Appends the n bytes of text, with escape sequences for its marks, or without its marks. */
void stk_style_apply(const char *text, size_t n, bool colour, struct stk_buf *out);
bool stk_style_is_mark(uint32_t cp);

/* ---- quoting --------------------------------------------------------------------------------- */

/* Quoting words for commands and code that a user may paste: safe for any bytes. */

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
