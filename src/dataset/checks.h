/* checks.h - a checksum per packed sample, stored in the new index: that of its record, or else of
 * the sample, which is read through the index. A record's own one is right in another file, too. */
#ifndef STK_DATASET_CHECKS_H
#define STK_DATASET_CHECKS_H

#include "dataset/walk.h"

/* Finds the checksums of all samples of the walked files, indexed by fd, and writes them into the
 * index (stk_build_options.checks).
 * report: called at intervals, from several threads; negative stops. */
typedef int stk_checks_report(void *user, struct stk_err *err);
int stk_checks_add(const struct stk_walk *w, unsigned jobs, stk_checks_report *report, void *user,
                   int fd, const char *path, struct stk_err *err);

#endif
