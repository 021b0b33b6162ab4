/* help.c - `stoker help`: text made from the tables of commands and options. */
#include "base/text.h"
#include "cmd/cmd.h"
#include "result/grid.h"

/* ---- manual pages ---------------------------------------------------------------------------- */

/* Manual pages as roff, made from the tables of commands and options. */

/* Escapes text for roff: hyphens that can be copied, no line that looks like a request. */
static void put_roff(struct stk_buf *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if ((i == 0 || s[i - 1] == '\n') && (s[i] == '.' || s[i] == '\''))
            stk_buf_puts(out, "\\&");
        if (s[i] == '-')
            stk_buf_puts(out, "\\-");
        else if (s[i] == '\\')
            stk_buf_puts(out, "\\e");
        else
            stk_buf_putc(out, s[i]);
    }
}

static void put_text(struct stk_buf *out, const char *s)
{
    put_roff(out, s, strlen(s));
}

/* Paragraphs; lines that begin with a blank are kept verbatim. */
static void roff_paragraphs(struct stk_buf *out, const char *text)
{
    bool example = false;
    while (*text) {
        size_t len = strcspn(text, "\n");
        bool indented = *text == ' ';
        if (indented != example)
            stk_buf_puts(out, indented ? ".nf\n" : ".fi\n");
        example = indented;
        if (!len)
            stk_buf_puts(out, ".PP\n");
        else
            put_roff(out, text, len);
        if (len)
            stk_buf_putc(out, '\n');
        text += len + (text[len] == '\n');
    }
    if (example)
        stk_buf_puts(out, ".fi\n");
}

/* dashes: before its name, "--" for an option and "" for the key of a file. */
static void roff_option(const struct stk_opt *opt, const char *dashes, struct stk_buf *out)
{
    stk_buf_puts(out, ".TP\n");
    if (opt->letter)
        stk_buf_printf(out, "\\fB\\-%c\\fR, ", opt->letter);
    stk_buf_puts(out, "\\fB");
    put_text(out, dashes);
    put_text(out, opt->name);
    stk_buf_puts(out, "\\fR");
    if (opt->arg) {
        stk_buf_puts(out, " \\fI");
        put_text(out, opt->arg);
        stk_buf_puts(out, "\\fR");
    }
    stk_buf_putc(out, '\n');
    put_text(out, opt->help);
    if (opt->type == STK_OPT_NAMES)
        stk_buf_puts(out, ", separated by commas");
    const char *const *choices = stk_opt_choices(opt);
    for (size_t i = 0; choices && choices[i]; i++) {
        stk_buf_puts(out, i ? ", " : "; one of ");
        put_text(out, choices[i]);
    }
    stk_buf_puts(out, ".\n");
    if (opt->def && opt->type == STK_OPT_FLAG && *dashes) {
        stk_buf_puts(out, "This is the default; \\fB\\-\\-no\\-");
        put_text(out, opt->name);
        stk_buf_puts(out, "\\fR turns it off.\n");
    } else if (opt->def) {
        stk_buf_puts(out, "Default: ");
        put_text(out, opt->def);
        stk_buf_puts(out, ".\n");
    }
    if (opt->max) {
        stk_buf_printf(out, "From %llu to %llu.\n", (unsigned long long)opt->min,
                       (unsigned long long)opt->max);
    }
}

static void put_head(struct stk_buf *out, const char *name, const char *summary)
{
    stk_buf_puts(out, ".TH ");
    for (const char *p = name; *p; p++)
        stk_buf_printf(out, "%s%c", *p == '-' ? "\\" : "", *p >= 'a' && *p <= 'z' ? *p - 32 : *p);
    stk_buf_printf(out, " 1 \"\" \"stoker %s\" \"stoker manual\"\n.SH NAME\n", stk_version());
    put_text(out, name);
    stk_buf_puts(out, " \\- ");
    put_text(out, summary);
    stk_buf_putc(out, '\n');
}

static const char setting_sources[] =
    "Every option is also read from the environment as STOKER_COMMAND_OPTION, then as "
    "STOKER_OPTION (upper case, underscores; lists with commas; switches as yes or no), and from "
    "the config file as \"option = value\" below \"[command]\", or before the first section for "
    "every command that has the option. The command line wins over the environment, the "
    "environment over the config file, and that over the one of the site. The JSON result records "
    "where each setting came from.";

static const char sizes[] =
    "Sizes are written 4096, 64K, 256M, 1.5G (powers of 1024) or 10GB (powers of 1000); times 90, "
    "250ms, 1.5m, 2h. A switch --x is turned off by --no-x. Options may follow arguments; -- ends "
    "them.";

static const char keys[] =
    "The file is YAML: sections with keys and values, lists in brackets. A key is written below "
    "its "
    "section (\"dataset:\", then \"  files: 8\") or with it (\"dataset.files: 8\"). The section "
    "\"small\" has values that replace others with --small. Unknown keys are errors; anchors, "
    "aliases and tags are not supported.";

static void put_tail(struct stk_buf *out)
{
    stk_buf_puts(out, ".SH ENVIRONMENT AND CONFIG FILE\n");
    put_text(out, setting_sources);
    stk_buf_puts(out, "\n.SH FILES\n.TP\n\\fI~/.config/stoker/config\\fR\nThe config file; "
                      "\\fBSTOKER_CONFIG\\fR names another.\n.TP\n"
                      "\\fIPREFIX/lib/stoker/stoker.conf\\fR\nSettings of the site, which "
                      "yours override; \\fBSTOKER_SITE_CONFIG\\fR names another file.\n"
                      ".TP\n\\fI~/.cache/stoker\\fR\n"
                      "Indexes of datasets that are read\\-only.\n"
                      ".SH EXIT STATUS\n0 done; 1 done, and a problem was found; 2 wrong usage; "
                      "3 partly done; 4 failed; 128 + N stopped by signal N.\n");
}

static void see_also(const struct stk_cmd *but, struct stk_buf *out)
{
    stk_buf_puts(out, ".SH SEE ALSO\n");
    const char *comma = "";
    if (but) {
        stk_buf_puts(out, "\\fBstoker\\fR(1)");
        comma = ", ";
    }
    for (size_t i = 0; stk_cmd_at(i); i++) {
        if (stk_cmd_at(i) == but)
            continue;
        stk_buf_printf(out, "%s\\fBstoker\\-%s\\fR(1)", comma, stk_cmd_at(i)->name);
        comma = ", ";
    }
    stk_buf_putc(out, '\n');
}

static void put_table(const struct stk_opt *table, const char *dashes, struct stk_buf *out)
{
    for (const struct stk_opt *opt = table; opt->name; opt++) {
        if (opt->hidden)
            continue;
        if (opt->group) {
            stk_buf_puts(out, ".SS ");
            put_text(out, opt->group);
            stk_buf_putc(out, '\n');
        }
        roff_option(opt, dashes, out);
    }
}

static void command_page(const struct stk_cmd *cmd, struct stk_buf *out)
{
    char name[64];
    snprintf(name, sizeof name, "stoker-%s", cmd->name);
    put_head(out, name, cmd->summary);
    struct stk_buf usage = STK_BUF_INIT;
    stk_help_usage(cmd, &usage);
    stk_buf_puts(out, ".SH SYNOPSIS\n");
    put_text(out, stk_buf_cstr(&usage));
    stk_buf_puts(out, "\n.SH DESCRIPTION\n");
    stk_buf_release(&usage);
    roff_paragraphs(out, cmd->description);
    stk_buf_puts(out, ".SH OPTIONS\n");
    put_table(cmd->options, "--", out);
    stk_buf_puts(out, ".PP\n");
    put_text(out, sizes);
    stk_buf_putc(out, '\n');
    if (cmd->keys) {
        stk_buf_puts(out, ".SH FILE\n");
        put_text(out, keys);
        stk_buf_putc(out, '\n');
        put_table(cmd->keys, "", out);
    }
    put_tail(out);
    if (cmd->examples && cmd->examples->line)
        stk_buf_puts(out, ".SH EXAMPLES\n");
    for (const struct stk_example *e = cmd->examples; e && e->line; e++) {
        stk_buf_puts(out, ".TP\n");
        put_text(out, e->what);
        stk_buf_puts(out, "\n.EX\n");
        put_text(out, e->line);
        stk_buf_puts(out, "\n.EE\n");
    }
    see_also(cmd, out);
}

/* cmd NULL: the page of stoker itself. */
static void man_page(const struct stk_cmd *cmd, struct stk_buf *out)
{
    if (cmd) {
        command_page(cmd, out);
        return;
    }
    put_head(out, "stoker", "keeps accelerators fed: finds why a job waits for data, and fixes it");
    stk_buf_puts(out, ".SH SYNOPSIS\n\\fBstoker\\fR \\fICOMMAND\\fR [\\fIARGUMENTS\\fR] "
                      "[\\fIOPTIONS\\fR]\n.SH COMMANDS\n");
    for (size_t i = 0; stk_cmd_at(i); i++) {
        stk_buf_printf(out, ".TP\n\\fBstoker %s\\fR %s\n", stk_cmd_at(i)->name,
                       stk_cmd_at(i)->args);
        put_text(out, stk_cmd_at(i)->summary);
        stk_buf_putc(out, '\n');
    }
    stk_buf_puts(out, ".SH OPTIONS\n");
    put_text(out, sizes);
    stk_buf_putc(out, '\n');
    put_tail(out);
    see_also(NULL, out);
}

#define WIDTH       79
#define HELP_COLUMN 26

/* Appends text wrapped at WIDTH, lines after the first indented; the cursor is at column. */
static void put_filled(struct stk_buf *out, const char *text, size_t column, size_t indent)
{
    const char *blank = "";
    while (*text) {
        size_t len = strcspn(text, " ");
        if (column > indent && column + 1 + len > WIDTH) {
            stk_buf_putc(out, '\n');
            for (column = 0; column < indent; column++)
                stk_buf_putc(out, ' ');
            blank = "";
        }
        stk_buf_puts(out, blank);
        stk_buf_put(out, text, len);
        column += strlen(blank) + len;
        blank = " ";
        text += len;
        text += strspn(text, " ");
    }
    stk_buf_putc(out, '\n');
}

/* Paragraphs, separated by empty lines; a line that begins with a blank is kept verbatim. */
static void put_paragraphs(struct stk_buf *out, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        struct stk_buf line = STK_BUF_INIT;
        stk_buf_put(&line, text, len);
        if (*text == ' ' || !len)
            stk_buf_printf(out, "%s\n", stk_buf_cstr(&line));
        else
            put_filled(out, stk_buf_cstr(&line), 0, 0);
        stk_buf_release(&line);
        text += len + (text[len] == '\n');
    }
}

static bool is_common(const struct stk_opt *opt)
{
    static const struct stk_opt common[] = {STK_COMMON_OPTIONS};
    for (const struct stk_opt *c = common; c->name; c++)
        if (strcmp(c->name, opt->name) == 0)
            return true;
    return false;
}

/* "What to do; one of stop, skip (default stop)" */
static void option_text(const struct stk_opt *opt, struct stk_buf *out)
{
    stk_buf_puts(out, opt->help);
    if (opt->type == STK_OPT_NAMES)
        stk_buf_puts(out, ", separated by commas");
    const char *const *choices = stk_opt_choices(opt);
    for (size_t i = 0; choices && choices[i]; i++)
        stk_buf_printf(out, "%s%s", i ? ", " : "; one of ", choices[i]);
    if (opt->def && opt->type == STK_OPT_FLAG)
        stk_buf_printf(out, " (default; --no-%s)", opt->name);
    else if (opt->def)
        stk_buf_printf(out, " (default %s)", opt->def);
}

static void put_option(const struct stk_opt *opt, struct stk_buf *out)
{
    size_t start = out->len;
    if (opt->letter)
        stk_buf_printf(out, "  -%c, --%s", opt->letter, opt->name);
    else
        stk_buf_printf(out, "      --%s", opt->name);
    if (opt->arg)
        stk_buf_printf(out, " %s", opt->arg);
    size_t column = out->len - start;
    if (column + 2 > HELP_COLUMN) {
        stk_buf_putc(out, '\n');
        column = 0;
    }
    for (; column < HELP_COLUMN; column++)
        stk_buf_putc(out, ' ');
    struct stk_buf text = STK_BUF_INIT;
    option_text(opt, &text);
    put_filled(out, stk_buf_cstr(&text), HELP_COLUMN, HELP_COLUMN);
    stk_buf_release(&text);
}

static void put_options(const struct stk_cmd *cmd, bool common, struct stk_buf *out)
{
    const char *heading = common ? "Options of every command" : "Options";
    for (const struct stk_opt *opt = cmd->options; opt->name; opt++) {
        if (is_common(opt) != common || opt->hidden)
            continue;
        heading = opt->group ? opt->group : heading;
        if (heading)
            stk_buf_printf(out, "\n%s:\n", heading);
        heading = NULL;
        put_option(opt, out);
    }
}

void stk_help_usage(const struct stk_cmd *cmd, struct stk_buf *out)
{
    stk_buf_printf(out, "stoker %s", cmd->name);
    if (!cmd->runs_program)
        stk_buf_printf(out, "%s%s [OPTIONS]", *cmd->args ? " " : "", cmd->args);
    else if (cmd->args[0] == '[') /* an optional command, with its "--" */
        stk_buf_printf(out, " [OPTIONS] [-- %s", cmd->args + 1);
    else
        stk_buf_printf(out, " [OPTIONS] -- %s", cmd->args);
}

void stk_help_command(const struct stk_cmd *cmd, struct stk_buf *out)
{
    stk_buf_printf(out, "stoker %s - %s\n\n", cmd->name, cmd->summary);
    stk_buf_puts(out, "Usage: ");
    stk_help_usage(cmd, out);
    stk_buf_puts(out, "\n\n");
    put_paragraphs(out, cmd->description);
    put_options(cmd, false, out);
    put_options(cmd, true, out);
    if (cmd->examples && cmd->examples->line)
        stk_buf_puts(out, "\nExamples:\n");
    for (const struct stk_example *e = cmd->examples; e && e->line; e++)
        stk_buf_printf(out, "  # %s\n  %s\n", e->what, e->line);
}

void stk_help_overview(struct stk_buf *out)
{
    stk_buf_puts(out,
                 "stoker - keeps accelerators fed: finds why a job waits for data, and fixes it\n\n"
                 "Usage: stoker COMMAND [ARGUMENTS] [OPTIONS]\n\nCommands:\n");
    struct stk_grid t;
    stk_grid_init(&t, "ll");
    for (size_t i = 0; stk_cmd_at(i); i++)
        stk_grid_row(&t, stk_cmd_at(i)->name, stk_cmd_at(i)->summary);
    stk_grid_render(&t, 2, out);
    stk_grid_release(&t);
    stk_buf_puts(out, "\n`stoker COMMAND --help` describes a command. Options may also be set "
                      "as\nSTOKER_COMMAND_OPTION or STOKER_OPTION in the environment, and in\n"
                      "~/.config/stoker/config (or $STOKER_CONFIG) as lines \"option = value\"\n"
                      "below a line \"[command]\".\n\n"
                      "Exit status: 0 done; 1 done, and a problem was found; 2 wrong usage;\n"
                      "3 partly done; 4 failed; 128 + N stopped by signal N.\n");
}

struct settings {
    struct stk_common common;
    bool man;
};

#define OPTION(...) STK_OPT_OF(struct settings, 0, __VA_ARGS__)

static const struct stk_opt options[] = {
    OPTION("man", man, FLAG, .help = "Print the manual page as roff"),
    STK_COMMON_OPTIONS,
};

static int run_help(struct stk_run *run)
{
    const struct settings *s = run->settings;
    const char *name = run->opts.nargs ? run->opts.arg[0] : NULL;
    const struct stk_cmd *cmd = name ? stk_cmd_find(name) : NULL;
    if (name && !cmd) {
        const char *near = stk_text_nearest(name, stk_cmd_names());
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1, "\"%.100s\" is not a command%s%s%s",
                           name, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    }
    struct stk_buf b = STK_BUF_INIT;
    if (s->man)
        man_page(cmd, &b);
    else if (cmd)
        stk_help_command(cmd, &b);
    else
        stk_help_overview(&b);
    stk_say(run, "%s", stk_buf_cstr(&b));
    stk_jw_key(&run->json, "text");
    stk_jw_strn(&run->json, (const char *)b.data, b.len);
    int rc = stk_buf_check(&b, &run->err);
    stk_buf_release(&b);
    return rc;
}

static const struct stk_example examples[] = {
    {"stoker help pack", "how to pack a dataset"},
    {"stoker help --man pack | man -l -", "the same as a manual page"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_help = {
    .name = "help",
    .summary = "list the commands, or explain one",
    .args = "[COMMAND]",
    .description = "Explains COMMAND, or lists all commands.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct settings),
    .run = run_help,
};
