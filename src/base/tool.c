/*
 * tool.c - see spawn.h: system programs that stoker starts on its own. Each is looked up once; root
 * starts none that another user could have put there.
 */
#include "base/spawn.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOOLS_MAX 64

/* Groups below this belong to the system (Debian's /usr/local/bin is writable by "staff"). */
#define GROUPS_OF_PEOPLE 100

static struct tool {
    char *name, *search, *path; /* search: PATH at the time */
} tools[TOOLS_MAX];
static size_t ntools;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*tell)(const char *name, const char *path);

void stk_tools_tell(void (*told)(const char *name, const char *path))
{
    tell = told;
}

/* ---- who could have put it there ---------------------------------------------------------- */

/* In a user namespace (`unshare -r`, some containers) root is an ordinary user, and files of the
 * real root appear to belong to nobody. */
static bool is_root(void)
{
    unsigned long inside = 1, outside = 1, n = 0;
    if (geteuid() != 0)
        return false;
    FILE *f = fopen("/proc/self/uid_map", "re");
    if (!f)
        return true;
    bool known = fscanf(f, "%lu %lu %lu", &inside, &outside, &n) == 3;
    fclose(f);
    return !known || (inside == 0 && outside == 0 && n == UINT32_MAX);
}

/* True if users other than root can replace or change it. last: it is the program's folder, where a
 * sticky bit does not help. */
static bool others_write(const struct stat *st, bool last)
{
    bool group = (st->st_mode & S_IWGRP) && st->st_gid >= GROUPS_OF_PEOPLE;
    bool sticky = S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX) && !last;
    return st->st_uid != 0 || ((group || (st->st_mode & S_IWOTH)) && !sticky);
}

/* Checks the file and all folders above it. Writes the first that others can write to `bad`. */
static bool chain_is_safe(const char *path, char *bad, size_t size)
{
    char at[PATH_MAX];
    struct stat st;
    snprintf(at, sizeof at, "%s", path);
    for (int up = 0; at[0]; up++) {
        if (stat(at, &st) != 0 || others_write(&st, up < 2)) {
            snprintf(bad, size, "%s", at);
            return false;
        }
        char *slash = strrchr(at, '/');
        if (!slash || !slash[1])
            return true;
        slash[slash == at ? 1 : 0] = '\0';
    }
    return true;
}

/* Checks the path as named by PATH, and with links resolved. */
static bool is_safe(const char *path, char *bad, size_t size)
{
    char real[PATH_MAX];
    snprintf(bad, size, "%s", path);
    return path[0] == '/' && realpath(path, real) && chain_is_safe(path, bad, size) &&
           chain_is_safe(real, bad, size);
}

static int refuse(const char *name, const char *path, const char *bad, struct stk_err *err)
{
    if (path[0] != '/')
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "%s is found as %.400s, through an entry of PATH that is not absolute: "
                           "root does not start it; remove that entry from PATH",
                           name, path);
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "%s is found as %.400s, but users other than root can write %s: root does "
                       "not start it; remove that folder from PATH",
                       name, path, strcmp(bad, path) == 0 ? "that" : bad);
}

/* ---- lookup ------------------------------------------------------------------------------- */

static const char *known(const char *name, const char *search)
{
    for (size_t i = 0; i < ntools; i++)
        if (strcmp(tools[i].name, name) == 0 && strcmp(tools[i].search, search) == 0)
            return tools[i].path;
    return NULL;
}

/* Takes ownership of path. NULL: no memory. */
static const char *remember(const char *name, const char *search, char *path)
{
    struct tool t = {strdup(name), strdup(search), path};
    if (!t.name || !t.search || ntools == TOOLS_MAX) {
        free(t.name);
        free(t.search);
        free(t.path);
        return NULL;
    }
    tools[ntools++] = t;
    if (tell)
        tell(name, path);
    return path;
}

int stk_find_tool(const char *name, const char **path, struct stk_err *err)
{
    const char *search = getenv("PATH");
    char *found = NULL, bad[PATH_MAX];
    search = search ? search : "";
    (void)pthread_mutex_lock(&lock);
    *path = known(name, search);
    int rc = *path ? 0 : stk_find_program(name, &found);
    /* The user is responsible for a path given explicitly. */
    bool by_path = !strchr(name, '/');
    if (found && by_path && is_root() && !is_safe(found, bad, sizeof bad)) {
        rc = refuse(name, found, bad, err);
        free(found);
    } else if (found) {
        *path = remember(name, search, found);
        rc = *path ? 0 : ENOMEM;
    }
    (void)pthread_mutex_unlock(&lock);
    return rc;
}
