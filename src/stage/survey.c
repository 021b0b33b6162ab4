/* survey.c - goes through the file systems and the equipment of a node. */
#include "stage/survey.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/pool.h"
#include "base/units.h"
#include "host/memory.h"
#include "host/mounts.h"

#define ANSWER_S  3.0
#define ROOM_MIN  ((uint64_t)1 << 30) /* free, before anything is written there */
#define ROOM_PART 16                  /* at most this part of it is written */

/* ---- the list of file systems ---------------------------------------------------------------- */

static struct stk_fs_look look_of(const struct stk_survey_options *o)
{
    return (struct stk_fs_look){o->limit_s > 0 ? o->limit_s : ANSWER_S, false, o->stop, o->user};
}

static bool is_stopped(const struct stk_survey_options *o)
{
    return o->stop && o->stop(o->user);
}

/* One that has not answered is told by its mount point. */
static bool is_same(const struct stk_survey_fs *a, const struct stk_fs_facts *f)
{
    if (a->facts.error == ETIMEDOUT || f->error == ETIMEDOUT)
        return a->facts.error == f->error && strcmp(a->facts.point, f->point) == 0;
    return !a->facts.error && !f->error && a->facts.dev == f->dev;
}

static struct stk_survey_fs *find_same(struct stk_survey *s, const struct stk_fs_facts *f)
{
    for (size_t i = 0; i < s->nfs; i++)
        if (!s->fs[i].asked && is_same(&s->fs[i], f))
            return &s->fs[i];
    return NULL;
}

static const char home_name[] = "$HOME";

static void add_name(struct stk_survey_fs *fs, const char *name)
{
    size_t n = strlen(fs->names);
    if (n + strlen(name) + 3 < sizeof fs->names)
        snprintf(fs->names + n, sizeof fs->names - n, "%s%s", n ? ", " : "", name);
}

static int add(struct stk_survey *s, const char *name, const char *path, bool asked,
               const struct stk_fs_facts *facts, struct stk_err *err)
{
    struct stk_survey_fs *fs = asked ? NULL : find_same(s, facts);
    if (!fs) {
        int rc = STK_ARRAY_MORE(s->fs, s->nfs, err);
        if (rc)
            return rc;
        fs = &s->fs[s->nfs++];
        memset(fs, 0, sizeof *fs);
        fs->asked = asked;
        snprintf(fs->path, sizeof fs->path, "%s", path);
        fs->facts = *facts;
    } else if (facts->writable && !fs->facts.writable) {
        fs->facts = *facts;
        snprintf(fs->path, sizeof fs->path, "%s", path);
    }
    add_name(fs, name);
    fs->home = fs->home || name == home_name;
    s->lustre = s->lustre || facts->stripes;
    return 0;
}

/* True if the path is on a mount that has not answered before: it is not asked again. */
static bool is_stalled(const struct stk_survey *s, const char *path, struct stk_fs_facts *f)
{
    static struct stk_mount m;
    if (path[0] != '/' || !stk_mount_of(path, &m))
        return false;
    for (size_t i = 0; i < s->nfs; i++)
        if (s->fs[i].facts.error == ETIMEDOUT && strcmp(s->fs[i].facts.point, m.point) == 0) {
            *f = s->fs[i].facts;
            snprintf(f->path, sizeof f->path, "%s", path);
            return true;
        }
    return false;
}

static int ask(struct stk_survey *s, const struct stk_survey_options *o, const char *name,
               const char *path, bool asked, struct stk_err *err)
{
    static struct stk_fs_facts facts;
    struct stk_fs_look look = look_of(o);
    if (!is_stalled(s, path, &facts))
        (void)stk_fs_facts(path, &look, &facts);
    if (!asked && facts.error && facts.error != ETIMEDOUT)
        return 0;
    return add(s, name, path, asked, &facts, err);
}

static int find_all(struct stk_survey *s, const struct stk_survey_options *o, struct stk_err *err)
{
    const char *home = getenv("HOME");
    char cwd[4096];
    int rc = 0;
    for (size_t i = 0; i < o->npaths && !rc && !is_stopped(o); i++)
        rc = ask(s, o, "argument", o->path[i], true, err);
    if (!rc && getcwd(cwd, sizeof cwd))
        rc = ask(s, o, ".", cwd, false, err);
    if (!rc && home && *home)
        rc = ask(s, o, home_name, home, false, err);
    for (size_t i = 0; i < s->targets.n && !rc; i++) {
        const struct stk_target *t = &s->targets.target[i];
        if (t->path[0] && (!t->facts.error || t->facts.error == ETIMEDOUT))
            rc = add(s, t->name, t->path, false, &t->facts, err);
    }
    return rc;
}

/* ---- their speed ------------------------------------------------------------------------------
 */

static void note(struct stk_survey_fs *fs, const char *fmt, ...) STK_PRINTF(2, 3);
static void note(struct stk_survey_fs *fs, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(fs->note, sizeof fs->note, fmt, ap);
    va_end(ap);
}

/* Bytes that may be written there; 0: nothing, and the note says why. */
static uint64_t may_write(struct stk_survey_fs *fs)
{
    const struct stk_fs_facts *f = &fs->facts;
    uint64_t room = f->free_bytes < f->quota_bytes ? f->free_bytes : f->quota_bytes;
    if (f->reach == STK_REACH_MEMORY && stk_memory_free() < room)
        room = stk_memory_free();
    if (!f->writable || f->read_only)
        note(fs, "not measured: not writable");
    else if (f->free_bytes == UINT64_MAX)
        note(fs, "not measured: how much is free is not known");
    else if (room < ROOM_MIN)
        note(fs, "not measured: less than 1 GiB is free");
    else
        return room / ROOM_PART;
    return 0;
}

static void end_note(struct stk_survey_fs *fs)
{
    const struct stk_measured *m = &fs->speed;
    char each[32], rate[32];
    if (m->left[0])
        note(fs, "could not be removed: %.250s", m->left);
    else if (m->error == ETIMEDOUT)
        note(fs, "took too long, and was ended");
    else if (m->error && m->error != ECANCELED)
        note(fs, "not measured: %s", strerror(m->error));
    else if (!m->way[0] && !m->error)
        note(fs, "reads not known: the page cache cannot be avoided here");
    else if (m->small_Bps > 0)
        note(fs,
             "small files, %s on average, are read at %s/s: how fast this file system reads large "
             "ones is not known from them",
             stk_format_size((uint64_t)m->read_each, each, sizeof each),
             stk_format_size((uint64_t)m->small_Bps, rate, sizeof rate));
}

static void measure(struct stk_survey_fs *fs, const struct stk_survey_options *o)
{
    struct stk_measure_how how = o->how;
    bool memory = fs->facts.reach == STK_REACH_MEMORY;
    how.stop = o->stop;
    how.user = o->user;
    int wrong = ENOENT;
    if (fs->asked)
        wrong = stk_measure_data(fs->path, fs->facts.fs, memory, &how, &fs->speed);
    if (wrong == ENOENT) { /* no files to read */
        uint64_t room = may_write(fs);
        if (!room)
            return;
        if (!how.max_bytes || room < how.max_bytes)
            how.max_bytes = room < ((uint64_t)128 << 20) ? room : (uint64_t)128 << 20;
        (void)stk_measure_folder(fs->path, fs->facts.fs, memory, &how, &fs->speed);
    }
    fs->measured = true;
    end_note(fs);
}

static void measure_all(struct stk_survey *s, const struct stk_survey_options *o)
{
    double start = stk_now();
    if (o->tell)
        o->tell(o->user);
    for (size_t i = 0; i < s->nfs && !is_stopped(o); i++) {
        if (!s->fs[i].facts.error)
            measure(&s->fs[i], o);
        s->written_bytes += s->fs[i].speed.written_bytes;
    }
    s->measured_s = stk_now() - start;
}

int stk_survey_take(const struct stk_survey_options *o, struct stk_survey *out, struct stk_err *err)
{
    struct stk_target_wish wish = {.no_probe = o->quick,
                                   .limit_s = o->limit_s > 0 ? o->limit_s : ANSWER_S,
                                   .stop = o->stop,
                                   .user = o->user};
    memset(out, 0, sizeof *out);
    out->quick = o->quick;
    int rc = stk_targets_find(&wish, &out->targets, err);
    rc = rc ? rc : find_all(out, o, err);
    if (!rc)
        stk_survey_node(out, o);
    if (!rc && !o->quick)
        measure_all(out, o);
    if (!rc && is_stopped(o))
        rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    return rc;
}

void stk_survey_release(struct stk_survey *s)
{
    free(s->fs);
    s->fs = NULL;
    s->nfs = 0;
}
