/*
 * dir.c - which run this is, and the folder of its profile.
 *
 * All tasks that srun or mpirun started together are one run and share one folder, by an id that
 * their launcher gave to all of them. The first task writes that id into the folder (run.id). If
 * the folder holds another run, all tasks move on to DIR-2, DIR-3 ...: nothing is replaced without
 * force, and a requeued job runs. No task waits for another.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "record/priv.h"
#include "sched/rank.h"

#define TOGETHER_S  600 /* ranks without a common id that start within this time are one run */
#define LOCK_NAME   ".stoker-profile.lock"
#define ID_NAME     "run.id"
#define ID_MAX      256u
#define DIRS_MAX    1000u

/* ---- which run ---------------------------------------------------------------------------- */

void stk_launch_safe_name(const char *s, size_t max, char *out, size_t size)
{
    size_t n = 0;
    for (; s[n] && n < max && n + 1 < size; n++)
        out[n] = stk_name_char(s[n]);
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

/* The launcher's name for this run, common to all its tasks. Appends to id; false: there is
 * none. */
static bool launchers_id(const struct stk_launch *l, struct stk_buf *id)
{
    static const char *const mpi[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PALS_APID",
                                      "ALPS_APP_ID", "FLUX_JOB_ID"};
    enum stk_rank_from from = stk_rank_from(&l->rank);
    const char *job = variable("SLURM_JOB_ID");
    const char *step = variable("SLURM_STEP_ID"), *again = variable("SLURM_RESTART_COUNT");
    const char *elastic = variable("TORCHELASTIC_RUN_ID");
    if (from == STK_FROM_TORCHRUN && elastic && strcmp(elastic, "none") != 0) {
        stk_buf_puts(id, "torchrun-");
        put_safe(id, elastic, 60);
        return true;
    }
    if (job && step && from != STK_FROM_OPEN_MPI && from != STK_FROM_MPICH) {
        put_safe(id, job, 30);
        stk_buf_putc(id, '.');
        put_safe(id, step, 30);
        if (again && strcmp(again, "0") != 0)
            stk_buf_printf(id, "-restart%.10s", again);
        return true;
    }
    for (size_t i = 0; i < sizeof mpi / sizeof *mpi; i++) {
        const char *v = from != STK_FROM_TORCHRUN ? variable(mpi[i]) : NULL;
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

/* For ranks that have only their command and number in common. */
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
    if (!l->ranked) {
        stk_buf_printf(&id, "%s-%d-%llu", l->host, (int)getpid(),
                       (unsigned long long)l->start_real_ns);
        stk_buf_puts(folder, when);
    } else if (launchers_id(l, &id)) {
        stk_buf_puts(folder, stk_buf_cstr(&id));
    } else {
        l->by_command = true;
        commands_id(l, &id);
        stk_buf_puts(folder, stk_buf_cstr(&id));
    }
    int n = snprintf(l->stem, sizeof l->stem, "%s.%d", l->host, (int)getpid());
    if (l->ranked)
        snprintf(l->stem + n, sizeof l->stem - (size_t)n, ".r%u", l->rank.rank);
    l->run_id = stk_arena_dup(&l->arena, stk_buf_cstr(&id), id.len);
    stk_buf_release(&id);
    return l->run_id ? 0 : stk_err_nomem(err, 64);
}

/* ---- the folder --------------------------------------------------------------------------- */

/* Creates the folder, and reports why it cannot be written. */
static int open_dir(struct stk_launch *l, const char *path, bool first, struct stk_err *err)
{
    struct stat st;
    if (first && stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        return stk_err_set(err, STK_E_UNSUPPORTED, path, -1, "is a file, not a folder");
    int rc = stk_folder_take(&l->folder, path, l->o.share, &l->made_dir, err);
    if (rc)
        return rc;
    l->dir = l->folder.path;
    snprintf(l->run_name, sizeof l->run_name, "run.%s.json", l->stem);
    if (access(l->dir, W_OK | X_OK) != 0)
        return stk_err_sys(err, l->dir, "write to the folder");
    return 0;
}

static void leave_dir(struct stk_launch *l)
{
    if (l->dir && l->made_dir)
        (void)stk_rmdir_at(AT_FDCWD, l->dir);
    stk_folder_release(&l->folder);
    l->dir = NULL;
    l->made_dir = false;
}

bool stk_launch_is_ours(const char *name)
{
    const char *dot = strrchr(name, '.'), *partial = strstr(name, ".partial.");
    bool run = strncmp(name, "run.", 4) == 0, samples = strncmp(name, "samples.", 8) == 0;
    if (partial)
        return run || samples || strstr(name, STK_LOG_SUFFIX);
    if (!dot)
        return false;
    return strcmp(dot, STK_LOG_SUFFIX) == 0 || (run && strcmp(dot, ".json") == 0) ||
           (samples && strcmp(dot, ".csv") == 0) || strcmp(name, ID_NAME) == 0;
}

/* ---- who else is there -------------------------------------------------------------------- */

enum found { NOBODY, OUR_RUN, ANOTHER };

/* What a scan of the folder shows. */
struct sight {
    bool profile; /* files of a profile */
    bool myself;  /* also one of this rank: the same task a second time is another run */
};

/* remove: deletes the files of profiles. */
static int look_through(struct stk_launch *l, bool remove, struct sight *seen, struct stk_err *err)
{
    char mine[32];
    struct stk_dir d;
    int rc = stk_dir_open_fd(&d, l->folder.fd, l->dir, err);
    snprintf(mine, sizeof mine, ".r%u.json", l->rank.rank);
    *seen = (struct sight){0};
    for (const struct dirent *e; !rc && (e = stk_dir_next(&d));) {
        if (!stk_launch_is_ours(e->d_name))
            continue;
        seen->profile = seen->profile || strcmp(e->d_name, ID_NAME) != 0;
        seen->myself = seen->myself || (strncmp(e->d_name, "run.", 4) == 0 &&
                                        stk_text_ends(e->d_name, strlen(e->d_name), mine));
        if (remove)
            rc = stk_folder_remove(&l->folder, e->d_name, err);
    }
    return stk_dir_end(&d, rc, err);
}

/* Does our run hold the folder? Its first task may have created the file without having written the
 * id yet. */
static enum found whose(const struct stk_launch *l)
{
    enum found found = NOBODY;
    for (unsigned i = 0; i < 20; i++) {
        struct stk_buf text = STK_BUF_INIT;
        struct stat st;
        int rc = stk_folder_read(&l->folder, ID_NAME, ID_MAX, &text, NULL);
        bool whole = !rc && text.len && text.data[text.len - 1] == '\n';
        bool same = whole && text.len == strlen(l->run_id) + 1 &&
                    memcmp(text.data, l->run_id, text.len - 1) == 0;
        int there = stk_find_at(l->folder.fd, ID_NAME, &st, l->dir, NULL);
        bool young = !l->by_command || (there == 1 && st.st_mtime + TOGETHER_S > time(NULL));
        stk_buf_release(&text);
        found = rc && !there ? NOBODY : same && young && l->ranked ? OUR_RUN : ANOTHER;
        if (found != ANOTHER || whole || !l->ranked)
            break;
        usleep(50000);
    }
    return found;
}

/* Claims the folder, unless another run was faster. */
static int claim(struct stk_launch *l, enum found *found, struct stk_err *err)
{
    int fd = stk_create_at(l->folder.fd, ID_NAME, l->folder.mode), rc = 0;
    if (fd < 0 && errno == EEXIST) {
        *found = whose(l);
        return 0;
    }
    if (fd < 0)
        return stk_err_sys(err, l->dir, "create " ID_NAME " in");
    char text[ID_MAX];
    int n = snprintf(text, sizeof text, "%s\n", l->run_id);
    rc = stk_write_full(fd, text, (size_t)n, l->dir, err);
    if (close(fd) != 0 && !rc)
        rc = stk_err_sys(err, l->dir, "write");
    if (rc)
        (void)stk_folder_remove(&l->folder, ID_NAME, NULL);
    *found = OUR_RUN;
    return rc;
}

/* A run claims the folder before it writes files. So if there are files, the holder is known; and
 * if there is no holder, the files belong to a launcher whose claim is gone. */
static int who_is_there(struct stk_launch *l, bool take, enum found *found, struct stk_err *err)
{
    struct sight seen;
    int rc = look_through(l, false, &seen, err);
    if (rc)
        return rc;
    *found = whose(l);
    if (*found == NOBODY && seen.profile)
        *found = ANOTHER;
    if (*found == OUR_RUN && seen.myself)
        *found = ANOTHER;
    return *found == NOBODY && take ? claim(l, found, err) : 0;
}

/* Admits one task of the run at a time. The holder of the lock removes the file: then another
 * file counts. Returns the descriptor, or a negative code. On a file system without locks, none
 * is held. */
static int take_lock(const struct stk_folder *in, struct stk_err *err)
{
    for (unsigned i = 0; i < 600; i++) {
        struct stat held, there;
        int fd, rc = stk_folder_append(in, LOCK_NAME, &fd, err);
        if (rc)
            return rc;
        bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
        if (locked && fstat(fd, &held) == 0 &&
            fstatat(in->fd, LOCK_NAME, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
            held.st_ino == there.st_ino)
            return fd;
        close(fd);
        if (!locked)
            usleep(100000);
    }
    return stk_err_set(err, STK_E_EXISTS, in->path, -1,
                       "another task holds " LOCK_NAME " for a minute");
}

static int force_in(struct stk_launch *l, enum found *found, struct stk_err *err)
{
    int fd = take_lock(&l->folder, err);
    int rc = fd < 0 ? fd : 0;
    struct sight seen;
    if (!rc)
        rc = who_is_there(l, false, found, err);
    if (!rc && *found == ANOTHER)
        rc = look_through(l, true, &seen, err);
    if (!rc && *found != OUR_RUN)
        rc = who_is_there(l, true, found, err);
    if (!rc && *found == OUR_RUN)
        rc = stk_launch_write_run(l, err);
    if (fd >= 0) {
        (void)stk_folder_remove(&l->folder, LOCK_NAME, NULL);
        close(fd);
    }
    return rc;
}

/* 0: the folder is ours, and the run file is written. STK_E_EXISTS: it holds another run's
 * profile, as *another says. */
static int admit(struct stk_launch *l, bool *another, struct stk_err *err)
{
    enum found found = NOBODY;
    *another = false;
    int rc = who_is_there(l, true, &found, err);
    if (!rc && found == OUR_RUN)
        return stk_launch_write_run(l, err);
    if (!rc && l->o.force)
        rc = force_in(l, &found, err);
    if (rc || found == OUR_RUN)
        return rc;
    *another = true;
    return stk_err_set(err, STK_E_EXISTS, l->dir, -1,
                       "this folder holds another run's profile; --force replaces it");
}

/* Reports why the requested folder was not used: it holds another run, or we cannot write it. */
static void say_moved(struct stk_launch *l, bool another, const struct stk_err *why)
{
    char text[1200];
    if (another)
        stk_launch_warn(l,
                        "%s holds the profile of another run; this one goes to %s (--force would "
                        "have replaced the other)",
                        why->path, l->dir);
    else
        stk_launch_warn(l, "%s; the profile goes to %s", stk_err_text(why, text, sizeof text),
                        l->dir);
}

/* All tasks of a run arrive at the same folder: each of them finds the earlier ones taken. */
int stk_launch_take_dir(struct stk_launch *l, struct stk_err *err)
{
    struct stk_buf folder = STK_BUF_INIT;
    int rc = name_run(l, &folder, err);
    if (!rc && l->o.dir) {
        stk_buf_reset(&folder);
        stk_buf_puts(&folder, l->o.dir);
        while (folder.len > 1 && folder.data[folder.len - 1] == '/')
            folder.len--;
    }
    size_t len = folder.len;
    struct stk_err first = {0}; /* of the requested folder */
    bool another = false, taken = false; /* the requested one is */
    for (unsigned i = 1; !rc && i <= DIRS_MAX; i++) {
        folder.len = len;
        if (i > 1)
            stk_buf_printf(&folder, "-%u", i);
        rc = open_dir(l, stk_buf_cstr(&folder), i == 1, err);
        if (!rc)
            rc = admit(l, &another, err);
        if (rc != STK_E_EXISTS || i == DIRS_MAX)
            break;
        if (i == 1 && err)
            first = *err;
        taken = taken || (i == 1 && another);
        leave_dir(l);
        rc = 0;
    }
    if (!rc && first.code && (l->o.dir || l->ranked))
        say_moved(l, taken, &first);
    stk_buf_release(&folder);
    return rc;
}

void stk_launch_drop_dir(struct stk_launch *l)
{
    if (l->dir)
        (void)stk_folder_remove(&l->folder, l->run_name, NULL);
    if (l->dir && !l->ranked) /* in a run of many tasks, others may have joined */
        (void)stk_folder_remove(&l->folder, ID_NAME, NULL);
    leave_dir(l);
}
