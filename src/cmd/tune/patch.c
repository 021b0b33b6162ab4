/*
 * patch.c - the script's part of what `stoker tune` recommends: python -m stoker.patch writes a
 * diff beside the script, which is never changed. What it does not understand is said.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "base/spawn.h"
#include "cmd/tune.h"

#define TEXT_MAX   (1u << 20)
#define WORDS      (8 + 2 * STK_TUNE_CHANGES * (STK_TUNE_PARTS + 1))
#define PATIENCE_S 120 /* importing from a slow file system takes long */

struct patch {
    struct stk_run *run;
    const struct stk_script *script;
    const char *word[WORDS];
    size_t n;
    struct stk_arena arena; /* of the words */
    struct stk_buf by_hand; /* changes that no patch makes */
    struct stk_buf printed, said;
};

static int on_tick(void *user)
{
    const struct patch *p = user;
    return stk_progress_say(&p->run->progress, "looking at the script");
}

/* ---- the interpreter ------------------------------------------------------------------------ */

/* Runs words with their interpreter, where the command runs. -1: it did not start. */
static int python(struct patch *p, const char **argv)
{
    stk_buf_reset(&p->printed);
    stk_buf_reset(&p->said);
    struct stk_child c = {.argv = argv,
                          .dir = p->script->cwd,
                          .fd = {STK_FD_NULL, STK_FD_PIPE, STK_FD_PIPE},
                          .own_group = true,
                          .death_signal = SIGTERM,
                          .timeout_s = PATIENCE_S,
                          .tick = on_tick,
                          .text = {NULL, &p->printed, &p->said},
                          .text_max = {0, TEXT_MAX, TEXT_MAX},
                          .user = p};
    if (stk_child_start(&c) != 0)
        return -1;
    (void)stk_child_attend(&c);
    stk_progress_clear(&p->run->progress);
    return c.ending.status;
}

static bool has_stoker(struct patch *p, const char *interpreter)
{
    const char *argv[] = {interpreter, "-c", "import stoker.patch", NULL};
    return *interpreter && python(p, argv) == 0;
}

/* The first words of the call: the command's own interpreter; else another one, which can make the
 * patch, although the script will need stoker in its own. */
static int choose_python(struct patch *p)
{
    const char *own = p->script->python, *tool = NULL;
    char *file;
    if (has_stoker(p, own)) {
        p->word[p->n++] = own;
        p->word[p->n++] = "-m";
        p->word[p->n++] = "stoker.patch";
        return 0;
    }
    if (stk_find_tool("python3", &tool, NULL) != 0)
        tool = NULL;
    file = stk_installed("patch.py");
    file = file ? file : stk_installed("python/stoker/patch.py");
    p->word[p->n++] = tool;
    p->word[p->n++] = file ? stk_arena_dup(&p->arena, file, strlen(file)) : NULL;
    free(file);
    if (!tool || !p->word[p->n - 1])
        return stk_err_set(&p->run->err, STK_E_UNSUPPORTED, NULL, -1,
                           "no patch for the script: no Python here has the package stoker, and "
                           "patch.py is not installed beside this program");
    stk_say(p->run, "%s%s has no package stoker: install it there before the patched script runs "
                    "(`pip install .` in stoker's source).\n",
            *own ? own : "The Python of the command", *own ? "" : " is not known, and python3");
    return 0;
}

/* ---- its words ------------------------------------------------------------------------------ */

static int add_changes(struct patch *p, const struct stk_tune *t, const char *const *made,
                       const char *const *copy)
{
    const struct stk_tune_candidate *best = &t->candidate[t->best];
    struct stk_buf argument = STK_BUF_INIT;
    size_t before = p->n;
    for (size_t i = 0; i < best->nchanges; i++) {
        const char *option;
        size_t n = 0;
        while ((option = stk_tune_patch(t, &best->change[i], made[i], n, &argument))) {
            n++;
            p->word[p->n++] = option;
            if (argument.len)
                p->word[p->n++] = stk_arena_dup(&p->arena, argument.data, argument.len);
        }
        if (n && copy[i]) { /* read there while it is there */
            stk_buf_reset(&argument);
            stk_buf_printf(&argument, "%s=%s", made[i], copy[i]);
            p->word[p->n++] = "--moved";
            p->word[p->n++] = stk_arena_dup(&p->arena, argument.data, argument.len);
        }
        if (!n)
            stk_buf_printf(&p->by_hand, "%s%s", p->by_hand.len ? ", " : "",
                           best->change[i].label);
    }
    stk_buf_release(&argument);
    return (int)(p->n - before);
}

static void add_script(struct patch *p)
{
    bool module = *p->script->module;
    p->word[p->n++] = "--beside";
    if (module)
        p->word[p->n++] = "--module";
    p->word[p->n++] = module ? p->script->module : p->script->file;
    p->word[p->n] = NULL;
}

/* ---- what came of it ------------------------------------------------------------------------ */

static const char *name_of(const struct stk_script *s)
{
    return *s->module ? s->module : s->file;
}

/* Cuts the first line off. */
static char *take_line(char **text)
{
    char *line = *text, *end = strchr(line, '\n');
    *text = end ? end + 1 : line + strlen(line);
    if (end)
        *end = '\0';
    return line;
}

/* ---- what it gains, by the clock ------------------------------------------------------------- */

/* Whether a diff changes that file, and no other. */
static bool changes_only(const char *diff, const char *file)
{
    const char *name = stk_base_name(file);
    size_t n = strlen(name);
    return strncmp(diff, "--- ", 4) == 0 && strncmp(diff + 4, name, n) == 0 &&
           diff[4 + n] == '\n' && !strstr(diff, "\n--- ");
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Appends a command, with another script in the place of its own. False: its words do not name it. */
static bool put_command(struct stk_buf *out, const char *const *word, const char *script,
                        const char *instead)
{
    bool found = false;
    for (size_t i = 0; word[i]; i++) {
        bool is = !found && is_same_file(word[i], script);
        const char *w = is && instead ? instead : word[i];
        found = found || is;
        stk_buf_puts(out, i ? " " : "");
        stk_quote_word(out, w, strlen(w));
    }
    return found;
}

/* The lines that patch a copy of the script and compare it with the script; false: there are none. */
static bool put_check(const struct patch *p, const char *path, const char *diff, struct stk_buf *out)
{
    const char *const *command = stk_tune_command(p->run);
    const char *file = p->script->file;
    struct stk_buf copy = STK_BUF_INIT, after = STK_BUF_INIT;
    stk_buf_printf(&copy, "%.*s.py", (int)(strlen(path) - strlen(".diff")), path);
    bool can = command && *file && changes_only(diff, file) &&
               put_command(&after, command, file, stk_buf_cstr(&copy));
    if (can) {
        stk_buf_puts(out, "patch -o ");
        stk_quote_shell(out, stk_buf_cstr(&copy));
        stk_buf_putc(out, ' ');
        stk_quote_shell(out, file);
        stk_buf_putc(out, ' ');
        stk_quote_shell(out, path);
        stk_buf_puts(out, "\nstoker tune --check ");
        stk_quote_word(out, stk_buf_cstr(&after), after.len);
        stk_buf_puts(out, " -- ");
        (void)put_command(out, command, file, NULL);
        stk_buf_putc(out, '\n');
    }
    stk_buf_release(&copy);
    stk_buf_release(&after);
    return can && !out->fail;
}

static void say_check(struct patch *p, const char *path, const char *diff)
{
    struct stk_buf lines = STK_BUF_INIT;
    if (put_check(p, path, diff, &lines))
        stk_say(p->run, "To compare both by the clock, with a patched copy:\n%s",
                stk_buf_cstr(&lines));
    else
        stk_say(p->run, "To compare both by the clock, patch a copy: `stoker tune --check LINE -- "
                        "COMMAND`.\n");
    if (lines.len)
        stk_jw_put_str(&p->run->json, "check_commands", stk_buf_cstr(&lines));
    stk_buf_release(&lines);
}

/* It printed the path of the diff, the folder that the names in it are in, and the diff. */
static void show_patch(struct patch *p)
{
    struct stk_run *run = p->run;
    char *text = (char *)(uintptr_t)stk_buf_cstr(&p->printed);
    const char *path = take_line(&text), *folder = take_line(&text);
    struct stk_buf line = STK_BUF_INIT;
    stk_buf_puts(&line, "patch -d ");
    stk_quote_shell(&line, folder);
    stk_buf_puts(&line, " -p0 -i ");
    stk_quote_shell(&line, path);
    stk_jw_put_str(&run->json, "patch", path);
    stk_jw_put_str(&run->json, "patch_command", stk_buf_cstr(&line));
    stk_say(run, "\n%s\n%s", stk_buf_cstr(&p->said), text);
    stk_say(run, "\nThe script is as it was. This changes it (with -R, back again):\n%s\n",
            stk_buf_cstr(&line));
    say_check(p, path, text);
    stk_buf_release(&line);
}

static int show_result(struct patch *p, int status)
{
    struct stk_run *run = p->run;
    const char *said = stk_buf_cstr(&p->said);
    stk_jw_put_str(&run->json, "script", name_of(p->script));
    if (status == 0)
        show_patch(p);
    else if (status == 1)
        stk_say(run, "\n%s", said);
    else
        return stk_err_set(&run->err, STK_E_SYS, NULL, -1, "no patch for %.200s: %.400s",
                           name_of(p->script), said);
    if (p->by_hand.len)
        stk_say(run, "\nBy hand, with the lines above: %s.\n", stk_buf_cstr(&p->by_hand));
    return 0;
}

static int make_patch(struct patch *p, const struct stk_tune *t, const char *const *made,
                      const char *const *copy)
{
    int rc = choose_python(p);
    if (rc)
        return rc;
    if (!add_changes(p, t, made, copy)) {
        stk_say(p->run, "\nNo patch is made for this change: use the lines above.\n");
        return 0;
    }
    add_script(p);
    return show_result(p, python(p, p->word));
}

int stk_tune_patch_script(struct stk_run *run, const struct stk_tune *t, const char *const *made,
                          const char *const *copy)
{
    struct patch p = {.run = run, .script = &t->script};
    int rc = 0;
    if (!*t->script.file && !*t->script.module)
        stk_say(run, "\nNo Python script is known that reads this data, so there is no patch: use "
                     "the lines above.\n");
    else
        rc = make_patch(&p, t, made, copy);
    stk_buf_release(&p.by_hand);
    stk_buf_release(&p.printed);
    stk_buf_release(&p.said);
    stk_arena_release(&p.arena);
    return rc;
}
