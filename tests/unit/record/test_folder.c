/* test_folder.c - folders that the lab writes: ours alone, done through their descriptor. */
#include "record/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include "check.h"
#include "scratch.h"

static mode_t mode_of(const char *name)
{
    struct stat st;
    return lstat(scratch_path(name), &st) == 0 ? st.st_mode & 07777 : 0;
}

/* A profile or a study that others can read by accident has their owner's secrets in it. */
static void private_unless_shared(void)
{
    struct stk_folder f;
    bool made = false;
    umask(002);
    CHECK_INT(stk_folder_take(&f, scratch_path("a/b/new"), false, &made, NULL), 0);
    CHECK(made);
    CHECK_INT(stk_folder_write(&f, "x", "1", 1, NULL), 0);
    CHECK_INT(stk_folder_write(&f, "sub/x", "1", 1, NULL), 0);
    CHECK_INT(mode_of("a/b/new"), 0700);
    CHECK_INT(mode_of("a/b/new/x"), 0600);
    CHECK_INT(mode_of("a/b/new/sub"), 0700);
    CHECK_INT(mode_of("a/b/new/sub/x"), 0600);
    stk_folder_release(&f);
    CHECK_INT(stk_folder_take(&f, scratch_path("shared"), true, &made, NULL), 0);
    CHECK_INT(stk_folder_write(&f, "sub/x", "1", 1, NULL), 0);
    CHECK_INT(mode_of("shared"), 0755);
    CHECK_INT(mode_of("shared/sub"), 0755);
    CHECK_INT(mode_of("shared/sub/x"), 0644);
    stk_folder_release(&f);
    CHECK_INT(stk_folder_find(&f, scratch_path("shared"), "sub/x", NULL, NULL), 0);
    CHECK_INT(f.mode, 0644);
    stk_folder_release(&f);
    stk_folder_release(&f);
}

/* A folder that a group may write is taken while it is empty, and closed; later it is refused. */
static void writable_by_others(void)
{
    struct stk_folder f;
    struct stk_err err = {0};
    bool made = true;
    CHECK(mkdir(scratch_path("group"), 0700) == 0 && chmod(scratch_path("group"), 02775) == 0);
    CHECK_INT(stk_folder_take(&f, scratch_path("group"), false, &made, NULL), 0);
    CHECK(!made && mode_of("group") == 02755);
    CHECK_INT(stk_folder_write(&f, "x", "1", 1, NULL), 0);
    stk_folder_release(&f);
    CHECK(chmod(scratch_path("group"), 0777) == 0);
    CHECK_INT(stk_folder_take(&f, scratch_path("group"), false, &made, &err), STK_E_EXISTS);
    CHECK(f.fd < 0 && !f.path);
    CHECK_INT(stk_folder_find(&f, scratch_path("group"), "x", NULL, &err), STK_E_EXISTS);
    CHECK(strstr(err.what, "others can write it"));
    CHECK_INT(stk_folder_find(&f, scratch_path("group"), "x", "all", NULL), 0);
    stk_folder_release(&f);
}

/* Whoever may write the folder above puts another one in its place: what is done is done in ours,
 * and theirs (or another of ours) is not emptied. */
static void swapped(void)
{
    struct stk_folder f;
    struct stk_buf b = STK_BUF_INIT;
    bool made;
    char was[600], away[600];
    snprintf(was, sizeof was, "%s", scratch_path("study"));
    snprintf(away, sizeof away, "%s", scratch_path("away"));
    CHECK_INT(stk_folder_take(&f, was, false, &made, NULL), 0);
    CHECK(rename(was, away) == 0 && mkdir(was, 0700) == 0);
    scratch_file("study/dear", "1", 1);
    CHECK_INT(stk_folder_write(&f, "jobs/x", "yes", 3, NULL), 0);
    CHECK_INT(stk_folder_read(&f, "jobs/x", 10, &b, NULL), 0);
    CHECK_STR(stk_buf_cstr(&b), "yes");
    CHECK(access(scratch_path("away/jobs/x"), F_OK) == 0);
    stk_folder_destroy(&f);
    CHECK(access(scratch_path("study/dear"), F_OK) == 0);
    CHECK(access(scratch_path("away/jobs"), F_OK) != 0);
    stk_folder_release(&f);
    stk_buf_release(&b);
}

/* Links in it lead nowhere, neither for reading nor for writing. */
static void links(void)
{
    struct stk_folder f;
    struct stk_buf b = STK_BUF_INIT;
    bool made;
    int fd;
    scratch_file("target", "dear", 4);
    CHECK_INT(stk_folder_take(&f, scratch_path("links"), false, &made, NULL), 0);
    for (int i = 0; i < 3; i++) {
        char name[8] = {'l', (char)('0' + i)};
        CHECK(symlinkat(scratch_path("target"), f.fd, name) == 0);
    }
    CHECK(symlinkat(scratch_path("."), f.fd, "sub") == 0);
    CHECK(stk_folder_read(&f, "l0", 10, &b, NULL) != 0);
    CHECK(stk_folder_append(&f, "l0", &fd, NULL) != 0 && fd < 0);
    CHECK_INT(stk_folder_fresh(&f, "l1", &fd, NULL), 0);
    CHECK(write(fd, "x", 1) == 1 && close(fd) == 0);
    CHECK_INT(stk_folder_write(&f, "l2", "x", 1, NULL), 0);
    CHECK(stk_folder_write(&f, "sub/target", "x", 1, NULL) != 0);
    CHECK(stk_folder_read(&f, "sub/target", 10, &b, NULL) != 0);
    stk_folder_destroy(&f);
    stk_folder_release(&f);
    FILE *file = fopen(scratch_path("target"), "r");
    char text[8] = "";
    CHECK(fread(text, 1, 4, file) == 4 && strcmp(text, "dear") == 0);
    fclose(file);
    stk_buf_release(&b);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    CHECK_RUN(private_unless_shared);
    CHECK_RUN(writable_by_others);
    CHECK_RUN(swapped);
    CHECK_RUN(links);
    scratch_done();
    return CHECK_DONE();
}
