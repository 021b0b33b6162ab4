/* fit.h - whether an index fits this dataset, as its files are now and with the caller's
 * options. */
#ifndef STK_DATASET_FIT_H
#define STK_DATASET_FIT_H

#include "dataset/dataset.h"

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

#endif
