/*
 * memory.c - rules about data that is read repeatedly, or by several processes: stage it to
 * the node, keep it in memory, read it once, divide it among the ranks.
 */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "advice/priv.h"
#include "analysis/parts.h"

/* ---- stage-to-node ---- */

struct working_set {
    double distinct, size, node_bytes, read_bytes, reads, read_s, meta_s, random, of_ranks;
    double files; /* in the part of one node */
    const struct stk_usage *first;
    size_t nfiles, groups;
};

/* Whether staging would serve this file. */
static bool is_staged(const struct stk_usage *u)
{
    return u->n.c[STK_C_READ_BYTES] && !stk_kind_model(u) && !u->n.c[STK_C_WRITE_BYTES] &&
           !stk_kind_table(u) && stk_advice_reach_of(u) == STK_REACH_SHARED;
}

/* What was read from shared storage, and how much of it one node needs. */
static struct working_set sum_shared(const struct advisor *ad)
{
    struct working_set w = {0};
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        if (!is_staged(u))
            continue;
        w.first = w.first ? w.first : u;
        w.nfiles++;
        w.groups += u->file->group;
        w.distinct += (double)u->distinct_bytes;
        w.size += fmax((double)u->distinct_bytes, (double)u->size_bytes);
        w.of_ranks += (double)u->rank_distinct_bytes;
        w.read_bytes += (double)u->n.c[STK_C_READ_BYTES];
        w.reads += (double)u->n.c[STK_C_READS];
        w.random += u->random * (double)u->n.c[STK_C_READS];
        w.read_s += u->read_s;
        w.meta_s += u->meta_s;
        w.files += (double)u->files_read;
    }
    w.node_bytes = fmin(w.distinct, fmax(w.of_ranks / ad->nodes, w.distinct / ad->nodes));
    w.files *= w.distinct > 0 ? w.node_bytes / w.distinct : 0;
    /* Whole files are copied, however little of them is read. */
    w.node_bytes *= w.distinct > 0 ? w.size / w.distinct : 0;
    w.node_bytes = w.nfiles == 1 ? w.size : w.node_bytes;
    return w;
}

static const char *node_place(const struct advisor *ad, double bytes, bool *memory)
{
    const struct stk_profile *p = ad->p;
    double room = (double)ad->node_memory * stk_limits.memory_share;
    *memory = false;
    for (size_t i = 0; i < p->nhosts; i++) {
        const struct stk_prof_host *h = &p->host[i];
        if (h->local_dir && *h->local_dir && bytes * stk_limits.spare < (double)h->local_free_bytes)
            return h->local_dir;
    }
    *memory = true;
    if (ad->node_memory)
        return bytes < room ? "/dev/shm" : NULL;
    *memory = false;
    return bytes < (double)stk_limits.assumed_disk ? "" : NULL; /* the nodes are unknown */
}

/* NAME-00000-of-00001.tfrecord: the rest of the dataset (index, manifest) lies beside it. */
static bool is_shard(const char *path)
{
    const char *of = strstr(path, "-of-");
    return of && of > path && isdigit((unsigned char)of[-1]) && isdigit((unsigned char)of[4]);
}

/* The length of the directories that two paths have in common. */
static size_t common_dir(const char *a, const char *b, size_t n)
{
    size_t i = 0, dir = 0;
    for (; i < n && a[i] == b[i] && b[i]; i++)
        if (b[i] == '/')
            dir = i;
    return i == n && b[i] == '/' ? n : dir;
}

/* The directory that contains all staged files; that of the first if they have none in common. */
static const char *stage_tree(struct advisor *ad, const struct working_set *w)
{
    const char *first = stk_advice_tree(ad, w->first);
    size_t n = strlen(first), depth = 0;
    for (size_t i = 0; i < ad->a->nfiles; i++)
        if (is_staged(&ad->a->file[i]))
            n = common_dir(first, ad->a->file[i].name, n);
    for (size_t i = 0; i < n; i++)
        depth += first[i] == '/' && i + 1 < n;
    return depth >= 2 ? stk_advice_text(ad, "%.*s", (int)n, first) : first;
}

#define STAGE_FILES    10 /* named in the command; more are listed in a file */
#define STAGE_PATTERNS 8

/* "*.jpg": what the files of a group, and those like it, are called. */
static const char *pattern_of(struct advisor *ad, const struct stk_usage *u)
{
    const char *base = strrchr(u->name, '/'), *dot;
    base = base ? base + 1 : u->name;
    if (u->file->group)
        return base;
    dot = strrchr(base, '.');
    return dot ? stk_advice_text(ad, "*%s", dot) : base;
}

/* The profile has no list of files that are folded into groups: their endings say which. */
static void stage_patterns(struct advisor *ad, const char *tree, struct stk_action *a)
{
    const char **p = stk_arena_alloc(&ad->out->arena, STAGE_PATTERNS * sizeof *p);
    size_t n = 0, len = strlen(tree);
    ad->nomem = ad->nomem || !p;
    for (size_t i = 0; p && i < ad->a->nfiles && n < STAGE_PATTERNS; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        if (!is_staged(u) || strncmp(u->name, tree, len) != 0)
            continue;
        const char *pattern = pattern_of(ad, u);
        size_t k = 0;
        while (k < n && strcmp(p[k], pattern) != 0)
            k++;
        if (k == n)
            p[n++] = pattern;
    }
    a->pattern = p;
    a->npatterns = n;
}

/* A few files by name, if they lie in one directory. */
static bool stage_named(struct advisor *ad, const struct working_set *w, struct stk_finding *f)
{
    const char *dir = stk_advice_parent(ad, w->first->name);
    if (w->groups || w->nfiles > STAGE_FILES || is_shard(w->first->name))
        return false;
    for (size_t i = 0; i < ad->a->nfiles; i++)
        if (is_staged(&ad->a->file[i]) &&
            strcmp(stk_advice_parent(ad, ad->a->file[i].name), dir) != 0)
            return false;
    for (size_t i = 0; i < ad->a->nfiles; i++)
        if (is_staged(&ad->a->file[i]))
            stk_advice_path(ad, f, ad->a->file[i].name);
    return true;
}

/* Copies what was read, and nothing else that lies beside it. */
static void stage_action(struct advisor *ad, const struct working_set *w, const char *place,
                         struct stk_finding *f)
{
    struct stk_action a = {
        .kind = STK_ACT_STAGE, .to = place, .count = ad->nodes, .bytes = stk_whole(w->node_bytes)};
    if (stage_named(ad, w, f)) {
        a.is_file = true;
        stk_advice_act_all(ad, f, a);
        return;
    }
    a.path = stage_tree(ad, w);
    stk_advice_path(ad, f, a.path);
    if (w->groups)
        stage_patterns(ad, a.path, &a);
    stk_advice_act(ad, f, a);
}

/* random-reads came first and did not know whether there would be this finding. */
static void mention_staging(struct advisor *ad)
{
    for (size_t i = 0; i < ad->out->nfindings; i++) {
        struct stk_finding *f = &ad->out->finding[i];
        if (f->rule == STK_RULE_RANDOM_READS)
            stk_advice_do(ad, f, "%s Finding stage-to-node has the lines for copying it.",
                          f->what_to_do);
    }
}

static void stage_finding(struct advisor *ad, const struct working_set *w, const char *place,
                          bool memory, double copy, double local, double gain)
{
    struct stk_finding *f = stk_advice_begin(
        ad, STK_RULE_STAGE_TO_NODE, stk_advice_severity(ad, gain),
        "%s that fit on a node are read from shared storage %s", stk_advice_size(ad, w->node_bytes),
        w->read_bytes > stk_limits.reread * w->distinct ? "again and again" : "in random order");
    double again = w->read_bytes / w->distinct, now = stk_advice_wall(ad, w->read_s + w->meta_s);
    stk_advice_say(ad, f, "%s were read, of which %s are distinct: each byte %.1f times.",
                   stk_advice_size(ad, w->read_bytes), stk_advice_size(ad, w->distinct), again);
    stk_advice_say(
        ad, f, "That took %s in calls, %s of the run, on %s.",
        stk_advice_thread_time(ad, w->read_s + w->meta_s),
        stk_advice_percent(ad, stk_advice_share(ad, stk_advice_wall(ad, w->read_s + w->meta_s))),
        *w->first->fs ? w->first->fs : "storage that is far away");
    if (*place)
        stk_advice_say(ad, f, "A node needs %s of it; %s has room for that.",
                       stk_advice_size(ad, w->node_bytes), place);
    else
        stk_advice_say(ad, f, "A node needs %s of it; how much room the nodes have is unknown.",
                       stk_advice_size(ad, w->node_bytes));
    stk_advice_number(ad, f, "reread", again, "ratio");
    stk_advice_number(ad, f, "node_bytes", w->node_bytes, "bytes");
    stk_advice_number(ad, f, "random", w->reads > 0 ? w->random / w->reads : 0, "share");
    stk_advice_number(ad, f, "read_s", w->read_s, "s");
    stk_advice_do(ad, f, "Copy what is read to each node once and read it there.%s%s",
                  memory ? " Files in /dev/shm count against the job's memory." : "",
                  stk_advice_said(ad, STK_RULE_MANY_SMALL_FILES, NULL)
                      ? " Pack the small files first: copying them one by one is slow."
                      : "");
    stage_action(ad, w, place, f);
    mention_staging(ad);
    stk_advice_gain(ad, f, gain,
                    "Copying %s%s takes %s at %s, reading it there %s; the reads now cost %s of "
                    "the run.%s",
                    stk_advice_size(ad, w->node_bytes),
                    w->files > 1.5 ? stk_advice_text(ad, " (and opening %s files, one by one)",
                                                     stk_advice_count(ad, w->files))
                                   : "",
                    stk_advice_time(ad, copy),
                    stk_advice_pace(ad, stk_advice_storage(ad, w->first)),
                    stk_advice_time(ad, local), stk_advice_time(ad, now),
                    stk_advice_matters(ad, gain)
                        ? ""
                        : stk_advice_text(ad,
                                          " It pays off if the data is read %.1f times as often "
                                          "as here, or if the copy serves several runs.",
                                          fmax(1.1, copy / fmax(now - local, 1e-9))));
}

void stk_rule_stage_to_node(struct advisor *ad)
{
    struct working_set w = sum_shared(ad);
    bool memory;
    if (!w.first || w.distinct < (double)stk_limits.least_to_carry)
        return;
    bool again = w.read_bytes >= stk_limits.reread * w.distinct;
    bool random = stk_advice_said(ad, STK_RULE_RANDOM_READS, NULL);
    const char *place = node_place(ad, w.node_bytes, &memory);
    if (!(again || random) || !place)
        return;
    /* cp stats and opens one file after another, and reads each of them in order. */
    const struct stk_storage *st = stk_advice_storage(ad, w.first);
    struct stk_work cp = stk_work_read(st, w.node_bytes, st->window);
    cp.opens = cp.asks = w.files;
    cp.requests = fmax(cp.requests, w.files);
    double copy = stk_work_s(st, &cp);
    struct stk_storage near = stk_storage_of_copy(memory ? STK_REACH_MEMORY : STK_REACH_LOCAL);
    struct stk_work again_there = {.requests = w.reads, .bytes = w.read_bytes};
    double local = stk_advice_wall(ad, stk_work_s(&near, &again_there));
    /* The copy is made once, and a profile is often a short piece of a training: what counts is the
     * present cost of reading. The finding also says whether this run alone would have paid for the
     * copy. */
    double save = stk_advice_wall(ad, w.read_s + w.meta_s) - local;
    if (!stk_advice_matters(ad, save) || copy > stk_limits.copy_pays * save)
        return;
    stage_finding(ad, &w, place, memory, copy, local, fmax(0, save - copy));
}

/* ---- same-data-every-rank ---- */

/* Ranks that take turns (another part of the data in each epoch) eventually read everything too.
 * Unless there were many passes, they would have covered less than all of it. */
static bool surely_same(const struct advisor *ad, const struct stk_usage *u, uint32_t ranks)
{
    double n = ranks, part = u->rank_overlap / n;
    double passes = (double)u->n.c[STK_C_READ_BYTES] / fmax(1, (double)u->distinct_bytes);
    /* In one epoch, ranks that read the same bytes read them as often as there are ranks. */
    if (ad->a->nepochs > 1 && passes / (double)ad->a->nepochs < stk_limits.overlap * n)
        return false;
    double by_turns = 1 - pow(1 - 1 / n, passes); /* one pass of all ranks is the data once */
    return part >= stk_limits.overlap &&
           (part - by_turns > stk_limits.turns || u->seq >= stk_limits.consecutive);
}

static void same_data_actions(struct advisor *ad, struct stk_finding *f, const struct stk_usage *u)
{
    bool python = stk_advice_in_python(ad);
    struct stk_action loader = stk_advice_loader(ad, u->name);
    loader.count = u->ranks;
    loader.instead = true;
    stk_advice_act_all(ad, f,
                       (struct stk_action){.kind = python ? STK_ACT_DIVIDE : STK_ACT_PARTS,
                                           .count = u->ranks,
                                           .use = u->use});
    if (python && stk_kind_packable(u))
        stk_advice_act(ad, f, loader);
}

void stk_rule_same_data_every_rank(struct advisor *ad)
{
    const struct stk_usage *worst = NULL;
    double saved = 0, total = 0;
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        if (u->ranks < 2 || ad->ranks < 2 || u->ranks < stk_limits.most * ad->ranks ||
            u->distinct_bytes < stk_limits.stats_file || stk_kind_model(u) ||
            !surely_same(ad, u, u->ranks))
            continue;
        worst = worst ? worst : u;
        saved += u->read_s * (1 - 1 / u->rank_overlap);
        total += u->read_s;
    }
    double gain = stk_advice_wall(ad, saved);
    if (!worst || !stk_advice_matters(ad, gain))
        return;
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_SAME_DATA_EVERY_RANK, stk_advice_severity(ad, gain),
                         "%u ranks read the same bytes", worst->ranks);
    stk_advice_say(ad, f, "%s: %u ranks read it, each byte by %.1f of them.",
                   stk_advice_show(ad, worst->name), worst->ranks, worst->rank_overlap);
    stk_advice_say(ad, f, "%s in reads, of which %s for bytes that another rank also read.",
                   stk_advice_thread_time(ad, total), stk_advice_time(ad, saved));
    stk_advice_number(ad, f, "ranks", worst->ranks, "count");
    stk_advice_number(ad, f, "rank_overlap", worst->rank_overlap, "ratio");
    stk_advice_number(ad, f, "read_s", total, "s");
    stk_advice_path(ad, f, worst->name);
    stk_advice_do(ad, f,
                  "Give each rank its own part of the data; ranks rarely mean to train on the "
                  "same samples. If they do: let one rank per node read it and pass it on over "
                  "the network (MPI_Bcast, or a cache tier that reads from other nodes' memory by "
                  "RDMA): both are faster than the file system.");
    same_data_actions(ad, f, worst);
    stk_advice_gain(ad, f, gain, "With one part per rank, %s of %s in calls remain.%s",
                    stk_advice_time(ad, total - saved), stk_advice_time(ad, total),
                    stk_advice_calls(ad));
}

/* ---- in-memory-hdf5 ---- */

static bool fits_each_rank(const struct advisor *ad, const struct stk_usage *u)
{
    double ranks_a_node = fmax(1, (double)ad->ranks / ad->nodes);
    double size = fmax((double)u->size_bytes, (double)u->distinct_bytes);
    double room = (double)stk_advice_memory(ad) * stk_limits.memory_share;
    return size > (double)stk_limits.stats_file && size * ranks_a_node < room;
}

/* Seconds in calls when every open loads the whole file. A file that is opened once per sample
 * would be loaded once per sample. */
static double loading_s(const struct advisor *ad, const struct stk_usage *u, double whole)
{
    const struct stk_storage *st = stk_advice_storage(ad, u);
    double loads = fmax(fmax(1, u->procs), (double)u->n.c[STK_C_OPENS]);
    struct stk_work now = stk_work_of(u);
    struct stk_work load = stk_work_read(st, loads * whole, (double)stk_limits.big_read);
    now.opens = now.asks = 0;
    return u->read_s - stk_work_saved_s(st, u->read_s, &now, &load);
}

static double whole_size(const struct stk_usage *u)
{
    return fmax((double)u->size_bytes, (double)u->distinct_bytes);
}

/* Libraries are abbreviations: "an HDF5 file". */
static const char *article(const char *library)
{
    return strchr("AEFHILMNORSX", *library) ? "an" : "a";
}

static void in_memory_finding(struct advisor *ad, const struct stk_usage *u, size_t more,
                              double old, double better)
{
    double gain = stk_advice_wall(ad, old - better), reads = (double)u->n.c[STK_C_READS];
    struct stk_finding *f = stk_advice_begin(
        ad, STK_RULE_IN_MEMORY_HDF5, stk_advice_severity(ad, gain),
        "%s %s file of %s is read in %s pieces", article(u->use->library), u->use->library,
        stk_advice_size(ad, whole_size(u)), stk_advice_count(ad, reads));
    stk_advice_say(ad, f, "%s has %s; it was read in %s pieces of %s, in %s.",
                   stk_advice_show(ad, u->name), stk_advice_size(ad, whole_size(u)),
                   stk_advice_count(ad, reads), stk_advice_size(ad, u->mean_read_bytes),
                   stk_advice_thread_time(ad, u->read_s));
    if (more)
        stk_advice_say(ad, f, "%zu more are like it: %s in all.", more,
                       stk_advice_thread_time(ad, old));
    if (ad->node_memory)
        stk_advice_say(ad, f, "A node has %s of memory.",
                       stk_advice_size(ad, (double)ad->node_memory));
    stk_advice_number(ad, f, "size_bytes", whole_size(u), "bytes");
    stk_advice_number(ad, f, "reads", reads, "count");
    stk_advice_number(ad, f, "read_s", old, "s");
    stk_advice_path(ad, f, u->name);
    stk_advice_do(ad, f,
                  "Let %s load the whole file when it is opened: one large read, then memory. "
                  "Each process that opens it then needs memory for the whole file.",
                  u->use->library);
    stk_advice_act_all(ad, f,
                       (struct stk_action){.kind = STK_ACT_READ_WHOLE,
                                           .bytes = stk_whole(whole_size(u)),
                                           .use = u->use});
    stk_advice_gain(ad, f, gain, "Loading %s at once takes %s in calls instead of %s.%s",
                    more ? "them" : "it", stk_advice_time(ad, better), stk_advice_time(ad, old),
                    stk_advice_calls(ad));
}

void stk_rule_in_memory_hdf5(struct advisor *ad)
{
    const struct stk_usage *worst = NULL;
    double old = 0, better = 0;
    size_t n = 0;
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        bool pieces = u->mean_read_bytes > 0 && u->mean_read_bytes < (double)stk_limits.unit_read &&
                      u->n.c[STK_C_READS] >= stk_limits.least_reads;
        if (!u->use->load || !pieces || !fits_each_rank(ad, u) || u->n.c[STK_C_WRITE_BYTES])
            continue;
        double loading = loading_s(ad, u, whole_size(u));
        if (u->read_s <= loading)
            continue;
        worst = worst ? worst : u;
        old += u->read_s;
        better += loading;
        n++;
    }
    if (worst && stk_advice_matters(ad, stk_advice_wall(ad, old - better)))
        in_memory_finding(ad, worst, n - 1, old, better);
}

/* ---- reread-small-file ---- */

/* How often a rank read the same bytes: other ranks that read them are another finding. */
static double reread_by_rank(const struct stk_usage *u)
{
    double ranks = fmax((double)u->rank_distinct_bytes, (double)u->distinct_bytes);
    return (double)u->n.c[STK_C_READ_BYTES] / fmax(1, ranks);
}

/* So much that the same file cannot be one sample of many. */
static bool is_much(const struct advisor *ad, double read_s)
{
    return stk_advice_share(ad, stk_advice_wall(ad, read_s)) >= stk_limits.high_share;
}

static bool is_reread(const struct advisor *ad, const struct stk_usage *u)
{
    double size = fmax((double)u->size_bytes, (double)u->distinct_bytes);
    enum stk_reach reach = stk_advice_reach_of(u);
    double again = reread_by_rank(u);
    /* The page cache keeps a local file for the next process: only repeated reads of one process
     * count. */
    if (reach == STK_REACH_LOCAL)
        again = u->reread / fmax(1, u->procs);
    return again >= stk_limits.kept_again && size > (double)stk_limits.stats_file &&
           reach != STK_REACH_MEMORY && !u->file->group && !stk_kind_model(u) && !stk_kind_stream(u) &&
           !u->n.c[STK_C_WRITE_BYTES] && (!stk_kind_whole(u) || is_much(ad, u->read_s)) &&
           !stk_advice_said(ad, STK_RULE_RANDOM_READS, u->name);
}

/* Seconds in calls that one read of the whole file per process saves. */
static double kept_s(const struct advisor *ad, const struct stk_usage *u, double size)
{
    const struct stk_storage *st = stk_advice_storage(ad, u);
    struct stk_work now = stk_work_of(u);
    struct stk_work once = stk_work_read(st, fmax(1, u->procs) * size, (double)stk_limits.big_read);
    now.opens = now.asks = 0;
    return stk_work_saved_s(st, u->read_s, &now, &once);
}

void stk_rule_reread_small_file(struct advisor *ad)
{
    const struct stk_usage *worst = NULL;
    double saved = 0, size = 0;
    double room = (double)stk_advice_memory(ad) * stk_limits.keep_share;
    size_t n = 0;
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        if (!is_reread(ad, u))
            continue;
        size += whole_size(u);
        worst = worst ? worst : u;
        saved += kept_s(ad, u, whole_size(u));
        n++;
    }
    double gain = stk_advice_wall(ad, saved);
    /* All of them would be kept: a dataset of many files is a case for staging. */
    bool felt = stk_advice_felt(ad, worst ? stk_advice_reach_of(worst) : STK_REACH_UNKNOWN, gain) ||
                (stk_advice_matters(ad, gain) && is_much(ad, saved));
    if (!worst || size > room || !felt)
        return;
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_REREAD_SMALL_FILE, stk_advice_severity(ad, gain),
                         "%s of a file are read %.0f times over",
                         stk_advice_size(ad, (double)worst->distinct_bytes), worst->reread);
    stk_advice_say(ad, f, "%s: %s were read, of which %s are distinct.",
                   stk_advice_show(ad, worst->name),
                   stk_advice_size(ad, (double)worst->n.c[STK_C_READ_BYTES]),
                   stk_advice_size(ad, (double)worst->distinct_bytes));
    if (n > 1)
        stk_advice_say(ad, f, "%s more files are like it.", stk_advice_count(ad, (double)(n - 1)));
    stk_advice_say(ad, f, "Reading it in this way took %s longer than once, as a whole.",
                   stk_advice_thread_time(ad, saved));
    stk_advice_number(ad, f, "reread", worst->reread, "ratio");
    stk_advice_number(ad, f, "distinct_bytes", (double)worst->distinct_bytes, "bytes");
    stk_advice_number(ad, f, "again_s", saved, "s");
    for (size_t i = 0; i < ad->a->nfiles; i++)
        if (is_reread(ad, &ad->a->file[i]))
            stk_advice_path(ad, f, ad->a->file[i].name);
    bool array = (worst->use->how & STK_USE_ARRAY) && stk_advice_in_python(ad);
    stk_advice_do(ad, f, "Read it once into memory and take samples from there.%s",
                  array ? " If the program uses few of its rows, numpy.load(path, mmap_mode=\"r\") "
                          "reads only those, and nothing else changes: it saves up to the "
                          "whole time of the reads, without the memory."
                        : "");
    stk_advice_act_all(ad, f,
                       (struct stk_action){
                           .kind = STK_ACT_KEEP_DATA, .bytes = stk_whole(size), .use = worst->use});
    stk_advice_gain(ad, f, gain,
                    "One read of the whole instead of %.1f: %s less in calls, at %s.%s",
                    worst->reread, stk_advice_time(ad, saved),
                    stk_advice_pace(ad, stk_advice_storage(ad, worst)), stk_advice_calls(ad));
}

/* ---- stats-file-reread ---- */

void stk_rule_stats_file_reread(struct advisor *ad)
{
    const struct stk_profile *p = ad->p;
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        const uint64_t *c = u->n.c;
        double size = fmax((double)u->size_bytes, (double)c[STK_C_MAX_OFFSET]);
        /* Per open: one sample of many, read over epochs, is not such a file. */
        double each = stk_per((double)c[STK_C_READS], u->procs);
        each = fmin(each, stk_per((double)c[STK_C_READS], c[STK_C_OPENS] ? c[STK_C_OPENS] : 1));
        bool streams = false;
        for (size_t r = u->rec_from; r < u->rec_to; r++)
            streams = streams || p->rec[r].api == STK_API_STDIO;
        if (streams || u->file->group || size > (double)stk_limits.stats_file ||
            each < (double)stk_limits.stats_reads || u->mean_read_bytes > stk_limits.piece * size ||
            stk_kind_model(u) || (u->use->how & STK_USE_LINES) || c[STK_C_WRITE_BYTES])
            continue;
        double gain = stk_advice_wall(ad, u->read_s * (1 - 1 / each));
        struct stk_finding *f = stk_advice_begin(
            ad, STK_RULE_STATS_FILE_REREAD, stk_advice_severity(ad, gain),
            "a file of %s is read in %.0f pieces by each process", stk_advice_size(ad, size), each);
        stk_advice_say(ad, f, "%s (%s): %s reads of %s on average, %s of them consecutive.",
                       stk_advice_show(ad, u->name), stk_advice_size(ad, size),
                       stk_advice_count(ad, (double)c[STK_C_READS]),
                       stk_advice_size(ad, u->mean_read_bytes), stk_advice_percent(ad, u->consec));
        stk_advice_number(ad, f, "size_bytes", size, "bytes");
        stk_advice_number(ad, f, "reads_per_process", each, "count");
        stk_advice_number(ad, f, "mean_read_bytes", u->mean_read_bytes, "bytes");
        stk_advice_path(ad, f, u->name);
        stk_advice_do(ad, f, "Read it into memory in one call, and look things up there.");
        stk_advice_act_all(ad, f,
                           (struct stk_action){.kind = STK_ACT_READ_WHOLE,
                                               .bytes = stk_whole(size),
                                               .use = u->use});
        stk_advice_gain(ad, f, gain,
                        "%s in reads become one read: little here, more when many ranks start at "
                        "once.",
                        stk_advice_thread_time(ad, u->read_s));
        return; /* one example is enough */
    }
}
