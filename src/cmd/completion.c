/*
 * completion.c - `stoker completion SHELL`: completes commands, options and their values.
 *
 * The script of each shell only asks stoker itself, with the words typed so far, and hands on what
 * it answers (complete.c): one answer for all shells, always that of the program that is installed.
 */
#include "cmd/cmd.h"

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
        stk_complete(run->opts.arg + 1, run->opts.nargs - 1, &b);
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
