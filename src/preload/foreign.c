/*
 * foreign.c - finds functions in the libraries of the caller, and caches them by call site. Entries
 * are written once and never change, so readers need no lock.
 */
#include "preload/foreign.h"

#define SLOTS  1024
#define PROBES 8

__thread int stk_inside_library;

enum { FREE, BEING_WRITTEN, WRITTEN };

static STK_TABLE struct entry {
    int state; /* atomic */
    const void *caller;
    const char *name;
    void *function;
} entries[SLOTS];

static void *look_up(const char *name, const void *caller, struct entry *e)
{
    void *function = stk_pl_real_of(name, caller);
    int expected = FREE;
    if (function && e &&
        __atomic_compare_exchange_n(&e->state, &expected, BEING_WRITTEN, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED)) {
        e->caller = caller;
        e->name = name;
        e->function = function;
        __atomic_store_n(&e->state, WRITTEN, __ATOMIC_RELEASE);
    }
    return function;
}

void *stk_foreign(const char *name, const void *return_address)
{
    uint64_t key = (uint64_t)(uintptr_t)return_address ^ (uint64_t)(uintptr_t)name << 20;
    unsigned first = (unsigned)(stk_mix64(key) % SLOTS);
    for (unsigned p = 0; p < PROBES; p++) {
        struct entry *e = &entries[(first + p) % SLOTS];
        int state = __atomic_load_n(&e->state, __ATOMIC_ACQUIRE);
        if (state == FREE)
            return look_up(name, return_address, e);
        if (state == WRITTEN && e->caller == return_address && e->name == name)
            return e->function;
    }
    return look_up(name, return_address, NULL);
}
