/*
 * real.c - looks up the functions that ours wrap.
 */
#include "preload/priv.h"

/* These moved into libc.so.6 with glibc 2.34 and have a new version there. By their old version
 * they are also found in older C libraries: in a container, a missing symbol of ours would prevent
 * every program from starting. */
STK_OLD_GLIBC(dlsym);
STK_OLD_GLIBC(dlopen);
STK_OLD_GLIBC(dladdr);
STK_OLD_GLIBC(dlerror);

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
    Dl_info there, here;
    return dladdr(p, &there) && dladdr((const void *)(uintptr_t)ours, &here) &&
           there.dli_fbase == here.dli_fbase;
}

void *stk_pl_real(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

extern const struct stk_pl_wanted __start_stk_wanted[] HIDDEN, __stop_stk_wanted[] HIDDEN;

__attribute__((constructor(101))) static void find_all(void)
{
    bool all = true;
    for (const struct stk_pl_wanted *w = __start_stk_wanted; w < __stop_stk_wanted; w++) {
        void *found = dlsym(RTLD_NEXT, w->name);
        if (found)
            memcpy(w->at, &found, sizeof found);
        all = all && found;
    }
    if (!all)
        dlerror(); /* a function that the C library lacks is not the program's error */
}

/* Python exports its functions, also where it is part of another program. */
bool stk_pl_is_python(void)
{
    bool is = dlsym(RTLD_DEFAULT, "Py_IsInitialized") != NULL;
    if (!is)
        dlerror();
    return is;
}

void *stk_pl_real_of(const char *name, const void *return_address)
{
    void *p = dlsym(RTLD_NEXT, name);
    Dl_info caller;
    if (p)
        return p;
    if (return_address && dladdr(return_address, &caller) && caller.dli_fname) {
        void *library = dlopen(caller.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        p = library ? dlsym(library, name) : NULL; /* never closed: the pointer is kept */
    }
    dlerror(); /* nor is our second lookup */
    return p && ours(p) ? NULL : p;
}
