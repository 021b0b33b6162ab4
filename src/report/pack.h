/* pack.h - what `stoker pack` wrote. */
#ifndef STK_REPORT_PACK_H
#define STK_REPORT_PACK_H

#include "pack/pack.h"
#include "result/field.h"

extern const struct stk_result_kind stk_pack_kind; /* of a struct stk_pack_result */
/* "a dataset of 40 samples: 8 more than now". Returns buf. */
const char *stk_pack_replaced(const struct stk_pack_result *r, char *buf, size_t n);

#endif
