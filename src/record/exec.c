/*
 * exec.c - the program to run: whether a library can be preloaded into it, and its
 * environment.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "base/spawn.h"
#include "record/priv.h"
#include "proflog/rules.h"

#define PRELOAD_NAME "libstoker-preload.so"
#define PRELOAD_MAX  (16u << 20)
#define SCRIPTS_MAX  4 /* nested interpreters that the kernel follows */
#define HEADERS_MAX  128u

/* ---- what it is --------------------------------------------------------------------------- */

/* A setuid program, or one with capabilities, gets no preloaded library. */
static bool is_privileged(int fd, const struct stat *st)
{
    char value[64];
    if ((st->st_mode & S_ISUID) && st->st_uid != geteuid())
        return true;
    if ((st->st_mode & S_ISGID) && (st->st_mode & S_IXGRP) && st->st_gid != getegid())
        return true;
    return geteuid() != 0 && fgetxattr(fd, "security.capability", value, sizeof value) > 0;
}

static bool read_at(int fd, void *p, size_t n, uint64_t off)
{
    size_t got = 0;
    return off < INT64_MAX && stk_pread_full(fd, p, n, off, &got, "", NULL) == 0 && got == n;
}

static void look_at_elf(int fd, const Elf64_Ehdr *eh, struct stk_program *p)
{
    static Elf64_Ehdr mine;
    Elf64_Phdr ph[HEADERS_MAX];
    size_t n = eh->e_phnum < HEADERS_MAX ? eh->e_phnum : HEADERS_MAX;
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    bool have = self >= 0 && read_at(self, &mine, sizeof mine, 0);
    if (self >= 0)
        close(self);
    p->other_libc = have && (eh->e_ident[EI_CLASS] != mine.e_ident[EI_CLASS] ||
                             eh->e_machine != mine.e_machine);
    if (p->other_libc || eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_phentsize != sizeof *ph ||
        !n || !read_at(fd, ph, n * sizeof *ph, eh->e_phoff))
        return;
    const Elf64_Phdr *interp = NULL;
    for (size_t i = 0; i < n; i++)
        interp = ph[i].p_type == PT_INTERP ? &ph[i] : interp;
    char loader[PATH_MAX] = "";
    size_t len = interp && interp->p_filesz < sizeof loader ? interp->p_filesz : 0;
    if (len && read_at(fd, loader, len, interp->p_offset))
        loader[len] = '\0';
    p->linkage = interp ? STK_LINK_DYNAMIC : STK_LINK_STATIC;
    p->other_libc = strstr(loader, "ld-musl") != NULL;
}

/* "#! /usr/bin/env -S python3": the interpreter is what runs. False: not a script. */
static bool interpreter(char *head, char *path, size_t size)
{
    if (strncmp(head, "#!", 2) != 0)
        return false;
    char *p = head + 2 + strspn(head + 2, " \t");
    snprintf(path, size, "%.*s", (int)strcspn(p, " \t\r\n"), p);
    return *path;
}

void stk_program_look(const char *path, struct stk_program *p)
{
    char at[PATH_MAX], head[512];
    snprintf(at, sizeof at, "%s", path);
    *p = (struct stk_program){0};
    for (int i = 0; i <= SCRIPTS_MAX; i++) {
        int fd = open(at, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        struct stat st;
        size_t got = 0;
        if (fd < 0)
            return; /* executable, but not readable: nothing is known */
        bool regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
        if (regular)
            (void)stk_pread_full(fd, head, sizeof head - 1, 0, &got, at, NULL);
        head[got] = '\0';
        bool script = regular && interpreter(head, at, sizeof at);
        if (!script && got >= sizeof(Elf64_Ehdr) && memcmp(head, ELFMAG, SELFMAG) == 0) {
            Elf64_Ehdr eh;
            memcpy(&eh, head, sizeof eh);
            look_at_elf(fd, &eh, p);
            if (is_privileged(fd, &st))
                p->linkage = STK_LINK_SETUID;
        }
        close(fd);
        if (!script)
            return;
    }
}

/* ---- our library -------------------------------------------------------------------------- */

/* A `stoker` of another folder of PATH that has the library: pip installs a program without it,
 * which hides that one. Only named: what it is, the user knows. */
static bool find_other(char *path, size_t size)
{
    static const char *const places[] = {"", "../lib/stoker/", "../lib64/stoker/"};
    const char *at = getenv("PATH");
    for (; at && *at; at += strcspn(at, ":"), at += *at == ':') {
        int n = (int)strcspn(at, ":");
        for (size_t i = 0; n && *at == '/' && i < sizeof places / sizeof *places; i++) {
            int len = snprintf(path, size, "%.*s/%s%s", n, at, places[i], PRELOAD_NAME);
            if (len < 0 || (size_t)len >= size || access(path, R_OK) != 0)
                continue;
            (void)snprintf(path, size, "%.*s/stoker", n, at);
            if (access(path, X_OK) == 0)
                return true;
        }
    }
    return false;
}

int stk_launch_find_preload(char **out, struct stk_err *err)
{
    const char *given = getenv("STOKER_PRELOAD");
    if (given && *given) {
        *out = realpath(given, NULL);
        return *out ? 0 : stk_err_sys(err, given, "STOKER_PRELOAD");
    }
    *out = stk_installed(PRELOAD_NAME);
    if (*out)
        return 0;
    char exe[PATH_MAX] = "", other[PATH_MAX];
    (void)stk_self_path(exe, sizeof exe, NULL);
    bool found = find_other(other, sizeof other);
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "%s is neither beside this program (%s) nor in %s; %s%s%s", PRELOAD_NAME,
                       exe, stk_installed_folder,
                       found ? "another stoker, later in PATH, has it: " : "",
                       found ? other : "set STOKER_PRELOAD to its path",
                       found ? "; call that one, or put its folder first" : "");
}

bool stk_launch_preload_fits(const char *path)
{
    struct stk_buf b = STK_BUF_INIT;
    bool fits = stk_read_file(path, PRELOAD_MAX, &b, NULL) != 0 || /* the loader will complain */
                memmem(b.data, b.len, STK_LOG_WRITES, sizeof STK_LOG_WRITES) != NULL;
    stk_buf_release(&b);
    return fits;
}

/* ---- the environment ---------------------------------------------------------------------- */

/* Adds a word to a list in the environment, unless it is there. */
static int append_to(const char *name, const char *word)
{
    const char *old = getenv(name), *at = old ? strstr(old, word) : NULL;
    size_t len = strlen(word);
    if (at && (!at[len] || at[len] == ':' || at[len] == ' '))
        return 0;
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_printf(&b, "%s%s%s", old ? old : "", old && *old ? ":" : "", word);
    int rc = setenv(name, stk_buf_cstr(&b), 1);
    stk_buf_release(&b);
    return rc;
}

/* Our library comes last: existing entries (a sanitizer must be first) keep their place. gcc's ASan
 * refuses to start behind any library that is preloaded, unless its options say otherwise; any
 * program of the run may be built with it. */
static int set_preload(const struct stk_launch *l)
{
    return append_to("LD_PRELOAD", l->preload) || append_to("ASAN_OPTIONS", STK_ASAN_ORDER) ? -1
                                                                                            : 0;
}

/* Joins items with ':'; "a,b" is two items, and a relative path starts at the current folder.
 * Returns the number of items. */
static size_t put_list(struct stk_buf *b, const char *const *list, const char *cwd)
{
    size_t n = 0;
    for (; list && *list; list++) {
        for (const char *p = *list; *p;) {
            size_t len = strcspn(p, ",");
            bool path = memchr(p, '/', len) && *p != '/' && *p != '*';
            size_t dots = path && strncmp(p, "./", 2) == 0 ? 2 : 0;
            if (len)
                stk_buf_printf(b, "%s%s%s%.*s", n++ ? ":" : "", path ? cwd : "", path ? "/" : "",
                               (int)(len - dots), p + dots);
            p += len + (p[len] == ',');
        }
    }
    return n;
}

static int check_list(const char *option, const char *const *list, const char *cwd,
                      struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    size_t n = put_list(&b, list, cwd), bytes = b.len;
    int rc = stk_buf_check(&b, err);
    stk_buf_release(&b);
    if (rc || (n <= STK_RULES_MAX && bytes < STK_RULES_BYTES))
        return rc;
    return stk_err_set(err, STK_E_USAGE, NULL, -1,
                       "%s takes at most %u patterns of %u bytes together; these are %zu, of %zu "
                       "bytes",
                       option, STK_RULES_MAX, STK_RULES_BYTES - 1, n, bytes);
}

int stk_launch_check_rules(const struct stk_launch_options *o, const char *cwd, struct stk_err *err)
{
    int rc = check_list("--include", o->include, cwd, err);
    return rc ? rc : check_list("--exclude", o->exclude, cwd, err);
}

static int set_list(const char *name, const char *const *list, const char *cwd)
{
    struct stk_buf b = STK_BUF_INIT;
    int rc = put_list(&b, list, cwd) ? setenv(name, stk_buf_cstr(&b), 1) : unsetenv(name);
    stk_buf_release(&b);
    return rc;
}

/* Names the files that our own output goes to: text printed there is not data. */
static int set_outputs(void)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stat st;
    for (int fd = 1; fd <= 2; fd++)
        if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
            stk_buf_printf(&b, "%s%llu:%llu", b.len ? "," : "", (unsigned long long)st.st_dev,
                           (unsigned long long)st.st_ino);
    int rc = b.len ? setenv("STOKER_PROFILE_OUTPUTS", stk_buf_cstr(&b), 1)
                   : unsetenv("STOKER_PROFILE_OUTPUTS");
    stk_buf_release(&b);
    return rc;
}

static int set_number(const char *name, uint64_t v, bool given)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    return given ? setenv(name, text, 1) : unsetenv(name);
}

int stk_launch_environment(const struct stk_launch *l)
{
    const struct stk_launch_options *o = &l->o;
    uint64_t until_ns = l->start_real_ns + (uint64_t)(o->for_s * 1e9);
    bool bad = l->preload && set_preload(l) != 0;
    bad = bad || setenv("STOKER_PROFILE_DIR", l->logs, 1) != 0;
    bad = bad || set_number("STOKER_PROFILE_TRACE", 1, o->trace) != 0;
    bad = bad || set_number("STOKER_PROFILE_SHARE", 1, o->share) != 0;
    bad = bad || set_number("STOKER_PROFILE_UNTIL_NS", until_ns, o->for_s > 0) != 0;
    bad = bad || set_number("STOKER_PROFILE_FILES", o->files, o->files > 0) != 0;
    bad = bad || set_list("STOKER_PROFILE_INCLUDE", o->include, l->cwd) != 0;
    bad = bad || set_list("STOKER_PROFILE_EXCLUDE", o->exclude, l->cwd) != 0;
    bad = bad || set_outputs() != 0;
    bad = bad || (*l->slots ? setenv("STOKER_PROFILE_SLOTS", l->slots, 1)
                            : unsetenv("STOKER_PROFILE_SLOTS")) != 0;
    return bad || unsetenv("STOKER_PROFILE_PARENT") != 0 ? errno : 0;
}
