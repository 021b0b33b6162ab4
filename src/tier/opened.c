/*
 * opened.c - the processes that have something of a copy open without a lock on its set: plain
 * programs, shells that stand in it, containers that have it mounted.
 */
#include "tier/priv.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* From the name of a set, or of what is left of one, on: "ID/data/NAME/file"; NULL: none. */
static const char *set_in(const char *path)
{
    for (const char *slash = path; slash; slash = strchr(slash + 1, '/'))
        if (*slash == '/' && stk_tier_begins_set(slash + 1))
            return slash + 1;
    return NULL;
}

static bool is_in_set(const char *path)
{
    return set_in(path) != NULL;
}

/* Copies of the same data in other tiers have sets of the same name. */
static bool is_in_tier(const struct stk_tier *t, const struct stk_opened *o, const char *in)
{
    struct stat st;
    size_t n = strlen(t->path);
    if (o->known && fstatat(t->fd, in, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return st.st_ino == o->inode && (o->any_dev || st.st_dev == o->dev);
    return !o->known && in == o->path + n + 1 && strncmp(o->path, t->path, n) == 0;
}

/* The copy itself: stoker has the folders above it open when it looks at a set. */
static bool is_of_copy(const char *in)
{
    const char *part = strchr(in, '/'), *name = part ? strchr(part + 1, '/') : NULL;
    return name && name[1] &&
           (strncmp(part, "/" STK_TIER_DATA "/", sizeof STK_TIER_DATA + 1) == 0 ||
            strncmp(part, "/" STK_TIER_FILLING "/", sizeof STK_TIER_FILLING + 1) == 0);
}

static bool uses(const struct stk_tier *t, const struct stk_opened *o, const char *id, bool locked)
{
    const char *in = set_in(o->path);
    size_t n = strlen(id);
    return strncmp(in, id, n) == 0 && (!in[n] || in[n] == '/') &&
           (locked ? o->pid != getpid() : o->place || is_of_copy(in)) && is_in_tier(t, o, in);
}

void stk_tier_look(struct stk_tier *t)
{
    pthread_mutex_lock(&t->looking);
    (void)stk_opened_look(t->opened, is_in_set, NULL);
    pthread_mutex_unlock(&t->looking);
}

bool stk_tier_opened(struct stk_tier *t, const char *id, bool locked, char why[STK_TIER_WHY])
{
    const struct stk_opened_list *l = t->opened;
    pthread_mutex_lock(&t->looking);
    bool found = l->at <= 0;
    if (found)
        snprintf(why, STK_TIER_WHY,
                 "whether a process has it open is not known: /proc cannot be read");
    for (size_t i = 0; !found && i < l->n; i++)
        if (uses(t, &l->item[i], id, locked)) {
            snprintf(why, STK_TIER_WHY, "process %ld (%s) uses %s/%s", (long)l->item[i].pid,
                     l->item[i].comm, t->path, set_in(l->item[i].path));
            found = true;
        }
    pthread_mutex_unlock(&t->looking);
    return found;
}
