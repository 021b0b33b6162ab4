/*
 * inject.c - runs a program and lets one of its system calls fail or come back short.
 *
 *     inject FILE list PROGRAM ...             counts the calls of the program and its children
 *     inject FILE [own:]CALL N WHAT PROGRAM ...  spoils the N-th use of CALL (from 1)
 *
 * CALL is the number of a system call, WHAT an errno, or 0: half of what was asked for. own: counts
 * only the program's own calls, not those of its children. FILE gets "CALL COUNT" of each call, or
 * "done" if the call was spoilt. Counting begins at the program's entry point: what the dynamic
 * linker does is not its own. Ends with the program's status, or 128 + the signal that ended it.
 *
 * A seccomp filter stops the program only at the calls that matter; all of this is for x86-64.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS 1024

static struct {
    long call, nth, what; /* call -1: only count */
    bool own;
    pid_t program;
    bool entered; /* past its entry point */
    uint64_t entry;
    long word; /* what was there before the breakpoint */
    long count[CALLS], seen;
    bool done;
    pid_t closing; /* a close() that fails closes all the same: its result is changed at its end */
} g;

static void die(const char *what)
{
    perror(what);
    exit(125);
}

/* ---- the program -------------------------------------------------------------------------- */

static void filter(void)
{
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE)};
    struct sock_filter one[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)g.call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog p = {g.call < 0 ? 1 : 4, g.call < 0 ? all : one};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p))
        die("seccomp");
}

static void start(char **argv)
{
    g.program = fork();
    if (g.program < 0)
        die("fork");
    if (g.program == 0) {
        raise(SIGSTOP); /* until the tracer is there */
        filter();
        execvp(argv[0], argv);
        die(argv[0]);
    }
    int status;
    long follow = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK |
                  PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC |
                  PTRACE_O_EXITKILL;
    if (waitpid(g.program, &status, WUNTRACED) < 0 ||
        ptrace(PTRACE_SEIZE, g.program, 0, follow) < 0 || kill(g.program, SIGCONT) < 0)
        die("ptrace");
}

/* ---- its entry point ------------------------------------------------------------------------ */

static void break_at_entry(void)
{
    char path[64];
    Elf64_auxv_t a;
    snprintf(path, sizeof path, "/proc/%d/auxv", (int)g.program);
    int fd = open(path, O_RDONLY);
    while (fd >= 0 && !g.entry && read(fd, &a, sizeof a) == sizeof a)
        if (a.a_type == AT_ENTRY)
            g.entry = a.a_un.a_val;
    close(fd);
    g.word = ptrace(PTRACE_PEEKTEXT, g.program, g.entry, 0);
    ptrace(PTRACE_POKETEXT, g.program, g.entry, (g.word & ~0xffl) | 0xcc);
}

static bool is_entry(pid_t pid, int sig)
{
    struct user_regs_struct r;
    if (g.entered || sig != SIGTRAP || pid != g.program || ptrace(PTRACE_GETREGS, pid, 0, &r) < 0 ||
        r.rip != g.entry + 1)
        return false;
    ptrace(PTRACE_POKETEXT, pid, g.entry, g.word);
    r.rip--;
    ptrace(PTRACE_SETREGS, pid, 0, &r);
    return g.entered = true;
}

/* ---- a call --------------------------------------------------------------------------------- */

static void shorten(struct user_regs_struct *r)
{
    bool vector = r->orig_rax == SYS_readv || r->orig_rax == SYS_writev ||
                  r->orig_rax == SYS_preadv || r->orig_rax == SYS_pwritev;
    unsigned long long *n = r->orig_rax == SYS_copy_file_range ? &r->r8
                            : r->orig_rax == SYS_sendfile      ? &r->r10
                                                               : &r->rdx;
    *n = *n < 2 ? *n : vector ? 1 : *n / 2;
}

static bool is_own(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d", (int)g.program, (int)pid);
    return access(path, F_OK) == 0;
}

static void on_call(pid_t pid)
{
    struct user_regs_struct r;
    if (!g.entered || ptrace(PTRACE_GETREGS, pid, 0, &r) < 0)
        return;
    if (g.own && !is_own(pid))
        return;
    if (g.call < 0) {
        g.count[r.orig_rax % CALLS]++;
        return;
    }
    if ((long)r.orig_rax != g.call || ++g.seen != g.nth)
        return;
    g.done = true;
    if (g.call == SYS_close) {
        g.closing = pid;
        return;
    }
    if (g.what) {
        r.orig_rax = (unsigned long long)-1; /* no call is made */
        r.rax = (unsigned long long)-g.what;
    } else {
        shorten(&r);
    }
    ptrace(PTRACE_SETREGS, pid, 0, &r);
}

static void on_closed(pid_t pid)
{
    struct user_regs_struct r;
    g.closing = 0;
    if (ptrace(PTRACE_GETREGS, pid, 0, &r) < 0)
        return;
    r.rax = (unsigned long long)-g.what;
    ptrace(PTRACE_SETREGS, pid, 0, &r);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void on_stop(pid_t pid, int status)
{
    int sig = WSTOPSIG(status), event = status >> 16;
    bool closed = pid == g.closing && sig == (SIGTRAP | 0x80);
    if (closed)
        on_closed(pid);
    if (event == PTRACE_EVENT_SECCOMP)
        on_call(pid);
    else if (event == PTRACE_EVENT_EXEC && pid == g.program && !g.entry)
        break_at_entry();
    if (event == PTRACE_EVENT_STOP && (sig == SIGSTOP || sig == SIGTSTP))
        ptrace(PTRACE_LISTEN, pid, 0, 0);
    else
        ptrace(pid == g.closing ? PTRACE_SYSCALL : PTRACE_CONT, pid, 0,
               event || closed || is_entry(pid, sig) ? 0 : sig);
}

static int attend(void)
{
    int status, ended = -1;
    for (pid_t pid; (pid = waitpid(-1, &status, __WALL)) > 0;) {
        if (WIFSTOPPED(status))
            on_stop(pid, status);
        else if (pid == g.program)
            ended = status;
        if (ended >= 0 && !WIFSTOPPED(status) && pid == g.program)
            break; /* EXITKILL ends what it left behind */
    }
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
}

static void report(const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f)
        die(path);
    for (long i = 0; i < CALLS; i++)
        if (g.count[i])
            fprintf(f, "%ld %ld\n", i, g.count[i]);
    if (g.done)
        fputs("done\n", f);
    fclose(f);
}

int main(int argc, char **argv)
{
    bool list = argc > 3 && strstr(argv[2], "list");
    if (argc < (list ? 4 : 6)) {
        fprintf(stderr, "usage: inject FILE [own:]list|CALL N WHAT PROGRAM ...\n");
        return 125;
    }
    g.own = strncmp(argv[2], "own:", 4) == 0;
    g.call = list ? -1 : atol(argv[2] + (g.own ? 4 : 0));
    g.nth = list ? 0 : atol(argv[3]);
    g.what = list ? 0 : atol(argv[4]);
    start(argv + (list ? 3 : 5));
    int rc = attend();
    report(argv[1]);
    return rc;
}
