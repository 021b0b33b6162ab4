/*
 * options.h - the options of a loader, each stated once. A row defines the default and range
 * for a struct stk_loader_options with 0 there (load/options.c), the option of `stoker load`
 * (src/cmd/load.c includes the rows in its own table), and the argument of stoker.Loader with its
 * signature, documentation and errors (python/src/options.c).
 *
 * A row names the field of struct stk_loader_options (include/stoker.h) and describes the option;
 * the macro deduces the C type. A new option is a new field there and a row here.
 */
#ifndef STK_LOAD_OPTIONS_H
#define STK_LOAD_OPTIONS_H

#include "base/opt.h"
#include "io/io.h"
#include "load/plan.h"

/*
 * What a loader with default options does, in MiB: src/model predicts with it. 4 MiB: Lustre's
 * largest request, beyond which direct reads gain nothing. 2 MiB: reads of that size are as fast in
 * random order as in sequence.
 */
#define STK_LOADER_READ_MIB    4
#define STK_LOADER_BLOCK_MIB   2
#define STK_LOADER_WINDOW_MIB  64
#define STK_LOADER_BYTES(mib)  ((uint64_t)(mib) << 20)
#define STK_LOADER_OPENS       9    /* before its first batch: manifest, index, a shard it probes */
#define STK_LOADER_START_S     0.01 /* its threads and buffers: 5 to 20 ms until a first batch from
                                       memory */
#define STK_LOADER_SIZE_(mib)  #mib "M"
#define STK_LOADER_SIZE(mib)   STK_LOADER_SIZE_(mib) /* as an option's default */

/* at: offset of the struct stk_loader_options in the table's struct. */
#define STK_LOADER_OPTION(at, ...) STK_OPT_OF(struct stk_loader_options, at, __VA_ARGS__)

/* Which samples, in which order. */
#define STK_LOADER_ORDER_OPTIONS(at)                                                               \
    STK_LOADER_OPTION(at, "batch", batch, UNSIGNED, .letter = 'b', .arg = "N", .def = "32",        \
                      .min = 1, .max = 1u << 20, .help = "Samples per batch"),                     \
        STK_LOADER_OPTION(at, "shuffle", shuffle, ENUM, .arg = "HOW", .def = "block",              \
                          .choices = stk_shuffle_names,                                            \
                          .help =                                                                  \
                              "The order: block (neighbours are read together, then mixed in a "   \
                              "window), global (any sample anywhere), or as stored"),              \
        STK_LOADER_OPTION(at, "seed", seed, UNSIGNED, .arg = "N", .def = "0",                      \
                          .help = "Seed of the order"),                                            \
        STK_LOADER_OPTION(at, "epoch", epoch, UNSIGNED, .arg = "N", .def = "0",                    \
                          .help = "The first epoch: each has its own order")

/* How much is read together, and mixed. */
#define STK_LOADER_MIX_OPTIONS(at)                                                                 \
    STK_LOADER_OPTION(at, "block", block_bytes, SIZE, .arg = "SIZE",                               \
                      .def = STK_LOADER_SIZE(STK_LOADER_BLOCK_MIB), .min = 1,                      \
                      .help = "For block shuffle: the most that is read together"),                \
        STK_LOADER_OPTION(at, "window", window_bytes, SIZE, .arg = "SIZE",                         \
                          .def = STK_LOADER_SIZE(STK_LOADER_WINDOW_MIB), .min = 1,                 \
                          .help = "For block shuffle: how much is mixed together")

/* How samples are processed and read. */
#define STK_LOADER_READ_OPTIONS(at)                                                                \
    STK_LOADER_OPTION(at, "last", last, ENUM, .arg = "HOW", .def = "drop",                         \
                      .choices = stk_last_names,                                                   \
                      .help = "What to do with an incomplete last batch: drop it, pad it with "    \
                              "repeats, or keep it short, equally short on every rank"),           \
        STK_LOADER_OPTION(at, "on-error", on_error, ENUM, .arg = "WHAT", .def = "stop",            \
                          .choices = stk_on_error_names,                                           \
                          .help = "What to do with a sample that cannot be read or decoded"),      \
        STK_LOADER_OPTION(at, "decode", decode, STRING, .arg = "SPEC", .def = "auto",              \
                          .help =                                                                  \
                              "auto: fields as the format gives them; raw: records as stored; "    \
                              "image:WxH,...: JPEG and PNG to arrays, such as "                    \
                              "image:224,crop=random,flip"),                                       \
        STK_LOADER_OPTION(at, "fields", fields, NAMES, .arg = "NAMES",                             \
                          .help = "Load these fields only"),                                       \
        STK_LOADER_OPTION(at, "io", io, ENUM, .arg = "ENGINE", .def = "auto",                      \
                          .choices_fn = stk_io_names,                                              \
                          .help = "How to read: direct (past the page cache), uring or threads "   \
                                  "(through it), mmap; auto: by the file system and how much of "  \
                                  "the data is cached"),                                           \
        STK_LOADER_OPTION(at, "depth", depth, UNSIGNED, .arg = "N", .def = "0", .max = 4096,       \
                          .help = "Reads in flight; 0: depends on the engine"),                    \
        STK_LOADER_OPTION(at, "read-size", read_bytes, SIZE, .arg = "SIZE",                        \
                          .def = STK_LOADER_SIZE(STK_LOADER_READ_MIB), .min = 64 << 10,            \
                          .max = 1 << 30, .keyword = "read",                                       \
                          .help = "The largest read (a single larger sample is read whole)"),      \
        STK_LOADER_OPTION(at, "memory", memory_bytes, SIZE, .arg = "SIZE", .min = 1 << 20,         \
                          .help = "Memory for reading ahead (default: an eighth of what the job "  \
                                  "may use, 512M at most)"),                                       \
        STK_LOADER_OPTION(at, "threads", threads, UNSIGNED, .letter = 't', .arg = "N", .def = "0", \
                          .max = 4096, .help = "Threads that check and decode; 0: one per core"),  \
        STK_LOADER_MIX_OPTIONS(at),                                                                \
        STK_LOADER_OPTION(at, "check", no_check, FLAG, .def = "yes", .opposite = true,             \
                          .help = "Compare the checksums of samples"),                             \
        STK_LOADER_OPTION(at, "tier", tier, STRING, .arg = "WHERE", .def = "auto",                 \
                          .help =                                                                  \
                              "Copies on this node to read in place of the dataset's own files: "  \
                              "auto (those of this job), off, or folders separated by ':'"),       \
        STK_LOADER_OPTION(at, "fill-tier", tier_fill, FLAG, .keyword = "tier_fill",                \
                          .help = "Copy what is read into the first tier; it is made if missing"), \
        STK_LOADER_OPTION(at, "tier-limit", tier_limit_bytes, SIZE, .arg = "SIZE",                 \
                          .keyword = "tier_limit",                                                 \
                          .help = "The most that a tier that is filled may hold (default: what "   \
                                  "the disk holds)")

/* Options only for programs; `stoker load` has its own form of them, or none. */
#define STK_LOADER_PROGRAM_OPTIONS(at)                                                             \
    STK_LOADER_OPTION(at, "epochs", epochs, UNSIGNED,                                              \
                      .help = "Number of epochs: the next one is read ahead if it is known to "    \
                              "come"),                                                             \
        STK_LOADER_OPTION(at, "rank", rank, UNSIGNED, .max = STK_PLAN_WORLD_MAX - 1,               \
                          .help = "The rank of this process, counted from 0"),                     \
        STK_LOADER_OPTION(at, "world", world, UNSIGNED, .min = 1, .max = STK_PLAN_WORLD_MAX,       \
                          .help = "Number of ranks"),                                              \
        STK_LOADER_OPTION(at, "keys", keys, FLAG,                                                  \
                          .help = "Batches have the keys of their samples"),                       \
        STK_LOADER_OPTION(at, "state", state, STRING,                                              \
                          .help = "The state of a loader to resume from")

extern const char *const stk_last_names[], *const stk_on_error_names[]; /* NULL at the end */

/* All of them, for fields at 0; .name NULL ends them. */
extern const struct stk_opt stk_loader_opts[];

/* Sets the option of that name ("read-size") as `stoker load` would. Strings in o borrow from text;
 * names are allocated in the arena. */
int stk_loader_option_set(struct stk_loader_options *o, const char *name, const char *text,
                          struct stk_arena *arena, struct stk_err *err);
/* Replaces 0 by the default, and limits sizes to their range. Refuses invalid values. */
int stk_loader_options_check(struct stk_loader_options *o, struct stk_err *err);

#endif
