/*
 * storage.h - how fast a storage is: the one description that advise, tune, stage and bench share.
 * It is fitted to a profile (model/fit.h), measured (model/measure.h), assumed, or given as text.
 * model/work.h says how long work takes on it.
 */
#ifndef STK_MODEL_STORAGE_H
#define STK_MODEL_STORAGE_H

#include <stdbool.h>

#include "base/err.h"
#include "host/fs.h"
#include "host/fs_facts.h"

/* Bytes per second: INFINITY is no limit, 0 is not known, and so is what follows from it (NaN). */
struct stk_storage {
    const char *fs;    /* its file system; NULL: not known. Borrowed */
    bool network;      /* of another machine: the loader keeps more reads in flight */
    bool served;       /* CPUs of this node move its bytes: memory, FUSE */
    bool memory;       /* nobody waits for it: what its calls take is CPU time */
    double open_s;     /* an open and its close */
    double ask_s;      /* a stat, a listing, a failed look-up */
    double create_s;   /* a small file */
    double latency_s;  /* of a request, without the transfer of its bytes */
    double stream_Bps; /* of requests one after the other; 0: as read_Bps */
    double read_Bps;   /* of one client with all its requests */
    double all_Bps;    /* of all clients together; 0: each has its own */
    double write_Bps;
    double window; /* bytes per request when the kernel cuts up a long read; 0: it does not */
    bool latency_measured, read_measured;
};

/* Of its kind, when nothing was measured. */
struct stk_storage stk_storage_assumed(enum stk_reach reach);
/* The same of a copy that was just made: reads come from the page cache, or are read ahead. */
struct stk_storage stk_storage_of_copy(enum stk_reach reach);
/* "RATE,LATENCY[,shared]" of --virtual-storage: each stream has the rate, or all share it. */
int stk_storage_parse(const char *text, struct stk_storage *out, struct stk_err *err);
/* What is known of a file system by its kind. fs may be NULL. */
void stk_storage_on(struct stk_storage *st, const struct stk_fs *fs);
/* The rate of one of so many streams when all of them read. */
double stk_storage_share_Bps(const struct stk_storage *st, double streams);

#endif
