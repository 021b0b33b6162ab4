/* pack.c - `stoker pack`: writes a dataset of any format as few large files of another. */
#include "pack/pack.h"

#include <errno.h>

#include "cmd/cmd.h"
#include "dataset/open_options.h"
#include "report/data.h"

struct settings {
    struct stk_common common;
    struct stk_open_options src;
    struct stk_pack_options pack;
    int keys; /* of key_choices */
};

#define SRC offsetof(struct settings, src)

static const char *const label_choices[] = {"auto", "none", "dir[:LEVEL]", "csv:FILE", NULL};
static const char *const compress_choices[] = {"none", "zstd[:LEVEL]", "lz4", "deflate[:LEVEL]",
                                               NULL};
enum { KEYS_KEEP, KEYS_NUMBER };
static const char *const key_choices[] = {
    [KEYS_KEEP] = "keep", [KEYS_NUMBER] = "number", NULL};
static const char *const error_choices[] = {
    [STK_ON_ERROR_STOP] = "stop", [STK_ON_ERROR_SKIP] = "skip", NULL};

#define OPTION(...) STK_OPT_OF(struct settings, 0, __VA_ARGS__)

static const struct stk_opt options[] = {
    OPTION("format", pack.format, ENUM, .arg = "FORMAT", .choices_fn = stk_format_names,
           .help = "Format to write (default: by the ending of DST, else " STK_DEFAULT_FORMAT ")"),
    OPTION("payload", pack.payload, ENUM, .arg = "PAYLOAD", .choices_fn = stk_payload_names,
           .help = "What each record holds (default: depends on the format)"),
    OPTION("shards", pack.shards, UNSIGNED, .arg = "N", .min = 1, .max = 99999,
           .help = "Write N files with the same number of samples, plus or minus one"),
    OPTION("shard-size", pack.shard_size_bytes, SIZE, .arg = "SIZE", .def = "256M", .min = 1,
           .help = "Without --shards: start a new file before one holds more of SRC than this "
                   "(lmdb and squashfs: one file unless set)"),
    OPTION("name", pack.name, STRING, .arg = "NAME",
           .help = "Base name of the files (default: the name of DST)"),
    OPTION("compress", pack.compress, ENUM, .arg = "HOW", .def = "none",
           .choices = compress_choices, .help = "Compress each sample, where the format allows it"),
    OPTION("shuffle", pack.seed, UNSIGNED, .arg = "SEED",
           .help = "Write the samples in a random order determined by SEED"),
    OPTION("label-from", pack.label_from, ENUM, .arg = "WHAT", .def = "auto",
           .choices = label_choices,
           .help = "Where labels come from: dir: the last directory of a key, dir:1 its first, "
                   "and so on; csv:FILE: rows of key,label; auto: dir:1 when SRC is a folder or "
                   "squashfs image with all files in directories, else the labels in SRC"),
    OPTION("keys", keys, ENUM, .arg = "HOW", .def = "keep", .choices = key_choices,
           .help = "Keep the keys of the samples, or number the samples"),
    OPTION("include", pack.include, LIST, .arg = "GLOB",
           .help = "Take only samples whose key matches GLOB; may be repeated"),
    OPTION("exclude", pack.exclude, LIST, .arg = "GLOB",
           .help = "Leave out samples whose key matches GLOB; may be repeated"),
    OPTION("on-error", pack.on_error, ENUM, .arg = "WHAT", .def = "stop", .choices = error_choices,
           .help = "What to do with a sample that cannot be read or written"),
    OPTION("resume", pack.resume, FLAG, .incidental = true,
           .help = "Resume a pack that was stopped; the result is the same, byte for byte"),
    OPTION("force", pack.force, FLAG, .letter = 'f', .incidental = true,
           .help = "Replace the packed dataset at DST"),
    STK_OPEN_FORMAT_OPTIONS(SRC, STK_OF_SRC),
    STK_OPEN_TABLE_OPTIONS(SRC),
    STK_OPEN_GROUP_OPTIONS(SRC, STK_OF_SRC),
    STK_OPEN_SPLIT_OPTIONS(SRC),
    STK_OPEN_TRUST_OPTIONS(SRC),
    STK_OPEN_KEEP_OPTION(SRC, "Keep the index of SRC for next time"),
    STK_OPEN_JOBS_OPTION(SRC,
                         "Threads; 0: by the number of cores. Does not change what is written"),
    OPTION("memory", pack.memory_bytes, SIZE, .arg = "SIZE", .incidental = true,
           .help = "Memory in which all threads together read and encode (default: 12M per "
                   "thread)"),
    STK_COMMON_OPTIONS,
};

static int on_progress(void *user, const char *phase, uint64_t bytes, uint64_t bytes_total,
                       uint64_t samples, uint64_t samples_total)
{
    return stk_progress_update(user, phase, bytes, bytes_total, samples, samples_total);
}

static int check_settings(struct stk_run *run)
{
    if (stk_opts_given(&run->opts, "shards") && stk_opts_given(&run->opts, "shard-size"))
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "--shards and --shard-size exclude each other");
    const struct settings *s = run->settings;
    if (s->pack.resume && s->pack.force)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "--resume continues and --force starts over: give only one of them");
    return 0;
}

static int show(struct stk_run *run, const struct stk_pack_result *r)
{
    int rc = stk_say_result(run, &stk_pack_kind, r, NULL);
    if (run->common->quiet && r->replaced > r->samples) {
        char text[160] = "replaced ";
        stk_pack_replaced(r, text + strlen(text), sizeof text - strlen(text));
        stk_complain("pack", text);
    }
    return rc ? rc : r->skipped.count ? STK_EXIT_PARTLY : STK_EXIT_DONE;
}

static struct stk_pack_options pack_options(struct stk_run *run, const char *recipe)
{
    const struct settings *s = run->settings;
    struct stk_pack_options o = s->pack;
    /* Not told: the format's own (lmdb and squashfs are one file). */
    if (!stk_opts_given(&run->opts, "shard-size"))
        o.shard_size_bytes = 0;
    o.shuffle = stk_opts_given(&run->opts, "shuffle");
    o.number_keys = s->keys == KEYS_NUMBER;
    o.settings_json = recipe;
    o.progress = on_progress;
    o.user = &run->progress;
    return o;
}

static int run_pack(struct stk_run *run)
{
    const struct settings *s = run->settings;
    int rc = check_settings(run);
    if (rc)
        return rc;
    struct stk_buf recipe = STK_BUF_INIT;
    struct stk_jw w;
    stk_jw_init(&w, &recipe, false);
    stk_opts_write_recipe(&run->opts, &w);
    struct stk_pack_options o = pack_options(run, stk_buf_cstr(&recipe));
    struct stk_pack_result r = {0};
    rc = stk_buf_check(&recipe, &run->err);
    if (!rc)
        rc = stk_pack_into(run->opts.arg[0], run->opts.arg[1], &s->src, &o, &r, &run->err);
    stk_progress_clear(&run->progress);
    if (!rc)
        rc = show(run, &r);
    stk_pack_result_release(&r);
    stk_buf_release(&recipe);
    return rc;
}

static const char *hint(const struct stk_run *run)
{
    switch (run->err.code) {
    case STK_E_SYS:
        return run->err.sys_errno == EACCES && stk_err_in_data(run)
                   ? "--on-error skip packs the rest and lists what could not be read"
                   : NULL;
    case STK_E_CORRUPT:
        return "--on-error skip leaves out what cannot be packed and lists it";
    case STK_E_STALE: /* the message says it all: pack lists changed files itself */
        return "";
    default:
        return NULL;
    }
}

static const struct stk_example examples[] = {
    {"stoker pack train/ train-packed", "a folder of images as TFRecord files of 256 MiB"},
    {"stoker pack train/ train-wds --format tar --shards 64 --shuffle 7",
     "as 64 WebDataset files in random order"},
    {"stoker pack imagenet-c/ out --label-from dir:3 --include 'gaussian_noise/*'",
     "the label is the third directory: corruption/severity/class"},
    {"stoker pack train.rec train-h5 --format hdf5", "one format into another"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_pack = {
    .name = "pack",
    .summary = "turn many small files, or any format, into few large files",
    .args = "SRC DST",
    .description =
        "Reads the dataset SRC (a file or folder of any format stoker reads) and writes it as the "
        "new folder DST: files of one format, an index, and a manifest with counts and checksums. "
        "The manifest is written last and marks the dataset as complete. The same input and "
        "options give the same bytes, whatever the number of jobs.\n"
        "\n"
        "DST appears whole or not at all. --resume continues a pack that was stopped. Pack "
        "refuses data that does not fit the format, with the reason, before it writes anything.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct settings),
    .run = run_pack,
    .hint = hint,
    .stopped_hint = "finished files are kept; the same command with --resume continues",
};
