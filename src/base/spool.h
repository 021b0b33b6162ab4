/*
 * spool.h - a table that grows on disk: appended to, then mapped. It is in a file without a name,
 * so nothing is left behind however the process ends, and memory does not grow with the data.
 */
#ifndef STK_BASE_SPOOL_H
#define STK_BASE_SPOOL_H

#include "base/buf.h"

struct stk_spool {
    int fd; /* -1 until the first flush: a small table never touches the disk */
    struct stk_buf buf;
    uint64_t flushed;
    bool failed;
    void *map;
    size_t mapped;
    int slot;        /* of the mapping in the guard */
    bool damaged;    /* part of a mapping could not be read */
    const char *dir; /* borrowed */
};

/* dir: where the nameless file goes; NULL: $TMPDIR or /tmp. */
void stk_spool_init(struct stk_spool *s, const char *dir);
void stk_spool_release(struct stk_spool *s);
int stk_spool_put(struct stk_spool *s, const void *p, size_t n, struct stk_err *err);
static inline uint64_t stk_spool_len(const struct stk_spool *s)
{
    return s->flushed + s->buf.len;
}
/* Maps the whole table, read only. Borrowed: valid until the next put, map or release. Bytes that
 * the disk fails to return read as zeros: call stk_spool_intact() before using results. */
int stk_spool_map(struct stk_spool *s, const void **p, struct stk_err *err);
/* 0, or an error if part of the mapping could not be read. */
int stk_spool_intact(const struct stk_spool *s, struct stk_err *err);
const char *stk_tmpdir(void); /* $TMPDIR or /tmp. Borrowed. */
/* A nameless file in dir (or $TMPDIR, /tmp). Returns the descriptor or a negative code. */
int stk_nameless_file(const char *dir, struct stk_err *err);

#endif
