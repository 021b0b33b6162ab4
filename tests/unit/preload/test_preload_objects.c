/* test_preload_objects.c - the functions behind our wrappers, found without the loader. A wrong one
 * is called in every process of a user's job. */
#include "preload/objects.c"
#include "check.h"

#include <dlfcn.h>
#include <stdio.h>

/* As the loader finds it, in an object behind the program: or left to the loader. */
static void same(const char *name)
{
    void *found = stk_pl_object_find(name, STK_PL_NEXT);
    if (found != dlsym(RTLD_NEXT, name))
        check_fail(__FILE__, __LINE__, name);
}

static void finds_what_the_loader_finds(void)
{
    static const char *const names[] = {
        "open",     "open64",  "openat",   "read",      "pread64", "readv",        "write",
        "close",    "dup3",    "fopen",    "fopen64",   "fclose",  "fread",        "fgetc",
        "fseeko64", "mmap",    "munmap",   "madvise",   "stat",    "fstatat64",    "statx",
        "opendir",  "readdir", "scandir",  "nftw",      "glob",    "posix_spawn",  "execve",
        "_exit",    "prctl",   "syscall",  "sem_wait",  "poll",    "epoll_wait",   "aio_read",
        "sendfile", "splice",  "getxattr", "io_submit", "__xstat", "no_such_name", "fscanf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        same(names[i]);
    CHECK(stk_pl_object_find("read", STK_PL_NEXT) != NULL);
}

/* Which of several implementations is called is decided by the loader. */
static void leaves_indirect_functions(void)
{
    static const char *const names[] = {"gettimeofday", "strpbrk", "wmemset", "memcpy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *found = stk_pl_object_find(names[i], STK_PL_NEXT);
        CHECK(!found || found == dlsym(RTLD_NEXT, names[i]));
    }
}

__attribute__((visibility("default"))) int test_preload_marker(void);
int test_preload_marker(void)
{
    return 7;
}

static void next_is_behind_us(void)
{
    CHECK(stk_pl_object_find("test_preload_marker", STK_PL_NEXT) == NULL);
    CHECK(stk_pl_object_find("Py_IsInitialized", STK_PL_ANYWHERE) == NULL);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(finds_what_the_loader_finds);
    CHECK_RUN(leaves_indirect_functions);
    CHECK_RUN(next_is_behind_us);
    return CHECK_DONE();
}
