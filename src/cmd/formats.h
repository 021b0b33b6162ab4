/* formats.h - the optional parts of this build, for `version` and `doctor`. */
#ifndef STK_CMD_FORMATS_H
#define STK_CMD_FORMATS_H

#include "report/node.h"

#define STK_PARTS_MAX 80
/* Returns their number. */
size_t stk_list_parts(struct stk_build_part part[STK_PARTS_MAX]);

#endif
