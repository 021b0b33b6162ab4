/* report.c - `stoker report`: shows a profile on one screen, in tables, or as files. */
#include "report/report.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/own.h"
#include "base/text.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "advice/advice.h"
#include "result/grid.h"
#include "report/compare.h"
#include "report/html/page.h"
#include "report/html/serve.h"
#include "report/results.h"
#include "result/page.h"
#include "result/screen.h"

struct settings {
    struct stk_common common;
    bool numbers, files, dirs, formats, ranks, processes, phases, sizes, latency, timeline,
        findings, notes, all;
    uint64_t top;
    const char **csv;
    const char *trace_out;
    const char *output;
    bool serve, schema;
    uint64_t port;
    double idle_s;
    const char *list_read;
    const char *trust;
};

#define OPTION(...) STK_OPT_OF(struct settings, 0, __VA_ARGS__)
#define PART(option, field, text) OPTION(option, field, FLAG, .incidental = true, .help = text)

static const struct stk_opt options[] = {
    PART("numbers", numbers, "Show shares of time, bytes, requests, order, re-reading"),
    PART("files", files, "Show every file: time, bytes, size of requests, order, re-reading"),
    PART("dirs", dirs, "The same, by directory"),
    PART("formats", formats, "The same, by format"),
    PART("ranks", ranks, "Show what each rank did"),
    PART("processes", processes,
         "Show every process: its name, how it ended, how much was recorded"),
    PART("phases", phases, "Show phases, steps and epochs: the time of parts of the program"),
    PART("sizes", sizes, "Show request sizes, the most common ones, and strides"),
    PART("latency", latency, "Show how long reads took, and the time between them"),
    PART("timeline", timeline, "Show the run over time as a table"),
    PART("findings", findings, "Show findings in full, as `stoker advise` does"),
    PART("notes", notes, "Show what could not be recorded or was left out"),
    PART("all", all, "Show the first screen and everything above"),
    OPTION("top", top, UNSIGNED, .arg = "N", .def = "20", .incidental = true,
           .help = "Maximum rows per table; 0: all"),
    OPTION("csv", csv, LIST, .arg = "TABLE=FILE", .incidental = true,
           .help = "Write a table (files, processes, ranks, samples, timeline, phases, records) "
                   "to FILE; with a folder, write all tables into it"),
    OPTION("trace-out", trace_out, STRING, .arg = "FILE", .incidental = true,
           .help = "Write a Chrome trace to FILE, for ui.perfetto.dev (needs `profile --trace`)"),
    OPTION("output", output, STRING, .letter = 'o', .arg = "FILE", .incidental = true,
           .help = "Write a page (HTML) about all results named to FILE: one file with plots and "
                   "tables, which opens in any browser, also offline"),
    OPTION("serve", serve, FLAG, .incidental = true,
           .help = "Show that page in a browser: on 127.0.0.1 only, at an address that nobody "
                   "can guess, until Ctrl-C or --idle; a running profile or study refreshes by "
                   "itself"),
    OPTION("port", port, UNSIGNED, .arg = "N", .def = "0", .incidental = true, .max = 65535,
           .help = "Port for --serve; 0: any that is free"),
    OPTION("idle", idle_s, DURATION, .arg = "TIME", .def = "1h", .incidental = true, .min = 0,
           .max = 30 * 86400, .help = "For --serve: end after TIME without a request"),
    OPTION("list-read", list_read, STRING, .arg = "DIR", .incidental = true,
           .help = "Print the names, relative to DIR, of the files below it that were read, one "
                   "per line, quoted for GNU tar: `tar -C DIR -cf FILE -T LIST`, without --null "
                   "and --verbatim-files-from"),
    OPTION("schema", schema, FLAG, .incidental = true,
           .help = "Print the JSON Schema of the results of a command (`stoker report --schema "
                   "load`)"),
    STK_TRUST_OPTION(offsetof(struct settings, trust)),
    STK_COMMON_OPTIONS,
};

static unsigned parts_asked(const struct settings *s)
{
    const struct {
        bool asked;
        unsigned part;
    } all[] = {{s->numbers, STK_PART_NUMBERS},
               {s->files, STK_PART_FILES},
               {s->dirs, STK_PART_DIRS},
               {s->formats, STK_PART_FORMATS},
               {s->ranks, STK_PART_RANKS},
               {s->processes, STK_PART_PROCESSES},
               {s->phases, STK_PART_PHASES},
               {s->sizes, STK_PART_SIZES},
               {s->latency, STK_PART_LATENCY},
               {s->timeline, STK_PART_TIMELINE},
               {s->findings, STK_PART_FINDINGS},
               {s->notes, STK_PART_NOTES},
               {s->all, STK_PART_ALL}};
    unsigned parts = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        parts |= all[i].asked ? all[i].part : 0;
    return parts;
}

static void say_wrote(const struct stk_run *run, const char *what, const char *path)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_text_escape(&b, path, strlen(path), SIZE_MAX);
    stk_say(run, "wrote %s to %s\n", what, stk_buf_cstr(&b));
    stk_buf_release(&b);
}

/* ---- CSV ----------------------------------------------------------------------------------- */

static int write_csv_folder(struct stk_run *run, const struct stk_analysis *a, const char *named)
{
    char *folder = NULL;
    int rc = stk_own_resolve(named, &folder, &run->err);
    if (!rc)
        rc = stk_mkdirs(folder, &run->err);
    for (const char *const *t = stk_report_csv_names(); !rc && *t; t++) {
        char name[64];
        snprintf(name, sizeof name, "%s.csv", *t);
        char *path = stk_path_join(folder, name);
        rc = path ? stk_report_csv(a, *t, path, &run->readers, &run->err) : stk_err_nomem(&run->err, 0);
        free(path);
    }
    if (!rc)
        say_wrote(run, "tables", folder);
    free(folder);
    return rc;
}

static int write_csv(struct stk_run *run, const struct stk_analysis *a, const char *what)
{
    size_t n = strcspn(what, "=");
    if (!what[n])
        return write_csv_folder(run, a, what);
    char table[64];
    snprintf(table, sizeof table, "%.*s", n < sizeof table ? (int)n : 0, what);
    for (const char *const *t = stk_report_csv_names(); *t; t++) {
        if (strcmp(*t, table) != 0)
            continue;
        int rc = stk_report_csv(a, table, what + n + 1, &run->readers, &run->err);
        if (!rc)
            say_wrote(run, table, what + n + 1);
        return rc;
    }
    const char *near = stk_text_nearest(table, stk_report_csv_names());
    return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                       "--csv %.200s: \"%s\" is not a table%s%s%s", what, table,
                       near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static int write_trace(struct stk_run *run, const struct stk_profile *p, const char *path)
{
    uint64_t events, marks;
    char a[32], b[32], what[96];
    int rc = stk_report_trace(p, path, &run->readers, &events, &marks, &run->err);
    if (rc)
        return rc;
    snprintf(what, sizeof what, "%s operations and %s marks", stk_format_count(events, a, sizeof a),
             stk_format_count(marks, b, sizeof b));
    say_wrote(run, what, path);
    return 0;
}

/* ---- the command --------------------------------------------------------------------------- */

static int write_files(struct stk_run *run, const struct stk_analysis *a)
{
    const struct settings *s = run->settings;
    int rc = 0;
    for (const char **one = s->csv; !rc && one && *one; one++)
        rc = write_csv(run, a, *one);
    if (!rc && s->trace_out)
        rc = write_trace(run, a->p, s->trace_out);
    return rc;
}

static int list_read(struct stk_run *run, const struct stk_analysis *a)
{
    const struct settings *s = run->settings;
    struct stk_buf out = STK_BUF_INIT;
    size_t left = stk_report_list_read(a, s->list_read, &out);
    int rc = stk_buf_check(&out, &run->err);
    if (!rc)
        stk_say(run, "%s", stk_buf_cstr(&out));
    stk_buf_release(&out);
    if (rc || !left)
        return rc;
    stk_complain("report", "the list is not complete: the profile has some files only as groups");
    return STK_EXIT_PARTLY;
}

static struct stk_report report_of(const struct stk_run *run, const struct stk_judged *j)
{
    const struct settings *s = run->settings;
    return (struct stk_report){.a = &j->analysis,
                               .advice = &j->advice,
                               .columns = stk_columns(run),
                               .table_columns = stk_screen_of(run, NULL, NULL).table_columns,
                               .utf8 = stk_term_utf8(),
                               .top = (size_t)s->top};
}

static int show(struct stk_run *run, const struct stk_judged *j)
{
    const struct settings *s = run->settings;
    struct stk_report r = report_of(run, j);
    int rc = write_files(run, &j->analysis);
    if (!rc && s->list_read)
        rc = list_read(run, &j->analysis);
    if (rc)
        return rc;
    unsigned parts = parts_asked(s);
    /* A request for a file replaces the screen. */
    if (!parts && !s->csv && !s->trace_out && !s->list_read)
        parts = STK_PART_SCREEN;
    struct stk_buf out = STK_BUF_INIT;
    stk_report_text(&r, parts, &out);
    rc = stk_say_text(run, &out);
    if (!rc && run->common->json)
        stk_report_json(&r, &run->json);
    return rc;
}

static int compare(struct stk_run *run, const struct stk_judged *before)
{
    const struct settings *s = run->settings;
    struct stk_judged after;
    int rc = stk_judge_profile(run, run->opts.arg[1], s->trust, &after);
    if (rc)
        return rc;
    bool whole = stk_compared_whole(&before->analysis, &after.analysis);
    const struct stk_compared_pair pair = {{"before", &before->analysis, &before->advice, whole},
                                           {"after", &after.analysis, &after.advice, whole}};
    rc = stk_say_result(run, &stk_profile_pair_kind, &pair, NULL);
    stk_judged_release(&after);
    return rc ? rc : whole ? STK_EXIT_DONE : STK_EXIT_PARTLY;
}

/* ---- the page ------------------------------------------------------------------------------ */

static int make_page(struct stk_run *run, struct stk_buf *page, bool *live, struct stk_err *err)
{
    const struct settings *s = run->settings;
    struct stk_buf data = STK_BUF_INIT;
    int rc = stk_page_data((const char *const *)run->opts.arg, run->opts.nargs, s->trust, &data,
                           live, err);
    if (!rc && stk_stop_signal())
        rc = STK_E_STOPPED;
    rc = rc ? rc : stk_page_html(&data, page, err);
    stk_buf_release(&data);
    return rc;
}

static int write_page(struct stk_run *run)
{
    const struct settings *s = run->settings;
    struct stk_buf page = STK_BUF_INIT;
    char size[32], what[64];
    int rc = stk_page_check(&run->err);
    for (size_t i = 0; i < run->opts.nargs; i++)
        stk_derives_from(run, run->opts.arg[i]);
    rc = rc ? rc : stk_check_output(run, "output", s->output);
    rc = rc ? rc : make_page(run, &page, NULL, &run->err);
    rc = rc ? rc : stk_put_output(run, s->output, &page, &run->err);
    if (!rc && strcmp(s->output, "-") != 0) {
        snprintf(what, sizeof what, "a page of %s", stk_format_size(page.len, size, sizeof size));
        say_wrote(run, what, s->output);
    }
    if (!rc)
        stk_jw_put_u64(&run->json, "page_bytes", page.len);
    stk_buf_release(&page);
    return rc;
}

static int serve_make(void *user, struct stk_buf *page, bool *live, struct stk_err *err)
{
    return make_page(user, page, live, err);
}

/* The address is the result: --quiet leaves out what surrounds it. If standard output is JSON, it
 * goes to standard error. */
static void serve_ready(void *user, const char *url, uint16_t port)
{
    const struct stk_run *run = user;
    bool json = run->common->json && strcmp(run->common->json, "-") == 0;
    fprintf(json ? stderr : stdout, "%s\n", url);
    stk_say(run,
            "  from another machine, first: ssh -L %u:127.0.0.1:%u THIS-NODE\n"
            "  Ctrl-C ends it\n",
            port, port);
    fflush(NULL);
}

static bool serve_stop(void *user)
{
    (void)user;
    return stk_stop_signal() != 0;
}

/* The first page is made before the address is printed: what is wrong with a result is said here,
 * not in the browser. */
static int serve_page(struct stk_run *run)
{
    const struct settings *s = run->settings;
    const struct stk_serve how = {.port = (uint16_t)s->port,
                                  .idle_s = s->idle_s,
                                  .make = serve_make,
                                  .ready = serve_ready,
                                  .stop = serve_stop,
                                  .user = run};
    struct stk_buf first = STK_BUF_INIT;
    int rc = stk_page_check(&run->err);
    rc = rc ? rc : make_page(run, &first, NULL, &run->err);
    stk_buf_release(&first);
    return rc ? rc : stk_serve(&how, &run->err);
}

static int check_page(struct stk_run *run)
{
    const struct settings *s = run->settings;
    if (parts_asked(s) || s->csv || s->trace_out || s->list_read)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "--output and --serve make a page about whole results: they take no "
                           "tables");
    int rc = s->output ? write_page(run) : 0;
    return rc || !s->serve ? rc : serve_page(run);
}

/* ---- a result of --json ---------------------------------------------------------------------- */

static int write_table(struct stk_run *run, const struct stk_result_file *f, const char *what)
{
    struct stk_buf out = STK_BUF_INIT;
    char table[64];
    size_t n = strcspn(what, "=");
    snprintf(table, sizeof table, "%.*s", n < sizeof table ? (int)n : 0, what);
    int rc = what[n] && stk_csv_draw(f->kind, table, f->result, &out)
                 ? stk_put_output(run, what + n + 1, &out, &run->err)
                 : stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                               "--csv %.200s: name a table of the result, and a file", what);
    if (!rc)
        say_wrote(run, table, what + n + 1);
    stk_buf_release(&out);
    return rc;
}

static int show_result(struct stk_run *run, const struct stk_result_file *f)
{
    const struct settings *s = run->settings;
    struct stk_buf out = STK_BUF_INIT;
    int rc = 0;
    if ((parts_asked(s) && !f->kind->screen) || s->trace_out || s->list_read)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "%.300s is no profile: it has none of these tables", run->opts.arg[0]);
    for (const char **one = s->csv; !rc && one && *one; one++)
        rc = write_table(run, f, *one);
    if (rc || s->csv)
        return rc;
    struct stk_screen screen = stk_screen_of(run, f->subject, &out);
    screen.top = (size_t)s->top;
    screen.parts = parts_asked(s);
    (f->kind->screen ? f->kind->screen : stk_screen_draw)(f->kind, f->result, &screen);
    if (out.len)
        return stk_say_text(run, &out);
    return stk_err_set(&run->err, STK_E_UNSUPPORTED, run->opts.arg[0], -1,
                       "nothing of the result of `stoker %s` can be shown: it is empty, or of "
                       "another version",
                       f->command);
}

/* *shown: the file is such a result. */
static int try_result(struct stk_run *run, bool *shown)
{
    struct stk_result_file f = {0};
    struct stat st;
    const char *path = run->opts.arg[0];
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return 0;
    int rc = stk_result_file_open(path, &f, &run->err);
    *shown = rc || f.kind;
    if (!rc && *shown)
        rc = show_result(run, &f);
    stk_result_file_release(&f);
    return rc;
}

static int say_schema(struct stk_run *run)
{
    struct stk_buf out = STK_BUF_INIT;
    if (stk_result_schema(run->opts.arg[0], &out))
        return stk_say_text(run, &out);
    stk_buf_release(&out);
    return stk_err_set(&run->err, STK_E_USAGE, NULL, -1, "--schema: no schema of \"%.60s\"",
                       run->opts.arg[0]);
}

static int run_report(struct stk_run *run)
{
    const struct settings *s = run->settings;
    bool two = run->opts.nargs > 1, shown = false;
    if (s->schema)
        return say_schema(run);
    if (s->output || s->serve)
        return check_page(run);
    if (run->opts.nargs > 2)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "more than two results: name a page for them (-o page.html)");
    if (two && (parts_asked(s) || s->csv || s->trace_out || s->list_read))
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "tables and files need a single profile; two profiles can only be "
                           "compared");
    struct stk_judged j;
    int rc = two ? 0 : try_result(run, &shown);
    if (rc || shown)
        return rc;
    rc = stk_judge_profile(run, run->opts.arg[0], s->trust, &j);
    if (rc)
        return rc;
    rc = two ? compare(run, &j) : show(run, &j);
    stk_judged_release(&j);
    return rc;
}

static const struct stk_example examples[] = {
    {"stoker report train.profile", "the first look"},
    {"stoker report before.profile after.profile", "the effect of a change"},
    {"stoker report train.profile --files --top 50", "which files took the time"},
    {"stoker report train.profile --phases", "the time of parts of the program"},
    {"stoker report train.profile --json all.json --csv tables/", "everything, for programs"},
    {"stoker report train.profile --trace-out run.json", "open it in ui.perfetto.dev"},
    {"stoker report job_1234.darshan", "a Darshan log"},
    {"stoker report train.profile study/ load.json -o page.html", "a page with plots, to share"},
    {"stoker report train.profile --serve", "the same in a browser, through ssh"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_report = {
    .name = "report",
    .summary = "show a profile: one screen, then details on request",
    .args = "PROFILE [AFTER...]",
    .description =
        "Shows the profile PROFILE (the folder that `stoker profile` wrote, or a Darshan log): "
        "where the time went, the run over time, the numbers, and what to change. Prints one "
        "screen; options select tables instead. docs/profile.md defines every number.\n\n"
        "PROFILE can also be what --json of another command wrote (load, pack, verify, inspect, stage, "
        "bench, scale, doctor): its screen is drawn again, and --csv writes a table of it.\n\n"
        "With a second profile, compares the two: times, requests, bytes, and the findings that "
        "are gone, left and new.\n\n"
        "With -o, writes a page about any results: profiles, studies (folders and files of `stoker "
        "scale`), and what --json of tune, bench, stage, load, job, scale, pack, verify, inspect "
        "and doctor wrote, in any number and mixture. The page is one file that needs no network; "
        "docs/report.md explains it.\n\n"
        "You can look at a profile while the program is still running.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct settings),
    .run = run_report,
};
