/*
 * thread.c - threads have slots in the log: a new thread takes a free one and continues its
 * records, so that a program of a million short threads leaves a small log. Also has a thread's
 * records and its way through every open file description.
 */
#include "preload/priv.h"

#include <errno.h>
#include <pthread.h>

#define SLOTS       16384u
#define ARENA_BYTES 65536u
#define TABLE_FIRST 64u
#define RETRY_NS    100000000u /* no room in the log: try again after 0.1 s */

_Static_assert(sizeof(struct stk_pl_stream) == 64, "a line");

/* In older C libraries these are in libpthread, which a program without threads does not load. */
STK_OLD_GLIBC(pthread_key_create);
STK_OLD_GLIBC(pthread_setspecific);
#pragma weak pthread_key_create
#pragma weak pthread_setspecific
/* For keys beyond these the C library allocates memory in the thread that sets one; we may be in
 * that thread's malloc(), or in a handler that interrupted it. (PTHREAD_KEY_2NDLEVEL_SIZE) */
#define PLAIN_KEYS 32

__thread struct stk_pl_tls stk_pl_self STK_PL_TLS;
struct stk_pl_lock stk_pl_threads_lock;

static STK_TABLE struct stk_pl_thread *slot[SLOTS];
static uint32_t nslots, first_free; /* first_free: slot + 1, 0 none */
static pthread_key_t key;
static bool key_set;         /* otherwise we are not notified of a thread's end, and check
                                ourselves: */
static uint32_t look_at = 8; /* from this many slots on */

/* The thread ends: its slot becomes free. Destructors of others may still do I/O; that takes a slot
 * again. */
static void thread_end(void *p)
{
    struct stk_pl_thread *t = p;
    if (stk_pl_self.inside) /* cancelled in our own code (PTHREAD_CANCEL_ASYNCHRONOUS) */
        stk_pl_locks_give_up();
    if (stk_pl_self.thread != t || t->epoch != stk_pl.epoch)
        return;
    stk_pl_enter();
    if (__atomic_load_n(&stk_pl.state, __ATOMIC_SEQ_CST) == STK_PL_ON)
        stk_pl_kernel_thread_ends(t);
    stk_pl_self.thread = NULL;
    stk_pl_lock(&stk_pl_threads_lock);
    t->next_free = first_free;
    first_free = t->slot + 1;
    stk_pl_unlock(&stk_pl_threads_lock);
    stk_pl_leave();
}

void stk_pl_threads_start(void)
{
    key_set = &pthread_key_create && pthread_key_create(&key, thread_end) == 0 && key < PLAIN_KEYS;
}

/* In a forked child: there is one thread, and no slot is taken. The memory of the others is
 * reused. */
void stk_pl_threads_forked(void)
{
    first_free = 0;
    for (uint32_t i = nslots; i > 0; i--) {
        slot[i - 1]->tid = 0;
        slot[i - 1]->next_free = first_free;
        first_free = i;
    }
    stk_pl_self.thread = NULL;
    if (key_set)
        pthread_setspecific(key, NULL);
}

/* Takes over the memory of a slot that an earlier log (of the process we were forked from) used. */
static void renew(struct stk_pl_thread *t)
{
    t->line = NULL;
    t->bin = NULL;
    t->bin_from = t->bin_to = 0;
    t->trace = t->records = t->marks = NULL;
    t->retry_ns = 0;
    if (t->table)
        memset(t->table, 0, t->table_size * sizeof *t->table);
    t->table_used = 0;
    t->epoch = stk_pl.epoch;
}

/* The start of the path through something without a descriptor. */
static void way_begin(struct stk_pl_rec *r)
{
    *r->way = (struct stk_pl_way){.log = r->log,
                                  .rec = r,
                                  .read_start = -1,
                                  .read_end = -1,
                                  .write_end = -1,
                                  .name = r->name,
                                  .api = r->api};
}

/* Frees the slots of ended threads; the lock is held. Checks again when half of the slots are free,
 * or else when there are twice as many: so it costs little. */
static void look_for_ends(uint32_t self)
{
    long pid = stk_sys0(SYS_getpid);
    uint32_t found = 0;
    for (uint32_t i = 0; i < nslots; i++) {
        struct stk_pl_thread *t = slot[i];
        bool ended = t->tid == self || stk_sys3(SYS_tgkill, pid, t->tid, 0) == -ESRCH;
        if (!t->tid || !ended)
            continue;
        t->tid = 0;
        t->next_free = first_free;
        first_free = i + 1;
        found++;
    }
    look_at = 2 * (nslots - found) + 8;
}

struct stk_pl_thread *stk_pl_thread_begin(void)
{
    struct stk_pl_thread *t = NULL;
    uint32_t tid = key_set ? 0 : (uint32_t)stk_sys0(SYS_gettid);
    stk_pl_lock(&stk_pl_threads_lock);
    if (!key_set && !first_free && nslots >= look_at)
        look_for_ends(tid);
    if (first_free) {
        t = slot[first_free - 1];
        first_free = t->next_free;
    } else if (nslots < SLOTS && (t = stk_pl_memory(sizeof *t))) {
        t->slot = nslots;
        slot[nslots++] = t;
    }
    if (t)
        t->tid = tid;
    stk_pl_unlock(&stk_pl_threads_lock);
    if (!t)
        return NULL;
    if (t->epoch != stk_pl.epoch)
        renew(t);
    t->incarnation++;
    t->last_read_ns = 0;
    t->depth = 0;
    t->tsc_limit = 0;
    if (t->line) {
        t->line->tid = (uint32_t)stk_sys0(SYS_gettid);
        t->line->threads++;
    }
    for (uint32_t i = 0; i < t->table_size; i++) /* HDF5's and MPI's paths through their files */
        if (t->table[i] && t->table[i]->way)
            way_begin(t->table[i]);
    stk_pl_kernel_thread_begins();
    t->born_ns = stk_pl_clock_mono();
    stk_pl_self.thread = t;
    if (key_set)
        pthread_setspecific(key, t);
    return t;
}

void *stk_pl_thread_memory(struct stk_pl_thread *t, size_t bytes)
{
    bytes = (bytes + 63) & ~(size_t)63; /* whole cache lines */
    if ((size_t)(t->arena_end - t->arena) < bytes) {
        size_t room = (bytes > ARENA_BYTES ? bytes : ARENA_BYTES) + 2 * STK_PL_APART;
        char *more = stk_pl_memory(room);
        if (!more)
            return NULL;
        t->arena = t->arena ? more : more + 2 * STK_PL_APART;
        t->arena_end = more + room;
    }
    void *at = t->arena;
    t->arena += bytes;
    return at;
}

/* The start of this thread's path through d. */
struct stk_pl_stream *stk_pl_stream_begin(struct stk_pl_thread *t, const struct stk_pl_desc *d)
{
    struct stk_pl_stream **page = &t->page[d->index / STK_PL_STREAM_PAGE];
    if (!*page) {
        *page = stk_pl_thread_memory(t, STK_PL_STREAM_PAGE * sizeof **page);
        if (!*page)
            return NULL;
    }
    struct stk_pl_stream *s = &(*page)[d->index % STK_PL_STREAM_PAGE];
    *s = (struct stk_pl_stream){.key = (uint64_t)t->incarnation << 32 | d->generation,
                                .way = {.read_start = -1, .read_end = -1, .write_end = -1}};
    return s;
}

/* The table entry for the record of (name, API), existing or not. */
static struct stk_pl_rec **seat(struct stk_pl_thread *t, uint32_t name, uint8_t api)
{
    uint32_t mask = t->table_size - 1;
    uint32_t i = (uint32_t)stk_mix64((uint64_t)name << 8 | api) & mask;
    while (t->table[i] && (t->table[i]->name != name || t->table[i]->api != api))
        i = (i + 1) & mask;
    return &t->table[i];
}

static bool table_grow(struct stk_pl_thread *t)
{
    struct stk_pl_rec **old = t->table;
    uint32_t n = t->table_size, size = n ? 2 * n : TABLE_FIRST;
    struct stk_pl_rec **table = stk_pl_thread_memory(t, size * sizeof *table);
    if (!table)
        return false;
    memset(table, 0, size * sizeof *table);
    t->table = table;
    t->table_size = size;
    for (uint32_t i = 0; i < n; i++)
        if (old[i])
            *seat(t, old[i]->name, old[i]->api) = old[i];
    return true;
}

/* Makes room for a record in the log. */
static struct stk_log_record *log_record(struct stk_pl_thread *t)
{
    const uint32_t bytes = sizeof(struct stk_log_record);
    struct stk_log_block *b = t->records;
    if (!b || !stk_pl_log_fits(b, bytes)) {
        struct stk_log_block *more = stk_pl_log_block(STK_BLK_RECORDS, t->slot);
        if (!more)
            return NULL;
        if (b)
            stk_pl_log_cold(b);
        t->records = b = more;
    }
    return (struct stk_log_record *)((char *)(b + 1) + b->used);
}

static struct stk_pl_rec *new_record(struct stk_pl_thread *t, struct stk_pl_file *f, uint8_t api)
{
    struct stk_log_record *log = stk_pl_file_log(f) ? log_record(t) : NULL;
    struct stk_pl_rec *r = log ? stk_pl_thread_memory(t, sizeof *r) : NULL;
    bool no_descriptor = api > STK_API_ASYNC;
    if (!r)
        return NULL;
    *r = (struct stk_pl_rec){.log = log, .name = f->id, .api = api};
    if (no_descriptor && !(r->way = stk_pl_thread_memory(t, sizeof *r->way)))
        return NULL;
    if (no_descriptor)
        way_begin(r);
    log->name = f->id;
    log->api = api;
    log->group = f->group;
    log->dev = f->dev;
    log->ino = f->group ? 0 : f->ino;
    log->fs_type = f->fs_type;
    log->stripe_bytes = f->stripe_bytes;
    log->stripe_count = f->stripe_count;
    log->read.overflow = f->group;
    static const enum stk_counter smallest[] = {STK_C_MIN_OFFSET, STK_C_FIRST_NS,
                                                STK_C_FIRST_READ_NS, STK_C_OPEN_NS};
    for (size_t i = 0; i < sizeof smallest / sizeof *smallest; i++)
        log->n.c[smallest[i]] = UINT64_MAX;
    __atomic_store_n(&t->records->used, t->records->used + (uint32_t)sizeof *log, __ATOMIC_RELEASE);
    return r;
}

/* Too many individual records: further ones of the thread go to groups. */
static struct stk_pl_file *within_limit(struct stk_pl_file *f)
{
    if (f->group || __atomic_load_n(&stk_pl.records, __ATOMIC_RELAXED) < stk_pl.record_limit)
        return f;
    struct stk_pl_file *g = stk_pl_group_of(f);
    if (g && !g->dev)
        g->dev = f->dev;
    return g;
}

struct stk_pl_rec *stk_pl_rec_of(struct stk_pl_thread *t, struct stk_pl_file *f, enum stk_api api)
{
    if (2 * (t->table_used + 1) > t->table_size && !table_grow(t))
        return NULL;
    struct stk_pl_rec **at = seat(t, f->id, (uint8_t)api);
    if (*at)
        return *at;
    struct stk_pl_file *as = within_limit(f);
    if (as && as != f)
        at = seat(t, as->id, (uint8_t)api);
    if (as && !*at && (!t->retry_ns || stk_pl_clock_mono() > t->retry_ns)) {
        *at = new_record(t, as, (uint8_t)api);
        t->retry_ns = *at ? 0 : stk_pl_clock_mono() + RETRY_NS;
        t->table_used += *at != NULL;
        if (*at && !as->group)
            __atomic_fetch_add(&stk_pl.records, 1, __ATOMIC_RELAXED);
    }
    return as ? *at : NULL;
}
