/*
 * dest.c - claims DST.partial, and swaps it with DST at the end. If it is killed at any moment, DST
 * is the old dataset, the new one, or nothing.
 *
 * In a folder that others may write, anything may have these names: a link, another user's folder,
 * another dataset of the caller. So DST.partial must be ours, everything works through descriptors,
 * and nothing is removed only because of its name: a plan in it must name DST, or the note beside
 * DST (while folders are renamed) must have its inode number.
 */
#include "base/dir.h"
#include "base/file.h"
#include "base/hash.h"
#include "pack/priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLAN_NAME  "pack.plan"
#define PLAN_MAX   (1u << 20)
#define PLAN_FORCE "replaces the dataset there\n" /* last line of the plan of a --force run */
#define NOTE_MAX   200
#define OLD        ".old.partial"  /* an old dataset, if two folders cannot be exchanged */
#define NOTE       ".swap.partial" /* see struct note */

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* True for what a killed run may leave in the folder besides shards. */
static bool is_temporary(const char *name)
{
    return strstr(name, ".partial") != NULL;
}

/* ---- folders, by descriptor ---- */

/* A name beside DST: DST itself with "", DST.partial and so on. */
struct beside {
    char name[320];
};

static const char *beside(const struct stk_dest *d, const char *ending, struct beside *b)
{
    snprintf(b->name, sizeof b->name, "%s%s", d->name, ending);
    return b->name;
}

/* -1 with errno: missing, or something else. */
static int open_beside(const struct stk_dest *d, const char *ending)
{
    struct beside b;
    return openat(d->parent, beside(d, ending, &b),
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* 1, with a descriptor; 0: there is none; else the error. */
static int find_beside(const struct stk_dest *d, const char *ending, int *fd, struct stk_err *err)
{
    *fd = open_beside(d, ending);
    if (*fd >= 0)
        return 1;
    if (stk_is_absent(errno) || errno == ELOOP) /* a link is none of ours */
        return 0;
    return stk_err_sys(err, d->final, "open %s%s", d->name, ending);
}

static uint64_t number_of(int fd)
{
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* True if the folder still has that name. */
static bool stands_at(const struct stk_dest *d, int fd, const char *ending)
{
    struct beside b;
    struct stat a, st;
    return fstat(fd, &a) == 0 &&
           fstatat(d->parent, beside(d, ending, &b), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           a.st_ino == st.st_ino && a.st_dev == st.st_dev;
}

/* Calls take() for each name in the folder until it returns non-zero. */
static int each_entry(int dir, const char *path, int (*take)(int dir, const char *name, void *user),
                      void *user, struct stk_err *err)
{
    struct stk_dir d;
    int rc = stk_dir_open_fd(&d, dir, path, err);
    for (const struct dirent *e; rc == 0 && (e = stk_dir_next(&d));)
        rc = take(dir, e->d_name, user);
    return stk_dir_end(&d, rc, err);
}

static bool is_mark(const char *name)
{
    return strcmp(name, PLAN_NAME) == 0 || strcmp(name, STK_MANIFEST_NAME) == 0;
}

static int found_other(int dir, const char *name, void *user)
{
    (void)dir, (void)user;
    return !is_temporary(name);
}

/* "'a/b'", or "'a/b' and 3 other files". Returns buf. */
static const char *left_text(const struct stk_left *left, char *buf, size_t n)
{
    int at = snprintf(buf, n, "'%.200s'", left->first);
    if (left->n > 1)
        snprintf(buf + at, n - (size_t)at, " and %llu other file%s",
                 (unsigned long long)left->n - 1, left->n > 2 ? "s" : "");
    return buf;
}

/* Removes a folder that is known to be a dataset of DST, and of its contents what the manifest
 * names. */
static int remove_folder(const struct stk_dest *d, int fd, const char *ending, struct stk_err *err)
{
    struct beside b;
    struct stk_contents c;
    struct stk_left left = {0};
    char what[300];
    int rc = stk_contents_read(&c, fd, d->partial, err);
    if (rc >= 0)
        rc = stk_contents_remove(&c, fd, &left, d->partial, err);
    stk_contents_release(&c);
    if (rc < 0 || !stands_at(d, fd, ending))
        return rc;
    beside(d, ending, &b);
    if (left.n)
        return stk_err_set(err, STK_E_EXISTS, d->final, -1,
                           "the dataset that was replaced is now %s, and %s in it is left there: "
                           "its manifest does not name that; move it away",
                           b.name, left_text(&left, what, sizeof what));
    if (stk_rmdir_at(d->parent, b.name) < 0 && errno != ENOENT)
        rc = stk_err_sys(err, d->partial, "remove");
    return rc;
}

/* Locks an open folder. Negative: another process has it (STK_E_EXISTS). */
static int lock_folder(const struct stk_dest *d, int fd, const char *ending, struct stk_err *err)
{
    /* If the file system has no locks, continue without one. */
    bool taken = !stk_lock_alone(fd);
    /* The locked folder may just have got its final name: then it belongs to the other run. */
    if (!taken && stands_at(d, fd, ending))
        return 0;
    return stk_err_set(err, STK_E_EXISTS, d->partial, -1, "another stoker is writing this dataset");
}

/* ---- the note ---- */

/* A file beside DST while folders are renamed, so that a killed run can be sorted out: the inodes
 * of the new dataset and of the one it replaces. 0: none. */
struct note {
    uint64_t fresh, old;
};

static int read_note(const struct stk_dest *d, struct note *n, struct stk_err *err)
{
    struct stk_err why = {0};
    struct beside b;
    struct stat st;
    char text[NOTE_MAX + 1];
    unsigned long long fresh = 0, old = 0;
    size_t got = 0;
    int fd;
    *n = (struct note){0};
    int rc = stk_if_there(
        stk_read_open(d->parent, beside(d, NOTE, &b), O_NOFOLLOW, &fd, &st, d->final, &why), &why);
    if (rc == 0 || rc == STK_E_UNSUPPORTED) /* not a file: not our note */
        return 0;
    if (rc < 0)
        return err ? (*err = why).code : rc;
    /* Only we can have made our note; with a second hard link, another user may have kept it. */
    bool ours = st.st_uid == geteuid() && st.st_nlink == 1 && !(st.st_mode & 022);
    rc = ours ? stk_pread_full(fd, text, NOTE_MAX, 0, &got, d->final, err) : 0;
    if (rc == 0) {
        text[got] = '\0';
        if (sscanf(text, "new %llu\nold %llu\n", &fresh, &old) == 2)
            *n = (struct note){fresh, old};
    }
    close(fd);
    return rc;
}

/* Made in DST.partial and renamed from there: what a killed run leaves is removed with that
 * folder. */
static int write_note(const struct stk_dest *d, const struct note *n, struct stk_err *err)
{
    struct beside b;
    char text[NOTE_MAX];
    int len = snprintf(text, sizeof text, "new %llu\nold %llu\n", (unsigned long long)n->fresh,
                       (unsigned long long)n->old);
    int rc = stk_write_file_at(d->fd, beside(d, NOTE, &b), text, (size_t)len, STK_PRIVATE,
                               d->partial, err);
    if (rc == 0 && stk_rename_at(d->fd, b.name, d->parent, b.name) < 0)
        rc = stk_err_sys(err, d->final, "write a note beside it");
    return rc;
}

static int drop_note(const struct stk_dest *d, const struct note *n, struct stk_err *err)
{
    struct beside b;
    struct note now;
    int rc = read_note(d, &now, err);
    if (rc < 0)
        return rc;
    if (!now.fresh || now.fresh != n->fresh)
        return 0; /* another run's */
    return stk_unlink_at(d->parent, beside(d, NOTE, &b), d->final, err);
}

/* ---- the plan ---- */

/* The plan as stored in the folder. It names DST, so that the folder of another dataset is not
 * mistaken for this one, wherever it was moved. */
static int plan_text(const struct stk_dest *d, const char *plan, bool force, struct stk_buf *b,
                     struct stk_err *err)
{
    stk_buf_reset(b);
    stk_buf_printf(b, "%sdestination %s\n%s", plan, d->name, force ? PLAN_FORCE : "");
    return stk_buf_check(b, err);
}

/* 1; 0: there is none, or it is no file; else the error. */
static int read_plan(const struct stk_dest *d, int dir, struct stk_buf *b, struct stk_err *err)
{
    struct stk_err why = {0};
    int rc = stk_read_file_at(dir, PLAN_NAME, O_NOFOLLOW, PLAN_MAX, b, d->partial, &why);
    rc = stk_if_there(rc, &why);
    if (rc == 1 || (rc != STK_E_SYS && rc != STK_E_NOMEM))
        return rc == 1;
    (void)stk_err_wrap(&why, rc, PLAN_NAME);
    return err ? (*err = why).code : rc;
}

/* 1 if the unfinished run has this plan; *force: that run had --force. */
static int same_plan(const struct stk_dest *d, int dir, const char *plan, bool *force,
                     struct stk_err *err)
{
    struct stk_buf have = STK_BUF_INIT, want = STK_BUF_INIT;
    bool same = false;
    int read = read_plan(d, dir, &have, err);
    for (int i = 0; read == 1 && !same && i < 2; i++) {
        *force = i == 1;
        same = plan_text(d, plan, *force, &want, NULL) == 0 && have.len == want.len &&
               memcmp(have.data, want.data, want.len) == 0;
    }
    stk_buf_release(&have);
    stk_buf_release(&want);
    *force = *force && same;
    return read < 0 ? read : same;
}

/* 1 if the unfinished run wrote this dataset. */
static int plan_is_of(const struct stk_dest *d, int dir, struct stk_err *err)
{
    struct stk_buf have = STK_BUF_INIT, want = STK_BUF_INIT;
    stk_buf_printf(&want, "\ndestination %s\n", d->name);
    int is = read_plan(d, dir, &have, err);
    if (is == 1)
        is = !want.fail && memmem(have.data, have.len, want.data, want.len);
    stk_buf_release(&have);
    stk_buf_release(&want);
    return is;
}

static int write_plan(const struct stk_dest *d, const char *plan, bool force, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    int rc = plan_text(d, plan, force, &b, err);
    if (rc == 0)
        rc = stk_write_file_at(d->fd, PLAN_NAME, b.data, b.len, STK_SHARED, d->partial, err);
    stk_buf_release(&b);
    return rc;
}

/* ---- existing folders ---- */

/* Refuses a dataset with files that are not its own, or whose own files are not known. */
static int refuse_others(const struct stk_dest *d, int fd, struct stk_contents *c,
                         struct stk_err *err)
{
    struct stk_left left = {0};
    char what[300];
    int rc = stk_contents_others(c, fd, &left, d->final, err);
    if (rc < 0 || !left.n)
        return rc;
    bool unknown = c->tree && !c->indexed;
    return stk_err_set(err, STK_E_EXISTS, d->final, -1,
                       "it holds %s, which %s; so it is not replaced: move %s away, or choose "
                       "another destination",
                       left_text(&left, what, sizeof what),
                       unknown ? "may not be of the dataset there (its index is not the one that "
                                 "was packed)"
                               : "the manifest of the dataset there does not name",
                       unknown ? "the folder" : "that");
}

/* Reads through the descriptor: examines exactly what will be replaced. */
static int refuse_contents(const struct stk_dest *d, int fd, bool force, struct stk_err *err)
{
    struct stk_contents c;
    struct stk_err why = {0};
    int ours = stk_contents_read(&c, fd, d->final, &why), rc = 0;
    if (ours == STK_E_SYS || ours == STK_E_NOMEM)
        rc = err ? (*err = why).code : ours;
    else if (!ours)
        rc = stk_err_set(err, STK_E_EXISTS, d->final, -1,
                         "it holds files but no manifest of stoker, so it is not replaced; "
                         "choose another destination");
    else if (!force)
        rc = stk_err_set(err, STK_E_EXISTS, d->final, -1,
                         "a dataset exists already; --force replaces it when the new one is "
                         "whole");
    else if (ours < 0)
        rc = stk_err_set(err, STK_E_EXISTS, d->final, -1,
                         "the manifest there is damaged, so which files are of the dataset is not "
                         "known, and it is not replaced: move the folder away (%.200s)",
                         why.what);
    else
        rc = refuse_others(d, fd, &c, err);
    stk_contents_release(&c);
    return rc;
}

static int refuse_final(const struct stk_dest *d, int fd, bool force, struct stk_err *err)
{
    struct stat st;
    char who[64];
    int rc = refuse_contents(d, fd, force, err);
    if (rc < 0)
        return rc;
    if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0 && fstat(fd, &st) == 0)
        return stk_err_set(err, STK_E_EXISTS, d->final, -1,
                           "the existing dataset belongs to %s, and its files cannot be removed; "
                           "choose another destination",
                           stk_user_name(st.st_uid, who));
    return 0;
}

static int check_folder(const struct stk_dest *d, const struct stat *sb, struct stk_err *err)
{
    struct stat parent;
    if (!S_ISDIR(sb->st_mode))
        return stk_err_set(err, STK_E_EXISTS, d->final, -1,
                           "a file of this name exists, and a dataset is a folder; choose "
                           "another destination");
    /* A mount point cannot be renamed: better reported before the work. */
    if (fstat(d->parent, &parent) == 0 && parent.st_dev != sb->st_dev)
        return stk_err_set(err, STK_E_EXISTS, d->final, -1,
                           "a file system is mounted here, so the folder cannot be put in "
                           "place as a whole; choose a folder below it");
    return 0;
}

/* 0, also if nothing or an empty folder exists (then *fd is -1); else *fd is the dataset to
 * replace, for the caller to close. */
static int check_final(const struct stk_dest *d, bool force, int *fd, struct stk_err *err)
{
    struct stat sb;
    *fd = -1;
    if (fstatat(d->parent, d->name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : stk_err_sys(err, d->final, "open folder");
    int rc = check_folder(d, &sb, err);
    if (rc < 0)
        return rc;
    *fd = open_beside(d, "");
    if (*fd < 0)
        return errno == ENOENT ? 0 : stk_err_sys(err, d->final, "open folder");
    int vacant = stk_dir_is_empty(*fd, d->final, err);
    rc = vacant < 0 ? vacant : vacant ? 0 : refuse_final(d, *fd, force, err);
    if (rc < 0 || vacant) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

static int look_at_final(const struct stk_dest *d, struct stk_err *err)
{
    int fd, rc = check_final(d, d->force, &fd, err);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* ---- the contents of DST.partial ---- */

struct clearing {
    const struct stk_dest *d;
    struct stk_contents whole; /* if it was complete, and only its name was missing */
    struct stk_left other;
    struct stk_err *err;
};

/* What an unfinished run made: it recorded a shard before that got its name. */
static bool is_written(const struct clearing *c, const char *name)
{
    return is_temporary(name) || is_mark(name) || strcmp(name, STK_DONE_NAME) == 0 ||
           strcmp(name, STK_INDEX_NAME) == 0 || stk_done_find(&c->d->done, name) ||
           stk_contents_name(&c->whole, name);
}

static int find_other(int dir, const char *name, void *user)
{
    struct clearing *c = user;
    (void)dir;
    if (!is_written(c, name) && !c->other.n++)
        snprintf(c->other.first, sizeof c->other.first, "%s", name);
    return 0;
}

static int clear_entry(int dir, const char *name, void *user)
{
    const struct clearing *c = user;
    bool gone = c->d->resumed ? is_temporary(name) : !is_mark(name) && is_written(c, name);
    return gone ? stk_remove_at(dir, name, c->d->partial, c->err) : 0;
}

/* Calls take() for all that is in DST.partial. */
static int sort_partial(struct clearing *c, int (*take)(int dir, const char *name, void *user))
{
    struct stk_err why = {0};
    const struct stk_dest *d = c->d;
    int rc = stk_contents_read(&c->whole, d->fd, d->partial, &why);
    if (rc != STK_E_SYS && rc != STK_E_NOMEM)
        rc = each_entry(d->fd, d->partial, take, c, c->err);
    else if (c->err)
        *c->err = why;
    stk_contents_release(&c->whole);
    return rc;
}

/* Removes what an unfinished run made except its marks; or only temporary files. */
static int clear(const struct stk_dest *d, struct stk_err *err)
{
    return sort_partial(&(struct clearing){.d = d, .err = err}, clear_entry);
}

/* Checks DST.partial: nothing, an unfinished run, a dataset about to get its name, or something
 * else, which is refused. */
static int check_partial(struct stk_dest *d, const struct note *n, struct stk_err *err)
{
    struct clearing c = {.d = d, .err = err};
    char what[300];
    int vacant = stk_dir_is_empty(d->fd, d->partial, err);
    if (vacant != 0)
        return vacant < 0 ? vacant : 0;
    int ours = plan_is_of(d, d->fd, err);
    if (ours < 0)
        return ours;
    if (!ours && !(n->fresh && number_of(d->fd) == n->fresh) &&
        each_entry(d->fd, d->partial, found_other, NULL, NULL) != 0)
        return stk_err_set(
            err, STK_E_EXISTS, d->partial, -1,
            "in the way, and not from an unfinished pack of this dataset; move it away");
    int rc = stk_done_read(&d->done, d->fd, d->partial, err);
    if (rc == 0)
        rc = sort_partial(&c, find_other);
    if (rc == 0 && c.other.n)
        rc = stk_err_set(err, STK_E_EXISTS, d->partial, -1,
                         "in the way: it holds %s, which the unfinished pack there did not write; "
                         "move that away",
                         left_text(&c.other, what, sizeof what));
    return rc;
}

/* ---- claiming ---- */

/* After a run was killed while it removed the dataset that it had replaced. */
static int drop_exchanged(const struct stk_dest *d, const struct note *n, struct stk_err *err)
{
    int fd = -1, rc = n->old ? find_beside(d, ".partial", &fd, err) : 0;
    if (rc == 1 && number_of(fd) == n->old) {
        rc = lock_folder(d, fd, ".partial", err);
        if (rc == 0)
            rc = remove_folder(d, fd, ".partial", err);
    }
    if (fd >= 0)
        close(fd);
    return rc < 0 ? rc : 0;
}

/* After a run was killed on a file system that cannot exchange folders: gives the old dataset its
 * name back, or removes it if the new one is in place. */
static int settle_old(const struct stk_dest *d, const struct note *n, struct stk_err *err)
{
    struct beside b;
    int fd = -1, rc = n->old ? find_beside(d, OLD, &fd, err) : 0;
    if (rc == 1 && number_of(fd) == n->old) {
        int final, whole = find_beside(d, "", &final, err);
        if (whole == 1)
            whole = stk_find_at(final, STK_MANIFEST_NAME, NULL, d->final, err);
        rc = 0;
        if (whole)
            rc = whole < 0 ? whole : remove_folder(d, fd, OLD, err);
        else if (stk_rename_at(d->parent, beside(d, OLD, &b), d->parent, d->name) < 0)
            rc = stk_err_sys(err, d->final, "put the old dataset back in place");
        if (final >= 0)
            close(final);
    }
    if (fd >= 0)
        close(fd);
    return rc < 0 ? rc : 0;
}

/* Hides an incomplete dataset from others. */
static void make_private(int fd)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && st.st_mode & 077)
        (void)fchmod(fd, (st.st_mode & S_ISGID) | 0700);
}

/* Makes, opens and locks DST.partial. */
static int adopt(struct stk_dest *d, const struct note *n, struct stk_err *err)
{
    struct beside b;
    int rc = drop_exchanged(d, n, err);
    if (rc == 0)
        rc = stk_own_folder_at(d->parent, beside(d, ".partial", &b), STK_OWN_MAKE | STK_OWN_PRIVATE,
                               &d->fd, d->partial, err);
    if (rc == 0)
        rc = lock_folder(d, d->fd, ".partial", err);
    return rc < 0 ? rc : check_partial(d, n, err);
}

static int claim(struct stk_dest *d, const struct note *n, struct stk_err *err)
{
    struct beside b;
    int rc = look_at_final(d, err);
    if (rc == 0)
        rc = adopt(d, n, err);
    if (rc < 0)
        return rc;
    make_private(d->fd);
    rc = settle_old(d, n, err);
    if (rc == 0) /* again: another run may have ended between check and lock */
        rc = look_at_final(d, err);
    if (rc < 0)
        (void)stk_rmdir_at(d->parent, beside(d, ".partial", &b)); /* if empty */
    return rc;
}

/* The real path of dst, or of its future parent folder. malloc'ed; NULL: unknown. */
static char *real_part(const char *dst, bool *whole)
{
    char *copy = strdup(dst), *real = copy ? realpath(copy, NULL) : NULL;
    *whole = real != NULL;
    for (bool last = false; copy && !real && !last;) {
        char *slash = strrchr(copy, '/');
        last = !slash || slash == copy;
        if (!last)
            *slash = '\0';
        real = realpath(!slash ? "." : last ? "/" : copy, NULL);
    }
    free(copy);
    return real;
}

int stk_dest_apart(const char *src, const char *dst, struct stk_err *err)
{
    struct stat sb;
    bool whole, inside = false;
    char *from = stat(src, &sb) == 0 && S_ISDIR(sb.st_mode) ? realpath(src, NULL) : NULL;
    char *to = from ? real_part(dst, &whole) : NULL;
    if (to) {
        size_t n = strcmp(from, "/") == 0 ? 0 : strlen(from);
        bool same = strcmp(from, to) == 0;
        inside = same ? !whole : strncmp(from, to, n) == 0 && to[n] == '/';
    }
    free(from);
    free(to);
    return inside ? stk_err_set(err, STK_E_USAGE, dst, -1,
                                "the destination is inside the source; choose one beside it")
                  : 0;
}

void stk_dest_plan_id(const char *plan, char *to)
{
    snprintf(to, 17, "%016llx", (unsigned long long)stk_hash64(plan, strlen(plan)));
}

/* 1 if the dataset at final is the result of the plan. */
static int is_whole(const struct stk_dest *d, const char *plan, struct stk_err *err)
{
    struct stk_manifest m = {0};
    struct stk_err why = {0};
    char id[17], path[STK_FD_PATH];
    int fd, rc = find_beside(d, "", &fd, err);
    if (rc < 1)
        return rc;
    stk_dest_plan_id(plan, id);
    rc = stk_manifest_read(stk_fd_path(fd, NULL, path), &m, &why);
    bool whole = rc == 1 && m.plan && strcmp(m.plan, id) == 0;
    stk_manifest_release(&m);
    close(fd);
    if (rc != STK_E_SYS && rc != STK_E_NOMEM)
        return whole;
    return err ? (*err = why).code : rc;
}

/* Fills in the names, and opens their parent folder. */
static int open_parent(struct stk_dest *d, const char *dst, struct stk_err *err)
{
    const char *name;
    int rc = stk_own_resolve(dst, &d->final, err); /* links are not renamed */
    if (rc < 0)
        return rc;
    size_t above = (size_t)(stk_base_name(d->final) - d->final);
    char *dir = strndup(d->final, above);
    rc = dir ? stk_mkdirs(dir, err) : stk_err_nomem(err, above);
    free(dir);
    if (rc == 0)
        rc = stk_open_parent(d->final, &d->parent, &name, err);
    if (rc < 0)
        return rc;
    if (!name[0] || is_dot(name) || strlen(name) + strlen(NOTE) > NAME_MAX)
        return stk_err_set(err, STK_E_UNSUPPORTED, d->final, -1,
                           "no folder can be put in place there: choose another name");
    d->name = strdup(name);
    if (asprintf(&d->partial, "%s.partial", d->final) < 0)
        d->partial = NULL;
    return d->name && d->partial ? 0 : stk_err_nomem(err, strlen(dst));
}

/* Checks what an earlier run left, as far as it matters. *unfinished: a plan exists. */
static int look_back(struct stk_dest *d, bool resume, const char *plan, bool *unfinished,
                     struct stk_err *err)
{
    bool forced = false;
    int fd = open_beside(d, ".partial"), found = 0;
    if (fd >= 0)
        found = stk_find_at(fd, PLAN_NAME, NULL, d->partial, err);
    else if (resume && !stk_is_absent(errno))
        found = stk_err_sys(err, d->partial, "open folder");
    *unfinished = found > 0;
    int same = resume && *unfinished ? same_plan(d, fd, plan, &forced, err) : found < 0 ? found : 0;
    d->resumed = same == 1;
    d->force = d->force || (d->resumed && forced);
    int whole = resume && !found ? is_whole(d, plan, err) : 0;
    d->whole = whole == 1;
    if (fd >= 0)
        close(fd);
    return same < 0 ? same : whole < 0 ? whole : 0;
}

/* Completes a run that was killed at its very end. */
static int tidy_up(const struct stk_dest *d, const struct note *n, struct stk_err *err)
{
    int rc = drop_exchanged(d, n, err);
    if (rc == 0)
        rc = settle_old(d, n, err);
    return rc < 0 ? rc : drop_note(d, n, err);
}

/* Prepares DST.partial for this run. */
static int prepare(const struct stk_dest *d, bool force, const char *plan, const struct note *n,
                   struct stk_err *err)
{
    int rc = clear(d, err);
    if (rc == 0 && !d->resumed)
        rc = write_plan(d, plan, force, err); /* before an old manifest is removed */
    if (rc == 0 && !d->resumed)
        rc = stk_unlink_at(d->fd, STK_MANIFEST_NAME, d->partial, err);
    if (rc == 0 && n->fresh)
        rc = drop_note(d, n, err); /* from now on the plan identifies the folder */
    return rc;
}

int stk_dest_open(struct stk_dest *d, const char *dst, bool force, bool resume, const char *plan,
                  struct stk_err *err)
{
    bool unfinished;
    struct note note;
    *d = STK_DEST_INIT;
    d->force = force;
    int rc = open_parent(d, dst, err);
    if (rc < 0)
        return rc;
    rc = look_back(d, resume, plan, &unfinished, err);
    rc = rc < 0 ? rc : read_note(d, &note, err);
    if (rc < 0)
        return rc;
    if (d->whole)
        return tidy_up(d, &note, err);
    rc = claim(d, &note, err);
    if (rc < 0)
        return rc;
    if (resume && unfinished && !d->resumed)
        return stk_err_set(err, STK_E_STALE, d->partial, -1,
                           "the unfinished run had another source or other options, or the source "
                           "has changed since; run without --resume to start over");
    return prepare(d, force, plan, &note, err);
}

/* ---- publishing ---- */

/* Sets the mode by the umask (or the parent folder): that of its files, with x for every r. */
static void open_up(const struct stk_dest *d)
{
    struct stat st, file;
    if (fstat(d->fd, &st) == 0 &&
        fstatat(d->fd, STK_MANIFEST_NAME, &file, AT_SYMLINK_NOFOLLOW) == 0)
        (void)fchmod(d->fd, (st.st_mode & S_ISGID) | 0700 | (file.st_mode & 0666) |
                                (file.st_mode & 0444) >> 2);
}

/* Removes the dataset that ours has replaced, unless a new run has claimed its name. */
static int drop_old(const struct stk_dest *d, int old, const char *ending, struct stk_err *err)
{
    bool claimed = strcmp(ending, OLD) == 0 ? !stands_at(d, old, OLD)
                                            : lock_folder(d, old, ending, NULL) < 0;
    return claimed ? 0 : remove_folder(d, old, ending, err);
}

/* If the file system cannot exchange: for a moment there is no dataset. */
static int swap_in_steps(const struct stk_dest *d, struct stk_err *err)
{
    struct beside aside, partial;
    beside(d, OLD, &aside);
    beside(d, ".partial", &partial);
    if (stk_rename_at(d->parent, d->name, d->parent, aside.name) < 0)
        return stk_err_sys(err, d->final, "rename out of the way");
    if (stk_rename_at(d->parent, partial.name, d->parent, d->name) < 0) {
        int rc = stk_err_sys(err, d->final, "rename into place");
        (void)stk_rename_at(d->parent, aside.name, d->parent, d->name);
        return rc;
    }
    return 0;
}

/* Replaces the old dataset by partial. *ending: what the old one is called now. */
static int swap(const struct stk_dest *d, const char **ending, struct stk_err *err)
{
    struct beside b;
    *ending = ".partial";
    if (stk_exchange_at(d->parent, beside(d, ".partial", &b), d->name) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return stk_err_sys(err, d->final, "rename into place");
    *ending = OLD;
    return swap_in_steps(d, err);
}

static int give_name(const struct stk_dest *d, int old, const char **ending, struct stk_err *err)
{
    struct beside b;
    int rc = 0;
    if (!stands_at(d, d->fd, ".partial"))
        rc = stk_err_set(err, STK_E_EXISTS, d->partial, -1,
                         "it was moved away while it was being written, and did not get its "
                         "final name");
    else if (old >= 0)
        rc = swap(d, ending, err);
    else if (stk_rename_at(d->parent, beside(d, ".partial", &b), d->parent, d->name) < 0)
        rc = stk_err_sys(err, d->final, "rename into place");
    if (rc == 0 && !stands_at(d, d->fd, ""))
        rc = stk_err_set(err, STK_E_EXISTS, d->final, -1,
                         "something else was put in its place just now: this is not the dataset "
                         "that was written");
    return rc;
}

int stk_dest_publish(struct stk_dest *d, struct stk_err *err)
{
    const char *ending = ".partial";
    int old, rc = check_final(d, d->force, &old, err); /* it may have changed */
    struct note note = {number_of(d->fd), number_of(old)};
    if (rc == 0 && (!note.fresh || (old >= 0 && !note.old)))
        rc = stk_err_sys(err, d->partial, "stat");
    if (rc == 0)
        rc = write_note(d, &note, err);
    if (rc == 0) /* from now on the note identifies the folder */
        rc = stk_unlink_at(d->fd, PLAN_NAME, d->partial, err);
    if (rc == 0)
        rc = stk_unlink_at(d->fd, STK_DONE_NAME, d->partial, err);
    if (rc == 0) {
        open_up(d);
        rc = give_name(d, old, &ending, err);
    }
    if (rc == 0)
        rc = stk_fsync_dir(d->parent, d->final, err);
    if (rc == 0 && old >= 0)
        rc = drop_old(d, old, ending, err);
    if (rc == 0)
        rc = drop_note(d, &note, err);
    if (old >= 0)
        close(old);
    return rc;
}

void stk_dest_release(struct stk_dest *d)
{
    if (d->fd >= 0)
        close(d->fd);
    if (d->parent >= 0)
        close(d->parent);
    stk_done_release(&d->done);
    free(d->final);
    free(d->partial);
    free(d->name);
    *d = STK_DEST_INIT;
}
