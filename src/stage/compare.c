/*
 * compare.c - a comparison from its plan to its numbers: lists the source, prepares the forms, runs
 * the points (compare_step.c), reads the times that they leave, and removes what it made.
 */
#include "stage/compare_priv.h"

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

#include "base/buf.h"
#include "base/dir.h"
#include "base/file.h"
#include "base/json_fields.h"
#include "base/pool.h"
#include "base/spawn.h"
#include "base/stats.h"
#include "base/units.h"
#include "dataset/place.h"
#include "host/fs.h"

/* One comparison while it runs. */
struct compare {
    const struct stk_compare_plan *plan;
    struct stk_compare *out;
    struct stk_source source;
    char self[4096];
    char *beside;
    char target[4096]; /* "": chosen on each node */
    char *index;       /* of the source, to be removed: it was not there before; or NULL */
    struct stk_folder work, there; /* beside the source, and on the target if that is here */
    uint64_t n[STK_RUNNER_N_MAX];
    size_t nn;
    struct stk_arena arena;
    char doing[200];
};

static bool runs_here(const struct compare *k)
{
    return k->plan->via->can & STK_VIA_CHOOSES;
}

static void note(struct stk_compare *c, const char *fmt, ...) STK_PRINTF(2, 3);
static void note(struct stk_compare *c, const char *fmt, ...)
{
    va_list ap;
    if (c->nnotes == STK_COMPARE_NOTES)
        return;
    va_start(ap, fmt);
    vsnprintf(c->note[c->nnotes++], sizeof c->note[0], fmt, ap);
    va_end(ap);
}

static int tick(void *user)
{
    struct compare *k = user;
    return k->plan->tick ? k->plan->tick(k->plan->user, k->doing) : 0;
}

#define SPEC_MAX  (1u << 20)
#define TIMES_MAX (1u << 20)

/* ---- the description ------------------------------------------------------------------------ */

/* The paths of the forms that are compared. */
struct paths {
    const char *of[STK_FORMS];
};
static const struct stk_jfield path_fields[] = {
#define PATH(form, id)                                                                             \
    {                                                                                              \
        STK_JFIELD(TEXT, id, struct paths, of[form]), .omit = true, .bytes = true                  \
    }
    PATH(STK_FORM_FILES, "files"),
    PATH(STK_FORM_TAR, "tar"),
    PATH(STK_FORM_RECORDS, "records"),
    PATH(STK_FORM_SQUASHFS, "squashfs"),
#undef PATH
    {0},
};

struct spec {
    const char *target;
    uint64_t files, bytes;
    struct paths forms;
};
static const struct stk_jfield spec_fields[] = {
    {STK_JFIELD(TEXT, "target", struct spec, target), .bytes = true},
    {STK_JFIELD(UNSIGNED, "files", struct spec, files), .required = true},
    {STK_JFIELD(UNSIGNED, "bytes", struct spec, bytes), .required = true},
    {STK_JFIELD(STRUCT, "forms", struct spec, forms), .required = true, .table = path_fields},
    {0},
};

int stk_compare_write_spec(const struct stk_compare *c, const char *target,
                           const struct stk_folder *dir, struct stk_err *err)
{
    struct spec s = {.target = target, .files = c->files, .bytes = c->bytes};
    for (size_t i = 0; i < STK_FORMS; i++)
        s.forms.of[i] = c->form[i].path;
    return stk_folder_write_fields(dir, STK_COMPARE_SPEC, spec_fields, &s, true, err);
}

int stk_compare_read_spec(struct stk_compare_spec *s, const struct stk_folder *dir,
                          const char *form, struct stk_err *err)
{
    struct spec got = {0};
    int rc =
        stk_folder_read_fields(dir, STK_COMPARE_SPEC, SPEC_MAX, spec_fields, &s->arena, &got, err);
    if (rc)
        return rc;
    s->form = stk_form_find(form);
    s->path = s->form ? got.forms.of[s->form - stk_forms] : NULL;
    s->target = got.target;
    s->files = got.files;
    s->bytes = got.bytes;
    return s->path ? 0
                   : stk_err_set(err, STK_E_CORRUPT, dir->path, -1,
                                 "\"%.40s\" is not a form of this comparison", form);
}

/* ---- the times ------------------------------------------------------------------------------ */

static const struct stk_jfield job_fields[] = {
    {STK_JFIELD(REAL, "first_s", struct stk_compare_job, first_s)},
    {STK_JFIELD(REAL, "last_s", struct stk_compare_job, last_s)},
    {0},
};
struct times {
    size_t form; /* enum */
    uint64_t n;
    struct stk_compare_job *job;
    size_t njobs;
};
static const struct stk_compare_job no_job = {NAN, NAN};
static const struct stk_jfield times_fields[] = {
    {STK_JFIELD(WORD, "form", struct times, form), .required = true, .words = stk_form_ids},
    {STK_JFIELD(UNSIGNED, "n", struct times, n), .required = true, .min = 1},
    {STK_JFIELD_LIST(STRUCT, "jobs", struct times, job, njobs), .required = true,
     .table = job_fields, .init = &no_job},
    {0},
};

int stk_compare_write_times(const struct stk_folder *dir, const struct stk_compare_step *step,
                            const struct stk_compare_job *job, struct stk_err *err)
{
    const struct times t = {.form = (size_t)(stk_form_find(step->form) - stk_forms),
                            .n = step->n,
                            .job = (struct stk_compare_job *)(uintptr_t)job,
                            .njobs = step->jobs};
    char host[65] = "", name[160];
    (void)gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, STK_COMPARE_RESULTS "/%s.%s.%ld.%.0f", step->form, host,
             (long)getpid(), stk_now() * 1e6);
    return stk_folder_write_fields(dir, name, times_fields, &t, false, err);
}

/* One job, as it was read. */
struct seen {
    size_t form;
    uint64_t n;
    struct stk_compare_job times;
};
struct all_seen {
    struct seen *v;
    size_t n;
};

static int take_times(struct all_seen *all, const struct times *t, struct stk_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < t->njobs && !rc; i++) {
        rc = STK_ARRAY_MORE(all->v, all->n, err);
        if (!rc && !isnan(t->job[i].first_s) && !isnan(t->job[i].last_s))
            all->v[all->n++] = (struct seen){t->form, t->n, t->job[i]};
    }
    return rc;
}

static int read_all(struct all_seen *all, const struct stk_folder *dir, struct stk_err *err)
{
    struct stk_dir d;
    int fd, rc = stk_folder_below(dir, STK_COMPARE_RESULTS, &fd, err);
    if (rc)
        return rc;
    rc = stk_dir_take(&d, fd, dir->path, err);
    for (const struct dirent *e; !rc && (e = stk_dir_next(&d));) {
        struct stk_arena arena = STK_ARENA_INIT;
        struct stk_buf b = STK_BUF_INIT;
        struct times t = {0};
        if (e->d_name[0] == '.' || strstr(e->d_name, ".partial."))
            continue;
        rc = stk_read_file_at(fd, e->d_name, 0, TIMES_MAX, &b, e->d_name, err);
        rc = rc ? rc
                : stk_jfields_parse(times_fields, stk_buf_cstr(&b), b.len, e->d_name, &arena, &t,
                                    err);
        rc = rc ? rc : take_times(all, &t, err);
        stk_buf_release(&b);
        stk_arena_release(&arena);
    }
    return stk_dir_end(&d, rc, err);
}

static int by_point(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;
    return x->form != y->form ? (x->form > y->form) - (x->form < y->form)
                              : (x->n > y->n) - (x->n < y->n);
}

/* The jobs v[0..n) of one point. */
static int add_point(struct stk_compare_form *f, const struct seen *v, size_t n,
                     struct stk_err *err)
{
    struct stk_compare_times t = {.n = v->n, .jobs = n};
    double *first = calloc(2 * n, sizeof *first), *last = first + n;
    int rc = first ? STK_ARRAY_MORE(f->times, f->ntimes, err) : stk_err_nomem(err, n);
    for (size_t i = 0; i < n && !rc; i++) {
        first[i] = v[i].times.first_s;
        last[i] = v[i].times.last_s;
        t.slowest_s = fmax(t.slowest_s, last[i]);
    }
    if (!rc) {
        t.first_s = stk_median(first, n);
        t.last_s = stk_median(last, n);
        f->times[f->ntimes++] = t;
    }
    free(first);
    return rc;
}

int stk_compare_read_times(struct stk_compare *c, const struct stk_folder *dir, struct stk_err *err)
{
    struct all_seen all = {0};
    int rc = read_all(&all, dir, err);
    if (all.n)
        qsort(all.v, all.n, sizeof *all.v, by_point);
    for (size_t i = 0, k; i < all.n && !rc; i = k) {
        for (k = i + 1; k < all.n && by_point(&all.v[i], &all.v[k]) == 0; k++)
            ;
        rc = add_point(&c->form[all.v[i].form], &all.v[i], k - i, err);
    }
    free(all.v);
    return rc;
}

#define GRACE_S  20
#define SAID_MAX 4096

/* ---- the source ----------------------------------------------------------------------------- */

static int on_listed(void *user, uint64_t files)
{
    struct compare *k = user;
    snprintf(k->doing, sizeof k->doing, "listing the source, %llu files",
             (unsigned long long)files);
    return tick(k);
}

static int choose_forms(struct compare *k, struct stk_err *err)
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

static int look_at_source(struct compare *k, struct stk_err *err)
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
        note(c, "%.200s " STK_PLACE_SEEN, k->beside, STK_COMPARE_PREFIX);
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
    uint64_t most = 0, at_once = runs_here(k)        ? k->n[k->nn - 1]
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

static int check_space(struct compare *k, struct stk_err *err)
{
    int rc = check_beside(k, err);
    /* Nodes of jobs have their own disks: each point looks there before it begins. */
    if (rc || !runs_here(k))
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
                          .tick = tick,
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

static int prepare_all(struct compare *k, struct stk_err *err)
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
            note(k->out,
                 "%.200s in %.60s belongs to another comparison: unless that is running, "
                 "remove it",
                 e->d_name, dir);
    if (stk_dir_end(&d, rc, &why) < 0)
        note(k->out, "%.60s: whether another comparison left something is not known: %.150s", dir,
             why.what);
}

static int make_folders(struct compare *k, struct stk_err *err)
{
    struct stat source, beside;
    note_others(k, k->beside);
    if (runs_here(k))
        note_others(k, k->target);
    int fd, rc = stk_folder_temp(&k->work, k->beside, STK_COMPARE_PREFIX, err);
    if (rc)
        return stk_err_wrap(err, rc,
                            "the forms are prepared in a folder on the storage of the source; "
                            "--beside names one that you can write");
    if (stat(k->source.path, &source) == 0 && fstat(k->work.fd, &beside) == 0 &&
        source.st_dev != beside.st_dev)
        note(k->out, "The forms were prepared on another file system than that of the source: "
                     "their times are not those of the source's storage");
    rc = stk_folder_below(&k->work, STK_COMPARE_RESULTS, &fd, err);
    if (!rc)
        close(fd);
    if (!rc && runs_here(k))
        rc = stk_folder_temp(&k->there, k->target, STK_COMPARE_PREFIX, err);
    return rc;
}

static void remove_index(const struct compare *k)
{
    const char *name;
    int dirfd;
    if (k->index && stk_open_parent(k->index, &dirfd, &name, NULL) == 0) {
        (void)stk_unlink_at(dirfd, name, k->index, NULL);
        close(dirfd);
    }
}

static void remove_folders(struct compare *k)
{
    struct stk_folder *const all[] = {&k->there, &k->work};
    for (size_t i = 0; i < 2; i++)
        if (all[i]->fd >= 0) {
            stk_folder_destroy(all[i]);
            if (stk_may_exist(AT_FDCWD, all[i]->path))
                note(k->out, "%.250s could not be removed", all[i]->path);
            stk_folder_release(all[i]);
        }
}

/* ---- points --------------------------------------------------------------------------------- */

static const char *text(struct stk_arena *a, const char *fmt, ...) STK_PRINTF(2, 3);
static const char *text(struct stk_arena *a, const char *fmt, ...)
{
    char out[200];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out, sizeof out, fmt, ap);
    va_end(ap);
    return stk_arena_dup(a, out, (size_t)n);
}

/* Here one process starts all jobs; a scheduler starts a process for each. Paths are not in the
 * command, where braces have a meaning: the study's folder has them. */
static bool make_point(struct compare *k, const struct stk_form *f, uint64_t n, struct stk_point *p)
{
    const char **argv = stk_arena_alloc(&k->arena, 12 * sizeof *argv);
    unsigned long long jobs = n, per_node = k->plan->per_node ? k->plan->per_node : 1;
    *p = (struct stk_point){
        .id = text(&k->arena, "%s-n%llu", f->id, jobs),
        .label = text(&k->arena, "%s with %llu job%s", f->id, jobs, jobs == 1 ? "" : "s"),
        .series = f->id,
        .n = n,
        .argv = argv};
    if (!argv || !p->id || !p->label)
        return false;
    const char *words[] = {k->self,
                           "stage",
                           "--compare-step",
                           f->id,
                           "--compare-of",
                           text(&k->arena, "%llu", jobs),
                           "--compare-here",
                           text(&k->arena, "%llu", runs_here(k) ? jobs : 1),
                           "."};
    memcpy(argv, words, sizeof words);
    argv[sizeof words / sizeof *words] = NULL;
    if (!runs_here(k))
        p->give = (struct stk_resources){.ranks = n, .ranks_per_node = per_node < n ? per_node : n};
    return words[5] && words[7];
}

static int make_points(struct compare *k, struct stk_point **out, size_t *n, struct stk_err *err)
{
    struct stk_point *p = stk_arena_alloc(&k->arena, STK_FORMS * k->nn * sizeof *p);
    *out = p;
    *n = 0;
    for (size_t i = 0; p && i < STK_FORMS; i++)
        for (size_t j = 0; j < k->nn && k->out->form[i].path; j++)
            if (!make_point(k, k->out->form[i].form, k->n[j], &p[(*n)++]))
                p = NULL;
    if (!p)
        return stk_err_nomem(err, STK_FORMS * k->nn * sizeof *p);
    return *n ? 0
              : stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "none of the forms can be staged");
}

static int on_run(void *user, const struct stk_runner_state *st)
{
    struct compare *k = user;
    unsigned long long done = st->done, planned = st->planned;
    char left[32], *at = k->doing;
    size_t size = sizeof k->doing;
    int n =
        st->pending || st->running
            ? snprintf(at, size, "%llu of %llu runs; jobs: %llu running, %llu pending", done,
                       planned, (unsigned long long)st->running, (unsigned long long)st->pending)
            : snprintf(at, size, "run %llu of %llu: %.100s", done + 1, planned,
                       st->label ? st->label : "");
    if (st->left_s >= 1 && n > 0 && (size_t)n < size)
        snprintf(at + n, size - (size_t)n, "; about %s left",
                 stk_format_duration(st->left_s, left, sizeof left));
    return tick(k);
}

static int run_points(struct compare *k, struct stk_err *err)
{
    struct stk_runner_plan p = STK_RUNNER_PLAN_INIT;
    struct stk_runner_watch watch = {.tick = on_run, .user = k};
    struct stk_point *points = NULL;
    char *study = stk_folder_path(&k->work, "study");
    int rc = study ? make_points(k, &points, &p.nvariants, err) : stk_err_nomem(err, 6);
    p.variant = points;
    p.cwd = k->work.path;
    p.pin = false;
    p.runs_min = p.runs_max = k->plan->runs;
    p.warmup = 0;
    p.seed = k->plan->seed;
    p.metric = STK_COMPARE_METRIC;
    p.metric_pick = STK_METRIC_MEDIAN;
    p.unit = "jobs";
    p.weak = p.grows = true;
    p.at_once = 1; /* all points read the same storage */
    p.via = k->plan->via;
    p.sbatch = k->plan->sbatch;
    rc = rc ? rc : stk_runner_new(&p, study, &k->out->runner, err);
    rc = rc ? rc : stk_runner_go(k->out->runner, &watch, err);
    if (rc && k->out->runner)
        (void)stk_runner_cancel(k->out->runner, NULL);
    free(study);
    return rc;
}

/* ---- what it shows -------------------------------------------------------------------------- */

static void fit_bend(struct stk_compare_form *f)
{
    const struct stk_scaling_series *s = f->series;
    struct stk_law_point *point = calloc(s->nrows, sizeof *point);
    struct stk_law_data d = {.point = point, .noise = s->noise, .seed = 1};
    for (size_t i = 0; point && i < s->nrows; i++)
        if (s->row[i].runs)
            point[d.npoints++] = (struct stk_law_point){(double)s->row[i].n, s->row[i].value,
                                                        (double)s->row[i].runs, &s->row[i].own};
    stk_bend_fit(&d, &f->bend);
    free(point);
}

/* The reason of a form of which no run succeeded. */
static void find_failure(struct stk_compare_form *f)
{
    for (size_t i = 0; i < f->series->nrows; i++)
        if (f->series->row[i].runs)
            return;
    const char *why = f->series->nrows ? f->series->row[0].note : NULL;
    snprintf(f->why, sizeof f->why, "every run failed: %s", why ? why : "no run ended");
}

static int compute(struct compare *k, struct stk_err *err)
{
    struct stk_compare *c = k->out;
    struct stk_scaling_options o = {.su = STK_SU_RATES_INIT, .seed = 1};
    int rc = stk_scaling_compute(stk_runner_study(c->runner), &o, &c->scaling, err);
    for (size_t i = 0; i < c->scaling.nseries && !rc; i++) {
        const struct stk_form *form = stk_form_find(c->scaling.series[i].from->name);
        struct stk_compare_form *f = form ? &c->form[form - stk_forms] : NULL;
        if (!f)
            continue;
        f->series = &c->scaling.series[i];
        find_failure(f);
        fit_bend(f);
    }
    return rc ? rc : stk_compare_read_times(c, &k->work, err);
}

static void note_caches(struct compare *k)
{
    struct stk_compare *c = k->out;
    note(c, "Before each run the data was dropped from the page cache of the node; names and "
            "inodes, and the caches of file servers, were not");
    if (stk_fs_of_path(k->source.path)->memory)
        note(c, "The source is in memory: nothing of it can be dropped");
    if (runs_here(k) && k->n[k->nn - 1] > 1)
        note(c, "All jobs at once ran on this node, and may find in its page cache what another "
                "of them has just read; --executor slurm gives each a node");
}

static bool is_complete(const struct stk_compare *c)
{
    size_t n;
    const struct stk_tally *t = stk_runner_tally(c->runner, &n);
    bool all = !c->stopped;
    for (size_t i = 0; i < n; i++)
        all = all && t[i].good >= c->runs;
    return all;
}

static void take_notes(struct compare *k)
{
    const struct stk_runner_conditions *c = stk_runner_conditions(k->out->runner);
    note_caches(k);
    for (size_t i = 0; i < c->nnotes; i++)
        note(k->out, "%s", c->note[i]);
}

static int measure(struct compare *k, struct stk_err *err)
{
    int rc = make_folders(k, err);
    rc = rc ? rc : prepare_all(k, err);
    rc = rc ? rc
            : stk_compare_write_spec(k->out, runs_here(k) ? k->there.path : k->plan->target,
                                     &k->work, err);
    rc = rc ? rc : run_points(k, err);
    k->out->stopped = rc == STK_E_STOPPED;
    if (k->out->runner && (!rc || k->out->stopped) && stk_runner_study(k->out->runner)->nruns) {
        int late = compute(k, rc ? NULL : err);
        rc = rc ? rc : late;
        k->out->complete = is_complete(k->out);
        take_notes(k);
    }
    return rc;
}

int stk_compare(const struct stk_compare_plan *plan, struct stk_compare *out, struct stk_err *err)
{
    struct compare k = {.plan = plan,
                        .out = out,
                        .source = STK_SOURCE_INIT,
                        .work = STK_FOLDER_INIT,
                        .there = STK_FOLDER_INIT};
    *out = (struct stk_compare){.runs = plan->runs, .via = plan->via};
    int rc = stk_self_path(k.self, sizeof k.self, err);
    rc = rc ? rc : stk_runner_parse_n("jobs", plan->jobs, k.n, &k.nn, err);
    rc = rc ? rc : choose_forms(&k, err);
    rc = rc ? rc : look_at_source(&k, err);
    rc = rc ? rc : check_space(&k, err);
    const char *target = k.target[0] ? k.target : plan->target;
    if (!rc && target) {
        out->target = strdup(target);
        out->target_fs = runs_here(&k) ? stk_fs_of_path(target)->name : NULL;
    }
    rc = rc ? rc : measure(&k, err);
    remove_folders(&k);
    remove_index(&k);
    stk_source_release(&k.source);
    stk_arena_release(&k.arena);
    free(k.beside);
    free(k.index);
    return rc;
}

void stk_compare_release(struct stk_compare *c)
{
    stk_scaling_release(&c->scaling);
    stk_runner_free(c->runner);
    for (size_t i = 0; i < STK_FORMS; i++) {
        free(c->form[i].path);
        free(c->form[i].times);
    }
    free(c->source);
    free(c->target);
}

static double prepare_of(const struct stk_compare_form *f)
{
    return isnan(f->prepare_s) ? 0 : f->prepare_s;
}

/* As stk_scaling_verdict(), of the medians in the table. */
struct stk_verdict stk_compare_verdict(const struct stk_compare_form *f,
                                       const struct stk_compare_form *than)
{
    static const struct stk_noise unknown = {.relative_sd = NAN};
    const struct stk_compare_form *form[] = {f, than};
    struct stk_timed side[2];
    struct stk_noise room[2];
    for (size_t k = 0; k < 2; k++) {
        const struct stk_scaling_series *s = form[k]->series;
        double last_s = form[k]->ntimes ? form[k]->times[0].last_s : NAN;
        side[k] = (struct stk_timed){last_s, 1, &unknown, 0};
        for (size_t i = 0; s && i < s->nrows; i++)
            if (form[k]->ntimes && s->row[i].n == form[k]->times[0].n) {
                side[k].runs = s->row[i].runs;
                side[k].noise = stk_noise_of(&s->noise, &s->row[i].own, &room[k]);
            }
    }
    return stk_verdict_of(&side[0], &side[1], STK_VERDICT_ALIKE, STK_FORMS - 1);
}

const struct stk_compare_form *stk_compare_best(const struct stk_compare *c)
{
    const struct stk_compare_form *files = &c->form[STK_FORM_FILES], *best = NULL;
    double fastest = INFINITY;
    bool takes[STK_FORMS] = {false};
    for (size_t i = 0; i < STK_FORMS; i++) {
        const struct stk_compare_form *f = &c->form[i];
        takes[i] = f->ntimes &&
                   (!files->ntimes || stk_compare_verdict(f, files).kind == STK_VERDICT_FASTER);
        if (takes[i])
            fastest = fmin(fastest, f->times[0].last_s);
    }
    for (size_t i = 0; i < STK_FORMS; i++) {
        const struct stk_compare_form *f = &c->form[i];
        if (takes[i] && f->times[0].last_s <= (1 + STK_BEND_TOLERANCE) * fastest &&
            (!best || prepare_of(f) < prepare_of(best)))
            best = f;
    }
    return best || !files->ntimes ? best : files;
}

double stk_compare_pays_after(const struct stk_compare_form *f, const struct stk_compare_form *than)
{
    if (!f->ntimes || !than->ntimes || isnan(f->prepare_s))
        return NAN;
    double saved = than->times[0].last_s - f->times[0].last_s;
    return saved > 0 ? ceil(f->prepare_s / saved) : INFINITY;
}
