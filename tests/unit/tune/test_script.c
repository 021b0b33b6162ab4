/* test_script.c - the script behind a command: a patch for the wrong file costs the user's trust. */
#include "check.h"
#include "scratch.h"
#include "tune/tune.h"

static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* "INTERPRETER FILE-OR-MODULE", or "". */
static const char *found(const char *command)
{
    static char text[3 * STK_SCRIPT_PATH];
    struct stk_script s;
    text[0] = '\0';
    if (stk_script_find_text(command, scratch, &s))
        snprintf(text, sizeof text, "%s %s", s.python,
                 *s.module ? s.module : s.file + strlen(scratch) + 1);
    return text;
}

static void ways_to_start_a_script(void)
{
    CHECK_STR(found("python train.py --lr 0.1 other.py"), "python train.py");
    CHECK_STR(found("/opt/venv/bin/python3.11 -u -X dev train.py"), "/opt/venv/bin/python3.11 train.py");
    CHECK_STR(found("python3 'my train.py' x"), "python3 my train.py");
    CHECK_STR(found("env A=b nice -n 5 python train.py"), "python train.py");
    CHECK_STR(found("srun -n 4 -m block python3 train.py"), "python3 train.py");
    CHECK_STR(found("python -m pkg.train --x"), "python pkg.train");
    CHECK_STR(found("python -m torch.distributed.run --nproc_per_node 2 train.py"), "python train.py");
    CHECK_STR(found("torchrun --nproc_per_node=2 train.py"), "/opt/bin/python3.9 train.py");
    CHECK_STR(found("sh -c 'python train.py --a \"b c\"'"), "python train.py");
    CHECK_STR(found("bash -lc \"python train.py\""), ""); /* an option of its own */
    CHECK_STR(found("./tool --fast"), "python3 ./tool");
}

static void no_script(void)
{
    CHECK_STR(found("python -c 'print(1)'"), "");
    CHECK_STR(found("python missing.py"), "");
    CHECK_STR(found("./train.sh train"), "");
    CHECK_STR(found("cat data.txt"), "");
    CHECK_STR(found(""), "");
    CHECK_STR(found("sh -c 'sh -c \"sh -c \\\"sh -c python\\\"\"'"), "");
}

int main(int argc, char **argv)
{
    scratch_begin();
    put("train.py", "import torch\n");
    put("my train.py", "");
    put("tool", "#!/usr/bin/env -S python3 -u\n");
    put("train.sh", "#!/bin/sh\npython train.py\n");
    put("data.txt", "train.py\n");
    const char *launcher = "#!/opt/bin/python3.9\nimport torch\n";
    chmod(scratch_file("torchrun", launcher, strlen(launcher)), 0755);
    setenv("PATH", scratch, 1);
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(ways_to_start_a_script);
    CHECK_RUN(no_script);
    scratch_done();
    return CHECK_DONE();
}
