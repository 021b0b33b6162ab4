/*
 * launch_exec.c - the program to run: whether a library can be preloaded into it, and
 * the environment it gets.
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
#include "lab/launch_priv.h"
#include "preload/rules.h"
#include "stk_dirs.h" /* made by Meson: STK_PRELOAD_DIR */

#define PRELOAD_NAME "libstoker-preload.so"
#define SCRIPTS_MAX  4 /* interpreters of interpreters that the kernel follows */
#define HEADERS_MAX  128u
#define DYNAMIC_MAX  4096u

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

/* Where in the file an address lies; UINT64_MAX: nowhere. */
static uint64_t file_offset(const Elf64_Phdr *ph, size_t n, uint64_t address)
{
    for (size_t i = 0; i < n; i++)
        if (ph[i].p_type == PT_LOAD && address >= ph[i].p_vaddr &&
            address - ph[i].p_vaddr < ph[i].p_filesz)
            return ph[i].p_offset + (address - ph[i].p_vaddr);
    return UINT64_MAX;
}

/* Does it name a library that begins so among those it needs? */
static bool needs(int fd, const Elf64_Phdr *ph, size_t nph, const Elf64_Phdr *dynamic,
                  const char *prefix)
{
    size_t n = dynamic->p_filesz / sizeof(Elf64_Dyn), len = strlen(prefix);
    uint64_t names = UINT64_MAX;
    Elf64_Dyn d;
    n = n < DYNAMIC_MAX ? n : DYNAMIC_MAX;
    for (size_t i = 0; i < n && read_at(fd, &d, sizeof d, dynamic->p_offset + i * sizeof d); i++)
        if (d.d_tag == DT_STRTAB)
            names = file_offset(ph, nph, d.d_un.d_ptr);
    for (size_t i = 0; names != UINT64_MAX && i < n; i++) {
        char text[32];
        if (!read_at(fd, &d, sizeof d, dynamic->p_offset + i * sizeof d) || d.d_tag == DT_NULL)
            break;
        if (d.d_tag == DT_NEEDED && d.d_un.d_val < INT64_MAX - names && len <= sizeof text &&
            read_at(fd, text, len, names + d.d_un.d_val) && memcmp(text, prefix, len) == 0)
            return true;
    }
    return false;
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
    const Elf64_Phdr *dynamic = NULL, *interp = NULL;
    for (size_t i = 0; i < n; i++) {
        dynamic = ph[i].p_type == PT_DYNAMIC ? &ph[i] : dynamic;
        interp = ph[i].p_type == PT_INTERP ? &ph[i] : interp;
    }
    char loader[PATH_MAX] = "";
    size_t len = interp && interp->p_filesz < sizeof loader ? interp->p_filesz : 0;
    if (len && read_at(fd, loader, len, interp->p_offset))
        loader[len] = '\0';
    p->linkage = interp ? STK_LINK_DYNAMIC : STK_LINK_STATIC;
    p->other_libc = strstr(loader, "ld-musl") != NULL;
    p->needs_asan = dynamic && interp && needs(fd, ph, n, dynamic, "libasan.so");
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
            return; /* may be run, but not read: nothing is known */
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

static char *try_path(const char *folder, const char *below)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_printf(&b, "%s%s/%s", folder, below, PRELOAD_NAME);
    char *found = access(stk_buf_cstr(&b), R_OK) == 0 ? realpath(stk_buf_cstr(&b), NULL) : NULL;
    stk_buf_release(&b);
    return found;
}

/* Installed, then moved as a whole: PREFIX/bin and PREFIX/lib/x86_64-linux-gnu/stoker, say, still
 * stand to each other as they were meant to. */
static char *try_moved(const char *folder)
{
    char below[PATH_MAX];
    char *found = NULL;
    for (const char *p = STK_PRELOAD_DIR; !found && (p = strchr(p, '/')); p++) {
        snprintf(below, sizeof below, "/..%s", p);
        found = try_path(folder, below);
    }
    return found;
}

int stk_launch_find_preload(char **out, struct stk_err *err)
{
    const char *given = getenv("STOKER_PRELOAD");
    if (given && *given) {
        *out = realpath(given, NULL);
        return *out ? 0 : stk_err_sys(err, given, "STOKER_PRELOAD");
    }
    char exe[PATH_MAX];
    char *slash = stk_self_path(exe, sizeof exe, NULL) == 0 ? strrchr(exe, '/') : NULL;
    if (slash)
        *slash = '\0';
    *out = slash ? try_path(exe, "") : NULL;
    if (slash && !*out)
        *out = try_moved(exe);
    if (!*out)
        *out = try_path(STK_PRELOAD_DIR, "");
    if (*out)
        return 0;
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "%s is neither beside this program (%s) nor in %s; STOKER_PRELOAD can say "
                       "where it is",
                       PRELOAD_NAME, exe, STK_PRELOAD_DIR);
}

/* ---- the environment ---------------------------------------------------------------------- */

/* Ours comes last: what is there before (a sanitizer insists on it) keeps its place. */
static int set_preload(const struct stk_launch *l)
{
    const char *old = getenv("LD_PRELOAD"), *at = old ? strstr(old, l->preload) : NULL;
    size_t len = strlen(l->preload);
    if (at && (!at[len] || at[len] == ':' || at[len] == ' '))
        return 0;
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_printf(&b, "%s%s%s", old ? old : "", old && *old ? ":" : "", l->preload);
    int rc = setenv("LD_PRELOAD", stk_buf_cstr(&b), 1);
    stk_buf_reset(&b);
    old = getenv("ASAN_OPTIONS");
    stk_buf_printf(&b, "%s%sverify_asan_link_order=0", old ? old : "", old && *old ? ":" : "");
    if (!rc && l->program.needs_asan)
        rc = setenv("ASAN_OPTIONS", stk_buf_cstr(&b), 1);
    stk_buf_release(&b);
    return rc;
}

/* Items with ':' between them; "a,b" is two, and a path that is not absolute begins here. How many
 * they are. */
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
                       "%s takes %u patterns of %u bytes together at most; these are %zu, of %zu "
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

/* Files that our own output goes to: what is printed there is no data. */
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
    return bad || unsetenv("STOKER_PROFILE_PARENT") != 0 ? errno : 0;
}
