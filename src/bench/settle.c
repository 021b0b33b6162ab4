/* settle.c - see stk_workload_settle(): numbers out of texts, and contradictions between keys. */
#include <ctype.h>
#include <stdio.h>

#include "base/units.h"
#include "bench/workload.h"

/* ---- what is wrong -------------------------------------------------------------------------- */

/* About a key, with the line that set it. */
static int wrong(const struct stk_workload *w, struct stk_err *err, const char *key,
                 const char *fmt, ...) STK_PRINTF(4, 5);

static int wrong(const struct stk_workload *w, struct stk_err *err, const char *key,
                 const char *fmt, ...)
{
    char why[400], where[32] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    size_t group;
    const struct stk_opt *k = stk_workload_key(key, &group);
    unsigned line = k ? w->line[k - stk_workload_keys] : 0;
    if (line)
        snprintf(where, sizeof where, "line %u: ", line);
    return stk_err_set(err, STK_E_USAGE, w->path, -1, "%s%s: %s", where, key, why);
}

static int misread(const struct stk_workload *w, struct stk_err *err, const char *key, int rc)
{
    struct stk_err why = err ? *err : (struct stk_err){0};
    return rc == STK_E_NOMEM ? rc : wrong(w, err, key, "%s", why.what);
}

/* ---- the dataset ---------------------------------------------------------------------------- */

static int settle_dims(struct stk_workload *w, struct stk_err *err)
{
    uint64_t bytes = w->dataset.element_bytes, n;
    for (const char *const *d = w->dataset.dims; d && *d; d++) {
        int rc = stk_parse_u64(*d, &n, err);
        if (rc < 0)
            return misread(w, err, "dataset.dims", rc);
        if (__builtin_mul_overflow(bytes, n, &bytes) || bytes > INT64_MAX)
            return wrong(w, err, "dataset.dims", "the product is too large");
    }
    const struct stk_dist given = w->dataset.record;
    if (w->dataset.dims)
        w->dataset.record = (struct stk_dist){.a = (double)bytes};
    bool both = w->dataset.dims && w->dataset.record_text;
    if (both && (given.kind != STK_DIST_CONSTANT || given.a != (double)bytes))
        return wrong(w, err, "dataset.record",
                     "contradicts dataset.dims, whose product is %llu bytes; leave one out",
                     (unsigned long long)bytes);
    return 0;
}

#define RECORD_DEFAULT "64K"
#define RECORD_MAX     (4.0 * 1024 * 1024 * 1024)
#define FILE_MAX       4e18 /* offsets in it are no more than 2^63 - 1 */

/* One size for all samples of a file. */
static bool has_rows(int format)
{
    return format == STK_BENCH_NPZ || format == STK_BENCH_NPY || format == STK_BENCH_INDEXED ||
           format == STK_BENCH_MAPPED;
}

static int settle_record(struct stk_workload *w, struct stk_err *err)
{
    const char *text = w->dataset.record_text ? w->dataset.record_text : RECORD_DEFAULT;
    int rc = stk_dist_parse(text, STK_DIST_BYTES, &w->dataset.record, err);
    if (rc < 0)
        return misread(w, err, "dataset.record", rc);
    rc = settle_dims(w, err);
    if (rc < 0)
        return rc;
    double mean = stk_dist_mean(&w->dataset.record);
    bool replay = w->dataset.format == STK_BENCH_REPLAY; /* the files are there, however large */
    if (!(mean >= 1) || mean > (replay ? FILE_MAX : RECORD_MAX))
        return wrong(w, err, w->dataset.dims ? "dataset.dims" : "dataset.record",
                     "a sample has from 1 byte to 4 GiB");
    if (mean * (double)w->dataset.samples_per_file > FILE_MAX)
        return wrong(w, err, "dataset.samples_per_file", "a file has at most 4 EB");
    bool fixed = w->dataset.record.kind == STK_DIST_CONSTANT;
    if (!fixed && w->dataset.format == STK_BENCH_HDF5)
        return wrong(w, err, "dataset.record", "samples of an HDF5 file have one size");
    if (!fixed && has_rows(w->dataset.format) && w->dataset.samples_per_file > 1)
        return wrong(w, err, "dataset.record", "samples of one %s file have one size",
                     stk_bench_formats[w->dataset.format]);
    return 0;
}

bool stk_bench_is_stream(int format)
{
    return format == STK_BENCH_TFRECORD || format == STK_BENCH_CSV || format == STK_BENCH_TAR;
}

/* ---- groups of files ------------------------------------------------------------------------ */

/* "64Kx2500". */
static int settle_size(const char *text, struct stk_bench_sizes *out, struct stk_err *err)
{
    char size[32];
    size_t n = strcspn(text, "x");
    if (!text[n] || n >= sizeof size)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "\"%.40s\" is not SIZExN, such as 64Kx10",
                           text);
    snprintf(size, sizeof size, "%.*s", (int)n, text);
    int rc = stk_parse_size(size, &out->bytes, err);
    rc = rc ? rc : stk_parse_u64(text + n + 1, &out->count, err);
    if (rc == 0 && (!out->bytes || out->bytes > STK_REQUEST_MAX || !out->count))
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1,
                         "\"%.40s\": a request has from 1 byte to 2 GiB, and occurs", text);
    return rc;
}

static int settle_sizes(struct stk_bench_group *g, struct stk_err *err)
{
    uint64_t last = 0;
    g->ndrawn = 0;
    g->weight = 0;
    for (const char *const *s = g->sizes; s && *s; s++) {
        struct stk_bench_sizes *to = &g->drawn[g->ndrawn];
        if (g->ndrawn == STK_GROUP_SIZES)
            return stk_err_set(err, STK_E_USAGE, NULL, -1, "more than %u sizes", STK_GROUP_SIZES);
        int rc = settle_size(*s, to, err);
        if (rc < 0)
            return rc;
        if (to->bytes <= last || __builtin_add_overflow(g->weight, to->count, &g->weight))
            return stk_err_set(err, STK_E_USAGE, NULL, -1, "the sizes must increase");
        last = to->bytes;
        g->ndrawn++;
    }
    return 0;
}

static int settle_group(struct stk_workload *w, size_t i, struct stk_err *err)
{
    struct stk_bench_group *g = &w->group[i];
    char key[64];
    snprintf(key, sizeof key, STK_GROUP_PREFIX "%zu.sizes", i + 1);
    int rc = settle_sizes(g, err);
    if (rc < 0)
        return misread(w, err, key, rc);
    snprintf(key, sizeof key, STK_GROUP_PREFIX "%zu.size", i + 1);
    rc = stk_dist_parse(g->size_text, STK_DIST_BYTES, &g->size, err);
    if (rc < 0)
        return misread(w, err, key, rc);
    if (stk_dist_mean(&g->size) > FILE_MAX)
        return wrong(w, err, key, "a file has at most 4 EB");
    snprintf(key, sizeof key, STK_GROUP_PREFIX "%zu.consecutive", i + 1);
    if (g->consecutive > g->sequential)
        return wrong(w, err, key, "larger than sequential, of which it is a part");
    return 0;
}

static int settle_groups(struct stk_workload *w, struct stk_err *err)
{
    bool replay = w->dataset.format == STK_BENCH_REPLAY;
    int rc = 0;
    w->ngroups = 0;
    while (w->ngroups < STK_GROUPS && w->group[w->ngroups].path)
        w->ngroups++;
    for (size_t i = w->ngroups; i < STK_GROUPS; i++)
        if (w->group[i].path)
            return wrong(w, err, "files.N.path", "there is a group %zu, but no group %zu", i + 1,
                         w->ngroups + 1);
    if (replay != (w->ngroups > 0))
        return wrong(w, err, replay ? "dataset.format" : "files.1.path",
                     replay ? "replay needs files.1.path"
                            : "groups of files need dataset.format: replay");
    if (replay && w->dataset.files > w->group[0].count)
        return wrong(w, err, "dataset.files", "more than files.1.count");
    if (replay && w->group[0].when != STK_WHEN_SAMPLE)
        return wrong(w, err, "files.1.when", "group 1 is read for the samples");
    if (replay && w->training.eval_every)
        return wrong(w, err, "training.eval_every", "a replay has no evaluation of its own");
    if (replay && w->reader.cache == STK_CACHE_DIRECT)
        return wrong(w, err, "reader.cache", "\"direct\" is not possible: the sizes of the "
                                             "requests are the profile's; use drop");
    for (size_t i = 0; i < w->ngroups && rc == 0; i++)
        rc = settle_group(w, i, err);
    return rc;
}

/* ---- sections ------------------------------------------------------------------------------- */

static int settle_dataset(struct stk_workload *w, struct stk_err *err)
{
    int format = w->dataset.format;
    uint64_t n;
    if (__builtin_mul_overflow(w->dataset.files, w->dataset.samples_per_file, &n) ||
        n > INT64_MAX / 2)
        return wrong(w, err, "dataset.samples_per_file", "too many samples in all");
    if (w->dataset.chunk_bytes && format != STK_BENCH_HDF5)
        return wrong(w, err, "dataset.chunk", "only HDF5 files have chunks; dataset.format is %s",
                     stk_bench_formats[format]);
    bool gzip = w->dataset.compression != STK_COMPRESSION_NONE;
    if (gzip && format != STK_BENCH_HDF5 && format != STK_BENCH_NPZ)
        return wrong(w, err, "dataset.compression",
                     "only HDF5 and NPZ files are compressed here; dataset.format is %s",
                     stk_bench_formats[format]);
    if (gzip && format == STK_BENCH_HDF5 && !w->dataset.chunk_bytes)
        return wrong(w, err, "dataset.compression",
                     "HDF5 compresses chunks, and dataset.chunk is 0");
    if (format == STK_BENCH_FILES && w->dataset.samples_per_file != 1)
        return wrong(w, err, "dataset.samples_per_file",
                     "dataset.format is files: each file is one sample");
    if (w->dataset.folders > w->dataset.files)
        return wrong(w, err, "dataset.folders", "more folders than dataset.files");
    if (w->dataset.eval_folders > w->dataset.eval_files)
        return wrong(w, err, "dataset.eval_folders", "more folders than dataset.eval_files");
    return settle_record(w, err);
}

static int settle_access(struct stk_workload *w, struct stk_err *err)
{
    bool shared = w->access.sharing != STK_SHARING_OWN;
    bool collective = w->access.sharing == STK_SHARING_COLLECTIVE;
    if (collective && stk_workload_loads_first(w))
        return wrong(w, err, "reader.load", "contradicts access.sharing: collective");
    if (collective && w->dataset.chunk_bytes)
        return wrong(w, err, "dataset.chunk",
                     "contradicts access.sharing: collective: samples in chunks are at no known "
                     "places; leave it out");
    if (collective && w->reader.cache == STK_CACHE_DIRECT)
        return wrong(w, err, "reader.cache",
                     "\"direct\" contradicts access.sharing: collective: MPI-IO opens the files; "
                     "use drop");
    bool streams = stk_bench_is_stream(w->dataset.format);
    if (w->access.offsets == STK_OFFSETS_SAME && !shared)
        return wrong(w, err, "access.offsets",
                     "\"same\" needs access.sharing: shared; each file is read by one rank only");
    if (w->access.order == STK_ORDER_RANDOM_START && streams)
        return wrong(w, err, "access.order",
                     "a %s file can only be read from its start; \"random-start\" needs hdf5, npz, "
                     "json or files",
                     stk_bench_formats[w->dataset.format]);
    bool mixed = w->access.shuffle == STK_MIX_SAMPLES || w->access.shuffle == STK_MIX_BOTH;
    if (w->access.order == STK_ORDER_RANDOM_START && mixed)
        return wrong(w, err, "access.order", "contradicts access.shuffle: samples have one order");
    if (w->access.sorted > 1 && (!mixed || streams))
        return wrong(w, err, "access.sorted", "%s",
                     mixed ? "samples of a stream are shuffled in memory, not in the file"
                           : "access.shuffle shuffles no samples");
    if (w->access.head_reads && w->dataset.format == STK_BENCH_NONE)
        return wrong(w, err, "access.head_reads", "dataset.format is none: there is no file");
    return 0;
}

/* Direct reads begin and end at multiples of 4 KiB. */
static int settle_direct(const struct stk_workload *w, struct stk_err *err)
{
    if (w->reader.cache != STK_CACHE_DIRECT)
        return 0;
    if (w->dataset.format == STK_BENCH_HDF5)
        return wrong(w, err, "reader.cache",
                     "\"direct\" is not possible: libhdf5 decides where "
                     "its requests begin; use drop");
    if (w->dataset.format == STK_BENCH_INDEXED || w->dataset.format == STK_BENCH_MAPPED)
        return wrong(w, err, "reader.cache",
                     "\"direct\" is not possible: records of an indexed file begin anywhere; "
                     "use drop");
    if (w->access.head_reads)
        return wrong(w, err, "reader.cache", "\"direct\" contradicts access.head_reads");
    if (!w->access.transfer_bytes || w->access.transfer_bytes % 4096)
        return wrong(w, err, "access.transfer",
                     "reader.cache: direct needs a multiple of 4096 bytes per request");
    return 0;
}

static int settle_checkpoint(struct stk_workload *w, struct stk_err *err)
{
    w->checkpoint.nfiles = 0;
    for (const char *const *f = w->checkpoint.files; f && *f; f++) {
        if (w->checkpoint.nfiles == STK_CHECKPOINT_FILES)
            return wrong(w, err, "checkpoint.files", "more than %u files", STK_CHECKPOINT_FILES);
        int rc = stk_parse_size(*f, &w->checkpoint.bytes[w->checkpoint.nfiles++], err);
        if (rc < 0)
            return misread(w, err, "checkpoint.files", rc);
    }
    bool any = w->checkpoint.every || w->checkpoint.every_epochs || w->checkpoint.at_end;
    if (w->checkpoint.restores && !any)
        return wrong(w, err, "checkpoint.restores", "no checkpoint is written before");
    if (w->model.layers && w->checkpoint.nfiles)
        return wrong(w, err, "checkpoint.files",
                     "contradicts model.layers: the files follow from it");
    if (w->model.layers && !any)
        return wrong(w, err, "model.layers",
                     "neither checkpoint.every nor checkpoint.at_end says when it is written");
    if (any && !w->checkpoint.nfiles && !w->model.layers)
        return wrong(w, err,
                     w->checkpoint.every          ? "checkpoint.every"
                     : w->checkpoint.every_epochs ? "checkpoint.every_epochs"
                                                  : "checkpoint.at_end",
                     "checkpoint.files has no sizes");
    if (!any && w->checkpoint.nfiles)
        return wrong(
            w, err, "checkpoint.files",
            "none of checkpoint.every, checkpoint.every_epochs and checkpoint.at_end says when "
            "they are written");
    return 0;
}

static int settle_training(struct stk_workload *w, struct stk_err *err)
{
    int rc = stk_dist_parse(w->training.compute_text, STK_DIST_SECONDS, &w->training.compute, err);
    if (rc < 0)
        return misread(w, err, "training.compute", rc);
    rc = stk_dist_parse(w->training.eval_text, STK_DIST_SECONDS, &w->training.eval_compute, err);
    if (rc < 0)
        return misread(w, err, "training.eval_compute", rc);
    rc = stk_dist_parse(w->reader.think_text, STK_DIST_SECONDS, &w->reader.think, err);
    if (rc < 0)
        return misread(w, err, "reader.think", rc);
    if (w->training.eval_every && !w->dataset.eval_files)
        return wrong(w, err, "training.eval_every", "dataset.eval_files has no files to read");
    if (w->training.eval_every &&
        (w->dataset.format == STK_BENCH_NONE || w->reader.load == STK_LOAD_NEVER))
        return wrong(w, err, "training.eval_every", "the workload reads no data");
    uint64_t steps;
    if (__builtin_mul_overflow(w->training.steps, w->training.epochs, &steps) ||
        __builtin_mul_overflow(steps, w->training.batch, &steps) || steps > INT64_MAX / 2)
        return wrong(w, err, "training.steps", "too many steps in all");
    bool reads = w->dataset.format != STK_BENCH_NONE && w->reader.load != STK_LOAD_NEVER;
    if (!reads && !w->training.steps)
        return wrong(w, err, "training.steps", "%s: say how many steps an epoch has",
                     w->dataset.format == STK_BENCH_NONE ? "dataset.format is none"
                                                         : "reader.load is never");
    if (w->training.steps && w->training.warmup >= w->training.steps * w->training.epochs)
        return wrong(w, err, "training.warmup", "leaves none of the %llu steps to measure",
                     (unsigned long long)(w->training.steps * w->training.epochs));
    return 0;
}

static int settle_name(const struct stk_workload *w, struct stk_err *err)
{
    if (!w->name)
        return wrong(w, err, "name", "the workload has no name");
    if (strlen(w->name) > 64)
        return wrong(w, err, "name", "longer than 64 characters");
    for (const char *p = w->name; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '-' && *p != '_')
            return wrong(w, err, "name", "only letters, digits, - and _ are allowed");
    return 0;
}

int stk_workload_settle(struct stk_workload *w, struct stk_err *err)
{
    int rc = settle_name(w, err);
    rc = rc ? rc : settle_dataset(w, err);
    rc = rc ? rc : settle_groups(w, err);
    rc = rc ? rc : settle_access(w, err);
    rc = rc ? rc : settle_direct(w, err);
    rc = rc ? rc : settle_training(w, err);
    return rc ? rc : settle_checkpoint(w, err);
}
