/*
 * fit.h - the storage and the work that a profile shows.
 */
#ifndef STK_MODEL_FIT_H
#define STK_MODEL_FIT_H

#include "analysis/analysis.h"
#include "model/work.h"

#define STK_FIT_CONSECUTIVE 0.8 /* of the reads: from there on, a file is read in order */
/* 100 KiB: the edge of a bin; on shared storage (latency 0.5 ms, 1 GB/s) waiting then takes five
 * times as long as the data. 1 MiB: waiting and data take about the same time. */
#define STK_FIT_SMALL     102400.0
#define STK_FIT_LONG      1048576.0
#define STK_FIT_BLOCKED_S 1.0 /* per call that moves no data: ten times what 100 MiB should take */

/* Fits the numbers to all files on `fs`. Those that the files do not show are assumed. Its rate is
 * that of a client while all clients of the profile read. */
struct stk_storage stk_storage_fit(const struct stk_analysis *a, const char *fs,
                                   enum stk_reach reach);

/* Seconds in which the main loop computes, mean over the ranks. If what it waited for is unknown,
 * the time outside I/O counts as computing. */
double stk_compute_of(const struct stk_analysis *a);
/* Whether the thread that computes reads the data, too: nobody reads ahead of it. */
bool stk_reads_in_turn(const struct stk_analysis *a);
/* CPU time in which those that read decode, all ranks together: that of workers, each after
 * begin_s, or of all processes. That of calls is no part of it. */
double stk_readers_cpu_s(const struct stk_analysis *a, double begin_s);
/* Of stk_compute_of(), what readers would do if there were some. A profile cannot tell what one
 * thread decodes from what it computes: all of its CPU time counts as decoding. 0: there are. */
double stk_decode_of(const struct stk_analysis *a);
/* Samples per step of a rank that trains with so many, in epochs of so many: by the steps that the
 * program marks, else at most 32, so that each of its readers makes at least 16 batches. */
double stk_batch_of(const struct stk_analysis *a, double samples, double epoch, double readers);
/* What was observed of a file, a directory, a format. */
struct stk_work stk_work_of(const struct stk_usage *u);
/* Whether fsync and the like dominate the time of a file's calls that move no data. */
bool stk_usage_syncs(const struct stk_usage *u);
/* Calls that move no data take a second each: they wait for another process (the other end of a
 * named pipe, a lock), not for storage. */
bool stk_usage_blocks(const struct stk_usage *u);

#endif
