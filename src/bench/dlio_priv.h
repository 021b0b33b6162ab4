/*
 * dlio_priv.h - one reading of a workload file of DLIO: dlio.c takes its keys one by one,
 * dlio_translate.c turns those that belong together into keys of ours.
 */
#ifndef STK_BENCH_DLIO_PRIV_H
#define STK_BENCH_DLIO_PRIV_H

#include "bench/dlio.h"

#define STK_DLIO_ROWS 192u /* at most */

/* What to do with a key. */
enum stk_dlio_how {
    STK_DLIO_SETS,    /* sets the key `arg` of a workload */
    STK_DLIO_PICKS,   /* sets the first word of `arg` to what stands behind the value: "KEY a=b" */
    STK_DLIO_KEEPS,   /* kept for stk_dlio_translate() */
    STK_DLIO_ALLOWS,  /* kept, but only the values in `arg`, separated by blanks */
    STK_DLIO_REFUSES, /* whatever its value */
    STK_DLIO_SKIPS,   /* no effect on I/O */
    STK_DLIO_RENAMES, /* another name for the key `arg` of DLIO */
};

struct stk_dlio_row {
    const char *key;
    enum stk_dlio_how how;
    const char *arg;
    const char *why; /* reason for a refusal; may be NULL */
};
extern const struct stk_dlio_row stk_dlio_rows[];
extern const size_t stk_dlio_nrows;

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

/* dlio_values.c */

/* 0 if the key is not given. */
int stk_dlio_number(const struct stk_dlio_reading *r, const char *key, double *out,
                    struct stk_err *err);
/* The first of the keys with a value above 0; ends with NULL. *key: that one, or the first. */
int stk_dlio_first_number(const struct stk_dlio_reading *r, const char *const *keys,
                          const char **key, double *out, struct stk_err *err);
int stk_dlio_set_number(struct stk_dlio_reading *r, const char *key, const char *ours, double value,
                        struct stk_err *err);
/* A list of numbers, "1009254400,865075200": their sum and product; none: 0 and 1. divisor: of each
 * number, rounded down. */
int stk_dlio_list(const struct stk_dlio_reading *r, const char *key, double divisor, double *sum,
                  double *product, struct stk_err *err);
/* Bytes of an element of dataset.record_element_type. */
int stk_dlio_element(const struct stk_dlio_reading *r, double *out, struct stk_err *err);

/* All that takes more than one key. */
int stk_dlio_translate(struct stk_dlio_reading *r, struct stk_err *err);

#endif
