/*
 * dlio.c - reads a workload file of DLIO: a table says what becomes of each key of its
 * documentation and of its LoadConfig; sizes, times, orders and checkpoints each follow from
 * several keys.
 */
#include "bench/workload.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/file.h"
#include "base/num.h"
#include "base/text.h"

#define ROWS_MAX 192u /* at most */

/* What to do with a key. */
enum how {
    SETS,    /* sets the key `arg` of a workload */
    PICKS,   /* sets the first word of `arg` to what stands behind the value: "KEY a=b" */
    KEEPS,   /* kept for translate() */
    ALLOWS,  /* kept, but only the values in `arg`, separated by blanks */
    REFUSES, /* whatever its value */
    SKIPS,   /* no effect on I/O */
    RENAMES, /* another name for the key `arg` of DLIO */
};

struct row {
    const char *key;
    enum how how;
    const char *arg;
    const char *why; /* reason for a refusal; may be NULL */
};

struct reading {
    struct stk_workload *w;
    struct stk_dlio *d;
    const char *path;
    const char *value[ROWS_MAX]; /* by row of the table; NULL: not given */
    unsigned line[ROWS_MAX];
};

#define KEEP(key_)            {key_, KEEPS, NULL, NULL}
#define SKIP(key_)            {key_, SKIPS, NULL, NULL}
#define SET(key_, ours_)      {key_, SETS, ours_, NULL}
#define PICK(key_, words_)    {key_, PICKS, words_, NULL}
#define ALLOW(key_, words_)   {key_, ALLOWS, words_, NULL}
#define REFUSE(key_, why_)    {key_, REFUSES, NULL, why_}
#define RENAME(key_, theirs_) {key_, RENAMES, theirs_, NULL}

/* A time: a number, or a distribution. */
#define TIME(key_)                                                                                 \
    KEEP(key_), KEEP(key_ "_stdev"), KEEP(key_ ".type"), KEEP(key_ ".mean"), KEEP(key_ ".stdev"),  \
        KEEP(key_ ".min"), KEEP(key_ ".max"), KEEP(key_ ".shape"), KEEP(key_ ".scale"),            \
        KEEP(key_ ".lam")

static const char a_class[] = "classes of Python are not run here";

static const struct row rows[] = {
    KEEP("model"), /* the name, in old files */
    KEEP("model.name"),
    SKIP("model.type"),
    KEEP("model.model_size"),
    KEEP("model.model_size_bytes"),
    KEEP("model.num_layers"),
    KEEP("model.layer_parameters"),
    KEEP("model.optimization_groups"),
    SET("model.parallelism.tensor", "model.tensor"),
    SET("model.parallelism.pipeline", "model.pipeline"),
    KEEP("model.parallelism.data"),
    SET("model.parallelism.zero_stage", "model.zero"),
    SET("model.transformer.hidden_size", "model.hidden"),
    SET("model.transformer.ffn_hidden_size", "model.ffn"),
    SET("model.transformer.vocab_size", "model.vocabulary"),
    SET("model.transformer.num_attention_heads", "model.heads"),
    SET("model.transformer.num_kv_heads", "model.kv_heads"),
    PICK("model.model_datatype", "model.weight int8=1 uint8=1 fp16=2 bf16=2 fp32=4 fp64=8"),
    /* Three values per parameter. */
    PICK("model.optimizer_datatype",
         "model.optimizer int8=3 uint8=3 fp16=6 bf16=6 fp32=12 fp64=24"),

    ALLOW("framework", "tensorflow pytorch"),

    KEEP("workflow.generate_data"),
    KEEP("workflow.train"),
    KEEP("workflow.evaluation"),
    KEEP("workflow.checkpoint"),
    SKIP("workflow.profiling"),
    SKIP("workflow.debug"),
    SKIP("workflow.do_eval"), /* in old files; DLIO does not read it */

    {"storage.storage_type", ALLOWS, "local_fs parallel_fs",
     "objects of a store are not read through a file system"},
    KEEP("storage.storage_root"),
    SKIP("storage.storage_options"),
    SKIP("storage.storage_options.access_key_id"),
    SKIP("storage.storage_options.secret_access_key"),
    SKIP("storage.storage_options.endpoint_url"),
    SKIP("storage.storage_options.region"),
    SKIP("storage.storage_options.s3_force_path_style"),
    SKIP("storage.storage_options.s3_max_attempts"),

    KEEP("dataset.data_folder"),
    PICK("dataset.format", "dataset.format tfrecord=tfrecord hdf5=hdf5 hdf5_opt=hdf5 csv=csv "
                           "npz=npz npy=npy jpeg=files "
                           "png=files indexed_binary=indexed mmap_indexed_binary=mapped"),
    SET("dataset.num_files_train", "dataset.files"),
    KEEP("dataset.num_files_eval"),
    SET("dataset.num_samples_per_file", "dataset.samples_per_file"),
    KEEP("dataset.record_length"),
    KEEP("dataset.record_length_bytes"),
    KEEP("dataset.record_length_stdev"),
    KEEP("dataset.record_length_std"),
    KEEP("dataset.record_length_bytes_stdev"),
    SKIP("dataset.record_length_resize"),
    SKIP("dataset.record_length_bytes_resize"),
    KEEP("dataset.record_dims"),
    KEEP("dataset.record_element_type"),
    SKIP("dataset.record_element_bytes"), /* the type decides */
    KEEP("dataset.hdf5.chunk_dims"),
    {"dataset.hdf5.num_dset_per_record", ALLOWS, "1", "a file has one dataset here"},
    SKIP("dataset.hdf5.max_shape"),
    SET("dataset.num_subfolders_train", "dataset.folders"),
    KEEP("dataset.num_subfolders_eval"),
    SKIP("dataset.file_prefix"),
    KEEP("dataset.compression"),
    SKIP("dataset.compression_level"),
    KEEP("dataset.enable_chunking"),
    KEEP("dataset.chunk_size"),
    SKIP("dataset.eval_num_samples_per_file"), /* in old files; DLIO ignores it */
    {"dataset.keep_files", ALLOWS, "true", "remove the files with --clean after the run"},
    SKIP("dataset.generation_buffer_size"),

    {"reader.data_loader", ALLOWS, "tensorflow pytorch dali",
     "the other loaders read in ways of their own, or not at all"},
    REFUSE("reader.data_loader_classname", a_class),
    REFUSE("reader.reader_classname", a_class),
    SKIP("reader.data_loader_sampler"),
    SKIP("reader.multiprocessing_context"),
    SET("reader.batch_size", "training.batch"),
    SET("reader.batch_size_eval", "training.eval_batch"),
    SET("reader.read_threads", "reader.threads"),
    SKIP("reader.computation_threads"),
    KEEP("reader.prefetch_size"),
    ALLOW("reader.file_shuffle", "off seed random true false"),
    ALLOW("reader.sample_shuffle", "off seed random true false"),
    SKIP("reader.shuffle_size"),
    ALLOW("reader.file_access", "multi shared collective mpio posix"),
    PICK("reader.read_type", "reader.load on_demand=step memory=start"),
    SET("reader.transfer_size", "access.transfer"),
    TIME("reader.preprocess_time"),
    SKIP("reader.pin_memory"),
    SKIP("reader.dont_use_mmap"),
    SKIP("reader.transformed_record_dims"),
    SKIP("reader.transformed_record_element_type"),
    PICK("reader.odirect", "reader.cache true=direct false=keep"),

    SET("train.epochs", "training.epochs"),
    SET("train.epoch", "training.epochs"),
    TIME("train.computation_time"),
    KEEP("train.total_training_steps"),
    SKIP("train.total_eval_steps"), /* DLIO does not read it */
    SET("train.seed", "dataset.seed"),
    SET("train.seed_change_epoch", "access.reshuffle"),

    TIME("evaluation.eval_time"),
    SET("evaluation.eval_after_epoch", "training.eval_first"),
    KEEP("evaluation.epochs_between_evals"),
    SKIP("evaluation.steps_between_evals"), /* DLIO does not read it */

    KEEP("checkpoint.checkpoint_folder"),
    KEEP("checkpoint.checkpoint_after_epoch"),
    KEEP("checkpoint.epochs_between_checkpoints"),
    KEEP("checkpoint.steps_between_checkpoints"),
    KEEP("checkpoint.time_between_checkpoints"),
    KEEP("checkpoint.num_checkpoints_write"),
    KEEP("checkpoint.num_checkpoints_read"),
    REFUSE("checkpoint.checkpoint_mechanism_classname", a_class),
    ALLOW("checkpoint.mode", "default subset"),
    SET("checkpoint.recovery_rank_shift", "checkpoint.shift"),
    SKIP("checkpoint.rank_sync"), /* ranks always meet after a checkpoint */
    SKIP("checkpoint.randomize_tensor"),
    SKIP("checkpoint.ksm"),
    SKIP("checkpoint.ksm.madv_mergeable_id"),
    SKIP("checkpoint.ksm.high_ram_trigger"),
    SKIP("checkpoint.ksm.low_ram_exit"),
    SKIP("checkpoint.ksm.await_time"),
    KEEP("checkpoint.model_size"),
    PICK("checkpoint.type", "checkpoint.ranks rank_zero=zero all_ranks=all"),
    SET("checkpoint.fsync", "checkpoint.fsync"),

    KEEP("metric.au"),
    SKIP("output.folder"),
    SKIP("output.log_file"),
    SET("output.metric.exclude_start_steps", "training.warmup"),
    SET("output.metric.exclude_end_steps", "training.cooldown"),
    SKIP("profiling.profiler"),
    SKIP("profiling.iostat_devices"),

    /* Names of old files. */
    RENAME("checkpoint.optimization_groups", "model.optimization_groups"),
    RENAME("checkpoint.layer_parameters", "model.layer_parameters"),
    RENAME("checkpoint.num_layers", "model.num_layers"),
    RENAME("checkpoint.tensor_parallelism", "model.parallelism.tensor"),
    RENAME("checkpoint.pipeline_parallelism", "model.parallelism.pipeline"),
};

#define ROWS (sizeof rows / sizeof *rows)
_Static_assert(ROWS <= ROWS_MAX, "a value is kept for every row");

static int row_of(const char *key)
{
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(rows[i].key, key) == 0)
            return (int)i;
    return -1;
}

/* The value of a key of the table, or NULL. */
static const char *kept(const struct reading *r, const char *key)
{
    return r->value[row_of(key)];
}

static int refuse_at(const struct reading *r, unsigned line, const char *key, struct stk_err *err,
                     const char *why)
{
    char where[32] = "";
    if (line)
        snprintf(where, sizeof where, "line %u: ", line);
    return stk_err_set(err, STK_E_UNSUPPORTED, r->path, -1, "%s%s: %s", where, key, why);
}

/* Refuses the value of a key, with its line. */
static int refuse(const struct reading *r, const char *key, struct stk_err *err, const char *fmt,
                  ...)
{
    char why[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return refuse_at(r, r->line[row_of(key)], key, err, why);
}

static bool is_true(const char *text)
{
    return text && (strcasecmp(text, "true") == 0 || strcasecmp(text, "yes") == 0 ||
                    strcmp(text, "1") == 0);
}

/* Sets our key because of theirs, which an error names. */
static int set(struct reading *r, const char *key, const char *ours, const char *value,
               struct stk_err *err)
{
    char text[600];
    struct stk_err why = {0};
    snprintf(text, sizeof text, "%s=%s", ours,
             strcasecmp(value, "true") == 0    ? "yes"
             : strcasecmp(value, "false") == 0 ? "no"
                                               : value);
    int rc = stk_workload_set(r->w, text, &why);
    return rc == STK_E_NOMEM ? stk_err_nomem(err, strlen(value))
           : rc              ? refuse(r, key, err, "%s", why.what)
                             : 0;
}

/* 0 if the key is not given. */
static int number(const struct reading *r, const char *key, double *out, struct stk_err *err)
{
    const char *text = kept(r, key);
    int64_t whole;
    *out = 0;
    if (text && stk_num_parse(text, strlen(text), &whole, out) == STK_NUM_NONE)
        return refuse(r, key, err, "\"%.60s\" is not a number", text);
    return 0;
}

/* The first of the keys with a value above 0; ends with NULL. *key: that one, or the first. */
static int first_number(const struct reading *r, const char *const *keys, const char **key,
                        double *out, struct stk_err *err)
{
    int rc = 0;
    *key = keys[0];
    *out = 0;
    for (; *keys && !(*out > 0) && rc == 0; keys++) {
        rc = number(r, *keys, out, err);
        if (*out > 0)
            *key = *keys;
    }
    return rc;
}

static int set_number(struct reading *r, const char *key, const char *ours, double value,
                      struct stk_err *err)
{
    char text[64];
    snprintf(text, sizeof text, "%.0f", value);
    return set(r, key, ours, text, err);
}

/* A list of numbers, "1009254400,865075200": their sum and product; none: 0 and 1. divisor: of each
 * number, rounded down. */
static int list_of(const struct reading *r, const char *key, double divisor, double *sum,
                   double *product, struct stk_err *err)
{
    const char *p = kept(r, key);
    *sum = 0;
    *product = 1;
    for (char *end; p && *p; p = *end ? end + 1 : end) {
        double v = strtod(p, &end);
        if (end == p || (*end && *end != ',') || !(v >= 0) || v > 1e15)
            return refuse(r, key, err, "\"%.60s\" is not a list of numbers", kept(r, key));
        *sum += floor(v / divisor);
        *product *= v;
    }
    return 0;
}

/* Bytes of an element, by the names of numpy. */
static int element(const struct reading *r, double *out, struct stk_err *err)
{
    static const struct {
        const char *name;
        double bytes;
    } types[] = {{"uint8", 1},   {"int8", 1},    {"bool", 1},   {"uint16", 2},
                 {"int16", 2},   {"float16", 2}, {"uint32", 4}, {"int32", 4},
                 {"float32", 4}, {"uint64", 8},  {"int64", 8},  {"float64", 8}};
    const char *text = kept(r, "dataset.record_element_type");
    *out = 1;
    for (size_t i = 0; text && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, text) == 0) {
            *out = types[i].bytes;
            return 0;
        }
    return text ? refuse(r, "dataset.record_element_type", err, "\"%.60s\" is not replayed here",
                         text)
                : 0;
}

static bool is_on(const struct reading *r, const char *key)
{
    return is_true(kept(r, key));
}

static const char *either(const struct reading *r, const char *a, const char *b)
{
    const char *text = kept(r, a);
    return text ? text : kept(r, b);
}

/* ---- the dataset ---------------------------------------------------------------------------- */

static int translate_name(struct reading *r, struct stk_err *err)
{
    char name[64];
    const char *text = either(r, "model.name", "model");
    snprintf(name, sizeof name, "%s", text && *text ? text : "dlio");
    for (char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '-' && *p != '_')
            *p = '_';
    return set(r, "model.name", "name", name, err);
}

static const char *const lengths[] = {"dataset.record_length_bytes", "dataset.record_length", NULL};
static const char *const spreads[] = {"dataset.record_length_bytes_stdev",
                                      "dataset.record_length_stdev", "dataset.record_length_std",
                                      NULL};
#define RECORD_DEFAULT 65536.0

/* dataset.record_dims, or the length, which DLIO takes as a number of elements. */
static int translate_record(struct reading *r, double *bytes, struct stk_err *err)
{
    double mean, sd, one = 1, sum, dims;
    const char *key = lengths[0], *spread;
    char text[100];
    int rc = first_number(r, lengths, &key, &mean, err);
    rc = rc ? rc : first_number(r, spreads, &spread, &sd, err);
    rc = rc ? rc : element(r, &one, err);
    rc = rc ? rc : list_of(r, "dataset.record_dims", 1, &sum, &dims, err);
    if (rc < 0)
        return rc;
    if (kept(r, "dataset.record_dims"))
        mean = dims;
    *bytes = one * (mean > 0 ? mean : RECORD_DEFAULT);
    if (sd > 0)
        snprintf(text, sizeof text, "normal(%.0f, %.0f)", *bytes, one * sd);
    else
        snprintf(text, sizeof text, "%.0f", *bytes);
    return set(r, key, "dataset.record", text, err);
}

static int translate_chunk(struct reading *r, double *chunk, struct stk_err *err)
{
    double sum, dims, one = 1;
    int rc = number(r, "dataset.chunk_size", chunk, err);
    rc = rc ? rc : element(r, &one, err);
    rc = rc ? rc : list_of(r, "dataset.hdf5.chunk_dims", 1, &sum, &dims, err);
    if (rc < 0)
        return rc;
    if (!is_on(r, "dataset.enable_chunking"))
        *chunk = 0;
    if (kept(r, "dataset.hdf5.chunk_dims"))
        *chunk = dims * one;
    return *chunk > 0 && r->w->dataset.format == STK_BENCH_HDF5
               ? set_number(r, "dataset.chunk_size", "dataset.chunk", *chunk, err)
               : 0;
}

/* As DLIO's generators: NPZ files can be zipped, HDF5 files compressed by chunk, and CSV files as a
 * whole; the others are not compressed whatever the key says. */
static int translate_compression(struct reading *r, double record, double chunk,
                                 struct stk_err *err)
{
    static const char key[] = "dataset.compression";
    const char *how = kept(r, key);
    int format = r->w->dataset.format;
    if (!how || strcmp(how, "none") == 0)
        return 0;
    bool npz = format == STK_BENCH_NPZ, hdf5 = format == STK_BENCH_HDF5;
    if (format == STK_BENCH_CSV || (hdf5 && strcmp(how, "gzip") != 0))
        return refuse(r, key, err, "\"%.60s\" is not replayed here, only: %s", how,
                      hdf5 ? "none gzip" : "none, as lines are read from a CSV file");
    if ((!npz && !hdf5) || (npz && strcmp(how, "zip") != 0))
        return 0;
    int rc = set(r, key, "dataset.compression", "gzip", err);
    if (rc == 0 && hdf5 && !(chunk > 0)) /* h5py chooses a size; a sample is in its range */
        rc = set_number(r, key, "dataset.chunk", record, err);
    return rc;
}

static int translate_dataset(struct reading *r, struct stk_err *err)
{
    double record = 0, chunk = 0;
    int rc = translate_record(r, &record, err);
    rc = rc ? rc : translate_chunk(r, &chunk, err);
    return rc ? rc : translate_compression(r, record, chunk, err);
}

/* ---- the reader ----------------------------------------------------------------------------- */

static bool shuffles(const char *text)
{
    return text && strcasecmp(text, "off") != 0 && strcasecmp(text, "false") != 0;
}

/* TensorFlow gives files to ranks; the other loaders divide the samples, whatever files they are
 * in. */
static bool loads_by_file(const struct reading *r)
{
    const char *loader = either(r, "reader.data_loader", "framework");
    return !loader || strcmp(loader, "tensorflow") == 0;
}

/* DLIO itself does not look at reader.file_access. */
static int translate_sharing(struct reading *r, struct stk_err *err)
{
    const char *access = kept(r, "reader.file_access");
    bool collective = access && strcmp(access, "collective") == 0;
    bool own = loads_by_file(r) && !(access && strcmp(access, "shared") == 0);
    return set(r, "reader.file_access", "access.sharing",
               collective ? "collective"
               : own      ? "own"
                          : "shared",
               err);
}

/* numpy.load and a reader with an index ask for all of a sample at once; the others' buffers are
 * our default. */
static int translate_transfer(struct reading *r, struct stk_err *err)
{
    int format = r->w->dataset.format;
    bool at_once =
        format == STK_BENCH_NPY || format == STK_BENCH_INDEXED || format == STK_BENCH_MAPPED;
    return at_once && !kept(r, "reader.transfer_size") && !is_on(r, "reader.odirect")
               ? set(r, "reader.transfer_size", "access.transfer", "0", err)
               : 0;
}

#define PREFETCH_DEFAULT 2.0

/* PyTorch's workers read the same number of batches ahead each, two if the key is 0; TensorFlow's
 * pipeline reads that many. */
static int translate_prefetch(struct reading *r, struct stk_err *err)
{
    static const char key[] = "reader.prefetch_size";
    double n, threads = fmax(1, (double)r->w->reader.threads);
    int rc = number(r, key, &n, err);
    if (rc < 0)
        return rc;
    if (!kept(r, key))
        n = PREFETCH_DEFAULT;
    if (!loads_by_file(r))
        n = threads * (n > 0 ? ceil(n / threads) : PREFETCH_DEFAULT);
    return set_number(r, key, "reader.prefetch", fmax(1, n), err);
}

static int translate_reader(struct reading *r, struct stk_err *err)
{
    bool files = shuffles(kept(r, "reader.file_shuffle"));
    bool samples = shuffles(kept(r, "reader.sample_shuffle"));
    int rc = set(r, "reader.file_shuffle", "access.shuffle",
                 files && samples ? "both"
                 : files          ? "files"
                 : samples        ? "samples"
                                  : "none",
                 err);
    rc = rc ? rc : translate_sharing(r, err);
    rc = rc ? rc : translate_transfer(r, err);
    return rc ? rc : translate_prefetch(r, err);
}

/* ---- times ---------------------------------------------------------------------------------- */

static const char *part(const struct reading *r, const char *key, const char *name)
{
    char full[100];
    snprintf(full, sizeof full, "%s%s", key, name);
    return kept(r, full);
}

/* A number of seconds, a mean and a deviation, or a distribution of numpy by name. */
static int translate_time(struct reading *r, const char *key, const char *ours, struct stk_err *err)
{
    static const struct {
        const char *type, *a, *b;
    } known[] = {{"normal", ".mean", ".stdev"},
                 {"uniform", ".min", ".max"},
                 {"gamma", ".shape", ".scale"},
                 {"exponential", ".scale", NULL},
                 {"poisson", ".lam", NULL}};
    const char *type = part(r, key, ".type"), *a = NULL, *b = NULL;
    char text[200];
    for (size_t i = 0; type && i < sizeof known / sizeof *known; i++)
        if (strcmp(type, known[i].type) == 0) {
            a = part(r, key, known[i].a);
            b = known[i].b ? part(r, key, known[i].b) : NULL;
            if (!a || (known[i].b && !b))
                return refuse(r, key, err, "%s lacks %s", type,
                              a ? known[i].b + 1 : known[i].a + 1);
        }
    if (!type) {
        const char *mean = kept(r, key);
        a = mean ? mean : part(r, key, ".mean");
        b = part(r, key, "_stdev") ? part(r, key, "_stdev") : part(r, key, ".stdev");
        type = b ? "normal" : "constant";
        a = a ? a : "0";
    }
    if (!a)
        return refuse(r, key, err,
                      "\"%.60s\" is not replayed here, only: normal uniform gamma "
                      "exponential poisson",
                      type);
    snprintf(text, sizeof text, b ? "%.40s(%.60s, %.60s)" : "%.40s(%.60s)", type, a, b ? b : "");
    return set(r, key, ours, text, err);
}

/* Over all epochs: they follow each other without a pause. */
static int translate_steps(struct reading *r, struct stk_err *err)
{
    double steps;
    int rc = number(r, "train.total_training_steps", &steps, err);
    return rc == 0 && steps > 0
               ? set_number(r, "train.total_training_steps", "training.most_steps", steps, err)
               : rc;
}

static int translate_evaluation(struct reading *r, struct stk_err *err)
{
    const char *files = kept(r, "dataset.num_files_eval");
    const char *folders = kept(r, "dataset.num_subfolders_eval");
    const char *every = kept(r, "evaluation.epochs_between_evals");
    if (!is_on(r, "workflow.evaluation"))
        return 0;
    int rc = set(r, "dataset.num_files_eval", "dataset.eval_files", files ? files : "0", err);
    if (rc == 0 && folders)
        rc = set(r, "dataset.num_subfolders_eval", "dataset.eval_folders", folders, err);
    rc = rc ? rc : translate_time(r, "evaluation.eval_time", "training.eval_compute", err);
    return rc ? rc
              : set(r, "evaluation.epochs_between_evals", "training.eval_every",
                    every ? every : "1", err);
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

/* Old files give the parameters of a layer and the groups of the optimizer, in bytes; of each group
 * three tensors are written. */
static int translate_sizes(struct reading *r, struct stk_err *err)
{
    double layer, groups, product;
    double tensor = (double)r->w->model.tensor;
    int rc = list_of(r, "model.layer_parameters", tensor, &layer, &product, err);
    rc = rc ? rc : list_of(r, "model.optimization_groups", 1, &groups, &product, err);
    if (rc == 0 && layer > 0)
        rc = set_number(r, "model.layer_parameters", "model.layer_size", layer * tensor, err);
    if (rc == 0 && groups > 0)
        rc = set_number(r, "model.optimization_groups", "model.optimizer_size", 3 * groups, err);
    return rc;
}

static int translate_data(struct reading *r, struct stk_err *err)
{
    static const char key[] = "model.parallelism.data";
    const char *mode = kept(r, "checkpoint.mode");
    double copies;
    int rc = number(r, key, &copies, err);
    if (rc == 0 && mode && strcmp(mode, "subset") == 0 && !(copies > 0))
        return refuse(r, "checkpoint.mode", err, "\"subset\" needs %s, the copies of the whole job",
                      key);
    return rc == 0 && copies > 0 ? set_number(r, key, "model.data", copies, err) : rc;
}

#define MODEL_DEFAULT 10240.0

/* The files of a large model follow from its layers, else there is one of its size. */
static int translate_model(struct reading *r, struct stk_err *err)
{
    static const char *const sizes[] = {"model.model_size_bytes", "model.model_size",
                                        "checkpoint.model_size", NULL};
    double layers = 0, size = 0;
    const char *key = sizes[0];
    int rc = number(r, "model.num_layers", &layers, err);
    rc = rc ? rc : first_number(r, sizes, &key, &size, err);
    if (rc < 0)
        return rc;
    if (!(layers > 0))
        return set_number(r, key, "checkpoint.files", size > 0 ? size : MODEL_DEFAULT, err);
    rc = set_number(r, "model.num_layers", "model.layers", layers, err);
    rc = rc ? rc : translate_sizes(r, err);
    return rc ? rc : translate_data(r, err);
}

static int translate_schedule(struct reading *r, struct stk_err *err)
{
    static const char by_steps[] = "checkpoint.steps_between_checkpoints";
    static const char by_epochs[] = "checkpoint.epochs_between_checkpoints";
    static const char after_epoch[] = "checkpoint.checkpoint_after_epoch";
    double after, every, steps;
    int rc = number(r, after_epoch, &after, err);
    rc = rc ? rc : number(r, by_epochs, &every, err);
    rc = rc ? rc : number(r, by_steps, &steps, err);
    if (rc == 0 && steps > 0)
        return set_number(r, by_steps, "checkpoint.every", steps, err);
    rc = rc ? rc : set_number(r, by_epochs, "checkpoint.every_epochs", fmax(1, every), err);
    return rc ? rc : set_number(r, after_epoch, "checkpoint.first_epoch", fmax(1, after), err);
}

static int translate_checkpoint(struct reading *r, struct stk_err *err)
{
    static const char folder[] = "checkpoint.checkpoint_folder";
    double restores;
    if (!is_on(r, "workflow.checkpoint"))
        return 0;
    int rc = kept(r, folder) ? set(r, folder, "checkpoint.dir", kept(r, folder), err) : 0;
    rc = rc ? rc : number(r, "checkpoint.num_checkpoints_read", &restores, err);
    rc = rc ? rc : translate_model(r, err);
    if (rc == 0 && restores > 0)
        rc = set_number(r, "checkpoint.num_checkpoints_read", "checkpoint.restores", restores, err);
    return rc ? rc : translate_schedule(r, err);
}

/* ---- without training ----------------------------------------------------------------------- */

/* Checkpoints, one after another, with a pause between them. */
static int only_checkpoints(struct reading *r, struct stk_err *err)
{
    static const char count[] = "checkpoint.num_checkpoints_write";
    static const char pause[] = "checkpoint.time_between_checkpoints";
    double n, s;
    int rc = number(r, count, &n, err);
    rc = rc ? rc : number(r, pause, &s, err);
    if (rc == 0 && !(n > 0))
        return refuse(r, count, err,
                      "without training, at least one checkpoint is written: those that "
                      "are read are its own");
    rc = rc ? rc : set(r, "workflow.train", "dataset.format", "none", err);
    rc = rc ? rc : set(r, "workflow.train", "dataset.compression", "none", err);
    rc = rc ? rc : set(r, "workflow.train", "dataset.chunk", "0", err);
    rc = rc ? rc : set_number(r, count, "training.steps", n, err);
    rc = rc ? rc : set(r, "workflow.train", "checkpoint.every", "1", err);
    rc = rc ? rc : set(r, "workflow.train", "checkpoint.every_epochs", "0", err);
    return rc || !(s > 0) ? rc : set(r, pause, "training.compute", kept(r, pause), err);
}

static int translate_only(struct reading *r, struct stk_err *err)
{
    const char *train = kept(r, "workflow.train");
    if (!train || is_true(train))
        return 0;
    if (is_on(r, "workflow.checkpoint"))
        return only_checkpoints(r, err);
    r->d->generate_only = is_on(r, "workflow.generate_data");
    return r->d->generate_only ? 0
                               : refuse(r, "workflow.train", err,
                                        "\"%.20s\" leaves nothing to run without "
                                        "workflow.generate_data or workflow.checkpoint",
                                        train);
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* dataset.data_folder in storage.storage_root, unless it is absolute. */
static int translate_folder(struct reading *r, struct stk_err *err)
{
    const char *root = kept(r, "storage.storage_root"), *folder = kept(r, "dataset.data_folder");
    char joined[1200];
    if (!folder || !root || folder[0] == '/') {
        r->d->data = folder;
        return 0;
    }
    size_t n = (size_t)snprintf(joined, sizeof joined, "%s/%s", root, folder);
    if (n >= sizeof joined)
        return refuse(r, "storage.storage_root", err, "the name is too long");
    r->d->data = stk_arena_dup(&r->w->arena, joined, n);
    return r->d->data ? 0 : stk_err_nomem(err, n);
}

/* All that takes more than one key. */
static int translate(struct reading *r, struct stk_err *err)
{
    int rc = translate_name(r, err);
    rc = rc ? rc : translate_dataset(r, err);
    rc = rc ? rc : translate_reader(r, err);
    rc = rc ? rc : translate_time(r, "reader.preprocess_time", "reader.think", err);
    rc = rc ? rc : set(r, "reader.preprocess_time", "reader.think_as", "sleep", err);
    rc = rc ? rc : translate_time(r, "train.computation_time", "training.compute", err);
    rc = rc ? rc : translate_steps(r, err);
    rc = rc ? rc : translate_checkpoint(r, err);
    rc = rc ? rc : translate_evaluation(r, err);
    rc = rc ? rc : translate_only(r, err);
    rc = rc ? rc : number(r, "metric.au", &r->d->au, err);
    r->d->generate = is_on(r, "workflow.generate_data");
    return rc ? rc : translate_folder(r, err);
}

/* DLIO's defaults that are not ours. */
static const char *const defaults[] = {
    "dataset.format=tfrecord", "dataset.files=8",       "model.hidden=2048",
    "model.ffn=8192",          "training.eval_batch=1",
};

void stk_dlio_release(struct stk_dlio *d)
{
    stk_buf_release(&d->unused);
}

/* ---- refusing ------------------------------------------------------------------------------- */

static int unknown(const struct reading *r, unsigned line, const char *key, struct stk_err *err)
{
    const char *names[ROWS_MAX + 1];
    char why[200];
    for (size_t i = 0; i < ROWS; i++)
        names[i] = rows[i].key;
    names[ROWS] = NULL;
    const char *near = stk_text_nearest(key, names);
    snprintf(why, sizeof why, "this key of DLIO is not replayed here%s%s%s",
             near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    return refuse_at(r, line, key, err, why);
}

/* The value is none of the words of `list`: a=b for PICKS, whose first word is our key. */
static int not_listed(const struct reading *r, const struct row *row, const char *value,
                      struct stk_err *err)
{
    char words[300] = "";
    size_t n = 0;
    const char *p = row->arg + (row->how == PICKS ? strcspn(row->arg, " ") + 1 : 0);
    for (size_t len; *p && n < sizeof words - 40; p += len, p += strspn(p, " ")) {
        len = strcspn(p, " ");
        n += (size_t)snprintf(words + n, sizeof words - n, " %.*s", (int)strcspn(p, "= "), p);
    }
    return refuse(r, row->key, err, "\"%.60s\" is not replayed here, only:%s%s%s", value, words,
                  row->why ? "; " : "", row->why ? row->why : "");
}

/* ---- single keys ---------------------------------------------------------------------------- */

/* The word of the list that is the value, or has it before a "=". True and False are written in
 * any case. NULL: none. */
static const char *listed(const char *list, const char *value)
{
    size_t n = strlen(value);
    for (const char *p = list; *p; p += strcspn(p, " "), p += *p == ' ')
        if (strncasecmp(p, value, n) == 0 && (p[n] == ' ' || p[n] == '\0' || p[n] == '='))
            return p;
    return NULL;
}

static int pick(struct reading *r, const struct row *row, const char *value, struct stk_err *err)
{
    char ours[64], to[64];
    size_t n = strcspn(row->arg, " ");
    snprintf(ours, sizeof ours, "%.*s", (int)n, row->arg);
    const char *p = listed(row->arg + n + 1, value);
    if (!p)
        return not_listed(r, row, value, err);
    p += strlen(value) + 1;
    snprintf(to, sizeof to, "%.*s", (int)strcspn(p, " "), p);
    return set(r, row->key, ours, to, err);
}

static int apply(struct reading *r, const struct row *row, const char *value, struct stk_err *err)
{
    switch (row->how) {
    case SETS:
        return set(r, row->key, row->arg, value, err);
    case PICKS:
        return pick(r, row, value, err);
    case ALLOWS:
        return listed(row->arg, value) ? 0 : not_listed(r, row, value, err);
    case REFUSES:
        return refuse(r, row->key, err, "%s", row->why);
    case SKIPS:
        stk_buf_printf(&r->d->unused, "%s%s", r->d->unused.len ? ", " : "", row->key);
        return 0;
    case KEEPS:
    case RENAMES:
        break;
    }
    return 0;
}

#define OLD_SECTION "data_reader." /* of the section reader */

/* The row of a key, also under an old name; -1: none. */
static int row_of_any(const char *key)
{
    char name[200];
    bool old = strncmp(key, OLD_SECTION, strlen(OLD_SECTION)) == 0;
    snprintf(name, sizeof name, "%s%s", old ? "reader." : "",
             key + (old ? strlen(OLD_SECTION) : 0));
    int i = row_of(name);
    return i >= 0 && rows[i].how == RENAMES ? row_of(rows[i].arg) : i;
}

static int take(struct reading *r, const char *key, const char *value, unsigned line,
                struct stk_err *err)
{
    int i = row_of_any(key);
    if (i < 0)
        return unknown(r, line, key, err);
    r->line[i] = line;
    r->value[i] = NULL;
    if (!*value || strcmp(value, "null") == 0)
        return 0; /* DLIO's default */
    r->value[i] = stk_arena_dup(&r->w->arena, value, strlen(value));
    return r->value[i] ? apply(r, &rows[i], value, err) : stk_err_nomem(err, strlen(value));
}

/* "reader.batch_size=4" of "++workload.reader.batch_size=4" */
static const char *name_of_change(const char *text)
{
    text += strspn(text, "+");
    return text + (strncmp(text, "workload.", 9) == 0 ? 9 : 0);
}

static int take_change(struct reading *r, const char *text, struct stk_err *err)
{
    char key[200], value[400];
    text = name_of_change(text);
    size_t n = strcspn(text, "="), len = strlen(text + n);
    if (!text[n] || n >= sizeof key || len >= sizeof value)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "\"%.100s\" is not key=value, such as reader.batch_size=4", text);
    snprintf(key, sizeof key, "%.*s", (int)n, text);
    bool list = text[n + 1] == '[' && text[n + len - 1] == ']'; /* [1, 2] as in a file */
    snprintf(value, sizeof value, "%.*s", (int)(list ? len - 3 : len - 1), text + n + 1 + list);
    return take(r, key, value, 0, err);
}

/* ---- the file ------------------------------------------------------------------------------- */

/* Whether the command line sets the key. */
static bool is_changed(const char *key, const char *const *changes, size_t n)
{
    size_t len = strlen(key);
    for (size_t i = 0; i < n; i++) {
        const char *name = name_of_change(changes[i]);
        if (strncmp(name, key, len) == 0 && name[len] == '=')
            return true;
    }
    return false;
}

static int take_all(struct reading *r, const struct stk_yaml *y, const char *const *changes,
                    size_t n, struct stk_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < y->n && rc == 0; i++)
        if (!is_changed(y->item[i].key, changes, n))
            rc = take(r, y->item[i].key, y->item[i].value, y->item[i].line, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = take_change(r, changes[i], err);
    return rc;
}

int stk_dlio_parse(const char *text, size_t len, const char *name, const char *const *changes,
                   size_t n, struct stk_workload *w, struct stk_dlio *d, struct stk_err *err)
{
    struct reading r = {.w = w, .d = d, .path = name};
    struct stk_yaml y = {0};
    struct stk_err why = {0};
    *d = (struct stk_dlio){0};
    int rc = stk_workload_default(w, err);
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults && rc == 0; i++)
        rc = stk_workload_set(w, defaults[i], err);
    int broken = rc ? 0 : stk_yaml_parse(text, len, name, &y, &why);
    /* A key before the damage may say more: a format that is refused brings odd keys. */
    rc = rc ? rc : take_all(&r, &y, changes, n, err);
    if (rc == 0 && broken < 0) {
        rc = broken;
        if (err)
            *err = why;
    }
    rc = rc ? rc : translate(&r, err);
    stk_yaml_release(&y);
    return rc;
}

int stk_dlio_read(const char *path, const char *const *changes, size_t n, struct stk_workload *w,
                  struct stk_dlio *d, struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    *w = (struct stk_workload){0};
    *d = (struct stk_dlio){0};
    int rc = stk_read_file(path, STK_WORKLOAD_MAX, &text, err);
    if (rc == 0)
        rc = stk_dlio_parse((const char *)text.data, text.len, path, changes, n, w, d, err);
    stk_buf_release(&text);
    return rc;
}
