/* stage_nodes.h - what `stoker stage` did on many nodes. */
#ifndef STK_REPORT_STAGE_NODES_H
#define STK_REPORT_STAGE_NODES_H

#include "result/field.h"
#include "stage/spread.h"

struct stk_stage_nodes {
    const struct stk_spread_result *result;
    const char *source;
    const char *kind; /* of the communicator: "openmpi" */
    uint32_t ranks, min_nodes;
    const char *status; /* the folder of status files that were left; NULL: none */
    double total_s;
};
extern const struct stk_result_kind stk_stage_nodes_kind; /* of a struct stk_stage_nodes */

#endif
