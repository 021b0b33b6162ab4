/*
 * tables.c - files, directories, formats, ranks and processes, one line each, most time first. A
 * wide terminal shows more columns: they come last, so that a narrow one just ends earlier.
 */
#include <stdio.h>

#include "base/text.h"
#include "base/units.h"
#include "result/grid.h"
#include "report/report_priv.h"

#define WIDE 110 /* columns required for the additional ones */

static bool wide(const struct stk_report *r)
{
    return r->columns >= WIDE;
}

/* Renders and releases. */
static void finish(struct stk_grid *t, struct stk_buf *out)
{
    stk_grid_render(t, 2, out);
    stk_grid_release(t);
}

/* ---- files, directories, formats ----------------------------------------------------------- */

static void usage_row(const struct stk_usage *u, bool files, const char *name, struct stk_grid *t)
{
    char n[32], time[40], read[40], mean[40], again[32], written[40], speed[48], p99[40];
    if (files)
        stk_word_about(u->files, u->files_exact, n, sizeof n);
    else
        stk_word_share(u->random, n, sizeof n);
    stk_grid_row(t, name, stk_word_time(u->io_s, time, sizeof time),
                 stk_word_size(u->n.c[STK_C_READ_BYTES], read, sizeof read),
                 stk_word_size(stk_nearest(u->mean_read_bytes), mean, sizeof mean), n,
                 stk_word_times(u->reread, again, sizeof again),
                 stk_word_size(u->n.c[STK_C_WRITE_BYTES], written, sizeof written),
                 stk_word_rate(u->bandwidth_Bps, speed, sizeof speed),
                 stk_word_time(u->latency_p99_s, p99, sizeof p99));
}

static void put_usage(const struct stk_report *r, const struct stk_usage *u, size_t all,
                      const char *what, bool files, struct stk_buf *out)
{
    size_t n = stk_report_rows(r, all), room = stk_report_room(r, wide(r) ? 92 : 58);
    struct stk_buf name = STK_BUF_INIT;
    struct stk_grid t;
    stk_grid_init(&t, wide(r) ? "lrrrrrrrr" : "lrrrrr");
    stk_grid_row(&t, what, "I/O time", "read", "mean read", files ? "files" : "random", "re-read",
                 "written", "a read's speed", "p99");
    for (size_t i = 0; i < n; i++)
        usage_row(&u[i], files, stk_word_path(&name, *u[i].name ? u[i].name : "other", room), &t);
    finish(&t, out);
    stk_report_more(n, all, out);
    stk_buf_release(&name);
}

void stk_report_files(const struct stk_report *r, struct stk_buf *out)
{
    stk_report_heading("files", out);
    put_usage(r, r->a->file, r->a->nfiles, "path", false, out);
}

void stk_report_dirs(const struct stk_report *r, struct stk_buf *out)
{
    stk_report_heading("directories", out);
    put_usage(r, r->a->dir, r->a->ndirs, "path", true, out);
}

void stk_report_formats(const struct stk_report *r, struct stk_buf *out)
{
    stk_report_heading("formats", out);
    put_usage(r, r->a->format, r->a->nformats, "format", true, out);
}

/* ---- ranks --------------------------------------------------------------------------------- */

static void rank_row(const struct stk_rank_use *u, struct stk_grid *t)
{
    char rank[16], workers[32], read[40], files[32], io[40], meta[40], cpu[40], run[40], reads[32],
        written[40];
    snprintf(rank, sizeof rank, "%lu", (unsigned long)u->rank);
    stk_grid_row(t, u->known ? rank : "none", stk_word_count(u->workers, workers, sizeof workers),
                 stk_word_size(u->read_bytes, read, sizeof read),
                 stk_word_count(u->files_read, files, sizeof files),
                 stk_word_time(u->io_s, io, sizeof io), stk_word_time(u->meta_s, meta, sizeof meta),
                 stk_word_time(u->cpu_s, cpu, sizeof cpu), stk_word_time(u->run_s, run, sizeof run),
                 stk_word_count(u->reads, reads, sizeof reads),
                 stk_word_size(u->write_bytes, written, sizeof written));
}

void stk_report_ranks(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_analysis *a = r->a;
    size_t n = stk_report_rows(r, a->nranks);
    struct stk_grid t;
    stk_report_heading("ranks", out);
    stk_grid_init(&t, wide(r) ? "rrrrrrrrrr" : "rrrrrrrr");
    stk_grid_row(&t, "rank", "workers", "read", "files", "I/O time", "metadata", "CPU", "ran",
                 "reads", "written");
    for (size_t i = 0; i < n; i++)
        rank_row(&a->rank[i], &t);
    finish(&t, out);
    stk_report_more(n, a->nranks, out);
}

/* ---- processes ----------------------------------------------------------------------------- */

/* "rank 3 worker 1", "rank 3 launch", as far as known. */
static const char *who(const struct stk_prof_proc *p, char *buf, size_t size)
{
    char worker[32] = "", rank[32] = "";
    if (p->world)
        snprintf(rank, sizeof rank, "rank %lu", (unsigned long)p->rank);
    if (p->worker)
        snprintf(worker, sizeof worker, "worker %lu", (unsigned long)p->worker);
    else if (p->launch)
        snprintf(worker, sizeof worker, "launch");
    snprintf(buf, size, "%s%s%s", rank, *rank && *worker ? " " : "", worker);
    return *buf ? buf : "-";
}

static double seen(const struct stk_prof_proc *p)
{
    return p->kernel_read_bytes ? (double)p->seen_read_bytes / (double)p->kernel_read_bytes : -1;
}

static void process_row(const struct stk_profile *p, const struct stk_prof_proc *one, size_t room,
                        struct stk_buf *name, struct stk_grid *t)
{
    char pid[16], label[64], read[40], io[40], cpu[40], covered[16], ran[40];
    double ran_s = one->end_s - one->start_s;
    snprintf(pid, sizeof pid, "%lu", (unsigned long)one->pid);
    struct stk_buf host = STK_BUF_INIT;
    const char *at = one->host < p->nhosts ? p->host[one->host].name : "";
    stk_grid_row(t, stk_word_command(name, *one->command ? one->command : one->exe, room), pid,
                 who(one, label, sizeof label), stk_word_size(one->read_bytes, read, sizeof read),
                 stk_word_time(one->io_union_s, io, sizeof io),
                 stk_word_time(one->cpu_s, cpu, sizeof cpu), stk_prof_ended(one),
                 stk_word_time(ran_s, ran, sizeof ran),
                 stk_word_share(seen(one), covered, sizeof covered), stk_word_cut(&host, at, 20));
    stk_buf_release(&host);
}

void stk_report_processes(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_profile *p = r->a->p;
    size_t n = stk_report_rows(r, p->nprocs), room = stk_report_room(r, wide(r) ? 104 : 64);
    struct stk_buf name = STK_BUF_INIT;
    struct stk_grid t;
    stk_report_heading("processes", out);
    stk_grid_init(&t, wide(r) ? "lrlrrrlrrl" : "lrlrrrl");
    stk_grid_row(&t, "command", "pid", "who", "read", "in I/O", "CPU", "ended", "ran", "seen",
                 "host");
    for (size_t i = 0; i < n; i++)
        process_row(p, &p->proc[i], room, &name, &t);
    finish(&t, out);
    stk_report_more(n, p->nprocs, out);
    stk_buf_release(&name);
}
