/*
 * place.c - an index is inside a packed dataset, else beside the data, else in the user's cache
 * folder. It is built under a temporary name and renamed: an index that is found is whole, even if
 * several processes build it at once or one is killed.
 */
#include "dataset/place.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/spool.h"
#include "base/text.h"
#include "dataset/layout.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

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
    if (stk_cache_dir(false, &cache, NULL) == 0 && (real = realpath(ds->path, NULL))) {
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

/* Whether a place is in the cache folder, which is made by whoever first needs it. make: do so. */
static bool in_cache(const char *place, bool make)
{
    char *dir = NULL;
    bool in = stk_cache_dir(make, &dir, NULL) == 0;
    size_t n = in ? strlen(dir) : 0;
    in = in && strncmp(place, dir, n) == 0 && place[n] == '/';
    free(dir);
    return in;
}

void stk_place_remove(const char *place)
{
    const char *name;
    int dirfd;
    if (stk_open_parent(place, &dirfd, &name, NULL) != 0)
        return;
    (void)stk_unlink_at(dirfd, name, place, NULL);
    (void)stk_new_sweep(dirfd, name);
    close(dirfd);
    size_t above = (size_t)(stk_base_name(place) - place);
    char *dir = in_cache(place, false) ? strndup(place, above) : NULL;
    if (dir)
        (void)stk_rmdir_at(AT_FDCWD, dir); /* only an empty one */
    free(dir);
}

/* ---- beside a dataset ---- */

/* The folder that contains it. Caller frees. */
static char *parent_of(const char *path)
{
    char *copy = path ? strdup(path) : NULL, *slash = copy ? strrchr(copy, '/') : NULL;
    if (slash)
        slash[slash == copy] = '\0';
    return copy;
}

/* A folder whose name says that it is a part of a dataset: train, images, masks. */
static bool is_part(const char *folder)
{
    char path[300];
    size_t from, n;
    const char *split;
    int len = snprintf(path, sizeof path, "%s/x", stk_base_name(folder));
    return len > 2 && (size_t)len < sizeof path &&
           (stk_layout_side(path, (size_t)len, &from, &n) != STK_SIDE_NONE ||
            stk_layout_split(path, (size_t)len, false, &split, &n));
}

static bool can_be_there(const char *folder, const char *data)
{
    struct stat a, b;
    return access(folder, W_OK | X_OK) == 0 && stat(folder, &a) == 0 && stat(data, &b) == 0 &&
           a.st_dev == b.st_dev;
}

char *stk_place_beside(const char *data, const char *whole, bool *inside)
{
    char *root = strdup(whole), *up;
    *inside = false;
    for (; root && is_part(root); root = up) {
        up = parent_of(root);
        free(root);
    }
    up = parent_of(root);
    free(root);
    if (!up || can_be_there(up, data))
        return up;
    free(up);
    up = parent_of(data);
    *inside = up && is_part(data) && can_be_there(up, data);
    return up;
}

/* ---- the file ---- */

#define NO_TARGET ((struct stk_new_index){.fd = -1, .number = -1, .file = STK_NEW_INIT})

int stk_new_index_open(struct stk_new_index *t, char *const place[STK_PLACES], int first,
                       struct stk_err *err)
{
    *t = NO_TARGET;
    for (int i = first; i < STK_PLACES && place[i]; i++) {
        if (in_cache(place[i], false) && !in_cache(place[i], true))
            continue;
        if (stk_new_begin(&t->file, place[i], STK_PRIVATE, NULL) < 0)
            continue;
        t->fd = t->file.fd;
        t->number = i;
        t->at = place[i];
        return 0;
    }
    t->fd = stk_nameless_file(NULL, err);
    return t->fd < 0 ? t->fd : 0;
}

bool stk_new_index_publish(struct stk_new_index *t, const struct stk_readers *readers)
{
    if (!t->file.tmp)
        return false;
    stk_new_share(&t->file, readers);
    int fd = fcntl(t->fd, F_DUPFD_CLOEXEC, 3); /* the file's own descriptor is closed with it */
    if (fd < 0)
        return false;
    t->fd = fd;
    return stk_new_commit(&t->file, NULL) == 0;
}

void stk_new_index_close(struct stk_new_index *t)
{
    if (t->fd >= 0 && t->fd != t->file.fd)
        close(t->fd);
    stk_new_abort(&t->file);
    *t = NO_TARGET;
}
