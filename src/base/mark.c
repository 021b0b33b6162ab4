/*
 * mark.c - sends marks to the preload library if it is in the process. The library is found by
 * name, once, so that nothing here links against it.
 */
#include "base/mark.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "stoker.h"

enum mark_kind { MARK_STEP = 1, MARK_EPOCH = 3 }; /* enum stk_log_mark_kind of proflog/log.h */

struct profiler {
    void (*mark)(uint32_t kind, const char *name, uint64_t number);
    void (*phase_begin)(const char *name);
    void (*phase_end)(void);
    void (*told)(int fd, int is_write, int64_t offset, int64_t bytes, uint64_t start_ns,
                 uint64_t end_ns);
    void (*waited)(uint64_t begin_ns);
};

enum { UNKNOWN, ABSENT, PRESENT };
static struct profiler found;
static atomic_int state;

static bool find(const char *name, void *to)
{
    void *p = dlsym(RTLD_DEFAULT, name);
    memcpy(to, &p, sizeof p);
    return p != NULL;
}

static void look(void)
{
    bool all = find("stoker_preload_mark", &found.mark) &&
               find("stoker_preload_phase_begin", &found.phase_begin) &&
               find("stoker_preload_phase_end", &found.phase_end) &&
               find("stoker_preload_told", &found.told);
    (void)find("stoker_preload_waited", &found.waited); /* older ones do not have it */
    atomic_store_explicit(&state, all ? PRESENT : ABSENT, memory_order_release);
}

static inline const struct profiler *profiler(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int s = atomic_load_explicit(&state, memory_order_acquire);
    if (__builtin_expect(s == UNKNOWN, 0)) {
        pthread_once(&once, look);
        s = atomic_load_explicit(&state, memory_order_acquire);
    }
    return s == PRESENT ? &found : NULL;
}

bool stk_profiled(void)
{
    return profiler() != NULL;
}

void stk_mark_read(int fd, int64_t offset, int64_t result, uint64_t start_ns, uint64_t end_ns)
{
    const struct profiler *p = profiler();
    if (p)
        p->told(fd, 0, offset, result, start_ns, end_ns);
}

void stk_mark_wait(uint64_t begin_ns)
{
    const struct profiler *p = profiler();
    if (p && p->waited)
        p->waited(begin_ns);
}

static void mark(enum mark_kind kind, uint64_t number)
{
    const struct profiler *p = profiler();
    if (p)
        p->mark((uint32_t)kind, NULL, number);
}

void stk_step(void)
{
    mark(MARK_STEP, UINT64_MAX);
}

void stk_epoch(void)
{
    mark(MARK_EPOCH, UINT64_MAX);
}

void stk_step_at(uint64_t number)
{
    mark(MARK_STEP, number);
}

void stk_epoch_at(uint64_t number)
{
    mark(MARK_EPOCH, number);
}

void stk_phase_begin(const char *name)
{
    const struct profiler *p = profiler();
    if (p && name)
        p->phase_begin(name);
}

void stk_phase_end(void)
{
    const struct profiler *p = profiler();
    if (p)
        p->phase_end();
}
