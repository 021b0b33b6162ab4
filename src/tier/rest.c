/*
 * rest.c - the end of filling: a copy that has all samples also gets the few files that have none
 * (a manifest, an index, a README), so that it is complete and published like one of `stage`.
 */
#include "tier/source.h"
#include "tier/use.h"

#include "base/file.h"

#include <stdlib.h>
#include <unistd.h>

#define REST_MAX (UINT64_C(64) << 20) /* a run does not end with a long copy */

/* True if every file with samples is finished. */
static bool has_all_samples(const struct stk_tier_overlay *o, const struct level *l)
{
    bool all = true;
    for (uint64_t i = 0; all && i < o->files.count; i++) {
        uint32_t file = atomic_load_explicit(&l->file_of[i], memory_order_relaxed);
        all = file != NO_FILE && stk_tier_file_finished(l->set, file);
    }
    return all;
}

static int copy_parcel(struct stk_tier_set *s, uint64_t file, uint64_t parcel,
                       const struct stk_file *f)
{
    size_t n = stk_tier_parcel_len(s->src.file[file].size, parcel), got = 0;
    uint8_t *p = malloc(n ? n : 1);
    int rc = p ? stk_pread_full(f->fd, p, n, parcel * STK_TIER_PARCEL, &got, NULL, NULL)
               : STK_E_NOMEM;
    if (rc == 0)
        rc = got == n ? stk_tier_put(s, file, parcel, p, n, stk_tier_hash(p, n), NULL)
                      : STK_E_STALE;
    free(p);
    return rc;
}

static int copy_file(const struct stk_source *src, struct stk_tier_set *s, uint64_t file)
{
    struct stk_file f;
    int rc = stk_file_open(&src->files, file, STK_FILE_PLAIN, &f, NULL);
    if (rc < 0)
        return rc;
    for (uint64_t i = 0; rc >= 0 && i < stk_tier_parcels(s->src.file[file].size); i++)
        if (stk_tier_claim(s, file, i) == STK_TIER_OURS) {
            rc = copy_parcel(s, file, i, &f);
            rc = rc == 2 ? STK_E_SYS : rc;
            stk_tier_drop(s, file, i);
        }
    if (rc >= 0)
        rc = stk_tier_finish_file(s, file, NULL, NULL);
    stk_file_close(&f);
    return rc;
}

/* The source is as the set's list has it: files have the same numbers. */
static bool is_same(const struct stk_source *src, const struct stk_tier_set *s)
{
    const struct stk_tier_source ts = stk_source_for_tier(src);
    return src->count == s->src.count && stk_tier_version(&ts) == stk_tier_version(&s->src);
}

static void complete(struct stk_dataset *ds, struct stk_tier_set *s)
{
    struct stk_source src;
    char *path = NULL;
    int rc = stk_source_of(&src, ds, NULL);
    if (rc == 0 && is_same(&src, s)) {
        for (uint64_t i = 0; rc == 0 && i < src.count; i++)
            rc = stk_tier_file_finished(s, i) ? 0 : copy_file(&src, s, i);
        if (rc == 0)
            (void)stk_source_publish(&src, s, &path, NULL);
    }
    free(path);
    stk_source_release(&src);
}

void stk_tier_complete(struct stk_tier_overlay *o)
{
    const struct level *l = &o->level[o->fills - 1];
    struct stk_tier_set *s = l->set;
    struct stk_tier_state st;
    struct stk_dataset *ds = o->ds->whole ? o->ds->whole : o->ds;
    if (s->pid != getpid() || atomic_load(&s->published) || stk_tier_state(s, &st, NULL) < 0 ||
        st.published || st.bytes - st.bytes_there > REST_MAX || !has_all_samples(o, l))
        return;
    complete(ds, s);
}
