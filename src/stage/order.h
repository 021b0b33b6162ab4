/*
 * order.h - the order in which a training asks for the data, as parts for the copier: what the
 * first batches need comes first.
 */
#ifndef STK_STAGE_ORDER_H
#define STK_STAGE_ORDER_H

#include "stage/copy.h"

struct stk_stage_order {
    struct stk_loader_options loader; /* batch, shuffle, seed, epoch, block and window count */
    uint32_t ranks;                   /* that read at the same time, each its part; 0: 1 */
};

/* All parcels of the source, those that the epoch asks for in its order, then all others. A source
 * that is no dataset: in the order of its list. *out: caller frees with free(). */
int stk_stage_parts(const struct stk_source *src, const struct stk_stage_order *o,
                    struct stk_part **out, size_t *n, struct stk_err *err);
/* Marks the parcels (need[], a byte each, all files' one after another) that rank o->rank of
 * o->world asks for in o->epochs (0: 1) epochs, and those of files without samples. Others stay as
 * they are. */
int stk_stage_need(const struct stk_source *src, const struct stk_loader_options *o, uint8_t *need,
                   struct stk_err *err);

#endif
