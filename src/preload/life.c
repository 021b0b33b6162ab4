/*
 * life.c - how a process begins, forks, executes another program and ends, as far as recording is
 * concerned. A forked child has its own log, created at its first I/O: most children only execute
 * another program. A log is complete without any action at the end.
 */
#include "preload/priv.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#define TICK_NS       1000000000u /* shorter at first: a quarter of the elapsed time */
#define TICK_FIRST_NS 10000000u
#define TICK_SHARE    500u /* a tick takes at most this fraction of the time */
#define FILES_DEFAULT 4096u
#define FILES_MOST    (1u << 20)
#define RECORDS_OF    4u /* records per individual file: each thread has its own */
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* pthread_atfork() of the GNU C library. Weak: in a container with another one (musl) the loader
 * would refuse to start the program without it. It is missing there, and we stay inactive. */
#if defined(__GLIBC__)
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *)
    __attribute__((weak));
extern void *__dso_handle HIDDEN;
#define AT_FORK(before, parent, child) __register_atfork(before, parent, child, __dso_handle)
#define STRANGE_LIBC                   (!&__register_atfork)
#else
#define AT_FORK(before, parent, child) pthread_atfork(before, parent, child)
#define STRANGE_LIBC                   false
#endif

static struct stk_pl_lock life_lock;

/* Stops recording, in all threads. */
static void fall_silent(void)
{
    __atomic_store_n(&stk_pl.state, STK_PL_OFF, __ATOMIC_SEQ_CST);
    __atomic_store_n(&stk_pl.watch->alive, 0, __ATOMIC_SEQ_CST);
}

/* ---- forks ---- */
static void locks(void (*fn)(struct stk_pl_lock *))
{
    fn(&stk_pl_threads_lock);
    fn(&stk_pl_names_lock);
    fn(&stk_pl_fds_lock);
    fn(&stk_pl_cwd_lock);
    fn(&stk_pl_log_lock);
}

#define SPINS    64u
#define SLEEP_NS 100000u
#define WAIT_NS  2000000000u

/* The lock is taken. After some spins, waits asleep: the owner may have lower priority on this very
 * processor. If it stays taken (a handler left our code with it by longjmp(), and its thread has
 * done no I/O since; a hanging disk), the program matters more than its profile: recording ends,
 * and the lock is ignored. */
void stk_pl_lock_wait(struct stk_pl_lock *l)
{
    static const struct timespec pause = {.tv_nsec = SLEEP_NS};
    uint64_t since = 0;
    for (uint32_t turn = 0; !stk_pl_lock_try(l); turn++) {
        if (__atomic_load_n(&l->owner, __ATOMIC_RELAXED) == stk_pl_lock_id())
            return; /* this thread holds it after a cancellation or a longjmp() */
        if (turn < SPINS) {
            stk_sys0(SYS_sched_yield);
            continue;
        }
        uint64_t now = stk_pl_clock_mono();
        since = since ? since : now;
        if (now - since > WAIT_NS) {
            fall_silent();
            __atomic_store_n(&l->owner, stk_pl_lock_id(), __ATOMIC_RELAXED);
            return;
        }
        stk_sys2(SYS_nanosleep, &pause, 0);
    }
}

static void give_up(struct stk_pl_lock *l)
{
    uintptr_t mine = stk_pl_lock_id();
    __atomic_compare_exchange_n(&l->owner, &mine, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

void stk_pl_locks_give_up(void)
{
    locks(give_up);
    give_up(&life_lock);
}

static void before_fork(void)
{
    if (stk_pl_self.vforked)
        return;
    __atomic_fetch_add(&stk_pl.forks, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&stk_pl.spawns, 1, __ATOMIC_RELAXED);
    if (stk_pl_self.inside) /* a signal handler that forks: the interrupted code may hold them */
        return;
    stk_pl_enter();
    if (__atomic_load_n(&stk_pl.state, __ATOMIC_SEQ_CST) == STK_PL_ON && stk_pl.watch->alive)
        stk_pl_kernel_child_comes();
    locks(stk_pl_lock);
    stk_pl_self.forking = 1;
}

static void after_fork(void)
{
    if (!stk_pl_self.forking)
        return;
    stk_pl_self.forking = 0;
    locks(stk_pl_unlock);
    stk_pl_leave();
}

/* In the child: the parent's log and threads are not ours. */
static void become_child(void)
{
    bool interrupted = stk_pl_self.inside && !stk_pl_self.forking;
    uint64_t frame = stk_pl_self.inside;
    stk_pl_enter();
    stk_pl_self.forking = 0;
    life_lock.owner = 0;
    locks(stk_pl_unlock);
    stk_stream_forked();
    if (stk_pl.state == STK_PL_ON || stk_pl.state == STK_PL_FORKED) {
        stk_pl.watch->alive = 0; /* already done by a kernel that can */
        stk_pl.state = STK_PL_FORKED;
        stk_pl.epoch++;
        stk_pl.records = 0;
        stk_pl.own_read_bytes = stk_pl.own_write_bytes = 0;
        stk_pl_kernel_forked();
        memset(stk_pl.marks, 0, sizeof stk_pl.marks);
        stk_pl_log_leave(interrupted);
        stk_pl_threads_forked();
    } else if (!interrupted) {
        stk_pl.log = NULL;
    }
    stk_pl_self.vforked = 0;
    stk_pl_leave();
    if (interrupted) /* released when the interrupted code continues */
        stk_pl_self.inside = frame;
}

void stk_pl_spawning(void)
{
    if (stk_pl_self.vforked || stk_pl_self.inside ||
        __atomic_load_n(&stk_pl.state, __ATOMIC_SEQ_CST) != STK_PL_ON || !stk_pl.watch->alive)
        return;
    stk_pl_enter();
    stk_pl_kernel_child_comes();
    stk_pl_leave();
}

bool stk_pl_child_pending(void)
{
    return !stk_pl_self.inside && !stk_pl_self.vforked &&
           __atomic_load_n(&stk_pl.state, __ATOMIC_ACQUIRE) == STK_PL_FORKED;
}

/* ---- time ---- */
/* When recording ends, on this process's clock. */
static void set_times(void)
{
    uint64_t real = stk_pl_clock_real();
    stk_pl.until_ns = UINT64_MAX;
    if (stk_pl.until_real_ns)
        stk_pl.until_ns = stk_pl.until_real_ns > real ? stk_pl.until_real_ns - real : 0;
    stk_pl.watch->next_ns = stk_pl.until_ns < TICK_FIRST_NS ? stk_pl.until_ns : TICK_FIRST_NS;
    stk_pl.watch->trace = stk_pl.trace;
}

static void stop(void)
{
    stk_pl_snapshot(stk_pl.log);
    stk_pl.log->stopped = STK_STOP_TIME;
    fall_silent();
}

void stk_pl_tick(uint64_t now_ns)
{
    uint64_t due = __atomic_load_n(&stk_pl.watch->next_ns, __ATOMIC_RELAXED);
    uint64_t wait = now_ns / 4 < TICK_NS ? now_ns / 4 + TICK_FIRST_NS : TICK_NS;
    uint64_t next = now_ns + wait < stk_pl.until_ns ? now_ns + wait : stk_pl.until_ns;
    if (now_ns < due || !__atomic_compare_exchange_n(&stk_pl.watch->next_ns, &due, next, false,
                                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return; /* another thread does it */
    if (now_ns >= stk_pl.until_ns) {
        stop();
        return;
    }
    uint64_t before = stk_pl_clock_mono();
    stk_pl_snapshot(stk_pl.log);
    stk_pl.log->last_ns = now_ns;
    if (wait >= TICK_NS / 4) /* after a second */
        stk_pl_log_cool();
    uint64_t rest = (stk_pl_clock_mono() - before) * TICK_SHARE; /* with many threads it takes
                                                                    long */
    if (rest > wait && now_ns + rest < stk_pl.until_ns)
        __atomic_store_n(&stk_pl.watch->next_ns, now_ns + rest, __ATOMIC_RELAXED);
}

/* ---- begin ---- */
static void child_begin(void)
{
    stk_pl_lock(&life_lock);
    if (stk_pl.state == STK_PL_FORKED) {
        stk_pl_clock_start();
        set_times();
        bool there = stk_pl.until_ns && stk_pl_log_create(STK_BORN_FORK) == 0;
        if (there)
            __atomic_store_n(&stk_pl.watch->alive, 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&stk_pl.state, there ? STK_PL_ON : STK_PL_OFF, __ATOMIC_SEQ_CST);
    }
    stk_pl_unlock(&life_lock);
}

/* Whether we interrupted our own code, as a signal handler whose call then goes uncounted. Not
 * if an earlier handler left our code by longjmp(): then its frame is gone, and the stack above
 * it reused. Stacks grow downwards, `call` is on it; a handler on an alternate stack proves
 * nothing. */
static bool still_inside(const struct stk_pl_call *call)
{
    stack_t other;
    if (!stk_pl_self.inside)
        return false;
    if ((uintptr_t)call <= stk_pl_self.inside || stk_sys2(SYS_sigaltstack, 0, &other) < 0 ||
        other.ss_flags & SS_ONSTACK)
        return true;
    stk_pl_locks_give_up();
    stk_pl_leave();
    return false;
}

/* Handles everything but the usual case. */
bool stk_pl_begin_slow(struct stk_pl_call *call)
{
    if (stk_pl_self.vforked)
        return false;
    if (still_inside(call)) {
        if (__atomic_load_n(&stk_pl.state, __ATOMIC_SEQ_CST) == STK_PL_ON && stk_pl.log)
            stk_pl_dropped();
        return false;
    }
    uint64_t alive = __atomic_load_n(&stk_pl.watch->alive, __ATOMIC_SEQ_CST);
    uint32_t state = __atomic_load_n(&stk_pl.state, __ATOMIC_SEQ_CST);
    if (state == STK_PL_ON && !alive) { /* a fork without atfork handlers */
        become_child();
        state = STK_PL_FORKED;
    }
    stk_pl_enter();
    if (state == STK_PL_FORKED)
        child_begin();
    bool on = __atomic_load_n(&stk_pl.state, __ATOMIC_SEQ_CST) == STK_PL_ON;
    struct stk_pl_thread *t = stk_pl_self.thread;
    if (on && !t && !(t = stk_pl_thread_begin()))
        stk_pl_dropped();
    if (on && t) {
        call->thread = t;
        call->spent = STK_PL_META;
        stk_pl_tick(stk_pl_now(t));
        call->start_ns = stk_pl_now(t);
        on = __atomic_load_n(&stk_pl.state, __ATOMIC_SEQ_CST) == STK_PL_ON;
    }
    stk_pl_leave();
    return on && t;
}

uint64_t stk_pl_number(const char *text)
{
    uint64_t v = 0;
    for (; text && *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*text - '0'), &v))
            return UINT64_MAX;
    return v;
}

static bool settings(void)
{
    const char *dir = getenv("STOKER_PROFILE_DIR"), *trace = getenv("STOKER_PROFILE_TRACE");
    size_t n = dir ? strlen(dir) : 0;
    while (n > 1 && dir[n - 1] == '/')
        n--;
    if (!n || dir[0] != '/' || n >= sizeof stk_pl.dir)
        return false;
    memcpy(stk_pl.dir, dir, n);
    stk_pl.trace = trace && trace[0] == '1';
    stk_pl.log_mode = stk_pl_number(getenv("STOKER_PROFILE_SHARE")) ? 0644 : 0600;
    stk_pl.until_real_ns = stk_pl_number(getenv("STOKER_PROFILE_UNTIL_NS"));
    uint64_t files = stk_pl_number(getenv("STOKER_PROFILE_FILES"));
    uint32_t limit = !files ? FILES_DEFAULT : files > FILES_MOST ? FILES_MOST : (uint32_t)files;
    stk_pl.record_limit = limit * RECORDS_OF;
    stk_pl_rules_start(getenv("STOKER_PROFILE_INCLUDE"), getenv("STOKER_PROFILE_EXCLUDE"),
                       stk_pl.dir);
    stk_pl_fds_start(getenv("STOKER_PROFILE_OUTPUTS"));
    stk_pl_slots_start(getenv("STOKER_PROFILE_SLOTS"));
    stk_pl_threads_start();
    return stk_pl_names_start(limit) == 0;
}

/* Words that the kernel zeroes in any child that does not share our memory, however it was
 * forked. */
static void watch_forks(void)
{
    char *page = stk_pl_memory(4096);
    if (page && stk_sys3(SYS_madvise, page, 4096, MADV_WIPEONFORK) >= 0)
        stk_pl.watch = (struct stk_pl_watch *)(page + 3 * STK_PL_APART);
    AT_FORK(before_fork, after_fork, become_child);
}

/* The loader ignores LD_PRELOAD for a setuid program, but not /etc/ld.so.preload. Its environment
 * comes from a user with fewer rights, who would choose where its owner writes. */
static bool is_privileged(void)
{
    return getauxval(AT_SECURE) != 0;
}

__attribute__((constructor)) static void begin(int argc, char **argv, char **envp)
{
    if (STRANGE_LIBC || is_privileged() || !getenv("STOKER_PROFILE_DIR"))
        return;
    stk_pl_enter();
    stk_pl_clock_start();
    stk_pl_remember(argc, argv, envp);
    stk_pl_library_start();
    stk_pl.epoch = 1;
    if (settings()) {
        watch_forks();
        set_times();
        if (stk_pl.until_ns && stk_pl_log_create(STK_BORN_START) == 0) {
            stk_pl.watch->alive = 1;
            __atomic_store_n(&stk_pl.state, STK_PL_ON, __ATOMIC_SEQ_CST);
        }
    }
    stk_pl_leave();
}

/* ---- sandboxes ---- */
/* The program is about to forbid itself system calls (seccomp), or reading the time stamp counter,
 * on pain of death: from here on we do neither. Returns what stk_pl_no_sandbox() needs if that
 * fails: programs try. */
uint32_t stk_pl_sandbox(void)
{
    uint32_t state = __atomic_load_n(&stk_pl.state, __ATOMIC_SEQ_CST);
    if (stk_pl_self.vforked)
        return state;
    if (state == STK_PL_ON && !stk_pl_self.inside && stk_pl.watch->alive) {
        stk_pl_enter();
        stk_pl_snapshot(stk_pl.log);
        stk_pl.log->stopped = STK_STOP_SANDBOX;
        stk_pl_leave();
    }
    stk_pl.sandboxed = true;
    fall_silent();
    return state;
}

void stk_pl_no_sandbox(uint32_t state)
{
    if (stk_pl_self.vforked)
        return;
    stk_pl.sandboxed = false;
    if (state == STK_PL_ON) {
        stk_pl.log->stopped = STK_STOP_NONE;
        __atomic_store_n(&stk_pl.watch->alive, 1, __ATOMIC_SEQ_CST);
    }
    __atomic_store_n(&stk_pl.state, state, __ATOMIC_SEQ_CST);
}

/* ---- end ---- */
/* This process's own log: not that of a process whose memory we share for a moment. */
static struct stk_log_header *own_log(void)
{
    uint32_t state = __atomic_load_n(&stk_pl.state, __ATOMIC_SEQ_CST);
    struct stk_log_header *h = stk_pl.log;
    bool mine = !stk_pl_self.vforked && !stk_pl.sandboxed && h &&
                (state == STK_PL_ON || state == STK_PL_OFF) &&
                h->pid == (uint32_t)stk_sys0(SYS_getpid);
    return mine && (state == STK_PL_OFF || stk_pl.watch->alive) ? h : NULL;
}

void stk_pl_ending(enum stk_log_end how)
{
    struct stk_log_header *h = own_log();
    if (!h)
        return;
    uint64_t now = stk_pl_clock_mono() - stk_pl.start_mono_ns;
    if (!h->stopped)
        stk_pl_snapshot(h);
    h->end_ns = now ? now : 1;
    __atomic_store_n(&h->end, how, __ATOMIC_RELEASE);
}

void stk_pl_before_exec(void)
{
    stk_pl_ending(STK_END_EXEC);
}

void stk_pl_exec_failed(void)
{
    struct stk_log_header *h = own_log();
    if (!h)
        return;
    h->end_ns = 0;
    __atomic_store_n(&h->end, STK_END_NONE, __ATOMIC_RELEASE);
}

__attribute__((destructor)) static void end(void)
{
    stk_pl_ending(STK_END_EXIT);
}
