/*
 * wrap_life.c - ends of a process that run no destructor, programs that replace it, and children
 * that share its memory for a moment.
 */
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "preload/priv.h"
#include "preload/wrap.h"
#include "proflog/rules.h"

#define END(name, how, parameters, types, arguments)                                               \
    STK_EXPORT _Noreturn void wrap_##name parameters __asm__(#name);                               \
    void wrap_##name parameters                                                                    \
    {                                                                                              \
        REAL(void, name, types);                                                                   \
        stk_pl_ending(how);                                                                        \
        real arguments;                                                                            \
        __builtin_trap(); /* does not return */                                                    \
    }
END(_exit, STK_END_EXIT, (int status), (int), (status))
END(_Exit, STK_END_EXIT, (int status), (int), (status))
END(quick_exit, STK_END_EXIT, (int status), (int), (status))
END(abort, STK_END_ABORT, (void), (void), ())

typedef char *const *strings;

/* ---- environments ---- */
/* The value of NAME= in an entry; NULL: another name. */
static const char *value_of(const char *entry, const char *name)
{
    size_t n = strlen(name);
    return strncmp(entry, name, n) == 0 ? entry + n : NULL;
}

#define LIBRARY "libstoker-preload.so"

#define SETTING "STOKER_PROFILE_"

static char own_path[PATH_MAX]; /* as LD_PRELOAD has it; "": loaded in another way */
static char settings[8192];     /* our variables, for a program whose environment lacks them */
static size_t nsettings;        /* 0: there are none, or they do not fit */

static void keep_settings(void)
{
    size_t used = 0;
    for (char **e = environ; e && *e; e++) {
        size_t n = strlen(*e) + 1;
        if (strncmp(*e, SETTING, sizeof SETTING - 1) != 0)
            continue;
        nsettings = n <= sizeof settings - used ? nsettings + 1 : 0;
        if (!nsettings)
            return;
        memcpy(settings + used, *e, n);
        used += n;
    }
}

void stk_pl_library_start(void)
{
    keep_settings();
    const char *list = getenv("LD_PRELOAD"), *at = list ? strstr(list, LIBRARY) : NULL;
    size_t n = sizeof LIBRARY - 1;
    for (; at && at > list && !strchr(": ", at[-1]); n++)
        at--;
    if (at && n < sizeof own_path)
        memcpy(own_path, at, n);
}

/* A list in an environment that lacks one of our words. */
struct list {
    const char *name, *word;
    const char *old; /* its value; NULL: none */
    size_t at;       /* its entry */
    bool due;
};

/* An environment in which a program has replaced LD_PRELOAD: what it starts would not be recorded.
 * Or one that loads our library, while ASan would refuse to start behind it: a program replaced its
 * options. `entries` and `text` are what the repaired one takes. */
struct repair {
    struct list preload, asan;
    size_t entries, text;
    bool due, recorded; /* it has our variables */
};

static void find_list(struct list *l, const char *entry, size_t at)
{
    const char *old = l->old ? NULL : value_of(entry, l->name);
    if (old) {
        l->old = old;
        l->at = at;
    }
}

static size_t room_for(const struct list *l)
{
    return l->due ? strlen(l->name) + (l->old ? strlen(l->old) + 1 : 0) + strlen(l->word) + 1 : 0;
}

static struct repair look_at(strings envp)
{
    struct repair r = {.preload = {.name = "LD_PRELOAD=", .word = own_path},
                       .asan = {.name = "ASAN_OPTIONS=", .word = STK_ASAN_ORDER}};
    for (; envp && envp[r.entries]; r.entries++) {
        find_list(&r.preload, envp[r.entries], r.entries);
        find_list(&r.asan, envp[r.entries], r.entries);
        r.recorded = r.recorded || value_of(envp[r.entries], SETTING "DIR=");
    }
    bool set = r.preload.old && *r.preload.old, ours = set && strstr(r.preload.old, LIBRARY);
    /* A program that removes the variable wants to start one without any library. */
    r.preload.due = set && !ours && *own_path && (r.recorded || nsettings);
    r.asan.due = (ours || r.preload.due) && !(r.asan.old && strstr(r.asan.old, STK_ASAN_ORDER));
    r.text = room_for(&r.preload) + room_for(&r.asan);
    r.due = r.preload.due || r.asan.due;
    return r;
}

/* The word comes last: the libraries of the program keep their places. Returns what is left of
 * `text`. */
static char *append(const struct list *l, char **to, size_t *entries, char *text)
{
    if (!l->due)
        return text;
    strcpy(text, l->name);
    if (l->old && *l->old)
        strcat(strcat(text, l->old), ":");
    strcat(text, l->word);
    to[l->old ? l->at : (*entries)++] = text;
    return text + room_for(l);
}

static strings put_right(const struct repair *r, strings envp, char **to, char *text)
{
    size_t entries = r->entries;
    memcpy(to, envp, entries * sizeof *to);
    text = append(&r->preload, to, &entries, text);
    (void)append(&r->asan, to, &entries, text);
    char *own = settings;
    for (size_t i = 0; i < nsettings && r->preload.due && !r->recorded; i++) {
        to[entries++] = own;
        own += strlen(own) + 1;
    }
    to[entries] = NULL;
    return (strings)to;
}

/* On the caller's stack, as in EXECUTE_LIST. */
#define REPAIRED(envp)                                                                             \
    struct repair r = look_at(envp);                                                               \
    if (r.due)                                                                                     \
    envp = put_right(&r, envp, __builtin_alloca((r.entries + 3 + nsettings) * sizeof *envp),       \
                     __builtin_alloca(r.text))

/* ---- programs ---- */
#define EXECUTE(name, parameters, types, arguments)                                                \
    WRAP(int, name, parameters)                                                                    \
    {                                                                                              \
        REAL_OR(int, name, types, -1);                                                             \
        REPAIRED(envp);                                                                            \
        stk_pl_before_exec();                                                                      \
        int rc = real arguments;                                                                   \
        stk_pl_exec_failed();                                                                      \
        return rc;                                                                                 \
    }
EXECUTE(execve, (const char *path, strings argv, strings envp), (const char *, strings, strings),
        (path, argv, envp))
EXECUTE(execvpe, (const char *file, strings argv, strings envp), (const char *, strings, strings),
        (file, argv, envp))
EXECUTE(fexecve, (int fd, strings argv, strings envp), (int, strings, strings), (fd, argv, envp))
EXECUTE(execveat, (int dirfd, const char *path, strings argv, strings envp, int flags),
        (int, const char *, strings, strings, int), (dirfd, path, argv, envp, flags))

/* With the environment as it is. */
WRAP(int, execv, (const char *path, strings argv))
{
    return wrap_execve(path, argv, (strings)environ);
}
WRAP(int, execvp, (const char *file, strings argv))
{
    return wrap_execvpe(file, argv, (strings)environ);
}

/* Arguments of a list that ends in NULL; on the stack, as in the C library (the caller may be a
 * child that must not allocate). */
#define EXECUTE_LIST(name, take_env, execute)                                                      \
    WRAP(int, name, (const char *path, const char *first, ...))                                    \
    {                                                                                              \
        va_list more;                                                                              \
        size_t n = 1;                                                                              \
        va_start(more, first);                                                                     \
        for (const char *a = first; a; a = va_arg(more, const char *))                             \
            n++;                                                                                   \
        va_end(more);                                                                              \
        char **argv = __builtin_alloca(n * sizeof *argv);                                          \
        argv[0] = (char *)(uintptr_t)first;                                                        \
        va_start(more, first);                                                                     \
        for (size_t i = 1; i < n; i++)                                                             \
            argv[i] = va_arg(more, char *);                                                        \
        strings envp = take_env ? va_arg(more, strings) : (strings)environ;                        \
        va_end(more);                                                                              \
        return execute(path, (strings)argv, envp);                                                 \
    }
EXECUTE_LIST(execl, false, wrap_execve)
EXECUTE_LIST(execle, true, wrap_execve)
EXECUTE_LIST(execlp, false, wrap_execvpe)

/* The started program shares what stays open across exec: positions may move. */
#define SPAWN(name)                                                                                \
    WRAP(int, name,                                                                                \
         (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions,                \
          const posix_spawnattr_t *attributes, strings argv, strings envp))                        \
    {                                                                                              \
        REAL(int, name,                                                                            \
             (pid_t *, const char *, const posix_spawn_file_actions_t *,                           \
              const posix_spawnattr_t *, strings, strings));                                       \
        REPAIRED(envp);                                                                            \
        __atomic_fetch_add(&stk_pl.spawns, 1, __ATOMIC_RELAXED);                                   \
        stk_pl_spawning();                                                                         \
        return real(pid, path, actions, attributes, argv, envp);                                   \
    }
SPAWN(posix_spawn)
SPAWN(posix_spawnp)

/* The C library starts these itself, in the program's own environment. */
static void set_right(const struct list *l)
{
    size_t n = room_for(l);
    char *text = n ? malloc(n) : NULL;
    if (!text)
        return;
    snprintf(text, n, "%s%s%s", l->old ? l->old : "", l->old && *l->old ? ":" : "", l->word);
    char name[32] = "";
    memcpy(name, l->name, strlen(l->name) - 1); /* without its = */
    (void)setenv(name, text, 1);
    free(text);
}

static void repair_own(void)
{
    struct repair r = look_at((strings)environ);
    if (r.preload.due && r.recorded) {
        set_right(&r.preload);
        set_right(&r.asan);
    }
}

WRAP(int, system, (const char *command))
{
    REAL(int, system, (const char *));
    repair_own();
    return real(command);
}

WRAP(FILE *, popen, (const char *command, const char *mode))
{
    REAL(FILE *, popen, (const char *, const char *));
    repair_own();
    return real(command, mode);
}

/* From here on the folder of the logs may be unreachable: a forked child's log is created first,
 * with room for a few files. */
#define WITHDRAW(name, parameters, types, arguments)                                               \
    WRAP(int, name, parameters)                                                                    \
    {                                                                                              \
        REAL(int, name, types);                                                                    \
        struct stk_pl_call call;                                                                   \
        if (stk_pl_child_pending() && stk_pl_begin(&call))                                         \
            stk_pl_log_ahead();                                                                    \
        return real arguments;                                                                     \
    }
WITHDRAW(chroot, (const char *path), (const char *), (path))
WITHDRAW(setuid, (uid_t user), (uid_t), (user))
WITHDRAW(seteuid, (uid_t user), (uid_t), (user))
WITHDRAW(setreuid, (uid_t user, uid_t effective), (uid_t, uid_t), (user, effective))
WITHDRAW(setresuid, (uid_t user, uid_t effective, uid_t saved), (uid_t, uid_t, uid_t),
         (user, effective, saved))

/* Enters a sandbox; syscall() is the other way in. */
bool stk_pl_sandbox_begins(long what, long a)
{
    return what == PR_SET_SECCOMP || (what == PR_SET_TSC && a == PR_TSC_SIGSEGV);
}

WRAP(int, prctl, (int what, long a, long b, long c, long d))
{
    REAL(int, prctl, (int, ...));
    if (__builtin_expect(!stk_pl_sandbox_begins(what, a), 1))
        return real(what, a, b, c, d);
    uint32_t before = stk_pl_sandbox();
    int rc = real(what, a, b, c, d);
    if (rc)
        stk_pl_no_sandbox(before);
    return rc;
}

#if defined(__x86_64__)
_Static_assert(offsetof(struct stk_pl_tls, vforked) == 16, "as below");
_Static_assert(offsetof(struct stk_pl_process, spawns) == 12, "as below");
/*
 * vfork() returns twice to one stack, so no C function can wrap it. This is the C library's, plus a
 * flag: the child runs in our memory with descriptors of its own, and must not write to our tables
 * and log. The parent, which sleeps until the child is gone, resets the flag. The return address
 * waits in a register, since the child's calls overwrite the stack.
 */
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, @function\n"
        "vfork:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    subq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call stk_pl_spawning\n"
        "    addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    movq stk_pl_self@gottpoff(%rip), %rcx\n"
        "    movl %fs:16(%rcx), %esi\n" /* a vfork child may vfork */
        "    movl $1, %fs:16(%rcx)\n"
        "    lock incl stk_pl+12(%rip)\n"
        "    popq %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    .cfi_register %rip, %rdi\n"
        "    movl $58, %eax\n" /* SYS_vfork; keeps rdi and rsi */
        "    syscall\n"
        "    testq %rax, %rax\n"
        "    jz 1f\n"
        "    pushq %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    .cfi_offset %rip, -8\n"
        "    movq stk_pl_self@gottpoff(%rip), %rcx\n"
        "    movl %esi, %fs:16(%rcx)\n"
        "    cmpq $-4095, %rax\n"
        "    jae 2f\n"
        "    ret\n"
        "2:  pushq %rax\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call __errno_location@PLT\n"
        "    popq %rcx\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    negl %ecx\n"
        "    movl %ecx, (%rax)\n"
        "    movq $-1, %rax\n"
        "    ret\n"
        /* The child jumps: its return would pop the parent's address from a shadow stack. */
        "1:  .cfi_adjust_cfa_offset -8\n"
        "    .cfi_register %rip, %rdi\n"
        "    jmp *%rdi\n"
        "    .cfi_endproc\n"
        ".size vfork, . - vfork\n");
#else
/* Elsewhere a plain fork, as POSIX allows. */
WRAP(pid_t, vfork, (void))
{
    return fork();
}
#endif
