/*
 * opt.h - one table of options a command; everything about an option follows from its line.
 *
 * The same table reads the command line, the environment (STOKER_PACK_JOBS, STOKER_JOBS) and the
 * config file ("[pack]\njobs = 4"), and writes the effective settings with where each came from.
 * Help, man page and completion (src/cmd) are made from it too. A source that ranks higher wins
 * whatever the order of reading: default < config < environment < command line.
 */
#ifndef STK_BASE_OPT_H
#define STK_BASE_OPT_H

#include "base/buf.h"
#include "base/json.h"

enum stk_opt_type {
    STK_OPT_FLAG = 1, /* bool; --x and --no-x */
    STK_OPT_STRING,   /* const char * */
    STK_OPT_LIST,     /* const char **, NULL-terminated, NULL when empty; may be given again */
    STK_OPT_UNSIGNED, /* uint64_t */
    STK_OPT_SIZE,     /* uint64_t bytes */
    STK_OPT_DURATION, /* double seconds */
    STK_OPT_PERCENT,  /* double, a fraction */
    STK_OPT_ENUM,     /* const char *, one of choices */
    STK_OPT_NAMES,    /* const char *const *, NULL-terminated, NULL when not given: "a,b" */
};

/* A field of a struct that is not made for options (the library's own) may hold it otherwise. */
enum stk_opt_field {
    STK_FIELD_OWN,    /* as the type says */
    STK_FIELD_U32,    /* UNSIGNED: uint32_t; max must fit */
    STK_FIELD_NUMBER, /* ENUM: int, which of the choices it is */
};

struct stk_opt {
    const char *name;  /* "shard-size"; NULL ends a table */
    char letter;       /* 'j', or 0 */
    uint8_t type;      /* enum stk_opt_type */
    uint8_t field;     /* enum stk_opt_field */
    bool opposite;     /* FLAG: the field is true where the option is not */
    bool incidental;   /* cannot change what is written (jobs, quiet): not part of a recipe */
    bool hidden;       /* for stoker's own use: not in help, man page and completion */
    bool path;         /* STRING: of a file; programs may have objects for that */
    size_t offset;     /* of the field in the command's settings struct */
    const char *arg;   /* what stands for the value in the help, "SIZE"; NULL for flags */
    const char *def;   /* the default as a user would write it; NULL: unset */
    uint64_t min, max; /* UNSIGNED, SIZE; DURATION in seconds, PERCENT in percent. max 0: none */
    /* ENUM: "stop"; "dir[:LEVEL]" takes an argument, "csv:FILE" needs one. NULL-terminated. */
    const char *const *choices;
    const char *const *(*choices_fn)(void); /* or made at run time */
    const char *help;                       /* a sentence without a full stop */
    const char *group; /* the heading from this option on; NULL: that of the one before it */
    /* What programs call it (an argument in Python); NULL: its name, with '_' for '-'. */
    const char *keyword;
};

/* clang-format off */
#define STK_OPT_FIELD(S, field_)                                                                   \
    _Generic(((S *)0)->field_,                                                                     \
        uint32_t: STK_FIELD_U32,                                                                   \
        int: STK_FIELD_NUMBER,                                                                     \
        default: STK_FIELD_OWN)
/* clang-format on */

/* A row for a field of the library's struct S, which stands `at` in the table's struct. What the
 * field is in C is found out. */
#define STK_OPT_OF(S, at, name_, field_, type_, ...)                                               \
    {                                                                                              \
        .name = name_, .type = STK_OPT_##type_, .field = STK_OPT_FIELD(S, field_),                 \
        .offset = (at) + offsetof(S, field_), __VA_ARGS__                                          \
    }

/* Its name in programs, "on_error", into buf. Returns buf. */
const char *stk_opt_keyword(const struct stk_opt *opt, char *buf, size_t size);
const struct stk_opt *stk_opt_find(const struct stk_opt *table, const char *name); /* or NULL */
/* Refuses a name: "unknown option --shrads; did you mean --shards?" */
int stk_opt_unknown(const struct stk_opt *table, const char *kind, const char *dashes,
                    const char *name, size_t len, struct stk_err *err);
const char *const *stk_opt_choices(const struct stk_opt *opt);   /* NULL when not an ENUM */
int stk_opt_choice(const struct stk_opt *opt, const char *text); /* which of them; -1: none */
/* Reads text by the option's type into its field of `fields`. Lists, names and their like are made
 * in the arena; text itself is borrowed. fresh: a list starts anew. */
int stk_opt_store(const struct stk_opt *opt, void *fields, const char *text, bool fresh,
                  struct stk_arena *arena, struct stk_err *err);
/* The number in a field: UNSIGNED, SIZE, and ENUM where it is one. */
uint64_t stk_opt_number(const struct stk_opt *opt, const void *fields);
void stk_opt_set_number(const struct stk_opt *opt, void *fields, uint64_t v);

enum stk_opt_from {
    STK_FROM_NOWHERE,
    STK_FROM_DEFAULT,
    STK_FROM_CONFIG,
    STK_FROM_ENV,
    STK_FROM_ARGV
};

struct stk_opt_origin {
    uint8_t from;      /* enum stk_opt_from */
    const char *where; /* "/home/u/.config/stoker/config:3", "STOKER_JOBS"; NULL: argv, default */
};

/* The options of one run of a command. Fields point into the arena or into argv. */
struct stk_opts {
    const char *command;
    const struct stk_opt *table;
    void *fields;
    struct stk_opt_origin *origin; /* one an option */
    const char **arg;              /* the arguments that are not options */
    size_t nargs;
    bool stop_at_arg; /* options end at the first argument: the rest is another program's */
    struct stk_arena arena;
};

/* Sets the defaults. fields: the command's zeroed settings struct, borrowed. argv must outlive o.
 * On error o needs no release. */
int stk_opts_init(struct stk_opts *o, const char *command, const struct stk_opt *table,
                  void *fields, struct stk_err *err);
void stk_opts_release(struct stk_opts *o);

/* argv without the command's name. Options may follow arguments (unless stop_at_arg); "--" ends
 * them. */
int stk_opts_read_argv(struct stk_opts *o, int argc, char *const *argv, struct stk_err *err);
int stk_opts_read_env(struct stk_opts *o, struct stk_err *err);

/* Every command's table: sections of others are checked too, so that a typo is found at once. */
struct stk_opt_section {
    const char *command;
    const struct stk_opt *table;
};
/* A missing file is an error when must_exist. On error err->offset is the line. */
int stk_opts_read_config(struct stk_opts *o, const char *path, bool must_exist,
                         const struct stk_opt_section *all, size_t nall, struct stk_err *err);

/* True when somebody asked for it, i.e. it is not the default. */
bool stk_opts_given(const struct stk_opts *o, const char *name);
/* True when it was typed for this very run. */
bool stk_opts_typed(const struct stk_opts *o, const char *name);
/* {"jobs": {"value": 4, "from": "environment", "where": "STOKER_JOBS"}, …} */
void stk_opts_write_json(const struct stk_opts *o, struct stk_jw *w);
/* {"shards": 4, …}: only what can change the result, the same for the same recipe. */
void stk_opts_write_recipe(const struct stk_opts *o, struct stk_jw *w);

#endif
