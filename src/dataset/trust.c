/* trust.c - compares who owns and may write a description of data with who owns and may write the
 * data. */
#include "dataset/trust.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENTRY_MAX 65536 /* bytes of a user's or a group's entry: a group may have many members */

/* ---- users by name ---- */

static bool find_user(const char *name, uid_t *uid)
{
    char *end, *text = malloc(ENTRY_MAX);
    struct passwd pw, *found = NULL;
    bool known = text && getpwnam_r(name, &pw, text, ENTRY_MAX, &found) == 0 && found;
    errno = 0;
    unsigned long long n = known ? found->pw_uid : strtoull(name, &end, 10);
    if (!known && (end == name || *end || errno || n >= (uid_t)-1 || name[0] == '-'))
        n = (uid_t)-1;
    *uid = (uid_t)n;
    free(text);
    return *uid != (uid_t)-1;
}

static int add_user(struct stk_trust *t, const char *name, struct stk_err *err)
{
    uid_t uid;
    if (strcmp(name, "all") == 0) {
        t->all = true;
        return 0;
    }
    if (!find_user(name, &uid))
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "there is no user '%.100s' to trust: give names and numbers of users, "
                           "separated by commas, or all",
                           name);
    if (STK_ARRAY_MORE(t->user, t->nusers, err) < 0)
        return STK_E_NOMEM;
    t->user[t->nusers++] = uid;
    return 0;
}

int stk_trust_init(struct stk_trust *t, const char *users, struct stk_err *err)
{
    *t = (struct stk_trust){.user = NULL};
    char *copy = users ? strdup(users) : NULL, *save = NULL;
    if (users && !copy)
        return stk_err_nomem(err, strlen(users));
    int rc = 0;
    for (char *one = copy ? strtok_r(copy, ",", &save) : NULL; one && rc == 0;
         one = strtok_r(NULL, ",", &save))
        rc = add_user(t, one, err);
    free(copy);
    return rc;
}

void stk_trust_release(struct stk_trust *t)
{
    free(t->user);
    *t = (struct stk_trust){.user = NULL};
}

/* ---- ownership ---- */

static bool is_named(const struct stk_trust *t, uid_t owner)
{
    for (size_t i = 0; i < t->nusers; i++)
        if (t->user[i] == owner)
            return true;
    return t->all;
}

bool stk_trust_is_owners(const struct stk_trust *t, uid_t owner)
{
    return owner == t->data.st_uid && owner != geteuid() && owner != 0 && !is_named(t, owner);
}

/* True for a user's private group, as on most systems: it has the user's name (or number, if
 * unnamed) and no other member. */
static bool is_own_group(gid_t gid, uid_t uid)
{
    char *text = malloc(ENTRY_MAX), user[64];
    struct group gr, *found = NULL;
    int rc = text ? getgrgid_r(gid, &gr, text, ENTRY_MAX, &found) : ENOMEM;
    bool own = rc == 0 && !found && gid == uid;
    if (rc == 0 && found) {
        stk_user_name(uid, user);
        own = strcmp(found->gr_name, user) == 0;
        for (char **m = found->gr_mem; own && *m; m++)
            own = strcmp(*m, user) == 0;
    }
    free(text);
    return own;
}

/* True if a user may write it who may not write the data. */
static bool others_write(const struct stat *it, const struct stat *data)
{
    /* In a sticky folder users cannot replace files of others. */
    bool sticky = S_ISDIR(data->st_mode) && data->st_mode & S_ISVTX;
    mode_t theirs = sticky ? 0 : data->st_mode;
    if (theirs & S_IWOTH)
        return false;
    if (it->st_mode & S_IWOTH)
        return true;
    bool same_group = theirs & S_IWGRP && data->st_gid == it->st_gid;
    return it->st_mode & S_IWGRP && !same_group && !is_own_group(it->st_gid, it->st_uid);
}

static int refuse_owner(const struct stk_trust *t, uid_t owner, const char *path,
                        struct stk_err *err)
{
    char who[64], of[64], as[64];
    return stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                       "it belongs to %s and the data to %s, so it cannot be trusted; --trust %s "
                       "trusts it",
                       stk_user_name(owner, who), stk_user_name(t->data.st_uid, of),
                       stk_user_word(owner, as));
}

int stk_trust_check(const struct stk_trust *t, const struct stat *it, const char *path,
                    struct stk_err *err)
{
    if (t->all)
        return 0;
    if (!stk_trusts(it->st_uid, t->data.st_uid) && !is_named(t, it->st_uid))
        return refuse_owner(t, it->st_uid, path, err);
    if (others_write(it, &t->data))
        return stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                           "others may write it (mode %04o), so it cannot be trusted; use chmod "
                           "go-w, or --trust all to trust it",
                           (unsigned)(it->st_mode & 07777));
    return 0;
}

int stk_trust_read(const struct stk_trust *t, const char *path, size_t max, struct stk_buf *text,
                   struct stk_err *err)
{
    struct stat st;
    int fd, rc = stk_read_open(AT_FDCWD, path, 0, &fd, &st, path, err);
    if (rc < 0)
        return rc;
    rc = stk_trust_check(t, &st, path, err);
    if (rc == 0)
        rc = stk_read_fd(fd, max, text, path, err);
    close(fd);
    return rc;
}
