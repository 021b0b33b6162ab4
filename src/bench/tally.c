/* tally.c - see tally.h. */
#include "bench/tally.h"

#define K 1024ull

const uint64_t stk_io_tally_limit[STK_TALLY_COUNTS] = {
    100, K, 10 * K, 100 * K, K *K, 4 * K *K, 10 * K *K, 100 * K *K, K *K *K, UINT64_MAX};
const char *const stk_io_tally_bin_name[STK_TALLY_COUNTS] = {
    "to 100 B", "to 1 KiB",  "to 10 KiB",  "to 100 KiB", "to 1 MiB",
    "to 4 MiB", "to 10 MiB", "to 100 MiB", "to 1 GiB",   "above 1 GiB"};

static void count_size(struct stk_io_tally *t, uint64_t bytes, uint64_t n)
{
    for (int i = 0; i < STK_TALLY_SIZES; i++) {
        struct stk_io_tally_size *s = &t->size[i];
        if (s->count && s->bytes != bytes)
            continue;
        s->bytes = bytes;
        s->count += n;
        return;
    }
    t->other_sizes += n;
}

void stk_io_tally_request(struct stk_io_tally *t, uint64_t bytes, double seconds)
{
    int b = 0;
    while (bytes > stk_io_tally_limit[b])
        b++;
    t->bin[b]++;
    t->requests++;
    t->bytes += bytes;
    t->request_s += seconds;
    count_size(t, bytes, 1);
    stk_histogram_add(&t->latency, seconds > 0 ? (uint64_t)(seconds * 1e9) : 0);
    if (seconds > 0)
        stk_histogram_add(&t->rate, (uint64_t)((double)bytes / seconds));
}

void stk_io_tally_merge(struct stk_io_tally *into, const struct stk_io_tally *from)
{
    into->samples += from->samples;
    into->asked_bytes += from->asked_bytes;
    into->opens += from->opens;
    into->stats += from->stats;
    into->seeks += from->seeks;
    into->requests += from->requests;
    into->bytes += from->bytes;
    into->first += from->first;
    into->sequential += from->sequential;
    into->consecutive += from->consecutive;
    into->other_sizes += from->other_sizes;
    into->request_s += from->request_s;
    into->open_s += from->open_s;
    for (int i = 0; i < STK_TALLY_COUNTS; i++)
        into->bin[i] += from->bin[i];
    for (int i = 0; i < STK_TALLY_SIZES; i++)
        if (from->size[i].count)
            count_size(into, from->size[i].bytes, from->size[i].count);
    stk_histogram_merge(&into->latency, &from->latency);
    stk_histogram_merge(&into->rate, &from->rate);
}

struct stk_io_tally_size stk_io_tally_common(const struct stk_io_tally *t)
{
    struct stk_io_tally_size most = {0, 0};
    for (int i = 0; i < STK_TALLY_SIZES; i++)
        if (t->size[i].count > most.count)
            most = t->size[i];
    return most;
}
