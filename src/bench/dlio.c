/* dlio.c - see dlio.h. The keys are those of DLIO's documentation and of its LoadConfig. */
#include "bench/dlio.h"

#include <stdio.h>
#include <strings.h>

#include "base/file.h"
#include "base/text.h"
#include "bench/dlio_priv.h"
#include "bench/yaml.h"

/* What to do with a key. */
enum how {
    SETS,    /* sets the key `arg` of a workload */
    PICKS,   /* sets the first word of `arg` to what stands behind the value: "KEY a=b c=d" */
    KEEPS,   /* kept for stk_dlio_translate() */
    ALLOWS,  /* kept, but only the values in `arg`, separated by blanks */
    REFUSES, /* whatever its value */
    UNUSED,  /* no effect on I/O */
};

struct row {
    const char *key;
    enum how how;
    const char *arg;
    const char *why; /* reason for a refusal; may be NULL */
};

/* A time: a number, or a distribution. */
#define TIME(key_)                                                                                 \
    {key_, KEEPS, NULL, NULL}, {key_ "_stdev", KEEPS, NULL, NULL},                                 \
        {key_ ".type", KEEPS, NULL, NULL}, {key_ ".mean", KEEPS, NULL, NULL},                      \
        {key_ ".stdev", KEEPS, NULL, NULL}, {key_ ".min", KEEPS, NULL, NULL},                      \
        {key_ ".max", KEEPS, NULL, NULL}, {key_ ".shape", KEEPS, NULL, NULL},                      \
        {key_ ".scale", KEEPS, NULL, NULL}, {key_ ".lam", KEEPS, NULL, NULL}

static const char a_class[] = "classes of Python are not run here";

static const struct row rows[] = {
    {"model", KEEPS, NULL, NULL}, /* the name, in old files */
    {"model.name", KEEPS, NULL, NULL},
    {"model.type", UNUSED, NULL, NULL},
    {"model.model_size", KEEPS, NULL, NULL},
    {"model.model_size_bytes", KEEPS, NULL, NULL},
    {"model.num_layers", KEEPS, NULL, NULL},
    {"model.layer_parameters", KEEPS, NULL, NULL},
    {"model.optimization_groups", KEEPS, NULL, NULL},
    {"model.parallelism.tensor", SETS, "model.tensor", NULL},
    {"model.parallelism.pipeline", SETS, "model.pipeline", NULL},
    {"model.parallelism.data", KEEPS, NULL, NULL},
    {"model.parallelism.zero_stage", SETS, "model.zero", NULL},
    {"model.transformer.hidden_size", SETS, "model.hidden", NULL},
    {"model.transformer.ffn_hidden_size", SETS, "model.ffn", NULL},
    {"model.transformer.vocab_size", SETS, "model.vocabulary", NULL},
    {"model.transformer.num_attention_heads", SETS, "model.heads", NULL},
    {"model.transformer.num_kv_heads", SETS, "model.kv_heads", NULL},
    {"model.model_datatype", PICKS, "model.weight int8=1 uint8=1 fp16=2 bf16=2 fp32=4 fp64=8",
     NULL},
    /* Three values per parameter. */
    {"model.optimizer_datatype", PICKS,
     "model.optimizer int8=3 uint8=3 fp16=6 bf16=6 fp32=12 fp64=24", NULL},

    {"framework", ALLOWS, "tensorflow pytorch", NULL},

    {"workflow.generate_data", KEEPS, NULL, NULL},
    {"workflow.train", KEEPS, NULL, NULL},
    {"workflow.evaluation", KEEPS, NULL, NULL},
    {"workflow.checkpoint", KEEPS, NULL, NULL},
    {"workflow.profiling", UNUSED, NULL, NULL},
    {"workflow.debug", UNUSED, NULL, NULL},
    {"workflow.do_eval", UNUSED, NULL, NULL}, /* in old files; DLIO does not read it */

    {"storage.storage_type", ALLOWS, "local_fs parallel_fs",
     "objects of a store are not read through a file system"},
    {"storage.storage_root", KEEPS, NULL, NULL},
    {"storage.storage_options", UNUSED, NULL, NULL},
    {"storage.storage_options.access_key_id", UNUSED, NULL, NULL},
    {"storage.storage_options.secret_access_key", UNUSED, NULL, NULL},
    {"storage.storage_options.endpoint_url", UNUSED, NULL, NULL},
    {"storage.storage_options.region", UNUSED, NULL, NULL},
    {"storage.storage_options.s3_force_path_style", UNUSED, NULL, NULL},
    {"storage.storage_options.s3_max_attempts", UNUSED, NULL, NULL},

    {"dataset.data_folder", KEEPS, NULL, NULL},
    {"dataset.format", PICKS,
     "dataset.format tfrecord=tfrecord hdf5=hdf5 hdf5_opt=hdf5 csv=csv npz=npz npy=npy jpeg=files "
     "png=files indexed_binary=indexed mmap_indexed_binary=mapped",
     NULL},
    {"dataset.num_files_train", SETS, "dataset.files", NULL},
    {"dataset.num_files_eval", KEEPS, NULL, NULL},
    {"dataset.num_samples_per_file", SETS, "dataset.samples_per_file", NULL},
    {"dataset.record_length", KEEPS, NULL, NULL},
    {"dataset.record_length_bytes", KEEPS, NULL, NULL},
    {"dataset.record_length_stdev", KEEPS, NULL, NULL},
    {"dataset.record_length_std", KEEPS, NULL, NULL},
    {"dataset.record_length_bytes_stdev", KEEPS, NULL, NULL},
    {"dataset.record_length_resize", UNUSED, NULL, NULL},
    {"dataset.record_length_bytes_resize", UNUSED, NULL, NULL},
    {"dataset.record_dims", KEEPS, NULL, NULL},
    {"dataset.record_element_type", KEEPS, NULL, NULL},
    {"dataset.record_element_bytes", UNUSED, NULL, NULL}, /* the type decides */
    {"dataset.hdf5.chunk_dims", KEEPS, NULL, NULL},
    {"dataset.hdf5.num_dset_per_record", ALLOWS, "1", "a file has one dataset here"},
    {"dataset.hdf5.max_shape", UNUSED, NULL, NULL},
    {"dataset.num_subfolders_train", SETS, "dataset.folders", NULL},
    {"dataset.num_subfolders_eval", KEEPS, NULL, NULL},
    {"dataset.file_prefix", UNUSED, NULL, NULL},
    {"dataset.compression", KEEPS, NULL, NULL},
    {"dataset.compression_level", UNUSED, NULL, NULL},
    {"dataset.enable_chunking", KEEPS, NULL, NULL},
    {"dataset.chunk_size", KEEPS, NULL, NULL},
    {"dataset.eval_num_samples_per_file", UNUSED, NULL, NULL}, /* in old files; DLIO ignores it */
    {"dataset.keep_files", ALLOWS, "true", "remove the files with --clean after the run"},
    {"dataset.generation_buffer_size", UNUSED, NULL, NULL},

    {"reader.data_loader", ALLOWS, "tensorflow pytorch dali",
     "the other loaders read in ways of their own, or not at all"},
    {"reader.data_loader_classname", REFUSES, NULL, a_class},
    {"reader.reader_classname", REFUSES, NULL, a_class},
    {"reader.data_loader_sampler", UNUSED, NULL, NULL},
    {"reader.multiprocessing_context", UNUSED, NULL, NULL},
    {"reader.batch_size", SETS, "training.batch", NULL},
    {"reader.batch_size_eval", SETS, "training.eval_batch", NULL},
    {"reader.read_threads", SETS, "reader.threads", NULL},
    {"reader.computation_threads", UNUSED, NULL, NULL},
    {"reader.prefetch_size", KEEPS, NULL, NULL},
    {"reader.file_shuffle", ALLOWS, "off seed random true false", NULL},
    {"reader.sample_shuffle", ALLOWS, "off seed random true false", NULL},
    {"reader.shuffle_size", UNUSED, NULL, NULL},
    {"reader.file_access", ALLOWS, "multi shared collective mpio posix", NULL},
    {"reader.read_type", PICKS, "reader.load on_demand=step memory=start", NULL},
    {"reader.transfer_size", SETS, "access.transfer", NULL},
    TIME("reader.preprocess_time"),
    {"reader.pin_memory", UNUSED, NULL, NULL},
    {"reader.dont_use_mmap", UNUSED, NULL, NULL},
    {"reader.transformed_record_dims", UNUSED, NULL, NULL},
    {"reader.transformed_record_element_type", UNUSED, NULL, NULL},
    {"reader.odirect", PICKS, "reader.cache true=direct false=keep", NULL},

    {"train.epochs", SETS, "training.epochs", NULL},
    {"train.epoch", SETS, "training.epochs", NULL},
    TIME("train.computation_time"),
    {"train.total_training_steps", KEEPS, NULL, NULL},
    {"train.seed", SETS, "dataset.seed", NULL},
    {"train.seed_change_epoch", SETS, "access.reshuffle", NULL},

    TIME("evaluation.eval_time"),
    {"evaluation.eval_after_epoch", SETS, "training.eval_first", NULL},
    {"evaluation.epochs_between_evals", KEEPS, NULL, NULL},

    {"checkpoint.checkpoint_folder", UNUSED, NULL, NULL},
    {"checkpoint.checkpoint_after_epoch", KEEPS, NULL, NULL},
    {"checkpoint.epochs_between_checkpoints", KEEPS, NULL, NULL},
    {"checkpoint.steps_between_checkpoints", KEEPS, NULL, NULL},
    {"checkpoint.time_between_checkpoints", KEEPS, NULL, NULL},
    {"checkpoint.num_checkpoints_write", KEEPS, NULL, NULL},
    {"checkpoint.num_checkpoints_read", KEEPS, NULL, NULL},
    {"checkpoint.checkpoint_mechanism_classname", REFUSES, NULL, a_class},
    {"checkpoint.mode", ALLOWS, "default subset", NULL},
    {"checkpoint.recovery_rank_shift", SETS, "checkpoint.shift", NULL},
    {"checkpoint.rank_sync", UNUSED, NULL, NULL}, /* ranks always meet after a checkpoint */
    {"checkpoint.randomize_tensor", UNUSED, NULL, NULL},
    {"checkpoint.ksm", UNUSED, NULL, NULL},
    {"checkpoint.ksm.madv_mergeable_id", UNUSED, NULL, NULL},
    {"checkpoint.ksm.high_ram_trigger", UNUSED, NULL, NULL},
    {"checkpoint.ksm.low_ram_exit", UNUSED, NULL, NULL},
    {"checkpoint.ksm.await_time", UNUSED, NULL, NULL},
    {"checkpoint.model_size", KEEPS, NULL, NULL},
    {"checkpoint.type", PICKS, "checkpoint.ranks rank_zero=zero all_ranks=all", NULL},
    {"checkpoint.fsync", SETS, "checkpoint.fsync", NULL},

    {"metric.au", KEEPS, NULL, NULL},
    {"output.folder", UNUSED, NULL, NULL},
    {"output.log_file", UNUSED, NULL, NULL},
    {"output.metric.exclude_start_steps", SETS, "training.warmup", NULL},
    {"output.metric.exclude_end_steps", SETS, "training.cooldown", NULL},
    {"profiling.profiler", UNUSED, NULL, NULL},
    {"profiling.iostat_devices", UNUSED, NULL, NULL},
};
#define NROWS (sizeof rows / sizeof *rows)
_Static_assert(NROWS <= STK_DLIO_ROWS, "a value is kept for every row");

/* DLIO's defaults that are not ours. */
static const char *const defaults[] = {
    "dataset.format=tfrecord", "dataset.files=8", "model.hidden=2048",
    "model.ffn=8192",          "training.eval_batch=1",
};

void stk_dlio_release(struct stk_dlio *d)
{
    stk_buf_release(&d->unused);
}

static int row_of(const char *key)
{
    for (size_t i = 0; i < NROWS; i++)
        if (strcmp(rows[i].key, key) == 0)
            return (int)i;
    return -1;
}

const char *stk_dlio_kept(const struct stk_dlio_reading *r, const char *key)
{
    return r->value[row_of(key)];
}

/* ---- refusing ------------------------------------------------------------------------------- */

static int refuse_at(const struct stk_dlio_reading *r, unsigned line, const char *key,
                     struct stk_err *err, const char *why)
{
    char where[32] = "";
    if (line)
        snprintf(where, sizeof where, "line %u: ", line);
    return stk_err_set(err, STK_E_UNSUPPORTED, r->path, -1, "%s%s: %s", where, key, why);
}

int stk_dlio_refuse(const struct stk_dlio_reading *r, const char *key, struct stk_err *err,
                    const char *fmt, ...)
{
    char why[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return refuse_at(r, r->line[row_of(key)], key, err, why);
}

static int unknown(const struct stk_dlio_reading *r, unsigned line, const char *key,
                   struct stk_err *err)
{
    const char *names[NROWS + 1];
    char why[200];
    for (size_t i = 0; i < NROWS; i++)
        names[i] = rows[i].key;
    names[NROWS] = NULL;
    const char *near = stk_text_nearest(key, names);
    snprintf(why, sizeof why, "this key of DLIO is not replayed here%s%s%s",
             near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    return refuse_at(r, line, key, err, why);
}

/* The value is none of the words of `list`: a=b for PICKS, whose first word is our key. */
static int not_listed(const struct stk_dlio_reading *r, const struct row *row, const char *value,
                      struct stk_err *err)
{
    char words[300] = "";
    size_t n = 0;
    const char *p = row->arg + (row->how == PICKS ? strcspn(row->arg, " ") + 1 : 0);
    for (size_t len; *p && n < sizeof words - 40; p += len, p += strspn(p, " ")) {
        len = strcspn(p, " ");
        n += (size_t)snprintf(words + n, sizeof words - n, " %.*s", (int)strcspn(p, "= "), p);
    }
    return stk_dlio_refuse(r, row->key, err, "\"%.60s\" is not replayed here, only:%s%s%s", value,
                           words, row->why ? "; " : "", row->why ? row->why : "");
}

/* ---- single keys ---------------------------------------------------------------------------- */

bool stk_dlio_is_true(const char *text)
{
    return text && (strcasecmp(text, "true") == 0 || strcasecmp(text, "yes") == 0 ||
                    strcmp(text, "1") == 0);
}

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

int stk_dlio_set(struct stk_dlio_reading *r, const char *key, const char *ours, const char *value,
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
           : rc              ? stk_dlio_refuse(r, key, err, "%s", why.what)
                             : 0;
}

static int pick(struct stk_dlio_reading *r, const struct row *row, const char *value,
                struct stk_err *err)
{
    char ours[64], to[64];
    size_t n = strcspn(row->arg, " ");
    snprintf(ours, sizeof ours, "%.*s", (int)n, row->arg);
    const char *p = listed(row->arg + n + 1, value);
    if (!p)
        return not_listed(r, row, value, err);
    p += strlen(value) + 1;
    snprintf(to, sizeof to, "%.*s", (int)strcspn(p, " "), p);
    return stk_dlio_set(r, row->key, ours, to, err);
}

static int apply(struct stk_dlio_reading *r, const struct row *row, const char *value,
                 struct stk_err *err)
{
    switch (row->how) {
    case SETS:
        return stk_dlio_set(r, row->key, row->arg, value, err);
    case PICKS:
        return pick(r, row, value, err);
    case ALLOWS:
        return listed(row->arg, value) ? 0 : not_listed(r, row, value, err);
    case REFUSES:
        return stk_dlio_refuse(r, row->key, err, "%s", row->why);
    case UNUSED:
        stk_buf_printf(&r->d->unused, "%s%s", r->d->unused.len ? ", " : "", row->key);
        return 0;
    case KEEPS:
        break;
    }
    return 0;
}

/* Old names of sections and keys. */
static void new_name(const char *key, char *buf, size_t n)
{
    static const char *const renamed[][2] = {
        {"data_reader.", "reader."},
        {"checkpoint.optimization_groups", "model.optimization_groups"},
        {"checkpoint.layer_parameters", "model.layer_parameters"},
        {"checkpoint.num_layers", "model.num_layers"},
        {"checkpoint.tensor_parallelism", "model.parallelism.tensor"},
        {"checkpoint.pipeline_parallelism", "model.parallelism.pipeline"},
    };
    snprintf(buf, n, "%s", key);
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        size_t len = strlen(renamed[i][0]);
        if (strncmp(key, renamed[i][0], len) == 0)
            snprintf(buf, n, "%s%s", renamed[i][1], key + len);
    }
}

static int take(struct stk_dlio_reading *r, const char *key, const char *value, unsigned line,
                struct stk_err *err)
{
    char name[200];
    new_name(key, name, sizeof name);
    int i = row_of(name);
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

static int take_change(struct stk_dlio_reading *r, const char *text, struct stk_err *err)
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

static int take_all(struct stk_dlio_reading *r, const struct stk_yaml *y,
                    const char *const *changes, size_t n, struct stk_err *err)
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
    struct stk_dlio_reading r = {.w = w, .d = d, .path = name};
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
    rc = rc ? rc : stk_dlio_translate(&r, err);
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
