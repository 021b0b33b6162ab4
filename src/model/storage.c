/* storage.c - see storage.h. */
#include "model/storage.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"

/*
 * Shared: 1.2 GB/s were observed for ImageNet jobs on Lustre, per request. A local disk: 2 GB/s, a
 * modest NVMe disk. Memory: 5 GB/s, one core copying from the page cache (docs/performance.md).
 * Linux reads a file in order 128 KiB at a time, and requests the next part while the program reads
 * the current one: two parts per latency.
 */
#define WINDOW (256.0 * 1024)

struct stk_storage stk_storage_assumed(enum stk_reach reach)
{
    switch (reach) {
    case STK_REACH_SHARED:
        return (struct stk_storage){.network = true,
                                    .open_s = 500e-6,
                                    .ask_s = 500e-6,
                                    .latency_s = 500e-6,
                                    .read_Bps = 1.2e9,
                                    .window = WINDOW};
    case STK_REACH_MEMORY:
        return (struct stk_storage){.served = true,
                                    .memory = true,
                                    .open_s = 10e-6,
                                    .ask_s = 2e-6,
                                    .latency_s = 2e-6,
                                    .read_Bps = 5e9,
                                    .write_Bps = 2e9,
                                    .window = WINDOW};
    default:
        return (struct stk_storage){.open_s = 100e-6,
                                    .ask_s = 100e-6,
                                    .latency_s = 100e-6,
                                    .read_Bps = 2e9,
                                    .write_Bps = 2e9,
                                    .window = WINDOW};
    }
}

struct stk_storage stk_storage_of_copy(enum stk_reach reach)
{
    struct stk_storage st = stk_storage_assumed(reach);
    st.latency_s = 20e-6;
    return st;
}

void stk_storage_on(struct stk_storage *st, const struct stk_fs *fs)
{
    st->fs = fs ? fs->name : NULL;
    st->network = fs && fs->network;
    st->served = fs && (fs->memory || fs->fuse);
    st->memory = fs && fs->memory;
}

int stk_storage_parse(const char *text, struct stk_storage *out, struct stk_err *err)
{
    char word[32];
    uint64_t bytes = 0;
    size_t n = strcspn(text, ",");
    const char *latency = text + n + (text[n] == ',');
    *out = (struct stk_storage){.read_Bps = INFINITY};
    snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word), text);
    int rc = stk_parse_size(word, &bytes, err);
    n = strcspn(latency, ",");
    snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word), latency);
    if (rc == 0 && *word)
        rc = stk_parse_duration(word, &out->latency_s, err);
    out->open_s = out->ask_s = out->create_s = out->latency_s;
    out->stream_Bps = out->write_Bps = bytes ? (double)bytes : INFINITY;
    if (bytes && strcmp(latency + n, ",shared") == 0)
        out->all_Bps = (double)bytes;
    return rc;
}

double stk_storage_share_Bps(const struct stk_storage *st, double streams)
{
    double alone = st->stream_Bps > 0 ? st->stream_Bps : st->read_Bps;
    return st->all_Bps > 0 ? fmin(alone, st->all_Bps / fmax(1, streams)) : alone;
}
