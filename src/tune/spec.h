/* spec.h - the description of a call of tune, as it lies in its folder. */
#ifndef STK_TUNE_SPEC_H
#define STK_TUNE_SPEC_H

#include "tune/priv.h"

struct stk_tune_spec {
    struct stk_folder folder;
    struct stk_arena arena;
    struct stk_jval *v;
    struct stk_workload w;
    struct stk_script script;
};
#define STK_TUNE_SPEC_INIT                                                                         \
    {                                                                                              \
        .folder = {.fd = -1, .mode = STK_PRIVATE }                                                 \
    }

/* Caller closes with stk_tune_spec_close(), also after an error. */
int stk_tune_spec_open(struct stk_tune_spec *s, const char *dir, struct stk_err *err);
void stk_tune_spec_close(struct stk_tune_spec *s);
/* All of it but budget, keep, tick and user. Texts are borrowed from the description. */
void stk_tune_spec_plan(struct stk_tune_spec *s, struct stk_tune_plan *p);
/* The workload does not say what the page cache holds. */
bool stk_tune_spec_cold(const struct stk_tune_spec *s);
bool stk_tune_spec_cached(const struct stk_tune_spec *s);
uint64_t stk_tune_spec_steps(const struct stk_tune_spec *s, double *run_s);
/* False: it was not prepared, or not to its end. */
bool stk_tune_spec_copy(const struct stk_tune_spec *s, const char *id, struct stk_tune_copy *copy);
/* Its runs are jobs of a scheduler. */
bool stk_tune_spec_is_jobs(const struct stk_tune_spec *s);
/* Whether the data is what it was, by number, bytes and times of its files. */
bool stk_tune_spec_same(const struct stk_tune_spec *s, const struct stk_tune_subject *now);
/* The data that a sample was taken of; unchanged: there is none. */
void stk_tune_spec_whole(const struct stk_tune_spec *s, struct stk_tune_whole *out);
/* Indexes of the data that it made; NULL: none. */
void stk_tune_spec_indexes(struct stk_tune_spec *s, const char *index[STK_TUNE_INDEXES]);
/* Whether a candidate is called so, or the name is made of its name ("ID.partial"). */
bool stk_tune_spec_names(const struct stk_tune_spec *s, const char *name);
/* The other folders that belong to it; NULL: none. */
const char *const *stk_tune_spec_folders(struct stk_tune_spec *s);

#endif
