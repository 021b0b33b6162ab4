/* checks.h - a checksum per packed sample, if the format has none of its own: reads the samples
 * through their new index, then stores their checksums in it. */
#ifndef STK_DATASET_CHECKS_H
#define STK_DATASET_CHECKS_H

#include "dataset/walk.h"

/* True: the format has no checksums of its own, so the index has them (stk_build_options). */
bool stk_checks_wanted(const struct stk_format *format);
/* Reads all samples of the walked files, indexed by fd, and writes their checksums into the index.
 * report: called at intervals, from several threads; negative stops. */
typedef int stk_checks_report(void *user, struct stk_err *err);
int stk_checks_add(const struct stk_walk *w, unsigned jobs, stk_checks_report *report, void *user,
                   int fd, const char *path, struct stk_err *err);

#endif
