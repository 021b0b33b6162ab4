/*
 * stage.c - fills a set of a tier from its source, and publishes it. Several processes may do so at
 * once: each copies what no other has claimed, and all wait for the last parcel.
 *
 * A copy that is packed on its way is made in a set without files, which holds the place and the
 * lock; then its files are known, and a set with their list adopts them. Both have the identity of
 * the packed copy.
 */
#include "stage/stage.h"
#include "stage/target.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/own.h"
#include "base/pool.h"
#include "host/cpus.h"

#define POLL_NS   50000000l /* between two looks at what other processes do */
#define STOPPED_S 5.0       /* without a byte from others until it is asked who is stopped */
#define STALL_S   1800.0 /* and until they are not waited for any more: a slow rate is no fault */
#define TRIES_MAX 3      /* of publishing, when a file of the copy was changed meanwhile */

/* For a wait for other processes. Zero at its begin. */
struct stall {
    double since, looked;
    uint64_t there;
};

struct staging {
    struct stk_copy_sink sink; /* first: the sink's functions get it as `me` */
    const struct stk_source *src;
    struct stk_tier_set *set;
    const struct stk_stage_options *o;
    struct stk_stage_result *r;
    struct stall stall;
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

/* An error (STK_E_EXISTS) if the one that fills the set is stopped, or writes nothing for long.
 * there: bytes in the copy; of a set without files, only the former is asked. */
static int check_stalled(struct stk_tier_set *set, struct stall *w, uint64_t there,
                         struct stk_err *err)
{
    double now = stk_now();
    int rc = stk_tier_check_locks(set, err);
    if (rc)
        return rc;
    if (!(w->since > 0) || there != w->there) {
        *w = (struct stall){.since = now, .there = there, .looked = now};
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
    rc = rc ? rc : check_stalled(s->set, &s->stall, st.bytes_there, err);
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

/* stage.c: removes what was begun of former states of the source, which nobody needs. */
static void remove_old(struct stk_tier *tier, const char *source, const char *form, const char *id)
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
    remove_old(tier, s->src->path, NULL, s->r->id);
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

struct packing {
    const struct stk_source *src;
    struct stk_tier *tier;
    const char *form;
    const struct stk_stage_options *o;
    int (*pack)(void *user, const char *dst, struct stk_err *err);
    struct stk_stage_result *r;
    struct stk_tier_source begun; /* the set without files */
    struct stall stall;
};

uint64_t stk_stage_pack_identity(const struct stk_source *src, const char *form)
{
    const struct stk_tier_source ts = stk_source_for_tier(src);
    uint64_t v[2] = {src->identity, stk_tier_version(&ts)};
    struct stk_hash h;
    stk_hash_init(&h);
    stk_hash_update(&h, v, sizeof v);
    stk_hash_update(&h, form, strlen(form) + 1);
    uint64_t id = stk_hash_final(&h);
    return id ? id : 1;
}

/* ---- a copy packed on its way: the set that has the files ---- */

/* 2: the tier is full. */
static int adopt_files(struct stk_tier_set *set, struct stk_err *err)
{
    uint64_t n = stk_tier_set_source(set)->count;
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        rc = stk_tier_adopt_file(set, i, err);
    return rc;
}

static int note(struct packing *p, const struct stk_tier_set *set, struct stk_err *err)
{
    const struct stk_tier_source *ts = stk_tier_set_source(set);
    p->r->id = strdup(stk_tier_set_id(set));
    p->r->files = ts->count;
    p->r->bytes = 0;
    for (uint64_t i = 0; i < ts->count; i++)
        p->r->bytes += ts->file[i].size;
    return p->r->id ? 0 : stk_err_nomem(err, STK_TIER_ID);
}

/* A copy that turned out to be larger than the limit does not stay. */
static int close_packed(struct packing *p, struct stk_tier_set *set, int rc)
{
    char id[STK_TIER_ID] = "";
    if (set)
        snprintf(id, sizeof id, "%s", stk_tier_set_id(set));
    stk_tier_set_close(set);
    if (rc == 2)
        (void)stk_tier_evict(p->tier, id, false, NULL, NULL);
    return rc == 2 ? STK_E_SYS : rc;
}

/* Lists what was packed, moves it into a set of its own, and publishes that. */
static int adopt(struct packing *p, struct stk_tier_set *begun, const char *dst,
                 struct stk_err *err)
{
    struct stk_source packed = STK_SOURCE_INIT;
    struct stk_tier_set *set = NULL;
    struct stk_source_options o = {.no_index = true};
    int rc = stk_source_open(&packed, dst, &o, err);
    struct stk_tier_source ts = stk_source_for_tier(&packed);
    ts.path = p->begun.path;
    ts.form = p->form;
    ts.identity = p->begun.identity;
    rc = rc ? rc : stk_tier_set_open(p->tier, &ts, &set, err);
    if (rc == 0 &&
        stk_rename_at(stk_tier_set_folder(begun), ts.name, stk_tier_set_folder(set), ts.name) < 0)
        rc = stk_err_sys(err, dst, "rename the packed copy");
    stk_tier_set_close(begun);
    (void)stk_tier_evict(p->tier, p->r->id, false, NULL, NULL); /* its bytes are counted once */
    free(p->r->id);
    p->r->id = NULL;
    rc = rc ? rc : adopt_files(set, err);
    rc = rc ? rc : note(p, set, err);
    rc = rc ? rc : stk_source_publish(&packed, set, &p->r->path, err);
    stk_source_release(&packed);
    return close_packed(p, set, rc);
}

/* ---- a copy that is there ---- */

struct search {
    char prefix[STK_TIER_ID];
    char id[STK_TIER_ID];
};

static int see_packed(void *user, const struct stk_tier_info *info)
{
    struct search *s = user;
    if (info->files && strncmp(info->id, s->prefix, strlen(s->prefix)) == 0)
        memcpy(s->id, info->id, sizeof s->id);
    return 0;
}

/* Files that were changed are hashed again: what differs from the manifest is packed anew. */
static int try_publish(struct packing *p, struct stk_tier_set *set, struct stk_err *err)
{
    int rc = stk_tier_publish(set, &p->r->path, err);
    if (rc == STK_E_STALE) {
        rc = adopt_files(set, err) ? STK_E_STALE : 0;
        rc = rc ? rc : stk_tier_publish(set, &p->r->path, err);
    }
    return rc ? rc : note(p, set, err);
}

/* 1: it is there, and has its path. One that is not whole and not in use goes. */
static int find_packed(struct packing *p, struct stk_err *err)
{
    struct search s = {0};
    struct stk_tier_set *set = NULL;
    snprintf(s.prefix, sizeof s.prefix, "%016llx-", (unsigned long long)p->begun.identity);
    int rc = stk_tier_list(p->tier, see_packed, &s, err);
    if (rc || !s.id[0])
        return rc;
    rc = stk_tier_set_join(p->tier, s.id, &set, err);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return 0;
    rc = try_publish(p, set, err);
    stk_tier_set_close(set);
    if (rc == STK_E_STALE)
        rc = stk_tier_evict(p->tier, s.id, false, NULL, err);
    else if (rc == 0)
        rc = 1;
    return rc == STK_E_EXISTS ? 0 : rc; /* in use: by one that completes it */
}

/* ---- packing ---- */

/* What was packed so far stays for the next run, unless that would fail in the same way. */
static void leave(struct packing *p, struct stk_tier_set *begun, int rc)
{
    stk_tier_set_close(begun);
    if (rc != STK_E_STOPPED && rc != STK_E_SYS && p->r->id)
        (void)stk_tier_evict(p->tier, p->r->id, false, NULL, NULL);
}

/* Takes ownership of the set. */
static int make_packed(struct packing *p, struct stk_tier_set *begun, struct stk_err *err)
{
    char *dst = stk_tier_set_path(begun);
    p->r->id = strdup(stk_tier_set_id(begun));
    int rc = dst && p->r->id ? 0 : stk_err_nomem(err, STK_TIER_ID);
    if (rc == 0)
        remove_old(p->tier, p->begun.path, p->form, p->r->id);
    rc = rc ? rc : stk_tier_make_room(begun, p->src->bytes, err);
    rc = rc == 2 ? STK_E_UNSUPPORTED : rc;
    if (rc == 0 && !stk_may_exist(AT_FDCWD, dst)) /* nothing is packed yet */
        rc = stk_target_room(stk_tier_path(p->tier), p->src->bytes, 1, err);
    rc = rc ? rc : stk_tier_expect(begun, p->src->bytes, err);
    rc = rc == 2 ? STK_E_SYS : rc;
    if (rc == 0 && p->o->begun)
        p->o->begun(p->o->user);
    double start = stk_now();
    rc = rc ? rc : p->pack(p->o->user, dst, err);
    p->r->copy_s = stk_now() - start;
    if (rc == 0)
        rc = adopt(p, begun, dst, err);
    else
        leave(p, begun, rc);
    free(dst);
    return rc;
}

/* What else was begun of it goes: a process that was killed left it. */
static int is_there(struct packing *p)
{
    remove_old(p->tier, p->begun.path, p->form, p->r->id);
    p->r->already = true;
    return 1;
}

/* One try. 1: it is there; 0: another process is at it. */
static int attempt(struct packing *p, struct stk_err *err)
{
    struct stk_tier_set *begun = NULL;
    int rc = find_packed(p, err);
    if (rc)
        return rc == 1 ? is_there(p) : rc;
    rc = stk_tier_set_open(p->tier, &p->begun, &begun, err);
    if (rc == 0 && !stk_tier_set_alone(begun)) {
        rc = check_stalled(begun, &p->stall, 0, err);
        stk_tier_set_close(begun);
        return rc;
    }
    if (rc == 0 && find_packed(p, err) == 1) { /* completed since */
        stk_tier_set_close(begun);
        return is_there(p);
    }
    rc = rc ? rc : make_packed(p, begun, err);
    return rc ? rc : 1;
}

int stk_stage_pack(const struct stk_source *src, struct stk_tier *tier, const char *form,
                   const struct stk_stage_options *o,
                   int (*pack)(void *user, const char *dst, struct stk_err *err),
                   struct stk_stage_result *r, struct stk_err *err)
{
    struct packing p = {.src = src, .tier = tier, .form = form, .o = o, .pack = pack, .r = r};
    int rc = 0;
    *r = (struct stk_stage_result){0};
    p.begun = (struct stk_tier_source){.path = src->path,
                                       .name = src->name,
                                       .form = form,
                                       .identity = stk_stage_pack_identity(src, form)};
    while (rc == 0) {
        rc = attempt(&p, err);
        if (rc == 0)
            nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
        if (rc == 0 && o->progress && o->progress(o->user, STK_STAGE_WAIT, 0, src->bytes))
            rc = stopped(err);
    }
    return rc == 1 ? 0 : rc;
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
