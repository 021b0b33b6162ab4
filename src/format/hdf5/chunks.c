/*
 * chunks.c - the chunk indexes of HDF5 datasets, walked once from end to end.
 *
 * libhdf5 1.10 finds chunk k by walking over all chunks before it, so asking it for every chunk
 * takes quadratic time. Version 1 B-trees, single chunks, implicit, fixed and extensible arrays are
 * here; version 2 B-trees (two unlimited axes and "latest" files) are left to libhdf5.
 */
#include "format/hdf5/raw.h"

int stk_h5_damaged(const struct stk_h5_file *f, uint64_t at, const char *what, struct stk_err *err)
{
    return stk_err_set(err, STK_E_CORRUPT, stk_src_path(f->src), (int64_t)at, "damaged HDF5 %s",
                       what);
}

int stk_h5_peek(const struct stk_h5_file *f, uint64_t at, size_t n, const char *what,
                const uint8_t **p, struct stk_err *err)
{
    size_t got = 0;
    int rc = n > STK_PEEK_MAX ? stk_h5_damaged(f, at, what, err)
                              : stk_src_peek(f->src, at, n, p, &got, err);
    if (rc == 0 && got < n)
        rc = stk_err_set(err, STK_E_CORRUPT, stk_src_path(f->src), (int64_t)at,
                         "the file ends inside an HDF5 %s", what);
    return rc;
}

uint64_t stk_h5_addr(const struct stk_h5_file *f, const uint8_t *p)
{
    uint64_t v = stk_h5_uint(p, f->addr_size), at;
    uint64_t undefined = f->addr_size < 8 ? (1ull << (8 * f->addr_size)) - 1 : UINT64_MAX;
    return v == undefined || __builtin_add_overflow(v, f->base, &at) ? STK_H5_NOWHERE : at;
}

/* ---- checksums of the newer structures: Jenkins' lookup3, as H5_checksum_metadata ---- */

static inline uint32_t rotate(uint32_t v, unsigned n)
{
    return v << n | v >> (32 - n);
}

static uint32_t lookup3(const uint8_t *p, size_t n)
{
    uint32_t a = 0xdeadbeefu + (uint32_t)n, b = a, c = a;
    for (; n > 12; n -= 12, p += 12) {
        a += stk_le32(p);
        b += stk_le32(p + 4);
        c += stk_le32(p + 8);
        a -= c, a ^= rotate(c, 4), c += b;
        b -= a, b ^= rotate(a, 6), a += c;
        c -= b, c ^= rotate(b, 8), b += a;
        a -= c, a ^= rotate(c, 16), c += b;
        b -= a, b ^= rotate(a, 19), a += c;
        c -= b, c ^= rotate(b, 4), b += a;
    }
    uint8_t last[12] = {0};
    if (!n)
        return c;
    memcpy(last, p, n);
    a += stk_le32(last);
    b += stk_le32(last + 4);
    c += stk_le32(last + 8);
    c ^= b, c -= rotate(b, 14);
    a ^= c, a -= rotate(c, 11);
    b ^= a, b -= rotate(a, 25);
    c ^= b, c -= rotate(b, 16);
    a ^= c, a -= rotate(c, 4);
    b ^= a, b -= rotate(a, 14);
    c ^= b, c -= rotate(b, 24);
    return c;
}

/* The n bytes at `at` are followed by their checksum. */
static int check_sum(const struct stk_h5_file *f, uint64_t at, uint64_t n, const char *what,
                     struct stk_err *err)
{
    const uint8_t *p;
    int rc =
        stk_h5_peek(f, at, n < STK_PEEK_MAX ? (size_t)n + 4 : STK_PEEK_MAX + 1u, what, &p, err);
    if (rc == 0 && lookup3(p, (size_t)n) != stk_le32(p + n))
        rc = stk_err_set(err, STK_E_CORRUPT, stk_src_path(f->src), (int64_t)at,
                         "damaged HDF5 %s: its checksum does not match", what);
    return rc;
}

/* ---- storing a chunk that was found ---- */

struct walk {
    const struct stk_h5_file *f;
    const struct stk_h5_layout *layout;
    const struct stk_h5_grid *grid;
    struct stk_h5_chunk *chunk;
    uint64_t steps; /* nodes or elements visited */
};

static int put_chunk(struct walk *w, uint64_t number, uint64_t addr, uint64_t size, uint32_t mask,
                     uint64_t seen_at, struct stk_err *err)
{
    uint64_t end;
    if (__builtin_add_overflow(addr, size, &end) || end > stk_src_size(w->f->src) || !addr)
        return stk_err_set(err, STK_E_CORRUPT, stk_src_path(w->f->src), (int64_t)seen_at,
                           "chunk %llu should be %llu bytes at %llu, beyond the end of the file",
                           (unsigned long long)number, (unsigned long long)size,
                           (unsigned long long)addr);
    w->chunk[number] = (struct stk_h5_chunk){addr, size, mask};
    return 0;
}

static void count_step(struct walk *w)
{
    if ((++w->steps & 0xffff) == 0 && w->f->alive)
        w->f->alive(w->f->user);
}

/* ---- version 1 B-tree ---- */

struct tree {
    struct walk w;
    unsigned key_bytes;
    uint64_t next; /* chunks must ascend, which rules out a cyclic tree */
    uint64_t max_nodes;
};

/* The grid number of the chunk that begins at the element named by the key. */
static int key_number(const struct tree *t, const uint8_t *key, uint64_t at, uint64_t *number,
                      struct stk_err *err)
{
    const struct stk_h5_grid *g = t->w.grid;
    uint64_t n = 0;
    for (unsigned i = 0; i < g->rank; i++) {
        uint64_t first = stk_le64(key + 8 + 8 * (size_t)i), dim = t->w.layout->dim[i];
        if (!dim || first % dim || first / dim >= g->dim[i])
            return stk_h5_damaged(t->w.f, at, "chunk B-tree key", err);
        n = n * g->dim[i] + first / dim;
    }
    *number = n;
    return 0;
}

static int tree_leaf_entry(struct tree *t, const uint8_t *p, uint64_t at, struct stk_err *err)
{
    uint64_t number = 0;
    int rc = key_number(t, p, at, &number, err);
    if (rc < 0)
        return rc;
    if (number < t->next)
        return stk_h5_damaged(t->w.f, at, "chunk B-tree (its keys do not ascend)", err);
    t->next = number + 1;
    uint32_t size = stk_le32(p), mask = stk_le32(p + 4);
    return put_chunk(&t->w, number, stk_h5_addr(t->w.f, p + t->key_bytes), size, mask, at, err);
}

/* level: the level that the node must have, or 256 for the root, which may have any. */
static int tree_node(struct tree *t, uint64_t addr, unsigned level, struct stk_err *err)
{
    const struct stk_h5_file *f = t->w.f;
    const uint8_t *p;
    unsigned head = 8 + 2 * f->addr_size, entry = t->key_bytes + f->addr_size;
    count_step(&t->w);
    if (t->w.steps > t->max_nodes)
        return stk_h5_damaged(f, addr, "chunk B-tree (it has more nodes than fit)", err);
    int rc = stk_h5_peek(f, addr, head, "chunk B-tree node", &p, err);
    if (rc < 0)
        return rc;
    if (memcmp(p, "TREE\1", 5) != 0 || (level != 256 && p[5] != level))
        return stk_h5_damaged(f, addr, "chunk B-tree node", err);
    unsigned here = p[5], entries = stk_le16(p + 6);
    for (unsigned i = 0; rc == 0 && i < entries; i++) {
        uint64_t at = addr + head + (uint64_t)i * entry;
        rc = stk_h5_peek(f, at, entry, "chunk B-tree node", &p, err);
        if (rc < 0)
            break;
        if (here == 0)
            rc = tree_leaf_entry(t, p, at, err);
        else
            rc = tree_node(t, stk_h5_addr(f, p + t->key_bytes), here - 1, err);
    }
    return rc;
}

static int list_tree(struct walk *w, struct stk_err *err)
{
    struct tree t = {.w = *w, .key_bytes = 8 + 8 * w->layout->ndims};
    t.max_nodes = stk_src_size(w->f->src) / 8 + 1;
    return tree_node(&t, w->layout->addr, 256, err);
}

/* ---- arrays: element k of the index is chunk k of the grid of the largest dimensions ---- */

struct array {
    struct walk w;
    uint64_t number;    /* of the wanted chunk in the grid */
    unsigned unlimited; /* the slowest axis, 0 unless another one is unlimited */
    unsigned entry;     /* bytes per element */
    bool filtered;
    /* Finds element k: sets span.left, and span.at unless nothing is stored. */
    int (*locate)(struct array *a, uint64_t k, struct stk_err *err);
    /* Elements [first, first + left) are consecutive from `at` on (or not stored): most are found
     * without another walk. */
    struct {
        uint64_t first, left, at;
    } span;
    /* fixed */
    uint64_t first, count, page_elements, npages, bitmap;
    /* extensible */
    unsigned offset_bytes, direct_supers, log2_min, log2_page;
    uint64_t index_elements, ndirect, nsupers, elements_at, direct_at, supers_at;
    uint64_t checked_super;
};

static int take_element(struct array *a, uint64_t number, uint64_t at, struct stk_err *err)
{
    const struct stk_h5_file *f = a->w.f;
    const uint8_t *p;
    int rc = stk_h5_peek(f, at, a->entry, "chunk index", &p, err);
    if (rc < 0)
        return rc;
    uint64_t addr = stk_h5_addr(f, p), size = a->w.grid->chunk_bytes;
    uint32_t mask = 0;
    if (addr == STK_H5_NOWHERE)
        return 0;
    if (a->filtered) {
        unsigned width = a->entry - f->addr_size - 4;
        size = stk_h5_uint(p + f->addr_size, width);
        mask = stk_le32(p + f->addr_size + width);
    }
    return put_chunk(&a->w, number, addr, size, mask, at, err);
}

/* The index counts in the maximum dimensions, with the unlimited axis first. */
static uint64_t element_of(const struct array *a, const uint64_t *coord)
{
    const struct stk_h5_grid *g = a->w.grid;
    uint64_t k = coord[a->unlimited];
    for (unsigned i = 0; i < g->rank; i++)
        if (i != a->unlimited &&
            (__builtin_mul_overflow(k, g->max[i], &k) || __builtin_add_overflow(k, coord[i], &k)))
            return STK_H5_NOWHERE;
    return k;
}

static int find_run(struct array *a, uint64_t k, struct stk_err *err)
{
    if (k >= a->span.first && k - a->span.first < a->span.left)
        return 0;
    a->span.first = k;
    a->span.left = 1;
    a->span.at = STK_H5_NOWHERE;
    return a->locate(a, k, err);
}

static int list_array(struct array *a, struct stk_err *err)
{
    const struct stk_h5_grid *g = a->w.grid;
    uint64_t coord[STK_H5_MAX_RANK] = {0};
    for (uint64_t n = 0; n < g->nchunks; n++) {
        uint64_t k = element_of(a, coord);
        if (k == STK_H5_NOWHERE)
            return stk_h5_damaged(a->w.f, a->w.layout->addr, "chunk index", err);
        a->number = n;
        int rc = find_run(a, k, err);
        if (rc == 0 && a->span.at != STK_H5_NOWHERE)
            rc = take_element(a, n, a->span.at + (k - a->span.first) * a->entry, err);
        if (rc < 0)
            return rc;
        count_step(&a->w);
        for (unsigned i = g->rank; i-- > 0;) {
            if (++coord[i] < g->dim[i])
                break;
            coord[i] = 0;
        }
    }
    return 0;
}

/* The header's "client": 0 plain chunks, 1 filtered ones. */
static int check_entry(struct array *a, unsigned client, unsigned entry, struct stk_err *err)
{
    unsigned plain = a->w.f->addr_size;
    a->entry = entry;
    a->filtered = client == 1;
    if (client > 1 || (client == 0 && entry != plain) ||
        (client == 1 && (entry < plain + 5 || entry > plain + 12)))
        return stk_h5_damaged(a->w.f, a->w.layout->addr, "chunk index", err);
    return 0;
}

/* Has page `bit` been written? Bits count from the high end of each byte. */
static int bit_is_set(const struct array *a, uint64_t bitmap, uint64_t bit, bool *set,
                      struct stk_err *err)
{
    const uint8_t *p;
    int rc = stk_h5_peek(a->w.f, bitmap + bit / 8, 1, "chunk index", &p, err);
    if (rc == 0)
        *set = p[0] & (0x80u >> (bit % 8));
    return rc;
}

/* The index stores nothing: there is no element to read. */
static int locate_implicit(struct array *a, uint64_t k, struct stk_err *err)
{
    uint64_t addr, size = a->w.grid->chunk_bytes;
    if (__builtin_mul_overflow(k, size, &addr) ||
        __builtin_add_overflow(addr, a->w.layout->addr, &addr))
        return stk_h5_damaged(a->w.f, a->w.layout->addr, "chunk index", err);
    return put_chunk(&a->w, a->number, addr, size, 0, a->w.layout->addr, err);
}

/* ---- fixed array ---- */

static int locate_fixed(struct array *a, uint64_t k, struct stk_err *err)
{
    if (k >= a->count)
        return stk_h5_damaged(a->w.f, a->w.layout->addr, "fixed array of chunks", err);
    if (!a->npages) {
        a->span.at = a->first + k * a->entry;
        a->span.left = a->count - k;
        return 0;
    }
    uint64_t page = k / a->page_elements, within = k % a->page_elements;
    bool set = false;
    int rc = bit_is_set(a, a->bitmap, page, &set, err);
    a->span.left = a->page_elements - within;
    if (rc < 0 || !set)
        return rc;
    uint64_t at = a->first + page * (a->page_elements * a->entry + 4);
    uint64_t n = a->count - page * a->page_elements; /* the last page is no longer than needed */
    n = n < a->page_elements ? n : a->page_elements;
    a->span.at = at + within * a->entry;
    return check_sum(a->w.f, at, n * a->entry, "fixed array of chunks", err);
}

static int list_fixed(struct array *a, struct stk_err *err)
{
    const struct stk_h5_file *f = a->w.f;
    const uint8_t *p;
    int rc = stk_h5_peek(f, a->w.layout->addr, 8 + f->len_size + f->addr_size,
                         "fixed array of chunks", &p, err);
    if (rc < 0)
        return rc;
    if (memcmp(p, "FAHD", 5) != 0 || p[7] > 32)
        return stk_h5_damaged(f, a->w.layout->addr, "fixed array of chunks", err);
    a->page_elements = 1ull << p[7];
    a->count = stk_h5_uint(p + 8, f->len_size);
    uint64_t block = stk_h5_addr(f, p + 8 + f->len_size);
    if ((rc = check_entry(a, p[5], p[6], err)) < 0)
        return rc;
    rc = check_sum(f, a->w.layout->addr, 8 + f->len_size + f->addr_size, "fixed array of chunks",
                   err);
    if (rc < 0 || block == STK_H5_NOWHERE) /* no chunk was ever written */
        return rc;
    if ((rc = stk_h5_peek(f, block, 6, "fixed array of chunks", &p, err)) < 0)
        return rc;
    uint64_t end;
    if (memcmp(p, "FADB", 5) != 0 || __builtin_mul_overflow(a->count, a->entry, &end) ||
        end > stk_src_size(f->src))
        return stk_h5_damaged(f, block, "fixed array of chunks", err);
    a->first = a->bitmap = block + 6 + f->addr_size;
    if (a->count > a->page_elements) {
        a->npages = (a->count + a->page_elements - 1) / a->page_elements;
        a->first += (a->npages + 7) / 8 + 4;
    }
    a->locate = locate_fixed;
    /* Without pages, the elements precede the checksum; with pages, only the bitmap does. */
    uint64_t sum = a->npages ? a->first - 4 : a->first + a->count * a->entry;
    rc = check_sum(f, block, sum - block, "fixed array of chunks", err);
    return rc < 0 ? rc : list_array(a, err);
}

/* ---- extensible array ---- */

static int check_extensible(const struct array *a, uint64_t at, uint64_t n, struct stk_err *err)
{
    return check_sum(a->w.f, at, n, "extensible array of chunks", err);
}

/*
 * Elements are in the index block, then in data blocks; "super block" u has 2^(u/2) data blocks of
 * min * 2^((u+1)/2) elements each. The index block itself points to the data blocks of the first
 * super blocks; super blocks in the file point to the others.
 */
static int data_block_element(struct array *a, uint64_t block, uint64_t k, unsigned log2_block,
                              bool paged, struct stk_err *err)
{
    const uint8_t *p;
    if (block == STK_H5_NOWHERE)
        return 0;
    int rc = stk_h5_peek(a->w.f, block, 5, "extensible array of chunks", &p, err);
    if (rc < 0)
        return rc;
    if (memcmp(p, "EADB", 5) != 0)
        return stk_h5_damaged(a->w.f, block, "extensible array of chunks", err);
    uint64_t head = 6u + a->w.f->addr_size + a->offset_bytes, size = (uint64_t)a->entry;
    if (!paged) {
        a->span.at = block + head + k * size;
        return check_extensible(a, block, head + (size << log2_block), err);
    }
    /* The head and each page end in their own checksum. */
    uint64_t page = block + head + 4 + (k >> a->log2_page) * ((size << a->log2_page) + 4);
    a->span.at = page + (k & ((1ull << a->log2_page) - 1)) * size;
    rc = check_extensible(a, block, head, err);
    return rc < 0 ? rc : check_extensible(a, page, size << a->log2_page, err);
}

static int peek_addr(const struct array *a, uint64_t at, uint64_t *addr, struct stk_err *err)
{
    const uint8_t *p;
    int rc = stk_h5_peek(a->w.f, at, a->w.f->addr_size, "extensible array of chunks", &p, err);
    if (rc == 0)
        *addr = stk_h5_addr(a->w.f, p);
    return rc;
}

/* Elements from k to the end of its group of 2^bits. */
static uint64_t rest_of(uint64_t k, unsigned bits)
{
    return (1ull << bits) - (k & ((1ull << bits) - 1));
}

/* Element k of super block u, through the super block in the file. */
static int super_block_element(struct array *a, unsigned u, uint64_t k, struct stk_err *err)
{
    const struct stk_h5_file *f = a->w.f;
    unsigned log2_block = a->log2_min + (u + 1) / 2;
    bool paged = log2_block > a->log2_page;
    uint64_t nblocks = 1ull << (u / 2), d = k >> log2_block,
             within = k & ((1ull << log2_block) - 1);
    uint64_t super = STK_H5_NOWHERE, block = STK_H5_NOWHERE;
    a->span.left = rest_of(k, paged ? a->log2_page : log2_block);
    int rc =
        peek_addr(a, a->supers_at + (u - a->direct_supers) * (uint64_t)f->addr_size, &super, err);
    if (rc < 0 || super == STK_H5_NOWHERE)
        return rc;
    uint64_t bitmap = super + 6 + f->addr_size + a->offset_bytes, addrs = bitmap;
    if (paged) {
        uint64_t pages = 1ull << (log2_block - a->log2_page);
        addrs += nblocks * ((pages + 7) / 8);
        bool set = false;
        rc = bit_is_set(a, bitmap, d * pages + (within >> a->log2_page), &set, err);
        if (rc < 0 || !set)
            return rc;
    }
    if (super != a->checked_super) { /* check it once: it has many data blocks */
        rc = check_extensible(a, super, addrs + nblocks * f->addr_size - super, err);
        if (rc < 0)
            return rc;
        a->checked_super = super;
    }
    if ((rc = peek_addr(a, addrs + d * f->addr_size, &block, err)) < 0)
        return rc;
    return data_block_element(a, block, within, log2_block, paged, err);
}

static int locate_extensible(struct array *a, uint64_t k, struct stk_err *err)
{
    if (k < a->index_elements) {
        a->span.at = a->elements_at + k * a->entry;
        a->span.left = a->index_elements - k;
        return 0;
    }
    k -= a->index_elements;
    unsigned u = 63u - (unsigned)__builtin_clzll((k >> a->log2_min) + 1);
    k -= ((1ull << u) - 1) << a->log2_min;
    if (u >= a->direct_supers) {
        if (u - a->direct_supers >= a->nsupers)
            return stk_h5_damaged(a->w.f, a->w.layout->addr, "extensible array of chunks", err);
        return super_block_element(a, u, k, err);
    }
    /* Data blocks before those of u: 2^(i/2) for each i < u. */
    uint64_t before = (1ull << ((u + 1) / 2)) - 1 + (1ull << (u / 2)) - 1;
    unsigned log2_block = a->log2_min + (u + 1) / 2;
    uint64_t d = before + (k >> log2_block), block = STK_H5_NOWHERE;
    if (d >= a->ndirect)
        return stk_h5_damaged(a->w.f, a->w.layout->addr, "extensible array of chunks", err);
    a->span.left = rest_of(k, log2_block);
    int rc = peek_addr(a, a->direct_at + d * a->w.f->addr_size, &block, err);
    uint64_t within = k & ((1ull << log2_block) - 1);
    return rc < 0 ? rc : data_block_element(a, block, within, log2_block, false, err);
}

static bool is_power_of_2(unsigned v)
{
    return v && !(v & (v - 1));
}

/* p: the header, from its signature on. */
static int extensible_geometry(struct array *a, const uint8_t *p, struct stk_err *err)
{
    unsigned max_bits = p[7], min_elements = p[9], min_pointers = p[10], page_bits = p[11];
    if (memcmp(p, "EAHD", 5) != 0 || !is_power_of_2(min_elements) || !is_power_of_2(min_pointers) ||
        max_bits > 60 || page_bits > 32)
        return stk_h5_damaged(a->w.f, a->w.layout->addr, "extensible array of chunks", err);
    a->index_elements = p[8];
    a->log2_min = (unsigned)__builtin_ctz(min_elements);
    a->log2_page = page_bits;
    a->offset_bytes = (max_bits + 7) / 8;
    a->direct_supers = 2 * (unsigned)__builtin_ctz(min_pointers);
    a->ndirect = 2 * ((uint64_t)min_pointers - 1);
    unsigned supers = max_bits + 1 > a->log2_min ? max_bits + 1 - a->log2_min : 0;
    a->nsupers = supers > a->direct_supers ? supers - a->direct_supers : 0;
    return check_entry(a, p[5], p[6], err);
}

static int list_extensible(struct array *a, struct stk_err *err)
{
    const struct stk_h5_file *f = a->w.f;
    const uint8_t *p;
    unsigned head = 12 + 6 * f->len_size;
    int rc = stk_h5_peek(f, a->w.layout->addr, head + f->addr_size, "extensible array of chunks",
                         &p, err);
    if (rc == 0)
        rc = extensible_geometry(a, p, err);
    if (rc < 0)
        return rc;
    uint64_t index = stk_h5_addr(f, p + head);
    rc = check_extensible(a, a->w.layout->addr, head + f->addr_size, err);
    if (rc < 0 || index == STK_H5_NOWHERE) /* no chunk was ever written */
        return rc;
    if ((rc = stk_h5_peek(f, index, 6, "extensible array of chunks", &p, err)) < 0)
        return rc;
    if (memcmp(p, "EAIB", 5) != 0)
        return stk_h5_damaged(f, index, "extensible array of chunks", err);
    a->elements_at = index + 6 + f->addr_size;
    a->direct_at = a->elements_at + a->index_elements * a->entry;
    a->supers_at = a->direct_at + a->ndirect * f->addr_size;
    a->locate = locate_extensible;
    rc = check_extensible(a, index, a->supers_at + a->nsupers * f->addr_size - index, err);
    return rc < 0 ? rc : list_array(a, err);
}

/* ---- all of them ---- */

static int list_single(struct walk *w, struct stk_err *err)
{
    const struct stk_h5_layout *l = w->layout;
    uint64_t size = l->filtered_single ? l->single_size : w->grid->chunk_bytes;
    if (w->grid->nchunks != 1)
        return stk_h5_damaged(w->f, l->addr, "single-chunk index", err);
    return put_chunk(w, 0, l->addr, size, l->single_mask, l->addr, err);
}

int stk_h5_list_chunks(const struct stk_h5_file *f, const struct stk_h5_layout *layout,
                       const struct stk_h5_grid *grid, struct stk_h5_chunk *chunk,
                       struct stk_err *err)
{
    struct walk w = {.f = f, .layout = layout, .grid = grid, .chunk = chunk};
    if (layout->addr == STK_H5_NOWHERE || !grid->nchunks)
        return 0; /* never written */
    if (layout->ndims != grid->rank + 1)
        return stk_h5_damaged(f, layout->addr, "chunk index (of other dimensions)", err);
    struct array a = {.w = w, .locate = locate_implicit};
    for (unsigned i = 0; i < grid->rank; i++)
        if (!grid->max[i])
            a.unlimited = i;
    switch (layout->index) {
    case STK_H5_INDEX_BTREE1:
        return list_tree(&w, err);
    case STK_H5_INDEX_SINGLE:
        return list_single(&w, err);
    case STK_H5_INDEX_IMPLICIT:
        return list_array(&a, err);
    case STK_H5_INDEX_FIXED:
        return list_fixed(&a, err);
    case STK_H5_INDEX_EXTENSIBLE:
        return list_extensible(&a, err);
    default:
        return stk_err_set(err, STK_E_UNSUPPORTED, stk_src_path(f->src), (int64_t)layout->addr,
                           "a chunk index of type %u", layout->index);
    }
}
