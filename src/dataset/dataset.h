/*
 * dataset.h - an opened dataset: its files, its index, its manifest.
 *
 * Opening finds the format, finds or builds the index, and maps it; nothing is read per sample.
 */
#ifndef STK_DATASET_DATASET_H
#define STK_DATASET_DATASET_H

#include <pthread.h>

#include "base/err.h"
#include "io/files.h"
#include "dataset/index.h"
#include "dataset/manifest.h"
#include "dataset/notes.h"
#include "dataset/trust.h"
#include "format/format.h"
#include "format/sample.h"

/* ---- which samples --------------------------------------------------------------------------- */

/* Which samples of a whole dataset a subset has, in which order: a list of numbers, or numbers at
 * equal steps, which takes no memory however many they are. */

struct stk_pick {
    uint64_t n;
    uint64_t *list;       /* NULL: numbers at equal steps */
    uint64_t first, step; /* step: modulo 2^64, so that it may count down */
};

/* Number i (< n). */
static inline uint64_t stk_pick_at(const struct stk_pick *p, uint64_t i)
{
    return p->list ? p->list[i] : p->first + i * p->step;
}

/* The samples `number` of those in `of` (NULL: of all `have` samples). STK_E_USAGE: there is no
 * such sample. Caller releases with stk_pick_release(), also after an error. */
int stk_pick_list(struct stk_pick *p, const struct stk_pick *of, uint64_t have,
                  const uint64_t *number, uint64_t n, struct stk_err *err);
/* n samples from `first` on, each `step` further. */
int stk_pick_steps(struct stk_pick *p, const struct stk_pick *of, uint64_t have, uint64_t first,
                   int64_t step, uint64_t n, struct stk_err *err);
void stk_pick_release(struct stk_pick *p);

/* True when it has all `have` samples in their order. */
bool stk_pick_is_all(const struct stk_pick *p, uint64_t have);
/* The same for the same samples in the same order, however they were picked. */
uint64_t stk_pick_hash(const struct stk_pick *p, uint64_t seed);

/* Damage: how much, and the first problems in words. Thread-safe where stated. */
struct stk_problems {
    uint64_t count;           /* all of them */
    uint64_t unsupported;     /* of those: not damage */
    struct stk_problem *item; /* theirs to free; the first STK_PROBLEMS_KEPT, in file order */
    size_t kept;
};
#define STK_PROBLEMS_KEPT 1000

void stk_problems_release(struct stk_problems *p);
/* Copies, once; drops silently past STK_PROBLEMS_KEPT (count still grows). */
void stk_problems_add(struct stk_problems *p, const char *path, int64_t offset, const char *what);
/* The same for a code other than STK_E_CORRUPT. */
void stk_problems_add_code(struct stk_problems *p, int code, const char *path, int64_t offset,
                           const char *what);
/* Adds those of `from`, including those it only counts. */
void stk_problems_join(struct stk_problems *p, const struct stk_problems *from);
void stk_problems_sort(struct stk_problems *p); /* by path, then offset */

/* Problems found while the index was built (empty for a clean dataset). Borrowed. */
const struct stk_problems *stk_dataset_problems(const struct stk_dataset *ds);

/* Internals, for the rooms that use datasets. A subset borrows all of it from the whole dataset,
 * except the fields after `codec`. */
struct stk_dataset {
    struct stk_dataset *whole; /* of a subset: the whole dataset, never a subset itself; else NULL */
    struct stk_pick pick;      /* of a subset: its samples */
    char *path; /* as given, without trailing slashes */
    char *root; /* folder that names in the index are relative to */
    bool is_dir;
    struct stk_trust trust; /* whose files about it are trusted */
    struct stk_files files;
    const struct stk_format *format;
    struct stk_index index;
    char *index_path; /* "" for an index that was not published */
    bool index_built; /* just now */
    char *index_why;  /* why an existing index was not used; NULL: it was, or there was none */
    const struct stk_index *checks; /* index with the valid checksums of samples; NULL: this one */
    bool has_manifest;
    struct stk_manifest manifest;
    struct stk_problems problems;
    struct stk_notes notes;
    struct stk_list_options list;   /* its texts are the next three fields, or the manifest's */
    char *types;                    /* of columns, as given when it was opened, or NULL */
    char *payload, *datasets;       /* as given; "auto" and NULL by default */
    const struct stk_codec **codec; /* of each field of the index; NULL: the bytes are the value */
    _Atomic uint64_t identity;      /* 0: not known yet */
    _Atomic uint32_t keepers;       /* references, including those that remain when it is closed */
    pthread_mutex_t lock;           /* the idle readers, the labels */
    struct stk_reader *idle;
    bool labels_known;
    struct stk_labels *labels; /* by directory, or NULL; a subset has those of the whole */
};

/* The number in the index of sample i (< stk_dataset_len()) of the dataset. index.h takes numbers
 * of the index; everything above it, including callers of stk_fetch_add(), numbers of the
 * dataset. */
static inline uint64_t stk_dataset_at(const struct stk_dataset *ds, uint64_t i)
{
    return ds->whole ? stk_pick_at(&ds->pick, i) : i;
}
/* The same for any i. STK_E_USAGE: there is no such sample. */
int stk_dataset_number(const struct stk_dataset *ds, uint64_t i, uint64_t *number,
                       struct stk_err *err);
/* Mean stored bytes per sample of the whole; and the share of `bytes` of the whole that a subset
 * has by its number of samples. */
uint64_t stk_dataset_mean_bytes(const struct stk_dataset *ds);
uint64_t stk_dataset_share(const struct stk_dataset *ds, uint64_t bytes);

/* The files that an index names; keeps the overlay of the files. Borrows idx. */
void stk_files_of_index(struct stk_files *files, const struct stk_index *idx);
/* Makes the files of the index those of the dataset. */
void stk_dataset_list_files(struct stk_dataset *ds);

/* Keeps it until one more stk_dataset_drop(); only the caller calls stk_dataset_close(). */
void stk_dataset_drop(struct stk_dataset *ds);
static inline void stk_dataset_keep(struct stk_dataset *ds)
{
    atomic_fetch_add(&ds->keepers, 1);
}

/* Identifies the dataset by its content, not by its path or times, so that copies have the same
 * identity. Never 0. Reads some files the first time. From any thread. */
uint64_t stk_dataset_identity(struct stk_dataset *ds);

/* Like stk_dataset_open(); collect: collects problems and opens the rest, else the first problem
 * fails the call. trust false: uses no existing index and publishes none (verify). */
int stk_dataset_open_with(const char *path, const struct stk_open_options *opts, bool collect,
                          bool trust, struct stk_dataset **out, struct stk_err *err);
/* Shows the indexes that a user who opens the dataset with these options may use, whoever owns
 * them. Borrows idx. */
typedef void stk_look_at_index(void *user, const struct stk_index *idx, const char *path,
                               uid_t owner);
int stk_dataset_published(struct stk_dataset *ds, const struct stk_open_options *o,
                          stk_look_at_index *look, void *user, struct stk_err *err);

/* For verify: trusts nothing, collects problems, and has framed records checked during listing (so
 * that their bytes are read once). */
struct stk_checker;
int stk_dataset_open_checked(const char *path, const struct stk_open_options *opts,
                             struct stk_checker *checker, struct stk_dataset **out,
                             struct stk_err *err);

#endif
