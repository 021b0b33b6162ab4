/*
 * lanes.c - rules about who reads: too few readers, workers that decode while cores idle;
 * and about how: C streams, seeks, mapped files.
 */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "advice/priv.h"
#include "analysis/parts.h"

/* ---- read-parallelism ---- */

/* Read time that more readers would overlap: latency-bound reads always, whole files and large
 * requests only where the job spends much of its time in them (`much`). */
static double parallel_read_s(const struct advisor *ad, bool much, const struct stk_usage **first,
                              struct stk_work *work)
{
    double s = 0;
    *first = NULL;
    *work = (struct stk_work){0};
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        bool small = stk_kind_request(u) < (double)stk_limits.unit_read && !stk_kind_whole(u) &&
                     !stk_kind_table(u);
        if (!u->n.c[STK_C_READ_BYTES] || stk_kind_model(u) || stk_kind_again(u) || !(small || much))
            continue;
        if (!*first)
            *first = u;
        struct stk_work w = stk_work_of(u);
        /* Small calls in what the kernel reads ahead are CPU time of the caller, not waits. */
        bool ahead = w.requests < (double)u->n.c[STK_C_READS] / 2;
        s += fmax(0, u->read_s - (ahead ? w.cpu_s : 0)) + (stk_kind_whole(u) ? u->meta_s : 0);
        if (!stk_kind_whole(u))
            w.opens = w.asks = 0;
        stk_work_add(work, &w);
    }
    return s;
}

static bool cores_left(const struct advisor *ad)
{
    double cores = (double)ad->a->cores;
    return cores <= 0 || ad->cores_used < 0 ||
           ad->cores_used <= cores * (1 - stk_limits.idle_cores);
}

static void say_readers(struct advisor *ad, struct stk_finding *f, double wait, double per_rank,
                        bool opens)
{
    bool one = ad->readers_per_rank < stk_limits.lone_reader;
    const char *who = ad->workers ? "worker" : "thread";
    stk_advice_say(ad, f, "%s %s%s read%s at a time, and the run waits %s (%s) for %s.",
                   one ? (ad->ranks > 1 ? "In each rank one" : "One")
                       : stk_advice_count(ad, ad->readers_per_rank),
                   who,
                   one             ? ""
                   : ad->ranks > 1 ? "s a rank"
                                   : "s",
                   one ? "s" : "", stk_advice_time(ad, wait),
                   stk_advice_percent(ad, stk_advice_share(ad, wait)),
                   opens ? "reads and for opening what they read" : "reads");
    if (per_rank > 0)
        stk_advice_say(ad, f, "There %s %s core%s%s; %s were busy on average.",
                       ad->a->cores == 1 ? "is" : "are", stk_advice_count(ad, (double)ad->a->cores),
                       ad->a->cores == 1 ? "" : "s", ad->ranks > 1 ? " for all ranks" : "",
                       ad->cores_used < 0      ? "an unknown number"
                       : ad->cores_used < 0.05 ? "next to none"
                                               : stk_advice_text(ad, "%.1f", ad->cores_used));
    stk_advice_number(ad, f, "readers_per_rank", ad->readers_per_rank, "count");
    stk_advice_number(ad, f, "wait_s", wait, "s");
    stk_advice_number(ad, f, "cores", (double)ad->a->cores, "count");
    stk_advice_number(ad, f, "cores_used", ad->cores_used, "count");
}

/* Before the first batch of a program that had no readers. Processes take time to start. */
static double begin_s(const struct advisor *ad, const struct stk_work *w, double io_s)
{
    double samples = w->opens > 0 ? w->opens : w->requests;
    double epochs = fmax(1, (double)ad->a->nepochs);
    double batches = samples / stk_batch_of(ad->a, samples, samples / epochs, 1);
    double first = stk_first_batch_s(io_s, w->lanes, batches);
    bool starts = ad->scene.framework == STK_FRAMEWORK_TORCH;
    return starts ? epochs * first + (w->lanes + 1) * STK_WORKER_START_S : first;
}

double stk_advice_spread_s(const struct advisor *ad, const struct stk_storage *st,
                           const struct stk_work *work, double wait_s, double decode_s,
                           double readers)
{
    struct stk_work w = *work;
    /* What an interpreter spends around calls is no computing that reads could overlap. */
    double calls_s = (double)ad->a->job.n.c[STK_C_READS] * STK_INTERPRETER_S / ad->ranks;
    double compute = fmax(0, stk_compute_of(ad->a) - decode_s - calls_s), first = 0;
    double io = wait_s + (ad->in_turn ? decode_s : compute);
    stk_work_scale(&w, 1.0 / ad->ranks);
    w.cpu_s += ad->in_turn ? decode_s : ad->decode_s;
    w.cpus = ad->cpus;
    w.lanes = ad->readers_per_rank;
    double is = stk_work_s(st, &w);
    w.lanes = readers;
    double after = is > 0 ? io * fmin(1, stk_work_s(st, &w) / is) : io;
    if (st->latency_measured && st->read_measured) /* otherwise, which of them it is is unknown */
        after = fmax(after, w.bytes / st->read_Bps);
    if (ad->in_turn)
        first = begin_s(ad, &w, after);
    double before = ad->in_turn ? compute + io : io;
    return fmax(0, before - stk_run_ahead_s(compute, after, first));
}

void stk_rule_read_parallelism(struct advisor *ad)
{
    const struct stk_usage *first;
    double per_rank = (double)ad->a->cores / ad->ranks;
    bool few = ad->readers_per_rank < stk_limits.lone_reader ||
               (per_rank >= stk_limits.least_readers &&
                ad->readers_per_rank <= stk_limits.reader_part * per_rank && cores_left(ad));
    struct stk_work work;
    double wait = stk_advice_wall(ad, parallel_read_s(ad, false, &first, &work));
    double needed = stk_limits.exposed_share;
    if (stk_advice_share(ad, wait) < needed) {
        /* Large requests keep a storage target busy on their own: only a lone reader can gain, and
         * only where reading is a large share of the run. */
        few = ad->readers_per_rank < stk_limits.lone_reader;
        wait = stk_advice_wall(ad, parallel_read_s(ad, true, &first, &work));
        needed = stk_limits.high_share;
    }
    if (!few || !first || stk_advice_share(ad, wait) < needed || !stk_advice_matters(ad, wait))
        return;
    /* A read from memory is CPU work and needs idle cores; waiting does not. */
    enum stk_reach reach = stk_advice_reach_of(first);
    if (reach != STK_REACH_SHARED && !(cores_left(ad) && per_rank >= 2))
        return;
    double more = fmin(stk_limits.most_readers, stk_limits.reader_part * per_rank);
    more = fmax(stk_limits.least_readers, more);
    const struct stk_storage *st = stk_advice_storage(ad, first);
    double decode = ad->in_turn ? ad->decode_s : 0;
    double gain = stk_advice_spread_s(ad, st, &work, wait, decode, more);
    double io_gain = decode > 0 ? stk_advice_spread_s(ad, st, &work, wait, 0, more) : gain;
    if (!stk_advice_felt(ad, reach, io_gain))
        return;
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_READ_PARALLELISM, stk_advice_severity(ad, gain),
                         "too few readers: each waits for its own request");
    say_readers(ad, f, wait, per_rank, stk_kind_whole(first));
    stk_advice_path(ad, f,
                    stk_kind_whole(first) || stk_kind_store(first) ? stk_advice_tree(ad, first)
                                                                   : first->name);
    const char *n = stk_advice_count(ad, more);
    stk_advice_do(ad, f,
                  "Read with several threads or workers at once%s. stoker's loader keeps many "
                  "reads in flight on its own.",
                  more > per_rank && per_rank > 0
                      ? stk_advice_text(ad,
                                        ": start with %s, although a rank has fewer cores, since "
                                        "readers wait most of the time",
                                        n)
                      : ", about as many as each rank has cores");
    stk_advice_act_all(ad, f,
                       (struct stk_action){.kind = STK_ACT_READERS,
                                           .count = stk_whole(more + 0.5),
                                           .use = first->use});
    const char *if_not = "";
    if (stk_advice_matters(ad, decode))
        if_not = stk_advice_text(
            ad, " The %s of CPU time in one thread count as decoding; if the program trains in it, %s.",
            stk_advice_time(ad, decode),
            stk_advice_time(ad, io_gain));
    stk_advice_gain(ad, f, gain,
                    "With %s readers instead of %.0f, which read while the program computes, waits "
                    "overlap, but not the transfers: %s of %s%s remain, as long as the storage can "
                    "serve that many.%s",
                    n, fmax(1, ad->readers_per_rank), stk_advice_time(ad, wait + decode - gain),
                    stk_advice_time(ad, wait + decode), *if_not ? " with decoding" : "", if_not);
}

/* ---- decode-parallelism ---- */

static const struct stk_phase *decode_phase(const struct stk_analysis *a)
{
    static const char *const words[] = {"decode", "preproc", "augment", "transform", "parse"};
    for (size_t i = 0; i < a->nphases; i++)
        for (size_t w = 0; w < sizeof words / sizeof *words; w++)
            if (strcasestr(a->phase[i].name, words[w]))
                return &a->phase[i];
    return NULL;
}

static void decode_finding(struct advisor *ad, double gain, double lanes, const char *evidence,
                           const char *why)
{
    double per_rank = (double)ad->a->cores / ad->ranks;
    double more = fmax(lanes + 1, per_rank);
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_DECODE_PARALLELISM, stk_advice_severity(ad, gain),
                         "too few workers decode while cores are idle");
    stk_advice_say(ad, f, "%s", evidence);
    stk_advice_say(ad, f, "Of %s cores, %.1f were busy on average.",
                   stk_advice_count(ad, (double)ad->a->cores), ad->cores_used);
    stk_advice_number(ad, f, "workers_per_rank", lanes, "count");
    stk_advice_number(ad, f, "worker_cpu", ad->worker_cpu, "share");
    stk_advice_number(ad, f, "cores", (double)ad->a->cores, "count");
    stk_advice_number(ad, f, "cores_used", ad->cores_used, "count");
    stk_advice_do(ad, f, "Decode with as many workers or threads as a rank has cores.");
    struct stk_action workers = {.kind = STK_ACT_DECODERS, .count = stk_whole(more + 0.5)};
    const char *dataset = stk_advice_dataset(ad);
    struct stk_action loader = stk_advice_loader(ad, dataset);
    loader.loader.threads = workers.count;
    loader.instead = true;
    stk_advice_act(ad, f, workers);
    if (dataset)
        stk_advice_act(ad, f, loader);
    stk_advice_gain(ad, f, gain, "%s", why);
}

/* Workers that are always busy, mostly on the CPU: the training loop waits for them. */
static bool decode_workers(struct advisor *ad, double per_rank)
{
    double lanes = ad->readers_per_rank;
    bool busy = ad->workers && ad->worker_busy >= stk_limits.busy_decode &&
                ad->worker_cpu >= stk_limits.cpu_part;
    bool idle = ad->a->gpu_util_mean < 0 || ad->a->gpu_util_mean < 1 - stk_limits.medium_share;
    if (!busy || !idle || lanes > stk_limits.decode_part * per_rank)
        return false;
    double k = fmax(lanes + 1, per_rank) / lanes, gain = ad->worker_cpu_s * (1 - 1 / k);
    if (!stk_advice_felt(ad, STK_REACH_LOCAL, gain)) /* the programs of a script look like workers */
        return false;
    decode_finding(
        ad, gain, lanes,
        stk_advice_text(ad,
                        "%.0f worker%s per rank busy %s of the time: %s on the CPU, the rest in "
                        "I/O. The training loop waits for workers that never wait.",
                        lanes, lanes < stk_limits.lone_reader ? "" : "s",
                        stk_advice_percent(ad, ad->worker_busy),
                        stk_advice_percent(ad, ad->worker_cpu)),
        stk_advice_text(ad, "%s of CPU work per worker, divided among %.1f times as many.",
                        stk_advice_time(ad, ad->worker_cpu_s), k));
    return true;
}

void stk_rule_decode_parallelism(struct advisor *ad)
{
    double cores = (double)ad->a->cores, per_rank = cores / ad->ranks;
    if (cores < 2 || ad->cores_used < 0 || !cores_left(ad) || decode_workers(ad, per_rank))
        return;
    const struct stk_phase *ph = decode_phase(ad->a);
    double each = ph ? ph->total_s / ad->ranks : 0;
    if (!ph || stk_advice_share(ad, each) < stk_limits.medium_share || ad->workers)
        return;
    double k = fmax(2, per_rank), gain = (each - ph->io_s / ad->ranks) * (1 - 1 / k);
    if (!stk_advice_matters(ad, gain))
        return;
    decode_finding(
        ad, gain, 1,
        stk_advice_text(ad,
                        "The program marks a phase \"%s\": %s times, %s of the run of each rank, "
                        "one after the other.",
                        stk_advice_show(ad, ph->name), stk_advice_count(ad, (double)ph->count),
                        stk_advice_percent(ad, stk_advice_share(ad, each))),
        stk_advice_text(ad, "%s in that phase, minus its I/O, divided among %.0f workers.",
                        stk_advice_time(ad, each), k));
}

/* ---- stdio-heavy ---- */

struct streams {
    double calls, bytes, s;
    struct stk_work work;
    double most;
    const struct stk_usage *first;
};

/* A large buffer is refilled after each jump, and useless for a call or two: count only data read
 * or written in order, in many calls. */
static struct streams sum_streams(const struct advisor *ad)
{
    struct streams t = {0};
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        double s = 0, calls = 0;
        uint64_t reads = u->n.c[STK_C_READS], writes = u->n.c[STK_C_WRITES];
        if (fmax(stk_kind_jumps(u), (double)u->n.c[STK_C_SEEKS]) >
                stk_limits.most * (double)(reads + writes) ||
            reads + writes < stk_limits.least_stdio_per_open * u->n.c[STK_C_OPENS])
            continue;
        for (size_t r = u->rec_from; r < u->rec_to; r++) {
            const uint64_t *c = ad->p->rec[r].n.c;
            if (ad->p->rec[r].api != STK_API_STDIO)
                continue;
            s += stk_ns(c[STK_C_READ_NS]) + stk_ns(c[STK_C_WRITE_NS]);
            calls += (double)c[STK_C_READS] + (double)c[STK_C_WRITES];
            t.bytes += (double)c[STK_C_READ_BYTES] + (double)c[STK_C_WRITE_BYTES];
        }
        t.s += s;
        t.calls += calls;
        struct stk_work w = stk_work_of(u);
        w.opens = w.asks = 0;
        w.requests += (double)u->n.c[STK_C_WRITES];
        w.bytes += (double)u->n.c[STK_C_WRITE_BYTES];
        stk_work_add(&t.work, &w);
        if (s > t.most) {
            t.most = s;
            t.first = u;
        }
    }
    return t;
}

void stk_rule_stdio_heavy(struct advisor *ad)
{
    struct streams t = sum_streams(ad);
    if (!t.first || t.calls < (double)stk_limits.least_calls ||
        t.bytes / t.calls > (double)stk_limits.stream_call)
        return;
    const struct stk_storage *st = stk_advice_storage(ad, t.first);
    struct stk_work large = stk_work_read(st, t.bytes, (double)stk_limits.big_read);
    double better = t.s - stk_work_saved_s(st, t.s, &t.work, &large);
    double gain = stk_advice_wall(ad, t.s - better);
    if (!stk_advice_matters(ad, gain) ||
        stk_advice_share(ad, stk_advice_wall(ad, t.s)) < stk_limits.medium_share)
        return;
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_STDIO_HEAVY, stk_advice_severity(ad, gain),
                         "%s small calls through C streams", stk_advice_count(ad, t.calls));
    stk_advice_say(ad, f, "fread, fgets, fwrite and the like moved %s in %s calls of %s, in %s.",
                   stk_advice_size(ad, t.bytes), stk_advice_count(ad, t.calls),
                   stk_advice_size(ad, t.bytes / t.calls), stk_advice_thread_time(ad, t.s));
    stk_advice_number(ad, f, "stdio_calls", t.calls, "count");
    stk_advice_number(ad, f, "stdio_s", t.s, "s");
    stk_advice_path(ad, f, t.first->name);
    stk_advice_do(ad, f,
                  "A stream reads 4 KiB at a time from the file system: give it a buffer of "
                  "megabytes before the first call, or read large pieces with read().");
    stk_advice_act_all(ad, f,
                       (struct stk_action){.kind = STK_ACT_STREAM_BUFFER,
                                           .bytes = stk_limits.big_read,
                                           .use = t.first->use});
    stk_advice_gain(ad, f, gain, "%s in buffers of %s would take %s instead of %s.",
                    stk_advice_size(ad, t.bytes), stk_advice_size(ad, (double)stk_limits.big_read),
                    stk_advice_time(ad, better), stk_advice_thread_time(ad, t.s));
}

/* ---- seek-heavy ---- */

void stk_rule_seek_heavy(struct advisor *ad)
{
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        const uint64_t *c = u->n.c;
        double seeks_s = fmin(u->meta_s, (double)c[STK_C_SEEKS] * STK_SEEK_S);
        double gain = stk_advice_wall(ad, seeks_s);
        if (c[STK_C_SEEKS] < stk_limits.least_calls ||
            (double)c[STK_C_SEEKS] < stk_limits.seeks_per_read * (double)c[STK_C_READS] ||
            !stk_advice_matters(ad, gain) || stk_kind_library(u))
            continue;
        struct stk_finding *f =
            stk_advice_begin(ad, STK_RULE_SEEK_HEAVY, stk_advice_severity(ad, gain),
                             "more seeks than reads in %s", stk_advice_show(ad, u->name));
        stk_advice_say(ad, f, "%s seeks for %s reads; calls that move no data took %s.",
                       stk_advice_count(ad, (double)c[STK_C_SEEKS]),
                       stk_advice_count(ad, (double)c[STK_C_READS]),
                       stk_advice_thread_time(ad, u->meta_s));
        stk_advice_number(ad, f, "seeks", (double)c[STK_C_SEEKS], "count");
        stk_advice_number(ad, f, "reads", (double)c[STK_C_READS], "count");
        stk_advice_path(ad, f, u->name);
        stk_advice_do(ad, f, "Read with pread() at the offset, or read the file in order.");
        stk_advice_act_all(ad, f, (struct stk_action){.kind = STK_ACT_PREAD});
        stk_advice_gain(ad, f, gain, "%s seeks at %s each (assumed).",
                        stk_advice_count(ad, (double)c[STK_C_SEEKS]),
                        stk_advice_time(ad, STK_SEEK_S));
        return; /* only the worst: the others are alike */
    }
}

/* ---- mmap-random ---- */

/* Seconds of a fault: those of a small read from that storage. Without one: the time in which the
 * process neither computed nor was in a call, unless an accelerator may have kept it waiting, or
 * the faults may be those of its libraries. */
static double fault_s(const struct advisor *ad, const struct stk_storage *st,
                      const struct stk_prof_proc *q, bool far, bool *measured)
{
    double idle = q->end_s - q->start_s - q->cpu_s - q->io_union_s;
    *measured = true;
    if (st->latency_measured)
        return st->latency_s;
    if (far && q->cpu_s > 0 && idle > 0 && ad->a->gpu_util_mean < 0)
        return fmin(idle / (double)q->major_faults, STK_FAULT_MOST_S);
    *measured = false;
    return st->latency_s;
}

/* The process with most of them; NULL: no process. */
static const struct stk_prof_proc *most_faults(const struct stk_profile *p, double *faults)
{
    const struct stk_prof_proc *worst = p->nprocs ? &p->proc[0] : NULL;
    for (size_t i = 0; i < p->nprocs; i++) {
        *faults += (double)p->proc[i].major_faults;
        if (p->proc[i].major_faults > worst->major_faults)
            worst = &p->proc[i];
    }
    return worst;
}

/* Bytes that a fault loads: Linux reads around the page. */
static double fault_bytes(void)
{
    return stk_storage_assumed(STK_REACH_LOCAL).window / 2;
}

/* Of a file that is only mapped, nobody may have asked for the size. */
static double mapped_size(const struct stk_usage *u)
{
    const uint64_t *c = u->n.c;
    double size = fmax((double)u->size_bytes, (double)c[STK_C_MAX_OFFSET]);
    size = fmax(size, stk_per((double)c[STK_C_MMAP_BYTES], c[STK_C_MMAPS]));
    return fmin((double)c[STK_C_MMAP_BYTES], size);
}

static double maps_each(const struct stk_usage *u)
{
    return stk_per((double)u->n.c[STK_C_MMAPS], u->procs ? u->procs : 1);
}

static bool is_remapped(const struct stk_usage *u)
{
    const uint64_t *c = u->n.c;
    return !u->file->group && maps_each(u) >= (double)stk_limits.least_of_file &&
           !stk_kind_model(u) &&
           (double)c[STK_C_MMAPS] >= stk_limits.most * (double)c[STK_C_OPENS] &&
           (double)c[STK_C_OPENS] >= stk_limits.most * (double)c[STK_C_MMAPS];
}

/* numpy.memmap() for every batch: each time the file is opened and mapped, and on a network file
 * system its pages are loaded anew. */
void stk_rule_map_per_sample(struct advisor *ad)
{
    double faults = 0, maps = 0, procs = 1, meta_s = 0, size = 0;
    const struct stk_prof_proc *worst = most_faults(ad->p, &faults);
    const struct stk_usage *most = NULL;
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        if (!is_remapped(u))
            continue;
        most = most && most->n.c[STK_C_MMAPS] >= u->n.c[STK_C_MMAPS] ? most : u;
        maps += (double)u->n.c[STK_C_MMAPS];
        procs = fmax(procs, u->procs);
        meta_s += u->meta_s;
        size += mapped_size(u);
    }
    if (!most || !worst || maps_each(most) < (double)stk_limits.least_opens)
        return;
    enum stk_reach reach = stk_advice_reach_of(most);
    bool measured;
    double each = fault_s(ad, stk_advice_storage(ad, most), worst, reach == STK_REACH_SHARED, &measured);
    double again = fmax(0, (double)worst->major_faults - size / fault_bytes());
    double gain = stk_advice_wall(ad, meta_s * (1 - fmin(1, procs / maps))) + again * each;
    if (!stk_advice_felt(ad, reach, gain))
        return;
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_MAP_PER_SAMPLE, stk_advice_severity(ad, gain),
                         "the same file is mapped %s times",
                         stk_advice_count(ad, (double)most->n.c[STK_C_MMAPS]));
    stk_advice_say(ad, f, "%s (%s) was opened %s times and mapped %s times.",
                   stk_advice_show(ad, most->name), stk_advice_size(ad, mapped_size(most)),
                   stk_advice_count(ad, (double)most->n.c[STK_C_OPENS]),
                   stk_advice_count(ad, (double)most->n.c[STK_C_MMAPS]));
    stk_advice_say(ad, f, "Calls that move no data took %s; %s times a process waited for a page "
                   "from storage (major faults).",
                   stk_advice_thread_time(ad, meta_s), stk_advice_count(ad, faults));
    stk_advice_number(ad, f, "maps", maps, "count");
    stk_advice_number(ad, f, "meta_s", meta_s, "s");
    stk_advice_number(ad, f, "major_faults", faults, "count");
    for (size_t i = 0; i < ad->a->nfiles; i++)
        if (is_remapped(&ad->a->file[i]))
            stk_advice_path(ad, f, ad->a->file[i].name);
    stk_advice_do(ad, f,
                  "Map each file once, when the program or the worker starts, and keep the "
                  "mapping: a network file system drops the pages of a file that is opened again.");
    bool array = most->use->how & STK_USE_ARRAY;
    stk_advice_act_all(ad, f,
                       (struct stk_action){.kind = array ? STK_ACT_KEEP_OPEN : STK_ACT_KEEP_MAPPED,
                                           .use = most->use});
    stk_advice_gain(ad, f, gain,
                    "%s of calls are made once per process, and %s faults, at %s each (%s), do not "
                    "load what was loaded before.",
                    stk_advice_time(ad, meta_s), stk_advice_count(ad, again),
                    stk_advice_time(ad, each),
                    measured ? "measured" : "assumed for this kind of file system");
}

/* Mapped, and not known to be loaded again and again. */
static bool is_mapped(const struct advisor *ad, const struct stk_usage *u)
{
    return u->n.c[STK_C_MMAPS] && !stk_advice_said(ad, STK_RULE_MAP_PER_SAMPLE, u->name);
}

void stk_rule_mmap_random(struct advisor *ad)
{
    double faults = 0;
    const struct stk_usage *u = NULL;
    const struct stk_prof_proc *worst = most_faults(ad->p, &faults);
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *f = &ad->a->file[i];
        if (is_mapped(ad, f) && (!u || f->n.c[STK_C_MMAP_BYTES] > u->n.c[STK_C_MMAP_BYTES]))
            u = f;
    }
    if (!u || u->n.c[STK_C_MMAP_BYTES] < stk_limits.little ||
        faults < (double)stk_limits.least_faults)
        return;
    enum stk_reach reach = stk_advice_reach_of(u);
    const struct stk_storage *st = stk_advice_storage(ad, u);
    bool measured;
    double each = fault_s(ad, st, worst, reach == STK_REACH_SHARED, &measured),
           n = (double)worst->major_faults;
    double size = mapped_size(u);
    struct stk_work whole = stk_work_read(st, size, (double)stk_limits.big_read);
    double gain = fmin(n * each, ad->run_s) - stk_work_s(st, &whole);
    /* A program that starts with a cold page cache also waits for its libraries. */
    if (!stk_advice_felt(ad, reach, gain))
        return;
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_MMAP_RANDOM, stk_advice_severity(ad, gain),
                         "a mapped file is loaded piece by piece, as it is "
                         "touched");
    stk_advice_say(ad, f, "%s times a process waited for a page from storage (major faults).",
                   stk_advice_count(ad, faults));
    stk_advice_say(ad, f, "%s of %s are mapped; which parts were touched is unknown.",
                   stk_advice_size(ad, size), stk_advice_show(ad, u->name));
    stk_advice_number(ad, f, "major_faults", faults, "count");
    stk_advice_number(ad, f, "mmap_bytes", (double)u->n.c[STK_C_MMAP_BYTES], "bytes");
    stk_advice_path(ad, f, u->name);
    for (size_t i = 0; i < ad->a->nfiles; i++) /* whose pages they were, nobody knows */
        if (&ad->a->file[i] != u && is_mapped(ad, &ad->a->file[i]) &&
            ad->a->file[i].n.c[STK_C_MMAP_BYTES] >= stk_limits.little)
            stk_advice_path(ad, f, ad->a->file[i].name);
    stk_advice_do(ad, f,
                  "Load the file with large reads before it is used (on a network file system a "
                  "fault is a request of a few KiB), or read it instead of mapping it.");
    for (size_t i = 0; i < f->npaths; i++)
        stk_advice_act(ad, f,
                       (struct stk_action){.kind = STK_ACT_WARM_UP,
                                           .path = f->path[i],
                                           .bytes = i ? 0 : stk_whole(size)});
    stk_advice_gain(ad, f, gain,
                    "%s faults in the process with the most, at %s each (%s), become large reads "
                    "that take %s.",
                    stk_advice_count(ad, n), stk_advice_time(ad, each),
                    measured ? "measured" : "assumed for this kind of file system",
                    stk_advice_time(ad, stk_work_s(st, &whole)));
}
