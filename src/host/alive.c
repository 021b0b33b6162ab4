/* alive.c - see alive.h. */
#include "host/alive.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/proc.h"
#include "host/root.h"

static uint64_t pid_space(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

static void find_machine(struct stk_alive *a)
{
    if (gethostname(a->host, sizeof a->host - 1) != 0)
        a->host[0] = '\0';
    stk_host_line("/proc/sys/kernel/random/boot_id", a->boot, sizeof a->boot);
    a->space = pid_space();
}

/* False: there is no such process, or it only waits to be reaped. */
static bool find_process(pid_t pid, uint64_t *start)
{
    struct stk_proc_stat st;
    int proc;
    if (stk_proc_open(&proc, NULL) != 0)
        return false;
    bool there = stk_proc_stat(proc, pid, &st) && st.state != 'Z' && st.state != 'X';
    if (there)
        *start = st.start;
    close(proc);
    return there;
}

void stk_alive_self(struct stk_alive *a)
{
    *a = (struct stk_alive){.pid = getpid()};
    find_machine(a);
    (void)find_process(getpid(), &a->start);
}

const struct stk_jfield stk_alive_fields[] = {
    {STK_JFIELD(CHARS, "host", struct stk_alive, host)},
    {STK_JFIELD(UNSIGNED, "pid", struct stk_alive, pid), .max = INT32_MAX},
    {STK_JFIELD(UNSIGNED, "pid_space", struct stk_alive, space)},
    {STK_JFIELD(CHARS, "boot_id", struct stk_alive, boot)},
    {STK_JFIELD(UNSIGNED, "start_ticks", struct stk_alive, start)},
    {0},
};

void stk_alive_get(const struct stk_jval *o, struct stk_alive *a)
{
    *a = (struct stk_alive){0};
    if (stk_jfields_read(stk_alive_fields, o, NULL, NULL, a, NULL))
        *a = (struct stk_alive){0};
}

enum stk_life stk_alive_check(const struct stk_alive *a)
{
    struct stk_alive here = {0};
    uint64_t start = 0;
    find_machine(&here);
    if (!a->pid || a->pid > INT32_MAX || !a->start || !a->boot[0])
        return STK_LIFE_UNKNOWN;
    if (strcmp(a->boot, here.boot) != 0)
        return a->host[0] && strcmp(a->host, here.host) == 0 ? STK_LIFE_GONE : STK_LIFE_UNKNOWN;
    if (a->space != here.space)
        return STK_LIFE_UNKNOWN;
    return find_process((pid_t)a->pid, &start) && start == a->start ? STK_LIFE_RUNS : STK_LIFE_GONE;
}
