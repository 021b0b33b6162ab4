/*
 * guard.c - the handler of SIGBUS, and its table of mappings. Faults elsewhere go to the previous
 * handler.
 */
#include "base/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 16384u

/* The handler reads these without a lock. base is set last and cleared first. */
struct slot {
    _Atomic uintptr_t base;
    _Atomic size_t size;
    _Atomic uint64_t damage; /* lowest byte that could not be read */
};

static struct slot slots[SLOTS];
static bool reserved[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;
static uintptr_t page_size = 4096;
static struct sigaction before;

static void mark(int slot, uint64_t off)
{
    uint64_t old = atomic_load(&slots[slot].damage);
    while (off < old && !atomic_compare_exchange_weak(&slots[slot].damage, &old, off))
        ;
}

static bool mend(uintptr_t address)
{
    for (int i = 0; i < (int)SLOTS; i++) {
        uintptr_t base = atomic_load(&slots[i].base);
        if (!base || address < base || address - base >= atomic_load(&slots[i].size))
            continue;
        uintptr_t page = address & ~(page_size - 1);
        mark(i, page - base); /* before the zeros become visible */
        /* Not mmap(): a handler must not call what a library may have wrapped. */
        return syscall(SYS_mmap, page, page_size, PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != -1;
    }
    return false;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
    int saved = errno;
    bool mended = info->si_code > 0 && mend((uintptr_t)info->si_addr);
    errno = saved;
    if (mended)
        return;
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(sig, info, context);
    } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
        /* The instruction faults again, and this time it is final. */
        struct sigaction dfl = {.sa_handler = SIG_DFL};
        sigaction(sig, &dfl, NULL);
        if (info->si_code <= 0)
            raise(sig); /* sent by a process, not a fault */
    } else {
        before.sa_handler(sig);
    }
}

static bool install(void)
{
    struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&act.sa_mask);
    page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    return sigaction(SIGBUS, NULL, &before) == 0 && sigaction(SIGBUS, &act, NULL) == 0;
}

static void uninstall(void)
{
    struct sigaction now;
    if (sigaction(SIGBUS, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
        now.sa_sigaction == on_fault)
        sigaction(SIGBUS, &before, NULL);
}

/* First fit of n adjacent free slots; -1: none. */
static int find_room(unsigned n)
{
    unsigned run = 0;
    for (unsigned i = 0; i < SLOTS; i++) {
        run = reserved[i] ? 0 : run + 1;
        if (run == n)
            return (int)(i + 1 - n);
    }
    return -1;
}

int stk_guard_reserve(unsigned n)
{
    pthread_mutex_lock(&lock);
    int first = n ? find_room(n) : -1;
    if (first >= 0 && users == 0 && !install())
        first = -1;
    if (first >= 0) {
        users++;
        for (unsigned i = 0; i < n; i++) {
            reserved[(unsigned)first + i] = true;
            atomic_store(&slots[(unsigned)first + i].damage, UINT64_MAX);
        }
    }
    pthread_mutex_unlock(&lock);
    return first;
}

void stk_guard_release(int first, unsigned n)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < n; i++) {
        atomic_store(&slots[(unsigned)first + i].base, 0);
        reserved[(unsigned)first + i] = false;
    }
    if (--users == 0)
        uninstall();
    pthread_mutex_unlock(&lock);
}

void stk_guard_add(int slot, const void *p, size_t size)
{
    atomic_store(&slots[slot].size, size);
    atomic_store(&slots[slot].base, (uintptr_t)p);
}

uint64_t stk_guard_damage(int slot)
{
    return atomic_load(&slots[slot].damage);
}
