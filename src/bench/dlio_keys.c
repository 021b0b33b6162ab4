/* dlio_keys.c - the keys of DLIO's documentation and of its LoadConfig, and what becomes of each. */
#include "bench/dlio_priv.h"

#define KEEP(key_)            {key_, STK_DLIO_KEEPS, NULL, NULL}
#define SKIP(key_)            {key_, STK_DLIO_SKIPS, NULL, NULL}
#define SET(key_, ours_)      {key_, STK_DLIO_SETS, ours_, NULL}
#define PICK(key_, words_)    {key_, STK_DLIO_PICKS, words_, NULL}
#define ALLOW(key_, words_)   {key_, STK_DLIO_ALLOWS, words_, NULL}
#define REFUSE(key_, why_)    {key_, STK_DLIO_REFUSES, NULL, why_}
#define RENAME(key_, theirs_) {key_, STK_DLIO_RENAMES, theirs_, NULL}

/* A time: a number, or a distribution. */
#define TIME(key_)                                                                                 \
    KEEP(key_), KEEP(key_ "_stdev"), KEEP(key_ ".type"), KEEP(key_ ".mean"),                       \
        KEEP(key_ ".stdev"), KEEP(key_ ".min"), KEEP(key_ ".max"), KEEP(key_ ".shape"),            \
        KEEP(key_ ".scale"), KEEP(key_ ".lam")

static const char a_class[] = "classes of Python are not run here";

const struct stk_dlio_row stk_dlio_rows[] = {
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

    {"storage.storage_type", STK_DLIO_ALLOWS, "local_fs parallel_fs",
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
    PICK("dataset.format",
         "dataset.format tfrecord=tfrecord hdf5=hdf5 hdf5_opt=hdf5 csv=csv npz=npz npy=npy jpeg=files "
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
    {"dataset.hdf5.num_dset_per_record", STK_DLIO_ALLOWS, "1", "a file has one dataset here"},
    SKIP("dataset.hdf5.max_shape"),
    SET("dataset.num_subfolders_train", "dataset.folders"),
    KEEP("dataset.num_subfolders_eval"),
    SKIP("dataset.file_prefix"),
    KEEP("dataset.compression"),
    SKIP("dataset.compression_level"),
    KEEP("dataset.enable_chunking"),
    KEEP("dataset.chunk_size"),
    SKIP("dataset.eval_num_samples_per_file"), /* in old files; DLIO ignores it */
    {"dataset.keep_files", STK_DLIO_ALLOWS, "true", "remove the files with --clean after the run"},
    SKIP("dataset.generation_buffer_size"),

    {"reader.data_loader", STK_DLIO_ALLOWS, "tensorflow pytorch dali",
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

const size_t stk_dlio_nrows = sizeof stk_dlio_rows / sizeof *stk_dlio_rows;
_Static_assert(sizeof stk_dlio_rows / sizeof *stk_dlio_rows <= STK_DLIO_ROWS,
               "a value is kept for every row");
