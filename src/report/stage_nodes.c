/* stage_nodes.c - the result of `stoker stage` under srun or mpirun. */
#include "report/stage.h"

#include "result/blocks.h"

/* ---- a node --------------------------------------------------------------------------------- */

#define NODE(member)       STK_FROM(struct stk_spread_node, member)
#define NODE_CHARS(member) STK_FROM_AS(CHARS, struct stk_spread_node, member)

STK_TEXT_OF(state, struct stk_spread_node, stk_spread_phase_name(r->phase))

static const struct stk_result_field node_fields[] = {
    {"node", "node", STK_U_TEXT, NODE_CHARS(name)},
    {"rank", NULL, STK_U_COUNT, NODE(rank)},
    {"bytes_there", "there", STK_U_BYTES, NODE(there)},
    {"bytes_wanted", "of", STK_U_BYTES, NODE(wanted)},
    {"bytes_read", "read", STK_U_BYTES, NODE(read), "bytes that this node read from the source"},
    {"bytes_sent", "sent", STK_U_BYTES, NODE(sent)},
    {"bytes_received", "received", STK_U_BYTES, NODE(received), .flags = STK_F_PAGE},
    {"bytes_written", "written", STK_U_BYTES, NODE(written)},
    {"read_seconds", "reading", STK_U_SECONDS, NODE(read_s), .flags = STK_F_PAGE},
    {"seconds", "time", STK_U_SECONDS, NODE(seconds)},
    {"state", "state", STK_U_TEXT, .put = state},
    {"error", "why not", STK_U_TEXT, NODE_CHARS(what), "why it has no complete copy",
     STK_F_KNOWN | STK_F_REMARK},
    {"path", NULL, STK_U_TEXT, NODE_CHARS(path), .flags = STK_F_KNOWN},
    {NULL}};

static const struct stk_result_plot node_plot = {
    "nodes", "Nodes against nodes", "The job begins when its slowest node has the data.",
    "node", "node", STK_U_PLAIN, STK_SCALE_CATEGORY,
    {{"time", STK_U_SECONDS, {{"seconds", "time", "bar"}}},
     {"data",
      STK_U_BYTES,
      {{"bytes_read", "read from the source", "bar"},
       {"bytes_received", "received from nodes", "bar"},
       {"bytes_sent", "sent to nodes", "bar"},
       {"bytes_written", "written", "bar"}}}}};

/* ---- all of them ---------------------------------------------------------------------------- */

#define FROM(member)             STK_FROM(struct stk_stage_nodes, member)
#define TEXT(name, expression)   STK_TEXT_OF(name, struct stk_stage_nodes, expression)
#define NUMBER(name, expression) STK_NUMBER_OF(name, struct stk_stage_nodes, expression)

TEXT(mode, stk_spread_names[r->result->mode])
TEXT(mode_reason, r->result->why[0] ? r->result->why : NULL)
TEXT(slowest, r->result->slowest >= 0 ? r->result->node[r->result->slowest].name : NULL)
NUMBER(files, (double)r->result->files)
NUMBER(bytes, (double)r->result->bytes)
NUMBER(good, r->result->good)
NUMBER(count, r->result->nodes)

static double all_read(const void *base)
{
    const struct stk_stage_nodes *s = base;
    uint64_t read = 0;
    for (uint32_t i = 0; i < s->result->nodes; i++)
        read += s->result->node[i].read;
    return (double)read;
}

static void put_nodes(const void *base, struct stk_jw *w)
{
    const struct stk_stage_nodes *s = base;
    stk_rows_put(node_fields, s->result->node, s->result->nodes, sizeof *s->result->node, w);
}

static const struct stk_result_field fields[] = {
    {"source", "source", STK_U_TEXT, FROM(source), .flags = STK_F_PAGE},
    {"mode", "how", STK_U_TEXT, .put = mode},
    {"mode_reason", "why so", STK_U_TEXT, .put = mode_reason, .joins = "; chose %"},
    {"files", "files", STK_U_COUNT, .number = files, .row = "data", .say = "% file(s)"},
    {"bytes", "bytes", STK_U_BYTES, .number = bytes, .joins = ", %"},
    {"bytes_read", "read from the source", STK_U_BYTES, .number = all_read,
     .joins = "; read from the source: %"},
    {"nodes_good", "nodes with the data", STK_U_COUNT, .number = good, .row = "there",
     .say = "on %"},
    {"nodes_total", "nodes", STK_U_COUNT, .number = count, .joins = " of % nodes"},
    {"total_seconds", "until all nodes were done", STK_U_SECONDS, FROM(total_s),
     .flags = STK_F_LEAD, .joins = " in %"},
    {"slowest", "slowest", STK_U_TEXT, .put = slowest, .joins = "; the slowest is %"},
    {"nodes_needed", "nodes needed", STK_U_COUNT, FROM(min_nodes), .flags = STK_F_PAGE},
    {"mpi", "ranks talk by", STK_U_TEXT, FROM(kind), .flags = STK_F_PAGE},
    {"ranks", "ranks", STK_U_COUNT, FROM(ranks), .flags = STK_F_PAGE},
    {"nodes", "nodes", STK_U_TABLE, .put = put_nodes, .of = node_fields, .plot = &node_plot},
    {"status", "status files", STK_U_TEXT, FROM(status),
     .say = "what each node had done when it was last heard of is in %"},
    {NULL}};

static bool is_nodes(const struct stk_jval *r)
{
    return stk_pg_has_rows(stk_json_get(r, "nodes")) && !stk_json_get(r, "forms");
}

static void verdict(const struct stk_jval *r, struct stk_buf *out)
{
    double took = stk_pg_get(r, "total_seconds"), with = stk_pg_get(r, "nodes_good");
    char text[40];
    if (isfinite(with) && isfinite(took))
        stk_buf_printf(out, "%.0f of %zu nodes have the data after %s; the slowest is %s.", with,
                       stk_json_get(r, "nodes")->len,
                       stk_unit_text(STK_U_SECONDS, took, text, sizeof text),
                       stk_pg_text(r, "slowest", "unknown"));
    else
        stk_buf_puts(out, "The result has no end.");
}

const struct stk_result_kind stk_stage_nodes_kind = {.command = "stage",
                                                     .doing = "Staging",
                                                     .fields = fields,
                                                     .takes = is_nodes,
                                                     .verdict = verdict};
