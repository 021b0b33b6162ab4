/*
 * measure.h - how fast a file system is: a few reads and writes within a bounded time, bounded
 * bytes, and in a child, so that a file system that stalls stalls nobody else.
 *
 * What the page cache answers is not storage: files are read with O_DIRECT, or after their pages
 * were dropped; if neither works, reads stay unknown. Caches of servers and disks cannot be seen.
 */
#ifndef STK_STAGE_MEASURE_H
#define STK_STAGE_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stk_measure_how {
    double test_s;           /* for each of the tests; 0: 0.4 s */
    double limit_s;          /* for all of them, then they are ended; 0: 15 s */
    uint64_t max_bytes;      /* to write, or to read; 0: 128 MiB */
    int (*stop)(void *user); /* may be NULL; non-zero: end it */
    void *user;
};

struct stk_measured {
    double write_Bps;     /* synced; 0: not known, as all others */
    double read_Bps;      /* four readers of 4 MiB */
    double small_Bps;     /* of data alone, instead: files were so small that opening them counts */
    double read_each;     /* bytes per read, on average */
    double creates_per_s; /* files of 4 KiB, not synced */
    double opens_per_s;   /* opened, and their first 4 KiB read */
    double latency_s;     /* median of random reads of 4 KiB */
    char way[32]; /* how reads avoided the page cache: "O_DIRECT", "pages dropped", "not cached",
 "memory"; "":
                   * they could not, and are not known */
    uint64_t written_bytes, read_bytes;
    double seconds;
    int error;       /* errno that ended it early; ETIMEDOUT, ECANCELED */
    char left[4096]; /* a folder of ours that could not be removed; "": none */
};

/* Writes into a new folder of ours in `folder`, reads that, and removes it. fs: its file system
 * ("xfs"); memory: it is in memory. how may be NULL. Returns out->error. */
int stk_measure_folder(const char *folder, const char *fs, bool memory,
                       const struct stk_measure_how *how, struct stk_measured *out);
/* Reads what is there: a file, or some of the files below a folder. Writes nothing. */
int stk_measure_data(const char *path, const char *fs, bool memory,
                     const struct stk_measure_how *how, struct stk_measured *out);

#endif
