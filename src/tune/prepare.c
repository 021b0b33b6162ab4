/*
 * prepare.c - the folders of a call, and what the candidates need in them: data in another form or
 * place, made by child processes. A candidate that cannot be prepared is skipped by name.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/units.h"
#include "dataset/place.h"
#include "model/work.h"
#include "record/launch.h"
#include "tune/spec.h"

#define GRACE_S     20
#define SAID_MAX    8192
#define WORDS_MAX   24
#define TIME_SHARE  0.5          /* of the budget: for all preparing */
#define SPARE_BYTES (64u << 20)  /* stay free */
#define PIECE       (1u << 20)   /* of a read */
#define PER_FILE    4096u        /* bytes that a copy adds to each file, at most */

/* ---- folders -------------------------------------------------------------------------------- */

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

/* The folder of which the data is a part by a finding, or the data. Caller frees. */
static char *dataset_of(const struct stk_tuner *t, const char *data)
{
    char *root = strdup(data);
    for (size_t i = 0; root && i < t->plan->nactions; i++) {
        const struct stk_action *a = &t->plan->action[i];
        if ((a->kind == STK_ACT_LOADER || a->kind == STK_ACT_PACK) && a->path &&
            is_below(root, a->path)) {
            free(root);
            root = strdup(a->path);
        }
    }
    return root;
}

static char *beside(struct stk_tuner *t, const char *data)
{
    bool inside;
    char *root = data ? dataset_of(t, data) : NULL;
    char *up = root ? stk_place_beside(data, root, &inside) : NULL;
    free(root);
    if (up && inside)
        stk_tune_note(t->out, "%.200s " STK_PLACE_SEEN, up, STK_TUNE_PREFIX);
    return up;
}

int stk_tune_folders(struct stk_tuner *t, struct stk_err *err)
{
    /* Checkpoints may go to other storage, where copies of the data have no business. */
    const char *data = t->s.source && !t->plan->data ? t->s.source : t->s.save;
    char *up = t->plan->beside ? strdup(t->plan->beside) : beside(t, data);
    int rc = stk_folder_temp(&t->work, up ? up : ".", STK_TUNE_PREFIX, err);
    if (!rc)
        rc = stk_folder_lock(&t->work, err);
    else
        rc = stk_err_wrap(err, rc,
                          "prepared data and results lie in a folder on the storage of the data; "
                          "--beside names one that you can write");
    free(up);
    return rc;
}

void stk_tune_name_folders(struct stk_tuner *t)
{
    for (size_t i = 0; i < t->s.nnear; i++) {
        t->there_path[i] =
            stk_tune_text(t, "%s/%s", t->s.near[i].path, stk_base_name(t->work.path));
        if (t->earlier && t->there_path[i])
            (void)stk_folder_find(&t->there[i], t->there_path[i], STK_TUNE_SPEC, NULL, NULL);
    }
}

/* The folder of the call on storage number i, made when it is first needed. */
static int enter_near(struct stk_tuner *t, size_t i, const char **path, struct stk_err *err)
{
    struct stk_folder *f = &t->there[i];
    bool made;
    int rc = f->fd >= 0 ? 0 : stk_folder_take(f, t->there_path[i], false, &made, err);
    *path = rc ? NULL : f->path;
    return rc;
}

void stk_tune_indexes_of(struct stk_arena *a, const char *data, const char *index[STK_TUNE_PLACES])
{
    const struct stk_dataset ds = {.path = (char *)(uintptr_t)data};
    char *place[STK_PLACES];
    size_t n = 0;
    for (size_t i = 0; i < STK_TUNE_PLACES; i++)
        index[i] = NULL;
    if (!data || stk_places(&ds, NULL, 0, place, NULL) != 0)
        return;
    for (size_t i = 0; i < STK_PLACES && place[i] && n < STK_TUNE_PLACES; i++)
        if (!stk_may_exist(AT_FDCWD, place[i]))
            index[n++] = stk_arena_dup(a, place[i], strlen(place[i]));
    stk_places_free(place);
}

void stk_tune_note_indexes(struct stk_tuner *t)
{
    if (t->earlier) { /* an index that is there now may be its own */
        stk_tune_spec_indexes(t->earlier, t->index);
        return;
    }
    stk_tune_indexes_of(&t->out->arena, t->s.source, t->index);
    stk_tune_indexes_of(&t->out->arena, t->s.save, t->index + STK_TUNE_PLACES);
}

void stk_tune_remove_index(const char *index)
{
    if (index)
        stk_place_remove(index);
}

static void remove_indexes(const char *const *index)
{
    for (size_t i = 0; i < STK_TUNE_INDEXES; i++)
        stk_tune_remove_index(index[i]);
}

void stk_tune_remove_indexes(struct stk_tuner *t)
{
    remove_indexes(t->index);
}

static bool is_ours(const char *path)
{
    return strncmp(stk_base_name(path), STK_TUNE_PREFIX ".", sizeof STK_TUNE_PREFIX) == 0;
}

bool stk_tune_begins(const char *name, const char *with)
{
    size_t n = strlen(with);
    return strncmp(name, with, n) == 0 && (!name[n] || name[n] == '.');
}

/* What is in a folder before, or without, its description. */
static bool is_first(const char *name)
{
    return stk_tune_begins(name, STK_TUNE_SPEC) || strcmp(name, "study") == 0 || stk_tune_begins(name, "before.sh") ||
           stk_tune_begins(name, "after.sh") || stk_launch_is_ours(name);
}

/* What tune makes: its own files, and a copy or files per candidate. */
struct made {
    const struct stk_tuner *t;
    const struct stk_tune_spec *spec; /* one of them may be NULL */
};

static bool is_made(void *user, const char *name)
{
    static const char *const own[] = {STK_TUNE_STATUS, STK_TUNE_FIRST, STK_TUNE_SECOND, "sample",
                                      "loader.stkidx", "checkpoint",   "stoker-bench-checkpoint"};
    const struct made *m = user;
    bool made = is_first(name) || (m->spec && stk_tune_spec_names(m->spec, name));
    for (size_t i = 0; !made && i < sizeof own / sizeof *own; i++)
        made = stk_tune_begins(name, own[i]);
    for (size_t i = 0; !made && m->t && i < m->t->out->n; i++)
        made = stk_tune_begins(name, m->t->out->candidate[i].id);
    return made;
}

/* Those of an earlier call: storage that it tried may not be tried now. */
static void remove_folders(const char *const *path, struct made *made, struct stk_left *left)
{
    for (; path && *path; path++) {
        struct stk_folder f = STK_FOLDER_INIT;
        if (is_ours(*path) && stk_folder_find(&f, *path, STK_TUNE_SPEC, NULL, NULL) == 0)
            stk_folder_destroy_ours(&f, STK_TUNE_SPEC, is_made, made, left);
        stk_folder_release(&f);
    }
}

void stk_tune_remove(struct stk_tuner *t)
{
    struct stk_folder *all[STK_TUNE_NEAR + 2] = {&t->work, &t->saves};
    struct made made = {t, t->earlier};
    struct stk_left left = {0};
    if (t->earlier)
        remove_folders(stk_tune_spec_folders(t->earlier), &made, &left);
    for (size_t i = 0; i < STK_TUNE_NEAR; i++)
        all[i + 2] = &t->there[i];
    for (size_t i = STK_TUNE_NEAR + 2; i-- > 0;) {
        if (all[i]->fd < 0)
            continue;
        stk_folder_destroy_ours(all[i], STK_TUNE_SPEC, is_made, &made, &left);
        if (!left.n && stk_may_exist(AT_FDCWD, all[i]->path))
            stk_tune_note(t->out, "%.250s could not be removed", all[i]->path);
    }
    if (left.n)
        stk_tune_note(t->out, "%.250s was not removed: tune did not make it", left.first);
}

static int clean_spec(struct stk_tune_spec *s, struct stk_left *left, struct stk_err *err)
{
    struct made made = {NULL, s};

    int rc = stk_folder_lock(&s->folder, err);
    if (!rc && stk_tune_spec_is_jobs(s))
        rc = stk_tune_cancel(&s->folder, err);
    if (rc)
        return rc;
    const char *index[STK_TUNE_INDEXES] = {0};
    stk_tune_spec_indexes(s, index);
    remove_indexes(index);
    remove_folders(stk_tune_spec_folders(s), &made, left);
    stk_folder_destroy_ours(&s->folder, STK_TUNE_SPEC, is_made, &made, left);
    return 0;
}

/* A call that was killed before it had described its folder, or while it profiled or checked a
 * command. False: it is not such a folder, or holds something else. */
static bool is_bare(const struct stk_folder *f)
{
    bool ours = strncmp(stk_base_name(f->path), STK_TUNE_PREFIX, sizeof STK_TUNE_PREFIX - 1) == 0;
    struct stk_dir d;
    int rc = stk_dir_open_fd(&d, f->fd, f->path, NULL);
    for (const struct dirent *e; ours && (e = stk_dir_next(&d));)
        ours = is_first(e->d_name);
    return stk_dir_end(&d, rc, NULL) == 0 && ours;
}

/* rc: why it has no description. */
static int clean_bare(const char *dir, int rc, struct stk_err *err)
{
    struct stk_folder f = STK_FOLDER_INIT;
    if (stk_folder_find(&f, dir, STK_TUNE_SPEC, NULL, NULL) == 0 && is_bare(&f)) {
        rc = stk_folder_lock(&f, err);
        if (!rc)
            stk_folder_destroy(&f);
    }
    stk_folder_release(&f);
    return rc;
}

int stk_tune_clean(const char *dir, struct stk_left *left, struct stk_err *err)
{
    struct stk_tune_spec s = STK_TUNE_SPEC_INIT;
    int rc = stk_tune_spec_open(&s, dir, err);
    rc = rc ? clean_bare(dir, rc, err) : clean_spec(&s, left, err);
    stk_tune_spec_close(&s);
    return rc;
}

/* ---- space ---------------------------------------------------------------------------------- */

uint64_t stk_tune_free_bytes(const char *path)
{
    struct statvfs fs;
    if (statvfs(path, &fs) != 0)
        return 0;
    uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
    return room > SPARE_BYTES ? room - SPARE_BYTES : 0;
}

static void skip(struct stk_tune_candidate *c, const char *fmt, ...) STK_PRINTF(2, 3);
static void skip(struct stk_tune_candidate *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->why, sizeof c->why, fmt, ap);
    va_end(ap);
    c->verdict = STK_TUNE_SKIPPED;
}

/* Bytes that a copy takes, at most. */
static uint64_t need_bytes(const struct stk_tune_subject *s, const struct stk_tune_change *c)
{
    return (c->use == STK_USE_INDEX ? 0 : s->bytes) + s->files * PER_FILE;
}

/* False: there is no room for it. */
static bool has_room(const struct stk_tuner *t, struct stk_tune_candidate *c, const char *dir,
                     uint64_t used)
{
    const struct stk_tune_change *x = &c->change[0];
    uint64_t need = need_bytes(&t->s, x), room = stk_tune_free_bytes(dir);
    uint64_t limit = t->plan->space_bytes;
    char a[32], b[32];
    if (x->where && t->s.near[x->near].room_bytes < room)
        room = t->s.near[x->near].room_bytes;
    uint64_t whole = stk_tune_whole_bytes(&t->s);
    if (x->where && whole > room)
        skip(c, "all of the data, %s, does not fit into %.150s, where %s are free",
             stk_format_size(whole, a, sizeof a), dir, stk_format_size(room, b, sizeof b));
    else if (need > room)
        skip(c, "it needs %s in %.150s, and %s are free", stk_format_size(need, a, sizeof a), dir,
             stk_format_size(room, b, sizeof b));
    else if (limit && used + need > limit)
        skip(c, "it needs %s, and --space %s is taken by other copies",
             stk_format_size(need, a, sizeof a), stk_format_size(limit, b, sizeof b));
    return c->verdict != STK_TUNE_SKIPPED;
}

/* ---- one copy ------------------------------------------------------------------------------- */

const char *stk_tune_last_line(struct stk_buf *said)
{
    char *text = (char *)(uintptr_t)stk_buf_cstr(said), *line = text;
    size_t n = strlen(text);
    while (n && text[n - 1] == '\n')
        text[--n] = '\0';
    for (char *at = text; (at = strchr(at, '\n')); *at++ = '\0')
        line = strncmp(at + 1, "  hint:", 7) == 0 ? line : at + 1;
    return strncmp(line, "stoker: ", 8) == 0 ? line + 8 : line;
}

static int sync_folder(const char *path, struct stk_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = fd < 0 || syncfs(fd) != 0;
    rc = rc ? stk_err_sys(err, path, "sync") : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

static int measure_copy(struct stk_tune_copy *copy, struct stk_err *err)
{
    struct stk_tune_tree seen = {0};
    int rc = stk_tune_measure_tree(copy->path, &seen, err);
    copy->bytes = seen.bytes;
    copy->files = seen.files;
    return rc;
}

/* `stoker stage` prints the path of the copy; others make it where they were told. */
static const char *made_at(struct stk_tuner *t, struct stk_buf *printed, const char *path)
{
    char *text = (char *)(uintptr_t)stk_buf_cstr(printed);
    text[strcspn(text, "\n")] = '\0';
    return *text == '/' ? stk_tune_text(t, "%s", text) : path;
}

/* What making a copy takes on modelled storage: all of the data is read, and the copy written. */
static double modelled_s(const struct stk_tuner *t, const struct stk_tune_change *x)
{
    const struct stk_storage *from = &t->s.storage, *to = x->where ? &t->s.near[x->near].storage : from;
    struct stk_work read = stk_work_read(from, (double)t->s.bytes, PIECE);
    const struct stk_work write = {.creates = (double)x->copy.files,
                                   .written = (double)x->copy.bytes};
    read.opens = (double)t->s.files;
    read.requests = fmax(read.requests, read.opens);
    return stk_work_s(from, &read) + stk_work_s(to, &write);
}

static int run_prepare(struct stk_tuner *t, struct stk_tune_candidate *c, double limit_s,
                       struct stk_err *err)
{
    struct stk_tune_change *x = &c->change[0];
    const char *argv[WORDS_MAX];
    struct stk_buf printed = STK_BUF_INIT, said = STK_BUF_INIT;
    x->kind->prepare(t, x, argv, WORDS_MAX);
    struct stk_child child = {.argv = argv,
                              .fd = {STK_FD_NULL, STK_FD_PIPE, STK_FD_PIPE},
                              .own_group = true,
                              .death_signal = SIGTERM,
                              .timeout_s = t->plan->storage ? 0 : limit_s,
                              .grace_s = GRACE_S,
                              .tick = stk_tuner_tick,
                              .text = {NULL, &printed, &said},
                              .text_max = {0, SAID_MAX, SAID_MAX},
                              .user = t};
    double start = stk_tuner_now(t);
    errno = stk_child_start(&child);
    int rc = errno ? stk_err_sys(err, argv[0], "start") : 0;
    if (!rc)
        (void)stk_child_attend(&child);
    if (!rc && child.stopped)
        rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    else if (!rc && child.timed_out)
        skip(c, "preparing it took more than %.0f s, its share of the budget: use a larger "
                "--budget",
             limit_s);
    else if (!rc && child.ending.status)
        skip(c, "%.280s", stk_tune_last_line(&said));
    else if (!rc)
        rc = sync_folder(t->work.path, err);
    x->copy.at = made_at(t, &printed, x->copy.path);
    stk_buf_release(&printed);
    stk_buf_release(&said);
    if (!rc && c->verdict != STK_TUNE_SKIPPED) {
        bool again = x->kind->repacks && t->packed;
        rc = measure_copy(&x->copy, err);
        t->passed_s += t->plan->storage ? modelled_s(t, x) : 0;
        x->copy.prepare_s = stk_tuner_now(t) - start + (again ? t->packed->prepare_s : 0);
        if (x->kind->repacks && !t->packed && !x->where)
            t->packed = &x->copy;
    }
    return rc;
}

/* ---- after a call that was stopped ---------------------------------------------------------- */

/* A copy that was made to its end is used again. */
static void adopt_copy(struct stk_tuner *t, struct stk_tune_candidate *c)
{
    struct stk_tune_change *x = &c->change[0];
    const struct stk_folder *f = x->where ? &t->there[x->near] : &t->work;
    struct stk_tune_copy old = {0};
    if (f->fd < 0 || !stk_tune_spec_copy(t->earlier, c->id, &old) || access(old.at, R_OK) != 0)
        return;
    old.path = stk_tune_text(t, "%s/%s", f->path, x->copy.path);
    old.at = stk_tune_text(t, "%s", old.at);
    if (!old.path || !old.at)
        return;
    x->copy = old;
    if (x->kind->repacks && !t->packed && !x->where)
        t->packed = &x->copy;
}

/* One that was not is made anew, unless its program resumes it. */
static int remove_rest(const char *path, struct stk_err *err)
{
    return stk_remove_tree(path, err);
}

/* Storage that takes no folder is no reason to give up the other candidates. */
static bool enter(struct stk_tuner *t, struct stk_tune_candidate *c, const char **dir)
{
    const struct stk_tune_change *x = &c->change[0];
    struct stk_err why = {0};
    char text[300];
    if (!x->where || enter_near(t, x->near, dir, &why) == 0)
        return true;
    stk_err_text(&why, text, sizeof text);
    skip(c, "%s", text);
    return false;
}

static int prepare(struct stk_tuner *t, struct stk_tune_candidate *c, uint64_t *used,
                   double limit_s, struct stk_err *err)
{
    struct stk_tune_change *x = &c->change[0];
    const char *dir = t->work.path, *id = x->copy.path;
    int rc = 0;
    if (!enter(t, c, &dir))
        return 0;
    x->copy.path = stk_tune_text(t, "%s/%s", dir, id);
    if (!x->copy.path)
        return stk_err_nomem(err, strlen(dir));
    rc = t->earlier ? remove_rest(x->copy.path, err) : 0;
    if (rc)
        return rc;
    if (!has_room(t, c, dir, *used))
        return 0;
    if (stk_tuner_doing(t, "preparing: %s", c->label))
        return stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    rc = run_prepare(t, c, limit_s, err);
    *used += x->copy.bytes;
    return rc ? rc : stk_tune_write_spec(t, err);
}

static bool needs_copy(const struct stk_tune_candidate *c)
{
    return c->nchanges == 1 && c->change[0].copy.path && c->change[0].kind->prepare &&
           c->verdict == STK_TUNE_UNCLEAR;
}

static bool saves_there(const struct stk_tuner *t, const struct stk_tune_candidate *c)
{
    return c->nchanges == 1 && c->change[0].kind->helps == STK_HELPS_SAVES &&
           c->verdict == STK_TUNE_UNCLEAR && stk_tune_saves_at(t, &c->change[0]);
}

void stk_tune_adopt_copies(struct stk_tuner *t)
{
    for (size_t i = 1; t->earlier && !t->changed && i < t->out->n; i++)
        if (needs_copy(&t->out->candidate[i]))
            adopt_copy(t, &t->out->candidate[i]);
}

int stk_tune_prepare(struct stk_tuner *t, struct stk_err *err)
{
    double until = stk_tuner_now(t) + TIME_SHARE * stk_tuner_left_s(t);
    uint64_t used = 0;
    int rc = stk_tune_write_spec(t, err); /* what is made now is removed by these names */
    for (size_t i = 1; i < t->out->n && !rc; i++) {
        struct stk_tune_candidate *c = &t->out->candidate[i];
        double left = until - stk_tuner_now(t);
        const char *dir;
        if (saves_there(t, c))
            (void)enter(t, c, &dir);
        if (!needs_copy(c))
            continue;
        if (c->change[0].copy.at) {
            used += c->change[0].copy.bytes;
            continue;
        }
        if (left < 1)
            skip(c, "no time is left to prepare it: use a larger --budget");
        else
            rc = prepare(t, c, &used, left, err);
    }
    return rc;
}
