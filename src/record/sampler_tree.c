/*
 * sampler_tree.c - the processes below the launcher: what each has used so far, and what can only
 * be queried while they live. A process whose parent ends moves to the launcher, which is the
 * subreaper.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/priv.h"
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

/* A process that hangs does not let its command be read: its name has to do. */
static enum stk_proc_read read_command(struct stk_proc_reader *reader, struct stk_proc *p)
{
    char buf[COMMAND_MAX];
    struct stk_buf list = STK_BUF_INIT;
    enum stk_proc_read got =
        stk_proc_reader_read(reader, p->pid, "cmdline", p->stat.state, &list);
    size_t n = stk_proc_command_of((const char *)list.data, list.len, buf, sizeof buf);
    stk_buf_release(&list);
    free(p->command);
    p->command = strdup(n ? buf : p->stat.comm);
    return got;
}

static bool has_log(const struct stk_sampler_logs *logs, pid_t pid)
{
    char path[4300];
    snprintf(path, sizeof path, "%s/%s.%d.0.stklog", logs->folder, logs->host, (int)pid);
    return stk_may_exist(AT_FDCWD, path) || stk_slots_know(logs->slots_fd, pid);
}

/* A process without a log may never get one: reads its command while it lives. */
static void examine(const struct stk_tree *t, struct stk_proc_reader *reader, struct stk_proc *p,
                    const struct stk_sampler_logs *logs)
{
    if (p->age == 2 || p->age % 32 == 0)
        p->uring = p->uring || stk_proc_has_uring(t->proc_fd, p->pid);
    if (p->age < 2 || p->examined)
        return;
    p->examined = has_log(logs, p->own_pid) || read_command(reader, p) != STK_PROC_LATER;
}

void stk_sampler_look(struct stk_tree *t, struct stk_proc_reader *reader,
                      const struct stk_sampler_logs *logs, struct stk_tree_sum *sum)
{
    *sum = (struct stk_tree_sum){0};
    memcpy(sum->io, t->reaped_io, sizeof sum->io);
    (void)stk_tree_look(t, NULL);
    stk_proc_reader_round(reader);
    for (size_t i = 0; i < t->n; i++) {
        struct stk_proc *p = &t->p[i];
        if (stk_proc_reader_is(reader, p->pid))
            p->ours = false; /* the launcher's, not the program's */
        if (!p->ours)
            continue;
        p->age = (uint16_t)(p->age < UINT16_MAX ? p->age + 1 : 1024);
        stk_proc_io(t->proc_fd, p->pid, p->io);
        if (!p->own_pid)
            p->own_pid = stk_proc_own_pid(t->proc_fd, p->pid);
        examine(t, reader, p, logs);
        sum->processes++;
        sum->threads += p->stat.threads;
        /* Includes reaped children: what a child used moves to its parent and is never lost. */
        sum->cpu_ticks += p->stat.ticks + p->stat.children_ticks;
        sum->resident_bytes += p->stat.resident_bytes;
        for (size_t k = 0; k < STK_IO_COUNTS; k++)
            sum->io[k] += p->io[k];
    }
}
