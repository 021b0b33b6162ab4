/*
 * faults.h - rules that make files misbehave, changeable while mounted.
 *
 * A rule is a line; docs/slowfs.md lists them. The rules in force are few and checked for every
 * request, so an empty set costs one atomic load.
 */
#ifndef SLOWFS_FAULTS_H
#define SLOWFS_FAULTS_H

#include <pthread.h>
#include <stddef.h>

#include "base/buf.h"
#include "pace.h"

#define MAX_RULES 64

enum fault { FAULT_EIO, FAULT_SHORT, FAULT_STALL, FAULT_VANISH, FAULT_SHRINK, FAULT_FLIP };

struct rule {
    enum fault fault;
    enum op op;     /* eio, stall: which requests */
    uint64_t after; /* eio, stall: reads that reach past this byte */
    uint64_t left;  /* how often it still applies; UINT64_MAX: for ever */
    uint64_t value; /* short: maximum bytes of an answer (0: half of the request); shrink: size;
                       flip: offset; stall: ns */
    unsigned bit;   /* flip */
    uint64_t hits;
    char pattern[256], text[512];
};

struct faults {
    pthread_mutex_t lock;
    _Atomic unsigned count;
    _Atomic uint64_t version; /* increases with every change */
    _Atomic bool passing;     /* no request is stalled for now: faults_pass_stalls() */
    struct rule rule[MAX_RULES];
};

/* What the rules in force do to one request. */
struct effect {
    int error;           /* 0: none */
    uint64_t stall_ns;   /* ends early when the rules change */
    uint64_t version;    /* of the rules that were applied */
    uint64_t size_limit; /* the file ends here; UINT64_MAX: at its real end */
    bool is_short;
    uint64_t short_bytes; /* with is_short; 0: half */
};

#define NO_EFFECT ((struct effect){.size_limit = UINT64_MAX})

void faults_init(struct faults *f);
/* Executes lines ("eio *.rec count=1\nclear\n"), all of them or none. err->offset: the line. */
int faults_command(struct faults *f, const char *text, size_t size, struct stk_err *err);
/* While on, rules that stall let requests through. */
void faults_pass_stalls(struct faults *f, bool on);
/* Counts a hit on every rule that applies. unbuffered: each read() of the caller is a request; only
 * then are answers cut short, since the page cache would take that for the end of the file. */
struct effect faults_ask(struct faults *f, const char *path, enum op op, uint64_t offset,
                         uint64_t size, bool unbuffered);
/* The maximum size that the file shows, and whether it appears to be missing. Counts no hits. */
uint64_t faults_size_limit(struct faults *f, const char *path);
bool faults_vanished(struct faults *f, const char *path);
/* True if a rule applies to single read() calls, so that the page cache must be bypassed. */
bool faults_by_call(struct faults *f, const char *path);
/* Flips bits of n bytes that were read at offset. */
void faults_flip(struct faults *f, const char *path, uint64_t offset, uint8_t *data, size_t n);
/* True if one of the first n rules matches path. */
bool faults_match(const struct rule *rule, size_t n, const char *path);
/* Copies the rules in force; returns how many. */
size_t faults_copy(struct faults *f, struct rule out[MAX_RULES]);
/* "eio *.rec count=1  # 3 hits" per line. */
void faults_list(struct faults *f, struct stk_buf *out);

#endif
