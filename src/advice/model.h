/*
 * model.h - how long I/O takes: storage is a few numbers fitted to a profile, work is what a
 * program asks of it, and a remedy is a change of the work. Every gain is the difference of two
 * predictions, scaled to the time that was measured.
 */
#ifndef STK_ADVICE_MODEL_H
#define STK_ADVICE_MODEL_H

#include "analysis/analysis.h"

/* How far away a file is. */
enum reach { REACH_UNKNOWN, REACH_LOCAL, REACH_MEMORY, REACH_SHARED };

/* One file system as one reader sees it. */
struct stk_storage {
    const char *fs;
    double open_s;    /* an open and its close */
    double ask_s;     /* a stat, a listing, a failed look-up */
    double latency_s; /* of a request, without the transfer of its bytes */
    double Bps;       /* of the transfer, for all readers together */
    double window;    /* bytes per request when the kernel cuts up a long read */
    bool latency_measured, Bps_measured;
};

/* What a program asks of a storage. `lanes` requests overlap; their transfers do not. */
struct stk_work {
    double opens, asks, requests, bytes;
    double memory_s; /* seconds in reads that memory answers */
    double lanes;    /* 0: one */
    bool piped;      /* the next request is on its way while bytes arrive: the kernel reads ahead */
};

/* Fits the numbers to all files on `fs`. Those that the files do not show come from the limits. */
struct stk_storage stk_storage_fit(const struct stk_analysis *a, const char *fs, enum reach reach);

/* What was observed of a file, a directory, a format. */
struct stk_work stk_work_of(const struct stk_usage *u);
void stk_work_add(struct stk_work *to, const struct stk_work *w);
/* Reading these bytes in pieces of this length, none of which is in memory. */
struct stk_work stk_work_read(const struct stk_storage *st, double bytes, double piece);
/*
 * The work after the offsets of each batch are sorted and neighbours are read together: requests at
 * random places within `span` bytes merge if the gap between them is one window or less. The gaps
 * are then read too.
 */
struct stk_work stk_work_sorted(const struct stk_storage *st, struct stk_work w, double span,
                                double batch);

double stk_model_s(const struct stk_storage *st, const struct stk_work *w);
/* Seconds that the change saves of those that `before` took; never less than 0. */
double stk_model_saved_s(const struct stk_storage *st, double measured_s,
                         const struct stk_work *before, const struct stk_work *after);

#endif
