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
    const struct stk_result_field *fields; /* members of the look */
    /* Columns of its table that are what another one grows by per second. */
    struct {
        const char *rate, *of;
    } grows[2];
};
extern const struct stk_look_kind *const stk_look_kinds[]; /* NULL-terminated */

/* ---- fields --------------------------------------------------------------------------------- */

/* What all looks have, before their own. */
#define STK_LOOK_FIRST                                                                             \
    {"kind", "kind", STK_U_TEXT, .flags = STK_F_HEAD},                                             \
        {"state", "state", STK_U_TEXT, .flags = STK_F_HEAD, .tone = stk_look_tone},                \
        {"elapsed_s", "elapsed", STK_U_SECONDS, .flags = STK_F_HEAD},                              \
        {"left_s", "left", STK_U_SECONDS, .flags = STK_F_HEAD, .say = "about % left"},             \
        {"title", "of", STK_U_TEXT, .flags = STK_F_HEAD},                                          \
        {"why", NULL, STK_U_PROSE, .flags = STK_F_WARN},                                           \
    {                                                                                              \
        "notes", "notes", STK_U_LIST, .flags = STK_F_NAMED | STK_F_WRAP | STK_F_WARN               \
    }
/* "25 of 100": a figure and its total; "12.5/s": its rate; a bar. */
#define STK_LOOK_OF(key, title, unit)                                                              \
    {key, title, unit},                                                                            \
    {                                                                                              \
        key "_total", title " in all", unit, .joins = " of %"                                      \
    }
#define STK_LOOK_RATE(key, unit)                                                                   \
    {                                                                                              \
        key "_per_s", NULL, unit, .joins = ", %"                                                   \
    }
#define STK_LOOK_BAR(key)                                                                          \
    {                                                                                              \
        key "_share", NULL, STK_U_SHARE, .joins = "", .flags = STK_F_BAR                           \
    }
const char *stk_look_tone(const struct stk_jval *state);
/* Whether it is a look of that command with such a table. */
bool stk_look_is(const struct stk_jval *result, const char *command, const char *table);
void stk_look_verdict(const struct stk_jval *result, struct stk_buf *out);

#define STK_LOOK_RESULT(kind, command_, table)                                                     \
    static bool takes(const struct stk_jval *result)                                               \
    {                                                                                              \
        return stk_look_is(result, command_, table);                                               \
    }                                                                                              \
    const struct stk_result_kind kind##_result = {.command = "watch",                              \
                                                  .doing = "Watching",                             \
                                                  .subject = SIZE_MAX,                             \
                                                  .fields = fields,                                \
                                                  .takes = takes,                                  \
                                                  .verdict = stk_look_verdict,                     \
                                                  .fits = true}

/* ---- filling -------------------------------------------------------------------------------- */

#define STK_LOOK_SILENT_S 30.0 /* without a sign of life from another node */

/* All texts are copied; NULL becomes "". */
const char *stk_look_keep(struct stk_look *l, const char *text);
const char *stk_look_printf(struct stk_look *l, const char *fmt, ...) STK_PRINTF(2, 3);
/* Borrowed until the next one is added, for members that the function has no argument for. */
struct stk_look_figure *stk_look_add(struct stk_look *l, const char *key, double value);
void stk_look_say(struct stk_look *l, const char *key, const char *text);
void stk_look_note(struct stk_look *l, const char *text);
/* Makes the table with all cells unknown. */
int stk_look_rows(struct stk_look *l, const char *key, const struct stk_result_field *column,
                  size_t nrows, struct stk_err *err);
struct stk_look_cell *stk_look_cell(struct stk_look *l, size_t row, const char *key);
/* State, elapsed time and silence from a beacon; updated_s: the newest sign of life. */
void stk_look_judge(struct stk_look *l, const struct stk_alive *who, bool ended, double started_s,
                    double updated_s);
double stk_look_real_now(void);
/* Whether it is the name of a file PREFIX….json. */
bool stk_look_is_json(const char *name, const char *prefix);
/* Whether a folder has an entry of that name. */
bool stk_look_has(const char *folder, const char *name);
/* The names in a folder that `counts` accepts, sorted, at most max; *names: in the look's arena. */
int stk_look_names(struct stk_look *l, int dirfd, const char *path,
                   bool (*counts)(const char *name), size_t max, const char ***names, size_t *n,
                   struct stk_err *err);

#endif
