/*
 * counters.h - what is counted per file, defined once: the preload library counts it, logs store
 * it, `profile` reads it, reports name it. Depends on nothing.
 *
 * X(NAME, "name", how records are merged: SUM, MIN, MAX). Times are nanoseconds of CLOCK_MONOTONIC,
 * offsets and sizes bytes. docs/profile.md defines each in words.
 */
#ifndef STK_PROFLOG_COUNTERS_H
#define STK_PROFLOG_COUNTERS_H

#include <stdint.h>

/* Ordered so that every read changes two cache lines: the first eight counters, and the last two
 * with the sizes that follow them in struct stk_counts. */
#define STK_COUNTERS(X)                                                                            \
    X(READS, "reads", SUM) /* that returned data */                                                \
    X(READ_BYTES, "read_bytes", SUM)                                                               \
    X(READ_NS, "read_ns", SUM)                                                                     \
    X(MAX_READ_NS, "max_read_ns", MAX)                                                             \
    X(SEQ_READS, "seq_reads", SUM)       /* begins at or after the end of the previous one */      \
    X(CONSEC_READS, "consec_reads", SUM) /* begins exactly there */                                \
    X(LAST_READ_NS, "last_read_ns", MAX) /* end of the last call that read data */                 \
    X(LAST_NS, "last_ns", MAX)           /* of any call */                                         \
    X(OPENS, "opens", SUM)               /* that gave a descriptor or stream */                    \
    X(CLOSES, "closes", SUM)                                                                       \
    X(STATS, "stats", SUM) /* stat family, statx, access */                                        \
    X(SEEKS, "seeks", SUM)                                                                         \
    X(EOF_READS, "eof_reads", SUM) /* returned 0 bytes: counted apart, in no histogram */          \
    X(WRITES, "writes", SUM)                                                                       \
    X(WRITE_BYTES, "write_bytes", SUM)                                                             \
    X(FIRST_READS, "first_reads", SUM) /* the first of a thread through a description: in no       \
                                          sequence, neither random nor sequential */               \
    X(SEQ_WRITES, "seq_writes", SUM)                                                               \
    X(CONSEC_WRITES, "consec_writes", SUM)                                                         \
    X(RW_SWITCHES, "rw_switches", SUM)                                                             \
    X(MMAPS, "mmaps", SUM)                                                                         \
    X(MMAP_BYTES, "mmap_bytes", SUM) /* mapped, not touched */                                     \
    X(MSYNCS, "msyncs", SUM)                                                                       \
    X(FSYNCS, "fsyncs", SUM)             /* fsync, fdatasync, sync_file_range */                   \
    X(HINTS, "hints", SUM)               /* posix_fadvise, readahead, madvise on it */             \
    X(DIRECT_OPENS, "direct_opens", SUM) /* O_DIRECT */                                            \
    X(WRITE_OPENS, "write_opens", SUM)   /* O_WRONLY, O_RDWR */                                    \
    X(DIR_READS, "dir_reads", SUM)       /* opendir and readdir calls, of a directory */           \
    X(REMOVES, "removes", SUM)           /* unlink, rmdir */                                       \
    X(RENAMES, "renames", SUM)                                                                     \
    X(COPIES, "copies", SUM) /* sendfile, copy_file_range, splice; also counted as a               \
                                read of one and a write of the other */                            \
    X(ERRORS, "errors", SUM) /* calls that failed (any kind) */                                    \
    X(DUPS, "dups", SUM)                                                                           \
    X(MUNMAPS, "munmaps", SUM)                                                                     \
    X(WALKS, "walks", SUM)     /* glob, realpath, nftw, fts, scandir: walk inside the C library */ \
    X(MAKES, "makes", SUM)     /* mkdir, link, symlink, mknod */                                   \
    X(CHANGES, "changes", SUM) /* chmod, chown, utime, truncate, fallocate, setxattr */            \
    X(XATTRS, "xattrs", SUM)   /* getxattr, listxattr */                                           \
    X(STATFS, "statfs", SUM)   /* statfs, statvfs */                                               \
    X(LOCKS, "locks", SUM)     /* flock, lockf, fcntl() locks: with the time they wait */          \
    X(FLUSHES, "flushes", SUM) /* fflush */                                                        \
    X(WRITE_NS, "write_ns", SUM)                                                                   \
    X(META_NS, "meta_ns", SUM) /* everything that moves no data */                                 \
    X(MAX_WRITE_NS, "max_write_ns", MAX)                                                           \
    X(FILE_SIZE, "file_size", MAX)         /* as seen at open, stat or the end of data */          \
    X(FIRST_NS, "first_ns", MIN)           /* first call on it, since the process started */       \
    X(FIRST_READ_NS, "first_read_ns", MIN) /* first that read data */                              \
    X(OPEN_NS, "open_ns", MIN)             /* first open, last close */                            \
    X(CLOSE_NS, "close_ns", MAX)                                                                   \
    X(MIN_OFFSET, "min_offset", MIN) /* first byte touched; UINT64_MAX: none */                    \
    X(MAX_OFFSET, "max_offset", MAX) /* byte after the last one touched */

enum stk_counter {
#define X(name, text, how) STK_C_##name,
    STK_COUNTERS(X)
#undef X
        STK_C_COUNT
};

/* The layer of a call; each record has one. A job's transfers are POSIX + STDIO + ASYNC: each call
 * is seen at one of these. HDF5 and MPI-IO lie above them and are counted in addition. */
enum stk_api {
    STK_API_POSIX,
    STK_API_STDIO, /* the C library's own reads below it are not seen: no double count */
    STK_API_ASYNC, /* aio, and io_uring if the user's library reports it (stoker's loader does) */
    STK_API_HDF5,
    STK_API_MPIIO,
    STK_API_COUNT
};

/* Upper edges (inclusive) of request sizes, as in Darshan; the last bin has none. */
#define STK_SIZE_BINS 10
static const uint64_t stk_size_edge[STK_SIZE_BINS - 1] = {
    100, 1024, 10240, 102400, 1u << 20, 4u << 20, 10u << 20, 100u << 20, 1u << 30};
/* Latency of reads: bin b covers [2^b, 2^(b+1)) ns; the last bin everything above. */
#define STK_LATENCY_BINS 36
#define STK_COMMON       4 /* most common sizes, strides */

struct stk_common_value {
    uint64_t value, count; /* stride: two's complement */
};

/* Counts for one file (or group of files), by one thread or a whole process. */
struct stk_counts {
    uint64_t c[STK_C_COUNT];
    uint64_t read_size[STK_SIZE_BINS], write_size[STK_SIZE_BINS];
    uint32_t read_latency[STK_LATENCY_BINS];
    struct stk_common_value size[STK_COMMON]; /* of reads */
    struct stk_common_value
        stride[STK_COMMON]; /* between starts of reads that are not consecutive */
};

#endif
