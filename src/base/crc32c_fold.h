/*
 * crc32c_fold.h - CRC-32C by folding, for one width of register; included once for each.
 *
 * How it works. Bytes are a polynomial over GF(2), the first bit that of the highest power; their
 * CRC is the remainder of x^32 times it by P. A register of w bits, read the reflected way (bit 0
 * is x^(w-1)), holds a piece. A piece of 128 bits, L * x^64 + H (L its low half), that stands D
 * bits before another is worth L * x^(D+64) + H * x^D there; and as only the remainder counts, so
 * is L * (x^(D+64) mod P) + H * (x^D mod P), which has no more than 128 bits. So two carry-less
 * products move a piece D bits on, where it is added to what it meets.
 *
 * Four registers are moved on so, round after round, and at last all their pieces to the place of
 * the last one. Meanwhile the crc32 instruction, another part of the CPU, does a slice in each
 * round: its CRC (from 0) is worth as much when added to the four bytes behind it, which are the
 * next ones to be loaded. Everything is read from front to back: several streams would need no
 * such trick, but Zen 4 reads them from memory at half the speed, as its prefetchers lose track.
 *
 * The includer defines WIDTH (bytes a register), FROM (bytes from which this pays), TARGET, VEC,
 * NAME(x) and with it zero, load, start (load, and add a CRC), fold (moved on by k, add b), sum
 * (fold all to the last, reduce); and before, bits_on(), chain() and step().
 */
#define GROUP (4 * WIDTH)
#define SLICE 64u
#define ROUND (SLICE + GROUP)

/* For each lane of a register: one group on, and one round on. */
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
    /* One register and what else does not fill a round; zeros stand before the first. */
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
