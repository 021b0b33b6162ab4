/*
 * open_options.h - how a dataset is opened, each option stated once. What follows from a row: the
 * option of every command that reads a dataset (each takes the groups it has a use for into its
 * own table), and the argument of stoker.Dataset with its signature, documentation and errors
 * (python/src/options.c).
 *
 * A row names the field of struct stk_open_options (include/stoker.h). A new option is a new field
 * there, a row in one of the groups here, and its use.
 */
#ifndef STK_DATA_OPEN_OPTIONS_H
#define STK_DATA_OPEN_OPTIONS_H

#include "base/opt.h"
#include "stoker.h"

/* at: where in the table's struct the struct stk_open_options is. */
#define STK_OPEN_OPTION(at, ...) STK_OPT_OF(struct stk_open_options, at, __VA_ARGS__)

/* `of` is one of these: what an option says where a dataset is read, and of a command's SRC. */
#define STK_OF_IT(it, src)  it
#define STK_OF_SRC(it, src) src

#define STK_OPEN_FORMAT_OPTIONS(at, of)                                                            \
    STK_OPEN_OPTION(at, of("format", "from-format"), format, ENUM, .arg = "FORMAT",                \
                    .choices_fn = stk_format_names,                                                \
                    .help = of("Read it as this format instead of finding out",                    \
                               "Read SRC as this format instead of finding out")),                 \
        STK_OPEN_OPTION(at, of("payload", "from-payload"), payload, ENUM, .arg = "PAYLOAD",        \
                        .choices_fn = stk_payload_names,                                           \
                        .help = of("What a record holds", "What a record of SRC holds")),          \
        STK_OPEN_OPTION(at, of("datasets", "from-datasets"), datasets, STRING, .arg = "NAME,...",  \
                        .help = "Of HDF5 and NPZ, the arrays that are fields: names, groups or "   \
                                "globs with commas between (without it: found out)")

#define STK_OPEN_SPLIT_OPTIONS(at)                                                                 \
    STK_OPEN_OPTION(at, "split", split, STRING, .arg = "NAME",                                     \
                    .help = "Take only the files of this split, where directories or names of "    \
                            "files tell it (train/, mnist-test.tfrecord-00000-of-00001)")

#define STK_OPEN_TABLE_OPTIONS(at)                                                                 \
    STK_OPEN_OPTION(at, "header", header, ENUM, .arg = "WHETHER", .def = "auto",                   \
                    .choices = stk_header_names,                                                   \
                    .help = "Whether the first row of a CSV or TSV names the columns"),            \
        STK_OPEN_OPTION(at, "delimiter", delimiter, ENUM, .arg = "WHICH", .def = "auto",           \
                        .choices = stk_delimiter_names,                                            \
                        .help = "What stands between the cells of a CSV or TSV"),                  \
        STK_OPEN_OPTION(at, "types", types, STRING, .arg = "NAME=TYPE,...",                        \
                        .help = "Types of columns of a CSV or TSV, instead of those all rows "     \
                                "fit: int, float, text, bool, json, bytes")

#define STK_ONE_STEM " share a name up to the first dot (a.jpg, a.json) are one sample"
#define STK_OPEN_GROUP_OPTIONS(at, of)                                                             \
    STK_OPEN_OPTION(at, "group", group, FLAG,                                                      \
                    .help =                                                                        \
                        of("A folder's files that", "Of a folder SRC, files that") STK_ONE_STEM)

/* On a node that others share: where links lead, and whose word counts. */
#define STK_OPEN_TRUST_OPTIONS(at)                                                                 \
    STK_OPEN_OPTION(at, "follow-links", follow_links, FLAG,                                        \
                    .help = "Follow links of a folder wherever they lead, not only those that "    \
                            "stay in it"),                                                         \
        STK_OPEN_OPTION(at, "trust", trust, STRING, .arg = "USER,...",                             \
                        .help = "Believe indexes, manifests and states of these users (names, "    \
                                "numbers, or all), too: not only your own, root's and those of "   \
                                "the data's owner")

/* How the files of a dataset are read, and what its samples are. */
#define STK_OPEN_READ_OPTIONS(at)                                                                  \
    STK_OPEN_FORMAT_OPTIONS(at, STK_OF_IT), STK_OPEN_SPLIT_OPTIONS(at),                            \
        STK_OPEN_TABLE_OPTIONS(at), STK_OPEN_GROUP_OPTIONS(at, STK_OF_IT),                         \
        STK_OPEN_TRUST_OPTIONS(at)

/* Where the index of them is kept. */
#define STK_OPEN_INDEX_OPTIONS(at)                                                                 \
    STK_OPEN_OPTION(at, "index", index, STRING, .arg = "FILE", .path = true,                       \
                    .help = "Keep the index here instead of beside the data or in the cache")

/* How the index is come by. */
#define STK_OPEN_BUILD_OPTIONS(at)                                                                 \
    STK_OPEN_OPTION(at, "rebuild-index", rebuild_index, FLAG, .keyword = "rebuild",                \
                    .help = "Read the files anew even when there is an index"),                    \
        STK_OPEN_OPTION(at, "write-index", no_index_write, FLAG, .def = "yes", .opposite = true,   \
                        .help = "Keep the index for next time"),                                   \
        STK_OPEN_JOBS_OPTION(at, "Threads that build the index; 0: one a core")

/* How much of the machine is taken: no part of what comes out. */
#define STK_OPEN_JOBS_OPTION(at, text)                                                             \
    STK_OPEN_OPTION(at, "jobs", jobs, UNSIGNED, .letter = 'j', .arg = "N", .def = "0",             \
                    .max = 4096, .incidental = true, .help = text)

/* Those that only programs give. */
#define STK_OPEN_PROGRAM_OPTIONS(at)                                                               \
    STK_OPEN_OPTION(at, "pass-over", pass_over, FLAG,                                              \
                    .help = "Open what is left of a damaged dataset; reading a bad sample fails")

/* Choices; NULL at the end. */
const char *const *stk_format_names(void);
const char *const *stk_payload_names(void);
extern const char *const stk_header_names[], *const stk_delimiter_names[];

/* All of them, for fields at 0; .name NULL ends them. */
extern const struct stk_opt stk_open_opts[];

#endif
