/* scratch.c - the list of folders for copies on a node, and the names of jobs. */
#include "host/scratch.h"
#include "base/dir.h"
#include "base/own.h"
#include "base/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/root.h"

#define NAMES_MAX 9 /* tried if others have taken the usual one */

/* Memory last: what is in it counts against the job. */
static const char *const names[STK_SCRATCHES] = {
    "$STOKER_SCRATCH", "$SLURM_TMPDIR", "$TMPDIR", "$SCRATCH", "/scratch_local", "/tmp", "/dev/shm",
};

static const char *value(const char *variable)
{
    const char *text = getenv(variable);
    return text && *text ? text : NULL;
}

size_t stk_scratch_list(struct stk_scratch out[STK_SCRATCHES])
{
    for (size_t i = 0; i < STK_SCRATCHES; i++)
        out[i] =
            (struct stk_scratch){names[i], names[i][0] == '$' ? value(names[i] + 1) : names[i]};
    return STK_SCRATCHES;
}

static const char *const schedulers[] = {"", "slurm", "pbs", "lsf", "flux", "sge", "other", NULL};

const char *stk_scheduler_name(enum stk_scheduler scheduler)
{
    return scheduler ? schedulers[scheduler] : NULL;
}

enum stk_scheduler stk_scheduler_of(const char *name)
{
    int i = stk_text_index(name ? name : "", schedulers);
    return i < 0 ? STK_SCHEDULER_OTHER : (enum stk_scheduler)i;
}

const char *stk_job_detect(enum stk_scheduler *scheduler)
{
    static const char *const variable[] = {[STK_SCHEDULER_SLURM] = "SLURM_JOB_ID",
                                           [STK_SCHEDULER_PBS] = "PBS_JOBID",
                                           [STK_SCHEDULER_LSF] = "LSB_JOBID",
                                           [STK_SCHEDULER_FLUX] = "FLUX_JOB_ID",
                                           [STK_SCHEDULER_SGE] = "JOB_ID"};
    const char *job = NULL;
    enum stk_scheduler which = STK_SCHEDULER_NONE;
    while (!job && ++which < STK_SCHEDULER_OTHER)
        job = value(variable[which]);
    if (scheduler)
        *scheduler = job ? which : STK_SCHEDULER_NONE;
    return job;
}

/* ---- what a tier is private to ------------------------------------------------------------ */

#define SESSION "session-"

struct session {
    long sid;
    char boot[12];         /* the begin of the boot id */
    unsigned long long ns; /* of process ids: numbers of another one mean nothing here */
};

static void read_boot(char boot[12])
{
    char id[64];
    stk_host_line("/proc/sys/kernel/random/boot_id", id, sizeof id);
    snprintf(boot, 12, "%.8s", id[0] ? id : "unknown");
}

static unsigned long long read_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (unsigned long long)st.st_ino : 0;
}

const char *stk_session_id(char buf[STK_JOB_ID_MAX])
{
    char boot[12];
    read_boot(boot);
    snprintf(buf, STK_JOB_ID_MAX, SESSION "%ld-%s-%llu", (long)getsid(0), boot, read_namespace());
    return buf;
}

const char *stk_job_id(char buf[STK_JOB_ID_MAX])
{
    static const char safe[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz.-_";
    const char *job = stk_job_detect(NULL);
    job = job ? job : value("STOKER_JOB");
    if (job)
        snprintf(buf, STK_JOB_ID_MAX, "%s", job);
    else
        (void)stk_session_id(buf);
    for (char *p = buf; *p; p++)
        if (!strchr(safe, *p))
            *p = '_';
    return buf;
}

static bool has_processes(long sid)
{
    struct stk_dir d;
    int rc = stk_dir_take(&d, stk_host_open("/proc", O_RDONLY | O_DIRECTORY), "/proc", NULL);
    bool found = false;
    for (const struct dirent *e; !found && (e = stk_dir_next(&d));)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
            found = getsid((pid_t)strtol(e->d_name, NULL, 10)) == sid;
    return stk_dir_end(&d, rc, NULL) < 0 || found; /* not known: it may have */
}

int stk_session_over(const char *id)
{
    struct session s;
    char boot[12];
    if (sscanf(id, SESSION "%ld-%11[0-9a-z]-%llu", &s.sid, s.boot, &s.ns) != 3)
        return -1;
    read_boot(boot);
    if (strcmp(s.boot, boot) != 0)
        return 1;
    return s.ns != read_namespace() || s.sid <= 0 ? -1 : !has_processes(s.sid);
}

int stk_job_over(const char *id)
{
    char ours[STK_JOB_ID_MAX];
    return strcmp(id, stk_job_id(ours)) == 0 ? 0 : stk_session_over(id);
}

char *stk_scratch_tier(const char *folder)
{
    char id[STK_JOB_ID_MAX], *path = NULL;
    size_t n = strlen(folder);
    const char *slash = n && folder[n - 1] == '/' ? "" : "/";
    int rc =
        asprintf(&path, "%s%sstoker-%u-job-%s", folder, slash, (unsigned)geteuid(), stk_job_id(id));
    return rc < 0 ? NULL : stk_scratch_not_taken(path);
}

/* On a file system that changes the owner of every file, ours looks like that of another user. */
static bool is_taken(const char *path)
{
    struct stat st;
    int fd = -1;
    if (lstat(path, &st) < 0 || st.st_uid == geteuid())
        return false;
    int rc = stk_own_folder(path, 0, &fd, NULL);
    if (rc == 0)
        close(fd);
    return rc == STK_E_EXISTS;
}

char *stk_scratch_not_taken(char *path)
{
    bool taken = is_taken(path);
    for (unsigned i = 1; taken && i <= NAMES_MAX; i++) {
        char *other = NULL;
        if (asprintf(&other, "%s+%u", path, i) < 0)
            return path;
        taken = is_taken(other);
        if (taken) {
            free(other);
        } else {
            free(path);
            path = other;
        }
    }
    return path;
}

size_t stk_scratch_taken(const char *path)
{
    const char *name = strrchr(path, '/'), *plus = strrchr(name ? name : path, '+');
    const char *end = plus && strncmp(name ? name + 1 : path, "stoker-", 7) == 0 ? plus + 1 : "";
    size_t digits = strspn(end, "0123456789");
    char *usual = digits && !end[digits] ? strndup(path, (size_t)(plus - path)) : NULL;
    bool taken = usual && is_taken(usual);
    free(usual);
    return taken ? (size_t)(plus - path) : 0;
}
