/* spawn.c - finds programs as execvp() does, and starts them. */
#include "base/spawn.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"

extern char **environ;

static int may_run(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return EACCES;
    return access(path, X_OK) == 0 ? 0 : EACCES;
}

int stk_find_program(const char *name, char **out)
{
    const char *path = getenv("PATH");
    int worst = ENOENT, rc;
    *out = NULL;
    if (strchr(name, '/')) {
        rc = may_run(name);
        *out = rc ? NULL : strdup(name);
        return rc ? rc : *out ? 0 : ENOMEM;
    }
    path = path ? path : "/usr/local/bin:/bin:/usr/bin";
    for (bool more = *name; more;) {
        size_t len = strcspn(path, ":");
        struct stk_buf b = STK_BUF_INIT;
        stk_buf_printf(&b, "%.*s%s%s", (int)len, path, len ? "/" : "./", name);
        rc = may_run(stk_buf_cstr(&b));
        if (rc == 0)
            *out = strdup(stk_buf_cstr(&b));
        stk_buf_release(&b);
        if (*out)
            return 0;
        worst = rc == EACCES ? EACCES : worst;
        more = path[len];
        path += len + 1;
    }
    return worst;
}

int stk_spawn(const char *const *argv, char *const *env, const int fd[3], bool alone, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int e = posix_spawn_file_actions_init(&actions);
    if (e)
        return e;
    if ((e = posix_spawnattr_init(&attr)) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return e;
    }
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                            (alone ? POSIX_SPAWN_SETPGROUP : 0)));
    for (int i = 0; i < 3 && !e; i++)
        e = posix_spawn_file_actions_adddup2(&actions, fd[i], i);
    if (!e)
        e = posix_spawnp(pid, argv[0], &actions, &attr, (char *const *)(uintptr_t)argv,
                         env ? env : environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return e;
}

struct stk_ending stk_ending_of(int wait_status)
{
    int signal = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
    return (struct stk_ending){.status = signal ? 128 + signal : WEXITSTATUS(wait_status),
                             .signal = signal};
}

int stk_self_path(char *out, size_t size, struct stk_err *err)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 1);
    if (n < 0)
        return stk_err_sys(err, "/proc/self/exe", "readlink");
    out[n] = '\0';
    return 0;
}
