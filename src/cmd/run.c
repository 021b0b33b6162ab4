/*
 * run.c - everything around a command: options from all sources, the JSON envelope of its result,
 * errors with hints, exit status. Only this file and the commands print.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pool.h"
#include "base/secret.h"
#include "base/spawn.h"
#include "base/text.h"
#include "host/cpus.h"
#include "host/fs_facts.h"
#include "cmd/cmd.h"
#include "record/folder.h"
#include "advice/advice.h"
#include "record/launch.h"
#include "report/report.h"
#include "result/page.h"
#include "result/screen.h"

/* ---- output ------------------------------------------------------------------------------- */

static FILE *text_stream(const struct stk_run *run)
{
    return run->out_is_data ? stderr : stdout;
}

static bool json_to_stdout(const struct stk_run *run)
{
    return run->common->json && strcmp(run->common->json, "-") == 0;
}

const char *const stk_color_choices[] = {"auto", "always", "never", NULL}; /* stk_colour_when */

/* NO_COLOR is for whoever did not say --color (no-color.org). */
bool stk_in_colour(const struct stk_run *run, FILE *f)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    if (run->common->color != STK_COLOUR_AUTO)
        return run->common->color == STK_COLOUR_ALWAYS;
    return !(no && *no) && term && strcmp(term, "dumb") != 0 && isatty(fileno(f));
}

/* With JSON on standard output, a program reads it, and the text would repeat it. */
void stk_say(const struct stk_run *run, const char *fmt, ...)
{
    if (run->common->quiet || json_to_stdout(run))
        return;
    struct stk_buf drawn = STK_BUF_INIT, shown = STK_BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    stk_buf_vprintf(&drawn, fmt, ap);
    va_end(ap);
    FILE *f = text_stream(run);
    stk_style_apply(stk_buf_cstr(&drawn), drawn.len, stk_in_colour(run, f), &shown);
    fputs(stk_buf_cstr(&shown), f);
    stk_buf_release(&drawn);
    stk_buf_release(&shown);
}

int stk_say_text(struct stk_run *run, struct stk_buf *text)
{
    int rc = stk_buf_check(text, &run->err);
    if (!rc)
        stk_say(run, "%s", stk_buf_cstr(text));
    stk_buf_release(text);
    return rc;
}

unsigned stk_columns(const struct stk_run *run)
{
    struct winsize ws;
    FILE *f = text_stream(run);
    if (!isatty(fileno(f)) || ioctl(fileno(f), TIOCGWINSZ, &ws) != 0)
        return 80;
    return ws.ws_col < 60 ? 60 : ws.ws_col > 500 ? 500 : ws.ws_col;
}

/* The same for tables, which are not wrapped or cut in a pipe. */
static unsigned table_columns(const struct stk_run *run)
{
    return isatty(fileno(text_stream(run))) ? stk_columns(run) : UINT_MAX / 2;
}

struct stk_screen stk_screen_of(const struct stk_run *run, const char *subject,
                                struct stk_buf *out)
{
    return (struct stk_screen){.subject = subject,
                               .columns = stk_columns(run),
                               .table_columns = table_columns(run),
                               .utf8 = stk_term_utf8(),
                               .out = out};
}

static int write_csv(struct stk_run *run, const struct stk_result_kind *kind,
                     const struct stk_jval *result, const char *path)
{
    struct stk_buf table = STK_BUF_INIT;
    stk_csv_columns_draw(kind->csv, result, &table);
    int rc = stk_put_output(run, path, &table, &run->err);
    stk_buf_release(&table);
    return rc;
}

/* Everything is drawn from the members, as that of a result that was saved. */
int stk_say_result(struct stk_run *run, const struct stk_result_kind *kind, const void *data,
                   const struct stk_say_how *how)
{
    const char *arg = kind->subject < run->opts.nargs ? run->opts.arg[kind->subject] : NULL;
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_buf out = STK_BUF_INIT;
    struct stk_screen s = stk_screen_of(run, how && how->subject ? how->subject : arg, &out);
    struct stk_jval *result = NULL;
    s.problems = how ? how->problems : 0;
    s.style = how ? how->style : NULL;
    stk_fields_put(kind->fields, data, &run->json);
    int rc = stk_result_fill(kind, data, &arena, &result, &run->err);
    if (!rc && kind->subject_of)
        s.subject = kind->subject_of(result, arg ? arg : "");
    if (!rc) {
        stk_screen_draw(kind, result, &s);
        rc = stk_say_text(run, &out);
    }
    if (!rc && how && how->csv)
        rc = write_csv(run, kind, result, how->csv);
    stk_arena_release(&arena);
    return rc;
}

static bool muted;

void stk_mute(bool on)
{
    muted = on;
}

/* To standard error; on a terminal, lines end between words. */
static void put_line(const char *before, const char *cmd, const char *text)
{
    struct winsize ws;
    struct stk_buf line = STK_BUF_INIT, wrapped = STK_BUF_INIT;
    stk_buf_printf(&line, "%s%s%s%s", before, cmd ? cmd : "", cmd ? ": " : "", text);
    unsigned indent = (unsigned)strspn(before, " ");
    if (isatty(STDERR_FILENO) && ioctl(STDERR_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col >= 40)
        stk_report_wrapped(stk_buf_cstr(&line) + indent, indent, ws.ws_col, &wrapped);
    fprintf(stderr, wrapped.len && !wrapped.fail ? "%s" : "%s\n",
            wrapped.len && !wrapped.fail ? stk_buf_cstr(&wrapped) : stk_buf_cstr(&line));
    stk_buf_release(&wrapped);
    stk_buf_release(&line);
}

void stk_complain(const char *cmd, const char *text)
{
    if (muted)
        return;
    struct stk_buf b = STK_BUF_INIT;
    stk_text_escape(&b, text, strlen(text), SIZE_MAX);
    fflush(stdout);
    put_line("stoker: ", cmd, stk_buf_cstr(&b));
    stk_buf_release(&b);
}

void stk_hint(const char *text)
{
    if (!muted)
        put_line("  hint: ", NULL, text);
}

static bool has_option(const struct stk_cmd *cmd, const char *name)
{
    for (const struct stk_opt *opt = cmd->options; opt->name; opt++)
        if (strcmp(opt->name, name) == 0)
            return true;
    return false;
}

/* The hint for a full disk: where else this command could write. */
static const char *space_hint(const struct stk_cmd *cmd)
{
    return has_option(cmd, "resume") && !cmd->runs_program
               ? "free some space, then run the same command with --resume"
           : has_option(cmd, "index")
               ? "free some space, or point XDG_CACHE_HOME or --index elsewhere"
           : has_option(cmd, "output") ? "free some space, or write elsewhere: -o names the place"
                                       : "free some space";
}

/* The hint for errors that mean the same for every command. */
static const char *common_hint(const struct stk_run *run)
{
    const struct stk_err *err = &run->err;
    switch (err->code) {
    case STK_E_SYS:
        if (err->sys_errno == ENOSPC || err->sys_errno == EDQUOT)
            return space_hint(run->cmd);
        if (err->sys_errno == EMFILE || err->sys_errno == ENFILE)
            return "too many open files: raise the limit with `ulimit -n`, or use fewer --jobs";
        return NULL;
    case STK_E_NOMEM:
        return "use fewer --jobs or a smaller --memory";
    case STK_E_STALE:
        return "`stoker inspect --rebuild-index PATH` reads the files again";
    default:
        return NULL;
    }
}

/* What to do about an error; "" if the message says it all. */
static const char *hint_for(const struct stk_run *run)
{
    const char *hint = run->cmd->hint ? run->cmd->hint(run) : NULL;
    hint = hint ? hint : common_hint(run);
    return hint ? hint : "";
}

bool stk_err_in_data(const struct stk_run *run)
{
    const char *path = run->err.path, *data = run->opts.nargs ? run->opts.arg[0] : NULL;
    size_t n = data ? strlen(data) : 0;
    return data && strncmp(path, data, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* ---- options ------------------------------------------------------------------------------ */

/* The user's file; false: there is none to look for. */
static bool user_config(char *out, size_t size, struct stk_opt_file *file)
{
    const char *named = getenv("STOKER_CONFIG"), *xdg = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    int n = 0;
    if (named)
        n = snprintf(out, size, "%s", named);
    else if (xdg && *xdg)
        n = snprintf(out, size, "%s/stoker/config", xdg);
    else if (home && *home)
        n = snprintf(out, size, "%s/.config/stoker/config", home);
    *file = (struct stk_opt_file){out, STK_FROM_CONFIG, named && *named};
    return n > 0 && (size_t)n < size;
}

#define CONFIG_S 2.0 /* for an answer of the file system that holds the settings */

static bool answers(const char *path)
{
    struct stk_fs_look look = {.limit.seconds = CONFIG_S, .nearest = true, .no_purge = true};
    static struct stk_fs_facts facts;
    return stk_fs_facts(path, &look, &facts) != ETIMEDOUT;
}

/* A command that looks for what is wrong with a node goes on. */
static int do_without_config(struct stk_run *run)
{
    char why[2200], text[2300];
    stk_err_text(&run->err, why, sizeof why);
    snprintf(text, sizeof text, "%s of your settings are used: %s",
             run->err.code == STK_E_SYS ? "none" : "not all", why);
    stk_complain(run->cmd->name, text);
    run->err = (struct stk_err){0};
    return 0;
}

static int read_config(struct stk_run *run, const struct stk_opt_file *file)
{
    if (run->cmd->wary && !answers(file->path)) {
        stk_complain(run->cmd->name,
                     "your settings are not used: their file system does not answer");
        return 0;
    }
    struct stk_opt_section all[64];
    size_t n = 0;
    for (const struct stk_cmd *c; n < 64 && (c = stk_cmd_at(n)); n++)
        all[n] = (struct stk_opt_section){.command = c->name, .table = c->options};
    int rc = stk_opts_read_config(&run->opts, file, all, n, &run->err);
    return rc && run->cmd->wary ? do_without_config(run) : rc;
}

/* Settings of the site, for all users: installed with stoker, or named by a module file. */
static int read_site_config(struct stk_run *run)
{
    const char *named = getenv("STOKER_SITE_CONFIG");
    char *installed = named ? NULL : stk_installed("stoker.conf");
    struct stk_opt_file file = {named ? named : installed, STK_FROM_SITE, named && *named};
    int rc = file.path && *file.path ? read_config(run, &file) : 0;
    free(installed);
    return rc;
}

static int read_configs(struct stk_run *run)
{
    char path[4096];
    struct stk_opt_file file;
    int rc = read_site_config(run);
    return rc || !user_config(path, sizeof path, &file) ? rc : read_config(run, &file);
}

static int missing(struct stk_run *run, const char *what, size_t len)
{
    struct stk_buf usage = STK_BUF_INIT;
    stk_help_usage(run->cmd, &usage);
    int rc = stk_err_set(&run->err, STK_E_USAGE, NULL, -1, "%.*s is missing: %s", (int)len, what,
                         stk_buf_cstr(&usage));
    stk_buf_release(&usage);
    return rc;
}

/* Checks the arguments against "SRC DST [MORE]"; the last may be "[MORE...]". */
static int check_args(struct stk_run *run)
{
    const char *p = run->cmd->args;
    size_t n = 0;
    while (*p) {
        size_t len = strcspn(p, " ");
        if (*p != '[' && n >= run->opts.nargs)
            return missing(run, p, len);
        n++;
        p += len;
        p += strspn(p, " ");
    }
    if (run->opts.nargs > n && !run->cmd->runs_program && !strstr(run->cmd->args, "..."))
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1, "one argument too many: \"%.200s\"",
                           run->opts.arg[n]);
    return 0;
}

/* An hour's work must not end in a result that cannot be written. */
int stk_check_output(struct stk_run *run, const char *option, const char *path)
{
    if (!path || strcmp(path, "-") == 0)
        return 0;
    struct stat st;
    bool there = stat(path, &st) == 0;
    const char *slash = strrchr(path, '/');
    char folder[4096] = ".";
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    if (there && S_ISDIR(st.st_mode))
        return stk_err_set(&run->err, STK_E_USAGE, path, -1, "--%s names a folder, not a file",
                           option);
    if (access(there && !S_ISREG(st.st_mode) ? path : folder, W_OK) == 0)
        return 0;
    return stk_err_sys(&run->err, path, "cannot write the file named by --%s", option);
}

static int read_options(struct stk_run *run, int argc, char *const *argv)
{
    int rc = stk_opts_init(&run->opts, run->cmd->name, run->cmd->options, run->settings, &run->err);
    run->opts.stop_at_arg = run->cmd->runs_program;
    if (!rc)
        rc = stk_opts_read_argv(&run->opts, argc, argv, &run->err);
    if (rc || run->common->help)
        return rc;
    rc = stk_opts_read_env(&run->opts, &run->err);
    if (!rc)
        rc = read_configs(run);
    if (!rc)
        rc = check_args(run);
    if (!rc)
        rc = stk_check_output(run, "json", run->common->json);
    return rc;
}

/* ---- the result as JSON ------------------------------------------------------------------- */

static void write_machine(struct stk_jw *w)
{
    struct utsname u = {0};
    uname(&u);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    stk_jw_key(w, "machine");
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "hostname", u.nodename);
    stk_jw_put_str(w, "kernel", u.release);
    stk_jw_put_str(w, "architecture", u.machine);
    stk_jw_key(w, "cpus");
    stk_jw_i64(w, sysconf(_SC_NPROCESSORS_ONLN));
    stk_jw_put_u64(w, "cpus_usable", stk_cpus());
    stk_jw_put_u64(w, "memory_bytes", pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0);
    stk_jw_close(w, '}');
}

static void begin_json(struct stk_run *run)
{
    struct stk_jw *w = &run->json;
    char when[32];
    time_t now = time(NULL);
    struct tm tm;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    stk_jw_init(w, &run->json_text, true);
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "schema", STK_RESULT_SCHEMA);
    stk_jw_put_str(w, "command", run->cmd->name);
    stk_jw_put_str(w, "version", stk_version());
    stk_jw_put_str(w, "start_time", when);
    stk_jw_key(w, "arguments");
    stk_secret_json_words(w, (const char *const *)run->opts.arg, run->opts.nargs);
    stk_jw_key(w, "settings");
    stk_opts_write_json(&run->opts, w);
    write_machine(w);
    stk_jw_key(w, "result");
    stk_jw_open(w, '{');
}

static void write_error(struct stk_jw *w, const struct stk_err *err)
{
    stk_jw_key(w, "error");
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "path", err->path[0] ? err->path : NULL);
    stk_jw_key(w, "offset");
    if (err->offset >= 0)
        stk_jw_i64(w, err->offset);
    else
        stk_jw_null(w);
    stk_jw_put_str(w, "errno", err->code == STK_E_SYS ? stk_errno_name(err->sys_errno) : NULL);
    stk_jw_put_str(w, "what", err->what);
    stk_jw_close(w, '}');
}

/* True if the parent process sees the program's signals and status. */
static bool is_transparent(const struct stk_cmd *cmd)
{
    return cmd->runs_program && !cmd->own_status;
}

static const char *outcome(const struct stk_run *run, int status)
{
    static const char *const words[] = {"done", "problem found", "usage", "partly done", "failed"};
    if (is_transparent(run->cmd))
        return run->err.code ? "failed" : "done";
    return status > STK_EXIT_FAILED ? "stopped" : words[status];
}

static int put_stdout(const struct stk_buf *b, struct stk_err *err)
{
    bool ok = fwrite(b->data, 1, b->len, stdout) == b->len;
    return ok ? 0 : stk_err_sys(err, "-", "write");
}

void stk_derives_from(struct stk_run *run, const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0)
        stk_readers_join(&run->readers, &st);
}

int stk_put_output(const struct stk_run *run, const char *path, const struct stk_buf *b,
                   struct stk_err *err)
{
    int rc = stk_buf_check(b, err);
    if (rc < 0)
        return rc;
    return strcmp(path, "-") == 0 ? put_stdout(b, err)
                                  : stk_write_derived(path, b->data, b->len, &run->readers, err);
}

static int finish_json(struct stk_run *run, int status)
{
    struct stk_jw *w = &run->json;
    if (!run->common->json)
        return status;
    stk_jw_close(w, '}');
    if (run->err.code)
        write_error(w, &run->err);
    stk_jw_put_str(w, "outcome", outcome(run, status));
    stk_jw_key(w, "exit_status");
    stk_jw_i64(w, status);
    stk_jw_put_f64(w, "seconds", stk_now() - run->start_s);
    stk_jw_close(w, '}');
    stk_buf_putc(&run->json_text, '\n');
    struct stk_err err = {0};
    if (stk_put_output(run, run->common->json, &run->json_text, &err) == 0)
        return status;
    char text[2200];
    stk_complain(run->cmd->name, stk_err_text(&err, text, sizeof text));
    return status > STK_EXIT_FAILED || is_transparent(run->cmd) ? status : STK_EXIT_FAILED;
}

/* ---- the run ------------------------------------------------------------------------------ */

static void say_own_hint(struct stk_run *run)
{
    if (run->hint.len && !run->common->quiet)
        stk_hint(stk_buf_cstr(&run->hint));
}

void stk_say_stopped(const struct stk_run *run, int sig, const char *more)
{
    char text[200];
    snprintf(text, sizeof text, "stopped by %s%s",
             sig == SIGINT    ? "an interrupt"
             : sig == SIGHUP  ? "a hangup"
             : sig == SIGPIPE ? "the end of the reader of its output"
                              : "SIGTERM",
             more);
    stk_complain(run->cmd->name, text);
    if (run->cmd->stopped_hint && !run->hint.len)
        stk_hint(run->cmd->stopped_hint);
}

int stk_judge_profile(struct stk_run *run, const char *path, const char *trust,
                      struct stk_judged *out)
{
    int rc = stk_folder_believe(path, stk_launch_is_ours, trust, &run->err);
    stk_derives_from(run, path);
    rc = rc ? rc : stk_judge(path, out, &run->err);
    if (rc || !stk_stop_signal())
        return rc;
    stk_judged_release(out);
    return STK_E_STOPPED;
}

/* True if the error is the consequence of a signal that asked to stop. */
static bool was_stopped(const struct stk_run *run, int code)
{
    bool interrupted =
        code == STK_E_SYS && run->err.sys_errno == EINTR; /* open(), on FUSE or NFS */
    return stk_stop_signal() && (code == STK_E_STOPPED || interrupted);
}

/* Prints what went wrong and what to do; returns the exit status. */
static int report_error(struct stk_run *run, int code)
{
    char text[2200];
    const char *name = run->cmd->name;
    run->err.code = run->err.code ? run->err.code : code;
    if (was_stopped(run, code)) {
        stk_say_stopped(run, stk_stop_signal(), "");
        say_own_hint(run);
        return 128 + stk_stop_signal();
    }
    stk_complain(name, stk_err_text(&run->err, text, sizeof text));
    const char *hint = hint_for(run);
    if (*hint)
        stk_hint(hint);
    say_own_hint(run);
    if (code != STK_E_USAGE)
        return STK_EXIT_FAILED;
    snprintf(text, sizeof text, "`stoker %s --help` shows its usage", name);
    stk_hint(text);
    return STK_EXIT_USAGE;
}

/* Output that did not reach its file (a full disk) is a failure, not silence. */
static int flush_stdout(const struct stk_run *run, int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    struct stk_err err = {0};
    char text[2200];
    stk_err_sys(&err, NULL, "standard output");
    stk_complain(run->cmd->name, stk_err_text(&err, text, sizeof text));
    return status > STK_EXIT_FAILED ? status : STK_EXIT_FAILED;
}

static void say_tool(const char *name, const char *path)
{
    char text[4400];
    snprintf(text, sizeof text, "%s is %s", name, path);
    stk_complain(NULL, text);
}

static int run_with_options(struct stk_run *run)
{
    if (run->common->help) {
        struct stk_buf b = STK_BUF_INIT;
        stk_help_command(run->cmd, &b);
        fputs(stk_buf_cstr(&b), stdout);
        stk_buf_release(&b);
        return STK_EXIT_DONE;
    }
    run->out_is_data = json_to_stdout(run);
    if (!is_transparent(run->cmd))
        stk_stop_on_signals();
    stk_progress_init(&run->progress, run->common->quiet ? NULL : stderr, run->cmd->name,
                      run->common->progress_every_s);
    if (run->common->verbose)
        stk_tools_tell(say_tool);
    begin_json(run);
    int rc = run->cmd->run(run);
    stk_progress_release(&run->progress);
    int status = rc < 0 ? report_error(run, rc) : rc;
    return finish_json(run, status);
}

/* Ends by the same signal as the user's program, so that the parent process sees the same
 * status. */
static void die_of(int sig)
{
    struct rlimit none = {0, 0};
    sigset_t set;
    setrlimit(RLIMIT_CORE, &none); /* the program has left its own core file */
    sigemptyset(&set);
    sigaddset(&set, sig);
    signal(sig, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(sig);
}

static int run_to_the_end(struct stk_run *run)
{
    int rc = read_options(run, run->argc, run->argv);
    int status = rc ? report_error(run, rc) : run_with_options(run);
    return flush_stdout(run, status);
}

int stk_run_command(const struct stk_cmd *cmd, int argc, char *const *argv)
{
    struct stk_run run = {.cmd = cmd, .argc = argc, .argv = argv, .start_s = stk_now()};
    run.settings = calloc(1, cmd->settings_size);
    if (!run.settings) {
        stk_complain(cmd->name, "out of memory");
        return STK_EXIT_FAILED;
    }
    run.common = run.settings;
    /* A command that runs a program is idle while it waits: stk_attend() would take it for
     * blocked. */
    int status = cmd->runs_program ? run_to_the_end(&run) : stk_attend(&run, run_to_the_end);
    stk_opts_release(&run.opts);
    stk_buf_release(&run.json_text);
    stk_buf_release(&run.hint);
    free(run.settings);
    if (run.raise_signal)
        die_of(run.raise_signal);
    return status;
}
