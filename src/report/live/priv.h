/* priv.h - for the kinds of runs. */
#ifndef STK_REPORT_LIVE_PRIV_H
#define STK_REPORT_LIVE_PRIV_H

#include <math.h>

#include "report/live/live.h"

/* A kind of run. */
struct stk_look_kind {
    const char *name; /* of the command */
    /* The folder that it reads if the user names `path` (malloc'ed, mostly a copy of it); NULL:
     * that is not one of its folders. */
    char *(*claims)(const char *path);
    /* The files in it whose owner must be trusted. */
    bool (*counts)(const char *name);
    /* Fills the look. Sets `absent` if nothing runs there. An error: a damaged file. */
    int (*read)(struct stk_look *l, int dirfd, const char *path, struct stk_err *err);
};
extern const struct stk_look_kind *const stk_look_kinds[]; /* NULL-terminated */

#define STK_LOOK_SILENT_S 30.0 /* without a sign of life from another node */

/* All texts are copied; NULL becomes "". */
const char *stk_look_keep(struct stk_look *l, const char *text);
const char *stk_look_printf(struct stk_look *l, const char *fmt, ...) STK_PRINTF(2, 3);
/* Borrowed until the next one is added, for members that the function has no argument for. */
struct stk_look_figure *stk_look_add(struct stk_look *l, const char *key, const char *name,
                                     enum stk_look_unit unit, double value);
void stk_look_say(struct stk_look *l, const char *key, const char *name, const char *text);
void stk_look_note(struct stk_look *l, const char *text);
/* Makes the table with all cells unknown. */
int stk_look_rows(struct stk_look *l, const char *key, const struct stk_look_column *column,
                  size_t ncolumns, size_t nrows, struct stk_err *err);
struct stk_look_cell *stk_look_cell(struct stk_look *l, size_t row, const char *key);
/* State, elapsed time and silence from a beacon; updated_s: the newest sign of life. */
void stk_look_judge(struct stk_look *l, const struct stk_alive *who, bool ended, double started_s,
                    double updated_s);
double stk_look_real_now(void);
/* Whether a folder has an entry of that name. */
bool stk_look_has(const char *folder, const char *name);
/* The names in a folder that `counts` accepts, sorted, at most max; *names: in the look's arena. */
int stk_look_names(struct stk_look *l, int dirfd, const char *path,
                   bool (*counts)(const char *name), size_t max, const char ***names, size_t *n,
                   struct stk_err *err);

#endif
