/*
 * stamp.c - whether a copy is as stoker left it. Its inode, size and times are recorded after each
 * write; a copy that someone else has changed since has other ones (ctime cannot be set), and then
 * only its hashes can tell what of it is still good.
 */
#include "tier/priv.h"

#include "base/hash.h"
#include "base/own.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <time.h>
#include <unistd.h>

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
