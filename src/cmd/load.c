/* load.c - `stoker load`: runs the loader flat out and tells how fast it is, and why. */
#include "cmd/load.h"

#include <stdlib.h>

#include "base/text.h"
#include "cluster/rank.h"

#define SETTING(field) offsetof(struct stk_load_settings, field)

static const char *const shuffle_choices[] = {"block", "global", "none", NULL};
static const char *const last_choices[] = {"drop", "pad", "short", NULL};
static const char *const error_choices[] = {"stop", "skip", "replace", NULL};
static const char *const io_choices[] = {"auto", "direct", "uring", "threads", "mmap", NULL};
static const char *const consume_choices[] = {"none", "touch", "hash", NULL};

static const struct stk_opt options[] = {
    {.name = "batch",
     .letter = 'b',
     .type = STK_OPT_UNSIGNED,
     .arg = "N",
     .def = "32",
     .min = 1,
     .max = 1u << 20,
     .offset = SETTING(batch),
     .help = "Samples a batch"},
    {.name = "shuffle",
     .type = STK_OPT_ENUM,
     .arg = "HOW",
     .def = "block",
     .choices = shuffle_choices,
     .offset = SETTING(shuffle),
     .help = "The order: block (neighbours are read together, then mixed in a window), global "
             "(any sample anywhere), or as stored"},
    {.name = "seed",
     .type = STK_OPT_UNSIGNED,
     .arg = "N",
     .def = "0",
     .offset = SETTING(seed),
     .help = "What the order is drawn from"},
    {.name = "epochs",
     .type = STK_OPT_UNSIGNED,
     .arg = "N",
     .def = "1",
     .min = 1,
     .offset = SETTING(epochs),
     .help = "How often to go through the dataset"},
    {.name = "epoch",
     .type = STK_OPT_UNSIGNED,
     .arg = "N",
     .def = "0",
     .offset = SETTING(epoch),
     .help = "The first epoch: each has an order of its own"},
    {.name = "steps",
     .type = STK_OPT_UNSIGNED,
     .arg = "N",
     .offset = SETTING(steps),
     .help = "Stop after N batches"},
    {.name = "rank",
     .type = STK_OPT_STRING,
     .arg = "R/W",
     .offset = SETTING(rank),
     .help = "Load the part of rank R, counted from 0, of W (without it: what torchrun, mpirun or "
             "srun say)"},
    {.name = "last",
     .type = STK_OPT_ENUM,
     .arg = "HOW",
     .def = "drop",
     .choices = last_choices,
     .offset = SETTING(last),
     .help = "An incomplete last batch is left out, filled with repeats, or given as it is"},
    {.name = "on-error",
     .type = STK_OPT_ENUM,
     .arg = "WHAT",
     .def = "stop",
     .choices = error_choices,
     .offset = SETTING(on_error),
     .help = "What to do with a sample that cannot be read or decoded"},
    {.name = "decode",
     .type = STK_OPT_STRING,
     .arg = "SPEC",
     .def = "auto",
     .offset = SETTING(decode),
     .help = "auto: fields as the format gives them; raw: records as stored; image:WxH,...: JPEG "
             "and PNG to arrays, as image:224,crop=random,flip"},
    {.name = "fields",
     .type = STK_OPT_STRING,
     .arg = "NAMES",
     .offset = SETTING(fields),
     .help = "Load these fields only, with commas between them"},
    {.name = "io",
     .type = STK_OPT_ENUM,
     .arg = "ENGINE",
     .def = "auto",
     .choices = io_choices,
     .offset = SETTING(io),
     .help = "How to read: direct (past the page cache), uring or threads (through it), mmap; "
             "auto: by the file system and what is in memory already"},
    {.name = "depth",
     .type = STK_OPT_UNSIGNED,
     .arg = "N",
     .def = "0",
     .max = 4096,
     .offset = SETTING(depth),
     .help = "Reads in flight; 0: what suits the engine"},
    {.name = "read-size",
     .type = STK_OPT_SIZE,
     .arg = "SIZE",
     .def = "4M",
     .min = 64 << 10,
     .max = 1 << 30,
     .offset = SETTING(read_size),
     .help = "The largest read (a single larger sample is read whole)"},
    {.name = "memory",
     .type = STK_OPT_SIZE,
     .arg = "SIZE",
     .min = 1 << 20,
     .offset = SETTING(memory),
     .help =
         "Memory for reading ahead (without it: an eighth of what the job may use, 512M at most)"},
    {.name = "threads",
     .letter = 't',
     .type = STK_OPT_UNSIGNED,
     .arg = "N",
     .def = "0",
     .max = 4096,
     .offset = SETTING(threads),
     .help = "Threads that check and decode; 0: one a core"},
    {.name = "block",
     .type = STK_OPT_SIZE,
     .arg = "SIZE",
     .def = "2M",
     .min = 1,
     .offset = SETTING(block),
     .help = "For block shuffle: how much is read together"},
    {.name = "window",
     .type = STK_OPT_SIZE,
     .arg = "SIZE",
     .def = "64M",
     .min = 1,
     .offset = SETTING(window),
     .help = "For block shuffle: how much is mixed together"},
    {.name = "check",
     .type = STK_OPT_FLAG,
     .def = "yes",
     .offset = SETTING(check),
     .help = "Compare the checksums of records"},
    {.name = "mixing",
     .type = STK_OPT_FLAG,
     .offset = SETTING(mixing),
     .help = "Tell how well the order mixes, against a random one"},
    {.name = "state",
     .type = STK_OPT_STRING,
     .arg = "FILE",
     .offset = SETTING(state),
     .help = "Go on from the state in FILE where there is one, and write it at the end"},
    {.name = "from",
     .type = STK_OPT_LIST,
     .arg = "FILE",
     .offset = SETTING(from),
     .help = "Begin from this state, unless --state has one; with another number of ranks than it "
             "was written by, give those of all ranks"},
    {.name = "ids",
     .type = STK_OPT_STRING,
     .arg = "FILE",
     .offset = SETTING(ids),
     .help = "Write a line \"epoch step sample flags\" for each sample given (flags: 1 a repeat, 2 "
             "a replacement); with - on standard output"},
    {.name = "consume",
     .type = STK_OPT_ENUM,
     .arg = "HOW",
     .def = "touch",
     .choices = consume_choices,
     .offset = SETTING(consume),
     .help = "What is done with a batch: nothing, a byte of every page looked at, or all bytes "
             "hashed"},
    {.name = "format",
     .type = STK_OPT_ENUM,
     .arg = "FORMAT",
     .choices_fn = stk_format_names,
     .offset = SETTING(format),
     .help = "Read it as this format instead of finding out"},
    {.name = "payload",
     .type = STK_OPT_ENUM,
     .arg = "PAYLOAD",
     .choices_fn = stk_payload_names,
     .offset = SETTING(payload),
     .help = "What a record holds"},
    {.name = "group",
     .type = STK_OPT_FLAG,
     .offset = SETTING(group),
     .help = "A folder's files that share a name up to the first dot (a.jpg, a.json) are one "
             "sample"},
    {.name = "index",
     .type = STK_OPT_STRING,
     .arg = "FILE",
     .offset = SETTING(index),
     .help = "Keep the index here instead of beside the data or in the cache"},
    STK_COMMON_OPTIONS,
};

/* Which of `choices` a word is. The option table lets no other through. */
static int choice(const char *const *choices, const char *word)
{
    int i = 0;
    while (choices[i] && strcmp(choices[i], word) != 0)
        i++;
    return i;
}

static int find_rank(struct stk_load *l)
{
    struct stk_err *err = &l->run->err;
    if (l->s->rank)
        return stk_rank_parse(l->s->rank, &l->rank, err);
    int rc = stk_rank_detect(&l->rank, err);
    return rc ? stk_err_wrap(err, rc, "--rank R/W is not given, and") : 0;
}

/* "a,b" to names, NULL at the end; in one allocation with their bytes. */
static int split_fields(struct stk_load *l)
{
    const char *text = l->s->fields;
    if (!text)
        return 0;
    size_t n = 1, len = strlen(text);
    for (const char *p = text; *p; p++)
        n += *p == ',';
    l->fields = calloc(1, (n + 1) * sizeof *l->fields + len + 1);
    if (!l->fields)
        return stk_err_nomem(&l->run->err, len);
    char *copy = (char *)(l->fields + n + 1);
    memcpy(copy, text, len + 1);
    for (size_t i = 0; i < n; i++) {
        char *comma = strchr(copy, ',');
        if (comma)
            *comma = '\0';
        if (!*copy)
            return stk_err_set(&l->run->err, STK_E_USAGE, NULL, -1,
                               "--fields %.100s: a name is empty", text);
        l->fields[i] = copy;
        copy = comma ? comma + 1 : copy;
    }
    return 0;
}

static int open_ids(struct stk_load *l)
{
    struct stk_err *err = &l->run->err;
    const char *path = l->s->ids;
    if (!path)
        return 0;
    if (strcmp(path, "-") != 0) {
        l->ids = fopen(path, "we");
        return l->ids ? 0 : stk_err_sys(err, path, "cannot write --ids");
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
    struct stk_open_options o = {
        .format = l->s->format,
        .payload = l->s->payload,
        .group = l->s->group,
        .index = l->s->index,
        .progress = on_progress,
        .user = &l->run->progress,
    };
    /* With a policy for bad samples, damage found while listing is passed over as well. */
    bool collect = strcmp(l->s->on_error, "stop") != 0;
    int rc = stk_dataset_open_with(l->run->opts.arg[0], &o, collect, true, &l->ds, &l->run->err);
    stk_progress_clear(&l->run->progress);
    return rc;
}

static int open_loader(struct stk_load *l, const char *state)
{
    const struct stk_load_settings *s = l->s;
    struct stk_loader_options o = {
        .batch = (uint32_t)s->batch,
        .shuffle = choice(shuffle_choices, s->shuffle),
        .last = choice(last_choices, s->last),
        .on_error = choice(error_choices, s->on_error),
        .seed = s->seed,
        .epoch = s->epoch,
        .epochs = s->epochs,
        .block_bytes = s->block,
        .window_bytes = s->window,
        .rank = l->rank.rank,
        .world = l->rank.world,
        .threads = (uint32_t)s->threads,
        .depth = (uint32_t)s->depth,
        .memory_bytes = s->memory,
        .read_bytes = s->read_size,
        .io = s->io,
        .decode = s->decode,
        .fields = l->fields,
        .state = state,
        .no_check = !s->check,
    };
    /* Before anything is read: afterwards all of it may be in memory. What is in memory already is
     * looked up only where an engine is chosen by it. */
    bool choose = strcmp(s->io, "auto") == 0;
    struct stk_io_config look = {.kind = choose ? STK_IO_AUTO : STK_IO_THREADS};
    stk_io_probe(&l->ds->files, &look, &l->place);
    stk_load_begin(l);
    int rc = stk_loader_open(l->ds, &o, &l->ld, &l->run->err);
    if (rc)
        return rc;
    uint64_t steps = stk_loader_steps(l->ld), most;
    if (__builtin_mul_overflow(steps, s->epochs, &most))
        most = UINT64_MAX;
    most = s->steps && s->steps < most ? s->steps : most;
    if (__builtin_mul_overflow(most, s->batch, &l->samples_total))
        l->samples_total = 0;
    return 0;
}

/* Runs, then tells: also what was measured up to a signal or an error. */
static int load(struct stk_load *l)
{
    struct stk_err *err = &l->run->err, why = {0};
    int rc = close_ids(l, stk_load_loop(l));
    if (rc)
        why = *err;
    int wrote = stk_load_write_state(l);
    /* After the run: looking at labels reads samples, and would warm the cache for it. */
    if (!rc && l->s->mixing)
        rc = stk_load_mix(l);
    stk_load_show(l);
    stk_load_json(l);
    if (why.code)
        *err = why;
    return rc ? rc : wrote ? wrote : stk_load_nproblems(l) ? STK_EXIT_PROBLEM : STK_EXIT_DONE;
}

static int run_load(struct stk_run *run)
{
    struct stk_load *l = calloc(1, sizeof *l);
    char *state = NULL;
    if (!l)
        return stk_err_nomem(&run->err, sizeof *l);
    l->run = run;
    l->s = run->settings;
    int rc = find_rank(l);
    rc = rc ? rc : split_fields(l);
    rc = rc ? rc : stk_load_read_state(l, &state);
    rc = rc ? rc : open_ids(l);
    rc = rc ? rc : open_dataset(l);
    rc = rc ? rc : open_loader(l, state);
    rc = rc ? rc : load(l);
    close_ids(l, rc);
    stk_loader_close(l->ld);
    stk_dataset_close(l->ds);
    stk_buf_release(&l->epochs);
    free(l->fields);
    free(state);
    free(l);
    return rc;
}

static const struct stk_example examples[] = {
    {"stoker load imagenet-packed/", "how fast can this be read, here?"},
    {"stoker load imagenet-packed/ --batch 256 --decode image:224,crop=random,flip",
     "and decoded for a training of images?"},
    {"stoker load train/ --shuffle global --mixing", "what does a full shuffle cost and give?"},
    {"srun -n 8 stoker load train-packed/", "eight ranks at once, each its part"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_load = {
    .name = "load",
    .summary = "run the loader flat out: samples/s, bytes/s, queue depth, stalls",
    .args = "PATH",
    .description =
        "Loads the dataset PATH batch by batch, as a training script would, and throws the batches "
        "away. Tells samples and bytes per second, how many bytes really came from storage, "
        "how deep the queue of reads was, how long the caller waited, and how the times of batches "
        "are spread. What each number counts is in docs/loader.md.\n"
        "\n"
        "The order depends on the seed, the epoch and the shuffle settings alone: not on ranks, "
        "threads, engines or memory. The exit status is 1 when samples were passed over "
        "(--on-error skip or replace), and 4 when one stopped the run.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct stk_load_settings),
    .run = run_load,
};
