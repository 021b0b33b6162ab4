/*
 * opt.h - one table of options per command; everything about an option follows from its row.
 *
 * The same table reads the command line, the environment (STOKER_PACK_JOBS, STOKER_JOBS) and the
 * config file ("[pack]\njobs = 4"), and writes the effective settings with the source of each.
 * Help, man page and completion (src/cmd) come from it, too. A source of higher rank wins, whatever
 * the order of reading: default < site < config < environment < command line.
 */
#ifndef STK_BASE_OPT_H
#define STK_BASE_OPT_H

#include "base/buf.h"
#include "base/json.h"

enum stk_opt_type {
    STK_OPT_FLAG = 1, /* bool; --x and --no-x */
    STK_OPT_STRING,   /* const char * */
    STK_OPT_LIST,     /* const char **, NULL-terminated, NULL when empty; may be repeated */
    STK_OPT_UNSIGNED, /* uint64_t */
    STK_OPT_SIZE,     /* uint64_t bytes */
    STK_OPT_DURATION, /* double seconds */
    STK_OPT_PERCENT,  /* double, a fraction */
    STK_OPT_ENUM,     /* const char *, one of choices */
    STK_OPT_NAMES,    /* const char *const *, NULL-terminated, NULL when not given: "a,b" */
};

/* How a field holds the value, for structs not made for options (the library's own). */
enum stk_opt_field {
    STK_FIELD_OWN,    /* as the type says */
    STK_FIELD_U32,    /* UNSIGNED: uint32_t; max must fit */
    STK_FIELD_NUMBER, /* ENUM: int, the index of the choice */
};

struct stk_opt {
    const char *name;  /* "shard-size"; NULL ends a table */
    char letter;       /* 'j', or 0 */
    uint8_t type;      /* enum stk_opt_type */
    uint8_t field;     /* enum stk_opt_field */
    bool opposite;     /* FLAG: the field is true when the option is not */
    bool incidental;   /* does not affect the output (jobs, quiet): not part of a recipe */
    bool hidden;       /* for stoker's own use: not in help, man page and completion */
    bool path;         /* STRING: a file path; programs may use path objects */
    size_t offset;     /* of the field in the command's settings struct */
    const char *arg;   /* placeholder for the value in the help, "SIZE"; NULL for flags */
    const char *def;   /* the default as a user would write it; NULL: unset */
    uint64_t min, max; /* UNSIGNED, SIZE; DURATION in seconds, PERCENT in percent. max 0: none */
    /* ENUM: "stop"; "dir[:LEVEL]" takes an argument, "csv:FILE" needs one. NULL-terminated. */
    const char *const *choices;
    const char *const *(*choices_fn)(void); /* or made at run time */
    /* Values for completion, where choices do not list them. NULL-terminated. */
    const char *const *(*suggest)(void);
    const char *help;                       /* a sentence without a full stop */
    const char *group;                      /* the heading from this option on; NULL: as before */
    /* Its name in programs (an argument in Python); NULL: the name with '_' for '-'. */
    const char *keyword;
};

/* clang-format off */
#define STK_OPT_FIELD(S, field_)                                                                   \
    _Generic(((S *)0)->field_,                                                                     \
        uint32_t: STK_FIELD_U32,                                                                   \
        int: STK_FIELD_NUMBER,                                                                     \
        default: STK_FIELD_OWN)
/* clang-format on */

/* A row for a field of the library's struct S, which is at offset `at` in the table's struct. The
 * macro deduces the C type of the field. */
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
int stk_opt_choice(const struct stk_opt *opt, const char *text); /* its index; -1: none */
/* Reads text by the option's type into its field of `fields`. Lists and names are allocated in the
 * arena; text itself is borrowed. fresh: clears a list first. */
int stk_opt_store(const struct stk_opt *opt, void *fields, const char *text, bool fresh,
                  struct stk_arena *arena, struct stk_err *err);
/* The number in a field: UNSIGNED, SIZE, and ENUM stored as a number. */
uint64_t stk_opt_number(const struct stk_opt *opt, const void *fields);
void stk_opt_set_number(const struct stk_opt *opt, void *fields, uint64_t v);

enum stk_opt_from {
    STK_FROM_NOWHERE,
    STK_FROM_DEFAULT,
    STK_FROM_SITE,
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
    struct stk_opt_origin *origin; /* one per option */
    const char **arg;              /* the arguments that are not options */
    size_t nargs;
    bool stop_at_arg; /* options end at the first argument: the rest belongs to another program */
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

/* The table of every command: all sections are checked, so that typing errors are found at once. */
struct stk_opt_section {
    const char *command;
    const struct stk_opt *table;
};
struct stk_opt_file {
    const char *path;
    enum stk_opt_from from; /* STK_FROM_SITE or STK_FROM_CONFIG */
    bool must_exist;        /* a missing file is an error */
};
/* On error err->offset is the line. */
int stk_opts_read_config(struct stk_opts *o, const struct stk_opt_file *file,
                         const struct stk_opt_section *all, size_t nall, struct stk_err *err);

/* True if it was set by any source, i.e. is not the default. */
bool stk_opts_given(const struct stk_opts *o, const char *name);
/* True if it was set on the command line. */
bool stk_opts_typed(const struct stk_opts *o, const char *name);
/* {"jobs": {"value": 4, "from": "environment", "where": "STOKER_JOBS"}, …} */
void stk_opts_write_json(const struct stk_opts *o, struct stk_jw *w);
/* {"shards": 4, …}: only options that affect the result, in a fixed form. */
void stk_opts_write_recipe(const struct stk_opts *o, struct stk_jw *w);

#endif
