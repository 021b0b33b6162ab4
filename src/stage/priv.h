/* priv.h - what the files of the copier share. */
#ifndef STK_STAGE_PRIV_H
#define STK_STAGE_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "stage/copy.h"

struct stk_copying {
    const struct stk_source *src;
    const struct stk_part *part;
    const struct stk_copy_options *o;
    struct stk_copy_sink *sink;
    unsigned threads;
    _Atomic uint64_t bytes, files, skipped;
    _Atomic bool stop; /* after the first error */
    pthread_mutex_t rate_lock;
    double rate_free_s; /* when the bytes taken so far have passed at the allowed rate */
    double yields_s;    /* since when others go first; 0: they do not. With rate_lock */
};

/* Counts n bytes (and files) that were put, and asks whether to go on. */
int stk_copying_tell(struct stk_copying *c, uint64_t bytes, uint64_t files, struct stk_err *err);
/* Takes n bytes from the allowed rate. Returns the seconds to wait before they are read. */
double stk_copying_delay(struct stk_copying *c, uint64_t n);
/* Sleeps that long, but not beyond a request to stop. */
int stk_copying_pause(struct stk_copying *c, double seconds, struct stk_err *err);
/* Waits while others go first. */
int stk_copying_yield(struct stk_copying *c, struct stk_err *err);
/* The code of a read that failed: STK_E_STALE if the file that was listed is gone, or leads elsewhere
 * now; else rc. */
int stk_copying_judge(int rc, struct stk_err *err);
/* stk_tier_hash(), or 0 if nothing is to be hashed. */
uint64_t stk_copying_hash(const struct stk_copying *c, const void *p, size_t n);

/* copy_large.c: the parts with these numbers, through an engine. */
int stk_copy_large(struct stk_copying *c, const size_t *number, size_t n, struct stk_copy_result *r,
                   struct stk_err *err);

/* stage.c: for a wait for other processes. Zero at its begin. */
struct stk_stall {
    double since, looked;
    uint64_t there;
};
/* An error (STK_E_EXISTS) if the one that fills the set is stopped, or writes nothing for long. there:
 * bytes in the copy; of a set without files, only the former is asked. */
int stk_stage_stalled(struct stk_tier_set *set, struct stk_stall *w, uint64_t there,
                      struct stk_err *err);
/* stage.c: removes what was begun of former states of the source, which nobody needs. */
void stk_stage_remove_old(struct stk_tier *tier, const char *source, const char *form,
                          const char *id);
/* source_wire.c: the list as bytes. Notes and index are not in it, nor the dataset. */
void stk_source_encode(const struct stk_source *s, struct stk_buf *out);
/* The list without asking the file system, except for the root. Caller releases it in any case. An
 * error of the root alone (STK_E_SYS): the list is there, and cannot be read. */
int stk_source_decode(struct stk_source *s, const void *p, size_t n, struct stk_err *err);

#endif
