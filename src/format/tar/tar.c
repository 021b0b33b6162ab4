/*
 * tar.c - tar as WebDataset writes it: a sample's fields are adjacent members named after its key,
 * sorted by extension. ustar headers if they suffice, else pax; the same samples give the same
 * bytes. format/tar/list.c lists.
 */
#include "format/format.h"
#include "format/members.h"
#include "format/sample.h"
#include "format/tar/head.h"

#include <stdlib.h>

/* As much of a name as a message needs. */
#define SHOW(p, n) (int)((n) < 300 ? (n) : 300), (p)

static const char *const suffixes[] = {".tar", ".tgz", NULL};
static const char *const side[] = {"*.idx", NULL}; /* of DALI */

static int bid(const struct stk_probe *p)
{
    struct stk_tar_head h;
    if (p->head_len < STK_TAR_BLOCK || stk_tar_parse(p->head, &h) != STK_TAR_HEADER)
        return p->head_len >= 262 && memcmp(p->head + 257, "ustar", 5) == 0 ? 70 : 0;
    return h.has_magic ? 95 : 80;
}

/* ---- writing ---- */

/* Between encode and append a sample is preceded by its length (u64), the length of its key (u32)
 * and the key: append compares the keys of adjacent samples. */
#define FRAME 12u

static void put_members(const struct stk_members *m, struct stk_buf *out)
{
    for (size_t i = 0; i < m->n; i++) {
        const struct stk_member *e = &m->item[i];
        uint64_t size = (uint64_t)e->head_len + e->len;
        stk_tar_put_head(out, e->name, e->name_len, size);
        stk_buf_put(out, e->head, e->head_len);
        stk_buf_put(out, e->data, e->len);
        stk_buf_zeros(out, stk_tar_padding(size));
    }
}

static int encode(const struct stk_write_config *cfg, const struct stk_sample *s,
                  struct stk_buf *out, struct stk_err *err)
{
    const struct stk_member_rules rules = {
        .data_ext = "data", .compress = cfg->compress, .level = cfg->level};
    struct stk_members m = STK_MEMBERS_INIT;
    size_t at = out->len;
    if (stk_member_is_meta(s->key, s->key_len))
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "the key '%.*s' begins with __…__, which readers of WebDataset skip",
                           SHOW(s->key, s->key_len));
    if (stk_member_is_hidden(s->key, s->key_len))
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "the key '%.*s' names a hidden file, which readers of WebDataset skip; "
                           "use --keys number",
                           SHOW(s->key, s->key_len));
    int rc = stk_members_check_payload(s, err);
    if (rc == 0)
        rc = stk_members_make(&m, &rules, s, err);
    if (rc == 0) {
        stk_buf_zeros(out, FRAME);
        stk_buf_put(out, s->key, s->key_len);
        put_members(&m, out);
        rc = stk_buf_check(out, err);
    }
    if (rc == 0) {
        stk_put_le64(out->data + at, out->len - at);
        stk_put_le32(out->data + at + 8, (uint32_t)s->key_len);
    }
    stk_members_release(&m);
    return rc;
}

struct writer {
    struct stk_buf key; /* of the last sample */
};

static int begin(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    (void)cfg;
    struct writer *w = calloc(1, sizeof *w);
    *stk_out_state(o) = w;
    return w ? 0 : stk_err_nomem(err, sizeof *w);
}

static void writer_free(struct stk_out *o)
{
    struct writer *w = *stk_out_state(o);
    if (w)
        stk_buf_release(&w->key);
    free(w);
    *stk_out_state(o) = NULL;
}

/* Readers merge adjacent members with the same stem, so two adjacent samples must not share it. */
static int check_key(struct writer *w, const char *key, size_t len, struct stk_err *err)
{
    const char *last = (const char *)w->key.data;
    size_t stem = stk_member_stem(key, len);
    if (w->key.len && stk_member_stem(last, w->key.len) == stem && memcmp(last, key, stem) == 0)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "the samples '%.*s' and '%.*s' would be one sample in a tar, where the "
                           "extension names the field: --group takes files of one name as one "
                           "sample, --keys number gives them other keys",
                           SHOW(last, w->key.len), SHOW(key, len));
    stk_buf_reset(&w->key);
    stk_buf_put(&w->key, key, len);
    return stk_buf_check(&w->key, err);
}

static int append(const struct stk_write_config *cfg, struct stk_out *o, const uint8_t *bytes,
                  size_t len, uint64_t nsamples, struct stk_err *err)
{
    (void)cfg, (void)nsamples;
    struct writer *w = *stk_out_state(o);
    while (len >= FRAME) {
        uint64_t n = stk_le64(bytes);
        size_t key_len = stk_le32(bytes + 8), skip = FRAME + key_len;
        if (n > len || skip > n)
            break;
        int rc = check_key(w, (const char *)bytes + FRAME, key_len, err);
        if (rc == 0)
            rc = stk_out_write(o, bytes + skip, (size_t)n - skip, err);
        if (rc < 0)
            return rc;
        bytes += n;
        len -= (size_t)n;
    }
    return len ? stk_err_set(err, STK_E_CORRUPT, stk_out_path(o), -1, "cut-off sample") : 0;
}

/* Two blocks of zeros, then padding to the size GNU tar and Python give archives. */
static int finish(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    (void)cfg;
    static const uint8_t zeros[STK_TAR_RECORD + 2 * STK_TAR_BLOCK];
    size_t n = 2 * STK_TAR_BLOCK;
    uint64_t behind = (stk_out_tell(o) + n) % STK_TAR_RECORD;
    n += behind ? (size_t)(STK_TAR_RECORD - behind) : 0;
    writer_free(o);
    return stk_out_write(o, zeros, n, err);
}

static void abort_shard(const struct stk_write_config *cfg, struct stk_out *o)
{
    (void)cfg;
    writer_free(o);
}

static const struct stk_format_use use = {.how = STK_USE_STREAM};

const struct stk_format stk_format_tar = {
    .name = "tar",
    .title = "tar / WebDataset",
    .holds = STK_HOLDS_SHAPES | STK_HOLDS_GAPS | STK_HOLDS_KEY,
    .suffix = ".tar",
    .suffixes = suffixes,
    .caps = STK_CAN_READ | STK_CAN_WRITE | STK_CAN_SHARD | STK_CAN_COMPRESS | STK_CAN_GZIP,
    .side = side,
    .bid = bid,
    .list = stk_tar_list,
    .prepare = stk_members_prepare,
    .encode = encode,
    .begin = begin,
    .append = append,
    .finish = finish,
    .abort = abort_shard,
    .use = &use,
};
