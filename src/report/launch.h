/* launch.h - a program that `stoker profile` has run, for people and for programs. */
#ifndef STK_REPORT_LAUNCH_H
#define STK_REPORT_LAUNCH_H

#include "base/json.h"
#include "record/launch.h"

/* Where the profile is, and how to read it. */
void stk_launch_text(const struct stk_launch_result *r, struct stk_buf *out);
/* Members of the open object. */
void stk_launch_json(const struct stk_launch_result *r, struct stk_jw *w);

#endif
