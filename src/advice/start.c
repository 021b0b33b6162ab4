/*
 * start.c - the rule about files of libraries and of the system: programs that take long to start
 * because every module is a small file on slow storage.
 */
#include <string.h>

#include "advice/priv.h"

#define PLACES 32 /* that are told apart; more are not needed to name the slowest */

/* A folder of such files, over all processes. */
struct place {
    const char *folder;
    double files, calls, s;
};

static void add_place(struct place *all, size_t *n, const struct stk_log_place *from)
{
    const char *name = *from->folder ? from->folder : "other folders";
    size_t i = 0;
    while (i < *n && strcmp(all[i].folder, name) != 0)
        i++;
    if (i == PLACES || !from->ns)
        return;
    if (i == *n)
        all[(*n)++] = (struct place){.folder = name};
    all[i].files += (double)from->files;
    all[i].calls += (double)from->calls;
    all[i].s += (double)from->ns * 1e-9;
}

static size_t sum_places(const struct stk_profile *p, struct place *all)
{
    size_t n = 0;
    for (size_t i = 0; i < p->nprocs; i++)
        for (size_t k = 0; p->proc[i].places && k < STK_LOG_PLACES; k++)
            add_place(all, &n, &p->proc[i].places[k]);
    return n;
}

static const struct place *slowest(const struct place *all, size_t n)
{
    const struct place *most = NULL;
    for (size_t i = 0; i < n; i++)
        if (!most || all[i].s > most->s)
            most = &all[i];
    return most;
}

/* "/x/lib/python3.11/site-packages" is part of the environment /x. */
static const char *environment(struct advisor *ad, const char *folder)
{
    const char *lib = strstr(folder, "/lib/python");
    return lib && lib > folder ? stk_advice_text(ad, "%.*s", (int)(lib - folder), folder) : folder;
}

/* The system's own files: not an environment that somebody can pack. */
static bool is_system(const char *folder)
{
    static const char *const tops[] = {"/", "/usr", "/usr/local", "/lib", "/lib64", "/bin", "/etc"};
    for (size_t i = 0; i < sizeof tops / sizeof *tops; i++)
        if (strcmp(folder, tops[i]) == 0)
            return true;
    return strncmp(folder, "/usr/", 5) == 0 || strncmp(folder, "/lib/", 5) == 0;
}

static void pack_it(struct advisor *ad, struct stk_finding *f, const char *from)
{
    if (is_system(from)) {
        stk_advice_do(ad, f,
                      "These belong to the system: run the program in a container image of one "
                      "file (Apptainer, squashfs), or ask your site why they are slow.");
        stk_advice_act(ad, f, (struct stk_action){.kind = STK_ACT_CHECK_NODE});
        return;
    }
    stk_advice_do(ad, f,
                  "Keep the environment in one file (an archive that each node unpacks, a squashfs "
                  "or container image, conda-pack), or on a local disk.");
    stk_advice_act(ad, f, (struct stk_action){.kind = STK_ACT_PACK_ENVIRONMENT, .path = from});
}

void stk_rule_library_files(struct advisor *ad)
{
    struct place all[PLACES];
    size_t n = sum_places(ad->p, all);
    const struct place *worst = slowest(all, n);
    double wall = ad->a->loop.library_s, s = 0, files = 0;
    for (size_t i = 0; i < n; i++) {
        s += all[i].s;
        files += all[i].files;
    }
    /* On a local disk or in memory each of them would take this long. */
    double each = stk_storage_assumed(STK_REACH_LOCAL).open_s;
    double near = s > 0 ? files * wall / s * each : 0;
    if (!worst || *worst->folder != '/' || stk_advice_share(ad, wall) < stk_limits.medium_share ||
        !stk_advice_matters(ad, wall - near))
        return;
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_LIBRARY_FILES, stk_advice_severity(ad, wall - near),
                         "the program spends %s in files of libraries", stk_advice_time(ad, wall));
    stk_advice_say(ad, f, "%s of %s: %s files were opened there, in %s calls that took %s.",
                   stk_advice_time(ad, wall), stk_advice_time(ad, ad->run_s),
                   stk_advice_count(ad, worst->files), stk_advice_count(ad, worst->calls),
                   stk_advice_thread_time(ad, worst->s));
    stk_advice_number(ad, f, "library_s", wall, "s");
    stk_advice_number(ad, f, "files", worst->files, "count");
    stk_advice_path(ad, f, worst->folder);
    pack_it(ad, f, environment(ad, worst->folder));
    stk_advice_gain(ad, f, wall - near, "The same %s files at %s each.",
                    stk_advice_count(ad, files), stk_advice_time(ad, each));
}
