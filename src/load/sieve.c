/*
 * sieve.c - a stretch whose reads bring far more than it wants, as when a window is larger
 * than the memory for a stretch, and of each of its blocks only some samples are taken at a time.
 * Its ranges are read to a ring of memory, one behind the other, and what is wanted of each is
 * kept. All of it is the feeder's.
 */
#include "load/priv.h"

#include <string.h>

#define RING_LEAST (256u << 10)
#define AT_ONCE    4 /* reads of the largest size the ring has room for */

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

/* Bytes of the file that wants [i, j) of the order have, each counted once. */
static size_t wanted_bytes(const struct stk_fetch *f, size_t i, size_t j)
{
    uint64_t bytes = 0, end = 0;
    uint32_t file = UINT32_MAX;
    for (; i < j; i++) {
        const struct stk_want *w = stk_fetch_at(f, i);
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
    return wanted_bytes(&s->fetch, 0, stk_fetch_nwants(&s->fetch)) <= s->need / 4 * 3;
}

uint64_t stk_sieve_most(const struct stk_loader *ld)
{
    return ld->sieve.size / AT_ONCE - 3 * STK_IO_ALIGN;
}

void stk_sieve_plan(struct stretch *s)
{
    s->need = 0;
    s->sifted = true;
    for (size_t i = 0; i < s->nruns; i++) {
        struct run *r = &s->run[i];
        size_t kept = align_up(wanted_bytes(&s->fetch, r->first, r->end));
        /* One range may be larger than any read should be. */
        r->sifted = r->room <= s->ld->sieve.size && kept < r->room;
        r->room = r->sifted ? kept : r->room;
        s->need += r->room;
    }
}

/* ---- the ring ---- */

bool stk_sieve_open(struct stk_loader *ld)
{
    bool nomem;
    if (!ld->sieve.region) /* it stays: what needs it comes again */
        ld->sieve.region = stk_region_take(&ld->regions, ld->sieve.size, true, &nomem);
    return ld->sieve.region;
}

bool stk_sieve_lend(struct stk_loader *ld, struct run *r)
{
    struct sieve *v = &ld->sieve;
    if (!r->sifted)
        return true;
    size_t room = stk_io_room(r->req.len), at = v->used ? v->head : 0;
    bool wraps = at + room > v->size; /* also with nothing left out, when the ring is just full */
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

void stk_sieve_return(struct stk_loader *ld, struct run *r)
{
    struct sieve *v = &ld->sieve;
    if (!r->sifted)
        return;
    v->turn[r->turn % SIEVE_TURNS].returned = true;
    for (; v->first < v->next && v->turn[v->first % SIEVE_TURNS].returned; v->first++)
        v->used -= v->turn[v->first % SIEVE_TURNS].bytes;
}

void stk_sieve_keep(struct stretch *s, const struct run *r)
{
    uint8_t *to = r->at;        /* what is kept ends here... */
    uint64_t kept_to = r->from; /* ...and is the file's up to here */
    for (size_t i = r->first; i < r->end; i++) {
        struct stk_want *w = stk_fetch_at(&s->fetch, i);
        uint64_t end = w->off + w->len, from = w->off > kept_to ? w->off : kept_to;
        if (end > kept_to) {
            memcpy(to, r->req.data + (from - r->from), (size_t)(end - from));
            to += end - from;
            kept_to = end;
        }
        w->p = to - (kept_to - w->off);
    }
}
