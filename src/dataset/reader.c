/*
 * reader.c - samples from extents. Sorts the wanted ranges of a batch by place and reads near ones
 * together; a range that fails affects only its own samples.
 */
#include "dataset/priv.h"
#include "base/file.h"
#include "dataset/label.h"

#include <stdlib.h>

#define MERGE_MAX (8u << 20)
#define BATCH_MAX (32u << 20) /* stored bytes read at once, if that can be chosen */

int stk_reader_new(struct stk_dataset *ds, struct stk_reader **out, struct stk_err *err)
{
    struct stk_reader *r = calloc(1, sizeof *r);
    if (!r)
        return stk_err_nomem(err, sizeof *r);
    r->ds = ds;
    stk_fetch_init(&r->fetch, ds);
    int rc = stk_handles_init(&r->handles, &ds->files, STK_FILE_PLAIN, OPEN_FILES, err);
    if (rc < 0)
        stk_reader_free(r);
    else
        *out = r;
    return rc;
}

void stk_reader_rest(struct stk_reader *r)
{
    stk_reader_forget(r, UINT64_MAX);
    for (int i = 0; i < NDECODED; i++)
        stk_buf_release(&r->decoded[i].data);
    r->decoded_bytes = 0;
    stk_fetch_release(&r->fetch);
    stk_buf_release(&r->bytes);
    stk_buf_release(&r->scratch);
    stk_buf_release(&r->stored);
}

void stk_reader_free(struct stk_reader *r)
{
    if (!r)
        return;
    stk_handles_release(&r->handles);
    stk_reader_rest(r);
    free(r);
}

void stk_reader_free_all(struct stk_reader *first)
{
    while (first) {
        struct stk_reader *next = first->next;
        stk_reader_free(first);
        first = next;
    }
}

uint64_t stk_reader_reads(const struct stk_reader *r)
{
    return r->reads;
}

uint64_t stk_reader_decoded_bytes(const struct stk_reader *r)
{
    return r->decoded_total;
}

/* ---- places ---- */

char *stk_reader_place(const struct stk_dataset *ds, uint64_t i, int64_t *offset)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_extent e;
    char *path = NULL;
    *offset = -1;
    if (stk_index_slices(&ds->index, i, &b, NULL) == 0 && b.len) {
        const struct stk_slice *s = (const void *)b.data;
        if (stk_index_extent(&ds->index, s->extent, &e, NULL) == 0) {
            path = stk_files_path(&ds->files, e.file);
            *offset =
                (int64_t)(e.offset - (s->length == UINT64_MAX && !e.chain ? ds->format->head : 0));
            *offset += e.chain ? 0 : (int64_t)s->offset;
        }
    }
    stk_buf_release(&b);
    return path;
}

/* Holds the file until another one is needed, so that further reads of it take no lock. */
static int hold_file(struct stk_reader *r, uint32_t file, struct stk_err *err)
{
    if (r->held && r->held->number == file)
        return 0;
    if (r->held)
        stk_handles_put(&r->handles, r->held);
    r->held = NULL;
    return stk_handles_get(&r->handles, file, &r->held, err);
}

/* ---- reading ---- */

int stk_reader_range(struct stk_reader *r, uint32_t file, uint64_t off, uint64_t len, uint8_t *to,
                     struct stk_err *err)
{
    size_t got;
    int rc = hold_file(r, file, err);
    if (rc < 0)
        return rc;
    rc = stk_pread_full(r->held->fd, to, (size_t)len, off, &got, NULL, err);
    r->reads++;
    if (rc == 0 && got < len)
        rc = stk_err_set(err, STK_E_STALE, NULL, (int64_t)(off + got), "the file became shorter");
    else if (rc == 0 && !r->ds->format->check && /* no checksum would reveal it */
             stk_file_changed(&r->ds->files, file, r->held->fd, &r->held->stamp))
        rc =
            stk_err_set(err, STK_E_STALE, NULL, (int64_t)off, "the file changed while it was read");
    if (rc < 0 && err)
        stk_files_blame(&r->ds->files, file, err);
    return rc;
}

/* Reads wants [i, j) of the order in one request; if that fails, each separately. */
static void read_bundle(struct stk_reader *r, size_t i, size_t j, uint64_t from, uint64_t to)
{
    struct stk_err why = {0};
    uint8_t *at = stk_buf_extend(&r->bytes, (size_t)(to - from));
    int rc = stk_reader_range(r, stk_fetch_at(&r->fetch, i)->file, from, to - from, at, &why);
    for (size_t k = i; k < j; k++) {
        struct stk_want *w = stk_fetch_at(&r->fetch, k);
        uint8_t *p = at + (w->off - from);
        w->p = p;
        if (rc == 0)
            continue;
        struct stk_err own = why;
        int one = j - i == 1 ? rc : stk_reader_range(r, w->file, w->off, w->len, p, &own);
        if (one < 0)
            stk_fetch_fail(&r->fetch, w, one, &own);
    }
}

/* The bytes of the planned reads. */
static int batch_bytes(const struct stk_reader *r, uint64_t *total, struct stk_err *err)
{
    uint64_t from, to;
    *total = 0;
    for (size_t i = 0; i < stk_fetch_nwants(&r->fetch);) {
        i = stk_fetch_bundle(&r->fetch, i, MERGE_MAX, &from, &to);
        if (__builtin_add_overflow(*total, to - from, total) || *total > SIZE_MAX / 2)
            return stk_err_nomem(err, *total);
    }
    return 0;
}

/* Samples from all over a compressed file would load all of it at once: reads each shared extent
 * only when its sample is due. */
static int postpone_shared(struct stk_reader *r, struct stk_err *err)
{
    struct stk_fetch *f = &r->fetch;
    for (size_t i = 0; i < f->wants.len / sizeof(struct stk_want); i++) {
        struct stk_want *w = stk_fetch_want(f, i);
        if (w->chain && stk_fetch_slice(f, i)->length != UINT64_MAX)
            w->len = 0;
    }
    return stk_fetch_sort(f, err);
}

static bool is_decoded(void *user, uint64_t extent)
{
    return stk_reader_decoded(user, extent) != NULL;
}

int stk_reader_batch(struct stk_reader *r, const uint64_t *ids, size_t n, struct stk_err *err)
{
    /* A caller that reads in batches moves on: it will not need what the last batch did not
     * need. */
    if (n > 1)
        stk_reader_forget(r, r->batch_clock);
    r->batch_clock = r->clock;
    stk_fetch_reset(&r->fetch);
    stk_buf_reset(&r->bytes);
    int rc = 0;
    for (size_t k = 0; rc == 0 && k < n; k++)
        rc = stk_fetch_add(&r->fetch, ids[k], is_decoded, r, err);
    if (rc == 0)
        rc = stk_fetch_sort(&r->fetch, err);
    /* Walks the same bundles twice: to compute the memory, then to read. */
    uint64_t total = 0, from, to;
    if (rc == 0)
        rc = batch_bytes(r, &total, err);
    if (rc == 0 && total > BATCH_MAX) {
        rc = postpone_shared(r, err);
        if (rc == 0)
            rc = batch_bytes(r, &total, err);
    }
    if (rc < 0 || !stk_buf_room(&r->bytes, (size_t)total + 1))
        return rc < 0 ? rc : stk_err_nomem(err, total);
    for (size_t i = 0, j; i < stk_fetch_nwants(&r->fetch); i = j) {
        j = stk_fetch_bundle(&r->fetch, i, MERGE_MAX, &from, &to);
        read_bundle(r, i, j, from, to);
    }
    return 0;
}

static void begin_sample(struct stk_reader *r)
{
    r->last_sample_clock = r->sample_clock;
    r->sample_clock = r->clock;
}

int stk_reader_get(struct stk_reader *r, size_t k, struct stk_sample *s, struct stk_err *err)
{
    uint64_t bytes;
    begin_sample(r);
    int rc = stk_assemble_check(&r->fetch, k, stk_reader_slice, r, &bytes, err);
    return rc < 0 ? rc : stk_assemble(&r->fetch, k, stk_reader_slice, r, s, err);
}

int stk_reader_sum(struct stk_reader *r, size_t k, uint32_t *crc, struct stk_err *err)
{
    uint64_t bytes;
    begin_sample(r);
    int rc = stk_assemble_sum(&r->fetch, k, stk_reader_slice, r, crc, &bytes, err);
    if (rc < 0)
        stk_assemble_locate(r->ds, stk_fetch_id(&r->fetch, k), rc, err);
    return rc;
}

static int take_idle(struct stk_dataset *ds, struct stk_reader **r, struct stk_err *err)
{
    pthread_mutex_lock(&ds->lock);
    *r = ds->idle;
    if (*r)
        ds->idle = (*r)->next;
    pthread_mutex_unlock(&ds->lock);
    return *r ? 0 : stk_reader_new(ds, r, err);
}

/* Adds the label that only the sample's directory has. */
static int add_label(struct stk_dataset *ds, struct stk_sample *s, struct stk_err *err)
{
    struct stk_labels *l;
    int64_t label;
    int rc = stk_dataset_labels(ds, &l, err);
    if (rc < 0 || !l || stk_sample_find(s, "label"))
        return rc;
    rc = stk_labels_of(l, s->key, s->key_len, &label, err);
    return rc <= 0 ? rc : stk_sample_set_label(s, label, err);
}

static void give_back(struct stk_dataset *ds, struct stk_reader *r)
{
    pthread_mutex_lock(&ds->lock);
    r->next = ds->idle;
    ds->idle = r;
    pthread_mutex_unlock(&ds->lock);
}

/* Empties the samples. One of their buffers serves the next read. NULL: out of memory. */
static struct stk_hold *take_hold(struct stk_sample *const *s, size_t n)
{
    struct stk_hold *h = NULL;
    for (size_t k = 0; k < n; k++) {
        struct stk_hold *mine = stk_sample_let_go(s[k]);
        if (h && mine && mine->bytes.cap > h->bytes.cap) { /* keeps the largest */
            struct stk_hold *other = h;
            h = mine;
            mine = other;
        }
        if (h)
            stk_hold_free(mine);
        else
            h = mine;
    }
    return h ? h : calloc(1, sizeof *h);
}

static int get_samples(struct stk_reader *r, struct stk_sample *const *s, size_t n,
                       struct stk_err *err)
{
    int rc = 0;
    for (size_t k = 0; rc == 0 && k < n; k++) {
        rc = stk_reader_get(r, k, s[k], err);
        if (rc == 0)
            rc = add_label(r->ds, s[k], err);
        if (rc < 0)
            stk_sample_reset(s[k]);
    }
    return rc;
}

/* Reads into the hold's buffer, which the samples share from then on. */
static int read_to(struct stk_hold *h, struct stk_reader *r, const uint64_t *index, size_t n,
                   struct stk_sample *const *s, struct stk_err *err)
{
    struct stk_buf own = r->bytes;
    r->bytes = h->bytes;
    int rc = stk_reader_batch(r, index, n, err);
    if (rc == 0)
        rc = get_samples(r, s, n, err);
    h->bytes = r->bytes;
    r->bytes = own;
    atomic_store(&h->samples, n);
    for (size_t k = 0; k < n; k++)
        s[k]->hold = h;
    return rc;
}

static int check_call(const struct stk_dataset *ds, const uint64_t *index, size_t n,
                      struct stk_sample *const *s, struct stk_err *err)
{
    const char *none = !ds ? "dataset" : !index || !s ? "list of samples" : NULL;
    for (size_t k = 0; !none && k < n; k++)
        none = s[k] ? NULL : "sample to read to";
    return none ? stk_err_set(err, STK_E_USAGE, NULL, -1, "there is no %s (NULL)", none) : 0;
}

int stk_dataset_read_many(struct stk_dataset *ds, const uint64_t *index, size_t n,
                          struct stk_sample *const *s, struct stk_err *err)
{
    struct stk_reader *r;
    if (n == 0 && ds)
        return 0;
    int rc = check_call(ds, index, n, s, err);
    if (rc == 0)
        rc = take_idle(ds, &r, err);
    if (rc < 0)
        return rc;
    struct stk_hold *h = take_hold(s, n);
    rc = h ? read_to(h, r, index, n, s, err) : stk_err_nomem(err, sizeof *h);
    give_back(ds, r);
    return rc;
}

int stk_dataset_read(struct stk_dataset *ds, uint64_t i, struct stk_sample *s, struct stk_err *err)
{
    return stk_dataset_read_many(ds, &i, 1, &s, err);
}

/* ---- decoded extents ------------------------------------------------------------------------- */

/* The bytes of a slice, with filters undone; keeps decoded extents for the samples that share
 * them. */

/* Kept extents are looked up by number: neighbours are in different chains. */
static uint16_t *chain_of(struct stk_reader *r, uint64_t extent)
{
    return &r->decoded_chain[extent % NDECODED];
}

struct decoded *stk_reader_decoded(struct stk_reader *r, uint64_t extent)
{
    for (unsigned i = *chain_of(r, extent); i; i = r->decoded[i - 1].next)
        if (r->decoded[i - 1].used && r->decoded[i - 1].extent == extent)
            return &r->decoded[i - 1];
    return NULL;
}

static void link_decoded(struct stk_reader *r, struct decoded *d)
{
    uint16_t *chain = chain_of(r, d->extent);
    d->next = *chain;
    *chain = (uint16_t)(d - r->decoded + 1);
    d->linked = true;
}

static void unlink_decoded(struct stk_reader *r, struct decoded *d)
{
    uint16_t *at = chain_of(r, d->extent), number = (uint16_t)(d - r->decoded + 1);
    while (d->linked && *at != number)
        at = &r->decoded[*at - 1].next;
    if (d->linked)
        *at = d->next;
    d->linked = false;
}

/* True if the kept extents exceed their limit; d is the least recently used of them. */
static bool is_over(const struct stk_reader *r, const struct decoded *d)
{
    bool recent = d && d->used > r->last_sample_clock;
    return r->decoded_bytes > (recent ? SAMPLE_MOST : DECODED_MAX);
}

/* An empty entry, or the least recently used one; over the budget, drops the oldest ones. */
static struct decoded *free_decoded(struct stk_reader *r)
{
    for (;;) {
        struct decoded *empty = NULL, *oldest = NULL;
        for (int i = 0; i < NDECODED; i++) {
            struct decoded *d = &r->decoded[i];
            if (!d->used)
                empty = empty ? empty : d;
            else if (!oldest || d->used < oldest->used)
                oldest = d;
        }
        bool over = is_over(r, oldest);
        if (empty && (!over || !oldest)) {
            r->decoded_bytes -= empty->data.cap;
            unlink_decoded(r, empty);
            return empty;
        }
        oldest->used = 0;
        if (!over)
            continue;
        r->decoded_bytes -= oldest->data.cap;
        stk_buf_release(&oldest->data);
    }
}

void stk_reader_forget(struct stk_reader *r, uint64_t since)
{
    for (int i = 0; i < NDECODED; i++)
        if (r->decoded[i].used <= since)
            r->decoded[i].used = 0;
}

static int decode_extent(struct stk_reader *r, uint64_t extent, const struct stk_extent *e,
                         const uint8_t *p, struct decoded **out, struct stk_err *err)
{
    struct decoded *d = free_decoded(r);
    int rc = stk_fetch_decode(r->ds, extent, e, p, &d->data, &r->scratch, err);
    r->decoded_bytes += d->data.cap;
    if (rc < 0)
        return rc;
    r->decoded_total += d->data.len;
    d->extent = extent;
    d->used = ++r->clock;
    link_decoded(r, d);
    *out = d;
    return 0;
}

/* Reads the stored bytes of an extent that was kept when the batch was planned, or postponed. */
static int read_now(struct stk_reader *r, const struct stk_extent *e, const uint8_t **p,
                    struct stk_err *err)
{
    stk_buf_reset(&r->stored);
    if (!stk_buf_room(&r->stored, (size_t)e->length + 1))
        return stk_err_nomem(err, e->length);
    *p = r->stored.data;
    return stk_reader_range(r, e->file, e->offset, e->length, r->stored.data, err);
}

/* The bytes of a filtered slice: from a kept extent, else decoded now. */
static int decoded_slice(struct stk_reader *r, uint32_t i, const uint8_t **p, uint64_t *len,
                         struct stk_err *err)
{
    const struct stk_slice *s = stk_fetch_slice(&r->fetch, i);
    struct stk_extent e;
    const uint8_t *stored;
    uint64_t n;
    int rc = stk_index_extent(&r->ds->index, s->extent, &e, err);
    struct decoded *d = stk_reader_decoded(r, s->extent);
    if (rc == 0 && stk_fetch_want(&r->fetch, i)->len)
        rc = stk_fetch_stored(&r->fetch, i, false, &stored, &n, err);
    else if (rc == 0 && !d)
        rc = read_now(r, &e, &stored, err);
    if (rc == 0 && !d)
        rc = decode_extent(r, s->extent, &e, stored, &d, err);
    if (rc < 0)
        return rc;
    d->used = ++r->clock;
    return stk_fetch_cut(r->ds, s, &e, &d->data, p, len, err);
}

int stk_reader_slice(void *user, uint32_t i, const uint8_t **p, uint64_t *len, bool *fleeting,
                     struct stk_err *err)
{
    struct stk_reader *r = user;
    const struct stk_want *w = stk_fetch_want(&r->fetch, i);
    *fleeting = w->chain != 0;
    *p = (const uint8_t *)"";
    *len = 0;
    if (stk_fetch_slice(&r->fetch, i)->length == 0)
        return 0;
    if (w->failed) {
        if (err && w->why < r->fetch.nerrs)
            *err = r->fetch.errs[w->why];
        return w->failed;
    }
    return w->chain ? decoded_slice(r, i, p, len, err)
                    : stk_fetch_stored(&r->fetch, i, false, p, len, err);
}
