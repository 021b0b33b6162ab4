/*
 * stage_place.c - where the copy goes: the tier that the user names, else one of this job. And until
 * when: staging stops a little before the job ends, so that it can say so, also if a file system does
 * not answer.
 */
#include "cmd/stage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/units.h"
#include "io/io.h"
#include "sched/over.h"
#include "stage/sweep.h"

#define ASK_S     3.0 /* for each client of Slurm, to say whether a job runs, and when it ends */
#define ASK_RANKS 256 /* more of them would be too much for its controller: rank 0 asks alone */

static int stopped(void *user)
{
    (void)user;
    return stk_stop_signal();
}

/* ---- a copy that was begun ---- */

static bool exists(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0;
}

/* Whether the tier has a set of this source. */
static void look_into(struct stk_stage_job *job, const struct stk_source *src, const char *path)
{
    struct stk_tier *tier = NULL;
    struct stk_tier_set *set = NULL;
    struct stk_tier_state state = {0};
    job->begun = job->there = false;
    if (!exists(path) || stk_tier_open(path, &(struct stk_tier_options){0}, &tier, NULL) < 0)
        return;
    uint64_t identity =
        job->s->pack ? stk_stage_pack_identity(src, job->s->pack) : src->identity;
    job->begun = stk_tier_set_find(tier, identity, &set, NULL) == 1;
    job->there = job->begun && stk_tier_state(set, &state, NULL) == 0 && state.published;
    stk_tier_set_close(set);
    stk_tier_close(tier);
}

/* A folder that lacks only the room that the begun copy takes. */
static bool may_go_on(const struct stk_target *t)
{
    return t->verdict == STK_TARGET_FITS || t->verdict == STK_TARGET_SMALL ||
           t->verdict == STK_TARGET_MEMORY;
}

static struct stk_target *find_begun(struct stk_stage_job *job, const struct stk_source *src)
{
    struct stk_targets *all = job->targets;
    for (size_t i = 0; i < all->n && !job->begun; i++) {
        char *tier = may_go_on(&all->target[i]) ? stk_scratch_tier(all->target[i].path) : NULL;
        if (tier)
            look_into(job, src, tier);
        free(tier);
        if (job->begun) {
            all->best = i;
            return &all->target[i];
        }
    }
    return NULL;
}

/* ---- jobs that are over ---- */

void stk_stage_say_left(const struct stk_run *run, const char *tier, const char *left)
{
    stk_say(run, "%s/%s stays there: stoker did not make it\n", tier, left);
}

static void say_removed(void *user, const struct stk_tier_info *info)
{
    char size[32];
    stk_say(user, "removed the copy of %s (%s), which no job uses: %s\n", info->source,
            stk_format_size(info->bytes_there, size, sizeof size), info->path);
    if (info->left)
        stk_stage_say_left(user, info->tier, info->left->first);
}

static int is_over(const char *job)
{
    const struct stk_slurm how = {.timeout_s = ASK_S};
    return stk_job_is_over(job, &how);
}

struct stk_tier_options stk_stage_tier_options(struct stk_run *run)
{
    return (struct stk_tier_options){.job_over = is_over, .removed = say_removed, .user = run};
}

static void say_swept(void *user, const struct stk_swept *one)
{
    if (one->used)
        stk_say(user, "the copies of a job that is over stay: %s: %s\n", one->path, one->used);
    else
        stk_say(user, "removed the copies of a job that is over: %s\n", one->path);
    if (one->left)
        stk_stage_say_left(user, one->path, one->left);
}

void stk_stage_tidy(struct stk_run *run)
{
    (void)stk_stage_sweep(say_swept, run);
}

/* ---- choosing ---- */

static void add_warning(struct stk_stage_job *job)
{
    if (job->target->warning[0] && !job->run->common->quiet)
        stk_complain("stage", job->target->warning);
}

/* "stoker-1000+1": stk_scratch_not_taken(). */
static void say_taken(const struct stk_stage_job *job)
{
    const char *name = stk_base_name(job->tier), *plus = strrchr(name, '+');
    char text[400];
    if (!plus || strncmp(name, "stoker-", 7) != 0 || job->run->common->quiet)
        return;
    snprintf(text, sizeof text, "%.*s belongs to another user; the copy goes to %s",
             (int)(plus - job->tier), job->tier, name);
    stk_complain("stage", text);
}

/* Absolute: the path that is printed is used elsewhere. */
char *stk_stage_named(const char *dst)
{
    char *here = dst[0] == '/' ? NULL : getcwd(NULL, 0);
    char *full = here ? stk_path_join(here, dst) : strdup(dst);
    char *tier = full ? stk_tier_at(full) : NULL;
    free(here);
    free(full);
    return tier;
}

#define ANSWER_S 10.0 /* for a file system */

static bool answers(const char *path)
{
    struct stk_fs_look look = {.limit_s = ANSWER_S, .nearest = true, .no_purge = true};
    static struct stk_fs_facts facts;
    return stk_fs_facts(path, &look, &facts) != ETIMEDOUT;
}

/* The verdict on size is the tier's: it may hold a part already, or make room. */
static int place_named(struct stk_stage_job *job, const char *dst, const struct stk_source *src)
{
    struct stk_err *err = &job->run->err;
    struct stk_target_wish wish = {.stop = stopped};
    job->named = true;
    if (!answers(dst))
        return stk_err_set(err, STK_E_UNSUPPORTED, dst, -1, "its file system does not answer");
    job->tier = stk_stage_named(dst);
    job->target = calloc(1, sizeof *job->target);
    if (!job->tier || !job->target)
        return stk_err_nomem(err, strlen(dst));
    say_taken(job);
    look_into(job, src, job->tier);
    wish.no_probe = job->begun; /* it takes writes; a disk that is flushing would keep us waiting */
    int rc = stk_target_judge(job->tier, &wish, job->target, err);
    if (rc == 0 && !job->begun && job->target->verdict == STK_TARGET_STALLED)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, dst, -1, "%s", job->target->reason);
    if (rc == 0 && job->target->verdict == STK_TARGET_FITS)
        add_warning(job);
    return rc;
}

static int no_place(struct stk_stage_job *job, uint64_t bytes)
{
    struct stk_buf text = STK_BUF_INIT;
    char size[32];
    for (size_t i = 0; i < job->targets->n; i++) {
        const struct stk_target *t = &job->targets->target[i];
        if (t->verdict != STK_TARGET_UNSET && t->verdict != STK_TARGET_ABSENT &&
            t->verdict != STK_TARGET_SAME)
            stk_buf_printf(&text, "%s%s: %s", text.len ? "; " : "", t->name, t->reason);
    }
    int rc = stk_err_set(&job->run->err, STK_E_UNSUPPORTED, NULL, -1,
                         "no folder on this node takes a copy of %s (%s); name one as DST, or in "
                         "STOKER_SCRATCH",
                         stk_format_size(bytes, size, sizeof size), stk_buf_cstr(&text));
    stk_buf_release(&text);
    return rc;
}

void stk_stage_unplace(struct stk_stage_job *job)
{
    if (!job->targets)
        free(job->target);
    free(job->targets);
    free(job->tier);
    job->targets = NULL;
    job->target = NULL;
    job->tier = NULL;
    job->begun = job->there = false;
    stk_buf_reset(&job->why);
}

int stk_stage_place(struct stk_stage_job *job, const char *dst, const struct stk_source *src,
                    uint64_t bytes)
{
    struct stk_err *err = &job->run->err;
    struct stk_target_wish wish = {.bytes = bytes, .files = src->count, .stop = stopped};
    stk_stage_unplace(job);
    job->file_bytes = src->count ? src->bytes / src->count : 0;
    if (dst)
        return place_named(job, dst, src);
    job->targets = calloc(1, sizeof *job->targets);
    if (!job->targets)
        return stk_err_nomem(err, sizeof *job->targets);
    if (!job->s->dry_run)
        stk_stage_tidy(job->run);
    int rc = stk_targets_find(&wish, job->targets, err);
    if (rc)
        return rc;
    job->target = find_begun(job, src);
    if (!job->target && job->targets->best < job->targets->n)
        job->target = &job->targets->target[job->targets->best];
    if (!job->target)
        return no_place(job, bytes);
    stk_buf_printf(&job->why, "%s: %s", job->target->name,
                   job->begun ? "the copy was begun there" : job->target->reason);
    add_warning(job);
    job->tier = stk_scratch_tier(job->target->path);
    if (!job->tier)
        return stk_err_nomem(err, strlen(job->target->path));
    say_taken(job);
    return 0;
}

/* ---- a folder in the source ---- */

/* The real path of the nearest folder above that exists; NULL: there is none. malloc'ed. */
static char *nearest(const char *path)
{
    char *at = strdup(path), *real = NULL, *slash = at;
    while (at && slash && !(real = realpath(at[0] ? at : "/", NULL)))
        if ((slash = strrchr(at, '/')))
            *slash = '\0';
    free(at);
    return real;
}

bool stk_stage_is_inside(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    char *real = nearest(path);
    n -= n && folder[n - 1] == '/';
    bool inside = real && strncmp(real, folder, n) == 0 && (!real[n] || real[n] == '/');
    free(real);
    return inside;
}

/* ---- Lustre ---- */

#define REQUEST_BYTES STK_TIER_PARCEL /* loaders and copiers read about that much at once */

bool stk_stage_is_new(const char *path)
{
    return !exists(path);
}

void stk_stage_stripe(struct stk_stage_job *job, const char *path)
{
    char what[64];
    /* Only Lustre has stripes, and the folder was looked at when it was judged. */
    if (job->target && !job->target->facts.error && !job->target->facts.stripes)
        return;
    uint64_t mean = job->src.count ? job->src.bytes / job->src.count : job->file_bytes;
    stk_target_stripe(path, mean, REQUEST_BYTES, what, sizeof what);
    if (what[0])
        stk_buf_printf(&job->why, "%s%s", job->why.len ? "; " : "", what);
}

/* ---- tiers without a source ---- */

int stk_stage_tiers(const char *dst, int (*see)(void *user, const char *path), void *user)
{
    struct stk_scratch list[STK_SCRATCHES];
    int rc = 0;
    if (dst) {
        char *tier = stk_stage_named(dst);
        rc = tier ? see(user, tier) : STK_E_NOMEM;
        free(tier);
        return rc;
    }
    size_t n = stk_scratch_list(list);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        char *tier = list[i].path ? stk_scratch_tier(list[i].path) : NULL;
        bool again = false;
        for (size_t k = 0; k < i && tier; k++)
            again = again || (list[k].path && strcmp(list[k].path, list[i].path) == 0);
        if (tier && !again && exists(tier))
            rc = see(user, tier);
        free(tier);
    }
    return rc;
}

/* ---- the end of the job ---- */

/* Old versions of Slurm do not say it in the environment. */
static void ask_for_end(const char *job, char end[32])
{
    const char *argv[] = {"squeue", "-h", "-j", job, "-o", "%e", NULL};
    const struct stk_slurm how = {.timeout_s = ASK_S};
    struct stk_slurm_output out = {0};
    if (stk_slurm_have("squeue", NULL) == 0 &&
        stk_slurm_call(&how, argv, NULL, 0, &out, NULL) == 0 && out.status == 0) {
        const char *text = stk_buf_cstr(&out.out), *line = strchr(text, '\n');
        if (line) /* else the time may have been cut short */
            snprintf(end, 32, "%.*s", (int)(line - text), text);
    }
    stk_slurm_output_release(&out);
}

double stk_stage_job_end(const struct stk_rank *rank)
{
    const char *end = getenv("SLURM_JOB_END_TIME"), *job = getenv("SLURM_JOB_ID");
    char asked[32] = "";
    uint64_t s = 0;
    if (!end && job && *job && rank->local_rank == 0 && (!rank->rank || rank->world <= ASK_RANKS))
        ask_for_end(job, asked);
    return stk_parse_u64(end ? end : asked, &s, NULL) == 0 ? (double)s : 0;
}

bool stk_stage_is_ending(struct stk_stage_job *job)
{
    if (job->end_s > 0 && (double)time(NULL) + STK_STAGE_MARGIN_S >= job->end_s)
        atomic_store(&job->ending, true);
    return atomic_load(&job->ending);
}

static bool is_late(void *user)
{
    return stk_stage_is_ending(user);
}

/* The job ends, and a file system does not answer. */
static int leave(void *user)
{
    const struct stk_stage_job *job = user;
    const char *json = job->run->common->json;
    stk_complain("stage",
                 STK_STAGE_ENDS ", while waiting for a file system that does not answer");
    stk_hint(job->run->cmd->stopped_hint);
    if (job->real && !job->silent && !(json && strcmp(json, "-") == 0))
        dprintf(STDOUT_FILENO, "%s\n", job->real);
    return STK_EXIT_PARTLY;
}

int stk_stage_in_time(struct stk_stage_job *job, const char *dst,
                      int (*stage)(struct stk_stage_job *job, const char *dst))
{
    const struct stk_deadline end = {is_late, leave, job};
    atomic_store(&job->run->deadline, &end);
    int rc = stage(job, dst);
    atomic_store(&job->run->deadline, NULL);
    return rc;
}
