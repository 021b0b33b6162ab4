/* The ring that a stretch with gaps is read to: no place reaches past its end or into another. */
#include "check.h"
#include "data/loader_priv.h"

#define PLACES 32 /* more than the ring has room for */

static uint8_t memory[16 * STK_IO_ALIGN];
static struct stk_region region = {.p = memory, .size = sizeof memory, .segment = -1};

static size_t at(const struct stk_loader *ld, const struct run *r)
{
    return (size_t)((uint8_t *)r->req.buf - ld->sieve.region->p);
}

/* Whether a run's place is in the ring, and no other's. */
static bool is_alone(const struct stk_loader *ld, const struct run *runs, const bool *lent, int k)
{
    size_t from = at(ld, &runs[k]), to = from + stk_io_room(runs[k].req.len);
    bool alone = to <= ld->sieve.size;
    for (int i = 0; i < PLACES; i++) {
        size_t other = lent[i] && i != k ? at(ld, &runs[i]) : ld->sieve.size;
        alone = alone && (other >= to || other + stk_io_room(runs[i].req.len) <= from);
    }
    return alone;
}

/* Lends and returns in an order drawn by chance; every place is a multiple of `unit`. */
static void any_order(size_t unit)
{
    struct stk_loader *ld = calloc(1, sizeof *ld);
    size_t least = (3 * STK_IO_ALIGN + unit - 1) / unit; /* a byte takes that much */
    struct run runs[PLACES];
    bool lent[PLACES] = {false}, ok = true;
    uint64_t seed = 1;
    size_t given = 0;
    ld->sieve = (struct sieve){.region = &region, .size = region.size};
    for (int i = 0; ok && i < 20000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int k = (int)(seed >> 33) % PLACES;
        struct run *r = &runs[k];
        if (lent[k]) {
            stk_sieve_return(ld, r);
            lent[k] = false;
            continue;
        }
        size_t rooms = least + (seed >> 50) % 3;
        *r = (struct run){.sifted = true, .req.len = rooms * unit - (3 * STK_IO_ALIGN - 1)};
        lent[k] = stk_sieve_lend(ld, r);
        ok = !lent[k] || is_alone(ld, runs, lent, k);
        given += lent[k];
    }
    CHECK(ok);
    CHECK(given > 1000); /* it does not get stuck either */
    free(ld);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_FOR("quarters", any_order, 4 * STK_IO_ALIGN); /* they fill it to its very end */
    CHECK_FOR("pages", any_order, STK_IO_ALIGN);
    return CHECK_DONE();
}
