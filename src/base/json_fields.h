/*
 * json_fields.h - structs that are written as JSON objects and read back, both by one table, so
 * that writer and reader cannot drift apart.
 *
 *     struct job {
 *         uint64_t id;
 *         const char *name;
 *         double wall_s;
 *         const char **argv;
 *         struct point *point;
 *         size_t npoints;
 *     };
 *     static const struct stk_jfield job_fields[] = {
 *         {STK_JFIELD(UNSIGNED, "job", struct job, id), .required = true, .min = 1},
 *         {STK_JFIELD(TEXT, "name", struct job, name)},
 *         {STK_JFIELD(REAL, "wall_s", struct job, wall_s), .omit = true},
 *         {STK_JFIELD_WORDS("argv", struct job, argv), .bytes = true},
 *         {STK_JFIELD_LIST(STRUCT, "points", struct job, point, npoints), .table = point_fields},
 *         {0},
 *     };
 *
 * Members are written in the order of the table. A reader takes them in any order and ignores
 * members that it does not know; one that is missing leaves what the struct had, so set the
 * defaults before. null is what the type has for unknown, else as if the member were missing.
 * Whatever else is wrong is an error that names the file and the member:
 * "'points[3].wall_s' is not a number".
 */
#ifndef STK_BASE_JSON_FIELDS_H
#define STK_BASE_JSON_FIELDS_H

#include "base/json.h"

enum stk_jfield_type {   /* in the struct: in JSON */
    STK_JFIELD_FLAG,     /* bool */
    STK_JFIELD_UNSIGNED, /* uint8_t to uint64_t: all of their values */
    STK_JFIELD_COUNT,    /* int32_t, int64_t: negative, which means unknown, is null */
    STK_JFIELD_REAL,     /* double: NaN, which means unknown, is null. So is an infinite default */
    STK_JFIELD_TEXT,     /* const char *: NULL is null */
    STK_JFIELD_CHARS,    /* char[]: a text that must fit */
    STK_JFIELD_WORD,     /* enum: one of .words */
    STK_JFIELD_HASH,     /* uint64_t: 16 hexadecimal digits */
    STK_JFIELD_STRUCT,   /* struct: an object by .table */
};

enum stk_jfield_many {
    STK_JFIELD_ONE,
    STK_JFIELD_INSIDE, /* T v[room]; size_t n */
    STK_JFIELD_APART,  /* T *v; size_t n: read into the arena; NULL if empty */
    STK_JFIELD_ENDED,  /* const char **v: ends in NULL; NULL if empty */
};

struct stk_jfield {
    const char *name; /* NULL: the end of the table */
    enum stk_jfield_type type;
    enum stk_jfield_many many;
    size_t offset, size; /* size: of one item */
    size_t count;        /* the offset of n */
    size_t room;         /* the most items; 0: no limit */
    bool required;       /* an error if it is missing or null */
    bool nullable;       /* TEXT: null is none, although it is required */
    bool omit;     /* not written, rather than as null, 0, "" or [], if it is unknown or empty */
    bool negative; /* REAL: may be below 0 */
    bool known;    /* REAL: below 0 is unknown, and null; null is -1 instead of NaN */
    bool exact;    /* UNSIGNED: a text above 2^53, which readers that use doubles would round */
    bool cut;      /* CHARS: what does not fit is cut off, instead of an error */
    bool bytes;    /* TEXT: {"hex": "…"} if it is not UTF-8, instead of U+FFFD */
    uint64_t min;  /* UNSIGNED, COUNT */
    uint64_t max;  /* UNSIGNED, COUNT, REAL; TEXT: bytes. 0: any that the type has */
    const char *const *words;       /* by value; ends in NULL */
    int (*find)(const char *word, size_t n); /* WORD: the value of another spelling; -1: none */
    const struct stk_jfield *table; /* of a struct */
    const void *init;               /* what an item of a list is before it is read; NULL: zero */
};

/* How a row begins. */
#define STK_JFIELD(type_, name_, struct_, member_)                                                 \
    .name = (name_), .type = STK_JFIELD_##type_, .offset = offsetof(struct_, member_),             \
    .size = sizeof(((struct_ *)0)->member_)
#define STK_JFIELD_ARRAY(type_, name_, struct_, member_, n_)                                       \
    .name = (name_), .type = STK_JFIELD_##type_, .many = STK_JFIELD_INSIDE,                        \
    .offset = offsetof(struct_, member_), .size = sizeof(((struct_ *)0)->member_[0]),              \
    .room = sizeof(((struct_ *)0)->member_) / sizeof(((struct_ *)0)->member_[0]),                  \
    .count = offsetof(struct_, n_)
#define STK_JFIELD_LIST(type_, name_, struct_, member_, n_)                                        \
    .name = (name_), .type = STK_JFIELD_##type_, .many = STK_JFIELD_APART,                         \
    .offset = offsetof(struct_, member_), .size = sizeof(((struct_ *)0)->member_[0]),              \
    .count = offsetof(struct_, n_)
#define STK_JFIELD_WORDS(name_, struct_, member_)                                                  \
    .name = (name_), .type = STK_JFIELD_TEXT, .many = STK_JFIELD_ENDED,                            \
    .offset = offsetof(struct_, member_), .size = sizeof(((struct_ *)0)->member_[0])

/* Writes the members into an open object. */
void stk_jfields_put(const struct stk_jfield *table, const void *from, struct stk_jw *w);
/* Writes an object. */
void stk_jfields_write(const struct stk_jfield *table, const void *from, struct stk_jw *w);
/* Appends an object and a line end: a file, or a line of one if not pretty. */
void stk_jfields_text(const struct stk_jfield *table, const void *from, bool pretty,
                      struct stk_buf *out);

/* Fills *to from an object. Texts are borrowed from its tree, lists are in the arena. path: the
 * file, for messages, or NULL. STK_E_CORRUPT: *to is filled in part. */
int stk_jfields_read(const struct stk_jfield *table, const struct stk_jval *obj, const char *path,
                     struct stk_arena *arena, void *to, struct stk_err *err);
/* The same from text; the tree goes into the arena, which is all that *to then needs. */
int stk_jfields_parse(const struct stk_jfield *table, const char *text, size_t len,
                      const char *path, struct stk_arena *arena, void *to, struct stk_err *err);

#endif
