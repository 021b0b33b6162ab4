/*
 * notes.h - what the readers of a dataset left out, and what they took something as.
 *
 * The list stays short for any dataset: equal notes are merged, with a count and the first names.
 * The same files give the same list, in the order of the files.
 */
#ifndef STK_DATASET_NOTES_H
#define STK_DATASET_NOTES_H

#include "base/buf.h"
#include "base/err.h"

#define STK_NOTES_KEPT 64 /* notes, and names of a note */

struct stk_notes {
    struct stk_note *item; /* stoker.h */
    size_t n;
};

void stk_notes_release(struct stk_notes *s);
/* Notes that `count` things of this kind named `name` were left out. Copies; cuts long texts. */
int stk_notes_left_out(struct stk_notes *s, const char *kind, const char *name, const char *why,
                       uint64_t count, struct stk_err *err);
int stk_notes_taken(struct stk_notes *s, const char *what, const char *as, const char *because,
                    uint64_t count, struct stk_err *err);
/* Adds the notes of `from`. */
int stk_notes_join(struct stk_notes *s, const struct stk_notes *from, struct stk_err *err);
/* The number of things left out. */
uint64_t stk_notes_missing(const struct stk_notes *s);

/* Writes them as bytes; reads one or more such writes, trusting no byte. */
void stk_notes_write(const struct stk_notes *s, struct stk_buf *out);
int stk_notes_read(struct stk_notes *s, const char *p, size_t n, struct stk_err *err);

#endif
