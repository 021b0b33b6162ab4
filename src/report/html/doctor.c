/* doctor.c - a result of `stoker doctor` on a page: file systems and their speed, folders for
 * copies, what the node has and lacks. */
#include <stdio.h>

#include "report/html/stage.h"

static const struct stk_pg_column file_systems[] = {
    {"path", "Path", "text"},
    {"holds", "Holds", "text"},
    {"fs", "File system", "text"},
    {"reach", "Reach", "text"},
    {"speed.read_Bps", "Reads", "B/s"},
    {"speed.write_Bps", "Writes", "B/s"},
    {"speed.creates_per_s", "Files made per s", ""},
    {"speed.opens_per_s", "Files opened per s", ""},
    {"speed.latency_s", "Latency", "s"},
    {"free_bytes", "Free", "B"},
    {"quota_left_bytes", "Quota left", "B"},
    {"stripe_count", "Stripes", "count"},
    {"purge_days", "Purged after days", ""},
    {"note", "Note", "text"},
};

static void put_speeds(struct stk_jw *w, const struct stk_jval *list)
{
    const struct stk_pg_axis axis = {"", "", "category", NAN, NAN};
    if (!stk_pg_any_of(list, "speed.read_Bps") && !stk_pg_any_of(list, "speed.write_Bps"))
        return;
    stk_pg_plot(w, "speed", "Speed of the file systems",
                "Measured by a few reads and writes, past the page cache.");
    stk_pg_x_of(w, &axis, list, "path");
    stk_pg_panels(w);
    stk_pg_panel(w, "large requests", "B/s");
    stk_pg_series_of(w, "reads", "bar", list, "speed.read_Bps");
    stk_pg_series_of(w, "writes", "bar", list, "speed.write_Bps");
    stk_pg_panel_end(w);
    stk_pg_panel(w, "small files", "per s");
    stk_pg_series_of(w, "opened", "bar", list, "speed.opens_per_s");
    stk_pg_series_of(w, "made", "bar", list, "speed.creates_per_s");
    stk_pg_panel_end(w);
    stk_pg_plot_end(w);
}

static void put_tables(struct stk_jw *w, const struct stk_jval *r)
{
    static const struct stk_pg_column tiers[] = {
        {"path", "Folder", "text"},   {"copies", "Copies", "count"},
        {"complete", "Complete", "count"}, {"bytes", "Bytes", "B"},
        {"limit_bytes", "Limit", "B"}, {"problem", "Problem", "text"}};
    static const struct stk_pg_column mpi[] = {{"name", "MPI", "text"},
                                               {"library", "Library", "text"},
                                               {"path", "Module", "text"},
                                               {"used", "Used", "text"},
                                               {"problem", "Problem", "text"}};
    static const struct stk_pg_column missing[] = {{"what", "Missing", "text"},
                                                   {"gives", "What it gives", "text"}};
    stk_pg_table_of(w, "file-systems", "File systems", NULL, stk_json_get(r, "file_systems"),
                    file_systems, STK_PG_COUNT(file_systems));
    stk_pg_targets(w, r);
    stk_pg_table_of(w, "tiers", "Copies on this node", NULL, stk_json_get(r, "tiers"), tiers,
                    STK_PG_COUNT(tiers));
    stk_pg_table_of(w, "mpi", "MPI", NULL, stk_json_get(r, "mpi"), mpi, STK_PG_COUNT(mpi));
    stk_pg_table_of(w, "missing", "Missing", "What this node or this build lacks.",
                    stk_json_get(r, "missing"), missing, STK_PG_COUNT(missing));
}

/* The file system that reads fastest. */
static double fastest(const struct stk_jval *list, const char **path)
{
    double most = NAN;
    for (size_t i = 0; stk_pg_has_rows(list) && i < list->len; i++) {
        double v = stk_pg_get(&list->item[i], "speed.read_Bps");
        if (v > 0 && !(v <= most)) {
            most = v;
            *path = stk_pg_text(&list->item[i], "path", "a file system");
        }
    }
    return most;
}

static int add_doctor(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err)
{
    static const struct stk_pg_column facts[] = {
        {"node.host", "Host", "text"},
        {"node.kernel", "Kernel", "text"},
        {"node.cpus", "CPUs", "count"},
        {"node.machine_cpus", "CPUs of the machine", "count"},
        {"node.memory_limit_bytes", "Memory", "B"},
        {"node.memory_free_bytes", "Memory, free", "B"},
        {"node.gpus", "GPUs", "count"},
        {"node.gpu_kind", "GPU", "text"},
        {"node.io_uring_why_not", "No io_uring", "text"},
        {"node.scheduler", "Scheduler", "text"},
        {"node.slurm_version", "Slurm", "text"},
        {"node.job", "Job", "text"},
        {"target.path", "Copies go to", "text"},
        {"measured_s", "Measured for", "s"},
    };
    struct stk_jw *w = &page->w;
    const struct stk_jval *r = in->result, *list = stk_json_get(r, "file_systems");
    const char *path = NULL;
    char title[160], text[700];
    double most = fastest(list, &path);
    (void)err;
    snprintf(title, sizeof title, "The node %.120s", stk_pg_text(r, "node.host", ""));
    snprintf(text, sizeof text, "Copies go to %.300s: %.300s.",
             stk_pg_text(r, "target.path", "no folder"),
             stk_pg_text(r, "target.reason", "none fits"));
    stk_pg_begin(w, "doctor", in->name, title);
    stk_jw_put_str(w, "verdict", text);
    if (path) {
        snprintf(text, sizeof text, "read from %.300s, the most that was measured here", path);
        stk_pg_number(w, most, "B/s", text);
    } else {
        stk_pg_number(w, stk_pg_get(r, "target.room_bytes"), "B", "of room for copies");
    }
    stk_pg_facts_of(w, r, facts, STK_PG_COUNT(facts));
    stk_pg_blocks(w);
    put_speeds(w, list);
    put_tables(w, r);
    stk_jw_close(w, ']');
    stk_pg_end(w);
    return 0;
}

const struct stk_pg_kind stk_pg_doctor = {.name = "doctor", .command = "doctor", .add = add_doctor};
