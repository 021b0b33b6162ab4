/* files.h - the files of the data that is tuned, and a representative part of them. */
#ifndef STK_TUNE_FILES_H
#define STK_TUNE_FILES_H

#include "base/buf.h"
#include "base/err.h"

struct stk_format;
struct stk_tune_file {
    const char *name; /* below the source; "": the source itself */
    uint64_t bytes;
};
struct stk_tune_files {
    struct stk_tune_file *file; /* by size, then by name */
    size_t n;
    uint64_t bytes;
    struct stk_arena arena;
};

/* Lists regular files whose names match (NULL: all). Caller releases, also after an error. */
int stk_tune_files_list(const char *source, const char *match, struct stk_tune_files *out,
                        struct stk_err *err);
/* Keeps `keep` of them at equal distances in the order of sizes, from a place that the seed chooses:
 * the sizes of the part are distributed like those of the whole. */
void stk_tune_files_thin(struct stk_tune_files *f, size_t keep, uint64_t seed);
void stk_tune_files_release(struct stk_tune_files *f);
/* Caller frees. NULL: no memory. */
char *stk_tune_file_path(const char *source, const struct stk_tune_file *f);
/* The format of a file by its name; NULL: the name says nothing. */
const struct stk_format *stk_tune_format_of(const char *name);

#endif
