/*
 * compare.c - profiles side by side, as a result: what a change did to the run's time, to its I/O,
 * and to the findings. Nothing is scaled.
 */
#include "report/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/report_priv.h"
#include "result/blocks.h"

#define COLUMNS 256 /* of the run over time */
#define COMMAND 160 /* of a command, at most */

/* ---- the figures of a profile --------------------------------------------------------------- */

#define FROM(member) STK_FROM(struct stk_analysis, member)
/* Unknown is negative. */
#define FIGURE(key, title, unit, member)                                                           \
    {key, title, unit, FROM(member), .flags = STK_F_KNOWN | STK_F_IF_SET}
#define COUNTER(key, title, unit, which)                                                           \
    {key, title, unit, FROM(job.n.c[which]), .flags = STK_F_IF_SET}

static const struct stk_result_field figure_fields[] = {
    FIGURE("wait_s", "main loop, waited for data", STK_U_SECONDS, loop.wait_s),
    FIGURE("compute_s", "main loop, computed", STK_U_SECONDS, loop.compute_s),
    FIGURE("start_s", NULL, STK_U_SECONDS, loop.start_s),
    FIGURE("loop_write_s", NULL, STK_U_SECONDS, loop.write_s),
    FIGURE("io_share_merged", "any thread in I/O", STK_U_SHARE, io_share_merged),
    FIGURE("io_share_main", "main process in I/O", STK_U_SHARE, io_share_main),
    FIGURE("read_s", "time in reads, threads added", STK_U_SECONDS, job.read_s),
    FIGURE("write_s", "time in writes", STK_U_SECONDS, job.write_s),
    FIGURE("meta_s", "time in metadata", STK_U_SECONDS, job.meta_s),
    COUNTER("read_bytes", "bytes read", STK_U_BYTES, STK_C_READ_BYTES),
    COUNTER("write_bytes", "bytes written", STK_U_BYTES, STK_C_WRITE_BYTES),
    COUNTER("reads", "reads", STK_U_COUNT, STK_C_READS),
    COUNTER("writes", "writes", STK_U_COUNT, STK_C_WRITES),
    FIGURE("mean_read_bytes", "mean read", STK_U_BYTES, job.mean_read_bytes),
    FIGURE("read_p50_s", "a read, p50", STK_U_SECONDS, job.latency_p50_s),
    FIGURE("read_p99_s", "a read, p99", STK_U_SECONDS, job.latency_p99_s),
    FIGURE("reread", "each byte read", STK_U_TIMES, job.reread),
    COUNTER("opens", "opens", STK_U_COUNT, STK_C_OPENS),
    COUNTER("stats", "stats", STK_U_COUNT, STK_C_STATS),
    COUNTER("seeks", "seeks", STK_U_COUNT, STK_C_SEEKS),
    COUNTER("dir_reads", "directory reads", STK_U_COUNT, STK_C_DIR_READS),
    COUNTER("fsyncs", "fsyncs", STK_U_COUNT, STK_C_FSYNCS),
    FIGURE("cpu_cores_mean", "CPU, cores, mean", STK_U_PLAIN, cpu_cores_mean),
    FIGURE("other_cores_mean", "other programs, cores", STK_U_PLAIN, other_cores_mean),
    FIGURE("gpu_util_mean", "GPU, mean", STK_U_SHARE, gpu_util_mean),
    {NULL}};

/* ---- the run over time, sizes of requests --------------------------------------------------- */

static const struct {
    const char *key;
    enum stk_series what;
} lanes[] = {{"read_Bps", STK_SERIES_READ_BPS}, {"write_Bps", STK_SERIES_WRITE_BPS},
             {"io_threads", STK_SERIES_IO},     {"cpu_cores", STK_SERIES_CPU},
             {"memory_bytes", STK_SERIES_MEMORY}, {"gpu", STK_SERIES_GPU}};

static const struct stk_result_field moment_fields[] = {
    {"at_s", NULL, STK_U_SECONDS},      {"read_Bps", NULL, STK_U_BYTES_PER_S},
    {"write_Bps", NULL, STK_U_BYTES_PER_S}, {"io_threads", NULL, STK_U_PLAIN},
    {"cpu_cores", NULL, STK_U_PLAIN},   {"memory_bytes", NULL, STK_U_BYTES},
    {"gpu", NULL, STK_U_SHARE},         {NULL}};

static const struct stk_result_plot time_plot = {
    "time", "The runs over time", "Each from its own beginning.",
    "at_s", "time", STK_U_SECONDS, STK_SCALE_LINEAR,
    {{"read", STK_U_BYTES_PER_S, {{"read_Bps", NULL, "area"}}},
     {"write", STK_U_BYTES_PER_S, {{"write_Bps", NULL, "area"}}},
     {"threads in I/O", STK_U_PLAIN, {{"io_threads", NULL, "step"}}},
     {"CPU, cores", STK_U_PLAIN, {{"cpu_cores", NULL, "step"}}},
     {"memory", STK_U_BYTES, {{"memory_bytes", NULL, "step"}}},
     {"GPU", STK_U_SHARE, {{"gpu", NULL, "step"}}}},
    .least = 2};

/* One reading is not a line. */
static bool fill_lane(const struct stk_profile *p, size_t lane, double *v)
{
    size_t known = 0;
    bool any = stk_report_series(p, lanes[lane].what, v, COLUMNS);
    for (size_t i = 0; any && i < COLUMNS; i++)
        known += v[i] >= 0;
    return known > 1;
}

static void put_over_time(const void *base, struct stk_jw *w)
{
    const struct stk_analysis *a = base;
    double v[STK_PG_COUNT(lanes)][COLUMNS], span = stk_report_span_s(a->p);
    bool known[STK_PG_COUNT(lanes)], any = false;
    for (size_t k = 0; k < STK_PG_COUNT(lanes); k++) {
        known[k] = fill_lane(a->p, k, v[k]);
        any = any || known[k];
    }
    stk_jw_open(w, '[');
    for (size_t i = 0; i < COLUMNS && any; i++) {
        stk_jw_open(w, '{');
        stk_jw_put_f64(w, "at_s", span * (double)i / COLUMNS);
        for (size_t k = 0; k < STK_PG_COUNT(lanes); k++) {
            if (!known[k])
                continue;
            stk_jw_key(w, lanes[k].key);
            stk_pg_value(w, v[k][i] >= 0 ? v[k][i] : NAN);
        }
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static const struct stk_result_field size_fields[] = {{"bytes", NULL, STK_U_TEXT},
                                                      {"reads", NULL, STK_U_COUNT},
                                                      {"writes", NULL, STK_U_COUNT},
                                                      {NULL}};

static const struct stk_result_plot sizes_plot = {
    "sizes", "Sizes of requests", NULL, "bytes", "size of a request", STK_U_PLAIN, STK_SCALE_CATEGORY,
    {{"reads", STK_U_COUNT, {{"reads", NULL, "bar"}}},
     {"writes", STK_U_COUNT, {{"writes", NULL, "bar"}}}},
    .trim = true};

static void put_sizes(const void *base, struct stk_jw *w)
{
    const struct stk_counts *n = &((const struct stk_analysis *)base)->job.n;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < STK_SIZE_BINS; i++) {
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "bytes", stk_report_size_name[i]);
        stk_jw_put_u64(w, "reads", n->read_size[i]);
        stk_jw_put_u64(w, "writes", n->write_size[i]);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

/* ---- findings ------------------------------------------------------------------------------- */

static const struct stk_finding *same_finding(const struct stk_advice *in,
                                              const struct stk_finding *f)
{
    for (size_t i = 0; i < in->nfindings; i++)
        if (in->finding[i].rule == f->rule)
            return &in->finding[i];
    return NULL;
}

/* A rule may fire for several folders: its first finding is the most severe, and stands for the
 * others. */
static bool stands_for_its_id(const struct stk_advice *in, size_t i)
{
    return same_finding(in, &in->finding[i]) == &in->finding[i];
}

STK_TEXT_OF(finding_id, struct stk_finding, r->id)
STK_TEXT_OF(finding_title, struct stk_finding, r->title)
STK_NUMBER_OF(finding_gain, struct stk_finding, r->gain_s > 0 ? r->gain_s : NAN)

static void finding_saves(const void *base, struct stk_jw *w)
{
    const struct stk_finding *f = base;
    char text[80], gain[40];
    snprintf(text, sizeof text, "saves about %s",
             stk_unit_text(STK_U_SECONDS, f->gain_s, gain, sizeof gain));
    stk_jw_str(w, f->gain_s > 0 ? text : "found; gain unknown");
}

static const struct stk_result_field finding_fields[] = {
    {"id", "rule", STK_U_TEXT, .put = finding_id},
    {"title", "finding", STK_U_TEXT, .put = finding_title, .flags = STK_F_PAGE},
    {"gain_s", NULL, STK_U_SECONDS, .number = finding_gain},
    {"saves", "saves", STK_U_TEXT, .put = finding_saves},
    {NULL}};

static void put_findings(const void *base, struct stk_jw *w)
{
    const struct stk_advice *advice = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < advice->nfindings; i++) {
        if (!stands_for_its_id(advice, i))
            continue;
        stk_jw_open(w, '{');
        stk_fields_put(finding_fields, &advice->finding[i], w);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

/* ---- a profile ------------------------------------------------------------------------------ */

#define SIDE(member) STK_FROM(struct stk_compared_profile, member)
#define ANALYSIS     STK_FROM_AS(POINTER, struct stk_compared_profile, a)

STK_TEXT_OF(path, struct stk_compared_profile, r->a->p->path)
STK_TEXT_OF(command, struct stk_compared_profile, r->a->p->command)
STK_NUMBER_OF(run_s, struct stk_compared_profile, r->a->p->run_s)
STK_NUMBER_OF(ranks, struct stk_compared_profile, (double)r->a->p->nranks)

static void title(const void *base, struct stk_jw *w)
{
    const struct stk_profile *p = ((const struct stk_compared_profile *)base)->a->p;
    struct stk_buf b = STK_BUF_INIT;
    stk_jw_str(w, stk_word_command(&b, p->command && *p->command ? p->command : p->path, COMMAND));
    stk_buf_release(&b);
}

static const struct stk_result_field profile_fields[] = {
    {"name", NULL, STK_U_TEXT, SIDE(name)},
    {"path", NULL, STK_U_TEXT, .put = path},
    {"command", NULL, STK_U_TEXT, .put = command},
    {"title", NULL, STK_U_TEXT, .put = title, .meaning = "the command, shortened"},
    {"compared", NULL, STK_U_FLAG, SIDE(compared), "false if the run or the other one failed"},
    {"run_s", "run time", STK_U_SECONDS, .number = run_s, .flags = STK_F_KNOWN | STK_F_IF_SET},
    {"ranks", "ranks", STK_U_COUNT, .number = ranks, .flags = STK_F_IF_MANY},
    {"", NULL, STK_U_GROUP, ANALYSIS, .of = figure_fields},
    {"findings", NULL, STK_U_TABLE, STK_FROM_AS(POINTER, struct stk_compared_profile, advice),
     .put = put_findings, .of = finding_fields},
    {"over_time", NULL, STK_U_TABLE, ANALYSIS, .put = put_over_time, .of = moment_fields,
     .plot = &time_plot},
    {"sizes", NULL, STK_U_TABLE, ANALYSIS, .put = put_sizes, .of = size_fields,
     .plot = &sizes_plot},
    {NULL}};

static const struct stk_result_plot where_plot = {
    "where", "Where the time went",
    "The main thread of each program, if it is known; the time of all threads in I/O calls.",
    "name", "", STK_U_PLAIN, STK_SCALE_CATEGORY,
    {{"time of the main loop", STK_U_SECONDS,
      {{"start_s", "started", "bar"}, {"wait_s", "waited for data", "bar"},
       {"loop_write_s", "wrote", "bar"}, {"compute_s", "computed", "bar"}}, .stacked = true},
     {"time in calls", STK_U_SECONDS,
      {{"read_s", "reads", "bar"}, {"write_s", "writes", "bar"},
       {"meta_s", "metadata", "bar"}}, .stacked = true}},
    .flip = true};

static const struct stk_result_field finding_columns[] = {
    {"name", NULL, STK_U_TEXT},
    {"findings", NULL, STK_U_TABLE, .of = finding_fields, .by = "saves", .flags = STK_F_SIDE},
    {NULL}};

/* ---- whether they can be compared ----------------------------------------------------------- */

/* A run that failed, or was not recorded to its end, is fast for another reason. */
static const char *not_whole(const struct stk_profile *p)
{
    return p->running           ? "has not ended"
           : p->stopped_early   ? "was not recorded to its end (--for)"
           : p->exit_signal     ? "was ended by a signal"
           : p->exit_status > 0 ? "failed"
           : p->exit_status < 0 && (p->source->knows & STK_KNOWS_ENDS) ? "was not seen to end"
                                                                       : NULL;
}

bool stk_compared_whole(const struct stk_analysis *before, const struct stk_analysis *after)
{
    return !not_whole(before->p) && !not_whole(after->p);
}

/* "the run after failed (exit status 3)" */
static void add_refusal(const char *which, const struct stk_profile *p, struct stk_buf *line)
{
    const char *why = not_whole(p);
    if (!why)
        return;
    stk_buf_printf(line, " The run %s %s", which, why);
    if (p->exit_signal)
        stk_buf_printf(line, " (%d)", p->exit_signal);
    else if (p->exit_status > 0)
        stk_buf_printf(line, " (exit status %d)", p->exit_status);
    stk_buf_puts(line, ".");
}

/* ---- what else differs --------------------------------------------------------------------- */

#define BUSY_SHARE 0.2  /* of the cores, in use by others: times are then not the program's own */
#define SAME_WORK  0.05 /* numbers of steps, samples, bytes closer than this are alike */

static void add_busy(const char *which, const struct stk_analysis *a, struct stk_buf *line)
{
    if (!(a->other_cores_mean > 0) || a->other_cores_mean < BUSY_SHARE * (double)a->cores)
        return;
    stk_buf_printf(line, " The machine was busy during the run %s: other programs used %.1f", which,
                   a->other_cores_mean);
    if (a->cores)
        stk_buf_printf(line, " of %llu", (unsigned long long)a->cores);
    stk_buf_puts(line, " cores.");
}

static bool differ(double x, double y)
{
    return x > 0 && y > 0 && fabs(x - y) > SAME_WORK * fmax(x, y);
}

/* The directory with most bytes read; NULL: none. */
static const char *data_of(const struct stk_analysis *a)
{
    const struct stk_usage *most = NULL;
    for (size_t i = 0; i < a->ndirs; i++)
        if (a->dir[i].n.c[STK_C_READ_BYTES] &&
            (!most || a->dir[i].n.c[STK_C_READ_BYTES] > most->n.c[STK_C_READ_BYTES]))
            most = &a->dir[i];
    return most ? most->name : NULL;
}

static void add_work(const struct stk_analysis *x, const struct stk_analysis *y,
                     struct stk_buf *line)
{
    char was[40], is[40];
    const struct {
        const char *what;
        double before, after;
    } counts[] = {{"step", x->steps.marked ? (double)x->steps.count : 0,
                   y->steps.marked ? (double)y->steps.count : 0},
                  {"epoch", (double)x->nepochs, (double)y->nepochs},
                  {"rank", x->p->nranks, y->p->nranks}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (differ(counts[i].before, counts[i].after))
            stk_buf_printf(
                line, " They did different work: %s before, %s after.",
                stk_word_many(stk_nearest(counts[i].before), counts[i].what, was, sizeof was),
                stk_word_many(stk_nearest(counts[i].after), counts[i].what, is, sizeof is));
}

/* A dataset that was packed has another path and other bytes: named, not judged. */
static void add_datasets(const struct stk_analysis *x, const struct stk_analysis *y,
                         struct stk_buf *line)
{
    const char *before = data_of(x), *after = data_of(y);
    double was = (double)x->job.distinct_bytes, is = (double)y->job.distinct_bytes;
    char a[40], b[40];
    bool moved = before && after && strcmp(before, after) != 0;
    if (!moved && !differ(was, is))
        return;
    stk_buf_printf(line, " They read different data: %s",
                   stk_word_size(x->job.distinct_bytes, a, sizeof a));
    stk_buf_printf(line, moved ? ", most of it in %s, before" : " before", before);
    stk_buf_printf(line, ", %s", stk_word_size(y->job.distinct_bytes, b, sizeof b));
    stk_buf_printf(line, moved ? ", most of it in %s, after." : " after.", after);
}

static void add_differences(const struct stk_analysis *before, const struct stk_analysis *after,
                            struct stk_buf *line)
{
    add_busy("before", before, line);
    add_busy("after", after, line);
    add_work(before, after, line);
    add_datasets(before, after, line);
}

/* ---- two of them ---------------------------------------------------------------------------- */

#define PAIR(member) STK_FROM_AS(STRUCT, struct stk_compared_pair, member)

static void put_profile(const void *base, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_fields_put(profile_fields, base, w);
    stk_jw_close(w, '}');
}

static void pair_verdict(const void *base, struct stk_jw *w)
{
    const struct stk_compared_pair *r = base;
    const struct stk_verdict v =
        stk_verdict_of_single(r->after.a->p->run_s, r->before.a->p->run_s);
    if (r->after.compared)
        stk_verdict_put(&v, w);
    else
        stk_jw_null(w);
}

static void add_pair_differences(const struct stk_compared_pair *r, struct stk_buf *text)
{
    add_refusal("before", r->before.a->p, text);
    add_refusal("after", r->after.a->p, text);
    if (r->after.compared)
        add_differences(r->before.a, r->after.a, text);
}

static void pair_differences(const void *base, struct stk_jw *w)
{
    struct stk_buf text = STK_BUF_INIT;
    add_pair_differences(base, &text);
    stk_jw_str(w, text.len ? stk_buf_cstr(&text) + 1 : NULL);
    stk_buf_release(&text);
}

static void pair_text(const void *base, struct stk_jw *w)
{
    const struct stk_compared_pair *r = base;
    double was_s = r->before.a->p->run_s, is_s = r->after.a->p->run_s;
    const struct stk_verdict v = stk_verdict_of_single(is_s, was_s);
    char was[40], is[40], said[STK_VERDICT_TEXT];
    struct stk_buf text = STK_BUF_INIT;
    if (!r->after.compared)
        stk_buf_puts(&text, "These runs are not compared: their times would say nothing.");
    else if (isfinite(v.times))
        stk_buf_printf(&text, "The run took %s instead of %s: %s.",
                       stk_unit_text(STK_U_SECONDS, is_s, is, sizeof is),
                       stk_unit_text(STK_U_SECONDS, was_s, was, sizeof was),
                       stk_verdict_text(&v, said, sizeof said));
    if (text.len)
        add_pair_differences(r, &text);
    stk_jw_str(w, text.len ? stk_buf_cstr(&text) : NULL);
    stk_buf_release(&text);
}

static double pair_times(const void *base)
{
    const struct stk_compared_pair *r = base;
    return r->after.compared
               ? stk_verdict_of_single(r->after.a->p->run_s, r->before.a->p->run_s).times
               : NAN;
}

static void put_ids(struct stk_jw *w, const struct stk_advice *of, const struct stk_advice *other,
                    bool in_both)
{
    stk_jw_open(w, '[');
    for (size_t i = 0; i < of->nfindings; i++)
        if (stands_for_its_id(of, i) && !!same_finding(other, &of->finding[i]) == in_both)
            stk_jw_str(w, of->finding[i].id);
    stk_jw_close(w, ']');
}

#define IDS(name, of, other, in_both)                                                              \
    static void name(const void *base, struct stk_jw *w)                                           \
    {                                                                                              \
        const struct stk_compared_pair *r = base;                                                  \
        put_ids(w, r->of.advice, r->other.advice, in_both);                                        \
    }
IDS(gone, before, after, false)
IDS(left, before, after, true)
IDS(fresh, after, before, false)

STK_BOOL_OF(comparable, struct stk_compared_pair, r->after.compared)
STK_TEXT_OF(no_findings, struct stk_compared_pair,
            r->before.advice->blind || r->after.advice->blind
                ? "not known: one of the profiles recorded nothing"
            : r->before.advice->nfindings || r->after.advice->nfindings ? NULL
                                                                         : "none, before or after")

static const struct stk_result_field run_fields[] = {
    {"name", "run", STK_U_TEXT},
    {"title", "command", STK_U_TEXT, .flags = STK_F_WRAP | STK_F_ESCAPED},
    {NULL}};

/* Numbers of a run that failed would be taken for what the change did. */
static bool is_compared(const struct stk_jval *profile)
{
    return stk_pg_true(profile, "compared");
}

#define OF_BOTH(title, of_, flags_, ...)                                                           \
    {"", title, STK_U_TABLE, .pair = {"before", "after"}, .of = of_,                               \
     .flags = STK_F_VIEW | (flags_), __VA_ARGS__}

static const struct stk_result_field pair_fields[] = {
    {"before", NULL, STK_U_ANY, PAIR(before), .put = put_profile, .of = profile_fields},
    {"after", NULL, STK_U_ANY, PAIR(after), .put = put_profile, .of = profile_fields},
    {"comparable", NULL, STK_U_FLAG, .put = comparable},
    OF_BOTH("runs", run_fields, 0, .plot = NULL),
    OF_BOTH("numbers", profile_fields, STK_F_SIDE, .which = is_compared),
    {"times", "as fast as before", STK_U_TIMES, .number = pair_times,
     .flags = STK_F_LEAD | STK_F_PAGE},
    OF_BOTH("numbers", profile_fields, STK_F_PAGE | STK_F_SIDE, .which = is_compared,
            .plot = &where_plot),
    {"no_findings", "findings", STK_U_TEXT, .put = no_findings, .flags = STK_F_SCREEN},
    {"findings_gone", "findings gone", STK_U_LIST, .put = gone, .flags = STK_F_IF_SET},
    {"findings_left", "findings left", STK_U_LIST, .put = left, .flags = STK_F_IF_SET},
    {"findings_new", "findings that are new", STK_U_LIST, .put = fresh, .flags = STK_F_IF_SET},
    OF_BOTH("findings", finding_columns, STK_F_SIDE, .which = is_compared),
    OF_BOTH("findings", finding_columns, STK_F_SIDE | STK_F_PAGE, .which = is_compared),
    {"verdict", NULL, STK_U_ANY, .put = pair_verdict},
    {"differences", NULL, STK_U_TEXT, .put = pair_differences},
    {"verdict_text", NULL, STK_U_PROSE, .put = pair_text, .flags = STK_F_VERDICT},
    {"verdict_text", NULL, STK_U_PROSE, .flags = STK_F_VIEW},
    {NULL}};

static bool is_pair(const struct stk_jval *r)
{
    return stk_json_get(r, "before") && stk_json_get(r, "after");
}

const struct stk_result_kind stk_profile_pair_kind = {.command = "report",
                                                      .page = "comparison",
                                                      .doing = "Profiles compared",
                                                      .subject = SIZE_MAX,
                                                      .fields = pair_fields,
                                                      .takes = is_pair};

/* ---- any number, on a page ------------------------------------------------------------------ */

/* The fastest of those that can be compared with the first; 0: none can. */
static size_t fastest(const struct stk_compared_profiles *all)
{
    const struct stk_analysis *first = all->profile[0].a;
    size_t best = 0;
    for (size_t k = 1; k < all->n; k++) {
        const struct stk_analysis *a = all->profile[k].a;
        if (stk_compared_whole(first, a) && first->p->run_s > 0 && a->p->run_s > 0 &&
            (!best || a->p->run_s < all->profile[best].a->p->run_s))
            best = k;
    }
    return best;
}

static double best_times(const void *base)
{
    const struct stk_compared_profiles *all = base;
    size_t best = fastest(all);
    return best ? all->profile[0].a->p->run_s / all->profile[best].a->p->run_s : NAN;
}

/* Against the first, as `stoker report BEFORE AFTER` has it. */
static void best_text(const void *base, struct stk_jw *w)
{
    const struct stk_compared_profiles *all = base;
    size_t best = fastest(all);
    double before = all->profile[0].a->p->run_s, after = all->profile[best].a->p->run_s;
    char text[1000], said[STK_VERDICT_TEXT], a[40], b[40];
    const struct stk_verdict v = stk_verdict_of_single(after, before);
    snprintf(text, sizeof text, "%.300s took %s%s, %.300s %s: %s.", all->profile[best].name,
             stk_unit_text(STK_U_SECONDS, after, a, sizeof a),
             all->n > 2 ? ", the least of the others" : "", all->profile[0].name,
             stk_unit_text(STK_U_SECONDS, before, b, sizeof b),
             stk_verdict_text(&v, said, sizeof said));
    stk_jw_str(w, best ? text : "A run failed or was not recorded to its end: no verdict.");
}

static const struct stk_result_field all_fields[] = {
    {"profiles", "numbers", STK_U_TABLE,
     STK_FROM_ARRAY(struct stk_compared_profiles, profile, n), .of = profile_fields,
     .flags = STK_F_SIDE, .plot = &where_plot},
    {"profiles", "findings", STK_U_TABLE, .of = finding_columns,
     .flags = STK_F_VIEW | STK_F_PAGE | STK_F_SIDE,
     .meaning = "Which profiles have each, and the time that it costs."},
    {"times", "as fast as the first", STK_U_TIMES, .number = best_times,
     .flags = STK_F_LEAD | STK_F_PAGE},
    {"verdict", NULL, STK_U_PROSE, .put = best_text, .flags = STK_F_VERDICT},
    {NULL}};

static void all_caveat(const struct stk_jval *r, struct stk_buf *out)
{
    stk_buf_printf(out, "%.300s, from one run each", stk_pg_text(r, "profiles.0.name", "?"));
}

const struct stk_result_kind stk_profiles_kind = {.command = "report",
                                                  .page = "comparison",
                                                  .doing = "Profiles compared",
                                                  .subject = SIZE_MAX,
                                                  .fields = all_fields,
                                                  .caveat = all_caveat};
