/*
 * stage.c - fills a set of a tier from its source, and publishes it. Several processes may do so at
 * once: each copies what no other has claimed, and all wait for the last parcel.
 */
#include "stage/stage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/pool.h"
#include "host/cpus.h"
#include "stage/priv.h"
#include "stage/target.h"

#define POLL_NS   50000000l /* between two looks at what other processes do */
#define STOPPED_S 5.0       /* without a byte from others until it is asked who is stopped */
#define STALL_S   1800.0    /* and until they are not waited for any more: a slow rate is no fault */
#define TRIES_MAX 3         /* of publishing, when a file of the copy was changed meanwhile */

struct staging {
    struct stk_copy_sink sink; /* first: the sink's functions get it as `me` */
    const struct stk_source *src;
    struct stk_tier_set *set;
    const struct stk_stage_options *o;
    struct stk_stage_result *r;
    struct stk_stall stall;
    uint64_t before;  /* bytes in the copy when the current round began */
    _Atomic bool any; /* a parcel was put */
};

/* ---- the tier as a sink ---- */

static struct stk_tier_set *set_of(struct stk_copy_sink *me)
{
    return ((struct staging *)(void *)me)->set;
}

static enum stk_tier_claim claim(struct stk_copy_sink *me, uint64_t file, uint64_t parcel)
{
    return stk_tier_claim(set_of(me), file, parcel);
}

static void claim_files(struct stk_copy_sink *me, uint64_t first, uint64_t n, uint8_t *got)
{
    stk_tier_claim_files(set_of(me), first, n, got);
}

static int put(struct stk_copy_sink *me, uint64_t file, uint64_t parcel, const void *p, size_t n,
               uint64_t hash, struct stk_err *err)
{
    struct staging *s = (struct staging *)(void *)me;
    int rc = stk_tier_put(s->set, file, parcel, p, n, hash, err);
    if (rc >= 0 && rc != 2 && !atomic_exchange(&s->any, true))
        s->r->first_at = stk_now();
    if (rc != 2)
        return rc;
    if (err)
        err->sys_errno = ENOSPC;
    return STK_E_SYS;
}

static void drop(struct stk_copy_sink *me, uint64_t file, uint64_t parcel)
{
    stk_tier_drop(set_of(me), file, parcel);
}

static void drop_files(struct stk_copy_sink *me, uint64_t first, uint64_t n, const uint8_t *got)
{
    stk_tier_drop_files(set_of(me), first, n, got);
}

static int finish(struct stk_copy_sink *me, uint64_t file, const uint64_t *hash,
                  struct stk_err *err)
{
    return stk_tier_finish_file(set_of(me), file, hash, err);
}

/* ---- copying ---- */

static int tell(const struct staging *s, enum stk_stage_phase phase, uint64_t bytes)
{
    const struct stk_stage_options *o = s->o;
    return o->progress ? o->progress(o->user, phase, bytes, s->src->bytes) : 0;
}

static int on_copy(void *user, uint64_t bytes, uint64_t files)
{
    const struct staging *s = user;
    (void)files;
    return tell(s, STK_STAGE_COPY, s->before + bytes);
}

static int stopped(struct stk_err *err)
{
    return stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
}

static bool others_first(void *user)
{
    const struct staging *s = user;
    return stk_tier_others_first(s->set);
}

/* *some: something was copied. */
static int copy_parts(struct staging *s, const struct stk_part *part, size_t n, bool *some,
                      struct stk_err *err)
{
    struct stk_copy_options o = s->o->copy;
    struct stk_copy_result r;
    o.any_order = !s->o->order;
    o.progress = on_copy;
    o.others_first = others_first;
    o.user = s;
    int rc = stk_copy(s->src, part, n, &o, &s->sink, &r, err);
    s->r->bytes_copied += r.bytes;
    *some = r.bytes || r.files;
    if (r.engine[0])
        snprintf(s->r->engine, sizeof s->r->engine, "%s", r.engine);
    return rc;
}

static bool all_there(struct stk_tier_set *set, uint64_t file, uint64_t size)
{
    uint64_t n = stk_tier_parcels(size), k = 0;
    while (k < n && stk_tier_has(set, file, k))
        k++;
    return k == n;
}

/* Finishes files that have all their parcels, and lists those that do not. */
static int gather_missing(struct staging *s, struct stk_part **part, size_t *n, struct stk_err *err)
{
    int rc = 0;
    *n = 0;
    for (uint64_t i = 0; rc == 0 && i < s->src->count; i++) {
        uint64_t size = s->src->file[i].size;
        if (stk_tier_file_finished(s->set, i))
            continue;
        if (all_there(s->set, i, size)) {
            rc = stk_tier_finish_file(s->set, i, NULL, err);
            continue;
        }
        rc = STK_ARRAY_MORE(*part, *n, err);
        if (rc == 0)
            (*part)[(*n)++] = (struct stk_part){.file = i, .count = stk_tier_parcels(size)};
    }
    return rc;
}

int stk_stage_stalled(struct stk_tier_set *set, struct stk_stall *w, uint64_t there,
                      struct stk_err *err)
{
    double now = stk_now();
    int rc = stk_tier_check_locks(set, err);
    if (rc)
        return rc;
    if (!(w->since > 0) || there != w->there) {
        *w = (struct stk_stall){.since = now, .there = there, .looked = now};
        return 0;
    }
    if (now - w->looked < STOPPED_S)
        return 0;
    w->looked = now;
    rc = stk_tier_check_stopped(set, err);
    if (rc)
        return rc;
    if (now - w->since < STALL_S || !stk_tier_set_source(set)->count)
        return 0;
    return stk_err_set(err, STK_E_EXISTS, stk_tier_set_source(set)->path, -1,
                       "another process copies the same data and has written nothing for %.0f min: "
                       "end it",
                       (now - w->since) / 60);
}

static int pause_for_others(struct staging *s, struct stk_err *err)
{
    struct stk_tier_state st;
    nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    int rc = stk_tier_state(s->set, &st, err);
    rc = rc ? rc : stk_stage_stalled(s->set, &s->stall, st.bytes_there, err);
    if (rc == 0 && tell(s, STK_STAGE_WAIT, st.bytes_there))
        rc = stopped(err);
    return rc;
}

/* One round: copies what is missing. *left: it was not all there before. */
static int copy_round(struct staging *s, bool *left, struct stk_err *err)
{
    struct stk_tier_state st;
    struct stk_part *part = NULL;
    size_t n = 0;
    bool some = false;
    int rc = stk_tier_state(s->set, &st, err);
    *left = rc == 0 && st.files_finished < st.files;
    s->before = rc ? 0 : st.bytes_there;
    if (*left)
        rc = gather_missing(s, &part, &n, err);
    if (rc == 0 && n)
        rc = copy_parts(s, part, n, &some, err);
    if (rc == 0 && n && !some)
        rc = pause_for_others(s, err);
    free(part);
    return rc;
}

/* Until nothing is missing. What others have claimed comes from them, or from us once they are
 * gone. */
static int copy_missing(struct staging *s, struct stk_err *err)
{
    bool left = true;
    int rc = 0;
    while (rc == 0 && left)
        rc = copy_round(s, &left, err);
    return rc;
}

static int copy_all(struct staging *s, struct stk_err *err)
{
    struct stk_part *part = NULL;
    size_t n = 0;
    bool some;
    /* Folders first: a file system spreads them better, and then the files in them. On ext4 from
     * which much was deleted just now, copying takes a fraction of the time. */
    int rc = stk_source_folders(s->src, s->set, false, err);
    rc = rc ? rc : stk_stage_parts(s->src, s->o->order, &part, &n, err);
    rc = rc ? rc : copy_parts(s, part, n, &some, err);
    free(part);
    return rc ? rc : copy_missing(s, err);
}

/* ---- publishing ---- */

/* A file that was written to after it was read, or while it was, with its times set back. */
static int check_source(const struct staging *s, struct stk_err *err)
{
    if (s->o->one_of_many || !stk_files_changed_since(&s->src->files, s->src->changed_ns))
        return 0;
    return stk_err_set(err, STK_E_STALE, s->src->path, -1,
                       "the data (or its owner or mode) changed while it was copied; run again");
}

/* A file of the copy that was changed by someone is copied again. */
static int complete(struct staging *s, struct stk_err *err)
{
    double start = stk_now();
    int rc = copy_all(s, err);
    s->r->copy_s = stk_now() - start;
    if (rc == 0 && tell(s, STK_STAGE_SYNC, s->src->bytes))
        rc = stopped(err);
    rc = rc ? rc : check_source(s, err);
    if (rc)
        return rc;
    start = stk_now();
    rc = stk_source_publish(s->src, s->set, &s->r->path, err);
    for (int i = 1; rc == STK_E_STALE && i < TRIES_MAX; i++) {
        rc = copy_missing(s, err);
        rc = rc ? rc : stk_source_publish(s->src, s->set, &s->r->path, err);
    }
    s->r->sync_s = stk_now() - start;
    return rc;
}

/* ---- waiting for another process ---- */

static int wait_for_others(struct staging *s, struct stk_err *err)
{
    int rc = 0;
    bool filling = true;
    stk_tier_set_fills(s->set, false); /* else two that wait would wait for each other */
    while (rc == 0 && filling) {
        struct stk_tier_state st;
        rc = stk_tier_state(s->set, &st, err);
        filling = rc == 0 && !st.published && stk_tier_filled_by_others(s->set);
        if (filling)
            rc = pause_for_others(s, err);
    }
    stk_tier_set_fills(s->set, true);
    return rc;
}

/* ---- the whole ---- */

struct old_sets {
    const char *source, *form, *id;
    char (*name)[STK_TIER_ID];
    size_t n;
};

static int see_old(void *user, const struct stk_tier_info *info)
{
    struct old_sets *o = user;
    bool same_form =
        info->form && o->form ? strcmp(info->form, o->form) == 0 : info->form == o->form;
    if (info->published || info->used || !same_form || strcmp(info->id, o->id) == 0 ||
        strcmp(info->source, o->source) != 0)
        return 0;
    if (STK_ARRAY_MORE(o->name, o->n, NULL))
        return 0;
    snprintf(o->name[o->n++], STK_TIER_ID, "%s", info->id);
    return 0;
}

void stk_stage_remove_old(struct stk_tier *tier, const char *source, const char *form,
                          const char *id)
{
    struct old_sets o = {.source = source, .form = form, .id = id};
    (void)stk_tier_list(tier, see_old, &o, NULL);
    for (size_t i = 0; i < o.n; i++)
        (void)stk_tier_evict(tier, o.name[i], false, NULL, NULL);
    free(o.name);
}

/* A disk that is too small would be full at the end, for all who use it, and have no copy. */
static int ensure_room(struct staging *s, struct stk_tier *tier, struct stk_err *err)
{
    struct stk_tier_state st;
    struct stk_err small = {0};
    int rc = stk_tier_state(s->set, &st, err);
    s->r->bytes_before = rc ? 0 : st.bytes_there;
    uint64_t need = rc ? 0 : s->src->bytes - st.bytes_there;
    if (!need)
        return rc;
    rc = stk_tier_make_room(s->set, s->src->bytes, &small);
    rc = rc == 2 ? STK_E_UNSUPPORTED : rc;
    rc = rc ? rc : stk_target_room(stk_tier_path(tier), need, st.files - st.files_finished, &small);
    if (rc == 0)
        return rc;
    /* A process that fills the same set takes the room for it, and has asked for it before. */
    if (rc == STK_E_UNSUPPORTED && st.bytes_there && stk_tier_filled_by_others(s->set))
        return 0;
    if (err)
        *err = small;
    return rc;
}

static int begin(struct staging *s, struct stk_tier *tier, struct stk_tier_state *st,
                 struct stk_err *err)
{
    const struct stk_tier_source ts = stk_source_for_tier(s->src);
    int rc = stk_tier_set_open(tier, &ts, &s->set, err);
    if (rc < 0)
        return rc;
    s->r->id = strdup(stk_tier_set_id(s->set));
    if (!s->r->id)
        return stk_err_nomem(err, STK_TIER_ID);
    stk_stage_remove_old(tier, s->src->path, NULL, s->r->id);
    rc = ensure_room(s, tier, err);
    if (rc == 0 && s->o->begun)
        s->o->begun(s->o->user);
    if (rc == 0 && s->o->wait)
        rc = wait_for_others(s, err);
    rc = rc ? rc : stk_tier_state(s->set, st, err);
    s->r->bytes_before = rc ? s->r->bytes_before : st->bytes_there;
    return rc;
}

/* A set that was refused before anything was copied does not stay in the list. */
static void end(struct staging *s, struct stk_tier *tier, int rc)
{
    if (s->set)
        stk_tier_set_close(s->set);
    if (rc == STK_E_UNSUPPORTED && s->r->id && !s->r->bytes_before && !s->r->bytes_copied)
        (void)stk_tier_evict(tier, s->r->id, false, NULL, NULL);
}

int stk_stage_fill(const struct stk_source *src, struct stk_tier *tier,
                   const struct stk_stage_options *o, struct stk_stage_result *r,
                   struct stk_err *err)
{
    struct staging s = {
        .sink = {claim, claim_files, put, drop, drop_files, finish}, .src = src, .o = o, .r = r};
    struct stk_tier_state st = {0};
    *r = (struct stk_stage_result){.files = src->count, .bytes = src->bytes};
    int rc = begin(&s, tier, &st, err);
    if (rc == 0)
        r->already = st.published && st.files_finished == st.files;
    if (rc == 0)
        rc = r->already ? stk_tier_publish(s.set, &r->path, err) : 0;
    if (rc == STK_E_STALE || (rc == 0 && !r->already)) {
        r->already = false;
        rc = complete(&s, err);
    }
    end(&s, tier, rc);
    return rc;
}

void stk_stage_result_release(struct stk_stage_result *r)
{
    free(r->path);
    free(r->id);
    *r = (struct stk_stage_result){0};
}

/* ---- verifying ---- */

struct checking {
    struct stk_tier_set *set;
    const struct stk_tier_source *src;
    const struct stk_stage_options *o;
    struct stk_stage_check *r;
    pthread_mutex_t lock;
    uint64_t total;
};

static int check_file(void *user, uint64_t file, unsigned thread, struct stk_err *err)
{
    struct checking *c = user;
    const struct stk_tier_file *f = &c->src->file[file];
    uint64_t bad = 0;
    (void)thread;
    int rc = stk_tier_verify_file(c->set, file, &bad, err);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&c->lock);
    c->r->files++;
    c->r->bytes += f->size;
    c->r->bad += bad;
    if (bad && !c->r->first[0])
        snprintf(c->r->first, sizeof c->r->first, "%s", f->name[0] ? f->name : c->src->name);
    uint64_t bytes = c->r->bytes;
    pthread_mutex_unlock(&c->lock);
    bool stop = c->o->progress && c->o->progress(c->o->user, STK_STAGE_CHECK, bytes, c->total);
    return stop ? stopped(err) : 0;
}

int stk_stage_verify(struct stk_tier_set *set, const struct stk_stage_options *o,
                     struct stk_stage_check *r, struct stk_err *err)
{
    struct checking c = {.set = set, .src = stk_tier_set_source(set), .o = o, .r = r};
    *r = (struct stk_stage_check){0};
    for (uint64_t i = 0; i < c.src->count; i++)
        c.total += c.src->file[i].size;
    pthread_mutex_init(&c.lock, NULL);
    unsigned threads = o->copy.threads ? o->copy.threads : stk_cpus();
    int rc = stk_pool_run(threads, c.src->count, check_file, &c, err);
    pthread_mutex_destroy(&c.lock);
    return rc;
}
