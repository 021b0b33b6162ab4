/* inspect.c - `stoker inspect`: describes a dataset, or one of its samples. */
#include "cmd/inspect.h"

#include <stdlib.h>

#include "dataset/inspect.h"
#include "dataset/open_options.h"
#include "result/grid.h"
#include "report/data.h"

struct settings {
    struct stk_common common;
    struct stk_open_options open;
    const char *output;
    uint64_t sample;
    bool force;
};

#define OPTION(...) STK_OPT_OF(struct settings, 0, __VA_ARGS__)

static const struct stk_opt options[] = {
    OPTION("sample", sample, UNSIGNED, .letter = 's', .arg = "N",
           .help = "Show the fields of sample N, counted from 0"),
    OPTION("output", output, STRING, .letter = 'o', .arg = "PATH",
           .help = "Write the sample to the file PATH or, if it has several fields, to one file "
                   "per field in the folder PATH; with -, write its data to standard output"),
    OPTION("force", force, FLAG, .letter = 'f', .help = "Let --output replace existing files"),
    STK_OPEN_READ_OPTIONS(offsetof(struct settings, open)),
    STK_OPEN_INDEX_OPTIONS(offsetof(struct settings, open)),
    STK_OPEN_BUILD_OPTIONS(offsetof(struct settings, open)),
    STK_COMMON_OPTIONS,
};

static int on_progress(void *user, uint64_t bytes, uint64_t bytes_total, uint64_t samples)
{
    return stk_progress_update(user, "index", bytes, bytes_total, samples, 0);
}

/* ---- the dataset -------------------------------------------------------------------------- */

/* The problems in the index, and the first sample if it cannot be read. */
static void gather_problems(const struct stk_dataset *ds, const struct stk_err *first,
                            struct stk_problems *all)
{
    const struct stk_problems *known = stk_dataset_problems(ds);
    if (first->code)
        stk_problems_add_code(all, first->code, first->path, first->offset, first->what);
    stk_problems_join(all, known);
}

/* first: NULL if there is none to show. */
static int show_dataset(struct stk_run *run, const struct stk_dataset *ds,
                        const struct stk_inspect *in, const struct stk_sample *first,
                        const struct stk_problems *problems)
{
    const struct stk_inspect_shown s = {.path = run->opts.arg[0],
                                        .in = in,
                                        .notes = &ds->notes,
                                        .problems = problems,
                                        .first = first};
    int rc = stk_say_result(run, &stk_inspect_kind, &s, NULL);
    return rc ? rc : stk_exit_for(problems->count, problems->unsupported);
}

static int inspect_dataset(struct stk_run *run, struct stk_dataset *ds)
{
    struct stk_inspect *in = calloc(1, sizeof *in);
    struct stk_sample *first = stk_sample_new();
    int rc = in && first ? 0 : stk_err_nomem(&run->err, sizeof *in);
    struct stk_err why = {0};
    if (!rc && stk_dataset_len(ds))
        stk_dataset_read(ds, 0, first, &why);
    if (!rc)
        rc = stk_inspect_dataset(ds, in, &run->err);
    stk_progress_clear(&run->progress);
    /* An unreadable first sample is a problem to show, not a reason to show nothing. */
    if (!rc || (in && why.code)) {
        run->err = (struct stk_err){0};
        struct stk_problems problems = {0};
        gather_problems(ds, &why, &problems);
        rc = show_dataset(run, ds, in, in->samples && !why.code ? first : NULL, &problems);
        stk_problems_release(&problems);
    }
    stk_sample_free(first);
    free(in);
    return rc;
}

/* ---- one sample --------------------------------------------------------------------------- */

static int show_sample(struct stk_run *run, const struct stk_sample *s, uint64_t number)
{
    const struct stk_sample_shown shown = {.sample = s, .number = number};
    return stk_say_result(run, &stk_sample_kind, &shown, NULL);
}

static int inspect_sample(struct stk_run *run, struct stk_dataset *ds)
{
    const struct settings *s = run->settings;
    uint64_t len = stk_dataset_len(ds);
    if (s->sample >= len)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "--sample: there is no sample %llu; the dataset has %llu%s",
                           (unsigned long long)s->sample, (unsigned long long)len,
                           len ? ", counted from 0" : "");
    struct stk_sample *sample = stk_sample_new();
    if (!sample)
        return stk_err_nomem(&run->err, 0);
    int rc = stk_dataset_read(ds, s->sample, sample, &run->err);
    stk_progress_clear(&run->progress);
    if (!rc)
        rc = show_sample(run, sample, s->sample);
    if (!rc && s->output)
        rc = stk_write_sample(run, sample, s->sample, s->output, s->force);
    stk_sample_free(sample);
    return rc;
}

static int run_inspect(struct stk_run *run)
{
    const struct settings *s = run->settings;
    bool one = stk_opts_given(&run->opts, "sample");
    if (s->output && !one)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1, "--output needs --sample N");
    if (s->output && strcmp(s->output, "-") == 0) {
        if (run->out_is_data)
            return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                               "--output - and --json - cannot both have standard output");
        run->out_is_data = true;
    }
    struct stk_open_options o = s->open;
    o.progress = on_progress;
    o.user = &run->progress;
    struct stk_dataset *ds = NULL;
    int rc = stk_dataset_open_with(run->opts.arg[0], &o, true, true, &ds, &run->err);
    if (rc)
        return rc;
    rc = one ? inspect_sample(run, ds) : inspect_dataset(run, ds);
    stk_dataset_close(ds);
    return rc;
}

static const char *hint(const struct stk_run *run)
{
    return run->err.code == STK_E_CORRUPT ? "`stoker verify PATH` lists every fault" : NULL;
}

static const struct stk_example examples[] = {
    {"stoker inspect train/", "what is in this folder?"},
    {"stoker inspect train.tfrecord --sample 17", "what does one sample hold?"},
    {"stoker inspect train.tar --sample 17 -o out/", "and write its fields to files"},
    {"stoker inspect train.rec --sample 0 -o - | file -", "or pipe its data to a program"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_inspect = {
    .name = "inspect",
    .summary = "describe a dataset: format, samples, sizes, fields, problems",
    .args = "PATH",
    .description =
        "Describes the dataset in the file or folder PATH: its format, the number of samples and "
        "bytes, the sizes of samples, the fields of the first sample, and any problems. Inspecting "
        "builds an index and keeps it, so that the next command starts at once.\n"
        "\n"
        "With --sample it shows one sample, and with --output it writes that sample to files.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct settings),
    .run = run_inspect,
    .hint = hint,
};
