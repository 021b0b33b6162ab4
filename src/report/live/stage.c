/* stage.c - copies that are being brought to this node: the ledgers of a tier (tier/tier.h). */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "report/live/priv.h"
#include "tier/tier.h"

#define SETS_MAX 1024

static const struct stk_result_field columns[] = {
    {"set", "set", STK_U_TEXT, .flags = STK_F_CUT_END},
    {"state", "state", STK_U_TEXT, .flags = STK_F_IF_SET | STK_F_CUT_END},
    {"share", "there", STK_U_SHARE, .flags = STK_F_IF_SET},
    {"there_bytes", "copied", STK_U_BYTES, .flags = STK_F_IF_SET},
    {"bytes", "of", STK_U_BYTES, .flags = STK_F_IF_SET},
    {"copied_Bps", "rate", STK_U_BYTES_PER_S, .flags = STK_F_IF_SET},
    {"files", "files", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"source", "source", STK_U_TEXT, .flags = STK_F_IF_SET | STK_F_CUT_END},
    {"used_s", "used", STK_U_SECONDS, .flags = STK_F_IF_SET},
    {NULL}};

static bool counts(const char *name)
{
    return strcmp(name, "tier.json") == 0;
}

static char *claims(const char *path)
{
    char *tier = stk_tier_at(path);
    if (tier && stk_look_has(tier, "tier.json"))
        return tier;
    free(tier);
    return NULL;
}

/* The sets of the tier, gathered before the table is made. */
struct sets {
    struct stk_look *l;
    struct {
        const char *name, *source;
        struct stk_tier_info info; /* its texts are not valid any more */
        double since_s;            /* its filler began; 0: unknown */
    } set[SETS_MAX];
    size_t n, filling;
    int64_t newest_ns;
    size_t newest;
};

static double lease_time(const char *lease)
{
    struct stk_arena a = STK_ARENA_INIT;
    struct stk_jval *o;
    double since = 0;
    if (lease && stk_json_parse(&a, lease, strlen(lease), &o, NULL) == 0 && o->type == STK_JOBJ)
        since = (double)stk_beacon_u64(o, "since_s");
    stk_arena_release(&a);
    return since;
}

static int see(void *user, const struct stk_tier_info *info)
{
    struct sets *s = user;
    if (s->n == SETS_MAX)
        return 0;
    s->set[s->n].info = *info;
    s->set[s->n].name = stk_look_keep(s->l, info->name);
    s->set[s->n].source = stk_look_keep(s->l, info->source);
    s->set[s->n].since_s = lease_time(info->lease);
    s->filling += info->filling;
    if (info->used_ns >= s->newest_ns) {
        s->newest_ns = info->used_ns;
        s->newest = s->n;
    }
    s->n++;
    return 0;
}

static const char *state_of(const struct stk_tier_info *i)
{
    return i->published ? "complete" : i->filling ? "filling" : "incomplete";
}

static void fill_row(struct stk_look *l, size_t row, const struct sets *s)
{
    const struct stk_tier_info *i = &s->set[row].info;
    stk_look_cell(l, row, "set")->text = s->set[row].name;
    stk_look_cell(l, row, "state")->text = state_of(i);
    stk_look_cell(l, row, "share")->value =
        i->bytes ? (double)i->bytes_there / (double)i->bytes : i->published;
    stk_look_cell(l, row, "there_bytes")->value = (double)i->bytes_there;
    stk_look_cell(l, row, "bytes")->value = (double)i->bytes;
    stk_look_cell(l, row, "files")->value = (double)i->files;
    stk_look_cell(l, row, "source")->text = s->set[row].source;
    stk_look_cell(l, row, "used_s")->value =
        i->used_ns > 0 ? fmax(stk_look_real_now() - 1e-9 * (double)i->used_ns, 0) : NAN;
}

/* Of the sets that are being filled; without any, of all. */
static void put_figures(struct stk_look *l, const struct sets *s)
{
    double there = 0, bytes = 0, since = 0;
    size_t shown = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct stk_tier_info *info = &s->set[i].info;
        if (s->filling && !info->filling)
            continue;
        there += (double)info->bytes_there;
        bytes += (double)info->bytes;
        since = since > 0 && since < s->set[i].since_s ? since : s->set[i].since_s;
        shown++;
    }
    struct stk_look_figure *f = stk_look_add(l, "there_bytes", there);
    f->of = bytes;
    f->counts = f->progress = true;
    stk_look_add(l, "filling", (double)s->filling);
    if (s->filling && since > 0)
        l->elapsed_s = fmax(stk_look_real_now() - since, 0);
}

/* The kernel ends a filler's locks with its process: nothing needs to be guessed. */
static void judge(struct stk_look *l, const struct sets *s)
{
    const struct stk_tier_info *last = &s->set[s->newest].info;
    l->state = s->filling          ? STK_LOOK_RUNS
               : last->published ? STK_LOOK_ENDED
                                 : STK_LOOK_DIED;
    if (l->state == STK_LOOK_DIED)
        l->why = stk_look_printf(l,
                                 "%s is incomplete, and no process copies it: the same `stoker "
                                 "stage` resumes",
                                 s->set[s->newest].name);
}

static int fill(struct stk_look *l, const struct sets *s, const char *path, struct stk_err *err)
{
    l->title = stk_look_printf(l, "to %s", path);
    l->absent = s->n == 0;
    if (l->absent)
        return 0;
    judge(l, s);
    put_figures(l, s);
    int rc = stk_look_rows(l, "sets", columns, s->n, err);
    for (size_t i = 0; i < s->n && !rc; i++)
        fill_row(l, i, s);
    return rc;
}

static int read_tier(struct stk_look *l, int dirfd, const char *path, struct stk_err *err)
{
    struct stk_tier *tier = NULL;
    struct stk_tier_options o = {0};
    struct sets *s = calloc(1, sizeof *s);
    (void)dirfd;
    int rc = s ? stk_tier_open(path, &o, &tier, err) : stk_err_nomem(err, sizeof *s);
    if (!rc) {
        s->l = l;
        rc = stk_tier_list(tier, see, s, err);
        rc = rc ? rc : fill(l, s, path, err);
        stk_tier_close(tier);
    }
    free(s);
    return rc;
}

/* ---- as a result ---------------------------------------------------------------------------- */

static const struct stk_result_field fields[] = {
    STK_LOOK_FIRST,
    STK_LOOK_OF("there_bytes", "copied", STK_U_BYTES),
    STK_LOOK_RATE("there_bytes", STK_U_BYTES_PER_S),
    STK_LOOK_BAR("there_bytes"),
    {"filling", "filling", STK_U_COUNT, .say = "% set(s)"},
    {"sets", "sets", STK_U_TABLE, .of = columns, .by = "there_bytes",
     .flags = STK_F_CUT},
    {NULL}};

STK_LOOK_RESULT(stk_look_stage, "stage", "sets");
const struct stk_look_kind stk_look_stage = {
    .name = "stage", .claims = claims, .counts = counts, .read = read_tier, .fields = fields,
    .grows = {{"copied_Bps", "there_bytes"}}};
