/*
 * advice.c - the rules one by one, the order of findings and the verdict. The rules are in reads.c,
 * lanes.c, files.c, meta.c, memory.c, tables.c, writes.c, start.c and balance.c, their thresholds
 * in limits.c.
 */
#include "advice/advice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "advice/priv.h"
#include "analysis/parts.h"

static const struct rule rules[] = {
#define X(constant, function, id, summary) {id, summary, stk_rule_##function},
    STK_RULES(X)
#undef X
};

#define FINDINGS_MAX 128

const char *stk_rule_id(size_t i, const char **summary)
{
    if (i >= sizeof rules / sizeof *rules)
        return NULL;
    if (summary)
        *summary = rules[i].summary;
    return rules[i].id;
}

const char *stk_severity_name(enum stk_severity s)
{
    static const char *const names[] = {"note", "low", "medium", "high"};
    return (unsigned)s < sizeof names / sizeof *names ? names[s] : "";
}

static int by_weight(const void *x, const void *y)
{
    const struct stk_finding *a = x, *b = y;
    if (a->severity != b->severity)
        return a->severity < b->severity ? 1 : -1;
    if (a->gain_s != b->gain_s)
        return a->gain_s < b->gain_s ? 1 : -1;
    return strcmp(a->id, b->id);
}

/* A process of which bytes are missing neither computed nor waited in a call that was seen: few
 * bytes may take long, one by one. */
static bool hides_waits(const struct advisor *ad)
{
    for (size_t i = 0; i < ad->p->nprocs; i++) {
        const struct stk_prof_proc *q = &ad->p->proc[i];
        double kernel = (double)q->kernel_read_bytes, unseen = kernel - (double)q->seen_read_bytes;
        double idle = q->end_s - q->start_s - q->cpu_s - q->io_union_s - q->wait_processes_s -
                      q->wait_threads_s;
        if (unseen >= (double)STK_COVERAGE_LEAST && unseen > (1 - stk_limits.seen) * kernel &&
            idle >= stk_limits.low_s && stk_advice_share(ad, idle) >= stk_limits.medium_share)
            return true;
    }
    return false;
}

/* Share of the read bytes that was observed, where much was not; otherwise 1. -1: unknown. */
static double seen_share(const struct advisor *ad)
{
    const struct stk_analysis *a = ad->a;
    double seen = a->coverage_read, kernel = (double)a->kernel_read_bytes;
    bool little = kernel * (1 - seen) < (double)stk_limits.little && !hides_waits(ad);
    bool counted = a->coverage_write >= 0 || ad->p->kernel_read_bytes || ad->p->kernel_write_bytes;
    if (seen < 0) /* nothing was read, or nothing counted it */
        return counted || a->coverage_little || !(ad->p->source->knows & STK_KNOWS_KERNEL) ? 1 : -1;
    return seen >= stk_limits.seen || little ? 1 : seen;
}

static double dropped_calls(const struct stk_profile *p)
{
    double n = 0;
    for (size_t i = 0; i < p->nprocs; i++)
        n += (double)p->proc[i].dropped_calls;
    return n;
}

/* Nothing is called healthy unless (nearly) all of it was seen. */
static bool saw_enough(const struct advisor *ad)
{
    const uint64_t *c = ad->a->job.n.c;
    double calls = (double)(c[STK_C_READS] + c[STK_C_WRITES] + c[STK_C_OPENS] + c[STK_C_STATS]);
    return seen_share(ad) >= 1 && !ad->a->blind &&
           dropped_calls(ad->p) <= (1 - stk_limits.seen) * calls;
}

static const char *unseen_bytes(struct advisor *ad)
{
    double seen = seen_share(ad);
    if (seen < 0)
        return "; how much that is, is unknown: the kernel's count is not available";
    if (seen >= 1)
        return "";
    return stk_advice_text(ad, "; only %s of the bytes that the kernel counted were seen",
                           stk_advice_percent(ad, seen));
}

static const char *unseen_calls(struct advisor *ad)
{
    double dropped = dropped_calls(ad->p);
    const char *text = "";
    if (ad->a->blind)
        text = stk_advice_text(
            ad, "; transfers of io_uring or kernel AIO in %s process%s were not seen (%.100s)",
            stk_advice_count(ad, ad->a->blind), ad->a->blind == 1 ? "" : "es", ad->a->blind_name);
    if (dropped > 0 && !saw_enough(ad))
        text = stk_advice_text(ad, "%s; %s calls could not be recorded", text,
                               stk_advice_count(ad, dropped));
    return text;
}

/* Every verdict must mention what was not observed: bytes the kernel counted, transfers that are no
 * calls, mapped files that may be most of what was read, and the time after the recording. */
static const char *unseen(struct advisor *ad)
{
    const uint64_t *c = ad->a->job.n.c;
    double faults = 0;
    const char *text = stk_advice_text(ad, "%s%s", unseen_bytes(ad), unseen_calls(ad));
    for (size_t i = 0; i < ad->p->nprocs; i++)
        faults += (double)ad->p->proc[i].major_faults;
    if (c[STK_C_MMAP_BYTES] >= stk_limits.little && c[STK_C_MMAP_BYTES] > c[STK_C_READ_BYTES])
        text = stk_advice_text(ad,
                               "%s; reads through %s of mapped files are not included (%s page "
                               "fault%s went to storage)",
                               text, stk_advice_size(ad, (double)ad->p->mapped_bytes),
                               stk_advice_count(ad, faults), faults == 1 ? "" : "s");
    double library = ad->a->loop.library_s;
    if (stk_advice_share(ad, library) >= stk_limits.low_share && library >= stk_limits.low_s)
        text = stk_advice_text(ad, "%s; files of libraries and of the system took %s", text,
                               stk_advice_time(ad, library));
    return ad->p->stopped_early ? stk_advice_text(ad, "%s; recording ended early", text) : text;
}

/* No process left a log: a healthy program and an unobserved one look alike. */
static bool saw_nothing(const struct stk_profile *p)
{
    bool log = !(p->source->knows & STK_KNOWS_PROCESSES) || p->nrecs > 0;
    for (size_t i = 0; i < p->nprocs; i++)
        log = log || (p->proc[i].log && *p->proc[i].log);
    return !log;
}

/* Seconds from the start of the workers to their first read: they import modules meanwhile. */
static double begin_s(struct advisor *ad)
{
    const struct stk_profile *p = ad->p;
    double *first = stk_arena_alloc(&ad->out->arena, (p->nprocs + 1) * sizeof *first);
    double sum = 0, n = 0;
    ad->nomem = ad->nomem || !first;
    for (size_t i = 0; first && i < p->nprocs; i++)
        first[i] = INFINITY;
    for (size_t i = 0; first && i < p->nrecs; i++)
        if (p->rec[i].proc < p->nprocs && p->rec[i].n.c[STK_C_READS])
            first[p->rec[i].proc] = fmin(first[p->rec[i].proc],
                                         stk_ns(p->rec[i].n.c[STK_C_FIRST_READ_NS]));
    for (size_t i = 0; first && i < p->nprocs; i++)
        if (p->proc[i].worker && isfinite(first[i])) {
            sum += first[i];
            n++;
        }
    return n > 0 ? sum / n : 0;
}

/* The main loop waits, and not for I/O: those that prepare its data are busy with something else.
 */
static const char *other_wait(struct advisor *ad, double io_share, const char *not_seen)
{
    const struct stk_loop *l = &ad->a->loop;
    double wait = l->how > STK_LOOP_READS ? stk_advice_share(ad, l->wait_s) : 0;
    if (wait < stk_limits.medium_share || wait < 2 * io_share)
        return NULL;
    return stk_advice_text(
        ad,
        "no fault in the I/O, which costs %s of the run; but the main loop waited "
        "%s of it for data: %s%s",
        stk_advice_percent(ad, io_share), stk_advice_percent(ad, wait),
        l->how == STK_LOOP_PIPES ? "the programs that send it are busy with something else"
        : l->how == STK_LOOP_THREADS ? "its threads are too few, or busy with decoding"
        : begin_s(ad) > stk_limits.most * l->wait_s
            ? "most of that its workers took to start (they import modules)"
            : "its workers are too few, or busy with decoding",
        not_seen);
}

/* The least that a finding must save: data of a local disk comes from memory as a rule. */
static double floor_s(const struct advisor *ad)
{
    const struct stk_usage *most = ad->a->nfiles ? &ad->a->file[0] : NULL;
    bool local = most && stk_advice_reach_of(most) != STK_REACH_SHARED;
    return fmax(local ? stk_limits.local_s : stk_limits.low_s, stk_limits.low_share * ad->run_s);
}

/* No rule found a fault, but I/O takes time: what the best of all patterns would save decides
 * whether that is all right. */
static const char *costly_verdict(struct advisor *ad, const char *pattern, const char *not_seen)
{
    const struct stk_usage *j = &ad->a->job;
    double once = stk_advice_load_s(ad, &ad->storage[0], (double)j->distinct_bytes, 0,
                                    stk_compute_of(ad->a));
    double saved = stk_advice_wall(ad, j->read_s + j->meta_s) - once, least = floor_s(ad);
    const char *share = stk_advice_percent(ad, stk_advice_share(ad, ad->io_wall_s));
    if (saved < least)
        return stk_advice_text(ad,
                               "nothing to fix: I/O takes %s of the run, %s; no other pattern of "
                               "reading would save more than %s%s",
                               share, pattern, stk_advice_time(ad, least), not_seen);
    return stk_advice_text(ad,
                           "no known fault: I/O takes %s of the run, %s; at most %s of %s would be "
                           "saved if each byte were read once, in large requests%s",
                           share, pattern, stk_advice_time(ad, saved), stk_advice_time(ad, ad->run_s),
                           not_seen);
}

static const char *healthy_verdict(struct advisor *ad)
{
    const struct stk_usage *j = &ad->a->job;
    double bytes = (double)(j->n.c[STK_C_READ_BYTES] + j->n.c[STK_C_WRITE_BYTES]);
    double share = stk_advice_share(ad, ad->io_wall_s);
    const char *not_seen = unseen(ad);
    if (!saw_enough(ad))
        return stk_advice_text(ad, "no fault in what was seen%s", not_seen);
    if (ad->ranks > 1 && ad->longest_s > stk_limits.far_from_mean * ad->io_wall_s &&
        stk_advice_share(ad, ad->longest_s) >= stk_limits.medium_share)
        return stk_advice_text(
            ad,
            "nothing to fix: no pattern that costs time, although %s spends %s of the run in I/O "
            "(the mean is %s)%s",
            stk_advice_rank(ad, ad->longest),
            stk_advice_percent(ad, stk_advice_share(ad, ad->longest_s)),
            stk_advice_percent(ad, share), not_seen);
    const char *other = other_wait(ad, share, not_seen);
    if (other)
        return other;
    if (bytes < (double)stk_limits.little && share < stk_limits.low_share)
        return stk_advice_text(ad, "nothing to fix: the job did next to no I/O (%s)%s",
                               stk_advice_size(ad, bytes), not_seen);
    if (share < stk_limits.exposed_share && ad->workers && ad->hidden > stk_limits.most)
        return stk_advice_text(ad,
                               "nothing to fix: reading is hidden behind computing; the run waits "
                               "for I/O %s of its time%s",
                               stk_advice_percent(ad, share), not_seen);
    if (share < stk_limits.exposed_share)
        return stk_advice_text(ad, "nothing to fix: the run waits for I/O %s of its time%s",
                               stk_advice_percent(ad, share), not_seen);
    if (j->meta_s > j->read_s + j->write_s)
        return costly_verdict(ad,
                              stk_advice_text(ad, "mostly calls that move no data, on %s file%s",
                                              stk_advice_count(ad, (double)j->files),
                                              j->files == 1 ? "" : "s"),
                              not_seen);
    if (j->read_s >= j->write_s)
        return costly_verdict(ad,
                              stk_advice_text(ad, "in requests of %s at %s each",
                                              stk_advice_size(ad, j->mean_read_bytes),
                                              stk_advice_rate(ad, j->bandwidth_Bps)),
                              not_seen);
    return costly_verdict(
        ad, stk_advice_text(ad, "mostly writes of %s", stk_advice_size(ad, j->mean_write_bytes)),
        not_seen);
}

/* An accelerator that idles while no I/O call is in progress waits for something else. */
static const char *idle_accelerator(struct advisor *ad)
{
    double idle = ad->a->gpu_idle_share;
    if (idle < stk_limits.high_share)
        return "";
    return stk_advice_text(ad,
                           "; the GPU was idle in %s of the samples for a reason other than I/O "
                           "(starting up, too few workers, work on the CPU)",
                           stk_advice_percent(ad, idle));
}

/* Gains do not add up: two findings may save the same seconds. The verdict names the finding with the
 * largest, and promises only that. */
static const char *make_verdict(struct advisor *ad)
{
    struct stk_advice *o = ad->out;
    const struct stk_finding *best = o->finding;
    bool nothing = saw_nothing(ad->p);
    bool fault = o->nfindings && o->finding[0].severity > STK_SEV_NOTE;
    o->blind = nothing || (!fault && !saw_enough(ad));
    if (nothing && ad->p->unread_logs)
        return stk_advice_text(ad,
                               "nothing is known about this program's I/O%s: none of its logs can "
                               "be read (damaged, or "
                               "written by the preload library of another version of stoker)",
                               unseen(ad));
    if (nothing)
        return stk_advice_text(
            ad,
            "nothing is known about this program's I/O%s: no process left a log. It "
            "is linked statically, setuid or uses another C library, was "
            "started without LD_PRELOAD, or has only just started",
            unseen(ad));
    if (o->nfindings == 0)
        return stk_advice_text(ad, "%s%s", healthy_verdict(ad), idle_accelerator(ad));
    for (size_t i = 0; i < o->nfindings; i++)
        best = o->finding[i].gain_s > best->gain_s ? &o->finding[i] : best;
    const char *count =
        o->nfindings == 1 ? "one finding" : stk_advice_text(ad, "%zu findings", o->nfindings);
    if (!fault)
        return stk_advice_text(
            ad, "no finding is known to cost time: %s, I/O takes %s of the run%s", count,
            stk_advice_percent(ad, stk_advice_share(ad, ad->io_wall_s)), unseen(ad));
    if (best->gain_s <= 0)
        return stk_advice_text(ad, "%s; begin with %s%s", count, best->id, unseen(ad));
    return stk_advice_text(ad, "%s; begin with %s, which saves about %s of %s%s", count, best->id,
                           stk_advice_time(ad, best->gain_s), stk_advice_time(ad, ad->run_s),
                           unseen(ad));
}

int stk_advise(const struct stk_analysis *a, struct stk_advice *advice, struct stk_err *err)
{
    *advice = (struct stk_advice){.verdict = ""};
    struct advisor ad = {
        .a = a, .p = a->p, .out = advice, .room = FINDINGS_MAX, .run_s = a->p->run_s};
    advice->finding = stk_arena_alloc(&advice->arena, FINDINGS_MAX * sizeof *advice->finding);
    ad.nomem = !advice->finding;
    stk_advice_scene(&ad);
    advice->framework = ad.scene.framework;
    if (!ad.nomem)
        stk_advice_costs(&ad);
    for (size_t i = 0; !ad.nomem && i < sizeof rules / sizeof *rules; i++)
        rules[i].fire(&ad);
    if (!ad.nomem)
        stk_advice_lines(&ad);
    if (!ad.nomem) {
        qsort(advice->finding, advice->nfindings, sizeof *advice->finding, by_weight);
        advice->verdict = make_verdict(&ad);
    }
    if (!ad.nomem)
        return 0;
    stk_advice_release(advice);
    return stk_err_nomem(err, FINDINGS_MAX * sizeof *advice->finding);
}

void stk_advice_release(struct stk_advice *advice)
{
    stk_arena_release(&advice->arena);
    *advice = (struct stk_advice){.verdict = ""};
}

/* ---- from a profile's path to findings ------------------------------------------------------- */

int stk_judge(const char *path, struct stk_judged *j, struct stk_err *err)
{
    *j = (struct stk_judged){0};
    int rc = stk_profile_read(path, &j->profile, err);
    if (!rc)
        rc = stk_analyze(&j->profile, &j->analysis, err);
    if (!rc)
        rc = stk_advise(&j->analysis, &j->advice, err);
    if (rc)
        stk_judged_release(j);
    return rc;
}

void stk_judged_release(struct stk_judged *j)
{
    stk_advice_release(&j->advice);
    stk_analysis_release(&j->analysis);
    stk_profile_release(&j->profile);
}
