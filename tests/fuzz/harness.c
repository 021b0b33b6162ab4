/*
 * harness.c - see harness.h. Files stand in $TMPDIR, else in /dev/shm, in a folder of this
 * process's own that goes away when it ends; on a crash it stays (a few KiB).
 */
#include "harness.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "dataset/verify.h"
#include "format/lister.h"

#define READ_FROM_START 48         /* samples read from either end: a hostile count may be 2^60 */
#define VERIFY_MAX      (1u << 16) /* an NPY of 100 bytes may have 2^23 empty rows */
#define TOUCH_MAX       (4u << 20)

static char folder[256];

static void remove_folder(void)
{
    stk_remove_tree(folder, NULL);
}

static void make_folder(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/stoker-fuzz-XXXXXX",
             tmp                             ? tmp
             : access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                             : "/tmp");
    if (!mkdtemp(folder))
        stk_fuzz_broken("a temporary folder can be made");
    /* Indexes go nowhere (no_index_write), but a bug in that must not touch the user's cache. */
    setenv("XDG_CACHE_HOME", folder, 1);
    atexit(remove_folder);
}

const char *stk_fuzz_folder(void)
{
    if (!folder[0])
        make_folder();
    return folder;
}

const char *stk_fuzz_file(const char *name, const uint8_t *data, size_t size)
{
    static char file[2][300]; /* the last two stay valid */
    static unsigned turn;
    char *path = file[turn++ % 2];
    snprintf(path, sizeof file[0], "%s/%s", stk_fuzz_folder(), name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || (size && write(fd, data, size) != (ssize_t)size) || close(fd) < 0)
        stk_fuzz_broken("a temporary file can be written");
    return path;
}

void stk_fuzz_broken(const char *promise)
{
    fprintf(stderr, "broken: %s\n", promise);
    abort();
}

void stk_fuzz_touch(const void *p, size_t n)
{
    static volatile unsigned sink;
    const uint8_t *b = p;
    unsigned sum = 0;
    /* Of what is very large both ends: its middle is the same allocation. */
    size_t head = n < TOUCH_MAX ? n : TOUCH_MAX, tail = n - head < TOUCH_MAX ? n - head : TOUCH_MAX;
    for (size_t i = 0; i < head; i++)
        sum += b[i];
    for (size_t i = n - tail; i < n; i++)
        sum += b[i];
    sink = sink + sum;
}

static void touch_value(const struct stk_value *v, unsigned depth)
{
    if (v->kind < STK_BYTES || v->kind > STK_LIST || depth > 64)
        stk_fuzz_broken("a value has a kind, and lists do not nest for ever");
    if (v->kind == STK_LIST) {
        for (size_t i = 0; i < v->nitems; i++)
            touch_value(&v->item[i], depth + 1);
        return;
    }
    stk_fuzz_touch(v->data, v->size);
    if (v->kind != STK_ARRAY)
        return;
    size_t each = stk_dtype_size(v->dtype);
    uint64_t count = v->ndim <= STK_MAX_NDIM ? stk_value_count(v) : UINT64_MAX;
    if (!each || count > SIZE_MAX / each || count * each != v->size)
        stk_fuzz_broken("an array has as many bytes as its type and shape say");
    for (uint64_t i = 0; i < count && i < 8; i++)
        stk_fuzz_touch(&(double){stk_value_f64(v, i)}, 8);
}

void stk_fuzz_touch_sample(const struct stk_sample *s)
{
    stk_fuzz_touch(s->key, s->key_len);
    stk_fuzz_touch(s->record, s->record_len);
    for (size_t i = 0; i < s->nfields; i++) {
        stk_fuzz_touch(s->field[i].name, s->field[i].name_len);
        touch_value(&s->field[i].value, 0);
    }
}

static void check_err(int rc, const struct stk_err *err)
{
    char text[2200];
    if (rc < 0 && (err->code != rc || !err->what[0]))
        stk_fuzz_broken("an error code comes with its message");
    if (rc > 0)
        stk_fuzz_broken("functions return 0 or a negative code");
    if (rc < 0)
        stk_fuzz_touch(stk_err_text(err, text, sizeof text), 1);
}

static void read_samples(struct stk_dataset *ds)
{
    struct stk_sample *s = stk_sample_new();
    uint64_t n = stk_dataset_len(ds);
    for (uint64_t i = 0; s && i < n; i++) {
        struct stk_err err = {0};
        if (i == READ_FROM_START && n > 2 * READ_FROM_START)
            i = n - READ_FROM_START;
        int rc = stk_dataset_read(ds, i, s, &err);
        check_err(rc, &err);
        if (rc == 0)
            stk_fuzz_touch_sample(s);
    }
    stk_sample_free(s);
}

uint64_t stk_fuzz_dataset(const char *path, const struct stk_open_options *options)
{
    uint64_t samples = 0;
    struct stk_open_options o = *options;
    struct stk_dataset *ds = NULL;
    struct stk_err err = {0};
    o.jobs = 1;
    int rc = stk_dataset_open(path, &o, &ds, &err);
    check_err(rc, &err);
    if (rc == 0) {
        samples = stk_dataset_len(ds);
        read_samples(ds);
    }
    stk_dataset_close(ds);
    return samples;
}

int stk_fuzz_format(const char *format, const uint8_t *data, size_t size)
{
    const struct stk_format *f = stk_format_find(format);
    if (!f || f->missing)
        return 0;
    char name[64];
    snprintf(name, sizeof name, "input%s", f->suffix);
    const char *path = stk_fuzz_file(name, data, size);
    uint64_t samples = stk_fuzz_dataset(
        path, &(struct stk_open_options){.format = format, .no_index_write = true});
    if (samples > VERIFY_MAX)
        return 0;

    struct stk_open_options how = {.format = format, .jobs = 1};
    struct stk_verify_options vo = {0};
    struct stk_verify_result result = {0};
    struct stk_err err = {0};
    int rc = stk_verify_all(path, &how, &vo, &result, &err);
    check_err(rc, &err);
    stk_verify_release(&result);
    return 0;
}

#ifdef STK_LIBFUZZER
#define JAILED_ONE_IN 1
#else
#define JAILED_ONE_IN 16
#endif

int stk_fuzz_jailed(const char *format, const uint8_t *data, size_t size)
{
    return stk_hash64(data, size) % JAILED_ONE_IN ? 0 : stk_fuzz_format(format, data, size);
}

/* ---- events ---- */

struct checking_sink {
    struct stk_sink sink;
    uint32_t nfields, nchains;
    uint64_t nextents;
};

static bool field_is_whole(const struct stk_event *e)
{
    struct stk_field_wire w;
    if (e->blob_len < sizeof w)
        return false;
    memcpy(&w, e->blob, sizeof w);
    return w.ndim <= STK_MAX_NDIM && memchr(w.codec, 0, sizeof w.codec);
}

static bool column_is_whole(const struct checking_sink *c, const struct stk_event *e)
{
    struct stk_stripe s;
    if (e->blob_len != sizeof s)
        return false;
    memcpy(&s, e->blob, sizeof s);
    return s.field >= 0 && (uint32_t)s.field < c->nfields && s.first_extent >= 0 && s.per_extent;
}

static bool refers_to_what_is_there(struct checking_sink *c, const struct stk_event *e)
{
    bool chain = e->chain == STK_NO_CHAIN || e->chain < c->nchains;
    const char *text[3];
    switch (e->type) {
    case STK_EV_FIELD:
        c->nfields++;
        return field_is_whole(e);
    case STK_EV_CHAIN:
        c->nchains++;
        return e->blob_len == sizeof(struct stk_chain);
    case STK_EV_EXTENT:
    case STK_EV_RECORD:
        c->nextents++;
        return chain && (e->type == STK_EV_EXTENT || e->field < c->nfields);
    case STK_EV_PART:
        return e->field < c->nfields && e->c < c->nextents;
    case STK_EV_COLUMN:
        return column_is_whole(c, e);
    case STK_EV_LEFT_OUT:
    case STK_EV_TAKEN:
        return stk_event_texts(e->blob, e->blob_len, text);
    default:
        return true;
    }
}

static int check_event(struct stk_sink *sink, const struct stk_event *e, struct stk_err *err)
{
    (void)err;
    stk_fuzz_touch(e->blob, e->blob_len);
    if (!refers_to_what_is_there((struct checking_sink *)sink, e))
        stk_fuzz_broken("an event is whole, and what it refers to was listed before");
    return 0;
}

struct stk_sink *stk_fuzz_sink(void)
{
    static struct checking_sink c;
    c = (struct checking_sink){.sink.event = check_event};
    return &c.sink;
}

void stk_fuzz_list(const struct stk_format *f, const char *path)
{
    static const struct stk_list_options opts = {.payload = "auto"};
    struct stk_src *src;
    struct stk_lister l;
    struct stk_err err = {0};
    if (stk_src_open(open(path, O_RDONLY | O_CLOEXEC), path, path, false, &src, &err))
        return;
    stk_lister_init(&l, stk_fuzz_sink(), src, &opts);
    check_err(f->list(&l, src, &err), &err);
    stk_lister_release(&l);
    stk_src_close(src);
}

/* A copy of its own, so that one byte too far is seen. */
static uint8_t *exact_copy(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        stk_fuzz_broken("there is memory");
    if (size)
        memcpy(copy, data, size);
    return copy;
}

static void implode_again(const struct stk_codec *c, const struct stk_sample *s)
{
    struct stk_buf once = STK_BUF_INIT, twice = STK_BUF_INIT;
    struct stk_sample back;
    struct stk_err err = {0};
    stk_sample_init(&back);
    int rc = c->implode(s, &once, &err);
    check_err(rc, &err);
    if (rc == 0) {
        rc = c->explode("", 0, once.data, once.len, &back, &err);
        if (rc)
            stk_fuzz_broken("what a codec writes it can read");
        rc = c->implode(&back, &twice, &err);
        if (rc || once.len != twice.len || (once.len && memcmp(once.data, twice.data, once.len)))
            stk_fuzz_broken("a sample read back is written as the same bytes");
    }
    stk_sample_release(&back);
    stk_buf_release(&once);
    stk_buf_release(&twice);
}

int stk_fuzz_codec(const char *codec, const uint8_t *data, size_t size)
{
    const struct stk_codec *c = stk_codec_find(codec);
    if (!c || !c->explode)
        return 0;
    uint8_t *copy = exact_copy(data, size);
    struct stk_sample s;
    struct stk_err err = {0};
    stk_sample_init(&s);
    int bid = c->bid ? c->bid(copy, size) : 0;
    if (bid < 0 || bid > 100)
        stk_fuzz_broken("a bid is 0 to 100");
    int rc = c->explode("", 0, copy, size, &s, &err);
    check_err(rc, &err);
    if (rc == 0) {
        stk_fuzz_touch_sample(&s);
        if (c->implode)
            implode_again(c, &s);
    }
    stk_sample_release(&s);
    free(copy);
    return 0;
}

/* ---- loaders ---- */

#define BATCHES 12

static void touch_column(const struct stk_column *c, size_t n)
{
    size_t count = stk_dtype_size(c->dtype);
    for (unsigned d = 0; d < c->ndim; d++)
        count *= (size_t)c->dim[d];
    if (c->layout == STK_DENSE)
        stk_fuzz_touch(c->data, n * count);
    for (size_t k = 0; c->layout == STK_SPANS && k < n; k++)
        stk_fuzz_touch(c->span[k].data, c->span[k].size);
    for (size_t k = 0; c->layout == STK_VALUES && k < n; k++)
        if (c->value[k].kind && c->value[k].kind != STK_LIST)
            stk_fuzz_touch(c->value[k].data, c->value[k].size);
}

void stk_fuzz_load(struct stk_dataset *ds, uint8_t how)
{
    static const char *const io[] = {"threads", "mmap", "uring", "direct"};
    struct stk_loader_options o = {.batch = 3,
                                   .shuffle = how % 3,
                                   .last = how / 3 % 3,
                                   .on_error = 1 + (how >> 4) % 2,
                                   .io = io[how >> 6],
                                   .threads = 2,
                                   .keys = true,
                                   .decode = how & 8 ? "raw" : NULL,
                                   .memory_bytes = 1 << 20};
    struct stk_loader *ld;
    struct stk_batch *b;
    if (stk_loader_open(ds, &o, &ld, NULL) < 0)
        return;
    for (int i = 0; i < BATCHES && stk_loader_next(ld, &b, NULL) == 1; i++) {
        for (size_t c = 0; c < b->ncolumns; c++)
            touch_column(&b->column[c], b->n);
        for (size_t k = 0; k < b->n; k++) {
            stk_fuzz_touch(b->key[k].data, b->key[k].size);
            if (b->id[k] >= stk_dataset_len(ds))
                stk_fuzz_broken("a batch names samples that there are");
        }
        stk_batch_release(b);
    }
    stk_loader_close(ld);
}
