/*
 * measure.h - how fast a file system is: a few reads and writes within a bounded time, bounded
 * bytes, and in a child, so that a file system that stalls stalls nobody else.
 *
 * What the page cache answers is not storage: files are read with O_DIRECT, or after their pages
 * were dropped; if neither works, reads stay unknown. Caches of servers and disks cannot be seen.
 */
#ifndef STK_MODEL_MEASURE_H
#define STK_MODEL_MEASURE_H

#include "base/thread.h"
#include "model/storage.h"

struct stk_measure_how {
    double test_s;           /* for each of the tests; 0: 0.4 s */
    uint64_t max_bytes;      /* to write, or to read; 0: 128 MiB */
    struct stk_limit limit;  /* for all of them, then they are ended; 0: 15 s */
};

#define STK_MEASURE_READERS 4u /* at the same time */
#define STK_MEASURE_FOLDER  ".stoker-doctor" /* and a dot and digits: what is written lies there */

struct stk_measured {
    /* Its latency is the median of random reads of 4 KiB, its write rate synced; the rest follows
     * from what is below. */
    struct stk_storage storage;
    double large_Bps;     /* of all readers, in blocks of 4 MiB; 0: not known, as below */
    double small_Bps;     /* instead: files were so small that opening them counts */
    double read_each;     /* bytes per read, on average */
    double creates_per_s; /* files of 4 KiB, not synced, by all readers */
    double opens_per_s;   /* opened, and their first 4 KiB read */
    /* How reads avoided the page cache: "O_DIRECT", "pages dropped", "not cached", "memory"; "":
     * they could not, and are not known. */
    char way[32];
    uint64_t written_bytes, read_bytes;
    double seconds;
    int error;       /* errno that ended it early; ETIMEDOUT, ECANCELED */
    char left[4096]; /* a folder of ours that could not be removed; "": none */
};

/* What a measurement says of the storage: fills in m->storage from the rates counted. Pure. */
void stk_measure_storage(struct stk_measured *m);

/* Writes into a new folder of ours in `folder`, reads that, and removes it. fs: its file system
 * ("xfs"); memory: it is in memory. how may be NULL. Returns out->error. */
int stk_measure_folder(const char *folder, const char *fs, bool memory,
                       const struct stk_measure_how *how, struct stk_measured *out);
/* Reads what is there: a file, or some of the files below a folder. Writes nothing. */
int stk_measure_data(const char *path, const char *fs, bool memory,
                     const struct stk_measure_how *how, struct stk_measured *out);

#endif
