/*
 * writes.c - rules about writing: checkpoints that training waits for, small writes, waiting
 * for the disk.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "advice/priv.h"
#include "analysis/parts.h"

/* ---- checkpoint-local ---- */

struct saved {
    double bytes, writes, s, files;
    double times; /* checkpoints that were written: one file may be written many times */
    const struct stk_usage *first;
};

static bool is_checkpoint(const struct stk_usage *u)
{
    return (u->use->how & STK_USE_CHECKPOINT) && u->n.c[STK_C_WRITE_BYTES] &&
           stk_advice_reach_of(u) == STK_REACH_SHARED;
}

/* By the process that does so most: ranks that share a file open it at the same time. */
static double times_opened(const struct advisor *ad, const struct stk_usage *u)
{
    double most = 0;
    for (size_t r = u->rec_from; r < u->rec_to; r++)
        most = fmax(most, (double)ad->p->rec[r].n.c[STK_C_WRITE_OPENS]);
    return most;
}

static struct saved sum_saved(const struct advisor *ad)
{
    struct saved w = {0};
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        if (!is_checkpoint(u))
            continue;
        w.first = w.first ? w.first : u;
        w.bytes += (double)u->n.c[STK_C_WRITE_BYTES];
        w.writes += (double)u->n.c[STK_C_WRITES];
        w.files += (double)u->files_written;
        w.times += fmax((double)u->files_written, times_opened(ad, u));
        w.s += u->write_s + u->meta_s;
    }
    return w;
}

/* All ranks wait for the slowest, usually rank 0, which writes for all. */
static double longest_save(struct advisor *ad)
{
    const struct stk_profile *p = ad->p;
    double longest = 0, *s = calloc(p->nunits + 1, sizeof *s);
    ad->nomem = ad->nomem || !s;
    for (size_t i = 0; s && i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        if (!is_checkpoint(u))
            continue;
        for (size_t r = u->rec_from; r < u->rec_to; r++) {
            const struct stk_prof_rec *rec = &p->rec[r];
            const struct stk_prof_proc *q = rec->proc < p->nprocs ? &p->proc[rec->proc] : NULL;
            if (!q || !q->world || q->born == STK_BORN_FORK || q->threads > 1 ||
                q->unit >= p->nunits || !stk_api_moves(rec->api))
                continue;
            s[q->unit] += stk_counts_io_s(&rec->n);
            longest = fmax(longest, s[q->unit]);
        }
    }
    free(s);
    return fmin(longest, ad->run_s);
}

/* Seconds of the run after the last checkpoint; INFINITY: unknown. */
static double after_last_save(const struct advisor *ad)
{
    double at = 0;
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        for (size_t r = u->rec_from; is_checkpoint(u) && r < u->rec_to; r++) {
            const struct stk_prof_rec *rec = &ad->p->rec[r];
            if (rec->proc < ad->p->nprocs && rec->n.c[STK_C_LAST_NS])
                at = fmax(at, ad->p->proc[rec->proc].start_s + stk_ns(rec->n.c[STK_C_LAST_NS]));
        }
    }
    return at > 0 ? fmax(0, ad->run_s - at) : INFINITY;
}

/* Periods of writing, separated by at least a hundredth of the run without writes. */
static unsigned count_bursts(const struct stk_profile *p)
{
    size_t n = 0, quiet = STK_PROF_BINS;
    for (size_t b = 0; b < STK_PROF_BINS; b++) {
        bool now = p->bin[b].write_bytes > 0;
        n += now && quiet >= STK_PROF_BINS / 100;
        quiet = now ? 0 : quiet + 1;
    }
    return (unsigned)n;
}

/* A disk of the node's own; "": none is known. */
static const char *local_dir(const struct stk_profile *p)
{
    for (size_t i = 0; i < p->nhosts; i++)
        if (*p->host[i].local_dir)
            return p->host[i].local_dir;
    return "";
}

void stk_rule_checkpoint_local(struct advisor *ad)
{
    struct saved w = sum_saved(ad);
    double wall = fmax(stk_advice_wall(ad, w.s), longest_save(ad));
    if (!w.first || w.bytes < (double)stk_limits.little ||
        stk_advice_share(ad, wall) < stk_limits.note_share)
        return;
    double rate = stk_storage_assumed(STK_REACH_LOCAL).write_Bps;
    double local = w.bytes / rate * (w.s > 0 ? wall / w.s : 0);
    /* The program computes while the copy is made, but waits for the last one when it ends. */
    double last = fmax(0, wall / fmax(1, w.times) - after_last_save(ad));
    double gain = fmax(0, wall - local - last);
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_CHECKPOINT_LOCAL, stk_advice_severity(ad, gain),
                         "training waits while checkpoints go to shared storage");
    unsigned bursts = count_bursts(ad->p);
    const char *again = "";
    if (w.times > w.files)
        again = stk_advice_text(ad, ", written %s times", stk_advice_count(ad, w.times));
    stk_advice_say(ad, f, "%s in %s checkpoint file%s%s%s: %s in writes of %s.",
                   stk_advice_size(ad, w.bytes), stk_advice_count(ad, w.files),
                   w.files == 1 ? "" : "s", again,
                   bursts > 1 ? stk_advice_text(ad, ", in %u bursts", bursts) : "",
                   stk_advice_thread_time(ad, w.s),
                   stk_advice_size(ad, w.writes > 0 ? w.bytes / w.writes : 0));
    stk_advice_say(ad, f, "That is %s of the run, on %s.",
                   stk_advice_percent(ad, stk_advice_share(ad, wall)),
                   *w.first->fs ? w.first->fs : "storage that is far away");
    stk_advice_number(ad, f, "write_bytes", w.bytes, "bytes");
    stk_advice_number(ad, f, "write_s", w.s, "s");
    stk_advice_number(ad, f, "files_written", w.files, "count");
    stk_advice_number(ad, f, "mean_write_bytes", w.writes > 0 ? w.bytes / w.writes : 0, "bytes");
    for (size_t i = 0; i < ad->a->nfiles; i++)
        if (is_checkpoint(&ad->a->file[i]))
            stk_advice_path(ad, f, ad->a->file[i].name);
    stk_advice_do(ad, f,
                  "Write them to the node's own disk and copy them in the background. Keep the "
                  "latest one on shared storage: the node's disk is cleared when the job ends.");
    stk_advice_act(ad, f,
                   (struct stk_action){.kind = STK_ACT_LOCAL_SAVE,
                                       .path = stk_advice_parent(ad, w.first->name),
                                       .to = local_dir(ad->p),
                                       .bytes = stk_whole(w.bytes)});
    const char *end = "";
    if (last > 0)
        end = stk_advice_text(ad, ", and the wait for the last copy when the program ends %s",
                              stk_advice_time(ad, last));
    stk_advice_gain(ad, f, gain, "%s to a local disk at %s (assumed) take %s%s, instead of %s.",
                    stk_advice_size(ad, w.bytes), stk_advice_rate(ad, rate),
                    stk_advice_time(ad, local), end, stk_advice_time(ad, wall));
}

/* ---- small-writes ---- */

/* Text that people read while the program runs, or after it was killed. */
static bool is_log(const struct stk_usage *u)
{
    return u->use->how & (STK_USE_LOG | STK_USE_LINES);
}

static void small_writes_actions(struct advisor *ad, struct stk_finding *f,
                                 const struct stk_usage *u)
{
    const uint64_t *c = u->n.c;
    struct stk_action a = {.kind = STK_ACT_LARGER_WRITES, .use = u->use};
    if (u->use->batch_write) {
        a.kind = STK_ACT_BATCH_WRITES;
        stk_advice_do(ad, f,
                      "Write many rows with one slice, into chunks of about 1 MiB (chunks= when "
                      "the dataset is created).");
    } else if (c[STK_C_SEQ_WRITES] && 2 * c[STK_C_CONSEC_WRITES] < c[STK_C_WRITES]) {
        /* In random order, half go forward; where none does, the order is unknown. */
        a.kind = STK_ACT_SORT_WRITES;
        stk_advice_do(ad, f,
                      "They are scattered, so no buffer can collect them: change the data in "
                      "memory and write it out in order, in megabytes.");
    } else if (is_log(u)) {
        a.kind = STK_ACT_WHOLE_LINES;
        stk_advice_do(ad, f,
                      "It is a log: a line that is written at once survives a program that is "
                      "killed, and a larger buffer would lose the last lines. If a line takes "
                      "several writes, write whole lines. If each write is a line already, only "
                      "logging less often saves time.");
    } else {
        a.bytes = stk_limits.big_read;
        stk_advice_do(ad, f,
                      "Collect the output and write megabytes at a time, if the file is of use only "
                      "when it is complete: a killed program loses what it has collected.");
    }
    stk_advice_act_all(ad, f, a);
}

struct small_writes {
    double n, bytes, s;
    const struct stk_usage *worst;
};

static struct small_writes sum_small_writes(const struct advisor *ad, bool logs)
{
    struct small_writes w = {0};
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        if (u->n.c[STK_C_WRITES] < stk_limits.least_calls / 10 || is_log(u) != logs ||
            u->mean_write_bytes > (double)stk_limits.small_read)
            continue;
        w.worst = w.worst && w.worst->write_s >= u->write_s ? w.worst : u;
        w.n += (double)u->n.c[STK_C_WRITES];
        w.bytes += (double)u->n.c[STK_C_WRITE_BYTES];
        w.s += u->write_s;
    }
    return w;
}

/* A profile counts writes, not lines: a log may be written as well as it can be. */
static enum stk_severity severity_of(const struct advisor *ad, double gain, bool logs)
{
    return logs ? STK_SEV_LOW : stk_advice_severity(ad, gain);
}

static void small_writes_in(struct advisor *ad, bool logs)
{
    struct small_writes w = sum_small_writes(ad, logs);
    if (!w.worst || w.n < (double)stk_limits.least_calls)
        return;
    struct stk_storage st = *stk_advice_storage(ad, w.worst);
    st.latency_s = w.s / w.n; /* of a write here */
    struct stk_work now = {.requests = w.n, .bytes = w.bytes};
    struct stk_work large = stk_work_read(&st, w.bytes, (double)stk_limits.big_read);
    double better = w.s - stk_work_saved_s(&st, w.s, &now, &large);
    double gain = stk_advice_wall(ad, w.s - better);
    if (!stk_advice_matters(ad, gain))
        return;
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_SMALL_WRITES, severity_of(ad, gain, logs),
                         "%s writes of %s%s", stk_advice_count(ad, w.n),
                         stk_advice_size(ad, w.bytes / w.n),
                         logs ? " to logs" : "");
    stk_advice_say(ad, f, "%s writes of %s on average took %s, %s each, most of them on %s.",
                   stk_advice_count(ad, w.n), stk_advice_size(ad, w.bytes / w.n),
                   stk_advice_thread_time(ad, w.s), stk_advice_time(ad, w.s / w.n),
                   stk_advice_show(ad, w.worst->name));
    stk_advice_number(ad, f, "writes", w.n, "count");
    stk_advice_number(ad, f, "mean_write_bytes", w.bytes / w.n, "bytes");
    stk_advice_number(ad, f, "write_s", w.s, "s");
    stk_advice_path(ad, f, w.worst->name);
    small_writes_actions(ad, f, w.worst);
    if (logs)
        stk_advice_gain(ad, f, 0, "None if each write is a line already: a profile does not count "
                                  "lines.");
    else
        stk_advice_gain(ad, f, gain, "%s in writes of %s would take %s instead of %s.",
                        stk_advice_size(ad, w.bytes),
                        stk_advice_size(ad, (double)stk_limits.big_read),
                        stk_advice_time(ad, better), stk_advice_thread_time(ad, w.s));
}

void stk_rule_small_writes(struct advisor *ad)
{
    small_writes_in(ad, false);
    small_writes_in(ad, true);
}

/* ---- fsync-heavy ---- */

const char *stk_advice_sqlite(struct advisor *ad, const char *path)
{
    static const char *const beside[] = {"-journal", "-wal"};
    size_t n = strlen(path);
    for (size_t k = 0; k < 2; k++)
        if (stk_text_ends(path, n, beside[k]) && n > strlen(beside[k]))
            return stk_advice_text(ad, "%.*s", (int)(n - strlen(beside[k])), path);
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const char *other = ad->a->file[i].name;
        for (size_t k = 0; k < 2; k++)
            if (strncmp(other, path, n) == 0 && strcmp(other + n, beside[k]) == 0)
                return path;
    }
    return NULL;
}

/* The remedy depends on who syncs: a database at every commit, a checkpoint once when it is
 * complete (as it should), a program after every line. */
static const char *fsync_actions(struct advisor *ad, struct stk_finding *f,
                                 const struct stk_usage *u)
{
    const uint64_t *c = u->n.c;
    const char *database = stk_advice_sqlite(ad, u->name);
    if (database) {
        stk_advice_do(ad, f,
                      "SQLite waits for the disk at every commit: put many rows into one "
                      "transaction.");
        stk_advice_act(ad, f, (struct stk_action){.kind = STK_ACT_SQLITE_COMMIT, .path = database});
        return "One commit for many rows needs few of the syncs";
    }
    if (c[STK_C_FSYNCS] <= c[STK_C_WRITE_OPENS] + c[STK_C_RENAMES]) {
        stk_advice_do(ad, f,
                      "Each file is synced once, when it is complete: that is right. Write it "
                      "less often, or let a thread write and sync it while the program goes on.");
        stk_advice_act_all(ad, f, (struct stk_action){.kind = STK_ACT_SAVE_ASIDE});
        return "Nobody waits if a thread does it";
    }
    stk_advice_do(ad, f,
                  "Sync once, when a checkpoint is complete and before it is renamed into place; "
                  "not after each write or log line.");
    stk_advice_act_all(ad, f, (struct stk_action){.kind = STK_ACT_SYNC_ONCE});
    return "All but one of the syncs";
}

void stk_rule_fsync_heavy(struct advisor *ad)
{
    double syncs = 0, s = 0;
    const struct stk_usage *worst = NULL;
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        /* The time covers all calls that move no data: use it only where most of them are
         * fsyncs. */
        if (!stk_usage_syncs(u) || stk_advice_said(ad, STK_RULE_CHECKPOINT_LOCAL, u->name))
            continue;
        worst = worst && worst->meta_s >= u->meta_s ? worst : u;
        syncs += (double)(u->n.c[STK_C_FSYNCS] + u->n.c[STK_C_MSYNCS]);
        s += u->meta_s;
    }
    double gain = stk_advice_wall(ad, s);
    if (!worst || syncs < (double)stk_limits.least_syncs || !stk_advice_matters(ad, gain))
        return;
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_FSYNC_HEAVY, stk_advice_severity(ad, gain),
                         "%s times the program waits until data is on disk",
                         stk_advice_count(ad, syncs));
    stk_advice_say(ad, f, "%s calls of fsync and the like; with opening and closing, %s.",
                   stk_advice_count(ad, syncs), stk_advice_thread_time(ad, s));
    stk_advice_number(ad, f, "fsyncs", syncs, "count");
    stk_advice_number(ad, f, "meta_s", s, "s");
    stk_advice_path(ad, f, worst->name);
    const char *why = fsync_actions(ad, f, worst);
    stk_advice_gain(ad, f, gain * (1 - 1 / syncs), "%s: %s in calls.", why,
                    stk_advice_thread_time(ad, s));
}
