/* watch_json.c - a reading of a node as one line of JSON, and back; parsing checks everything. */
#include <stdlib.h>

#include "job/watch.h"

#define PROCESS(type, name) STK_JFIELD(type, #name, struct stk_watch_process, name)
#define GPU(type, name)     STK_JFIELD(type, #name, struct stk_gpu, name)
#define NODE(type, name)    STK_JFIELD(type, #name, struct stk_watch_node, name)

static const struct stk_watch_process no_process = {
    .pid = -1, .rank = -1, .cpus = -1, .gpu_memory_bytes = -1};
static const struct stk_jfield process_fields[] = {
    {PROCESS(COUNT, pid)},
    {PROCESS(CHARS, step), .cut = true},
    {PROCESS(COUNT, rank)},
    {PROCESS(UNSIGNED, threads)},
    {PROCESS(REAL, cpus), .known = true, .max = 1000000},
    {PROCESS(UNSIGNED, memory_bytes)},
    {PROCESS(COUNT, gpu_memory_bytes)},
    {PROCESS(UNSIGNED, read_bytes)},
    {PROCESS(UNSIGNED, write_bytes)},
    {PROCESS(CHARS, state), .cut = true},
    {PROCESS(FLAG, hangs)},
    {PROCESS(CHARS, command), .cut = true},
    {0},
};

static const struct stk_gpu no_gpu = {
    .index = UINT32_MAX, .util = -1, .memory_bytes = -1, .total_bytes = -1};
static const struct stk_jfield gpu_fields[] = {
    {GPU(COUNT, index)},
    {GPU(CHARS, kind), .cut = true},
    {GPU(REAL, util), .known = true, .max = 1},
    {GPU(COUNT, memory_bytes)},
    {GPU(COUNT, total_bytes)},
    {0},
};

const struct stk_jfield stk_watch_fields[] = {
    {NODE(CHARS, host), .required = true, .cut = true},
    {NODE(COUNT, part), .omit = true},
    {NODE(REAL, at_s), .known = true, .max = 1000000000000},
    {NODE(UNSIGNED, processes)},
    {NODE(UNSIGNED, threads)},
    {NODE(REAL, cpus), .known = true, .max = 1000000},
    {NODE(UNSIGNED, memory_bytes)},
    {STK_JFIELD_ARRAY(STRUCT, "gpus", struct stk_watch_node, gpu, ngpus), .table = gpu_fields,
     .init = &no_gpu},
    {STK_JFIELD_LIST(STRUCT, "process", struct stk_watch_node, process, nprocesses),
     .room = STK_WATCH_PROCESSES, .table = process_fields, .init = &no_process},
    {0},
};

int stk_watch_read(const char *line, size_t len, struct stk_watch_node *out, struct stk_err *err)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_watch_node got = {.at_s = -1, .cpus = -1};
    if (len > STK_WATCH_LINE_MAX)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "a sample of %zu bytes", len);
    int rc = stk_jfields_parse(stk_watch_fields, line, len, NULL, &arena, &got, err);
    if (!rc && !got.host[0])
        rc = stk_err_set(err, STK_E_CORRUPT, NULL, -1, "not a sample of a node");
    size_t n = got.nprocesses;
    struct stk_watch_process *p = rc ? NULL : realloc(out->process, (n + 1) * sizeof *p);
    if (!rc && !p)
        rc = stk_err_nomem(err, n * sizeof *p);
    for (size_t i = 0; i < n && !rc; i++) {
        p[i] = got.process[i];
        p[i].state[0] = p[i].state[0] >= 'A' && p[i].state[0] <= 'z' ? p[i].state[0] : '?';
    }
    if (!rc) {
        *out = got;
        out->process = p;
        out->part = -1;
    }
    stk_arena_release(&arena);
    return rc;
}
