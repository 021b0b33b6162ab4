/*
 * label.h - labels outside the samples: in the directories of the keys, or in a CSV.
 */
#ifndef STK_DATASET_LABEL_H
#define STK_DATASET_LABEL_H

#include "base/hash.h"
#include "dataset/dataset.h"

enum stk_label_mode { STK_LABEL_NONE, STK_LABEL_DIR, STK_LABEL_CSV };

struct stk_labels {
    enum stk_label_mode mode;
    int level;            /* DIR: 1 is the first directory of a key, -1 the last */
    const char **classes; /* sorted; label i is classes[i]. Empty if labels are plain numbers */
    size_t nclasses;
    struct stk_arena arena;
    struct label_entry *entry; /* of a name or key */
    size_t nentries;
    struct stk_lookup table;
    bool gaps;  /* CSV: whole numbers, and rows without a label */
    bool reals; /* CSV: labels are floats; an int64 label is the bits of a double */
    /* CSV: labels are texts (captions), too many for classes; label i is text[i]. The name of their
     * field, and the number of texts and rows. */
    const char **text, *text_field;
    uint64_t ntexts, rows;
};

/* spec: NULL or "auto" (first directory that names no split, when every file is in one),
 * "none", "dir" (the last directory), "dir:LEVEL", "csv:FILE" (key, label). Reads all keys. */
int stk_labels_init(struct stk_labels *l, const char *spec, const struct stk_dataset *ds,
                    struct stk_err *err);
/* For a dataset whose manifest says that labels are directories of the keys (else: none). */
int stk_labels_from_manifest(struct stk_labels *l, const struct stk_manifest *m,
                             struct stk_err *err);
void stk_labels_release(struct stk_labels *l);
/* 1: *label is the key's label (the bits of a double with `reals`); 0: keys do not determine
 * labels; negative: the key has none. */
int stk_labels_of(const struct stk_labels *l, const char *key, size_t len, int64_t *label,
                  struct stk_err *err);

/* The labels of a dataset by its keys' directories, computed at the first call; *out is NULL if the
 * labels are in the samples, or there are none. Borrowed: as long as ds. Thread-safe. */
int stk_dataset_labels(struct stk_dataset *ds, struct stk_labels **out, struct stk_err *err);

#endif
