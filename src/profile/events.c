/*
 * events.c - every operation of a traced profile, read again from its logs. Each trace
 * block belongs to a thread and is in order; blocks are merged, so that a process's operations come
 * in the order of their ends. Needs one block of memory per thread slot.
 */
#include "profile/priv.h"

#include "base/file.h"
#include "base/text.h"

#include <stdlib.h>

#define MAX_SLOTS 1024u /* merged at a time; further threads follow them */

/* ---- the profile's files by hash, to resolve the names in a log ---- */

struct files {
    const struct stk_profile *p;
    struct stk_lookup by_path;
};

static int files_init(struct files *t, const struct stk_profile *p, struct stk_err *err)
{
    int rc = 0;
    *t = (struct files){.p = p};
    for (uint32_t i = 0; i < p->nfiles && !rc; i++) {
        const struct stk_prof_file *f = &p->file[i];
        rc = stk_lookup_add(&t->by_path, stk_pb_hash(f->path, strlen(f->path), f->group), i, err);
    }
    return rc;
}

static uint32_t find(const struct files *t, const char *path, bool group)
{
    uint64_t hash = stk_pb_hash(path, strlen(path), group);
    uint32_t i;
    for (size_t at = 0; stk_lookup_next(&t->by_path, hash, &at, &i);)
        if (t->p->file[i].group == group && strcmp(t->p->file[i].path, path) == 0)
            return i;
    return STK_PB_NONE;
}

/* A trace names the target of the record: a file, or the group it was folded into, by the process
 * or when the profile was read. */
static uint32_t find_any(const struct files *t, const char *path)
{
    struct stk_buf pattern = STK_BUF_INIT;
    uint32_t file = find(t, path, false);
    file = file != STK_PB_NONE ? file : find(t, path, true);
    for (enum stk_pb_fold i = 0; file == STK_PB_NONE && i <= STK_FOLD_ALL; i++)
        if (stk_pb_pattern(&pattern, path, strlen(path), i) == 0)
            file = find(t, stk_buf_cstr(&pattern), true);
    stk_buf_release(&pattern);
    return file;
}

/* ---- one log ---- */

struct stream { /* the trace of one thread slot */
    uint32_t slot, *block;
    size_t nblocks, next;
    struct stk_log_event *event; /* of the current block */
    size_t n, at;
};

struct merge {
    const struct stk_profile *p;
    const struct files *files;
    struct stk_log_file file;
    struct stk_log_names names;
    struct stream *stream;
    size_t nstreams;
    uint32_t proc;
    int (*fn)(void *user, const struct stk_prof_event *e);
    void *user;
};

static int add_block(struct merge *m, uint32_t slot, uint32_t block, struct stk_err *err)
{
    size_t i = 0;
    while (i < m->nstreams && m->stream[i].slot != slot && i + 1 < MAX_SLOTS)
        i++;
    if (i == m->nstreams) {
        int rc = STK_ARRAY_MORE(m->stream, m->nstreams, err);
        if (rc)
            return rc;
        m->stream[m->nstreams++] = (struct stream){.slot = slot};
    }
    struct stream *s = &m->stream[i];
    int rc = STK_ARRAY_MORE(s->block, s->nblocks, err);
    if (!rc)
        s->block[s->nblocks++] = block;
    return rc;
}

static int list_blocks(struct merge *m, struct stk_err *err)
{
    int rc = 0;
    for (uint32_t i = 1; i < m->file.nblocks && !rc; i++) {
        const struct stk_log_block *b = stk_log_block(&m->file, i);
        if (b && b->kind == STK_BLK_TRACE && b->used >= sizeof(struct stk_log_event))
            rc = add_block(m, b->slot, i, err);
    }
    return rc;
}

/* The next valid event of a stream; NULL: none. Reads blocks itself: threads that take turns would
 * reload the window of the file again and again. */
static const struct stk_log_event *peek(struct merge *m, struct stream *s)
{
    for (;;) {
        while (s->at < s->n) {
            const struct stk_log_event *e = &s->event[s->at];
            if (e->op > 0 && e->op < STK_OP_COUNT && e->api < STK_API_COUNT)
                return e;
            s->at++;
        }
        if (s->next >= s->nblocks)
            return NULL;
        struct stk_log_block head;
        uint64_t from = stk_log_block_at(s->block[s->next++]);
        size_t got = 0;
        s->n = s->at = 0;
        if (!s->event && !(s->event = malloc(STK_LOG_BLOCK)))
            return NULL;
        if (stk_pread_full(m->file.fd, &head, sizeof head, from, &got, NULL, NULL) < 0 ||
            got < sizeof head || head.used > STK_LOG_BLOCK - sizeof head ||
            stk_pread_full(m->file.fd, s->event, head.used, from + sizeof head, &got, NULL, NULL) <
                0)
            continue;
        s->n = got / sizeof *s->event;
    }
}

static uint64_t end_of(const struct stk_log_event *e)
{
    return e->start_ns > UINT64_MAX - e->length_ns ? UINT64_MAX : e->start_ns + e->length_ns;
}

static uint32_t file_of(struct merge *m, uint32_t id, struct stk_buf *path)
{
    if (!id || id >= m->names.count || !m->names.name[id].length)
        return STK_PB_NONE;
    /* .file is unused here otherwise; NONE - 1: searched for, and missing. */
    uint32_t known = m->names.name[id].file;
    if (known == STK_PB_NONE) {
        const char *text = (const char *)m->names.text.data + m->names.name[id].at;
        size_t n = strnlen(text, m->names.name[id].length);
        known = STK_PB_NONE - 1;
        if (stk_pb_path(path, text[0] == '*' ? "" : m->file.head.cwd, text, n) == 0)
            known = find_any(m->files, stk_buf_cstr(path));
        known = known == STK_PB_NONE ? STK_PB_NONE - 1 : known;
        m->names.name[id].file = known;
    }
    return known < m->p->nfiles ? known : STK_PB_NONE;
}

static int hand_out(struct merge *m, struct stk_buf *path)
{
    for (;;) {
        struct stream *first = NULL;
        const struct stk_log_event *best = NULL;
        for (size_t i = 0; i < m->nstreams; i++) {
            const struct stk_log_event *e = peek(m, &m->stream[i]);
            if (e && (!best || end_of(e) < end_of(best))) {
                best = e;
                first = &m->stream[i];
            }
        }
        if (!best)
            return 0;
        struct stk_prof_event out = {
            .proc = m->proc,
            .file = file_of(m, best->name, path),
            .slot = best->slot,
            .op = best->op,
            .api = best->api,
            .start_s = m->p->proc[m->proc].start_s + (double)best->start_ns / 1e9,
            .length_s = (double)best->length_ns / 1e9,
            .offset = best->offset,
            .bytes = best->bytes,
        };
        first->at++;
        int rc = m->fn(m->user, &out);
        if (rc)
            return rc;
    }
}

static int events_of(struct merge *m, const char *path, struct stk_err *err)
{
    struct stk_buf name = STK_BUF_INIT;
    bool damaged = false;
    if (stk_log_open(&m->file, &(struct stk_log_at){path, 0}, NULL) < 0)
        return 0; /* left out when the profile was read, or removed since */
    int rc = m->file.head.trace ? stk_log_names(&m->file, &m->names, &damaged, err) : 0;
    if (!rc && m->file.head.trace)
        rc = list_blocks(m, err);
    rc = rc ? rc : hand_out(m, &name);
    for (size_t i = 0; i < m->nstreams; i++) {
        free(m->stream[i].block);
        free(m->stream[i].event);
    }
    m->nstreams = 0;
    stk_buf_release(&name);
    stk_log_names_release(&m->names);
    stk_log_close(&m->file);
    return rc;
}

int stk_profile_events(const struct stk_profile *p,
                       int (*fn)(void *user, const struct stk_prof_event *e), void *user,
                       struct stk_err *err)
{
    struct files files;
    size_t folder = strlen(p->path);
    int rc = files_init(&files, p, err);
    struct merge m = {.p = p, .files = &files, .fn = fn, .user = user};
    /* The profile may have been read from a single log. */
    bool one = stk_text_ends(p->path, folder, STK_LOG_SUFFIX);
    for (uint32_t i = 0; i < p->nprocs && !rc; i++) {
        if (!*p->proc[i].log)
            continue;
        char *path = one ? strdup(p->path) : stk_path_join(p->path, p->proc[i].log);
        m.proc = i;
        rc = path ? events_of(&m, path, err) : stk_err_nomem(err, folder);
        free(path);
    }
    free(m.stream);
    stk_lookup_release(&files.by_path);
    return rc;
}
