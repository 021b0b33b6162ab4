/* write.h - the writing half of the HDF5 format, for hdf5.c's table. */
#ifndef STK_FORMAT_HDF5_WRITE_H
#define STK_FORMAT_HDF5_WRITE_H

#include "format/format.h"

int stk_hdf5_prepare(struct stk_write_config *cfg, struct stk_err *err);
void stk_hdf5_unprepare(struct stk_write_config *cfg);
int stk_hdf5_encode(const struct stk_write_config *cfg, const struct stk_sample *s,
                    struct stk_buf *out, struct stk_err *err);
int stk_hdf5_begin(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err);
int stk_hdf5_append(const struct stk_write_config *cfg, struct stk_out *o, const uint8_t *bytes,
                    size_t len, uint64_t nsamples, struct stk_err *err);
int stk_hdf5_finish(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err);
void stk_hdf5_abort(const struct stk_write_config *cfg, struct stk_out *o);

#endif
