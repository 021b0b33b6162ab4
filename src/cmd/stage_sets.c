/* stage_sets.c - the copies that a node has: `stage --list`, `--evict` and `--verify`. */
#include "cmd/stage.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/num.h"
#include "result/grid.h"

/* Goes through the sets of all tiers. */
struct tour {
    struct stk_run *run;
    const char *src; /* NULL: all sources */
    char *real;      /* the same without links, or NULL */
    const char *tier;
    struct stk_grid *grid;
    char (*id)[STK_TIER_ID]; /* those of the current tier */
    size_t n;
    uint64_t seen, bytes;
    int status; /* the worst exit status */
};

static bool is_wanted(const struct tour *t, const struct stk_tier_info *i)
{
    return !t->src || strcmp(i->source, t->src) == 0 || strcmp(i->id, t->src) == 0 ||
           (t->real && strcmp(i->source, t->real) == 0);
}

static int visit(struct tour *t, const char *path,
                 int (*see)(void *user, const struct stk_tier_info *info), bool make,
                 struct stk_tier **tier)
{
    struct stk_tier_options o = stk_stage_tier_options(t->run);
    o.make = make;
    int rc = stk_tier_open(path, &o, tier, &t->run->err);
    t->tier = path;
    t->n = 0;
    return rc ? rc : stk_tier_list(*tier, see, t, &t->run->err);
}

static void tour_begin(struct tour *t, struct stk_run *run, const char *src)
{
    *t = (struct tour){.run = run, .src = src, .real = src ? realpath(src, NULL) : NULL};
}

static void tour_end(struct tour *t)
{
    free(t->real);
    free(t->id);
}

/* ---- --list ---- */

static int show_set(void *user, const struct stk_tier_info *info)
{
    struct tour *t = user;
    if (!is_wanted(t, info))
        return 0;
    t->seen++;
    stk_stage_list_row(info, t->grid);
    stk_stage_list_json(t->tier, info, &t->run->json);
    return 0;
}

static int list_tier(void *user, const char *path)
{
    struct tour *t = user;
    struct stk_tier *tier = NULL;
    struct stk_grid grid;
    struct stk_buf out = STK_BUF_INIT;
    uint64_t before = t->seen;
    stk_grid_init(&grid, "lrrlrl");
    stk_grid_row(&grid, "set", "size", "files", "state", "last use", "source");
    t->grid = &grid;
    int rc = visit(t, path, show_set, false, &tier);
    stk_buf_printf(&out, "%s\n", path);
    if (rc == 0 && t->seen > before)
        stk_grid_render(&grid, 2, &out);
    else
        stk_buf_puts(&out, "  no copies\n");
    stk_grid_release(&grid);
    stk_tier_close(tier);
    if (rc == 0)
        return stk_say_text(t->run, &out);
    stk_buf_release(&out);
    return rc;
}

static int list_sets(struct stk_run *run, const char *src, const char *dst)
{
    struct tour t;
    if (!dst)
        stk_stage_tidy(run);
    tour_begin(&t, run, src);
    stk_jw_key(&run->json, "sets");
    stk_jw_open(&run->json, '[');
    int rc = stk_tiers_each(dst, list_tier, &t);
    stk_jw_close(&run->json, ']');
    if (rc == 0 && !t.seen)
        stk_say(run, "no copies on this node\n");
    tour_end(&t);
    return rc;
}

/* ---- --evict and --verify ---- */

static int note_set(void *user, const struct stk_tier_info *info)
{
    struct tour *t = user;
    if (!is_wanted(t, info))
        return 0;
    if (STK_ARRAY_MORE(t->id, t->n, &t->run->err))
        return STK_E_NOMEM;
    snprintf(t->id[t->n++], STK_TIER_ID, "%s", info->id);
    t->seen++;
    t->bytes += info->bytes_there;
    return 0;
}

static void worse(struct tour *t, int status)
{
    t->status = status > t->status ? status : t->status;
}

/* One that is in use stays, and the others go. */
static int evict_in(void *user, const char *path)
{
    struct tour *t = user;
    struct stk_tier *tier = NULL;
    int rc = visit(t, path, note_set, true, &tier);
    for (size_t i = 0; rc == 0 && i < t->n; i++) {
        struct stk_err err = {0};
        char text[2200];
        stk_jw_open(&t->run->json, '{');
        stk_jw_put_str(&t->run->json, "tier", path);
        stk_jw_put_str(&t->run->json, "set", t->id[i]);
        struct stk_left left = {0};
        bool gone = stk_tier_evict(tier, t->id[i], false, &left, &err) == 0;
        stk_jw_put_bool(&t->run->json, "evicted", gone);
        stk_jw_close(&t->run->json, '}');
        if (gone)
            stk_say(t->run, "removed %s from %s\n", t->id[i], path);
        else
            stk_complain("stage", stk_err_text(&err, text, sizeof text));
        if (gone && left.n)
            stk_stage_say_left(t->run, path, left.first);
        worse(t, gone ? STK_EXIT_DONE : STK_EXIT_PARTLY);
    }
    stk_tier_close(tier);
    return rc;
}

static int nothing_there(struct stk_run *run, const char *src)
{
    return stk_err_set(&run->err, STK_E_USAGE, src, -1,
                       "there is no copy of it; `stoker stage --list` lists the copies");
}

static int evict_sets(struct stk_run *run, const char *src, const char *dst)
{
    struct tour t;
    tour_begin(&t, run, src);
    stk_jw_key(&run->json, "sets");
    stk_jw_open(&run->json, '[');
    int rc = stk_tiers_each(dst, evict_in, &t);
    stk_jw_close(&run->json, ']');
    if (rc == 0 && !t.seen && src)
        rc = nothing_there(run, src);
    else if (rc == 0 && !t.seen)
        stk_say(run, "no copies on this node\n");
    rc = rc ? rc : t.status;
    tour_end(&t);
    return rc;
}

static int check_set(struct tour *t, struct stk_tier *tier, const char *id)
{
    struct stk_stage_job job = {.run = t->run};
    struct stk_stage_options o = {.progress = stk_stage_on_progress, .user = &job};
    struct stk_stage_check c;
    struct stk_tier_set *set = NULL;
    struct stk_buf out = STK_BUF_INIT;
    int rc = stk_tier_set_join(tier, id, &set, &t->run->err);
    if (rc <= 0)
        return rc;
    rc = stk_stage_verify(set, &o, &c, &t->run->err);
    stk_progress_clear(&t->run->progress);
    if (rc == 0) {
        const char *source = stk_tier_set_source(set)->path;
        stk_stage_check_text(&c, source, &out);
        stk_stage_check_json(&c, source, &t->run->json);
        worse(t, c.bad ? STK_EXIT_PROBLEM : STK_EXIT_DONE);
        rc = stk_say_text(t->run, &out);
    }
    stk_tier_set_close(set);
    return rc;
}

static int verify_in(void *user, const char *path)
{
    struct tour *t = user;
    struct stk_tier *tier = NULL;
    int rc = visit(t, path, note_set, true, &tier);
    for (size_t i = 0; rc == 0 && i < t->n; i++)
        rc = check_set(t, tier, t->id[i]);
    stk_tier_close(tier);
    return rc;
}

static int check_copy(struct stk_run *run, const char *src, const char *dst)
{
    struct tour t;
    tour_begin(&t, run, src);
    stk_jw_key(&run->json, "sets");
    stk_jw_open(&run->json, '[');
    int rc = stk_tiers_each(dst, verify_in, &t);
    stk_jw_close(&run->json, ']');
    if (rc == 0 && !t.seen)
        rc = nothing_there(run, src);
    rc = rc ? rc : t.status;
    tour_end(&t);
    return rc;
}

/* ---- which ---- */

/* `stage --list DST` is what one writes: a folder that is or has a tier is no source. */
static void sort_args(const struct stk_run *run, const char **src, const char **dst)
{
    *src = run->opts.nargs > 0 ? run->opts.arg[0] : NULL;
    *dst = run->opts.nargs > 1 ? run->opts.arg[1] : NULL;
    char *tier = *src && !*dst ? stk_tier_named(*src) : NULL;
    char *mark = tier ? stk_path_join(tier, "tier.json") : NULL;
    if (mark && stk_may_exist(AT_FDCWD, mark)) {
        *dst = *src;
        *src = NULL;
    }
    free(mark);
    free(tier);
}

int stk_stage_on_sets(struct stk_run *run)
{
    const struct stk_stage_settings *s = run->settings;
    const char *src, *dst;
    sort_args(run, &src, &dst);
    return s->list    ? list_sets(run, src, dst)
           : s->evict ? evict_sets(run, src, dst)
                      : check_copy(run, src, dst);
}
