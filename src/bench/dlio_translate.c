/* dlio_translate.c - see dlio_priv.h: the sizes, times, orders and checkpoints of DLIO's files, each
 * of which follows from several keys. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "bench/dlio_priv.h"

typedef struct stk_dlio_reading reading;

static const char *kept(const reading *r, const char *key)
{
    return stk_dlio_kept(r, key);
}

static bool is_on(const reading *r, const char *key)
{
    return stk_dlio_is_true(kept(r, key));
}

static const char *either(const reading *r, const char *a, const char *b)
{
    const char *text = kept(r, a);
    return text ? text : kept(r, b);
}

/* ---- the dataset ---------------------------------------------------------------------------- */

static int translate_name(reading *r, struct stk_err *err)
{
    char name[64];
    const char *text = either(r, "model.name", "model");
    snprintf(name, sizeof name, "%s", text && *text ? text : "dlio");
    for (char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '-' && *p != '_')
            *p = '_';
    return stk_dlio_set(r, "model.name", "name", name, err);
}

static const char *const lengths[] = {"dataset.record_length_bytes", "dataset.record_length", NULL};
static const char *const spreads[] = {"dataset.record_length_bytes_stdev",
                                      "dataset.record_length_stdev", "dataset.record_length_std",
                                      NULL};
#define RECORD_DEFAULT 65536.0

/* dataset.record_dims, or the length, which DLIO takes as a number of elements. */
static int translate_record(reading *r, double *bytes, struct stk_err *err)
{
    double mean, sd, one = 1, sum, dims;
    const char *key = lengths[0], *spread;
    char text[100];
    int rc = stk_dlio_first_number(r, lengths, &key, &mean, err);
    rc = rc ? rc : stk_dlio_first_number(r, spreads, &spread, &sd, err);
    rc = rc ? rc : stk_dlio_element(r, &one, err);
    rc = rc ? rc : stk_dlio_list(r, "dataset.record_dims", 1, &sum, &dims, err);
    if (rc < 0)
        return rc;
    if (kept(r, "dataset.record_dims"))
        mean = dims;
    *bytes = one * (mean > 0 ? mean : RECORD_DEFAULT);
    if (sd > 0)
        snprintf(text, sizeof text, "normal(%.0f, %.0f)", *bytes, one * sd);
    else
        snprintf(text, sizeof text, "%.0f", *bytes);
    return stk_dlio_set(r, key, "dataset.record", text, err);
}

static int translate_chunk(reading *r, double *chunk, struct stk_err *err)
{
    double sum, dims, one = 1;
    int rc = stk_dlio_number(r, "dataset.chunk_size", chunk, err);
    rc = rc ? rc : stk_dlio_element(r, &one, err);
    rc = rc ? rc : stk_dlio_list(r, "dataset.hdf5.chunk_dims", 1, &sum, &dims, err);
    if (rc < 0)
        return rc;
    if (!is_on(r, "dataset.enable_chunking"))
        *chunk = 0;
    if (kept(r, "dataset.hdf5.chunk_dims"))
        *chunk = dims * one;
    return *chunk > 0 && r->w->dataset.format == STK_BENCH_HDF5
               ? stk_dlio_set_number(r, "dataset.chunk_size", "dataset.chunk", *chunk, err)
               : 0;
}

/* As DLIO's generators: NPZ files can be zipped, HDF5 files compressed by chunk, and CSV files as a
 * whole; the others are not compressed whatever the key says. */
static int translate_compression(reading *r, double record, double chunk, struct stk_err *err)
{
    static const char key[] = "dataset.compression";
    const char *how = kept(r, key);
    int format = r->w->dataset.format;
    if (!how || strcmp(how, "none") == 0)
        return 0;
    bool npz = format == STK_BENCH_NPZ, hdf5 = format == STK_BENCH_HDF5;
    if (format == STK_BENCH_CSV || (hdf5 && strcmp(how, "gzip") != 0))
        return stk_dlio_refuse(r, key, err, "\"%.60s\" is not replayed here, only: %s", how,
                               hdf5 ? "none gzip" : "none, as lines are read from a CSV file");
    if ((!npz && !hdf5) || (npz && strcmp(how, "zip") != 0))
        return 0;
    int rc = stk_dlio_set(r, key, "dataset.compression", "gzip", err);
    if (rc == 0 && hdf5 && !(chunk > 0)) /* h5py chooses a size; a sample is in its range */
        rc = stk_dlio_set_number(r, key, "dataset.chunk", record, err);
    return rc;
}

static int translate_dataset(reading *r, struct stk_err *err)
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
static bool loads_by_file(const reading *r)
{
    const char *loader = either(r, "reader.data_loader", "framework");
    return !loader || strcmp(loader, "tensorflow") == 0;
}

/* DLIO itself does not look at reader.file_access. */
static int translate_sharing(reading *r, struct stk_err *err)
{
    const char *access = kept(r, "reader.file_access");
    bool collective = access && strcmp(access, "collective") == 0;
    bool own = loads_by_file(r) && !(access && strcmp(access, "shared") == 0);
    return stk_dlio_set(r, "reader.file_access", "access.sharing",
                        collective ? "collective"
                        : own      ? "own"
                                   : "shared",
                        err);
}

/* numpy.load and a reader with an index ask for all of a sample at once; the others' buffers are
 * our default. */
static int translate_transfer(reading *r, struct stk_err *err)
{
    int format = r->w->dataset.format;
    bool at_once = format == STK_BENCH_NPY || format == STK_BENCH_INDEXED ||
                   format == STK_BENCH_MAPPED;
    return at_once && !kept(r, "reader.transfer_size") && !is_on(r, "reader.odirect")
               ? stk_dlio_set(r, "reader.transfer_size", "access.transfer", "0", err)
               : 0;
}

#define PREFETCH_DEFAULT 2.0

/* PyTorch's workers read the same number of batches ahead each, two if the key is 0; TensorFlow's
 * pipeline reads that many. */
static int translate_prefetch(reading *r, struct stk_err *err)
{
    static const char key[] = "reader.prefetch_size";
    double n, threads = fmax(1, (double)r->w->reader.threads);
    int rc = stk_dlio_number(r, key, &n, err);
    if (rc < 0)
        return rc;
    if (!kept(r, key))
        n = PREFETCH_DEFAULT;
    if (!loads_by_file(r))
        n = threads * (n > 0 ? ceil(n / threads) : PREFETCH_DEFAULT);
    return stk_dlio_set_number(r, key, "reader.prefetch", fmax(1, n), err);
}

static int translate_reader(reading *r, struct stk_err *err)
{
    bool files = shuffles(kept(r, "reader.file_shuffle"));
    bool samples = shuffles(kept(r, "reader.sample_shuffle"));
    int rc = stk_dlio_set(r, "reader.file_shuffle", "access.shuffle",
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

static const char *part(const reading *r, const char *key, const char *name)
{
    char full[100];
    snprintf(full, sizeof full, "%s%s", key, name);
    return kept(r, full);
}

/* A number of seconds, a mean and a deviation, or a distribution of numpy by name. */
static int translate_time(reading *r, const char *key, const char *ours, struct stk_err *err)
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
                return stk_dlio_refuse(r, key, err, "%s lacks %s", type,
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
        return stk_dlio_refuse(r, key, err,
                               "\"%.60s\" is not replayed here, only: normal uniform gamma "
                               "exponential poisson",
                               type);
    snprintf(text, sizeof text, b ? "%.40s(%.60s, %.60s)" : "%.40s(%.60s)", type, a, b ? b : "");
    return stk_dlio_set(r, key, ours, text, err);
}

/* Over all epochs: they follow each other without a pause. */
static int translate_steps(reading *r, struct stk_err *err)
{
    double steps;
    int rc = stk_dlio_number(r, "train.total_training_steps", &steps, err);
    return rc == 0 && steps > 0
               ? stk_dlio_set_number(r, "train.total_training_steps", "training.most_steps", steps, err)
               : rc;
}

static int translate_evaluation(reading *r, struct stk_err *err)
{
    const char *files = kept(r, "dataset.num_files_eval");
    const char *folders = kept(r, "dataset.num_subfolders_eval");
    const char *every = kept(r, "evaluation.epochs_between_evals");
    if (!is_on(r, "workflow.evaluation"))
        return 0;
    int rc = stk_dlio_set(r, "dataset.num_files_eval", "dataset.eval_files", files ? files : "0",
                          err);
    if (rc == 0 && folders)
        rc = stk_dlio_set(r, "dataset.num_subfolders_eval", "dataset.eval_folders", folders, err);
    rc = rc ? rc : translate_time(r, "evaluation.eval_time", "training.eval_compute", err);
    return rc ? rc
              : stk_dlio_set(r, "evaluation.epochs_between_evals", "training.eval_every",
                             every ? every : "1", err);
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

/* Old files give the parameters of a layer and the groups of the optimizer, in bytes; of each group
 * three tensors are written. */
static int translate_sizes(reading *r, struct stk_err *err)
{
    double layer, groups, product;
    double tensor = (double)r->w->model.tensor;
    int rc = stk_dlio_list(r, "model.layer_parameters", tensor, &layer, &product, err);
    rc = rc ? rc : stk_dlio_list(r, "model.optimization_groups", 1, &groups, &product, err);
    if (rc == 0 && layer > 0)
        rc = stk_dlio_set_number(r, "model.layer_parameters", "model.layer_size", layer * tensor, err);
    if (rc == 0 && groups > 0)
        rc = stk_dlio_set_number(r, "model.optimization_groups", "model.optimizer_size", 3 * groups, err);
    return rc;
}

static int translate_data(reading *r, struct stk_err *err)
{
    static const char key[] = "model.parallelism.data";
    const char *mode = kept(r, "checkpoint.mode");
    double copies;
    int rc = stk_dlio_number(r, key, &copies, err);
    if (rc == 0 && mode && strcmp(mode, "subset") == 0 && !(copies > 0))
        return stk_dlio_refuse(r, "checkpoint.mode", err,
                               "\"subset\" needs %s, the copies of the whole job", key);
    return rc == 0 && copies > 0 ? stk_dlio_set_number(r, key, "model.data", copies, err) : rc;
}

#define MODEL_DEFAULT 10240.0

/* The files of a large model follow from its layers, else there is one of its size. */
static int translate_model(reading *r, struct stk_err *err)
{
    static const char *const sizes[] = {"model.model_size_bytes", "model.model_size",
                                        "checkpoint.model_size", NULL};
    double layers = 0, size = 0;
    const char *key = sizes[0];
    int rc = stk_dlio_number(r, "model.num_layers", &layers, err);
    rc = rc ? rc : stk_dlio_first_number(r, sizes, &key, &size, err);
    if (rc < 0)
        return rc;
    if (!(layers > 0))
        return stk_dlio_set_number(r, key, "checkpoint.files", size > 0 ? size : MODEL_DEFAULT, err);
    rc = stk_dlio_set_number(r, "model.num_layers", "model.layers", layers, err);
    rc = rc ? rc : translate_sizes(r, err);
    return rc ? rc : translate_data(r, err);
}

static int translate_schedule(reading *r, struct stk_err *err)
{
    static const char by_steps[] = "checkpoint.steps_between_checkpoints";
    static const char by_epochs[] = "checkpoint.epochs_between_checkpoints";
    static const char after_epoch[] = "checkpoint.checkpoint_after_epoch";
    double after, every, steps;
    int rc = stk_dlio_number(r, after_epoch, &after, err);
    rc = rc ? rc : stk_dlio_number(r, by_epochs, &every, err);
    rc = rc ? rc : stk_dlio_number(r, by_steps, &steps, err);
    if (rc == 0 && steps > 0)
        return stk_dlio_set_number(r, by_steps, "checkpoint.every", steps, err);
    rc = rc ? rc : stk_dlio_set_number(r, by_epochs, "checkpoint.every_epochs", fmax(1, every), err);
    return rc ? rc : stk_dlio_set_number(r, after_epoch, "checkpoint.first_epoch", fmax(1, after), err);
}

static int translate_checkpoint(reading *r, struct stk_err *err)
{
    static const char folder[] = "checkpoint.checkpoint_folder";
    double restores;
    if (!is_on(r, "workflow.checkpoint"))
        return 0;
    int rc = kept(r, folder) ? stk_dlio_set(r, folder, "checkpoint.dir", kept(r, folder), err) : 0;
    rc = rc ? rc : stk_dlio_number(r, "checkpoint.num_checkpoints_read", &restores, err);
    rc = rc ? rc : translate_model(r, err);
    if (rc == 0 && restores > 0)
        rc = stk_dlio_set_number(r, "checkpoint.num_checkpoints_read", "checkpoint.restores", restores, err);
    return rc ? rc : translate_schedule(r, err);
}

/* ---- without training ----------------------------------------------------------------------- */

/* Checkpoints, one after another, with a pause between them. */
static int only_checkpoints(reading *r, struct stk_err *err)
{
    static const char count[] = "checkpoint.num_checkpoints_write";
    static const char pause[] = "checkpoint.time_between_checkpoints";
    double n, s;
    int rc = stk_dlio_number(r, count, &n, err);
    rc = rc ? rc : stk_dlio_number(r, pause, &s, err);
    if (rc == 0 && !(n > 0))
        return stk_dlio_refuse(r, count, err,
                               "without training, at least one checkpoint is written: those that "
                               "are read are its own");
    rc = rc ? rc : stk_dlio_set(r, "workflow.train", "dataset.format", "none", err);
    rc = rc ? rc : stk_dlio_set(r, "workflow.train", "dataset.compression", "none", err);
    rc = rc ? rc : stk_dlio_set(r, "workflow.train", "dataset.chunk", "0", err);
    rc = rc ? rc : stk_dlio_set_number(r, count, "training.steps", n, err);
    rc = rc ? rc : stk_dlio_set(r, "workflow.train", "checkpoint.every", "1", err);
    rc = rc ? rc : stk_dlio_set(r, "workflow.train", "checkpoint.every_epochs", "0", err);
    return rc || !(s > 0) ? rc : stk_dlio_set(r, pause, "training.compute", kept(r, pause), err);
}

static int translate_only(reading *r, struct stk_err *err)
{
    const char *train = kept(r, "workflow.train");
    if (!train || stk_dlio_is_true(train))
        return 0;
    if (is_on(r, "workflow.checkpoint"))
        return only_checkpoints(r, err);
    r->d->generate_only = is_on(r, "workflow.generate_data");
    return r->d->generate_only ? 0
                               : stk_dlio_refuse(r, "workflow.train", err,
                                                 "\"%.20s\" leaves nothing to run without "
                                                 "workflow.generate_data or workflow.checkpoint",
                                                 train);
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* dataset.data_folder in storage.storage_root, unless it is absolute. */
static int translate_folder(reading *r, struct stk_err *err)
{
    const char *root = kept(r, "storage.storage_root"), *folder = kept(r, "dataset.data_folder");
    char joined[1200];
    if (!folder || !root || folder[0] == '/') {
        r->d->data = folder;
        return 0;
    }
    size_t n = (size_t)snprintf(joined, sizeof joined, "%s/%s", root, folder);
    if (n >= sizeof joined)
        return stk_dlio_refuse(r, "storage.storage_root", err, "the name is too long");
    r->d->data = stk_arena_dup(&r->w->arena, joined, n);
    return r->d->data ? 0 : stk_err_nomem(err, n);
}

int stk_dlio_translate(struct stk_dlio_reading *r, struct stk_err *err)
{
    int rc = translate_name(r, err);
    rc = rc ? rc : translate_dataset(r, err);
    rc = rc ? rc : translate_reader(r, err);
    rc = rc ? rc : translate_time(r, "reader.preprocess_time", "reader.think", err);
    rc = rc ? rc : stk_dlio_set(r, "reader.preprocess_time", "reader.think_as", "sleep", err);
    rc = rc ? rc : translate_time(r, "train.computation_time", "training.compute", err);
    rc = rc ? rc : translate_steps(r, err);
    rc = rc ? rc : translate_checkpoint(r, err);
    rc = rc ? rc : translate_evaluation(r, err);
    rc = rc ? rc : translate_only(r, err);
    rc = rc ? rc : stk_dlio_number(r, "metric.au", &r->d->au, err);
    r->d->generate = is_on(r, "workflow.generate_data");
    return rc ? rc : translate_folder(r, err);
}
