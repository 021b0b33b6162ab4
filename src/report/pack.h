/* pack.h - what `stoker pack` wrote, for people and for programs. */
#ifndef STK_REPORT_PACK_H
#define STK_REPORT_PACK_H

#include "base/json.h"
#include "pack/pack.h"

/* dst: as the user named it. */
void stk_pack_text(const struct stk_pack_result *r, const char *dst, struct stk_buf *out);
/* "a dataset of 40 samples: 8 more than now". Returns buf. */
const char *stk_pack_replaced(const struct stk_pack_result *r, char *buf, size_t n);
/* Members of the open object. */
void stk_pack_json(const struct stk_pack_result *r, struct stk_jw *w);

#endif
