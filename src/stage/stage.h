/*
 * stage.h - brings a source to a tier of this node: the list (source.h), the copier (copy.h) and
 * the copies of the node (tier/tier.h) put together.
 */
#ifndef STK_STAGE_STAGE_H
#define STK_STAGE_STAGE_H

#include "stage/copy.h"

/* ---- the order of the parcels ---------------------------------------------------------------- */

/* The order in which a training asks for the data, as parts for the copier: what the first batches
 * need comes first. */
struct stk_stage_order {
    struct stk_loader_options loader; /* batch, shuffle, seed, epoch, block and window count */
    uint32_t ranks;                   /* that read at the same time, each its part; 0: 1 */
};

/* All parcels of the source, those that the epoch asks for in its order, then all others. A source
 * that is no dataset: in the order of its list. *out: caller frees with free(). */
int stk_stage_parts(const struct stk_source *src, const struct stk_stage_order *o,
                    struct stk_part **out, size_t *n, struct stk_err *err);

enum stk_stage_phase { STK_STAGE_COPY, STK_STAGE_WAIT, STK_STAGE_SYNC, STK_STAGE_CHECK };

struct stk_stage_options {
    struct stk_copy_options copy;        /* its progress and user are set by the function */
    const struct stk_stage_order *order; /* NULL: the order of the list */
    bool wait;                           /* as long as another process copies it, only wait */
    bool one_of_many; /* another node asks the source whether it changed meanwhile */
    /* The set is there: loaders find it from now on. May be NULL. */
    void (*begun)(void *user);
    /* Called often, from any thread; non-zero: stop (STK_E_STOPPED). May be NULL. bytes: of `total`
     * that are in the copy, by whichever process. */
    int (*progress)(void *user, enum stk_stage_phase phase, uint64_t bytes, uint64_t total);
    void *user;
};

struct stk_stage_result {
    char *path;            /* the usable path of the copy; NULL: it is not complete */
    char *id;              /* of the set; NULL: not opened */
    bool already;          /* it was complete before */
    uint64_t files, bytes; /* of the source */
    uint64_t bytes_before; /* that were there at the start */
    uint64_t bytes_copied; /* by this process */
    double copy_s, sync_s;
    double first_at; /* by stk_now(), when the first parcel was in the copy; 0: none was copied */
    char engine[64];
};
/* The same for a copy that is packed on its way: pack(user, DST) makes the packed dataset in DST,
 * resumes what was begun there, and does nothing if it is whole. */
int stk_stage_pack(const struct stk_source *src, struct stk_tier *tier, const char *form,
                   const struct stk_stage_options *o,
                   int (*pack)(void *user, const char *dst, struct stk_err *err),
                   struct stk_stage_result *r, struct stk_err *err);
/* The identity of such a copy: of this version of the source, in that format. */
uint64_t stk_stage_pack_identity(const struct stk_source *src, const char *form);
void stk_stage_result_release(struct stk_stage_result *r);

/* Copies what is missing, compares, syncs and publishes. What was copied before an error stays, and
 * the next call resumes there. *r is filled in any case: caller releases it. */
int stk_stage_fill(const struct stk_source *src, struct stk_tier *tier,
                   const struct stk_stage_options *o, struct stk_stage_result *r,
                   struct stk_err *err);

/* Reads every byte of the copy of a set again. */
struct stk_stage_check {
    uint64_t files, bytes;
    uint64_t bad;    /* parcels that are missing or differ from their hash; they do not count now */
    char first[256]; /* a file with a fault */
};
int stk_stage_verify(struct stk_tier_set *set, const struct stk_stage_options *o,
                     struct stk_stage_check *r, struct stk_err *err);

#endif
