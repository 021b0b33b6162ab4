/* apply.c - the dataset part of what `stoker tune` recommends: packs or stages all of the data, as
 * the commands do that it prints; then a patch for the script that reads it (patch.c). */
#include <stdio.h>
#include <stdlib.h>

#include "cmd/stage.h"
#include "cmd/tune.h"
#include "pack/pack.h"

static int on_pack(void *user, const char *phase, uint64_t bytes, uint64_t bytes_total,
                   uint64_t samples, uint64_t samples_total)
{
    return stk_progress_update(user, phase, bytes, bytes_total, samples, samples_total);
}

static int pack(struct stk_run *run, const struct stk_tune_change *c, const char *from,
                const char *to, uint64_t seed)
{
    const struct stk_open_options open = {.no_index_write = true};
    char settings[160];
    const struct stk_pack_options o = {.format = c->format,
                                       .compress = c->codec,
                                       .shard_size_bytes = c->number,
                                       .shuffle = seed != 0,
                                       .seed = seed,
                                       .settings_json = settings,
                                       .progress = on_pack,
                                       .user = &run->progress};
    struct stk_pack_result r = {0};
    char shuffle[32] = "null";
    if (seed)
        snprintf(shuffle, sizeof shuffle, "%llu", (unsigned long long)seed);
    snprintf(settings, sizeof settings,
             "{\"format\":\"%s\",\"compress\":\"%s\",\"shuffle\":%s}", c->format,
             c->codec ? c->codec : "none", shuffle);
    int rc = stk_pack_into(from, to, &open, &o, &r, &run->err);
    stk_progress_clear(&run->progress);
    stk_pack_result_release(&r);
    return rc;
}

static int pack_parts(struct stk_run *run, const struct stk_tune *t,
                      const struct stk_tune_change *c, char **made)
{
    int rc = 0;
    for (size_t i = 0; i < t->data.nparts && !rc; i++)
        rc = pack(run, c, t->data.part[i].source, t->data.part[i].packed,
                  stk_tune_mixes(t, &t->data.part[i]));
    *made = rc ? NULL : realpath(t->data.packed, NULL);
    return rc || *made ? rc : stk_err_sys(&run->err, t->data.packed, "find");
}

static int fill(struct stk_stage_job *job, const char *where)
{
    struct stk_stage_result r = {0};
    int rc = stk_stage_list_source(job, job->given);
    rc = rc ? rc : stk_stage_place(job, where, &job->src, job->src.bytes);
    rc = rc ? rc : stk_stage_fill_tier(job, job->at.tier, job->at.named, &r);
    job->printed = rc || !r.path ? NULL : strdup(r.path);
    stk_stage_result_release(&r);
    return rc;
}

/* To the folder that was tried. The copy has an index: one beside the data would be more than was
 * asked for. */
static int stage(struct stk_run *run, const struct stk_tune_change *c, const char *from,
                 char **made)
{
    const struct stk_stage_settings settings = {.jobs = 0};
    struct stk_stage_job job = {
        .run = run, .s = &settings, .given = from, .src = STK_SOURCE_INIT};
    struct stk_arena arena = STK_ARENA_INIT;
    const char *index[STK_TUNE_PLACES];
    stk_tune_indexes_of(&arena, from, index);
    job.real = realpath(from, NULL);
    int rc = fill(&job, c->where);
    for (size_t i = 0; i < STK_TUNE_PLACES; i++)
        stk_tune_remove_index(index[i]);
    stk_arena_release(&arena);
    if (job.stuck) /* a thread still uses all of it */
        return rc;
    if (job.printed) {
        free(*made);
        *made = job.printed;
    }
    if (job.listed)
        stk_source_release(&job.src);
    stk_chosen_release(&job.at);
    free(job.real);
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
