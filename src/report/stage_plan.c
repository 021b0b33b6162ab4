/* stage_plan.c - where a copy goes and what staging costs: the result of `stage --dry-run`. */
#include "report/stage.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"
#include "model/measure.h"
#include "result/blocks.h"
#include "result/screen.h"

/* UINT64_MAX: not known, or no limit. */
static double known(uint64_t v)
{
    return v > INT64_MAX ? NAN : (double)v;
}

static double positive(double v)
{
    return v > 0 ? v : NAN;
}

/* ---- a file system -------------------------------------------------------------------------- */

#define FACT(name, expression) STK_NUMBER_OF(name, struct stk_fs_facts, expression)

FACT(total, known(r->total_bytes))
FACT(space, known(r->free_bytes))
FACT(inodes, known(r->free_files))
FACT(quota, known(r->quota_bytes))
FACT(quota_inodes, known(r->quota_files))
FACT(stripes, r->stripe.size_bytes ? (double)r->stripe.count : NAN)
FACT(stripe_size, r->stripe.size_bytes ? known(r->stripe.size_bytes) : NAN)
FACT(purge, positive(r->purge.days))
STK_TEXT_OF(error, struct stk_fs_facts, r->error ? strerror(r->error) : NULL)
STK_TEXT_OF(error_name, struct stk_fs_facts, stk_errno_name(r->error))

static void quota_text(const void *base, struct stk_jw *w)
{
    const struct stk_fs_facts *f = base;
    char text[40];
    if (f->quota_told && f->quota_bytes != UINT64_MAX)
        stk_jw_str(w, stk_format_size(f->quota_bytes, text, sizeof text));
    else
        stk_jw_str(w, f->error ? NULL : f->quota_told ? "no limit" : "not told");
}

static void put_reach(const void *base, struct stk_jw *w)
{
    static const char *const reach[] = {"unknown", "local", "memory", "shared"};
    stk_jw_str(w, reach[((const struct stk_fs_facts *)base)->reach]);
}

#define FACT_CHARS(member) STK_FROM_AS(CHARS, struct stk_fs_facts, member)

const struct stk_result_field stk_fs_fields[] = {
    {"fs", "type", STK_U_TEXT, FACT_CHARS(fs), .flags = STK_F_KNOWN | STK_F_CUT_END},
    {"mounted_at", NULL, STK_U_TEXT, FACT_CHARS(point), .flags = STK_F_KNOWN},
    {"reach", "reach", STK_U_TEXT, .put = put_reach, .flags = STK_F_PAGE,
     .meaning = "local, memory, shared or unknown"},
    {"total_bytes", NULL, STK_U_BYTES, .number = total},
    {"free_bytes", "free", STK_U_BYTES, .number = space},
    {"free_files", NULL, STK_U_COUNT, .number = inodes},
    {"quota_told", NULL, STK_U_FLAG, STK_FROM(struct stk_fs_facts, quota_told)},
    {"quota", "quota left", STK_U_TEXT, .put = quota_text, .flags = STK_F_SCREEN},
    {"quota_left_bytes", "quota left", STK_U_BYTES, .number = quota, .flags = STK_F_PAGE},
    {"quota_left_files", NULL, STK_U_COUNT, .number = quota_inodes},
    {"stripe_count", "stripes", STK_U_COUNT, .number = stripes, .flags = STK_F_PAGE,
     .meaning = "Lustre; -1: on all storage targets"},
    {"stripe_bytes", NULL, STK_U_BYTES, .number = stripe_size},
    {"purge_days", "purged after days", STK_U_PLAIN, .number = purge, .flags = STK_F_PAGE},
    {"error", NULL, STK_U_TEXT, .put = error},
    {"errno", NULL, STK_U_TEXT, .put = error_name},
    {NULL}};

/* ---- folders for copies --------------------------------------------------------------------- */

static const char *chosen_tone(const struct stk_jval *v)
{
    return v->b ? STK_GOOD : NULL;
}

static const struct stk_result_field target_fields[] = {
    {"name", "folder", STK_U_TEXT},
    {"chosen", "", STK_U_FLAG, .flags = STK_F_IF_SET | STK_F_SCREEN, .say = "*",
     .tone = chosen_tone},
    {"path", "path", STK_U_TEXT, .flags = STK_F_CUT},
    {"verdict", "verdict", STK_U_TEXT, .flags = STK_F_PAGE},
    {"reason", "why", STK_U_TEXT, .flags = STK_F_CUT_END},
    {"warning", "warning", STK_U_TEXT, .flags = STK_F_REMARK | STK_F_WARN},
    {"tier", NULL, STK_U_TEXT},
    {"room_bytes", "room for a copy", STK_U_BYTES, .flags = STK_F_PAGE | STK_F_LEAD},
    {"job_memory_bytes", NULL, STK_U_BYTES},
    {"", NULL, STK_U_GROUP, .of = stk_fs_fields, .flags = STK_F_PAGE},
    {NULL}};

static void put_known(struct stk_jw *w, const char *key, uint64_t v)
{
    stk_jw_put_known_i64(w, key, v > INT64_MAX ? -1 : (int64_t)v);
}

static void put_one(const struct stk_target *t, bool chosen, struct stk_jw *w)
{
    char *tier = t->verdict == STK_TARGET_FITS && !t->named ? stk_scratch_tier(t->path) : NULL;
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "name", t->name);
    stk_jw_put_bool(w, "chosen", chosen);
    stk_jw_put_str(w, "path", t->path[0] ? t->path : NULL);
    stk_jw_put_str(w, "verdict", stk_target_verdict_name(t->verdict));
    stk_jw_put_str(w, "reason", t->reason);
    stk_jw_put_str(w, "warning", t->warning[0] ? t->warning : NULL);
    stk_jw_put_str(w, "tier", tier);
    if (t->path[0]) {
        put_known(w, "room_bytes", t->room_bytes);
        put_known(w, "job_memory_bytes", t->job_bytes);
        stk_fields_put(stk_fs_fields, &t->facts, w);
    }
    stk_jw_close(w, '}');
    free(tier);
}

static void put_target(const struct stk_target *t, struct stk_jw *w)
{
    if (t)
        put_one(t, true, w);
    else
        stk_jw_null(w);
}

static void put_best(const void *targets, struct stk_jw *w)
{
    put_target(stk_targets_best(targets), w);
}

static void put_all(const void *targets, struct stk_jw *w)
{
    const struct stk_targets *t = targets;
    stk_jw_open(w, '[');
    for (size_t i = 0; t && i < t->n; i++)
        put_one(&t->target[i], i == t->best, w);
    stk_jw_close(w, ']');
}

#define TARGETS                                                                                    \
    "targets", "folders for copies; * is where `stoker stage` puts them", STK_U_TABLE

const struct stk_result_field stk_target_fields[] = {
    {"target", NULL, STK_U_GROUP, .put = put_best, .of = target_fields, .flags = STK_F_PAGE},
    {TARGETS, .put = put_all, .of = target_fields, .flags = STK_F_NAMED,
     .meaning = "Where `stoker stage` may put a copy."},
    {NULL}};

/* ---- cost ----------------------------------------------------------------------------------- */

#define ASKED(name, expression) STK_NUMBER_OF(name, struct stk_stage_plan, expression)

ASKED(bytes, (double)r->asked->bytes)
ASKED(files, (double)r->asked->files)
ASKED(nodes, r->asked->nodes ? (double)r->asked->nodes : 1)
ASKED(epochs, r->asked->epochs ? (double)r->asked->epochs : NAN)
ASKED(source_rate, positive(r->asked->source.read_Bps))
ASKED(source_all_rate, positive(r->asked->source.all_Bps))
ASKED(source_file, positive(stk_cost_file_s(&r->asked->source)))
ASKED(write_rate, positive(r->asked->target.write_Bps))
ASKED(write_file, positive(r->asked->target.create_s / STK_MEASURE_READERS))
ASKED(read_rate, positive(r->asked->target.read_Bps))
ASKED(read_file, positive(stk_cost_file_s(&r->asked->target)))
ASKED(fabric_rate, positive(r->asked->fabric_Bps))
ASKED(need, positive(r->asked->need_Bps))

static const struct stk_result_field way_fields[] = {
    {"way", "staging", STK_U_TEXT},
    {"best", "", STK_U_FLAG, .flags = STK_F_IF_SET | STK_F_SCREEN, .say = "*"},
    {"least_s", "takes at least", STK_U_SECONDS},
    {"most_s", "at most", STK_U_SECONDS},
    {"limited_by", "limited by", STK_U_TEXT, .flags = STK_F_CUT_END},
    {NULL}};

static const struct stk_result_plot way_plot = {
    "ways", "Ways to stage", "The least and the most time that each may take.",
    "way", "", STK_U_PLAIN, STK_SCALE_CATEGORY,
    {{"time", STK_U_SECONDS, {{"least_s", "at least", "bar"}, {"most_s", NULL, "bar"}}}}};

static void put_ways(const void *base, struct stk_jw *w)
{
    const struct stk_stage_plan *p = base;
    const struct stk_cost *c = p->cost;
    int n = p->asked->nodes > 1 ? STK_COST_WAYS : 1;
    stk_jw_open(w, '[');
    for (int i = 0; i < n; i++) {
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "way", stk_cost_way_name((enum stk_cost_way)i));
        stk_jw_put_bool(w, "best", n > 1 && (int)c->best == i && c->way[i].wall);
        stk_jw_put_known_f64(w, "least_s", c->way[i].least_s);
        stk_jw_put_known_f64(w, "most_s", c->way[i].most_s);
        stk_jw_put_str(w, "limited_by", c->way[i].wall);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

STK_TEXT_OF(cost_verdict, struct stk_stage_plan, stk_cost_verdict_name(r->cost->verdict))
STK_TEXT_OF(cost_reason, struct stk_stage_plan, r->cost->reason)
STK_TEXT_OF(cost_note, struct stk_stage_plan,
            r->cost->verdict == STK_COST_PAYS && !(r->asked->need_Bps > 0)
                ? "An epoch is what reading alone takes: if the training computes longer than that, "
                  "it saves less."
                : NULL)
STK_NUMBER_OF(saved, struct stk_stage_plan, r->cost->saved_s)
STK_NUMBER_OF(pays_after, struct stk_stage_plan, r->cost->pays_after)
STK_NUMBER_OF(cached, struct stk_stage_plan, r->cost->cached_share)
STK_NUMBER_OF(first_epoch, struct stk_stage_plan, r->cost->first_epoch_s)
STK_NUMBER_OF(source_epoch, struct stk_stage_plan, r->cost->source_epoch_s)
STK_NUMBER_OF(target_epoch, struct stk_stage_plan, r->cost->target_epoch_s)

static const struct stk_result_field cost_fields[] = {
    {"bytes", "data", STK_U_BYTES, .number = bytes},
    {"files", "files", STK_U_COUNT, .number = files, .joins = " in % file(s)"},
    {"nodes", "nodes", STK_U_COUNT, .number = nodes, .flags = STK_F_IF_MANY, .joins = ", % nodes"},
    {"epochs", "epochs", STK_U_COUNT, .number = epochs, .joins = ", % epoch(s)"},
    {"rates", "rates", STK_U_TEXT, STK_FROM(struct stk_stage_plan, rates)},
    {"source_Bps", "the source reads", STK_U_BYTES_PER_S, .number = source_rate,
     .flags = STK_F_PAGE},
    {"source_all_Bps", NULL, STK_U_BYTES_PER_S, .number = source_all_rate,
     .meaning = "of the source, for all nodes together"},
    {"source_file_s", NULL, STK_U_SECONDS, .number = source_file},
    {"write_Bps", "the folder writes", STK_U_BYTES_PER_S, .number = write_rate,
     .flags = STK_F_PAGE},
    {"write_file_s", NULL, STK_U_SECONDS, .number = write_file},
    {"read_Bps", "the folder reads", STK_U_BYTES_PER_S, .number = read_rate, .flags = STK_F_PAGE},
    {"read_file_s", NULL, STK_U_SECONDS, .number = read_file},
    {"fabric_Bps", "between nodes", STK_U_BYTES_PER_S, .number = fabric_rate, .flags = STK_F_PAGE},
    {"training_Bps", "the training reads", STK_U_BYTES_PER_S, .number = need, .flags = STK_F_PAGE},
    {"ways", "ways", STK_U_TABLE, .put = put_ways, .of = way_fields, .plot = &way_plot},
    {"first_epoch_s", "the first epoch, from the source", STK_U_SECONDS, .number = first_epoch,
     .flags = STK_F_KNOWN, .none = "not known"},
    {"source_epoch_s", "other epochs, from the source", STK_U_SECONDS, .number = source_epoch,
     .flags = STK_F_KNOWN, .none = "not known"},
    {"cached_share", "from the page cache", STK_U_SHARE, .number = cached,
     .flags = STK_F_KNOWN | STK_F_IF_SET, .joins = "; % of it from the page cache"},
    {"target_epoch_s", "an epoch from the copy", STK_U_SECONDS, .number = target_epoch,
     .flags = STK_F_KNOWN, .none = "not known"},
    {"saved_s", "saved by a copy", STK_U_SECONDS, .number = saved,
     .flags = STK_F_PAGE | STK_F_LEAD},
    {"pays_after_epochs", "pays after epochs", STK_U_PLAIN, .number = pays_after,
     .flags = STK_F_PAGE},
    {"verdict", NULL, STK_U_TEXT, .put = cost_verdict},
    {"reason", NULL, STK_U_PROSE, .put = cost_reason, .flags = STK_F_SCREEN},
    {"note", NULL, STK_U_PROSE, .put = cost_note},
    {NULL}};

static void put_cost(const void *base, struct stk_jw *w)
{
    const struct stk_stage_plan *p = base;
    if (!p->cost) {
        stk_jw_null(w);
        return;
    }
    stk_jw_open(w, '{');
    stk_fields_put(cost_fields, p, w);
    stk_jw_close(w, '}');
}

/* ---- the plan ------------------------------------------------------------------------------- */

static void put_chosen(const void *base, struct stk_jw *w)
{
    put_target(((const struct stk_stage_plan *)base)->target, w);
}

static void put_targets(const void *base, struct stk_jw *w)
{
    put_all(((const struct stk_stage_plan *)base)->targets, w);
}

/* "copy in $SLURM_TMPDIR (/local/7): xfs on this node, 1.8 TiB free" */
static void draw_target(const struct stk_result_field *f, const struct stk_jval *obj,
                        struct stk_screen *s)
{
    const struct stk_jval *t = stk_json_get(obj, f->key);
    const char *name = stk_pg_text(t, "name", ""), *path = stk_pg_text(t, "path", "");
    bool both = *path && strcmp(name, path) != 0;
    struct stk_buf line = STK_BUF_INIT;
    if (t->type == STK_JOBJ)
        stk_buf_printf(&line, "copy in %s%s%s%s: %s", name, both ? " (" : "", both ? path : "",
                       both ? ")" : "", stk_pg_text(t, "reason", ""));
    else
        stk_buf_puts(&line, "no folder of this node takes the copy: read the source");
    stk_screen_part(s);
    stk_report_wrapped(stk_buf_cstr(&line), 0, s->columns, s->out);
    stk_buf_release(&line);
    const char *warning = stk_pg_text(t, "warning", NULL);
    if (warning) {
        stk_buf_printf(&line, "warning: %s", warning);
        stk_report_wrapped(stk_buf_cstr(&line), 0, s->columns, s->out);
        stk_buf_release(&line);
    }
}

static const struct stk_result_field fields[] = {
    {"source", NULL, STK_U_TEXT, STK_FROM(struct stk_stage_plan, source)},
    {"staged", "staged", STK_U_FLAG, STK_FROM(struct stk_stage_plan, there),
     "a complete copy is there", STK_F_HEAD | STK_F_IF_SET,
     .say = "a complete copy is there already"},
    {"target", "target", STK_U_ANY, .put = put_chosen, .of = target_fields, .draw = draw_target,
     .none = "not known"},
    {TARGETS, .put = put_targets, .of = target_fields,
     .meaning = "Where `stoker stage` may put a copy."},
    {"cost", NULL, STK_U_GROUP, .put = put_cost, .of = cost_fields},
    {NULL}};

static bool is_plan(const struct stk_jval *result)
{
    return stk_json_get(result, "cost") && !stk_json_get(result, "forms") &&
           !stk_json_get(result, "nodes");
}

static void verdict(const struct stk_jval *r, struct stk_buf *out)
{
    stk_buf_puts(out, stk_pg_text(r, "cost.reason",
                                  stk_pg_text(r, "target.reason", "No folder for a copy fits.")));
}

const struct stk_result_kind stk_stage_plan_kind = {.command = "stage",
                                                    .doing = "Plan to stage",
                                                    .fields = fields,
                                                    .takes = is_plan,
                                                    .verdict = verdict,
                                                    .fits = true};
