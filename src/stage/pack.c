/*
 * pack.c - a copy that is packed on its way to the tier. It is made in a set without files, which
 * holds the place and the lock; then its files are known, and a set with their list adopts them.
 * Both have the identity of the packed copy.
 */
#include "stage/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/own.h"
#include "base/pool.h"
#include "stage/priv.h"
#include "stage/target.h"

#define POLL_NS 50000000l /* between two looks at a process that packs the same */

struct packing {
    const struct stk_source *src;
    struct stk_tier *tier;
    const char *form;
    const struct stk_stage_options *o;
    int (*pack)(void *user, const char *dst, struct stk_err *err);
    struct stk_stage_result *r;
    struct stk_tier_source begun; /* the set without files */
    struct stk_stall stall;
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

/* ---- the set that has the files ---- */

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
    if (rc == 0 && stk_rename_at(stk_tier_set_folder(begun), ts.name, stk_tier_set_folder(set),
                                 ts.name) < 0)
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

static int see(void *user, const struct stk_tier_info *info)
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
static int find(struct packing *p, struct stk_err *err)
{
    struct search s = {0};
    struct stk_tier_set *set = NULL;
    snprintf(s.prefix, sizeof s.prefix, "%016llx-", (unsigned long long)p->begun.identity);
    int rc = stk_tier_list(p->tier, see, &s, err);
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

static int tell(const struct packing *p, enum stk_stage_phase phase, struct stk_err *err)
{
    const struct stk_stage_options *o = p->o;
    return o->progress && o->progress(o->user, phase, 0, p->src->bytes)
               ? stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped")
               : 0;
}

/* What was packed so far stays for the next run, unless that would fail in the same way. */
static void leave(struct packing *p, struct stk_tier_set *begun, int rc)
{
    stk_tier_set_close(begun);
    if (rc != STK_E_STOPPED && rc != STK_E_SYS && p->r->id)
        (void)stk_tier_evict(p->tier, p->r->id, false, NULL, NULL);
}

/* Takes ownership of the set. */
static int make(struct packing *p, struct stk_tier_set *begun, struct stk_err *err)
{
    char *dst = stk_tier_set_path(begun);
    p->r->id = strdup(stk_tier_set_id(begun));
    int rc = dst && p->r->id ? 0 : stk_err_nomem(err, STK_TIER_ID);
    if (rc == 0)
        stk_stage_remove_old(p->tier, p->begun.path, p->form, p->r->id);
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
    stk_stage_remove_old(p->tier, p->begun.path, p->form, p->r->id);
    p->r->already = true;
    return 1;
}

/* One try. 1: it is there; 0: another process is at it. */
static int attempt(struct packing *p, struct stk_err *err)
{
    struct stk_tier_set *begun = NULL;
    int rc = find(p, err);
    if (rc)
        return rc == 1 ? is_there(p) : rc;
    rc = stk_tier_set_open(p->tier, &p->begun, &begun, err);
    if (rc == 0 && !stk_tier_set_alone(begun)) {
        rc = stk_stage_stalled(begun, &p->stall, 0, err);
        stk_tier_set_close(begun);
        return rc;
    }
    if (rc == 0 && find(p, err) == 1) { /* completed since */
        stk_tier_set_close(begun);
        return is_there(p);
    }
    rc = rc ? rc : make(p, begun, err);
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
        rc = rc ? rc : tell(&p, STK_STAGE_WAIT, err);
    }
    return rc == 1 ? 0 : rc;
}
