/*
 * ledger.c - which parcels of a set are there: records and entries at fixed places, each with a
 * check value. Read and written by pread() and pwrite(): a ledger that someone cuts short gives an
 * error, not SIGBUS.
 *
 * A copy's inode, size and times are recorded after each write; a copy that someone else has
 * changed since has other ones (ctime cannot be set), and then only its hashes can tell what of it
 * is still good.
 */
#include "tier/priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/own.h"
#include "base/random.h"

uint64_t stk_tier_hash_more(uint64_t hash, const void *p, size_t n)
{
    return (uint64_t)stk_crc32c((uint32_t)(hash >> 32), p, n) << 32 | (uint32_t)(hash + n);
}

uint64_t stk_tier_hash(const void *p, size_t n)
{
    return stk_tier_hash_more(0, p, n);
}

#define MAGIC   "STKTLEDG"
#define VERSION 1u
#define BLOCK   4096u /* files or parcels that are read at once */

#define HEAD   sizeof(struct stk_ledger_head)
#define RECORD sizeof(struct stk_ledger_record)
#define ENTRY  sizeof(struct stk_ledger_entry)

_Static_assert(HEAD == 64 && RECORD == 64 && ENTRY == 16, "places in the ledger");

/* ---- locks ---- */

/* Of some file systems, EACCES means that another has it; of others, that there are no locks. */
static bool is_taken(int fd, const struct flock *want)
{
    struct flock lock = *want;
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int stk_tier_lock(int fd, int type, int64_t at, int64_t n)
{
    struct flock lock = {
        .l_type = (short)type, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = (off_t)n};
    int rc = fcntl(fd, F_OFD_SETLK, &lock);
    if (rc == 0 || errno != EACCES || type == F_UNLCK)
        return rc;
    bool taken = is_taken(fd, &lock);
    rc = taken ? -1 : fcntl(fd, F_OFD_SETLK, &lock); /* it may just have been given back */
    errno = taken ? EAGAIN : errno;
    return rc;
}

/* Who cannot be asked may be there. */
bool stk_tier_locked(int fd, int64_t at)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};
    return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

/* ---- places ---- */

static uint64_t ledger_size(uint64_t files, uint64_t parcels)
{
    return HEAD + files * RECORD + parcels * ENTRY;
}

static uint64_t record_at(const struct stk_tier_set *s, uint64_t file)
{
    return HEAD + file * RECORD + s->base[file] * ENTRY;
}

static uint64_t entry_at(const struct stk_tier_set *s, uint64_t file, uint64_t parcel)
{
    return record_at(s, file) + RECORD + parcel * ENTRY;
}

/* The place is part of it: an entry that ends up elsewhere is not valid there. */
static uint32_t check_of(const struct stk_tier_set *s, uint64_t at, const void *p, size_t n)
{
    struct stk_hash h;
    uint64_t seed[2] = {s->salt, at};
    stk_hash_init(&h);
    stk_hash_update(&h, seed, sizeof seed);
    stk_hash_update(&h, p, n);
    return (uint32_t)stk_hash_final(&h) | 1; /* zeros are not an entry */
}

/* ---- the header ---- */

static void head_of(const struct stk_tier_set *s, struct stk_ledger_head *h)
{
    *h = (struct stk_ledger_head){.version = VERSION,
                                  .parcel_bytes = STK_TIER_PARCEL,
                                  .files = s->src.count,
                                  .parcels = s->base[s->src.count],
                                  .salt = s->salt};
    memcpy(h->magic, MAGIC, 8);
    h->check = check_of(s, 0, h, offsetof(struct stk_ledger_head, reserved));
}

int stk_ledger_create(int fd, const struct stk_tier_set *s, const char *path, struct stk_err *err)
{
    struct stk_ledger_head h;
    head_of(s, &h);
    if (ftruncate(fd, (off_t)ledger_size(h.files, h.parcels)) < 0)
        return stk_err_sys(err, path, "write");
    return stk_pwrite_full(fd, &h, sizeof h, 0, path, err);
}

int stk_ledger_check(const struct stk_tier_set *s, struct stk_err *err)
{
    struct stk_ledger_head want, h = {0};
    struct stat st;
    size_t got = 0;
    head_of(s, &want);
    int rc = stk_pread_full(s->ledger, &h, sizeof h, 0, &got, s->path, err);
    if (rc < 0)
        return rc;
    h.reserved = h.spare = 0;
    bool fits = fstat(s->ledger, &st) == 0 &&
                (uint64_t)st.st_size == ledger_size(want.files, want.parcels) &&
                memcmp(&h, &want, sizeof h) == 0;
    return fits ? 0
                : stk_err_set(err, STK_E_CORRUPT, s->path, -1,
                              "damaged: its ledger does not belong to its list");
}

/* ---- records and entries ---- */

static bool record_is_sound(const struct stk_tier_set *s, uint64_t at, struct stk_ledger_record *r)
{
    bool sound = r->state <= STK_RECORD_FINISHED &&
                 r->check == check_of(s, at, r, offsetof(struct stk_ledger_record, check));
    if (!sound)
        *r = (struct stk_ledger_record){0};
    return sound;
}

static bool entry_is_sound(const struct stk_tier_set *s, uint64_t at, struct stk_ledger_entry *e)
{
    bool sound = e->check == check_of(s, at, e, offsetof(struct stk_ledger_entry, check));
    if (!sound)
        *e = (struct stk_ledger_entry){0};
    return sound;
}

static bool read_at(const struct stk_tier_set *s, void *p, size_t n, uint64_t at)
{
    size_t got = 0;
    return stk_pread_full(s->ledger, p, n, at, &got, NULL, NULL) == 0 && got == n;
}

bool stk_ledger_record(const struct stk_tier_set *s, uint64_t file, struct stk_ledger_record *r)
{
    uint64_t at = record_at(s, file);
    *r = (struct stk_ledger_record){0};
    return read_at(s, r, sizeof *r, at) && record_is_sound(s, at, r);
}

bool stk_ledger_entry(const struct stk_tier_set *s, uint64_t file, uint64_t parcel,
                      struct stk_ledger_entry *e)
{
    uint64_t at = entry_at(s, file, parcel);
    *e = (struct stk_ledger_entry){0};
    return read_at(s, e, sizeof *e, at) && entry_is_sound(s, at, e);
}

size_t stk_ledger_span(const struct stk_tier_set *s, uint64_t file, uint64_t n)
{
    return (size_t)(n * RECORD + (s->base[file + n] - s->base[file]) * ENTRY);
}

int stk_ledger_read(const struct stk_tier_set *s, uint64_t file, uint64_t n, uint8_t *p,
                    struct stk_err *err)
{
    size_t got = 0, want = stk_ledger_span(s, file, n);
    int rc = stk_pread_full(s->ledger, p, want, record_at(s, file), &got, s->path, err);
    if (rc == 0 && got < want)
        memset(p + got, 0, want - got);
    return rc;
}

bool stk_ledger_record_in(const struct stk_ledger_view *v, uint64_t file,
                          struct stk_ledger_record *r)
{
    uint64_t at = record_at(v->set, file);
    memcpy(r, v->p + (at - record_at(v->set, v->first)), sizeof *r);
    return record_is_sound(v->set, at, r);
}

bool stk_ledger_entry_in(const struct stk_ledger_view *v, uint64_t file, uint64_t parcel,
                         struct stk_ledger_entry *e)
{
    uint64_t at = entry_at(v->set, file, parcel);
    memcpy(e, v->p + (at - record_at(v->set, v->first)), sizeof *e);
    return entry_is_sound(v->set, at, e);
}

/* The number of files that are read at once: at least one. */
static uint64_t files_at(const struct stk_tier_set *s, uint64_t file)
{
    uint64_t n = 1;
    while (n < BLOCK && file + n < s->src.count && s->base[file + n + 1] - s->base[file] <= BLOCK)
        n++;
    return n;
}

int stk_ledger_each(struct stk_tier_set *s,
                    int (*see)(void *user, const struct stk_ledger_view *v, uint64_t file,
                               struct stk_err *err),
                    void *user, struct stk_err *err)
{
    int rc = 0;
    for (uint64_t f = 0, n; rc == 0 && f < s->src.count; f += n) {
        n = files_at(s, f);
        uint8_t *p = malloc(stk_ledger_span(s, f, n));
        struct stk_ledger_view v = {s, p, f};
        rc = p ? stk_ledger_read(s, f, n, p, err) : stk_err_nomem(err, stk_ledger_span(s, f, n));
        for (uint64_t i = 0; rc == 0 && i < n; i++)
            rc = see(user, &v, f + i, err);
        free(p);
    }
    return rc;
}

static void seal_record(const struct stk_tier_set *s, uint64_t at, struct stk_ledger_record *r)
{
    r->spare = 0;
    r->check = check_of(s, at, r, offsetof(struct stk_ledger_record, check));
}

static struct stk_ledger_entry sealed_entry(const struct stk_tier_set *s, uint64_t at,
                                            uint64_t hash, uint32_t tag)
{
    struct stk_ledger_entry e = {.hash = hash, .tag = tag};
    e.check = check_of(s, at, &e, offsetof(struct stk_ledger_entry, check));
    return e;
}

int stk_ledger_put_record(struct stk_tier_set *s, uint64_t file, struct stk_ledger_record *r,
                          struct stk_err *err)
{
    uint64_t at = record_at(s, file);
    seal_record(s, at, r);
    return stk_pwrite_full(s->ledger, r, sizeof *r, at, s->path, err);
}

int stk_ledger_put_entry(struct stk_tier_set *s, uint64_t file, uint64_t parcel, uint64_t hash,
                         uint32_t tag, struct stk_err *err)
{
    uint64_t at = entry_at(s, file, parcel);
    struct stk_ledger_entry e = sealed_entry(s, at, hash, tag);
    return stk_pwrite_full(s->ledger, &e, sizeof e, at, s->path, err);
}

int stk_ledger_put_small(struct stk_tier_set *s, uint64_t file, struct stk_ledger_record *r,
                         uint64_t hash, struct stk_err *err)
{
    struct {
        struct stk_ledger_record r;
        struct stk_ledger_entry e;
    } both;
    _Static_assert(sizeof both == RECORD + ENTRY, "adjacent in the ledger");
    uint64_t at = record_at(s, file);
    seal_record(s, at, r);
    both.r = *r;
    both.e = sealed_entry(s, at + RECORD, hash, r->tag);
    return stk_pwrite_full(s->ledger, &both, sizeof both, at, s->path, err);
}

#define LOCK_WAIT_MS 10000 /* another writer of the same file takes milliseconds */

static int64_t ns_of(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

bool stk_tier_stamp_fits(const struct stk_ledger_record *r, const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_ino == r->inode && (uint64_t)st->st_size == r->size &&
           ns_of(st->st_ctim) == r->ctime_ns && ns_of(st->st_mtim) == r->mtime_ns;
}

static uint64_t hash_of(const struct stk_ledger_record *r)
{
    uint64_t v[4] = {r->inode, r->size, (uint64_t)r->ctime_ns, (uint64_t)r->mtime_ns};
    return stk_hash64(v, sizeof v) | 1;
}

uint64_t stk_tier_stamp_hash(const struct stat *st)
{
    struct stk_ledger_record r = {0};
    stk_tier_stamp_take(&r, st);
    return hash_of(&r);
}

void stk_tier_stamp_take(struct stk_ledger_record *r, const struct stat *st)
{
    r->inode = st->st_ino;
    r->size = (uint64_t)st->st_size;
    r->ctime_ns = ns_of(st->st_ctim);
    r->mtime_ns = ns_of(st->st_mtim);
}

static int preload_file(void *user, const struct stk_ledger_view *v, uint64_t file,
                        struct stk_err *err)
{
    struct stk_tier_set *s = user;
    struct stk_ledger_record r;
    struct stk_ledger_entry e;
    (void)err;
    bool good = stk_ledger_record_in(v, file, &r) && r.state == STK_RECORD_FINISHED &&
                (r.boot == s->tier->boot || atomic_load(&s->published));
    for (uint64_t i = 0; good && i < s->base[file + 1] - s->base[file]; i++)
        good = stk_ledger_entry_in(v, file, i, &e) && e.tag == r.tag;
    atomic_store_explicit(&s->stamp[file], good ? hash_of(&r) : 0, memory_order_relaxed);
    return 0;
}

int stk_tier_preload(struct stk_tier_set *s, struct stk_err *err)
{
    return stk_ledger_each(s, preload_file, s, err);
}

void stk_tier_forget(struct stk_tier_set *s, uint64_t file)
{
    atomic_store_explicit(&s->stamp[file], 0, memory_order_relaxed);
    for (uint64_t g = s->base[file]; g < s->base[file + 1]; g++) {
        uint8_t was = STK_KNOWN_THERE;
        atomic_compare_exchange_strong(&s->known[g], &was, STK_KNOWN_NOT);
    }
}

/* ---- the lock of a file's record ---- */

static pthread_mutex_t *stripe_of(struct stk_tier_set *s, uint64_t file)
{
    return &s->stripe[file % STK_TIER_STRIPES];
}

/* Polls: a process that was stopped must not stop this one. */
static bool lock_among_processes(struct stk_tier_set *s, uint64_t file, bool try)
{
    for (int waited = 0; stk_tier_lock(s->ledger, F_WRLCK, STK_LOCK_FILE + (int64_t)file, 1) < 0;
         waited++) {
        if (try || waited >= LOCK_WAIT_MS || errno != EAGAIN)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return true;
}

bool stk_tier_file_lock(struct stk_tier_set *s, uint64_t file, bool try)
{
    pthread_mutex_t *mine = stripe_of(s, file);
    if (try && pthread_mutex_trylock(mine) != 0)
        return false;
    if (!try)
        pthread_mutex_lock(mine);
    bool locked = lock_among_processes(s, file, try);
    if (!locked)
        pthread_mutex_unlock(mine);
    return locked;
}

bool stk_tier_file_busy(struct stk_tier_set *s, uint64_t file)
{
    if (pthread_mutex_trylock(stripe_of(s, file)) != 0)
        return true;
    bool locked = stk_tier_locked(s->ledger, STK_LOCK_FILE + (int64_t)file);
    pthread_mutex_unlock(stripe_of(s, file));
    return locked;
}

void stk_tier_file_unlock(struct stk_tier_set *s, uint64_t file)
{
    (void)stk_tier_lock(s->ledger, F_UNLCK, STK_LOCK_FILE + (int64_t)file, 1);
    pthread_mutex_unlock(stripe_of(s, file));
}

/* ---- the copy ---- */

static bool look(const struct stk_tier_set *s, uint64_t file, struct stat *st)
{
    char name[PATH_MAX];
    return stk_tier_name_of(s, file, name, sizeof name) &&
           fstatat(s->copy, name, st, AT_SYMLINK_NOFOLLOW) == 0;
}

uint32_t stk_tier_new_tag(const struct stk_tier_set *s, uint32_t old)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t v = stk_mix64((uint64_t)ns_of(now) ^ (uint64_t)getpid() << 40 ^ s->salt);
    uint32_t tag = (uint32_t)v | 1; /* 0: that of an entry that was struck out */
    return tag == old ? old + 2 : tag;
}

/* A record under which no entry counts yet. False: there is no copy of the right size. */
static bool start_over(struct stk_tier_set *s, uint64_t file, struct stk_ledger_record *r)
{
    struct stat st;
    uint32_t old = r->tag;
    *r = (struct stk_ledger_record){0};
    if (!look(s, file, &st) || !S_ISREG(st.st_mode) ||
        (uint64_t)st.st_size != s->src.file[file].size)
        return false;
    r->state = STK_RECORD_OPEN;
    r->boot = s->tier->boot;
    r->tag = stk_tier_new_tag(s, old);
    stk_tier_stamp_take(r, &st);
    return stk_ledger_put_record(s, file, r, NULL) == 0;
}

bool stk_tier_file_good(struct stk_tier_set *s, uint64_t file, struct stk_ledger_record *r)
{
    struct stat st;
    bool good = stk_ledger_record(s, file, r) && r->state != STK_RECORD_NONE &&
                (r->boot == s->tier->boot || atomic_load(&s->published)) && look(s, file, &st) &&
                stk_tier_stamp_fits(r, &st);
    if (!good && s->filler)
        good = start_over(s, file, r);
    return good;
}

/* ---- opening it for writing ---- */

static int make_folders(struct stk_tier_set *s, const char *name)
{
    int fd = dup(s->copy);
    for (const char *slash; fd >= 0 && (slash = strchr(name, '/')); name = slash + 1) {
        char part[NAME_MAX + 1];
        size_t n = (size_t)(slash - name);
        memcpy(part, name, n); /* the list has no longer ones */
        part[n] = '\0';
        int next = stk_enter_at(fd, part), why = errno;
        close(fd);
        errno = why;
        fd = next;
    }
    if (fd >= 0)
        close(fd);
    return fd < 0 ? -1 : 0;
}

/* Opens what has the name. -1: it is not a file of ours alone: a link, or a file with another name
 * elsewhere, which would be written to as well. */
static int open_own(struct stk_tier_set *s, const char *name)
{
    struct stat st;
    int fd = openat(s->copy, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1))
        return fd;
    close(fd);
    errno = ELOOP;
    return -1;
}

static int create(struct stk_tier_set *s, const char *name, mode_t mode)
{
    int fd = stk_create_at(s->copy, name, mode);
    if (fd < 0 && errno == ENOENT && make_folders(s, name) == 0)
        fd = stk_create_at(s->copy, name, mode);
    return fd;
}

int stk_tier_copy_open(struct stk_tier_set *s, uint64_t file, bool make, struct stk_err *err)
{
    char name[PATH_MAX];
    if (!stk_tier_name_of(s, file, name, sizeof name))
        return stk_err_set(err, STK_E_UNSUPPORTED, s->path, -1, "a file's name is too long");
    mode_t mode = (s->src.file[file].mode & 0777) | 0600;
    int fd = make ? create(s, name, mode) : -1;
    if (fd < 0 && (!make || errno == EEXIST))
        fd = open_own(s, name);
    if (fd < 0 && make && errno == ELOOP && stk_unlink_at(s->copy, name, s->path, NULL) == 0)
        fd = create(s, name, mode);
    return fd < 0 ? stk_err_sys(err, s->path, "open a file of the copy") : fd;
}
