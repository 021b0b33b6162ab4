/* via.c - the table of executors. A new one is a file with its struct, and a line in each
 * table. */
#include "study/via.h"

#include <string.h>

static const struct stk_executor *const executors[] = {
    &stk_executor_local,
    &stk_executor_slurm,
};
const char *const stk_executor_names[] = {"local", "slurm", NULL};

const struct stk_executor *stk_executor_find(const char *name)
{
    for (size_t i = 0; i < sizeof executors / sizeof *executors; i++)
        if (strcmp(executors[i]->name, name) == 0)
            return executors[i];
    return NULL;
}
