/*
 * scene.c - the program that the lines are written for: its language and framework, the batch and
 * image size in its command, and what stoker already reads for it.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "advice/priv.h"

#define BATCH_MOST 65536
#define IMAGE_MOST 4096

static bool in_python(const struct stk_profile *p)
{
    bool known = false;
    for (size_t i = 0; i < p->nprocs; i++) {
        const struct stk_prof_proc *q = &p->proc[i];
        const char *exe = q->exe && *q->exe ? q->exe : q->command;
        if (!exe || !*exe)
            continue;
        known = true;
        if (strstr(exe, "python"))
            return true;
    }
    return !known;
}

static bool is_loaded(const void *job, const char *package)
{
    return stk_analysis_loaded(job, package);
}

/* The number after one of the options in a command, as "--batch-size 64" or "--batch_size=64"; 0:
 * none. */
static uint64_t option_of(const char *command, const char *const *names, uint64_t most)
{
    for (; *names; names++) {
        size_t n = strlen(*names);
        for (const char *at = command; (at = strstr(at, *names)); at += n) {
            if ((at > command && at[-1] != ' ') || !strchr(" =", at[n]) || !at[n])
                continue;
            char *end;
            uint64_t v = strtoull(at + n + 1, &end, 10);
            if (end > at + n + 1 && v && v <= most && (!*end || *end == ' '))
                return v;
        }
    }
    return 0;
}

static void sizes_of_command(struct advisor *ad)
{
    static const char *const batch[] = {"--batch-size", "--batch_size", "--batchsize", "--batch",
                                        "-b",           "--bs",         NULL};
    static const char *const image[] = {"--image-size", "--image_size", "--img-size",
                                        "--img_size",   "--imgsz",      "--crop-size",
                                        "--crop_size",  "--input-size", NULL};
    for (size_t i = 0; i < ad->p->nprocs; i++) {
        const char *command = ad->p->proc[i].command ? ad->p->proc[i].command : "";
        ad->batch = ad->batch ? ad->batch : option_of(command, batch, BATCH_MOST);
        ad->image = ad->image ? ad->image : option_of(command, image, IMAGE_MOST);
    }
}

void stk_advice_scene(struct advisor *ad)
{
    const struct stk_analysis *a = ad->a;
    bool known = stk_analysis_knows_libraries(a);
    ad->scene = (struct stk_action_scene){.scheduler = ad->p->scheduler,
                                          .nodes = ad->p->nhosts ? (uint32_t)ad->p->nhosts : 1,
                                          .python = in_python(ad->p),
                                          .profile = ad->p->path,
                                          .loaded = is_loaded,
                                          .job = a};
    if (known)
        ad->scene.framework = stk_analysis_loaded(a, "torch")        ? STK_FRAMEWORK_TORCH
                              : stk_analysis_loaded(a, "tensorflow") ? STK_FRAMEWORK_TF
                                                                     : STK_FRAMEWORK_NUMPY;
    /* Without a framework, data that is read epoch after epoch says it. */
    ad->trains = !known || ad->scene.framework != STK_FRAMEWORK_NUMPY ||
                 stk_analysis_loaded(a, "jax") || a->nepochs > 1;
    sizes_of_command(ad);
}

/* ---- what stoker reads ---------------------------------------------------------------------- */

static bool is_below(const char *path, const char *root, size_t n)
{
    return strncmp(path, root, n) == 0 && (!path[n] || path[n] == '/');
}

/* Whether the index at this path is of the dataset that contains `path`: beside it
 * ("PATH.stkidx", "PATH.1a2b3c4d.stkidx"), in it ("PATH/index.stkidx"), or in the user's cache,
 * where its name does not say of which. */
static bool indexes(const char *index, const char *path)
{
    const char *base = strrchr(index, '/');
    size_t n = strlen(index) - strlen(".stkidx");
    base = base ? base + 1 : index;
    if (!path || strstr(index, "/stoker/"))
        return true;
    if (strcmp(base, "index.stkidx") == 0)
        return is_below(path, index, base > index ? (size_t)(base - index) - 1 : 0);
    return is_below(path, index, n) ||
           (n > 9 && index[n - 9] == '.' && is_below(path, index, n - 9));
}

/* Whether stoker itself reads this path for the program (NULL: any of its data). */
static bool is_ours(const struct advisor *ad, const char *path)
{
    const struct stk_profile *p = ad->p;
    for (size_t i = 0; i < p->nrecs; i++) {
        const struct stk_prof_rec *r = &p->rec[i];
        const char *name = r->file < p->nfiles ? p->file[r->file].path : "";
        if (stk_text_ends(name, strlen(name), ".stkidx") &&
            (r->n.c[STK_C_READ_BYTES] || r->n.c[STK_C_WRITE_BYTES]) && indexes(name, path))
            return true;
    }
    return false;
}

bool stk_advice_circular(const struct advisor *ad, const struct stk_finding *f,
                         const struct stk_action *a)
{
    bool of_program = a->kind >= STK_ACT_LARGER_READS && a->kind <= STK_ACT_SQLITE_READ;
    bool of_ranks = a->kind >= STK_ACT_DIVIDE && a->kind <= STK_ACT_READ_ALL;
    bool ours = a->kind == STK_ACT_LOADER || a->kind == STK_ACT_MAP_DATASET;
    /* A folder of files can still be packed; records cannot be packed better. */
    bool again = a->kind == STK_ACT_PACK && f->rule != STK_RULE_MANY_SMALL_FILES;
    /* A DataLoader over a MapDataset may have more workers. */
    bool workers = !ad->workers && a->kind >= STK_ACT_READERS && a->kind <= STK_ACT_DECODERS;
    return (of_program || of_ranks || ours || again || workers) && is_ours(ad, a->path);
}
