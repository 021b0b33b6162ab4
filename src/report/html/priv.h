/* priv.h - shared by the kinds of results: what a page consists of. */
#ifndef STK_REPORT_HTML_PRIV_H
#define STK_REPORT_HTML_PRIV_H

#include "report/html/page.h"
#include "result/blocks.h"

/* ---- a kind -------------------------------------------------------------------------------- */

/* A result as it was named. */
struct stk_pg_input {
    const char *path, *name; /* name: no other result of the page has it (stk_pg_name()) */
    const char *trust;
    bool folder;
    const char *command;           /* of a --json result; NULL: something else */
    const struct stk_jval *result; /* its member "result" */
    const struct stk_jval *root;   /* of any JSON file; NULL: not JSON */
};

/* Appends the name of the i-th of n results: the last part of its path, and as many parts before it
 * as tell it from the others. */
void stk_pg_name(const char *const *path, size_t n, size_t i, struct stk_buf *out);

struct stk_page; /* results being gathered */

struct stk_pg_kind {
    const char *name;    /* in the page */
    const char *command; /* writes such results with --json; NULL: none does */
    /* Whether the input is a file or folder of its own. May be NULL. */
    bool (*claims)(const struct stk_pg_input *in);
    /* Adds the result, or keeps it until `finish`. */
    int (*add)(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err);
    /* May be NULL. Adds what several results give together. */
    int (*finish)(struct stk_page *page, struct stk_err *err);
};
extern const struct stk_pg_kind *const stk_pg_kinds[]; /* NULL-terminated */
/* Kept by kinds until the end. */
struct stk_pg_studies;
struct stk_pg_profiles;
struct stk_page {
    struct stk_jw w; /* inside the array of results */
    bool live;       /* a result is still growing */
    struct stk_pg_studies *studies;
    struct stk_pg_profiles *profiles;
};
void stk_pg_studies_free(struct stk_pg_studies *s);
void stk_pg_profiles_free(struct stk_pg_profiles *p);
/* An argument of the command that wrote the result, or `otherwise`. */
const char *stk_pg_argument(const struct stk_pg_input *in, size_t i, const char *otherwise);

#endif
