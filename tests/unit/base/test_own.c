/* test_own.c - what is created is new, whole and nobody else's; what is adopted is ours; what is
 * removed is never what a link leads to. (Two users: tests/security.) */
#include "check.h"
#include "scratch.h"
#include "base/own.h"
#include "base/pool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int count_in(const char *dir)
{
    DIR *d = opendir(dir);
    int n = -2;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static bool holds(const char *path, const char *text)
{
    struct stk_buf b = STK_BUF_INIT;
    bool same = stk_read_file(path, 1000, &b, NULL) == 0 && b.len == strlen(text) &&
                memcmp(b.data, text, b.len) == 0;
    stk_buf_release(&b);
    return same;
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

/* ---- files ---- */

static void file_is_whole_or_not_there(void)
{
    struct stk_new f;
    const char *dir = scratch_path("whole"), *path = scratch_path("whole/x");
    CHECK_INT(stk_mkdirs(dir, NULL), 0);
    CHECK_INT(stk_new_begin(&f, path, STK_SHARED, NULL), 0);
    CHECK_INT(write(f.fd, "abc", 3), 3);
    CHECK(access(path, F_OK) < 0 && strncmp(f.tmp, "x.partial.", 10) == 0);
    stk_new_abort(&f);
    stk_new_abort(&f); /* once more does no harm */
    CHECK_INT(count_in(dir), 0);
    CHECK_INT(stk_new_begin(&f, path, STK_PRIVATE, NULL), 0);
    CHECK_INT(write(f.fd, "abc", 3), 3);
    CHECK_INT(stk_new_commit(&f, NULL), 0);
    CHECK(holds(path, "abc") && mode_of(path) == 0600 && count_in(dir) == 1);
    stk_new_abort(&f);
    CHECK(holds(path, "abc"));
}

static int write_one(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    (void)item, (void)thread;
    return stk_write_file_atomic(user, "whole", 5, err);
}

/* Each removes what killed ones left, and must not take another one's for that. */
static void many_write_one_file(void)
{
    const char *path = scratch_file("many/file", "", 0);
    struct stk_err err = {0};
    CHECK_INT(stk_pool_run(8, 800, write_one, (void *)(uintptr_t)path, &err), 0);
    CHECK_STR(err.what, "");
    CHECK(holds(path, "whole"));
    CHECK_INT(count_in(scratch_path("many")), 1);
}

static void file_replaces_a_link_and_not_what_it_leads_to(void)
{
    const char *precious = scratch_file("precious", "mine", 4), *path = scratch_path("link");
    CHECK_INT(symlink("precious", path), 0);
    CHECK_INT(stk_write_file_atomic(path, "new", 3, NULL), 0);
    CHECK(holds(precious, "mine") && holds(path, "new"));
    int fd;
    const char *grows = scratch_path("grows");
    CHECK_INT(symlink("precious", grows), 0);
    CHECK_INT(stk_open_fresh(AT_FDCWD, grows, STK_SHARED, &fd, grows, NULL), 0);
    CHECK_INT(write(fd, "seen", 4), 4);
    CHECK(holds(grows, "seen") && holds(precious, "mine")); /* while it is open */
    close(fd);
    CHECK_INT(link(precious, scratch_path("hard")), 0);
    CHECK_INT(stk_open_fresh(AT_FDCWD, scratch_path("hard"), STK_SHARED, &fd, "hard", NULL), 0);
    close(fd);
    CHECK(holds(precious, "mine"));
}

static void failed_rename_leaves_nothing(void)
{
    struct stk_err err = {0};
    const char *dir = scratch_path("taken");
    CHECK_INT(stk_mkdirs(scratch_path("taken/x"), NULL), 0);
    CHECK_INT(stk_write_file_atomic(scratch_path("taken/x"), "a", 1, &err), STK_E_SYS);
    CHECK_INT(stk_write_file_atomic(scratch_path("taken/"), "a", 1, &err), STK_E_SYS);
    CHECK_INT(stk_write_file_atomic(scratch_path("taken/none/x"), "a", 1, &err), STK_E_SYS);
    CHECK_INT(err.sys_errno, ENOENT);
    CHECK_INT(count_in(dir), 1);
}

static void long_names(void)
{
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    CHECK_INT(stk_write_file_atomic(scratch_path(name), "a", 1, NULL), 0);
    CHECK(holds(scratch_path(name), "a"));
}

static void outputs_that_are_no_files(void)
{
    struct stk_new f;
    const char *fifo = scratch_path("fifo"), *link = scratch_path("to-fifo");
    char got[8] = "";
    CHECK_INT(mkfifo(fifo, 0600), 0);
    CHECK_INT(symlink("fifo", link), 0);
    int reader = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(stk_new_output(&f, i ? link : fifo, STK_SHARED, NULL), 0);
        CHECK(!f.tmp && write(f.fd, "abc", 3) == 3);
        CHECK_INT(stk_new_commit(&f, NULL), 0);
        CHECK(read(reader, got, sizeof got) == 3 && memcmp(got, "abc", 3) == 0);
    }
    close(reader);
    CHECK_INT(stk_new_output(&f, "/dev/null", STK_SHARED, NULL), 0);
    CHECK(!f.tmp);
    CHECK_INT(stk_new_commit(&f, NULL), 0);
    /* A descriptor is written to, also when it leads to a file. */
    int fd = open(scratch_file("redirected", "", 0), O_WRONLY | O_CLOEXEC);
    char path[STK_FD_PATH];
    CHECK_INT(stk_new_output(&f, stk_fd_path(fd, NULL, path), STK_SHARED, NULL), 0);
    CHECK(!f.tmp && write(f.fd, "abc", 3) == 3);
    CHECK_INT(stk_new_commit(&f, NULL), 0);
    CHECK(holds(scratch_path("redirected"), "abc"));
    close(fd);
}

static void appended_file_is_ours_alone(void)
{
    struct stk_err err = {0};
    const char *path = scratch_path("log"), *precious = scratch_file("kept", "mine", 4);
    int fd;
    for (int i = 0; i < 2; i++) {
        CHECK_INT(stk_open_append(AT_FDCWD, path, STK_PRIVATE, &fd, path, NULL), 0);
        CHECK_INT(write(fd, "x", 1), 1);
        close(fd);
    }
    CHECK(holds(path, "xx"));
    CHECK_INT(link(precious, scratch_path("second")), 0);
    CHECK_INT(stk_open_append(AT_FDCWD, scratch_path("second"), STK_PRIVATE, &fd, "", &err),
              STK_E_EXISTS);
    CHECK_INT(symlink("kept", scratch_path("third")), 0);
    CHECK_INT(stk_open_append(AT_FDCWD, scratch_path("third"), STK_PRIVATE, &fd, "", &err),
              STK_E_SYS);
    CHECK(holds(precious, "mine"));
}

/* data: modes of two files. */
static void as_private_as_the_data(unsigned one, unsigned two, unsigned want)
{
    struct stk_new f;
    struct stk_readers r = {0};
    struct stat st;
    const char *path = scratch_path("index");
    CHECK_INT(stk_new_begin(&f, path, STK_PRIVATE, NULL), 0);
    CHECK_INT(fstat(f.fd, &st), 0);
    for (int i = 0; i < 2; i++) {
        st.st_mode = (i ? two : one) | (i ? S_IFDIR : S_IFREG);
        stk_readers_join(&r, &st);
    }
    stk_new_share(&f, &r);
    CHECK_INT(stk_new_commit(&f, NULL), 0);
    CHECK_INT(mode_of(path), want);
}

static void groups_that_differ(void)
{
    struct stk_readers r = {0};
    struct stat a = {.st_mode = S_IFREG | 0640, .st_gid = 1}, b = a;
    b.st_gid = 2;
    stk_readers_join(&r, &a);
    CHECK(r.audience == 1 && r.gid == 1);
    stk_readers_join(&r, &b);
    CHECK_INT(r.audience, 0);
    b.st_mode = S_IFREG | 0644;
    r = (struct stk_readers){0};
    stk_readers_join(&r, &b);
    stk_readers_join(&r, &a);
    stk_readers_join(&r, &b);
    CHECK(r.audience == 1 && r.gid == 1);
}

/* ---- folders ---- */

static void folder_that_is_ours(void)
{
    struct stk_err err = {0};
    const char *path = scratch_path("own");
    int fd;
    CHECK_INT(stk_own_folder(path, 0, &fd, &err), STK_E_SYS);
    CHECK_INT(stk_own_folder(path, STK_OWN_MAKE | STK_OWN_PRIVATE, &fd, &err), 0);
    CHECK_INT(mode_of(path), 0700);
    close(fd);
    CHECK_INT(stk_own_folder(scratch_path("own//"), STK_OWN_MAKE, &fd, &err), 0);
    close(fd);
    CHECK_INT(stk_own_folder(path, STK_OWN_MAKE | STK_OWN_NEW, &fd, &err), STK_E_SYS);
    CHECK_INT(err.sys_errno, EEXIST);
    CHECK_INT(symlink("own", scratch_path("own-link")), 0);
    CHECK_INT(stk_own_folder(scratch_path("own-link"), STK_OWN_MAKE, &fd, &err), STK_E_EXISTS);
    CHECK(strstr(err.what, "a link"));
    scratch_file("own-file", "", 0);
    CHECK_INT(stk_own_folder(scratch_path("own-file"), STK_OWN_MAKE, &fd, &err), STK_E_EXISTS);
    CHECK_INT(chmod(path, 0770), 0);
    CHECK_INT(stk_own_folder(path, 0, &fd, &err), STK_E_EXISTS);
    CHECK(strstr(err.what, "0770") && fd == -1);
}

static void folder_as_the_umask_says(void)
{
    int fd;
    mode_t before = umask(002);
    CHECK_INT(stk_own_folder(scratch_path("group"), STK_OWN_MAKE, &fd, NULL), 0);
    close(fd);
    umask(before);
    CHECK_INT(mode_of(scratch_path("group")), 0775);
}

static void temporary_folder(void)
{
    char *path = NULL;
    int fd = -1;
    CHECK_INT(stk_own_temp_folder(scratch, "spool", &path, &fd, NULL), 0);
    CHECK(fd >= 0 && mode_of(path) == 0700 && strstr(path, "/spool."));
    close(fd);
    free(path);
    CHECK_INT(stk_own_temp_folder("/nonexistent", "spool", &path, NULL, NULL), STK_E_SYS);
}

static void links_of_ours_are_followed(void)
{
    char *at = NULL;
    struct stk_err err = {0};
    CHECK_INT(symlink("deeper/", scratch_path("one")), 0);
    CHECK_INT(symlink("one", scratch_path("two")), 0);
    CHECK_INT(stk_own_resolve(scratch_path("two/"), &at, &err), 0);
    CHECK_STR(at, scratch_path("deeper"));
    free(at);
    CHECK_INT(symlink("round", scratch_path("round")), 0);
    CHECK_INT(stk_own_resolve(scratch_path("round"), &at, &err), STK_E_SYS);
    CHECK_INT(err.sys_errno, ELOOP);
    CHECK_INT(stk_own_resolve("/", &at, &err), 0);
    CHECK_STR(at, "/");
    free(at);
}

/* ---- removing ---- */

static void removes_links_and_not_what_they_lead_to(void)
{
    struct stk_err err = {0};
    scratch_file("treasure/a/b", "mine", 4);
    scratch_file("gone/x/y/z", "", 0);
    CHECK_INT(symlink(scratch_path("treasure"), scratch_path("gone/x/link")), 0);
    CHECK_INT(symlink("../treasure", scratch_path("gone/link")), 0);
    CHECK_INT(symlink("treasure", scratch_path("itself")), 0);
    CHECK_INT(stk_remove_tree(scratch_path("gone"), &err), 0);
    CHECK_INT(stk_remove_tree(scratch_path("itself"), &err), 0);
    CHECK_INT(stk_remove_tree(scratch_path("itself"), &err), 0); /* it is gone already */
    CHECK(access(scratch_path("gone"), F_OK) < 0 && holds(scratch_path("treasure/a/b"), "mine"));
}

/* ---- reading ---- */

static void only_files_are_read(void)
{
    struct stk_err err = {0};
    struct stat st;
    int fd;
    CHECK_INT(mkfifo(scratch_path("pipe"), 0600), 0);
    CHECK_INT(stk_read_open(AT_FDCWD, scratch_path("pipe"), 0, &fd, NULL, "pipe", &err),
              STK_E_UNSUPPORTED);
    CHECK_STR(err.what, "is a pipe, not a file");
    CHECK_INT(stk_read_open(AT_FDCWD, scratch, 0, &fd, NULL, "", &err), STK_E_UNSUPPORTED);
    CHECK_INT(stk_read_open(AT_FDCWD, "/dev/zero", 0, &fd, NULL, "", &err), STK_E_UNSUPPORTED);
    scratch_file("read", "abc", 3);
    CHECK_INT(symlink("read", scratch_path("read-link")), 0);
    CHECK_INT(stk_read_open(AT_FDCWD, scratch_path("read-link"), O_NOFOLLOW, &fd, NULL, "", &err),
              STK_E_UNSUPPORTED);
    CHECK_STR(err.what, "is a link, not a file");
    CHECK_INT(stk_read_open(AT_FDCWD, scratch_path("read-link"), 0, &fd, &st, "", &err), 0);
    CHECK_INT(st.st_size, 3);
    close(fd);
    CHECK_INT(stk_read_open(AT_FDCWD, scratch_path("none"), 0, &fd, &st, "", &err), STK_E_SYS);
}

static void who_is_trusted(void)
{
    char who[64];
    CHECK(stk_trusts(geteuid(), 77) && stk_trusts(0, 77) && stk_trusts(77, 77));
    CHECK(!stk_trusts(geteuid() + 1, geteuid()));
    CHECK_STR(stk_user_name(0, who), "root");
    CHECK_STR(stk_user_name(3999999999u, who), "uid 3999999999");
    CHECK_STR(stk_user_word(3999999999u, who), "3999999999");
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    umask(022);
    CHECK_RUN(file_is_whole_or_not_there);
    CHECK_RUN(many_write_one_file);
    CHECK_RUN(file_replaces_a_link_and_not_what_it_leads_to);
    CHECK_RUN(failed_rename_leaves_nothing);
    CHECK_RUN(long_names);
    CHECK_RUN(outputs_that_are_no_files);
    CHECK_RUN(appended_file_is_ours_alone);
    CHECK_FOR("all", as_private_as_the_data, 0664, 0755, 0644);
    CHECK_FOR("file", as_private_as_the_data, 0600, 0755, 0600);
    CHECK_FOR("folder", as_private_as_the_data, 0644, 0700, 0600);
    CHECK_FOR("listed-only", as_private_as_the_data, 0644, 0744, 0600);
    CHECK_FOR("group", as_private_as_the_data, 0640, 0755, 0640);
    CHECK_FOR("not-the-group", as_private_as_the_data, 0604, 0755, 0600);
    CHECK_RUN(groups_that_differ);
    CHECK_RUN(folder_that_is_ours);
    CHECK_RUN(folder_as_the_umask_says);
    CHECK_RUN(temporary_folder);
    CHECK_RUN(links_of_ours_are_followed);
    CHECK_RUN(removes_links_and_not_what_they_lead_to);
    CHECK_RUN(only_files_are_read);
    CHECK_RUN(who_is_trusted);
    scratch_done();
    return CHECK_DONE();
}
