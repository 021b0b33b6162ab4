/*
 * log.c - reads one process's log (proflog/log.h), block by block, into a profile. The
 * process may have been killed, the disk full, the file cut or damaged: every number is checked
 * before use, intact parts are used, and damage is noted.
 */
#include "profile/priv.h"

#include "base/file.h"
#include "base/own.h"
#include "proflog/slots.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define WINDOW                                                                                     \
    128u /* blocks: 8 MiB per read, since parallel file systems prefer few large reads             \
          */
#define ROOM         (STK_LOG_BLOCK - sizeof(struct stk_log_block))
#define IDS_AT_LEAST (1u << 21) /* twice as many as a process may name */
/* Bins wider than half a year are not a time line. */
#define MAX_BIN_NS (1ull << 54)
#define LONGEST_NS (1ull << 57) /* four years: no process runs longer */

static int check_header(struct stk_log_file *f, size_t got, uint64_t size, struct stk_err *err)
{
    struct stk_log_header *h = &f->head;
    memcpy(h, f->zero, sizeof *h);
    if (got >= sizeof *h && h->magic == STK_SLOTS_MAGIC)
        return stk_err_set(err, STK_E_UNSUPPORTED, f->path, 8,
                           "logs written by another version of stoker");
    if (got < sizeof *h || h->magic != STK_LOG_MAGIC)
        return stk_err_set(err, STK_E_CORRUPT, f->path, 0, "not a log of the preload library%s",
                           got < sizeof *h ? " (too short)" : "");
    if (h->version != STK_LOG_VERSION || h->header_bytes != sizeof *h ||
        h->block_bytes != STK_LOG_BLOCK || h->counters != STK_C_COUNT)
        return stk_err_set(err, STK_E_UNSUPPORTED, f->path, 8,
                           "written by another version of stoker");
    h->parent[sizeof h->parent - 1] = h->host[sizeof h->host - 1] = '\0';
    h->exe[sizeof h->exe - 1] = h->cwd[sizeof h->cwd - 1] = '\0';
    h->name[sizeof h->name - 1] = '\0';
    uint64_t whole = size / STK_LOG_BLOCK;
    f->cut = h->nblocks > whole || got < STK_LOG_FIRST;
    f->nblocks = (h->nblocks > whole ? (uint32_t)whole : h->nblocks) + STK_LOG_SMALL;
    return 0;
}

int stk_log_open(struct stk_log_file *f, const struct stk_log_at *where, struct stk_err *err)
{
    struct stat sb;
    size_t got = 0;
    *f = (struct stk_log_file){.path = where->path, .fd = -1};
    if (!(f->zero = calloc(1, STK_LOG_FIRST)))
        return stk_err_nomem(err, STK_LOG_FIRST);
    int rc = stk_read_open(AT_FDCWD, f->path, 0, &f->fd, &sb, f->path, err);
    if (rc == STK_E_UNSUPPORTED)
        rc = STK_E_CORRUPT; /* a pipe or the like: not a log of any version */
    rc = rc ? rc : stk_pread_full(f->fd, f->zero, STK_LOG_FIRST, where->at, &got, f->path, err);
    /* A slot has block 0 only. */
    rc = rc ? rc : check_header(f, got, where->at ? STK_LOG_BLOCK : (uint64_t)sb.st_size, err);
    if (rc)
        stk_log_close(f);
    return rc;
}

void stk_log_close(struct stk_log_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    free(f->window);
    free(f->zero);
    f->window = f->zero = NULL;
    f->fd = -1;
}

uint64_t stk_log_block_at(uint32_t i)
{
    return (uint64_t)(i - STK_LOG_SMALL) * STK_LOG_BLOCK;
}

static const struct stk_log_block *small_block(const struct stk_log_file *f, uint32_t i)
{
    struct stk_log_small small = stk_log_small(i);
    const struct stk_log_block *b = (const void *)(f->zero + small.at);
    bool empty = !b->kind && !b->used;
    return b->used <= small.bytes - sizeof *b && (empty || b->kind == small.kind) ? b : NULL;
}

const struct stk_log_block *stk_log_block(struct stk_log_file *f, uint32_t i)
{
    if (!i || i >= f->nblocks)
        return NULL;
    if (i <= STK_LOG_SMALL)
        return small_block(f, i - 1);
    uint32_t want = f->nblocks < WINDOW ? f->nblocks : WINDOW;
    if (!f->window && !(f->window = malloc((size_t)want * STK_LOG_BLOCK)))
        return NULL;
    if (i < f->first || i - f->first >= f->count) {
        size_t n = f->nblocks - i < want ? f->nblocks - i : want, got = 0;
        f->count = 0;
        if (stk_pread_full(f->fd, f->window, n * STK_LOG_BLOCK, stk_log_block_at(i), &got, f->path,
                           NULL) < 0)
            return NULL;
        f->first = i;
        f->count = (uint32_t)(got / STK_LOG_BLOCK);
        if (!f->count)
            return NULL;
    }
    const struct stk_log_block *b =
        (const void *)(f->window + (size_t)(i - f->first) * STK_LOG_BLOCK);
    return b->used <= ROOM && b->kind <= STK_BLK_MARKS ? b : NULL;
}

/* ---- names ---- */

void stk_log_names_release(struct stk_log_names *names)
{
    stk_buf_release(&names->text);
    free(names->name);
    *names = (struct stk_log_names){0};
}

static int add_name(struct stk_log_names *t, size_t *room, uint32_t id, const char *text,
                    uint32_t length, struct stk_err *err)
{
    if (STK_ARRAY_ROOM(t->name, *room, (size_t)id + 1, err))
        return STK_E_NOMEM;
    for (; t->count <= id; t->count++) {
        t->name[t->count].length = 0;
        t->name[t->count].file = STK_PB_NONE;
    }
    t->name[id].at = t->text.len;
    t->name[id].length = length;
    stk_buf_put(&t->text, text, length);
    return stk_buf_check(&t->text, err);
}

static int names_of_block(struct stk_log_names *t, size_t *room, const struct stk_log_block *b,
                          uint32_t max_id, bool *damaged, struct stk_err *err)
{
    const uint8_t *data = (const uint8_t *)(b + 1);
    struct stk_log_name n;
    int rc = 0;
    for (size_t at = 0; !rc && at + sizeof n <= b->used;) {
        memcpy(&n, data + at, sizeof n);
        at += sizeof n;
        if (!n.id || n.id > max_id || n.length > b->used - at) {
            *damaged = true;
            return 0;
        }
        rc = add_name(t, room, n.id, (const char *)data + at, n.length, err);
        at += (n.length + 7u) & ~7u;
    }
    return rc;
}

int stk_log_names(struct stk_log_file *f, struct stk_log_names *names, bool *damaged,
                  struct stk_err *err)
{
    /* Larger ids are not ours, and must not make a table larger than the log. (A forked child
     * continues its parent's ids, so a small log may have large ones.) */
    uint64_t most = (uint64_t)f->nblocks * (STK_LOG_BLOCK / sizeof(struct stk_log_name));
    most = most > IDS_AT_LEAST ? most : IDS_AT_LEAST;
    uint32_t max_id = most < UINT32_MAX - 1 ? (uint32_t)most : UINT32_MAX - 1;
    size_t room = 0;
    int rc = 0;
    *names = (struct stk_log_names){0};
    for (uint32_t i = 1; i < f->nblocks && !rc; i++) {
        const struct stk_log_block *b = stk_log_block(f, i);
        if (!b)
            *damaged = true;
        else if (b->kind == STK_BLK_NAMES)
            rc = names_of_block(names, &room, b, max_id, damaged, err);
    }
    return rc;
}

/* ---- one log into the profile ---- */

struct reading {
    struct stk_pb *pb;
    struct stk_log_file file;
    struct stk_log_names names;
    uint32_t proc;
    struct stk_log_thread *thread;
    size_t nthreads;
    struct stk_pb_slots slots;
    bool damaged;
};

/* The file a name refers to; STK_PB_NONE if the name is missing. */
static int file_of(struct reading *r, uint32_t id, bool group, uint32_t *out, struct stk_err *err)
{
    *out = STK_PB_NONE;
    if (id >= r->names.count || !r->names.name[id].length)
        return 0;
    if (r->names.name[id].file == STK_PB_NONE) {
        const char *text = (const char *)r->names.text.data + r->names.name[id].at;
        /* "*.jpg" covers all directories, not this one. */
        const char *cwd = group && text[0] == '*' ? "" : r->file.head.cwd;
        int rc = stk_pb_file(r->pb, cwd, text, r->names.name[id].length, group,
                             &r->names.name[id].file, err);
        if (rc)
            return rc;
    }
    *out = r->names.name[id].file;
    return 0;
}

static int note_members(struct stk_pb *pb, uint32_t file, const uint8_t *files, struct stk_err *err)
{
    struct stk_pb_file *f = &pb->file[file];
    uint8_t *reg = f->members ? f->members : stk_arena_alloc(&pb->p->arena, STK_PB_MEMBERS);
    if (!reg)
        return stk_err_nomem(err, STK_PB_MEMBERS);
    for (size_t i = 0; i < STK_PB_MEMBERS; i++)
        reg[i] = f->members && reg[i] > files[i] ? reg[i] : files[i];
    f->members = reg;
    return 0;
}

static int one_record(struct reading *r, const struct stk_log_record *record, struct stk_err *err)
{
    struct stk_pb *pb = r->pb;
    uint32_t file, rec;
    if (record->api >= STK_API_COUNT || record->group > 1) {
        r->damaged = true;
        return 0;
    }
    int rc = file_of(r, record->name, record->group, &file, err);
    if (rc || file == STK_PB_NONE)
        return rc; /* no name yet: the process was about to use the file */
    struct stk_prof_file *f = &pb->p->file[file];
    struct stk_pb_proc *x = &pb->proc[r->proc];
    pb->file[file].fs_type = record->fs_type ? record->fs_type : pb->file[file].fs_type;
    f->stripe_bytes = record->stripe_bytes ? record->stripe_bytes : f->stripe_bytes;
    f->stripe_count = record->stripe_count ? record->stripe_count : f->stripe_count;
    f->layouts |= record->layouts & (STK_LAYOUT_WHOLE | STK_LAYOUT_CHUNKS);
    if (record->n.c[STK_C_LAST_NS] < LONGEST_NS && record->n.c[STK_C_LAST_NS] > x->last_ns)
        x->last_ns = record->n.c[STK_C_LAST_NS]; /* the header lags slightly behind */
    if (f->group)
        rc = note_members(pb, file, record->files, err);
    rc = rc ? rc : stk_pb_rec(pb, file, record->api, &rec, err);
    return rc ? rc : stk_pb_rec_add(pb, rec, &record->n, &record->read, err);
}

static int records_of_block(struct reading *r, const struct stk_log_block *b, struct stk_err *err)
{
    const struct stk_log_record *record = (const void *)(b + 1);
    int rc = 0;
    for (size_t i = 0; i < b->used / sizeof *record && !rc; i++) {
        rc = one_record(r, &record[i], err);
        rc = rc ? rc : stk_pb_slot(&r->slots, b->slot, &record[i], err);
    }
    return rc;
}

static int thread_of_block(struct reading *r, const struct stk_log_block *b, struct stk_err *err)
{
    const struct stk_log_thread *t = (const void *)(b + 1);
    if (b->used < sizeof *t || !t->bin_ns || t->bin_ns > MAX_BIN_NS) {
        r->damaged = r->damaged || b->used >= sizeof *t;
        return 0;
    }
    int rc = STK_ARRAY_MORE(r->thread, r->nthreads, err);
    if (!rc)
        r->thread[r->nthreads++] = *t;
    return rc;
}

static int marks_of_block(struct reading *r, const struct stk_log_block *b, struct stk_err *err)
{
    const struct stk_log_mark *m = (const void *)(b + 1);
    int rc = 0;
    for (size_t i = 0; i < b->used / sizeof *m && !rc; i++) {
        if (m[i].kind < STK_MARK_STEP || m[i].kind > STK_MARK_EPOCH) {
            r->damaged = true;
            continue;
        }
        struct stk_prof_mark mark = {.proc = r->proc,
                                     .kind = m[i].kind,
                                     .at_s = (double)m[i].at_ns / 1e9,
                                     .length_s = (double)m[i].length_ns / 1e9,
                                     .name = "",
                                     .number = m[i].number,
                                     .depth = m[i].depth};
        uint32_t id = m[i].name;
        if (id && id < r->names.count && r->names.name[id].length)
            mark.name = stk_pb_text(r->pb, (const char *)r->names.text.data + r->names.name[id].at,
                                    r->names.name[id].length);
        rc = mark.name ? stk_pb_mark(r->pb, &mark, err) : stk_err_nomem(err, 1);
    }
    return rc;
}

static int read_blocks(struct reading *r, struct stk_err *err)
{
    int rc = stk_log_names(&r->file, &r->names, &r->damaged, err);
    for (uint32_t i = 1; i < r->file.nblocks && !rc; i++) {
        const struct stk_log_block *b = stk_log_block(&r->file, i);
        if (!b)
            r->damaged = true;
        else if (b->kind == STK_BLK_RECORDS)
            rc = records_of_block(r, b, err);
        else if (b->kind == STK_BLK_THREAD)
            rc = thread_of_block(r, b, err);
        else if (b->kind == STK_BLK_MARKS)
            rc = marks_of_block(r, b, err);
    }
    rc = rc ? rc : stk_pb_slots_keep(r->pb, &r->slots, err);
    return rc ? rc : stk_pb_line(r->pb, r->thread, r->nthreads, err);
}

/* "a\0b c\0\0" becomes "a 'b c'", quoted as for a shell. */
static const char *command_text(struct stk_pb *pb, const char *list, size_t size)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_secret secret = {0};
    for (size_t at = 0; at < size && list[at];) {
        size_t n = strnlen(list + at, size - at);
        stk_pb_word(&b, &secret, list + at, n);
        at += n + 1;
    }
    const char *text = b.fail ? NULL : stk_pb_text(pb, (const char *)b.data, b.len);
    stk_buf_release(&b);
    return text;
}

static void fill_numbers(struct stk_pb *pb, uint32_t proc, const struct stk_log_header *h)
{
    struct stk_prof_proc *p = &pb->p->proc[proc];
    struct stk_pb_proc *x = &pb->proc[proc];
    p->pid = h->pid;
    p->ppid = h->ppid;
    p->born = h->born <= STK_BORN_EXEC ? h->born : STK_BORN_START;
    p->left_out_files = h->left_out_files;
    p->left_out_calls = h->left_out_calls;
    p->left_out_read_bytes = h->left_out_read_bytes;
    p->left_out_ns = h->left_out_ns;
    p->dropped_calls = h->dropped_calls;
    p->dropped_trace = h->dropped_trace;
    p->uring_rings = h->uring_rings;
    p->kernel_aio_calls = h->kernel_aio_calls;
    p->blind =
        (h->uring_rings && !h->told_read_bytes) || h->kernel_aio_results < h->kernel_aio_transfers;
    p->told_read_bytes = h->told_read_bytes;
    p->grouped_files = h->grouped_files;
    p->libraries = h->libraries;
    p->minor_faults = h->minor_faults;
    p->major_faults = h->major_faults;
    p->cpu_s = (double)h->cpu_ns / 1e9;
    p->user_s = fmin((double)h->user_ms / 1e3, p->cpu_s);
    p->wait_processes_s = (double)h->wait_processes_ns / 1e9;
    p->wait_threads_s = (double)h->wait_threads_ns / 1e9;
    p->seen_read_bytes = h->left_out_read_bytes + h->stream_read_bytes;
    x->ahead_bytes = (int64_t)h->stream_ahead_bytes;
    p->seen_write_bytes = h->left_out_write_bytes + h->stream_write_bytes;
    x->start_real_ns = h->start_real_ns;
    x->start_mono_ns = h->start_mono_ns;
    x->last_ns = h->last_ns;
    x->end_ns = h->end_ns;
    x->end = h->end <= STK_END_ABORT ? h->end : STK_END_NONE;
    x->pid_space = h->pid_space;
    memcpy(x->kernel, h->kernel, sizeof x->kernel);
    memcpy(x->kernel_start, h->kernel0, sizeof x->kernel_start);
    pb->p->traced |= h->trace != 0;
    pb->p->stopped_early |= h->stopped != STK_STOP_NONE;
    x->stopped = h->stopped;
    memcpy(x->aio_bytes, h->kernel_aio_bytes, sizeof x->aio_bytes);
}

/* Where the files lie that were left out. */
static int fill_places(struct stk_pb *pb, uint32_t proc, const struct stk_log_header *h,
                       struct stk_err *err)
{
    struct stk_log_place *to = stk_arena_alloc(&pb->p->arena, sizeof h->left_out);
    if (!to)
        return stk_err_nomem(err, sizeof h->left_out);
    memcpy(to, h->left_out, sizeof h->left_out);
    for (size_t i = 0; i < STK_LOG_PLACES; i++)
        to[i].folder[sizeof to[i].folder - 1] = '\0';
    pb->p->proc[proc].places = to;
    return 0;
}

static int fill_process(struct reading *r, const char *name, struct stk_err *err)
{
    struct stk_pb *pb = r->pb;
    const struct stk_log_header *h = &r->file.head;
    int rc = stk_pb_proc(pb, &r->proc, err);
    if (rc)
        return rc;
    fill_numbers(pb, r->proc, h);
    rc = h->left_out_ns ? fill_places(pb, r->proc, h, err) : 0;
    if (rc)
        return rc;
    struct stk_prof_proc *p = &pb->p->proc[r->proc];
    struct stk_pb_proc *x = &pb->proc[r->proc];
    p->ended = x->end;
    p->exe = stk_pb_text(pb, h->exe, strlen(h->exe));
    p->cwd = stk_pb_text(pb, h->cwd, strlen(h->cwd));
    p->log = stk_pb_text(pb, name, strlen(name));
    p->command = command_text(pb, h->command, sizeof h->command);
    x->parent_log = stk_pb_text(pb, h->parent, strlen(h->parent));
    if (!p->exe || !p->cwd || !p->log || !p->command || !x->parent_log)
        return stk_err_nomem(err, sizeof *h);
    stk_pb_env_rank(pb, r->proc, h->environment, sizeof h->environment);
    return stk_pb_host(pb, h->host, &p->host, err);
}

int stk_pb_log(struct stk_pb *pb, const struct stk_log_at *where, const char *name,
               struct stk_err *err)
{
    struct reading r = {.pb = pb};
    struct stk_err why = {0};
    pb->logs++;
    int rc = stk_log_open(&r.file, where, &why);
    if (rc) {
        char text[300 + sizeof why.what];
        snprintf(text, sizeof text, "%.250s: %s", name, why.what);
        stk_pb_tally(pb, rc == STK_E_UNSUPPORTED ? &pb->other_version : &pb->damaged, text);
        return 0;
    }
    rc = fill_process(&r, name, err);
    rc = rc ? rc : read_blocks(&r, err);
    if (!rc && (r.damaged || r.file.cut)) {
        char text[400];
        snprintf(text, sizeof text, "%.250s: %s; its intact parts were used", name,
                 r.file.cut ? "cut off" : "some blocks are invalid");
        stk_pb_tally(pb, &pb->damaged, text);
    }
    free(r.thread);
    free(r.slots.of);
    stk_log_names_release(&r.names);
    stk_log_close(&r.file);
    return rc;
}
