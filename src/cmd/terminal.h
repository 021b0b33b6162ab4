/*
 * terminal.h - the terminal as one screen that is drawn again and again, beside what it showed
 * before, which comes back however the process ends: by itself, by a signal, by a crash.
 */
#ifndef STK_CMD_TERMINAL_H
#define STK_CMD_TERMINAL_H

#include "base/buf.h"

/* Whether standard output is a terminal that can do this; keys: and standard input is one, too. */
bool stk_terminal_can(bool keys);
/* keys: reads them one by one, and shows none. */
void stk_terminal_open(bool keys);
/* Harmless if it is not open. */
void stk_terminal_close(void);
unsigned stk_terminal_columns(void);
unsigned stk_terminal_rows(void); /* for text: without the line at the bottom */
/* Draws the lines that fit, and `foot` at the end. The text has marks of base/text.h. */
void stk_terminal_draw(struct stk_buf *text, const char *foot, bool colour);

#define STK_KEY_NONE   0
#define STK_KEY_REDRAW 1 /* the terminal has another size, or the process was stopped for a while */
/* Waits for a key, for at most that long. also: a descriptor that ends the wait when it is
 * readable; -1: none. */
int stk_terminal_key(double seconds, int also);

#endif
