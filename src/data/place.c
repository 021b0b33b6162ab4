/*
 * place.c - an index stands inside a packed dataset, else beside the data, else in the user's cache
 * folder. It is built under a name of its own and renamed: whoever builds it at the same time, and
 * whenever one of them is killed, the index that is found is whole.
 */
#include "data/place.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SWEEP_MAX 4096 /* names looked at for what killed processes left: not worth more time */

int stk_places(const struct stk_dataset *ds, const char *given, uint64_t listing,
               char *place[STK_PLACES], struct stk_err *err)
{
    int n = 0;
    char *cache = NULL, *real, options[16] = "";
    memset(place, 0, STK_PLACES * sizeof *place);
    if (given) {
        place[n++] = strdup(given);
        return place[0] ? 0 : stk_err_nomem(err, strlen(given));
    }
    if (listing)
        snprintf(options, sizeof options, ".%08x", (unsigned)(listing >> 32 ^ listing));
    if (ds->has_manifest)
        place[n++] = stk_path_join(ds->path, STK_INDEX_NAME);
    const char *base = stk_base_name(ds->path);
    if (base[0] && strcmp(base, ".") != 0 && strcmp(base, "..") != 0 &&
        asprintf(&place[n], "%s%s.stkidx", ds->path, options) >= 0)
        n++;
    if (stk_cache_dir(&cache, NULL) == 0 && (real = realpath(ds->path, NULL))) {
        if (asprintf(&place[n], "%s/%016llx%s.stkidx", cache,
                     (unsigned long long)stk_hash64(real, strlen(real)), options) >= 0)
            n++;
        free(real);
    }
    free(cache);
    return 0;
}

void stk_places_free(char *place[STK_PLACES])
{
    for (int i = 0; i < STK_PLACES; i++)
        free(place[i]);
}

/* ---- what killed processes left ---- */

/* Whoever builds an index holds a lock on its file. */
static void remove_abandoned(int dirfd, const char *name)
{
    int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)unlinkat(dirfd, name, 0);
    if (fd >= 0)
        close(fd);
}

static void sweep(const char *place)
{
    const char *base = stk_base_name(place);
    char *dir = base > place ? strndup(place, (size_t)(base - place)) : strdup(".");
    char *prefix = NULL;
    DIR *d = dir ? opendir(dir) : NULL;
    int n = asprintf(&prefix, "%s.partial.", base), seen = 0;
    for (struct dirent *e; d && n > 0 && seen < SWEEP_MAX && (e = readdir(d)); seen++)
        if (strncmp(e->d_name, prefix, (size_t)n) == 0)
            remove_abandoned(dirfd(d), e->d_name);
    if (d)
        closedir(d);
    if (n >= 0)
        free(prefix);
    free(dir);
}

/* ---- the file ---- */

int stk_target_open(struct stk_target *t, char *const place[STK_PLACES], int first,
                    struct stk_err *err)
{
    *t = (struct stk_target){.fd = -1, .number = -1};
    for (int i = first; i < STK_PLACES && place[i]; i++) {
        if (asprintf(&t->tmp, "%s.partial.%ld.%p", place[i], (long)getpid(), (void *)t) < 0) {
            t->tmp = NULL;
            return stk_err_nomem(err, strlen(place[i]));
        }
        t->fd = open(t->tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (t->fd >= 0) {
            (void)flock(t->fd, LOCK_EX | LOCK_NB);
            sweep(place[i]);
            t->number = i;
            t->at = place[i];
            return 0;
        }
        free(t->tmp);
        t->tmp = NULL;
    }
    t->fd = stk_nameless_file(NULL, err);
    return t->fd < 0 ? t->fd : 0;
}

bool stk_target_publish(struct stk_target *t)
{
    if (!t->tmp || fsync(t->fd) < 0 || rename(t->tmp, t->at) < 0)
        return false;
    free(t->tmp);
    t->tmp = NULL;
    return true;
}

void stk_target_close(struct stk_target *t)
{
    if (t->tmp)
        (void)unlink(t->tmp);
    if (t->fd >= 0)
        close(t->fd);
    free(t->tmp);
    *t = (struct stk_target){.fd = -1, .number = -1};
}
