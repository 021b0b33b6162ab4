/*
 * sampler_tree.c - the processes below the launcher: what each has used so far, and what can only
 * be queried while they live. A process whose parent ends moves to the launcher, which is the
 * subreaper.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/sampler.h"

#define COMMAND_MAX 512u

int stk_sampler_open_tree(struct stk_tree *t, pid_t root, struct stk_err *err)
{
    const struct stk_tree_rules rules = {.root = root, .skip = root, .ended = true};
    int rc = stk_tree_open(t, &rules, err);
    if (rc || stk_proc_is_own(t->proc_fd))
        return rc;
    stk_tree_release(t);
    return stk_err_set(err, STK_E_UNSUPPORTED, "/proc", -1,
                       "/proc does not show the processes of this container");
}

static void read_command(const struct stk_tree *t, struct stk_proc *p)
{
    char buf[COMMAND_MAX];
    size_t n = stk_proc_command(t->proc_fd, p->pid, buf, sizeof buf);
    free(p->command);
    p->command = strdup(n ? buf : p->stat.comm);
}

/* A process without a log may never get one: reads its command while it lives. */
static void examine(const struct stk_tree *t, struct stk_proc *p, const char *logs,
                    const char *host)
{
    char path[4300];
    if (p->age == 2 || p->age % 32 == 0)
        p->uring = p->uring || stk_proc_has_uring(t->proc_fd, p->pid);
    if (p->age < 2 || p->examined)
        return;
    p->examined = true;
    snprintf(path, sizeof path, "%s/%s.%d.0.stklog", logs, host, (int)p->own_pid);
    if (access(path, F_OK) != 0)
        read_command(t, p);
}

void stk_sampler_look(struct stk_tree *t, const char *logs, const char *host,
                      struct stk_tree_sum *sum)
{
    *sum = (struct stk_tree_sum){0};
    memcpy(sum->io, t->reaped_io, sizeof sum->io);
    (void)stk_tree_look(t, NULL);
    for (size_t i = 0; i < t->n; i++) {
        struct stk_proc *p = &t->p[i];
        if (!p->ours)
            continue;
        p->age = (uint16_t)(p->age < UINT16_MAX ? p->age + 1 : 1024);
        stk_proc_io(t->proc_fd, p->pid, p->io);
        if (!p->own_pid)
            p->own_pid = stk_proc_own_pid(t->proc_fd, p->pid);
        examine(t, p, logs, host);
        sum->processes++;
        sum->threads += p->stat.threads;
        /* Includes reaped children: what a child used moves to its parent and is never lost. */
        sum->cpu_ticks += p->stat.ticks + p->stat.children_ticks;
        sum->resident_bytes += p->stat.resident_bytes;
        for (size_t k = 0; k < STK_IO_COUNTS; k++)
            sum->io[k] += p->io[k];
    }
}
