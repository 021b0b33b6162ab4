/* format.c - the one table of formats and the one table of codecs. */
#include "format/format.h"

#include <string.h>

#include "base/file.h"
#include "base/text.h"

extern const struct stk_format stk_format_folder, stk_format_tar, stk_format_tfrecord,
    stk_format_recordio, stk_format_npy, stk_format_npz, stk_format_csv, stk_format_tsv,
    stk_format_json, stk_format_jsonl, stk_format_hdf5, stk_format_lmdb, stk_format_squashfs;

static const struct stk_format *const formats[] = {
    &stk_format_folder, &stk_format_tar,      &stk_format_tfrecord, &stk_format_recordio,
    &stk_format_npy,    &stk_format_npz,      &stk_format_csv,      &stk_format_tsv,
    &stk_format_json,   &stk_format_jsonl,    &stk_format_hdf5,     &stk_format_lmdb,
    &stk_format_squashfs,
};

extern const struct stk_codec stk_codec_raw, stk_codec_example, stk_codec_sequence,
    stk_codec_image, stk_codec_datum, stk_codec_csv, stk_codec_json, stk_codec_npy, stk_codec_cls,
    stk_codec_tile, stk_codec_chars, stk_codec_shape, stk_codec_scaled;

static const struct stk_codec *const codecs[] = {
    &stk_codec_raw,   &stk_codec_example, &stk_codec_sequence, &stk_codec_image, &stk_codec_datum,
    &stk_codec_csv,   &stk_codec_json,    &stk_codec_npy,      &stk_codec_cls,
};

const struct stk_format *stk_format_at(size_t i)
{
    const size_t n = sizeof formats / sizeof *formats;
    return i < n ? formats[i] : stk_foreign_at(i - n);
}

const struct stk_format *stk_format_find(const char *name)
{
    for (size_t i = 0; stk_format_at(i); i++)
        if (strcmp(stk_format_at(i)->name, name) == 0)
            return stk_format_at(i);
    return NULL;
}

const char *stk_format_title(const char *name)
{
    const struct stk_format *f = stk_format_find(name);
    return f ? f->title : name;
}

const struct stk_format *stk_format_tree(void)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i]->caps & STK_CAN_TREE)
            return formats[i];
    return NULL;
}

bool stk_side_matches(const char *const *side, const char *name)
{
    const char *base = stk_base_name(name);
    for (; side && *side; side++)
        if (**side == '*' ? stk_name_has_suffix(base, strlen(base), *side + 1)
                          : strcmp(base, *side) == 0)
            return true;
    return false;
}

static size_t without_digits(const char *name, size_t len)
{
    while (len && name[len - 1] >= '0' && name[len - 1] <= '9')
        len--;
    return len;
}

/* "a.tfrecord-00000-of-00010", as TensorFlow numbers shards, without the number. */
static size_t without_shard_number(const char *name, size_t len)
{
    size_t total = without_digits(name, len);
    if (total == len || total < 5 || memcmp(name + total - 4, "-of-", 4) != 0)
        return len;
    size_t number = without_digits(name, total - 4);
    return number == total - 4 || !number || name[number - 1] != '-' ? len : number - 1;
}

bool stk_format_suffix_matches(const struct stk_format *f, const char *name)
{
    size_t len = without_shard_number(name, strlen(name));
    if ((f->caps & STK_CAN_GZIP) && stk_name_has_suffix(name, len, ".gz"))
        len -= 3;
    else if ((f->caps & STK_CAN_GZIP) && stk_name_has_suffix(name, len, ".deflate"))
        len -= 8; /* zlib's, as Hadoop calls it */
    for (const char *const *s = f->suffixes; *s; s++)
        if (stk_name_has_suffix(name, len, *s))
            return true;
    return false;
}

const struct stk_codec *stk_codec_at(size_t i)
{
    return i < sizeof codecs / sizeof *codecs ? codecs[i] : NULL;
}

const struct stk_codec *stk_codec_find(const char *name)
{
    /* Not in the table: these describe how values are stored, and are not payloads to choose. */
    if (strncmp(name, "tile:", 5) == 0)
        return &stk_codec_tile;
    if (strncmp(name, "chars:", 6) == 0 && name[6] && strchr("SZPU", name[6]) && !name[7])
        return &stk_codec_chars;
    if (strncmp(name, "shape:", 6) == 0)
        return &stk_codec_shape;
    if (strncmp(name, "scaled:", 7) == 0)
        return &stk_codec_scaled;
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        if (strcmp(codecs[i]->name, name) == 0)
            return codecs[i];
    return NULL;
}

const struct stk_codec *stk_codec_guess(const uint8_t *p, size_t n)
{
    const struct stk_codec *best = NULL;
    int best_bid = 0;
    for (size_t i = 0; n && i < sizeof codecs / sizeof *codecs; i++) {
        int bid = codecs[i]->bid ? codecs[i]->bid(p, n) : 0;
        if (bid > best_bid) {
            best_bid = bid;
            best = codecs[i];
        }
    }
    return best;
}

/* ---- files compressed as a whole ------------------------------------------------------------- */

static const struct {
    struct stk_compression c;
    const char *magic;
    size_t len;
} known[] = {
    {{"zstd", ".zst", "zstd -d"}, "\x28\xb5\x2f\xfd", 4},
    {{"xz", ".xz", "xz -d"},
     "\xfd"
     "7zXZ\0",
     6},
    {{"lz4", ".lz4", "lz4 -d"}, "\x04\x22\x4d\x18", 4},
    {{"lzip", ".lz", "lzip -d"}, "LZIP\x01", 5},
    {{"bzip2", ".bz2", "bzip2 -d"}, "BZh", 3},
    {{"lzo", ".lzo", "lzop -d"}, "\x89LZO\0\r\n\x1a\n", 9},
    {{"snappy", ".sz", "snzip -d"}, "\xff\x06\0\0sNaPpY", 10},
    {{"snappy", ".snappy", "snzip -t hadoop-snappy -d"}, "", 0}, /* Hadoop's: by name only */
};

/* "BZh" and a digit are followed by the magic of a block, or of the end. */
static bool is_bzip2(const uint8_t *p, size_t n)
{
    return n >= 10 && p[3] >= '1' && p[3] <= '9' &&
           (memcmp(p + 4, "\x31\x41\x59\x26\x53\x59", 6) == 0 ||
            memcmp(p + 4, "\x17\x72\x45\x38\x50\x90", 6) == 0);
}

const struct stk_compression *stk_compression_of(const uint8_t *head, size_t n)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].len && n >= known[i].len && memcmp(head, known[i].magic, known[i].len) == 0 &&
            (strcmp(known[i].c.name, "bzip2") != 0 || is_bzip2(head, n)) &&
            /* The next byte holds a version: a TFRecord with such a length has a zero there. */
            (strcmp(known[i].c.name, "lz4") != 0 || (n > 4 && (head[4] & 0xc0) == 0x40)))
            return &known[i].c;
    return NULL;
}

const struct stk_compression *stk_compression_named(const char *name, size_t *len)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (stk_name_has_suffix(name, *len, known[i].c.suffix)) {
            *len -= strlen(known[i].c.suffix);
            return &known[i].c;
        }
    return NULL;
}

int stk_compression_refuse(const struct stk_compression *c, const char *path, struct stk_err *err)
{
    return stk_err_set(
        err, STK_E_UNSUPPORTED, path, -1,
        "compressed with %s, which cannot be read from the middle: unpack it (%s), or compress it "
        "with gzip, which stoker reads directly",
        c->name, c->undo);
}
