/* advice_limits.c - every threshold of the rules, with the reason for its value. */
#include "lab/advice_priv.h"

const struct advice_limits stk_limits = {
    /* Shares of the run. 5 % and 20 % are where TensorFlow's input pipeline analyzer calls a job
     * moderately and highly input-bound; below 1 % nobody would notice. A checkpoint is worth a
     * word at 0.5 %: it grows with the model. */
    .note_share = 0.005,
    .low_share = 0.01,
    .medium_share = 0.05,
    .high_share = 0.20,
    /* Seconds. Less than 20 ms is within the noise of a run; less than a second is no reason to
     * change a program, whatever its share of a short test. */
    .low_s = 0.02,
    .medium_s = 1,
    /* Of files on a local disk, which come from the page cache: what is gained by reading them in
     * another order or number of threads must be felt. */
    .local_s = 0.5,
    /* Rules that only know that the run waits, not that the requests are bad, need this much: the
     * jobs that experts found worth such advice wait 6 to 8 %; half of that leaves room for noise.
     */
    .exposed_share = 0.03,
    /* 100 KiB: the edge of a bin; on shared storage (latency 0.5 ms, 1 GB/s) such a request is
     * five parts waiting to one part data. 4 MiB: one part waiting to eight; Lustre's largest RPC
     * is 4 to 16 MiB. 1 MiB: where waiting and data are equal parts. */
    .small_read = 102400,
    .big_read = 4u << 20,
    .unit_read = 1u << 20,
    /* A file of up to 1 MiB costs more to open than to read; up to 16 MiB is read "in one go", in
     * up to 64 reads (libraries that take 256 KiB at a time). */
    .small_file = 1u << 20,
    .whole_file = 16u << 20,
    .whole_reads = 64,
    .shard_bytes = 256u << 20, /* what `stoker pack` writes by default */
    .stream_call = 16384,      /* four of a C stream's own buffers: more goes past the buffer */
    /* Numbers below which a pattern is chance. 64 files are not many; a class of 32 opens of one
     * file is no loop over samples; 4 reads of a file show no order. */
    .least_reads = 50,
    .least_files = 64,
    .least_opens = 32,
    .least_of_file = 4,
    .least_calls = 1000,       /* of writes, seeks, C streams: a call of 1 us is felt at 20,000 */
    .least_meta = 200,         /* an interpreter that starts up makes about a hundred */
    .least_syncs = 10,         /* a checkpoint or some, each synced once, are as it should be */
    .least_stdio_per_open = 8, /* a buffer of megabytes is of no use for a call or two */
    /* Shards: 16, and four for each rank, so that files can be shuffled; sixteen times as many are
     * a load for the metadata server whatever this job saw of it. */
    .least_shards = 16,
    .shards_per_rank = 4,
    .plenty_of_shards = 16,
    .consecutive = 0.8,
    /* As Drishti: a fifth of the reads go back. Of a random order it is half. */
    .random = 0.2,
    /* 1.3: a third is read again; 1.1 is headers and the estimate's error. */
    .reread = 1.3,
    /* Nine tenths of all ranks read the average byte, a tenth more than ranks that take turns over
     * the epochs would have come to. */
    .overlap = 0.9,
    .turns = 0.1,
    .imbalance = 0.3, /* Drishti's: 30 % above */
    /* Of the same work the slowest of many takes up to twice as long anyway (seen on healthy
     * storage: 1.5 to 1.7 times); where a target or a node is bad, ten times. */
    .straggler = 3,
    /* Half of the reads eight times faster than the mean one: the page cache (1 to 10 us) against
     * storage (100 us and more), with room for a mean that the fast half draws down. */
    .read_ahead = 8,
    .seeks_per_read = 1.5, /* one before each read is a pread in two calls: half as many again */
    .sync_part = 0.3,      /* open, sync, close: a third of the calls is one sync a file */
    .most = 0.5,           /* "most of it" */
    /* A sixteenth of the ranks: one of a node's 16, or fewer. Whoever is in I/O a tenth as long as
     * the longest takes part in it; a hundredth of the bytes is a configuration. */
    .few_ranks = 1.0 / 16,
    .busy_rank = 0.1,
    .alone = 0.01,
    /* Workers busy 90 % of their life do not wait for anybody; a loader at half is ahead. Decoding
     * is seen from 80 %: workers start and end with the run. */
    .busy = 0.9,
    .ahead = 0.5,
    .busy_decode = 0.8,
    .cpu_part = 0.3,
    .idle_cores = 0.25,
    .lone_reader = 1.5,  /* readers a rank, on average: fewer are one */
    .reader_part = 0.6,  /* of a rank's cores; the rest computes */
    .decode_part = 0.75, /* the same of workers that compute themselves */
    /* Readers to try: 4 hide a latency behind three others; beyond 16 a client's own limits on
     * requests in flight (Lustre: 8 to 64 a target) are near. */
    .least_readers = 4,
    .most_readers = 16,
    .meta_share = 0.05,
    .meta_saved = 0.8,   /* of calls whose answers are kept, or that a list replaces */
    .faults_saved = 0.9, /* of faults, when the file is read in before */
    .memory_share = 0.5, /* of a node's, for data: the program needs the rest */
    .keep_share = 0.25,  /* of a node's, for what a program keeps beside its data */
    .spare = 1.1,        /* a disk is not filled to the last byte */
    .copy_pays = 10,     /* a profile is often a tenth of a training, or less */
    /* Where nothing is known of the nodes: what jobs that ask for nothing are given at least. */
    .assumed_memory = 8ull << 30,
    .assumed_disk = 32ull << 30,
    /* Where the profile shows no large read. 1.2 GB/s is what ImageNet jobs were seen to get of
     * Lustre per request; 2 GB/s a modest NVMe disk; 5 GB/s one core copying from the page cache
     * (docs/performance.md). */
    .local_Bps = 2e9,
    .shared_Bps = 1.2e9,
    .page_Bps = 5e9,
    .local_latency_s = 100e-6,
    .shared_latency_s = 500e-6,
    .far_read_s =
        200e-6, /* half of the small reads take longer: no local disk, page cache before */
    .deep_read_s = 20e-6, /* a read of staged data: page cache, or a disk that reads ahead */
    .call_s = 1e-6,       /* a system call that asks no storage: 0.2 to 1 us */
    .told_bytes = 64,     /* that a child ended, or failed, is less than that */
    /* A file of a page or some, in pieces: HDF5 opens a small file in about ten. */
    .stats_file = 65536,
    .stats_reads = 16,
    /* Text below 64 KiB is a configuration; requests up to 64 KiB, 16 or more, are line by line. */
    .text_bytes = 65536,
    .text_read = 65536,
    .text_reads = 16,
    .text_through = 0.8, /* of the run: parsed as the training goes, with no time of its own */
    /* A second, ten times what a request of 100 MiB should take; a tenth of all reads are no
     * exceptions any more. */
    .slow_read_s = 1,
    .slow_for_size = 10,
    .slow_reads = 0.1,
    .least_faults = 250,
    .least_idle = 3, /* samples: fewer are chance */
    /* Bytes. Less than 1 MiB is next to no I/O: libraries, a configuration, a log. 256 KiB is one
     * request, nothing to copy. A target serves a GiB in a second; shards are for more than a
     * file's default part of 64 MiB. */
    .little = 1u << 20,
    .least_to_carry = 256u << 10,
    .target_bytes = 1u << 30,
    .shared_out = 64u << 20,
    .seen = 0.9,        /* of the kernel's bytes: what is missing then is libraries' own */
    .far_from_mean = 2, /* the longest rank's time: then the mean says nothing of it */
    .kept_again = 2,    /* each byte twice: then one copy in memory halves the reading */
    .piece = 0.25,      /* of a tiny file: more at a time is no reading in pieces */
    .many_fail = 0.1,   /* of the calls: then what fails is worth a word */
    /* Lustre: a stripe of twice the request keeps it on one target; a request cut into more than 16
     * parts is small parts; four targets share one; four ranks wait for one target. */
    .stripe_over = 2,
    .stripe_under = 16,
    .stripe_parts = 4,
    .stripe_ranks = 4,
    /* To begin with. Eight targets, or aggregators: of a file that many ranks share. Batches in
     * flight for a rank: 32, whether four workers read ahead or eight feed an accelerator, which
     * takes decoding too. 64 MiB: some tens of requests of a reader of its own. */
    .spread = 8,
    .ahead_workers = 4,
    .feed_workers = 8,
    .ahead_batches = 32,
    .ahead_bytes = 64u << 20,
};
