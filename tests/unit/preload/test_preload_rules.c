/* test_preload_rules.c - which files a profile shows one by one: a wrong rule hides a user's data
 * or buries it under the interpreter's modules. */
#include "preload/rules.c"
#include "check.h"

static bool out(const char *path)
{
    return stk_pl_left_out(path, strlen(path));
}

static void by_default(void)
{
    static const char *const left[] = {"/usr/lib/x",
                                       "/etc/passwd",
                                       "/proc/self/maps",
                                       "/dev/null",
                                       "/lib64",
                                       "/home/u/a.py",
                                       "/home/u/__pycache__/a.bin",
                                       "/home/u/env/lib/python3.11/site-packages/x/data.json",
                                       "/opt/x/libfoo.so",
                                       "/opt/x/libfoo.so.1.2",
                                       "/root/.pyenv/versions/3.9/x",
                                       "/memfd:x",
                                       "/dev/shm/torch_12_3",
                                       "/logs/run/a.stklog",
                                       "/logs/run"};
    static const char *const kept[] = {"/home/u/data.bin",
                                       "/users/x",
                                       "/usrdata/x",
                                       "/dev/shm/train.bin",
                                       "/opt/data/x.h5",
                                       "/home/u/venv/data/x.npy",
                                       "/scratch/libs.sorted",
                                       "/data/a.so.jpg",
                                       "/data/etc/x",
                                       "/logs/runs/x",
                                       "/home/u/a.python",
                                       "/",
                                       "/data/x.pt"};
    stk_pl_rules_start(NULL, NULL, "/logs/run");
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (!out(left[i]))
            check_fail(__FILE__, __LINE__, left[i]);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (out(kept[i]))
            check_fail(__FILE__, __LINE__, kept[i]);
}

static void as_the_user_says(void)
{
    stk_pl_rules_start("/usr/share/data:*.json", "/home/u:*.log:/x/[ab]?/*", "/logs");
    CHECK(!out("/usr/share/data/x") && out("/usr/share/database"));
    CHECK(!out("/home/u/a.json") && out("/home/u/b.bin") && !out("/home/us/b.bin"));
    CHECK(out("/data/a.log") && !out("/data/a.log.bin"));
    CHECK(out("/x/a1/f") && out("/x/b2/f/g") && !out("/x/c1/f") && !out("/x/a/f"));
    CHECK(out("/logs/a.json")); /* our own: never */
}

static void hostile(void)
{
    static char many[8192], stars[4096], path[4000];
    memset(many, ':', sizeof many - 1);
    stk_pl_rules_start(many, "", "/logs"); /* too long: as if it were not there */
    CHECK(!out("/data/x"));
    memset(stars, '*', 2000);
    stars[2000] = 'b';
    memset(path, 'a', sizeof path - 1);
    path[0] = '/';
    stk_pl_rules_start(NULL, stars, "/logs");
    CHECK(!out(path)); /* ends */
    stk_pl_rules_start("", "/a[b:[]:[!", "/logs");
    CHECK(out("/a[b") && !out("/ab"));
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(by_default);
    CHECK_RUN(as_the_user_says);
    CHECK_RUN(hostile);
    return CHECK_DONE();
}
