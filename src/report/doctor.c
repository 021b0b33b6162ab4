/* doctor.c - a node on one screen: file systems, their speed, targets, equipment, what is missing.
 */
#include "report/doctor.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/confine.h"
#include "base/style.h"
#include "base/text.h"
#include "base/units.h"
#include "result/grid.h"
#include "report/report_priv.h"
#include "report/stage_plan.h"

#define NAMES 12 /* columns before the value of a line */

static void heading(const char *text, const char *more, struct stk_buf *out)
{
    stk_buf_printf(out, "\n" STK_STRONG "%s" STK_PLAIN "%s%s\n", text, *more ? "  " : "", more);
}

/* A line "  name  text", wrapped below the text. */
static void put_line(const struct stk_doctor *d, const char *name, const char *text,
                     struct stk_buf *out)
{
    struct stk_buf lines = STK_BUF_INIT;
    stk_report_wrapped(text, NAMES, d->columns, &lines);
    stk_buf_printf(out, "  %-*s", NAMES - 2, name);
    stk_buf_puts(out, lines.len > NAMES ? stk_buf_cstr(&lines) + NAMES : "\n");
    stk_buf_release(&lines);
}

/* ---- file systems ------------------------------------------------------------------------- */

static const char *shown_path(const struct stk_survey_fs *fs)
{
    return fs->asked || !fs->facts.point[0] ? fs->path : fs->facts.point;
}

static const char *size_text(uint64_t bytes, const char *unknown, char *buf, size_t size)
{
    return bytes == UINT64_MAX ? unknown : stk_format_size(bytes, buf, size);
}

static const char *quota_text(const struct stk_fs_facts *f, char *buf, size_t size)
{
    if (!f->quota_told)
        return f->error ? "" : "not told";
    return size_text(f->quota_bytes, "no limit", buf, size);
}

static void fs_row(const struct stk_survey_fs *fs, struct stk_grid *g)
{
    const struct stk_fs_facts *f = &fs->facts;
    struct stk_buf path = STK_BUF_INIT, type = STK_BUF_INIT, names = STK_BUF_INIT;
    char space[32], quota[32];
    const char *error = f->error == ETIMEDOUT ? STK_BAD "does not answer" STK_PLAIN
                        : f->error            ? STK_WARN "cannot be used" STK_PLAIN
                                              : NULL;
    stk_grid_row(g, stk_word_cut(&path, shown_path(fs), SIZE_MAX),
                 stk_word_cut(&names, fs->names, SIZE_MAX),
                 f->fs[0] ? stk_word_cut(&type, f->fs, 16) : "not known",
                 error ? error : stk_reach_name(f->reach),
                 error ? "" : size_text(f->free_bytes, "not known", space, sizeof space),
                 quota_text(f, quota, sizeof quota));
    stk_buf_release(&path);
    stk_buf_release(&type);
    stk_buf_release(&names);
}

/* What a row of the table has no column for. */
static void fs_notes(const struct stk_doctor *d, const struct stk_survey_fs *fs,
                     struct stk_buf *out)
{
    const struct stk_fs_facts *f = &fs->facts;
    struct stk_buf line = STK_BUF_INIT;
    char a[32];
    stk_buf_printf(&line, "%s: ", shown_path(fs));
    size_t head = line.len;
    if (f->error && f->error != ETIMEDOUT)
        stk_buf_printf(&line, "%s; ", strerror(f->error));
    if (f->stripe.size_bytes && f->stripe.count < 0)
        stk_buf_printf(&line, "stripes of %s on all storage targets; ",
                       stk_format_size(f->stripe.size_bytes, a, sizeof a));
    else if (f->stripe.size_bytes)
        stk_buf_printf(&line, "%lld stripe%s of %s%s; ", (long long)f->stripe.count,
                       f->stripe.count == 1 ? "" : "s",
                       stk_format_size(f->stripe.size_bytes, a, sizeof a),
                       f->stripe.progressive ? ", more for later parts" : "");
    else if (f->stripes)
        stk_buf_puts(&line, "stripes not told; ");
    if (f->free_files != UINT64_MAX && f->free_files < 100000)
        stk_buf_printf(&line, "only %s inodes free; ",
                       stk_format_count(f->free_files, a, sizeof a));
    if (fs->note[0])
        stk_buf_printf(&line, "%s; ", fs->note);
    if (line.len > head) {
        line.len -= 2;
        stk_report_wrapped(stk_buf_cstr(&line), 2, d->columns, out);
    }
    stk_buf_release(&line);
}

static void put_file_systems(const struct stk_doctor *d, struct stk_buf *out)
{
    const struct stk_survey *s = d->survey;
    struct stk_grid g;
    heading("file systems", "", out);
    stk_grid_init(&g, "belerr");
    stk_grid_row(&g, "path", "holds", "type", "storage", "free", "quota left");
    for (size_t i = 0; i < s->nfs; i++)
        fs_row(&s->fs[i], &g);
    stk_grid_fit(&g, 2, d->columns);
    stk_grid_render(&g, 2, out);
    stk_grid_release(&g);
    for (size_t i = 0; i < s->nfs; i++)
        fs_notes(d, &s->fs[i], out);
}

/* ---- speed -------------------------------------------------------------------------------- */

static const char *known_rate(double Bps, char *buf, size_t size)
{
    return Bps > 0 ? stk_word_rate(Bps, buf, size) : "-";
}

static const char *known_count(double n, char *buf, size_t size)
{
    return n > 0 ? stk_format_count(stk_nearest(n), buf, size) : "-";
}

static void speed_row(const struct stk_survey_fs *fs, struct stk_grid *g)
{
    const struct stk_measured *m = &fs->speed;
    struct stk_buf path = STK_BUF_INIT;
    char a[32], b[32], c[32], e[32], l[32];
    stk_grid_row(g, stk_word_cut(&path, shown_path(fs), SIZE_MAX),
                 known_rate(m->large_Bps, a, sizeof a), known_rate(m->storage.write_Bps, b, sizeof b),
                 known_count(m->creates_per_s, c, sizeof c),
                 known_count(m->opens_per_s, e, sizeof e),
                 m->storage.latency_s > 0 ? stk_format_duration(m->storage.latency_s, l, sizeof l) : "-",
                 m->way[0] ? m->way : "-");
    stk_buf_release(&path);
}

static void put_speed(const struct stk_doctor *d, struct stk_buf *out)
{
    const struct stk_survey *s = d->survey;
    struct stk_grid g;
    char more[120], a[32], b[32];
    if (s->quick) {
        heading("speed", "not measured (--quick)", out);
        return;
    }
    snprintf(more, sizeof more, "measured for %s, %s written and removed",
             stk_format_duration(s->measured_s, a, sizeof a),
             stk_format_size(s->written_bytes, b, sizeof b));
    heading("speed", more, out);
    stk_grid_init(&g, "brrrrrl");
    stk_grid_row(&g, "path", "read", "write", "creates/s", "opens/s", "latency", "reads by");
    for (size_t i = 0; i < s->nfs; i++)
        if (s->fs[i].measured)
            speed_row(&s->fs[i], &g);
    stk_grid_fit(&g, 2, d->columns);
    stk_grid_render(&g, 2, out);
    stk_grid_release(&g);
    stk_buf_puts(out, STK_FAINT);
    stk_report_wrapped("Reads bypass the page cache of this node, not the caches of disks and "
                       "servers. Writes are synced; creates (4 KiB each) are not.",
                       2, d->columns, out);
    stk_buf_puts(out, STK_PLAIN);
}

/* ---- the node ----------------------------------------------------------------------------- */

static void put_cpus(const struct stk_doctor *d, struct stk_buf *out)
{
    const struct stk_survey *s = d->survey;
    char text[120];
    int n = snprintf(text, sizeof text, "%u of %u usable", s->cpus, s->machine_cpus);
    if (isfinite(s->quota_cpus))
        snprintf(text + n, sizeof text - (size_t)n, ", by a cgroup's quota of %.3g CPUs",
                 s->quota_cpus);
    put_line(d, "CPUs", text, out);
}

static void put_memory(const struct stk_doctor *d, struct stk_buf *out)
{
    const struct stk_survey *s = d->survey;
    char text[160], a[32], b[32];
    snprintf(text, sizeof text, "%s free of %s%s",
             stk_format_size(s->memory_free_bytes, a, sizeof a),
             stk_format_size(s->memory_limit_bytes, b, sizeof b),
             s->memory_limited ? ", limited by a cgroup (files in /dev/shm count)"
                               : "; no cgroup limits it");
    put_line(d, "memory", text, out);
}

static void put_gpus(const struct stk_doctor *d, struct stk_buf *out)
{
    const struct stk_survey_gpus *g = &d->survey->gpus;
    char text[200], a[32];
    int n = snprintf(text, sizeof text, "%u", g->count);
    if (!g->count)
        snprintf(text, sizeof text, "none found");
    else if (g->kind[0])
        n += snprintf(text + n, sizeof text - (size_t)n, " x %s", g->kind);
    if (g->count && g->total_bytes > 0)
        snprintf(text + n, sizeof text - (size_t)n, ", %s",
                 stk_format_size((uint64_t)g->total_bytes, a, sizeof a));
    put_line(d, "GPUs", text, out);
}

static void put_slurm(const struct stk_doctor *d, struct stk_buf *out)
{
    const struct stk_survey *s = d->survey;
    char text[200];
    int n = snprintf(text, sizeof text, "%s%s",
                     !s->slurm             ? "no clients in PATH"
                     : s->slurm_version[0] ? ""
                                           : "version not known",
                     s->slurm_version);
    if (s->scheduler)
        snprintf(text + n, sizeof text - (size_t)n, "; this is job %s (%s)", s->job,
                 stk_scheduler_name(s->scheduler));
    else
        snprintf(text + n, sizeof text - (size_t)n, "; this is not a job");
    put_line(d, "Slurm", text, out);
}

static void put_mpi(const struct stk_doctor *d, struct stk_buf *out)
{
    const struct stk_survey *s = d->survey;
    struct stk_buf text = STK_BUF_INIT;
    for (size_t i = 0; i < s->mpi.n; i++) {
        const struct stk_comm_module *m = &s->mpi.module[i];
        stk_buf_reset(&text);
        stk_buf_printf(&text, "%s: %s%s", m->name, m->problem[0] ? m->problem : m->library,
                       m->chosen ? "; `stoker stage` uses it here" : "");
        for (uint8_t *p = text.data; !text.fail && p < text.data + text.len; p++)
            *p = *p == '\t' ? ' ' : *p; /* MPICH separates columns by tabs */
        put_line(d, i ? "" : "MPI", stk_buf_cstr(&text), out);
    }
    if (!s->mpi.n)
        put_line(d, "MPI", s->mpi.stalled ? "not known: a folder does not answer" : "no module",
                 out);
    stk_buf_release(&text);
}

static void put_tiers(const struct stk_doctor *d, struct stk_buf *out)
{
    const struct stk_survey_tiers *all = &d->survey->tiers;
    struct stk_buf text = STK_BUF_INIT;
    char a[32], b[32];
    for (size_t i = 0; i < all->n; i++) {
        const struct stk_survey_tier *t = &all->tier[i];
        stk_buf_reset(&text);
        stk_buf_printf(&text, "%s: ", t->path);
        if (t->problem[0])
            stk_buf_printf(&text, "not used: %s", t->problem);
        else
            stk_buf_printf(&text, "%llu of %llu copies complete, %s%s, %s%s",
                           (unsigned long long)t->complete, (unsigned long long)t->sets,
                           stk_format_size(t->bytes, b, sizeof b), t->memory ? " of memory" : "",
                           t->limit_bytes ? "limit " : "no limit",
                           t->limit_bytes ? stk_format_size(t->limit_bytes, a, sizeof a) : "");
        put_line(d, i ? "" : "tiers", stk_buf_cstr(&text), out);
    }
    if (all->stalled)
        put_line(d, all->n ? "" : "tiers", "not known: a folder does not answer", out);
    else if (!all->n)
        put_line(d, "tiers", "none", out);
    stk_buf_release(&text);
}

static void put_parts(const struct stk_doctor *d, struct stk_buf *out)
{
    struct stk_buf have = STK_BUF_INIT, lack = STK_BUF_INIT;
    for (size_t i = 0; i < d->build->nparts; i++) {
        const struct stk_build_part *p = &d->build->part[i];
        struct stk_buf *to = p->missing ? &lack : &have;
        stk_buf_printf(to, "%s%s", to->len ? ", " : "", p->name);
    }
    put_line(d, "built in", have.len ? stk_buf_cstr(&have) : "nothing optional", out);
    if (lack.len)
        put_line(d, "left out", stk_buf_cstr(&lack), out);
    stk_buf_release(&have);
    stk_buf_release(&lack);
}

static void put_node(const struct stk_doctor *d, struct stk_buf *out)
{
    const struct stk_survey *s = d->survey;
    heading("node", "", out);
    put_cpus(d, out);
    put_memory(d, out);
    put_gpus(d, out);
    put_line(d, "io_uring", s->uring.code ? s->uring.what : "works", out);
    put_slurm(d, out);
    put_mpi(d, out);
    put_tiers(d, out);
    put_parts(d, out);
}

/* ---- what is missing ---------------------------------------------------------------------- */

static void put_lacks(const struct stk_doctor *d, struct stk_buf *out)
{
    struct stk_survey_lack lack[STK_SURVEY_LACKS];
    size_t n = stk_survey_lacks(d->survey, lack), shown = n;
    struct stk_buf line = STK_BUF_INIT;
    heading("missing, and what it would give", "", out);
    for (size_t i = 0; i < n; i++) {
        stk_buf_reset(&line);
        stk_buf_printf(&line, "%s: %s", lack[i].what, lack[i].gives);
        stk_report_wrapped(stk_buf_cstr(&line), 2, d->columns, out);
    }
    for (size_t i = 0; i < d->build->nparts; i++) {
        const struct stk_build_part *p = &d->build->part[i];
        if (!p->missing || strcmp(p->name, "io_uring") == 0)
            continue;
        stk_buf_reset(&line);
        stk_buf_printf(&line, "%s: build stoker with %s", p->name, p->missing);
        stk_report_wrapped(stk_buf_cstr(&line), 2, d->columns, out);
        shown++;
    }
    if (!(d->build->locks & STK_CONFINED_CALLS) || !(d->build->locks & STK_CONFINED_FILES)) {
        stk_report_wrapped("seccomp or Landlock: libraries that read untrusted files are confined "
                           "less (`stoker version` lists it)",
                           2, d->columns, out);
        shown++;
    }
    if (!shown)
        stk_buf_puts(out, "  nothing\n");
    stk_buf_release(&line);
}

void stk_doctor_text(const struct stk_doctor *d, struct stk_buf *out)
{
    const struct stk_survey *s = d->survey;
    struct stk_buf line = STK_BUF_INIT;
    stk_buf_printf(&line, "%s, %s, stoker %s", s->host[0] ? s->host : "this node",
                   s->kernel[0] ? s->kernel : "kernel not known", stk_version());
    stk_report_wrapped(stk_buf_cstr(&line), 0, d->columns, out);
    stk_buf_release(&line);
    put_file_systems(d, out);
    put_speed(d, out);
    heading("folders for copies", "* where `stoker stage` puts them", out);
    stk_targets_text(&s->targets, d->columns, out);
    put_node(d, out);
    put_lacks(d, out);
}
