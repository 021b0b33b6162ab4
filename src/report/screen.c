/*
 * screen.c - the first look at a profile, on one screen of 24 rows: what ran, how long it waited
 * for data, what to change, the run over time, and what was not seen. Then all numbers, on request.
 */
#include <stdio.h>
#include <time.h>

#include "base/text.h"
#include "base/units.h"
#include "result/grid.h"
#include "report/report_priv.h"

#define FINDINGS_SHOWN 5
#define ROWS_MOST      23 /* a terminal of 24 rows, with the prompt */

/* ---- what ran ------------------------------------------------------------------------------ */

static void put_hosts(const struct stk_profile *p, struct stk_buf *out)
{
    char more[48];
    if (!(p->source->knows & STK_KNOWS_HOSTS))
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

/* Simultaneous ones: a loader may restart them for every epoch. */
static uint64_t count_workers(const struct stk_analysis *a)
{
    uint64_t n = 0;
    for (size_t i = 0; i < a->nranks; i++)
        n += a->rank[i].workers;
    return n;
}

static void coverage_text(const struct stk_analysis *a, struct stk_buf *out)
{
    char text[16];
    const char *little = a->coverage_little ? "too little was read to tell" : "";
    bool read = a->coverage_read >= 0, write = a->coverage_write >= 0;
    if (!(a->p->source->knows & STK_KNOWS_KERNEL)) {
        stk_buf_printf(out, "unknown (%s: see --notes)", a->p->source->title);
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

static void put_where(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_profile *p = r->a->p;
    char text[64];
    uint64_t workers = count_workers(r->a), threads;
    uint64_t processes = stk_profile_processes(p, &threads);
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
    stk_buf_puts(&line, "; coverage: ");
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
}

/* ---- the main loop ------------------------------------------------------------------------- */

static void how_known(const struct stk_loop *l, struct stk_buf *out)
{
    char many[40];
    switch (l->how) {
    case STK_LOOP_MARKS:
        stk_buf_puts(out, "measured in its marked phases");
        break;
    case STK_LOOP_WORKERS:
        stk_buf_printf(out, "measured in its waits for %s",
                       stk_word_many(l->workers, "worker", many, sizeof many));
        break;
    case STK_LOOP_PIPES:
        stk_buf_puts(out, "measured in its waits for data from other programs");
        break;
    case STK_LOOP_THREADS:
        stk_buf_puts(out, "measured in its waits for other threads");
        break;
    default:
        stk_buf_puts(out, "measured in its own I/O calls; no worker processes");
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
    char time[40];
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
        if (l->library_s >= LEAST_PORTION * l->run_s && l->library_s > 0)
            stk_buf_printf(&line, ", in files of libraries %s",
                           stk_word_time(l->library_s, time, sizeof time));
        stk_buf_puts(&line, l->loops > 1 ? "; mean of the ranks, " : "; ");
        how_known(l, &line);
    }
    stk_report_wrapped(stk_buf_cstr(&line), 0, r->columns, out);
    stk_buf_release(&line);
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

static void put_findings(const struct stk_report *r, size_t most, struct stk_buf *out)
{
    const struct stk_advice *adv = r->advice;
    size_t n = adv->nfindings < most ? adv->nfindings : most;
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
    char more[40] = "; --notes";
    if (p->nnotes > 1)
        snprintf(more, sizeof more, "; %zu notes: --notes", p->nnotes);
    if (p->nnotes)
        stk_buf_printf(out, "note: %s%s\n",
                       stk_word_cut(&b, p->note[0], r->columns - 6 - strlen(more)), more);
    stk_buf_release(&b);
}

static void put_screen(const struct stk_report *r, size_t findings, bool chart, struct stk_buf *out)
{
    stk_report_header(r, out);
    stk_buf_putc(out, '\n');
    stk_report_loop(r, out);
    put_findings(r, findings, out);
    stk_buf_putc(out, '\n');
    if (chart)
        stk_report_chart(r, out);
    stk_report_sums(r, out);
    put_notes(r, out);
}

static size_t rows_of(const struct stk_buf *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->len; i++)
        n += b->data[i] == '\n';
    return n;
}

/* As many findings as leave room for the rest; if that is not enough, no chart. */
void stk_report_screen(const struct stk_report *r, struct stk_buf *out)
{
    struct stk_buf b = STK_BUF_INIT;
    size_t findings = FINDINGS_SHOWN;
    put_screen(r, findings, true, &b);
    while (rows_of(&b) > ROWS_MOST && findings > 1) {
        stk_buf_reset(&b);
        put_screen(r, --findings, true, &b);
    }
    if (rows_of(&b) > ROWS_MOST) {
        stk_buf_reset(&b);
        put_screen(r, FINDINGS_SHOWN, false, &b);
    }
    stk_buf_puts(out, stk_buf_cstr(&b));
    out->fail = out->fail || b.fail;
    stk_buf_release(&b);
}

void stk_report_text(const struct stk_report *r, unsigned parts, struct stk_buf *out)
{
    static void (*const part[])(const struct stk_report *, struct stk_buf *) = {
        stk_report_screen,  stk_report_numbers, stk_report_files,     stk_report_dirs,
        stk_report_formats, stk_report_ranks,   stk_report_processes, stk_report_phases,
        stk_report_sizes,   stk_report_latency, stk_report_timeline,  stk_report_findings,
        stk_report_notes};
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
