/*
 * script.c - finds the script in a command. Words decide, and whether files are there: nothing is
 * run. A launcher's own options are passed over, because no word of them is the name of a script.
 */
#include "tune/script.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/spawn.h"
#include "base/text.h"

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
    static const char *const names[] = {"torch.distributed.run", "torch.distributed.launch",
                                        "torch.distributed.elastic_launch", "accelerate.commands.launch",
                                        "deepspeed.launcher.runner", "cProfile", "profile", "pdb",
                                        "mpi4py", "trace", NULL};
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
