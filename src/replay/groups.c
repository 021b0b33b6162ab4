/* groups.c - the files of a profile in groups that are used alike: by folder and suffix; a file
 * that is opened again and again is a group of its own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/text.h"
#include "bench/data.h"
#include "replay/priv.h"

#define OFTEN       16u          /* opens per epoch, rank and worker */
#define WRITES_LESS (64u << 10) /* bytes: logs, not checkpoints */

static uint64_t count(const struct stk_usage *u, enum stk_counter c)
{
    return u->n.c[c];
}

static const char *suffix_of(const char *path)
{
    const char *base = stk_base_name(path), *dot = strrchr(base, '.');
    return dot && dot != base && strlen(dot) < 32 ? dot : "";
}

static size_t parent_len(const char *dir)
{
    const char *slash = strrchr(dir, '/');
    return slash && slash != dir ? (size_t)(slash - dir) : 0;
}

static const char *folder_of(struct rp_model *m, const char *path)
{
    size_t n = (size_t)(stk_base_name(path) - path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    return stk_arena_dup(&m->arena, path, n);
}

/* Opened so often that it is no sample, but something that every sample needs. */
static bool is_hot(const struct rp_model *m, const struct stk_usage *u)
{
    uint64_t readers = m->ranks * (m->workers + 1) * (m->a->nepochs + 1);
    return !u->file->group && count(u, STK_C_OPENS) > OFTEN * readers;
}

static struct rp_group *find(struct rp_model *m, const struct stk_usage *u, bool hot)
{
    const char *suffix = suffix_of(u->name);
    for (size_t i = 0; i < m->ngroups; i++) {
        struct rp_group *g = &m->group[i];
        bool alike = strcmp(g->suffix, suffix) == 0 && strcmp(g->dir, u->dir) == 0;
        if (!hot && alike && !(g->path && g->n.c[STK_C_OPENS] > OFTEN * g->files * 64))
            return g;
    }
    return NULL;
}

/* The folder that the files of both have in common. */
static void share_root(struct rp_group *to, const struct rp_group *g)
{
    size_t most = to->root_len < g->root_len ? to->root_len : g->root_len, n = 0, end = 0;
    if (!to->root) {
        to->root = g->root;
        to->root_len = g->root_len;
        return;
    }
    while (n < most && to->root[n] == g->root[n])
        if (to->root[n++] == '/')
            end = n - 1;
    bool whole = (n == to->root_len || to->root[n] == '/') && (n == g->root_len || g->root[n] == '/');
    to->root_len = whole ? n : end;
}

static void join(struct rp_group *to, const struct rp_group *g)
{
    to->path = NULL;
    share_root(to, g);
    stk_counts_add(&to->n, &g->n);
    to->files += g->files;
    to->size_bytes += g->size_bytes;
    to->distinct_bytes += g->distinct_bytes;
    to->rank_distinct_bytes += g->rank_distinct_bytes;
    to->io_s += g->io_s;
    to->estimated = to->estimated || g->estimated;
}

static int add_file(struct rp_model *m, const struct stk_usage *u, struct stk_err *err)
{
    bool hot = is_hot(m, u);
    struct rp_group *g = find(m, u, hot);
    if (!g) {
        if (STK_ARRAY_MORE(m->group, m->ngroups, err))
            return STK_E_NOMEM;
        g = &m->group[m->ngroups++];
        *g = (struct rp_group){.path = u->file->group ? NULL : u->name, .dir = u->dir};
        g->suffix = suffix_of(u->name);
        g->dir = hot ? "" : u->dir;
        stk_counts_init(&g->n);
    } else {
        g->path = NULL;
    }
    struct rp_group one = {.n = u->n, .files = u->files, .size_bytes = u->file->size_bytes};
    one.distinct_bytes = u->distinct_bytes;
    one.rank_distinct_bytes = u->rank_distinct_bytes;
    one.io_s = u->io_s;
    one.estimated = u->file->group;
    one.root = u->name;
    one.root_len = parent_len(u->name);
    const char *path = g->path;
    join(g, &one);
    g->path = path;
    return 0;
}

/* ---- files that are gone or have changed ---------------------------------------------------- */

struct missing {
    uint64_t gone, changed, temporary;
    const char *first_gone, *first_changed;
};

/* Written, read back and removed by the program itself: nothing that a replay could read. */
static bool is_temporary(const struct stk_usage *u)
{
    struct stat st;
    bool wrote = count(u, STK_C_WRITES) || count(u, STK_C_WRITE_OPENS);
    bool removed = count(u, STK_C_REMOVES) || count(u, STK_C_RENAMES);
    return !u->file->group && wrote && removed && stat(u->name, &st) < 0;
}

static void look(const struct stk_usage *u, struct missing *x)
{
    struct stat st;
    if (u->file->group)
        return;
    if (stat(u->name, &st) < 0) {
        x->first_gone = x->gone++ ? x->first_gone : u->name;
    } else if (u->file->size_bytes && (uint64_t)st.st_size != u->file->size_bytes) {
        x->first_changed = x->changed++ ? x->first_changed : u->name;
    }
}

static void say_missing(struct rp_model *m, const struct missing *x)
{
    if (x->gone)
        stk_rp_say(m, NULL,
                   "%llu file%s gone since the profile was recorded, the first is %s: replay the "
                   "same shape with --data DIR --generate",
                   (unsigned long long)x->gone, x->gone == 1 ? " is" : "s are", x->first_gone);
    if (x->temporary)
        stk_rp_say(m, NULL,
                   "%llu file%s that the program wrote, read and removed again %s left out",
                   (unsigned long long)x->temporary, x->temporary == 1 ? "" : "s",
                   x->temporary == 1 ? "is" : "are");
    if (x->changed)
        stk_rp_say(m, NULL,
                   "%llu file%s another size than when the profile was recorded, the first is %s",
                   (unsigned long long)x->changed, x->changed == 1 ? " has" : "s have",
                   x->first_changed);
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

static void add_written(struct rp_model *m, const struct stk_usage *u)
{
    m->writes.bytes += count(u, STK_C_WRITE_BYTES);
    m->writes.files += u->files;
    m->writes.opens += count(u, STK_C_WRITE_OPENS);
    m->writes.fsync = m->writes.fsync || count(u, STK_C_FSYNCS);
    m->writes.transfer_bytes = (uint64_t)u->mean_write_bytes;
    m->writes.dir = m->writes.dir ? m->writes.dir : folder_of(m, u->name);
}

static void settle_writes(struct rp_model *m)
{
    uint64_t writers = 0, epochs = m->a->nepochs ? m->a->nepochs : 1;
    for (size_t i = 0; i < m->a->nranks; i++)
        writers += m->a->rank[i].known && m->a->rank[i].write_bytes > 0;
    m->writes.all_ranks = writers > 1;
    m->writes.opens = m->writes.opens ? m->writes.opens : m->writes.files;
    if (writers > 1)
        m->writes.opens = (m->writes.opens + writers - 1) / writers;
    if (writers > 1)
        m->writes.bytes /= writers;
    m->writes.every_epochs = epochs > 1 && m->writes.opens % epochs == 0;
    if (m->writes.bytes)
        stk_rp_say(m, NULL,
                   "the %llu file%s written %s taken as checkpoints, written %s in files of equal "
                   "size",
                   (unsigned long long)m->writes.files, m->writes.files == 1 ? "" : "s",
                   m->writes.files == 1 ? "is" : "are",
                   m->writes.every_epochs ? "after each epoch" : "after the last step");
}

/* ---- folders -------------------------------------------------------------------------------- */

static double ratio(const struct rp_group *g, enum stk_counter a, uint64_t b)
{
    return b ? (double)g->n.c[a] / (double)b : 0;
}

static bool near(double a, double b)
{
    return a <= 2 * b && b <= 2 * a;
}

/* Folders of classes: neighbours whose files have the same suffix and are used alike. */
static bool alike(const struct rp_group *a, const struct rp_group *b)
{
    size_t n = parent_len(a->dir);
    bool beside = n && n == parent_len(b->dir) && memcmp(a->dir, b->dir, n) == 0;
    return beside && strcmp(a->suffix, b->suffix) == 0 &&
           near(ratio(a, STK_C_OPENS, a->files), ratio(b, STK_C_OPENS, b->files)) &&
           near(ratio(a, STK_C_READS, a->n.c[STK_C_OPENS]),
                ratio(b, STK_C_READS, b->n.c[STK_C_OPENS]));
}

/* The neighbours of group i become one group with it, in the folder above; until none is left. */
static void merge_folders(struct rp_model *m)
{
    for (size_t i = 0; i < m->ngroups; i++) {
        struct rp_group *g = &m->group[i];
        size_t joined = 0, n = parent_len(g->dir);
        for (size_t k = i + 1; k < m->ngroups;) {
            if (!alike(g, &m->group[k])) {
                k++;
                continue;
            }
            join(g, &m->group[k]);
            m->group[k] = m->group[--m->ngroups];
            joined++;
        }
        const char *above = joined ? stk_arena_dup(&m->arena, g->dir, n) : NULL;
        if (above) {
            g->dir = above;
            i = (size_t)-1; /* the folder above may have neighbours, too */
        }
    }
}

/* The analysis adds up small folders with those above them, which may hold other data, too. */
static void deepen(struct rp_model *m)
{
    for (size_t i = 0; i < m->ngroups; i++) {
        struct rp_group *g = &m->group[i];
        const char *root = g->root_len > strlen(g->dir)
                               ? stk_arena_dup(&m->arena, g->root, g->root_len)
                               : NULL;
        g->dir = root ? root : g->dir;
    }
}

/* ---- numbers that are estimates ------------------------------------------------------------ */

#define SURELY 0.6  /* of an estimate: three times its error */
#define WHOLE  0.01 /* from a whole number of passes */

/* Every file was opened as often as every other one. */
static bool opened_alike(const struct rp_group *g, double files)
{
    double each = (double)g->n.c[STK_C_OPENS] / files;
    return each >= 1 - WHOLE && fabs(each - round(each)) < WHOLE * each;
}

/* Beyond some thousand files, a profile estimates how many there are and how large they are. The
 * files themselves say it, unless others have come or gone since. */
static void settle_estimate(struct rp_model *m, struct rp_group *g)
{
    char match[64];
    uint64_t there = 0;
    double mean = 0;
    snprintf(match, sizeof match, "*%s", g->suffix);
    if (stk_bench_list_survey(g->dir, *g->suffix ? match : NULL, &there, &mean, NULL) || !there)
        return;
    bool likely = (double)there > SURELY * (double)g->files &&
                  (there <= g->files || opened_alike(g, (double)there));
    if (likely && there != g->files) {
        stk_rp_say(m, NULL, "files in %s: the profile estimates %llu; %llu are there", g->dir,
                   (unsigned long long)g->files, (unsigned long long)there);
        g->files = there;
    }
    g->estimated = !likely;
    if (mean > 0)
        g->size_bytes = (uint64_t)(mean * (double)g->files);
}

static void settle_estimates(struct rp_model *m)
{
    for (size_t i = 0; i < m->ngroups; i++)
        if (m->group[i].estimated && !m->group[i].path)
            settle_estimate(m, &m->group[i]);
}

/* ---- all ------------------------------------------------------------------------------------ */

static int by_data(const void *x, const void *y)
{
    const struct rp_group *a = x, *b = y;
    return a->distinct_bytes > b->distinct_bytes ? -1 : a->distinct_bytes < b->distinct_bytes;
}

static int by_time(const void *x, const void *y)
{
    const struct rp_group *a = x, *b = y;
    return a->io_s > b->io_s ? -1 : a->io_s < b->io_s;
}

/* The dataset is what has most bytes; of the others, those with most time stay. */
static void sort(struct rp_model *m)
{
    double left = 0;
    if (m->ngroups > 0)
        qsort(m->group, m->ngroups, sizeof *m->group, by_data);
    if (m->ngroups > 1)
        qsort(m->group + 1, m->ngroups - 1, sizeof *m->group, by_time);
    for (size_t i = STK_GROUPS; i < m->ngroups; i++)
        left += m->group[i].io_s;
    if (m->ngroups > STK_GROUPS)
        stk_rp_say(m, NULL, "%zu groups of files with %.3g %% of the I/O time are left out",
                   m->ngroups - STK_GROUPS,
                   m->a->job.io_s > 0 ? 100 * left / m->a->job.io_s : 0);
    m->ngroups = m->ngroups < STK_GROUPS ? m->ngroups : STK_GROUPS;
}

int stk_rp_groups(struct rp_model *m, struct stk_err *err)
{
    const struct stk_analysis *a = m->a;
    struct missing x = {0};
    uint64_t mapped = 0;
    int rc = 0;
    for (size_t i = 0; i < a->nfiles && rc == 0; i++) {
        const struct stk_usage *u = &a->file[i];
        if (!u->file || !u->dir || u->use->how & STK_USE_SYSTEM)
            continue;
        mapped += count(u, STK_C_MMAP_BYTES) > count(u, STK_C_READ_BYTES);
        if (count(u, STK_C_WRITE_BYTES) > WRITES_LESS)
            add_written(m, u);
        bool read = count(u, STK_C_READS) > 0, temporary = read && is_temporary(u);
        x.temporary += temporary;
        if (read && !temporary) {
            look(u, &x);
            rc = add_file(m, u, err);
        }
    }
    say_missing(m, &x);
    if (mapped)
        stk_rp_say(m, NULL,
                   "%llu file%s mapped into memory: what was read of %s is not in the profile, and "
                   "not replayed",
                   (unsigned long long)mapped, mapped == 1 ? " was" : "s were",
                   mapped == 1 ? "it" : "them");
    settle_writes(m);
    merge_folders(m);
    sort(m);
    deepen(m);
    settle_estimates(m);
    return rc;
}
