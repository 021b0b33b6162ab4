/* sidecar.h - the lists of places that other programs read files by (RecordIO's .idx). */
#ifndef STK_DATASET_SIDECAR_H
#define STK_DATASET_SIDECAR_H

#include "dataset/dataset.h"

/* Compares each with the records of its file. Reports what does not fit; fails only if it cannot be
 * done. */
typedef void stk_sidecar_problem(void *user, const struct stk_err *what);
int stk_sidecars_check(const struct stk_dataset *ds, stk_sidecar_problem *problem, void *user,
                       struct stk_err *err);

#endif
