/*
 * shim.c - somebody else's preloaded library: counts read() and says so at the end. Both must see
 * every call when two are loaded.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static long reads;

ssize_t read(int fd, void *p, size_t n)
{
    static ssize_t (*real)(int, void *, size_t);
    if (!real)
        real = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
    reads++;
    return real(fd, p, n);
}

__attribute__((destructor)) static void tell(void)
{
    fprintf(stderr, "shim: %ld reads\n", reads);
}
