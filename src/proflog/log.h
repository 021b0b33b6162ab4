/*
 * log.h - what a profiled process leaves behind: one file, mapped while the process runs, so that
 * nothing is lost however it ends. Written by the preload library, read by src/profile
 * (profile/read.c). Depends on counters.h and cover.h alone. Little-endian, natural alignment.
 *
 * The file HOST.PID.N.stklog (N: 0, then 1, 2, … when a process executes another program) is a
 * sequence of blocks of STK_LOG_BLOCK bytes, allocated on disk (fallocate) before they are mapped:
 * a full disk cannot raise SIGBUS. Block 0 has the header, and behind it the small blocks that
 * are all a short process needs; a log without others may be in a slot (proflog/slots.h) instead
 * of a file. Every block but the first has one kind and belongs to one thread slot (or to the
 * process); its head says which. A block's content grows; `used` is stored (release) after the
 * content it covers, so a reader of a killed process's file sees complete entries only.
 */
#ifndef STK_PROFLOG_LOG_H
#define STK_PROFLOG_LOG_H

#include <stddef.h>

#include "proflog/counters.h"
#include "proflog/cover.h"
#include "proflog/members.h"

#define STK_LOG_MAGIC   0x3130474f4c4b5453ull /* "STKLOG01" */
#define STK_LOG_VERSION 4u
#define STK_LOG_BLOCK   65536u
#define STK_LOG_SUFFIX  ".stklog"
/* In the preload library: which version of logs it writes, so that the launcher sees before a run
 * whether they can be read. */
#define STK_LOG_TEXT_(version) "stoker-preload: logs of version " #version ";"
#define STK_LOG_TEXT(version)  STK_LOG_TEXT_(version)
#define STK_LOG_WRITES         STK_LOG_TEXT(STK_LOG_VERSION)

/* For names of hosts and programs in file names: other characters become '_'. */
static inline char stk_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                   c == '_' || c == '-'
               ? c
               : '_';
}

/* NONE: killed, or still running. */
enum stk_log_end { STK_END_NONE, STK_END_EXIT, STK_END_EXEC, STK_END_ABORT };

/* Why recording ended before the process did. */
enum stk_log_stop {
    STK_STOP_NONE,
    STK_STOP_TIME,   /* --for */
    STK_STOP_SANDBOX /* the process forbade itself system calls (seccomp) */
};

/* How the process came to be. */
enum stk_log_born {
    STK_BORN_START, /* a new program (also after posix_spawn, vfork + exec, fork + exec) */
    STK_BORN_FORK,  /* forked from the process whose log is `parent`, same program */
    STK_BORN_EXEC   /* the same process as `parent`, which executed this program */
};

/* Files that are not recorded individually, by folder; the last one stands for all others. */
#define STK_LOG_PLACES 8
struct stk_log_place {
    char folder[120];          /* terminated; "" unused, or the others */
    uint64_t files, calls, ns; /* opened; all calls, and their time (atomic) */
};

struct stk_log_header {
    uint64_t magic;
    uint32_t version, header_bytes, block_bytes, counters; /* counters: STK_C_COUNT of the writer */
    uint32_t nblocks; /* in use, including the header (atomic) */
    uint32_t pid, ppid, born, end;
    uint32_t pid_space;   /* the namespace of the pids, by its inode; 0: unknown */
    uint32_t before;      /* the next slot of its chain (proflog/slots.h) */
    uint32_t user_ms;     /* of cpu_ns, outside the kernel; 0: unknown */
    uint64_t start_real_ns, start_mono_ns; /* the same moment on two clocks */
    uint64_t last_ns;                      /* since the start: the last recorded event */
    uint64_t end_ns;                       /* since the start; 0: its end was not observed */
    uint64_t cpu_ns;                       /* of the process, as last seen */
    char name[128];                        /* HOST.PID.N.stklog, also if it is in a slot */
    char parent[128];                      /* name of that log; "" for STK_BORN_START */
    char host[64], exe[512], cwd[512];     /* truncated if too long, terminated */
    char command[2048];                    /* arguments, each ended by a NUL; two NULs end it */
    char environment[2048]; /* NAME=VALUE, each ended by a NUL, two NULs end it: the variables for
                               rank, job and worker (see core.h) */
    /* /proc/self/io at the start, and as last seen (now and then, and at the end): rchar, wchar,
     * read_bytes, write_bytes. */
    uint64_t kernel0[4], kernel[4];
    uint64_t dropped_calls, dropped_trace; /* not recorded: no room (atomic) */
    uint64_t left_out_files;               /* interpreter, libraries, /proc, … and what the user
                                              excluded: opened, not recorded individually */
    uint64_t left_out_calls, left_out_read_bytes, left_out_write_bytes, left_out_ns;
    uint64_t stream_read_bytes, stream_write_bytes; /* pipes, sockets, terminals: read(), write() */
    uint64_t stream_ahead_bytes; /* two's complement: what the C library read for its streams beyond
                                    what their callers received */
    uint64_t uring_rings, uring_enters; /* whose transfers are not observed, but see told_bytes */
    uint64_t told_read_bytes;           /* reads that a library reported itself (ASYNC) */
    uint64_t kernel_aio_calls;          /* io_submit … */
    uint64_t kernel_aio_transfers,
        kernel_aio_results;              /* … submitted, and of these observed to end */
    uint64_t kernel_aio_bytes[2];        /* read, written: the kernel's rchar and wchar lack them */
    uint64_t grouped_files;              /* opens that went to group records */
    uint32_t trace;                      /* every operation is recorded */
    uint32_t stopped;                    /* recording was ended early: enum stk_log_stop */
    uint64_t minor_faults, major_faults; /* of the process, as last seen (mmap shows here) */
    /* The main thread's time in waits: on pipes and sockets, and on semaphores. */
    uint64_t wait_processes_ns, wait_threads_ns;
    uint64_t libraries; /* loaded (atomic): proflog/libraries.h */
    struct stk_log_place left_out[STK_LOG_PLACES];
};

enum stk_log_kind {
    STK_BLK_NAMES = 1,
    STK_BLK_RECORDS,
    STK_BLK_THREAD,
    STK_BLK_TRACE,
    STK_BLK_MARKS
};

struct stk_log_block {
    uint32_t kind;
    uint32_t slot;    /* the thread's slot, from 0; reused after a thread has ended */
    uint32_t used;    /* complete bytes after this head (atomic, release) */
    uint32_t room;    /* for the writer: allocated bytes of the block; 0: all */
    uint32_t pad[12]; /* the content begins on a cache line */
};

/* NAMES: entries padded to 8 bytes. Ids count from 1, unique in the log. */
struct stk_log_name {
    uint32_t id, length;
    char text[]; /* no NUL */
};

/* How a library that reads arrays (HDF5) says that they are stored; 0: unknown. */
enum stk_log_layout { STK_LAYOUT_WHOLE = 1 /* in one piece */, STK_LAYOUT_CHUNKS = 2 };

/* RECORDS: one thread slot's use of one file through one API. Updated in place: in a running
 * process, counters of one record may be a call apart. */
struct stk_log_record {
    struct stk_counts n;   /* first: begins on a cache line */
    struct stk_cover read; /* group: spans unused, overflow set; the sample is of all its files */
    uint64_t dev, ino;     /* group: dev only */
    uint64_t fs_type;      /* statfs f_type; 0: not queried */
    uint32_t stripe_bytes, stripe_count; /* Lustre; 0: unknown */
    uint32_t name; /* group: "DIR/" and a pattern, as in "train/cats/" "*.jpg" */
    uint8_t api, group, layouts, pad; /* layouts: of its arrays, bits of enum stk_log_layout */
    uint8_t files[STK_MEMBERS]; /* group: a sketch of the paths of its files */
    uint8_t more[8];
};

/* THREAD: one per slot. The time line has bins of equal width that double when the run outgrows
 * them. A call's time goes to the bins it spans. */
#define STK_LOG_BINS 256
#define STK_GAP_BINS 40
struct stk_log_bin {
    uint64_t read_bytes, write_bytes, read_ns, write_ns, meta_ns;
    uint32_t reads, meta_calls;
};
struct stk_log_thread {
    uint32_t tid, threads; /* the last thread in this slot; how many used it */
    uint64_t cpu_ns;       /* unused, 0 */
    uint64_t bin_ns;       /* width: 10 ms at first */
    /* Time between the end of a read and the start of the thread's next one, by log2 of ns: the
     * processing of the data. */
    uint64_t gap_count[STK_GAP_BINS], gap_ns[STK_GAP_BINS];
    struct stk_log_bin bin[STK_LOG_BINS];
};

/* TRACE: every operation, in the order of ends. */
enum stk_log_op {
    STK_OP_OPEN = 1,
    STK_OP_CLOSE,
    STK_OP_READ,
    STK_OP_WRITE,
    STK_OP_SEEK,
    STK_OP_STAT,
    STK_OP_MMAP,
    STK_OP_SYNC,
    STK_OP_DIR,
    STK_OP_REMOVE,
    STK_OP_RENAME,
    STK_OP_COPY,
    STK_OP_HINT,
    STK_OP_COUNT
};
struct stk_log_event {
    uint64_t start_ns; /* since the process's start */
    uint64_t offset;
    uint32_t length_ns, bytes; /* both saturate; an error moved 0 bytes */
    uint32_t name;
    uint8_t op, api;
    uint16_t slot;
};

/* MARKS: set by the program (stk_step(), stk_phase_begin(); stoker.step() …). */
enum stk_log_mark_kind { STK_MARK_STEP = 1, STK_MARK_PHASE, STK_MARK_EPOCH };
struct stk_log_mark {
    uint64_t at_ns, length_ns; /* since the process's start; length 0: the start of a step or an
                                  epoch, or an unfinished phase */
    uint64_t number;           /* its index, or the program's own number */
    uint32_t kind, name;       /* name: in the table of names, 0: none */
    uint32_t slot, depth;      /* phases nest */
};

/* The small blocks behind the header, and the bytes of block 0 that they and the header take. They
 * are placed so that a process that reads one file touches four pages. */
#define STK_LOG_FIRST 32768u
#define STK_LOG_SMALL 3u
struct stk_log_small {
    uint32_t kind, at, bytes; /* bytes: with its head */
};
static inline struct stk_log_small stk_log_small(uint32_t i)
{
    static const struct stk_log_small all[STK_LOG_SMALL] = {{STK_BLK_NAMES, 7168, 1024},
                                                            {STK_BLK_RECORDS, 8192, 10624},
                                                            {STK_BLK_THREAD, 18816, 13056}};
    return all[i];
}

_Static_assert(sizeof(struct stk_log_header) <= 7168, "the header fits before the small blocks");
_Static_assert(sizeof(struct stk_log_thread) + sizeof(struct stk_log_block) <= 13056,
               "a time line fits its small block");
_Static_assert(sizeof(struct stk_log_block) % 64 == 0 && sizeof(struct stk_log_record) % 64 == 0 &&
                   offsetof(struct stk_log_record, n.c[STK_C_MIN_OFFSET]) / 64 ==
                       offsetof(struct stk_log_record, n.read_size[5]) / 64 &&
                   offsetof(struct stk_log_record, n.size) % 64 == 0 &&
                   offsetof(struct stk_log_record, n.stride) % 64 == 0,
               "a read of up to 4 MiB touches as few cache lines as possible");
_Static_assert(sizeof(struct stk_log_thread) + sizeof(struct stk_log_block) <= STK_LOG_BLOCK,
               "a thread fits its block");

#endif
