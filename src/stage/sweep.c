/*
 * sweep.c - a default tier is recognised by its name and by being ours, private and a tier. Nothing
 * is removed on doubt: a scheduler that does not answer, a set in use, a folder that is no tier.
 */
#include "stage/sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/own.h"
#include "host/scratch.h"
#include "sched/over.h"
#include "tier/tier.h"

#define TIERS_MAX 64u /* looked at in one folder: asking a scheduler takes time */

struct found {
    char (*id)[STK_TIER_ID];
    size_t n;
    bool used;
};

static int see(void *user, const struct stk_tier_info *info)
{
    struct found *f = user;
    f->used = f->used || info->used || info->filling;
    if (STK_ARRAY_MORE(f->id, f->n, NULL))
        return STK_E_NOMEM;
    snprintf(f->id[f->n++], STK_TIER_ID, "%s", info->id);
    return 0;
}

static int is_over(const char *job)
{
    return stk_job_is_over(job, NULL);
}

/* Evicts all sets; false: one is in use, or it is no tier of ours. */
static bool empty_tier(const char *path)
{
    struct stk_tier *tier = NULL;
    struct found f = {0};
    char *mark = stk_path_join(path, "tier.json");
    bool gone = mark && access(mark, F_OK) == 0 &&
                stk_tier_open(path, &(struct stk_tier_options){.job_over = is_over}, &tier, NULL) == 0 &&
                stk_tier_list(tier, see, &f, NULL) == 0 && !f.used;
    for (size_t i = 0; gone && i < f.n; i++)
        gone = stk_tier_evict(tier, f.id[i], false, NULL) == 0;
    stk_tier_close(tier);
    free(f.id);
    free(mark);
    return gone;
}

/* name: of a folder's entry. The id of the job it is the default tier of, or NULL. */
static const char *job_of(const char *name)
{
    char prefix[48];
    int n = snprintf(prefix, sizeof prefix, "stoker-%u-job-", (unsigned)geteuid());
    return strncmp(name, prefix, (size_t)n) == 0 && name[n] ? name + n : NULL;
}

static bool sweep_one(int folder, const char *root, const char *name)
{
    char id[STK_JOB_ID_MAX];
    const char *job = job_of(name);
    if (!job || strcmp(job, stk_job_id(id)) == 0 || stk_job_is_over(job, NULL) != 1)
        return false;
    char *path = stk_path_join(root, name);
    bool gone = path && empty_tier(path) && stk_remove_at(folder, name, path, NULL) == 0;
    free(path);
    return gone;
}

static uint64_t sweep_folder(const char *root, void (*told)(void *user, const char *path),
                             void *user)
{
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    uint64_t gone = 0, seen = 0;
    if (!d && fd >= 0)
        close(fd);
    for (struct dirent *e; d && seen < TIERS_MAX && (e = readdir(d));) {
        seen += job_of(e->d_name) != NULL;
        if (!sweep_one(dirfd(d), root, e->d_name))
            continue;
        char *path = stk_path_join(root, e->d_name);
        if (told && path)
            told(user, path);
        free(path);
        gone++;
    }
    if (d)
        closedir(d);
    return gone;
}

uint64_t stk_stage_sweep(void (*told)(void *user, const char *path), void *user)
{
    struct stk_scratch at[STK_SCRATCHES];
    size_t n = stk_scratch_list(at);
    uint64_t gone = 0;
    for (size_t i = 0; i < n; i++) {
        bool again = false;
        for (size_t k = 0; k < i; k++)
            again = again || (at[i].path && at[k].path && strcmp(at[i].path, at[k].path) == 0);
        if (at[i].path && !again)
            gone += sweep_folder(at[i].path, told, user);
    }
    return gone;
}
