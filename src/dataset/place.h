/* place.h - where to look for the index of a dataset, and the file for a new one. */
#ifndef STK_DATASET_PLACE_H
#define STK_DATASET_PLACE_H

#include "base/own.h"
#include "dataset/dataset.h"

#define STK_PLACES 4

/* malloc'ed paths to look for an index at and to put one, best first; NULL-terminated. given: NULL,
 * or the one place the user named. listing: the hash of the options for the index (as in its
 * header): indexes with other options have their own names in the same folders. Caller frees with
 * stk_places_free(). */
int stk_places(const struct stk_dataset *ds, const char *given, uint64_t listing,
               char *place[STK_PLACES], struct stk_err *err);
void stk_places_free(char *place[STK_PLACES]);
/* Removes an index, what killed processes of ours have left of it, and the cache folder if nothing
 * else is in it. */
void stk_place_remove(const char *place);

/* The folder for what is made for a while on the storage of the data: beside the whole dataset, of
 * which the data may be a part by its name (train, images) or because `whole` is above it. What lies
 * in that would be a class or a sample for other programs. If that is other storage, or not the
 * user's, the folder that has the data; *inside is then true if it is a part. NULL: no memory. Caller
 * frees. */
char *stk_place_beside(const char *data, const char *whole, bool *inside);
/* A note after the name of that folder; %s: the prefix of what is made in it. */
#define STK_PLACE_SEEN                                                                             \
    "has the data, and while this runs a folder %s.*: other programs that list it see that. "      \
    "--beside names another place on the same storage"

/* A file for building an index: in its folder until it is published, or nameless. */
struct stk_new_index {
    int fd;         /* descriptor of the new index. Borrowed from file, or owned */
    int number;     /* of the place, -1: nameless */
    const char *at; /* the place. Borrowed, NULL: nameless */
    struct stk_new file;
};

/* Opens at the first writable place from `first` on, else nameless. Caller closes with
 * stk_new_index_close(). */
int stk_new_index_open(struct stk_new_index *t, char *const place[STK_PLACES], int first,
                       struct stk_err *err);
/* Makes it durable and renames it; users who may read the data may read it. False: it stays
 * nameless, usable only in this process. fd is unchanged. */
bool stk_new_index_publish(struct stk_new_index *t, const struct stk_readers *readers);
void stk_new_index_close(struct stk_new_index *t);

#endif
