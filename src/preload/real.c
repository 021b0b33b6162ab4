/*
 * real.c - the functions that ours stand in front of.
 */
#include "preload/priv.h"

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

/* In our own library: not what was asked for. */
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

void *stk_pl_real_of(const char *name, const void *return_address)
{
    void *p = dlsym(RTLD_NEXT, name);
    Dl_info caller;
    if (p || !return_address || !dladdr(return_address, &caller) || !caller.dli_fname)
        return p;
    void *library = dlopen(caller.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    p = library ? dlsym(library, name) : NULL; /* never closed: the pointer is kept */
    return p && ours(p) ? NULL : p;
}
