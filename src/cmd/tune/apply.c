/* apply.c - the dataset part of what `stoker tune` recommends: packs or stages all of the data,
 * by the same commands that it prints; then a patch for the script that reads it (patch.c). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/spawn.h"
#include "cmd/tune.h"

#define PRINTED_MAX 65536

static int on_tick(void *user)
{
    struct stk_run *run = user;
    return stk_progress_say(&run->progress, "applying the best change");
}

/* printed: what it prints; NULL: that goes where our messages go, because our output may be a
 * result. */
static int run_self(struct stk_run *run, const char **argv, struct stk_buf *printed)
{
    char self[4096];
    int rc = stk_self_path(self, sizeof self, &run->err);
    if (rc)
        return rc;
    argv[0] = self;
    struct stk_child c = {.argv = argv,
                          .fd = {STK_FD_NULL, printed ? STK_FD_PIPE : STDERR_FILENO, STK_FD_KEEP},
                          .own_group = true,
                          .death_signal = SIGTERM,
                          .grace_s = 20,
                          .tick = on_tick,
                          .text = {NULL, printed, NULL},
                          .text_max = {0, PRINTED_MAX, 0},
                          .user = run};
    fflush(stdout); /* the table comes before what the child says about its work */
    errno = stk_child_start(&c);
    if (errno)
        return stk_err_sys(&run->err, self, "start");
    bool bar = run->progress.bar;
    run->progress.bar = false; /* the child has one of its own */
    (void)stk_child_attend(&c);
    run->progress.bar = bar;
    if (c.stopped)
        return stk_err_set(&run->err, STK_E_STOPPED, NULL, -1, "stopped");
    return c.ending.status == 0
               ? 0
               : stk_err_set(&run->err, STK_E_SYS, NULL, -1, "%s ended with status %d", argv[1],
                             c.ending.status);
}

static int pack(struct stk_run *run, const struct stk_tune_change *c, const char *from,
                const char *to, uint64_t seed)
{
    char shard[32], shuffle[32];
    snprintf(shard, sizeof shard, "%llu", (unsigned long long)c->number);
    snprintf(shuffle, sizeof shuffle, "%llu", (unsigned long long)seed);
    const char *argv[16] = {NULL,         "pack", "--format", c->format,
                            "--compress", c->codec ? c->codec : "none", "--no-write-index"};
    size_t n = 7;
    if (c->number) { /* else the usual size, which for some formats is one file */
        argv[n++] = "--shard-size";
        argv[n++] = shard;
    }
    if (seed) {
        argv[n++] = "--shuffle";
        argv[n++] = shuffle;
    }
    argv[n++] = "--";
    argv[n++] = from;
    argv[n++] = to;
    return run_self(run, argv, NULL);
}

static int pack_parts(struct stk_run *run, const struct stk_tune *t,
                      const struct stk_tune_change *c, char **made)
{
    int rc = 0;
    for (size_t i = 0; i < t->data.nparts && !rc; i++)
        rc = pack(run, c, t->data.part[i].source, t->data.part[i].packed, stk_tune_mixes(t, &t->data.part[i]));
    *made = rc ? NULL : realpath(t->data.packed, NULL);
    return rc || *made ? rc : stk_err_sys(&run->err, t->data.packed, "find");
}

/* To the folder that was tried; `stoker stage` prints the path of the copy. The copy has an index: one
 * beside the data would be more than was asked for. */
static int stage(struct stk_run *run, const struct stk_tune_change *c, const char *from,
                 char **made)
{
    const char *argv[] = {NULL, "stage", "--", from, c->where, NULL};
    struct stk_buf printed = STK_BUF_INIT;
    struct stk_arena arena = STK_ARENA_INIT;
    const char *index[STK_TUNE_PLACES];
    stk_tune_indexes_of(&arena, from, index);
    int rc = run_self(run, argv, &printed);
    for (size_t i = 0; i < STK_TUNE_PLACES; i++)
        stk_tune_remove_index(index[i]);
    stk_arena_release(&arena);
    char *text = (char *)(uintptr_t)stk_buf_cstr(&printed);
    text[strcspn(text, "\n")] = '\0';
    if (!rc && *text == '/') {
        free(*made);
        *made = strdup(text);
    }
    stk_buf_release(&printed);
    return rc;
}

/* copy: of packed data, on this node. The packed data is there for every job. */
static int apply(struct stk_run *run, const struct stk_tune *t, const struct stk_tune_change *c,
                 char **made, char **copy)
{
    bool packs = c->use == STK_USE_LOADER, stages = c->use == STK_USE_DATA || (packs && c->where);
    int rc = packs ? pack_parts(run, t, c, made) : 0;
    if (rc || !stages)
        return rc;
    return packs ? stage(run, c, *made, copy) : stage(run, c, c->source, made);
}

int stk_tune_apply(struct stk_run *run, const struct stk_tune *t)
{
    const struct stk_tune_candidate *best = &t->candidate[t->best];
    char *made[STK_TUNE_CHANGES] = {0}, *copy[STK_TUNE_CHANGES] = {0};
    bool any = false;
    int rc = 0;
    for (size_t i = 0; i < best->nchanges && !rc; i++) {
        rc = apply(run, t, &best->change[i], &made[i], &copy[i]);
        if (made[i])
            stk_say(run, "\nMade: %s\n", made[i]);
        if (copy[i])
            stk_say(run, "Copied to this node: %s\n", copy[i]);
        any = any || made[i];
    }
    if (!rc && !any)
        stk_say(run, "\nNothing to do for the dataset: %s.\n",
                t->best ? "the change is in the program" : "there is nothing to gain");
    if (!rc && t->best)
        rc = stk_tune_patch_script(run, t, (const char *const *)made, (const char *const *)copy);
    for (size_t i = 0; i < STK_TUNE_CHANGES; i++) {
        free(made[i]);
        free(copy[i]);
    }
    return rc;
}
