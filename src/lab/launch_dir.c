/*
 * launch_dir.c - which run this is, and the folder its profile goes to.
 *
 * All tasks that srun or mpirun started together are one run and share one folder, by an id that
 * their launcher gave to all of them. A folder that holds another run is not touched without force.
 * Nobody waits for anybody: a task looks at a few of the files that are there and adds its own.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "lab/launch_priv.h"

#define RUN_FILES_READ 8u /* a thousand tasks must not read a thousand files each */
#define RUN_FILE_MAX   (1u << 20)
#define TOGETHER_S     600 /* ranks without a common id that begin within this are one run */
#define LOCK_NAME      ".stoker-profile.lock"
#define LOCK_OLD_S     60

/* ---- which run ---------------------------------------------------------------------------- */

void stk_launch_safe_name(const char *s, size_t max, char *out, size_t size)
{
    size_t n = 0;
    for (; s[n] && n < max && n + 1 < size; n++) {
        bool fine = (s[n] >= 'a' && s[n] <= 'z') || (s[n] >= 'A' && s[n] <= 'Z') ||
                    (s[n] >= '0' && s[n] <= '9') || strchr("._-", s[n]);
        out[n] = fine ? s[n] : '_';
    }
    out[n] = '\0';
}

static void put_safe(struct stk_buf *b, const char *s, size_t max)
{
    char name[128];
    stk_launch_safe_name(s, max, name, sizeof name);
    stk_buf_puts(b, name);
}

static const char *variable(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

/* What the launcher calls this run, for all its tasks. Appends to id; false: it does not say. */
static bool launchers_id(const struct stk_launch *l, struct stk_buf *id)
{
    static const char *const mpi[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PALS_APID",
                                      "ALPS_APP_ID", "FLUX_JOB_ID"};
    const char *from = l->rank.from, *job = variable("SLURM_JOB_ID");
    const char *step = variable("SLURM_STEP_ID"), *again = variable("SLURM_RESTART_COUNT");
    const char *elastic = variable("TORCHELASTIC_RUN_ID");
    if (strcmp(from, "torchrun") == 0 && elastic && strcmp(elastic, "none") != 0) {
        stk_buf_puts(id, "torchrun-");
        put_safe(id, elastic, 60);
        return true;
    }
    if (job && step && strcmp(from, "Open MPI") != 0 && strcmp(from, "MPICH") != 0) {
        put_safe(id, job, 30);
        stk_buf_putc(id, '.');
        put_safe(id, step, 30);
        if (again && strcmp(again, "0") != 0)
            stk_buf_printf(id, "-restart%.10s", again);
        return true;
    }
    for (size_t i = 0; i < sizeof mpi / sizeof *mpi; i++) {
        const char *v = strcmp(from, "torchrun") != 0 ? variable(mpi[i]) : NULL;
        if (!v)
            continue;
        if (job) {
            put_safe(id, job, 30);
            stk_buf_putc(id, '-');
        }
        put_safe(id, v, 60);
        return true;
    }
    return false;
}

/* Ranks that have nothing but their command and number in common. */
static void commands_id(const struct stk_launch *l, struct stk_buf *id)
{
    struct stk_buf all = STK_BUF_INIT;
    for (char *const *arg = l->o.argv; *arg; arg++)
        stk_buf_put(&all, *arg, strlen(*arg) + 1);
    stk_buf_puts(&all, l->cwd);
    stk_buf_printf(id, "ranks-%u-%016llx", l->rank.world,
                   (unsigned long long)stk_hash64(all.data, all.len));
    stk_buf_release(&all);
}

static int name_run(struct stk_launch *l, struct stk_buf *folder, struct stk_err *err)
{
    struct stk_buf id = STK_BUF_INIT;
    char when[32];
    time_t now = (time_t)(l->start_real_ns / 1000000000u);
    struct tm tm;
    strftime(when, sizeof when, "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
    stk_buf_printf(folder, "stoker-profile-%s-", l->name);
    int rc = 0;
    if (!l->ranked) {
        stk_buf_printf(&id, "%s-%d-%llu", l->host, (int)getpid(),
                       (unsigned long long)l->start_real_ns);
        stk_buf_puts(folder, when);
    } else if (launchers_id(l, &id)) {
        stk_buf_puts(folder, stk_buf_cstr(&id));
    } else if (l->o.dir) {
        commands_id(l, &id);
    } else {
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1,
                         "%u ranks run together, but %s gives no name that all of them know: say "
                         "with -o which folder they share",
                         l->rank.world, l->rank.from);
    }
    l->run_id = rc ? NULL : stk_arena_dup(&l->arena, stk_buf_cstr(&id), id.len);
    stk_buf_release(&id);
    return rc || l->run_id ? rc : stk_err_nomem(err, 64);
}

/* ---- the folder --------------------------------------------------------------------------- */

/* Alone, a folder of that name is somebody else's (an array job's twin): another name is taken. */
static int make_new(struct stk_buf *folder, struct stk_err *err)
{
    size_t len = folder->len;
    for (unsigned i = 2; mkdir(stk_buf_cstr(folder), 0777) != 0; i++) {
        if (errno != EEXIST || i > 1000)
            return stk_err_sys(err, stk_buf_cstr(folder), "create the folder");
        folder->len = len;
        stk_buf_printf(folder, "-%u", i);
    }
    return 0;
}

int stk_launch_make_dir(struct stk_launch *l, struct stk_err *err)
{
    struct stk_buf folder = STK_BUF_INIT;
    struct stat st;
    int rc = name_run(l, &folder, err);
    if (!rc && l->o.dir) {
        stk_buf_reset(&folder);
        stk_buf_puts(&folder, l->o.dir);
    }
    const char *path = stk_buf_cstr(&folder);
    if (!rc && !l->o.dir && !l->ranked) {
        rc = make_new(&folder, err);
        path = stk_buf_cstr(&folder);
        l->made_dir = rc == 0;
    } else if (!rc) {
        l->made_dir = stat(path, &st) != 0;
        rc = stk_mkdirs(path, err);
    }
    if (!rc && !(l->dir = realpath(path, NULL)))
        rc = stk_err_sys(err, path, "find");
    if (!rc && access(l->dir, W_OK | X_OK) != 0)
        rc = stk_err_sys(err, l->dir, "write to the folder");
    stk_buf_release(&folder);
    if (rc)
        return rc;
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_printf(&b, "%s/run.%s.%d.json", l->dir, l->host, (int)getpid());
    l->run_path = strdup(stk_buf_cstr(&b));
    stk_buf_release(&b);
    return l->run_path ? 0 : stk_err_nomem(err, strlen(l->dir));
}

bool stk_launch_is_ours(const char *name)
{
    const char *dot = strrchr(name, '.');
    if (strstr(name, ".partial.") && (strncmp(name, "run.", 4) == 0 || strstr(name, ".stklog")))
        return true;
    if (!dot)
        return false;
    return strcmp(dot, STK_LOG_SUFFIX) == 0 ||
           (strncmp(name, "run.", 4) == 0 && strcmp(dot, ".json") == 0) ||
           (strncmp(name, "samples.", 8) == 0 && strcmp(dot, ".csv") == 0);
}

/* ---- who is there already ----------------------------------------------------------------- */

enum found { NOBODY, OUR_RUN, ANOTHER };

static bool is_our_run(const struct stk_launch *l, const struct stk_jval *v)
{
    const struct stk_jval *run = stk_json_get(v, "run"), *rank = stk_json_get(v, "rank");
    const struct stk_jval *start = stk_json_get(v, "start_real_ns");
    if (!l->ranked || !run || run->type != STK_JSTR || strcmp(run->str, l->run_id) != 0)
        return false;
    if (!rank || rank->type != STK_JINT || rank->i == l->rank.rank)
        return false; /* the same task a second time is another run */
    if (strncmp(l->run_id, "ranks-", 6) != 0)
        return true;
    double apart_s = start && start->type == STK_JINT
                         ? ((double)l->start_real_ns - (double)start->i) * 1e-9
                         : TOGETHER_S;
    return apart_s < TOGETHER_S && apart_s > -TOGETHER_S;
}

/* Whose run file is it? Its writer may replace it just now, which a network file system may show
 * as a file that cannot be read: tried again. */
static enum found whose(const struct stk_launch *l, const char *name)
{
    enum found found = ANOTHER;
    char *path = stk_path_join(l->dir, name);
    for (unsigned i = 0; path && i < 3; i++) {
        struct stk_buf text = STK_BUF_INIT;
        struct stk_arena a = STK_ARENA_INIT;
        struct stk_jval *v = NULL;
        bool read = stk_read_file(path, RUN_FILE_MAX, &text, NULL) == 0 &&
                    stk_json_parse(&a, (const char *)text.data, text.len, &v, NULL) == 0;
        found = read && is_our_run(l, v) ? OUR_RUN : ANOTHER;
        stk_arena_release(&a);
        stk_buf_release(&text);
        if (read || !l->ranked)
            break;
        usleep(50000);
    }
    free(path);
    return found;
}

/* Looks at files of profiles in the folder; remove: takes them away. *found is NOBODY and *logs
 * set where there are logs, but no run file. */
static int look_through(struct stk_launch *l, bool remove, enum found *found, bool *logs,
                        struct stk_err *err)
{
    DIR *d = opendir(l->dir);
    if (!d)
        return stk_err_sys(err, l->dir, "open");
    unsigned read = 0;
    int rc = 0;
    *found = NOBODY;
    *logs = false;
    for (struct dirent *e; !rc && (e = readdir(d));) {
        bool partial = strstr(e->d_name, ".partial.");
        if (!stk_launch_is_ours(e->d_name))
            continue;
        *logs = *logs || !partial;
        if (remove && unlinkat(dirfd(d), e->d_name, 0) != 0 && errno != ENOENT)
            rc = stk_err_sys(err, l->dir, "remove %.200s", e->d_name);
        if (!remove && !partial && *found != ANOTHER && strncmp(e->d_name, "run.", 4) == 0 &&
            read++ < RUN_FILES_READ)
            *found = whose(l, e->d_name);
    }
    closedir(d);
    return rc;
}

static int who_is_there(struct stk_launch *l, enum found *found, struct stk_err *err)
{
    bool logs = false;
    int rc = look_through(l, false, found, &logs, err);
    /* A file that came while we looked may be seen before one that came earlier: once more. */
    if (!rc && *found == NOBODY && logs && l->ranked)
        rc = look_through(l, false, found, &logs, err);
    if (!rc && *found == NOBODY && logs)
        *found = ANOTHER; /* of a launcher whose file is gone */
    return rc;
}

/* One task of the run at a time; an old lock's owner was killed. The descriptor, or negative. */
static int take_lock(const char *path, struct stk_err *err)
{
    struct stat st;
    for (unsigned i = 0; i < 600; i++) {
        int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd >= 0 ? fd : stk_err_sys(err, path, "create");
        if (stat(path, &st) == 0 && st.st_mtime + LOCK_OLD_S < time(NULL))
            unlink(path);
        usleep(100000);
    }
    return stk_err_set(err, STK_E_EXISTS, path, -1, "another task holds this file for a minute");
}

static int force_in(struct stk_launch *l, struct stk_err *err)
{
    char *path = stk_path_join(l->dir, LOCK_NAME);
    int fd = path ? take_lock(path, err) : stk_err_nomem(err, 64);
    int rc = fd < 0 ? fd : 0;
    enum found found = NOBODY;
    bool logs;
    if (!rc)
        rc = who_is_there(l, &found, err);
    if (!rc && found == ANOTHER)
        rc = look_through(l, true, &found, &logs, err);
    if (!rc)
        rc = stk_launch_write_run(l, err);
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    free(path);
    return rc;
}

int stk_launch_admit(struct stk_launch *l, struct stk_err *err)
{
    enum found found = NOBODY;
    int rc = l->made_dir && !l->ranked ? 0 : who_is_there(l, &found, err);
    if (rc)
        return rc;
    if (found == ANOTHER && l->o.force)
        return force_in(l, err);
    if (found == ANOTHER)
        return stk_err_set(err, STK_E_EXISTS, l->dir, -1,
                           "this folder holds the profile of another run; choose another with -o");
    return stk_launch_write_run(l, err);
}
