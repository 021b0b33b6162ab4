/*
 * build.c - the growing tables of a profile: files by name, processes, records, notes. The
 * input may hold anything; the size of the files limits the number of entries, and a budget the
 * number of records (profile/fold.c).
 */
#include "profile/priv.h"

#include "base/hash.h"
#include "base/text.h"
#include "host/cgroup.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define RECS_LEAST 65536u
#define RECS_MOST  (4u << 20)

const struct stk_prof_source stk_source_stoker = {
    "stoker", "a profile of stoker",
    STK_KNOWS_PROCESSES | STK_KNOWS_HOSTS | STK_KNOWS_ENDS | STK_KNOWS_KERNEL | STK_KNOWS_WAITS |
        STK_KNOWS_DATA};
const struct stk_prof_source stk_source_darshan = {"darshan", "a Darshan log", 0};

const char *stk_prof_ended(const struct stk_prof_proc *q)
{
    static const char *const names[] = {"killed", "exit", "exec", "abort"};
    return names[q->ended];
}

void stk_pb_init(struct stk_pb *pb, struct stk_profile *p)
{
    *p = (struct stk_profile){
        .source = &stk_source_stoker, .command = "", .job = "", .exit_status = -1};
    *pb = (struct stk_pb){.p = p};
    /* A quarter of the free memory, since analysis and report need some too. */
    uint64_t fit = stk_memory_free() / 4 / sizeof(struct stk_prof_rec);
    pb->max_recs = fit < RECS_LEAST ? RECS_LEAST : fit > RECS_MOST ? RECS_MOST : (size_t)fit;
}

void stk_pb_release(struct stk_pb *pb)
{
    free(pb->file);
    free(pb->proc);
    free(pb->rec);
    free(pb->run);
    stk_lookup_release(&pb->by_path);
    free(pb->span);
    free(pb->span_next);
    stk_arena_release(&pb->temp);
    *pb = (struct stk_pb){0};
}

const char *stk_pb_text(struct stk_pb *pb, const char *text, size_t n)
{
    return n ? stk_arena_dup(&pb->p->arena, text, n) : "";
}

/* ---- files ---- */

static void append_part(struct stk_buf *out, const char *part, size_t n)
{
    if (!n || (n == 1 && part[0] == '.'))
        return;
    if (n == 2 && part[0] == '.' && part[1] == '.') {
        /* By the text alone: after a symbolic link, ".." may be another directory. */
        while (out->len && out->data[out->len - 1] != '/')
            out->len--;
        out->len -= out->len > 0;
        return;
    }
    stk_buf_putc(out, '/');
    stk_buf_put(out, part, n);
}

static void append_parts(struct stk_buf *out, const char *path, size_t n)
{
    const char *end = path + n;
    while (path < end) {
        const char *slash = memchr(path, '/', (size_t)(end - path));
        const char *stop = slash ? slash : end;
        append_part(out, path, (size_t)(stop - path));
        path = stop + 1;
    }
}

int stk_pb_path(struct stk_buf *out, const char *cwd, const char *name, size_t length)
{
    stk_buf_reset(out);
    bool absolute = name[0] == '/';
    if (!absolute && cwd[0] != '/') { /* the folder is unknown: kept as it is */
        stk_buf_put(out, name, length);
        return stk_buf_check(out, NULL);
    }
    if (!absolute)
        append_parts(out, cwd, strlen(cwd));
    append_parts(out, name, length);
    if (!out->len)
        stk_buf_putc(out, '/');
    else if (length && name[length - 1] == '/')
        stk_buf_putc(out, '/');
    return stk_buf_check(out, NULL);
}

uint64_t stk_pb_hash(const char *path, size_t n, bool group)
{
    return stk_hash64(path, n) + group;
}

static int new_file(struct stk_pb *pb, const char *path, size_t n, bool group, uint64_t hash,
                    struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    if (p->nfiles >= STK_PB_NONE || n > UINT32_MAX)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "more files than 32 bits can number");
    int rc = STK_ARRAY_MORE(p->file, p->nfiles, err);
    rc = rc ? rc : STK_ARRAY_MORE(pb->file, p->nfiles, err);
    const char *copy = rc ? NULL : stk_pb_text(pb, path, n);
    if (!rc && !copy)
        rc = stk_err_nomem(err, n);
    rc = rc ? rc : stk_lookup_add(&pb->by_path, hash, (uint32_t)p->nfiles, err);
    if (rc)
        return rc;
    struct stk_pb_file *f = &pb->file[p->nfiles];
    p->file[p->nfiles] = (struct stk_prof_file){.path = copy, .group = group, .fs = "", .files = 1};
    *f = (struct stk_pb_file){.hash = hash, .path_len = (uint32_t)n, .last_proc = STK_PB_NONE};
    p->nfiles++;
    return 0;
}

bool stk_pb_find(const struct stk_pb *pb, const char *path, size_t n, bool group, uint32_t *out)
{
    uint64_t hash = stk_pb_hash(path, n, group);
    uint32_t i;
    for (size_t at = 0; stk_lookup_next(&pb->by_path, hash, &at, &i);)
        if (pb->file[i].path_len == n && pb->p->file[i].group == group &&
            memcmp(pb->p->file[i].path, path, n) == 0) {
            *out = i;
            return true;
        }
    return false;
}

static int find_file(struct stk_pb *pb, const char *path, size_t n, bool group, uint32_t *out,
                     struct stk_err *err)
{
    if (stk_pb_find(pb, path, n, group, out))
        return 0;
    *out = (uint32_t)pb->p->nfiles;
    return new_file(pb, path, n, group, stk_pb_hash(path, n, group), err);
}

int stk_pb_file(struct stk_pb *pb, const char *cwd, const char *name, size_t length, bool group,
                uint32_t *out, struct stk_err *err)
{
    struct stk_buf path = STK_BUF_INIT;
    const char *nul = memchr(name, '\0', length);
    int rc = stk_pb_path(&path, cwd, name, nul ? (size_t)(nul - name) : length);
    rc = rc ? stk_err_nomem(err, length)
            : find_file(pb, stk_buf_cstr(&path), path.len, group, out, err);
    stk_buf_release(&path);
    return rc;
}

/* ---- processes, hosts, marks, notes ---- */

int stk_pb_proc(struct stk_pb *pb, uint32_t *out, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    if (p->nprocs >= INT32_MAX)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "more than 2^31 processes");
    int rc = STK_ARRAY_MORE(p->proc, p->nprocs, err);
    rc = rc ? rc : STK_ARRAY_MORE(pb->proc, p->nprocs, err);
    if (rc)
        return rc;
    p->proc[p->nprocs] = (struct stk_prof_proc){
        .parent = -1, .exe = "", .command = "", .cwd = "", .log = ""};
    pb->proc[p->nprocs] = (struct stk_pb_proc){.parent_log = "", .job = ""};
    *out = (uint32_t)p->nprocs++;
    return 0;
}

int stk_pb_host(struct stk_pb *pb, const char *name, uint32_t *out, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    /* From the newest: logs are sorted by host, so it is found at once. */
    for (size_t i = p->nhosts; i-- > 0;)
        if (strcmp(p->host[i].name, name) == 0) {
            *out = (uint32_t)i;
            return 0;
        }
    int rc = STK_ARRAY_MORE(p->host, p->nhosts, err);
    const char *copy = rc ? NULL : stk_pb_text(pb, name, strlen(name));
    if (!rc && !copy)
        rc = stk_err_nomem(err, strlen(name));
    if (rc)
        return rc;
    p->host[p->nhosts] = (struct stk_prof_host){.name = copy, .gpu_kind = "", .local_dir = ""};
    *out = (uint32_t)p->nhosts++;
    return 0;
}

int stk_pb_mark(struct stk_pb *pb, const struct stk_prof_mark *m, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    int rc = STK_ARRAY_MORE(p->mark, p->nmarks, err);
    if (!rc)
        p->mark[p->nmarks++] = *m;
    return rc;
}

int stk_pb_note(struct stk_pb *pb, struct stk_err *err, const char *fmt, ...)
{
    struct stk_profile *p = pb->p;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    int rc = STK_ARRAY_MORE(p->note, p->nnotes, err);
    const char *copy = rc ? NULL : stk_pb_text(pb, text, strlen(text));
    if (!rc && !copy)
        rc = stk_err_nomem(err, sizeof text);
    if (!rc)
        p->note[p->nnotes++] = copy;
    return rc;
}

void stk_pb_tally(struct stk_pb *pb, struct stk_pb_tally *t, const char *first)
{
    if (!t->count++)
        t->first = stk_pb_text(pb, first, strlen(first));
    if (!t->first)
        t->first = "";
}

void stk_pb_word(struct stk_buf *out, struct stk_secret *secret, const char *word, size_t n)
{
    struct stk_buf masked = STK_BUF_INIT;
    stk_secret_put(secret, word, n, &masked);
    if (out->len)
        stk_buf_putc(out, ' ');
    stk_quote_word(out, stk_buf_cstr(&masked), masked.len);
    out->fail = out->fail || masked.fail;
    stk_buf_release(&masked);
}

/* ---- records --------------------------------------------------------------------------------- */

/* One record per process, file and API: adds up the records of threads, and keeps the spans they
 * read beside the record if its cover is full (eight threads that read an eighth each stay
 * exact). */

int stk_pb_rec(struct stk_pb *pb, uint32_t file, uint8_t api, uint32_t *out, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    struct stk_pb_file *f = &pb->file[file];
    uint32_t proc = (uint32_t)p->nprocs - 1;
    if (f->last_proc != proc) {
        f->last_proc = proc;
        for (size_t i = 0; i < STK_API_COUNT; i++)
            f->rec[i] = STK_PB_NONE;
    }
    if (f->rec[api] != STK_PB_NONE) {
        *out = f->rec[api];
        return 0;
    }
    if (p->nrecs >= STK_PB_NONE)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "more than 2^32 records");
    int rc = STK_ARRAY_MORE(p->rec, p->nrecs, err);
    rc = rc ? rc : STK_ARRAY_MORE(pb->rec, p->nrecs, err);
    if (rc)
        return rc;
    struct stk_prof_rec *r = &p->rec[p->nrecs];
    *r = (struct stk_prof_rec){.proc = proc, .file = file, .api = api};
    stk_counts_init(&r->n);
    pb->rec[p->nrecs] = (struct stk_pb_rec){.first = STK_PB_NONE};
    *out = f->rec[api] = (uint32_t)p->nrecs++;
    return 0;
}

static int keep_span(struct stk_pb *pb, struct stk_pb_rec *x, struct stk_byte_range s,
                     struct stk_err *err)
{
    int rc = STK_ARRAY_MORE(pb->span, pb->nspans, err);
    rc = rc ? rc : STK_ARRAY_MORE(pb->span_next, pb->nspans, err);
    if (rc)
        return rc;
    pb->span[pb->nspans] = s;
    pb->span_next[pb->nspans] = x->first;
    x->first = (uint32_t)pb->nspans++;
    x->wide++;
    return 0;
}

static int keep_spans(struct stk_pb *pb, struct stk_pb_rec *x, const struct stk_cover *c,
                      struct stk_err *err)
{
    struct stk_byte_range s[STK_COVER_SPANS];
    size_t n = stk_cover_spans(c, s);
    int rc = 0;
    for (size_t i = 0; i < n && !rc && pb->nspans < STK_PB_NONE; i++)
        rc = keep_span(pb, x, s[i], err);
    return rc;
}

int stk_pb_rec_add(struct stk_pb *pb, uint32_t rec, const struct stk_counts *n,
                   const struct stk_cover *read, struct stk_err *err)
{
    struct stk_prof_rec *r = &pb->p->rec[rec];
    struct stk_pb_rec *x = &pb->rec[rec];
    struct stk_cover before = r->read;
    int rc = 0;
    stk_counts_add(&r->n, n);
    stk_cover_add(&r->read, read);
    if (read->overflow) {
        x->wide = 0; /* the spans are lost: the sample counts */
    } else if (x->wide) {
        rc = keep_spans(pb, x, read, err);
    } else if (r->read.overflow && !before.overflow) {
        rc = keep_spans(pb, x, &before, err);
        rc = rc ? rc : keep_spans(pb, x, read, err);
    }
    return rc;
}
