/*
 * test_identity.c - what tells one dataset from another: the same for a copy, another one for other
 * names, sizes or bytes. A resumed run would otherwise be refused after staging, or go on in the
 * wrong dataset.
 */
#include "check.h"
#include "scratch.h"
#include "dataset/dataset.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE 50000u

static uint8_t bytes[SIZE];

static void put_file(const char *folder, const char *name, const void *p, size_t n)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    scratch_file(path, p, n);
}

/* A folder of three files. */
static void make_folder(const char *name)
{
    put_file(name, "a/1.bin", bytes, SIZE);
    put_file(name, "a/2.bin", bytes, 100);
    put_file(name, "b/3.bin", bytes, 0);
}

static uint64_t identity(const char *name)
{
    struct stk_dataset *ds = NULL;
    struct stk_err err = {0};
    struct stk_open_options o = {.no_index_write = true};
    CHECK_INT(stk_dataset_open(scratch_path(name), &o, &ds, &err), 0);
    CHECK_STR(err.what, "");
    if (!ds)
        return 0;
    uint64_t id = stk_dataset_identity(ds);
    CHECK(id != 0);
    CHECK(id == stk_dataset_identity(ds));
    stk_dataset_close(ds);
    return id;
}

static void copies_are_the_same(void)
{
    make_folder("set");
    make_folder("elsewhere/copy");
    struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    CHECK_INT(utimensat(AT_FDCWD, scratch_path("elsewhere/copy/a/1.bin"), old, 0), 0);
    CHECK(identity("set") == identity("elsewhere/copy"));
}

static void others_are_not(void)
{
    uint64_t id = identity("set");
    make_folder("renamed");
    CHECK_INT(rename(scratch_path("renamed/a/2.bin"), scratch_path("renamed/a/9.bin")), 0);
    CHECK(identity("renamed") != id);
    make_folder("moved");
    CHECK_INT(rename(scratch_path("moved/a/2.bin"), scratch_path("moved/b/2.bin")), 0);
    CHECK(identity("moved") != id);
    make_folder("sizes"); /* the same in all */
    put_file("sizes", "a/2.bin", bytes, 60);
    put_file("sizes", "b/3.bin", bytes, 40);
    CHECK(identity("sizes") != id);
    static const size_t at[] = {0, SIZE / 2, SIZE - 1};
    for (size_t i = 0; i < 3; i++) {
        make_folder("content");
        bytes[at[i]] ^= 1;
        put_file("content", "a/1.bin", bytes, SIZE);
        bytes[at[i]] ^= 1;
        CHECK(identity("content") != id);
    }
}

/* A loader that skips what cannot be read could not say where it is. */
static void unreadable_files(void)
{
    struct stk_dataset *ds = NULL;
    struct stk_open_options o = {.no_index_write = true};
    make_folder("gone");
    CHECK_INT(stk_dataset_open(scratch_path("gone"), &o, &ds, NULL), 0);
    CHECK_INT(unlink(scratch_path("gone/a/1.bin")), 0);
    CHECK(stk_dataset_identity(ds) != 0);
    stk_dataset_close(ds);
}

/* More files than all sizes are taken of. */
static void many_files(void)
{
    for (unsigned i = 0; i < 4100; i++) {
        char name[20];
        snprintf(name, sizeof name, "%05u.bin", i);
        put_file("many", name, bytes + i, 8);
    }
    uint64_t id = identity("many");
    CHECK(id == identity("many"));
    CHECK_INT(rename(scratch_path("many/02001.bin"), scratch_path("many/02001b.bin")), 0);
    CHECK(identity("many") != id);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)(i * i >> 7);
    CHECK_RUN(copies_are_the_same);
    CHECK_RUN(others_are_not);
    CHECK_RUN(unreadable_files);
    CHECK_RUN(many_files);
    scratch_done();
    return CHECK_DONE();
}
