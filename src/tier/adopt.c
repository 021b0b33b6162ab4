/*
 * adopt.c - files that were written into the folder of a set by other means, as a packed copy is:
 * each is hashed like one that was copied, and counts from then on.
 */
#include "tier/priv.h"

#include "base/file.h"
#include "base/hash.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int differs(const struct stk_tier_set *s, uint64_t file, const char *how,
                   struct stk_err *err)
{
    return stk_err_set(err, STK_E_STALE, s->path, -1, "%s %s", s->src.file[file].name, how);
}

/* Writes an entry per parcel, and compares the file with its hash in the list. */
static int hash_parcels(struct stk_tier_set *s, uint64_t file, int fd, uint32_t tag,
                        struct stk_err *err)
{
    const struct stk_tier_file *f = &s->src.file[file];
    size_t most = stk_tier_parcel_len(f->size, 0);
    uint8_t *p = malloc(most ? most : 1);
    struct stk_hash all;
    int rc = p ? 0 : stk_err_nomem(err, most);
    stk_hash_init(&all);
    for (uint64_t i = 0; rc == 0 && i < stk_tier_parcels(f->size); i++) {
        size_t n = stk_tier_parcel_len(f->size, i), got = 0;
        rc = stk_pread_full(fd, p, n, i * STK_TIER_PARCEL, &got, s->path, err);
        if (rc == 0 && got < n)
            rc = differs(s, file, "became shorter", err);
        stk_hash_update(&all, p, rc ? 0 : n);
        rc = rc ? rc : stk_ledger_put_entry(s, file, i, stk_tier_hash(p, n), tag, err);
    }
    if (rc == 0 && f->hashed && stk_hash_final(&all) != f->hash)
        rc = differs(s, file, "differs from its checksum", err);
    free(p);
    return rc;
}

static int take(struct stk_tier_set *s, uint64_t file, int fd, struct stk_err *err)
{
    struct stat st;
    struct stk_ledger_record r = {.boot = s->tier->boot, .tag = stk_tier_new_tag(s, 0)};
    if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != s->src.file[file].size)
        return differs(s, file, "has another size", err);
    int rc = hash_parcels(s, file, fd, r.tag, err);
    rc = rc ? rc : stk_tier_finish_open(s, file, fd, &r, err);
    return rc ? rc : stk_ledger_put_record(s, file, &r, err);
}

/* With the file's lock. */
static int adopt(struct stk_tier_set *s, uint64_t file, struct stk_err *err)
{
    struct stk_ledger_record r;
    if (stk_tier_file_good(s, file, &r) && r.state == STK_RECORD_FINISHED)
        return 0;
    int fd = stk_tier_copy_open(s, file, false, NULL);
    if (fd < 0)
        return differs(s, file, "is missing", err);
    int rc = stk_tier_reserve(s, s->src.file[file].size, err);
    rc = rc ? rc : take(s, file, fd, err);
    close(fd);
    return rc;
}

int stk_tier_adopt_file(struct stk_tier_set *s, uint64_t file, struct stk_err *err)
{
    if (!stk_tier_file_lock(s, file, false))
        return stk_tier_held_up(s->ledger, s->path, err);
    int rc = adopt(s, file, err);
    stk_tier_file_unlock(s, file);
    return rc;
}

int stk_tier_expect(struct stk_tier_set *s, uint64_t bytes, struct stk_err *err)
{
    return stk_tier_reserve(s, bytes, err);
}

bool stk_tier_set_alone(struct stk_tier_set *s)
{
    return stk_tier_lock_noted(s, STK_LOCK_ALONE, 1);
}
