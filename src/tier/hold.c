/*
 * hold.c - the jobs that may be reading a copy by its path. A plain program opens the path that
 * `stoker stage` printed long after stoker has ended, and has no lock on the set: so the set has a
 * file for each job that was given its path, and stays as long as one of them may run.
 */
#include "tier/priv.h"

#include "base/dir.h"
#include "base/file.h"
#include "base/json.h"
#include "host/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RECORD_MAX 4096u
#define DAY_S      86400
/* A job of which nothing can be learned holds a copy this long after it asked for it. */
#define WHY       STK_TIER_WHY
#define UNKNOWN_S (7 * DAY_S)
#define SLURM_S   (30 * DAY_S) /* its jobs last longer, and it answers again some day */

/* ---- recording ---- */

static int write_record(const struct stk_tier_set *s, int dir, const char *name,
                        struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    struct stk_jw w;
    char host[256] = "", session[STK_JOB_ID_MAX];
    enum stk_scheduler scheduler;
    const char *job = stk_job_detect(&scheduler);
    int fd = -1;
    (void)gethostname(host, sizeof host - 1);
    stk_jw_init(&w, &text, true);
    stk_jw_open(&w, '{');
    stk_jw_put_str(&w, "scheduler", stk_scheduler_name(scheduler));
    stk_jw_put_str(&w, "job", job ? job : getenv("STOKER_JOB"));
    stk_jw_put_str(&w, "session", stk_session_id(session));
    stk_jw_put_str(&w, "host", host);
    stk_jw_put_u64(&w, "keep_s", s->tier->keep_s);
    stk_jw_close(&w, '}');
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
    int rc = stk_own_folder_at(s->dir, STK_TIER_JOBS, STK_OWN_MAKE | STK_OWN_PRIVATE, &dir,
                               s->path, err);
    rc = rc ? rc : write_record(s, dir, stk_job_id(name), err);
    if (dir >= 0)
        close(dir);
    return rc;
}

/* ---- asking ---- */

struct record {
    const char *name, *job, *session;
    enum stk_scheduler scheduler;
    bool here;    /* made on this machine */
    int64_t used; /* when the job asked for the copy last, seconds since 1970 */
    int64_t keep_s;
};

static const char *text_of(const struct stk_jval *v, const char *name)
{
    const struct stk_jval *t = stk_json_get(v, name);
    return t && t->type == STK_JSTR ? t->str : NULL;
}

/* False: it is gone. One that cannot be read, or is no record, is of a job that is not known. */
static bool read_record(int dir, const char *name, struct stk_arena *arena, struct record *r)
{
    struct stk_buf text = STK_BUF_INIT;
    struct stk_jval *v = NULL;
    struct stat st;
    char host[256] = "";
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno != ENOENT;
    *r = (struct record){.name = name, .used = (int64_t)st.st_mtim.tv_sec};
    if (stk_read_file_at(dir, name, O_NOFOLLOW, RECORD_MAX, &text, name, NULL) == 0 &&
        stk_json_parse(arena, (const char *)text.data, text.len, &v, NULL) == 0 &&
        v->type == STK_JOBJ) {
        const struct stk_jval *keep = stk_json_get(v, "keep_s");
        const char *where = text_of(v, "host");
        (void)gethostname(host, sizeof host - 1);
        r->here = where && strcmp(where, host) == 0;
        r->scheduler = stk_scheduler_of(text_of(v, "scheduler"));
        r->job = text_of(v, "job");
        r->session = text_of(v, "session");
        r->keep_s = keep && keep->type == STK_JINT && keep->i > 0 ? keep->i : 0;
    }
    stk_buf_release(&text);
    return true;
}

static bool of_slurm(const struct record *r)
{
    return r->scheduler == STK_SCHEDULER_SLURM;
}

/* 1: it is over, 0: it runs, -1: not known. Of a job of another scheduler, only the session that
 * asked for the copy is known. */
static int is_over(const struct stk_tier *t, const struct record *r)
{
    if (of_slurm(r))
        return t->job_over ? t->job_over(r->name) : -1;
    int over = r->here && r->session ? stk_session_over(r->session) : -1;
    return over == 1 && r->scheduler ? -1 : over;
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
    snprintf(why, WHY, over < 0 ? "job %s may use it: whether that runs is not known"
                                : "job %s uses it",
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
