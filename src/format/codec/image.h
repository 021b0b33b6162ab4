/* image.h - what RecordIO needs to know about MXNet's image record header. */
#ifndef STK_FORMAT_CODEC_IMAGE_H
#define STK_FORMAT_CODEC_IMAGE_H

#include "base/buf.h"

#define STK_IRHEADER 24 /* u32 flag, f32 label, u64 id, u64 id2 */

/* True if a record of `total` bytes, the first n of them at p, may begin with an IRHeader. Weak
 * evidence (24 zeros may), for a format that rarely holds anything else. */
bool stk_irheader_plausible(const uint8_t *p, size_t n, uint64_t total);
/* The id in the header of a record. */
uint64_t stk_irheader_id(const uint8_t *record);

struct stk_sample;
uint64_t stk_sample_id(const struct stk_sample *s);
/* True if the key is a number, the id to write. */
bool stk_sample_has_id(const struct stk_sample *s, uint64_t *id);

#endif
