/* build.h - making an index: lists every file, in parallel, and writes the tables. */
#ifndef STK_DATA_BUILD_H
#define STK_DATA_BUILD_H

#include "data/walk.h"

/* A record as the watcher of a listing gets it. */
struct stk_seen {
    uint64_t off, len; /* of the payload, in the file */
    const struct stk_codec *codec;
};

/* Gets the bytes of framed records as they go by in the listing. */
struct stk_watcher {
    /* n records of a file, whole in win, which begins at win_off. May keep win's buffer by putting
     * another in its place. Called from the threads that list. */
    int (*records)(struct stk_watcher *w, const struct stk_format *f, const char *path,
                   struct stk_buf *win, uint64_t win_off, const struct stk_seen *rec, size_t n,
                   struct stk_err *err);
    /* Some records of that file were not shown (too large, or the listing broke off). */
    void (*missed)(struct stk_watcher *w, uint32_t file);
};

struct stk_build_options {
    struct stk_list_options list;
    unsigned jobs;                 /* 0: one a core */
    const char *tmpdir;            /* for the tables while they grow; NULL: $TMPDIR or /tmp */
    struct stk_problems *problems; /* NULL: stop at the first */
    struct stk_watcher *watcher;   /* NULL, or who wants to see framed records */
    bool portable;                 /* keep no times: the index travels with the files */
    const char *path;              /* of the index, for messages; NULL: it has no name */
    int (*progress)(void *user, uint64_t bytes_done, uint64_t bytes_total, uint64_t samples);
    void *user;
};

/* Writes the index of the walked files to fd (empty, open for reading and writing). */
int stk_build_index(struct stk_walk *w, const struct stk_build_options *o, int fd,
                    struct stk_err *err);

#endif
