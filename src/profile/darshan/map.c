/*
 * map.c - converts a record of Darshan to our counts. What Darshan does not record stays
 * unknown: where our count would imply something (a read that is neither first nor sequential is
 * random), the reads are counted where they imply nothing.
 */
#include "profile/darshan/priv.h"

static uint64_t whole(const struct stk_darshan *d, enum stk_darshan_field f)
{
    double v = d->value[f];
    return v > 0 && v < 9e18 ? (uint64_t)v : 0;
}

static uint64_t nanoseconds(const struct stk_darshan *d, enum stk_darshan_field f)
{
    double v = d->value[f] * 1e9;
    return v > 0 && v < 9e18 ? (uint64_t)(v + 0.5) : 0;
}

static uint64_t at_most(uint64_t v, uint64_t limit)
{
    return v < limit ? v : limit;
}

/* 0 means "never": the counter then stays empty. */
static void first_time(uint64_t *c, uint64_t at)
{
    if (at && at < *c)
        *c = at;
}

static void last_time(uint64_t *c, uint64_t at)
{
    if (at > *c)
        *c = at;
}

static void times(const struct stk_darshan *d, struct stk_counts *n)
{
    uint64_t *c = n->c;
    c[STK_C_READ_NS] = nanoseconds(d, STK_D_F_READ_TIME);
    c[STK_C_WRITE_NS] = nanoseconds(d, STK_D_F_WRITE_TIME);
    c[STK_C_META_NS] = nanoseconds(d, STK_D_F_META_TIME);
    c[STK_C_MAX_READ_NS] = nanoseconds(d, STK_D_F_MAX_READ_TIME);
    c[STK_C_MAX_WRITE_NS] = nanoseconds(d, STK_D_F_MAX_WRITE_TIME);
    first_time(&c[STK_C_OPEN_NS], nanoseconds(d, STK_D_F_OPEN_START_TIMESTAMP));
    last_time(&c[STK_C_CLOSE_NS], nanoseconds(d, STK_D_F_CLOSE_END_TIMESTAMP));
    first_time(&c[STK_C_FIRST_READ_NS], nanoseconds(d, STK_D_F_READ_START_TIMESTAMP));
    last_time(&c[STK_C_LAST_READ_NS], nanoseconds(d, STK_D_F_READ_END_TIMESTAMP));
    for (enum stk_darshan_field f = STK_D_F_OPEN_START_TIMESTAMP;
         f <= STK_D_F_CLOSE_START_TIMESTAMP; f++)
        first_time(&c[STK_C_FIRST_NS], nanoseconds(d, f));
    for (enum stk_darshan_field f = STK_D_F_OPEN_END_TIMESTAMP; f <= STK_D_F_CLOSE_END_TIMESTAMP;
         f++)
        last_time(&c[STK_C_LAST_NS], nanoseconds(d, f));
}

static unsigned size_bin(uint64_t size)
{
    unsigned bin = 0;
    while (bin < STK_SIZE_BINS - 1 && size > stk_size_edge[bin])
        bin++;
    return bin;
}

static void sizes(const struct stk_darshan *d, struct stk_counts *n)
{
    for (unsigned i = 0; i < STK_SIZE_BINS; i++) {
        n->read_size[i] = whole(d, STK_D_SIZE_READ_0_100 + i);
        n->write_size[i] = whole(d, STK_D_SIZE_WRITE_0_100 + i);
    }
}

static void moved(const struct stk_darshan *d, struct stk_counts *n)
{
    uint64_t *c = n->c;
    uint64_t read = whole(d, STK_D_MAX_BYTE_READ), written = whole(d, STK_D_MAX_BYTE_WRITTEN);
    c[STK_C_READS] = whole(d, STK_D_READS);
    c[STK_C_WRITES] = whole(d, STK_D_WRITES);
    c[STK_C_READ_BYTES] = whole(d, STK_D_BYTES_READ);
    c[STK_C_WRITE_BYTES] = whole(d, STK_D_BYTES_WRITTEN);
    c[STK_C_SEEKS] = whole(d, STK_D_SEEKS);
    c[STK_C_RW_SWITCHES] = whole(d, STK_D_RW_SWITCHES);
    if (c[STK_C_READ_BYTES] && d->value[STK_D_MAX_BYTE_READ] >= 0)
        c[STK_C_MAX_OFFSET] = read + 1;
    if (c[STK_C_WRITE_BYTES] && d->value[STK_D_MAX_BYTE_WRITTEN] >= 0 &&
        written + 1 > c[STK_C_MAX_OFFSET])
        c[STK_C_MAX_OFFSET] = written + 1;
}

/*
 * Darshan counts reads of 0 bytes among its reads, its smallest size and its consecutive reads, but
 * not among its common sizes: if those are complete (fewer than four), the remaining reads had no
 * bytes.
 */
static void end_of_file_reads(struct stk_darshan *d, struct stk_counts *n)
{
    uint64_t *c = n->c, common = 0, smallest = n->read_size[0];
    for (unsigned i = 0; i < STK_COMMON; i++)
        common += whole(d, STK_D_ACCESS1_COUNT + i);
    uint64_t calls = c[STK_C_READS] + c[STK_C_WRITES];
    uint64_t none = calls - at_most(common, calls);
    if (!smallest)
        return;
    if (d->value[STK_D_BYTES_READ] == 0) {
        none = at_most(smallest, c[STK_C_READS]);
    } else if (whole(d, STK_D_ACCESS4_COUNT) || !d->trusted_common || common > calls ||
               none > at_most(smallest, c[STK_C_READS])) {
        d->zeros = true;
        return;
    }
    c[STK_C_EOF_READS] = none;
    c[STK_C_READS] -= none;
    n->read_size[0] -= none;
    c[STK_C_SEQ_READS] -= at_most(none, c[STK_C_SEQ_READS]);
    c[STK_C_CONSEC_READS] -= at_most(none, c[STK_C_CONSEC_READS]);
}

/* Common sizes cover reads and writes together: keeps those that can only be reads. */
static void common_sizes(const struct stk_darshan *d, struct stk_counts *n)
{
    size_t kept = 0;
    for (unsigned i = 0; i < STK_COMMON && d->trusted_common; i++) {
        uint64_t size = whole(d, STK_D_ACCESS1_ACCESS + i);
        uint64_t count = whole(d, STK_D_ACCESS1_COUNT + i);
        unsigned bin = size_bin(size);
        if (size && count && !n->write_size[bin] && count <= n->read_size[bin])
            n->size[kept++] = (struct stk_common_value){size, count};
    }
}

static void posix(struct stk_darshan *d, struct stk_counts *n)
{
    uint64_t *c = n->c, opens = whole(d, STK_D_OPENS);
    uint64_t not_opens = whole(d, STK_D_FILENOS) + whole(d, STK_D_DUPS);
    moved(d, n);
    sizes(d, n);
    c[STK_C_OPENS] = opens - at_most(not_opens, opens); /* Darshan includes them */
    c[STK_C_DUPS] = whole(d, STK_D_DUPS);
    c[STK_C_STATS] = whole(d, STK_D_STATS);
    c[STK_C_FSYNCS] = whole(d, STK_D_FSYNCS) + whole(d, STK_D_FDSYNCS);
    c[STK_C_RENAMES] = whole(d, STK_D_RENAME_SOURCES);
    c[STK_C_SEQ_READS] = at_most(whole(d, STK_D_SEQ_READS), c[STK_C_READS]);
    c[STK_C_CONSEC_READS] = at_most(whole(d, STK_D_CONSEC_READS), c[STK_C_READS]);
    c[STK_C_SEQ_WRITES] = whole(d, STK_D_SEQ_WRITES);
    c[STK_C_CONSEC_WRITES] = whole(d, STK_D_CONSEC_WRITES);
    c[STK_C_WRITE_OPENS] = c[STK_C_WRITES] > 0; /* at least */
    end_of_file_reads(d, n);
    /* Darshan's sequence continues across opens, ours starts again: of the reads outside any
     * sequence, as many as there were opens (at least one per rank) are first reads. */
    uint64_t others = c[STK_C_READS] - at_most(c[STK_C_SEQ_READS], c[STK_C_READS]);
    uint64_t firsts = c[STK_C_OPENS] ? c[STK_C_OPENS] : d->rank < 0 ? d->nprocs : 1;
    c[STK_C_FIRST_READS] = at_most(others, firsts);
    common_sizes(d, n);
}

static void stdio(struct stk_darshan *d, struct stk_counts *n)
{
    uint64_t *c = n->c;
    moved(d, n);
    c[STK_C_OPENS] = whole(d, STK_D_OPENS);
    c[STK_C_FIRST_READS] = c[STK_C_READS]; /* their order is unknown: in no sequence */
    if (c[STK_C_READS])
        n->read_size[size_bin(c[STK_C_READ_BYTES] / c[STK_C_READS])] = c[STK_C_READS];
    if (c[STK_C_WRITES])
        n->write_size[size_bin(c[STK_C_WRITE_BYTES] / c[STK_C_WRITES])] = c[STK_C_WRITES];
    d->stdio_sizes |= c[STK_C_READS] || c[STK_C_WRITES];
}

static void mpiio(struct stk_darshan *d, struct stk_counts *n)
{
    uint64_t *c = n->c;
    moved(d, n);
    sizes(d, n);
    c[STK_C_OPENS] = whole(d, STK_D_INDEP_OPENS) + whole(d, STK_D_COLL_OPENS);
    c[STK_C_READS] = whole(d, STK_D_INDEP_READS) + whole(d, STK_D_COLL_READS) +
                     whole(d, STK_D_SPLIT_READS) + whole(d, STK_D_NB_READS);
    c[STK_C_WRITES] = whole(d, STK_D_INDEP_WRITES) + whole(d, STK_D_COLL_WRITES) +
                      whole(d, STK_D_SPLIT_WRITES) + whole(d, STK_D_NB_WRITES);
    c[STK_C_FSYNCS] = whole(d, STK_D_SYNCS);
    c[STK_C_FIRST_READS] = c[STK_C_READS];
    common_sizes(d, n);
}

static void hdf5(struct stk_darshan *d, struct stk_counts *n)
{
    uint64_t *c = n->c;
    moved(d, n);
    sizes(d, n);
    c[STK_C_OPENS] = d->module == STK_DM_H5F ? whole(d, STK_D_OPENS) : 0;
    c[STK_C_FSYNCS] = whole(d, STK_D_FLUSHES);
    c[STK_C_FIRST_READS] = c[STK_C_READS];
    common_sizes(d, n);
}

/* DAOS without a mount point: still files. The order of reads is unknown. */
static void dfs(struct stk_darshan *d, struct stk_counts *n)
{
    uint64_t *c = n->c;
    moved(d, n);
    sizes(d, n);
    c[STK_C_OPENS] = whole(d, STK_D_OPENS) + whole(d, STK_D_GLOBAL_OPENS) + whole(d, STK_D_LOOKUPS);
    c[STK_C_DUPS] = whole(d, STK_D_DUPS);
    c[STK_C_STATS] = whole(d, STK_D_STATS);
    c[STK_C_READS] += whole(d, STK_D_READXS); /* both include the non-blocking ones */
    c[STK_C_WRITES] += whole(d, STK_D_WRITEXS);
    c[STK_C_FIRST_READS] = c[STK_C_READS];
    common_sizes(d, n);
}

/* "FILE.h5:DATASET" is FILE.h5. */
static size_t name_length(const struct stk_darshan *d)
{
    const char *name = (const char *)d->name.data;
    const char *colon = d->module == STK_DM_H5D ? memrchr(name, ':', d->name.len) : NULL;
    return colon && colon > name ? (size_t)(colon - name) : d->name.len;
}

static uint32_t small(uint64_t v)
{
    return v < UINT32_MAX ? (uint32_t)v : 0;
}

static void stripes(const struct stk_darshan *d, struct stk_prof_file *f)
{
    uint64_t size = whole(d, STK_D_STRIPE_SIZE), count = whole(d, STK_D_STRIPE_WIDTH);
    f->stripe_bytes = small(size ? size : whole(d, STK_D_COMP1_STRIPE_SIZE));
    f->stripe_count = small(count ? count : whole(d, STK_D_COMP1_STRIPE_COUNT));
}

static void ranks_of(const struct stk_darshan *d, struct stk_darshan_rec *r)
{
    r->slowest = d->value[STK_D_SLOWEST_RANK] >= 0 ? (int64_t)d->value[STK_D_SLOWEST_RANK] : -1;
    r->fastest = d->value[STK_D_FASTEST_RANK] >= 0 ? (int64_t)d->value[STK_D_FASTEST_RANK] : -1;
    r->slowest_s = d->value[STK_D_F_SLOWEST_RANK_TIME];
    r->fastest_s = d->value[STK_D_F_FASTEST_RANK_TIME];
    r->slowest_bytes = whole(d, STK_D_SLOWEST_RANK_BYTES);
    r->fastest_bytes = whole(d, STK_D_FASTEST_RANK_BYTES);
}

/* Standard streams are not files, nor is a record whose name did not fit into Darshan's memory. */
static bool is_file(const struct stk_darshan *d)
{
    const char *name = (const char *)d->name.data;
    return d->name.len && name[0] != '<' && !(d->name.len == 6 && memcmp(name, "(null)", 6) == 0);
}

static int keep(struct stk_darshan *d, uint32_t file, struct stk_err *err)
{
    int rc = STK_ARRAY_MORE(d->rec, d->nrecs, err);
    if (rc)
        return rc;
    struct stk_darshan_rec *r = &d->rec[d->nrecs++];
    *r = (struct stk_darshan_rec){.rank = d->rank, .file = file, .api = STK_API_HDF5};
    stk_counts_init(&r->n);
    if (d->module == STK_DM_POSIX) {
        r->api = STK_API_POSIX;
        posix(d, &r->n);
    } else if (d->module == STK_DM_STDIO) {
        r->api = STK_API_STDIO;
        stdio(d, &r->n);
    } else if (d->module == STK_DM_DFS) {
        r->api = STK_API_POSIX;
        dfs(d, &r->n);
    } else if (d->module == STK_DM_MPIIO) {
        r->api = STK_API_MPIIO;
        mpiio(d, &r->n);
    } else {
        hdf5(d, &r->n);
    }
    times(d, &r->n);
    ranks_of(d, r);
    uint64_t reach =
        d->value[STK_D_MAX_BYTE_READ] >= 0 ? whole(d, STK_D_MAX_BYTE_READ) + 1 : UINT64_MAX;
    r->distinct_bytes = at_most(r->n.c[STK_C_READ_BYTES], reach);
    return 0;
}

int stk_darshan_map(struct stk_darshan *d, struct stk_err *err)
{
    uint32_t file;
    if (d->module == STK_DM_NONE || !is_file(d))
        return 0;
    d->dfs |= d->module == STK_DM_DFS;
    d->daos |= d->module == STK_DM_DAOS;
    if (d->module == STK_DM_DAOS) /* objects, not files: DFS stores its files in them */
        return 0;
    int rc = stk_pb_file(d->pb, "", (const char *)d->name.data, name_length(d), false, &file, err);
    if (rc)
        return rc;
    struct stk_prof_file *f = &d->pb->p->file[file];
    if (!*f->fs && *d->fs) {
        f->fs = stk_pb_text(d->pb, d->fs, strlen(d->fs));
        f->fs = f->fs ? f->fs : "";
    }
    if (d->module == STK_DM_LUSTRE)
        stripes(d, f);
    else
        rc = keep(d, file, err);
    d->module = STK_DM_NONE;
    return rc;
}
