/*
 * test_tile.c - arrays stored in tiles come back in C order, and tiles that cannot be theirs are an
 * error: what h5py's automatic chunks need.
 */
#include "check.h"

#include <stdlib.h>

#include "format/format.h"
#include "format/sample.h"

/* Cuts an array of uint16 into tiles, the slow and obvious way. */
static size_t cut(const uint16_t *array, const uint64_t dim[3], const uint64_t tile[3],
                  uint16_t *out)
{
    size_t n = 0;
    for (uint64_t a = 0; a < dim[0]; a += tile[0])
        for (uint64_t b = 0; b < dim[1]; b += tile[1])
            for (uint64_t c = 0; c < dim[2]; c += tile[2])
                for (uint64_t x = a; x < a + tile[0]; x++)
                    for (uint64_t y = b; y < b + tile[1]; y++)
                        for (uint64_t z = c; z < c + tile[2]; z++, n++)
                            out[n] = x < dim[0] && y < dim[1] && z < dim[2]
                                         ? array[(x * dim[1] + y) * dim[2] + z]
                                         : 0xffff;
    return n;
}

static int arrange(const struct stk_field_spec *spec, const void *p, size_t n, const uint8_t **out,
                   size_t *len, struct stk_sample *s)
{
    struct stk_err err = {0};
    const struct stk_codec *c = stk_codec_find(spec->codec);
    CHECK(c && c->arrange);
    return c->arrange(spec, "", 0, p, n, s, out, len, &err);
}

static void test_tiles_of_all_shapes(void)
{
    static const uint64_t dim[3] = {6, 7, 5};
    uint16_t array[6 * 7 * 5], *tiles = malloc(sizeof(uint16_t) * 16 * 16 * 16 * 8);
    struct stk_sample s;
    stk_sample_init(&s);
    for (unsigned i = 0; i < 6 * 7 * 5; i++)
        array[i] = (uint16_t)i;
    for (uint64_t a = 1; a < 9; a++)
        for (uint64_t b = 1; b < 9; b++)
            for (uint64_t c = 1; c < 9; c++) {
                char codec[16];
                uint64_t tile[3] = {a, b, c};
                struct stk_field_spec spec = {.name = "x",
                                              .name_len = 1,
                                              .kind = STK_ARRAY,
                                              .dtype = STK_U16,
                                              .ndim = 3,
                                              .dim = {6, 7, 5},
                                              .codec = codec};
                snprintf(codec, sizeof codec, "tile:%dx%dx%d", (int)a, (int)b, (int)c);
                size_t n = cut(array, dim, tile, tiles), len = 0;
                const uint8_t *out = NULL;
                stk_sample_reset(&s);
                CHECK_INT(arrange(&spec, tiles, n * 2, &out, &len, &s), 0);
                CHECK(len == sizeof array && memcmp(out, array, len) == 0);
                CHECK_INT(arrange(&spec, tiles, n * 2 - 2, &out, &len, &s), STK_E_CORRUPT);
            }
    free(tiles);
    stk_sample_release(&s);
}

static void test_tiles_that_make_no_sense(void)
{
    static const char *const wrong[] = {"tile:",      "tile:2",    "tile:2x",
                                        "tile:2x3x4", "tile:0x2",  "tile:2x-1",
                                        "tile:2y3",   "tile:2x3 ", "tile:99999x99999"};
    uint8_t data[64] = {0};
    struct stk_sample s;
    stk_sample_init(&s);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct stk_field_spec spec = {.name = "x",
                                      .name_len = 1,
                                      .kind = STK_ARRAY,
                                      .dtype = STK_F64,
                                      .ndim = 2,
                                      .dim = {2, 3},
                                      .codec = wrong[i]};
        const uint8_t *out;
        size_t len;
        stk_sample_reset(&s);
        CHECK_INT(arrange(&spec, data, sizeof data, &out, &len, &s), STK_E_CORRUPT);
        spec.dim[0] = 1ull << 62;
        CHECK_INT(arrange(&spec, data, sizeof data, &out, &len, &s), STK_E_CORRUPT);
    }
    stk_sample_release(&s);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(test_tiles_of_all_shapes);
    CHECK_RUN(test_tiles_that_make_no_sense);
    return CHECK_DONE();
}
