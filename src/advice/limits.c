/* limits.c - every threshold of the rules, with the reason for its value. */
#include "advice/priv.h"

const struct advice_limits stk_limits = {
    /* Shares of the run. TensorFlow's input pipeline analyzer calls a job moderately input-bound
     * from 5 % and highly from 20 %; below 1 % nobody notices. A checkpoint is reported from 0.5 %:
     * it grows with the model. */
    .note_share = 0.005,
    .low_share = 0.01,
    .medium_share = 0.05,
    .high_share = 0.20,
    /* Seconds. Less than 20 ms is noise; less than a second is no reason to change a program,
     * whatever its share of a short test. */
    .low_s = 0.02,
    .medium_s = 1,
    /* Files on a local disk come from the page cache: a gain from another order or more threads
     * must be noticeable. */
    .local_s = 0.5,
    /* For rules that know only that the run waits, not that its requests are bad. Jobs for which
     * experts gave such advice wait 6 to 8 %; half of that leaves room for noise. */
    .exposed_share = 0.03,
    /* 4 MiB: on shared storage (latency 0.5 ms, 1 GB/s), the data takes eight times as long as
     * waiting; Lustre's largest RPC is 4 to 16 MiB. */
    .small_read = (uint64_t)STK_FIT_SMALL,
    .big_read = 4u << 20,
    .unit_read = (uint64_t)STK_FIT_LONG,
    /* A file of up to 1 MiB costs more to open than to read; one of up to 16 MiB is read "in one
     * go", in up to 64 reads (libraries that read 256 KiB at a time). */
    .small_file = 1u << 20,
    .whole_file = 16u << 20,
    .whole_reads = 64,
    .shard_bytes = 256u << 20, /* the default of `stoker pack` */
    .stream_call = 16384,      /* four buffers of a C stream: larger calls bypass the buffer */
    /* Below these numbers a pattern is chance. 64 files are not many; 32 opens of one file are not
     * a loop over samples; 4 reads of a file show no order. */
    .least_reads = 50,
    .least_files = 64,
    .least_opens = 32,
    .least_of_file = 4,
    .least_calls = 1000,       /* of writes, seeks, C streams: a call of 1 us is noticeable from
                                  20,000 on */
    .least_meta = 200,         /* an interpreter makes about a hundred when it starts */
    .least_syncs = 10,         /* a few checkpoints, each synced once, are as they should be */
    .least_stdio_per_open = 8, /* a buffer of megabytes is useless for a call or two */
    /* Shards: at least 16, and four per rank, so that files can be shuffled; sixteen times as many
     * burden the metadata server, whatever this job saw of it. */
    .least_shards = 16,
    .shards_per_rank = 4,
    .plenty_of_shards = 16,
    .consecutive = STK_FIT_CONSECUTIVE,
    /* As in Drishti: a fifth of the reads go back. In random order, half of them do. */
    .random = 0.2,
    /* 1.3: a third is read again; 1.1 may be headers and the error of the estimate. */
    .reread = 1.3,
    /* Nine tenths of all ranks read the average byte: a tenth more than ranks that take turns over
     * the epochs would reach. */
    .overlap = 0.9,
    .turns = 0.1,
    .imbalance = 0.3, /* as in Drishti: 30 % above */
    /* Of many equal tasks, the slowest takes up to twice as long anyway (on healthy storage: 1.5 to
     * 1.7 times); with a bad target or node, ten times. */
    .straggler = 3,
    /* Half of the reads are eight times faster than the mean: page cache (1 to 10 us) against
     * storage (100 us and more), with a margin since the fast half lowers the mean. */
    .read_ahead = 8,
    .seeks_per_read = 1.5, /* one seek per read is a pread in two calls: half as many again */
    .most = 0.5,           /* "most of it" */
    .other_kind = 2,       /* a mask takes less than half of its picture, classes are alike */
    .nearly_all = 0.98,    /* of the files in a folder: the others are a README, a header, a list */
    /* A sixteenth of the ranks: at most one of a node's 16. A rank takes part in I/O if it spends a
     * tenth of the longest time there; a hundredth of the bytes is a configuration. */
    .few_ranks = 1.0 / 16,
    .busy_rank = 0.1,
    .alone = 0.01,
    .chunk_waste = 2, /* compressed chunks hold less than what is unpacked from them: twice as much
                         was read for nothing */
    /* Workers that are busy 90 % of their life wait for nobody; a loader at half is ahead. Decoding
     * counts from 80 %: workers start and end with the run. */
    .busy = 0.9,
    .ahead = 0.5,
    .busy_decode = 0.8,
    .cpu_part = 0.3,
    .idle_cores = 0.25,
    .lone_reader = 1.5,  /* readers per rank, on average: less means one */
    .reader_part = 0.6,  /* of a rank's cores; the rest computes */
    .decode_part = 0.75, /* the same for workers that compute themselves */
    /* Readers to try: 4 hide one latency behind three others; 16 approach a client's own limit on
     * requests in flight (Lustre: 8 to 64 per target). */
    .least_readers = 4,
    .most_readers = 16,
    .meta_share = 0.05,
    .memory_share = 0.5, /* of a node's, for data: the program needs the rest */
    .keep_share = 0.25,  /* of a node's, for data a program keeps beside its own */
    .spare = 1.1,        /* a disk is never filled to the last byte */
    .copy_pays = 10,     /* a profile often covers a tenth of a training, or less */
    /* When the nodes are unknown: the least that jobs get by default. */
    .assumed_memory = 8ull << 30,
    .assumed_disk = 32ull << 30,
    .far_read_s = 200e-6, /* half of the small reads take longer: not a local disk or page cache */
    .told_bytes = 64,     /* a message that a child ended, or failed, is shorter */
    /* A file of a page or a few, in pieces: HDF5 opens a small file in about ten reads. */
    .stats_file = 65536,
    .stats_reads = 16,
    /* Text below 64 KiB is a configuration; at least 16 requests of up to 64 KiB are reads line by
     * line. */
    .text_bytes = 65536,
    .text_read = 65536,
    .text_reads = 16,
    .alike = 1.5, /* files of one table are read as often as each other */
    .text_gz = 2, /* gzip leaves 0.3 to 0.5 of such text */
    /* A number of eight characters takes eight bytes in an array. Lines of 150 to 200 bytes with two
     * to four members double as records with a key, names and types. */
    .text_in_arrays = 1,
    .text_in_records = 2,
    /* A second: ten times what a request of 100 MiB should take. A tenth of all reads are no longer
     * exceptions. */
    .slow_read_s = STK_FIT_BLOCKED_S,
    .slow_for_size = 10,
    .slow_reads = 0.1,
    .least_faults = 250,
    .least_idle = 3, /* readings: fewer are chance */
    /* Bytes. Less than 1 MiB is next to no I/O: libraries, a configuration, a log. 256 KiB is one
     * request, not worth a copy. A target serves 1 GiB in a second; shards are for more than a
     * file's default part of 64 MiB. */
    .little = 1u << 20,
    .least_to_carry = 256u << 10,
    .target_bytes = 1u << 30,
    .shared_out = 64u << 20,
    .seen = 0.9,         /* of the kernel's bytes: the rest belongs to libraries */
    .far_from_mean = 2,  /* times the mean: beyond that, the mean says nothing about the longest
                            rank */
    .kept_again = 2,     /* each byte twice: one copy in memory then halves the reading */
    .piece = 0.25,       /* of a tiny file: larger requests are not pieces */
    .stats_per_open = 3, /* open() of Python asks once for the file's size, libraries once more */
    .many_fail = 0.1,    /* of the calls: failures are then worth a sentence */
    /* Lustre: a stripe of twice the request keeps the request on one target; more than 16 parts of
     * a request are small parts; four targets share a request; four ranks wait for one target. */
    .stripe_over = 2,
    .stripe_under = 16,
    .stripe_parts = 4,
    .stripe_ranks = 4,
    /* Starting points. Eight targets or aggregators for a file that many ranks share. 32 batches in
     * flight per rank, whether four workers read ahead or eight also decode for an accelerator. 64
     * MiB: some tens of requests of a separate reader. */
    .spread = 8,
    .ahead_workers = 4,
    .feed_workers = 8,
    .ahead_batches = 32,
    .ahead_bytes = 64u << 20,
    .page = 4096,
    .library_ahead = 65536,  /* H5Pset_sieve_buf_size, by default */
};
