/*
 * dataset_options.h - rows of the option tables of commands that take datasets, so that an option
 * is the same wherever it is. S is the command's settings struct; a row fills its member of the
 * option's name.
 */
#ifndef STK_CMD_DATASET_OPTIONS_H
#define STK_CMD_DATASET_OPTIONS_H

#include "cmd/cmd.h"

/* One option under any name. `at`: the offset of its member; `text`: its help. */
#define STK_FORMAT_OPTION(option, at, text)                                                        \
    {                                                                                              \
        .name = (option), .type = STK_OPT_ENUM, .arg = "FORMAT", .choices_fn = stk_format_names,   \
        .offset = (at), .help = (text)                                                             \
    }

#define STK_PAYLOAD_OPTION(option, at, text)                                                       \
    {                                                                                              \
        .name = (option), .type = STK_OPT_ENUM, .arg = "PAYLOAD", .choices_fn = stk_payload_names, \
        .offset = (at), .help = (text)                                                             \
    }

#define STK_DATASETS_OPTION(option, at)                                                            \
    {                                                                                              \
        .name = (option), .type = STK_OPT_STRING, .arg = "NAME,...", .offset = (at),               \
        .help = "Of HDF5 and NPZ, the arrays that are fields: names, groups or globs with commas " \
                "between (without it: found out)"                                                  \
    }

#define STK_SPLIT_OPTION(S)                                                                        \
    {                                                                                              \
        .name = "split", .type = STK_OPT_STRING, .arg = "NAME", .offset = offsetof(S, split),      \
        .help = "Take only the files of this split, where directories or names of files tell it "  \
                "(train/, mnist-test.tfrecord-00000-of-00001)"                                     \
    }

/* How the files of a dataset are read. */
#define STK_READ_OPTIONS(S)                                                                        \
    STK_FORMAT_OPTION("format", offsetof(S, format),                                               \
                      "Read it as this format instead of finding out"),                            \
        STK_PAYLOAD_OPTION("payload", offsetof(S, payload), "What a record holds"),                \
        STK_DATASETS_OPTION("datasets", offsetof(S, datasets)),                                    \
        STK_SPLIT_OPTION(S),                                                                       \
        STK_TABLE_OPTIONS(S)

#define STK_TABLE_OPTIONS(S)                                                                       \
    {.name = "header",                                                                             \
     .type = STK_OPT_ENUM,                                                                         \
     .arg = "WHETHER",                                                                             \
     .def = "auto",                                                                                \
     .choices_fn = stk_header_names,                                                               \
     .offset = offsetof(S, header),                                                                \
     .help = "Whether the first row of a CSV or TSV names the columns"},                           \
    {                                                                                              \
        .name = "types", .type = STK_OPT_STRING, .arg = "NAME=TYPE,...",                           \
        .offset = offsetof(S, types),                                                              \
        .help = "Types of columns of a CSV or TSV, instead of those all rows fit: int, float, "    \
                "text, bool, json, bytes"                                                          \
    }

/* What its samples are, and where the index of them is kept. */
#define STK_INDEX_OPTIONS(S)                                                                       \
    {.name = "group",                                                                              \
     .type = STK_OPT_FLAG,                                                                         \
     .offset = offsetof(S, group),                                                                 \
     .help = "A folder's files that share a name up to the first dot (a.jpg, a.json) are one "     \
             "sample"},                                                                            \
    {                                                                                              \
        .name = "index", .type = STK_OPT_STRING, .arg = "FILE", .offset = offsetof(S, index),      \
        .help = "Keep the index here instead of beside the data or in the cache"                   \
    }

/* How much of the machine is taken: no part of what comes out. */
#define STK_JOBS_OPTION(S, text)                                                                   \
    {                                                                                              \
        .name = "jobs", .letter = 'j', .type = STK_OPT_UNSIGNED, .arg = "N", .def = "0",           \
        .max = 4096, .incidental = true, .offset = offsetof(S, jobs), .help = (text)               \
    }

#define STK_MEMORY_OPTION(S, text)                                                                 \
    {                                                                                              \
        .name = "memory", .type = STK_OPT_SIZE, .arg = "SIZE", .incidental = true,                 \
        .offset = offsetof(S, memory), .help = (text)                                              \
    }

#endif
