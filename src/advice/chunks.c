/*
 * chunks.c - the rule about arrays in chunks (HDF5, zarr): a chunk is read and unpacked as a whole
 * for each sample in it, so chunks that hold many samples make every sample expensive.
 */
#include <math.h>
#include <string.h>

#include "advice/priv.h"

struct chunks {
    double asked;  /* bytes that the program needed */
    double read;   /* bytes that were read for them */
    double calls;  /* of the library; 0: unknown */
    double read_s; /* time in these reads */
};

/* HDF5: the library's own calls say what was asked for. */
static struct chunks asked_of_hdf5(const struct advisor *ad, const struct stk_usage *u)
{
    struct chunks c = {.read = (double)u->n.c[STK_C_READ_BYTES], .read_s = u->read_s};
    for (size_t i = u->rec_from; i < u->rec_to; i++) {
        const struct stk_prof_rec *r = &ad->p->rec[i];
        if (r->api != STK_API_HDF5)
            continue;
        c.asked += (double)r->n.c[STK_C_READ_BYTES];
        c.calls += (double)r->n.c[STK_C_READS];
    }
    return c;
}

/* A store: every chunk is needed once per epoch, if the program says what an epoch is. */
static struct chunks asked_of_store(const struct advisor *ad, const struct stk_usage *u)
{
    double epochs = ad->a->epochs_marked ? (double)ad->a->nepochs : 0;
    return (struct chunks){.asked = epochs * (double)u->distinct_bytes,
                           .read = (double)u->n.c[STK_C_READ_BYTES],
                           .read_s = u->read_s + u->meta_s};
}

static void chunk_actions(struct advisor *ad, struct stk_finding *f, const struct stk_usage *u)
{
    const char *dot = strrchr(u->name, '.'), *slash = strrchr(u->name, '/');
    int stem = dot && dot > slash ? (int)(dot - u->name) : (int)strlen(u->name);
    struct stk_action pack = stk_advice_pack(ad, u->name);
    stk_advice_do(ad, f,
                  "Store the array so that a sample can be read alone: one sample per chunk, or no "
                  "chunks and no compression; or pack it into records. Or read a whole chunk at a "
                  "time and use all samples in it before the next: that mixes less, so shuffle "
                  "several chunks together.");
    stk_advice_act(ad, f,
                   (struct stk_action){
                       .kind = STK_ACT_REWRITE,
                       .path = u->name,
                       .to = stk_advice_text(ad, "%.*s-by-sample%s", stem, u->name, u->name + stem),
                       .use = u->use});
    if (!stk_kind_packable(u))
        return;
    pack.instead = true;
    pack.depth = stk_kind_evaluated(u->name) || !ad->trains ? 0 : 1;
    stk_advice_act(ad, f, pack);
    stk_advice_act(ad, f, stk_advice_loader(ad, pack.to));
}

static bool chunks_of(struct advisor *ad, const struct stk_usage *u, struct chunks c)
{
    /* A file that is opened for every sample is read for its headers. */
    bool headers = !stk_kind_store(u) && u->n.c[STK_C_OPENS] >= stk_limits.least_opens * u->procs;
    if (c.asked <= 0 || c.read < stk_limits.chunk_waste * c.asked ||
        u->n.c[STK_C_READS] < stk_limits.least_reads || headers)
        return false;
    double gain = stk_advice_wall(ad, c.read_s * (1 - c.asked / c.read));
    if (!stk_advice_matters(ad, gain))
        return false;
    struct stk_finding *f =
        stk_advice_begin(ad, "chunk-shape", stk_advice_severity(ad, gain),
                         "chunks are read %.1f times for the samples in them", c.read / c.asked);
    stk_advice_say(ad, f, "%s: the program asked for %s%s, for which %s were read.",
                   stk_advice_show(ad, u->name), stk_advice_size(ad, c.asked),
                   c.calls > 0 ? stk_advice_text(ad, " in %s calls", stk_advice_count(ad, c.calls))
                               : "",
                   stk_advice_size(ad, c.read));
    stk_advice_say(ad, f,
                   "A chunk is read, and unpacked if it is compressed, as a whole for each sample "
                   "that is needed from it.");
    stk_advice_number(ad, f, "asked_bytes", c.asked, "bytes");
    stk_advice_number(ad, f, "read_bytes", c.read, "bytes");
    stk_advice_number(ad, f, "read_s", c.read_s, "s");
    stk_advice_path(ad, f, u->name);
    chunk_actions(ad, f, u);
    stk_advice_gain(ad, f, gain, "%s of %s in reads are for bytes that were not needed then.%s",
                    stk_advice_time(ad, c.read_s * (1 - c.asked / c.read)),
                    stk_advice_time(ad, c.read_s), stk_advice_calls(ad));
    return true;
}

void stk_rule_chunk_shape(struct advisor *ad)
{
    for (size_t i = 0; i < ad->a->nfiles; i++)
        if (ad->a->file[i].use->load &&
            chunks_of(ad, &ad->a->file[i], asked_of_hdf5(ad, &ad->a->file[i])))
            return; /* the worst: the others are alike */
    for (size_t i = 0; i < ad->a->ndirs; i++)
        if (stk_kind_store(&ad->a->dir[i]) &&
            chunks_of(ad, &ad->a->dir[i], asked_of_store(ad, &ad->a->dir[i])))
            return;
}
