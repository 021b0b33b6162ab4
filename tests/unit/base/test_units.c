/* A user who writes --shard-size 256M must get 256 MiB, and a typo must not become another size. */
#include <stdint.h>

#include "base/text.h"
#include "base/units.h"
#include "check.h"

static uint64_t size_of(const char *s)
{
    uint64_t v = 12345;
    CHECK_INT(stk_parse_size(s, &v, NULL), 0);
    return v;
}

static void test_sizes(void)
{
    CHECK_INT(size_of("0"), 0);
    CHECK_INT(size_of("4096"), 4096);
    CHECK_INT(size_of("64K"), 65536);
    CHECK_INT(size_of("64k"), 65536);
    CHECK_INT(size_of("64Ki"), 65536);
    CHECK_INT(size_of("64KiB"), 65536);
    CHECK_INT(size_of("64kB"), 64000);
    CHECK_INT(size_of("256M"), 256 << 20);
    CHECK_INT(size_of("1.5G"), 3ll << 29);
    CHECK_INT(size_of("10 GB"), 10000000000ll);
    CHECK_INT(size_of("100B"), 100);
    CHECK_INT(size_of("2T"), 2ll << 40);
    CHECK_INT(size_of("15.5P"), 31ll << 49);
    CHECK(size_of("18446744073709551615") == UINT64_MAX);
    static const char *const wrong[] = {"",       "M",
                                        "-1",     "1X",
                                        "1MM",    "0x10",
                                        "1.5",    "64MiBs",
                                        "1e3",    "1..5",
                                        " 1",     "18446744073709551616",
                                        "16384P", "1.0000000000000000000001K"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct stk_err err = {0};
        uint64_t v = 7;
        CHECK_INT(stk_parse_size(wrong[i], &v, &err), STK_E_USAGE);
        CHECK(v == 7 && strstr(err.what, wrong[i]));
    }
}

static double duration_of(const char *s)
{
    double v = -1;
    CHECK_INT(stk_parse_duration(s, &v, NULL), 0);
    return v;
}

static void test_durations(void)
{
    CHECK(duration_of("90") == 90);
    CHECK(duration_of("1.5m") == 90);
    CHECK(duration_of("2h") == 7200);
    CHECK(duration_of("250ms") == 0.25);
    CHECK(duration_of("1h30m") == 5400);
    CHECK(duration_of("1 h 02 min") == 3720);
    CHECK(duration_of("1d") == 86400);
    double v;
    CHECK_INT(stk_parse_duration("1h30", &v, NULL), STK_E_USAGE);
    CHECK_INT(stk_parse_duration("", &v, NULL), STK_E_USAGE);
    CHECK_INT(stk_parse_duration("-3s", &v, NULL), STK_E_USAGE);
    CHECK_INT(stk_parse_duration("3 parsecs", &v, NULL), STK_E_USAGE);
}

static void test_numbers(void)
{
    uint64_t v = 0;
    CHECK(stk_parse_u64("18446744073709551615", &v, NULL) == 0 && v == UINT64_MAX);
    CHECK(stk_parse_u64("0xDEADbeef", &v, NULL) == 0 && v == 0xdeadbeef);
    static const char *const wrong[] = {"", "-1", "+1", "1.0", "0x", "18446744073709551616", "1k"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_INT(stk_parse_u64(wrong[i], &v, NULL), STK_E_USAGE);
}

static void test_rendering(void)
{
    char b[64];
    CHECK_STR(stk_format_size(0, b, sizeof b), "0 B");
    CHECK_STR(stk_format_size(4096, b, sizeof b), "4,096 B");
    CHECK_STR(stk_format_size(65536, b, sizeof b), "64.0 KiB");
    CHECK_STR(stk_format_size(3ull << 29, b, sizeof b), "1.50 GiB");
    CHECK_STR(stk_format_size((1ull << 30) - 1, b, sizeof b), "1.00 GiB");
    CHECK_STR(stk_format_size(UINT64_MAX, b, sizeof b), "16.0 EiB");
    CHECK_STR(stk_format_number(0.012345, b, sizeof b), "0.01235");
    CHECK_STR(stk_format_number(9999.4, b, sizeof b), "9999");
    CHECK_STR(stk_format_number(12708.6, b, sizeof b), "12,709");
    CHECK_STR(stk_format_number(-5, b, sizeof b), "-5");
    CHECK_STR(stk_format_number(1e300, b, sizeof b), "1e+300");
    CHECK_STR(stk_format_count(0, b, sizeof b), "0");
    CHECK_STR(stk_format_count(999, b, sizeof b), "999");
    CHECK_STR(stk_format_count(1234567, b, sizeof b), "1,234,567");
    CHECK_STR(stk_format_count(UINT64_MAX, b, sizeof b), "18,446,744,073,709,551,615");
    CHECK_STR(stk_format_duration(12.34, b, sizeof b), "12.3 s");
    CHECK_STR(stk_format_duration(3720, b, sizeof b), "1 h 02 min");
    CHECK_STR(stk_format_duration(59.97, b, sizeof b), "1 min 00 s");
    CHECK_STR(stk_format_duration(0.25, b, sizeof b), "250 ms");
    CHECK_STR(stk_format_duration(0.0 / 0.0, b, sizeof b), "?");
}

static const char *escaped(const char *s, size_t n, size_t cols)
{
    static struct stk_buf b;
    stk_buf_reset(&b);
    stk_text_escape(&b, s, n, cols);
    return stk_buf_cstr(&b);
}

/* A file name that clears the screen or fakes a line must be seen, not obeyed. */
static void test_escaping(void)
{
    CHECK_STR(escaped("plain", 5, SIZE_MAX), "plain");
    CHECK_STR(escaped("\x1b[2J", 4, SIZE_MAX), "\\x1b[2J");
    CHECK_STR(escaped("a\nb\tc\0d\\", 8, SIZE_MAX), "a\\nb\\tc\\x00d\\\\");
    CHECK_STR(escaped("\xc2\x9b"
                      "2J",
                      4, SIZE_MAX),
              "\\x9b2J");
    CHECK_STR(escaped("\xff\xc3", 2, SIZE_MAX), "\\xff\\xc3");
    CHECK_STR(escaped("a\xe2\x80\xae"
                      "b",
                      5, SIZE_MAX),
              "a\\u{202e}b");
    CHECK_STR(escaped("gr\xc3\xbc\xc3\x9f", 6, SIZE_MAX), "gr\xc3\xbc\xc3\x9f");
    CHECK_STR(escaped("abcdefgh", 8, 8), "abcdefgh");
    CHECK_STR(escaped("abcdefghi", 9, 8), "abcde...");
    CHECK_STR(escaped("\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97", 9, 5), "\xe4\xb8\xad...");
    CHECK_STR(escaped("abc", 3, 2), "..");
    CHECK_INT(stk_text_width("\xe4\xb8\xad"
                             "a",
                             4),
              3);
}

static void test_distance(void)
{
    CHECK_INT(stk_text_distance("verify", "verify"), 0);
    CHECK_INT(stk_text_distance("verfiy", "verify"), 1);
    CHECK_INT(stk_text_distance("inspct", "inspect"), 1);
    CHECK_INT(stk_text_distance("PACK", "pack"), 0);
    CHECK_INT(stk_text_distance("", "abc"), 3);
    CHECK_INT(stk_text_distance("kitten", "sitting"), 3);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(test_sizes);
    CHECK_RUN(test_durations);
    CHECK_RUN(test_numbers);
    CHECK_RUN(test_rendering);
    CHECK_RUN(test_escaping);
    CHECK_RUN(test_distance);
    return CHECK_DONE();
}
