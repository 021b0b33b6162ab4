/* tune_check.c - a result of `stoker tune --check` on a page: a command before and after a change. */
#include "report/html/tune.h"

#include <stdio.h>

static void put_check_plot(struct stk_jw *w, const struct stk_jval *c)
{
    const struct stk_pg_axis axis = {"", "", "category", NAN, NAN};
    const double v[] = {stk_pg_get(c, "before_s"), stk_pg_get(c, "after_s")};
    const char *const names[] = {"as it was", "with the change"};
    stk_pg_plot(w, "runs", "The command", "How long a run took.");
    stk_jw_put_bool(w, "flip", true);
    stk_pg_x(w, &axis);
    stk_jw_put_strs(w, "v", names, 2);
    stk_jw_close(w, '}');
    stk_pg_panels(w);
    stk_pg_panel(w, "time", "s");
    stk_pg_series(w, "time", "bar");
    stk_pg_values(w, "v", v, 2);
    stk_jw_close(w, '}');
    stk_pg_panel_end(w);
    stk_pg_plot_end(w);
}

void stk_pg_tune_check(struct stk_jw *w, const struct stk_pg_input *in, const struct stk_jval *c)
{
    static const struct stk_pg_column about[] = {{"before_s", "As it was", "s"},
                                                 {"after_s", "With the change", "s"},
                                                 {"before_least_s", "Shortest before", "s"},
                                                 {"before_most_s", "Longest before", "s"},
                                                 {"pairs", "Pairs of runs", "count"},
                                                 {"failed_before", "Failed before", "count"},
                                                 {"failed_after", "Failed after", "count"}};
    char range[80], what[120], verdict[400];
    snprintf(verdict, sizeof verdict, "The command with the change against the command as it was: %s.",
             stk_pg_text(c, "verdict.text", "not known"));
    snprintf(what, sizeof what, "as fast%s", stk_pg_times_range(c, range, sizeof range));
    stk_pg_begin(w, "tune", in->name, "A change, checked");
    stk_jw_put_str(w, "verdict", verdict);
    stk_pg_number(w, stk_pg_get(c, "times"), "x", what);
    stk_pg_facts_of(w, c, about, STK_PG_COUNT(about));
    stk_pg_blocks(w);
    put_check_plot(w, c);
    stk_jw_close(w, ']');
    stk_pg_end(w);
}
