/* man.c - manual pages as roff, made from the tables of commands and options. */
#include "cmd/cmd.h"

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
static void put_paragraphs(struct stk_buf *out, const char *text)
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
static void put_option(const struct stk_opt *opt, const char *dashes, struct stk_buf *out)
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
        put_option(opt, dashes, out);
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
    put_paragraphs(out, cmd->description);
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

void stk_man_page(const struct stk_cmd *cmd, struct stk_buf *out)
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
