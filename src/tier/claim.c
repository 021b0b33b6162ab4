/*
 * claim.c - claims: the right of one thread of the node to copy a parcel, by a lock on a byte of the
 * ledger. Whoever gets one learns whether the parcel is there after all.
 */
#include "tier/priv.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- one parcel ---- */

static bool read_parcel_hash(int fd, uint64_t size, uint64_t parcel, uint64_t *hash)
{
    size_t n = stk_tier_parcel_len(size, parcel), got = 0;
    uint8_t *p = malloc(n ? n : 1);
    bool ok =
        p && stk_pread_full(fd, p, n, parcel * STK_TIER_PARCEL, &got, NULL, NULL) == 0 && got == n;
    if (ok)
        *hash = stk_tier_hash(p, n);
    free(p);
    return ok;
}

/* Compares a parcel of doubtful origin with its hash. With the file's lock. */
static bool recheck(struct stk_tier_set *s, uint64_t file, uint64_t parcel,
                    const struct stk_ledger_entry *e, struct stk_ledger_record *r)
{
    uint64_t hash = 0;
    int fd = stk_tier_copy_open(s, file, false, NULL);
    bool same = fd >= 0 && read_parcel_hash(fd, s->src.file[file].size, parcel, &hash) &&
                hash == e->hash && stk_ledger_put_entry(s, file, parcel, hash, r->tag, NULL) == 0;
    if (fd >= 0)
        close(fd);
    if (same) {
        r->done++;
        same = stk_ledger_put_record(s, file, r, NULL) == 0;
    }
    return same;
}

/* Whether a claimed parcel turns out to be there. */
static bool is_there(struct stk_tier_set *s, uint64_t file, uint64_t parcel)
{
    struct stk_ledger_entry e;
    struct stk_ledger_record r;
    if (!stk_ledger_entry(s, file, parcel, &e) || !stk_tier_file_lock(s, file, false))
        return false;
    bool there =
        stk_tier_file_good(s, file, &r) && (e.tag == r.tag || recheck(s, file, parcel, &e, &r));
    stk_tier_file_unlock(s, file);
    return there;
}

static uint8_t known(const struct stk_tier_set *s, uint64_t g)
{
    return atomic_load_explicit(&s->known[g], memory_order_relaxed);
}

/* Claims a parcel among the threads of this process. */
static enum stk_tier_claim claim_here(struct stk_tier_set *s, uint64_t g)
{
    pthread_mutex_lock(&s->lock);
    uint8_t now = known(s, g);
    if (now == STK_KNOWN_NOT)
        stk_tier_know(s, g, STK_KNOWN_CLAIMED);
    pthread_mutex_unlock(&s->lock);
    return now == STK_KNOWN_NOT     ? STK_TIER_OURS
           : now == STK_KNOWN_THERE ? STK_TIER_THERE
                                    : STK_TIER_BUSY;
}

static void unclaim_here(struct stk_tier_set *s, uint64_t g, uint64_t n)
{
    pthread_mutex_lock(&s->lock);
    for (uint64_t i = g; i < g + n; i++)
        if (known(s, i) == STK_KNOWN_CLAIMED)
            stk_tier_know(s, i, STK_KNOWN_NOT);
    pthread_mutex_unlock(&s->lock);
}

bool stk_tier_lock_noted(struct stk_tier_set *s, int64_t at, int64_t n)
{
    if (stk_tier_lock(s->ledger, F_WRLCK, at, n) == 0)
        return true;
    if (errno != EAGAIN)
        atomic_store(&s->refused, errno);
    return false;
}

enum stk_tier_claim stk_tier_claim(struct stk_tier_set *s, uint64_t file, uint64_t parcel)
{
    uint64_t g = s->base[file] + parcel;
    enum stk_tier_claim got = claim_here(s, g);
    if (got != STK_TIER_OURS)
        return got;
    if (!stk_tier_lock_noted(s, (int64_t)g, 1)) {
        unclaim_here(s, g, 1);
        return STK_TIER_BUSY;
    }
    if (!is_there(s, file, parcel))
        return STK_TIER_OURS;
    stk_tier_know(s, g, STK_KNOWN_THERE);
    stk_tier_drop(s, file, parcel);
    return STK_TIER_THERE;
}

void stk_tier_drop(struct stk_tier_set *s, uint64_t file, uint64_t parcel)
{
    uint64_t g = s->base[file] + parcel;
    (void)stk_tier_lock(s->ledger, F_UNLCK, (int64_t)g, 1);
    unclaim_here(s, g, 1);
}

/* ---- many files ---- */

/* True if all parcels were unclaimed here, and now are claimed here. */
static bool claim_range_here(struct stk_tier_set *s, uint64_t from, uint64_t to)
{
    bool all_free = true;
    pthread_mutex_lock(&s->lock);
    for (uint64_t g = from; all_free && g < to; g++)
        all_free = known(s, g) == STK_KNOWN_NOT;
    for (uint64_t g = from; all_free && g < to; g++)
        stk_tier_know(s, g, STK_KNOWN_CLAIMED);
    pthread_mutex_unlock(&s->lock);
    return all_free;
}

/* All that is missing of a file, or nothing. */
static enum stk_tier_claim claim_file(struct stk_tier_set *s, uint64_t file)
{
    uint64_t n = s->base[file + 1] - s->base[file], ours = 0, i = 0;
    enum stk_tier_claim one = STK_TIER_THERE;
    for (; i < n && one != STK_TIER_BUSY; i++) {
        one = stk_tier_claim(s, file, i);
        ours += one == STK_TIER_OURS;
    }
    if (one != STK_TIER_BUSY)
        return ours ? STK_TIER_OURS : STK_TIER_THERE;
    for (uint64_t k = 0; k + 1 < i; k++)
        stk_tier_drop(s, file, k);
    return STK_TIER_BUSY;
}

/* Of a file that is locked as a whole. */
static enum stk_tier_claim look_through(struct stk_tier_set *s, const struct stk_ledger_view *v,
                                        uint64_t file)
{
    enum stk_tier_claim all = STK_TIER_THERE;
    uint64_t n = s->base[file + 1] - s->base[file];
    for (uint64_t i = 0; i < n; i++) {
        struct stk_ledger_entry e;
        if (stk_ledger_entry_in(v, file, i, &e) && is_there(s, file, i))
            stk_tier_know(s, s->base[file] + i, STK_KNOWN_THERE);
        else
            all = STK_TIER_OURS;
    }
    return all;
}

static void drop_range(struct stk_tier_set *s, uint64_t first, uint64_t n)
{
    uint64_t from = s->base[first], count = s->base[first + n] - from;
    if (count)
        (void)stk_tier_lock(s->ledger, F_UNLCK, (int64_t)from, (int64_t)count);
    unclaim_here(s, from, count);
}

static bool claim_range(struct stk_tier_set *s, uint64_t first, uint64_t n, uint8_t *got)
{
    uint64_t from = s->base[first], to = s->base[first + n];
    uint8_t *p = malloc(stk_ledger_span(s, first, n));
    bool ours = p && claim_range_here(s, from, to);
    if (ours && !stk_tier_lock_noted(s, (int64_t)from, (int64_t)(to - from))) {
        unclaim_here(s, from, to - from);
        ours = false;
    }
    bool read = ours && stk_ledger_read(s, first, n, p, NULL) == 0;
    struct stk_ledger_view v = {s, p, first};
    for (uint64_t i = 0; read && i < n; i++)
        got[i] = (uint8_t)look_through(s, &v, first + i);
    if (ours && !read)
        drop_range(s, first, n);
    free(p);
    return read;
}

void stk_tier_claim_files(struct stk_tier_set *s, uint64_t first, uint64_t n, uint8_t *got)
{
    if (!n || claim_range(s, first, n, got))
        return;
    for (uint64_t i = 0; i < n; i++)
        got[i] = (uint8_t)claim_file(s, first + i);
}

void stk_tier_drop_files(struct stk_tier_set *s, uint64_t first, uint64_t n, const uint8_t *got)
{
    for (uint64_t i = 0, run; i < n; i += run ? run : 1) {
        for (run = 0; i + run < n && got[i + run] != STK_TIER_BUSY;)
            run++;
        if (run)
            drop_range(s, first + i, run);
    }
}
