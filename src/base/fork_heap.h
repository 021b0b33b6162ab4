/*
 * fork_heap.h - only for builds with AddressSanitizer: a heap that works in a forked child.
 *
 * libc takes the locks of its allocator for fork(); AddressSanitizer does not, before LLVM 18. A
 * thread that allocates at that moment leaves a lock taken in the child forever. So during every
 * fork the other threads are paused where they hold no such lock: after they allocate and before
 * they free.
 */
#ifndef STK_BASE_FORK_HEAP_H
#define STK_BASE_FORK_HEAP_H

#ifdef __SANITIZE_ADDRESS__
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

int __sanitizer_install_malloc_and_free_hooks(void (*allocated)(const volatile void *, size_t),
                                              void (*to_free)(const volatile void *));

static pthread_mutex_t fork_heap_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool fork_heap_held;
static pthread_t fork_heap_holder;

static void fork_heap_wait(void)
{
    while (atomic_load(&fork_heap_held) && !pthread_equal(fork_heap_holder, pthread_self()))
        sched_yield();
}

static void fork_heap_allocated(const volatile void *p, size_t size)
{
    (void)p, (void)size;
    fork_heap_wait();
}

static void fork_heap_to_free(const volatile void *p)
{
    (void)p;
    fork_heap_wait();
}

/* Waits until other threads have left the allocator. */
static void fork_heap_hold(void)
{
    struct stat tasks;
    (void)pthread_mutex_lock(&fork_heap_lock);
    if (stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink <= 3)
        return; /* no other thread */
    fork_heap_holder = pthread_self();
    atomic_store(&fork_heap_held, true);
    (void)usleep(5000);
}

static void fork_heap_let_go(void)
{
    atomic_store(&fork_heap_held, false);
    (void)pthread_mutex_unlock(&fork_heap_lock);
}

__attribute__((constructor)) static void fork_heap_begin(void)
{
    (void)__sanitizer_install_malloc_and_free_hooks(fork_heap_allocated, fork_heap_to_free);
    (void)pthread_atfork(fork_heap_hold, fork_heap_let_go, fork_heap_let_go);
}
#endif

#endif
