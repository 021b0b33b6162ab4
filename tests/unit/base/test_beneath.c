/*
 * test_beneath.c - names that lead out of a folder, by any way, are not opened; those that stay in
 * are. The same by the kernel and by hand.
 */
#include "check.h"
#include "base/beneath.h"
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <pthread.h>
#include <unistd.h>

typedef int opener(int folder, const char *name, int flags);

static int root = -1;

static void make_link(const char *to, const char *name)
{
    (void)unlinkat(root, name, 0);
    CHECK_INT(symlinkat(to, root, name), 0);
}

static void make_root(void)
{
    CHECK_INT(mkdir(scratch_path("root"), 0755), 0);
    CHECK_INT(mkdir(scratch_path("root/dir"), 0755), 0);
    CHECK_INT(mkdir(scratch_path("root/dir/deep"), 0755), 0);
    CHECK_INT(mkdir(scratch_path("rooted"), 0755), 0);
    scratch_file("root/in", "in", 2);
    scratch_file("root/dir/deep/in", "in", 2);
    scratch_file("out", "out", 3);
    scratch_file("rooted/out", "out", 3);
    root = open(scratch_path("root"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(root >= 0);
}

/* "in" or "out": what is in the file; or what errno says. */
static const char *get(opener *f, const char *name, int flags)
{
    static char text[8];
    int fd = f(root, name, O_RDONLY | flags);
    if (fd < 0)
        return errno == EXDEV ? "EXDEV" : errno == ELOOP ? "ELOOP" : strerror(errno);
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    memset(text, 0, sizeof text);
    ssize_t n = flags & (O_PATH | O_DIRECTORY) ? 0 : read(fd, text, 7);
    close(fd);
    return n < 0 ? "unreadable" : n ? text : "opened";
}

/* Links within a dataset would be lost. */
static void ways_in(opener *f)
{
    char absolute[PATH_MAX + 20], real[PATH_MAX];
    make_link("in", "link");
    make_link("dir", "linked");
    make_link("../in", "dir/up");
    make_link("linked/deep/../up", "through");
    make_link("link", "twice");
    CHECK(realpath(scratch_path("root"), real) != NULL);
    snprintf(absolute, sizeof absolute, "%s/dir/deep/in", real);
    make_link(absolute, "absolute");
    make_link(real, "dir/whole");
    static const char *const in[] = {"in",
                                     "./in",
                                     "dir/../in",
                                     "dir//deep///in",
                                     "link",
                                     "linked/up",
                                     "dir/up",
                                     "linked/deep/in",
                                     "through",
                                     "twice",
                                     "absolute",
                                     "dir/whole/in",
                                     "linked/deep/../../dir/up"};
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        CHECK_STR(get(f, in[i], 0), "in");
    CHECK_STR(get(f, "linked", O_DIRECTORY), "opened");
    CHECK_STR(get(f, ".", O_DIRECTORY), "opened");
    CHECK_STR(get(f, "dir/whole", O_DIRECTORY), "opened");
    CHECK_STR(get(f, "link", O_PATH), "opened");
}

/* A name in an index, or a link in a folder, would open any file of the caller's. */
static void ways_out(opener *f)
{
    make_link("../out", "outside");
    make_link(scratch_path("out"), "absolute_out");
    make_link(scratch_path("rooted/out"), "beside"); /* begins with the same bytes */
    make_link("..", "dir/above");
    make_link("../..", "dir/deep/above");
    make_link("/", "slash");
    make_link("/proc/self/root", "magic");
    make_link("outside", "to_outside");
    static const char *const out[] = {"../out",
                                      "dir/../../out",
                                      "..",
                                      "/etc/passwd",
                                      "outside",
                                      "absolute_out",
                                      "beside",
                                      "to_outside",
                                      "dir/above/../out",
                                      "dir/deep/above/../out",
                                      "slash",
                                      "slash/etc/passwd",
                                      "magic",
                                      "dir/../outside",
                                      "dir/above/outside"};
    for (size_t i = 0; i < sizeof out / sizeof *out; i++)
        CHECK_STR(get(f, out[i], 0), "EXDEV");
    CHECK_STR(get(f, "outside", O_PATH), "EXDEV");
    CHECK_STR(get(f, "slash", O_DIRECTORY), "EXDEV");
}

/* What is not there would be said to lead outside. */
static void other_errors(opener *f)
{
    char longest[PATH_MAX + 10];
    make_link("in", "link");
    make_link("b", "a");
    make_link("a", "b");
    make_link("nowhere", "dangling");
    CHECK_STR(get(f, "a", 0), "ELOOP");
    CHECK_STR(get(f, "a/x", 0), "ELOOP");
    CHECK_STR(get(f, "link", O_NOFOLLOW), "ELOOP");
    CHECK_STR(get(f, "in", O_NOFOLLOW), "in");
    CHECK_STR(get(f, "", 0), strerror(ENOENT));
    CHECK_STR(get(f, "none", 0), strerror(ENOENT));
    CHECK_STR(get(f, "none/in", 0), strerror(ENOENT));
    CHECK_STR(get(f, "dangling", 0), strerror(ENOENT));
    CHECK_STR(get(f, "in/x", 0), strerror(ENOTDIR));
    CHECK_STR(get(f, "in", O_DIRECTORY), strerror(ENOTDIR));
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    CHECK_STR(get(f, longest, 0), strerror(ENAMETOOLONG));
}

static void what_it_leads_to(void)
{
    struct stat sb;
    make_link("in", "link");
    make_link("../out", "outside");
    CHECK_INT(stk_stat_beneath(root, "link", &sb), 0);
    CHECK(S_ISREG(sb.st_mode));
    CHECK_INT(sb.st_size, 2);
    CHECK_INT(stk_stat_beneath(root, "outside", &sb), -1);
    CHECK_INT(errno, EXDEV);
}

/* ---- links that change meanwhile ---- */

#define TRIES 10000

static _Atomic bool stop;

/* `swap` is a folder, then a link outside, then a folder again; `below` is deeper, then not. */
static void *swap(void *unused)
{
    (void)unused;
    while (!atomic_load(&stop)) {
        (void)renameat2(root, "swap", root, "swap.other", RENAME_EXCHANGE);
        (void)renameat(root, "moved/below", root, "below");
        (void)renameat(root, "below", root, "moved/below");
    }
    return NULL;
}

/* Between looking at a link and passing it, it could become another. */
static void race(opener *f)
{
    pthread_t t;
    CHECK_INT(mkdir(scratch_path("root/swap"), 0755), 0);
    CHECK_INT(mkdir(scratch_path("root/moved"), 0755), 0);
    CHECK_INT(mkdir(scratch_path("root/moved/below"), 0755), 0);
    scratch_file("root/swap/out", "in", 2);
    make_link("../rooted", "swap.other");
    atomic_store(&stop, false);
    CHECK_INT(pthread_create(&t, NULL, swap, NULL), 0);
    for (int i = 0; i < TRIES; i++) {
        CHECK(strcmp(get(f, "swap/out", 0), "out") != 0);
        CHECK(strcmp(get(f, "moved/below/../../../out", 0), "out") != 0);
        CHECK(strcmp(get(f, "moved/below/../../out", 0), "out") != 0);
    }
    atomic_store(&stop, true);
    pthread_join(t, NULL);
    static const char *const made[] = {"root/swap", "root/swap.other", "root/moved", "root/below"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        CHECK_INT(stk_remove_tree(scratch_path(made[i]), NULL), 0);
}

static unsigned open_descriptors(void)
{
    unsigned n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        opener *open;
    } way[] = {{"kernel", stk_open_beneath}, {"by hand", stk_open_beneath_stepwise}};
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    make_root();
    unsigned before = open_descriptors();
    for (int i = 0; i < 2; i++) {
        CHECK_FOR(way[i].name, ways_in, way[i].open);
        CHECK_FOR(way[i].name, ways_out, way[i].open);
        CHECK_FOR(way[i].name, other_errors, way[i].open);
        CHECK_FOR(way[i].name, race, way[i].open);
    }
    CHECK_RUN(what_it_leads_to);
    CHECK_CASE("none_left_open", NULL, CHECK_INT(open_descriptors(), before));
    close(root);
    scratch_done();
    return CHECK_DONE();
}
