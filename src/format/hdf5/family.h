/* family.h - datasets of which each is one sample; for hdf5.c and format/hdf5/family.c only. */
#ifndef STK_FORMAT_HDF5_FAMILY_H
#define STK_FORMAT_HDF5_FAMILY_H

#include "format/hdf5/column.h"

#define STK_H5_MAX_COLUMNS 1024u /* of one table */

struct stk_h5_family {
    char *name;     /* of the field */
    size_t *member; /* numbers of the datasets, in the order of the numbers in their names */
    uint64_t *number;
    size_t n;
    bool varies; /* of several shapes */
};

struct stk_h5_families {
    struct stk_h5_family *item; /* all of the same numbers */
    size_t n;
};

/* Finds them; none where the file is a table. Release also on error. */
int stk_h5_families(const struct stk_h5_dataset *set, const struct stk_table_array *a, size_t n,
                    struct stk_h5_families *fs, struct stk_err *err);
void stk_h5_families_release(struct stk_h5_families *fs);

/* A family being listed. The caller fills the upper half and releases `column`. */
struct stk_h5_family_column {
    const struct stk_h5_file *file;
    const struct stk_h5_dataset *set;
    const struct stk_h5_family *family;
    hid_t h5;

    struct stk_h5_column column;  /* the dataset looked at */
    struct stk_table_column cell; /* its one row */
    char codec[16], first_codec[16];
};

/* 1: no dataset of it can be read (each was reported). */
int stk_h5_family_start(struct stk_h5_family_column *f, struct stk_lister *l,
                        struct stk_table_column *out, struct stk_err *err);
/* The numbers in the names are the samples' keys. */
void stk_h5_family_key(struct stk_h5_family_column *f, struct stk_table_column *out);

#endif
