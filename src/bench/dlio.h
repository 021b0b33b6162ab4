/*
 * dlio.h - DLIO's workload files, MLPerf Storage's among them, read as they are. Every key is
 * honoured, refused by name, or listed as one that has no effect on the I/O here.
 */
#ifndef STK_BENCH_DLIO_H
#define STK_BENCH_DLIO_H

#include "bench/workload.h"

/* What a file says beside the workload. */
struct stk_dlio {
    bool generate;         /* workflow.generate_data */
    bool generate_only;    /* and nothing else */
    double au;             /* metric.au, the least utilisation; 0: not given */
    const char *data;      /* dataset.data_folder, or NULL. Lives as long as the workload */
    struct stk_buf unused; /* the keys without effect, separated by ", " */
};

/* changes: n times "key=value", as on DLIO's command line ("++workload.reader.batch_size=4").
 * Caller frees with stk_workload_release() and stk_dlio_release(), also on error. */
int stk_dlio_read(const char *path, const char *const *changes, size_t n, struct stk_workload *w,
                  struct stk_dlio *d, struct stk_err *err);
/* The same from text; name: for messages. */
int stk_dlio_parse(const char *text, size_t len, const char *name, const char *const *changes,
                   size_t n, struct stk_workload *w, struct stk_dlio *d, struct stk_err *err);
void stk_dlio_release(struct stk_dlio *d);

#endif
