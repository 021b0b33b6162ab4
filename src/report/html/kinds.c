/*
 * kinds.c - the table of kinds, and the way from named files to the data of a page: each input is
 * given to the kind whose command wrote it, or that claims it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "report/html/priv.h"
#include "report/results.h"
#include "result/page.h"

#define SCHEMA 1 /* of the page's data (web/src/main.js) */

extern const struct stk_pg_kind stk_pg_profile, stk_pg_study;
/* The last kind takes what no other does, and says what is wrong with it. */
const struct stk_pg_kind *const stk_pg_kinds[] = {&stk_pg_study, &stk_pg_profile, NULL};

/* Results that were drawn, and are compared at the end. */
struct kept {
    struct stk_result_file file;
    char *name;
};

/* ---- one input ----------------------------------------------------------------------------- */

static int refuse_command(const struct stk_pg_input *in, struct stk_err *err)
{
    struct stk_buf known = STK_BUF_INIT;
    for (size_t i = 0; stk_pg_kinds[i]; i++)
        if (stk_pg_kinds[i]->command)
            stk_buf_printf(&known, "%s%s", known.len ? ", " : "", stk_pg_kinds[i]->command);
    for (size_t i = 0; stk_result_kinds[i]; i++)
        if (!stk_result_kinds[i]->takes)
            stk_buf_printf(&known, "%s%s", known.len ? ", " : "", stk_result_kinds[i]->command);
    int rc = stk_err_set(err, STK_E_UNSUPPORTED, in->path, -1,
                         "a result of `stoker %.40s`; a page shows profiles, studies, and results "
                         "of %s",
                         in->command, stk_buf_cstr(&known));
    stk_buf_release(&known);
    return rc;
}

/* What report, advise and profile write with --json are numbers of a profile, which the page takes
 * from the profile itself. NULL: of no profile. */
static const char *profile_of(const struct stk_pg_input *in)
{
    if (strcmp(in->command, "report") == 0 || strcmp(in->command, "advise") == 0)
        return stk_pg_argument(in, 0, "its folder");
    if (strcmp(in->command, "profile") == 0)
        return stk_pg_text(in->result, "profile", "its folder");
    return NULL;
}

static int refuse_profile(const struct stk_pg_input *in, const char *profile, struct stk_err *err)
{
    return stk_err_set(err, STK_E_UNSUPPORTED, in->path, -1,
                       "numbers of a profile, written by `stoker %.40s --json`; a page is made of "
                       "the profile itself: name %.300s instead",
                       in->command, profile);
}

static int find_kind(const struct stk_pg_input *in, const struct stk_pg_kind **kind,
                     struct stk_err *err)
{
    for (size_t i = 0; stk_pg_kinds[i]; i++) {
        const struct stk_pg_kind *k = stk_pg_kinds[i];
        bool wrote = in->command && k->command && strcmp(in->command, k->command) == 0;
        if (wrote || (!in->command && k->claims && k->claims(in))) {
            *kind = k;
            return 0;
        }
    }
    if (in->command && profile_of(in))
        return refuse_profile(in, profile_of(in), err);
    if (in->command)
        return refuse_command(in, err);
    return stk_err_set(err, STK_E_UNSUPPORTED, in->path, -1,
                       "neither a profile, a study nor a result that --json of stoker wrote");
}

static int add_input(struct stk_page *page, const char *path, const char *name, const char *trust,
                     struct kept *kept, struct stk_err *err)
{
    struct stk_pg_input in = {.path = path, .name = name, .trust = trust};
    struct stk_result_file *file = &kept->file;
    const struct stk_pg_kind *kind = NULL;
    struct stat st;
    int rc = stat(path, &st) == 0 ? 0 : stk_err_sys(err, path, "open");
    in.folder = !rc && S_ISDIR(st.st_mode);
    if (!rc && !in.folder)
        rc = stk_result_file_open(path, file, err);
    in.root = file->root;
    in.command = file->command;
    in.result = file->result;
    bool drawn = file->kind && !file->kind->gathered;
    if (!rc && drawn)
        stk_page_draw(file->kind, name, file->subject, in.result, &page->w);
    else
        rc = rc ? rc : find_kind(&in, &kind, err);
    if (!rc && !drawn)
        rc = kind->add(page, &in, err);
    if (!rc && drawn && file->kind->compared) {
        kept->name = strdup(name);
        return kept->name ? 0 : stk_err_nomem(err, strlen(name));
    }
    stk_result_file_release(file);
    *file = (struct stk_result_file){0};
    return rc;
}

/* ---- results side by side -------------------------------------------------------------------- */

/* Those of the kind, of which there are several. */
static int compare(struct stk_page *page, const struct stk_result_kind *kind,
                   const struct kept *kept, size_t n, struct stk_err *err)
{
    const struct stk_jval *result[STK_PG_SIDE_MAX];
    const char *name[STK_PG_SIDE_MAX];
    struct stk_results all = {result, name, 0};
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *compared;
    for (size_t i = 0; i < n; i++) {
        if (kept[i].file.kind != kind || !kept[i].name)
            continue;
        if (all.n == STK_PG_SIDE_MAX)
            return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "a page compares at most %d results",
                               STK_PG_SIDE_MAX);
        result[all.n] = kept[i].file.result;
        name[all.n++] = kept[i].name;
    }
    if (all.n < 2)
        return 0;
    int rc = stk_result_fill(kind->compared, &all, &arena, &compared, err);
    if (!rc)
        stk_page_draw(kind->compared, kind->compared->doing, "", compared, &page->w);
    stk_arena_release(&arena);
    return rc;
}

/* ---- the page's data ----------------------------------------------------------------------- */

static void put_head(struct stk_jw *w)
{
    char made[32] = "";
    time_t now = time(NULL);
    struct tm tm;
    if (gmtime_r(&now, &tm))
        strftime(made, sizeof made, "%Y-%m-%d %H:%M UTC", &tm);
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "schema", SCHEMA);
    stk_jw_put_str(w, "version", STK_VERSION);
    stk_jw_put_str(w, "made", made);
    stk_jw_key(w, "results");
    stk_jw_open(w, '[');
}

int stk_page_data(const char *const *path, size_t n, const char *trust, struct stk_buf *out,
                  bool *live, struct stk_err *err)
{
    struct stk_page page = {0};
    struct kept *kept = calloc(n ? n : 1, sizeof *kept);
    int rc = kept ? 0 : stk_err_nomem(err, n * sizeof *kept);
    stk_jw_init(&page.w, out, false);
    put_head(&page.w);
    for (size_t i = 0; i < n && !rc; i++) {
        struct stk_buf name = STK_BUF_INIT;
        stk_pg_name(path, n, i, &name);
        rc = stk_buf_check(&name, err);
        rc = rc ? rc : add_input(&page, path[i], stk_buf_cstr(&name), trust, &kept[i], err);
        stk_buf_release(&name);
    }
    for (size_t i = 0; stk_pg_kinds[i] && !rc; i++)
        rc = stk_pg_kinds[i]->finish ? stk_pg_kinds[i]->finish(&page, err) : 0;
    for (size_t i = 0; stk_result_kinds[i] && !rc; i++)
        if (stk_result_kinds[i]->compared)
            rc = compare(&page, stk_result_kinds[i], kept, n, err);
    for (size_t i = 0; kept && i < n; i++) {
        stk_result_file_release(&kept[i].file);
        free(kept[i].name);
    }
    free(kept);
    stk_jw_close(&page.w, ']');
    stk_jw_close(&page.w, '}');
    if (live)
        *live = page.live;
    stk_pg_studies_free(page.studies);
    stk_pg_profiles_free(page.profiles);
    return rc ? rc : stk_buf_check(out, err);
}
