/* inspect.c - describes a dataset: counts and sizes from the index, fields from the first
 * sample. */
#include "dataset/inspect.h"
#include "dataset/label.h"

#include <stdio.h>

#define SMALL_SAMPLE (64u << 10)
#define DESCRIBE_MAX (1ull << 30) /* a larger first sample is not read just to describe it */

static unsigned bucket_of(uint64_t size)
{
    unsigned b = size < 2 ? 0 : 63u - (unsigned)__builtin_clzll(size);
    return b < STK_INSPECT_BUCKETS ? b : STK_INSPECT_BUCKETS - 1;
}

/* Interpolates the median within its bucket. */
static uint64_t median_of(const struct stk_inspect *o)
{
    uint64_t half = o->samples / 2, before = 0;
    for (unsigned b = 0; b < STK_INSPECT_BUCKETS; b++) {
        uint64_t n = o->histogram[b];
        if (n && before + n > half) {
            uint64_t low = b ? 1ull << b : 0, width = b ? 1ull << b : 2;
            uint64_t est = low + (uint64_t)((double)width * (double)(half - before) / (double)n);
            est = est < o->size_min ? o->size_min : est;
            return est > o->size_max ? o->size_max : est;
        }
        before += n;
    }
    return 0;
}

static int measure(const struct stk_dataset *ds, struct stk_inspect *o, struct stk_err *err)
{
    uint64_t small = 0;
    o->size_min = UINT64_MAX;
    for (uint64_t i = 0; i < o->samples; i++) {
        uint64_t n;
        int rc = stk_index_sample_bytes(&ds->index, i, &n, err);
        if (rc < 0)
            return rc;
        o->histogram[bucket_of(n)]++;
        o->size_min = n < o->size_min ? n : o->size_min;
        o->size_max = n > o->size_max ? n : o->size_max;
        small += n < SMALL_SAMPLE;
    }
    if (!o->samples)
        o->size_min = 0;
    if (o->samples && (ds->format->caps & STK_CAN_TREE))
        o->small_reads_fraction = (double)small / (double)o->samples;
    o->size_median_estimate = median_of(o);
    return 0;
}

static void describe(const struct stk_sample *s, struct stk_inspect *o)
{
    o->nfields_total = s->nfields;
    for (size_t i = 0; i < s->nfields && i < STK_INSPECT_FIELDS; i++) {
        const struct stk_field *f = &s->field[i];
        struct stk_inspect_field *d = &o->field[o->nfields++];
        snprintf(d->name, sizeof d->name, "%.*s", (int)f->name_len, f->name);
        d->kind = f->value.kind;
        d->dtype = f->value.dtype;
        d->ndim = f->value.ndim;
        memcpy(d->dim, f->value.dim, sizeof d->dim);
        d->size = f->value.size;
        for (size_t k = 0; f->value.kind == STK_LIST && k < f->value.nitems; k++)
            d->size += f->value.item[k].size;
    }
}

static void name_classes(struct stk_inspect *o, const char *const *name, size_t n)
{
    o->classes = n;
    for (size_t i = 0; i < n && i < STK_INSPECT_CLASSES; i++)
        snprintf(o->class_name[o->nclass_names++], sizeof o->class_name[0], "%s", name[i]);
}

static int count_classes(struct stk_dataset *ds, struct stk_inspect *o, struct stk_err *err)
{
    struct stk_labels l;
    if (ds->has_manifest) {
        name_classes(o, ds->manifest.classes, ds->manifest.nclasses);
        return 0;
    }
    int rc = stk_labels_init(&l, "auto", ds, err);
    name_classes(o, l.classes, l.nclasses);
    stk_labels_release(&l);
    return rc;
}

int stk_inspect_dataset(struct stk_dataset *ds, struct stk_inspect *o, struct stk_err *err)
{
    const struct stk_index_header *h = ds->index.h;
    *o = (struct stk_inspect){.files = h->nfiles,
                              .samples = h->nsamples,
                              .extents = h->nextents,
                              .files_ignored = h->files_ignored,
                              .bytes_stored = h->bytes_stored,
                              .bytes_samples = h->bytes_samples,
                              .has_manifest = ds->has_manifest,
                              .index_built_now = ds->index_built,
                              .index_bytes = h->file_size};
    snprintf(o->format, sizeof o->format, "%s", ds->format->name);
    if (ds->format->caps & STK_CAN_CODEC)
        snprintf(o->payload, sizeof o->payload, "%s", h->payload);
    snprintf(o->index_path, sizeof o->index_path, "%s", ds->index_path);
    o->index_why = ds->index_why;
    int rc = measure(ds, o, err);
    if (rc == 0)
        rc = count_classes(ds, o, err);
    if (rc < 0 || !o->samples)
        return rc;
    uint64_t first = 0;
    rc = stk_index_sample_bytes(&ds->index, 0, &first, err);
    if (rc < 0 || first > DESCRIBE_MAX)
        return rc;
    struct stk_sample s;
    stk_sample_init(&s);
    rc = stk_dataset_read(ds, 0, &s, err);
    if (rc == 0)
        describe(&s, o);
    stk_sample_release(&s);
    return rc;
}
