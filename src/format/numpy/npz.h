/* npz.h - what reading (npz.c) and writing (npz_write.c) of NPZ share. */
#ifndef STK_FORMAT_NUMPY_NPZ_H
#define STK_FORMAT_NUMPY_NPZ_H

#include "format/format.h"

/* The largest deflated member we write: earlier versions decode all of it for any row. */
#define STK_NPZ_DEFLATED_MAX (1ull << 30)

int stk_npz_prepare(struct stk_write_config *cfg, struct stk_err *err);
void stk_npz_unprepare(struct stk_write_config *cfg);
int stk_npz_encode(const struct stk_write_config *cfg, const struct stk_sample *s,
                   struct stk_buf *out, struct stk_err *err);
int stk_npz_begin(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err);
int stk_npz_append(const struct stk_write_config *cfg, struct stk_out *o, const uint8_t *bytes,
                   size_t len, uint64_t nsamples, struct stk_err *err);
int stk_npz_finish(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err);
void stk_npz_abort(const struct stk_write_config *cfg, struct stk_out *o);

#endif
