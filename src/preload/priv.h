/*
 * priv.h - shared by the files of the core: the process, its threads, descriptions, names.
 *
 * A thread writes its own records, trace and time line without a lock; locks are taken when a file
 * is first opened, a block of the log is needed, or a thread begins or ends. Code that holds them
 * runs with the thread's `inside` set, so that a signal handler that does I/O never waits for the
 * code that it interrupted.
 */
#ifndef STK_PRELOAD_PRIV_H
#define STK_PRELOAD_PRIV_H

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <time.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "preload/core.h"

/* ---- system calls ---------------------------------------------------------------------------- */

/* Direct system calls: they bypass our own wrappers (which have the C library's names) and other
 * preloaded libraries, and do not touch errno. Results are the kernel's: negative error numbers. */

#if defined(__x86_64__)
static inline long stk_sys6(long n, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
static inline long stk_sys6(long n, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#else
/* The C library's syscall(), looked up behind our own wrapper of it (core.c). */
long stk_sys6(long n, long a, long b, long c, long d, long e, long f);
#endif

#define STK_SYS_ARG(x)       ((long)(intptr_t)(x))
#define stk_sys0(n)          stk_sys6(n, 0, 0, 0, 0, 0, 0)
#define stk_sys1(n, a)       stk_sys6(n, STK_SYS_ARG(a), 0, 0, 0, 0, 0)
#define stk_sys2(n, a, b)    stk_sys6(n, STK_SYS_ARG(a), STK_SYS_ARG(b), 0, 0, 0, 0)
#define stk_sys3(n, a, b, c) stk_sys6(n, STK_SYS_ARG(a), STK_SYS_ARG(b), STK_SYS_ARG(c), 0, 0, 0)
#define stk_sys4(n, a, b, c, d)                                                                    \
    stk_sys6(n, STK_SYS_ARG(a), STK_SYS_ARG(b), STK_SYS_ARG(c), STK_SYS_ARG(d), 0, 0)
#define stk_sys5(n, a, b, c, d, e)                                                                 \
    stk_sys6(n, STK_SYS_ARG(a), STK_SYS_ARG(b), STK_SYS_ARG(c), STK_SYS_ARG(d), STK_SYS_ARG(e), 0)

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HIDDEN      __attribute__((visibility("hidden")))
#define BARRIER()   __asm__ volatile("" ::: "memory")
/* Binds a function of the C library to its oldest version, whatever we are built with. */
#if defined(__x86_64__) && defined(__GLIBC__)
#define STK_OLD_GLIBC(name) __asm__(".symver " #name "," #name "@GLIBC_2.2.5")
#elif defined(__aarch64__) && defined(__GLIBC__)
#define STK_OLD_GLIBC(name) __asm__(".symver " #name "," #name "@GLIBC_2.17")
#else
#define STK_OLD_GLIBC(name) _Static_assert(1, #name)
#endif

enum stk_pl_state {
    STK_PL_UNSET, /* before our constructor, or not requested */
    STK_PL_ON,
    STK_PL_FORKED, /* a forked child before its first I/O: it has no log, and may never need one */
    STK_PL_OFF     /* for good: no log could be created, or time was up */
};

/* What every call checks. In a page of its own, which the kernel wipes in a forked child. */
struct stk_pl_watch {
    uint64_t alive;   /* not 0 while ON */
    uint64_t next_ns; /* when stk_pl_tick() is due (atomic) */
    uint64_t trace;
};

/* The process. */
struct stk_pl_process {
    uint32_t state;  /* atomic */
    uint32_t epoch;  /* counts the logs of this process and its ancestors by fork */
    uint32_t forks;  /* ours and our ancestors': descriptions opened before are shared */
    uint32_t spawns; /* the same plus started programs: they inherit what stays open */
    struct stk_pl_watch *watch;
    uint64_t until_ns; /* end of recording; UINT64_MAX: never */
    uint64_t until_real_ns;
    uint64_t start_mono_ns;
    uint64_t own_read_bytes, own_write_bytes; /* by our own system calls: not the program's */
    uint64_t marks[STK_MARK_EPOCH + 1];       /* steps, epochs: used if the program does not
                                                 count */
    struct stk_log_header *log;
    bool trace, sandboxed;
    uint32_t log_mode;              /* of the log's file, minus the umask */
    uint32_t record_limit, records; /* limit of individual records; those in this process
                                       (atomic) */
    char dir[PATH_MAX / 2];         /* of the logs, absolute */
    char name[192];                 /* of this log, in dir */
    char host[64];
};
extern struct stk_pl_process stk_pl HIDDEN;

/* ---- names (names.c) ---- */
/* A file, a group of files, or a mark's name. Never moves and is never freed. */
struct stk_pl_file {
    uint64_t hash;    /* of the path: the same in every process */
    const char *text; /* in a block of names: of this log, or of an ancestor's */
    uint32_t length, id;
    uint32_t logged; /* the epoch whose log has the name (atomic) */
    uint32_t stripe_bytes, stripe_count;
    bool group;
    uint64_t dev, ino, fs_type;
};
struct stk_pl_path {
    uint64_t hash;
    uint32_t length;
    char text[PATH_MAX]; /* absolute, terminated */
};

/* ---- descriptors (fds.c) ---- */
enum stk_pl_kind { STK_PL_FILE = 1, STK_PL_LEFT_OUT, STK_PL_STREAM };
/* An open file description. Its memory is reused, never freed. */
struct stk_pl_desc {
    _Alignas(64) uint32_t generation; /* of this use of the memory; unique */
    uint32_t index, refs, next_free;
    uint32_t forks; /* stk_pl.forks or .spawns when it was opened */
    uint8_t kind;
    bool keeps_over_exec, append, shared;
    bool talks;       /* a pipe or socket */
    uint8_t place;    /* left out: where */
    int64_t position; /* our idea of its position (atomic) */
    int64_t end;      /* where the next write appends (atomic) */
    uint64_t hash;    /* of the path, also if `file` is a group */
    struct stk_pl_file *file;
};
#define STK_PL_APART    0x400u /* separates memory: see struct stk_pl_thread */
#define STK_PL_FD_PAGE  512u
#define STK_PL_FD_PAGES 32768u
struct stk_pl_fd_page {
    struct stk_pl_desc *desc[STK_PL_FD_PAGE];
};
extern struct stk_pl_fd_page *stk_pl_fd_pages[STK_PL_FD_PAGES] HIDDEN; /* all but the first */
extern struct stk_pl_fd_page stk_pl_fd_first HIDDEN;

static inline struct stk_pl_desc *stk_pl_desc_at(int fd)
{
    uint32_t n = (uint32_t)fd;
    if (LIKELY(n < STK_PL_FD_PAGE))
        return __atomic_load_n(&stk_pl_fd_first.desc[n], __ATOMIC_ACQUIRE);
    if (UNLIKELY(n >= STK_PL_FD_PAGE * STK_PL_FD_PAGES))
        return NULL;
    struct stk_pl_fd_page *page =
        __atomic_load_n(&stk_pl_fd_pages[n / STK_PL_FD_PAGE], __ATOMIC_ACQUIRE);
    return page ? __atomic_load_n(&page->desc[n % STK_PL_FD_PAGE], __ATOMIC_ACQUIRE) : NULL;
}

/* ---- threads (thread.c) ---- */
#define STK_PL_CONTENDERS 8
/* Values that are not (yet) among the most common ones. */
struct stk_pl_contenders {
    struct {
        uint64_t value;
        uint32_t count, life;
    } of[STK_PL_CONTENDERS];
};

/* One thread's path through an open file description, or through something without one: what the
 * next read is compared with, and where it is counted. */
struct stk_pl_way {
    struct stk_log_record *log;
    struct stk_pl_rec *rec;                  /* NULL: none yet */
    int64_t read_start, read_end, write_end; /* -1: none */
    uint32_t name;
    uint8_t api, last_op;
    bool begun;     /* the record has a read of this path */
    bool scattered; /* the record's spans are meaningless and need not be examined */
};

/* A record in the log, and data that only the writer needs. */
struct stk_pl_rec {
    struct stk_log_record *log;
    struct stk_pl_contenders *size, *stride;
    struct stk_pl_way *way; /* for something without a descriptor; else NULL */
    uint32_t name;
    uint8_t api;
};

/* In one cache line. */
struct stk_pl_stream {
    _Alignas(
        64) uint64_t key;  /* thread and description; with any other key the content is invalid */
    struct stk_pl_way way; /* its record is the last one used: the API may change */
};
#define STK_PL_STREAM_PAGE  64u
#define STK_PL_STREAM_PAGES 16384u

#define STK_PL_PHASES 32 /* that nest */
struct stk_pl_thread {
    /* Memory is allocated in whole pages: data that every call uses must not all lie at their
     * beginnings, where it would compete for the same cache set (100 ns per call, measured). */
    char apart[0x200];
    /* the clock: nanoseconds at a reading of the time stamp counter, and the rate from there */
    uint64_t tsc_base, tsc_limit, ns_base, ns_mult;
    /* the time line: the bin of the last call */
    uint64_t bin_from, bin_to;
    struct stk_log_bin *bin;
    uint64_t last_read_ns; /* end; 0: none yet */
    uint32_t strays;       /* strides outside the most common ones */
    struct stk_log_thread *line;
    struct stk_log_block *trace;
    uint32_t slot, epoch, incarnation;
    uint32_t next_free;
    uint32_t tid;      /* set if a thread's end must be detected by us; 0: the slot is free */
    uint64_t retry_ns; /* no room in the log: try again then */
    uint64_t born_ns;  /* of the thread, on the monotonic clock */
    struct stk_log_block *records, *marks;
    struct stk_pl_rec **table; /* by name and API */
    uint32_t table_size, table_used;
    uint32_t depth;
    struct stk_log_mark *phase[STK_PL_PHASES];
    char *arena, *arena_end;
    struct stk_pl_stream *page[STK_PL_STREAM_PAGES];
    struct stk_pl_path path; /* scratch */
};

struct stk_pl_tls {
    struct stk_pl_thread *thread;
    uint64_t inside;  /* the frame in our own code: a signal handler's I/O is not recorded */
    uint32_t vforked; /* in a vfork child, which runs in its parent's memory */
    uint32_t forking; /* holds all locks */
};
#define STK_PL_TLS __attribute__((tls_model("initial-exec")))
extern __thread struct stk_pl_tls stk_pl_self HIDDEN STK_PL_TLS;

static inline void stk_pl_enter(void)
{
    stk_pl_self.inside = (uintptr_t)__builtin_frame_address(0);
    BARRIER();
}
static inline void stk_pl_leave(void)
{
    BARRIER();
    stk_pl_self.inside = 0;
}

/* false: the call began before a fork, made by a signal handler during the call. Checked when we
 * are inside: from here on such a fork leaves us our log. */
static inline bool stk_pl_enter_call(const struct stk_pl_call *call)
{
    stk_pl_enter();
    if (LIKELY(call->thread == stk_pl_self.thread))
        return true;
    stk_pl_leave();
    return false;
}

/* ---- locks ---- */
struct stk_pl_lock {
    uintptr_t owner; /* 0: free */
};
static inline uintptr_t stk_pl_lock_id(void) /* of this thread */
{
    return (uintptr_t)&stk_pl_self;
}
static inline bool stk_pl_lock_try(struct stk_pl_lock *l)
{
    uintptr_t nobody = 0;
    return __atomic_compare_exchange_n(&l->owner, &nobody, stk_pl_lock_id(), false,
                                       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}
void stk_pl_lock_wait(struct stk_pl_lock *l);
static inline void stk_pl_lock(struct stk_pl_lock *l)
{
    if (UNLIKELY(!stk_pl_lock_try(l)))
        stk_pl_lock_wait(l);
}
static inline void stk_pl_unlock(struct stk_pl_lock *l)
{
    __atomic_store_n(&l->owner, 0, __ATOMIC_RELEASE);
}
extern struct stk_pl_lock stk_pl_log_lock HIDDEN, stk_pl_names_lock HIDDEN, stk_pl_cwd_lock HIDDEN,
    stk_pl_fds_lock HIDDEN, stk_pl_threads_lock HIDDEN;
/* Releases those that this thread holds after it left our code in the middle. */
void stk_pl_locks_give_up(void);

/* ---- clock.c ---- */
void stk_pl_clock_start(void);
uint64_t stk_pl_clock_mono(void); /* CLOCK_MONOTONIC */
uint64_t stk_pl_clock_real(void);
uint64_t stk_pl_clock_sync(struct stk_pl_thread *t);
#if defined(__x86_64__)
#define STK_PL_TICKS() __builtin_ia32_rdtsc()
#else
#define STK_PL_TICKS() 0ull
#endif
/* Nanoseconds since the process's start. */
static inline uint64_t stk_pl_now(struct stk_pl_thread *t)
{
    uint64_t passed = STK_PL_TICKS() - t->tsc_base;
    if (LIKELY(passed < t->tsc_limit))
        return t->ns_base + (passed * t->ns_mult >> 32);
    return stk_pl_clock_sync(t);
}

/* ---- log.c ---- */
/* Creates a log for this process; 0, or a negative error: none. */
int stk_pl_log_create(enum stk_log_born born);
/* Names it HOST.PID.NUMBER.stklog; false: too long. */
bool stk_pl_log_name(uint64_t number);
/* Opens a file in the folder of the logs. */
long stk_pl_log_open(const char *name, int flags);
/* The log `name` belongs to a process with this id that announced exec: it is this process. */
bool stk_pl_log_executed_us(const char *name);
/* A file beyond the user's limit would not fail but kill (SIGXFSZ). */
bool stk_pl_log_within_limit(uint64_t bytes);
/* A block of the log, with its head filled in; NULL: no room. */
struct stk_log_block *stk_pl_log_block(enum stk_log_kind kind, uint32_t slot);
/* Reserves the next blocks of a log that may not grow later. */
void stk_pl_log_ahead(void);
/* Writable bytes after its head. */
static inline uint32_t stk_pl_log_room(const struct stk_log_block *b)
{
    return (b->room ? b->room : STK_LOG_BLOCK) - (uint32_t)sizeof *b;
}
/* Makes the whole block writable; false: it already is, or the disk is full. */
bool stk_pl_log_widen(struct stk_log_block *b);
/* `bytes` more fit into the block. */
static inline bool stk_pl_log_fits(struct stk_log_block *b, uint32_t bytes)
{
    return b->used + bytes <= stk_pl_log_room(b) ||
           (stk_pl_log_widen(b) && b->used + bytes <= stk_pl_log_room(b));
}
/* The block is full: it need not stay in memory. */
void stk_pl_log_cold(struct stk_log_block *b);
void stk_pl_log_cool(void); /* now and then */
/* In a forked child: the parent's log is not ours. in_use: interrupted code will still write to it
 * when the handler that forked returns, so it stays mapped. */
void stk_pl_log_leave(bool in_use);
/* ---- slots.c ---- */
void stk_pl_slots_start(const char *name); /* of their file; NULL: none */
/* Takes a slot for a new log, and names the log. before: the log of the program that executed us;
 * "" none. NULL: no slot. */
struct stk_log_header *stk_pl_slot_take(char *before, size_t room);
/* Moves a log from its slot to a file, whose STK_LOG_FIRST bytes are allocated. It stays mapped at
 * its address, and other threads may be writing to it. */
int stk_pl_slot_leave(struct stk_log_header *block, long fd);

/* Fresh zeroed memory, never freed; NULL: none. */
void *stk_pl_memory(size_t bytes);
void stk_pl_header_fill(struct stk_log_header *h, enum stk_log_born born);

static inline void stk_pl_sum(uint64_t *counter, uint64_t n)
{
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}
static inline void stk_pl_dropped(void)
{
    stk_pl_sum(&stk_pl.log->dropped_calls, 1);
}

/* ---- names.c ---- */
int stk_pl_names_start(uint32_t limit);
/* Absolute path of `path` relative to dirfd (fd: the result of an open, or -1). false: too long. */
bool stk_pl_path_make(struct stk_pl_thread *t, int dirfd, const char *path, int fd);
/* The path of fd, from the kernel. */
bool stk_pl_path_of_fd(struct stk_pl_thread *t, int fd);
void stk_pl_path_moved(void); /* chdir */
/* The file's entry, or its group's; NULL: no room. */
enum stk_pl_why { STK_PL_OPENED, STK_PL_ASKED, STK_PL_ABSENT /* the call on it failed */ };
struct stk_pl_file *stk_pl_file_of(const struct stk_pl_path *p, enum stk_pl_why why);
struct stk_pl_file *stk_pl_group_of(const struct stk_pl_file *f);
struct stk_pl_file *stk_pl_file_by_id(uint32_t id);
/* A name that is not a file's. */
struct stk_pl_file *stk_pl_label(const char *text);
/* Makes sure that the name is in this process's log. */
bool stk_pl_file_log(struct stk_pl_file *f);

/* ---- objects.c ---- */
enum stk_pl_where { STK_PL_NEXT /* behind our library, in the order of search */, STK_PL_ANYWHERE };
/* A function of the objects that were loaded with the program. NULL: none, or for dlsym(). Takes no
 * lock. */
void *stk_pl_object_find(const char *name, enum stk_pl_where where);

/* ---- rules.c ---- */
void stk_pl_rules_start(const char *include, const char *exclude, const char *log_dir);
bool stk_pl_is_python(void); /* real.c */
/* What this process is an interpreter of: python, or by its name. */
void stk_pl_rules_program(bool python, const char *exe, int argc, char *const *argv);
/* The length of the folder that stands for a file that is not recorded; 0: it is. opened: not only
 * looked for, as an interpreter does. */
size_t stk_pl_left_out(const char *path, size_t length, bool opened);

/* ---- left_out.c ---- */
uint8_t stk_pl_place(const char *path, size_t n);  /* index of the place for such a folder */
void stk_pl_places_name(struct stk_log_header *h); /* in a new log */

/* ---- storage.c ---- */
/* Determines the file system and the striping of a file. scratch: a buffer for the file system's
 * answer. */
void stk_pl_storage(struct stk_pl_file *f, int fd, uint64_t dev, void *scratch, size_t room);

/* ---- fds.c ---- */
/* "DEV:INO" or "DEV:INO,DEV:INO": where the launcher's own output goes; NULL: not to a file. */
void stk_pl_fds_start(const char *outputs);
/* The description of fd, looked up if its open was not observed; NULL: closed, or no room. */
struct stk_pl_desc *stk_pl_desc_find(struct stk_pl_thread *t, int fd, enum stk_api api,
                                     int64_t moved);
struct stk_pl_desc *stk_pl_desc_open(struct stk_pl_thread *t, int dirfd, const char *path,
                                     int flags, int fd, uint64_t *size);
struct stk_pl_desc *stk_pl_desc_by_index(uint32_t index);
void stk_pl_desc_release(struct stk_pl_desc *d);
/* Forgets fd when nothing can be recorded: a forked child closes what it does not need. */
void stk_pl_forget(int fd);
void stk_pl_fds_forget_range(unsigned first, unsigned last);
void stk_pl_fds_dup(int from, int to);
void stk_pl_fds_append(int fd, bool append);
/* Where a read or write of `moved` bytes at the position began; advances the position. */
int64_t stk_pl_position(struct stk_pl_desc *d, int fd, int64_t moved, enum stk_api api);
/* The same for a write through a description that appends, wherever its position is. */
int64_t stk_pl_appended(struct stk_pl_desc *d, int fd, bool at_position, int64_t moved,
                        enum stk_api api);

/* ---- thread.c ---- */
void stk_pl_threads_start(void);
void stk_pl_threads_forked(void);
struct stk_pl_thread *stk_pl_thread_begin(void);
void *stk_pl_thread_memory(struct stk_pl_thread *t, size_t bytes);
struct stk_pl_rec *stk_pl_rec_of(struct stk_pl_thread *t, struct stk_pl_file *f, enum stk_api api);
struct stk_pl_stream *stk_pl_stream_begin(struct stk_pl_thread *t, const struct stk_pl_desc *d);

static inline struct stk_pl_stream *stk_pl_stream_of(struct stk_pl_thread *t,
                                                     const struct stk_pl_desc *d)
{
    struct stk_pl_stream *page = t->page[d->index / STK_PL_STREAM_PAGE];
    if (LIKELY(page != NULL)) {
        struct stk_pl_stream *s = &page[d->index % STK_PL_STREAM_PAGE];
        if (LIKELY(s->key == ((uint64_t)t->incarnation << 32 | d->generation)))
            return s;
    }
    return stk_pl_stream_begin(t, d);
}

/* ---- line.c: time line, trace ---- */
void stk_pl_line_slow(struct stk_pl_thread *t, enum stk_pl_what what, uint64_t start, uint64_t end,
                      uint64_t bytes);
bool stk_pl_trace_room(struct stk_pl_thread *t);

/* ---- core.c ---- */
/* A call on something that is not recorded individually. */
void stk_pl_outside(const struct stk_pl_desc *d, bool write, uint64_t bytes, uint64_t ns);
/* This thread's record of d's file; NULL: no room. */
struct stk_pl_rec *stk_pl_rec_of_desc(struct stk_pl_thread *t, const struct stk_pl_desc *d,
                                      enum stk_api api);
/* n bytes went through fd between two times; for callers that took the times themselves. */
void stk_pl_moved(struct stk_pl_thread *t, int fd, bool write, int64_t offset, int64_t n,
                  uint64_t start, uint64_t end, enum stk_api api);

/* ---- wrap_char.c ---- */
void stk_stream_forked(void);

/* ---- wrap_wait.c ---- */
bool stk_pl_main_thread(void);
bool stk_pl_talks(uint32_t mode); /* a pipe or socket: reading it waits for another process */

/* ---- snapshot.c ---- */
/* Copies the kernel's counts for the process to its header. */
void stk_pl_snapshot(struct stk_log_header *h);
/* Notes the package that a left-out file belongs to. */
void stk_pl_library(const char *path);
/* The namespace of our process ids, which containers have their own of. 0: unknown. */
uint32_t stk_pl_pid_space(void);
/* Keeps program, arguments and the variables for ranks, once, before the program changes them. */
void stk_pl_remember(int argc, char **argv, char **envp);

/* ---- kernel_io.c ---- */
/* rchar, wchar, read_bytes, write_bytes of this process, without its children's and our own. */
void stk_pl_kernel_io(uint64_t value[4]);
void stk_pl_kernel_thread_begins(void);
void stk_pl_kernel_thread_ends(const struct stk_pl_thread *t);
void stk_pl_kernel_forked(void);
void stk_pl_kernel_child_comes(void); /* before a child is created */

/* ---- wrap_life.c ---- */
/* Keeps the word of LD_PRELOAD that loads this library, for programs that replace the variable. */
void stk_pl_library_start(void);

/* ---- life.c ---- */
bool stk_pl_begin_slow(struct stk_pl_call *call);
uint64_t stk_pl_number(const char *text); /* digits at its beginning; NULL: 0 */
void stk_pl_tick(uint64_t now_ns);
/* In a forked child without a log, outside our own code. */
bool stk_pl_child_pending(void);
void stk_pl_spawning(void) HIDDEN;             /* before a child that is not forked */
bool stk_pl_sandbox_begins(long what, long a); /* whether a prctl() forbids what we do all the
                                                  time */
uint32_t stk_pl_sandbox(void);
void stk_pl_no_sandbox(uint32_t state);

#endif
