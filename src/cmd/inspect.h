/* inspect.h - writing one sample to files (inspect_write.c), for inspect.c. */
#ifndef STK_CMD_INSPECT_H
#define STK_CMD_INSPECT_H

#include "cmd/cmd.h"

/* Writes a sample: its data to stdout ("-"), a single field to the file `path`, several to files in
 * the folder `path`, named as in the folder format. */
int stk_write_sample(struct stk_run *run, const struct stk_sample *s, uint64_t number,
                     const char *path, bool force);

#endif
