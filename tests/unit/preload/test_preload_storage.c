/* test_preload_storage.c - how a file is striped, as Lustre's attribute says: the advice on stripes
 * is only as good as this, and the bytes come from a file system's client, cut and damaged too. */
#include "preload/storage.c"
#include "check.h"

#include <stdlib.h>

__thread struct stk_pl_tls stk_pl_self STK_PL_TLS;
struct stk_pl_lock stk_pl_names_lock;
void stk_pl_lock_wait(struct stk_pl_lock *l)
{
    (void)l;
}

static void put(unsigned char *p, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        p[i] = (unsigned char)(value >> 8 * i);
}

/* struct lov_user_md_v1 (32 bytes, objects of 24 behind) and _v3 (a pool's name of 16 in between):
 * magic, pattern, object id (16), stripe size, stripe count, generation. */
static size_t plain_layout(unsigned char *p, uint32_t magic, uint32_t bytes, uint32_t count)
{
    size_t head = magic == LAYOUT_V3 ? 48 : 32;
    memset(p, 0xee, head + 24 * (count < 8 ? count : 8));
    put(p, magic, 4);
    put(p + 4, 1, 4); /* RAID0 */
    put(p + 24, bytes, 4);
    put(p + 28, count, 2);
    put(p + 30, 7, 2);
    return head + 24 * (count < 8 ? count : 8);
}

/* struct lov_comp_md_v1: magic, size, generation, flags (2), entries (2), mirrors, padding; entries
 * of 48 bytes: id, flags, extent (16), offset, size, generation, padding. */
static size_t composite_layout(unsigned char *p, uint32_t n, const uint32_t part[][3])
{
    size_t at = COMP_HEAD + (size_t)n * COMP_ENTRY;
    memset(p, 0, at);
    put(p, LAYOUT_COMP, 4);
    put(p + 14, n, 2);
    for (uint32_t i = 0; i < n; i++) {
        unsigned char *entry = p + COMP_HEAD + (size_t)i * COMP_ENTRY;
        size_t bytes = plain_layout(p + at, part[i][0], part[i][1], part[i][2]);
        put(entry, i + 1, 4);
        put(entry + ENTRY_OFFSET, at, 4);
        put(entry + ENTRY_OFFSET + 4, bytes, 4);
        at += bytes;
    }
    put(p + 4, at, 4);
    return at;
}

static bool says(const unsigned char *p, size_t n, uint32_t bytes, uint32_t count)
{
    struct stk_pl_file f = {0};
    layout(p, n, &f);
    return f.stripe_bytes == bytes && f.stripe_count == count;
}

static void plain_ones(void)
{
    unsigned char p[512];
    size_t n = plain_layout(p, LAYOUT_V1, 1 << 20, 4);
    CHECK(says(p, n, 1 << 20, 4));
    n = plain_layout(p, LAYOUT_V3, 16 << 20, 8);
    CHECK(says(p, n, 16 << 20, 8));
    n = plain_layout(p, LAYOUT_V3, 4 << 20, 0xffff); /* over all of them */
    CHECK(says(p, n, 4 << 20, 0xffff));
    n = plain_layout(p, 0x0BD50BD0, 1 << 20, 4); /* of a foreign kind */
    CHECK(says(p, n, 0, 0));
}

static void composite_ones(void)
{
    static const uint32_t part[][3] = {
        {LAYOUT_V1, 1 << 20, 1}, {LAYOUT_V3, 1 << 20, 4}, {LAYOUT_V3, 4 << 20, 16}};
    unsigned char p[2048];
    CHECK(says(p, composite_layout(p, 3, part), 4 << 20, 16));
    CHECK(says(p, composite_layout(p, 1, part), 1 << 20, 1));
    CHECK(says(p, composite_layout(p, 0, part), 0, 0));
    /* A last part that lies elsewhere than it says: the one before it is told. */
    size_t n = composite_layout(p, 3, part);
    put(p + COMP_HEAD + 2 * COMP_ENTRY + ENTRY_OFFSET, 0xfffffff0u, 4);
    CHECK(says(p, n, 1 << 20, 4));
    /* More entries than there are bytes. */
    n = composite_layout(p, 3, part);
    put(p + 14, 0xffff, 2);
    struct stk_pl_file f = {0};
    layout(p, n, &f);
}

/* Cut anywhere, changed anywhere: nothing is read that is not there (the sanitizers see it). */
static void damaged_ones(void)
{
    static const uint32_t part[][3] = {{LAYOUT_V1, 1 << 20, 1}, {LAYOUT_V3, 4 << 20, 16}};
    unsigned char whole[1024];
    size_t n = composite_layout(whole, 2, part);
    for (size_t cut = 0; cut <= n; cut++) {
        unsigned char *p = malloc(cut ? cut : 1);
        struct stk_pl_file f = {0};
        CHECK(p != NULL);
        memcpy(p, whole, cut);
        layout(p, cut, &f);
        CHECK(cut == n || f.stripe_count != 16 || f.stripe_bytes == 4 << 20);
        for (size_t i = 0; i < cut; i += 3) {
            unsigned char before = p[i];
            p[i] ^= 0xff;
            layout(p, cut, &f);
            p[i] = before;
        }
        free(p);
    }
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(plain_ones);
    CHECK_RUN(composite_ones);
    CHECK_RUN(damaged_ones);
    return CHECK_DONE();
}
