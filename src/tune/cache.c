/*
 * cache.c - whether the data was in the page cache when the program was profiled. Runs drop it from
 * there, as a job finds it that reads more than fits into memory, or begins on another node. If the
 * program itself was much faster than such a run, it read cached data: then so do the runs, or
 * gains would be measured that it has had already.
 */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/units.h"
#include "bench/plan.h"
#include "tune/files.h"
#include "tune/priv.h"

#define NEAR         1.3  /* a replay within this factor of the program's time is as it was */
#define FAR          1.6  /* one beyond this is not, and that is said */
#define READ_SHARE   0.15 /* of the budget that is left, for reading all data */
#define MEMORY_SHARE 0.5  /* of what is free: more does not stay */
#define PIECE        (1u << 20)

double stk_tune_own_epoch_s(const struct stk_tuner *t)
{
    const struct stk_workload *w = &t->s.w;
    struct stk_bench_plan plan;
    if (!(t->plan->job.loop_s > 0) || stk_bench_plan(&plan, w, 0, t->s.ranks, NULL) < 0)
        return NAN;
    double steps = (double)plan.steps, all = steps * (double)w->training.epochs;
    return t->plan->job.loop_s * steps /
           (w->training.most_steps ? (double)w->training.most_steps : all);
}

static bool read_file(struct stk_tuner *t, const char *path, uint8_t *piece, double until_s)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    ssize_t n = fd >= 0 ? 1 : -1;
    while (n > 0 && stk_now() < until_s && !stk_tuner_tick(t))
        n = read(fd, piece, PIECE);
    if (fd >= 0)
        close(fd);
    return n == 0;
}

/* Brings all data into the page cache. False: it takes too long, or cannot be read. */
static bool read_all(struct stk_tuner *t)
{
    struct stk_tune_files f = {0};
    double until_s = stk_now() + READ_SHARE * stk_tuner_left_s(t);
    uint8_t *piece = malloc(PIECE);
    bool all = piece && !stk_tuner_doing(t, "reading the data into memory") &&
               stk_tune_files_list(t->s.source, NULL, &f, NULL) == 0;
    for (size_t i = 0; i < f.n && all; i++) {
        char *path = stk_tune_file_path(t->s.source, &f.file[i]);
        all = path && read_file(t, path, piece, until_s);
        free(path);
    }
    stk_tune_files_release(&f);
    free(piece);
    return all;
}

bool stk_tune_fits(const struct stk_tune_subject *s)
{
    return (double)stk_tune_whole_bytes(s) < MEMORY_SHARE * (double)s->memory_bytes;
}

static double far_from(double own_s, double epoch_s)
{
    return fabs(log(epoch_s / own_s));
}

static void say(struct stk_tuner *t, double own_s, double cold_s)
{
    char own[32], cold[32], now[32];
    stk_format_duration(own_s, own, sizeof own);
    stk_format_duration(cold_s, cold, sizeof cold);
    stk_format_duration(t->s.epoch_s, now, sizeof now);
    if (t->s.cached)
        stk_tune_note(
            t->out,
            "The program read its data from memory, where earlier runs had left it (an "
            "epoch took %s; from storage: %s), and so do all runs here. For a job that finds "
            "none of it there: --set reader.cache=fresh",
            own, cold);
    if (far_from(own_s, t->s.epoch_s) > log(FAR))
        stk_tune_note(
            t->out,
            "An epoch of the program took %s, and %s as it is replayed here: its own gains may be "
            "others than those in the table. `--check` measures them",
            own, now);
}

int stk_tune_settle_cache(struct stk_tuner *t, struct stk_err *err)
{
    struct stk_tune_subject *s = &t->s;
    double own_s = stk_tune_own_epoch_s(t), cold_s = s->epoch_s;
    int rc = 0;
    if (isnan(own_s) || !s->cold || t->plan->storage)
        return 0;
    if (cold_s > NEAR * own_s && s->source && stk_tune_fits(s) && read_all(t)) {
        s->cached = true;
        rc = stk_tune_pilot(t, err);
        s->cached = rc || far_from(own_s, s->epoch_s) < far_from(own_s, cold_s);
        if (!s->cached)
            rc = stk_tune_pilot(t, err);
    }
    if (!rc)
        say(t, own_s, cold_s);
    return rc;
}
