/*
 * counts.c - adds up counters as the table in proflog/counters.h says, and names them. Sums
 * saturate instead of wrapping: a log may hold anything.
 */
#include "profile/profile.h"

#include <string.h>

enum how { SUM, MIN, MAX };

static const struct {
    const char *name;
    enum how how;
} counters[STK_C_COUNT] = {
#define X(id, text, merge) [STK_C_##id] = {text, merge},
    STK_COUNTERS(X)
#undef X
};

static const char *const api_names[STK_API_COUNT] = {
    [STK_API_POSIX] = "posix", [STK_API_STDIO] = "stdio",  [STK_API_ASYNC] = "async",
    [STK_API_HDF5] = "hdf5",   [STK_API_MPIIO] = "mpi-io",
};

const char *stk_counter_name(enum stk_counter c)
{
    return (unsigned)c < STK_C_COUNT ? counters[c].name : "";
}

const char *stk_api_name(enum stk_api api)
{
    return (unsigned)api < STK_API_COUNT ? api_names[api] : "";
}

void stk_counts_init(struct stk_counts *n)
{
    *n = (struct stk_counts){0};
    for (size_t i = 0; i < STK_C_COUNT; i++)
        n->c[i] = counters[i].how == MIN ? UINT64_MAX : 0;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    uint64_t s;
    return __builtin_add_overflow(a, b, &s) ? UINT64_MAX : s;
}

static uint64_t merged(enum how how, uint64_t a, uint64_t b)
{
    if (how == SUM)
        return sum(a, b);
    return (how == MIN) == (a < b) ? a : b;
}

/* The STK_COMMON most frequent of both lists; of equally frequent values the smaller one, so that
 * the order of adding does not matter. */
static void add_common(struct stk_common_value *to, const struct stk_common_value *from)
{
    struct stk_common_value all[2 * STK_COMMON];
    size_t n = 0;
    for (size_t i = 0; i < 2 * STK_COMMON; i++) {
        struct stk_common_value v = i < STK_COMMON ? to[i] : from[i - STK_COMMON];
        size_t at = 0;
        while (at < n && all[at].value != v.value)
            at++;
        if (!v.count)
            continue;
        if (at < n)
            all[at].count = sum(all[at].count, v.count);
        else
            all[n++] = v;
    }
    memset(to, 0, STK_COMMON * sizeof *to);
    for (size_t i = 0; i < STK_COMMON && i < n; i++) {
        size_t best = i;
        for (size_t k = i + 1; k < n; k++)
            if (all[k].count > all[best].count ||
                (all[k].count == all[best].count && all[k].value < all[best].value))
                best = k;
        struct stk_common_value v = all[best];
        all[best] = all[i];
        to[i] = all[i] = v;
    }
}

uint64_t stk_counts_meta_calls(const struct stk_counts *n)
{
    static const enum stk_counter calls[] = {
        STK_C_OPENS,     STK_C_CLOSES, STK_C_STATS, STK_C_STATFS,  STK_C_XATTRS,
        STK_C_DIR_READS, STK_C_WALKS,  STK_C_MAKES, STK_C_CHANGES, STK_C_REMOVES,
        STK_C_RENAMES,   STK_C_LOCKS,  STK_C_ERRORS};
    uint64_t all = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        all = sum(all, n->c[calls[i]]);
    return all;
}

void stk_counts_add(struct stk_counts *to, const struct stk_counts *from)
{
    for (size_t i = 0; i < STK_C_COUNT; i++)
        to->c[i] = merged(counters[i].how, to->c[i], from->c[i]);
    for (size_t i = 0; i < STK_SIZE_BINS; i++) {
        to->read_size[i] = sum(to->read_size[i], from->read_size[i]);
        to->write_size[i] = sum(to->write_size[i], from->write_size[i]);
    }
    for (size_t i = 0; i < STK_LATENCY_BINS; i++)
        if (__builtin_add_overflow(to->read_latency[i], from->read_latency[i],
                                   &to->read_latency[i]))
            to->read_latency[i] = UINT32_MAX;
    add_common(to->size, from->size);
    add_common(to->stride, from->stride);
}
