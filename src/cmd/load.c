/* load.c - `stoker load`: runs the loader flat out and reports how fast it is, and why. */
#include "cmd/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/own.h"
#include "base/text.h"
#include "io/io.h"
#include "sched/rank.h"
#include "load/options.h"
#include "dataset/manifest.h"
#include "dataset/open_options.h"

#define SETTING(field) offsetof(struct stk_load_settings, field)

static const char *const consume_choices[] = {"none", "touch", "hash", NULL}; /* stk_consume */

#define OPTION(...) STK_OPT_OF(struct stk_load_settings, 0, __VA_ARGS__)

static const struct stk_opt options[] = {
    STK_LOADER_ORDER_OPTIONS(SETTING(loader)),
    OPTION("epochs", loader.epochs, UNSIGNED, .arg = "N", .def = "1", .min = 1,
           .help = "Number of passes through the dataset"),
    OPTION("steps", steps, UNSIGNED, .arg = "N", .help = "Stop after N batches"),
    OPTION("rank", rank, STRING, .arg = "R/W",
           .help = "Load the part of rank R, counted from 0, of W (default: as set by torchrun, "
                   "mpirun or srun)"),
    STK_LOADER_READ_OPTIONS(SETTING(loader)),
    OPTION("mixing", mixing, FLAG,
           .help = "Report how well the order mixes, compared with a random one"),
    OPTION("state", state, STRING, .arg = "FILE",
           .help = "Resume from the state in FILE if it exists, and write the state there at the "
                   "end"),
    OPTION("from", from, LIST, .arg = "FILE",
           .help = "Start from this state, unless the file of --state exists; if the number of "
                   "ranks has changed, give the states of all ranks"),
    OPTION("ids", ids, STRING, .arg = "FILE",
           .help = "Write a line \"epoch step sample flags\" for each sample delivered (flags: 1 "
                   "a repeat, 2 a replacement); with -, to standard output"),
    OPTION("consume", consume, ENUM, .arg = "HOW", .def = "touch", .choices = consume_choices,
           .help = "What to do with a batch: nothing, read a byte of every page, or hash all "
                   "bytes hashed"),
    STK_OPEN_READ_OPTIONS(SETTING(open)),
    STK_OPEN_INDEX_OPTIONS(SETTING(open)),
    STK_COMMON_OPTIONS,
};

static int find_rank(struct stk_load *l)
{
    struct stk_err *err = &l->run->err;
    if (l->s->rank)
        return stk_rank_parse(l->s->rank, &l->r.rank, err);
    int rc = stk_rank_detect(&l->r.rank, err);
    return rc ? stk_err_wrap(err, rc, "--rank R/W is not given, and") : 0;
}

static int open_ids(struct stk_load *l)
{
    struct stk_err *err = &l->run->err;
    const char *path = l->s->ids;
    if (!path)
        return 0;
    if (strcmp(path, "-") != 0) {
        int fd, rc = stk_open_fresh(AT_FDCWD, path, STK_SHARED, &fd, path, err);
        l->ids = rc < 0 ? NULL : fdopen(fd, "w");
        return rc < 0   ? stk_err_wrap(err, rc, "cannot write --ids")
               : l->ids ? 0
                        : stk_err_nomem(err, 1);
    }
    if (l->run->out_is_data)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "--ids - and --json - cannot both have standard output");
    l->run->out_is_data = true;
    l->ids = stdout;
    return 0;
}

static int close_ids(struct stk_load *l, int rc)
{
    bool ok = !l->ids || fflush(l->ids) == 0;
    if (l->ids && l->ids != stdout)
        ok = fclose(l->ids) == 0 && ok;
    l->ids = NULL;
    return rc || ok ? rc : stk_err_sys(&l->run->err, l->s->ids, "cannot write --ids");
}

static int on_progress(void *user, uint64_t bytes, uint64_t bytes_total, uint64_t samples)
{
    return stk_progress_update(user, "index", bytes, bytes_total, samples, 0);
}

static int open_dataset(struct stk_load *l)
{
    /* A policy for bad samples covers damage found while listing, too. */
    bool collect = l->s->loader.on_error != STK_ON_ERROR_STOP;
    struct stk_open_options o = l->s->open;
    o.progress = on_progress;
    o.user = &l->run->progress;
    o.pass_over = collect;
    int rc = stk_dataset_open_with(l->run->opts.arg[0], &o, collect, true, &l->r.ds, &l->run->err);
    stk_progress_clear(&l->run->progress);
    l->r.notes = l->r.ds ? &l->r.ds->notes : NULL;
    return rc;
}

static int open_loader(struct stk_load *l, const char *state)
{
    const struct stk_load_settings *s = l->s;
    struct stk_loader_options o = s->loader;
    o.rank = l->r.rank.rank;
    o.world = l->r.rank.world;
    o.state = state;
    /* Before anything is read: afterwards the whole dataset may be in memory. Only the choice of an
     * engine needs to know how much is cached. */
    bool choose = strcmp(o.io, "auto") == 0;
    struct stk_io_config look = {.kind = choose ? STK_IO_AUTO : STK_IO_THREADS};
    stk_io_probe(&l->r.ds->files, &look, &l->r.storage);
    stk_load_begin(l);
    int rc = stk_loader_open(l->r.ds, &o, &l->r.ld, &l->run->err);
    if (rc)
        return rc;
    uint64_t steps = stk_loader_steps(l->r.ld), most;
    if (__builtin_mul_overflow(steps, o.epochs, &most))
        most = UINT64_MAX;
    most = s->steps && s->steps < most ? s->steps : most;
    if (__builtin_mul_overflow(most, o.batch, &l->samples_total))
        l->samples_total = 0;
    return 0;
}

/* Samples that were passed over are problems, as is damage found while listing. */
static int status_of(const struct stk_load *l)
{
    uint64_t sound = stk_dataset_problems(l->r.ds)->unsupported;
    if (l->s->loader.on_error != STK_ON_ERROR_STOP)
        sound += l->r.end.loader.unsupported;
    return stk_exit_for(stk_load_nproblems(&l->r), sound);
}

/* Runs, then reports, also what was measured up to a signal or an error. */
static int load(struct stk_load *l)
{
    struct stk_err *err = &l->run->err, why = {0};
    int rc = close_ids(l, stk_load_loop(l));
    if (rc)
        why = *err;
    int wrote = stk_load_write_state(l);
    /* After the run: reading labels reads samples, and would warm the cache. */
    if (!rc && l->s->mixing)
        rc = stk_load_mix(l);
    int shown = stk_say_result(l->run, &stk_load_kind, &l->r, NULL);
    if (why.code)
        *err = why;
    return rc ? rc : wrote ? wrote : shown ? shown : status_of(l);
}

static int run_load(struct stk_run *run)
{
    struct stk_load *l = calloc(1, sizeof *l);
    char *state = NULL;
    if (!l)
        return stk_err_nomem(&run->err, sizeof *l);
    l->run = run;
    l->s = run->settings;
    l->r.path = run->opts.arg[0];
    l->r.options = &l->s->loader;
    l->r.hashed = l->s->consume == STK_CONSUME_HASH;
    int rc = find_rank(l);
    rc = rc ? rc : stk_load_read_state(l, &state);
    rc = rc ? rc : open_ids(l);
    rc = rc ? rc : open_dataset(l);
    rc = rc ? rc : open_loader(l, state);
    rc = rc ? rc : load(l);
    close_ids(l, rc);
    stk_loader_close(l->r.ld);
    stk_dataset_close(l->r.ds);
    stk_buf_release(&l->r.epochs);
    free(state);
    free(l);
    return rc;
}

static const char *hint(const struct stk_run *run)
{
    const struct stk_err *err = &run->err;
    bool bad = err->code == STK_E_CORRUPT ||
               (err->code == STK_E_SYS && err->sys_errno == ENOENT && stk_err_in_data(run));
    if (bad && strcmp(stk_base_name(err->path), STK_MANIFEST_NAME) == 0)
        return "nothing replaces it: copy it from where the dataset is whole, or pack the data again";
    return bad && !stk_opts_given(&run->opts, "on-error")
               ? "--on-error skip or replace continues without it and lists it"
               : NULL;
}

static const struct stk_example examples[] = {
    {"stoker load imagenet-packed/", "how fast can this be read here?"},
    {"stoker load imagenet-packed/ --batch 256 --decode image:224,crop=random,flip",
     "and decoded for training on images?"},
    {"stoker load train/ --shuffle global --mixing", "what does a full shuffle cost and give?"},
    {"srun -n 8 stoker load train-packed/", "eight ranks at once, each with its part"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_load = {
    .name = "load",
    .summary = "run the loader flat out: samples/s, bytes/s, queue depth, stalls",
    .args = "PATH",
    .description =
        "Loads the dataset PATH batch by batch, as a training script would, and discards the "
        "batches. Reports samples and bytes per second, the bytes that really came from storage, "
        "the depth of the read queue, the time the caller waited, and the distribution of batch "
        "times. docs/loader.md defines each number.\n"
        "\n"
        "The order depends only on the seed, the epoch and the shuffle settings: not on ranks, "
        "threads, engines or memory. The exit status is 1 when samples were passed over "
        "(--on-error skip or replace), 3 when all of these were sound but of a kind stoker does "
        "not read, and 4 when a sample stopped the run.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct stk_load_settings),
    .run = run_load,
    .hint = hint,
};
