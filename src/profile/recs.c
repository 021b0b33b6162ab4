/*
 * recs.c - one record per process, file and API: adds up the records of threads, and keeps
 * the spans they read beside the record if its cover is full (eight threads that read an eighth
 * each stay exact).
 */
#include "profile/priv.h"

int stk_pb_rec(struct stk_pb *pb, uint32_t file, uint8_t api, uint32_t *out, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    struct stk_pb_file *f = &pb->file[file];
    uint32_t proc = (uint32_t)p->nprocs - 1;
    if (f->last_proc != proc) {
        f->last_proc = proc;
        for (size_t i = 0; i < STK_API_COUNT; i++)
            f->rec[i] = STK_PB_NONE;
    }
    if (f->rec[api] != STK_PB_NONE) {
        *out = f->rec[api];
        return 0;
    }
    if (p->nrecs >= STK_PB_NONE)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "more than 2^32 records");
    int rc = STK_ARRAY_MORE(p->rec, p->nrecs, err);
    rc = rc ? rc : STK_ARRAY_MORE(pb->rec, p->nrecs, err);
    if (rc)
        return rc;
    struct stk_prof_rec *r = &p->rec[p->nrecs];
    *r = (struct stk_prof_rec){.proc = proc, .file = file, .api = api};
    stk_counts_init(&r->n);
    pb->rec[p->nrecs] = (struct stk_pb_rec){.first = STK_PB_NONE};
    *out = f->rec[api] = (uint32_t)p->nrecs++;
    return 0;
}

static int keep_span(struct stk_pb *pb, struct stk_pb_rec *x, struct stk_byte_range s,
                     struct stk_err *err)
{
    int rc = STK_ARRAY_MORE(pb->span, pb->nspans, err);
    rc = rc ? rc : STK_ARRAY_MORE(pb->span_next, pb->nspans, err);
    if (rc)
        return rc;
    pb->span[pb->nspans] = s;
    pb->span_next[pb->nspans] = x->first;
    x->first = (uint32_t)pb->nspans++;
    x->wide++;
    return 0;
}

static int keep_spans(struct stk_pb *pb, struct stk_pb_rec *x, const struct stk_cover *c,
                      struct stk_err *err)
{
    struct stk_byte_range s[STK_COVER_SPANS];
    size_t n = stk_cover_spans(c, s);
    int rc = 0;
    for (size_t i = 0; i < n && !rc && pb->nspans < STK_PB_NONE; i++)
        rc = keep_span(pb, x, s[i], err);
    return rc;
}

int stk_pb_rec_add(struct stk_pb *pb, uint32_t rec, const struct stk_counts *n,
                   const struct stk_cover *read, struct stk_err *err)
{
    struct stk_prof_rec *r = &pb->p->rec[rec];
    struct stk_pb_rec *x = &pb->rec[rec];
    struct stk_cover before = r->read;
    int rc = 0;
    stk_counts_add(&r->n, n);
    stk_cover_add(&r->read, read);
    if (read->overflow) {
        x->wide = 0; /* the spans are lost: the sample counts */
    } else if (x->wide) {
        rc = keep_spans(pb, x, read, err);
    } else if (r->read.overflow && !before.overflow) {
        rc = keep_spans(pb, x, &before, err);
        rc = rc ? rc : keep_spans(pb, x, read, err);
    }
    return rc;
}
