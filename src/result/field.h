/*
 * field.h - what a result consists of: figures, texts, tables and groups, each with its key, title,
 * unit and meaning.
 *
 * A result is a document: a JSON object, and a table of fields that describes its members. A command
 * fills the object once (stk_fields_put); the screen, the page, CSV and the schema are drawn from
 * the object and its table alone. So a figure has the same name, unit and rounding everywhere, and
 * a result that was saved is drawn like one that was just measured.
 */
#ifndef STK_RESULT_FIELD_H
#define STK_RESULT_FIELD_H

#include <math.h>
#include <stddef.h>

#include "base/json.h"
#include "base/stats.h"

enum stk_unit {
    STK_U_PLAIN, /* a number without a unit */
    STK_U_COUNT,
    STK_U_BYTES,
    STK_U_BYTES_PER_S,
    STK_U_PER_S,
    STK_U_SECONDS,
    STK_U_SHARE, /* 0..1 */
    STK_U_TIMES, /* a factor */
    STK_U_ID,    /* a number that is a name, of a process or a rank */
    STK_U_FLAG,  /* true or false */
    STK_U_TEXT,  /* a name or a phrase */
    STK_U_PROSE, /* sentences */
    STK_U_LIST,  /* an array of texts or numbers */
    STK_U_GROUP, /* an object, described by `of`; key "": members of the object that it stands in */
    STK_U_TABLE, /* an array of objects, described by `of` */
    STK_U_ANY,   /* other JSON; an object that nothing draws may be described by `of` */
};

/* ---- where a field takes its value from --------------------------------------------------- */

enum stk_from_type {
    STK_FROM_NOTHING, /* `number` or `put` gives it; or whoever fills the object writes it */
    STK_FROM_U64,
    STK_FROM_U32,
    STK_FROM_I64, /* negative: unknown */
    STK_FROM_F64, /* NaN: unknown */
    STK_FROM_BOOL,
    STK_FROM_STR,
    STK_FROM_CHARS, /* an array of char, NUL-terminated */
    STK_FROM_NS,    /* uint64_t nanoseconds, written in seconds */
    STK_FROM_INTERVAL, /* [lowest, highest]; null if it is not known */
    /* A struct inside the struct, or that it points to: what a group is filled from, or `put`. */
    STK_FROM_STRUCT,
    STK_FROM_POINTER,
    STK_FROM_ROWS, /* of a table: a pointer to `size` bytes each; their number is at `n` */
};
struct stk_from {
    enum stk_from_type type;
    uint32_t at, n, size;
};
/* The member of a struct, by its type. */
#define STK_FROM(type_, member)                                                                    \
    {                                                                                              \
        _Generic(((type_ *)0)->member,                                                             \
            uint64_t: STK_FROM_U64,                                                                \
            uint32_t: STK_FROM_U32,                                                                \
            int64_t: STK_FROM_I64,                                                                 \
            double: STK_FROM_F64,                                                                  \
            struct stk_interval: STK_FROM_INTERVAL,                                                \
            bool: STK_FROM_BOOL,                                                                   \
            const char *: STK_FROM_STR,                                                            \
            char *: STK_FROM_STR),                                                                 \
            offsetof(type_, member)                                                                \
    }
#define STK_FROM_AS(kind, type_, member)                                                           \
    {                                                                                              \
        STK_FROM_##kind, offsetof(type_, member)                                                   \
    }

#define STK_FROM_ARRAY(type_, member, number)                                                      \
    {                                                                                              \
        STK_FROM_ROWS, offsetof(type_, member), offsetof(type_, number),                           \
            sizeof *((type_ *)0)->member                                                           \
    }

/* Functions that give the value of a field, from a struct r of that type. */
#define STK_NUMBER_OF(name, type_, expression)                                                     \
    static double name(const void *base)                                                           \
    {                                                                                              \
        const type_ *r = base;                                                                     \
        (void)r;                                                                                   \
        return (expression);                                                                       \
    }
#define STK_BOOL_OF(name, type_, expression)                                                       \
    static void name(const void *base, struct stk_jw *w)                                           \
    {                                                                                              \
        const type_ *r = base;                                                                     \
        (void)r;                                                                                   \
        stk_jw_bool(w, (expression));                                                              \
    }
#define STK_TEXT_OF(name, type_, expression)                                                       \
    static void name(const void *base, struct stk_jw *w)                                           \
    {                                                                                              \
        const type_ *r = base;                                                                     \
        (void)r;                                                                                   \
        stk_jw_str(w, (expression));                                                               \
    }

/* ---- a field -------------------------------------------------------------------------------- */

enum stk_field_flag {
    STK_F_HEAD = 1u << 0,    /* in the first line of the screen, behind what the result is of */
    STK_F_LEAD = 1u << 1,    /* the one number of the page; strong on the screen */
    STK_F_VERDICT = 1u << 2, /* prose: what the page says first */
    STK_F_SCREEN = 1u << 3,  /* on the screen only */
    STK_F_PAGE = 1u << 4,    /* on the page only */
    STK_F_IF_SET = 1u << 5,  /* not shown if it is 0, false or empty; a column: if all are */
    STK_F_IF_MANY = 1u << 6, /* not shown if it is 0 or 1 */
    STK_F_KNOWN = 1u << 7,   /* filled with null if it is negative, 0 (of unsigned) or empty */
    STK_F_BAR = 1u << 8,     /* a share: with a bar on the screen */
    STK_F_WARN = 1u << 9,    /* emphasised on the screen */
    STK_F_NAMED = 1u << 10,  /* a group or table: its title stands above it on the screen */
    /* A column that is cut at its beginning if the screen is narrow; a table: its last columns are
     * left out. */
    STK_F_CUT = 1u << 11,
    STK_F_CUT_END = 1u << 12,
    STK_F_VIEW = 1u << 15,    /* draws a member that another field describes: on the screen, or with
                               * STK_F_PAGE on the page */
    STK_F_WRAP = 1u << 16,    /* the last column, a list: its words go to further lines */
    STK_F_REMARK = 1u << 17,  /* of a row: no column, but a line below the table, behind the first */
    STK_F_ESCAPED = 1u << 13, /* text whose control characters were escaped before */
    STK_F_NOTE = 1u << 18,    /* of a row: prose, no column, but a note of the page; on the screen a
                               * sentence below rows that stand side by side */
    STK_F_MAP = 1u << 19,     /* a table whose rows are the members of an object; of STK_U_ANY: the
                               * members, with their values */
    STK_F_WIDE = 1u << 14,      /* a column that only wide terminals show */
    STK_F_TOP = 1u << 21,       /* a table: its first rows, and how many more there are */
    STK_F_BARE = 1u << 22,      /* a table without a line of titles */
    STK_F_OWN_TITLE = 1u << 20, /* `titled` says only whether it is a plain number */
    STK_F_SIDE = 1u << 24, /* a table whose rows stand side by side (side.h) */
};

struct stk_screen;
struct stk_result_plot;

struct stk_result_field {
    const char *key;   /* the member; NULL ends a table of fields */
    const char *title; /* NULL: in JSON only */
    enum stk_unit unit;
    struct stk_from from;
    const char *meaning; /* for the schema; of a table or plot, also the text beside it */
    unsigned flags;      /* STK_F_ */
    /* What is said where nothing would be: of null, or with STK_F_IF_SET of 0, false, and what is
     * empty. NULL: it is not shown. */
    const char *none;
    /* On the screen, "%" stands for the value, "%%" for a percent sign, and "(s)" or "(es)" for a plural. A field that joins stands in
     * the line of the field before it, and is not shown if that is not. */
    const char *say, *joins;
    const char *row; /* the title of the line, if several fields stand in it; of a group's first: its own */
    /* A member of the result whose text, if there is one, is the title: the user's name for a plain
     * number ("study.metric"). */
    const char *titled;
    /* Give the value: a number (NaN: unknown), or any JSON. base: what `from` says, or all. */
    double (*number)(const void *base);
    void (*put)(const void *base, struct stk_jw *w);
    /* The words for a text, such as the title of a format for its name; NULL: the text itself. */
    const char *(*word)(const char *text);
    /* A mark of base/text.h for a value; NULL: none. */
    const char *(*tone)(const struct stk_jval *v);
    const struct stk_result_field *of; /* of a group or of the rows of a table */
    size_t least, most; /* rows on the screen; fewer: no table; more: the first and the last of them */
    const char *by;     /* of a table on the screen: the `most` rows by that number; "": the first */
    const char *marked; /* those in which this member is true are emphasised */
    bool (*which)(const struct stk_jval *row); /* of a table: the rows it is about; NULL: all */
    const char *id; /* of a table on the page, if several draw the same member; NULL: the key */
    /* Of a table: its rows are these two members, not those of an array. */
    const char *pair[2];
    const struct stk_result_plot *plot; /* of a table, on the page */
    unsigned part;     /* bits of stk_screen.parts: drawn if one of them is; 0: always */
    const char *total; /* of a table: the member beside it that counts its rows, listed or not */
    const char *csv;   /* its name in CSV, and before the members of a group; NULL: as the key */
    /* Draws the member of obj on the screen in its own way (screen.h). */
    void (*draw)(const struct stk_result_field *f, const struct stk_jval *obj, struct stk_screen *s);
};

/*
 * A plot of the columns of a table. Of a table in the rows of another, each of the outer rows gives
 * a series of every panel, with the name that its first field has.
 */
enum stk_plot_scale {
    STK_SCALE_CATEGORY,
    STK_SCALE_RANKS, /* few are bars, many are points over their numbers */
    STK_SCALE_LINEAR,
    STK_SCALE_LOG,
};
#define STK_PLOT_PANELS 6
#define STK_PLOT_SERIES 4
struct stk_result_plot {
    const char *id, *title, *text;
    const char *x, *x_name; /* the column of the x axis, and its name */
    enum stk_unit x_unit;
    enum stk_plot_scale scale;
    struct {
        const char *name;
        enum stk_unit unit;
        struct {
            const char *key, *name, *as; /* as: "bar", "line", "points", "both", "area", "step" */
            const char *interval;        /* the member with its bounds; NULL: none */
        } series[STK_PLOT_SERIES];
        const char *level, *level_name; /* a member of the result: a line at its height */
        bool logarithmic, stacked;
        double log_above; /* logarithmic if a value is above that; 0: never */
    } panel[STK_PLOT_PANELS];
    const char *mark, *mark_name; /* a member of the result, or of the outer row: a line across x */
    /* In an outer row: the member of a point that is its interval; a table of the same columns,
     * drawn as a curve, and what it is of a series ("law of"). */
    const char *interval, *curve, *curve_name;
    bool flip;   /* the axis of x goes down: names that are long */
    bool trim;   /* without the rows at both ends that have nothing */
    size_t most; /* rows; more are not drawn; 0: any number */
    size_t least;
};

/* ---- a kind of result ----------------------------------------------------------------------- */

struct stk_result_kind {
    const char *command;            /* whose --json writes it */
    const char *page;               /* its name on the page; NULL: as the command */
    const char *doing;              /* "Loading", before what the result is of */
    size_t subject;                 /* which argument of the command that is */
    /* What it is of, if the argument does not say that. May be NULL. */
    const char *(*subject_of)(const struct stk_jval *result, const char *argument);
    const struct stk_result_field *fields; /* members of the result */
    /* Of several kinds of one command, the first that takes a result has it; NULL takes all. */
    bool (*takes)(const struct stk_jval *result);
    /* One sentence: what the page says first. Made of the members, so that an old result has one, too.
     * NULL: the field with STK_F_VERDICT has it. */
    void (*verdict)(const struct stk_jval *result, struct stk_buf *out);
    /* What its one number does not say: stands beside it. May be NULL. */
    void (*caveat)(const struct stk_jval *result, struct stk_buf *out);
    /* The list of findings on the page (blocks.h). May be NULL. */
    void (*findings)(const struct stk_jval *result, struct stk_jw *w);
    /* Plots of its own on the page, before those of the tables. May be NULL. */
    void (*blocks)(const struct stk_jval *result, struct stk_jw *w);
    bool fits; /* its screen is as narrow as a terminal in a file, too */
    const struct stk_result_csv *csv; /* the table of --csv (page.h); NULL: none */
    /* Draws the screen, with stk_screen_draw(), if that alone is not enough. */
    void (*screen)(const struct stk_result_kind *kind, const struct stk_jval *result,
                   struct stk_screen *s);
    bool gathered; /* on the page, several such results make one (report/html) */
    /* Several such results on a page are also compared: of a struct stk_results. May be NULL. */
    const struct stk_result_kind *compared;
    const char *needs, *lacks; /* a result without that member is refused, with these words */
};

/* Results of one kind, and what tells them apart. */
struct stk_results {
    const struct stk_jval *const *result;
    const char *const *name;
    size_t n;
};

extern const char stk_plus_minus[]; /* a title: "+-" on a terminal without UTF-8 */
/* The field with the title and unit that it has in this result. */
struct stk_result_field stk_field_in(const struct stk_result_field *f,
                                     const struct stk_jval *result);
/* Whether a column has anything to show. */
bool stk_column_shown(const struct stk_result_field *f, const struct stk_jval *rows);

/* Those of the rows that the table is about (`which`). Borrows all but the array `item`, which the
 * caller frees. */
struct stk_jval stk_rows_those(const struct stk_result_field *f, const struct stk_jval *rows);

/* The member of obj that a field describes; NULL: it is not there. */
static inline const struct stk_jval *stk_field_of(const struct stk_result_field *f,
                                                  const struct stk_jval *obj)
{
    return *f->key ? stk_json_get(obj, f->key) : obj;
}
/* The rows of a table: an array. Those of a pair are put together in `made`. */
struct stk_pair {
    struct stk_jval rows, item[2];
};
const struct stk_jval *stk_rows_of(const struct stk_result_field *f, const struct stk_jval *obj,
                                   struct stk_pair *made);
/* Members of the open object, from the struct at base. */
void stk_fields_put(const struct stk_result_field *f, const void *base, struct stk_jw *w);
/* An object. */
void stk_row_put(const struct stk_result_field *f, const void *row, struct stk_jw *w);
/* An array: n structs of `size` bytes at `rows`. */
void stk_rows_put(const struct stk_result_field *f, const void *rows, size_t n, size_t size,
                  struct stk_jw *w);
/* The way back: fills the struct at base from the members of obj that came from one. What is missing
 * or of another type leaves it as it is; null is NaN, or NULL. Texts and rows lie in the arena. */
int stk_fields_get(const struct stk_result_field *f, const struct stk_jval *obj, void *base,
                   struct stk_arena *arena, struct stk_err *err);
/* A result as it is drawn, whether it was saved or just filled from `data`. In the arena. */
int stk_result_fill(const struct stk_result_kind *kind, const void *data, struct stk_arena *arena,
                    struct stk_jval **result, struct stk_err *err);
/* An interval as a value; null if it is not known. */
void stk_interval_put(struct stk_interval i, struct stk_jw *w);
/* The value as people read it. v: NaN is unknown: "-". Renders into buf and returns it. */
const char *stk_unit_text(enum stk_unit unit, double v, char *buf, size_t size);
/* The name of the unit on the page and in the schema: "s", "B". */
const char *stk_unit_name(enum stk_unit unit);
/* The same for a member; text is escaped for the terminal. */
void stk_field_text(const struct stk_result_field *f, const struct stk_jval *v, struct stk_buf *out);
/* Like stk_text_escape(), but keeps backslashes. Returns the columns. */
size_t stk_text_keep(struct stk_buf *out, const char *s, size_t n);
/* Whether the value says anything; otherwise its field's `none` stands for it. */
bool stk_field_set(const struct stk_result_field *f, const struct stk_jval *v);
/* Whether it is worth showing. */
bool stk_field_shown(const struct stk_result_field *f, const struct stk_jval *v);

#endif
