/* crcs.h - the checksums that a zip has of its members. */
#ifndef STK_DATASET_CRCS_H
#define STK_DATASET_CRCS_H

#include "dataset/dataset.h"

/* True if an error is a finding about the data, not a failure of ours. */
static inline bool stk_is_finding(int rc)
{
    return rc == STK_E_CORRUPT || rc == STK_E_SYS || rc == STK_E_STALE || rc == STK_E_UNSUPPORTED;
}

/* Compares them with the files, whole members at a time, and reports each that differs. stored: only
 * those of which samples are read in parts, without a comparison; decoding compares the others.
 * Adds their bytes to *bytes. */
int stk_crcs_check(const struct stk_dataset *ds, bool stored, uint64_t *bytes,
                   void (*problem)(void *user, const struct stk_err *what), void *user,
                   struct stk_err *err);

#endif
