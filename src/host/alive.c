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

void stk_alive_put(const struct stk_alive *a, struct stk_jw *w)
{
    stk_jw_put_str(w, "host", a->host);
    stk_jw_put_u64(w, "pid", (uint64_t)a->pid);
    stk_jw_put_u64(w, "pid_space", a->space);
    stk_jw_put_str(w, "boot_id", a->boot);
    stk_jw_put_u64(w, "start_ticks", a->start);
}

static void get_text(const struct stk_jval *o, const char *key, char *to, size_t size)
{
    const struct stk_jval *v = stk_json_get(o, key);
    snprintf(to, size, "%s", v && v->type == STK_JSTR ? v->str : "");
}

static int64_t get_count(const struct stk_jval *o, const char *key)
{
    const struct stk_jval *v = stk_json_get(o, key);
    return v && v->type == STK_JINT && v->i > 0 ? v->i : 0;
}

void stk_alive_get(const struct stk_jval *o, struct stk_alive *a)
{
    get_text(o, "host", a->host, sizeof a->host);
    get_text(o, "boot_id", a->boot, sizeof a->boot);
    a->pid = get_count(o, "pid");
    a->space = (uint64_t)get_count(o, "pid_space");
    a->start = (uint64_t)get_count(o, "start_ticks");
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
