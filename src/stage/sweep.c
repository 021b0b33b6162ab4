/*
 * sweep.c - a default tier is recognised by its name and by being ours, private and a tier. Nothing
 * is removed on doubt: a scheduler that does not answer, a set in use, a folder that is no tier.
 */
#include "stage/target.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/dir.h"
#include "base/file.h"
#include "base/own.h"
#include "host/opened.h"
#include "host/scratch.h"
#include "sched/slurm/slurm.h"
#include "tier/tier.h"

#define ASK_S     3.0 /* for each client of Slurm */
#define TIERS_MAX 64u /* looked at in one folder: asking a scheduler takes time */

struct found {
    char (*id)[STK_TIER_ID];
    char **name; /* of the same sets */
    size_t n, names;
};

static int see(void *user, const struct stk_tier_info *info)
{
    struct found *f = user;
    if (STK_ARRAY_MORE(f->id, f->n, NULL) || STK_ARRAY_MORE(f->name, f->names, NULL))
        return STK_E_NOMEM;
    snprintf(f->id[f->n++], STK_TIER_ID, "%s", info->id);
    f->name[f->names] = strdup(info->name);
    return f->name[f->names] ? (f->names++, 0) : STK_E_NOMEM;
}

static void release(struct found *f)
{
    for (size_t i = 0; i < f->names; i++)
        free(f->name[i]);
    free(f->name);
    free(f->id);
}

static int is_over(const char *job)
{
    const struct stk_slurm how = {.timeout_s = ASK_S};
    return stk_job_is_over(job, &how);
}

/* A folder that may be a tier, by its name in an open one. */
struct place {
    int folder;
    const char *name, *path;
    struct stk_opened_list *opened;
};

/* Evicts all sets unless one stays (*used), and what else is ours; false: one is in use, or it is
 * no tier of ours. */
static bool empty_tier(const struct place *at, struct stk_left *left, struct stk_err *used)
{
    const struct stk_tier_options o = {.job_over = is_over, .opened = at->opened};
    struct stk_tier *tier = NULL;
    struct found f = {0};
    bool gone = stk_tier_open_at(at->folder, at->name, at->path, &o, &tier, NULL) == 0 &&
                stk_tier_is_made(tier) && stk_tier_list(tier, see, &f, NULL) == 0;
    for (size_t i = 0; gone && i < f.n; i++)
        gone = !stk_tier_stays(tier, f.id[i], false, used);
    for (size_t i = 0; gone && i < f.n; i++)
        gone = stk_tier_evict(tier, f.id[i], false, left, NULL) == 0;
    gone = gone && stk_tier_clear(tier, (const char *const *)f.name, f.names, left, NULL) == 0;
    stk_tier_close(tier);
    release(&f);
    return gone;
}

/* name: of a folder's entry. False: it is not the default tier of a job (stk_scratch_tier()). */
static bool job_of(const char *name, char job[STK_JOB_ID_MAX])
{
    char prefix[48];
    int n = snprintf(prefix, sizeof prefix, "stoker-%u-job-", (unsigned)geteuid());
    if (strncmp(name, prefix, (size_t)n) != 0)
        return false;
    int len = (int)strcspn(name + n, "+");
    return len && snprintf(job, STK_JOB_ID_MAX, "%.*s", len, name + n) < STK_JOB_ID_MAX;
}

struct sweeping {
    void (*told)(void *user, const struct stk_swept *one);
    void *user;
    struct stk_opened_list opened; /* looked at once for all tiers */
    uint64_t gone;
};

static void sweep_one(struct sweeping *s, int folder, const char *root, const char *name)
{
    char id[STK_JOB_ID_MAX], job[STK_JOB_ID_MAX];
    struct stk_left left = {0};
    struct stk_err used = {0};
    if (!job_of(name, job) || strcmp(job, stk_job_id(id)) == 0 || is_over(job) != 1)
        return;
    char *path = stk_path_join(root, name);
    const struct place at = {folder, name, path, &s->opened};
    bool emptied = path && empty_tier(&at, &left, &used);
    bool gone = emptied && !left.n && stk_rmdir_at(folder, name) == 0;
    const struct stk_swept one = {.path = path,
                                  .left = left.n ? left.first : NULL,
                                  .used = used.code == STK_E_EXISTS ? used.what : NULL};
    s->gone += gone;
    if (s->told && (gone || one.used || (emptied && one.left)))
        s->told(s->user, &one);
    free(path);
}

static void sweep_folder(struct sweeping *s, const char *root)
{
    struct stk_dir d;
    int rc = stk_dir_open(&d, root, NULL);
    char job[STK_JOB_ID_MAX];
    uint64_t seen = 0;
    for (const struct dirent *e; seen < TIERS_MAX && (e = stk_dir_next(&d));) {
        seen += job_of(e->d_name, job);
        sweep_one(s, d.fd, root, e->d_name);
    }
    (void)stk_dir_end(&d, rc, NULL); /* the next one tries again */
}

uint64_t stk_stage_sweep(void (*told)(void *user, const struct stk_swept *one), void *user)
{
    struct stk_scratch at[STK_SCRATCHES];
    struct sweeping s = {.told = told, .user = user};
    size_t n = stk_scratch_list(at);
    for (size_t i = 0; i < n; i++) {
        bool again = false;
        for (size_t k = 0; k < i; k++)
            again = again || (at[i].path && at[k].path && strcmp(at[i].path, at[k].path) == 0);
        if (at[i].path && !again)
            sweep_folder(&s, at[i].path);
    }
    stk_opened_release(&s.opened);
    return s.gone;
}
