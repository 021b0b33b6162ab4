/*
 * real.c - looks up the functions that ours wrap: in the objects loaded with the program, or else
 * by the loader.
 */
#include "preload/priv.h"
#include "preload/wrap.h"

/* These moved into libc.so.6 with glibc 2.34 and have a new version there. By their old version
 * they are also found in older C libraries: in a container, a missing symbol of ours would prevent
 * every program from starting. Weak: in those libraries they are in libdl, which we do not load
 * (0.05 ms per process). A program that loads objects later has it. */
STK_OLD_GLIBC(dlsym);
STK_OLD_GLIBC(dlopen);
STK_OLD_GLIBC(dladdr);
STK_OLD_GLIBC(dlerror);
#pragma weak dlsym
#pragma weak dlopen
#pragma weak dladdr
#pragma weak dlerror

extern const char __ehdr_start[] HIDDEN, _end[] HIDDEN; /* of our library: set by the linker */

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <errno.h>

long stk_sys6(long n, long a, long b, long c, long d, long e, long f)
{
    REAL(long, syscall, (long, ...));
    int before = errno;
    long result = real(n, a, b, c, d, e, f);
    if (result == -1)
        result = -errno;
    errno = before;
    return result;
}
#endif

/* In our own library: not the real function. */
static bool ours(const void *p)
{
    return (const char *)p >= __ehdr_start && (const char *)p < _end;
}

static bool loader_is_there(void)
{
    return &dlsym && &dlopen && &dladdr && &dlerror;
}

void *stk_pl_real(const char *name)
{
    void *found = stk_pl_object_find(name, STK_PL_NEXT);
    if (found || !loader_is_there())
        return found;
    found = dlsym(RTLD_NEXT, name);
    if (!found)
        dlerror(); /* a function that the C library lacks is not the program's error */
    return found;
}

/* Python exports its functions, also where it is part of another program. */
bool stk_pl_is_python(void)
{
    return stk_pl_object_find("Py_IsInitialized", STK_PL_ANYWHERE) != NULL;
}

void *stk_pl_real_of(const char *name, const void *return_address)
{
    void *p = stk_pl_real(name);
    Dl_info caller;
    if (p || !loader_is_there())
        return p;
    if (return_address && dladdr(return_address, &caller) && caller.dli_fname) {
        void *library = dlopen(caller.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        p = library ? dlsym(library, name) : NULL; /* never closed: the pointer is kept */
    }
    dlerror(); /* nor is our second lookup */
    return p && ours(p) ? NULL : p;
}

/* ---- functions of other libraries ------------------------------------------------------------ */

/* Finds functions in the libraries of the caller, and caches them by call site. Entries are
 * written once and never change, so readers need no lock. */

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
