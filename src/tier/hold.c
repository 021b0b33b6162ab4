/*
 * hold.c - who may be reading a copy without a lock on its set. A plain program opens the path that
 * `stoker stage` printed long after stoker has ended: so the set has a file for each job that was
 * given its path, and stays as long as one of them may run. Plain programs, shells that stand in it
 * and containers that have it mounted are found by what they have open.
 */
#include "tier/priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "base/json_fields.h"
#include "host/scratch.h"

#define RECORD_MAX 4096u
#define DAY_S      86400
/* A job of which nothing can be learned holds a copy this long after it asked for it. */
#define WHY       STK_TIER_WHY
#define UNKNOWN_S (7 * DAY_S)
#define SLURM_S   (30 * DAY_S) /* its jobs last longer, and it answers again some day */

/* Of a job that was given the path. */
struct record {
    const char *scheduler, *job, *session, *host;
    int64_t keep_s;
    /* Not in the file: */
    const char *name; /* of it */
    enum stk_scheduler of;
    bool here;    /* made on this machine */
    int64_t used; /* when the job asked for the copy last, seconds since 1970 */
};
static const struct stk_jfield record_fields[] = {
    {STK_JFIELD(TEXT, "scheduler", struct record, scheduler)},
    {STK_JFIELD(TEXT, "job", struct record, job)},
    {STK_JFIELD(TEXT, "session", struct record, session)},
    {STK_JFIELD(TEXT, "host", struct record, host)},
    {STK_JFIELD(UNSIGNED, "keep_s", struct record, keep_s), .max = INT64_MAX},
    {0},
};

/* ---- recording ---- */

static int write_record(const struct stk_tier_set *s, int dir, const char *name,
                        struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    char host[256] = "", session[STK_JOB_ID_MAX];
    struct record r = {.host = host, .keep_s = (int64_t)s->tier->keep_s};
    int fd = -1;
    r.job = stk_job_detect(&r.of);
    r.job = r.job ? r.job : getenv("STOKER_JOB");
    r.scheduler = stk_scheduler_name(r.of);
    r.session = stk_session_id(session);
    (void)gethostname(host, sizeof host - 1);
    stk_jfields_text(record_fields, &r, true, &text);
    int rc = stk_buf_check(&text, err);
    rc = rc ? rc : stk_open_fresh(dir, name, STK_PRIVATE, &fd, s->path, err);
    rc = rc ? rc : stk_write_full(fd, text.data, text.len, s->path, err);
    if (fd >= 0)
        close(fd);
    stk_buf_release(&text);
    return rc;
}

int stk_tier_hold(struct stk_tier_set *s, struct stk_err *err)
{
    char name[STK_JOB_ID_MAX];
    int dir = -1;
    if (!s->tier->hold)
        return 0;
    int rc = stk_own_folder_at(s->dir, STK_TIER_JOBS, STK_OWN_MAKE | STK_OWN_PRIVATE, &dir, s->path,
                               err);
    rc = rc ? rc : write_record(s, dir, stk_job_id(name), err);
    if (dir >= 0)
        close(dir);
    return rc;
}

/* ---- asking ---- */

/* False: it is gone. One that cannot be read, or is no record, is of a job that is not known. */
static bool read_record(int dir, const char *name, struct stk_arena *arena, struct record *r)
{
    struct stk_buf text = STK_BUF_INIT;
    struct stat st;
    char host[256] = "";
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno != ENOENT;
    *r = (struct record){.name = name, .used = (int64_t)st.st_mtim.tv_sec};
    struct record got = *r;
    if (stk_read_file_at(dir, name, O_NOFOLLOW, RECORD_MAX, &text, name, NULL) == 0 &&
        stk_jfields_parse(record_fields, stk_buf_cstr(&text), text.len, NULL, arena, &got, NULL) ==
            0) {
        (void)gethostname(host, sizeof host - 1);
        got.here = got.host && strcmp(got.host, host) == 0;
        got.of = stk_scheduler_of(got.scheduler);
        *r = got;
    }
    stk_buf_release(&text);
    return true;
}

static bool of_slurm(const struct record *r)
{
    return r->of == STK_SCHEDULER_SLURM;
}

/* 1: it is over, 0: it runs, -1: not known. Of a job of another scheduler, only the session that
 * asked for the copy is known. */
static int is_over(const struct stk_tier *t, const struct record *r)
{
    if (of_slurm(r))
        return t->job_over ? t->job_over(r->name) : -1;
    int over = r->here && r->session ? stk_session_over(r->session) : -1;
    return over == 1 && r->of ? -1 : over;
}

/* Whether this job keeps the copy from being removed, and why. */
static bool keeps(const struct stk_tier *t, const struct record *r, bool for_room, char why[WHY])
{
    char mine[STK_JOB_ID_MAX], until[32] = "";
    int64_t age = (int64_t)time(NULL) - r->used;
    if (for_room && age < r->keep_s) {
        time_t end = (time_t)(r->used + r->keep_s);
        struct tm tm;
        (void)strftime(until, sizeof until, "%F %T", localtime_r(&end, &tm));
        snprintf(why, WHY, "it is to be kept until %s", until);
        return true;
    }
    if (strcmp(r->name, stk_job_id(mine)) == 0) {
        snprintf(why, WHY, "this job uses it");
        return for_room;
    }
    int over = is_over(t, r);
    snprintf(why, WHY,
             over < 0 ? "job %s may use it: whether that runs is not known" : "job %s uses it",
             r->name);
    if (over < 0 && of_slurm(r))
        return age < SLURM_S;
    return over == 0 || (over < 0 && for_room && age < UNKNOWN_S);
}

bool stk_tier_held(const struct stk_tier *t, int set, bool for_room, char why[WHY])
{
    bool held = false;
    struct stk_err err = {0};
    struct stk_dir d;
    int fd = openat(set, STK_TIER_JOBS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc = stk_dir_take(&d, fd, STK_TIER_JOBS, &err);
    for (const struct dirent *e; !held && (e = stk_dir_next(&d));) {
        struct stk_arena arena = STK_ARENA_INIT;
        struct record r = {0};
        if (e->d_name[0] != '.' && read_record(fd, e->d_name, &arena, &r))
            held = keeps(t, &r, for_room, why);
        stk_arena_release(&arena);
    }
    if (stk_dir_end(&d, rc, &err) < 0 && !held && err.sys_errno != ENOENT) {
        held = true;
        snprintf(why, WHY, "its folder " STK_TIER_JOBS " cannot be read");
    }
    return held;
}

/* From the name of a set, or of what is left of one, on: "ID/data/NAME/file"; NULL: none. */
static const char *set_in(const char *path)
{
    for (const char *slash = path; slash; slash = strchr(slash + 1, '/'))
        if (*slash == '/' && stk_tier_begins_set(slash + 1))
            return slash + 1;
    return NULL;
}

static bool is_in_set(const char *path)
{
    return set_in(path) != NULL;
}

/* Copies of the same data in other tiers have sets of the same name. */
static bool is_in_tier(const struct stk_tier *t, const struct stk_opened *o, const char *in)
{
    struct stat st;
    size_t n = strlen(t->path);
    if (o->known && fstatat(t->fd, in, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return st.st_ino == o->inode && (o->any_dev || st.st_dev == o->dev);
    return !o->known && in == o->path + n + 1 && strncmp(o->path, t->path, n) == 0;
}

/* The copy itself: stoker has the folders above it open when it looks at a set. */
static bool is_of_copy(const char *in)
{
    const char *part = strchr(in, '/'), *name = part ? strchr(part + 1, '/') : NULL;
    return name && name[1] &&
           (strncmp(part, "/" STK_TIER_DATA "/", sizeof STK_TIER_DATA + 1) == 0 ||
            strncmp(part, "/" STK_TIER_FILLING "/", sizeof STK_TIER_FILLING + 1) == 0);
}

static bool uses(const struct stk_tier *t, const struct stk_opened *o, const char *id, bool locked)
{
    const char *in = set_in(o->path);
    size_t n = strlen(id);
    return strncmp(in, id, n) == 0 && (!in[n] || in[n] == '/') &&
           (locked ? o->pid != getpid() : o->place || is_of_copy(in)) && is_in_tier(t, o, in);
}

void stk_tier_look(struct stk_tier *t)
{
    pthread_mutex_lock(&t->looking);
    (void)stk_opened_look(t->opened, is_in_set, NULL);
    pthread_mutex_unlock(&t->looking);
}

bool stk_tier_opened(struct stk_tier *t, const char *id, bool locked, char why[STK_TIER_WHY])
{
    const struct stk_opened_list *l = t->opened;
    pthread_mutex_lock(&t->looking);
    bool found = l->at <= 0;
    if (found)
        snprintf(why, STK_TIER_WHY,
                 "whether a process has it open is not known: /proc cannot be read");
    for (size_t i = 0; !found && i < l->n; i++)
        if (uses(t, &l->item[i], id, locked)) {
            snprintf(why, STK_TIER_WHY, "process %ld (%s) uses %s/%s", (long)l->item[i].pid,
                     l->item[i].comm, t->path, set_in(l->item[i].path));
            found = true;
        }
    pthread_mutex_unlock(&t->looking);
    return found;
}
