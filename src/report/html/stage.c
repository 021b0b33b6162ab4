/*
 * stage.c - results of `stoker stage` on a page: a copy, the nodes of a job, a plan, the copies of
 * a node. stage_compare.c has those of --compare.
 */
#include "report/html/stage.h"

#include <stdio.h>
#include <string.h>

/* ---- a copy -------------------------------------------------------------------------------- */

/* Seconds of its parts, as one bar. */
static void put_where(struct stk_jw *w, const struct stk_jval *r)
{
    static const struct stk_pg_column part[] = {{"list_seconds", "list", ""},
                                                {"copy_seconds", "copy", ""},
                                                {"publish_seconds", "sync and publish", ""}};
    const struct stk_pg_axis axis = {"", "", "category", NAN, NAN};
    static const char *const name[] = {"staging"};
    if (!(stk_pg_get(r, "copy_seconds") > 0))
        return;
    stk_pg_plot(w, "where", "Where the time went", NULL);
    stk_pg_x(w, &axis);
    stk_jw_put_strs(w, "v", name, 1);
    stk_jw_close(w, '}');
    stk_jw_put_bool(w, "flip", true);
    stk_pg_panels(w);
    stk_pg_panel(w, "time", "s");
    for (size_t i = 0; i < STK_PG_COUNT(part); i++) {
        double v = stk_pg_get(r, part[i].name);
        stk_pg_series(w, part[i].title, "bar");
        stk_jw_put_str(w, "stack", "all");
        stk_pg_values(w, "v", &v, 1);
        stk_jw_close(w, '}');
    }
    stk_pg_panel_end(w);
    stk_pg_plot_end(w);
}

static void put_copy_head(struct stk_jw *w, const struct stk_jval *r)
{
    double copied = stk_pg_get(r, "bytes_copied"), took = stk_pg_get(r, "copy_seconds");
    bool already = stk_pg_true(r, "already_there");
    char text[700];
    snprintf(text, sizeof text,
             stk_pg_true(r, "staged") ? already ? "A copy of %.280s was there already, at %.280s."
                                                : "%.280s is staged at %.280s."
                                      : "Nothing was staged: %.280s is read from %.280s.",
             stk_pg_text(r, "source", "the data"), stk_pg_text(r, "path", "its source"));
    stk_jw_put_str(w, "verdict", text);
    stk_pg_number(w, took > 0 && copied > 0 ? copied / took : NAN, "B/s", "copied");
}

static void put_copy(struct stk_jw *w, const struct stk_pg_input *in)
{
    static const struct stk_pg_column facts[] = {
        {"source", "Source", "text"},
        {"path", "Read from", "text"},
        {"tier", "Folder for copies", "text"},
        {"tier_reason", "Why there", "text"},
        {"format", "Format", "text"},
        {"files", "Files", "count"},
        {"samples", "Samples", "count"},
        {"bytes", "Bytes", "B"},
        {"bytes_before", "Were there", "B"},
        {"bytes_copied", "Copied", "B"},
        {"first_seconds", "First file after", "s"},
        {"list_seconds", "Listing", "s"},
        {"copy_seconds", "Copying", "s"},
        {"publish_seconds", "Sync and publish", "s"},
        {"total_seconds", "Time", "s"},
        {"engine", "Read by", "text"},
    };
    static const struct stk_pg_column left[] = {
        {"kind", "Kind", "text"}, {"count", "Count", "count"}, {"why", "Why", "text"}};
    const struct stk_jval *r = in->result;
    char title[300];
    snprintf(title, sizeof title, "Staging %.280s",
             stk_pg_text(r, "source", stk_pg_argument(in, 0, "a dataset")));
    stk_pg_begin(w, "stage", in->name, title);
    put_copy_head(w, r);
    stk_pg_facts_of(w, r, facts, STK_PG_COUNT(facts));
    stk_pg_blocks(w);
    put_where(w, r);
    stk_pg_table_of(w, "left-out", "Left out", NULL, stk_json_get(r, "left_out"), left,
                    STK_PG_COUNT(left));
    stk_jw_close(w, ']');
    stk_pg_end(w);
}

/* ---- the nodes of a job -------------------------------------------------------------------- */

static void put_node_plot(struct stk_jw *w, const struct stk_jval *nodes)
{
    static const struct stk_pg_column moved[] = {{"bytes_read", "read from the source", ""},
                                                 {"bytes_received", "received from nodes", ""},
                                                 {"bytes_sent", "sent to nodes", ""},
                                                 {"bytes_written", "written", ""}};
    const struct stk_pg_axis axis = {"node", "", "category", NAN, NAN};
    stk_pg_plot(w, "nodes", "Nodes against nodes",
                "The job begins when its slowest node has the data.");
    stk_pg_x_of(w, &axis, nodes, "node");
    stk_pg_panels(w);
    stk_pg_panel(w, "time", "s");
    stk_pg_series_of(w, "time", "bar", nodes, "seconds");
    stk_pg_panel_end(w);
    stk_pg_panel(w, "data", "B");
    for (size_t i = 0; i < STK_PG_COUNT(moved); i++)
        stk_pg_series_of(w, moved[i].title, "bar", nodes, moved[i].name);
    stk_pg_panel_end(w);
    stk_pg_plot_end(w);
}

static void put_nodes(struct stk_jw *w, const struct stk_pg_input *in)
{
    static const struct stk_pg_column facts[] = {
        {"mode", "How", "text"},           {"mode_reason", "Why so", "text"},
        {"files", "Files", "count"},       {"bytes", "Bytes", "B"},
        {"nodes_good", "Nodes with the data", "count"},
        {"nodes_needed", "Nodes needed", "count"},
        {"slowest", "Slowest", "text"},    {"total_seconds", "Time", "s"},
        {"mpi", "Ranks talk by", "text"},  {"ranks", "Ranks", "count"},
    };
    static const struct stk_pg_column columns[] = {
        {"node", "Node", "text"},
        {"state", "State", "text"},
        {"seconds", "Time", "s"},
        {"read_seconds", "Reading", "s"},
        {"bytes_wanted", "Wanted", "B"},
        {"bytes_there", "There", "B"},
        {"bytes_read", "Read from the source", "B"},
        {"bytes_received", "Received", "B"},
        {"bytes_sent", "Sent", "B"},
        {"bytes_written", "Written", "B"},
        {"error", "Error", "text"},
    };
    const struct stk_jval *r = in->result, *nodes = stk_json_get(r, "nodes");
    double took = stk_pg_get(r, "total_seconds"), good = stk_pg_get(r, "nodes_good");
    char text[300], title[300];
    snprintf(text, sizeof text, "%.0f of %zu nodes have the data after %.3g s; the slowest is %.120s.",
             good, nodes->len, took, stk_pg_text(r, "slowest", "unknown"));
    snprintf(title, sizeof title, "Staging %.240s on %zu node%s",
             stk_pg_text(r, "source", "a dataset"), nodes->len, nodes->len == 1 ? "" : "s");
    stk_pg_begin(w, "stage", in->name, title);
    stk_jw_put_str(w, "verdict", isfinite(good) && isfinite(took) ? text : "The result has no end.");
    stk_pg_number(w, took, "s", "until all nodes were done");
    stk_pg_facts_of(w, r, facts, STK_PG_COUNT(facts));
    stk_pg_blocks(w);
    put_node_plot(w, nodes);
    stk_pg_table_of(w, "node-table", "Nodes", NULL, nodes, columns, STK_PG_COUNT(columns));
    stk_jw_close(w, ']');
    stk_pg_end(w);
}

/* ---- the copies of a node ------------------------------------------------------------------ */

static void put_sets(struct stk_jw *w, const struct stk_pg_input *in)
{
    static const struct stk_pg_column columns[] = {
        {"source", "Source", "text"},       {"set", "Set", "text"},
        {"tier", "Folder", "text"},         {"complete", "Complete", "text"},
        {"filling", "Being filled", "text"}, {"used", "In use", "text"},
        {"files", "Files", "count"},        {"bytes", "Bytes", "B"},
        {"bytes_there", "There", "B"},      {"parcels_bad", "Damaged parcels", "count"},
        {"first", "First damage", "text"},  {"evicted", "Evicted", "text"},
    };
    const struct stk_jval *sets = stk_json_get(in->result, "sets");
    size_t n = sets->type == STK_JARR ? sets->len : 0;
    double bytes = 0;
    size_t complete = 0;
    char text[120];
    for (size_t i = 0; i < n; i++) {
        complete += stk_pg_true(&sets->item[i], "complete");
        double there = stk_pg_get(&sets->item[i], "bytes_there");
        double all = stk_pg_get(&sets->item[i], "bytes");
        bytes += isfinite(there) ? there : isfinite(all) ? all : 0;
    }
    if (n == 1)
        snprintf(text, sizeof text, "1 copy of a dataset: it is %scomplete.",
                 complete ? "" : "not ");
    else
        snprintf(text, sizeof text, "%zu copies of datasets, %zu of them complete.", n, complete);
    stk_pg_begin(w, "stage", in->name, "Copies on a node");
    stk_jw_put_str(w, "verdict", text);
    stk_pg_number(w, bytes, "B", "in copies");
    stk_pg_blocks(w);
    stk_pg_table_of(w, "sets", "Copies", NULL, sets, columns, STK_PG_COUNT(columns));
    stk_jw_close(w, ']');
    stk_pg_end(w);
}

/* ---- which ---------------------------------------------------------------------------------- */

static int add_stage(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err)
{
    const struct stk_jval *r = in->result;
    if (stk_pg_has_rows(stk_json_get(r, "forms")))
        stk_pg_stage_compare(&page->w, in);
    else if (stk_pg_has_rows(stk_json_get(r, "nodes")))
        put_nodes(&page->w, in);
    else if (stk_json_get(r, "sets"))
        put_sets(&page->w, in);
    else if (stk_pg_text(r, "path", NULL))
        put_copy(&page->w, in);
    else
        return stk_err_set(err, STK_E_UNSUPPORTED, in->path, -1,
                           "the result of `stoker stage` contains neither a copy nor a comparison: "
                           "the command failed, or its result was not complete");
    return 0;
}

const struct stk_pg_kind stk_pg_stage = {.name = "stage", .command = "stage", .add = add_stage};
