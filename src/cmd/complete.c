/* complete.c - what the last word of a command line may become, from the tables of options. */
#include "cmd/cmd.h"

#define SUMMARY_MAX 60 /* of an option's help: shells show one line per word */

struct ask {
    const struct stk_cmd *cmd;
    const char *const *word; /* those after the command; the last is being typed */
    size_t nwords;
    const char *prefix; /* goes before each answer: "--format=", "a,b," */
    size_t prefix_len;
    const char *typed; /* what is there of the answer */
    struct stk_buf *out;
};

/* False if the word does not begin with what was typed. */
static bool answer(const struct ask *a, const char *word, size_t len, const char *what)
{
    size_t typed = strlen(a->typed);
    if (len < typed || memcmp(word, a->typed, typed) != 0)
        return false;
    stk_buf_put(a->out, a->prefix, a->prefix_len);
    stk_buf_put(a->out, word, len);
    stk_buf_printf(a->out, "\t%.*s\n", SUMMARY_MAX, what);
    return true;
}

static void answer_commands(const struct ask *a)
{
    for (size_t i = 0; stk_cmd_at(i); i++)
        answer(a, stk_cmd_at(i)->name, strlen(stk_cmd_at(i)->name), stk_cmd_at(i)->summary);
}

static void answer_options(const struct ask *a)
{
    char name[80];
    for (const struct stk_opt *opt = a->cmd->options; opt->name; opt++) {
        if (opt->hidden)
            continue;
        int len = snprintf(name, sizeof name, "--%s", opt->name);
        answer(a, name, (size_t)len, opt->help);
        len = snprintf(name, sizeof name, "--no-%s", opt->name);
        if (opt->type == STK_OPT_FLAG && opt->def)
            answer(a, name, (size_t)len, opt->help);
    }
}

static bool is_path(const struct stk_opt *opt)
{
    return opt->path || strcmp(opt->arg, "FILE") == 0 || strcmp(opt->arg, "PATH") == 0;
}

/* "dir[:LEVEL]" becomes "dir", "csv:FILE" becomes "csv:" with what the user types next. */
static void answer_choices(const struct ask *a, const char *const *choices)
{
    for (size_t i = 0; choices[i]; i++) {
        size_t n = strcspn(choices[i], "[:");
        bool more = choices[i][n] == ':';
        if (answer(a, choices[i], more ? n + 1 : n, "") && more)
            stk_buf_puts(a->out, ":nospace\n");
    }
}

/* Of several names, only the last is being typed. */
static void keep_names(struct ask *a)
{
    const char *comma = strrchr(a->typed, ',');
    if (!comma)
        return;
    if (a->prefix_len == 0)
        a->prefix = a->typed;
    a->prefix_len += (size_t)(comma + 1 - a->typed);
    a->typed = comma + 1;
}

static void answer_values(struct ask *a, const struct stk_opt *opt)
{
    const char *const *choices = stk_opt_choices(opt);
    if (!choices && opt->suggest)
        choices = opt->suggest();
    if (opt->type == STK_OPT_NAMES || strcmp(opt->arg, "LIST") == 0)
        keep_names(a);
    if (choices)
        answer_choices(a, choices);
    else if (strcmp(opt->arg, "DIR") == 0)
        stk_buf_puts(a->out, ":directories\n");
    else if (is_path(opt))
        stk_buf_puts(a->out, ":files\n");
}

/* The option that a word names, if a value follows it; len: without "=…". */
static const struct stk_opt *valued(const struct stk_cmd *cmd, const char *word, size_t len)
{
    for (const struct stk_opt *opt = cmd->options; opt->name; opt++) {
        bool is_long = len > 2 && strlen(opt->name) == len - 2 && memcmp(word, "--", 2) == 0 &&
                       memcmp(word + 2, opt->name, len - 2) == 0;
        bool is_short = len == 2 && word[0] == '-' && opt->letter && word[1] == opt->letter;
        if ((is_long || is_short) && opt->type != STK_OPT_FLAG)
            return opt;
    }
    return NULL;
}

/* bash gives "--format=t" as the words "--format", "=", "t". */
static const struct stk_opt *option_before(struct ask *a)
{
    size_t n = a->nwords;
    if (strcmp(a->typed, "=") == 0)
        a->typed = "";
    else if (n >= 3 && strcmp(a->word[n - 2], "=") == 0)
        n--;
    return n >= 2 ? valued(a->cmd, a->word[n - 2], strlen(a->word[n - 2])) : NULL;
}

static const struct stk_opt *option_here(struct ask *a)
{
    size_t len = strcspn(a->typed, "=");
    const struct stk_opt *opt = a->typed[len] == '=' ? valued(a->cmd, a->typed, len) : NULL;
    if (opt) {
        a->prefix = a->typed;
        a->prefix_len = len + 1;
        a->typed += len + 1;
    }
    return opt;
}

/* The position of the word in the line of another program; 0: it is not of another program. */
static size_t of_program(const struct ask *a)
{
    for (size_t i = 0; a->cmd->runs_program && i + 1 < a->nwords; i++)
        if (strcmp(a->word[i], "--") == 0)
            return a->nwords - 1 - i;
    return 0;
}

static void answer_argument(const struct ask *a)
{
    static const char *const shells[] = {"bash", "zsh", "fish", NULL};
    if (strcmp(a->cmd->name, "help") == 0)
        answer_commands(a);
    else if (strncmp(a->cmd->args, "SHELL", 5) == 0)
        answer_choices(a, shells);
    else if (*a->cmd->args)
        stk_buf_puts(a->out, ":files\n");
}

static void complete_command(struct ask *a)
{
    const struct stk_opt *opt;
    size_t program = of_program(a);
    if (program)
        stk_buf_puts(a->out, program == 1 ? ":commands\n" : ":files\n");
    else if (a->nwords >= 2 && strcmp(a->word[a->nwords - 2], ":") == 0)
        stk_buf_puts(a->out, ":files\n"); /* bash: what follows "csv:" */
    else if ((opt = option_before(a)) || (opt = option_here(a)))
        answer_values(a, opt);
    else if (a->typed[0] == '-')
        answer_options(a);
    else
        answer_argument(a);
}

void stk_complete(const char *const *words, size_t n, struct stk_buf *out)
{
    struct ask a = {
        .word = words + 1, .nwords = n - 1, .prefix = "", .typed = words[n - 1], .out = out};
    if (n == 1) {
        answer_commands(&a);
        answer(&a, "--help", 6, "list the commands");
        answer(&a, "--version", 9, "print the version");
    } else if ((a.cmd = stk_cmd_find(words[0]))) {
        complete_command(&a);
    }
}
