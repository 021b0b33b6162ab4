/*
 * completion.c - `stoker completion SHELL`: completes commands, options and their values.
 *
 * The script of each shell only asks stoker itself, with the words typed so far, and hands on what
 * it answers: one answer for all shells, always that of the program that is installed.
 */
#include "cmd/cmd.h"

/* ---- what a word may become ------------------------------------------------------------------ */

/* What the last word of a command line may become, from the tables of options. */

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

/* What the last of the n words after "stoker" may become, one per line. */
static void complete(const char *const *words, size_t n, struct stk_buf *out)
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

struct settings {
    struct stk_common common;
};

static const struct stk_opt options[] = {STK_COMMON_OPTIONS};

/* The answers: WORD, a tab and what it is; ":files" and the like say that the shell knows better.
 */
static const char bash_script[] =
    "# bash completion for stoker; made by `stoker completion bash`\n"
    "_stoker()\n"
    "{\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} word what\n"
    "    [[ $cur == [=:] ]] && cur=\n"
    "    COMPREPLY=()\n"
    "    while IFS=$'\\t' read -r word what; do\n"
    "        case $word in\n"
    "        :files)\n"
    "            compopt -o filenames 2>/dev/null\n"
    "            mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n"
    "        :directories)\n"
    "            compopt -o filenames 2>/dev/null\n"
    "            mapfile -t COMPREPLY < <(compgen -d -- \"$cur\") ;;\n"
    "        :commands)\n"
    "            mapfile -t COMPREPLY < <(compgen -A command -A file -- \"$cur\") ;;\n"
    "        :nospace)\n"
    "            compopt -o nospace 2>/dev/null ;;\n"
    "        *)\n"
    "            COMPREPLY+=(\"$word\") ;;\n"
    "        esac\n"
    "    done < <(\"${COMP_WORDS[0]/#\\~/$HOME}\" completion bash -- "
    "\"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _stoker stoker\n";

static const char zsh_script[] =
    "#compdef stoker\n"
    "# zsh completion for stoker; made by `stoker completion zsh`\n"
    "_stoker()\n"
    "{\n"
    "    local word what\n"
    "    local -a said space\n"
    "    while IFS=$'\\t' read -r word what; do\n"
    "        case $word in\n"
    "        (:files) _files ;;\n"
    "        (:directories) _files -/ ;;\n"
    "        (:commands) _alternative 'commands:command:_command_names -e' 'files:file:_files' ;;\n"
    "        (:nospace) space=(-S '') ;;\n"
    "        (*) said+=(\"${word//:/\\\\:}:$what\") ;;\n"
    "        esac\n"
    "    done < <(${~words[1]} completion zsh -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)\n"
    "    (( $#said )) && _describe -V stoker said $space\n"
    "}\n"
    "if [[ $funcstack[1] == _stoker ]]; then _stoker \"$@\"; else compdef _stoker stoker; fi\n";

static const char fish_script[] =
    "# fish completion for stoker; made by `stoker completion fish`\n"
    "function __stoker_complete\n"
    "    set -l before (commandline -opc)\n"
    "    set -l last (commandline -ct)\n"
    "    test (count $last) -gt 0; or set last ''\n"
    "    for line in ($before[1] completion fish -- $before[2..-1] $last 2>/dev/null)\n"
    "        switch $line\n"
    "            case ':files' ':commands'\n"
    "                __fish_complete_path $last\n"
    "            case ':directories'\n"
    "                __fish_complete_directories $last\n"
    "            case ':*'\n"
    "            case '*'\n"
    "                echo $line\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c stoker -e\n"
    "complete -c stoker -f -a '(__stoker_complete)'\n";

static const struct {
    const char *shell, *script;
} scripts[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};

static const char *script_for(const char *shell)
{
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        if (strcmp(scripts[i].shell, shell) == 0)
            return scripts[i].script;
    return NULL;
}

static int run_completion(struct stk_run *run)
{
    const char *shell = run->opts.arg[0], *script = script_for(shell);
    if (!script)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "\"%.100s\" is not a supported shell; use bash, zsh or fish", shell);
    struct stk_buf b = STK_BUF_INIT;
    if (run->opts.nargs == 1)
        stk_buf_puts(&b, script);
    else
        complete(run->opts.arg + 1, run->opts.nargs - 1, &b);
    stk_say(run, "%s", stk_buf_cstr(&b));
    int rc = stk_buf_check(&b, &run->err);
    stk_buf_release(&b);
    return rc;
}

static const struct stk_example examples[] = {
    {"source <(stoker completion bash)", "complete in this shell"},
    {"stoker completion bash > ~/.local/share/bash-completion/completions/stoker",
     "complete in every new bash"},
    {"stoker completion zsh > \"${fpath[1]}/_stoker\"", "complete in every new zsh"},
    {"stoker completion fish > ~/.config/fish/completions/stoker.fish",
     "complete in every new fish"},
    {"stoker completion bash -- pack --format t", "what may follow these words"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_completion = {
    .name = "completion",
    .summary = "print a completion script for the shell",
    .args = "SHELL [WORD...]",
    .description =
        "Prints a script that makes SHELL (bash, zsh or fish) complete stoker's commands, "
        "options and their values. With words of a command line, prints what the last of "
        "them may become, which is what the scripts ask for.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct settings),
    .run = run_completion,
};
