/*
 * rules.h - the one list of rules: X(constant, function, id, summary). The order matters: a rule
 * may stay silent where an earlier one covered the same files. The ids are stable: scripts and docs
 * use them.
 */
#ifndef STK_ADVICE_RULES_H
#define STK_ADVICE_RULES_H

/* clang-format off */
#define STK_RULES(X)                                                                               \
    X(MANY_SMALL_FILES, many_small_files, "many-small-files",                                      \
      "samples are spread over thousands of small files: opening costs more than reading")         \
    X(OPEN_PER_SAMPLE, open_per_sample, "open-per-sample",                                         \
      "the same file is opened again and again")                                                   \
    X(MAP_PER_SAMPLE, map_per_sample, "map-per-sample",                                            \
      "the same file is mapped again and again")                                                   \
    X(SMALL_READS, small_reads, "small-reads", "requests of kilobytes instead of megabytes")       \
    X(RANDOM_READS, random_reads, "random-reads",                                                  \
      "small reads in random order: stage, then shuffle")                                          \
    X(PREFETCH_DEPTH, prefetch_depth, "prefetch-depth",                                            \
      "a sequential stream is read one small buffer at a time, on demand")                         \
    X(READ_PARALLELISM, read_parallelism, "read-parallelism",                                      \
      "too few readers: each waits for its own request")                                           \
    X(DECODE_PARALLELISM, decode_parallelism, "decode-parallelism",                                \
      "workers are busy with decoding while cores are idle")                                       \
    X(STAGE_TO_NODE, stage_to_node, "stage-to-node",                                               \
      "data that is read repeatedly fits into the node's memory or disk")                          \
    X(SAME_DATA_EVERY_RANK, same_data_every_rank, "same-data-every-rank",                          \
      "every rank reads the same bytes")                                                           \
    X(IN_MEMORY_HDF5, in_memory_hdf5, "in-memory-hdf5",                                            \
      "an HDF5 file that fits into memory is read in small pieces")                                \
    X(CHUNK_SHAPE, chunk_shape, "chunk-shape",                                                     \
      "chunks of an array hold many samples, and are read anew for each")                          \
    X(REREAD_SMALL_FILE, reread_small_file, "reread-small-file",                                   \
      "a small file is read many times: keep it in memory")                                        \
    X(STATS_FILE_REREAD, stats_file_reread, "stats-file-reread",                                   \
      "a tiny file is read in many pieces: read it once, in one call")                             \
    X(CSV_TO_RECORDS, csv_to_records, "csv-to-records",                                            \
      "the dataset is text that is parsed on every run")                                           \
    X(TOO_MANY_FILES, too_many_files, "too-many-files",                                            \
      "many record files of modest size: put more samples in each file")                           \
    X(TOO_FEW_FILES, too_few_files, "too-few-files",                                               \
      "fewer files, or fewer storage targets, than ranks that read")                               \
    X(STRIPE_SIZE, stripe_size, "stripe-size", "Lustre stripes do not match the requests")         \
    X(METADATA_LOAD, metadata_load, "metadata-load",                                               \
      "opening, stat and listing take a large share of the time")                                  \
    X(CHECKPOINT_LOCAL, checkpoint_local, "checkpoint-local",                                      \
      "checkpoints are written to shared storage while training waits")                            \
    X(SMALL_WRITES, small_writes, "small-writes", "writes of kilobytes instead of megabytes")      \
    X(FSYNC_HEAVY, fsync_heavy, "fsync-heavy",                                                     \
      "the program waits for the disk after many writes")                                          \
    X(STDIO_HEAVY, stdio_heavy, "stdio-heavy",                                                     \
      "many small calls through C streams (fread, fgets, fwrite)")                                 \
    X(SEEK_HEAVY, seek_heavy, "seek-heavy", "more seeks than reads")                               \
    X(MMAP_RANDOM, mmap_random, "mmap-random", "a mapped file is loaded page by page")             \
    X(LIBRARY_FILES, library_files, "library-files",                                               \
      "opening libraries takes a large share of the time")                                         \
    X(IMBALANCE, imbalance, "imbalance", "one rank or worker does far more I/O than the others")   \
    X(SLOW_REQUESTS, slow_requests, "slow-requests", "a few reads take very long")                 \
    X(ACCELERATOR_WAITS, accelerator_waits, "accelerator-waits",                                   \
      "the accelerator is idle while data is read")
/* clang-format on */

enum stk_rule {
#define X(constant, function, id, summary) STK_RULE_##constant,
    STK_RULES(X)
#undef X
};

#endif
