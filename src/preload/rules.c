/*
 * rules.c - which files are recorded individually: those that the user includes, not those that the
 * user excludes, and of the rest none that belong to the system, the interpreter or a library.
 * Left-out files are still counted in sum.
 */
#include "proflog/rules.h"

#include "preload/priv.h"
#include "proflog/system_files.h"

struct pattern {
    const char *text;
    uint32_t length;
    bool glob, path; /* has wildcards; has a slash */
};
struct rules {
    struct pattern of[STK_RULES_MAX];
    char text[STK_RULES_BYTES];
};
static STK_TABLE struct rules included, excluded;
static uint32_t nincluded, nexcluded; /* apart: mostly none, and then the tables stay untouched */
static struct pattern log_folder;

static uint32_t take(struct rules *r, const char *list)
{
    size_t n = list ? strlen(list) : 0;
    uint32_t taken = 0;
    if (!n || n >= sizeof r->text) /* a truncated pattern would mean something else */
        return 0;
    memcpy(r->text, list, n);
    r->text[n] = 0;
    for (char *at = r->text; *at && taken < STK_RULES_MAX;) {
        size_t length = strcspn(at, ":");
        bool last = !at[length];
        at[length] = 0;
        struct pattern p = {at, (uint32_t)length, strpbrk(at, "*?[") != NULL,
                            strchr(at, '/') != NULL};
        while (!p.glob && p.length > 1 && at[p.length - 1] == '/')
            at[--p.length] = 0;
        if (p.length)
            r->of[taken++] = p;
        at += last ? length : length + 1;
    }
    return taken;
}

void stk_pl_rules_start(const char *include, const char *exclude, const char *log_dir)
{
    nincluded = take(&included, include);
    nexcluded = take(&excluded, exclude);
    log_folder = (struct pattern){log_dir, (uint32_t)strlen(log_dir), false, true};
}

/* Whether c is one of the characters in [..]; *end is after it. An unterminated one is a plain
 * '['. */
static bool in_class(const char *p, char c, const char **end)
{
    bool negated = p[1] == '!' || p[1] == '^', found = false;
    const char *q = p + 1 + negated;
    for (bool first = true; *q && (first || *q != ']'); q++, first = false) {
        if (q[1] == '-' && q[2] && q[2] != ']') {
            found = found || ((unsigned char)q[0] <= (unsigned char)c &&
                              (unsigned char)c <= (unsigned char)q[2]);
            q += 2;
        } else {
            found = found || *q == c;
        }
    }
    if (*q != ']') {
        *end = p + 1;
        return c == '[';
    }
    *end = q + 1;
    return found != negated;
}

/* '*' matches anything, including slashes. Backtracks to the last '*' only: no exponential time. */
static bool glob(const char *p, const char *s)
{
    const char *star = NULL, *from = NULL;
    while (*s) {
        const char *next = p + 1;
        if (*p == '*') {
            star = p++;
            from = s;
        } else if (*p && (*p == '[' ? in_class(p, *s, &next) : *p == '?' || *p == *s)) {
            p = next;
            s++;
        } else if (star) {
            p = star + 1;
            s = ++from;
        } else {
            return false;
        }
    }
    while (*p == '*')
        p++;
    return !*p;
}

static bool matches(const struct rules *r, uint32_t n, const char *path, size_t length)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct pattern *p = &r->of[i];
        if (p->glob ? glob(p->text, p->path ? path : stk_path_last(path))
                    : stk_path_below(path, length, p->text, p->length))
            return true;
    }
    return false;
}

/* ---- code of the interpreter that this process is ---- */
static unsigned languages;  /* of the process */
static uint32_t script_due; /* its script has not been opened yet */

/* Source files whose compiled form was looked for: modules, by the hash of folder and name. */
#define MODULES 2048u
static STK_TABLE uint64_t modules[MODULES];
static uint32_t nmodules;

static bool is_module(uint64_t hash, bool add)
{
    uint32_t i = (uint32_t)hash % MODULES;
    for (uint32_t k = 0; k < MODULES; k++, i = (i + 1) % MODULES) {
        uint64_t at = __atomic_load_n(&modules[i], __ATOMIC_RELAXED);
        if (at == hash)
            return true;
        if (at)
            continue;
        if (add && __atomic_fetch_add(&nmodules, 1, __ATOMIC_RELAXED) < MODULES / 4 * 3)
            __atomic_store_n(&modules[i], hash, __ATOMIC_RELAXED);
        return false;
    }
    return false;
}

/* The hash of "FOLDER/" and the name up to its first dot. */
static uint64_t module_of(const char *path, size_t folder, const char *name)
{
    return stk_path_hash(path, folder) ^ stk_path_hash(name, strcspn(name, "."));
}

#define CACHE "/__pycache__/"

/* The import of a module looks for FOLDER/__pycache__/NAME.cpython-311.pyc first. */
static void note_module(const char *path)
{
    const char *cache = strstr(path, CACHE);
    if (cache && languages & STK_LANG_PYTHON)
        is_module(module_of(path, (size_t)(cache + 1 - path), cache + sizeof CACHE - 1), true);
}

/* A source file that Python opened without that is data, but for its script. */
static bool source_is_data(const char *path, size_t length)
{
    const char *name = stk_path_last(path);
    uint64_t hash = module_of(path, (size_t)(name - path), name);
    if (!(languages & STK_LANG_PYTHON) || !stk_path_ends(path, length, ".py") ||
        stk_interpreters(path) || stk_systems(path, length) || is_module(hash, false))
        return false;
    if (!__atomic_exchange_n(&script_due, 0, __ATOMIC_RELAXED))
        return true;
    is_module(hash, true);
    return false;
}

/* Whether the interpreter opens a script: not with -c or -m, but multiprocessing's child does. */
static bool runs_script(int argc, char *const *argv)
{
    for (int i = 1; i < argc && argv[i]; i++) {
        const char *word = argv[i];
        if (word[0] != '-')
            return true;
        if (strcmp(word, "-m") == 0 || strcmp(word, "-") == 0)
            return false;
        if (strcmp(word, "-c") == 0)
            return strcmp(argv[argc - 1], "--multiprocessing-fork") == 0;
        i += strcmp(word, "-W") == 0 || strcmp(word, "-X") == 0;
    }
    return false;
}

void stk_pl_rules_program(bool python, const char *exe, int argc, char *const *argv)
{
    const char *name = stk_path_last(exe);
    languages = python ? STK_LANG_PYTHON : strncmp(name, "java", 4) == 0 ? STK_LANG_JAVA : 0;
    script_due = python && runs_script(argc, argv);
}

static size_t folder_of(const char *path)
{
    size_t n = (size_t)(stk_path_last(path) - path);
    return n > 1 ? n - 1 : 1;
}

size_t stk_pl_left_out(const char *path, size_t length, bool opened)
{
    if (stk_path_below(path, length, log_folder.text, log_folder.length))
        return folder_of(path);
    if (matches(&included, nincluded, path, length))
        return 0;
    if (matches(&excluded, nexcluded, path, length))
        return folder_of(path);
    note_module(path);
    return opened && source_is_data(path, length) ? 0 : stk_system_file(path, length, languages);
}
