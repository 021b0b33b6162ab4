/* results.c - see results.h. */
#include "report/results.h"

#include <string.h>

#include "report/inspect.h"
#include "report/load.h"
#include "report/pack.h"
#include "report/verify.h"

/* Of the kinds of a command, the one that takes any result is the last. */
const struct stk_result_kind *const stk_result_kinds[] = {
    &stk_load_kind, &stk_pack_kind, &stk_verify_kind, &stk_sample_kind, &stk_inspect_kind, NULL};

const struct stk_result_kind *stk_result_kind_of(const char *command,
                                                 const struct stk_jval *result)
{
    for (size_t i = 0; command && stk_result_kinds[i]; i++) {
        const struct stk_result_kind *k = stk_result_kinds[i];
        if (strcmp(k->command, command) == 0 && (!k->takes || k->takes(result)))
            return k;
    }
    return NULL;
}
