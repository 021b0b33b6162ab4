/*
 * test_files.c - the door to files: what is checked when one is opened, where it is read from, what
 * stays open; and the engines over a plain list of files, without dataset or index.
 */
#include "ioset.h"
#include "dataset/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A FIFO or a folder among the files would hang the program, or fail it with other words. */
static void not_a_file(void)
{
    struct stk_err err = {0};
    uint64_t size;
    CHECK_INT(stk_file_open_at(AT_FDCWD, true, scratch, "dir", &size, &err), STK_E_UNSUPPORTED);
    CHECK_INT(mkfifo(scratch_path("fifo"), 0600), 0);
    CHECK_INT(stk_file_open_at(AT_FDCWD, true, scratch_path("fifo"), "fifo", &size, &err),
              STK_E_UNSUPPORTED); /* and does not wait for a writer */
    CHECK_STR(err.what, "not a regular file");
    CHECK_INT(stk_file_open_at(AT_FDCWD, true, scratch_path("none"), "none", &size, &err),
              STK_E_SYS);
    CHECK_STR(err.path, "none");
    CHECK_STR(err.what, "open: No such file or directory");
    scratch_file("some", "12345", 5);
    int fd = stk_file_open_at(AT_FDCWD, true, scratch_path("some"), "some", &size, &err);
    CHECK(fd >= 0);
    CHECK_INT(size, 5);
    close(fd);
}

/* Bytes of another file would pass for those that were indexed. */
static void on_record(void)
{
    struct stk_err err = {0};
    struct stk_file f;
    struct stat sb;
    char path[600];
    snprintf(path, sizeof path, "%s", scratch_file("recorded", "12345", 5));
    CHECK_INT(stat(path, &sb), 0);
    int64_t mtime = (int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec;
    const struct stk_files_item item[] = {{path, 5, mtime},        {path, 5, 0},
                                          {path, STK_SIZE_ANY, 0}, {path, 6, 0},
                                          {path, 5, mtime + 1},    {scratch, 5, 0}};
    struct stk_files files = stk_files_list(item, 6);
    for (uint64_t i = 0; i < 6; i++) {
        int rc = stk_file_open(&files, i, STK_FILE_PLAIN, &f, &err);
        CHECK_INT(rc, i < 3 ? 0 : STK_E_STALE);
        CHECK((stk_files_compare(&files, i, NULL, NULL) == 0) == (rc == 0));
        if (rc == 0)
            stk_file_close(&f);
        else
            CHECK_STR(err.what, i == 5 ? "not a regular file"
                                       : "the file changed since it was indexed; run again");
    }
    CHECK_STR(err.path, scratch);
    CHECK(stk_file_open(&files, 6, STK_FILE_PLAIN, &f, &err) < 0);
    CHECK(stk_files_compare(&files, 6, NULL, NULL) < 0);
    CHECK(stk_files_path(&files, 6) == NULL);
    char *name = stk_files_path(&files, 0);
    CHECK_STR(name, path);
    free(name);
}

/* ---- a plain list ---- */

#define LIST 5u

static struct stk_files_item item[LIST];
static char item_path[LIST][600];

/* Files of no format, at paths of their own. */
static void make_list(struct set *s, struct stk_files *files)
{
    memset(s, 0, sizeof *s);
    s->nfiles = LIST;
    for (unsigned i = 0; i < LIST; i++) {
        char name[40];
        size_t n = 1 + i * 77777;
        uint8_t *p = stk_buf_extend(&s->bytes[i], n);
        for (size_t k = 0; k < n; k++)
            p[k] = (uint8_t)(next_random(1u << 20) >> 5);
        snprintf(name, sizeof name, "list/%u/data.%u", i % 2, i);
        snprintf(item_path[i], sizeof item_path[i], "%s", scratch_file(name, p, n));
        item[i] = (struct stk_files_item){.path = item_path[i], .size = n};
    }
    *files = stk_files_list(item, LIST);
    s->files = files;
}

/* A benchmark that replays reads would need a dataset and an index of the files. */
static void engines_over_a_list(void)
{
    struct set s;
    struct stk_files files;
    struct stk_io_choice c;
    make_list(&s, &files);
    CHECK_INT(files.bytes, 5 + 10 * 77777);
    stk_io_probe(&files, &(struct stk_io_config){0}, &c);
    CHECK(c.kind != STK_IO_AUTO && c.fs[0]);
    for (size_t e = 0; e < NENGINES; e++) {
        struct stk_io *io = open_io(&files, &all_engines[e], 8);
        many_reads(&s, io, 200, 50000);
        stk_io_close(io);
    }
    for (unsigned i = 0; i < LIST; i++)
        stk_buf_release(&s.bytes[i]);
}

/* ---- an overlay ---- */

struct copies {
    struct stk_files_overlay base;
    char folder[600];
    _Atomic unsigned refused;
    unsigned fetched;
};

static unsigned route_copy(const struct stk_files_overlay *o, uint64_t number, uint64_t off,
                           uint64_t len)
{
    (void)o;
    return number != 0 && (number != 1 || off + len <= 15000) ? 1 : 0;
}

static char *path_of_copy(const struct stk_files_overlay *o, uint64_t number, unsigned level)
{
    const struct copies *c = (const void *)o;
    char *path = NULL;
    CHECK_INT(level, 1);
    return asprintf(&path, "%s/%llu", c->folder, (unsigned long long)number) < 0 ? NULL : path;
}

static int open_copy(const struct stk_files_overlay *o, uint64_t number, unsigned level, int flags)
{
    char *path = path_of_copy(o, number, level);
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    free(path);
    return fd;
}

static bool copy_fits(const struct stk_files_overlay *o, uint64_t number, unsigned level,
                      const struct statx *sx, bool *growing)
{
    (void)o;
    *growing = number == 1;
    return level == 1 && sx->stx_size > 0;
}

static void refuse_copy(const struct stk_files_overlay *o, uint64_t number, unsigned level)
{
    CHECK(level == 1 && number > 1);
    ((struct copies *)(uintptr_t)o)->refused++;
}

/* The copy of file 1 has other bytes in its first half, so that it shows who was read; that of 2 is
 * cut short, that of 3 is not there. */
static void make_copies(struct set *s, struct copies *c)
{
    const uint8_t *p = s->bytes[1].data;
    uint8_t *other = malloc(s->bytes[1].len);
    memcpy(other, p, s->bytes[1].len);
    for (size_t i = 0; i < 15000; i++)
        other[i] ^= 0x55;
    scratch_file("copies/1", other, s->bytes[1].len);
    scratch_file("copies/2", s->bytes[2].data, 1000);
    free(other);
    c->base = (struct stk_files_overlay){.levels = 1,
                                         .route = route_copy,
                                         .open = open_copy,
                                         .fits = copy_fits,
                                         .path = path_of_copy,
                                         .refuse = refuse_copy};
    snprintf(c->folder, sizeof c->folder, "%s", scratch_path("copies"));
}

static const uint8_t *ask_one(struct stk_io *io, struct stk_io_req *req)
{
    struct stk_io_req *done = NULL;
    stk_io_submit(io, req);
    CHECK_INT(stk_io_reap(io, &done, 1, true), 1);
    CHECK(done == req && req->code == 0);
    return req->data;
}

/* Where a range comes from: a copy that has it, else the source, whatever happens to the copy. */
static void an_overlay(void)
{
    struct set s;
    struct copies c = {0};
    make_set(&s, "placed", 4, 30000, 4099);
    make_copies(&s, &c);
    struct stk_files files = *s.files;
    files.overlay = &c.base;
    char *path = stk_files_path(&files, 5), *source = stk_files_path(&files, 1);
    CHECK(strstr(path, "/copies/1") != NULL);
    CHECK(strstr(source, "/placed/f-00001.tfrecord") != NULL);
    free(path);
    free(source);
    for (size_t e = 0; e < NENGINES; e++) {
        struct stk_io *io = open_io(&files, &all_engines[e], 8);
        void *buf = aligned_alloc(STK_IO_ALIGN, stk_io_room(20000));
        for (uint32_t f = 0; f < 4; f++)
            for (uint64_t off = 0; off < 16000; off += 14000) {
                struct stk_io_req req = {
                    .file = f, .off = off, .len = 5000, .buf = buf, .segment = -1};
                const uint8_t *p = ask_one(io, &req);
                bool copy = f == 1 && off == 0 && !stk_io_maps(io);
                CHECK(p && (memcmp(p, s.bytes[f].data + off, 5000) == 0) == !copy);
            }
        struct stk_io_stats st;
        stk_io_stats(io, &st);
        CHECK_INT(st.level_bytes[1], stk_io_maps(io) ? 0 : 5000);
        CHECK_INT(st.level_bytes[0], stk_io_maps(io) ? 40000 : 35000);
        CHECK_INT(st.refused, stk_io_maps(io) ? 0 : 4);
        stk_io_close(io);
        free(buf);
    }
    CHECK(c.refused > 0);
    CHECK(stk_files_compare(&files, 1, NULL, NULL) == 0); /* the source is what was indexed */
    drop_set(&s);
}

/* ---- what stays open ---- */

static void bounded(const struct stk_files *files)
{
    struct stk_handles h;
    struct stk_file *f[LIST], *again;
    CHECK_INT(stk_handles_init(&h, files, STK_FILE_PLAIN, 2, NULL), 0);
    CHECK(stk_handles_find(&h, 0) == NULL);
    for (uint32_t i = 0; i < LIST; i++) {
        CHECK_INT(stk_handles_get(&h, i, &f[i], NULL), 0);
        CHECK_INT(f[i]->number, i);
        CHECK_INT(f[i]->size, item[i].size);
    }
    CHECK_INT(h.count, LIST); /* all are pinned: none may go */
    for (uint32_t i = 1; i < LIST; i++)
        stk_handles_put(&h, f[i]);
    again = stk_handles_find(&h, 3); /* now the newest */
    CHECK(again == f[3]);
    stk_handles_put(&h, again);
    stk_handles_put(&h, f[0]);
    CHECK_INT(stk_handles_get(&h, 0, &f[0], NULL), 0);
    CHECK_INT(stk_handles_get(&h, 1, &f[1], NULL), 0);
    CHECK_INT(h.opens, LIST);
    stk_handles_put(&h, f[1]);
    stk_handles_release(&h);
    CHECK_INT(stk_handles_init(&h, files, STK_FILE_PLAIN, 2, NULL), 0);
    for (uint32_t i = 0; i < 3 * LIST; i++) {
        CHECK_INT(stk_handles_get(&h, i % LIST, &f[0], NULL), 0);
        CHECK(h.count <= 2);
        stk_handles_put(&h, f[0]);
    }
    CHECK_INT(h.opens, 3 * LIST); /* by age, a round of five finds none of the last two */
    CHECK(stk_handles_find(&h, 0) == NULL);
    stk_handles_release(&h);
}

static void *get_and_put(void *arg)
{
    struct stk_handles *h = arg;
    for (uint32_t i = 0; i < 2000; i++) {
        struct stk_file *f;
        uint8_t byte;
        if (stk_handles_get(h, i * 7 % LIST, &f, NULL) < 0 || pread(f->fd, &byte, 1, 0) != 1)
            return h;
        stk_handles_put(h, f);
    }
    return NULL;
}

/* A descriptor closed under a thread that reads from it gives bytes of whatever file comes next. */
static void from_many_threads(const struct stk_files *files)
{
    struct stk_handles h;
    pthread_t t[4];
    CHECK_INT(stk_handles_init(&h, files, STK_FILE_PLAIN, 2, NULL), 0);
    for (int i = 0; i < 4; i++)
        CHECK_INT(pthread_create(&t[i], NULL, get_and_put, &h), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(t[i], &failed);
        CHECK(failed == NULL);
    }
    CHECK(h.count <= 2 + 4);
    stk_handles_release(&h);
}

/* The rest of a direct read would come from whatever has the name by now. */
static void same_file_again(const struct stk_files *files)
{
    struct stk_handles h;
    struct stk_file *f;
    struct stat a, b;
    CHECK_INT(stk_handles_init(&h, files, STK_FILE_DIRECT, 2, NULL), 0);
    CHECK_INT(stk_handles_get(&h, 3, &f, NULL), 0);
    CHECK_INT(rename(item[3].path, scratch_path("moved")), 0);
    int fd = stk_handles_plain(&h, f, NULL);
    CHECK(fd >= 0 && fstat(fd, &a) == 0 && fstat(f->fd, &b) == 0 && a.st_ino == b.st_ino);
    CHECK((fcntl(fd, F_GETFL) & O_DIRECT) == 0);
    CHECK_INT(stk_handles_plain(&h, f, NULL), fd);
    CHECK_INT(rename(scratch_path("moved"), item[3].path), 0);
    stk_handles_release(&h);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    struct stk_files files;
    scratch_begin();
    CHECK_RUN(not_a_file);
    CHECK_RUN(on_record);
    CHECK_RUN(engines_over_a_list);
    CHECK_RUN(an_overlay);
    files = stk_files_list(item, LIST);
    CHECK_CASE("bounded", NULL, bounded(&files));
    CHECK_CASE("from_many_threads", NULL, from_many_threads(&files));
    CHECK_CASE("same_file_again", NULL, same_file_again(&files));
    scratch_done();
    return CHECK_DONE();
}
