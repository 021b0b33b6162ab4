/* priv.h - what the files of dataset share. */
#ifndef STK_DATASET_PRIV_H
#define STK_DATASET_PRIV_H

#include <pthread.h>

#include "dataset/index.h"
#include "dataset/dataset.h"
#include "format/lister.h"
#include "dataset/fetch.h"
#include "dataset/reader.h"
#include "dataset/walk.h"

/* ---- pages of an index ----------------------------------------------------------------------- */

/* Which pages of an index are in memory. Blocks are loaded at their first use, and compared with
 * their checksums.
 *
 * If memory is limited, pages of tables whose entries are only copied are dropped, and read again
 * at their next use: they must be unchanged. A reader that copies takes no lock. It copies, and
 * copies again if pages were dropped meanwhile; a page that is dropped under it reads as zeros at
 * worst. */

/* COMING: a thread loads or drops it. FRESH: loaded since the last search for old pages. */
enum stk_page { STK_PAGE_ABSENT, STK_PAGE_COMING, STK_PAGE_GONE, STK_PAGE_HERE, STK_PAGE_FRESH };

struct stk_index_pages {
    unsigned bits; /* a page has 1 << bits bytes */
    uint64_t count;
    _Atomic uint8_t *state;          /* enum stk_page of each */
    _Atomic uint64_t present;        /* pages that are in memory */
    _Atomic uint64_t drops;          /* how often pages were dropped */
    _Atomic(_Atomic uint64_t *) sum; /* of each page that was dropped; NULL: none will be */
    _Atomic bool dropping;           /* a thread is dropping; only that thread uses the next field: */
    uint64_t hand;                   /* where the next search for old pages begins */
};

/* Before the header, so that the tables begin with a page. */
#define STK_INDEX_LEAD (STK_INDEX_BLOCK - STK_INDEX_TABLES)

/* For an index whose checksums are loaded. Caller frees with stk_pages_free(). */
int stk_pages_new(struct stk_index *idx, struct stk_err *err);
void stk_pages_free(struct stk_index_pages *pg);
/* Loads a page, with its block. */
int stk_pages_bring(const struct stk_index *idx, uint64_t page, struct stk_err *err);

/* Bytes under the checksums, and the bytes of block b: all blocks but the last have one size. */
static inline uint64_t stk_index_summed(const struct stk_index *idx)
{
    return idx->h->table[STK_T_SUMS].off - STK_INDEX_TABLES;
}
static inline size_t stk_index_block_size(const struct stk_index *idx, uint64_t b)
{
    uint64_t left = stk_index_summed(idx) - b * STK_INDEX_BLOCK;
    return left < STK_INDEX_BLOCK ? (size_t)left : STK_INDEX_BLOCK;
}

/* Reads [off, off + n) of the file. */
int stk_index_read(const struct stk_index *idx, void *to, uint64_t off, uint64_t n,
                   struct stk_err *err);
int stk_index_bad(const struct stk_index *idx, struct stk_err *err, const char *what);

/* Every entry goes through here before it is trusted. [p, p + n) is in a table. */
static inline int stk_pages_touch(const struct stk_index *idx, const void *p, uint64_t n,
                                  struct stk_err *err)
{
    const struct stk_index_pages *pg = idx->pages;
    if (!n)
        return 0;
    uint64_t at = (uint64_t)((const uint8_t *)p - (const uint8_t *)idx->h) - STK_INDEX_TABLES;
    for (uint64_t i = at >> pg->bits; i <= (at + n - 1) >> pg->bits; i++)
        if (atomic_load_explicit(&pg->state[i], memory_order_acquire) < STK_PAGE_HERE) {
            int rc = stk_pages_bring(idx, i, err);
            if (rc < 0)
                return rc;
        }
    return 0;
}

/* The same, and copies n words from p on. */
static inline int stk_pages_copy(const struct stk_index *idx, const uint64_t *p, size_t n,
                                 uint64_t *to, struct stk_err *err)
{
    const struct stk_index_pages *pg = idx->pages;
    uint64_t drops;
    do {
        drops = atomic_load_explicit(&pg->drops, memory_order_acquire);
        int rc = stk_pages_touch(idx, p, n * sizeof *p, err);
        if (rc < 0)
            return rc;
        for (size_t i = 0; i < n; i++)
            to[i] = __atomic_load_n(p + i, __ATOMIC_ACQUIRE);
    } while (atomic_load_explicit(&pg->drops, memory_order_relaxed) != drops);
    return 0;
}

/* ---- whether an index fits ------------------------------------------------------------------- */

/* Whether an index fits this dataset, as its files are now and with the caller's options. */

/* Options that an index may also have detected by itself. */
enum { STK_FIT_FORMAT = 1, STK_FIT_PAYLOAD = 2 };

/* A hash of the options that the caller gave instead of leaving them to detection; 0: none. An
 * index made with them must not serve a caller with other options, or none. without: options to
 * ignore. */
uint64_t stk_fit_listing(const struct stk_dataset *ds, const struct stk_open_options *o,
                         unsigned without);

struct stk_fit {
    struct stk_dataset *ds; /* its own index is not used */
    const struct stk_index *idx;
    const struct stk_open_options *o;
    uint64_t inode; /* of the index file */
    bool only_owner; /* trusted only if all of the data belongs to its owner: */
    uid_t owner;
    /* Found on the way: */
    const struct stk_format *format;
    bool others_data; /* some does not */
    bool original;    /* the index was made here, of this folder or in this file, and not copied */
    bool has_inodes;  /* and inodes mean something */
};

/* A hash of pieces of some of the files: first, middle and last bytes. 0: not known. */
uint64_t stk_fit_pieces(const struct stk_files *files);
/* Folders, settings, manifest. */
bool stk_fit_all_but_files(struct stk_fit *f);
/* The files, if they are few enough to check. Call it after the former. Damage of a packed dataset
 * is no reason to refuse the index. */
bool stk_fit_files(struct stk_fit *f);
/* Compares the files of a packed dataset with its manifest (a tree's, with its index), if they are
 * few enough. collect: adds damage to its problems instead of failing at the first. */
int stk_fit_check_packed(struct stk_dataset *ds, bool collect, struct stk_err *err);

/* ---- records that are checked while listed --------------------------------------------------- */

/* Checks framed records while a file is listed, so that its bytes are read once.
 *
 * The file is read in blocks, by helper threads if there are any. The listing reports the records
 * in each block; then the thread that read the block checks them while they are in its cache. */

struct stk_checker { /* of a dataset */
    void (*problem)(void *user, const struct stk_err *what);
    void *user;
    pthread_mutex_t lock;
    uint8_t *missed; /* a byte per file: not all of its records were checked */
    size_t nmissed;
};

/* Calls problem() for each bad record, from the listing threads. */
void stk_checker_init(struct stk_checker *c,
                      void (*problem)(void *user, const struct stk_err *what), void *user);
void stk_checker_release(struct stk_checker *c);
/* True when every record of the file was checked. */
bool stk_checker_saw_all(const struct stk_checker *c, uint64_t file);

struct stk_check; /* of a file */

/* helpers: threads that read and check besides the caller. Caller ends it with
 * stk_check_close(). */
int stk_check_open(struct stk_checker *c, const struct stk_format *f, const struct stk_src *src,
                   uint32_t file, unsigned helpers, struct stk_check **out, struct stk_err *err);
/* What the listing reads from. Borrowed. */
struct stk_blocks *stk_check_feed(struct stk_check *k);
/* Adds a record at off, after its frame's head. Call in ascending order. */
int stk_check_record(struct stk_check *k, uint64_t off, uint64_t len, const struct stk_codec *codec,
                     struct stk_err *err);
/* Waits for running checks and frees k. complete: the listing reached the end of the file. */
int stk_check_close(struct stk_check *k, bool complete, struct stk_err *err);

/* ---- reader ---------------------------------------------------------------------------------- */

#define OPEN_FILES  16          /* descriptors kept by a reader */
#define DECODED_MAX (32u << 20)  /* decoded extents kept, in bytes (but always the last one) */
#define SAMPLE_MOST (256u << 20) /* the same for the last sample: the next is in them, too */
#define NDECODED    1024 /* a value may be cut into this many extents without thrashing */

struct decoded {
    uint64_t extent;
    struct stk_buf data;
    uint64_t used; /* 0: empty */
    uint16_t next; /* in its chain: index + 1; 0: the last */
    bool linked;   /* is in the chain of `extent`, in use or not */
};

struct stk_reader {
    struct stk_dataset *ds;
    struct stk_fetch fetch;
    struct stk_buf bytes; /* the bytes that were read */
    struct stk_handles handles;
    struct stk_file *held; /* the one read last, or NULL */
    struct decoded decoded[NDECODED];
    size_t decoded_bytes;
    uint16_t decoded_chain[NDECODED]; /* by extent: place + 1 in decoded, 0: none */
    struct stk_buf scratch, stored;
    uint64_t clock;
    uint64_t batch_clock;                     /* when the last batch began */
    uint64_t sample_clock, last_sample_clock; /* when this sample began, and the one before it */
    uint64_t reads, decoded_total;
    struct stk_reader *next; /* among the dataset's idle ones */
};

/* A decoded extent that is kept, or NULL. */
struct decoded *stk_reader_decoded(struct stk_reader *r, uint64_t extent);
/* Frees the slots of extents not used since then; their memory is reused. */
void stk_reader_forget(struct stk_reader *r, uint64_t since);
/* The bytes of slice i of the batch (a stk_slice_fn; user: the reader). Borrowed: until the next
 * batch, for filtered ones until the next slice. */
int stk_reader_slice(void *user, uint32_t i, const uint8_t **p, uint64_t *len, bool *fleeting,
                     struct stk_err *err);

/* ---- walk.c and walk_tree.c ------------------------------------------------------------------ */

/* The names found. */
struct stk_walk_names {
    const struct stk_index_file *file;
    const char *text;
    uint64_t n;
};

int stk_walk_map(struct stk_walk *w, struct stk_walk_names *v, struct stk_err *err);

static inline const char *stk_walk_name(const struct stk_walk_names *v, uint64_t i)
{
    return v->text + v->file[i].name_off;
}

/* Keeps only the files whose byte in keep is not 0. */
int stk_walk_keep(struct stk_walk *w, const struct stk_walk_names *v, const uint8_t *keep,
                  struct stk_err *err);

/* For a folder of files: leaves out files that are not samples, and pairs images with their
 * labels. */
int stk_walk_tree(struct stk_walk *w, struct stk_err *err);
/* Finds the splits of the files; with `want`, keeps only the files of that split. */
int stk_walk_splits(struct stk_walk *w, const char *want, struct stk_err *err);

/* ---- sidecars -------------------------------------------------------------------------------- */

/* The lists of places that other programs read files by (RecordIO's .idx). */

/* Compares each with the records of its file. Reports what does not fit; fails only if it cannot be
 * done. */
typedef void stk_sidecar_problem(void *user, const struct stk_err *what);
int stk_sidecars_check(const struct stk_dataset *ds, stk_sidecar_problem *problem, void *user,
                       struct stk_err *err);

#endif
