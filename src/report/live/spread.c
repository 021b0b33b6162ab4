/* spread.c - a dataset on its way to many nodes: a status file of each (stage/spread_status.c). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "report/live/priv.h"
#include "stage/spread.h"

#define NODES_MAX 4096
#define TEXT_MAX  (64u << 10)

static const struct stk_result_field columns[] = {
    {"node", "node", STK_U_TEXT, .flags = STK_F_CUT_END},
    {"phase", "phase", STK_U_TEXT, .flags = STK_F_IF_SET | STK_F_CUT_END},
    {"share", "there", STK_U_SHARE, .flags = STK_F_IF_SET},
    {"there_bytes", "copied", STK_U_BYTES, .flags = STK_F_IF_SET},
    {"copied_Bps", "rate", STK_U_BYTES_PER_S, .flags = STK_F_IF_SET},
    {"read_bytes", "read", STK_U_BYTES, .flags = STK_F_IF_SET},
    {"received_bytes", "received", STK_U_BYTES, .flags = STK_F_IF_SET},
    {"sent_bytes", "sent", STK_U_BYTES, .flags = STK_F_IF_SET},
    {"error", "", STK_U_TEXT, .flags = STK_F_IF_SET | STK_F_CUT_END},
    {"missing_bytes", "missing", STK_U_BYTES, .flags = STK_F_IF_SET},
    {"wanted_bytes", "wanted", STK_U_BYTES, .flags = STK_F_IF_SET},
    {"seconds", "time", STK_U_SECONDS, .flags = STK_F_IF_SET},
    {"slowest", NULL, STK_U_FLAG},
    {NULL}};

static bool counts(const char *name)
{
    return stk_look_is_json(name, "node-");
}

static char *claims(const char *path)
{
    return stk_look_has(path, "node-0000.json") ? strdup(path) : NULL;
}

struct sums {
    double there, wanted, read, seconds, updated_s;
    struct stk_alive who;   /* of a node that speaks for the state of all */
    enum stk_life life;     /* of it */
    size_t nodes, over, bad; /* over: done or failed */
    size_t slowest;
    double most_missing;
};

/* A node that runs speaks for all, else one of which nothing is known. */
static void choose(struct sums *s, const struct stk_alive *who, enum stk_life life)
{
    bool better = !s->who.pid || (s->life == STK_LIFE_GONE && life != STK_LIFE_GONE) ||
                  (s->life == STK_LIFE_UNKNOWN && life == STK_LIFE_RUNS);
    if (better) {
        s->who = *who;
        s->life = life;
    }
}

static double or_zero(double v)
{
    return v > 0 ? v : 0;
}

static void fill_row(struct stk_look *l, size_t row, const struct stk_jval *o, struct sums *s)
{
    struct stk_alive who = {0};
    for (size_t i = 0; columns[i].unit != STK_U_FLAG; i++) {
        struct stk_look_cell *c = stk_look_cell(l, row, columns[i].key);
        if (columns[i].unit == STK_U_TEXT)
            c->text = stk_look_keep(l, stk_beacon_text(o, columns[i].key));
        else
            c->value = stk_beacon_f64(o, columns[i].key);
    }
    double wanted = or_zero(stk_look_cell(l, row, "wanted_bytes")->value);
    double there = or_zero(stk_look_cell(l, row, "there_bytes")->value);
    double missing = fmax(wanted - there, 0);
    struct stk_look_cell *phase = stk_look_cell(l, row, "phase");
    stk_look_cell(l, row, "share")->value = wanted > 0 ? there / wanted : NAN;
    stk_look_cell(l, row, "missing_bytes")->value = missing;
    stk_alive_get(o, &who);
    bool over = stk_spread_phase_of(phase->text) >= STK_SPREAD_DONE;
    enum stk_life life = over ? STK_LIFE_UNKNOWN : stk_alive_check(&who);
    s->over += over;
    s->bad += *stk_look_cell(l, row, "error")->text != '\0';
    if (!over)
        choose(s, &who, life);
    if (life == STK_LIFE_GONE)
        phase->text = "died";
    if (missing > s->most_missing) {
        s->most_missing = missing;
        s->slowest = row;
    }
    s->there += there;
    s->wanted += wanted;
    s->read += or_zero(stk_look_cell(l, row, "read_bytes")->value);
    s->seconds = fmax(s->seconds, or_zero(stk_look_cell(l, row, "seconds")->value));
    s->updated_s = fmax(s->updated_s, or_zero(stk_beacon_f64(o, "updated")));
    s->nodes++;
}

/* False: it has just been removed, or is damaged, which is said. */
static bool read_file(struct stk_look *l, int dirfd, const char *name, const char *path,
                      struct stk_arena *arena, struct stk_jval **o)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_err why = {0};
    int rc = stk_read_file_at(dirfd, name, O_NOFOLLOW, TEXT_MAX, &b, path, &why);
    char *text = rc ? NULL : stk_arena_dup(arena, b.data, b.len);
    bool good = text && stk_json_parse(arena, text, b.len, o, &why) == 0 && (*o)->type == STK_JOBJ;
    if (!good && !(why.code == STK_E_SYS && why.sys_errno == ENOENT))
        stk_look_note(l, stk_look_printf(l, "%s is not a status file of stoker: ignored", name));
    stk_buf_release(&b);
    return good;
}

static void put_figures(struct stk_look *l, const struct sums *s)
{
    struct stk_look_figure *f = stk_look_add(l, "there_bytes", s->there);
    f->of = s->wanted;
    f->counts = f->progress = true;
    stk_look_add(l, "read_bytes", s->read)->counts = true;
    stk_look_add(l, "nodes_done", (double)s->over);
    stk_look_add(l, "nodes_total", (double)s->nodes);
    if (s->nodes > 1 && s->most_missing > 0) {
        l->table.slowest = s->slowest;
        stk_look_say(l, "slowest",
                     stk_look_printf(l, "node %s: %.1f %% there",
                                     stk_look_cell(l, s->slowest, "node")->text,
                                     100 * stk_look_cell(l, s->slowest, "share")->value));
    }
}

static void judge(struct stk_look *l, const struct sums *s)
{
    double started = s->updated_s > s->seconds ? s->updated_s - s->seconds : 0;
    stk_look_judge(l, &s->who, s->over == s->nodes, started, s->updated_s);
    if (s->over == s->nodes && s->bad)
        l->why = stk_look_printf(l, "%zu of %zu nodes have no complete copy", s->bad, s->nodes);
}

static int read_spread(struct stk_look *l, int dirfd, const char *path, struct stk_err *err)
{
    const char **name;
    size_t n;
    struct stk_arena arena = STK_ARENA_INIT;
    struct sums s = {0};
    int rc = stk_look_names(l, dirfd, path, counts, NODES_MAX, &name, &n, err);
    rc = rc ? rc : stk_look_rows(l, "nodes", columns, n, err);
    for (size_t i = 0; i < n && !rc; i++) {
        struct stk_jval *o;
        stk_arena_reset(&arena);
        if (read_file(l, dirfd, name[i], path, &arena, &o))
            fill_row(l, s.nodes, o, &s);
    }
    stk_arena_release(&arena);
    if (rc)
        return rc;
    l->table.nrows = s.nodes;
    l->absent = s.nodes == 0;
    l->title = stk_look_printf(l, "to %zu node%s, %s", s.nodes, s.nodes == 1 ? "" : "s",
                               stk_base_name(path));
    judge(l, &s);
    put_figures(l, &s);
    return 0;
}

/* ---- as a result ---------------------------------------------------------------------------- */

static const struct stk_result_field fields[] = {
    STK_LOOK_FIRST,
    STK_LOOK_OF("there_bytes", "copied", STK_U_BYTES),
    STK_LOOK_RATE("there_bytes", STK_U_BYTES_PER_S),
    STK_LOOK_BAR("there_bytes"),
    {"read_bytes", "read", STK_U_BYTES, .say = "% from the source"},
    STK_LOOK_RATE("read_bytes", STK_U_BYTES_PER_S),
    {"nodes_done", "nodes", STK_U_COUNT},
    {"nodes_total", "nodes in all", STK_U_COUNT, .joins = " of % done"},
    {"slowest", "slowest", STK_U_TEXT},
    {"nodes", "nodes", STK_U_TABLE, .of = columns, .by = "missing_bytes", .marked = "slowest",
     .flags = STK_F_CUT},
    {NULL}};

STK_LOOK_RESULT(stk_look_spread, "stage", "nodes_total");
const struct stk_look_kind stk_look_spread = {
    .name = "stage", .claims = claims, .counts = counts, .read = read_spread, .fields = fields,
    .grows = {{"copied_Bps", "there_bytes"}}};
