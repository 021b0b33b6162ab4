/*
 * storage.c - what a file is stored on: the type of its file system (queried once per device) and,
 * on Lustre, its striping. Queried when a file is first opened.
 */
#include "preload/priv.h"

#include <sys/vfs.h>

#define DEVICES      64u
#define LUSTRE       0x0BD00BD0u /* LL_SUPER_MAGIC */
#define LAYOUT_V1    0x0BD10BD0u /* LOV_USER_MAGIC_V1, _V3, _COMP_V1 of lustre_user.h */
#define LAYOUT_V3    0x0BD30BD0u
#define LAYOUT_COMP  0x0BD60BD0u
#define COMP_HEAD    32u /* bytes of lov_comp_md_v1 before its entries, and of an entry */
#define COMP_ENTRY   48u
#define ENTRY_OFFSET 24u /* lcme_offset, lcme_size in it */
#define PLAIN_BYTES  32u /* of lov_user_md that we read: sizes at 24 and 28 */

static struct {
    uint64_t dev, type;
} known[DEVICES];
static uint32_t nknown; /* atomic */

static uint64_t type_of(int fd, uint64_t dev)
{
    uint32_t n = __atomic_load_n(&nknown, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < n; i++)
        if (known[i].dev == dev)
            return known[i].type;
    struct statfs s;
    if (stk_sys2(SYS_fstatfs, fd, &s) < 0)
        return 0;
    stk_pl_lock(&stk_pl_names_lock);
    if (nknown < DEVICES) {
        known[nknown].dev = dev;
        known[nknown].type = (uint64_t)s.f_type & 0xffffffffu;
        __atomic_store_n(&nknown, nknown + 1, __ATOMIC_RELEASE);
    }
    stk_pl_unlock(&stk_pl_names_lock);
    return (uint64_t)s.f_type & 0xffffffffu;
}

static uint32_t u32_at(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* A plain layout in p[0..n). */
static bool plain(const unsigned char *p, size_t n, struct stk_pl_file *f)
{
    if (n < PLAIN_BYTES || (u32_at(p) != LAYOUT_V1 && u32_at(p) != LAYOUT_V3))
        return false;
    f->stripe_bytes = u32_at(p + 24);
    f->stripe_count = (uint32_t)p[28] | (uint32_t)p[29] << 8;
    return true;
}

/* For a progressive layout, reports the last part, which holds most of a large file. */
static void composite(const unsigned char *p, size_t n, struct stk_pl_file *f)
{
    if (n < COMP_HEAD)
        return;
    uint32_t entries = (uint32_t)p[14] | (uint32_t)p[15] << 8;
    for (uint32_t i = 0; i < entries; i++) {
        size_t at = COMP_HEAD + (size_t)i * COMP_ENTRY;
        if (at + COMP_ENTRY > n)
            return;
        size_t from = u32_at(p + at + ENTRY_OFFSET), bytes = u32_at(p + at + ENTRY_OFFSET + 4);
        if (from < n && bytes <= n - from)
            plain(p + from, bytes, f);
    }
}

/* The attribute "lustre.lov", in p[0..n). */
static void layout(const unsigned char *p, size_t n, struct stk_pl_file *f)
{
    if (n >= 4 && u32_at(p) == LAYOUT_COMP)
        composite(p, n, f);
    else
        plain(p, n, f);
}

void stk_pl_storage(struct stk_pl_file *f, int fd, uint64_t dev, void *scratch, size_t room)
{
    if (f->fs_type)
        return;
    uint64_t type = type_of(fd, dev);
    if (type == LUSTRE && !f->group) {
        long n = stk_sys4(SYS_fgetxattr, fd, "lustre.lov", scratch, room);
        if (n > 0)
            layout(scratch, (size_t)n, f);
    }
    f->fs_type = type;
}
