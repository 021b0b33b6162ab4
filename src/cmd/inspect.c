/* inspect.c - `stoker inspect`: describes a dataset, or one of its samples. */
#include "cmd/cmd.h"

#include <stdlib.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/inspect.h"
#include "dataset/open_options.h"
#include "result/grid.h"
#include "report/data.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/own.h"
#include "base/text.h"
#include "base/units.h"
#include "format/numpy/npyhead.h"
#include "format/sample.h"
#include "report/sniff.h"

/* ---- a sample as files ----------------------------------------------------------------------- */

/* One sample as files. Its key and the names of its fields come from the dataset: they are turned
 * into plain ASCII without ".." before they become paths. */

struct writer {
    struct stk_run *run;
    const char *root;
    bool force;
    struct stk_buf written; /* paths written so far, each NUL-terminated */
    struct stk_buf path, bytes;
    size_t below; /* where names from the data begin in path; 0: the user named the file */
};

#define COMPONENT_MAX 200

/* One component as plain ASCII: anything else becomes %XX (% too, so names stay distinct); a long
 * name is cut and ends in its hash. */
static void put_component(struct stk_buf *out, const char *s, size_t n)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "_-.,+@=";
    size_t start = out->len;
    for (size_t i = 0; i < n; i++) {
        bool hidden = i == 0 && (s[i] == '.' || s[i] == '-') && out->len == start;
        if (s[i] && !hidden && strchr(safe, s[i]))
            stk_buf_putc(out, s[i]);
        else
            stk_buf_printf(out, "%%%02X", (unsigned char)s[i]);
    }
    if (!out->fail && out->len - start > COMPONENT_MAX) {
        out->len = start + COMPONENT_MAX - 17;
        stk_buf_printf(out, "-%016llx", (unsigned long long)stk_hash64(s, n));
    }
}

/* The key as a relative path, or the sample's number if the key cannot be one. */
static void put_key(struct stk_buf *out, const char *key, size_t n, uint64_t number)
{
    if (!n || !stk_key_is_safe_path(key, n)) {
        stk_buf_printf(out, "sample-%llu", (unsigned long long)number);
        return;
    }
    for (size_t i = 0; i < n;) {
        const char *slash = memchr(key + i, '/', n - i);
        size_t len = slash ? (size_t)(slash - key) - i : n - i;
        put_component(out, key + i, len);
        if (slash)
            stk_buf_putc(out, '/');
        i += len + (slash != NULL);
    }
}

static bool is_label(const struct stk_field *f)
{
    return f->name_len == 5 && memcmp(f->name, "label", 5) == 0 && f->value.kind == STK_ARRAY &&
           f->value.ndim == 0 && !stk_dtype_is_float(f->value.dtype);
}

static bool is_data(const struct stk_field *f)
{
    return f->name_len == 4 && memcmp(f->name, "data", 4) == 0;
}

/* The path of a field's file, as the folder format names it (docs/formats.md). */
static void field_path(struct writer *wr, const struct stk_sample *s, uint64_t number,
                       const struct stk_field *f)
{
    size_t len = 0;
    const char *key = stk_sample_key(s, &len);
    const struct stk_value *v = &f->value;
    struct stk_buf *out = &wr->path;
    char type[64];
    stk_buf_reset(out);
    size_t root_len = strlen(wr->root);
    while (root_len > 1 && wr->root[root_len - 1] == '/')
        root_len--;
    bool top = root_len && wr->root[root_len - 1] == '/';
    stk_buf_printf(out, "%.*s%s", (int)root_len, wr->root, top ? "" : "/");
    wr->below = out->len;
    if (is_data(f) && v->kind == STK_BYTES) {
        put_key(out, key, len, number);
        const char *ext = v->size ? stk_sniff(v->data, v->size, type, sizeof type) : NULL;
        bool has_ext = len && stk_key_is_safe_path(key, len) && stk_key_stem(key, len) < len;
        stk_buf_puts(out, has_ext ? "" : ext ? ext : ".data");
        return;
    }
    size_t stem = stk_key_is_safe_path(key, len) ? stk_key_stem(key, len) : len;
    put_key(out, key, stem, number);
    stk_buf_putc(out, '.');
    if (is_label(f)) {
        stk_buf_puts(out, "cls");
        return;
    }
    put_component(out, f->name, f->name_len);
    stk_buf_puts(out, v->kind == STK_TEXT    ? ".txt"
                      : v->kind == STK_JSON  ? ".json"
                      : v->kind == STK_ARRAY ? ".npy"
                                             : "");
}

/* The contents of a value's file. */
static void value_bytes(const struct stk_value *v, bool label, struct stk_buf *out)
{
    stk_buf_reset(out);
    if (label)
        stk_buf_printf(out, "%lld", (long long)stk_value_i64(v, 0));
    else if (v->kind == STK_ARRAY)
        stk_npy_write_head(out, v->dtype, v->ndim, v->dim);
    if (!label)
        stk_buf_put(out, v->data, v->size);
}

static bool written_before(const struct writer *wr, const char *path)
{
    const char *p = (const char *)wr->written.data;
    for (size_t i = 0; i < wr->written.len; i += strlen(p + i) + 1)
        if (strcmp(p + i, path) == 0)
            return true;
    return false;
}

/* The parent folder of wr->path, made if missing. The part that the user named may be a link; the
 * part below, which the key decides, may not. */
static int open_folder(struct writer *wr, int *dirfd)
{
    char *path = strdup(stk_buf_cstr(&wr->path));
    if (!path)
        return stk_err_nomem(&wr->run->err, wr->path.len);
    char *named = path + (wr->below ? wr->below : (size_t)(stk_base_name(path) - path));
    bool here = named == path, top = named == path + 1;
    if (!here)
        named[-1] = '\0';
    int rc = stk_mkdirs_below(here ? "." : top ? "/" : path, named, dirfd, &wr->run->err);
    free(path);
    return rc;
}

static int write_below(struct writer *wr, const char *path)
{
    struct stk_err *err = &wr->run->err;
    const char *name = stk_base_name(path);
    int dirfd, rc = open_folder(wr, &dirfd);
    if (rc < 0)
        return rc;
    if (!wr->force && stk_may_exist(dirfd, name))
        rc = stk_err_set(err, STK_E_EXISTS, path, -1, "exists already; --force replaces it");
    else if (wr->below)
        rc = stk_write_file_at(dirfd, name, wr->bytes.data, wr->bytes.len, STK_SHARED, path, err);
    else /* exactly the file the user named: maybe a pipe */
        rc = stk_write_file_atomic(path, wr->bytes.data, wr->bytes.len, err);
    close(dirfd);
    return rc;
}

/* Writes wr->bytes to wr->path. */
static int put_file(struct writer *wr)
{
    struct stk_err *err = &wr->run->err;
    /* Two fields whose files would have the same name (a text "a" and bytes "a.txt"). */
    while (written_before(wr, stk_buf_cstr(&wr->path)))
        stk_buf_puts(&wr->path, "-2");
    const char *path = stk_buf_cstr(&wr->path);
    if (wr->path.fail || wr->bytes.fail)
        return stk_err_nomem(err, wr->bytes.len);
    int rc = write_below(wr, path);
    if (rc)
        return rc;
    struct stk_buf shown = STK_BUF_INIT;
    char size[32];
    stk_text_escape(&shown, path, strlen(path), SIZE_MAX);
    stk_say(wr->run, "wrote %s, %s\n", stk_buf_cstr(&shown),
            stk_format_size(wr->bytes.len, size, sizeof size));
    stk_buf_release(&shown);
    stk_jw_str(&wr->run->json, path);
    stk_buf_put(&wr->written, path, strlen(path) + 1);
    return stk_buf_check(&wr->written, err);
}

/* Writes a value to a file; each item of a list to its own numbered file. */
static int put_value(struct writer *wr, const struct stk_value *v, bool label)
{
    if (v->kind != STK_LIST) {
        value_bytes(v, label, &wr->bytes);
        return put_file(wr);
    }
    char *base = strdup(stk_buf_cstr(&wr->path));
    int rc = base ? 0 : stk_err_nomem(&wr->run->err, wr->path.len);
    for (size_t i = 0; i < v->nitems && !rc; i++) {
        stk_buf_reset(&wr->path);
        stk_buf_printf(&wr->path, "%s.%zu%s", base, i, v->item[i].kind == STK_ARRAY ? ".npy" : "");
        rc = put_value(wr, &v->item[i], false);
    }
    free(base);
    return rc;
}

/* The only field besides the label, if it fits in one file; else NULL. */
static const struct stk_field *only_field(const struct stk_sample *s)
{
    const struct stk_field *only = NULL;
    for (size_t i = 0; i < stk_sample_nfields(s); i++) {
        const struct stk_field *f = stk_sample_field(s, i);
        if (is_label(f) && stk_sample_nfields(s) > 1)
            continue;
        if (only)
            return NULL;
        only = f;
    }
    return only && only->value.kind != STK_LIST ? only : NULL;
}

/* True if each field becomes a file in a folder: there are several, or the user named a folder. */
static bool wants_folder(const struct writer *wr, const struct stk_field *only)
{
    struct stat st;
    size_t len = strlen(wr->root);
    return !only || (len && wr->root[len - 1] == '/') ||
           (stat(wr->root, &st) == 0 && S_ISDIR(st.st_mode));
}

static int write_files(struct writer *wr, const struct stk_sample *s, uint64_t number)
{
    size_t n = stk_sample_nfields(s);
    const struct stk_field *only = only_field(s);
    bool folder = wants_folder(wr, only);
    char *real = NULL;
    int rc = folder ? stk_own_resolve(wr->root, &real, &wr->run->err) : 0;
    wr->root = real ? real : wr->root;
    for (size_t i = 0; i < n && !rc; i++) {
        const struct stk_field *f = stk_sample_field(s, i);
        if (!folder && f != only)
            continue;
        if (folder) {
            field_path(wr, s, number, f);
        } else {
            stk_buf_reset(&wr->path);
            stk_buf_puts(&wr->path, wr->root);
        }
        rc = put_value(wr, &f->value, is_label(f));
    }
    free(real);
    return rc;
}

static int write_stdout(struct stk_run *run, const struct stk_sample *s)
{
    const struct stk_value *v = stk_sample_get(s, "data");
    if (!v && stk_sample_nfields(s) == 1)
        v = &stk_sample_field(s, 0)->value;
    if (!v)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "--output -: the sample has no field \"data\"; write it to a folder");
    if (v->kind == STK_LIST)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "--output -: the data is a list of values; write it to a folder");
    if (fwrite(v->data, 1, v->size, stdout) != v->size || fflush(stdout) != 0)
        return stk_err_sys(&run->err, NULL, "standard output");
    return 0;
}

/* Writes a sample: its data to stdout ("-"), a single field to the file `path`, several to files in
 * the folder `path`, named as in the folder format. */
static int write_sample(struct stk_run *run, const struct stk_sample *s, uint64_t number,
                        const char *path, bool force)
{
    if (strcmp(path, "-") == 0)
        return write_stdout(run, s);
    struct writer wr = {.run = run, .root = path, .force = force};
    stk_jw_key(&run->json, "written");
    stk_jw_open(&run->json, '[');
    int rc = write_files(&wr, s, number);
    stk_jw_close(&run->json, ']');
    stk_buf_release(&wr.written);
    stk_buf_release(&wr.path);
    stk_buf_release(&wr.bytes);
    return rc;
}

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
        rc = write_sample(run, sample, s->sample, s->output, s->force);
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
