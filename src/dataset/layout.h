/*
 * layout.h - what the names of files and folders say about a dataset: images and their annotations,
 * the split of a file, parallel folders.
 *
 * Uses only names and opens nothing. walk.c decides with it which files are samples.
 */
#ifndef STK_DATASET_LAYOUT_H
#define STK_DATASET_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

/* Left behind by desktops and archivers: never data. */
bool stk_layout_is_junk(const char *name);
/* README, LICENSE and similar files. */
bool stk_layout_is_readme(const char *name);
/* An image, sound, video or array: the usual samples of a folder of files. */
bool stk_layout_is_media(const char *name);
/* A table or text that is usually about other files. */
bool stk_layout_is_annotation(const char *name);
/* The suffix of a name with its dot; "": none. Borrowed. */
const char *stk_layout_suffix(const char *name);

/* The split ("train", "val2017", "test") in a path: the first directory of such a name, else, with
 * in_base, a word of the base name ("mnist-train.tfrecord-00000-of-00001"). *split is borrowed from
 * name and not terminated. */
bool stk_layout_split(const char *name, size_t len, bool in_base, const char **split, size_t *n);

/* A directory that does not denote a class: a split, or "images". */
bool stk_layout_is_neutral(const char *dir, size_t len);

/* Parallel trees, images/ and labels/ or masks/: which of them a path goes through first. */
enum stk_layout_side { STK_SIDE_NONE, STK_SIDE_IMAGES, STK_SIDE_LABELS };
/* [*from, *from + *n) is the directory with its slash: the path without it names the sample. */
enum stk_layout_side stk_layout_side(const char *name, size_t len, size_t *from, size_t *n);

#endif
