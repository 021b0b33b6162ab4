/* checksum.h - the checksum of an entry of a manifest: a file, or a folder with everything in
 * it. */
#ifndef STK_DATASET_CHECKSUM_H
#define STK_DATASET_CHECKSUM_H

#include "base/err.h"
#include "dataset/manifest.h"
#include "dataset/walk.h"
#include "dataset/dataset.h"

/* Size and checksum of a file, or of a tree (names, sizes and contents). outside: links may lead
 * out of dirfd. */
int stk_content_checksum(int dirfd, bool outside, const char *name, uint64_t *size, uint64_t *hash,
                         const char *path, struct stk_err *err);
/* Compares size and checksum of an entry of a manifest with what is there. path: for messages.
 * *size: what is there. */
int stk_content_compare(int dirfd, bool outside, const struct stk_manifest_file *f,
                        const char *path, uint64_t *size, struct stk_err *err);

/* ---- of each sample -------------------------------------------------------------------------- */

/* A checksum per packed sample, stored in the new index: that of its record, or else of the
 * sample, which is read through the index. A record's own one is right in another file, too. */

/* Finds the checksums of all samples of the walked files, indexed by fd, and writes them into the
 * index (stk_build_options.checks).
 * report: called at intervals, from several threads; negative stops. */
typedef int stk_checks_report(void *user, struct stk_err *err);
int stk_checks_add(const struct stk_walk *w, unsigned jobs, stk_checks_report *report, void *user,
                   int fd, const char *path, struct stk_err *err);

/* ---- of members of a zip --------------------------------------------------------------------- */

/* The checksums that a zip has of its members. */

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
