/* profile_compare.c - the profiles of a page, kept until all are there, and compared. */
#include <stdlib.h>

#include "report/compare.h"
#include "report/html/profile.h"
#include "result/page.h"

void stk_pg_profiles_free(struct stk_pg_profiles *s)
{
    for (size_t i = 0; s && i < s->n; i++) {
        stk_judged_release(s->judged[i]);
        free(s->judged[i]);
        free(s->name[i]);
    }
    free(s);
}

struct stk_report stk_pg_report_of(const struct stk_judged *j)
{
    return (struct stk_report){.a = &j->analysis, .advice = &j->advice, .columns = 80};
}

double stk_pg_known(double v)
{
    return v >= 0 ? v : NAN;
}

int stk_pg_profiles_compare(struct stk_page *page, struct stk_err *err)
{
    const struct stk_pg_profiles *all = page->profiles;
    struct stk_compared_profile profile[STK_PG_PROFILES_MAX];
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
