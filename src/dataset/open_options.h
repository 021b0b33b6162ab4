/*
 * open_options.h - the options for opening a dataset, each stated once. A row defines the option of
 * every command that reads a dataset (each includes the groups it needs in its own table), and the
 * argument of stoker.Dataset with its signature, documentation and errors (python/src/options.c).
 *
 * A row names the field of struct stk_open_options (include/stoker.h). A new option is a new field
 * there, a row in one of the groups here, and its use.
 */
#ifndef STK_DATASET_OPEN_OPTIONS_H
#define STK_DATASET_OPEN_OPTIONS_H

#include "base/opt.h"
#include "stoker.h"
#include "format/format.h"

/* at: offset of the struct stk_open_options in the table's struct. */
#define STK_OPEN_OPTION(at, ...) STK_OPT_OF(struct stk_open_options, at, __VA_ARGS__)

/* `of` is one of these: the text for a command that reads a dataset, or for a command's SRC. */
#define STK_OF_IT(it, src)  it
#define STK_OF_SRC(it, src) src

#define STK_OPEN_FORMAT_OPTIONS(at, of)                                                            \
    STK_OPEN_OPTION(at, of("format", "from-format"), format, ENUM, .arg = "FORMAT",                \
                    .choices_fn = stk_format_names,                                                \
                    .help = of("Read it as this format instead of detecting it",                   \
                               "Read SRC as this format instead of detecting it")),                \
        STK_OPEN_OPTION(at, of("payload", "from-payload"), payload, ENUM, .arg = "PAYLOAD",        \
                        .choices_fn = stk_payload_names,                                           \
                        .help = of("What a record holds", "What a record of SRC holds")),          \
        STK_OPEN_OPTION(at, of("datasets", "from-datasets"), datasets, STRING, .arg = "NAME,...",  \
                        .help = "For HDF5 and NPZ, the arrays to use as fields: names, groups "    \
                                "or globs, separated by commas (default: detected)")

#define STK_OPEN_SPLIT_OPTIONS(at)                                                                 \
    STK_OPEN_OPTION(at, "split", split, STRING, .arg = "NAME",                                     \
                    .help = "Take only the files of this split, as named by directories or "       \
                            "file names (train/, mnist-test.tfrecord-00000-of-00001)")

#define STK_OPEN_TABLE_OPTIONS(at)                                                                 \
    STK_OPEN_OPTION(at, "header", header, ENUM, .arg = "WHETHER", .def = "auto",                   \
                    .choices = stk_header_names,                                                   \
                    .help = "Whether the first row of a CSV or TSV names the columns"),            \
        STK_OPEN_OPTION(at, "delimiter", delimiter, ENUM, .arg = "WHICH", .def = "auto",           \
                        .choices = stk_delimiter_names,                                            \
                        .help = "The character between the cells of a CSV or TSV"),                \
        STK_OPEN_OPTION(at, "types", types, STRING, .arg = "NAME=TYPE,...",                        \
                        .help = "Types of columns of a CSV or TSV, instead of the detected ones: " \
                                "int, float, text, bool, json, bytes")

#define STK_ONE_STEM " share a name up to the first dot (a.jpg, a.json) are one sample"
#define STK_OPEN_GROUP_OPTIONS(at, of)                                                             \
    STK_OPEN_OPTION(at, "group", group, FLAG,                                                      \
                    .help =                                                                        \
                        of("A folder's files that", "Of a folder SRC, files that") STK_ONE_STEM)

/* On a shared node: which links to follow, and whom to trust. */
#define STK_OPEN_TRUST_OPTIONS(at)                                                                 \
    STK_OPEN_OPTION(at, "follow-links", follow_links, FLAG,                                        \
                    .help = "Follow links of a folder wherever they lead, not only those that "    \
                            "stay in it"),                                                         \
        STK_OPEN_OPTION(at, "trust", trust, STRING, .arg = "USER,...",                             \
                        .help = "Trust indexes, manifests and states of these users (names, "      \
                                "numbers, or all), not only your own, root's and those of "        \
                                "the data's owner")

/* How the files of a dataset are read, and what its samples are. */
#define STK_OPEN_READ_OPTIONS(at)                                                                  \
    STK_OPEN_FORMAT_OPTIONS(at, STK_OF_IT), STK_OPEN_SPLIT_OPTIONS(at),                            \
        STK_OPEN_TABLE_OPTIONS(at), STK_OPEN_GROUP_OPTIONS(at, STK_OF_IT),                         \
        STK_OPEN_TRUST_OPTIONS(at)

/* Where the index is kept. */
#define STK_OPEN_INDEX_OPTIONS(at)                                                                 \
    STK_OPEN_OPTION(at, "index", index, STRING, .arg = "FILE", .path = true,                       \
                    .help = "Keep the index here instead of next to the data or in the cache")

/* Whether it is kept: does not affect the result. */
#define STK_OPEN_KEEP_OPTION(at, text)                                                             \
    STK_OPEN_OPTION(at, "write-index", no_index_write, FLAG, .def = "yes", .opposite = true,       \
                    .incidental = true, .help = text)

/* How the index is built. */
#define STK_OPEN_BUILD_OPTIONS(at)                                                                 \
    STK_OPEN_OPTION(at, "rebuild-index", rebuild_index, FLAG, .keyword = "rebuild",                \
                    .help = "Read the files again even if there is an index"),                     \
        STK_OPEN_KEEP_OPTION(at, "Keep the index for next time"),                                  \
        STK_OPEN_JOBS_OPTION(at, "Threads that build the index; 0: one per core")

/* How much of the machine to use: does not affect the result. */
#define STK_OPEN_JOBS_OPTION(at, text)                                                             \
    STK_OPEN_OPTION(at, "jobs", jobs, UNSIGNED, .letter = 'j', .arg = "N", .def = "0",             \
                    .max = 4096, .incidental = true, .help = text)

/* Options only for programs. */
#define STK_OPEN_PROGRAM_OPTIONS(at)                                                               \
    STK_OPEN_OPTION(at, "pass-over", pass_over, FLAG,                                              \
                    .help = "Open what is left of a damaged dataset; reading a bad sample fails")

/* Choices; NULL at the end. */
const char *const *stk_format_names(void);
const char *const *stk_payload_names(void);
extern const char *const stk_header_names[], *const stk_delimiter_names[];

/* All of them, for fields at 0; .name NULL ends them. */
extern const struct stk_opt stk_open_opts[];

/* ---- tables of text -------------------------------------------------------------------------- */

/* Options for tables of text from the user or a manifest: header, delimiter, types. */

/* "x=int,name=text" as the lines of format/csv/csv.h's context; *out is NULL for NULL and "".
 * Caller frees with free(). */
int stk_columns_parse(const char *spec, char **out, struct stk_err *err);
/* "auto", "yes", "no" or NULL; negative and err for anything else. */
int stk_columns_header(const char *text, struct stk_err *err);
/* "auto" or NULL: 0; "comma", "semicolon", "tab", "bar": the character. */
int stk_columns_delimiter(const char *text, struct stk_err *err);

#endif
