/*
 * screen.c - the first look at a profile, on one screen: what ran, where its time went, the run
 * over time, the numbers, what to change, and what was not seen.
 */
#include <stdio.h>
#include <time.h>

#include "base/style.h"
#include "base/text.h"
#include "base/units.h"
#include "report/grid.h"
#include "report/report_priv.h"

#define FINDINGS_SHOWN 5
#define NOTES_SHOWN    3

/* ---- what ran ------------------------------------------------------------------------------ */

static void put_hosts(const struct stk_profile *p, struct stk_buf *out)
{
    char more[48];
    if (strcmp(p->source, "darshan") == 0) /* its logs do not have the host */
        return;
    for (size_t i = 0; i < p->nhosts && i < 2; i++) {
        stk_buf_printf(out, "%s%.30s", i ? ", " : " on ", p->host[i].name);
    }
    if (p->nhosts > 2)
        stk_buf_printf(out, " and %s", stk_word_many(p->nhosts - 2, "host", more, sizeof more));
}

/* A shell reports a signal that ended its program as a status above 128; the launcher knows the
 * signal. */
static void put_status(const struct stk_profile *p, struct stk_buf *out)
{
    if (p->exit_signal)
        stk_buf_printf(out, ", ended by signal %d", p->exit_signal);
    else if (p->exit_status > 128 && p->exit_status <= 128 + 64)
        stk_buf_printf(out, ", exit status %d (from a shell: signal %d)", p->exit_status,
                       p->exit_status - 128);
    else if (p->exit_status >= 0)
        stk_buf_printf(out, ", exit status %d", p->exit_status);
    else if (p->running)
        stk_buf_puts(out, ", still running (or stoker was killed)");
    else
        stk_buf_puts(out, ", exit status unknown");
}

static void put_when(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_profile *p = r->a->p;
    struct stk_buf line = STK_BUF_INIT;
    char when[40] = "", run[40];
    struct tm tm;
    /* A hostile log may hold any time; only four-digit years are shown. */
    time_t at = p->start_real_s > 0 && p->start_real_s < 2e11 ? (time_t)p->start_real_s : 0;
    if (at && gmtime_r(&at, &tm))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC, ", &tm);
    stk_buf_printf(&line, "%sran %s", when, stk_format_duration(p->run_s, run, sizeof run));
    put_status(p, &line);
    if (*p->job)
        stk_buf_printf(&line, ", job %.30s", p->job);
    put_hosts(p, &line);
    stk_buf_puts(&line, p->stopped_early ? ", recording ended early" : "");
    stk_report_wrapped(stk_buf_cstr(&line), 0, r->columns, out);
    stk_buf_release(&line);
}

/* Workers: simultaneous ones; a loader may restart them for every epoch. A process that executes
 * another program is listed once per program, and counted once. */
static uint64_t count_processes(const struct stk_analysis *a, uint64_t *workers, uint64_t *threads)
{
    uint64_t n = 0;
    *workers = *threads = 0;
    for (size_t i = 0; i < a->p->nprocs; i++) {
        const struct stk_prof_proc *q = &a->p->proc[i];
        *threads += q->threads;
        n += !q->ended || strcmp(q->ended, "exec") != 0;
    }
    for (size_t i = 0; i < a->nranks; i++)
        *workers += a->rank[i].workers;
    return n ? n : a->p->nprocs;
}

static void put_where(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_profile *p = r->a->p;
    char text[64];
    uint64_t workers, threads, processes = count_processes(r->a, &workers, &threads);
    struct stk_buf line = STK_BUF_INIT;
    stk_buf_puts(&line, stk_word_many(p->nranks, "rank", text, sizeof text));
    stk_buf_printf(&line, ", %s", stk_word_many(processes, "process", text, sizeof text));
    if (workers)
        stk_buf_printf(&line, " (%s)", stk_word_many(workers, "worker", text, sizeof text));
    if (threads)
        stk_buf_printf(&line, ", %s with I/O", stk_word_many(threads, "thread", text, sizeof text));
    if (r->a->cores)
        stk_buf_printf(&line, "; %s", stk_word_many(r->a->cores, "core", text, sizeof text));
    uint64_t gpus = 0;
    for (size_t i = 0; i < p->nhosts; i++)
        gpus += p->host[i].gpus;
    if (gpus)
        stk_buf_printf(&line, ", %s", stk_word_many(gpus, "GPU", text, sizeof text));
    stk_report_wrapped(stk_buf_cstr(&line), 0, r->columns, out);
    stk_buf_release(&line);
}

static void coverage_text(const struct stk_analysis *a, struct stk_buf *out)
{
    char text[16];
    const char *little = a->coverage_little ? "too little was read to tell" : "";
    bool read = a->coverage_read >= 0, write = a->coverage_write >= 0;
    if (strcmp(a->p->source, "darshan") == 0) {
        stk_buf_puts(out, "unknown (a Darshan log: see --notes)");
        return;
    }
    if (!read && !write) {
        stk_buf_puts(out, *little ? little
                                  : "unknown (the kernel counted nothing, or could not "
                                    "be asked)");
        return;
    }
    if (read)
        stk_buf_printf(out, "%s of reads", stk_word_share(a->coverage_read, text, sizeof text));
    if (write)
        stk_buf_printf(out, "%s%s of writes", read ? " and " : "",
                       stk_word_share(a->coverage_write, text, sizeof text));
    stk_buf_printf(out, ", in bytes, by the kernel's count%s%s", *little ? "; " : "", little);
}

static void put_coverage(const struct stk_report *r, struct stk_buf *out)
{
    struct stk_buf line = STK_BUF_INIT;
    stk_buf_puts(&line, "coverage: ");
    coverage_text(r->a, &line);
    stk_report_wrapped(stk_buf_cstr(&line), 0, r->columns, out);
    stk_buf_release(&line);
}

void stk_report_header(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_profile *p = r->a->p;
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_printf(out, "%s\n",
                   stk_word_command(&b, *p->command ? p->command : p->path, r->columns));
    stk_buf_release(&b);
    put_when(r, out);
    put_where(r, out);
    put_coverage(r, out);
}

/* ---- the main loop ------------------------------------------------------------------------- */

static void how_known(const struct stk_loop *l, struct stk_buf *out)
{
    char many[40];
    switch (l->how) {
    case STK_LOOP_MARKS:
        stk_buf_puts(out, "from marked phases");
        break;
    case STK_LOOP_WORKERS:
        stk_buf_printf(out, "from its waits for %s",
                       stk_word_many(l->workers, "worker", many, sizeof many));
        break;
    case STK_LOOP_THREADS:
        stk_buf_puts(out, "from its waits for other threads");
        break;
    default:
        stk_buf_puts(out, "from its own calls: nobody reads for it");
    }
}

static void put_portion(const struct stk_loop *l, const char *what, double s, struct stk_buf *out)
{
    char time[40], share[16];
    stk_buf_printf(out, "%s %s (%s)", what, s > 0 ? stk_word_time(s, time, sizeof time) : "0 s",
                   stk_word_share(l->run_s > 0 ? s / l->run_s : 0, share, sizeof share));
}

#define LEAST_PORTION 0.005 /* of the run: less is not shown */

void stk_report_loop(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_loop *l = &r->a->loop;
    struct stk_buf line = STK_BUF_INIT;
    stk_buf_puts(&line, "main loop: ");
    if (l->why) {
        stk_buf_printf(&line, "how long it waited for data is not known: %s", l->why);
    } else {
        put_portion(l, "waited for data", l->wait_s, &line);
        put_portion(l, ", computed", l->compute_s, &line);
        if (l->write_s >= LEAST_PORTION * l->run_s && l->write_s > 0)
            put_portion(l, ", wrote", l->write_s, &line);
        if (l->start_s >= LEAST_PORTION * l->run_s && l->start_s > 0)
            put_portion(l, ", started", l->start_s, &line);
        stk_buf_puts(&line, l->loops > 1 ? "; mean of the ranks, " : "; ");
        how_known(l, &line);
    }
    stk_report_wrapped(stk_buf_cstr(&line), 0, r->columns, out);
    stk_buf_release(&line);
}

/* ---- the numbers --------------------------------------------------------------------------- */

#define KINDS 12

/* Calls that move no data, as cells: those with a count, one below the other. */
struct kinds {
    char text[KINDS][48];
    size_t n;
};

static struct kinds count_kinds(const uint64_t *c)
{
    const struct {
        uint64_t n;
        const char *one;
    } all[KINDS] = {{c[STK_C_OPENS], "open"},
                    {c[STK_C_STATS], "stat"},
                    {c[STK_C_SEEKS], "seek"},
                    {c[STK_C_DIR_READS], "directory read"},
                    {c[STK_C_FSYNCS] + c[STK_C_MSYNCS], "sync"},
                    {c[STK_C_RENAMES], "rename"},
                    {c[STK_C_REMOVES], "remove"},
                    {c[STK_C_MAKES], "new name"},
                    {c[STK_C_CHANGES], "change"},
                    {c[STK_C_WALKS], "walk"},
                    {c[STK_C_LOCKS], "lock"},
                    {c[STK_C_ERRORS], "failed call"}};
    struct kinds k = {.n = 0};
    for (size_t i = 0; i < KINDS; i++)
        if (all[i].n)
            stk_word_many(all[i].n, all[i].one, k.text[k.n++], sizeof k.text[0]);
    return k;
}

static double per_request(uint64_t bytes, double s)
{
    return s > 0 ? (double)bytes / s : 0;
}

static void put_totals(const struct stk_usage *j, struct stk_buf *out)
{
    char a[40], b[40], c[40];
    const struct stk_counts *n = &j->n;
    struct kinds k = count_kinds(n->c); /* absent kinds are "" */
    struct stk_grid t;
    stk_grid_init(&t, "lrrr");
    stk_grid_row(&t, "", "read", "write", "metadata");
    stk_grid_row(&t, "time, threads added", stk_word_time(j->read_s, a, sizeof a),
                 stk_word_time(j->write_s, b, sizeof b), stk_word_time(j->meta_s, c, sizeof c));
    stk_grid_row(&t, "bytes", stk_word_size(n->c[STK_C_READ_BYTES], a, sizeof a),
                 stk_word_size(n->c[STK_C_WRITE_BYTES], b, sizeof b), k.text[0]);
    stk_grid_row(&t, "requests", stk_word_count(n->c[STK_C_READS], a, sizeof a),
                 stk_word_count(n->c[STK_C_WRITES], b, sizeof b), k.text[1]);
    stk_grid_row(&t, "mean request", stk_word_size(stk_nearest(j->mean_read_bytes), a, sizeof a),
                 stk_word_size(stk_nearest(j->mean_write_bytes), b, sizeof b), k.text[2]);
    stk_grid_row(&t, "speed of a request", stk_word_rate(j->bandwidth_Bps, a, sizeof a),
                 stk_word_rate(per_request(n->c[STK_C_WRITE_BYTES], j->write_s), b, sizeof b),
                 k.text[3]);
    for (size_t i = 4; i < k.n; i++)
        stk_grid_row(&t, "", "", "", k.text[i]);
    stk_grid_render(&t, 0, out);
    stk_grid_release(&t);
}

static void put_order(const struct stk_usage *j, struct stk_buf *out)
{
    char a[40], b[40], c[40], d[40];
    stk_buf_printf(out, "a read    p50 %s, p99 %s, longest %s; %s are under 1 MiB\n",
                   stk_word_time(j->latency_p50_s, a, sizeof a),
                   stk_word_time(j->latency_p99_s, b, sizeof b),
                   stk_word_time(1e-9 * (double)j->n.c[STK_C_MAX_READ_NS], c, sizeof c),
                   stk_word_share(j->small, d, sizeof d));
    if (j->n.c[STK_C_FIRST_READS] >= j->n.c[STK_C_READS])
        stk_buf_puts(out, j->n.c[STK_C_READS] > j->n.c[STK_C_OPENS]
                              ? "order     unknown\n" /* Darshan has none for C streams */
                              : "order     none: every read is the first after an open\n");
    else
        stk_buf_printf(out, "order     %s sequential, %s consecutive, %s random\n",
                       stk_word_share(j->seq, a, sizeof a), stk_word_share(j->consec, b, sizeof b),
                       stk_word_share(j->random, c, sizeof c));
}

static void put_files(const struct stk_usage *j, struct stk_buf *out)
{
    char a[40], b[40], c[40];
    if (j->distinct_bytes)
        stk_buf_printf(out, "re-read   each byte %s on average: %s of %s%s\n",
                       stk_word_times(j->reread, a, sizeof a),
                       stk_word_size(j->n.c[STK_C_READ_BYTES], b, sizeof b),
                       stk_word_size(j->distinct_bytes, c, sizeof c),
                       j->exact ? "" : " (estimate)");
    stk_buf_printf(out, "files     %s read, %s of them once",
                   stk_word_about(j->files_read, j->files_exact, a, sizeof a),
                   stk_word_about(j->files_read_once, j->files_exact, b, sizeof b));
    stk_buf_printf(out, "; %s written",
                   stk_word_about(j->files_written, j->files_exact, a, sizeof a));
    if (j->size_bytes)
        stk_buf_printf(out, "; %s of data", stk_word_size(j->size_bytes, a, sizeof a));
    stk_buf_putc(out, '\n');
}

static void put_numbers(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_usage *j = &r->a->job;
    put_totals(j, out);
    if (j->n.c[STK_C_READS])
        put_order(j, out);
    put_files(j, out);
}

/* ---- what to do, and what was not seen ----------------------------------------------------- */

static const char *gain_text(const struct stk_finding *f, char *buf, size_t size)
{
    char gain[40];
    if (!(f->gain_s > 0))
        return "";
    snprintf(buf, size, "-%s", stk_word_time(f->gain_s, gain, sizeof gain));
    return buf;
}

/* One line each: severity, id, gain, title. */
static void put_few(const struct stk_report *r, size_t n, struct stk_buf *out)
{
    struct stk_buf cell = STK_BUF_INIT;
    struct stk_grid t;
    char gain[48], severity[16];
    size_t id_width = 0, gain_width = 0;
    for (size_t i = 0; i < n; i++) {
        const struct stk_finding *f = &r->advice->finding[i];
        size_t id = strlen(f->id), saved = strlen(gain_text(f, gain, sizeof gain));
        id_width = id > id_width ? id : id_width;
        gain_width = saved > gain_width ? saved : gain_width;
    }
    size_t used = 2 + strlen("medium") + 2 + id_width + 2 + gain_width + 2;
    size_t room = r->columns > used + 20 ? r->columns - used : 20;
    stk_grid_init(&t, "llrl");
    for (size_t i = 0; i < n; i++) {
        const struct stk_finding *f = &r->advice->finding[i];
        snprintf(severity, sizeof severity, "%s%s" STK_PLAIN, stk_word_weight(f->severity),
                 stk_severity_name(f->severity));
        stk_grid_row(&t, severity, f->id, gain_text(f, gain, sizeof gain),
                     stk_word_cut(&cell, f->title, room));
    }
    stk_grid_render(&t, 2, out);
    stk_grid_release(&t);
    stk_buf_release(&cell);
}

static void put_findings(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_advice *adv = r->advice;
    size_t n = adv->nfindings < FINDINGS_SHOWN ? adv->nfindings : FINDINGS_SHOWN;
    stk_buf_puts(out, STK_STRONG);
    stk_report_wrapped(adv->verdict, 0, r->columns, out);
    stk_buf_puts(out, STK_PLAIN);
    put_few(r, n, out);
    if (adv->nfindings > n)
        stk_buf_printf(out, "  and %zu more; ", adv->nfindings - n);
    if (adv->nfindings)
        stk_buf_printf(out, "%s--findings or `stoker advise` shows them in full\n",
                       adv->nfindings > n ? "" : "  ");
}

static void put_notes(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_profile *p = r->a->p;
    struct stk_buf b = STK_BUF_INIT;
    bool cut = p->nnotes > NOTES_SHOWN;
    for (size_t i = 0; i < p->nnotes && i < NOTES_SHOWN; i++) {
        stk_buf_printf(out, "note: %s\n", stk_word_cut(&b, p->note[i], r->columns - 6));
        cut = cut || strlen(p->note[i]) > r->columns - 6;
    }
    if (cut)
        stk_buf_printf(out, "      --notes shows %s in full\n",
                       p->nnotes > 1 ? "all of them" : "it");
    stk_buf_release(&b);
}

void stk_report_screen(const struct stk_report *r, struct stk_buf *out)
{
    stk_report_header(r, out);
    stk_buf_putc(out, '\n');
    stk_report_loop(r, out);
    stk_buf_putc(out, '\n');
    stk_report_time(r, out);
    stk_buf_putc(out, '\n');
    size_t before = out->len;
    stk_report_chart(r, out);
    if (out->len > before)
        stk_buf_putc(out, '\n');
    put_numbers(r, out);
    stk_buf_putc(out, '\n');
    put_findings(r, out);
    if (r->a->p->nnotes)
        stk_buf_putc(out, '\n');
    put_notes(r, out);
}

void stk_report_text(const struct stk_report *r, unsigned parts, struct stk_buf *out)
{
    static void (*const part[])(const struct stk_report *, struct stk_buf *) = {
        stk_report_screen,  stk_report_files,     stk_report_dirs,     stk_report_formats,
        stk_report_ranks,   stk_report_processes, stk_report_phases,   stk_report_sizes,
        stk_report_latency, stk_report_timeline,  stk_report_findings, stk_report_notes};
    bool first = true;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        if (!(parts & 1u << i))
            continue;
        if (!first)
            stk_buf_putc(out, '\n');
        first = false;
        part[i](r, out);
    }
}
