/* main.c - the table of commands, and the lookup of a command by name. */
#include <locale.h>
#include <stdlib.h>

#include "base/text.h"
#include "cmd/cmd.h"

extern const struct stk_cmd stk_cmd_advise, stk_cmd_bench, stk_cmd_completion, stk_cmd_doctor,
    stk_cmd_formats, stk_cmd_help, stk_cmd_inspect, stk_cmd_job, stk_cmd_load, stk_cmd_pack,
    stk_cmd_profile, stk_cmd_report, stk_cmd_scale, stk_cmd_stage, stk_cmd_tune, stk_cmd_verify,
    stk_cmd_version, stk_cmd_watch;

static const struct stk_cmd *const commands[] = {
    &stk_cmd_inspect, &stk_cmd_pack,       &stk_cmd_stage,  &stk_cmd_verify,  &stk_cmd_load,
    &stk_cmd_bench,   &stk_cmd_profile,    &stk_cmd_report, &stk_cmd_advise, &stk_cmd_tune,
    &stk_cmd_scale,   &stk_cmd_job,        &stk_cmd_watch,  &stk_cmd_doctor, &stk_cmd_formats,
    &stk_cmd_help,    &stk_cmd_version,    &stk_cmd_completion,
};

#define NCOMMANDS (sizeof commands / sizeof *commands)

const struct stk_cmd *stk_cmd_at(size_t i)
{
    return i < NCOMMANDS ? commands[i] : NULL;
}

const struct stk_cmd *stk_cmd_find(const char *name)
{
    for (size_t i = 0; i < NCOMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

const char *const *stk_cmd_names(void)
{
    static const char *names[NCOMMANDS + 1];
    for (size_t i = 0; i < NCOMMANDS; i++)
        names[i] = commands[i]->name;
    return names;
}

static int unknown(const char *word)
{
    char text[256];
    const char *near = stk_text_nearest(word, stk_cmd_names());
    snprintf(text, sizeof text, "\"%.100s\" is not a command%s%s%s", word,
             near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    stk_complain(NULL, text);
    stk_hint("`stoker help` lists the commands");
    return STK_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    /* Only the character set: numbers are written the same everywhere. */
    setlocale(LC_CTYPE, "");
    const char *word = argc > 1 ? argv[1] : NULL;
    if (!word) {
        struct stk_buf b = STK_BUF_INIT;
        stk_help_overview(&b);
        fputs(stk_buf_cstr(&b), stderr);
        stk_buf_release(&b);
        return STK_EXIT_USAGE;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        word = "help";
    else if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
        word = "version";
    const struct stk_cmd *cmd = stk_cmd_find(word);
    return cmd ? stk_run_command(cmd, argc - 2, argv + 2) : unknown(word);
}
