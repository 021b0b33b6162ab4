/*
 * fetch.c - from samples to ranges of files, and from ranges to bundles that one request reads.
 */
#include "dataset/fetch.h"
#include "base/buf.h"
#include "base/hash.h"
#include "dataset/reader.h"
#include "format/lister.h"

#include <stdlib.h>
#ifdef STK_HAVE_LIBDEFLATE
#include <libdeflate.h> /* its CRC-32 takes a tenth of zlib's time */
#else
#include <zlib.h>
#endif

#define MERGE_GAP  (32u << 10) /* bytes worth reading in vain to save a request */
#define RADIX_BITS 10
#define RADIX      (1u << RADIX_BITS)
#define SAMPLE_MAX (2ull << 30) /* stored bytes of a sample; also the limit of protobuf */

void stk_fetch_init(struct stk_fetch *f, struct stk_dataset *ds)
{
    *f = (struct stk_fetch){.ds = ds};
    struct stk_buf *large[] = {&f->slices, &f->wants, &f->places};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        large[i]->own_pages = true;
}

void stk_fetch_release(struct stk_fetch *f)
{
    struct stk_buf *bufs[] = {&f->ids, &f->first, &f->slices, &f->wants, &f->order, &f->places};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++)
        stk_buf_release(bufs[i]);
    free(f->errs);
    f->errs = NULL;
    f->errs_room = 0;
    f->nerrs = 0;
}

void stk_fetch_reset(struct stk_fetch *f)
{
    uint32_t zero = 0;
    stk_buf_reset(&f->ids);
    stk_buf_reset(&f->first);
    stk_buf_reset(&f->slices);
    stk_buf_reset(&f->wants);
    stk_buf_reset(&f->order);
    stk_buf_put(&f->first, &zero, sizeof zero);
    f->nerrs = 0;
}

/* ---- what samples need ---- */

static int past_the_file(const struct stk_dataset *ds, struct stk_err *err)
{
    return stk_err_set(err, STK_E_CORRUPT, ds->index_path, -1,
                       "damaged index: a record runs past its file");
}

/* The stored range that a slice needs: of a plain extent just the slice (and the record's frame),
 * of a filtered extent all of it. */
static int want_of(const struct stk_dataset *ds, const struct stk_slice *s, struct stk_want *w,
                   bool (*have)(void *user, uint64_t extent), void *user, struct stk_err *err)
{
    struct stk_extent e;
    *w = (struct stk_want){0};
    if (s->length == 0)
        return 0; /* an empty value has no place */
    int rc = stk_index_extent(&ds->index, s->extent, &e, err);
    if (rc < 0)
        return rc;
    bool whole = s->length == UINT64_MAX;
    w->file = e.file;
    w->chain = (uint8_t)e.chain;
    if (e.chain && !whole && have && have(user, s->extent))
        return 0;
    w->framed = whole && ds->format->check;
    uint64_t head = w->framed ? ds->format->head : 0, tail = w->framed ? ds->format->tail : 0;
    if (e.chain || whole) {
        w->off = e.offset - head;
        w->len = e.length + head + tail;
    } else {
        w->off = e.offset + s->offset;
        w->len = s->length;
        if (s->offset > e.length || s->length > e.length - s->offset)
            return stk_err_set(err, STK_E_CORRUPT, ds->index_path, -1,
                               "damaged index: a slice runs past its extent");
    }
    const struct stk_index_file *f;
    const char *name;
    rc = stk_index_file(&ds->index, e.file, &f, &name, err);
    if (rc == 0 && (head > e.offset || w->off > f->size || w->len > f->size - w->off))
        rc = past_the_file(ds, err);
    return rc;
}

void stk_fetch_fail(struct stk_fetch *f, struct stk_want *w, int code, const struct stk_err *why)
{
    w->failed = code;
    w->why = UINT32_MAX;
    if (STK_ARRAY_ROOM(f->errs, f->errs_room, f->nerrs + 1, NULL))
        return; /* the code alone must suffice */
    w->why = f->nerrs;
    f->errs[f->nerrs++] = *why;
}

/* A length in a file is no reason to allocate that much memory: a sparse file can have any length,
 * and an index can claim any length for a slice of a filtered extent. */
static void refuse_huge(struct stk_fetch *f, uint64_t id, uint32_t first, uint32_t end)
{
    struct stk_want *w = stk_fetch_want(f, 0);
    uint64_t total = 0;
    for (uint32_t i = first; i < end; i++) {
        bool again = i > first && w[i].file == w[i - 1].file && w[i].off == w[i - 1].off;
        uint64_t decoded = stk_fetch_shares(f, i) ? stk_fetch_slice(f, i)->length : 0;
        uint64_t stored = again ? 0 : w[i].len;
        if (__builtin_add_overflow(total, stored > decoded ? stored : decoded, &total))
            total = UINT64_MAX;
    }
    if (total <= SAMPLE_MAX)
        return;
    int64_t off;
    char *path = stk_reader_place(f->ds, id, &off);
    struct stk_err why = {0};
    stk_err_set(&why, STK_E_UNSUPPORTED, path, off,
                "a sample of %llu bytes; samples of more than 2 GiB are not taken into memory",
                (unsigned long long)total);
    stk_fetch_fail(f, &w[first], STK_E_UNSUPPORTED, &why);
    for (uint32_t i = first; i < end; i++) {
        w[i].len = 0;
        w[i].failed = STK_E_UNSUPPORTED;
        w[i].why = w[first].why;
    }
    free(path);
}

int stk_fetch_add(struct stk_fetch *f, uint64_t id, bool (*have)(void *user, uint64_t extent),
                  void *user, struct stk_err *err)
{
    uint32_t first = (uint32_t)(f->slices.len / sizeof(struct stk_slice));
    int rc = stk_dataset_number(f->ds, id, &id, err);
    if (rc == 0)
        rc = stk_index_slices(&f->ds->index, id, &f->slices, err);
    if (rc < 0)
        return rc;
    uint32_t end = (uint32_t)(f->slices.len / sizeof(struct stk_slice));
    struct stk_want *w = NULL;
    if (end > first && !(w = stk_buf_extend(&f->wants, (end - first) * sizeof *w)))
        return stk_err_nomem(err, (end - first) * sizeof *w);
    for (uint32_t i = first; i < end; i++) {
        rc = want_of(f->ds, stk_fetch_slice(f, i), stk_fetch_want(f, i), have, user, err);
        if (rc < 0)
            return rc;
    }
    if (w)
        stk_fetch_want(f, first)->leads = true;
    if (w)
        refuse_huge(f, id, first, end);
    stk_buf_put(&f->ids, &id, sizeof id);
    stk_buf_put(&f->first, &end, sizeof end);
    return stk_buf_check(&f->first, err);
}

/* ---- bundles ---- */

static int by_place(const void *a, const void *b, void *user)
{
    const struct stk_want *w = user;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (w[i].file != w[j].file)
        return w[i].file < w[j].file ? -1 : 1;
    if (w[i].off != w[j].off)
        return w[i].off < w[j].off ? -1 : 1;
    return (i > j) - (i < j);
}

static unsigned bits_of(uint64_t v)
{
    return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

struct place {
    uint64_t key;
    uint32_t want;
};

/* One pass of a radix sort: places by the digit at `shift`; equal digits keep their order. */
static void sort_digit(const struct place *from, struct place *to, size_t n, unsigned shift)
{
    uint32_t at[1u << RADIX_BITS] = {0};
    for (size_t i = 0; i < n; i++)
        at[from[i].key >> shift & (RADIX - 1)]++;
    uint32_t sum = 0;
    for (size_t d = 0; d < RADIX; d++) {
        uint32_t count = at[d];
        at[d] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        to[at[from[i].key >> shift & (RADIX - 1)]++] = from[i];
}

/* Sorts by counting digits: for a window of a hundred thousand samples, qsort would take longer
 * than reading them. False: not possible here. */
static bool radix_sort(struct stk_fetch *f, uint32_t *order, size_t n)
{
    const struct stk_want *w = stk_fetch_want(f, 0);
    uint32_t first = UINT32_MAX, last = 0;
    uint64_t low = UINT64_MAX, high = 0;
    for (size_t i = 0; i < n; i++) {
        const struct stk_want *x = &w[order[i]];
        first = x->file < first ? x->file : first;
        last = x->file > last ? x->file : last;
        low = x->off < low ? x->off : low;
        high = x->off > high ? x->off : high;
    }
    unsigned off_bits = bits_of(high - low), bits = off_bits + bits_of(last - first);
    stk_buf_reset(&f->places);
    struct place *a = stk_buf_room(&f->places, 2 * n * sizeof *a);
    if (bits > 63 || !a)
        return false;
    struct place *b = a + n;
    for (size_t i = 0; i < n; i++) {
        const struct stk_want *x = &w[order[i]];
        a[i] = (struct place){.key = (uint64_t)(x->file - first) << off_bits | (x->off - low),
                              .want = order[i]};
    }
    for (unsigned shift = 0; shift < bits; shift += RADIX_BITS) {
        sort_digit(a, b, n, shift);
        struct place *swap = a;
        a = b;
        b = swap;
    }
    for (size_t i = 0; i < n; i++)
        order[i] = a[i].want;
    return true;
}

int stk_fetch_sort(struct stk_fetch *f, struct stk_err *err)
{
    const struct stk_want *w = stk_fetch_want(f, 0), *last = NULL;
    uint32_t n = (uint32_t)(f->wants.len / sizeof *w);
    uint32_t *order = stk_buf_room(&f->order, (n + 1) * sizeof *order);
    if (!order)
        return stk_err_nomem(err, n * sizeof *order);
    size_t count = 0;
    bool sorted = true;
    for (uint32_t i = 0; i < n; i++) {
        if (!w[i].len)
            continue;
        sorted = sorted && (!last || w[i].file > last->file ||
                            (w[i].file == last->file && w[i].off >= last->off));
        last = &w[i];
        order[count++] = i;
    }
    f->order.len = count * sizeof *order;
    if (!sorted && (count < RADIX || !radix_sort(f, order, count)))
        qsort_r(order, count, sizeof *order, by_place, f->wants.data);
    return 0;
}

/* True if so much of x is before `to` that reading that again would be a waste. Pieces of a
 * deflated range overlap a little, as each begins with a block: they need not be one bundle. */
static bool lies_in(const struct stk_want *x, uint64_t to)
{
    return x->off < to && to - x->off > x->len / 4;
}

size_t stk_fetch_bundle(const struct stk_fetch *f, size_t i, uint64_t max, uint64_t *from,
                        uint64_t *to)
{
    size_t n = stk_fetch_nwants(f), j = i + 1;
    const struct stk_want *first = stk_fetch_at(f, i);
    *from = first->off;
    *to = first->off + first->len;
    for (; j < n; j++) {
        const struct stk_want *x = stk_fetch_at(f, j);
        uint64_t end = x->off + x->len;
        if (x->file != first->file || (x->off > *to && x->off - *to > MERGE_GAP) ||
            (end > *to && end - *from > max && !lies_in(x, *to)))
            break;
        *to = end > *to ? end : *to;
    }
    return j;
}

/* ---- checksums ---- */

bool stk_fetch_is_summed(const struct stk_index *idx, const struct stk_chain *c)
{
    /* A zip has checksums of its members before their byte order is changed. */
    if (c->nsteps == 1 && stk_index_count(idx, STK_T_CRCS) &&
        (c->step[0].id == STK_FILTER_DEFLATE || c->step[0].id == STK_FILTER_RESUME))
        return true;
    for (unsigned k = 0; k < c->nsteps && k < STK_CHAIN_MAX; k++)
        if (c->step[k].id == STK_FILTER_FLETCHER || c->step[k].id == STK_FILTER_ZLIB ||
            c->step[k].id == STK_FILTER_GZIP)
            return true;
    return false;
}

/* The sum of the bytes before the want at `place` in its sample. False: unknown here. */
static bool sum_before(const struct stk_fetch *f, size_t first, size_t place, uint32_t *sum)
{
    const uint32_t *order = (const void *)f->order.data;
    const struct stk_want *w = stk_fetch_want(f, 0);
    const struct stk_slice *sl = stk_fetch_slice(f, 0);
    uint32_t i = order[place];
    while (!w[i].leads && sl[i - 1].length == 0)
        i--; /* an empty slice adds nothing */
    *sum = 0;
    if (w[i].leads)
        return true;
    if (place == first || order[place - 1] != i - 1 || !w[i - 1].summed)
        return false;
    *sum = w[i - 1].sum;
    return true;
}

/* True if the sum covers the stored bytes, which it does not for extents that samples share behind
 * a filter. */
static bool sums_stored(const struct stk_fetch *f, size_t place)
{
    uint32_t i = ((const uint32_t *)(const void *)f->order.data)[place];
    return !stk_fetch_want(f, i)->chain || stk_fetch_slice(f, i)->length == UINT64_MAX;
}

void stk_fetch_sum(struct stk_fetch *f, struct stk_sums *s, size_t first, size_t end,
                   const uint8_t *p, uint64_t from, uint64_t to)
{
    const struct stk_format *format = f->ds->format;
    for (; s->place < end; s->place++, s->done = 0) {
        struct stk_want *w = stk_fetch_at(f, s->place);
        uint64_t begin = w->off + (w->framed ? format->head : 0) + s->done;
        uint64_t stop = w->off + w->len - (w->framed ? format->tail : 0);
        uint64_t there = stop < to ? stop : to;
        if (w->failed || !sums_stored(f, s->place) ||
            (!s->done && !sum_before(f, first, s->place, &w->sum)))
            continue;
        if (there > begin) {
            w->sum = stk_crc32c(w->sum, p + (begin - from), (size_t)(there - begin));
            s->done += there - begin;
        }
        if (stop > to)
            return;
        w->summed = true;
    }
}

void stk_fetch_sum_again(struct stk_fetch *f, struct stk_sums *s, size_t first, size_t end)
{
    *s = (struct stk_sums){.place = first};
    for (size_t i = first; i < end; i++)
        stk_fetch_at(f, i)->summed = false;
}

/* ---- from stored bytes to data ---- */

/* The sum of the record's bytes alone. */
static const uint32_t *sum_of_record(const struct stk_want *w)
{
    return w->summed && w->leads ? &w->sum : NULL;
}

/* The path costs an allocation: checks without it, and adds it only to report a failure. */
static int frame_error(const struct stk_fetch *f, const struct stk_want *w, uint64_t len,
                       struct stk_err *err)
{
    char *path = stk_files_path(&f->ds->files, w->file);
    int rc = f->ds->format->check(w->p, len, sum_of_record(w), path, w->off, err);
    free(path);
    return rc;
}

int stk_fetch_stored(const struct stk_fetch *f, size_t i, bool trust, const uint8_t **p,
                     uint64_t *len, struct stk_err *err)
{
    const struct stk_want *w = stk_fetch_want(f, i);
    const struct stk_format *format = f->ds->format;
    *p = w->p;
    *len = w->len;
    if (!w->framed)
        return 0;
    *p += format->head;
    *len -= format->head + format->tail;
    if (trust || format->check(w->p, *len, sum_of_record(w), NULL, w->off, NULL) == 0)
        return 0;
    return frame_error(f, w, *len, err);
}

static int decode_point(const struct stk_dataset *ds, uint64_t x, const struct stk_extent *e,
                        const uint8_t *p, struct stk_buf *out, const char *path,
                        struct stk_err *err)
{
    const uint8_t *window;
    const struct stk_index_point *pt = stk_index_point(&ds->index, x, &window);
    stk_buf_reset(out);
    if (!pt || pt->decoded_len > (1u << 30))
        return stk_err_set(err, STK_E_CORRUPT, ds->index_path, -1,
                           "damaged index: a compressed extent without access point");
    struct stk_access_point at = {.in_off = e->offset,
                           .in_len = e->length,
                           .decoded_len = pt->decoded_len,
                           .bits = stk_point_bits(pt),
                           .lead = stk_point_lead(pt),
                           .window = (uint8_t *)(uintptr_t)window,
                           .window_len = pt->window_len};
    /* Deflate cannot expand more than 1032 times: allocates no memory for impossible lengths. */
    if ((at.decoded_len + at.lead) / 1032 > at.in_len + 64)
        return stk_point_damaged(&at, path, err);
    if (!stk_buf_extend(out, (size_t)pt->decoded_len + 1))
        return stk_err_nomem(err, pt->decoded_len);
    out->len = (size_t)pt->decoded_len;
    return stk_point_decode(&at, p, out->data, path, err);
}

/* Decodes from an access point, then undoes the rest of the chain. */
static int decode_resumed(const struct stk_dataset *ds, uint64_t x, const struct stk_extent *e,
                          const struct stk_chain *c, const uint8_t *p, struct stk_buf *out,
                          struct stk_buf *scratch, const char *path, struct stk_err *err)
{
    struct stk_chain rest = {.nsteps = c->nsteps - 1};
    memcpy(rest.step, c->step + 1, rest.nsteps * sizeof *rest.step);
    int rc = decode_point(ds, x, e, p, out, path, err);
    if (rc < 0 || !rest.nsteps)
        return rc;
    struct stk_buf first = *out; /* `out` alternates with `scratch`: it cannot be the input, too */
    *out = (struct stk_buf)STK_BUF_INIT;
    rc = stk_filter_decode(&rest, first.data, first.len, out, scratch, path, e->offset, err);
    stk_buf_release(&first);
    return rc;
}

/* The checksum that the file has of the decoded bytes (a member of a zip). */
static int compare_crc(const struct stk_dataset *ds, uint64_t x, const struct stk_buf *out,
                       const char *path, uint64_t offset, struct stk_err *err)
{
    const struct stk_index_crc *c = stk_index_crc(&ds->index, x);
    if (!c)
        return 0;
#ifdef STK_HAVE_LIBDEFLATE
    uint32_t crc = libdeflate_crc32(0, out->data, out->len);
#else
    uint32_t crc = (uint32_t)crc32_z(0, out->data, out->len);
#endif
    return crc == c->crc32 ? 0
                           : stk_err_set(err, STK_E_CORRUPT, path, (int64_t)offset,
                                         "the data's checksum does not match");
}

int stk_fetch_decode(const struct stk_dataset *ds, uint64_t x, const struct stk_extent *e,
                     const uint8_t *p, struct stk_buf *out, struct stk_buf *scratch,
                     struct stk_err *err)
{
    const struct stk_chain *c =
        (const struct stk_chain *)ds->index.table[STK_T_CHAINS] + (e->chain - 1);
    if (c->nsteps > STK_CHAIN_MAX)
        return stk_err_set(err, STK_E_CORRUPT, ds->index_path, -1, "damaged index: bad filters");
    char *path = stk_files_path(&ds->files, e->file);
    int rc;
    if (c->nsteps && c->step[0].id == STK_FILTER_RESUME)
        rc = decode_resumed(ds, x, e, c, p, out, scratch, path, err);
    else
        rc = stk_filter_decode(c, p, (size_t)e->length, out, scratch, path, e->offset, err);
    if (rc == 0)
        rc = compare_crc(ds, x, out, path, e->offset, err);
    free(path);
    return rc;
}

int stk_fetch_cut(const struct stk_dataset *ds, const struct stk_slice *s,
                  const struct stk_extent *e, const struct stk_buf *decoded, const uint8_t **p,
                  uint64_t *len, struct stk_err *err)
{
    *len = s->length == UINT64_MAX ? decoded->len : s->length;
    if (s->offset > decoded->len || *len > decoded->len - s->offset) {
        char *path = stk_files_path(&ds->files, e->file);
        int rc =
            stk_err_set(err, STK_E_CORRUPT, path, (int64_t)e->offset,
                        "decoded to %zu bytes, fewer than the samples in it need", decoded->len);
        free(path);
        return rc;
    }
    *p = *len ? decoded->data + s->offset : (const uint8_t *)""; /* there may be no buffer */
    return 0;
}
