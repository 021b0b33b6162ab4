/*
 * dlio_priv.h - one reading of a workload file of DLIO: dlio.c takes its keys one by one,
 * dlio_translate.c turns those that belong together into keys of ours.
 */
#ifndef STK_BENCH_DLIO_PRIV_H
#define STK_BENCH_DLIO_PRIV_H

#include "bench/dlio.h"

#define STK_DLIO_ROWS 192u /* at most */

struct stk_dlio_reading {
    struct stk_workload *w;
    struct stk_dlio *d;
    const char *path;
    const char *value[STK_DLIO_ROWS]; /* by row of the table; NULL: not given */
    unsigned line[STK_DLIO_ROWS];
};

/* The value of a key of the table, or NULL. */
const char *stk_dlio_kept(const struct stk_dlio_reading *r, const char *key);
/* Refuses the value of a key, with its line. */
int stk_dlio_refuse(const struct stk_dlio_reading *r, const char *key, struct stk_err *err,
                    const char *fmt, ...) STK_PRINTF(4, 5);
/* Sets our key because of theirs, which an error names. */
int stk_dlio_set(struct stk_dlio_reading *r, const char *key, const char *ours, const char *value,
                 struct stk_err *err);
bool stk_dlio_is_true(const char *text);

/* All that takes more than one key. */
int stk_dlio_translate(struct stk_dlio_reading *r, struct stk_err *err);

#endif
