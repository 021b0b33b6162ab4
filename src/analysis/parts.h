/*
 * parts.h - the parts of the analysis: what a file is (analysis/kind.c), grouping
 * (analysis/group.c), ranks (analysis/rank.c), the time axis (analysis/time.c), the main loop
 * (analysis/loop.c).
 */
#ifndef STK_ANALYSIS_PARTS_H
#define STK_ANALYSIS_PARTS_H

#include "analysis/analysis.h"

#define ANALYSIS_FILES   16384 /* kept individually, most time first; the sums include all */
#define ANALYSIS_DIRS    16    /* directories are rolled up to at most this many … */
#define ANALYSIS_DIRSMAX 256   /* … or this many, if they cannot be; the rest is "(other)" */
#define ANALYSIS_EPOCHS  10000

#define STK_COVERAGE_LEAST 65536u /* bytes of a process: of less, libc's own reads are most */
#define STK_MANY_FAULTS  250u       /* page faults that went to storage */

#define STK_GPU_IDLE 0.1 /* below this utilisation the GPU counts as idle */

static inline double stk_ns(uint64_t ns)
{
    return (double)ns * 1e-9;
}

static inline uint64_t stk_whole(double v) /* rounded down and limited to the range */
{
    return !(v > 0) ? 0 : v >= 1.8e19 ? UINT64_MAX : (uint64_t)v;
}

static inline double stk_counts_io_s(const struct stk_counts *n)
{
    return stk_ns(n->c[STK_C_READ_NS]) + stk_ns(n->c[STK_C_WRITE_NS]) + stk_ns(n->c[STK_C_META_NS]);
}

/* ---- analysis/kind.c ---- */
/* "" when the name says nothing. */
const char *stk_format_of_path(const char *path);

/* Directories that are one dataset each (zarr, N5): their files are chunks of arrays. */
#define ANALYSIS_STORES 64
struct stk_stores {
    struct {
        const char *path; /* borrowed from the profile */
        size_t len;
    } root[ANALYSIS_STORES]; /* found by the metadata in them */
    size_t n;
};
void stk_stores_find(const struct stk_profile *p, struct stk_stores *out);
/* The length of the store that a path lies in; 0: none. *format: of the store. */
size_t stk_store_of(const struct stk_stores *s, const char *path, const char **format);

/* The same as stk_format_of_path, plus the formats of stores, and "library": files of the system
 * and of interpreters, in logs of other profilers. */
const char *stk_analysis_format(const struct stk_profile *p, const struct stk_stores *stores,
                                const char *path);
/* How files of a format are used, by a name from the two functions above. Never NULL. */
const struct stk_format_use *stk_use_of(const char *format);

struct stk_dir_name {
    const char *path, *format; /* format: of most of its files */
};
/* The directory that each file is counted under: dir_of[file] indexes names[0..*n). */
int stk_analysis_dirs(const struct stk_profile *p, const struct stk_stores *stores,
                      uint32_t *dir_of, struct stk_dir_name **names, size_t *n,
                      struct stk_arena *arena, struct stk_err *err);

/* Groups processes into ranks: unit[proc] numbers them from 0; returns their number. */
uint32_t stk_analysis_units(const struct stk_profile *p, uint32_t *unit);
int stk_analysis_ranks(struct stk_analysis *a, struct stk_err *err);
int stk_analysis_shares(struct stk_analysis *a, struct stk_err *err);

int stk_analysis_epochs(struct stk_analysis *a, struct stk_err *err);
int stk_analysis_steps(struct stk_analysis *a, struct stk_err *err);
int stk_analysis_phases(struct stk_analysis *a, struct stk_err *err);
int stk_analysis_loop(struct stk_analysis *a, struct stk_err *err); /* after the shares */
/* The job's I/O seconds (threads added up) and bytes read between two times, from the time line. */
double stk_analysis_between(const struct stk_profile *p, double from_s, double to_s,
                            uint64_t *read_bytes);

#endif
