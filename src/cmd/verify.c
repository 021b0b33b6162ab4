/* verify.c - `stoker verify`: reads every byte of a dataset and reports exactly what is wrong. */
#include "dataset/verify.h"

#include "cmd/cmd.h"
#include "dataset/open_options.h"
#include "report/data.h"

struct settings {
    struct stk_common common;
    struct stk_open_options open;
    struct stk_verify_options verify;
    uint64_t show;
};

#define OPTION(...) STK_OPT_OF(struct settings, 0, __VA_ARGS__)

static const struct stk_opt options[] = {
    STK_OPEN_READ_OPTIONS(offsetof(struct settings, open)),
    OPTION("show", show, UNSIGNED, .arg = "N", .def = "20", .max = STK_PROBLEMS_KEPT,
           .incidental = true, .help = "Print at most N problems"),
    STK_OPEN_JOBS_OPTION(offsetof(struct settings, open),
                         "Threads that read and check; 0: one a core"),
    OPTION("memory", verify.memory_bytes, SIZE, .arg = "SIZE", .incidental = true,
           .help = "Memory in which all threads together read (default: 8M per thread)"),
    STK_COMMON_OPTIONS,
};

static int on_progress(void *user, uint64_t bytes, uint64_t bytes_total, uint64_t samples)
{
    return stk_progress_update(user, "verify", bytes, bytes_total, samples, 0);
}

static int show(struct stk_run *run, const struct stk_verify_result *r)
{
    const struct settings *s = run->settings;
    const struct stk_say_how how = {.problems = (size_t)s->show};
    int rc = stk_say_result(run, &stk_verify_kind, r, &how);
    rc = rc ? rc : stk_exit_for(r->problems.count, r->problems.unsupported);
    return rc == STK_EXIT_DONE && stk_notes_missing(&r->notes) ? STK_EXIT_PARTLY : rc;
}

static int run_verify(struct stk_run *run)
{
    const struct settings *s = run->settings;
    struct stk_open_options o = s->open;
    o.progress = on_progress;
    o.user = &run->progress;
    struct stk_verify_result r = {0};
    int rc = stk_verify_all(run->opts.arg[0], &o, &s->verify, &r, &run->err);
    stk_progress_clear(&run->progress);
    if (!rc)
        rc = show(run, &r);
    stk_verify_release(&r);
    return rc;
}

static const struct stk_example examples[] = {
    {"stoker verify imagenet-packed/", "is it whole?"},
    {"stoker verify train.tfrecord --json faults.json", "keep the list of faults"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_verify = {
    .name = "verify",
    .summary = "check every checksum and structure of a dataset",
    .args = "PATH",
    .description =
        "Reads every byte of the dataset PATH and checks everything that can be checked: "
        "checksums in the files, lengths and structure, and, for a dataset packed by stoker, the "
        "manifest. Prints each fault with its file and byte offset. A dataset without checksums is "
        "called readable instead of whole. The exit status is 0 when the "
        "dataset is whole or readable, 1 when it is damaged, and 3 when no damage was found but parts were "
        "not read: files and parts of files that stoker cannot read are named, with the reason.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct settings),
    .run = run_verify,
};
