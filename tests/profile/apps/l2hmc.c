/*
 * l2hmc.c - the L2HMC study's checkpoints: no input; 150 steps, every 50th a checkpoint of
 * "checkpoint 1 KB, graph.pbtxt 7 MB, model data 32 MB, model.ckpt 5 KB, model.ckpt-<#>.meta 4 KB",
 * "all files are written using stdio (fopen, fclose) in one single operation"; 1 % of the time.
 * Usage: l2hmc FOLDER. Sizes are a quarter of those, steps are short.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct {
    const char *name;
    size_t bytes;
} parts[] = {{"checkpoint", 1 << 10},
             {"graph.pbtxt", 7 << 18},
             {"model.ckpt-%d.data-00000-of-00001", 32 << 18},
             {"model.ckpt-%d.index", 5 << 10},
             {"model.ckpt-%d.meta", 4 << 10}};

static int save(const char *folder, int step, const void *model)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[64], path[4096];
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(name, sizeof name, parts[i].name, step);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(model, 1, parts[i].bytes, f) != parts[i].bytes || fclose(f) != 0) {
            perror(path);
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    char *model = calloc(32 << 18, 1);
    int failed = argc != 2 || !model;
    for (int step = 1; !failed && step <= 150; step++) {
        usleep(12000);
        if (step % 50 == 0)
            failed = save(argv[1], step, model);
    }
    free(model);
    return failed;
}
