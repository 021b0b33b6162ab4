/*
 * command.c - the user's own command: the script in it, for which a patch is made (words decide,
 * and whether files are there: nothing is run, and a launcher's own options are passed over,
 * because no word of them is the name of a script); and what was really gained, by the clock: the
 * command before and after a change, interleaved.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/spawn.h"
#include "base/text.h"
#include "tune/priv.h"

#define WORDS_MAX 256
#define FIRST_LINE 256 /* of a script that begins with #! */
#define DEPTH     3   /* shells that start shells */

static bool is_one_of(const char *word, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(word, *names) == 0)
            return true;
    return false;
}

/* ---- words ---------------------------------------------------------------------------------- */

/* "python", "python3", "python3.11", with or without a folder. */
static bool is_python(const char *word)
{
    const char *name = stk_base_name(word);
    return strncmp(name, "python", 6) == 0 && name[6 + strspn(name + 6, "0123456789.")] == '\0';
}

static bool is_shell(const char *word)
{
    static const char *const shells[] = {"sh", "bash", "dash", "zsh", "ksh", NULL};
    return is_one_of(stk_base_name(word), shells);
}

/* Programs in Python that start the script which they are given. */
static bool is_launcher(const char *word)
{
    static const char *const names[] = {"torchrun", "accelerate", "deepspeed", "horovodrun",
                                        "lightning", "fabric",    "composer",  NULL};
    return is_one_of(stk_base_name(word), names);
}

static bool is_launcher_module(const char *module)
{
    static const char *const names[] = {"torch.distributed.run",
                                        "torch.distributed.launch",
                                        "torch.distributed.elastic_launch",
                                        "accelerate.commands.launch",
                                        "deepspeed.launcher.runner",
                                        "cProfile",
                                        "profile",
                                        "pdb",
                                        "mpi4py",
                                        "trace",
                                        NULL};
    return is_one_of(module, names);
}

/* ---- files ---------------------------------------------------------------------------------- */

static void absolute(const char *cwd, const char *word, char *out, size_t size)
{
    int n = snprintf(out, size, "%s%s%s", *word == '/' ? "" : cwd, *word == '/' ? "" : "/", word);
    if (n < 0 || (size_t)n >= size)
        *out = '\0';
}

/* The program behind "#!" of a script in Python, without its arguments. False: it is none. */
static bool shebang(const char *path, char *out, size_t size)
{
    char line[FIRST_LINE] = "", *save = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    if (fd >= 0)
        close(fd);
    if (n < 3 || strncmp(line, "#!", 2) != 0)
        return false;
    line[strcspn(line, "\n")] = '\0';
    for (char *w = strtok_r(line + 2, " \t", &save); w; w = strtok_r(NULL, " \t", &save))
        if (is_python(w)) {
            snprintf(out, size, "%s", w);
            return true;
        }
    return false;
}

static bool is_script(const char *path, const char *word, char *python, size_t size)
{
    struct stat st;
    char found[FIRST_LINE] = "";
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    bool python_runs = shebang(path, found, sizeof found);
    if (python_runs && !*python)
        snprintf(python, size, "%s", found);
    return python_runs || stk_name_has_suffix(word, strlen(word), ".py");
}

/* The interpreter of a launcher such as torchrun: what its own first line names. */
static void python_of_launcher(const char *word, char *out, size_t size)
{
    char *path = NULL;
    char found[FIRST_LINE];
    if (stk_find_program(word, &path) == 0 && shebang(path, found, sizeof found))
        snprintf(out, size, "%s", found);
    free(path);
}

/* ---- the search ----------------------------------------------------------------------------- */

static bool search(const char *const *w, struct stk_script *s, unsigned depth);

/* Undoes stk_quote_word(): bare words, '…', \c, and $'…' with its escapes left as they are. */
static size_t split(char *text, const char **words, size_t max)
{
    size_t n = 0;
    char *to = text;
    for (char *at = text; n + 1 < max;) {
        at += strspn(at, " \t\n");
        if (!*at)
            break;
        words[n++] = to;
        for (char quote = 0; *at && (quote || !strchr(" \t\n", *at)); at++) {
            if (quote ? *at == quote : *at == '\'' || *at == '"')
                quote = quote ? 0 : *at;
            else if (*at == '\\' && quote != '\'' && at[1])
                *to++ = *++at;
            else if (!(*at == '$' && !quote && at[1] == '\''))
                *to++ = *at;
        }
        at += *at != '\0'; /* before the end of the word is written over it */
        *to++ = '\0';
    }
    words[n] = NULL;
    return n;
}

static bool search_text(const char *command, struct stk_script *s, unsigned depth)
{
    const char *words[WORDS_MAX];
    char *text = depth ? strdup(command) : NULL;
    bool found = text && split(text, words, WORDS_MAX) && search(words, s, depth - 1);
    free(text);
    return found;
}

static bool search(const char *const *w, struct stk_script *s, unsigned depth)
{
    bool shell = false;
    for (size_t i = 0; w[i]; i++) {
        const char *word = w[i];
        bool after_python = i && is_python(w[i - 1]);
        if (is_python(word)) {
            snprintf(s->python, sizeof s->python, "%s", word);
        } else if (is_launcher(word)) {
            python_of_launcher(word, s->python, sizeof s->python);
        } else if (shell && strcmp(word, "-c") == 0 && w[i + 1]) {
            return search_text(w[i + 1], s, depth);
        } else if (*s->python && strcmp(word, "-c") == 0 && after_python) {
            return false; /* code in the command itself */
        } else if (*s->python && strcmp(word, "-m") == 0 && w[i + 1]) {
            i++;
            if (is_launcher_module(w[i]))
                continue;
            snprintf(s->module, sizeof s->module, "%s", w[i]);
            return true;
        } else if (*word != '-') {
            absolute(s->cwd, word, s->file, sizeof s->file);
            if (is_script(s->file, word, s->python, sizeof s->python))
                return true;
            s->file[0] = '\0';
        }
        shell = shell || is_shell(word);
    }
    return false;
}

bool stk_script_find(const char *const *words, const char *cwd, struct stk_script *out)
{
    memset(out, 0, sizeof *out);
    snprintf(out->cwd, sizeof out->cwd, "%s", cwd);
    return search(words, out, DEPTH);
}

bool stk_script_find_text(const char *command, const char *cwd, struct stk_script *out)
{
    memset(out, 0, sizeof *out);
    snprintf(out->cwd, sizeof out->cwd, "%s", cwd);
    return search_text(command, out, DEPTH);
}

/* ---- before and after a change -------------------------------------------------------------- */

static int on_run(void *user, const struct stk_runner_state *st)
{
    const struct stk_tune_check_plan *p = user;
    char text[160];
    snprintf(text, sizeof text, "run %llu of %llu: %.80s", (unsigned long long)st->done + 1,
             (unsigned long long)(2 * p->runs), st->label ? st->label : "");
    return p->tick ? p->tick(p->user, text) : 0;
}

struct times {
    double median_s, least_s, most_s;
    size_t failed;
    const char *why; /* of the first that failed; NULL: none, or not known */
};

static void take_times(const struct stk_study_series *s, struct times *out)
{
    double *v = calloc(s->nruns + 1, sizeof *v);
    size_t n = 0;
    *out = (struct times){.median_s = NAN, .least_s = NAN, .most_s = NAN};
    for (size_t i = 0; v && i < s->nruns; i++) {
        const struct stk_study_run *r = &s->run[i];
        if (r->status == STK_RUN_OK) {
            v[n++] = r->wall_s;
            out->least_s = fmin(out->least_s, r->wall_s);
            out->most_s = fmax(out->most_s, r->wall_s);
        } else if (!out->failed++) {
            out->why = r->note;
        }
    }
    if (n)
        out->median_s = stk_median(v, n);
    free(v);
}

static int refuse(const char *which, const struct times *t, struct stk_err *err)
{
    const char *why = t->why ? t->why : "no run ended";
    return stk_err_set(err, STK_E_SYS, NULL, -1, "the command %s the change failed: %.200s", which,
                       why);
}

static int compare(const struct stk_study *study, struct stk_tune_check *out, struct stk_err *err)
{
    size_t n = study->series[1].nruns;
    double *log_ratio = calloc(n + 1, sizeof *log_ratio);
    struct times x, y;
    if (!log_ratio)
        return stk_err_nomem(err, n * sizeof *log_ratio);
    out->gain = stk_verdict_of_pairs(log_ratio, stk_tune_pairs(study, 0, 1, log_ratio, n),
                                     STK_VERDICT_ALIKE);
    free(log_ratio);
    take_times(&study->series[0], &x);
    take_times(&study->series[1], &y);
    out->before_s = x.median_s;
    out->before_least_s = x.least_s;
    out->before_most_s = x.most_s;
    out->after_s = out->gain.times > 0 ? x.median_s / out->gain.times : y.median_s;
    out->failed_before = x.failed;
    out->failed_after = y.failed;
    return isnan(x.median_s)   ? refuse("before", &x, err)
           : isnan(y.median_s) ? refuse("after", &y, err)
                               : 0;
}

/* ---- the two commands ----------------------------------------------------------------------- */

/* As scripts: in the words of a point braces have a meaning. */
static int write_scripts(const struct stk_tune_check_plan *plan, struct stk_folder *work,
                         struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_puts(&b, "exec");
    for (const char **w = plan->before; *w; w++) {
        stk_buf_putc(&b, ' ');
        stk_quote_raw(&b, *w, strlen(*w));
    }
    stk_buf_putc(&b, '\n');
    int rc = stk_buf_check(&b, err);
    rc = rc ? rc : stk_folder_write(work, "before.sh", b.data, b.len, err);
    rc = rc ? rc : stk_folder_write(work, "after.sh", plan->after, strlen(plan->after), err);
    stk_buf_release(&b);
    return rc;
}

int stk_tune_check(const struct stk_tune_check_plan *plan, struct stk_tune_check *out,
                   struct stk_err *err)
{
    struct stk_runner_plan p = STK_RUNNER_PLAN_INIT;
    struct stk_runner_watch watch = {.tick = on_run, .user = (void *)(uintptr_t)plan};
    const char *before[] = {"sh", NULL, NULL}, *after[] = {"sh", NULL, NULL};
    const struct stk_point points[] = {
        {.id = "before", .label = "before", .series = "before", .n = 1, .argv = before},
        {.id = "after", .label = "after", .series = "after", .n = 1, .argv = after}};
    struct stk_folder work = STK_FOLDER_INIT;
    char *script[2] = {0};
    struct stk_runner *r = NULL;
    *out = (struct stk_tune_check){.before_s = NAN, .after_s = NAN};
    p.variant = points;
    p.nvariants = 2;
    p.pin = false;
    p.warmup = 0;
    p.runs_min = p.runs_max = plan->runs;
    int rc = stk_folder_temp(&work, ".", STK_TUNE_PREFIX "-check", err);
    rc = rc ? rc : stk_folder_lock(&work, err);
    rc = rc ? rc : write_scripts(plan, &work, err);
    char *dir = rc ? NULL : stk_folder_path(&work, "study");
    before[1] = script[0] = rc ? NULL : stk_folder_path(&work, "before.sh");
    after[1] = script[1] = rc ? NULL : stk_folder_path(&work, "after.sh");
    if (!rc && !(dir && script[0] && script[1]))
        rc = stk_err_nomem(err, 8);
    rc = rc ? rc : stk_runner_new(&p, dir, &r, err);
    rc = rc ? rc : stk_runner_go(r, &watch, err);
    rc = rc ? rc : compare(stk_runner_study(r), out, err);
    stk_runner_free(r);
    if (work.fd >= 0)
        stk_folder_destroy(&work);
    stk_folder_release(&work);
    free(script[0]);
    free(script[1]);
    free(dir);
    return rc;
}
