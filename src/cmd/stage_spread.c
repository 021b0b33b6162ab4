/*
 * stage_spread.c - `stoker stage` in every rank of srun or mpirun: one rank speaks for all, also if
 * the ranks cannot talk to each other. Then each node stages alone, and rank 0 waits for all.
 */
#include "cmd/stage.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/pool.h"
#include "report/stage.h"
#include "sched/comm.h"
#include "sched/rank.h"
#include "stage/spread.h"

#define REPORT_S 20.0 /* for the rank that reports a failure, on a busy node */

struct spreading {
    struct stk_stage_job *job;
    const char *dst;
    struct stk_comm *comm;
    char *status; /* folder of status files; NULL: none */
    _Atomic bool said; /* which rank is lost */
};

/* ---- the place ---- */

/* A folder in which a part of the source fits will do, unless all of it was asked for. */
static int choose_place(struct spreading *s, const struct stk_source *src)
{
    struct stk_stage_job *job = s->job;
    int mode = job->s->mode;
    uint64_t part = src->bytes / stk_comm_nodes(s->comm);
    int rc = stk_stage_place(job, s->dst, src, mode == STK_SPREAD_SHARD ? part : src->bytes);
    if (rc == STK_E_UNSUPPORTED && mode == STK_SPREAD_AUTO)
        rc = stk_stage_place(job, s->dst, src, part);
    return rc;
}

static uint64_t room_in(const struct stk_stage_job *job, const char *path)
{
    struct statvfs v;
    uint64_t room = statvfs(path, &v) == 0 ? (uint64_t)v.f_bavail * v.f_frsize : UINT64_MAX - 1;
    return job->s->limit_bytes && job->s->limit_bytes < room ? job->s->limit_bytes : room;
}

static int open_place(void *user, const struct stk_source *src, struct stk_tier **tier,
                      uint64_t *room, struct stk_err *err)
{
    struct spreading *s = user;
    struct stk_stage_job *job = s->job;
    int rc = choose_place(s, src);
    rc = rc ? rc : stk_stage_open_tier(job, job->at.tier, job->at.named, tier);
    if (rc)
        *err = job->run->err;
    else
        *room = room_in(job, job->at.tier);
    return rc;
}

static int on_progress(void *user, enum stk_stage_phase phase, uint64_t bytes, uint64_t total)
{
    struct spreading *s = user;
    return stk_stage_on_progress(s->job, phase, bytes, total);
}

static int on_list(void *user, uint64_t files)
{
    struct spreading *s = user;
    return stk_stage_on_list(s->job, files);
}

/* ---- status files ---- */

/* By default in the folder in which the job was started, if it can be written to. Removed when all
 * nodes are done. */
/* A folder for files of nodes, malloc'ed; NULL: there is none. */
static char *status_folder(const struct stk_stage_job *job)
{
    const char *id = getenv("SLURM_JOB_ID");
    char *name = NULL;
    if (job->s->status)
        return strdup(job->s->status);
    return access(".", W_OK) != 0 ||
                   asprintf(&name, "stoker-stage-%s.status", id && *id ? id : "mpi") < 0
               ? NULL
               : name;
}

/* ---- the outcome ---- */

/* Rank 0, or if that is lost, one of a node that is not; the others print nothing. */
static uint32_t speaker(const struct spreading *s)
{
    if (stk_comm_lost(s->comm, NULL, 0) != 0)
        return 0;
    return stk_comm_nodes(s->comm) > 1 ? stk_comm_leader(s->comm, 1) : 1;
}

static bool speaks(const struct spreading *s)
{
    return stk_comm_rank(s->comm) == speaker(s);
}

/* Another rank says the same. */
static void fall_silent(struct stk_run *run)
{
    struct stk_common *common = run->settings;
    stk_mute(true);
    common->json = NULL;
    common->quiet = true;
    run->progress.to = NULL;
}

static uint32_t needed(const struct stk_stage_job *job, const struct stk_spread_result *r)
{
    uint64_t n = job->s->min_nodes;
    return n && n < r->nodes ? (uint32_t)n : r->nodes;
}

static int show(struct spreading *s, const struct stk_spread_result *r)
{
    struct stk_run *run = s->job->run;
    struct stk_stage_nodes shown = {.result = r,
                                    .source = s->job->given,
                                    .kind = stk_comm_kind(s->comm),
                                    .ranks = stk_comm_size(s->comm),
                                    .min_nodes = needed(s->job, r),
                                    .status = r->good < r->nodes ? s->status : NULL,
                                    .total_s = stk_now() - run->start_s};
    stk_progress_clear(&run->progress);
    return stk_say_result(run, &stk_stage_nodes_kind, &shown, NULL);
}

/* The path on all nodes that have the data; NULL: they differ. */
static const char *common_path(const struct stk_spread_result *r)
{
    const char *path = NULL;
    for (uint32_t i = 0; i < r->nodes; i++) {
        const char *other = r->node[i].path;
        if (*other && path && strcmp(other, path) != 0)
            return NULL;
        path = *other ? other : path;
    }
    return path;
}

/* The path to use on all nodes, NULL: that of the source; says why. Returns the exit
 * status. */
static int status_of(struct stk_stage_job *job, const struct stk_spread_result *r,
                       const char **path)
{
    bool enough = r->good >= needed(job, r);
    char text[160] = "the copies have different paths on the nodes, so the path of the source "
                     "follows: loaders find the copies by STOKER_TIER";
    *path = enough ? common_path(r) : NULL;
    if (!enough)
        snprintf(text, sizeof text,
                 "%u of %u nodes have the data, and %u are needed; the path of the source follows",
                 (unsigned)r->good, (unsigned)r->nodes, (unsigned)needed(job, r));
    if (!*path && !job->run->common->quiet)
        stk_complain("stage", text);
    return enough ? STK_EXIT_DONE : STK_EXIT_PARTLY;
}

/* The path, if it is the same on enough nodes; else the source's. */
static int conclude(struct spreading *s, const struct stk_spread_result *r)
{
    struct stk_stage_job *job = s->job;
    const char *path;
    int rc = status_of(job, r, &path);
    path = path ? path : job->real;
    stk_jw_put_bool(&job->run->json, "staged", rc == STK_EXIT_DONE);
    stk_jw_put_str(&job->run->json, "path", path);
    if (path)
        stk_stage_print_path(job, path);
    return rc;
}

/* Slurm kills all ranks soon after one has died, maybe before this one's calls have ended: so the
 * line is written by the thread that finds out. On a terminal, it would be in the line of progress. */
static void on_lost(void *user, const struct stk_err *why)
{
    struct spreading *s = user;
    char text[2200];
    if (s->job->run->progress.bar || !speaks(s))
        return;
    stk_mute(false);
    stk_complain("stage", stk_err_text(why, text, sizeof text));
    atomic_store(&s->said, true);
}

/* A rank was lost or the user stopped it; an error that all ranks share is said by one. */
static int end_badly(struct spreading *s, const struct stk_spread_result *r, int rc)
{
    struct stk_run *run = s->job->run;
    char text[2200];
    if (!speaks(s))
        return r->from_status ? STK_EXIT_PARTLY : STK_EXIT_FAILED;
    stk_mute(false);
    s->job->silent = false;
    if (!r->from_status)
        return rc;
    (void)show(s, r);
    if (stk_stop_signal() && stk_comm_lost(s->comm, NULL, 0) < 0)
        return rc;
    if (!atomic_load(&s->said))
        stk_complain("stage", stk_err_text(&run->err, text, sizeof text));
    if (!run->common->quiet)
        stk_hint("what was copied stays; the same command resumes");
    return conclude(s, r);
}

static int spread(struct spreading *s)
{
    struct stk_stage_job *job = s->job;
    const struct stk_stage_settings *set = job->s;
    struct stk_spread_result r = {0};
    struct stk_spread_options o = {
        .mode = set->mode,
        .copies = (uint32_t)set->copies,
        .loader = set->loader,
        .source = {.follow_links = set->open.follow_links,
                   .trust = set->open.trust,
                   .no_index = set->open.no_index_write,
                   .progress = on_list,
                   .user = s},
        .copy = {.threads = (unsigned)set->jobs,
                 .memory_bytes = set->memory_bytes,
                 .max_rate = set->max_rate},
        .min_nodes = (uint32_t)set->min_nodes,
        .disk_s = set->disk_s,
        .status = s->status,
        .place = open_place,
        .progress = on_progress,
        .user = s,
    };
    o.loader.world = set->ranks > 1 ? (uint32_t)set->ranks : 0;
    stk_comm_on_lost(s->comm, on_lost, s);
    int rc = stk_spread(s->comm, job->given, &o, &r, &job->run->err);
    stk_comm_on_lost(s->comm, NULL, NULL);
    job->stuck = r.stuck;
    if (rc)
        rc = end_badly(s, &r, rc);
    else if (!speaks(s)) /* Open MPI ends all ranks once one has failed: rank 0 may still write */
        rc = job->captured ? conclude(s, &r) : STK_EXIT_DONE;
    else if ((rc = show(s, &r)) == 0)
        rc = conclude(s, &r);
    bool failed = r.from_status;
    stk_spread_result_release(&r);
    fflush(stdout);
    if (failed && speaks(s))
        stk_comm_reported(s->comm);
    else if (failed)
        stk_comm_await_report(s->comm, speaker(s), REPORT_S);
    return rc;
}

int stk_stage_spread(struct stk_stage_job *job, const char *dst, bool *done)
{
    struct spreading s = {.job = job, .dst = dst};
    struct stk_run *run = job->run;
    *done = false;
    int rc = stk_comm_open(NULL, &s.comm, &run->err);
    if (rc)
        return rc;
    if (stk_comm_size(s.comm) > 1) {
        *done = true;
        s.status = status_folder(job);
        if (stk_comm_rank(s.comm))
            fall_silent(run);
        rc = spread(&s);
    } else if (*stk_comm_lacks(s.comm) && !job->idle &&
               (job->rank.rank == 0 || (job->captured && job->rank.local_rank == 0))) {
        stk_complain("stage", "each node copies alone, because they cannot talk to each other:");
        stk_complain("stage", stk_comm_lacks(s.comm));
    }
    stk_comm_close(s.comm);
    free(s.status);
    return rc;
}

/* ---- which rank speaks ---- */

static bool leads(const struct stk_rank *r)
{
    return r->world <= 1 || !r->local_world || r->local_rank == 0;
}

void stk_stage_find_voice(struct stk_stage_job *job)
{
    struct stk_rank *r = &job->rank;
    if (job->s->in_background || stk_rank_detect(r, NULL) != 0 || r->world <= 1)
        *r = (struct stk_rank){.world = 1};
    if (getenv("STOKER_NODE")) /* the user says which ranks are a node */
        r->local_world = 0;
    job->captured = r->world > 1 && stk_rank_is_captured(r);
    job->silent = r->rank && !job->captured;
    job->idle = !leads(r) && !job->captured;
}

/* ---- each node alone ---- */

void stk_stage_part(struct stk_stage_job *job)
{
    if (!leads(&job->rank))
        fall_silent(job->run);
    else if (job->silent)
        ((struct stk_common *)job->run->settings)->json = NULL;
    if (job->rank.world <= 1 || job->captured)
        return;
    char *folder = status_folder(job);
    job->apart = stk_apart_begin(&job->rank, folder);
    free(folder);
}

static bool stops(void *user)
{
    return stk_stop_signal() || stk_stage_is_ending(user);
}

/* Rank 0, when all nodes have come to an end. */
static int speak(struct stk_stage_job *job, const struct stk_spread_result *r)
{
    char text[512];
    const char *path;
    for (uint32_t i = 0; i < r->nodes; i++) {
        const struct stk_spread_node *n = &r->node[i];
        bool told = n->rank == job->rank.rank || n->phase == STK_SPREAD_DONE;
        snprintf(text, sizeof text, "%s: %s: %s", n->name, stk_spread_phase_name(n->phase),
                 n->what);
        if (!told)
            stk_complain("stage", text);
    }
    int rc = status_of(job, r, &path);
    path = path ? path : job->real;
    if (path)
        stk_stage_print_path(job, path);
    return rc;
}

int stk_stage_rejoin(struct stk_stage_job *job, int rc)
{
    struct stk_apart *a = job->apart;
    struct stk_spread_result r = {0};
    if (!a)
        return rc;
    char *path = job->printed;
    job->apart = NULL;
    job->printed = NULL;
    stk_apart_done(a, rc == STK_EXIT_DONE && path ? path : "", job->run->err.what);
    bool alone = job->rank.local_world == job->rank.world;
    if (alone && path)
        stk_stage_print_path(job, path);
    if (job->rank.rank == 0 && !alone && rc >= 0 && path) {
        int all = stk_apart_gather(a, stops, job, &r, &job->run->err);
        all = all ? all : speak(job, &r);
        rc = rc > all && all >= 0 ? rc : all;
    }
    bool all = job->rank.rank == 0 && rc == STK_EXIT_DONE && r.good == r.nodes;
    stk_apart_close(a, all || rc < 0, all);
    stk_spread_result_release(&r);
    free(path);
    return rc;
}
