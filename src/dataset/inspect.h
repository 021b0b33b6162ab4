/* inspect.h - what a dataset is, from its index and a few samples. */
#ifndef STK_DATASET_INSPECT_H
#define STK_DATASET_INSPECT_H

#include "dataset/dataset.h"

#define STK_INSPECT_BUCKETS                                                                        \
    48 /* bucket b counts samples of 2^b .. 2^(b+1)-1 stored bytes; 0 and 1 in 0 */
#define STK_INSPECT_FIELDS  64 /* most fields described */
#define STK_INSPECT_CLASSES 8  /* most classes named */

struct stk_inspect_field {
    char name[64];
    uint8_t kind, dtype, ndim;
    uint64_t dim[STK_MAX_NDIM];
    uint64_t size; /* bytes in the described sample */
};

struct stk_inspect {
    char format[32], payload[32]; /* payload "" if the format has none */
    uint64_t files, samples, extents, classes;
    uint64_t files_ignored;
    size_t nclass_names; /* the first classes: label i is class_name[i]; long names are cut */
    char class_name[STK_INSPECT_CLASSES][64];
    uint64_t bytes_stored;                             /* of all files */
    uint64_t bytes_samples;                            /* stored bytes of the samples themselves */
    uint64_t size_min, size_max, size_median_estimate; /* of a sample, stored bytes */
    uint64_t histogram[STK_INSPECT_BUCKETS];
    bool has_manifest;
    bool index_built_now; /* else it existed */
    char index_path[1024];
    const char
        *index_why; /* why an existing index is not used, or NULL. Borrowed from the dataset */
    uint64_t index_bytes;
    size_t nfields; /* of the first sample, at most STK_INSPECT_FIELDS described */
    size_t nfields_total;
    struct stk_inspect_field field[STK_INSPECT_FIELDS];
    double small_reads_fraction; /* share of samples under 64 KiB that are separate files */
};

int stk_inspect_dataset(struct stk_dataset *ds, struct stk_inspect *out, struct stk_err *err);

#endif
