/* replay.c - the workload of a profile: its keys. See replay.h. */
#include "replay/priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/own.h"
#include "bench/plan.h"

typedef unsigned long long ull;

static const char *name_of(const struct rp_model *m, struct stk_workload *w)
{
    char name[33];
    size_t n = 0;
    const char *p = stk_base_name(m->a->p->path);
    for (; *p && *p != '.' && n < sizeof name - 1; p++) {
        char c = stk_name_char(*p);
        name[n++] = c == '.' ? '_' : c;
    }
    name[n] = '\0';
    return stk_workload_keep(w, "%s", n ? name : "replay");
}

/* The folder of the dataset: of its files, or of its only file. */
static const char *folder_of(const struct rp_group *g, struct stk_workload *w)
{
    const char *base = g->path ? stk_base_name(g->path) : NULL;
    if (!base)
        return stk_workload_keep(w, "%s", g->dir);
    return stk_workload_keep(w, "%.*s", (int)(base - g->path > 1 ? base - g->path - 1 : 1),
                             g->path);
}

/* Within the folder of the dataset if it is there: a copy of that folder has it, too. */
static const char *within(const char *path, const char *base)
{
    size_t n = strlen(base);
    if (strncmp(path, base, n) != 0 || (path[n] && path[n] != '/'))
        return path;
    return path[n] ? path + n + 1 : ".";
}

/* As a list of texts: "4096x1000". NULL: there are none, or no memory. */
static const char *const *fill_sizes(const struct rp_group *g, struct stk_workload *w)
{
    struct stk_bench_sizes s[STK_GROUP_SIZES];
    size_t n = stk_rp_sizes(g, s);
    const char **v = n ? stk_arena_alloc(&w->arena, (n + 1) * sizeof *v) : NULL;
    for (size_t i = 0; v && i < n; i++)
        v[i] = stk_workload_keep(w, "%llux%llu", (ull)s[i].bytes, (ull)s[i].count);
    if (v)
        v[n] = NULL;
    return (const char *const *)v;
}

/* Shares of the requests after the first of a file that is opened for each sample; a file that
 * stays open has them by the places of its samples. */
static void fill_order(const struct rp_group *g, struct stk_bench_group *to)
{
    const uint64_t *c = g->n.c;
    uint64_t first = c[STK_C_FIRST_READS];
    double after = c[STK_C_READS] > first ? (double)(c[STK_C_READS] - first) : 0;
    double near = after > 0 ? (double)c[STK_C_CONSEC_READS] / after : 1;
    double far = after > 0 ? (double)c[STK_C_SEQ_READS] / after : 1;
    to->consecutive = near > 1 ? 1 : near;
    to->sequential = far > 1 ? 1 : far < to->consecutive ? to->consecutive : far;
}

static void fill_group(const struct rp_model *m, size_t i, struct stk_workload *w)
{
    const struct rp_group *g = &m->group[i];
    struct stk_bench_group *to = &w->group[i];
    const uint64_t *c = g->n.c;
    bool stays = g->style == RP_STREAM || g->style == RP_RANDOM;
    to->path = stk_workload_keep(w, "%s", within(g->path ? g->path : g->dir, w->dataset.path));
    if (!g->path && *g->suffix)
        to->match = stk_workload_keep(w, "*%s", g->suffix);
    to->count = g->files ? g->files : 1;
    to->size_text = stk_workload_keep(w, "%llu", (ull)(g->size_bytes / to->count));
    to->per = g->style == RP_START ? m->ranks : m->replayed;
    to->opens = c[STK_C_OPENS];
    to->stats = c[STK_C_STATS];
    to->seeks = c[STK_C_SEEKS];
    to->requests = c[STK_C_READS];
    to->ends = c[STK_C_EOF_READS];
    to->bytes = c[STK_C_READ_BYTES];
    to->sizes = fill_sizes(g, w);
    to->hold = stays;
    if (!stays)
        fill_order(g, to);
    else if (i) /* only the samples of the dataset have places in its files */
        to->start = g->style == RP_STREAM ? STK_START_FOLLOW : STK_START_RANDOM;
    to->when = g->style == RP_START ? STK_WHEN_START : STK_WHEN_SAMPLE;
    if (g->estimated)
        stk_rp_say(m, NULL, "files.%zu.count: the profile estimates %llu", i + 1, (ull)to->count);
}

static void fill_checkpoint(const struct rp_model *m, struct stk_workload *w)
{
    uint64_t times = m->writes.every_epochs ? m->a->nepochs : 1, n = m->writes.opens / times;
    if (!m->writes.bytes || !m->writes.opens)
        return;
    n = n > STK_CHECKPOINT_FILES ? STK_CHECKPOINT_FILES : n ? n : 1;
    const char **size = stk_arena_alloc(&w->arena, (n + 1) * sizeof *size);
    for (uint64_t i = 0; size && i < n; i++)
        size[i] = stk_workload_keep(w, "%llu", (ull)(m->writes.bytes / times / n));
    if (size)
        size[n] = NULL;
    w->checkpoint.files = (const char *const *)size;
    w->checkpoint.dir = stk_workload_keep(w, "%s", m->writes.dir);
    w->checkpoint.every_epochs = m->writes.every_epochs;
    w->checkpoint.at_end = !m->writes.every_epochs;
    w->checkpoint.transfer_bytes = m->writes.transfer_bytes;
    w->checkpoint.who = m->writes.all_ranks ? STK_WHO_ALL : STK_WHO_ZERO;
    w->checkpoint.fsync = m->writes.fsync;
}

static void fill_training(const struct rp_model *m, struct stk_workload *w)
{
    bool mixes = m->group[0].style == RP_RANDOM ||
                 (m->group[0].style == RP_VISITS && m->files * m->per_file > 1);
    w->access.sharing = STK_SHARING_SHARED;
    w->access.offsets = m->same ? STK_OFFSETS_SAME : STK_OFFSETS_SHARDED;
    w->access.shuffle = mixes ? STK_MIX_SAMPLES : STK_MIX_NONE;
    w->access.sorted = m->sorted;
    w->reader.threads = m->threads;
    w->reader.prefetch = m->threads ? 2 * m->threads : 1;
    w->reader.think_text = stk_workload_keep(w, "%.9fs", m->think_s);
    if (m->workers) {
        w->reader.epochs = m->passes;
        w->reader.start_s = m->start_s;
        w->reader.begin_s = m->begin_s;
    }
    w->training.ranks = m->ranks;
    w->training.batch = m->batch;
    w->training.epochs = m->epochs;
    w->training.most_steps = m->most_steps;
    w->training.last = STK_TAIL_KEEP;
    w->training.scaling = m->same ? STK_SCALING_WEAK : STK_SCALING_STRONG;
    w->training.compute_text = stk_workload_keep(w, "%.9fs", m->compute_s);
}

/* The keys of the workload. */
static int rp_fill(const struct rp_model *m, struct stk_workload *w, struct stk_err *err)
{
    int rc = stk_workload_default(w, err);
    if (rc)
        return rc;
    uint64_t each = m->group[0].n.c[STK_C_READ_BYTES] / m->replayed;
    w->name = name_of(m, w);
    w->dataset.format = STK_BENCH_REPLAY;
    w->dataset.path = folder_of(&m->group[0], w);
    w->dataset.files = m->files;
    w->dataset.samples_per_file = m->per_file;
    w->dataset.record_text = stk_workload_keep(w, "%llu", (ull)(each ? each : 1));
    if (!w->dataset.path || !w->dataset.record_text)
        return stk_err_nomem(err, 1);
    for (size_t i = 0; i < m->ngroups; i++)
        fill_group(m, i, w);
    fill_training(m, w);
    fill_checkpoint(m, w);
    return 0;
}

void stk_replay_said_release(struct stk_replay_said *said)
{
    free(said->line);
    stk_arena_release(&said->arena);
    *said = (struct stk_replay_said){0};
}

int stk_replay(const struct stk_analysis *a, struct stk_workload *w, struct stk_replay_said *said,
               struct stk_err *err)
{
    struct rp_model m = {.a = a, .said = said};
    struct stk_bench_plan plan;
    *said = (struct stk_replay_said){0};
    *w = (struct stk_workload){0};
    int rc = stk_rp_model(&m, err);
    rc = rc ? rc : rp_fill(&m, w, err);
    rc = rc ? rc : stk_workload_settle(w, err); /* it must be a workload that runs */
    rc = rc ? rc : stk_bench_plan(&plan, w, 0, w->training.ranks, err);
    free(m.group);
    stk_arena_release(&m.arena);
    return rc;
}

/* What is assumed, above the keys. */
static void put_head(const struct stk_analysis *a, const struct stk_replay_said *said,
                     struct stk_buf *out)
{
    struct stk_jw j;
    stk_buf_puts(out, "# The I/O of a profile, for `stoker bench`: counters are the profile's.\n");
    stk_buf_puts(out, "# Of ");
    stk_jw_init(&j, out, false);
    stk_jw_str(&j, a->p->command ? a->p->command : "");
    stk_buf_puts(out, "\n# What a profile does not know, and what is assumed instead:\n");
    for (size_t i = 0; i < said->n; i++)
        stk_buf_printf(out, "# - %s\n", said->line[i].text);
}

int stk_replay_write(const struct stk_analysis *a, const char *path, struct stk_replay_said *said,
                     struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    struct stk_workload w;
    int rc = stk_replay(a, &w, said, err);
    if (!rc) {
        put_head(a, said, &text);
        stk_workload_yaml(&w, &text);
        rc = stk_buf_check(&text, err);
    }
    rc = rc ? rc : stk_write_file_atomic(path, text.data, text.len, err);
    stk_workload_release(&w);
    stk_buf_release(&text);
    return rc;
}
