/*
 * headings.h - what the columns of foreign tables mean: one table of names and one of units, for
 * CSV, for JSON of other tools, and for --columns.
 */
#ifndef STK_STUDY_HEADINGS_H
#define STK_STUDY_HEADINGS_H

#include "base/buf.h"

enum stk_table_col {
    STK_COL_NONE, /* not ours */
    STK_COL_N,
    STK_COL_TIME,
    STK_COL_REPEAT,
    STK_COL_SERIES,
    STK_COL_CORES,
    STK_COL_GPUS,
    STK_COL_NODES,
    STK_COL_HOST,
    STK_COL_STATUS,
    STK_COL_KIND,
    STK_COL_NOTE,
    STK_COL_JOB,
    STK_COL_QUEUE,
    STK_COL_VALUE,
    STK_COL_RATE,
    STK_COL_COUNT, /* threads, ranks: N if no column has that name */
    STK_COL_TRES,  /* Slurm's "cpu=4,gres/gpu=2,node=1" */
};

#define STK_HEADING_MAX   63 /* bytes of a name */
#define STK_HEADING_VAGUE 8  /* added to the rank of a time whose name does not say that it is the one */

/* A column by its heading: "Time (ms)", "runtime_avg[s]", "img/s". */
struct stk_heading {
    enum stk_table_col column;
    double factor;    /* of plain numbers: 0.001 for milliseconds */
    bool hours;       /* "2:30" is hours and minutes */
    bool parameter;   /* of hyperfine: if it is not N, it tells series apart */
    unsigned rank;    /* 0: of one run; otherwise a summary or vague, used if no column of a lower
                         rank is there */
    const char *unit; /* what it counts, if it is N: "GPUs"; NULL: unknown */
    char name[STK_HEADING_MAX + 1]; /* of the value or rate as shown; else in lower case */
};

/* Which heading is which column, as given by --columns. */
#define STK_HEADINGS_MAX 16
struct stk_headings {
    size_t n;
    struct {
        enum stk_table_col column;
        char heading[STK_HEADING_MAX + 1];
    } v[STK_HEADINGS_MAX];
};

/* Reads "n=tasks,time=runtime_avg". */
int stk_headings_parse(const char *text, struct stk_headings *out, struct stk_err *err);
/* True when it names a heading for the column. map may be NULL. */
bool stk_headings_have(const struct stk_headings *map, enum stk_table_col c);
/* map: may be NULL. A column that the map names is found by it alone. */
void stk_heading_read(const char *text, const struct stk_headings *map, struct stk_heading *out);
#endif
