/*
 * build_merge.c - writes the tables of the index: copies the groups' ranges of the workers' spools
 * in file order, and renumbers them to continue from the group before. Fields and chains are
 * sorted, so that the bytes do not depend on which worker saw them first.
 */
#include "dataset/build_priv.h"
#include "dataset/priv.h"
#include "base/file.h"
#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct merge {
    struct builder *b;
    uint16_t *new_field; /* number while listing -> number in the index */
    uint8_t *new_chain;  /* the same, from 1; 0: no chain */
    int fd;
    uint64_t off;
    struct stk_buf buf;
    struct stk_hash hash;
    struct stk_index_header h;
    enum stk_table table; /* being written */
    const uint8_t **map;  /* [worker * S_COUNT + spool] */
    struct stk_buf sums;  /* u64 of each block written */
    struct stk_hash block;
    uint64_t in_block; /* bytes of the incomplete block */
};

static const char *index_name(const struct merge *m)
{
    return m->b->o->path ? m->b->o->path : stk_tmpdir(); /* nameless: the path names the disk */
}

static void end_block(struct merge *m)
{
    uint64_t sum = stk_hash_final(&m->block);
    stk_buf_put(&m->sums, &sum, sizeof sum);
    stk_hash_init(&m->block);
    m->in_block = 0;
}

static void sum_up(struct merge *m, const uint8_t *p, size_t n)
{
    while (n) {
        size_t take =
            STK_INDEX_BLOCK - m->in_block < n ? (size_t)(STK_INDEX_BLOCK - m->in_block) : n;
        stk_hash_update(&m->block, p, take);
        m->in_block += take;
        p += take;
        n -= take;
        if (m->in_block == STK_INDEX_BLOCK)
            end_block(m);
    }
}

static int merge_write(struct merge *m, const void *p, size_t n, struct stk_err *err)
{
    if (m->off >= STK_INDEX_TABLES)
        sum_up(m, p, n);
    m->off += n;
    return stk_write_full(m->fd, p, n, index_name(m), err);
}

static int merge_flush(struct merge *m, struct stk_err *err)
{
    int rc = merge_write(m, m->buf.data, m->buf.len, err);
    stk_buf_reset(&m->buf);
    return rc;
}

static int merge_put(struct merge *m, const void *p, size_t n, struct stk_err *err)
{
    if (!n)
        return 0;
    stk_hash_update(&m->hash, p, n);
    if (n >= (1u << 20)) {
        int rc = merge_flush(m, err);
        return rc < 0 ? rc : merge_write(m, p, n, err);
    }
    stk_buf_put(&m->buf, p, n);
    if (m->buf.fail)
        return stk_buf_check(&m->buf, err);
    return m->buf.len >= (1u << 20) ? merge_flush(m, err) : 0;
}

static void table_begin(struct merge *m, enum stk_table t)
{
    uint64_t at = m->off + m->buf.len;
    stk_buf_zeros(&m->buf, (STK_INDEX_ALIGN - at % STK_INDEX_ALIGN) % STK_INDEX_ALIGN);
    m->h.table[t].off = m->off + m->buf.len;
    m->table = t;
    stk_hash_init(&m->hash);
}

static void table_end(struct merge *m, uint32_t elem)
{
    m->h.table[m->table].elem = elem;
    m->h.table[m->table].count = (m->off + m->buf.len - m->h.table[m->table].off) / elem;
    m->h.table[m->table].hash = stk_hash_final(&m->hash);
}

static int put_table(struct merge *m, enum stk_table t, uint32_t elem, const void *p, size_t n,
                     struct stk_err *err)
{
    table_begin(m, t);
    int rc = merge_put(m, p, n, err);
    table_end(m, elem);
    return rc;
}

static const uint8_t *stretch(const struct merge *m, uint64_t grp, enum spool_id id, size_t *len)
{
    const struct group *g = &m->b->group[grp];
    *len = (size_t)(g->end[id] - g->begin[id]);
    /* An empty spool has no map, and NULL + 0 is undefined in C. */
    return *len ? m->map[g->worker * S_COUNT + id] + g->begin[id] : NULL;
}

/* Copies a spool's ranges unchanged. */
static int merge_plain(struct merge *m, enum stk_table t, enum spool_id id, uint32_t elem,
                       struct stk_err *err)
{
    int rc = 0;
    table_begin(m, t);
    for (uint64_t i = 0; rc == 0 && i < m->b->ngroups; i++) {
        size_t n;
        const uint8_t *p = stretch(m, i, id, &n);
        rc = merge_put(m, p, n, err);
    }
    table_end(m, elem);
    return rc;
}

/* Copies packed entries and renumbers them. */
static int merge_packed(struct merge *m, enum stk_table t, enum spool_id id,
                        struct stk_packed (*change)(const struct merge *, struct stk_packed),
                        struct stk_err *err)
{
    int rc = 0;
    table_begin(m, t);
    for (uint64_t i = 0; rc == 0 && i < m->b->ngroups; i++) {
        size_t n;
        const struct stk_packed *p = (const void *)stretch(m, i, id, &n);
        for (size_t k = 0; rc == 0 && k < n / sizeof *p; k++) {
            struct stk_packed x = change(m, p[k]);
            rc = merge_put(m, &x, sizeof x, err);
        }
    }
    table_end(m, sizeof(struct stk_packed));
    return rc;
}

static struct stk_packed renumber_chain(const struct merge *m, struct stk_packed p)
{
    struct stk_extent e = stk_extent_unpack(p);
    e.chain = m->new_chain[e.chain];
    return stk_extent_pack(&e);
}

static struct stk_packed renumber_field(const struct merge *m, struct stk_packed p)
{
    struct stk_slice s = stk_part_unpack(p);
    return stk_part_pack(s.extent, m->new_field[s.field], s.offset, s.length);
}

static int merge_extents(struct merge *m, struct stk_err *err)
{
    if (m->b->chains.len <= sizeof(struct stk_chain)) /* nothing to renumber */
        return merge_plain(m, STK_T_EXTENTS, S_EXTENTS, sizeof(struct stk_packed), err);
    return merge_packed(m, STK_T_EXTENTS, S_EXTENTS, renumber_chain, err);
}

static int merge_columns(struct merge *m, struct stk_err *err)
{
    int rc = 0;
    table_begin(m, STK_T_COLUMNS);
    for (uint64_t i = 0; rc == 0 && i < m->b->ngroups; i++) {
        size_t n;
        const struct stk_index_column *c = (const void *)stretch(m, i, S_COLUMNS, &n);
        for (size_t k = 0; rc == 0 && k < n / sizeof *c; k++) {
            struct stk_index_column x = c[k];
            x.field = m->new_field[x.field];
            rc = merge_put(m, &x, sizeof x, err);
        }
    }
    table_end(m, sizeof(struct stk_index_column));
    return rc;
}

static int merge_files(struct merge *m, struct stk_err *err)
{
    struct builder *b = m->b;
    int rc = 0;
    uint64_t number = 0;
    table_begin(m, STK_T_FILES);
    for (uint64_t i = 0; rc == 0 && i < b->ngroups; i++) {
        size_t n;
        const struct file_rec *r = (const void *)stretch(m, i, S_FILES, &n);
        for (size_t k = 0; rc == 0 && k < n / sizeof *r; k++, number++) {
            struct stk_index_file f = b->file[number];
            f.size = r[k].size;
            f.mtime_ns = b->o->portable ? 0 : r[k].mtime_ns;
            f.inode = b->o->portable ? 0 : r[k].inode;
            if (!b->o->portable && r[k].changed_ns > m->h.changed_ns)
                m->h.changed_ns = r[k].changed_ns;
            m->h.bytes_stored += f.size;
            rc = merge_put(m, &f, sizeof f, err);
        }
    }
    table_end(m, sizeof(struct stk_index_file));
    return rc;
}

/* Segments count from their group's start; joins adjacent whole-extent segments. */
static int merge_segments(struct merge *m, struct stk_err *err)
{
    struct stk_segment last = {0};
    uint64_t samples = 0, extents = 0, rows = 0, columns = 0;
    int rc = 0;
    table_begin(m, STK_T_SEGMENTS);
    for (uint64_t i = 0; rc == 0 && i < m->b->ngroups; i++) {
        size_t n, len;
        const struct stk_segment *s = (const void *)stretch(m, i, S_SEGMENTS, &n);
        uint64_t group_samples = 0;
        for (size_t k = 0; rc == 0 && k < n / sizeof *s; k++) {
            struct stk_segment seg = s[k];
            group_samples += seg.nsamples;
            if (seg.kind == STK_SEG_WHOLE)
                seg.field = m->new_field[seg.field];
            seg.first_sample += samples;
            seg.first_extent += extents;
            seg.first += seg.kind == STK_SEG_PARTS ? rows : columns;
            if (last.kind == STK_SEG_WHOLE && seg.kind == last.kind && seg.field == last.field &&
                last.first_extent + last.nextents == seg.first_extent) {
                last.nsamples += seg.nsamples;
                last.nextents += seg.nextents;
                continue;
            }
            rc = last.kind ? merge_put(m, &last, sizeof last, err) : 0;
            last = seg;
        }
        samples += group_samples;
        (void)stretch(m, i, S_EXTENTS, &len), extents += len / sizeof(struct stk_packed);
        (void)stretch(m, i, S_ROWS, &len), rows += len / 8;
        (void)stretch(m, i, S_COLUMNS, &len), columns += len / sizeof(struct stk_index_column);
    }
    if (rc == 0 && last.kind)
        rc = merge_put(m, &last, sizeof last, err);
    table_end(m, sizeof last);
    m->h.nsamples = samples;
    return rc;
}

static int merge_rows(struct merge *m, struct stk_err *err)
{
    uint64_t parts = 0;
    int rc = 0;
    table_begin(m, STK_T_ROWS);
    for (uint64_t i = 0; rc == 0 && i < m->b->ngroups; i++) {
        size_t n;
        const uint64_t *row = (const void *)stretch(m, i, S_ROWS, &n);
        for (size_t k = 0; rc == 0 && k < n / 8; k++) {
            uint64_t v = row[k] + parts;
            rc = merge_put(m, &v, 8, err);
        }
        (void)stretch(m, i, S_PARTS, &n);
        parts += n / sizeof(struct stk_packed);
    }
    if (rc == 0)
        rc = merge_put(m, &parts, 8, err);
    table_end(m, 8);
    return rc;
}

/* Offsets of keys; files without keys get empty keys if others have some. */
static int merge_keyoff(struct merge *m, struct stk_err *err)
{
    uint64_t off = 0;
    int rc = 0;
    table_begin(m, STK_T_KEYOFF);
    for (uint64_t i = 0; rc == 0 && m->b->any_keys && i < m->b->ngroups; i++) {
        size_t nrec, nlen;
        const struct file_rec *r = (const void *)stretch(m, i, S_FILES, &nrec);
        const uint32_t *len = (const void *)stretch(m, i, S_KEYLEN, &nlen);
        for (size_t k = 0; k < nrec / sizeof *r; k++)
            for (uint64_t s = 0; rc == 0 && s < r[k].nsamples; s++) {
                rc = merge_put(m, &off, 8, err);
                off += r[k].has_keys ? *len++ : 0;
            }
    }
    if (rc == 0 && m->b->any_keys)
        rc = merge_put(m, &off, 8, err);
    table_end(m, 8);
    return rc;
}

static int merge_points(struct merge *m, struct stk_err *err)
{
    uint64_t extents = 0, windows = 0;
    int rc = 0;
    table_begin(m, STK_T_POINTS);
    for (uint64_t i = 0; rc == 0 && i < m->b->ngroups; i++) {
        size_t n, len;
        const struct stk_index_point *p = (const void *)stretch(m, i, S_POINTS, &n);
        for (size_t k = 0; rc == 0 && k < n / sizeof *p; k++) {
            struct stk_index_point x = p[k];
            x.extent += extents;
            x.window_off += windows;
            rc = merge_put(m, &x, sizeof x, err);
        }
        (void)stretch(m, i, S_EXTENTS, &len), extents += len / sizeof(struct stk_packed);
        (void)stretch(m, i, S_WINDOWS, &len), windows += len;
    }
    table_end(m, sizeof(struct stk_index_point));
    return rc;
}

static int merge_crcs(struct merge *m, struct stk_err *err)
{
    uint64_t extents = 0;
    int rc = 0;
    table_begin(m, STK_T_CRCS);
    for (uint64_t i = 0; rc == 0 && i < m->b->ngroups; i++) {
        size_t n, len;
        const struct stk_index_crc *c = (const void *)stretch(m, i, S_CRCS, &n);
        for (size_t k = 0; rc == 0 && k < n / sizeof *c; k++) {
            struct stk_index_crc x = c[k];
            x.extent += extents;
            rc = merge_put(m, &x, sizeof x, err);
        }
        (void)stretch(m, i, S_EXTENTS, &len), extents += len / sizeof(struct stk_packed);
    }
    table_end(m, sizeof(struct stk_index_crc));
    return rc;
}

/* Zeros, until stk_index_seal() fills in the checksums. */
static int merge_checks(struct merge *m, struct stk_err *err)
{
    static const uint32_t zeros[4096];
    uint64_t left = m->b->o->checks ? m->h.nsamples : 0;
    int rc = 0;
    table_begin(m, STK_T_CHECKS);
    while (rc == 0 && left) {
        size_t n = left < 4096 ? (size_t)left : 4096;
        rc = merge_put(m, zeros, n * sizeof *zeros, err);
        left -= n;
    }
    table_end(m, sizeof *zeros);
    return rc;
}

/* ---- what the whole dataset shares ---- */

static int by_name(const void *a, const void *b, void *user)
{
    const struct builder *bl = user;
    const struct stk_index_field *f = (const void *)bl->fields.data;
    const struct stk_index_field *x = &f[*(const uint16_t *)a], *y = &f[*(const uint16_t *)b];
    const char *names = (const char *)bl->fieldnames.data;
    uint32_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
    int c = memcmp(names + x->name_off, names + y->name_off, n);
    c = c ? c : (x->name_len > y->name_len) - (x->name_len < y->name_len);
    c = c ? c : strcmp(x->codec, y->codec);
    return c ? c : (int)x->kind - (int)y->kind;
}

/* Fields in the order of their names. */
static int merge_fields(struct merge *m, struct stk_err *err)
{
    struct builder *b = m->b;
    const struct stk_index_field *f = (const void *)b->fields.data;
    size_t n = b->fields.len / sizeof *f;
    uint16_t *order = calloc(n + 1, sizeof *order);
    struct stk_buf fields = STK_BUF_INIT, names = STK_BUF_INIT;
    m->new_field = calloc(n + 1, sizeof *m->new_field);
    if (!order || !m->new_field) {
        free(order);
        return stk_err_nomem(err, n * sizeof *order);
    }
    for (size_t i = 0; i < n; i++)
        order[i] = (uint16_t)i;
    qsort_r(order, n, sizeof *order, by_name, b);
    for (size_t i = 0; i < n; i++) {
        struct stk_index_field x = f[order[i]];
        m->new_field[order[i]] = (uint16_t)i;
        x.name_off = (uint32_t)names.len;
        stk_buf_put(&names, b->fieldnames.data + f[order[i]].name_off, x.name_len);
        stk_buf_put(&fields, &x, sizeof x);
    }
    int rc = names.fail ? stk_buf_check(&names, err) : stk_buf_check(&fields, err);
    if (rc == 0)
        rc = put_table(m, STK_T_FIELDS, sizeof *f, fields.data, fields.len, err);
    if (rc == 0)
        rc = put_table(m, STK_T_FIELDNAMES, 1, names.data, names.len, err);
    stk_buf_release(&fields);
    stk_buf_release(&names);
    free(order);
    return rc;
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct stk_chain));
}

/* Chains in the order of their bytes. */
static int order_chains(struct merge *m, struct stk_err *err)
{
    struct stk_chain *c = (void *)m->b->chains.data;
    size_t n = m->b->chains.len / sizeof *c;
    m->new_chain = calloc(n + 1, 1);
    struct stk_chain *old = calloc(n + 1, sizeof *old);
    if (!m->new_chain || !old) {
        free(old);
        return stk_err_nomem(err, n);
    }
    if (n) {
        memcpy(old, c, n * sizeof *c);
        qsort(c, n, sizeof *c, by_bytes);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            if (by_bytes(&old[i], &c[k]) == 0)
                m->new_chain[i + 1] = (uint8_t)(k + 1);
    free(old);
    return 0;
}

/* Merges the notes of all files, and those of the walk. */
static int merge_notes(struct merge *m, struct stk_err *err)
{
    struct stk_notes all = {0};
    struct stk_buf b = STK_BUF_INIT;
    int rc = stk_notes_join(&all, &m->b->walk->notes, err);
    for (uint64_t i = 0; rc == 0 && i < m->b->ngroups; i++) {
        size_t n;
        const uint8_t *p = stretch(m, i, S_NOTES, &n);
        rc = stk_notes_read(&all, (const char *)p, n, err);
    }
    stk_notes_write(&all, &b);
    if (rc == 0)
        rc = stk_buf_check(&b, err);
    if (rc == 0)
        rc = put_table(m, STK_T_NOTES, 1, b.data, b.len, err);
    stk_buf_release(&b);
    stk_notes_release(&all);
    return rc;
}

static int merge_shared(struct merge *m, struct stk_err *err)
{
    struct builder *b = m->b;
    const void *names, *dirs;
    int rc = stk_spool_map(&b->walk->names, &names, err);
    if (rc == 0)
        rc = put_table(m, STK_T_NAMES, 1, names, stk_spool_len(&b->walk->names), err);
    if (rc == 0)
        rc = stk_spool_map(&b->walk->dirs, &dirs, err);
    if (rc == 0)
        rc = put_table(m, STK_T_DIRS, sizeof(struct stk_index_dir), dirs,
                       b->o->portable ? 0 : stk_spool_len(&b->walk->dirs), err);
    if (rc == 0)
        rc = merge_fields(m, err);
    if (rc == 0)
        rc = put_table(m, STK_T_CHAINS, sizeof(struct stk_chain), b->chains.data, b->chains.len,
                       err);
    if (rc == 0)
        rc = put_table(m, STK_T_CONTEXT, 1, b->context.data, b->context.len, err);
    return rc < 0 ? rc : merge_notes(m, err);
}

/* The checksums of all blocks, which do not cover themselves. */
static int merge_sums(struct merge *m, struct stk_err *err)
{
    uint64_t at = m->off + m->buf.len;
    stk_buf_zeros(&m->buf, (STK_INDEX_ALIGN - at % STK_INDEX_ALIGN) % STK_INDEX_ALIGN);
    int rc = merge_flush(m, err);
    if (m->in_block)
        end_block(m);
    if (rc == 0)
        rc = stk_buf_check(&m->sums, err);
    struct stk_buf sums = m->sums;
    m->sums = (struct stk_buf)STK_BUF_INIT; /* the sums are not summed themselves */
    if (rc == 0)
        rc = put_table(m, STK_T_SUMS, 8, sums.data, sums.len, err);
    stk_buf_release(&sums);
    return rc < 0 ? rc : merge_flush(m, err);
}

static void fill_header(struct merge *m)
{
    struct builder *b = m->b;
    struct stk_index_header *h = &m->h;
    struct stat root, own;
    memcpy(h->magic, STK_INDEX_MAGIC, 8);
    h->version = STK_INDEX_VERSION;
    h->ntables = STK_T_COUNT;
    h->nfiles = h->table[STK_T_FILES].count;
    h->nextents = h->table[STK_T_EXTENTS].count;
    h->bytes_samples = atomic_load(&b->bytes_samples);
    h->files_ignored = b->walk->ignored;
    h->data_id = b->o->data_id;
    h->listing = b->o->listing;
    h->root_inode = !b->o->portable && fstat(b->walk->rootfd, &root) == 0 ? root.st_ino : 0;
    h->own_inode = !b->o->portable && fstat(m->fd, &own) == 0 ? own.st_ino : 0;
    if (!b->o->portable && !(b->walk->format->caps & STK_CAN_TREE))
        h->pieces = stk_fit_pieces(&b->files);
    h->compress = b->o->list.compress;
    if ((b->walk->format->caps & STK_CAN_TREE) && !b->o->list.compress && !b->o->list.grouped)
        h->flags |= STK_INDEX_KEYS_ARE_FILES;
    if (b->o->list.grouped)
        h->flags |= STK_INDEX_GROUPED;
    snprintf(h->format, sizeof h->format, "%s", b->walk->format->name);
    const struct stk_index_field *f = (const void *)b->fields.data;
    if (b->fields.len == sizeof *f) /* one field: its codec is the payload */
        snprintf(h->payload, sizeof h->payload, "%s", f->codec);
    h->file_size = m->off;
    h->header_hash = stk_index_header_hash(h);
}

/* Checks that all spools were read back intact. */
static int check_spools(const struct builder *b, struct stk_err *err)
{
    const struct stk_spool *walked[] = {&b->walk->files, &b->walk->names, &b->walk->dirs,
                                        &b->walk->keys};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof walked / sizeof *walked; i++)
        rc = stk_spool_intact(walked[i], err);
    for (unsigned w = 0; w < b->nworkers; w++)
        for (int i = 0; rc == 0 && i < S_COUNT; i++)
            rc = stk_spool_intact(&b->worker[w].spool[i], err);
    return rc;
}

static int merge_all(struct merge *m, struct stk_err *err)
{
    stk_buf_zeros(&m->buf, STK_INDEX_TABLES); /* room for the header */
    int rc = merge_flush(m, err);
    if (rc == 0)
        rc = order_chains(m, err);
    if (rc == 0)
        rc = merge_files(m, err);
    if (rc == 0)
        rc = merge_shared(m, err);
    if (rc == 0)
        rc = merge_extents(m, err);
    if (rc == 0)
        rc = merge_segments(m, err);
    if (rc == 0)
        rc = merge_columns(m, err);
    if (rc == 0)
        rc = merge_rows(m, err);
    if (rc == 0)
        rc = merge_packed(m, STK_T_PARTS, S_PARTS, renumber_field, err);
    if (rc == 0)
        rc = merge_keyoff(m, err);
    if (rc == 0)
        rc = merge_plain(m, STK_T_KEYS, S_KEYS, 1, err);
    if (rc == 0)
        rc = merge_points(m, err);
    if (rc == 0)
        rc = merge_plain(m, STK_T_WINDOWS, S_WINDOWS, 1, err);
    if (rc == 0)
        rc = merge_crcs(m, err);
    if (rc == 0)
        rc = merge_checks(m, err);
    if (rc == 0)
        rc = merge_sums(m, err);
    if (rc == 0)
        rc = check_spools(m->b, err);
    if (rc < 0)
        return rc;
    fill_header(m);
    return stk_pwrite_full(m->fd, &m->h, sizeof m->h, 0, index_name(m), err);
}

int stk_build_merge(struct builder *b, int fd, struct stk_err *err)
{
    struct merge m = {.b = b, .fd = fd};
    stk_hash_init(&m.block);
    m.map = calloc((size_t)b->nworkers * S_COUNT, sizeof *m.map);
    int rc = m.map ? 0 : stk_err_nomem(err, b->nworkers * sizeof *m.map);
    for (unsigned w = 0; rc == 0 && w < b->nworkers; w++)
        for (int i = 0; rc == 0 && i < S_COUNT; i++) {
            const void *p = NULL;
            rc = stk_spool_map(&b->worker[w].spool[i], &p, err);
            m.map[w * S_COUNT + (unsigned)i] = p;
        }
    if (rc == 0)
        rc = merge_all(&m, err);
    stk_buf_release(&m.buf);
    stk_buf_release(&m.sums);
    free(m.new_field);
    free(m.new_chain);
    free(m.map);
    return rc;
}
