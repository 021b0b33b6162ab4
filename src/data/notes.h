/*
 * notes.h - what the readers of a dataset did not take, and what they took something to be.
 *
 * The list stays short whatever the dataset: notes that say the same are one, with a count and the
 * first names. The same files give the same list, in the order of the files.
 */
#ifndef STK_DATA_NOTES_H
#define STK_DATA_NOTES_H

#include "base/buf.h"
#include "base/err.h"

#define STK_NOTES_KEPT 64 /* notes, and names of a note */

struct stk_notes {
    struct stk_note *item; /* stoker.h */
    size_t n;
};

void stk_notes_release(struct stk_notes *s);
/* Left out: `count` things called `name` of this kind. Copies; long texts are cut. */
int stk_notes_left_out(struct stk_notes *s, const char *kind, const char *name, const char *why,
                       uint64_t count, struct stk_err *err);
int stk_notes_taken(struct stk_notes *s, const char *what, const char *as, const char *because,
                    uint64_t count, struct stk_err *err);
/* Adds those of `from`. */
int stk_notes_join(struct stk_notes *s, const struct stk_notes *from, struct stk_err *err);
/* How many things were left out. */
uint64_t stk_notes_missing(const struct stk_notes *s);

/* Appends them as bytes; reads what this wrote (any number of times over), trusting no byte. */
void stk_notes_write(const struct stk_notes *s, struct stk_buf *out);
int stk_notes_read(struct stk_notes *s, const char *p, size_t n, struct stk_err *err);

#endif
