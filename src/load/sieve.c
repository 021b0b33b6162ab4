/*
 * sieve.c - for a stretch whose reads bring far more than it wants, such as a window larger than
 * the memory for a stretch, with only some samples of each block. Ranges are read into a ring of
 * memory, one after the other, and the wanted bytes of each are kept. Only the feeder uses it.
 */
#include "load/priv.h"

#include <string.h>

#define RING_LEAST (256u << 10)
#define AT_ONCE    4 /* the ring has room for this many reads of the largest size */

static size_t align_up(size_t n)
{
    return (n + STK_IO_ALIGN - 1) / STK_IO_ALIGN * STK_IO_ALIGN;
}

void stk_sieve_init(struct stk_loader *ld, uint64_t room)
{
    uint64_t most = AT_ONCE * (uint64_t)stk_io_room((size_t)ld->o.read_bytes);
    room = room < RING_LEAST ? RING_LEAST : room > most ? most : room;
    ld->sieve = (struct sieve){.size = align_up((size_t)room)};
}

/* Bytes of the file to keep in wants [i, j) of the order, each counted once. */
static size_t wanted_bytes(const struct stretch *s, size_t i, size_t j)
{
    uint64_t bytes = 0, end = 0;
    uint32_t file = UINT32_MAX;
    for (; i < j; i++) {
        const struct stk_want *w = stk_fetch_at(&s->fetch, i);
        if (stk_stream_has(s, i))
            continue;
        uint64_t to = w->off + w->len, from = w->file == file && w->off < end ? end : w->off;
        if (w->file == file && to <= end)
            continue;
        bytes += to - from;
        end = to;
        file = w->file;
    }
    return (size_t)bytes;
}

bool stk_sieve_pays(const struct stretch *s)
{
    const struct stk_loader *ld = s->ld;
    if (s->need <= ld->region_most || stk_io_maps(ld->io))
        return false;
    return wanted_bytes(s, 0, stk_fetch_nwants(&s->fetch)) <= s->need / 4 * 3;
}

uint64_t stk_sieve_most(const struct stk_loader *ld)
{
    return ld->sieve.size / AT_ONCE - 3 * STK_IO_ALIGN;
}

void stk_sieve_plan(struct stretch *s)
{
    s->need = 0;
    s->sifted = true;
    for (size_t i = 0; i < s->nbundles; i++) {
        struct bundle *r = &s->bundle[i];
        size_t kept = align_up(wanted_bytes(s, r->first, r->end));
        /* A single range may be larger than any read should be. */
        r->sifted = (s->streams || r->room <= s->ld->sieve.size) && kept < r->room;
        r->room = r->sifted ? kept : r->room;
        s->need += r->room;
    }
}

/* ---- the ring ---- */

/* The ring grows to the largest extent that is decoded as it arrives. */
static bool grow_ring(const struct stretch *s)
{
    struct stk_loader *ld = s->ld;
    size_t size = ld->sieve.size;
    for (size_t i = 0; i < s->nbundles; i++) {
        size_t room = s->bundle[i].sifted ? stk_io_room(s->bundle[i].req.len) : 0;
        size = room > size ? room : size;
    }
    if (size > ld->sieve.size && ld->sieve.used)
        return false;
    if (size > ld->sieve.size && ld->sieve.region) {
        stk_region_give(&ld->regions, ld->sieve.region);
        ld->sieve.region = NULL;
    }
    ld->sieve.size = size;
    return true;
}

int stk_sieve_open(struct stretch *s, struct stk_err *err)
{
    struct stk_loader *ld = s->ld;
    bool nomem;
    if (!grow_ring(s))
        return 0;
    if (!ld->sieve.region) /* kept: stretches that need it come again */
        ld->sieve.region = stk_region_take(&ld->regions, ld->sieve.size, true, &nomem);
    return ld->sieve.region ? 1 : stk_err_nomem(err, ld->sieve.size);
}

bool stk_sieve_lend(struct stk_loader *ld, struct bundle *r)
{
    struct sieve *v = &ld->sieve;
    if (!r->sifted)
        return true;
    size_t room = stk_io_room(r->req.len), at = v->used ? v->head : 0;
    bool wraps = at + room > v->size; /* also if nothing is left out and the ring is just full */
    size_t left_out = wraps ? v->size - at : 0;
    if (v->used + left_out + room > v->size || v->next - v->first == SIEVE_TURNS)
        return false;
    at = wraps ? 0 : at;
    r->req.buf = v->region->p + at;
    r->req.segment = v->region->segment;
    r->turn = v->next++;
    v->turn[r->turn % SIEVE_TURNS].bytes = left_out + room;
    v->turn[r->turn % SIEVE_TURNS].returned = false;
    v->head = at + room;
    v->used += left_out + room;
    return true;
}

void stk_sieve_return(struct stk_loader *ld, struct bundle *r)
{
    struct sieve *v = &ld->sieve;
    if (!r->sifted)
        return;
    v->turn[r->turn % SIEVE_TURNS].returned = true;
    for (; v->first < v->next && v->turn[v->first % SIEVE_TURNS].returned; v->first++)
        v->used -= v->turn[v->first % SIEVE_TURNS].bytes;
}

void stk_sieve_keep(struct stretch *s, const struct bundle *r)
{
    uint8_t *to = r->at;        /* end of the kept bytes... */
    uint64_t kept_to = r->from; /* ...and their end in the file */
    for (size_t i = r->first; i < r->end; i++) {
        struct stk_want *w = stk_fetch_at(&s->fetch, i);
        if (stk_stream_has(s, i))
            continue;
        uint64_t end = w->off + w->len, from = w->off > kept_to ? w->off : kept_to;
        if (end > kept_to) {
            memcpy(to, r->req.data + (from - r->from), (size_t)(end - from));
            to += end - from;
            kept_to = end;
        }
        w->p = to - (kept_to - w->off);
    }
}
