/* place.h - where the index of a dataset is looked for, and the file a new one is built in. */
#ifndef STK_DATA_PLACE_H
#define STK_DATA_PLACE_H

#include "base/own.h"
#include "data/dataset.h"

#define STK_PLACES 4

/* malloc'ed paths to look for an index at and to put one, best first; NULL-terminated.
 * given: NULL, or the one place the user named. listing: the number of the options that the index
 * is made with (as in its header): those made with other options stand beside it, under names of
 * their own. Caller frees with stk_places_free(). */
int stk_places(const struct stk_dataset *ds, const char *given, uint64_t listing,
               char *place[STK_PLACES], struct stk_err *err);
void stk_places_free(char *place[STK_PLACES]);

/* A file an index is built in: beside its place until it is published, or without any name. */
struct stk_target {
    int fd;         /* where it is built. Borrowed from file, or its own */
    int number;     /* of the place, -1: nameless */
    const char *at; /* the place. Borrowed, NULL: nameless */
    struct stk_new file;
};

/* At the first of the places from `first` on that can be written, else nameless. Caller closes
 * with stk_target_close(). */
int stk_target_open(struct stk_target *t, char *const place[STK_PLACES], int first,
                    struct stk_err *err);
/* Makes it durable and gives it its name; those may read it who may read the data. False: it stays
 * without a name, good for this process. fd is as it was. */
bool stk_target_publish(struct stk_target *t, const struct stk_readers *readers);
void stk_target_close(struct stk_target *t);

#endif
