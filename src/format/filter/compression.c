/* compression.c - recognises compressed files by their first bytes or their names. */
#include "format/filter/compression.h"
#include "base/text.h"

#include <string.h>

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
