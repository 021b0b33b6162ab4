/* fuzz_profile_log.c - a log of the preload library with arbitrary changes. Logs are mostly zeros
 * in blocks of 64 KiB, so the input is not the log itself but what is written over a small valid
 * one: [block, 1 byte] [offset, 2 bytes] [length, 1 byte] [bytes], again and again. */
#include "harness.h"

#include <stdlib.h>

#include "profile/profile.h"

#define BLOCKS 7

static void put_block(uint8_t *log, size_t i, uint32_t kind, const void *data, size_t used)
{
    struct stk_log_block b = {.kind = kind, .used = (uint32_t)used};
    memcpy(log + i * STK_LOG_BLOCK, &b, sizeof b);
    memcpy(log + i * STK_LOG_BLOCK + sizeof b, data, used);
}

static void make_log(uint8_t *log)
{
    static const char names[] = "\1\0\0\0\10\0\0\0data/a.h\2\0\0\0\7\0\0\0d/*.jpg";
    static struct stk_log_thread t = {.bin_ns = 10000000};
    struct stk_log_header h = {.magic = STK_LOG_MAGIC,
                               .version = STK_LOG_VERSION,
                               .header_bytes = sizeof h,
                               .block_bytes = STK_LOG_BLOCK,
                               .counters = STK_C_COUNT,
                               .nblocks = BLOCKS,
                               .pid = 7,
                               .end = STK_END_EXIT,
                               .start_real_ns = 1700000000000000000,
                               .end_ns = 1000000000,
                               .trace = 1,
                               .host = "n1",
                               .cwd = "/home"};
    struct stk_log_record r[2] = {{.name = 1}, {.name = 2, .group = 1}};
    struct stk_log_mark m[2] = {{.kind = STK_MARK_STEP}, {.kind = STK_MARK_PHASE, .name = 1}};
    struct stk_log_event e[2] = {{.op = STK_OP_READ, .name = 1}, {.op = STK_OP_OPEN, .name = 2}};
    memset(log, 0, BLOCKS * STK_LOG_BLOCK);
    memcpy(log, &h, sizeof h);
    for (size_t i = 0; i < 2; i++) {
        stk_counts_init(&r[i].n);
        r[i].n.c[STK_C_READS] = r[i].n.c[STK_C_READ_BYTES] = 100;
        r[i].read = (struct stk_cover){.nspans = 1, .span = {{0, 100}}, .overflow = (uint32_t)i};
    }
    t.bin[0].read_ns = 1000;
    put_block(log, 1, STK_BLK_NAMES, names, sizeof names);
    put_block(log, 2, STK_BLK_RECORDS, r, sizeof r);
    put_block(log, 3, STK_BLK_THREAD, &t, sizeof t);
    put_block(log, 4, STK_BLK_MARKS, m, sizeof m);
    put_block(log, 5, STK_BLK_TRACE, e, sizeof e);
    put_block(log, 6, STK_BLK_RECORDS, r, sizeof r);
}

static void change(uint8_t *log, const uint8_t *data, size_t size)
{
    while (size > 4) {
        size_t at = (size_t)(data[0] % BLOCKS) * STK_LOG_BLOCK + data[1] + 256u * data[2];
        size_t n = data[3] < size - 4 ? data[3] : size - 4;
        n = n < BLOCKS * STK_LOG_BLOCK - at ? n : BLOCKS * STK_LOG_BLOCK - at;
        memcpy(log + at, data + 4, n);
        data += 4 + n;
        size -= 4 + n;
    }
}

static int touch_event(void *user, const struct stk_prof_event *e)
{
    const struct stk_profile *p = user;
    if (e->proc >= p->nprocs || (e->file >= p->nfiles && e->file != UINT32_MAX) || e->op == 0 ||
        e->op >= STK_OP_COUNT || e->api >= STK_API_COUNT)
        stk_fuzz_broken("an event is of a process, a file and a kind");
    return 0;
}

static void touch(const struct stk_profile *p)
{
    for (size_t i = 0; i < p->nprocs; i++) {
        const struct stk_prof_proc *c = &p->proc[i];
        stk_fuzz_touch(c->command, strlen(c->command));
        stk_fuzz_touch(c->cwd, strlen(c->cwd));
        if (c->host >= p->nhosts || c->unit >= p->nunits || c->parent >= (int64_t)p->nprocs ||
            !(c->end_s >= c->start_s) || !(c->io_union_s >= 0))
            stk_fuzz_broken("a process has a host, a unit and a life");
    }
    for (size_t i = 0; i < p->nfiles; i++)
        stk_fuzz_touch(p->file[i].path, strlen(p->file[i].path));
    for (size_t i = 0; i < p->nrecs; i++) {
        const struct stk_prof_rec *r = &p->rec[i];
        if (r->proc >= p->nprocs || r->file >= p->nfiles || r->api >= STK_API_COUNT)
            stk_fuzz_broken("a record is of a process, a file and an API");
        if (i && r->file < p->rec[i - 1].file)
            stk_fuzz_broken("records are sorted by file");
    }
    for (size_t i = 0; i < p->nmarks; i++)
        if (p->mark[i].proc >= p->nprocs || !(p->mark[i].length_s >= 0))
            stk_fuzz_broken("a mark is of a process and has a length");
    for (size_t i = 0; i < p->nnotes; i++)
        stk_fuzz_touch(p->note[i], strlen(p->note[i]));
    (void)stk_profile_events(p, touch_event, (void *)p, NULL);
}

int fuzz_profile_log(const uint8_t *data, size_t size)
{
    static uint8_t log[BLOCKS * STK_LOG_BLOCK];
    struct stk_profile p;
    struct stk_err err = {0};
    make_log(log);
    change(log, data, size);
    /* The last byte cuts the file. */
    size_t cut = size && data[size - 1] < 16 ? sizeof log / 16 * data[size - 1] : sizeof log;
    const char *path = stk_fuzz_file("n1.7.0.stklog", log, cut);
    if (stk_profile_read(path, &p, &err) == 0) {
        touch(&p);
        stk_profile_release(&p);
    }
    return 0;
}
