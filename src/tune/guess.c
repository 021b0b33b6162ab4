/*
 * guess.c - a workload for a dataset of which nothing else is known: every sample once per epoch,
 * as programs usually read that format, with nothing to compute.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/text.h"
#include "base/file.h"
#include "dataset/dataset.h"
#include "stoker.h"
#include "tune/priv.h"

#define REQUEST (256u << 10) /* the buffer of TensorFlow, and more than most others have */
#define BATCH   32u
#define THREADS 2u
#define EPOCHS  3u /* what is made once pays in the others */

struct shape {
    char *root; /* absolute */
    const char *file; /* in it: all of the data; ".": a folder is */
    bool is_dir, singles; /* singles: each sample is a file */
    uint64_t samples, files, bytes;
    char suffix[32]; /* of all its files; "": they differ */
    double mean_bytes; /* of a file of the group */
    struct stk_unpack unpack;
    int (*stop)(void);
};

/* Beside the samples there may be files that are none, such as a list of labels. */
static void find_suffix(const struct stk_dataset *ds, struct shape *s)
{
    for (uint64_t i = 0; i < ds->files.count; i++) {
        struct stk_files_entry e;
        if (ds->files.entry(ds->files.list, i, &e, NULL) != 0)
            return;
        const char *dot = memrchr(e.name, '.', e.name_len);
        size_t n = dot ? (size_t)(e.name + e.name_len - dot) : 0;
        bool plain = n && n < sizeof s->suffix && !memchr(dot, '/', n);
        if (!plain || (i && (strlen(s->suffix) != n || memcmp(s->suffix, dot, n) != 0))) {
            s->suffix[0] = '\0';
            return;
        }
        snprintf(s->suffix, sizeof s->suffix, "%.*s", (int)n, dot);
    }
}

static bool is_utf8(const char *p)
{
    size_t left = strlen(p), n = 1;
    uint32_t cp;
    for (; left && n; p += n, left -= n)
        n = stk_utf8_next(p, left, &cp);
    return !left;
}

static int on_tick(void *user)
{
    const struct shape *s = user;
    return s->stop ? s->stop() : 0;
}

static int on_progress(void *user, uint64_t done, uint64_t total, uint64_t samples)
{
    (void)done, (void)total, (void)samples;
    return on_tick(user);
}

static int look(const char *path, struct shape *s, struct stk_err *err)
{
    struct stk_open_options o = {.no_index_write = true, .progress = on_progress, .user = s};
    struct stk_dataset *ds = NULL;
    struct stat st;
    s->root = realpath(path, NULL);
    if (!s->root || stat(s->root, &st) != 0)
        return stk_err_sys(err, path, "open");
    if (!is_utf8(s->root))
        return stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                           "its path is not UTF-8, and the text of a workload is: rename the "
                           "folder");
    int rc = stk_dataset_open(s->root, &o, &ds, err);
    if (rc)
        return rc;
    s->is_dir = S_ISDIR(st.st_mode);
    s->file = s->is_dir ? "." : stk_base_name(s->root);
    s->samples = stk_dataset_len(ds);
    s->files = ds->files.count;
    s->bytes = ds->index.h->bytes_stored ? ds->index.h->bytes_stored : ds->index.h->bytes_samples;
    s->singles = s->files >= s->samples;
    find_suffix(ds, s);
    stk_dataset_close(ds);
    return s->samples && s->files ? 0
                                  : stk_err_set(err, STK_E_USAGE, path, -1, "no sample in it");
}

/* "my-data", of letters, digits, - and _. */
static void safe_name(const char *path, char *out, size_t size)
{
    const char *base = stk_base_name(path);
    size_t n = 0;
    for (; *base && n + 1 < size && n < 60; base++)
        out[n++] = (*base >= '0' && *base <= '9') || (*base >= 'a' && *base <= 'z') ||
                           (*base >= 'A' && *base <= 'Z') || *base == '-'
                       ? *base
                       : '_';
    out[n] = '\0';
    if (!n)
        snprintf(out, size, "dataset");
}

#define LOOK_AT 64 /* files */

/* Mean size of a file of the group (of all that are there, unless a suffix tells samples apart),
 * and what unpacking costs, which every program does that reads them. */
static void look_at_files(struct shape *s)
{
    struct stk_tune_files f;
    s->mean_bytes = (double)s->bytes / (double)s->files;
    if (stk_tune_files_list(s->root, NULL, &f, NULL) == 0) {
        if (f.n && (!*s->suffix || !s->is_dir))
            s->mean_bytes = (double)f.bytes / (double)f.n;
        stk_tune_files_thin(&f, LOOK_AT, 1);
        stk_tune_unpack(s->root, &f, on_tick, s, &s->unpack);
    }
    stk_tune_files_release(&f);
    s->mean_bytes = s->mean_bytes < 1 ? 1 : s->mean_bytes;
}

static void fill_group(const struct shape *s, struct stk_workload *w)
{
    struct stk_bench_group *g = &w->group[0];
    uint64_t visits = s->singles ? s->samples : s->files;
    g->path = stk_workload_keep(w, "%s", s->file);
    if (s->is_dir && *s->suffix && strcspn(s->suffix, "*?[]\\\"") == strlen(s->suffix))
        g->match = stk_workload_keep(w, "*%s", s->suffix);
    g->count = s->files;
    g->size_text = stk_workload_keep(w, "%.0f", s->mean_bytes);
    g->per = s->samples;
    g->opens = visits;
    g->requests = s->bytes / REQUEST + visits;
    g->bytes = s->bytes;
}

static int fill(const struct shape *s, struct stk_workload *w, struct stk_err *err)
{
    size_t n = s->is_dir ? strlen(s->root) : (size_t)(s->file - s->root); /* of the folder */
    double samples = (double)s->samples;
    char name[80];
    int rc = stk_workload_default(w, err);
    if (rc)
        return rc;
    safe_name(s->root, name, sizeof name);
    w->name = stk_workload_keep(w, "%s", name);
    w->dataset.format = STK_BENCH_REPLAY;
    w->dataset.path = stk_workload_keep(w, "%.*s", (int)(n > 1 && !s->is_dir ? n - 1 : n), s->root);
    w->dataset.files = s->files;
    w->dataset.samples_per_file = s->singles || s->samples < s->files ? 1 : s->samples / s->files;
    w->dataset.record_text =
        stk_workload_keep(w, "%llu", (unsigned long long)(s->bytes / s->samples + 1));
    fill_group(s, w);
    w->access.sharing = STK_SHARING_SHARED;
    w->access.shuffle = s->singles ? STK_MIX_SAMPLES : STK_MIX_FILES;
    w->reader.threads = THREADS;
    w->reader.think_text =
        stk_workload_keep(w, "%.9fs", s->unpack.program_s * (double)s->bytes / samples);
    w->training.batch = s->samples < BATCH ? s->samples : BATCH;
    w->training.epochs = EPOCHS;
    return stk_workload_settle(w, err);
}

int stk_tune_guess(const char *path, int (*stop)(void), struct stk_workload *w, struct stk_err *err)
{
    struct shape s = {.stop = stop};
    *w = (struct stk_workload){0};
    int rc = look(path, &s, err);
    if (!rc) {
        look_at_files(&s);
        rc = fill(&s, w, err);
    }
    free(s.root);
    return rc;
}
