/* bench_list.h - the list of the workloads that come with stoker. */
#ifndef STK_CMD_BENCH_LIST_H
#define STK_CMD_BENCH_LIST_H

#include "cmd/cmd.h"

/* Shows them: name, ranks, size of the data, and what it is. */
int stk_bench_list(struct stk_run *run);
/* The one that the user probably meant by `name`, in buf; NULL: none is near. */
const char *stk_bench_nearest(const char *name, char *buf, size_t n);

#endif
