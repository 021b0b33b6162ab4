/* problems.h - lists of damage, for people and as JSON; shared by inspect, pack and verify. */
#ifndef STK_CMD_PROBLEMS_H
#define STK_CMD_PROBLEMS_H

#include "base/json.h"
#include "data/dataset.h"

/* "file:offset: what" lines, at most `most`, then how many more there are. */
void stk_problems_text(const struct stk_problems *p, size_t most, struct stk_buf *out);
/* Members NAME (the list) and NAME_total. */
void stk_problems_json(const struct stk_problems *p, const char *name, struct stk_jw *w);

#endif
