/*
 * keys.c - the one table of a workload's keys: the parser, the man page and `key=value` on the
 * command line all come from it.
 */
#include "bench/workload.h"

#define KEY(name_, field_, type_, ...)                                                             \
    STK_OPT_OF(struct stk_workload, 0, name_, field_, type_, __VA_ARGS__)

const char *const stk_bench_formats[] = {"none", "tfrecord", "hdf5",  "csv", "npz",
                                         "json", "tar",      "files", "npy", "indexed",
                                         "mapped", "replay", NULL};
static const char *const compressions[] = {"none", "gzip", NULL};
static const char *const sharings[] = {"own", "shared", "collective", NULL};
static const char *const offsets[] = {"sharded", "same", NULL};
static const char *const orders[] = {"consecutive", "random-start", NULL};
static const char *const shuffles[] = {"none", "files", "samples", "both", NULL};
static const char *const caches[] = {"keep", "drop", "direct", "fresh", NULL};
static const char *const loads[] = {"step", "start", "never", "stored", NULL};
static const char *const passes[] = {"ahead", "asked", "restart", NULL};
static const char *const scalings[] = {"strong", "weak", NULL};
static const char *const vias[] = {"posix", "stdio", NULL};
static const char *const contents[] = {"raw", "json", NULL};
static const char *const whos[] = {"zero", "all", NULL};
static const char *const thinks[] = {"burn", "sleep", NULL};
static const char *const lasts[] = {"drop", "keep", NULL};
static const char *const picks[] = {"sample", "next", "random", NULL};
static const char *const starts[] = {"sample", "follow", "random", NULL};
static const char *const whens[] = {"sample", "start", NULL};

const struct stk_opt stk_workload_keys[] = {
    KEY("name", name, STRING, .arg = "TEXT", .group = "The workload",
        .help = "Its name, used for the files that are generated: letters, digits, - and _"),
    KEY("description", description, STRING, .arg = "TEXT", .help = "One line about the job"),

    KEY("dataset.format", dataset.format, ENUM, .arg = "FORMAT", .def = "none",
        .choices = stk_bench_formats, .group = "The dataset",
        .help = "Format of the files; none: the job reads no data; replay: the groups files.1, "
                "files.2, ... are used as a profile recorded it"),
    KEY("dataset.path", dataset.path, STRING, .arg = "DIR",
        .help = "Folder of files that exist, for dataset.format replay and for --reader stoker: "
                "used without --data, never written to and never removed"),
    KEY("dataset.files", dataset.files, UNSIGNED, .arg = "N", .def = "1", .min = 1,
        .max = 100000000, .help = "Number of files"),
    KEY("dataset.samples_per_file", dataset.samples_per_file, UNSIGNED, .arg = "N", .def = "1",
        .min = 1, .max = 1000000000000, .help = "Samples in each file"),
    KEY("dataset.record", dataset.record_text, STRING, .arg = "SIZE",
        .help =
            "Bytes of a sample (default: 64K): a size, or a distribution such as normal(112K, 5K), "
            "uniform(1K, 2M), exponential(64K) or gamma(2, 32K)"),
    KEY("dataset.dims", dataset.dims, NAMES, .arg = "N,...",
        .help = "Dimensions of a sample instead of dataset.record: [128, 128, 128, 4]"),
    KEY("dataset.element", dataset.element_bytes, UNSIGNED, .arg = "BYTES", .def = "1", .min = 1,
        .max = 16, .help = "Bytes per element of dataset.dims"),
    KEY("dataset.chunk", dataset.chunk_bytes, SIZE, .arg = "SIZE", .def = "0", .max = 1ull << 32,
        .help = "Bytes of an HDF5 chunk: a part of one sample, or several samples; 0: contiguous"),
    KEY("dataset.compression", dataset.compression, ENUM, .arg = "HOW", .def = "none",
        .choices = compressions,
        .help = "gzip: chunks of HDF5 and arrays of NPZ are deflated; the bytes that are generated "
                "shrink to about half"),
    KEY("dataset.eval_files", dataset.eval_files, UNSIGNED, .arg = "N", .def = "0",
        .max = 100000000, .help = "More such files, which are read for evaluation only"),
    KEY("dataset.folders", dataset.folders, UNSIGNED, .arg = "N", .def = "0", .max = 1000000,
        .help = "Folders that the files are spread over; 0: none"),
    KEY("dataset.eval_folders", dataset.eval_folders, UNSIGNED, .arg = "N", .def = "0",
        .max = 1000000, .help = "Folders that the files for evaluation are spread over; 0: none"),
    KEY("dataset.seed", dataset.seed, UNSIGNED, .arg = "N", .def = "123",
        .help = "Seed of lengths, contents, orders and times"),

    KEY("files.N.path", group[0].path, STRING, .arg = "PATH",
        .group = "Groups of files of a replay (N from 1 to 8)",
        .help = "A file, or a folder with the files of the group: absolute, or in dataset.path. "
                "Group 1 is the dataset: dataset.files of its files are used"),
    KEY("files.N.match", group[0].match, STRING, .arg = "PATTERN",
        .help = "Names of the files in that folder and in the folders below it, such as *.jpg"),
    KEY("files.N.count", group[0].count, UNSIGNED, .arg = "N", .def = "1", .min = 1,
        .max = 100000000, .help = "Number of files"),
    KEY("files.N.size", group[0].size_text, STRING, .arg = "SIZE", .def = "64K",
        .help = "Bytes of a file that --generate makes: a size or a distribution"),
    KEY("files.N.per", group[0].per, UNSIGNED, .arg = "N", .def = "1", .min = 1,
        .max = 1000000000000,
        .help = "Number of samples (of ranks, if when is start) that make the calls below "
                "together"),
    KEY("files.N.opens", group[0].opens, UNSIGNED, .arg = "N", .def = "1", .max = 1000000000000,
        .help = "Files opened and closed"),
    KEY("files.N.hold", group[0].hold, FLAG,
        .help = "A thread holds its files open, and opens one again only where opens is larger than "
                "that; the calls of a sample follow those of the last one if it is the next"),
    KEY("files.N.start", group[0].start, ENUM, .arg = "WHERE", .def = "sample", .choices = starts,
        .help = "Where the calls of a sample begin in a file that is held open: at the sample's "
                "place, after those of the last one (follow; the next file at its end), or "
                "anywhere"),
    KEY("files.N.stats", group[0].stats, UNSIGNED, .arg = "N", .def = "0", .max = 1000000000000,
        .help = "Calls of stat()"),
    KEY("files.N.seeks", group[0].seeks, UNSIGNED, .arg = "N", .def = "0", .max = 1000000000000,
        .help = "Calls of lseek()"),
    KEY("files.N.requests", group[0].requests, UNSIGNED, .arg = "N", .def = "1",
        .max = 1000000000000, .help = "Reads that return data"),
    KEY("files.N.ends", group[0].ends, UNSIGNED, .arg = "N", .def = "0", .max = 1000000000000,
        .help = "Reads at the end of a file, which return nothing"),
    KEY("files.N.bytes", group[0].bytes, SIZE, .arg = "SIZE", .def = "0", .max = 1ull << 62,
        .help = "Bytes that they return together; 0: whole files"),
    KEY("files.N.sizes", group[0].sizes, NAMES, .arg = "SIZExN,...",
        .help = "Sizes of the requests and how often each occurs: [4096x1000, 64Kx2500]; not "
                "given: equal sizes"),
    KEY("files.N.sequential", group[0].sequential, PERCENT, .arg = "PERCENT", .def = "100%",
        .max = 100,
        .help = "Share of the requests after the first of a sample that begin at or after the end "
                "of the one before"),
    KEY("files.N.consecutive", group[0].consecutive, PERCENT, .arg = "PERCENT", .def = "100%",
        .max = 100, .help = "Share of them that begin exactly there"),
    KEY("files.N.pick", group[0].pick, ENUM, .arg = "HOW", .def = "sample", .choices = picks,
        .help = "Which file is next: that of the sample, each in turn, or any"),
    KEY("files.N.when", group[0].when, ENUM, .arg = "WHEN", .def = "sample", .choices = whens,
        .help = "The calls are made for the samples, or by each rank before its first step"),
    KEY("files.N.keep", group[0].keep, FLAG,
        .help = "A thread that has read a file keeps it in memory and does not read it again"),

    KEY("access.sharing", access.sharing, ENUM, .arg = "HOW", .def = "own", .choices = sharings,
        .group = "How it is read",
        .help = "own: each file is read by one rank; shared: every rank opens every file it needs "
                "a sample of; collective: some ranks read for all, and broadcast"),
    KEY("access.readers", access.readers, UNSIGNED, .arg = "N", .def = "1", .min = 1, .max = 4096,
        .help = "Ranks that read, each for a group of neighbouring ranks, if access.sharing is "
                "collective. The training loop itself reads then"),
    KEY("access.offsets", access.offsets, ENUM, .arg = "WHICH", .def = "sharded",
        .choices = offsets,
        .help = "Samples of a rank in shared files: its shard, or the same as every other rank's"),
    KEY("access.order", access.order, ENUM, .arg = "ORDER", .def = "consecutive", .choices = orders,
        .help = "Samples of a batch: after those of the last batch, or from a random position on"),
    KEY("access.transfer", access.transfer_bytes, SIZE, .arg = "SIZE", .def = "256K",
        .max = 1ull << 30,
        .help = "Bytes per request; 0: one request per sample, or per file that is read whole. "
                "HDF5: libhdf5 decides"),
    KEY("access.shuffle", access.shuffle, ENUM, .arg = "WHAT", .def = "none", .choices = shuffles,
        .help = "Order of files and of samples in each epoch. Streams (tfrecord, csv, tar) mix "
                "samples in memory: their requests stay in order"),
    KEY("access.sorted", access.sorted, UNSIGNED, .arg = "N", .def = "1", .min = 1,
        .max = STK_SORTED_MAX,
        .help = "Shuffled samples that are read in the order of their places, N at a time, as "
                "programs do that select rows of an HDF5 file"),
    KEY("access.reshuffle", access.reshuffle, FLAG, .def = "yes",
        .help = "A new order in each epoch"),
    KEY("access.head_reads", access.head_reads, UNSIGNED, .arg = "N", .def = "0", .max = 1000000,
        .help = "Requests that each rank makes to the first file before the first step"),
    KEY("access.head_size", access.head_bytes, SIZE, .arg = "SIZE", .def = "4K", .max = 1ull << 30,
        .help = "Bytes of each of them"),
    KEY("access.head_consecutive", access.head_consecutive, PERCENT, .arg = "PERCENT",
        .def = "100%", .max = 100,
        .help = "Share of them that begin where the one before ended; the others jump"),

    KEY("reader.threads", reader.threads, UNSIGNED, .arg = "N", .def = "1", .max = 256,
        .group = "The reader",
        .help = "Threads per rank that read ahead; 0: the training loop itself reads"),
    KEY("reader.prefetch", reader.prefetch, UNSIGNED, .arg = "N", .def = "2", .min = 1, .max = 4096,
        .help = "Batches per rank that may be read ahead"),
    KEY("reader.epochs", reader.epochs, ENUM, .arg = "HOW", .def = "ahead", .choices = passes,
        .help = "When the threads read the next epoch: ahead of its first step; once that asks for "
                "it (asked), as PyTorch's DataLoader with persistent_workers; or threads that are "
                "started then (restart), as it does without"),
    KEY("reader.start", reader.start_s, DURATION, .arg = "TIME", .def = "0", .max = 3600,
        .help = "Time that the training loop needs to start one of the threads, one after another, "
                "as it starts worker processes"),
    KEY("reader.begin", reader.begin_s, DURATION, .arg = "TIME", .def = "0", .max = 3600,
        .help = "CPU time that a thread itself needs before its first sample"),
    KEY("reader.load", reader.load, ENUM, .arg = "WHEN", .def = "step", .choices = loads,
        .help = "Data is read for each step, all of it before the first (start), or not at all "
                "(never): "
                "only the requests of access.head_reads. stored: as start, but memory has the data "
                "as it is stored, and it is decoded (reader.think) for each step"),
    KEY("reader.cache", reader.cache, ENUM, .arg = "HOW", .def = "keep", .choices = caches,
        .help = "Page cache: keep, fresh (what is there is dropped before the run), drop (what was "
                "read is released, too) or direct (O_DIRECT)"),

    KEY("reader.think", reader.think_text, STRING, .arg = "TIME", .def = "0",
        .help = "Time that the thread that reads a sample needs for decoding it: a time, or a "
                "distribution"),
    KEY("reader.think_as", reader.think_how, ENUM, .arg = "HOW", .def = "burn", .choices = thinks,
        .help = "burn: the time is used as CPU time, so that threads compete for the cores; sleep: "
                "the thread waits"),
    KEY("reader.decode", reader.decode, STRING, .arg = "HOW",
        .help = "How --reader stoker decodes pictures, as in `stoker load --decode`, such as "
                "image:224,crop=random,flip. It then takes the place of reader.think"),
    KEY("reader.path", reader.path, STRING, .arg = "PATH",
        .help = "Dataset that --reader stoker reads instead, such as a packed copy"),
    KEY("reader.index", reader.index, STRING, .arg = "FILE",
        .help = "Index of the data for --reader stoker (`stoker inspect --index`), so that a run does "
                "not make one"),

    KEY("training.ranks", training.ranks, UNSIGNED, .arg = "N", .def = "1", .min = 1, .max = 4096,
        .group = "Training", .help = "Processes, one per accelerator; --ranks overrides it"),
    KEY("training.batch", training.batch, UNSIGNED, .arg = "N", .def = "1", .min = 1,
        .max = 100000000, .help = "Samples per rank and step"),
    KEY("training.epochs", training.epochs, UNSIGNED, .arg = "N", .def = "1", .min = 1,
        .max = 1000000, .help = "Epochs"),
    KEY("training.steps", training.steps, UNSIGNED, .arg = "N", .def = "0", .max = 1000000000,
        .help = "Steps per epoch; 0: as many as the data gives"),
    KEY("training.most_steps", training.most_steps, UNSIGNED, .arg = "N", .def = "0",
        .max = 1000000000, .help = "Steps in all epochs together, at most; 0: no limit"),
    KEY("training.warmup", training.warmup, UNSIGNED, .arg = "N", .def = "0", .max = 1000000,
        .help = "Steps at the start that are not measured"),
    KEY("training.cooldown", training.cooldown, UNSIGNED, .arg = "N", .def = "0", .max = 1000000,
        .help = "Steps at the end that are not measured"),
    KEY("training.scaling", training.scaling, ENUM, .arg = "HOW", .def = "strong",
        .choices = scalings,
        .help = "strong: ranks share the samples of an epoch; weak: each rank reads as many as "
                "one rank alone would, from the start again if the data ends"),
    KEY("training.last", training.last, ENUM, .arg = "HOW", .def = "drop", .choices = lasts,
        .help = "Samples of an epoch that do not fill a batch: left out, or a smaller last batch"),
    KEY("training.barrier", training.barrier, FLAG, .def = "yes",
        .help = "Ranks wait for each other after each step"),
    KEY("training.compute", training.compute_text, STRING, .arg = "TIME", .def = "0",
        .help = "Time that the accelerator computes per step: a time, or a distribution such as "
                "normal(100ms, 5ms)"),

    KEY("training.eval_every", training.eval_every, UNSIGNED, .arg = "N", .def = "0",
        .max = 1000000, .help = "Epochs between evaluations; 0: none"),
    KEY("training.eval_first", training.eval_first, UNSIGNED, .arg = "N", .def = "1", .min = 1,
        .max = 1000000, .help = "The first epoch with an evaluation after it"),
    KEY("training.eval_batch", training.eval_batch, UNSIGNED, .arg = "N", .def = "0",
        .max = 100000000,
        .help = "Samples per rank and step of an evaluation; 0: as many as in training"),
    KEY("training.eval_steps", training.eval_steps, UNSIGNED, .arg = "N", .def = "0",
        .max = 1000000000, .help = "Steps of an evaluation; 0: as many as its data gives"),
    KEY("training.eval_compute", training.eval_text, STRING, .arg = "TIME", .def = "0",
        .help = "Time that the accelerator computes per step of an evaluation"),

    KEY("model.layers", model.layers, UNSIGNED, .arg = "N", .def = "0", .max = 10000,
        .group = "A large model, for its checkpoints",
        .help = "Layers of a transformer, whose files follow from the keys below instead of "
                "checkpoint.files; 0: no such model"),
    KEY("model.hidden", model.hidden, UNSIGNED, .arg = "N", .def = "4096", .min = 1, .max = 1000000,
        .help = "Hidden size"),
    KEY("model.ffn", model.ffn, UNSIGNED, .arg = "N", .def = "14336", .min = 1, .max = 10000000,
        .help = "Hidden size of the feed-forward part"),
    KEY("model.vocabulary", model.vocabulary, UNSIGNED, .arg = "N", .def = "32000", .min = 1,
        .max = 100000000, .help = "Size of the vocabulary"),
    KEY("model.heads", model.heads, UNSIGNED, .arg = "N", .def = "32", .min = 1, .max = 100000,
        .help = "Attention heads"),
    KEY("model.kv_heads", model.kv_heads, UNSIGNED, .arg = "N", .def = "8", .min = 1, .max = 100000,
        .help = "Heads of keys and values"),
    KEY("model.weight", model.weight_bytes, UNSIGNED, .arg = "BYTES", .def = "2", .min = 1,
        .max = 16, .help = "Bytes per parameter of the model"),
    KEY("model.optimizer", model.optimizer_bytes, UNSIGNED, .arg = "BYTES", .def = "12", .max = 64,
        .help = "Bytes per parameter of the optimizer's state"),
    KEY("model.tensor", model.tensor, UNSIGNED, .arg = "N", .def = "1", .min = 1, .max = 4096,
        .help = "Ranks that share a layer"),
    KEY("model.pipeline", model.pipeline, UNSIGNED, .arg = "N", .def = "1", .min = 1, .max = 4096,
        .help = "Stages that share the layers; the other ranks are copies"),
    KEY("model.zero", model.zero, UNSIGNED, .arg = "N", .def = "0", .max = 3,
        .help = "Stage of ZeRO. 0: the first copy writes model and optimizer; 1 and 2: every rank "
                "writes its part of the optimizer; 3: and of the model"),
    KEY("model.data", model.data, UNSIGNED, .arg = "N", .def = "0", .max = 1000000,
        .help = "Copies of the model in the whole job, of which only the first ranks run here; 0: "
                "the ranks are the whole job"),
    KEY("model.layer_size", model.layer_bytes, SIZE, .arg = "SIZE", .def = "0", .max = 1ull << 50,
        .help = "Bytes of a layer, instead of those that follow from model.hidden and its "
                "neighbours; the embedding and the head are then part of the layers"),
    KEY("model.optimizer_size", model.state_bytes, SIZE, .arg = "SIZE", .def = "0",
        .max = 1ull << 50,
        .help = "Bytes of the optimizer's state that a rank writes, instead of model.optimizer"),

    KEY("checkpoint.every", checkpoint.every, UNSIGNED, .arg = "N", .def = "0", .max = 1000000000,
        .group = "Checkpoints", .help = "Steps between checkpoints; 0: none"),
    KEY("checkpoint.every_epochs", checkpoint.every_epochs, UNSIGNED, .arg = "N", .def = "0",
        .max = 1000000, .help = "Epochs between checkpoints; 0: none"),
    KEY("checkpoint.first_epoch", checkpoint.first_epoch, UNSIGNED, .arg = "N", .def = "1",
        .min = 1, .max = 1000000,
        .help = "The first epoch with a checkpoint after it, for checkpoint.every_epochs"),
    KEY("checkpoint.at_end", checkpoint.at_end, FLAG, .help = "One after the last step"),
    KEY("checkpoint.restores", checkpoint.restores, UNSIGNED, .arg = "N", .def = "0", .max = 100000,
        .help = "Times that the last checkpoint is read back after the last step, each file by the "
                "rank that wrote it"),
    KEY("checkpoint.shift", checkpoint.shift, FLAG,
        .help = "Read back by a rank of another node, if there are several"),
    KEY("checkpoint.files", checkpoint.files, NAMES, .arg = "SIZE,...",
        .help = "Sizes of the files of a checkpoint"),
    KEY("checkpoint.interface", checkpoint.via, ENUM, .arg = "HOW", .def = "posix", .choices = vias,
        .help = "Each file is written by one write(), or by one fwrite() through stdio"),
    KEY("checkpoint.format", checkpoint.content, ENUM, .arg = "FORMAT", .def = "raw",
        .choices = contents, .help = "Content of the files: bytes, or one JSON text"),
    KEY("checkpoint.transfer", checkpoint.transfer_bytes, SIZE, .arg = "SIZE", .def = "0",
        .max = 1ull << 40, .help = "Bytes per write; 0: the whole file"),
    KEY("checkpoint.dir", checkpoint.dir, STRING, .arg = "DIR",
        .help = "Folder, made if it is missing, in which a folder for the checkpoints is made and "
                "removed again (default: the data folder)"),
    KEY("checkpoint.fsync", checkpoint.fsync, FLAG, .help = "fsync() after each file"),
    KEY("checkpoint.ranks", checkpoint.who, ENUM, .arg = "WHO", .def = "zero", .choices = whos,
        .help = "Rank zero writes the files, or all ranks write their own"),
    {.name = NULL},
};

_Static_assert(sizeof stk_workload_keys / sizeof *stk_workload_keys <= STK_WORKLOAD_KEYS,
               "a line is kept for every key");
