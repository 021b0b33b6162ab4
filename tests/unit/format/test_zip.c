/* test_zip.c - the directory of ZIP files: ours is read back, ZIP64 included, and every damage to
 * it is an error with an offset, never a read outside the file. */
#include "check.h"
#include "format/lister.h"
#include "format/numpy/zip.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/stoker-test-zip-XXXXXX";
static struct stk_err err;

static void write_file(const void *p, size_t n)
{
    int fd = open(path, O_WRONLY | O_TRUNC);
    CHECK(fd >= 0 && write(fd, p, n) == (ssize_t)n);
    close(fd);
}

/* The code stk_zip_read() gives for these bytes; *z stays readable until released. */
static int read_zip(const void *p, size_t n, struct stk_zip *z)
{
    struct stk_src *src = NULL;
    write_file(p, n);
    err = (struct stk_err){0};
    if (stk_src_open(open(path, O_RDONLY | O_CLOEXEC), path, path, false, &src, &err) < 0)
        return err.code;
    int rc = stk_zip_read(z, src, &err);
    stk_src_close(src);
    return rc;
}

static int read_only(const struct stk_buf *b)
{
    struct stk_zip z;
    int rc = read_zip(b->data, b->len, &z);
    stk_zip_release(&z);
    return rc;
}

/* Members of these names with their name as content; `central` gets the directory's entries. */
static void make_zip(struct stk_buf *b, const char *const *names, size_t n,
                     struct stk_zip_entry *central)
{
    for (size_t i = 0; i < n; i++) {
        central[i] = (struct stk_zip_entry){.name = names[i],
                                            .name_len = strlen(names[i]),
                                            .size = strlen(names[i]),
                                            .stored = strlen(names[i]),
                                            .header_off = b->len};
        stk_zip_put_local(b, &central[i]);
        stk_buf_puts(b, names[i]);
    }
}

static void end_zip(struct stk_buf *b, const struct stk_zip_entry *central, size_t n)
{
    uint64_t start = b->len;
    for (size_t i = 0; i < n; i++)
        stk_zip_put_central(b, &central[i]);
    stk_zip_put_end(b, n, start, b->len - start);
}

static const char *const two[] = {"a.npy", "bb/c.npy"};

static void test_read_back(void)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_zip_entry e[2];
    struct stk_zip z;
    make_zip(&b, two, 2, e);
    end_zip(&b, e, 2);
    CHECK_INT(read_zip(b.data, b.len, &z), 0);
    CHECK_INT(z.nentries, 2);
    CHECK_STR(z.entry[1].name, "bb/c.npy");
    CHECK_INT(z.entry[1].size, 8);
    CHECK(memcmp(b.data + z.entry[1].data_off, "bb/c.npy", 8) == 0);
    stk_zip_release(&z);
    /* A comment behind the end, as some tools leave one. */
    b.data[b.len - 2] = 5;
    stk_buf_puts(&b, "PK\5\6!");
    CHECK_INT(read_only(&b), 0);
    stk_buf_release(&b);
}

/* Any prefix is an error; any changed byte is one or is harmless. */
static void test_damage(void)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_zip_entry e[2];
    struct stk_zip z;
    make_zip(&b, two, 2, e);
    end_zip(&b, e, 2);
    for (size_t n = 0; n < b.len; n++) {
        CHECK(read_zip(b.data, n, &z) == STK_E_CORRUPT && err.offset >= 0);
        stk_zip_release(&z);
    }
    for (size_t i = 0; i < b.len; i++)
        for (int k = 0; k < 3; k++) {
            uint8_t kept = b.data[i];
            b.data[i] = k == 0 ? 0xff : k == 1 ? 0 : (uint8_t)(kept ^ 0x80);
            int rc = read_only(&b);
            CHECK(rc == 0 || rc == STK_E_CORRUPT);
            b.data[i] = kept;
        }
    stk_buf_release(&b);
}

static void test_hostile(void)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_zip_entry e[2];
    make_zip(&b, two, 2, e);
    size_t members = b.len;

    e[1] = e[0]; /* the same member twice: overlapping, and the same name */
    end_zip(&b, e, 2);
    CHECK_INT(read_only(&b), STK_E_CORRUPT);
    CHECK(strstr(err.what, "overlap"));

    b.len = members;
    e[0].size = e[0].stored = 1u << 30; /* longer than the file */
    end_zip(&b, e, 1);
    CHECK_INT(read_only(&b), STK_E_CORRUPT);

    b.len = members;
    e[0].size = e[0].stored = UINT64_MAX; /* ZIP64, and the sum overflows */
    end_zip(&b, e, 1);
    CHECK_INT(read_only(&b), STK_E_CORRUPT);

    b.len = members;
    e[0].size = 5;
    e[0].stored = 4;
    end_zip(&b, e, 1);
    CHECK_INT(read_only(&b), STK_E_CORRUPT);

    b.len = 0;
    stk_zip_put_end(&b, UINT64_MAX, 0, 0); /* a directory of 2^64 entries in 98 bytes */
    CHECK_INT(read_only(&b), STK_E_CORRUPT);

    b.len = 0;
    static const char *const same[] = {"x.npy", "x.npy"};
    make_zip(&b, same, 2, e);
    end_zip(&b, e, 2);
    CHECK_INT(read_only(&b), STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "called 'x.npy'"));
    stk_buf_release(&b);
}

/* A member of 5 GiB in a file with a hole: its size, and the place of the next one, need ZIP64. */
static void test_large(void)
{
    uint64_t size = 5ull << 30;
    struct stk_buf b = STK_BUF_INIT;
    struct stk_zip_entry e[2] = {
        {.name = "big", .name_len = 3, .size = size, .stored = size},
        {.name = "far", .name_len = 3, .size = 3, .stored = 3},
    };
    struct stk_zip z;
    stk_zip_put_local(&b, &e[0]);
    write_file(b.data, b.len);
    int fd = open(path, O_RDWR);
    e[1].header_off = b.len + size;
    stk_buf_reset(&b);
    stk_zip_put_local(&b, &e[1]);
    stk_buf_puts(&b, "far");
    uint64_t directory = e[1].header_off + b.len, before = b.len;
    stk_zip_put_central(&b, &e[0]);
    stk_zip_put_central(&b, &e[1]);
    stk_zip_put_end(&b, 2, directory, b.len - before);
    bool written = pwrite(fd, b.data, b.len, (off_t)e[1].header_off) == (ssize_t)b.len;
    close(fd);
    struct stk_src *src = NULL;
    if (written &&
        stk_src_open(open(path, O_RDONLY | O_CLOEXEC), path, path, false, &src, &err) == 0) {
        CHECK_INT(stk_zip_read(&z, src, &err), 0);
        CHECK_INT(z.nentries, 2);
        CHECK_INT(z.entry[0].size, size);
        CHECK_INT(z.entry[1].header_off, e[1].header_off);
        stk_zip_release(&z);
    }
    stk_src_close(src);
    stk_buf_release(&b);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    CHECK_RUN(test_read_back);
    CHECK_RUN(test_damage);
    CHECK_RUN(test_hostile);
    CHECK_RUN(test_large);
    unlink(path);
    return CHECK_DONE();
}
