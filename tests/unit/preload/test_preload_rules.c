/* test_preload_rules.c - which files a profile shows one by one: a wrong rule hides a user's data
 * or buries it under the interpreter's modules. */
#include "preload/rules.c"
#include "check.h"

static bool out(const char *path)
{
    return stk_pl_left_out(path, strlen(path), false) > 0;
}

static bool opened_out(const char *path)
{
    return stk_pl_left_out(path, strlen(path), true) > 0;
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
                                       "/usr/local/share/set/x.bin",
                                       "/usr/src/linux/a.c",
                                       "/home/u/.local/lib/data.bin",
                                       "/data/old-site-packages-set/x",
                                       "/data/site-packages.tar",
                                       "/data/lib/pythons/x",
                                       "/data/a.jar",
                                       "/data/A.class",
                                       "/data/a.pyi",
                                       "/home/u/venv/data/x.npy",
                                       "/scratch/libs.sorted",
                                       "/data/a.so.jpg",
                                       "/data/etc/x",
                                       "/logs/runs/x",
                                       "/home/u/a.python",
                                       "/",
                                       "/data/x.pt"};
    char *argv[] = {"python3", "-c", "x", NULL};
    stk_pl_rules_start(NULL, NULL, "/logs/run");
    stk_pl_rules_program(true, "/usr/bin/python3", 3, argv);
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (!out(left[i]))
            check_fail(__FILE__, __LINE__, left[i]);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (out(kept[i]))
            check_fail(__FILE__, __LINE__, kept[i]);
}

/* Code is what the interpreter of its language loads; to others, and read as text, it is data. */
static void code_by_role(void)
{
    char *script[] = {"python3", "-u", "-W", "x", "train.py", NULL},
         *command[] = {"python3", "-c", "x", NULL};
    char *spawned[] = {"python3", "-c", "x", "--multiprocessing-fork", NULL};
    stk_pl_rules_start(NULL, NULL, "/logs");
    stk_pl_rules_program(true, "/usr/bin/python3", 5, script);
    CHECK(opened_out("/p/train.py") &&
          opened_out("/p/train.py"));                      /* its script, also for a traceback */
    CHECK(!opened_out("/p/data.py") && out("/p/data.py")); /* a search is no reading */
    CHECK(opened_out("/p/m/__pycache__/mod.cpython-311.pyc"));
    CHECK(opened_out("/p/m/mod.py") && !opened_out("/p/mod.py"));
    stk_pl_rules_program(true, "/usr/bin/python3", 3, command);
    CHECK(!opened_out("/q/first.py"));
    stk_pl_rules_program(true, "/usr/bin/python3", 4, spawned);
    CHECK(opened_out("/q/main.py") && !opened_out("/q/second.py"));
    CHECK(!opened_out("/p/a.jar"));
    stk_pl_rules_program(false, "/usr/bin/java", 1, command);
    CHECK(opened_out("/p/a.jar") && opened_out("/p/A.class") && !opened_out("/p/new.py"));
    stk_pl_rules_program(false, "/usr/bin/grep", 1, command);
    CHECK(!opened_out("/p/new.py") && !opened_out("/p/a.jar") && !opened_out("/p/x.pyc"));
    CHECK(opened_out("/e/lib/python3.11/site-packages/x.py"));
    CHECK_INT(stk_pl_left_out("/e/lib/python3.11/site-packages/x/y.py", 38, true), 31);
    CHECK_INT(stk_pl_left_out("/usr/lib/x", 10, true), 4);
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
    CHECK_RUN(code_by_role);
    CHECK_RUN(as_the_user_says);
    CHECK_RUN(hostile);
    return CHECK_DONE();
}
