/* course.c - see course.h. */
#include "bench/course.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define BIN_LEAST_S  0x1p-10 /* a millisecond: runs of 125 ms and more fill the bins */
#define TIME_MOST_S  0x1p60

const char *const stk_course_names[STK_COURSE_PARTS] = {"compute", "wait", "others", "checkpoint"};

/* Two bins become one. */
static void halve(struct stk_course *c)
{
    const size_t half = STK_COURSE_BINS / 2;
    for (size_t i = 0; i < half; i++) {
        c->steps[i] = c->steps[2 * i] + c->steps[2 * i + 1];
        for (size_t p = 0; p < STK_COURSE_PARTS; p++)
            c->part_s[p][i] = c->part_s[p][2 * i] + c->part_s[p][2 * i + 1];
    }
    memset(c->steps + half, 0, half * sizeof *c->steps);
    for (size_t p = 0; p < STK_COURSE_PARTS; p++)
        memset(c->part_s[p] + half, 0, half * sizeof *c->part_s[p]);
    c->bin_s *= 2;
}

void stk_course_widen(struct stk_course *c, double bin_s)
{
    while (c->bin_s < bin_s)
        if (c->bin_s > 0)
            halve(c);
        else
            c->bin_s = bin_s;
}

/* Makes room for that time; false: it has no place. */
static bool reach(struct stk_course *c, double at_s)
{
    if (!(at_s >= 0 && at_s < TIME_MOST_S))
        return false;
    stk_course_widen(c, BIN_LEAST_S);
    while (at_s >= c->bin_s * STK_COURSE_BINS)
        halve(c);
    return true;
}

void stk_course_add(struct stk_course *c, enum stk_course_part part, double from_s, double to_s)
{
    if (!(from_s < to_s) || !(from_s >= 0) || !reach(c, to_s))
        return;
    for (size_t i = (size_t)(from_s / c->bin_s); i < STK_COURSE_BINS; i++) {
        double begin = c->bin_s * (double)i, end = begin + c->bin_s;
        if (begin >= to_s)
            break;
        c->part_s[part][i] += (float)(fmin(end, to_s) - fmax(begin, from_s));
    }
}

void stk_course_step(struct stk_course *c, double end_s)
{
    if (reach(c, end_s))
        c->steps[(size_t)(end_s / c->bin_s)]++;
}

void stk_course_merge(struct stk_course *into, const struct stk_course *from)
{
    struct stk_course other = *from;
    stk_course_widen(into, other.bin_s);
    stk_course_widen(&other, into->bin_s);
    for (size_t i = 0; i < STK_COURSE_BINS; i++) {
        into->steps[i] += other.steps[i];
        for (size_t p = 0; p < STK_COURSE_PARTS; p++)
            into->part_s[p][i] += other.part_s[p][i];
    }
}

size_t stk_course_used(const struct stk_course *c)
{
    size_t n = 0;
    for (size_t i = 0; i < STK_COURSE_BINS; i++) {
        bool used = c->steps[i];
        for (size_t p = 0; p < STK_COURSE_PARTS; p++)
            used = used || c->part_s[p][i] > 0;
        n = used ? i + 1 : n;
    }
    return n;
}
