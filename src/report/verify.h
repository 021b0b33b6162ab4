/* verify.h - what `stoker verify` found, for people and for programs. */
#ifndef STK_REPORT_VERIFY_H
#define STK_REPORT_VERIFY_H

#include "base/json.h"
#include "dataset/verify.h"

/* At most `most` problems, a line on what was read, and the verdict. path: as the user named it. */
void stk_verify_text(const struct stk_verify_result *r, const char *path, size_t most,
                     struct stk_buf *out);
/* Members of the open object. */
void stk_verify_json(const struct stk_verify_result *r, struct stk_jw *w);

#endif
