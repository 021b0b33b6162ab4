/*
 * crc32c_fold.h - CRC-32C by folding, for one width of register; included once per width.
 *
 * How it works. Bytes are a polynomial over GF(2), the first bit having the highest power; their
 * CRC is the remainder of x^32 times that polynomial, divided by P. A register of w bits, read in
 * reflected order (bit 0 is x^(w-1)), holds a piece. A piece of 128 bits, L * x^64 + H (L its low
 * half), that is D bits ahead of another equals L * x^(D+64) + H * x^D at the other's position;
 * since only the remainder counts, so does L * (x^(D+64) mod P) + H * (x^D mod P), which fits in
 * 128 bits. So two carry-less products move a piece forward by D bits, where it is added to the
 * piece there.
 *
 * Each round moves four registers forward this way; the end moves all pieces to the position of the
 * last. Meanwhile the crc32 instruction, another unit of the CPU, processes a slice per round:
 * adding its CRC (from 0) to the next four bytes, which are loaded next, has the same effect.
 * Everything is read from front to back: several streams would be simpler, but Zen 4 reads them
 * from memory at half the speed because its prefetchers lose track.
 *
 * The includer defines WIDTH (bytes per register), FROM (length from which this pays off), TARGET,
 * VEC, NAME(x) and with it zero, load, start (load, and add a CRC), fold (moved on by k, add b),
 * sum (fold all to the last, reduce); and before, bits_on(), chain() and step().
 */
#define GROUP (4 * WIDTH)
#define SLICE 64u
#define ROUND (SLICE + GROUP)

/* For each lane of a register: one group forward, and one round forward. */
static _Alignas(64) struct pair NAME(group_on)[WIDTH / 16], NAME(round_on)[WIDTH / 16];

static void NAME(make)(void)
{
    for (size_t i = 0; i < WIDTH / 16; i++) {
        NAME(group_on)[i] = bits_on(8 * GROUP);
        NAME(round_on)[i] = bits_on(8 * ROUND);
    }
}

TARGET static uint32_t NAME(crc)(uint32_t crc, const uint8_t *p, size_t n)
{
    if (n < FROM)
        return chain(crc, p, n);
    const uint8_t *end = p + n;
    crc = chain(crc, p, n % WIDTH);
    p += n % WIDTH;
    /* The first register and the remainder that does not fill a round, as if zeros preceded
     * them. */
    VEC a0 = NAME(zero)(), a1 = a0, a2 = a0, a3 = NAME(start)(crc, p), k;
    p += WIDTH;
    size_t lead = (size_t)(end - p) % ROUND / WIDTH;
    for (size_t i = lead % 4; i; i--, p += WIDTH) {
        a0 = a1;
        a1 = a2;
        a2 = a3;
        a3 = NAME(load)(p);
    }
    k = NAME(load)((const uint8_t *)NAME(group_on));
    for (size_t i = lead / 4; i; i--, p += GROUP) {
        a0 = NAME(fold)(a0, k, NAME(load)(p));
        a1 = NAME(fold)(a1, k, NAME(load)(p + WIDTH));
        a2 = NAME(fold)(a2, k, NAME(load)(p + 2 * WIDTH));
        a3 = NAME(fold)(a3, k, NAME(load)(p + 3 * WIDTH));
    }
    k = NAME(load)((const uint8_t *)NAME(round_on));
    for (; p < end; p += GROUP) {
        uint64_t c = 0;
        for (size_t i = 0; i < SLICE; i += 32, p += 32)
            c = step(step(step(step(c, p), p + 8), p + 16), p + 24);
        a0 = NAME(fold)(a0, k, NAME(start)((uint32_t)c, p));
        a1 = NAME(fold)(a1, k, NAME(load)(p + WIDTH));
        a2 = NAME(fold)(a2, k, NAME(load)(p + 2 * WIDTH));
        a3 = NAME(fold)(a3, k, NAME(load)(p + 3 * WIDTH));
    }
    return NAME(sum)(a0, a1, a2, a3);
}

#undef GROUP
#undef SLICE
#undef ROUND
#undef WIDTH
#undef FROM
#undef TARGET
#undef VEC
#undef NAME
