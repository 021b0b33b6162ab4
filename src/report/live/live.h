/*
 * live.h - anything of stoker that runs and leaves its state in a folder, as one screen: a profile,
 * a benchmark, a staging, a study. Only files are read: it works from another shell, and from
 * another node on a shared file system.
 *
 * A *look* is the state at one moment: figures, and a table of ranks, points or nodes. A kind of run
 * (a const struct stk_look_kind in kinds.c) recognises its folder and fills a look; rates and the
 * time left are the same for all kinds. A look is a result that is not complete yet: its screen is drawn
 * from fields, as any other.
 */
#ifndef STK_REPORT_LIVE_H
#define STK_REPORT_LIVE_H

#include "base/json.h"
#include "host/beacon.h"
#include "result/field.h"

/* ---- a look --------------------------------------------------------------------------------- */

enum stk_look_state {
    STK_LOOK_RUNS,
    STK_LOOK_SILENT, /* it runs on another node and has said nothing for a while */
    STK_LOOK_ENDED,
    STK_LOOK_DIED, /* its process is gone, and it did not say that it ended */
};

/* A member of the result; what it is called, and how it is shown, its kind's fields say. */
struct stk_look_figure {
    const char *key;
    double value, of; /* NaN: unknown. of: "KEY_total", with "KEY_share" */
    const char *text; /* in place of the value */
    bool counts;      /* it only grows: "KEY_per_s" is written */
    bool progress;    /* done of all: gives the time left, unless the kind knows it */
    double per_s;     /* its rate; NaN: unknown. Filled by stk_look_again() if it counts */
};

struct stk_look_cell {
    double value; /* NaN: unknown */
    const char *text;
};

/* The first column names the row. */
struct stk_look_table {
    const char *key; /* "ranks" */
    const struct stk_result_field *column;
    size_t ncolumns, nrows;
    struct stk_look_cell *cell; /* row by row */
    size_t slowest; /* a row that is emphasised; SIZE_MAX: none */
};

#define STK_LOOK_FIGURES 16
#define STK_LOOK_NOTES   8
struct stk_look {
    const struct stk_look_kind *kind;
    const char *title;
    enum stk_look_state state;
    bool absent;     /* there is nothing (any more) */
    const char *why; /* about the state; NULL: nothing to say */
    double at_s;     /* of this look, by stk_now() */
    double elapsed_s, left_s, silent_s; /* NaN: unknown */
    struct stk_look_figure figure[STK_LOOK_FIGURES];
    size_t nfigures;
    struct stk_look_table table;
    const char *note[STK_LOOK_NOTES];
    size_t nnotes;
    struct stk_arena arena; /* owns all of the above */
};

/* ---- watching ------------------------------------------------------------------------------- */

struct stk_look_kind;
#define STK_LOOKS_KEPT 8 /* rates are those since the oldest of them */

struct stk_look_watch {
    const struct stk_look_kind *kind;
    char *path; /* of the folder that it reads */
    const char *trust;
    struct stk_look *look[STK_LOOKS_KEPT]; /* the latest last */
    size_t n;
};

/* Finds out what runs at path. trust: the value of --trust; borrowed. STK_E_UNSUPPORTED: nothing
 * that it knows. Caller closes, also after an error. */
int stk_look_open(struct stk_look_watch *v, const char *path, const char *trust,
                  struct stk_err *err);
/* Looks again. What was there at the last look and has vanished has ended. */
int stk_look_again(struct stk_look_watch *v, struct stk_err *err);
/* Borrowed until the next look. NULL: none yet. */
const struct stk_look *stk_look_last(const struct stk_look_watch *v);
bool stk_look_is_over(const struct stk_look *l);
void stk_look_close(struct stk_look_watch *v);

/* ---- showing it ----------------------------------------------------------------------------- */

struct stk_look_frame {
    unsigned columns, rows; /* rows 0: as many as there are */
    bool utf8;
};
/* Lines that fit into the frame, with marks of base/text.h. */
void stk_look_text(const struct stk_look *l, const struct stk_look_frame *f, struct stk_buf *out);
/* "running, step 120 of 480, 12 steps/s, …", for a line of a log. */
void stk_look_sentence(const struct stk_look *l, struct stk_buf *out);
/* Members of the open object. */
void stk_look_json(const struct stk_look *l, struct stk_jw *w);

#endif
