/*
 * check.h - checks framed records while a file is listed, so that its bytes are read once.
 *
 * The file is read in blocks, by helper threads if there are any. The listing reports the records
 * in each block; then the thread that read the block checks them while they are in its cache.
 */
#ifndef STK_DATASET_CHECK_H
#define STK_DATASET_CHECK_H

#include "format/lister.h"

#include <pthread.h>

struct stk_checker { /* of a dataset */
    void (*problem)(void *user, const struct stk_err *what);
    void *user;
    pthread_mutex_t lock;
    uint8_t *missed; /* a byte per file: not all of its records were checked */
    size_t nmissed;
};

/* Calls problem() for each bad record, from the listing threads. */
void stk_checker_init(struct stk_checker *c,
                      void (*problem)(void *user, const struct stk_err *what), void *user);
void stk_checker_release(struct stk_checker *c);
/* True when every record of the file was checked. */
bool stk_checker_saw_all(const struct stk_checker *c, uint64_t file);

struct stk_check; /* of a file */

/* helpers: threads that read and check besides the caller. Caller ends it with
 * stk_check_close(). */
int stk_check_open(struct stk_checker *c, const struct stk_format *f, const struct stk_src *src,
                   uint32_t file, unsigned helpers, struct stk_check **out, struct stk_err *err);
/* What the listing reads from. Borrowed. */
struct stk_blocks *stk_check_feed(struct stk_check *k);
/* Adds a record at off, after its frame's head. Call in ascending order. */
int stk_check_record(struct stk_check *k, uint64_t off, uint64_t len, const struct stk_codec *codec,
                     struct stk_err *err);
/* Waits for running checks and frees k. complete: the listing reached the end of the file. */
int stk_check_close(struct stk_check *k, bool complete, struct stk_err *err);

#endif
