/* inspect.h - showing one sample and writing it out (inspect_sample.c), for inspect.c. */
#ifndef STK_CMD_INSPECT_H
#define STK_CMD_INSPECT_H

#include "cmd/cmd.h"

/* Prints the fields of a sample as a table and adds them to the JSON result. */
int stk_show_sample(struct stk_run *run, const struct stk_sample *s, uint64_t number);
/* Writes a sample out: "-" the data to stdout; one field to the file `path`; several below the
 * folder `path`, named as the folder format names them. */
int stk_write_sample(struct stk_run *run, const struct stk_sample *s, uint64_t number,
                     const char *path, bool force);

/* "float32", "(3, 224, 224)", "scalar": for tables. */
const char *stk_shape_text(const uint64_t *dim, unsigned ndim, char *buf, size_t size);

#endif
