/*
 * profile.c - a folder of a profile on a page: its result is drawn, and kept for the comparison
 * with others.
 */
#include <stdlib.h>
#include <string.h>

#include "advice/advice.h"
#include "record/folder.h"
#include "record/launch.h"
#include "report/compare.h"
#include "report/html/priv.h"
#include "report/profile.h"
#include "report/report_priv.h"
#include "result/page.h"

#define PROFILES_MAX 64

struct stk_pg_profiles {
    size_t n;
    struct stk_judged *judged[PROFILES_MAX];
    char *name[PROFILES_MAX];
};

void stk_pg_profiles_free(struct stk_pg_profiles *s)
{
    for (size_t i = 0; s && i < s->n; i++) {
        stk_judged_release(s->judged[i]);
        free(s->judged[i]);
        free(s->name[i]);
    }
    free(s);
}

/* The command without the folder of its program. */
static const char *title_of(const char *command)
{
    size_t n = strcspn(command, " ");
    while (n && command[n - 1] != '/')
        n--;
    return command + n;
}

static int put_profile(struct stk_jw *w, const struct stk_report *r, const char *name,
                       struct stk_err *err)
{
    const char *command = r->a->p->command;
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *result;
    int rc = stk_profile_fill(&stk_profile_kind, r, 0, &arena, &result, err);
    if (!rc)
        stk_page_draw(&stk_profile_kind, name, command && *command ? title_of(command) : name,
                      result, w);
    stk_arena_release(&arena);
    return rc;
}

/* ---- adding it ----------------------------------------------------------------------------- */

static int keep(struct stk_page *page, struct stk_judged *j, const char *name, struct stk_err *err)
{
    struct stk_pg_profiles *all = page->profiles;
    if (!all)
        all = page->profiles = calloc(1, sizeof *all);
    if (!all)
        return stk_err_nomem(err, sizeof *all);
    if (all->n == PROFILES_MAX)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "a page shows at most %d profiles",
                           PROFILES_MAX);
    char *copy = strdup(name);
    if (!copy)
        return stk_err_nomem(err, strlen(name));
    all->judged[all->n] = j;
    all->name[all->n++] = copy;
    return 0;
}

static int add_profile(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err)
{
    int rc = stk_folder_believe(in->path, stk_launch_is_ours, in->trust, err);
    struct stk_judged *j = rc ? NULL : malloc(sizeof *j);
    if (!rc && !j)
        rc = stk_err_nomem(err, sizeof *j);
    rc = rc ? rc : stk_judge(in->path, j, err);
    if (rc) {
        free(j);
        return rc;
    }
    rc = keep(page, j, in->name, err);
    if (rc) {
        stk_judged_release(j);
        free(j);
        return rc;
    }
    const struct stk_report r = {.a = &j->analysis, .advice = &j->advice, .columns = 80};
    page->live = page->live || j->profile.running;
    return put_profile(&page->w, &r, in->name, err);
}

/* Adds a section if the page has several profiles. */
static int compare(struct stk_page *page, struct stk_err *err)
{
    const struct stk_pg_profiles *all = page->profiles;
    struct stk_compared_profile profile[PROFILES_MAX];
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *result;
    if (!all || all->n < 2)
        return 0;
    for (size_t i = 0; i < all->n; i++)
        profile[i] = (struct stk_compared_profile){all->name[i], &all->judged[i]->analysis,
                                                   &all->judged[i]->advice, true};
    const struct stk_compared_profiles compared = {profile, all->n};
    int rc = stk_result_fill(&stk_profiles_kind, &compared, &arena, &result, err);
    if (!rc)
        stk_page_draw(&stk_profiles_kind, "profiles side by side", "", result, &page->w);
    stk_arena_release(&arena);
    return rc;
}

/* Anything that is not JSON: what it lacks, the reader of profiles says best. */
static bool claims(const struct stk_pg_input *in)
{
    return !in->root;
}

const struct stk_pg_kind stk_pg_profile = {
    .name = "profile", .claims = claims, .add = add_profile, .finish = compare};
