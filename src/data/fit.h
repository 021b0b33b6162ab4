/* fit.h - whether an index is of this dataset, as its files stand now and as the caller asks. */
#ifndef STK_DATA_FIT_H
#define STK_DATA_FIT_H

#include "data/dataset.h"

/* Parts of what is asked for that an index may also have found out by itself. */
enum { STK_FIT_FORMAT = 1, STK_FIT_PAYLOAD = 2 };

/* A number for what the caller asked for instead of having it found out, 0 for nothing. An index
 * made so must not be used by a caller who asked for something else, or for nothing. without: parts
 * that are not counted. */
uint64_t stk_fit_listing(const struct stk_dataset *ds, const struct stk_open_options *o,
                         unsigned without);

struct stk_fit {
    struct stk_dataset *ds; /* its own index is not looked at */
    const struct stk_index *idx;
    const struct stk_open_options *o;
    bool only_owner; /* it is believed only where all of the data is its owner's: */
    uid_t owner;
    /* Found on the way: */
    const struct stk_format *format;
    bool others_data; /* some is not */
};

/* Folders, settings, manifest. */
bool stk_fit_all_but_files(struct stk_fit *f);
/* The files, where they are few enough to look at. Only after the former. */
bool stk_fit_files(struct stk_fit *f);

#endif
