/*
 * time.c - a time as people, spreadsheets and Slurm write it: seconds, "3m20s", or a clock
 * with days before it. Independent of the locale.
 */
#include <math.h>
#include <strings.h>

#include "base/num.h"
#include "base/units.h"
#include "study/study.h"

/* "1-02:03:04", "02:03", "03:04.5": Slurm's times. */
static int read_clock(const char *cell, double *out)
{
    double total = 0, part = 0, scale = 1;
    const char *dash = strchr(cell, '-');
    unsigned colons = 0;
    bool digits = false, point = false;
    for (const char *p = cell; *p; p++) {
        if (*p >= '0' && *p <= '9' && !point) {
            part = part * 10 + (*p - '0');
            digits = true;
        } else if (*p >= '0' && *p <= '9') {
            part += (scale /= 10) * (*p - '0');
        } else if (*p == '.' && !point && digits && colons) {
            point = true;
        } else if (p == dash && digits && !colons && p > cell) {
            total = part * 24;
            part = 0;
            digits = false;
        } else if (*p == ':' && digits && !point && colons < 2) {
            total = (total + part) * 60;
            part = 0;
            digits = false;
            colons++;
        } else {
            return -1;
        }
    }
    /* Days require hours, minutes and seconds. */
    if (!digits || !colons || (dash && colons != 2))
        return -1;
    *out = total + part;
    return 0;
}

/* "10,5" is 10.5 in half the world. "1,250" is ambiguous, and refused. */
static bool decimal_comma(const char *cell, size_t len, char *out, size_t size)
{
    const char *comma = memchr(cell, ',', len);
    if (!comma || len >= size || strspn(cell, "0123456789,") != len || strchr(comma + 1, ','))
        return false;
    if (len - (size_t)(comma - cell) == 4 && strspn(cell, "0") != (size_t)(comma - cell))
        return false;
    memcpy(out, cell, len + 1);
    out[comma - cell] = '.';
    return true;
}

/* 1: *out is a number, or NaN for a word that means none; 0: something else; -1: out of range. */
static int read_plain(const char *cell, size_t len, double *out)
{
    int64_t i;
    char point[64];
    *out = NAN;
    if (decimal_comma(cell, len, point, sizeof point))
        cell = point;
    if (!len || strcasecmp(cell, "nan") == 0 || strcmp(cell, "-") == 0 ||
        strcasecmp(cell, "n/a") == 0)
        return 1;
    if (stk_num_parse(cell, len, &i, out) == STK_NUM_NONE)
        return 0;
    return *out > 0 && *out <= 1e12 ? 1 : -1;
}

int stk_study_parse_value(const char *cell, size_t len, double *out)
{
    return read_plain(cell, len, out) > 0 ? 0 : -1;
}

int stk_study_parse_time(const char *cell, size_t len, double factor, bool hours, double *out)
{
    struct stk_err ignored;
    bool clock = strchr(cell, ':');
    int plain = read_plain(cell, len, out);
    if (plain > 0)
        *out *= factor;
    if (plain)
        return plain > 0 && !(*out > 1e12) ? 0 : -1;
    if (clock ? read_clock(cell, out) : stk_parse_duration(cell, out, &ignored))
        return -1;
    if (clock && *out == 0) /* sacct's, of a job that never started or took less than a second */
        *out = NAN;
    else if (clock && hours && strchr(cell, ':') == strrchr(cell, ':'))
        *out *= 60;
    return *out < 0 || *out == 0 || *out > 1e12 ? -1 : 0;
}
