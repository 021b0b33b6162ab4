/* test_tar.c - tar headers, and listing archives built here byte by byte: what other tools write is
 * in tests/compat/test_tar.py; this is for archives no tool writes. */
#include "check.h"
#include "format/format.h"
#include "format/lister.h"
#include "format/members.h"
#include "format/sample.h"
#include "format/tar/head.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

extern const struct stk_format stk_format_tar;

/* ---- a sink that writes down what was listed, one line an event ---- */

struct script {
    struct stk_sink sink;
    struct stk_buf text;
    unsigned nfields, problems;
};

static int note(struct stk_sink *sink, const struct stk_event *e, struct stk_err *err)
{
    struct script *s = (struct script *)sink;
    (void)err;
    int len = (int)e->blob_len;
    const char *blob = e->blob ? e->blob : "";
    if (e->type == STK_EV_FIELD) {
        struct stk_field_wire w;
        memcpy(&w, blob, sizeof w);
        stk_buf_printf(&s->text, "field %u %.*s %s %s\n", s->nfields++, len - (int)sizeof w,
                       blob + sizeof w, stk_kind_name(w.kind), w.codec);
    } else if (e->type == STK_EV_RECORD) {
        stk_buf_printf(&s->text, "record %.*s: %u %llu+%llu\n", len, blob, e->field,
                       (unsigned long long)e->a, (unsigned long long)e->b);
    } else if (e->type == STK_EV_SAMPLE) {
        stk_buf_printf(&s->text, "sample %.*s\n", len, blob);
    } else if (e->type == STK_EV_EXTENT) {
        stk_buf_printf(&s->text, "extent %llu+%llu\n", (unsigned long long)e->a,
                       (unsigned long long)e->b);
    } else if (e->type == STK_EV_PART) {
        stk_buf_printf(&s->text, "part %u\n", e->field);
    } else if (e->type == STK_EV_PROBLEM) {
        s->problems++;
        stk_buf_printf(&s->text, "problem %lld %.*s\n", (long long)e->a, len, blob);
    } else if (e->type == STK_EV_LEFT_OUT) {
        const char *text[3];
        CHECK(stk_event_texts(e->blob, e->blob_len, text));
        stk_buf_printf(&s->text, "left out %s %s: %s\n", text[0], text[1], text[2]);
    }
    return 0;
}

static struct script script;
static struct stk_err err;

/* Lists b as a file and returns the script. */
static const char *list(const struct stk_buf *b)
{
    static const struct stk_list_options opts = {.payload = "auto"};
    struct stk_lister l;
    struct stk_src *src = NULL;
    int fd = open("t.tar", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    CHECK(fd >= 0 && write(fd, b->data, b->len) == (ssize_t)b->len);
    close(fd);
    stk_buf_reset(&script.text);
    script.sink.event = note;
    script.nfields = script.problems = 0;
    err = (struct stk_err){0};
    CHECK_INT(stk_src_open(open("t.tar", O_RDONLY | O_CLOEXEC), "t.tar", "t.tar", true, &src, &err),
              0);
    stk_lister_init(&l, &script.sink, src, &opts);
    CHECK_INT(stk_format_tar.list(&l, src, &err), 0);
    CHECK_INT(stk_lister_finish(&l, &err), 0);
    stk_lister_release(&l);
    stk_src_close(src);
    unlink("t.tar");
    return stk_buf_cstr(&script.text);
}

/* ---- building archives ---- */

static void put_data(struct stk_buf *b, const void *p, size_t n)
{
    stk_buf_put(b, p, n);
    stk_buf_zeros(b, stk_tar_padding(n));
}

static void put(struct stk_buf *b, const char *name, const char *content)
{
    stk_tar_put_head(b, name, strlen(name), strlen(content));
    put_data(b, content, strlen(content));
}

static void set_sum(uint8_t *h)
{
    unsigned sum = 0;
    memset(h + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += h[i];
    snprintf((char *)h + 148, 8, "%06o", sum);
}

/* A header of our own with some bytes changed. */
static uint8_t *put_head(struct stk_buf *b, const char *name, char type, uint64_t size)
{
    size_t at = b->len;
    stk_tar_put_head(b, name, strlen(name), size);
    b->data[at + 156] = (uint8_t)type;
    set_sum(b->data + at);
    return b->data + at;
}

static void put_end(struct stk_buf *b)
{
    stk_buf_zeros(b, 1024);
}

static bool says(const char *text)
{
    return strstr(stk_buf_cstr(&script.text), text) != NULL;
}

/* ---- listing ---- */

/* A user would get wrong samples, or the fields under wrong names. */
static void test_grouping(void)
{
    struct stk_buf b = STK_BUF_INIT;
    put(&b, "./d.1/a.jpg", "A");
    put(&b, "d.1/a.cls", "7");
    put(&b, "d.1/a.x.npy", "n");
    put(&b, "d.1/b.JPG", "B");
    put(&b, "__meta__/c.jpg", "no");
    put(&b, "d.1/b.seg.json", "{}");
    put(&b, "d.1/b.txt", "t");
    put(&b, "Makefile", "all:");
    put(&b, "a.b%2Fc", "1");
    put_end(&b);
    CHECK_STR(list(&b), "field 0 jpg bytes \nsample d.1/a\nextent 512+1\npart 0\n"
                        "field 1 label bytes cls\nextent 1536+1\npart 1\n"
                        "field 2 x bytes npy\nextent 2560+1\npart 2\n"
                        "field 3 JPG bytes \nsample d.1/b\nextent 3584+1\npart 3\n"
                        "field 4 seg json \nextent 5632+2\npart 4\n"
                        "field 5 txt text \nextent 6656+1\npart 5\n"
                        "field 6 data bytes \nsample Makefile\nextent 7680+4\npart 6\n"
                        "field 7 b/c bytes \nsample a\nextent 8704+1\npart 7\n");
    stk_buf_release(&b);
}

/* caption.txt beside caption.json: neither may be lost or take the other's kind. */
static void test_same_name(void)
{
    struct stk_buf b = STK_BUF_INIT;
    put(&b, "a.cap.json", "{}");
    put(&b, "a.cap.txt", "x");
    put(&b, "b.cap.json", "{}");
    put(&b, "b.cap.txt", "x");
    put_end(&b);
    list(&b);
    CHECK(says("field 0 cap.json json ") && says("field 1 cap.txt text "));
    CHECK_INT(script.nfields, 2);
    CHECK_INT(script.problems, 0);
    /* the whole extension may be another one's name: that one keeps all of its own, then */
    stk_buf_reset(&b);
    put(&b, "a.cap.json", "{}");
    put(&b, "a.cap.txt.txt", "x");
    put(&b, "a.cap.txt", "y");
    put_end(&b);
    list(&b);
    CHECK(says("field 0 cap.json json ") && says("field 1 cap.txt.txt text "));
    CHECK(says("field 2 cap.txt text ") && says("sample a\n"));
    CHECK_INT(script.problems, 0);
    /* whatever came before: names are a matter of the sample alone */
    stk_buf_reset(&b);
    put(&b, "a.jpg.json", "{}");
    put(&b, "b.jpg", "x");
    put(&b, "c.jpg", "x");
    put(&b, "c.jpg.json", "{}");
    put_end(&b);
    list(&b);
    CHECK(says("field 0 jpg json ") && says("field 1 jpg bytes ") && says("field 2 jpg.json json "));
    CHECK(says("sample c\n"));
    CHECK_INT(script.problems, 0);
    stk_buf_release(&b);
}

/* A member that is written outside the folder when unpacked, or that hides another. */
static void test_hostile_names(void)
{
    static const char *const bad[] = {"../../x.jpg", "/etc/passwd.jpg", "a/../../x.jpg", "..",
                                      "a/.."};
    struct stk_buf b = STK_BUF_INIT;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        stk_buf_reset(&b);
        put(&b, "ok.jpg", "1");
        put(&b, bad[i], "evil");
        put(&b, "fine.jpg", "2");
        put_end(&b);
        list(&b);
        CHECK(says("problem 1024 member '") && says("unsafe name"));
        CHECK(says("sample ok\nextent 512+1\n") && says("sample fine\nextent 2560+1\n"));
        CHECK_INT(script.problems, 1);
    }
    stk_buf_reset(&b);
    put_head(&b, "p", 'x', 18);
    put_data(&b, "18 path=a\0b.jpg..\n", 18);
    put(&b, "short", "1");
    put(&b, "fine.jpg", "2");
    put_end(&b);
    list(&b);
    CHECK(says("problem 1024 member 'a") && says("sample fine\n"));
    stk_buf_release(&b);
}

/* A second member of the same extension would hide the first. */
static void test_duplicates(void)
{
    struct stk_buf b = STK_BUF_INIT;
    put(&b, "a.jpg", "1");
    put(&b, "a.jpg", "2");
    put_end(&b);
    list(&b);
    CHECK(says("left out member a.jpg: its sample already has a member with that ending"));
    CHECK(says("sample a\nextent 512+1\n"));
    stk_buf_release(&b);
}

/* A damaged or cut archive must say where, and give the rest. */
static void test_damage(void)
{
    struct stk_buf b = STK_BUF_INIT;
    put(&b, "a.jpg", "1");
    put(&b, "b.jpg", "2");
    put(&b, "c.jpg", "3");
    put_end(&b);
    b.data[1024 + 3] ^= 1; /* b's name */
    list(&b);
    CHECK(says("sample a\n") && says("sample c\nextent 2560+1\n"));
    CHECK(says("problem 1024 damaged header; the next good one is 1024 bytes on"));
    b.data[2048 + 124] ^= 1; /* c's size */
    list(&b);
    CHECK(says("problem 1024 damaged header, and no good one"));
    b.data[1024 + 3] ^= 1;
    b.data[2048 + 124] ^= 1;
    b.len = 3072; /* the end marker is gone */
    list(&b);
    CHECK(says("problem 3072 no end-of-archive marker") && says("sample c\n"));
    b.len = 2560; /* c's data is gone */
    list(&b);
    CHECK(says("problem 2048 truncated: a member of 1 bytes") && says("sample b\n") &&
          !says("sample c\n"));
    b.len = 2048 + 100; /* in c's header */
    list(&b);
    CHECK(says("problem 2048 truncated: 100 bytes of a 512-byte header"));
    b.len = 0;
    list(&b);
    CHECK(says("problem 0 the file is empty"));
    for (int i = 0; i < 2000; i++)
        stk_buf_putc(&b, (char)(i * 37));
    list(&b);
    CHECK(says("problem 0 not a tar archive"));
    stk_buf_release(&b);
}

/* Zeros end an archive for every tar; what is appended behind them would be lost in silence. */
static void test_appended(void)
{
    struct stk_buf b = STK_BUF_INIT;
    put(&b, "a.jpg", "1");
    put_end(&b);
    list(&b);
    CHECK_INT(script.problems, 0);
    stk_buf_puts(&b, "some trailing garbage that is no archive");
    list(&b);
    CHECK_INT(script.problems, 0);
    stk_buf_zeros(&b, 10240 - b.len);
    memset(b.data + 2048, 0, 512);
    put(&b, "b.jpg", "1");
    list(&b);
    CHECK_INT(script.problems, 0);
    CHECK(says("left out archive t.tar: appended after the end marker"));
    stk_buf_release(&b);
}

/* Sizes past 8 GiB, and absurd ones. */
static void test_sizes(void)
{
    struct stk_buf b = STK_BUF_INIT;
    uint8_t *h = put_head(&b, "a.jpg", '0', 0);
    memset(h + 124, 0, 12);
    h[124] = 0x80;
    h[135] = 3; /* base 256 */
    set_sum(h);
    put_data(&b, "abc", 3);
    put_head(&b, "p", 'x', 9);
    put_data(&b, "9 size=2\n", 9);
    put_head(&b, "b.jpg", '0', 0);
    put_data(&b, "xy", 2);
    put_end(&b);
    list(&b);
    CHECK(says("sample a\nextent 512+3\n") && says("sample b\nextent 2560+2\n"));
    CHECK_INT(script.problems, 0);
    static const uint8_t absurd[][12] = {
        {0x80, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
        {0x80, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0},
        {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
        "77777777777",
        "12x45678901",
    };
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
        memcpy(b.data + 124, absurd[i], 12);
        set_sum(b.data);
        list(&b);
        CHECK(says("problem 0 "));
        CHECK(!says("sample a\n"));
    }
    stk_buf_release(&b);
}

static void put_pax(struct stk_buf *b, char type, const char *text, size_t n)
{
    put_head(b, "pax", type, n);
    put_data(b, text, n);
}

/* Extended headers that lie about their length, say nothing, or take a gigabyte. */
static void test_bad_pax(void)
{
    static const char *const bad[] = {
        "99 path=x\n", "0 path=x\n", "path=x\n",      "9 pathx\n\n",
        "9 path=xy",   "1 \n",       "12 size=1x2\n", "99999999999999999999999 path=x\n"};
    struct stk_buf b = STK_BUF_INIT;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        stk_buf_reset(&b);
        put_pax(&b, 'x', bad[i], strlen(bad[i]));
        put(&b, "a.jpg", "1");
        put(&b, "b.jpg", "2");
        put_end(&b);
        list(&b);
        CHECK(says("problem 1024 member") && says("extended header before it is damaged"));
        CHECK(says("sample b\n") && !says("sample a\n"));
    }
    stk_buf_reset(&b);
    put_pax(&b, 'x', "22 GNU.sparse.major=1\n", 22);
    put(&b, "a.jpg", "1");
    put_end(&b);
    list(&b);
    CHECK_INT(script.problems, 0);
    CHECK(says("left out member a.jpg: a sparse file"));
    stk_buf_reset(&b);
    put_head(&b, "pax", 'x', 2u << 20);
    stk_buf_zeros(&b, 2u << 20);
    put(&b, "a.jpg", "1");
    put(&b, "b.jpg", "1");
    put_end(&b);
    list(&b);
    CHECK(says("left out member a.jpg: its extended header is longer than 1 MiB"));
    CHECK(says("sample b\n") && !says("sample a\n"));
    stk_buf_reset(&b);
    put_head(&b, "pax", 'x', 077777777777);
    put_end(&b);
    list(&b);
    CHECK(says("problem 0 truncated"));
    stk_buf_release(&b);
}

/* Links, devices and unknown types are no samples, with or without data behind them, and not
 * damage either: they are left out by name. Folders hold nothing. */
static void test_types(void)
{
    struct stk_buf b = STK_BUF_INIT;
    put_head(&b, "d/", '5', 0);
    put_head(&b, "v7dir/", '0', 0);
    put_head(&b, "l.jpg", '2', 0);
    put_head(&b, "l2.jpg", '2', 700); /* says a size, has no data */
    put_head(&b, "f.jpg", '6', 0);
    put_head(&b, "odd", 'Z', 5);
    put_data(&b, "12345", 5);
    put_head(&b, "old.jpg", '\0', 1);
    put_data(&b, "1", 1);
    put_head(&b, "cont.jpg", '7', 1);
    put_data(&b, "2", 1);
    put_head(&b, "h.jpg", '1', 0);
    put_end(&b);
    list(&b);
    CHECK(says("sample old\n") && says("sample cont\n"));
    CHECK(says("left out member h.jpg: a hard link to a member that is not before it"));
    CHECK(says("left out member l.jpg: a symbolic link"));
    CHECK(says("left out member l2.jpg: a symbolic link"));
    CHECK(says("left out member f.jpg: a device or a FIFO"));
    CHECK(says("left out member odd: of an unknown type"));
    CHECK_INT(script.problems, 0);
    CHECK(!says("sample odd") && !says("sample l") && !says("left out member d"));
    stk_buf_reset(&b);
    uint8_t *h = put_head(&b, "s.bin", 'S', 512);
    h[482] = 1; /* the map goes on in a block of its own */
    set_sum(h);
    stk_buf_zeros(&b, 512);
    put_data(&b, "x", 512 - 511);
    put(&b, "a.jpg", "1");
    put_end(&b);
    list(&b);
    CHECK(says("left out member s.bin: a sparse file") && says("sample a\n"));
    stk_buf_release(&b);
}

static void put_link(struct stk_buf *b, const char *name, const char *target, uint64_t size)
{
    uint8_t *h = put_head(b, name, '1', size);
    memcpy(h + 157, target, strlen(target));
    set_sum(h);
}

/* A hard link reads what the last member of that name before it holds, wherever that stands. */
static void test_links(void)
{
    struct stk_buf b = STK_BUF_INIT;
    char name[32];
    put(&b, "./d/a.jpg", "first");
    put(&b, "d/a.jpg.2", "xy");
    put_link(&b, "b.jpg", "d/a.jpg", 0);
    put(&b, "d/a.jpg", "second"); /* tar --append */
    put_link(&b, "c.jpg", "./d//a.jpg", 6); /* some tars say the size again, without the data */
    put_pax(&b, 'x', "20 linkpath=d/a.jpg\n", 20);
    put_link(&b, "e.jpg", "cut off", 0);
    put_head(&b, "long", 'K', 8);
    put_data(&b, "d/a.jpg", 8);
    put_link(&b, "f.jpg", "cut off", 0);
    put_link(&b, "g.jpg", "h.jpg", 0);
    put_link(&b, "own.jpg", "elsewhere", 3);
    put_data(&b, "own", 3);
    put_head(&b, "d/a.jpg", '2', 0);
    put_link(&b, "i.jpg", "d/a.jpg", 0); /* now a symbolic link */
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "%03d.png", i);
        put(&b, name, i == 7 ? "seven" : "1");
    }
    put_link(&b, "j.png", "007.png", 0);
    put_link(&b, "k.png", "299.png", 0);
    put_end(&b);
    list(&b);
    CHECK_INT(script.problems, 0);
    CHECK(says("sample b\nextent 512+5\n"));
    CHECK(says("sample c\nextent 3072+6\n"));
    CHECK(says("sample e\nextent 3072+6\n") && says("sample f\nextent 3072+6\n"));
    CHECK(says("left out member g.jpg: a hard link") && says("left out member i.jpg: a hard link"));
    CHECK(says("sample own\nextent ") && says("+3\n"));
    CHECK(says("sample j\nextent ") && says("+5\n"));
    CHECK(says("sample k\n"));
    stk_buf_release(&b);
}

/* Names made of numbers would make a field of every file. */
static void test_many_extensions(void)
{
    struct stk_buf b = STK_BUF_INIT;
    char name[64];
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "t.%05d.png", i);
        put(&b, name, "1");
    }
    put_end(&b);
    list(&b);
    CHECK(script.nfields <= 1025);
    CHECK_INT(script.problems, 0);
    CHECK(says("sample t.02999.png\n"));
    stk_buf_release(&b);
}

/* ---- headers ---- */

/* A user would lose files with long names, or get a tar others cannot read. */
static void test_long_names(void)
{
    struct stk_buf b = STK_BUF_INIT;
    char name[600];
    for (size_t len = 90; len < 400; len++) {
        stk_buf_reset(&b);
        for (size_t i = 0; i < len; i++)
            name[i] = i % 60 == 59 ? '/' : (char)('a' + i % 26);
        memcpy(name + len, ".jpg", 5);
        put(&b, name, "x");
        put_end(&b);
        list(&b);
        name[len] = '\0';
        char want[700];
        snprintf(want, sizeof want, "sample %s\n", name);
        if (name[len - 1] == '/')
            continue; /* ".jpg" alone has no extension */
        CHECK(says(want));
        CHECK_INT(script.problems, 0);
    }
    stk_buf_reset(&b);
    memset(name, 'n', 101);
    stk_tar_put_head(&b, name, 101, 9ull << 30);
    CHECK_INT(b.len, 1536);
    struct stk_tar_pax pax = {0};
    CHECK(stk_tar_pax_parse((char *)b.data + 512, strnlen((char *)b.data + 512, 512), &pax));
    CHECK(pax.has_size && pax.size == 9ull << 30 && pax.path_len == 101);
    stk_buf_release(&b);
}

static void test_checksums(void)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_tar_head h;
    stk_tar_put_head(&b, "caf\xc3\xa9.jpg", 9, 1);
    CHECK_INT(stk_tar_parse(b.data, &h), STK_TAR_HEADER);
    CHECK(h.has_magic && h.size == 1 && h.name_len == 9);
    /* some old tars added up signed characters */
    int sum = 0;
    memset(b.data + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += (signed char)b.data[i];
    snprintf((char *)b.data + 148, 8, "%06o", (unsigned)sum);
    CHECK_INT(stk_tar_parse(b.data, &h), STK_TAR_HEADER);
    b.data[0] ^= 1;
    CHECK_INT(stk_tar_parse(b.data, &h), STK_TAR_GARBAGE);
    memset(b.data, 0, 512);
    CHECK_INT(stk_tar_parse(b.data, &h), STK_TAR_ZEROS);
    stk_buf_release(&b);
}

/* ---- members ---- */

static void check_field(const char *ext, const char *name, enum stk_kind kind, const char *codec)
{
    struct stk_buf scratch = STK_BUF_INIT;
    struct stk_field_spec spec;
    CHECK_INT(stk_member_field(ext, strlen(ext), &scratch, &spec, &err), 0);
    CHECK(spec.name_len == strlen(name) && memcmp(spec.name, name, spec.name_len) == 0);
    CHECK_INT(spec.kind, kind);
    CHECK_STR(spec.codec ? spec.codec : "", codec);
    stk_buf_release(&scratch);
}

static void test_member_names(void)
{
    check_field("cls", "label", STK_BYTES, "cls");
    check_field("jpg", "jpg", STK_BYTES, "");
    check_field("npy", "npy", STK_BYTES, "npy");
    check_field("x.npy", "x", STK_BYTES, "npy");
    check_field(".npy", ".npy", STK_BYTES, "");
    check_field("xnpy", "xnpy", STK_BYTES, "");
    check_field("a.b.json", "a.b", STK_JSON, "");
    check_field("txt", "txt", STK_TEXT, "");
    check_field("image%2Fkey%25", "image/key%", STK_BYTES, "");
    check_field("100%", "100%", STK_BYTES, "");
    CHECK_INT(stk_member_stem("a.b/c.d.e", 9), 5);
    CHECK_INT(stk_member_stem("a.b/c", 5), 5);
    CHECK_INT(stk_member_stem(".profile", 8), 8);
    CHECK_INT(stk_member_stem("d/.a.txt", 8), 4);
    CHECK_INT(stk_member_stem("...", 3), 3);
    char name[] = ".//a/./b//c/.";
    CHECK_INT(stk_member_clean(name, strlen(name)), 5);
    CHECK(memcmp(name, "a/b/c", 5) == 0);
    char root[] = "//x";
    CHECK_INT(stk_member_clean(root, 3), 2);
    CHECK(stk_member_is_meta("__a__", 5) && stk_member_is_meta("____/x", 6));
    CHECK(!stk_member_is_meta("__init__.py", 11) && !stk_member_is_meta("x/__a__", 7));
}

static const char *names_of(const struct stk_sample *s, const struct stk_member_rules *r)
{
    static struct stk_buf text;
    struct stk_members m = STK_MEMBERS_INIT;
    stk_buf_reset(&text);
    err = (struct stk_err){0};
    if (stk_members_make(&m, r, s, &err) < 0)
        stk_buf_printf(&text, "refused");
    for (size_t i = 0; !err.code && i < m.n; i++)
        stk_buf_printf(&text, "%s%.*s", i ? " " : "", (int)m.item[i].name_len, m.item[i].name);
    stk_members_release(&m);
    return stk_buf_cstr(&text);
}

static void set_key(struct stk_sample *s, const char *key)
{
    s->key = key;
    s->key_len = strlen(key);
}

/* A user would lose a field on the way into a tar or folder and back. */
static void test_member_writing(void)
{
    const struct stk_member_rules tar = {.data_ext = "data"}, folder = {.data_ext = ""};
    const struct stk_member_rules bare = {.data_ext = "", .no_label = true};
    const float numbers[2] = {1, 2};
    struct stk_value array = {.kind = STK_ARRAY, .dtype = STK_F32, .ndim = 1, .dim = {2}};
    struct stk_sample s;
    array.data = numbers;
    array.size = sizeof numbers;
    stk_sample_init(&s);
    set_key(&s, "cat/1.jpg");
    stk_sample_add_bytes(&s, "data", STK_BYTES, "J", 1, &err);
    CHECK_STR(names_of(&s, &tar), "cat/1.jpg");
    stk_sample_add_i64(&s, "label", 5, 3, &err);
    CHECK_STR(names_of(&s, &tar), "cat/1.cls cat/1.jpg");
    CHECK_STR(names_of(&s, &bare), "cat/1.jpg");
    set_key(&s, "cat/1");
    CHECK_STR(names_of(&s, &tar), "cat/1.cls cat/1.data");
    CHECK_STR(names_of(&s, &folder), "cat/1 cat/1.cls");
    stk_sample_add(&s, "x", 1, &array);
    stk_sample_add(&s, "y.npy", 5, &array);
    stk_sample_add_bytes(&s, "image/key", STK_TEXT, "t", 1, &err);
    stk_sample_add_bytes(&s, "txt", STK_TEXT, "t", 1, &err);
    stk_sample_add_bytes(&s, "a%2F", STK_JSON, "1", 1, &err);
    CHECK_STR(names_of(&s, &tar), "cat/1.a%252F.json cat/1.cls cat/1.data cat/1.image%2Fkey.txt "
                                  "cat/1.txt cat/1.x.npy cat/1.y.npy.npy");
    stk_sample_add_bytes(&s, "cls", STK_BYTES, "1", 1, &err);
    CHECK_STR(names_of(&s, &tar), "refused");
    s.nfields--;
    /* Nothing of it would stand behind the dot: it would come back as "v1". */
    stk_sample_reset(&s);
    set_key(&s, "v1.2");
    stk_sample_add(&s, "x", 1, &array);
    CHECK_STR(names_of(&s, &tar), "refused");
    CHECK(strstr(err.what, "'v1.2' would come back as 'v1'"));
    CHECK_STR(names_of(&s, &folder), "refused");
    stk_sample_add(&s, "data", 4, &array);
    CHECK_STR(names_of(&s, &tar), "refused");
    set_key(&s, "v1.npy");
    CHECK_STR(names_of(&s, &tar), "v1.npy v1.x.npy");
    static const char *const unsafe[] = {"", "/a", "a/../b", "..", "a//b", "./a"};
    for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++) {
        set_key(&s, unsafe[i]);
        CHECK_STR(names_of(&s, &tar), "refused");
    }
    stk_sample_reset(&s);
    set_key(&s, "k");
    struct stk_value list_value = {.kind = STK_LIST};
    stk_sample_add(&s, "l", 1, &list_value);
    CHECK_STR(names_of(&s, &tar), "refused");
    struct stk_write_config cfg = {.first = &s};
    CHECK_INT(stk_members_prepare(&cfg, &err), STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "'l' is a list"));
    stk_sample_release(&s);
}

/* What encode() writes is listed as what went in. */
static void test_encode(void)
{
    struct stk_write_config cfg = {.format = &stk_format_tar};
    struct stk_buf b = STK_BUF_INIT, again = STK_BUF_INIT, tar = STK_BUF_INIT;
    struct stk_sample s;
    stk_sample_init(&s);
    set_key(&s, "cat/1.jpg");
    stk_sample_add_bytes(&s, "data", STK_BYTES, "JPEG", 4, &err);
    stk_sample_add_i64(&s, "label", 5, -12, &err);
    CHECK_INT(stk_format_tar.encode(&cfg, &s, &b, &err), 0);
    CHECK_INT(stk_format_tar.encode(&cfg, &s, &again, &err), 0);
    CHECK(b.len == again.len && memcmp(b.data, again.data, b.len) == 0);
    size_t skip = 12 + s.key_len; /* the frame append() takes off */
    CHECK_INT(b.len, skip + 2048);
    stk_buf_put(&tar, b.data + skip, b.len - skip);
    put_end(&tar);
    CHECK_STR(list(&tar), "field 0 label bytes cls\nsample cat/1\nextent 512+3\npart 0\n"
                          "field 1 jpg bytes \nextent 1536+4\npart 1\n");
    CHECK(memcmp(tar.data + 512, "-12", 3) == 0);
    set_key(&s, "__x__/1.jpg");
    CHECK_INT(stk_format_tar.encode(&cfg, &s, &again, &err), STK_E_UNSUPPORTED);
    stk_sample_release(&s);
    stk_buf_release(&b);
    stk_buf_release(&again);
    stk_buf_release(&tar);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(test_grouping);
    CHECK_RUN(test_same_name);
    CHECK_RUN(test_hostile_names);
    CHECK_RUN(test_duplicates);
    CHECK_RUN(test_damage);
    CHECK_RUN(test_appended);
    CHECK_RUN(test_sizes);
    CHECK_RUN(test_bad_pax);
    CHECK_RUN(test_types);
    CHECK_RUN(test_links);
    CHECK_RUN(test_many_extensions);
    CHECK_RUN(test_long_names);
    CHECK_RUN(test_checksums);
    CHECK_RUN(test_member_names);
    CHECK_RUN(test_member_writing);
    CHECK_RUN(test_encode);
    stk_buf_release(&script.text);
    return CHECK_DONE();
}
