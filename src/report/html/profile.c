/*
 * profile.c - a profile on a page: the verdict, findings, and the tables of files, directories,
 * formats, ranks and processes. profile_plots.c has its plots, profile_compare.c several profiles.
 */
#include "report/html/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "record/folder.h"
#include "record/launch.h"

/* Most rows and bytes of the table of files: beyond, a page would open slowly. The rest is summed
 * in a sentence. */
#define FILES_MAX       40000
#define FILES_MAX_BYTES (3u << 20)

/* ---- tables -------------------------------------------------------------------------------- */

static const struct stk_pg_column usage_columns[] = {
    {"name", "Name", "text"},       {"io_s", "I/O time", "s"},
    {"io_share", "Share", "share"}, {"read_s", "In reads", "s"},
    {"write_s", "In writes", "s"},  {"meta_s", "In metadata", "s"},
    {"read_bytes", "Read", "B"},    {"write_bytes", "Written", "B"},
    {"reads", "Reads", "count"},    {"mean_read_bytes", "Mean read", "B"},
    {"random", "Random", "share"},  {"reread", "Each byte read", "x"},
    {"files", "Files", "count"},    {"format", "Format", "text"},
};

static void put_usage(struct stk_jw *w, const struct stk_usage *u)
{
    const uint64_t *c = u->n.c;
    stk_jw_open(w, '[');
    stk_jw_str(w, u->name);
    stk_pg_value(w, u->io_s);
    stk_pg_value(w, u->io_share);
    stk_pg_value(w, u->read_s);
    stk_pg_value(w, u->write_s);
    stk_pg_value(w, u->meta_s);
    stk_jw_u64(w, c[STK_C_READ_BYTES]);
    stk_jw_u64(w, c[STK_C_WRITE_BYTES]);
    stk_jw_u64(w, c[STK_C_READS]);
    stk_pg_value(w, c[STK_C_READS] ? u->mean_read_bytes : NAN);
    stk_pg_value(w, c[STK_C_READS] ? u->random : NAN);
    stk_pg_value(w, u->distinct_bytes ? u->reread : NAN);
    stk_jw_u64(w, u->files);
    bool says_more = u->format && *u->format && strcmp(u->format, u->name) != 0;
    stk_jw_str(w, says_more ? u->format : NULL); /* a format's format is no news */
    stk_jw_close(w, ']');
}

/* How many of n usages, the most time first, fit into a page. */
static size_t fitting(const struct stk_usage *u, size_t n)
{
    size_t bytes = 0, i = 0;
    for (; i < n && i < FILES_MAX && bytes < FILES_MAX_BYTES; i++)
        bytes += strlen(u[i].name) + 64;
    return i;
}

static void rest_text(const struct stk_usage *u, size_t shown, size_t n, char *buf, size_t size)
{
    double share = 0;
    for (size_t i = shown; i < n; i++)
        share += u[i].io_share;
    if (shown < n)
        snprintf(buf, size,
                 "The %zu files with the most I/O time; %zu more have %.2g %% of it "
                 "(`stoker report --csv files=FILE` writes all of them).",
                 shown, n - shown, 100 * share);
    else
        snprintf(buf, size, "Every file of the profile; times are sums over threads.");
}

static void put_usages(struct stk_jw *w, const char *id, const char *title, const char *text,
                       const struct stk_usage *u, size_t n)
{
    char about[240];
    if (!n)
        return;
    size_t shown = fitting(u, n);
    rest_text(u, shown, n, about, sizeof about);
    stk_pg_table(w, id, title, text ? text : about, usage_columns, STK_PG_COUNT(usage_columns));
    for (size_t i = 0; i < shown; i++)
        put_usage(w, &u[i]);
    stk_pg_table_end(w);
}

static void put_ranks(struct stk_jw *w, const struct stk_analysis *a)
{
    static const struct stk_pg_column columns[] = {
        {"rank", "Rank", "count"},        {"io_s", "I/O time", "s"},
        {"meta_s", "In metadata", "s"},   {"read_bytes", "Read", "B"},
        {"write_bytes", "Written", "B"},  {"reads", "Reads", "count"},
        {"files_read", "Files", "count"}, {"run_s", "Ran", "s"},
        {"cpu_s", "CPU time", "s"},       {"procs", "Processes", "count"},
        {"workers", "Workers", "count"},
    };
    if (a->nranks < 2)
        return;
    stk_pg_table(w, "ranks", "Ranks", "Each rank with all its processes.", columns,
                 STK_PG_COUNT(columns));
    for (size_t i = 0; i < a->nranks; i++) {
        const struct stk_rank_use *u = &a->rank[i];
        stk_jw_open(w, '[');
        stk_pg_value(w, u->known ? (double)u->rank : NAN);
        stk_pg_value(w, u->io_s);
        stk_pg_value(w, u->meta_s);
        stk_jw_u64(w, u->read_bytes);
        stk_jw_u64(w, u->write_bytes);
        stk_jw_u64(w, u->reads);
        stk_jw_u64(w, u->files_read);
        stk_pg_value(w, u->run_s);
        stk_pg_value(w, u->cpu_s);
        stk_jw_u64(w, u->procs);
        stk_jw_u64(w, u->workers);
        stk_jw_close(w, ']');
    }
    stk_pg_table_end(w);
}

static void put_process(struct stk_jw *w, const struct stk_profile *p,
                        const struct stk_prof_proc *o)
{
    stk_jw_open(w, '[');
    stk_pg_short(w, o->command && *o->command ? o->command : o->exe ? o->exe : "");
    stk_jw_u64(w, o->pid);
    stk_pg_value(w, o->world ? (double)o->rank : NAN);
    stk_jw_str(w, o->host < p->nhosts ? p->host[o->host].name : NULL);
    stk_pg_value(w, o->start_s);
    stk_pg_value(w, o->end_s - o->start_s);
    stk_pg_value(w, o->io_union_s);
    stk_pg_value(w, o->cpu_s);
    stk_jw_u64(w, o->read_bytes);
    stk_jw_u64(w, o->write_bytes);
    stk_jw_u64(w, o->threads);
    stk_jw_str(w, stk_prof_ended(o));
    stk_jw_close(w, ']');
}

static void put_processes(struct stk_jw *w, const struct stk_profile *p)
{
    static const struct stk_pg_column columns[] = {
        {"command", "Command", "text"},  {"pid", "Process", "count"},
        {"rank", "Rank", "count"},       {"host", "Host", "text"},
        {"start_s", "Began at", "s"},    {"run_s", "Ran", "s"},
        {"io_union_s", "In I/O", "s"},   {"cpu_s", "CPU time", "s"},
        {"read_bytes", "Read", "B"},     {"write_bytes", "Written", "B"},
        {"threads", "Threads", "count"}, {"ended", "Ended", "text"},
    };
    if (p->nprocs < 2)
        return;
    stk_pg_table(w, "processes", "Processes",
                 "In I/O: at least one thread of the process was in a call.", columns,
                 STK_PG_COUNT(columns));
    for (size_t i = 0; i < p->nprocs && i < FILES_MAX; i++)
        put_process(w, p, &p->proc[i]);
    stk_pg_table_end(w);
}

static void put_phases(struct stk_jw *w, const struct stk_analysis *a)
{
    static const struct stk_pg_column columns[] = {
        {"name", "Phase", "text"}, {"count", "Times", "count"}, {"total_s", "In all", "s"},
        {"mean_s", "Mean", "s"},   {"max_s", "Longest", "s"},   {"io_s", "I/O in it", "s"},
    };
    if (!a->nphases)
        return;
    stk_pg_table(w, "phases", "Phases", "The parts that the program marked.", columns,
                 STK_PG_COUNT(columns));
    for (size_t i = 0; i < a->nphases; i++) {
        const struct stk_phase *ph = &a->phase[i];
        stk_jw_open(w, '[');
        stk_jw_str(w, ph->name);
        stk_jw_u64(w, ph->count);
        stk_pg_value(w, ph->total_s);
        stk_pg_value(w, ph->mean_s);
        stk_pg_value(w, ph->max_s);
        stk_pg_value(w, ph->io_s);
        stk_jw_close(w, ']');
    }
    stk_pg_table_end(w);
}

static void put_tables(struct stk_jw *w, const struct stk_analysis *a)
{
    put_phases(w, a);
    put_ranks(w, a);
    put_usages(w, "files", "Files", NULL, a->file, a->nfiles);
    put_usages(w, "directories", "Directories", "The files below each directory, added up.", a->dir,
               a->ndirs);
    put_usages(w, "formats", "Formats", "The files of each format, added up.", a->format,
               a->nformats);
    put_processes(w, a->p);
}

/* ---- the head ------------------------------------------------------------------------------ */

static void put_number(struct stk_jw *w, const struct stk_analysis *a)
{
    if (a->loop.run_s > 0 && a->loop.wait_s >= 0)
        stk_pg_number(w, a->loop.wait_s / a->loop.run_s, "share",
                      "of the main loop waits for data");
    else
        stk_pg_number(w, stk_pg_known(a->io_share_merged), "share", "of the run, a thread is in I/O");
}

static void put_start(struct stk_jw *w, const struct stk_profile *p)
{
    char text[32];
    time_t at = (time_t)p->start_real_s;
    struct tm tm;
    if (p->start_real_s > 0 && gmtime_r(&at, &tm) &&
        strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &tm))
        stk_pg_fact_text(w, "Began", text);
}

static void put_facts(struct stk_jw *w, const struct stk_analysis *a)
{
    const struct stk_profile *p = a->p;
    const uint64_t *c = a->job.n.c;
    uint64_t threads, processes = stk_profile_processes(p, &threads);
    stk_pg_facts(w);
    put_start(w, p);
    stk_pg_fact(w, "Ran", p->run_s, "s");
    stk_pg_fact(w, "Exit status", stk_pg_known(p->exit_status), "count");
    stk_pg_fact_text(w, "Job", p->job);
    stk_pg_fact_text(w, "Host", p->nhosts == 1 ? p->host[0].name : NULL);
    stk_pg_fact(w, "Hosts", p->nhosts > 1 ? (double)p->nhosts : NAN, "count");
    stk_pg_fact(w, "Ranks", (double)p->nranks, "count");
    stk_pg_fact(w, "Processes", (double)processes, "count");
    stk_pg_fact(w, "Files", (double)a->job.files, "count");
    stk_pg_fact(w, "Read", (double)c[STK_C_READ_BYTES], "B");
    stk_pg_fact(w, "Reads", (double)c[STK_C_READS], "count");
    stk_pg_fact(w, "Mean read", c[STK_C_READS] ? a->job.mean_read_bytes : NAN, "B");
    stk_pg_fact(w, "Written", (double)c[STK_C_WRITE_BYTES], "B");
    stk_pg_fact(w, "Opens", (double)c[STK_C_OPENS], "count");
    stk_pg_fact(w, "Stats", (double)c[STK_C_STATS], "count");
    stk_pg_fact(w, "CPU, mean", stk_pg_known(a->cpu_cores_mean), "cores");
    stk_pg_fact(w, "GPU, mean", stk_pg_known(a->gpu_util_mean), "share");
    stk_pg_fact(w, "Peak memory", a->peak_resident_bytes ? (double)a->peak_resident_bytes : NAN,
                "B");
    stk_pg_fact(w, "Reads observed", stk_pg_known(a->coverage_read), "share");
    stk_jw_close(w, ']');
}

/* The command without the folder of its program. */
static const char *title_of(const char *command)
{
    size_t n = strcspn(command, " ");
    while (n && command[n - 1] != '/')
        n--;
    return command + n;
}

static void put_profile(struct stk_jw *w, const struct stk_report *r, const char *name)
{
    const struct stk_profile *p = r->a->p;
    stk_pg_begin(w, "profile", name, p->command && *p->command ? title_of(p->command) : name);
    stk_report_findings_json(r, w);
    put_number(w, r->a);
    put_facts(w, r->a);
    stk_pg_blocks(w);
    stk_pg_profile_plots(w, r->a);
    put_tables(w, r->a);
    stk_jw_close(w, ']');
    stk_jw_put_strs(w, "notes", p->note, p->nnotes);
    stk_pg_end(w);
}

/* ---- adding it ----------------------------------------------------------------------------- */

static int keep(struct stk_page *page, struct stk_judged *j, const char *name, struct stk_err *err)
{
    struct stk_pg_profiles *all = page->profiles;
    if (!all)
        all = page->profiles = calloc(1, sizeof *all);
    if (!all)
        return stk_err_nomem(err, sizeof *all);
    if (all->n == STK_PG_PROFILES_MAX)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "a page shows at most %d profiles",
                           STK_PG_PROFILES_MAX);
    char *copy = strdup(name);
    if (!copy)
        return stk_err_nomem(err, strlen(name));
    all->judged[all->n] = j;
    all->name[all->n++] = copy;
    return 0;
}

static int add_profile(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err)
{
    int rc = stk_folder_believe(in->path, stk_launch_is_ours, in->trust, err);
    struct stk_judged *j = rc ? NULL : malloc(sizeof *j);
    if (!rc && !j)
        rc = stk_err_nomem(err, sizeof *j);
    rc = rc ? rc : stk_judge(in->path, j, err);
    if (rc) {
        free(j);
        return rc;
    }
    rc = keep(page, j, in->name, err);
    if (rc) {
        stk_judged_release(j);
        free(j);
        return rc;
    }
    struct stk_report r = stk_pg_report_of(j);
    page->live = page->live || j->profile.running;
    put_profile(&page->w, &r, in->name);
    return 0;
}

/* Anything that is not JSON: what it lacks, the reader of profiles says best. */
static bool claims(const struct stk_pg_input *in)
{
    return !in->root;
}

const struct stk_pg_kind stk_pg_profile = {
    .name = "profile", .claims = claims, .add = add_profile, .finish = stk_pg_profiles_compare};
