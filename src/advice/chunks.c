/*
 * chunks.c - the rule about arrays in chunks (HDF5, zarr): a chunk is read and unpacked as a whole
 * for each sample in it, so chunks that hold many samples make every sample expensive.
 */
#include <math.h>
#include <string.h>

#include "advice/priv.h"

struct chunks {
    double asked;    /* bytes that the program needed */
    double read;     /* bytes that were read for them */
    double calls;    /* of the library; 0: unknown */
    double read_s;   /* time in these reads */
    double unpack_s; /* time in the library beside them */
};

/* HDF5: the library's own calls say what was asked for. */
static struct chunks asked_of_hdf5(const struct advisor *ad, const struct stk_usage *u)
{
    struct chunks c = {.read = (double)u->n.c[STK_C_READ_BYTES],
                       .read_s = u->read_s,
                       .unpack_s = stk_advice_unpack_s(ad, u)};
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
    stk_advice_act(ad, f, stk_advice_loader_for(ad, u, pack.to));
}

/* Bytes that are read for samples of their own: HDF5 reads ahead of a smaller one. */
static double alone_bytes(struct chunks c)
{
    return fmin(c.read, fmax(c.asked, c.calls * (double)stk_limits.library_ahead));
}

/* Seconds in calls that samples of their own save: fewer bytes, but still a request for each, and
 * nothing to unpack, but still a call of the library for each. */
static double alone_s(const struct advisor *ad, const struct stk_usage *u, struct chunks c,
                      double *unpacked_s)
{
    struct stk_work now = stk_work_of(u), alone = now;
    alone.bytes *= alone_bytes(c) / c.read;
    alone.requests = fmin(now.requests, c.calls > 0 ? c.calls : now.requests * c.asked / c.read);
    *unpacked_s = fmax(0, c.unpack_s - c.calls * STK_HDF5_ROW_S);
    return stk_work_saved_s(stk_advice_storage(ad, u), c.read_s, &now, &alone);
}

static bool chunks_of(struct advisor *ad, const struct stk_usage *u, struct chunks c)
{
    /* A file that is opened for every sample is read for its headers. */
    bool headers = !stk_kind_store(u) && u->n.c[STK_C_OPENS] >= stk_limits.least_opens * u->procs;
    if (c.asked <= 0 || c.read < stk_limits.chunk_waste * c.asked ||
        u->n.c[STK_C_READS] < stk_limits.least_reads || headers)
        return false;
    double unpacked_s, saved_s = alone_s(ad, u, c, &unpacked_s);
    double gain = stk_advice_wall(ad, saved_s + unpacked_s);
    double wasted_s = c.read_s * (1 - c.asked / c.read); /* even if requests hide it here */
    if (!stk_advice_matters(ad, fmax(gain, stk_advice_wall(ad, wasted_s))))
        return false;
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_CHUNK_SHAPE, stk_advice_severity(ad, gain),
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
    if (c.calls > 0)
        stk_advice_number(ad, f, "unpack_s", c.unpack_s, "s");
    stk_advice_path(ad, f, u->name);
    chunk_actions(ad, f, u);
    stk_advice_gain(ad, f, gain,
                    "%s of %s in reads are for bytes that were not needed then, at %s; %s%s",
                    stk_advice_time(ad, saved_s), stk_advice_time(ad, c.read_s),
                    stk_advice_pace(ad, stk_advice_storage(ad, u)),
                    c.calls > 0 ? stk_advice_text(ad, "unpacking them takes %s more.",
                                                  stk_advice_time(ad, unpacked_s))
                                : "unpacking them costs more.",
                    stk_advice_calls(ad));
    return true;
}

/* For arrays in one piece, HDF5 reads more than was asked for as well: 64 KiB around it. */
static bool has_chunks(const struct stk_usage *u)
{
    return u->file->layouts != STK_LAYOUT_WHOLE;
}

void stk_rule_chunk_shape(struct advisor *ad)
{
    for (size_t i = 0; i < ad->a->nfiles; i++)
        if (ad->a->file[i].use->load && has_chunks(&ad->a->file[i]) &&
            chunks_of(ad, &ad->a->file[i], asked_of_hdf5(ad, &ad->a->file[i])))
            return; /* the worst: the others are alike */
    for (size_t i = 0; i < ad->a->ndirs; i++)
        if (stk_kind_store(&ad->a->dir[i]) &&
            chunks_of(ad, &ad->a->dir[i], asked_of_store(ad, &ad->a->dir[i])))
            return;
}
