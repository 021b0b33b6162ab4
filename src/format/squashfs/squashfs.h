/* squashfs.h - the writing half of the squashfs format (format/squashfs/write.c), for its table entry. */
#ifndef STK_FORMAT_SQUASHFS_SQUASHFS_H
#define STK_FORMAT_SQUASHFS_SQUASHFS_H

#include "format/format.h"

int stk_squashfs_prepare(struct stk_write_config *cfg, struct stk_err *err);
int stk_squashfs_encode(const struct stk_write_config *cfg, const struct stk_sample *s,
                        struct stk_buf *out, struct stk_err *err);
int stk_squashfs_begin(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err);
int stk_squashfs_append(const struct stk_write_config *cfg, struct stk_out *o, const uint8_t *bytes,
                        size_t len, uint64_t nsamples, struct stk_err *err);
int stk_squashfs_finish(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err);
void stk_squashfs_abort(const struct stk_write_config *cfg, struct stk_out *o);

#endif
