/*
 * read_dataset.c - reads every sample of a dataset of any format and counts its labels.
 *
 *   cc read_dataset.c -o read_dataset $(pkg-config --cflags --libs stoker)
 *   ./read_dataset train-packed/
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker.h>

#define LABELS_SHOWN 10

static int complain(const struct stk_err *err)
{
    char text[2200];
    fprintf(stderr, "read_dataset: %s\n", stk_err_text(err, text, sizeof text));
    return EXIT_FAILURE;
}

/* "  data   bytes, 6297 bytes" */
static void show_fields(const struct stk_sample *s)
{
    size_t len;
    const char *key = stk_sample_key(s, &len);
    printf("the first sample is %.*s:\n", (int)len, key);
    for (size_t i = 0; i < stk_sample_nfields(s); i++) {
        const struct stk_field *f = stk_sample_field(s, i);
        printf("  %.*s: %s", (int)f->name_len, f->name, stk_kind_name(f->value.kind));
        if (f->value.kind == STK_ARRAY)
            printf(" of %s, %u dimensions", stk_dtype_name(f->value.dtype), f->value.ndim);
        printf(", %zu bytes\n", f->value.size);
    }
}

/* The sample's label, or -1. Values may be unaligned: copy them out. */
static int64_t label_of(const struct stk_sample *s)
{
    const struct stk_value *v = stk_sample_get(s, "label");
    int64_t label = -1;
    if (v && v->kind == STK_ARRAY && v->dtype == STK_I64 && v->size == sizeof label)
        memcpy(&label, v->data, sizeof label);
    return label;
}

static int read_all(struct stk_dataset *ds, struct stk_sample *s, struct stk_err *err)
{
    uint64_t count[LABELS_SHOWN] = {0}, bytes = 0;
    for (uint64_t i = 0; i < stk_dataset_len(ds); i++) {
        int rc = stk_dataset_read(ds, i, s, err);
        if (rc < 0)
            return rc;
        if (i == 0)
            show_fields(s);
        for (size_t f = 0; f < stk_sample_nfields(s); f++)
            bytes += stk_sample_field(s, f)->value.size;
        int64_t label = label_of(s);
        if (label >= 0 && label < LABELS_SHOWN)
            count[label]++;
    }
    printf("%" PRIu64 " bytes in all fields\n", bytes);
    for (int k = 0; k < LABELS_SHOWN; k++)
        if (count[k])
            printf("label %d: %" PRIu64 " samples\n", k, count[k]);
    return 0;
}

int main(int argc, char **argv)
{
    struct stk_err err = {.offset = -1, .what = "out of memory"};
    struct stk_dataset *ds = NULL;
    if (argc != 2) {
        fprintf(stderr, "usage: read_dataset PATH\n");
        return 2;
    }
    if (stk_dataset_open(argv[1], NULL, &ds, &err) < 0)
        return complain(&err);
    printf("%s: %s, %" PRIu64 " samples\n", argv[1], stk_dataset_format(ds), stk_dataset_len(ds));
    struct stk_sample *s = stk_sample_new();
    int rc = s ? read_all(ds, s, &err) : STK_E_NOMEM;
    stk_sample_free(s);
    stk_dataset_close(ds);
    return rc < 0 ? complain(&err) : EXIT_SUCCESS;
}
