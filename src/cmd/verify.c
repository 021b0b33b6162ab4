/* verify.c - `stoker verify`: reads every byte of a dataset and reports exactly what is wrong. */
#include "dataset/verify.h"

#include "base/text.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "report/problems.h"
#include "dataset/open_options.h"
#include "report/grid.h"

struct settings {
    struct stk_common common;
    struct stk_open_options open;
    struct stk_verify_options verify;
    uint64_t show;
};

static const struct stk_opt options[] = {
    STK_OPEN_READ_OPTIONS(offsetof(struct settings, open)),
    {.name = "show",
     .type = STK_OPT_UNSIGNED,
     .arg = "N",
     .def = "20",
     .max = STK_PROBLEMS_KEPT,
     .incidental = true,
     .offset = offsetof(struct settings, show),
     .help = "Print at most N problems"},
    STK_OPEN_JOBS_OPTION(offsetof(struct settings, open),
                         "Threads that read and check; 0: one a core"),
    {.name = "memory",
     .type = STK_OPT_SIZE,
     .arg = "SIZE",
     .incidental = true,
     .offset = offsetof(struct settings, verify.memory_bytes),
     .help = "Memory in which all threads together read (default: 8M per thread)"},
    STK_COMMON_OPTIONS,
};

static int on_progress(void *user, uint64_t bytes, uint64_t bytes_total, uint64_t samples)
{
    return stk_progress_update(user, "verify", bytes, bytes_total, samples, 0);
}

/* "whole", "damaged, 3 problems", "not all of it was read: 2 links left out" */
static void put_verdict(const struct stk_verify_result *r, struct stk_buf *out)
{
    char a[32];
    uint64_t damage = r->problems.count - r->problems.unsupported;
    const char *comma = ": ";
    if (!r->problems.count && !stk_notes_missing(&r->notes)) {
        stk_buf_puts(out, ": whole");
        return;
    }
    if (damage)
        stk_buf_printf(out, ": damaged, %s problem%s", stk_format_count(damage, a, sizeof a),
                       damage == 1 ? "" : "s");
    if (!r->problems.unsupported && !stk_notes_missing(&r->notes))
        return;
    stk_buf_printf(out, "%s not all of it was read", damage ? ";" : ":");
    if (r->problems.unsupported) {
        stk_buf_printf(out, ": %s unsupported",
                       stk_format_count(r->problems.unsupported, a, sizeof a));
        comma = ", ";
    }
    if (stk_notes_missing(&r->notes)) {
        stk_buf_puts(out, comma);
        stk_notes_summary(&r->notes, out);
        stk_buf_puts(out, " left out");
    }
}

/* Prints the problems, a line on what was read, and the verdict. */
static void show(const struct stk_run *run, const struct stk_verify_result *r)
{
    const struct settings *s = run->settings;
    char a[32], b[32], c[32], d[32];
    struct stk_buf out = STK_BUF_INIT;
    stk_problems_text(&r->problems, (size_t)s->show, &out);
    struct stk_grid t;
    stk_grid_init(&t, "ll");
    stk_notes_rows(&r->notes, &t);
    stk_grid_render(&t, 0, &out);
    stk_grid_release(&t);
    stk_buf_printf(&out, "checked %s sample%s in %s file%s, %s in %s",
                   stk_format_count(r->samples, a, sizeof a), r->samples == 1 ? "" : "s",
                   stk_format_count(r->files, b, sizeof b), r->files == 1 ? "" : "s",
                   stk_format_size(r->bytes, c, sizeof c),
                   stk_format_duration(r->seconds, d, sizeof d));
    if (r->seconds > 0)
        stk_buf_printf(&out, " (%s/s)",
                       stk_format_size((uint64_t)((double)r->bytes / r->seconds), d, sizeof d));
    stk_buf_putc(&out, '\n');
    stk_text_escape(&out, run->opts.arg[0], strlen(run->opts.arg[0]), SIZE_MAX);
    put_verdict(r, &out);
    if (r->bytes) {
        uint64_t checked = r->checksummed_bytes < r->bytes ? r->checksummed_bytes : r->bytes;
        stk_buf_printf(&out, "; %s of the bytes are under checksums",
                       stk_percent_text((double)checked / (double)r->bytes, a, sizeof a));
    }
    stk_say(run, "%s\n", stk_buf_cstr(&out));
    stk_buf_release(&out);
}

static void write_json(struct stk_jw *w, const struct stk_verify_result *r)
{
    stk_jw_put_str(w, "format", r->format);
    stk_jw_put_bool(w, "whole", r->problems.count == 0 && stk_notes_missing(&r->notes) == 0);
    stk_jw_put_u64(w, "unsupported", r->problems.unsupported);
    stk_jw_put_u64(w, "files", r->files);
    stk_jw_put_u64(w, "samples", r->samples);
    stk_jw_put_u64(w, "bytes", r->bytes);
    stk_jw_put_u64(w, "checksummed_bytes", r->checksummed_bytes);
    stk_jw_put_bool(w, "has_manifest", r->has_manifest);
    stk_jw_put_f64(w, "verify_seconds", r->seconds);
    stk_problems_json(&r->problems, "problems", w);
    stk_notes_json(&r->notes, w);
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
    if (!rc) {
        show(run, &r);
        write_json(&run->json, &r);
        rc = stk_exit_for(r.problems.count, r.problems.unsupported);
        if (rc == STK_EXIT_DONE && stk_notes_missing(&r.notes))
            rc = STK_EXIT_PARTLY;
    }
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
        "manifest. Prints each fault with its file and byte offset. The exit status is 0 when the "
        "dataset is whole, 1 when it is damaged, and 3 when no damage was found but parts were "
        "not read: files and parts of files that stoker cannot read are named, with the reason.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct settings),
    .run = run_verify,
};
