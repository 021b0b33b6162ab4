/* completion.c - `stoker completion bash`: a completion script made from the option tables. */
#include "cmd/cmd.h"

struct settings {
    struct stk_common common;
};

static const struct stk_opt options[] = {STK_COMMON_OPTIONS};

static void put_option_words(const struct stk_cmd *cmd, struct stk_buf *out)
{
    for (const struct stk_opt *opt = cmd->options; opt->name; opt++) {
        if (opt->hidden)
            continue;
        stk_buf_printf(out, " --%s", opt->name);
        if (opt->type == STK_OPT_FLAG && opt->def)
            stk_buf_printf(out, " --no-%s", opt->name);
        if (opt->letter)
            stk_buf_printf(out, " -%c", opt->letter);
    }
}

/* "dir[:LEVEL]" completes to "dir", "csv:FILE" to "csv:". */
static void put_choice_words(const struct stk_opt *opt, struct stk_buf *out)
{
    const char *const *choices = stk_opt_choices(opt);
    for (size_t i = 0; choices[i]; i++) {
        size_t n = strcspn(choices[i], "[:");
        stk_buf_printf(out, " %.*s", (int)(choices[i][n] == ':' ? n + 1 : n), choices[i]);
    }
}

static bool takes_path(const struct stk_opt *opt)
{
    return strcmp(opt->arg, "FILE") == 0 || strcmp(opt->arg, "PATH") == 0 ||
           strcmp(opt->arg, "DIR") == 0;
}

/* The values that may follow each option of a command. */
static void put_values(const struct stk_cmd *cmd, struct stk_buf *out)
{
    for (const struct stk_opt *opt = cmd->options; opt->name; opt++) {
        if (opt->type == STK_OPT_FLAG || opt->hidden)
            continue;
        stk_buf_printf(out, "        %s:--%s", cmd->name, opt->name);
        if (opt->letter)
            stk_buf_printf(out, "|%s:-%c", cmd->name, opt->letter);
        stk_buf_puts(out, ") ");
        if (opt->type == STK_OPT_ENUM) {
            stk_buf_puts(out, "words=\"");
            put_choice_words(opt, out);
            stk_buf_puts(out, "\" ;;\n");
        } else {
            stk_buf_puts(out, takes_path(opt) ? "files=1 ;;\n" : "return ;;\n");
        }
    }
}

/* After "--" comes another program: offers programs and files. */
static void put_programs(struct stk_buf *out)
{
    for (size_t i = 0; stk_cmd_at(i); i++)
        if (stk_cmd_at(i)->runs_program)
            stk_buf_printf(out,
                           "    elif [[ $cmd == %s && \" ${COMP_WORDS[*]:2:COMP_CWORD-2} \" == "
                           "*' -- '* ]]; then\n"
                           "        mapfile -t COMPREPLY < <(compgen -A command -A file -- "
                           "\"$cur\")\n        return 0\n",
                           stk_cmd_at(i)->name);
}

static void put_script(struct stk_buf *out)
{
    stk_buf_puts(out, "# bash completion for stoker; made by `stoker completion bash`\n"
                      "_stoker()\n{\n"
                      "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                      "    local cmd=${COMP_WORDS[1]} words= files=\n"
                      "    COMPREPLY=()\n"
                      "    if [[ $COMP_CWORD -eq 1 ]]; then\n        words=\"--help --version");
    for (size_t i = 0; stk_cmd_at(i); i++)
        stk_buf_printf(out, " %s", stk_cmd_at(i)->name);
    stk_buf_puts(out, "\"\n");
    put_programs(out);
    stk_buf_puts(out, "    else\n"
                      "        [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}\n"
                      "        [[ $cur == = ]] && cur=\n"
                      "        case $cmd:$prev in\n");
    for (size_t i = 0; stk_cmd_at(i); i++)
        put_values(stk_cmd_at(i), out);
    stk_buf_puts(out, "        *) if [[ $cur == -* ]]; then case $cmd in\n");
    for (size_t i = 0; stk_cmd_at(i); i++) {
        stk_buf_printf(out, "            %s) words=\"", stk_cmd_at(i)->name);
        put_option_words(stk_cmd_at(i), out);
        stk_buf_puts(out, "\" ;;\n");
    }
    stk_buf_puts(out, "            esac\n"
                      "        elif [[ $cmd == help ]]; then words=\"");
    for (size_t i = 0; stk_cmd_at(i); i++)
        stk_buf_printf(out, " %s", stk_cmd_at(i)->name);
    stk_buf_puts(out, "\"\n        elif [[ $cmd == completion ]]; then words=bash\n"
                      "        else files=1; fi ;;\n        esac\n    fi\n"
                      "    if [[ $files ]]; then\n"
                      "        compopt -o filenames 2>/dev/null\n"
                      "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
                      "    else\n"
                      "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
                      "        [[ ${COMPREPLY[0]-} == *: ]] && compopt -o nospace 2>/dev/null\n"
                      "    fi\n    return 0\n}\ncomplete -F _stoker stoker\n");
}

static int run_completion(struct stk_run *run)
{
    if (strcmp(run->opts.arg[0], "bash") != 0)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "\"%.100s\" is not a supported shell; use bash", run->opts.arg[0]);
    struct stk_buf b = STK_BUF_INIT;
    put_script(&b);
    stk_say(run, "%s", stk_buf_cstr(&b));
    int rc = stk_buf_check(&b, &run->err);
    stk_buf_release(&b);
    return rc;
}

static const struct stk_example examples[] = {
    {"source <(stoker completion bash)", "complete in this shell"},
    {"stoker completion bash > ~/.local/share/bash-completion/completions/stoker",
     "complete in every new shell"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_completion = {
    .name = "completion",
    .summary = "print a completion script for the shell",
    .args = "SHELL",
    .description = "Prints a script that makes SHELL (bash) complete stoker's commands, options "
                   "and their values.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct settings),
    .run = run_completion,
};
