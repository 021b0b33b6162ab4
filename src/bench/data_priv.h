/*
 * data_priv.h - what the parts of a data folder share: its note (data_note.c), its files by number
 * (data.c), and their removal (data_clean.c).
 */
#ifndef STK_BENCH_DATA_PRIV_H
#define STK_BENCH_DATA_PRIV_H

#include "base/json.h"
#include "bench/data.h"

#define STK_BENCH_PART   ".partial" /* after the name of a file that is being written */
#define STK_BENCH_FOLDER 32         /* bytes for the name of a folder */

int stk_bench_note_write(const struct stk_bench_data *d, bool complete, struct stk_err *err);
/* The note as a tree in the arena; *out is NULL if there is none. */
int stk_bench_note_read(int dirfd, const char *dir, struct stk_arena *arena, struct stk_jval **out,
                        struct stk_err *err);
/* STK_E_EXISTS: the data was made by another workload. */
int stk_bench_note_compare(const struct stk_bench_data *d, const struct stk_jval *note,
                           struct stk_err *err);
bool stk_bench_note_is_complete(const struct stk_jval *note);

/* Files of training and evaluation. */
uint64_t stk_bench_data_files(const struct stk_workload *w);
/* The workload that file number `item` of all belongs to, training first, and its number there. */
const struct stk_workload *stk_bench_data_file(const struct stk_workload *w, uint64_t item,
                                               struct stk_workload *eval, uint64_t *file);
/* "train" or "train/00017", opened; made if missing. */
int stk_bench_data_enter(const struct stk_bench_data *d, const char *name, int *out,
                         struct stk_err *err);

#endif
