/*
 * code.h - code to paste. What is printed stands in files of its own, advice/code and format/code:
 * Python, C and shell that run as they stand, with names in capitals for what is not known before.
 * meson.build embeds them (embed.py).
 *
 * A place is such a name: SOURCE in Python and C, "$SOURCE" in a shell. A place without a value
 * takes what belongs to it away: an argument (`, depth=DEPTH`), an option (` --depth "$DEPTH"`), a
 * word of a command, or a comment that is nothing else.
 */
#ifndef STK_ADVICE_CODE_H
#define STK_ADVICE_CODE_H

#include "base/buf.h"

enum stk_language { STK_SHELL, STK_PYTHON, STK_C };

struct stk_snippet {
    enum stk_language language;
    const char *text; /* lines, each with its line break */
};

/* Snippets in the order in which they are used; neighbours differ in language. */
struct stk_snippets {
    struct stk_snippet *snippet; /* their texts are malloc'ed */
    size_t n;
    bool fail; /* no memory: contents are then meaningless */
};

struct stk_place {
    const char *name, *value; /* value NULL: none */
    bool raw;                 /* the value is code; else it is quoted as a string */
};

/* Appends code with its places filled in. `place` ends at a name of NULL. A comment sign goes in
 * front of each line if `commented`. */
void stk_code_fill(struct stk_buf *out, enum stk_language language, const char *code,
                   const struct stk_place *place, bool commented);
/* Appends a text to the last snippet, or to a new one of that language. */
void stk_snippets_add(struct stk_snippets *out, enum stk_language language, struct stk_buf *text);
void stk_snippets_release(struct stk_snippets *c);

const char *stk_language_name(enum stk_language language);  /* "shell", "python", "c" */
const char *stk_language_title(enum stk_language language); /* "In the shell" */
const char *stk_language_title_of(const char *name);        /* the same, by its name */

#endif
