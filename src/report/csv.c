/*
 * csv.c - tables for spreadsheets and data frames (RFC 4180: a header row, cells quoted if
 * necessary). Times in seconds, sizes in bytes; an empty cell is unknown.
 */
#include "base/csv.h"
#include "base/file.h"
#include "base/num.h"
#include "base/text.h"
#include "report/report_priv.h"

/* A row being written, with its commas. */
struct row {
    struct stk_buf *out;
    bool begun;
};

static void next_cell(struct row *r)
{
    if (r->begun)
        stk_buf_putc(r->out, ',');
    r->begun = true;
}

static void end_row(struct row *r)
{
    stk_buf_puts(r->out, "\r\n");
    r->begun = false;
}

static void text(struct row *r, const char *s)
{
    next_cell(r);
    stk_csv_put_text(r->out, s);
}

static void count(struct row *r, uint64_t v)
{
    next_cell(r);
    if (v != UINT64_MAX) /* a minimum of nothing */
        stk_buf_printf(r->out, "%llu", (unsigned long long)v);
}

static void number(struct row *r, double v)
{
    char buf[STK_NUM_ROOM];
    next_cell(r);
    stk_buf_put(r->out, buf, stk_num_f64(buf, v));
}

/* Negative: unknown. */
static void known(struct row *r, double v)
{
    if (v >= 0)
        number(r, v);
    else
        text(r, "");
}

static void names(struct row *r, const char *const *name)
{
    for (; *name; name++)
        text(r, *name);
}

static void counter_names(struct row *r)
{
    for (unsigned c = 0; c < STK_C_COUNT; c++)
        text(r, stk_counter_name((enum stk_counter)c));
}

static void counters(struct row *r, const struct stk_counts *n)
{
    for (unsigned c = 0; c < STK_C_COUNT; c++)
        count(r, n->c[c]);
}

/* ---- the tables ---------------------------------------------------------------------------- */

static void put_files(const struct stk_analysis *a, struct row *r)
{
    static const char *const head[] = {"path",   "format", "files", "size_bytes", "distinct_bytes",
                                       "ranks",  "procs",  "io_s",  "seq",        "consec",
                                       "random", "reread", NULL};
    names(r, head);
    counter_names(r);
    end_row(r);
    for (size_t i = 0; i < a->nfiles; i++) {
        const struct stk_usage *u = &a->file[i];
        text(r, u->name);
        text(r, u->format);
        count(r, u->files);
        count(r, u->size_bytes);
        count(r, u->distinct_bytes);
        count(r, u->ranks);
        count(r, u->procs);
        number(r, u->io_s);
        number(r, u->seq);
        number(r, u->consec);
        number(r, u->random);
        number(r, u->reread);
        counters(r, &u->n);
        end_row(r);
    }
}

static void put_processes(const struct stk_analysis *a, struct row *r)
{
    static const char *const head[] = {"process",
                                       "pid",
                                       "rank",
                                       "worker",
                                       "host",
                                       "command",
                                       "start_s",
                                       "end_s",
                                       "ended",
                                       "threads",
                                       "cpu_s",
                                       "io_sum_s",
                                       "io_union_s",
                                       "seen_read_bytes",
                                       "kernel_read_bytes",
                                       "seen_write_bytes",
                                       "kernel_write_bytes",
                                       "storage_read_bytes",
                                       "storage_write_bytes",
                                       "left_out_files",
                                       "dropped_calls",
                                       "major_faults",
                                       NULL};
    const struct stk_profile *p = a->p;
    names(r, head);
    end_row(r);
    for (size_t i = 0; i < p->nprocs; i++) {
        const struct stk_prof_proc *o = &p->proc[i];
        count(r, i);
        count(r, o->pid);
        count(r, o->world ? o->rank : UINT64_MAX);
        count(r, o->worker);
        text(r, o->host < p->nhosts ? p->host[o->host].name : "");
        text(r, o->command);
        number(r, o->start_s);
        number(r, o->end_s);
        text(r, stk_prof_ended(o));
        count(r, o->threads);
        number(r, o->cpu_s);
        number(r, o->io_sum_s);
        number(r, o->io_union_s);
        count(r, o->seen_read_bytes);
        count(r, o->kernel_read_bytes);
        count(r, o->seen_write_bytes);
        count(r, o->kernel_write_bytes);
        count(r, o->storage_read_bytes);
        count(r, o->storage_write_bytes);
        count(r, o->left_out_files);
        count(r, o->dropped_calls);
        count(r, o->major_faults);
        end_row(r);
    }
}

static void put_records(const struct stk_analysis *a, struct row *r)
{
    static const char *const head[] = {"path", "process", "pid", "api", "distinct_bytes", NULL};
    const struct stk_profile *p = a->p;
    names(r, head);
    counter_names(r);
    end_row(r);
    for (size_t i = 0; i < p->nrecs; i++) {
        const struct stk_prof_rec *rec = &p->rec[i];
        if (rec->file >= p->nfiles || rec->proc >= p->nprocs)
            continue;
        text(r, p->file[rec->file].path);
        count(r, rec->proc);
        count(r, p->proc[rec->proc].pid);
        text(r, stk_api_name((enum stk_api)rec->api));
        count(r, rec->distinct_bytes);
        counters(r, &rec->n);
        end_row(r);
    }
}

static void put_ranks(const struct stk_analysis *a, struct row *r)
{
    static const char *const head[] = {"rank",        "procs", "workers",    "read_bytes",
                                       "write_bytes", "reads", "files_read", "io_s",
                                       "meta_s",      "run_s", "cpu_s",      NULL};
    names(r, head);
    end_row(r);
    for (size_t i = 0; i < a->nranks; i++) {
        const struct stk_rank_use *u = &a->rank[i];
        count(r, u->known ? u->rank : UINT64_MAX);
        count(r, u->procs);
        count(r, u->workers);
        count(r, u->read_bytes);
        count(r, u->write_bytes);
        count(r, u->reads);
        count(r, u->files_read);
        number(r, u->io_s);
        number(r, u->meta_s);
        number(r, u->run_s);
        number(r, u->cpu_s);
        end_row(r);
    }
}

static void put_timeline(const struct stk_analysis *a, struct row *r)
{
    static const char *const head[] = {"at_s",     "read_bytes", "write_bytes",
                                       "reads",    "meta_calls", "read_ns",
                                       "write_ns", "meta_ns",    NULL};
    const struct stk_profile *p = a->p;
    size_t n = STK_PROF_BINS;
    names(r, head);
    end_row(r);
    for (size_t i = 0; i < n && (double)i * p->bin_s < stk_report_span_s(p); i++) {
        const struct stk_prof_bin *b = &p->bin[i];
        number(r, (double)i * p->bin_s);
        count(r, b->read_bytes);
        count(r, b->write_bytes);
        count(r, b->reads);
        count(r, b->meta_calls);
        count(r, b->read_ns);
        count(r, b->write_ns);
        count(r, b->meta_ns);
        end_row(r);
    }
}

static void put_readings(const struct stk_analysis *a, struct row *r)
{
    static const char *const head[] = {
        "at_s",     "launcher",         "cpu_cores",      "iowait_cores",
        "threads",  "processes",        "resident_bytes", "cache_bytes",
        "gpu_util", "gpu_memory_bytes", "other_cores",    NULL};
    const struct stk_profile *p = a->p;
    names(r, head);
    end_row(r);
    for (size_t i = 0; i < p->nreadings; i++) {
        const struct stk_prof_reading *s = &p->reading[i];
        number(r, s->at_s);
        count(r, s->launcher);
        known(r, s->cpu_cores);
        known(r, s->iowait_cores);
        count(r, s->threads);
        count(r, s->processes);
        count(r, s->resident_bytes);
        count(r, s->cache_bytes);
        known(r, s->gpu_util);
        known(r, s->gpu_memory_bytes);
        known(r, s->other_cores);
        end_row(r);
    }
}

static void put_phases(const struct stk_analysis *a, struct row *r)
{
    static const char *const head[] = {"name", "count", "total_s", "mean_s", "max_s", "io_s", NULL};
    names(r, head);
    end_row(r);
    for (size_t i = 0; i < a->nphases; i++) {
        const struct stk_phase *ph = &a->phase[i];
        text(r, ph->name);
        count(r, ph->count);
        number(r, ph->total_s);
        number(r, ph->mean_s);
        number(r, ph->max_s);
        number(r, ph->io_s);
        end_row(r);
    }
}

static const struct {
    const char *name;
    void (*put)(const struct stk_analysis *, struct row *);
} tables[] = {{"files", put_files},      {"processes", put_processes}, {"ranks", put_ranks},
              {"samples", put_readings}, {"timeline", put_timeline},   {"phases", put_phases},
              {"records", put_records}};

#define NTABLES (sizeof tables / sizeof *tables)

const char *const *stk_report_csv_names(void)
{
    static const char *all[NTABLES + 1];
    for (size_t i = 0; i < NTABLES; i++)
        all[i] = tables[i].name;
    return all;
}

int stk_report_csv(const struct stk_analysis *a, const char *table, const char *path,
                   const struct stk_readers *readers, struct stk_err *err)
{
    for (size_t i = 0; i < NTABLES; i++) {
        if (strcmp(tables[i].name, table) != 0)
            continue;
        struct stk_buf b = STK_BUF_INIT;
        struct row r = {.out = &b};
        tables[i].put(a, &r);
        int rc = stk_buf_check(&b, err);
        if (!rc)
            rc = stk_write_derived(path, b.data, b.len, readers, err);
        stk_buf_release(&b);
        return rc;
    }
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "there is no table \"%.60s\"", table);
}

/* ---- the files that were read -------------------------------------------------------------- */

static bool was_read(const struct stk_profile *p, size_t *rec, size_t file)
{
    bool read = false;
    for (; *rec < p->nrecs && p->rec[*rec].file <= file; ++*rec)
        read = read || (p->rec[*rec].file == file && p->rec[*rec].n.c[STK_C_READ_BYTES]);
    return read;
}

size_t stk_report_list_read(const struct stk_analysis *a, const char *dir, struct stk_buf *out)
{
    const struct stk_profile *p = a->p;
    size_t n = strlen(dir), rec = 0, left = 0;
    while (n > 1 && dir[n - 1] == '/')
        n--;
    for (size_t i = 0; n && i < p->nfiles; i++) {
        const char *path = p->file[i].path;
        bool below = strncmp(path, dir, n) == 0 && (path[n] == '/' || dir[n - 1] == '/');
        if (!was_read(p, &rec, i) || !below)
            continue;
        if (p->file[i].group) {
            left++;
            continue;
        }
        stk_quote_tar(out, path + n + (path[n] == '/'));
        stk_buf_putc(out, '\n');
    }
    return left;
}
