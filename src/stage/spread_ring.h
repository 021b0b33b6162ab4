/* spread_ring.h - what the files of the leaders' ring share; spread_ring.c says how it works. */
#ifndef STK_STAGE_SPREAD_RING_H
#define STK_STAGE_SPREAD_RING_H

#include <pthread.h>
#include <stdatomic.h>

#include "stage/spread_priv.h"

#define RING_MAGIC  0x63726174u
#define ENTRIES_MAX 1024u
#define OPEN_CRATES 4u /* that are being filled at the same time */
#define OWN_ABROAD  6u
#define OWN_CRATES  (OPEN_CRATES + OWN_ABROAD + 2)
#define ROOM_CRATES 12u /* for those of others: more than OWN_ABROAD */
#define SENDS_MAX   4u
#define WRITERS     4u

enum { TAG_CRATE, TAG_ACK };
enum { KIND_PARCEL, KIND_FINISH, KIND_LAST };

struct head {
    uint32_t magic, origin;
    uint32_t hops; /* nodes that it goes to from here */
    uint32_t entries;
    uint64_t bytes; /* behind the head; the entries come after them */
    uint64_t slot;  /* the origin's number of the crate, for the acknowledgement */
};

struct entry {
    uint64_t file, parcel;
    uint64_t hash; /* PARCEL: of its bytes; FINISH: of the whole file */
    uint32_t len, kind;
};

#define DATA_MAX  ((size_t)STK_TIER_PARCEL)
#define CRATE_MAX (sizeof(struct head) + DATA_MAX + ENTRIES_MAX * sizeof(struct entry))

struct crate {
    uint8_t *p; /* head, bytes, entries */
    size_t size;
    struct entry entry[ENTRIES_MAX]; /* while it is filled */
    struct crate *link, *write_link;
    struct stk_comm_msg msg, ack_msg;
    uint64_t ack;
    bool own, sending, acking, abroad, writing; /* any of these: in use */
};

/* A writer, and the crate that it writes. */
struct writer {
    struct ring *ring;
    pthread_t thread;
    struct crate *crate; /* NULL: none, or it was taken away because the disk hangs */
    double since_s;
};

/* A file that lacks its hash, or the hash that lacks its file. */
struct pending {
    uint64_t file, hash;
    bool complete;
};

struct ring {
    struct spread_ring *r;
    uint32_t me, nodes;
    uint8_t *memory; /* of all crates */
    struct crate own[OWN_CRATES], room[ROOM_CRATES];

    pthread_mutex_t lock;
    pthread_cond_t free_cond, write_cond;
    bool abort;                       /* the ring is broken: threads end */
    bool no_more;                     /* writers end when their queue is empty */
    struct crate *free_own;           /* by link */
    struct crate *ready, **ready_end; /* filled, to be sent or written */
    struct crate *to_write, **to_write_end;
    struct writer writer[WRITERS];
    unsigned writers, busy_writers;
    bool copied; /* the copier has ended */

    struct {
        pthread_mutex_t lock;
        struct crate *crate;
    } open[OPEN_CRATES];
    uint32_t *left; /* parcels of each file of the parts that were not read yet */
    uint64_t first_file;

    pthread_mutex_t pending_lock;
    struct pending *pending;
    size_t npending, pending_room;
    atomic_bool disk_broken;

    /* The thread that sends and receives, only. */
    struct crate *free_room;
    struct crate *posted, **posted_end; /* receives, in order */
    struct crate *send, **send_end;     /* to be sent */
    struct crate *sending, **sending_end;
    struct crate *acking;
    unsigned nsending, nabroad;
    uint64_t ack_in;
    struct stk_comm_msg ack_msg;
    bool ack_posted;
    uint32_t lasts;
};

static inline struct head *stk_crate_head(struct crate *c)
{
    return (struct head *)(void *)c->p;
}

/* Appends to a list that knows its end. */
static inline void stk_crate_push(struct crate ***end, struct crate *c)
{
    c->link = NULL;
    **end = c;
    *end = &c->link;
}

/* spread_read.c, a thread: reads this node's part into crates; the last one says how it went. */
void *stk_ring_read(void *ring);
/* spread_write.c, several threads: put the parcels of crates into the tier. */
void *stk_ring_write(void *writer);
/* Gives up a disk that has accepted nothing for too long, and takes the crates back from the writers
 * that wait for it. Called often. */
void stk_ring_look_after_disk(struct ring *g);
/* Finishes files whose hash came from no node, because several nodes read them. */
void stk_ring_finish(struct ring *g);
/* spread_ring.c: frees a crate of our own if nothing uses it any more; with the lock held. */
void stk_ring_release(struct ring *g, struct crate *c);

#endif
