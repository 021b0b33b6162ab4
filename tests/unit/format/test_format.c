/* test_format.c - what formats say of themselves holds together, and they write to whoever gives
 * them a stk_out. */
#include "check.h"
#include "format/format.h"
#include "format/sample.h"

/* One that is only recognised: by a name or by content, and it says what to do instead. */
static void recognised(const struct stk_format *f)
{
    CHECK(stk_format_find(f->name) == f && f->title && f->use && f->suffixes);
    CHECK(f->bid || f->marks || f->suffixes[0]);
    CHECK(!(f->caps & ~(unsigned)(STK_CAN_SHARD | STK_CAN_BE_SAMPLE)) && !f->list && !f->encode);
}

static void names_and_endings(const struct stk_format *f)
{
    char name[64];
    CHECK(stk_format_find(f->name) == f);
    snprintf(name, sizeof name, "a%s", f->suffix);
    CHECK((f->caps & STK_CAN_TREE) || stk_format_suffix_matches(f, name));
    CHECK(!stk_side_matches(f->side, name));
    if (f->sidecar) { /* or a packed folder would have samples in it */
        snprintf(name, sizeof name, "a%s", f->sidecar);
        CHECK(stk_side_matches(f->side, name));
    }
}

static void capabilities(const struct stk_format *f)
{
    CHECK(!f->missing || (f->package && !f->caps));
    CHECK(!(f->caps & STK_CAN_READ) || (f->bid && f->list));
    CHECK(!(f->caps & STK_CAN_WRITE) || f->encode);
    CHECK(!(f->caps & STK_CAN_OWN_FILE) || f->append);
    if (f->caps & STK_CAN_CODEC) {
        const struct stk_codec *c = stk_codec_find(f->payload);
        CHECK(c && c->payload && c->implode);
    }
}

static void the_table(void)
{
    unsigned trees = 0;
    size_t i = 0;
    for (; stk_format_at(i) && !stk_format_at(i)->instead; i++) {
        names_and_endings(stk_format_at(i));
        capabilities(stk_format_at(i));
        trees += (stk_format_at(i)->caps & STK_CAN_TREE) != 0;
    }
    for (; stk_format_at(i); i++)
        recognised(stk_format_at(i));
    CHECK_INT(trees, 1);
    CHECK(stk_format_tree()->caps & STK_CAN_TREE);
    CHECK(stk_format_find(STK_DEFAULT_FORMAT)->caps & STK_CAN_WRITE);
    for (i = 0; stk_codec_at(i); i++)
        CHECK(!stk_codec_at(i)->widens || stk_codec_find(stk_codec_at(i)->widens));
}

static void side_files(void)
{
    static const char *const side[] = {"*.idx", "lock.mdb", "*-lock", NULL};
    CHECK(stk_side_matches(side, "a/b.IDX") && stk_side_matches(side, "a/lock.mdb"));
    CHECK(stk_side_matches(side, "data.mdb-lock"));
    CHECK(!stk_side_matches(side, "a/.idx") && !stk_side_matches(side, "unlock.mdb"));
    CHECK(!stk_side_matches(NULL, "a.idx"));
}

/* ---- a shard in memory ---- */

struct memory {
    struct stk_out out;
    struct stk_buf shard, side;
};

static int memory_write(struct stk_out *o, const void *p, size_t n, struct stk_err *err)
{
    struct memory *m = (struct memory *)o;
    stk_buf_put(&m->shard, p, n);
    return stk_buf_check(&m->shard, err);
}

static uint64_t memory_tell(const struct stk_out *o)
{
    return ((const struct memory *)o)->shard.len;
}

static int memory_patch(struct stk_out *o, uint64_t off, const void *p, size_t n,
                        struct stk_err *err)
{
    (void)err;
    memcpy(((struct memory *)o)->shard.data + off, p, n);
    return 0;
}

static int memory_sidecar(struct stk_out *o, const void *p, size_t n, struct stk_err *err)
{
    struct memory *m = (struct memory *)o;
    stk_buf_put(&m->side, p, n);
    return stk_buf_check(&m->side, err);
}

static const struct stk_out_ops in_memory = {memory_write, memory_tell, memory_patch,
                                             memory_sidecar};

/* Two samples 0 and 1, of an int64 field "label", as one shard of a format. */
static void write_shard(const char *format, const char *codec, struct memory *m)
{
    const struct stk_format *f = stk_format_find(format);
    struct stk_write_config cfg = {
        .format = f, .codec = codec ? stk_codec_find(codec) : NULL, .total_samples = 2};
    struct stk_sample s;
    struct stk_buf bytes = STK_BUF_INIT;
    stk_sample_init(&s);
    *m = (struct memory){.out.ops = &in_memory};
    CHECK_INT(stk_sample_set_label(&s, 0, NULL), 0);
    cfg.first = &s;
    CHECK_INT(f->prepare ? f->prepare(&cfg, NULL) : 0, 0);
    CHECK_INT(f->encode(&cfg, &s, &bytes, NULL), 0);
    CHECK_INT(stk_sample_set_label(&s, 1, NULL), 0);
    CHECK_INT(f->encode(&cfg, &s, &bytes, NULL), 0);
    CHECK_INT(f->begin ? f->begin(&cfg, &m->out, NULL) : 0, 0);
    CHECK_INT(f->append ? f->append(&cfg, &m->out, bytes.data, bytes.len, 2, NULL)
                        : stk_out_write(&m->out, bytes.data, bytes.len, NULL),
              0);
    CHECK_INT(f->finish ? f->finish(&cfg, &m->out, NULL) : 0, 0);
    if (f->unprepare)
        f->unprepare(&cfg);
    stk_sample_release(&s);
    stk_buf_release(&bytes);
}

static void memory_release(struct memory *m)
{
    stk_buf_release(&m->shard);
    stk_buf_release(&m->side);
}

static void writing(void)
{
    struct memory m;
    write_shard("json", NULL, &m);
    CHECK_STR(stk_buf_cstr(&m.shard), "[\n{\"label\":0},\n{\"label\":1}\n]\n");
    memory_release(&m);
    write_shard("csv", NULL, &m);
    CHECK_STR(stk_buf_cstr(&m.shard), "label\n0\n1\n");
    memory_release(&m);
    write_shard("npy", NULL, &m); /* its count is patched in at the end */
    CHECK_INT(m.shard.len % 64, 16);
    CHECK(memmem(m.shard.data, m.shard.len, "'shape': (2,)", 13));
    memory_release(&m);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(the_table);
    CHECK_RUN(side_files);
    CHECK_RUN(writing);
    return CHECK_DONE();
}
