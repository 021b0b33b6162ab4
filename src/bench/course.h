/*
 * course.h - what a rank did when: its time in a fixed number of bins, which widen as the run
 * grows. No pointers: a part of struct stk_bench_rank, which is sent as it is.
 */
#ifndef STK_BENCH_COURSE_H
#define STK_BENCH_COURSE_H

#include <stddef.h>
#include <stdint.h>

#define STK_COURSE_BINS 128u

enum stk_course_part {
    STK_COURSE_COMPUTE,
    STK_COURSE_WAIT,       /* for data */
    STK_COURSE_OTHERS,     /* for other ranks */
    STK_COURSE_CHECKPOINT, /* evaluations are not part of the time */
    STK_COURSE_PARTS
};
extern const char *const stk_course_names[STK_COURSE_PARTS]; /* members in JSON */

struct stk_course { /* all zero: empty */
    double bin_s;   /* a power of two: bins of two courses can be made equal */
    float part_s[STK_COURSE_PARTS][STK_COURSE_BINS];
    uint32_t steps[STK_COURSE_BINS]; /* that ended in the bin */
};

/* Times count from the start of the run. Times that are not finite or below zero are left out. */
void stk_course_add(struct stk_course *c, enum stk_course_part part, double from_s, double to_s);
void stk_course_step(struct stk_course *c, double end_s);
/* Adds a course, after making the bins of both equal. */
void stk_course_merge(struct stk_course *into, const struct stk_course *from);
/* Makes bins at least as wide. */
void stk_course_widen(struct stk_course *c, double bin_s);
/* Bins up to the last that was used. */
size_t stk_course_used(const struct stk_course *c);

#endif
