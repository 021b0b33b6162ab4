/*
 * meta.c - rules about calls that move no data: one file opened again and again, and the
 * load on the metadata server. The remedy depends on what is requested so often.
 */
#include <math.h>
#include <string.h>

#include "advice/priv.h"
#include "analysis/parts.h"

/* ---- open-per-sample ---- */

/* A file of which each open reads a piece, or the whole. */
static bool is_reopened(const struct stk_usage *u)
{
    const uint64_t *c = u->n.c;
    double each = stk_per((double)c[STK_C_OPENS], u->procs ? u->procs : 1);
    double per_open = stk_per((double)c[STK_C_READ_BYTES], c[STK_C_OPENS]);
    return !u->file->group && each >= (double)stk_limits.least_opens && c[STK_C_READS] &&
           !stk_kind_model(u) && !stk_usage_blocks(u) &&
           (per_open <= stk_limits.most * (double)u->distinct_bytes || stk_kind_again(u));
}

static void reopened_actions(struct advisor *ad, struct stk_finding *f, const struct stk_usage *u)
{
    bool whole = stk_kind_again(u);
    stk_advice_do(ad, f, "%s",
                  whole ? "It is read as a whole each time: read it once, when the program or the "
                          "worker starts, and keep the content."
                        : "Open the file once in each worker, at the first sample, and keep it "
                          "open.");
    stk_advice_act_all(ad, f,
                       (struct stk_action){.kind = whole ? STK_ACT_READ_ONCE : STK_ACT_KEEP_OPEN,
                                           .bytes = whole ? u->distinct_bytes : 0,
                                           .use = u->use});
}

/* Requests for bytes of their own: a header that is read at every open counts once. */
static double distinct_requests(const struct stk_usage *u)
{
    return stk_per((double)u->n.c[STK_C_READS] * (double)u->distinct_bytes,
                   u->n.c[STK_C_READ_BYTES]);
}

/*
 * The file stays open, or its content in memory. Then headers are read once; each sample takes a
 * request of its own, unless memory has the page. As many of the distinct requests reach storage as
 * of all.
 */
static struct stk_work kept_open(const struct stk_usage *u, const struct stk_work *now)
{
    double once = fmax(1, u->procs) / fmax(1, now->opens), reads = (double)u->n.c[STK_C_READS];
    struct stk_work w = *now;
    w.opens *= once;
    w.asks *= once;
    if (stk_kind_again(u)) {
        w.requests *= once;
        w.bytes *= once;
        w.cpu_s = 0;
        return w;
    }
    double samples = fmin(now->opens, (double)u->distinct_bytes / (double)stk_limits.page);
    double others = distinct_requests(u) * now->requests / fmax(1, reads);
    w.requests = fmin(now->requests, fmax(samples, others));
    w.bytes = fmin(now->bytes, fmax((double)u->distinct_bytes, samples * (double)stk_limits.page));
    return w;
}

/* Seconds in calls that this saves. */
static double reopened_s(const struct advisor *ad, const struct stk_usage *u)
{
    const struct stk_storage *st = stk_advice_storage(ad, u);
    struct stk_work now = stk_work_of(u), kept = kept_open(u, &now);
    return stk_work_saved_s(st, u->meta_s + u->read_s, &now, &kept);
}

void stk_rule_open_per_sample(struct advisor *ad)
{
    double saved = 0;
    size_t n = 0;
    const struct stk_usage *worst = NULL;
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        if (!is_reopened(u))
            continue;
        worst = worst ? worst : u;
        saved += reopened_s(ad, u);
        n++;
    }
    double gain = stk_advice_wall(ad, saved);
    /* Many files, each read as a whole in each of many epochs, are a dataset. */
    if (!worst || !stk_advice_matters(ad, gain) ||
        (stk_kind_again(worst) && n >= stk_limits.least_files))
        return;
    const uint64_t *c = worst->n.c;
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_OPEN_PER_SAMPLE, stk_advice_severity(ad, gain),
                         "the same file is opened %s times",
                         stk_advice_count(ad, (double)c[STK_C_OPENS]));
    stk_advice_say(ad, f, "%s was opened %s times, for %s of data each time.%s",
                   stk_advice_show(ad, worst->name), stk_advice_count(ad, (double)c[STK_C_OPENS]),
                   stk_advice_size(ad, stk_per((double)c[STK_C_READ_BYTES], c[STK_C_OPENS])),
                   n > 1 ? stk_advice_text(ad, " %zu more are like it.", n - 1) : "");
    stk_advice_say(ad, f, "%s took %s.",
                   stk_kind_again(worst) ? "Opening, reading and closing"
                                         : "Opening it, and reading its headers again,",
                   stk_advice_thread_time(ad, saved));
    stk_advice_number(ad, f, "opens", (double)c[STK_C_OPENS], "count");
    stk_advice_number(ad, f, "meta_s", saved, "s");
    for (size_t i = 0; i < ad->a->nfiles; i++)
        if (is_reopened(&ad->a->file[i]))
            stk_advice_path(ad, f, ad->a->file[i].name);
    reopened_actions(ad, f, worst);
    stk_advice_gain(ad, f, gain,
                    "All but the first open of each process, and what is read again at each: %s in "
                    "calls, at %s.%s",
                    stk_advice_time(ad, saved), stk_advice_pace(ad, stk_advice_storage(ad, worst)),
                    stk_advice_calls(ad));
}

/* ---- metadata-load ---- */

static double meta_calls(const struct stk_usage *u)
{
    return (double)stk_counts_meta_calls(&u->n);
}

struct asked {               /* time of calls that move no data */
    double said_s;           /* explained by other findings, or not caused by a dataset */
    double few_s, few_calls; /* of individual files that are asked for repeatedly */
    double few_procs;        /* processes that ask, added up over these files */
    double opens, writers, stats;
    const struct stk_usage *worst;
    size_t few;
};

/* The directory under which a path is counted: the deepest one above it. */
static const struct stk_usage *dir_above(const struct advisor *ad, const char *path)
{
    const struct stk_usage *best = NULL;
    for (size_t i = 0; i < ad->a->ndirs; i++) {
        const struct stk_usage *d = &ad->a->dir[i];
        size_t n = strlen(d->name);
        if (strncmp(path, d->name, n) == 0 && (!path[n] || path[n] == '/') &&
            (!best || n > strlen(best->name)))
            best = d;
    }
    return best;
}

/* Seconds in such calls on the files of a folder, or of the folders in it. */
static double meta_below(const struct advisor *ad, const char *path)
{
    const struct stk_usage *dir = dir_above(ad, path);
    size_t n = strlen(path);
    double s = dir ? dir->meta_s : 0;
    for (size_t i = 0; i < ad->a->ndirs; i++) {
        const struct stk_usage *d = &ad->a->dir[i];
        s += strncmp(d->name, path, n) == 0 && d->name[n] == '/' ? d->meta_s : 0;
    }
    return s;
}

static struct asked sum_asked(const struct advisor *ad)
{
    struct asked m = {0};
    for (size_t i = 0; i < ad->out->nfindings; i++) {
        const struct stk_finding *f = &ad->out->finding[i];
        bool small = f->rule == STK_RULE_MANY_SMALL_FILES && f->npaths;
        m.said_s += small ? meta_below(ad, f->path[0]) : 0;
    }
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        double calls = meta_calls(u) - (double)u->n.c[STK_C_DIR_READS];
        if (stk_advice_said(ad, STK_RULE_OPEN_PER_SAMPLE, u->name) ||
            stk_advice_said(ad, STK_RULE_MAP_PER_SAMPLE, u->name) || stk_usage_syncs(u) ||
            stk_usage_blocks(u) || stk_kind_store(u) || (u->use->how & STK_USE_SYSTEM)) {
            m.said_s += u->meta_s;
        } else if (!u->file->group && calls >= (double)stk_limits.least_opens) {
            m.few_s += u->meta_s;
            m.few_calls += calls;
            m.few_procs += fmax(1, u->procs);
            m.opens += (double)u->n.c[STK_C_OPENS];
            m.writers += (double)u->n.c[STK_C_WRITE_OPENS];
            m.stats += (double)(u->n.c[STK_C_STATS] + u->n.c[STK_C_ERRORS]);
            m.worst = m.worst ? m.worst : u;
            m.few++;
        }
    }
    return m;
}

static void asked_paths(struct advisor *ad, struct stk_finding *f, bool few)
{
    for (size_t i = 0; few && i < ad->a->nfiles && f->npaths < 3; i++)
        if (meta_calls(&ad->a->file[i]) >= (double)stk_limits.least_opens)
            stk_advice_path(ad, f, ad->a->file[i].name);
    for (size_t i = 0; !few && i < ad->a->ndirs && i < 3; i++)
        stk_advice_path(ad, f, ad->a->dir[i].name);
}

static bool writes_many(const struct stk_usage *j)
{
    return j->files_written >= stk_limits.least_files && j->files_written > j->files_read;
}

/* Names come and go more often than files are opened or looked at. */
static bool churns(const struct stk_usage *u)
{
    const uint64_t *c = u->n.c;
    return c[STK_C_REMOVES] + c[STK_C_RENAMES] >
           c[STK_C_OPENS] + c[STK_C_STATS] + c[STK_C_DIR_READS] + c[STK_C_ERRORS];
}

/* A disk of the node's own, or memory. */
static const char *local_dir(const struct stk_profile *p)
{
    for (size_t i = 0; i < p->nhosts; i++)
        if (*p->host[i].local_dir)
            return p->host[i].local_dir;
    return "/dev/shm";
}

/* A few files that are asked for again and again. */
static const char *few_actions(struct advisor *ad, struct stk_finding *f, const struct asked *m)
{
    const char *which = m->few == 1 ? "One file is" : stk_advice_text(ad, "%zu files are", m->few);
    struct stk_action a = {.kind = STK_ACT_KEEP_STAT};
    bool opened = m->opens > 0 && m->opens * stk_limits.stats_per_open >= m->stats;
    if (opened && m->writers > stk_limits.most * m->opens) {
        a.kind = STK_ACT_KEEP_WRITER;
        a.bytes = stk_limits.unit_read;
        stk_advice_do(ad, f, "%s opened for writing %s times: open once, and append.", which,
                      stk_advice_count(ad, m->writers));
    } else if (opened) {
        a.kind = STK_ACT_KEEP_OPEN;
        a.use = m->worst->use;
        stk_advice_do(ad, f, "%s opened %s times: open once and keep it open.", which,
                      stk_advice_count(ad, m->opens));
    } else {
        stk_advice_do(ad, f, "%s asked for %s times: ask once and remember the answer.", which,
                      stk_advice_count(ad, m->few_calls));
    }
    stk_advice_act_all(ad, f, a);
    return "the answers are kept";
}

static const char *asked_actions(struct advisor *ad, struct stk_finding *f, const struct asked *m,
                                 bool few)
{
    const struct stk_usage *j = &ad->a->job;
    const char *database = few && f->npaths ? stk_advice_sqlite(ad, f->path[0]) : NULL;
    if (database) {
        stk_advice_do(ad, f,
                      "SQLite looks for a journal and checks whether the file has changed at "
                      "every query: put many queries into one transaction, or open it as "
                      "read-only and immutable.");
        stk_advice_act(ad, f, (struct stk_action){.kind = STK_ACT_SQLITE_READ, .path = database});
        return "the answers are kept";
    }
    if (few)
        return few_actions(ad, f, m);
    if (churns(j)) {
        stk_advice_do(ad, f,
                      "Files and folders are created, changed and removed, not read: do that in a "
                      "folder on the node's own disk or in memory, and move the result, as one "
                      "archive if it has many files.");
        stk_advice_act_all(ad, f,
                           (struct stk_action){.kind = STK_ACT_SCRATCH, .to = local_dir(ad->p)});
        return "the calls no longer go to shared storage";
    }
    if (writes_many(j)) {
        stk_advice_do(ad, f,
                      "Write fewer, larger files: many results in one (records, HDF5, tar), or "
                      "write them to the node's own disk and move them as one archive.");
        stk_advice_act_all(
            ad, f, (struct stk_action){.kind = STK_ACT_WRITE_ARCHIVE, .count = j->files_written});
        return "a few calls create a few files";
    }
    stk_advice_do(ad, f,
                  "List the dataset once and keep the list in a file; do not stat files whose "
                  "names come from a listing; pack small files.");
    if (f->npaths)
        stk_advice_act_all(ad, f, (struct stk_action){.kind = STK_ACT_LIST_ONCE});
    return "a list is read in one request, the opens remain";
}

#define TAR_PIECE 10240.0 /* tar writes so many bytes at a time, and pads each file to 512 */

/* Seconds in calls that the remedy saves. Answers that are kept: all but one call per process and
 * file. A list: all but the opens. An archive: all but the calls of one file, and most writes. */
static double asked_saved_s(const struct advisor *ad, const struct asked *m, bool few)
{
    const struct stk_usage *j = &ad->a->job;
    double left = j->meta_s - m->said_s, files = (double)j->files_written;
    if (few)
        return m->few_s * (1 - fmin(1, m->few_procs / m->few_calls));
    if (writes_many(j)) {
        double writes = ((double)j->n.c[STK_C_WRITE_BYTES] + 1024 * files) / TAR_PIECE;
        return left * (1 - 1 / files) +
               j->write_s * (1 - fmin(1, stk_per(writes, j->n.c[STK_C_WRITES])));
    }
    struct stk_work now = stk_work_of(j), listed;
    now.requests = now.bytes = now.cpu_s = 0;
    listed = now;
    listed.asks = 0;
    return stk_work_saved_s(stk_advice_storage(ad, j), left, &now, &listed);
}

/* "300 opens, 1 stat": those that occurred. */
static const char *which_calls(struct advisor *ad, const uint64_t *c, bool fails)
{
    const struct {
        uint64_t n;
        const char *one, *many;
    } kind[] = {
        {c[STK_C_OPENS], "open", "opens"},
        {c[STK_C_STATS], "stat", "stats"},
        {c[STK_C_DIR_READS], "call to list a directory", "calls to list directories"},
        {c[STK_C_WALKS], "walk through directories", "walks through directories"},
        {c[STK_C_MAKES], "new folder or link", "new folders and links"},
        {c[STK_C_REMOVES] + c[STK_C_RENAMES], "remove or rename", "removes and renames"},
        {c[STK_C_CHANGES], "change of mode, owner, time or size",
         "changes of mode, owner, time or size"},
        {c[STK_C_XATTRS], "look at attributes", "looks at attributes"},
        {c[STK_C_LOCKS], "lock", "locks"},
        {fails ? c[STK_C_ERRORS] : 0, "call that failed",
         "calls that failed (mostly on files that do not exist)"},
    };
    const char *text = "";
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++)
        if (kind[i].n)
            text = stk_advice_text(ad, "%s%s%s %s", text, *text ? ", " : "",
                                   stk_advice_count(ad, (double)kind[i].n),
                                   kind[i].n == 1 ? kind[i].one : kind[i].many);
    return *text ? text : "Seeks, hints and the like";
}

void stk_rule_metadata_load(struct advisor *ad)
{
    const struct stk_usage *j = &ad->a->job;
    const uint64_t *c = j->n.c;
    struct asked m = sum_asked(ad);
    double wall = stk_advice_wall(ad, j->meta_s);
    double left = stk_advice_wall(ad, j->meta_s - m.said_s);
    if (stk_advice_share(ad, left) < stk_limits.medium_share ||
        m.said_s > stk_limits.most * j->meta_s ||
        !stk_advice_felt(ad, stk_advice_reach_of(j), left) ||
        meta_calls(j) < (double)stk_limits.least_meta || c[STK_C_FSYNCS] > c[STK_C_OPENS])
        return;
    bool few =
        m.few < stk_limits.least_shards && m.few_s > stk_limits.most * (j->meta_s - m.said_s);
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_METADATA_LOAD, stk_advice_severity(ad, left),
                         "%s of the run goes to calls that move no data",
                         stk_advice_percent(ad, stk_advice_share(ad, wall)));
    bool fails = (double)c[STK_C_ERRORS] > stk_limits.many_fail * meta_calls(j);
    stk_advice_say(ad, f, "%s: %s in all.", which_calls(ad, c, fails),
                   stk_advice_thread_time(ad, j->meta_s));
    stk_advice_number(ad, f, "opens", (double)c[STK_C_OPENS], "count");
    stk_advice_number(ad, f, "stats", (double)c[STK_C_STATS], "count");
    stk_advice_number(ad, f, "dir_reads", (double)c[STK_C_DIR_READS], "count");
    stk_advice_number(ad, f, "errors", (double)c[STK_C_ERRORS], "count");
    stk_advice_number(ad, f, "meta_s", j->meta_s, "s");
    asked_paths(ad, f, few);
    const char *why = asked_actions(ad, f, &m, few);
    double saved = asked_saved_s(ad, &m, few);
    stk_advice_gain(ad, f, stk_advice_wall(ad, saved), "%s less in calls: %s, at %s.%s",
                    stk_advice_time(ad, saved), why, stk_advice_pace(ad, stk_advice_storage(ad, j)),
                    stk_advice_calls(ad));
}
