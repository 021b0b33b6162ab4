/* stage_nodes.h - what `stoker stage` did on many nodes: the table of nodes. */
#ifndef STK_REPORT_STAGE_NODES_H
#define STK_REPORT_STAGE_NODES_H

#include "base/json.h"
#include "stage/spread.h"

struct stk_stage_nodes {
    const struct stk_spread_result *result;
    const char *source;
    const char *kind; /* of the communicator: "openmpi" */
    uint32_t ranks, min_nodes;
    const char *status; /* the folder of status files that were left; NULL: none */
    double total_s;
};
void stk_stage_nodes_text(const struct stk_stage_nodes *s, struct stk_buf *out);
/* Members of the open object. */
void stk_stage_nodes_json(const struct stk_stage_nodes *s, struct stk_jw *w);

#endif
