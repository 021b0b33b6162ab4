/* out.h - a shard being written: NAME.partial until it is whole, checksummed on the way. */
#ifndef STK_PACK_OUT_H
#define STK_PACK_OUT_H

#include "base/hash.h"
#include "base/own.h"
#include "dataset/manifest.h"
#include "format/format.h"

struct stk_out_file {
    struct stk_out out; /* first: what the format sees */
    char *dir, *name;   /* final name, in out.dirfd; dir: its name in messages */
    char *partial;      /* name of the file being written, for messages */
    char *partial_name; /* in out.dirfd */
    const struct stk_format *format;
    int fd; /* -1 for formats that write the file themselves */
    struct stk_buf buf;
    uint64_t written; /* without buf */
    uint64_t started; /* write-back was started up to here */
    struct stk_hash hash;
    bool patched;    /* the running checksum is void */
    char *side_name; /* name of the sidecar, or NULL */
    struct stk_new side_file;
    struct stk_buf side;
};

#define STK_OUT_INIT ((struct stk_out_file){.out.dirfd = -1, .fd = -1, .side_file = STK_NEW_INIT})

/* In our folder dirfd, named dir in messages. Caller always releases with stk_out_release(), before
 * dirfd is closed. */
int stk_out_open(struct stk_out_file *o, const struct stk_format *f, int dirfd, const char *dir,
                 const char *name, struct stk_err *err);
/* Makes it durable. Fills in name (borrowed from o), size and checksum. */
int stk_out_seal(struct stk_out_file *o, struct stk_manifest_file *shard,
                 struct stk_manifest_file *side, struct stk_err *err);
/* After that: renames it. */
int stk_out_commit(struct stk_out_file *o, struct stk_err *err);
void stk_out_release(struct stk_out_file *o);
/* The name of the sidecar of shard `name`, malloc'ed; f has a sidecar. NULL: no memory. */
char *stk_out_side_name(const struct stk_format *f, const char *name);

#endif
