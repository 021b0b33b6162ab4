/*
 * work.h - how long work takes on a storage. Pure functions: no clock, no I/O. Work is what a
 * program asks of the storage, a remedy is a change of the work, and a gain is the difference of
 * two predictions. The loader is a program whose requests are known: its constants are those of
 * load/options.h and io/io.h.
 */
#ifndef STK_MODEL_WORK_H
#define STK_MODEL_WORK_H

#include "model/storage.h"

/* What one client asks for. Its lanes overlap, but share the transfer of the client; clients share
 * that of the storage. */
struct stk_work {
    double opens, asks, requests, bytes;
    double creates, written; /* files, bytes */
    double cpu_s;   /* CPU time in the same lanes: decoding, reads that memory answers */
    double lanes;   /* 0: one */
    double cpus;    /* for cpu_s, and for all calls on storage in memory; 0: one per lane */
    double clients; /* that do the same at the same time; 0: one */
    bool piped;     /* the next request is on its way while bytes arrive: the kernel reads ahead */
};

void stk_work_add(struct stk_work *to, const struct stk_work *w);
/* So many times the same. */
void stk_work_scale(struct stk_work *w, double times);
/* Reading these bytes in order, in pieces of this length, none of which is in memory. */
struct stk_work stk_work_read(const struct stk_storage *st, double bytes, double piece);
/*
 * The work after the offsets of each batch are sorted and neighbours are read together: requests at
 * random places within `span` bytes merge if the gap between them is one window or less. The gaps
 * are then read too.
 */
struct stk_work stk_work_sorted(const struct stk_storage *st, struct stk_work w, double span,
                                double batch);

/* The larger of two times. fmax() takes the other one for NaN: here what is not known stays so. */
double stk_slower(double a, double b);
/* NaN: a rate that it needs is not known. */
double stk_work_s(const struct stk_storage *st, const struct stk_work *w);
/* Seconds that the change saves of those that `before` took; never less than 0. */
double stk_work_saved_s(const struct stk_storage *st, double measured_s,
                        const struct stk_work *before, const struct stk_work *after);

/* ---- a program ------------------------------------------------------------------------------ */

/* To start a worker process of PyTorch takes 6 to 12 ms, and so does the worker until it reads. */
#define STK_WORKER_START_S 0.012
#define STK_SEEK_S         1e-6   /* a system call without storage: 0.2 to 1 us */
#define STK_INTERPRETER_S  0.5e-6 /* of Python, around a call that returns at once */
#define STK_HDF5_ROW_S     30e-6  /* of HDF5, for a row that is neither packed nor converted */
#define STK_FAULT_MOST_S   20e-3  /* a page from a disk that seeks, with others in front of it */
/* Numbers and strings of a table: 85 MB/s with pandas, 65 to 130 with Python's csv and split() and
 * float(). */
#define STK_PARSE_BPS 100e6

/* A run of a program that computes for that long beside readers, which need io_s and, of that,
 * first_s before its first step. A program that reads itself computes before or after that. */
double stk_run_ahead_s(double compute_s, double io_s, double first_s);
/* Seconds before the first of so many batches is there: one reader makes it, while the others make
 * theirs, and all of them need io_s for all batches. */
double stk_first_batch_s(double io_s, double readers, double batches);

/* ---- stoker's loader ------------------------------------------------------------------------ */

/* Its rows of 14 numbers, 106 bytes of text: 13 us each in batches of 32, 8 in batches of 256, in one
 * process (measured). */
#define STK_LOADER_TABLE_BPS 10e6

/* What the loader of one rank asks for to deliver these bytes of large files. */
struct stk_work stk_loader_work(const struct stk_storage *st, double bytes);
/* Reading that, and beside it cpu_s of work of its threads, on so many CPUs, which also serve
 * storage of this node. */
double stk_loader_io_s(const struct stk_storage *st, const struct stk_work *w, double cpu_s,
                       double cpus);
/* The most of these bytes that it reads before its first batch, if it shuffles. */
double stk_loader_window(double bytes);
/* Bytes that the loaders of all ranks read if `bytes` of a dataset of `size` are taken: a loader
 * that shuffles reads whole windows. */
double stk_loader_windows(double bytes, double size, double ranks);
/* Until it has begun to read. */
double stk_loader_start_s(const struct stk_storage *st);
/* Reading what its first batch needs: nothing is computed meanwhile. touched: bytes of new memory
 * that this takes. */
double stk_loader_first_s(const struct stk_storage *st, double bytes, double clients,
                          double touched);

#endif
