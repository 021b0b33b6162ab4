/*
 * choose.c - where a copy goes. A copy that was begun is completed where it is; a place that the
 * user names is taken if it can be written to.
 */
#include "stage/choose.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/units.h"

#define ANSWER_S      10.0            /* for a file system */
#define REQUEST_BYTES STK_TIER_PARCEL /* loaders and copiers read about that much at once */

static bool exists(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0;
}

/* ---- a copy that was begun ---- */

/* Whether the tier has a set of this source. */
static void look_into(const struct stk_choose_options *c, const struct stk_source *src,
                      const char *path, struct stk_chosen *out)
{
    struct stk_tier *tier = NULL;
    struct stk_tier_set *set = NULL;
    struct stk_tier_state state = {0};
    out->begun = out->there = false;
    if (!exists(path) || stk_tier_open(path, &(struct stk_tier_options){0}, &tier, NULL) < 0)
        return;
    uint64_t identity = c->form ? stk_stage_pack_identity(src, c->form) : src->identity;
    out->begun = stk_tier_set_find(tier, identity, &set, NULL) == 1;
    out->there = out->begun && stk_tier_state(set, &state, NULL) == 0 && state.published;
    stk_tier_set_close(set);
    stk_tier_close(tier);
}

/* A folder that lacks only the room that the begun copy takes. */
static bool may_go_on(const struct stk_target *t)
{
    return t->verdict == STK_TARGET_FITS || t->verdict == STK_TARGET_SMALL ||
           t->verdict == STK_TARGET_MEMORY;
}

static struct stk_target *find_begun(const struct stk_choose_options *c,
                                     const struct stk_source *src, struct stk_chosen *out)
{
    struct stk_targets *all = out->targets;
    for (size_t i = 0; i < all->n && !out->begun; i++) {
        char *tier = may_go_on(&all->target[i]) ? stk_scratch_tier(all->target[i].path) : NULL;
        if (tier)
            look_into(c, src, tier, out);
        free(tier);
        if (out->begun) {
            all->best = i;
            return &all->target[i];
        }
    }
    return NULL;
}

/* ---- named by the user ---- */

char *stk_tier_named(const char *dst)
{
    char *here = dst[0] == '/' ? NULL : getcwd(NULL, 0);
    char *full = here ? stk_path_join(here, dst) : strdup(dst);
    char *tier = full ? stk_tier_at(full) : NULL;
    free(here);
    free(full);
    return tier;
}

static bool answers(const char *path)
{
    struct stk_fs_look look = {.limit_s = ANSWER_S, .nearest = true, .no_purge = true};
    static struct stk_fs_facts facts;
    return stk_fs_facts(path, &look, &facts) != ETIMEDOUT;
}

/* The verdict on size is the tier's: it may hold a part already, or make room. */
static int take_named(const struct stk_choose_options *c, const struct stk_source *src,
                      struct stk_chosen *out, struct stk_err *err)
{
    out->named = true;
    if (!answers(c->dst))
        return stk_err_set(err, STK_E_UNSUPPORTED, c->dst, -1, "its file system does not answer");
    out->tier = stk_tier_named(c->dst);
    out->target = calloc(1, sizeof *out->target);
    if (!out->tier || !out->target)
        return stk_err_nomem(err, strlen(c->dst));
    out->taken = stk_scratch_taken(out->tier);
    look_into(c, src, out->tier, out);
    /* A begun copy takes writes; a disk that is flushing would keep us waiting. */
    struct stk_target_wish wish = {.stop = c->stop, .no_probe = out->begun};
    int rc = stk_target_judge(out->tier, &wish, out->target, err);
    if (rc == 0 && !out->begun && out->target->verdict == STK_TARGET_STALLED)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, c->dst, -1, "%s", out->target->reason);
    return rc;
}

/* ---- a folder of the node ---- */

static int no_place(const struct stk_targets *all, uint64_t bytes, struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    char size[32];
    for (size_t i = 0; i < all->n; i++) {
        const struct stk_target *t = &all->target[i];
        if (t->verdict != STK_TARGET_UNSET && t->verdict != STK_TARGET_ABSENT &&
            t->verdict != STK_TARGET_SAME)
            stk_buf_printf(&text, "%s%s: %s", text.len ? "; " : "", t->name, t->reason);
    }
    int rc = stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                         "no folder on this node takes a copy of %s (%s); name one as DST, or in "
                         "STOKER_SCRATCH",
                         stk_format_size(bytes, size, sizeof size), stk_buf_cstr(&text));
    stk_buf_release(&text);
    return rc;
}

static int take_best(const struct stk_choose_options *c, const struct stk_source *src,
                     struct stk_chosen *out, struct stk_err *err)
{
    struct stk_target_wish wish = {.bytes = c->bytes, .files = src->count, .stop = c->stop};
    out->targets = calloc(1, sizeof *out->targets);
    if (!out->targets)
        return stk_err_nomem(err, sizeof *out->targets);
    int rc = stk_targets_find(&wish, out->targets, err);
    if (rc)
        return rc;
    struct stk_targets *all = out->targets;
    out->target = find_begun(c, src, out);
    if (!out->target && all->best < all->n)
        out->target = &all->target[all->best];
    if (!out->target)
        return no_place(all, c->bytes, err);
    stk_buf_printf(&out->why, "%s: %s", out->target->name,
                   out->begun ? "the copy was begun there" : out->target->reason);
    out->tier = stk_scratch_tier(out->target->path);
    if (!out->tier)
        return stk_err_nomem(err, strlen(out->target->path));
    out->taken = stk_scratch_taken(out->tier);
    return 0;
}

int stk_choose_tier(const struct stk_choose_options *c, const struct stk_source *src,
                    struct stk_chosen *out, struct stk_err *err)
{
    *out = (struct stk_chosen){.file_bytes = src->count ? src->bytes / src->count : 0};
    return c->dst ? take_named(c, src, out, err) : take_best(c, src, out, err);
}

void stk_chosen_release(struct stk_chosen *c)
{
    if (!c->targets)
        free(c->target);
    free(c->targets);
    free(c->tier);
    stk_buf_release(&c->why);
    *c = (struct stk_chosen){0};
}

void stk_chosen_stripe(struct stk_chosen *c, const char *path, uint64_t file_bytes)
{
    char what[64];
    /* Only Lustre has stripes, and the folder was looked at when it was judged. */
    if (c->target && !c->target->facts.error && !c->target->facts.stripes)
        return;
    stk_target_stripe(path, file_bytes ? file_bytes : c->file_bytes, REQUEST_BYTES, what,
                      sizeof what);
    if (what[0])
        stk_buf_printf(&c->why, "%s%s", c->why.len ? "; " : "", what);
}

/* ---- tiers without a source ---- */

int stk_tiers_each(const char *dst, int (*see)(void *user, const char *path), void *user)
{
    struct stk_scratch list[STK_SCRATCHES];
    int rc = 0;
    if (dst) {
        char *tier = stk_tier_named(dst);
        rc = tier ? see(user, tier) : STK_E_NOMEM;
        free(tier);
        return rc;
    }
    size_t n = stk_scratch_list(list);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        char *tier = list[i].path ? stk_scratch_tier(list[i].path) : NULL;
        bool again = false;
        for (size_t k = 0; k < i && tier; k++)
            again = again || (list[k].path && strcmp(list[k].path, list[i].path) == 0);
        if (tier && !again && exists(tier))
            rc = see(user, tier);
        free(tier);
    }
    return rc;
}

/* ---- a folder in the source ---- */

/* The real path of the nearest folder above that exists; NULL: there is none. malloc'ed. */
static char *nearest(const char *path)
{
    char *at = strdup(path), *real = NULL, *slash = at;
    while (at && slash && !(real = realpath(at[0] ? at : "/", NULL)))
        if ((slash = strrchr(at, '/')))
            *slash = '\0';
    free(at);
    return real;
}

bool stk_path_is_inside(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    char *real = nearest(path);
    n -= n && folder[n - 1] == '/';
    bool inside = real && strncmp(real, folder, n) == 0 && (!real[n] || real[n] == '/');
    free(real);
    return inside;
}
