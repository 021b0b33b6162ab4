/* stats.c - counts of the requests to the file system, and their JSON. */
#include "slowfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/json.h"

static void raise_to(_Atomic uint64_t *peak, uint64_t v)
{
    uint64_t seen = atomic_load_explicit(peak, memory_order_relaxed);
    while (v > seen && !atomic_compare_exchange_weak(peak, &seen, v))
        ;
}

void stats_enter(struct counters *c, enum op op)
{
    raise_to(&c->waiting_peak, atomic_fetch_add(&c->waiting, 1) + 1);
    if (op == OP_READ)
        raise_to(&c->reading_peak, atomic_fetch_add(&c->reading, 1) + 1);
}

void stats_leave(struct counters *c, enum op op)
{
    atomic_fetch_sub(&c->waiting, 1);
    if (op == OP_READ)
        atomic_fetch_sub(&c->reading, 1);
}

/* The bucket of the smallest power of two that is not less. */
static unsigned bucket_of(uint64_t bytes)
{
    unsigned b = bytes <= 1 ? 0 : 64u - (unsigned)__builtin_clzll(bytes - 1);
    return b < SIZE_BUCKETS ? b : SIZE_BUCKETS - 1;
}

void stats_request(struct counters *c, enum op op, uint64_t bytes)
{
    atomic_fetch_add_explicit(&c->requests[op], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->bytes[op], bytes, memory_order_relaxed);
    if (op == OP_READ)
        atomic_fetch_add_explicit(&c->read_sizes[bucket_of(bytes)], 1, memory_order_relaxed);
}

static void put_settings(struct slowfs *fs, struct stk_jw *w)
{
    stk_jw_key(w, "settings");
    stk_jw_open(w, '{');
    for (unsigned op = 0; op < OP_COUNT; op++) {
        char key[32];
        snprintf(key, sizeof key, "%s_s", pace_op_name((enum op)op));
        stk_jw_put_f64(w, key, (double)fs->pace.latency_ns[op] / 1e9);
    }
    stk_jw_put_u64(w, "bandwidth_Bps", fs->pace.link_Bps);
    stk_jw_put_u64(w, "client_bandwidth_Bps", fs->pace.client_Bps);
    stk_jw_put_u64(w, "max_read_bytes", fs->set.max_read_bytes);
    stk_jw_put_f64(w, "jitter", fs->set.jitter);
    stk_jw_put_u64(w, "seed", fs->set.seed);
    stk_jw_put_bool(w, "catch_up", fs->set.catch_up);
    stk_jw_key(w, "cache");
    stk_jw_str(w, fs->set.cache);
    stk_jw_put_f64(w, "meta_cache_s", fs->set.meta_cache_s);
    stk_jw_close(w, '}');
}

static void put_sizes(struct counters *c, struct stk_jw *w)
{
    stk_jw_key(w, "read_sizes"); /* answer size, up to -> number */
    stk_jw_open(w, '{');
    for (unsigned b = 0; b < SIZE_BUCKETS; b++) {
        char key[32];
        snprintf(key, sizeof key, "%llu", 1ull << b);
        if (c->read_sizes[b])
            stk_jw_put_u64(w, key, c->read_sizes[b]);
    }
    stk_jw_close(w, '}');
}

static void put_faults(struct slowfs *fs, struct stk_jw *w)
{
    struct rule *rule = calloc(MAX_RULES, sizeof *rule);
    size_t n = rule ? faults_copy(&fs->faults, rule) : 0;
    stk_jw_key(w, "faults");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        stk_jw_open(w, '{');
        stk_jw_key(w, "rule");
        stk_jw_str(w, rule[i].text);
        stk_jw_put_u64(w, "hits", rule[i].hits);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
    free(rule);
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

char *stats_text(struct slowfs *fs)
{
    struct counters *c = &fs->count;
    struct stk_buf out = STK_BUF_INIT;
    struct stk_jw w;
    struct rusage use = {0};
    getrusage(RUSAGE_SELF, &use);
    stk_jw_init(&w, &out, true);
    stk_jw_open(&w, '{');
    put_settings(fs, &w);
    stk_jw_put_f64(&w, "mounted_s", (double)(now_ns() - fs->started_ns) / 1e9);
    stk_jw_put_f64(&w, "cpu_s", seconds_of(use.ru_utime) + seconds_of(use.ru_stime));
    stk_jw_put_u64(&w, "opens", c->requests[OP_OPEN]);
    stk_jw_put_u64(&w, "stats", c->requests[OP_STAT]);
    stk_jw_put_u64(&w, "reads", c->requests[OP_READ]);
    stk_jw_put_u64(&w, "writes", c->requests[OP_WRITE]);
    stk_jw_put_u64(&w, "read_bytes", c->bytes[OP_READ]);
    stk_jw_put_u64(&w, "written_bytes", c->bytes[OP_WRITE]);
    put_sizes(c, &w);
    stk_jw_put_u64(&w, "waiting", c->waiting);
    stk_jw_put_u64(&w, "waiting_peak", c->waiting_peak);
    stk_jw_put_u64(&w, "reading_peak", c->reading_peak);
    put_faults(fs, &w);
    stk_jw_close(&w, '}');
    stk_buf_putc(&out, '\n');
    char *text = out.fail ? NULL : strdup(stk_buf_cstr(&out));
    stk_buf_release(&out);
    return text;
}
