/*
 * reader.h - reads samples as applications do: streams of records through a buffer, whole files, or
 * rows of an HDF5 file through libhdf5. A kind of dataset is one row of a table: how its files are
 * written and how they are read.
 */
#ifndef STK_BENCH_READER_H
#define STK_BENCH_READER_H

#include <stddef.h>

#include "base/buf.h"
#include "bench/bio.h"
#include "bench/data.h"
#include "bench/plan.h"
#include "bench/workload.h"

/* Reads the samples of one thread. */
struct stk_bench_reader {
    const struct stk_workload *w;
    const struct stk_bench_kind *kind;
    const struct stk_bench_data *data;
    struct stk_bio io;
    struct stk_bio_file file;
    uint64_t current;    /* number of the open file; UINT64_MAX: none */
    uint64_t next_index; /* stream: of the sample that comes next */
    uint64_t off;        /* stream: of the bytes after those in the buffer */
    uint8_t *buf;        /* page-aligned */
    uint8_t *work;       /* what burning CPU time goes through; NULL: not needed yet */
    size_t request;      /* bytes of a request */
    size_t begin, end;   /* stream: of the bytes in the buffer that are not used yet */
    uint64_t serial;     /* of the sample, unique in the run: set by the caller */
    void *state;         /* of the kind */
};

/* Finds the end of a record in a stream, which comes in pieces. All zero: before a record. */
struct stk_bench_frame {
    uint64_t skip;    /* bytes that belong to the record whatever they are */
    size_t have;      /* bytes of head */
    unsigned members; /* tar: members so far */
    bool in_body;
    uint8_t head[512];
};

struct stk_out; /* format/format.h */

struct stk_bench_kind {
    const char *suffix;
    /* Writes file number `file` into the open folder as `name`; path: for messages. */
    int (*write)(const struct stk_workload *w, uint64_t file, int dirfd, const char *name,
                 const char *path, struct stk_err *err);
    /* Makes the I/O of one sample. */
    int (*sample)(struct stk_bench_reader *r, struct stk_bench_place at, struct stk_err *err);
    void (*close)(struct stk_bench_reader *r); /* the open file; may be NULL */
    /* Streams: takes bytes of the record; returns how many. *ends: the record is complete. */
    size_t (*frame)(struct stk_bench_frame *f, const uint8_t *p, size_t n, bool *ends);
    /* Bytes of a sample as it is stored; the samples of a file follow each other. NULL: files are
     * read whole. */
    uint64_t (*stored)(const struct stk_workload *w, struct stk_bench_place at);
    /* Where the first sample of a file is; NULL: at its start. */
    int (*base)(struct stk_bench_reader *r, uint64_t file, uint64_t *off, struct stk_err *err);
    const char *package; /* missing in this build; NULL: complete */
};

/* NULL for STK_BENCH_NONE. */
const struct stk_bench_kind *stk_bench_kind_of(int format);

/* data: borrowed. Caller frees with stk_bench_reader_release(), also on error. */
int stk_bench_reader_init(struct stk_bench_reader *r, const struct stk_workload *w,
                          const struct stk_bench_data *data, struct stk_bench_clock *clock,
                          struct stk_io_tally *tally, struct stk_err *err);
/* The requests before the first step. */
int stk_bench_reader_head(struct stk_bench_reader *r, struct stk_err *err);
/* Reads a sample, then takes the time that decoding it needs. */
int stk_bench_reader_sample(struct stk_bench_reader *r, struct stk_bench_place at,
                            struct stk_err *err);
/* Takes the time alone. */
int stk_bench_reader_think(struct stk_bench_reader *r, struct stk_err *err);
/* For a sample whose data came from elsewhere: what is read beside it, and the time. */
int stk_bench_reader_beside(struct stk_bench_reader *r, struct stk_bench_place at,
                            struct stk_err *err);
void stk_bench_reader_release(struct stk_bench_reader *r);

/* For the kinds. */
int stk_bench_reader_open(struct stk_bench_reader *r, uint64_t file, struct stk_err *err);
int stk_bench_stream_sample(struct stk_bench_reader *r, struct stk_bench_place at,
                            struct stk_err *err);
int stk_bench_whole_sample(struct stk_bench_reader *r, struct stk_bench_place at,
                           struct stk_err *err);
/* A file of one index and records of one size: its offsets, its lengths, the records. */
#define STK_BENCH_INDEX_ENTRY 16u /* bytes per sample: of both */
int stk_bench_indexed_sample(struct stk_bench_reader *r, struct stk_bench_place at,
                             struct stk_err *err);
/* The same in whole pages, as the kernel reads them for a mapping. */
int stk_bench_mapped_sample(struct stk_bench_reader *r, struct stk_bench_place at,
                            struct stk_err *err);
extern const struct stk_bench_kind stk_bench_hdf5, stk_bench_replay;
/* What a replay does beside the dataset for a sample, and before the first step. */
int stk_bench_replay_beside(struct stk_bench_reader *r, struct stk_bench_place at,
                            struct stk_err *err);
int stk_bench_replay_start(struct stk_bench_reader *r, uint64_t rank, struct stk_err *err);

/* "train/imagenet-00000-of-00473.tfrecord", in the data folder. Returns buf. */
#define STK_BENCH_NAME 96
const char *stk_bench_file_name(const struct stk_workload *w, uint64_t file,
                                char buf[STK_BENCH_NAME]);

/* ---- bytes of files -------------------------------------------------------------------------- */

/* The content of generated samples: random, and the same for the same place and seed. */
void stk_bench_fill(uint8_t *p, size_t n, uint64_t seed, struct stk_bench_place at);
/* The same for a sample of w: if its files are compressed, bytes that can be. */
void stk_bench_fill_sample(uint8_t *p, size_t n, const struct stk_workload *w,
                           struct stk_bench_place at);
/* Letters and digits. */
void stk_bench_fill_text(uint8_t *p, size_t n, uint64_t seed, struct stk_bench_place at);

/* ---- buffers of threads ---------------------------------------------------------------------- */

/* Buffers that the threads of a generation use again for the next file: memory that is given back
 * and fetched again for each large sample takes longer than writing it. */
struct stk_spare {
    struct stk_buf data, bytes; /* empty when fetched */
    struct stk_spare *next;   /* of the free ones */
};

/* After a generation: frees those that were put back. */
void stk_spare_free(void);

#endif
