/* test_dir.c - a list of a folder is whole, or the error says why not. */
#include "check.h"
#include "scratch.h"
#include "base/dir.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const char *make_folder(void)
{
    const char *dir = scratch_path("list");
    CHECK_INT(stk_mkdirs(dir, NULL), 0);
    CHECK_INT(stk_write_file_atomic(scratch_path("list/a"), "1", 1, NULL), 0);
    CHECK(symlink("nowhere", scratch_path("list/link")) == 0 || errno == EEXIST);
    return dir;
}

static void list_has_all_but_the_dots(void)
{
    struct stk_dir d;
    struct stat st;
    unsigned files = 0, links = 0;
    CHECK_INT(stk_dir_open(&d, make_folder(), NULL), 0);
    for (const struct dirent *e; (e = stk_dir_next(&d));) {
        unsigned char type = stk_dir_type(&d, e);
        files += type == DT_REG;
        links += type == DT_LNK;
        CHECK(stk_dir_stat(&d, e, AT_SYMLINK_NOFOLLOW, &st));
        CHECK(stk_dir_stat(&d, e, 0, &st) == (type == DT_REG)); /* a link to nothing is no error */
    }
    CHECK_INT(stk_dir_end(&d, 0, NULL), 0);
    CHECK(files == 1 && links == 1);
}

static void error_is_not_the_end(void)
{
    struct stk_dir d;
    struct stk_err err = {0};
    CHECK_INT(stk_dir_open(&d, make_folder(), NULL), 0);
    int null = open("/dev/null", O_RDONLY);
    CHECK(dup2(null, d.fd) >= 0); /* getdents64() fails from now on */
    close(null);
    CHECK(!stk_dir_next(&d) && !stk_dir_next(&d));
    CHECK_INT(stk_dir_end(&d, 0, &err), STK_E_SYS);
    CHECK(err.sys_errno == ENOTDIR && strstr(err.what, "read the folder: "));
    CHECK_INT(stk_dir_open(&d, scratch_path("list"), NULL), 0);
    CHECK_INT(stk_dir_end(&d, STK_E_CORRUPT, NULL), STK_E_CORRUPT); /* the caller's own error */
}

static void removed_folder_has_no_entries(void)
{
    struct stk_dir d;
    const char *path = scratch_path("gone");
    CHECK_INT(mkdir(path, 0700), 0);
    CHECK_INT(stk_dir_open(&d, path, NULL), 0);
    CHECK_INT(rmdir(path), 0);
    CHECK(!stk_dir_next(&d));
    CHECK_INT(stk_dir_end(&d, 0, NULL), 0);
}

static void entry_that_cannot_be_looked_at_is_named(void)
{
    struct stk_dir d;
    struct stk_err err = {0};
    struct stat st;
    struct dirent unknown = {.d_type = DT_UNKNOWN};
    CHECK_INT(stk_dir_open(&d, make_folder(), NULL), 0);
    memset(unknown.d_name, 'x', sizeof unknown.d_name - 1);
    CHECK(stk_dir_type(&d, &unknown) == DT_UNKNOWN); /* no such file: gone by now */
    CHECK_INT(d.error, 0);
    int null = open("/dev/null", O_RDONLY | O_PATH), own = dup(d.fd);
    close(d.fd);
    CHECK(!stk_dir_stat(&d, &unknown, 0, &st)); /* EBADF */
    CHECK(dup2(own, d.fd) >= 0);
    close(own);
    close(null);
    CHECK_INT(stk_dir_end(&d, 0, &err), STK_E_SYS);
    CHECK(err.sys_errno == EBADF && strstr(err.what, "'xxx"));
}

static void missing_folder_is_an_error_unless_it_is_optional(void)
{
    struct stk_dir d;
    struct stk_err err = {0};
    CHECK_INT(stk_dir_open(&d, scratch_path("none"), &err), STK_E_SYS);
    CHECK(!stk_dir_next(&d) && err.sys_errno == ENOENT);
    CHECK_INT(stk_dir_end(&d, STK_E_SYS, NULL), STK_E_SYS);
    CHECK_INT(stk_dir_open_optional(&d, scratch_path("none"), NULL), 0);
    CHECK(!stk_dir_next(&d));
    CHECK_INT(stk_dir_end(&d, 0, NULL), 0);
    CHECK_INT(stk_dir_is_empty(-1, "none", &err), STK_E_SYS);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    CHECK_RUN(list_has_all_but_the_dots);
    CHECK_RUN(error_is_not_the_end);
    CHECK_RUN(removed_folder_has_no_entries);
    CHECK_RUN(entry_that_cannot_be_looked_at_is_named);
    CHECK_RUN(missing_folder_is_an_error_unless_it_is_optional);
    scratch_done();
    return CHECK_DONE();
}
