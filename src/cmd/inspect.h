/* inspect.h - showing one sample and writing it to files (inspect_sample.c), for inspect.c. */
#ifndef STK_CMD_INSPECT_H
#define STK_CMD_INSPECT_H

#include "cmd/cmd.h"

/* The fields of a sample as a table: kind, type, shape, size, a preview. */
void stk_sample_table(const struct stk_sample *s, unsigned columns, struct stk_buf *out);
/* Prints the fields of a sample as a table and adds them to the JSON result. */
int stk_show_sample(struct stk_run *run, const struct stk_sample *s, uint64_t number);
/* Writes a sample: its data to stdout ("-"), a single field to the file `path`, several to files in
 * the folder `path`, named as in the folder format. */
int stk_write_sample(struct stk_run *run, const struct stk_sample *s, uint64_t number,
                     const char *path, bool force);

#endif
