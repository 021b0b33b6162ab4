/* tune_apply.c - the dataset part of what `stoker tune` recommends: packs or stages all of the data,
 * by the same commands that it prints. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/spawn.h"
#include "cmd/tune.h"

static int on_tick(void *user)
{
    struct stk_run *run = user;
    return stk_progress_say(&run->progress, "applying the best change");
}

static int run_self(struct stk_run *run, const char **argv)
{
    char self[4096];
    int rc = stk_self_path(self, sizeof self, &run->err);
    if (rc)
        return rc;
    argv[0] = self;
    /* Its output goes where our messages go: ours may be a result. */
    struct stk_child c = {.argv = argv,
                          .fd = {STK_FD_NULL, STDERR_FILENO, STK_FD_KEEP},
                          .own_group = true,
                          .death_signal = SIGTERM,
                          .grace_s = 20,
                          .tick = on_tick,
                          .user = run};
    errno = stk_child_start(&c);
    if (errno)
        return stk_err_sys(&run->err, self, "start");
    (void)stk_child_attend(&c);
    stk_progress_clear(&run->progress);
    if (c.stopped)
        return stk_err_set(&run->err, STK_E_STOPPED, NULL, -1, "stopped");
    return c.ending.status == 0
               ? 0
               : stk_err_set(&run->err, STK_E_SYS, NULL, -1, "%s ended with status %d", argv[1],
                             c.ending.status);
}

static int pack(struct stk_run *run, const struct stk_tune_change *c, const char *to)
{
    const char *argv[] = {NULL,         "pack",
                          "--format",   c->format,
                          "--compress", c->codec ? c->codec : "none",
                          "--",         c->source,
                          to,           NULL};
    return run_self(run, argv);
}

static int stage(struct stk_run *run, const char *from)
{
    const char *argv[] = {NULL, "stage", "--", from, NULL};
    return run_self(run, argv);
}

int stk_tune_apply(struct stk_run *run, const struct stk_tune *t, const char *to)
{
    const struct stk_tune_candidate *best = &t->candidate[t->best];
    bool any = false;
    int rc = 0;
    for (size_t i = 0; i < best->nchanges && !rc; i++) {
        const struct stk_tune_change *c = &best->change[i];
        bool packs = c->use == STK_USE_LOADER, stages = c->use == STK_USE_DATA || (packs && c->where);
        any = any || packs || stages;
        rc = packs ? pack(run, c, to) : 0;
        if (!rc && stages)
            rc = stage(run, packs ? to : c->source);
    }
    if (!rc && !any)
        stk_say(run, "\nNothing to do for the dataset: %s.\n",
                t->best ? "the change is in the program" : "there is nothing to gain");
    return rc;
}
