/* inspect.c - `stoker inspect`: describes a dataset, or one of its samples. */
#include "cmd/inspect.h"

#include <stdlib.h>

#include "base/text.h"
#include "base/units.h"
#include "report/problems.h"
#include "report/grid.h"
#include "dataset/inspect.h"
#include "dataset/open_options.h"

struct settings {
    struct stk_common common;
    struct stk_open_options open;
    const char *output;
    uint64_t sample;
    bool force;
};

static const struct stk_opt options[] = {
    {.name = "sample",
     .letter = 's',
     .type = STK_OPT_UNSIGNED,
     .arg = "N",
     .offset = offsetof(struct settings, sample),
     .help = "Show the fields of sample N, counted from 0"},
    {.name = "output",
     .letter = 'o',
     .type = STK_OPT_STRING,
     .arg = "PATH",
     .offset = offsetof(struct settings, output),
     .help = "Write the sample to the file PATH or, if it has several fields, to one file per "
             "field in the folder PATH; with -, write its data to standard output"},
    {.name = "force",
     .letter = 'f',
     .type = STK_OPT_FLAG,
     .offset = offsetof(struct settings, force),
     .help = "Let --output replace existing files"},
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

/* 2^b bytes, exactly: "512 B", "4 KiB". */
static void power_text(unsigned b, char *buf, size_t size)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    snprintf(buf, size, "%u %s", 1u << b % 10, unit[b / 10]);
}

static void histogram_row(struct stk_grid *t, unsigned b, uint64_t count, uint64_t most,
                          uint64_t total, unsigned width)
{
    char from[16], to[16], number[32], share[16];
    struct stk_buf bar = STK_BUF_INIT;
    power_text(b, from, sizeof from);
    power_text(b + 1, to, sizeof to);
    snprintf(share, sizeof share, "%.1f %%", 100.0 * (double)count / (double)total);
    stk_grid_bar((double)count / (double)most, width, stk_term_utf8(), &bar);
    stk_grid_row(t, b ? from : "0 B", "to", to, stk_format_count(count, number, sizeof number),
                 share, stk_buf_cstr(&bar));
    stk_buf_release(&bar);
}

static void put_histogram(const struct stk_inspect *in, unsigned columns, struct stk_buf *out)
{
    uint64_t most = 1;
    for (unsigned b = 0; b < STK_INSPECT_BUCKETS; b++)
        most = in->histogram[b] > most ? in->histogram[b] : most;
    struct stk_grid t;
    stk_grid_init(&t, "rlrrrl");
    stk_grid_row(&t, "size", "", "", "samples", "share", "");
    for (unsigned b = 0, shown = 0; b < STK_INSPECT_BUCKETS; b++) {
        unsigned gap = 0;
        while (b + gap < STK_INSPECT_BUCKETS && !in->histogram[b + gap])
            gap++;
        /* Empty rows between full ones matter, but three say no more than one. */
        bool outside = !shown || b + gap == STK_INSPECT_BUCKETS;
        if (gap > 2 && !outside)
            stk_grid_row(&t, "...", "", "", "", "", "");
        if (gap > 2 || (gap && outside)) {
            b += gap - 1;
            continue;
        }
        histogram_row(&t, b, in->histogram[b], most, in->samples, columns > 90 ? 40 : 30);
        shown++;
    }
    stk_grid_render(&t, 2, out);
    stk_grid_release(&t);
}

#define CLASS_COLUMNS 60 /* for all class names together */

/* "1,000: apple, bear, ..." */
static void put_classes(const struct stk_inspect *in, struct stk_grid *t)
{
    char count[32];
    struct stk_buf b = STK_BUF_INIT;
    size_t columns = 0, i = 0;
    stk_buf_printf(&b, "%s:", stk_format_count(in->classes, count, sizeof count));
    for (; i < in->nclass_names && columns < CLASS_COLUMNS; i++) {
        stk_buf_puts(&b, i ? ", " : " ");
        columns += 2 + stk_text_escape(&b, in->class_name[i], strlen(in->class_name[i]), 24);
    }
    if (i < in->classes)
        stk_buf_puts(&b, ", ...");
    stk_grid_row(t, "classes", stk_buf_cstr(&b));
    stk_buf_release(&b);
}

static void put_facts(const struct stk_inspect *in, const struct stk_notes *notes,
                      struct stk_buf *out)
{
    char a[32], b[32], c[32], line[160];
    struct stk_grid t;
    struct stk_buf path = STK_BUF_INIT;
    stk_grid_init(&t, "ll");
    stk_grid_row(&t, "samples", stk_format_count(in->samples, a, sizeof a));
    snprintf(line, sizeof line, "%s, %s", stk_format_count(in->files, a, sizeof a),
             stk_format_size(in->bytes_stored, b, sizeof b));
    stk_grid_row(&t, "files", line);
    if (in->files_ignored)
        stk_grid_row(&t, "ignored files", stk_format_count(in->files_ignored, a, sizeof a));
    stk_notes_rows(notes, &t);
    if (in->samples) {
        snprintf(line, sizeof line, "%s smallest, %s median, %s largest",
                 stk_format_size(in->size_min, a, sizeof a),
                 stk_format_size(in->size_median_estimate, b, sizeof b),
                 stk_format_size(in->size_max, c, sizeof c));
        stk_grid_row(&t, "sample size", line);
    }
    if (in->classes)
        put_classes(in, &t);
    if (in->has_manifest)
        stk_grid_row(&t, "manifest", "yes: packed by stoker");
    snprintf(line, sizeof line, "%s, %s%s", in->index_built_now ? "built now" : "found",
             stk_format_size(in->index_bytes, a, sizeof a), in->index_path[0] ? "" : ", not kept");
    stk_grid_row(&t, "index", line);
    if (in->index_path[0]) {
        stk_text_escape(&path, in->index_path, strlen(in->index_path), SIZE_MAX);
        stk_grid_row(&t, "", stk_buf_cstr(&path));
    }
    if (in->index_why) {
        snprintf(line, sizeof line, "existing index not used: %.120s", in->index_why);
        stk_grid_row(&t, "", line);
    }
    stk_grid_render(&t, 2, out);
    stk_grid_release(&t);
    stk_buf_release(&path);
}

/* A path as shell input, safe to show and quoted only if needed. Control characters and bytes that
 * are not UTF-8 need the $'...' of bash and zsh. */
static void put_shell_word(const char *s, struct stk_buf *out)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "_-./,+@:=%";
    if (*s && *s != '-' && s[strspn(s, safe)] == '\0') {
        stk_buf_puts(out, s);
        return;
    }
    struct stk_buf quoted = STK_BUF_INIT;
    bool dollar = false;
    for (size_t n = strlen(s), i = 0; i < n;) {
        uint32_t cp = 0;
        size_t len = stk_utf8_next(s + i, n - i, &cp);
        if (!len || stk_cp_is_control(cp)) {
            dollar = true;
            len = len ? len : 1;
            for (size_t k = 0; k < len; k++)
                stk_buf_printf(&quoted, "\\x%02x", (unsigned char)s[i + k]);
        } else if (cp == '\'' || cp == '\\') {
            dollar = true;
            stk_buf_printf(&quoted, "\\%c", (int)cp);
        } else {
            stk_buf_put(&quoted, s + i, len);
        }
        i += len;
    }
    stk_buf_printf(out, "%s'%s'", dollar ? "$" : "", stk_buf_cstr(&quoted));
    stk_buf_release(&quoted);
}

#define ADVISE_FROM_SAMPLES 1000

/* The pack command that would help; empty if there is nothing to gain. */
static void advise(const struct stk_inspect *in, const char *path, struct stk_buf *out)
{
    if (in->samples < ADVISE_FROM_SAMPLES || in->small_reads_fraction < 0.5)
        return;
    struct stk_buf target = STK_BUF_INIT;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t start = n;
    while (start && path[start - 1] != '/')
        start--;
    /* "." and ".." have no name to derive the new one from. */
    char *real = strspn(path + start, ".") >= n - start ? realpath(path, NULL) : NULL;
    stk_buf_put(&target, real ? real : path, real ? strlen(real) : n);
    stk_buf_puts(&target, "-packed");
    stk_buf_puts(out, "stoker pack ");
    put_shell_word(path, out);
    stk_buf_putc(out, ' ');
    put_shell_word(stk_buf_cstr(&target), out);
    stk_buf_puts(out, " --format " STK_DEFAULT_FORMAT " --shuffle 1");
    stk_buf_release(&target);
    free(real);
}

static void show_dataset(const struct stk_run *run, const struct stk_inspect *in,
                         const struct stk_notes *notes, const struct stk_sample *first,
                         const struct stk_problems *problems, const char *advice)
{
    struct stk_buf b = STK_BUF_INIT;
    char share[16];
    const struct stk_format *f = stk_format_find(in->format);
    stk_text_escape(&b, run->opts.arg[0], strlen(run->opts.arg[0]), SIZE_MAX);
    stk_buf_printf(&b, ": %s%s%s\n\n", f ? f->title : in->format,
                   in->payload[0] ? ", payload " : "", in->payload);
    put_facts(in, notes, &b);
    if (in->samples) {
        stk_buf_putc(&b, '\n');
        put_histogram(in, stk_columns(run), &b);
    }
    if (first) {
        stk_buf_puts(&b, "\n  The first sample:\n");
        stk_sample_table(first, stk_columns(run), &b);
    }
    if (*advice)
        stk_buf_printf(
            &b,
            "\n%s of the samples are separate small files; read few large ones instead:\n  %s\n",
            stk_percent_text(in->small_reads_fraction, share, sizeof share), advice);
    if (problems->count) {
        stk_buf_putc(&b, '\n');
        stk_problems_text(problems, 20, &b);
    }
    stk_say(run, "%s", stk_buf_cstr(&b));
    stk_buf_release(&b);
}

static void json_u64(struct stk_jw *w, const char *key, uint64_t v)
{
    stk_jw_key(w, key);
    stk_jw_u64(w, v);
}

static void json_fields(struct stk_jw *w, const struct stk_inspect *in)
{
    stk_jw_key(w, "fields");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < in->nfields && i < STK_INSPECT_FIELDS; i++) {
        const struct stk_inspect_field *f = &in->field[i];
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "name", f->name);
        stk_jw_put_str(w, "kind", stk_kind_name(f->kind));
        if (f->kind == STK_ARRAY) {
            stk_jw_put_str(w, "dtype", stk_dtype_name(f->dtype));
            stk_jw_key(w, "shape");
            stk_jw_open(w, '[');
            for (unsigned d = 0; d < f->ndim && d < STK_MAX_NDIM; d++)
                stk_jw_u64(w, f->dim[d]);
            stk_jw_close(w, ']');
        }
        json_u64(w, "size_bytes", f->size);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
    json_u64(w, "fields_total", in->nfields_total);
}

static void json_classes(struct stk_jw *w, const struct stk_inspect *in)
{
    json_u64(w, "classes", in->classes);
    stk_jw_put_rows(w, "first_classes", in->class_name, sizeof(in->class_name[0]),
                    in->nclass_names);
}

static void json_histogram(struct stk_jw *w, const struct stk_inspect *in)
{
    stk_jw_key(w, "size_histogram");
    stk_jw_open(w, '[');
    for (unsigned b = 0; b < STK_INSPECT_BUCKETS; b++) {
        if (!in->histogram[b])
            continue;
        stk_jw_open(w, '{');
        json_u64(w, "from_bytes", b ? (uint64_t)1 << b : 0);
        json_u64(w, "below_bytes", (uint64_t)2 << b);
        json_u64(w, "samples", in->histogram[b]);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static void json_dataset(struct stk_jw *w, const struct stk_inspect *in,
                         const struct stk_problems *problems, const char *advice)
{
    stk_jw_put_str(w, "format", in->format);
    stk_jw_put_str(w, "payload", in->payload[0] ? in->payload : NULL);
    json_u64(w, "files", in->files);
    json_u64(w, "files_ignored", in->files_ignored);
    json_u64(w, "samples", in->samples);
    json_u64(w, "extents", in->extents);
    json_classes(w, in);
    json_u64(w, "stored_bytes", in->bytes_stored);
    json_u64(w, "samples_bytes", in->bytes_samples);
    json_u64(w, "sample_min_bytes", in->size_min);
    json_u64(w, "sample_median_estimate_bytes", in->size_median_estimate);
    json_u64(w, "sample_max_bytes", in->size_max);
    json_histogram(w, in);
    json_fields(w, in);
    stk_jw_put_bool(w, "has_manifest", in->has_manifest);
    stk_jw_put_bool(w, "index_built_now", in->index_built_now);
    stk_jw_put_str(w, "index_path", in->index_path);
    stk_jw_put_str(w, "index_not_used", in->index_why);
    json_u64(w, "index_bytes", in->index_bytes);
    stk_jw_put_f64(w, "small_reads_fraction", in->small_reads_fraction);
    stk_jw_put_str(w, "advice", *advice ? advice : NULL);
    stk_problems_json(problems, "problems", w);
}

/* The problems in the index, and the first sample if it cannot be read. */
static void gather_problems(const struct stk_dataset *ds, const struct stk_err *first,
                            struct stk_problems *all)
{
    const struct stk_problems *known = stk_dataset_problems(ds);
    if (first->code)
        stk_problems_add_code(all, first->code, first->path, first->offset, first->what);
    stk_problems_join(all, known);
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
        struct stk_buf advice = STK_BUF_INIT;
        gather_problems(ds, &why, &problems);
        advise(in, run->opts.arg[0], &advice);
        show_dataset(run, in, &ds->notes, in->samples && !why.code ? first : NULL, &problems,
                     stk_buf_cstr(&advice));
        json_dataset(&run->json, in, &problems, stk_buf_cstr(&advice));
        stk_notes_json(&ds->notes, &run->json);
        rc = stk_exit_for(problems.count, problems.unsupported);
        stk_buf_release(&advice);
        stk_problems_release(&problems);
    }
    stk_sample_free(first);
    free(in);
    return rc;
}

/* ---- one sample --------------------------------------------------------------------------- */

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
        rc = stk_show_sample(run, sample, s->sample);
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
};
