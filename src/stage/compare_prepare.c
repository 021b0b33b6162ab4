/*
 * compare_prepare.c - what a comparison needs before its first point: the list of the source, space,
 * folders, and the forms; and their removal.
 */
#include "dataset/place.h"
#include "stage/compare_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/spawn.h"
#include "base/units.h"
#include "host/fs.h"

#define GRACE_S  20
#define SAID_MAX 4096

/* ---- the source ----------------------------------------------------------------------------- */

static int on_listed(void *user, uint64_t files)
{
    struct compare *k = user;
    snprintf(k->doing, sizeof k->doing, "listing the source, %llu files",
             (unsigned long long)files);
    return stk_compare_tick(k);
}

int stk_compare_choose_forms(struct compare *k, struct stk_err *err)
{
    const char *const *ids = k->plan->ids ? k->plan->ids : stk_form_ids;
    for (; *ids; ids++) {
        const struct stk_form *f = stk_form_find(*ids);
        if (!f)
            return stk_err_set(err, STK_E_USAGE, NULL, -1,
                               "\"%.40s\" is not a form: files, tar, records and squashfs are",
                               *ids);
        struct stk_compare_form *to = &k->out->form[f - stk_forms];
        to->form = f;
        to->prepare_s = NAN;
        (void)stk_form_missing(f, to->why, sizeof to->why);
    }
    return 0;
}

/* Listing a dataset keeps its index beside it, if there is none yet. */
static int list_source(struct compare *k, struct stk_err *err)
{
    const struct stk_source_options o = {.progress = on_listed, .user = k};
    char *real = realpath(k->plan->source, NULL), *index = NULL;
    if (!real)
        return stk_err_sys(err, k->plan->source, "open");
    if (asprintf(&index, "%s.stkidx", real) < 0)
        index = NULL;
    if (index && !stk_may_exist(AT_FDCWD, index))
        k->index = index;
    else
        free(index);
    free(real);
    return stk_source_open(&k->source, k->plan->source, &o, err);
}

int stk_compare_look(struct compare *k, struct stk_err *err)
{
    int rc = list_source(k, err);
    if (rc)
        return rc;
    struct stk_compare *c = k->out;
    c->source = strdup(k->source.path);
    c->source_fs = stk_fs_of_path(k->source.path)->name;
    c->files = k->source.count;
    c->bytes = k->source.bytes;
    if (!c->files)
        return stk_err_set(err, STK_E_USAGE, k->source.path, -1, "no file in it");
    const char *path = k->source.path;
    bool inside = false;
    k->beside = k->plan->beside ? strdup(k->plan->beside) : stk_place_beside(path, path, &inside);
    if (inside)
        stk_compare_note(c, "%.200s " STK_PLACE_SEEN, k->beside, STK_COMPARE_PREFIX);
    return c->source && k->beside ? 0 : stk_err_nomem(err, strlen(k->source.path));
}

/* ---- space ---------------------------------------------------------------------------------- */

static bool is_measured(const struct stk_compare_form *f)
{
    return f->form && !f->why[0];
}

static int check_beside(const struct compare *k, struct stk_err *err)
{
    uint64_t need = 0, room;
    struct statvfs fs;
    char a[32], b[32];
    for (size_t i = 0; i < STK_FORMS; i++)
        if (is_measured(&k->out->form[i]))
            need += stk_form_bytes(k->out->form[i].form, k->out->bytes, k->out->files);
    if (!need)
        return 0;
    if (statvfs(k->beside, &fs) != 0)
        return stk_err_sys(err, k->beside, "statvfs");
    room = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (room >= need)
        return 0;
    return stk_err_set(err, STK_E_USAGE, k->beside, -1,
                       "the prepared forms take up to %s, and %s are free: compare fewer forms "
                       "(--forms), or prepare them in another folder of the same storage "
                       "(--beside)",
                       stk_format_size(need, a, sizeof a), stk_format_size(room, b, sizeof b));
}

/* The most that is on a target at once. */
static uint64_t most_bytes(const struct compare *k)
{
    uint64_t most = 0, at_once = stk_compare_runs_here(k)        ? k->n[k->nn - 1]
                                 : k->plan->per_node ? k->plan->per_node
                                                     : 1;
    for (size_t i = 0; i < STK_FORMS; i++)
        if (is_measured(&k->out->form[i])) {
            uint64_t one =
                stk_form_target_bytes(k->out->form[i].form, k->out->bytes, k->out->files);
            most = one > most ? one : most;
        }
    return most * at_once;
}

int stk_compare_check_space(struct compare *k, struct stk_err *err)
{
    int rc = check_beside(k, err);
    /* Nodes of jobs have their own disks: each point looks there before it begins. */
    if (rc || !stk_compare_runs_here(k))
        return rc;
    rc = stk_compare_target(k->plan->target, most_bytes(k), k->out->files * k->n[k->nn - 1],
                            k->target, sizeof k->target, err);
    return rc;
}

/* ---- preparing ------------------------------------------------------------------------------ */

static void say_why(struct stk_compare_form *f, const struct stk_child *c, struct stk_buf *said)
{
    size_t n = said->len;
    while (n && said->data[n - 1] == '\n')
        n--;
    size_t from = n;
    while (from && said->data[from - 1] != '\n')
        from--;
    snprintf(f->why, sizeof f->why, "%s ended with status %d: %.*s",
             f->form->tool ? f->form->tool : "pack", c->ending.status,
             (int)(n - from < 200 ? n - from : 200),
             said->data ? (const char *)said->data + from : "");
}

static int sync_file_system(const char *path, struct stk_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = fd < 0 || syncfs(fd) != 0;
    rc = rc ? stk_err_sys(err, path, "sync") : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Sizes of the form as it was made. */
static int measure_form(struct stk_compare_form *f, struct stk_err *err)
{
    struct stk_source made = STK_SOURCE_INIT;
    int rc = stk_source_open(&made, f->path, NULL, err);
    f->files = made.count;
    f->bytes = made.bytes;
    stk_source_release(&made);
    return rc;
}

/* A form that cannot be made is left out; the others are compared. */
static int prepare(struct compare *k, struct stk_compare_form *f, struct stk_err *err)
{
    struct stk_form_command cmd = {0};
    struct stk_buf said = STK_BUF_INIT;
    double start = stk_now();
    f->path = stk_folder_path(&k->work, f->form->name);
    if (!f->path)
        return stk_err_nomem(err, strlen(f->form->name));
    f->form->prepare(&k->source, k->self, f->path, &cmd);
    struct stk_child c = {.argv = cmd.argv,
                          .fd = {STK_FD_NULL, STK_FD_NULL, STK_FD_PIPE},
                          .own_group = true,
                          .death_signal = SIGTERM,
                          .grace_s = GRACE_S,
                          .tick = stk_compare_tick,
                          .text = {NULL, NULL, &said},
                          .text_max = {0, 0, SAID_MAX},
                          .user = k};
    if (f->form->tool && stk_find_tool(f->form->tool, &c.path, err) < 0)
        return STK_E_UNSUPPORTED;
    snprintf(k->doing, sizeof k->doing, "preparing %s", f->form->id);
    errno = stk_child_start(&c);
    int rc = errno ? stk_err_sys(err, cmd.argv[0], "start") : 0;
    if (!rc)
        (void)stk_child_attend(&c);
    if (!rc && c.stopped)
        rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    if (!rc && c.ending.status)
        say_why(f, &c, &said);
    else if (!rc)
        rc = sync_file_system(k->work.path, err);
    f->prepare_s = stk_now() - start;
    stk_buf_release(&said);
    return rc || f->why[0] ? rc : measure_form(f, err);
}

int stk_compare_prepare(struct compare *k, struct stk_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < STK_FORMS && !rc; i++) {
        struct stk_compare_form *f = &k->out->form[i];
        if (!is_measured(f))
            continue;
        if (f->form->prepare) {
            rc = prepare(k, f, err);
            if (f->why[0]) {
                free(f->path);
                f->path = NULL;
            }
            continue;
        }
        f->path = strdup(k->source.path);
        f->files = k->out->files;
        f->bytes = k->out->bytes;
        rc = f->path ? 0 : stk_err_nomem(err, strlen(k->source.path));
    }
    return rc;
}

/* ---- folders -------------------------------------------------------------------------------- */

/* What a comparison that was killed has left. It may also be running, on another node: nothing but
 * a person can tell. */
static void note_others(struct compare *k, const char *dir)
{
    struct stk_err why = {0};
    struct stk_dir d;
    struct stat st;
    int rc = stk_dir_open_optional(&d, dir, &why);
    for (const struct dirent *e; (e = stk_dir_next(&d));)
        if (strncmp(e->d_name, STK_COMPARE_PREFIX ".", strlen(STK_COMPARE_PREFIX) + 1) == 0 &&
            stk_dir_stat(&d, e, AT_SYMLINK_NOFOLLOW, &st) && st.st_uid == geteuid())
            stk_compare_note(k->out,
                 "%.200s in %.60s belongs to another comparison: unless that is running, "
                 "remove it",
                 e->d_name, dir);
    if (stk_dir_end(&d, rc, &why) < 0)
        stk_compare_note(k->out, "%.60s: whether another comparison left something is not known: %.150s",
                         dir, why.what);
}

int stk_compare_make_folders(struct compare *k, struct stk_err *err)
{
    struct stat source, beside;
    note_others(k, k->beside);
    if (stk_compare_runs_here(k))
        note_others(k, k->target);
    int fd, rc = stk_folder_temp(&k->work, k->beside, STK_COMPARE_PREFIX, err);
    if (rc)
        return stk_err_wrap(err, rc,
                            "the forms are prepared in a folder on the storage of the source; "
                            "--beside names one that you can write");
    if (stat(k->source.path, &source) == 0 && fstat(k->work.fd, &beside) == 0 &&
        source.st_dev != beside.st_dev)
        stk_compare_note(k->out, "The forms were prepared on another file system than that of the source: "
                     "their times are not those of the source's storage");
    rc = stk_folder_below(&k->work, STK_COMPARE_RESULTS, &fd, err);
    if (!rc)
        close(fd);
    if (!rc && stk_compare_runs_here(k))
        rc = stk_folder_temp(&k->there, k->target, STK_COMPARE_PREFIX, err);
    return rc;
}

void stk_compare_remove_index(const struct compare *k)
{
    const char *name;
    int dirfd;
    if (k->index && stk_open_parent(k->index, &dirfd, &name, NULL) == 0) {
        (void)stk_unlink_at(dirfd, name, k->index, NULL);
        close(dirfd);
    }
}

void stk_compare_remove_folders(struct compare *k)
{
    struct stk_folder *const all[] = {&k->there, &k->work};
    for (size_t i = 0; i < 2; i++)
        if (all[i]->fd >= 0) {
            stk_folder_destroy(all[i]);
            if (stk_may_exist(AT_FDCWD, all[i]->path))
                stk_compare_note(k->out, "%.250s could not be removed", all[i]->path);
            stk_folder_release(all[i]);
        }
}
