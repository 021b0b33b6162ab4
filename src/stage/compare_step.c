/*
 * compare_step.c - one point of a comparison: several jobs that stage the same form at the same
 * moment, each a process of its own with a folder of its own on the target.
 */
#include "stage/compare_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/pool.h"
#include "base/rank_vars.h"
#include "base/spawn.h"
#include "stage/target.h"

#define COOL_THREADS 16 /* opens wait for the file server, not for a CPU */
#define GRACE_S      20
#define JSON_MAX     (4u << 20)

/* ---- the page cache ------------------------------------------------------------------------- */

static int cool_file(void *user, uint64_t i, unsigned thread, struct stk_err *err)
{
    const struct stk_source *src = user;
    struct stk_file f;
    (void)thread;
    int rc = stk_file_open(&src->files, i, STK_FILE_PLAIN, &f, err);
    if (rc)
        return rc;
    (void)posix_fadvise(f.fd, 0, 0, POSIX_FADV_DONTNEED);
    stk_file_close(&f);
    return 0;
}

/* Drops the pages of a form from the page cache of this node. Opens every file. */
static int cool(const char *path, struct stk_err *err)
{
    struct stk_source src = STK_SOURCE_INIT;
    int rc = stk_source_open(&src, path, NULL, err);
    rc = rc ? rc : stk_pool_run(COOL_THREADS, src.count, cool_file, &src, err);
    stk_source_release(&src);
    return rc;
}

/* ---- the target ----------------------------------------------------------------------------- */

int stk_compare_target(const char *named, uint64_t bytes, uint64_t files, char *path, size_t size,
                       struct stk_err *err)
{
    const struct stk_target_wish wish = {.bytes = bytes, .files = files};
    struct stk_target judged;
    struct stk_targets all;
    struct stat st;
    if (named && (stat(named, &st) != 0 || !S_ISDIR(st.st_mode)))
        return stk_err_set(err, STK_E_USAGE, named, -1,
                           "no such folder: a comparison makes its own folders in an existing DST");
    int rc =
        named ? stk_target_judge(named, &wish, &judged, err) : stk_targets_find(&wish, &all, err);
    if (rc)
        return rc;
    if (named && judged.verdict != STK_TARGET_FITS)
        return stk_err_set(err, STK_E_USAGE, named, -1, "cannot take all copies at once: %s",
                           judged.reason);
    if (!named && all.best >= all.n)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "no folder of this node can take all copies at once: name one as DST, "
                           "or compare fewer jobs at once");
    snprintf(path, size, "%s", named ? named : all.target[all.best].path);
    return 0;
}

/* ---- one job -------------------------------------------------------------------------------- */

/* What a job leaves for the process that started it, in memory that both share. */
struct left {
    struct stk_compare_job times;
    struct stk_err err;
};

struct job {
    struct jobs *all;
    const struct stk_compare_spec *spec;
    const char *self;
    char *dir;
    struct left *left;
    struct stk_child child;
};

struct jobs {
    const struct stk_compare_step *step;
    struct job *job;
    struct left *left;
    uint64_t n, started;
    int start[2]; /* the write end is closed when all begin */
    bool stopped;
};

/* Every job stages alone, whatever launched it, and reads no copy of an earlier one. */
static bool is_kept(const char *var, const void *user)
{
#define NAMES(launcher, rank, size, local_rank, local_size) rank, size, local_rank, local_size,
    static const char *const gone[] = {STK_RANK_LAUNCHERS(NAMES) STK_RANK_NODE, STK_RANK_NODE_TASKS,
                                       "STOKER_TIER"};
#undef NAMES
    (void)user;
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        if (gone[i] && strncmp(var, gone[i], strlen(gone[i])) == 0 && var[strlen(gone[i])] == '=')
            return false;
    return strncmp(var, "STOKER_STAGE_", 13) != 0;
}

/* {"result": {"path": …, "first_seconds": …}} */
static int read_result(struct stk_buf *json, struct stk_form_use *use, double start,
                       struct stk_arena *arena, struct stk_err *err)
{
    struct stk_jval *v = NULL;
    int rc = stk_json_parse(arena, stk_buf_cstr(json), json->len, &v, err);
    const struct stk_jval *result = rc ? NULL : stk_json_get(v, "result");
    const struct stk_jval *path = result ? stk_json_get(result, "path") : NULL;
    const struct stk_jval *first = result ? stk_json_get(result, "first_seconds") : NULL;
    if (rc || !path || path->type != STK_JSTR)
        return rc ? rc : stk_err_set(err, STK_E_CORRUPT, NULL, -1, "stage gave no path");
    use->copy = path->str;
    bool known = first && (first->type == STK_JFLOAT || first->type == STK_JINT);
    use->first_at = known ? start + first->f : use->last_at;
    return 0;
}

static int stage_copy(const struct job *j, struct stk_form_use *use, struct stk_arena *arena,
                      double start, struct stk_err *err)
{
    struct stk_buf json = STK_BUF_INIT;
    char *tier = stk_path_join(j->dir, "tier");
    const char **env = stk_environment(is_kept, NULL, NULL);
    const char *argv[] = {j->self, "stage",       "--quiet", "--json", "-",
                          "--",    j->spec->path, tier,      NULL};
    struct stk_child c = {.argv = argv,
                          .env = env,
                          .fd = {STK_FD_NULL, STK_FD_PIPE, STK_FD_KEEP},
                          .death_signal = SIGTERM,
                          .text = {NULL, &json, NULL},
                          .text_max = {0, JSON_MAX, 0}};
    int rc = tier && env ? 0 : stk_err_nomem(err, strlen(j->dir));
    errno = rc ? 0 : stk_child_start(&c);
    if (!rc && errno)
        rc = stk_err_sys(err, j->self, "start");
    if (!rc)
        (void)stk_child_attend(&c);
    use->last_at = stk_now();
    if (!rc && c.ending.status)
        rc = stk_err_set(err, STK_E_SYS, j->spec->path, -1, "stage ended with status %d",
                         c.ending.status);
    rc = rc ? rc : read_result(&json, use, start, arena, err);
    stk_buf_release(&json);
    free(env);
    free(tier);
    return rc;
}

/* In the job's process. Its children end when the group gets a signal; it waits for them, so that
 * none is left writing when the folder is removed. */
static int job_main(void *user)
{
    struct job *j = user;
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_form_use use = {.dir = j->dir};
    char byte;
    signal(SIGTERM, SIG_IGN);
    close(j->all->start[1]);
    (void)!read(j->all->start[0], &byte, 1); /* until the last write end is closed */
    double start = stk_now();
    int rc = stage_copy(j, &use, &arena, start, &j->left->err);
    if (!rc && j->spec->form->open)
        rc = j->spec->form->open(&use, &j->left->err);
    j->left->times = (struct stk_compare_job){use.first_at - start, use.last_at - start};
    stk_arena_release(&arena);
    return rc ? 1 : 0;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static int on_tick(void *user)
{
    struct jobs *all = ((struct job *)user)->all;
    if (!all->stopped && all->step->stop && all->step->stop(all->step->user))
        all->stopped = true;
    return all->stopped;
}

static int start_job(struct jobs *all, const struct stk_compare_spec *spec, const char *self,
                     const struct stk_folder *work, struct stk_err *err)
{
    struct job *j = &all->job[all->started];
    char name[32];
    int fd = -1;
    snprintf(name, sizeof name, "job%llu", (unsigned long long)all->started);
    *j = (struct job){.all = all,
                      .spec = spec,
                      .self = self,
                      .dir = stk_folder_path(work, name),
                      .left = &all->left[all->started]};
    if (!j->dir)
        return stk_err_nomem(err, sizeof name);
    int rc = stk_folder_below(work, name, &fd, err);
    if (rc)
        return rc;
    close(fd);
    j->child = (struct stk_child){.fd = {STK_FD_NULL, STK_FD_KEEP, STK_FD_KEEP},
                                  .own_group = true,
                                  .grace_s = GRACE_S,
                                  .inside = job_main,
                                  .tick = on_tick,
                                  .user = j};
    errno = stk_child_start(&j->child);
    all->started += errno == 0;
    return errno ? stk_err_sys(err, NULL, "start a job") : 0;
}

static int wait_for_jobs(struct jobs *all, struct stk_err *err)
{
    int rc = 0;
    for (uint64_t i = 0; i < all->started; i++) {
        struct job *j = &all->job[i];
        (void)stk_child_attend(&j->child);
        if (!rc && j->child.ending.status && !all->stopped) {
            rc = j->left->err.code ? j->left->err.code : STK_E_SYS;
            if (err && j->left->err.code)
                *err = j->left->err;
            else
                (void)stk_err_set(err, rc, NULL, -1, "a job was killed");
        }
    }
    return all->stopped ? stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped") : rc;
}

static int run_jobs(struct jobs *all, const struct stk_compare_spec *spec,
                    const struct stk_folder *work, struct stk_err *err)
{
    char self[4096];
    int rc = stk_self_path(self, sizeof self, err);
    if (!rc && pipe2(all->start, O_CLOEXEC) != 0)
        return stk_err_sys(err, NULL, "pipe");
    for (uint64_t i = 0; i < all->n && !rc; i++)
        rc = start_job(all, spec, self, work, err);
    if (rc) /* those that wait for the start must not begin */
        for (uint64_t i = 0; i < all->started; i++)
            stk_child_kill(&all->job[i].child, SIGKILL);
    if (all->start[1] >= 0) {
        close(all->start[1]);
        close(all->start[0]);
    }
    int ended = wait_for_jobs(all, rc ? NULL : err);
    return rc ? rc : ended;
}

static int with_memory(struct jobs *all, const struct stk_compare_spec *spec,
                       const struct stk_folder *work, struct stk_compare_job **out,
                       struct stk_err *err)
{
    size_t bytes = all->n * sizeof *all->left;
    all->left = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    all->job = calloc(all->n, sizeof *all->job);
    *out = calloc(all->n, sizeof **out);
    int rc = all->left == MAP_FAILED || !all->job || !*out ? stk_err_nomem(err, bytes) : 0;
    rc = rc ? rc : run_jobs(all, spec, work, err);
    for (uint64_t i = 0; i < all->n && !rc; i++)
        (*out)[i] = all->left[i].times;
    for (uint64_t i = 0; all->job && i < all->n; i++)
        free(all->job[i].dir);
    if (all->left != MAP_FAILED)
        munmap(all->left, bytes);
    free(all->job);
    return rc;
}

/* ---- the point ------------------------------------------------------------------------------ */

static int stage_at_once(const struct stk_compare_step *s, const struct stk_compare_spec *spec,
                         struct stk_compare_job **out, struct stk_err *err)
{
    struct stk_folder work = STK_FOLDER_INIT;
    struct jobs all = {.step = s, .n = s->jobs, .start = {-1, -1}};
    char target[4096];
    uint64_t bytes = stk_form_target_bytes(spec->form, spec->bytes, spec->files);
    int rc = stk_compare_target(spec->target, s->jobs * bytes, s->jobs * spec->files, target,
                                sizeof target, err);
    rc = rc ? rc : stk_folder_temp(&work, target, STK_COMPARE_PREFIX, err);
    if (rc)
        return rc;
    rc = with_memory(&all, spec, &work, out, err);
    stk_folder_destroy(&work);
    stk_folder_release(&work);
    return rc;
}

int stk_compare_step(const struct stk_compare_step *s, struct stk_compare_job **out,
                     struct stk_err *err)
{
    struct stk_folder dir = STK_FOLDER_INIT;
    struct stk_compare_spec spec = {0};
    *out = NULL;
    if (s->jobs < 1 || s->jobs > STK_POINTS_MAX)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "from 1 to %d jobs at once", STK_POINTS_MAX);
    int rc = stk_folder_find(&dir, s->dir, STK_COMPARE_SPEC, NULL, err);
    rc = rc ? rc : stk_compare_read_spec(&spec, &dir, s->form, err);
    rc = rc ? rc : cool(spec.path, err);
    rc = rc ? rc : stage_at_once(s, &spec, out, err);
    rc = rc ? rc : stk_compare_write_times(&dir, s, *out, err);
    if (rc) {
        free(*out);
        *out = NULL;
    }
    stk_arena_release(&spec.arena);
    stk_folder_release(&dir);
    return rc;
}
