/* api.c - the set of live handles: open addressing, at most half full, emptied slots closed up. */
#include "base/api.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_LEAST 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct set {
    const void **slot;
    size_t nslots, n; /* nslots: a power of two, or 0 */
} live;

/* A child must not wait for a thread that it does not have. */
static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork, after_fork);
}

static size_t home(const struct set *s, const void *p)
{
    return (size_t)((uint64_t)(uintptr_t)p * 0x9e3779b97f4a7c15u >> 20) & (s->nslots - 1);
}

/* Where p is, or the empty slot where it would go. */
static size_t find(const struct set *s, const void *p)
{
    size_t at = home(s, p);
    while (s->slot[at] && s->slot[at] != p)
        at = (at + 1) & (s->nslots - 1);
    return at;
}

static bool grow(struct set *s)
{
    struct set more = {.nslots = s->nslots ? 2 * s->nslots : SLOTS_LEAST, .n = s->n};
    more.slot = calloc(more.nslots, sizeof *more.slot);
    if (!more.slot)
        return false;
    for (size_t i = 0; i < s->nslots; i++)
        if (s->slot[i])
            more.slot[find(&more, s->slot[i])] = s->slot[i];
    free(s->slot);
    *s = more;
    return true;
}

/* Empties a slot, and moves up those that stand behind it because it was taken. */
static void take_out(struct set *s, size_t hole)
{
    size_t mask = s->nslots - 1;
    for (size_t at = (hole + 1) & mask; s->slot[at]; at = (at + 1) & mask)
        if (((at - home(s, s->slot[at])) & mask) >= ((at - hole) & mask)) {
            s->slot[hole] = s->slot[at];
            hole = at;
        }
    s->slot[hole] = NULL;
    s->n--;
}

bool stk_live_add(const void *handle)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    bool room = 2 * live.n < live.nslots || grow(&live);
    size_t at = room ? find(&live, handle) : 0;
    if (room && !live.slot[at]) {
        live.slot[at] = handle;
        live.n++;
    }
    pthread_mutex_unlock(&lock);
    return room;
}

bool stk_live_end(const void *handle)
{
    if (!handle)
        return false;
    pthread_mutex_lock(&lock);
    size_t at = live.n ? find(&live, handle) : 0;
    bool was = live.n && live.slot[at];
    if (was)
        take_out(&live, at);
    pthread_mutex_unlock(&lock);
    return was;
}

/* ---- structs of callers ---------------------------------------------------------------------- */

int stk_sized_in(void *own, size_t own_size, const void *theirs, size_t their_size,
                 const char *what, struct stk_err *err)
{
    const uint8_t *p = theirs;
    memset(own, 0, own_size);
    if (!p)
        return 0;
    memcpy(own, p, their_size < own_size ? their_size : own_size);
    for (size_t i = own_size; i < their_size; i++)
        if (p[i])
            return stk_err_set(
                err, STK_E_USAGE, NULL, -1,
                "the %s set a member that libstoker %s does not have: the program was "
                "built for a later version",
                what, STK_VERSION);
    return 0;
}

void stk_sized_out(void *theirs, size_t their_size, const void *own, size_t own_size)
{
    if (!theirs)
        return;
    memset(theirs, 0, their_size);
    memcpy(theirs, own, their_size < own_size ? their_size : own_size);
}
