/*
 * proflog.h - logs of the preload library (proflog/log.h) made by hand: what the reader of profiles
 * is tried on.
 */
#ifndef PROFLOG_H
#define PROFLOG_H

#include "check.h"
#include "profile/profile.h"
#include "scratch.h"

#include <math.h>
#include <sys/stat.h>

struct proflog {
    struct stk_log_header head;
    struct stk_buf blocks; /* behind the header's */
    uint32_t names;
};

#define PROFLOG_START 1700000000000000000ull /* ns since 1970, of the first process */

static inline void proflog_init(struct proflog *l, uint32_t pid, uint32_t ppid, double start_s)
{
    *l = (struct proflog){.head = {.magic = STK_LOG_MAGIC,
                                   .version = STK_LOG_VERSION,
                                   .header_bytes = sizeof l->head,
                                   .block_bytes = STK_LOG_BLOCK,
                                   .counters = STK_C_COUNT,
                                   .pid = pid,
                                   .ppid = ppid,
                                   .end = STK_END_EXIT}};
    l->head.start_real_ns = PROFLOG_START + (uint64_t)(start_s * 1e9);
    l->head.start_mono_ns = 5000000000 + (uint64_t)(start_s * 1e9);
    l->head.end_ns = l->head.last_ns = 1000000000;
    strcpy(l->head.host, "n1");
    strcpy(l->head.exe, "/usr/bin/prog");
    strcpy(l->head.cwd, "/home/u");
    memcpy(l->head.command, "prog\0a b", 9);
}

/* "A=1 B=2" */
static inline void proflog_env(struct proflog *l, const char *text)
{
    memset(l->head.environment, 0, sizeof l->head.environment);
    for (size_t i = 0; text[i]; i++)
        l->head.environment[i] = text[i] == ' ' ? '\0' : text[i];
}

/* One block that holds `used` bytes; returns it. */
static inline struct stk_log_block *proflog_block(struct proflog *l, uint32_t kind, uint32_t slot,
                                                  const void *data, size_t used)
{
    size_t at = l->blocks.len;
    stk_buf_zeros(&l->blocks, STK_LOG_BLOCK);
    struct stk_log_block *b = (void *)(l->blocks.data + at);
    *b = (struct stk_log_block){.kind = kind, .slot = slot, .used = (uint32_t)used};
    if (used)
        memcpy(b + 1, data, used);
    return b;
}

/* A name, in a block of its own; returns its id. */
static inline uint32_t proflog_name(struct proflog *l, const char *text)
{
    uint8_t entry[4096] = {0};
    struct stk_log_name n = {.id = ++l->names, .length = (uint32_t)strlen(text)};
    memcpy(entry, &n, sizeof n);
    memcpy(entry + sizeof n, text, n.length);
    proflog_block(l, STK_BLK_NAMES, 0, entry, sizeof n + ((n.length + 7u) & ~7u));
    return n.id;
}

static inline struct stk_log_record proflog_record(uint32_t name, enum stk_api api)
{
    struct stk_log_record r = {.name = name, .api = (uint8_t)api};
    stk_counts_init(&r.n);
    return r;
}

/* [from, to) was read, in one request. */
static inline void proflog_read(struct stk_log_record *r, uint64_t from, uint64_t to)
{
    struct stk_cover c = {.nspans = 1, .span = {{from, to}}};
    stk_cover_sample(&c, r->name, from, to);
    stk_cover_add(&r->read, &c);
    r->n.c[STK_C_READS]++;
    r->n.c[STK_C_READ_BYTES] += to - from;
    r->n.c[STK_C_READ_NS] += 1000;
}

static inline void proflog_put(struct proflog *l, const struct stk_log_record *r)
{
    proflog_block(l, STK_BLK_RECORDS, 0, r, sizeof *r);
}

/* Writes and forgets it. */
static inline const char *proflog_write(struct proflog *l, const char *name)
{
    struct stk_buf all = STK_BUF_INIT;
    l->head.nblocks = 1 + (uint32_t)(l->blocks.len / STK_LOG_BLOCK);
    stk_buf_put(&all, &l->head, sizeof l->head);
    stk_buf_zeros(&all, STK_LOG_BLOCK - sizeof l->head);
    stk_buf_put(&all, l->blocks.data, l->blocks.len);
    const char *path = scratch_file(name, all.data, all.len);
    stk_buf_release(&all);
    stk_buf_release(&l->blocks);
    return path;
}

/* ---- looking at what comes out ---- */

static inline const struct stk_prof_file *file_of(const struct stk_profile *p, const char *path)
{
    for (size_t i = 0; i < p->nfiles; i++)
        if (strcmp(p->file[i].path, path) == 0)
            return &p->file[i];
    static const struct stk_prof_file none = {.path = "", .fs = ""};
    check_fail(__FILE__, __LINE__, path);
    return &none;
}

static inline bool noted(const struct stk_profile *p, const char *words)
{
    for (size_t i = 0; i < p->nnotes; i++)
        if (strstr(p->note[i], words))
            return true;
    return false;
}

static inline const char *folder(const char *name)
{
    static char path[600]; /* one at a time */
    snprintf(path, sizeof path, "%s", scratch_path(name));
    mkdir(path, 0700);
    return path;
}

static inline bool close_to(double a, double b)
{
    return fabs(a - b) < 1e-6 * (1 + fabs(b));
}

static inline int read_it(const char *path, struct stk_profile *p)
{
    struct stk_err err = {0};
    int rc = stk_profile_read(path, p, &err);
    if (rc)
        fprintf(stderr, "%s: %s\n", err.path, err.what);
    return rc;
}

#endif
