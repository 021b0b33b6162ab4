/* text.c - the workload as YAML, with what is assumed as comments. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "replay/priv.h"

typedef unsigned long long ull;

/* A YAML scalar in double quotes, which is a JSON string. */
static void put_quoted(struct stk_buf *out, const char *text)
{
    struct stk_jw j;
    stk_jw_init(&j, out, false);
    stk_jw_str(&j, text);
}

static void put_name(const struct rp_model *m, struct stk_buf *out)
{
    const char *base = stk_base_name(m->a->p->path);
    stk_buf_puts(out, "name: ");
    size_t n = 0;
    for (; *base && *base != '.' && n < 32; base++, n++)
        stk_buf_putc(out, stk_name_char(*base) == '.' ? '_' : stk_name_char(*base));
    stk_buf_puts(out, n ? "\n" : "replay\n");
}

static void put_head(const struct rp_model *m, struct stk_buf *out)
{
    stk_buf_puts(out, "# The I/O of a profile, for `stoker bench`: counters are the profile's.\n");
    stk_buf_puts(out, "# Of ");
    put_quoted(out, m->a->p->command ? m->a->p->command : "");
    stk_buf_puts(out, "\n# What a profile does not know, and what is assumed instead:\n");
    for (size_t i = 0; i < m->said->n; i++) {
        stk_buf_puts(out, "# - ");
        stk_buf_puts(out, m->said->line[i]);
        stk_buf_puts(out, "\n");
    }
}

/* The folder of the dataset: of its files, or of its only file. */
static void base_of(const struct rp_group *g, char *buf, size_t n)
{
    const char *base = g->path ? stk_base_name(g->path) : NULL;
    if (base)
        snprintf(buf, n, "%.*s", (int)(base - g->path > 1 ? base - g->path - 1 : 1), g->path);
    else
        snprintf(buf, n, "%s", g->dir);
}

/* Within the folder of the dataset if it is there: a copy of that folder has it, too. */
static const char *within(const char *path, const char *base)
{
    size_t n = strlen(base);
    if (strncmp(path, base, n) != 0 || (path[n] && path[n] != '/'))
        return path;
    return path[n] ? path + n + 1 : ".";
}

static void put_sizes(const struct rp_group *g, struct stk_buf *out)
{
    struct stk_bench_sizes s[STK_GROUP_SIZES];
    size_t n = stk_rp_sizes(g, s);
    for (size_t i = 0; i < n; i++)
        stk_buf_printf(out, "%s%llux%llu", i ? ", " : "    sizes: [", (ull)s[i].bytes,
                       (ull)s[i].count);
    stk_buf_puts(out, n ? "]\n" : "");
}

/* Shares of the requests after the first of a file that is opened for each sample; a file that stays
 * open has them by the places of its samples. */
static void put_order(const struct rp_group *g, struct stk_buf *out)
{
    const uint64_t *c = g->n.c;
    uint64_t first = c[STK_C_FIRST_READS];
    double after = c[STK_C_READS] > first ? (double)(c[STK_C_READS] - first) : 0;
    double near = after > 0 ? (double)c[STK_C_CONSEC_READS] / after : 1;
    double far = after > 0 ? (double)c[STK_C_SEQ_READS] / after : 1;
    near = near > 1 ? 1 : near;
    far = far > 1 ? 1 : far < near ? near : far;
    if (after > 0)
        stk_buf_printf(out, "    sequential: %.4g%%\n    consecutive: %.4g%%\n", 100 * far,
                       100 * near);
}

/* Only the samples of the dataset have places in its files. */
static void put_hold(const struct rp_group *g, bool dataset, struct stk_buf *out)
{
    stk_buf_puts(out, "    hold: yes\n");
    if (!dataset)
        stk_buf_printf(out, "    start: %s\n", g->style == RP_STREAM ? "follow" : "random");
}

static void put_group(const struct rp_model *m, size_t i, const char *base, struct stk_buf *out)
{
    const struct rp_group *g = &m->group[i];
    const uint64_t *c = g->n.c;
    uint64_t per = g->style == RP_START ? m->ranks : m->replayed;
    bool stays = g->style == RP_STREAM || g->style == RP_RANDOM;
    stk_buf_printf(out, "  %zu:\n    path: ", i + 1);
    put_quoted(out, within(g->path ? g->path : g->dir, base));
    if (!g->path && *g->suffix) {
        char match[64];
        snprintf(match, sizeof match, "*%s", g->suffix);
        stk_buf_puts(out, "\n    match: ");
        put_quoted(out, match);
    }
    stk_buf_printf(out, "\n    count: %llu%s\n    size: %llu\n", (ull)(g->files ? g->files : 1),
                   g->estimated ? " # an estimate" : "",
                   (ull)(g->files ? g->size_bytes / g->files : g->size_bytes));
    stk_buf_printf(out, "    per: %llu # %s that make these calls together\n", (ull)per,
                   g->style == RP_START ? "ranks" : "samples");
    stk_buf_printf(out, "    opens: %llu\n    stats: %llu\n    seeks: %llu\n",
                   (ull)c[STK_C_OPENS], (ull)c[STK_C_STATS], (ull)c[STK_C_SEEKS]);
    stk_buf_printf(out, "    requests: %llu\n    ends: %llu\n    bytes: %llu\n",
                   (ull)c[STK_C_READS], (ull)c[STK_C_EOF_READS], (ull)c[STK_C_READ_BYTES]);
    put_sizes(g, out);
    if (stays)
        put_hold(g, i == 0, out);
    else
        put_order(g, out);
    if (g->style == RP_START)
        stk_buf_puts(out, "    when: start\n");
}

static void put_checkpoint(const struct rp_model *m, struct stk_buf *out)
{
    uint64_t n = m->writes.opens;
    if (!m->writes.bytes || !n)
        return;
    n = m->writes.every_epochs ? n / m->a->nepochs : n;
    n = n > STK_CHECKPOINT_FILES ? STK_CHECKPOINT_FILES : n ? n : 1;
    uint64_t times = m->writes.every_epochs ? m->a->nepochs : 1;
    stk_buf_puts(out, "checkpoint:\n  dir: ");
    put_quoted(out, m->writes.dir);
    stk_buf_puts(out, m->writes.every_epochs ? "\n  every_epochs: 1\n" : "\n  at_end: yes\n");
    for (uint64_t i = 0; i < n; i++)
        stk_buf_printf(out, "%s%llu", i ? ", " : "  files: [", (ull)(m->writes.bytes / times / n));
    stk_buf_printf(out, "]\n  transfer: %llu\n  ranks: %s\n  fsync: %s\n",
                   (ull)m->writes.transfer_bytes, m->writes.all_ranks ? "all" : "zero",
                   m->writes.fsync ? "yes" : "no");
}

static void put_training(const struct rp_model *m, struct stk_buf *out)
{
    bool mixes = m->group[0].style == RP_RANDOM ||
                 (m->group[0].style == RP_VISITS && m->files * m->per_file > 1);
    stk_buf_printf(out, "access:\n  sharing: shared\n  offsets: %s\n  shuffle: %s\n",
                   m->same ? "same" : "sharded", mixes ? "samples" : "none");
    if (m->sorted > 1)
        stk_buf_printf(out, "  sorted: %llu\n", (ull)m->sorted);
    stk_buf_printf(out, "reader:\n  threads: %llu\n  prefetch: %llu\n  think: %.9fs\n",
                   (ull)m->threads, (ull)(m->threads ? 2 * m->threads : 1), m->think_s);
    if (m->workers) {
        static const char *const how[] = {"ahead", "asked", "restart"};
        stk_buf_printf(out, "  epochs: %s\n  start: %.6fs\n  begin: %.6fs\n", how[m->passes],
                       m->start_s, m->begin_s);
    }
    stk_buf_printf(out,
                   "training:\n  ranks: %llu\n  batch: %llu\n  epochs: %llu\n  last: keep\n"
                   "  scaling: %s\n  compute: %.9fs\n",
                   (ull)m->ranks, (ull)m->batch, (ull)m->epochs, m->same ? "weak" : "strong",
                   m->compute_s);
    if (m->most_steps)
        stk_buf_printf(out, "  most_steps: %llu\n", (ull)m->most_steps);
}

void stk_rp_text(const struct rp_model *m, struct stk_buf *out)
{
    char base[4200];
    base_of(&m->group[0], base, sizeof base);
    put_head(m, out);
    put_name(m, out);
    stk_buf_puts(out, "dataset:\n  format: replay\n  path: ");
    put_quoted(out, base);
    uint64_t each = m->group[0].n.c[STK_C_READ_BYTES] / m->replayed;
    stk_buf_printf(out, "\n  files: %llu\n  samples_per_file: %llu\n  record: %llu\nfiles:\n",
                   (ull)m->files, (ull)m->per_file, (ull)(each ? each : 1));
    for (size_t i = 0; i < m->ngroups; i++)
        put_group(m, i, base, out);
    put_training(m, out);
    put_checkpoint(m, out);
}
